//! Finite differences with an estimate of their own error.
//!
//! **Question.** What is the derivative of a function that can only be run, and how far can the
//! answer be trusted?
//!
//! **Answer.** For a function of one real `t` (a gradient is checked coordinate by coordinate, or
//! along a direction) [`derivative`] computes central differences `D(h) = (f(t+h) - f(t-h)) / 2h`
//! for steps `h, h/2, h/4, …` down to where rounding leaves no digits, and extrapolates up to seven
//! neighbouring ones to `h = 0` (Richardson): the error of D is a series in h², so with
//! `T[i][0] = D(h/2ⁱ)`
//!
//! ```text
//! T[i][k] = T[i][k-1] + (T[i][k-1] - T[i-1][k-1]) / (4ᵏ - 1)
//! ```
//!
//! The answer is the entry that differs least from its neighbours (Ridders), and that difference,
//! together with the rounding noise of the samples, is the error.
//!
//! **Steps that are too large.** Agreement of neighbours can be luck: steps may span many periods
//! of a sine, or jumps that add up to a slope. But a smaller step is no farther from a derivative
//! than a larger one is, apart from noise. So an entry stands only if no quotient of a smaller step
//! contradicts it. Some quotients with steps near the spacing of floats only contradict: a function
//! whose values come in tiny steps has no other derivative.
//!
//! **Noise.** The noise of a value is what is known of its arithmetic ([`Options::precision`],
//! [`Options::noise`]) or what the value does at points so close together that only rounding tells
//! them apart, whichever is more: differences of fourth order there are `√70` times the noise.
//!
//! **Kinks.** One-sided derivatives are extrapolated from `f(t)` and samples on one side only (an
//! error series in h, so factors 2ᵏ - 1). If both are trustworthy and differ by far more than their
//! errors, the point is a kink, and a derivative there is a convention. If nothing converges, the
//! verdict is that there is none, and why ([`Verdict`]).
//!
//! **Cost.** For each derivative at most 76 evaluations of the function (its value, seven for the
//! noise, and two for each of 18 or 30 halvings and of four probes), nearly twice as many where the
//! argument is small and the first attempt fails.
//!
//! **Source.** L. F. Richardson's extrapolation by C. J. F. Ridders' scheme; noise by R. W.
//! Hamming, and by J. J. Moré and S. M. Wild.

use crate::OracleError;

/// What finite differences say about one derivative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// There is a derivative.
    Smooth {
        /// Its value.
        value: f64,
        /// About how wrong the value may be.
        error: f64,
    },
    /// The one-sided derivatives differ.
    Kink {
        /// From below.
        left: f64,
        /// From above.
        right: f64,
    },
    /// Not to be told.
    Unreliable(FdFailure),
}

/// Why finite differences say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdFailure {
    /// The value at the point is no finite number.
    NotFinite,
    /// The function cannot be evaluated nearby, or is not finite there.
    Undefined,
    /// Rounding of the values is more than what steps change.
    Noise,
    /// Floats at the point are so far apart that no step is small.
    Coarse,
    /// Quotients have no limit: a jump, a pole, or values that change within the smallest steps.
    NoLimit,
}

impl FdFailure {
    /// The reason as a part of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            FdFailure::NotFinite => "the value at this point is not finite",
            FdFailure::Undefined => "the function has no finite value in a step's distance",
            FdFailure::Noise => "rounding of the values is more than what steps change",
            FdFailure::Coarse => {
                "floats of this size are a half or more apart, so that steps may span periods and jumps"
            }
            FdFailure::NoLimit => "the quotients have no limit (a jump, a pole, noise, or values that come in steps)",
        }
    }
}

impl Verdict {
    /// Whether `d` may be the derivative, with a relative and absolute tolerance beside the own
    /// error. At a kink every number between the one-sided derivatives may; where nothing can be
    /// told, anything.
    pub fn accepts(&self, d: f64, tolerance: f64) -> bool {
        match *self {
            Verdict::Smooth { value, error } => {
                (d - value).abs() <= 10.0 * error + tolerance * (1.0 + value.abs().max(d.abs()))
            }
            Verdict::Kink { left, right } => {
                let slack = tolerance * (1.0 + left.abs().max(right.abs()));
                (left.min(right) - slack..=left.max(right) + slack).contains(&d)
            }
            Verdict::Unreliable(_) => true,
        }
    }
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Relative precision of the function's values: `f64::EPSILON` for computations in `f64`,
    /// `f32::EPSILON` where `f32` is involved.
    pub precision: f64,
    /// Whether inputs are rounded to `f32`, so that a step must survive that.
    pub f32_inputs: bool,
    /// What is known of the values' absolute error beside that: numbers that cancel on the way
    /// leave more than the result shows.
    pub noise: f64,
    /// Noise that values at neighbouring points may not show: of values that come in steps, how far
    /// from the function's they are; zero if nothing is known.
    pub steps: f64,
    /// What inputs are multiples of; zero if they are any.
    pub unit: f64,
    /// The size of the numbers that steps along a line are added to, or 0 where the argument is the
    /// number: steps that are lost in them say nothing.
    pub size: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options { precision: f64::EPSILON, f32_inputs: false, noise: 0.0, steps: 0.0, size: 0.0, unit: 0.0 }
    }
}

/// Neighbouring steps in one extrapolation.
const ROWS: usize = 7;

/// The distance of floats from which on functions with periods or jumps look like others.
const COARSE: f64 = 0.5;

/// How far from a derivative a quotient may be, in terms of what is known of its error.
const SLACK: f64 = 10.0;

/// An extrapolated derivative with its error.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    value: f64,
    error: f64,
    /// How far the quotients that it was made of are from it.
    reach: f64,
    /// The position of the last of them.
    at: usize,
}

impl Estimate {
    const NONE: Estimate = Estimate { value: f64::NAN, error: f64::INFINITY, reach: 0.0, at: 0 };

    /// Whether both can be right.
    fn allows(&self, q: &Quotient) -> bool {
        !q.value.is_finite() || (q.value - self.value).abs() <= self.reach + SLACK * (self.error + q.noise)
    }
}

/// A difference quotient, and its error that comes from rounding.
#[derive(Clone, Copy, Debug)]
struct Quotient {
    value: f64,
    noise: f64,
}

/// The most exact extrapolation that no quotient of a smaller step contradicts. The first `ladder`
/// quotients have steps that halve; the others only contradict. The error of a quotient is a series
/// in powers of `1/base`.
fn extrapolate(quotients: &[Quotient], ladder: usize, base: f64) -> Estimate {
    let mut entries = entries(&quotients[..ladder], base);
    entries.sort_by(|a, b| a.error.total_cmp(&b.error));
    let stands = |e: &Estimate| quotients[e.at + 1..].iter().all(|q| e.allows(q));
    entries.into_iter().find(stands).unwrap_or(Estimate::NONE)
}

/// All extrapolations of neighbouring quotients.
fn entries(quotients: &[Quotient], base: f64) -> Vec<Estimate> {
    let mut found = Vec::new();
    let mut above: Vec<f64> = Vec::new();
    for (i, q) in quotients.iter().enumerate() {
        let mut row = vec![q.value];
        let mut factor = 1.0;
        for k in 1..=i.min(ROWS - 1) {
            factor *= base;
            let t = row[k - 1] + (row[k - 1] - above[k - 1]) / (factor - 1.0);
            let spread = (t - row[k - 1]).abs().max((t - above[k - 1]).abs());
            // Extrapolation amplifies rounding little: the weights sum to one and are at most about
            // two.
            let error = spread + 2.0 * q.noise;
            if t.is_finite() {
                let reach = quotients[i - k..=i].iter().map(|q| (q.value - t).abs()).fold(0.0, f64::max);
                found.push(Estimate { value: t, error, reach, at: i });
            }
            row.push(t);
        }
        above = row;
    }
    found
}

/// A function of one real at a point: what it costs to look at it.
struct Samples<F> {
    f: F,
    t: f64,
    f0: f64,
    options: Options,
    /// The size of a step.
    scale: f64,
    /// The largest noise of a value that is seen.
    noise: f64,
    /// Whether a sample was no finite number.
    undefined: bool,
}

impl<F: FnMut(f64) -> f64> Samples<F> {
    fn round(&self, x: f64) -> f64 {
        match self.options.unit {
            _ if self.options.f32_inputs => f64::from(x as f32),
            0.0 => x,
            unit => (x / unit).round() * unit,
        }
    }

    fn at(&mut self, x: f64) -> f64 {
        let y = (self.f)(x);
        self.undefined |= !y.is_finite();
        y
    }

    /// Noise as it shows at neighbouring points: what differences of fourth order have, which
    /// smooth functions have not.
    fn measure(&mut self, spacing: f64) {
        let points: Vec<f64> = (-3..=3).map(|k| self.round(self.t + f64::from(k) * spacing)).collect();
        let mut d: Vec<f64> = points.iter().map(|&x| (self.f)(x)).collect();
        for _ in 0..4 {
            d = d.windows(2).map(|w| w[1] - w[0]).collect();
        }
        let mean = d.iter().map(|x| x * x).sum::<f64>() / d.len() as f64;
        let seen = (mean / 70.0).sqrt();
        if seen.is_finite() {
            self.noise = self.noise.max(seen);
        }
    }

    /// How far a step along a line may be off, and how many times that it must be long.
    fn resolution(&self) -> (f64, f64) {
        match self.options.f32_inputs {
            true => (self.options.size * f64::from(f32::EPSILON), 64.0),
            false => (self.options.size * f64::EPSILON, 4096.0),
        }
    }

    /// Quotients with a step of `h`: central, left, right.
    fn quotients(&mut self, h: f64) -> Option<[Quotient; 3]> {
        let (off, least) = self.resolution();
        if h < least * off {
            return None;
        }
        // The steps that the arguments really take.
        let (up, down) = (self.round(self.t + h), self.round(self.t - h));
        let (dup, ddown) = (up - self.t, self.t - down);
        if dup <= 0.0 || ddown <= 0.0 {
            return None;
        }
        let (fu, fd, f0) = (self.at(up), self.at(down), self.f0);
        let magnitude = [f0, fu, fd].into_iter().filter(|y| y.is_finite()).map(f64::abs).fold(0.0, f64::max);
        let noise = self.noise.max(self.options.precision * magnitude);
        let q = |value: f64, step| Quotient { value, noise: (2.0 * noise + value.abs() * off) / step };
        Some([q((fu - fd) / (dup + ddown), dup + ddown), q((f0 - fd) / ddown, ddown), q((fu - f0) / dup, dup)])
    }

    fn verdict(&mut self) -> Verdict {
        let single = self.options.precision > 1e-12;
        let least = if self.options.f32_inputs { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let spacing = (self.scale * self.options.precision.max(least)).max(self.options.unit);
        self.measure(8.0 * spacing);
        let mut found: [Vec<Quotient>; 3] = Default::default();
        let halvings = if single { 18 } else { 30 };
        let steps = (0..halvings).map(|i| if single { 0.3 } else { 0.1 } / f64::from(1_u32 << i));
        let mut ladder = 0;
        // Steps of a few spacings, which only contradict.
        let probes = [4096.0, 512.0, 64.0, 16.0].map(|n| n * spacing / self.scale);
        for (i, step) in steps.chain(probes).enumerate() {
            if let Some(q) = self.quotients(step * self.scale) {
                found.iter_mut().zip(q).for_each(|(list, q)| list.push(q));
                ladder += usize::from(i < halvings);
            }
        }
        let [central, left, right] =
            [(0, 4.0), (1, 2.0), (2, 2.0)].map(|(i, base)| extrapolate(&found[i], ladder, base));
        let known = self.options.noise.max(self.options.steps).max(self.options.precision * self.f0.abs());
        let said = verdict(central, left, right, &self.options);
        // Where roundings are known, what is more than they and the slope make of neighbouring
        // points are jumps.
        let explained = |slope: f64| self.noise <= 10.0 * (known + 8.0 * spacing * slope.abs());
        let jumps =
            matches!(said, Some(Verdict::Smooth { value, .. }) if self.options.noise > 0.0 && !explained(value));
        said.filter(|_| !jumps).unwrap_or(Verdict::Unreliable(if self.undefined && !jumps {
            FdFailure::Undefined
        } else if known > 1e-4 * self.scale {
            FdFailure::Noise
        } else {
            FdFailure::NoLimit
        }))
    }
}

/// The derivative of `f` at `t`.
pub fn derivative<E>(mut f: impl FnMut(f64) -> Result<f64, E>, t: f64, options: &Options) -> Verdict {
    let mut f = |x: f64| f(x).unwrap_or(f64::NAN);
    let f0 = f(t);
    if !f0.is_finite() {
        return Verdict::Unreliable(FdFailure::NotFinite);
    }
    if t.abs().max(options.size) * f64::EPSILON >= COARSE {
        return Verdict::Unreliable(FdFailure::Coarse);
    }
    // A step near 0 has only the size of the function's values to go by; where those have few
    // digits it must be large.
    let least = if options.precision > 1e-12 { 0.5 } else { 1e-3 };
    let size = options.size * least;
    let mut at_scale = |scale| {
        Samples {
            f: &mut f,
            t,
            f0,
            options: *options,
            scale,
            noise: options.noise.max(options.steps),
            undefined: false,
        }
        .verdict()
    };
    match at_scale(t.abs().max(least).max(size)) {
        // A small argument may be all the room that there is.
        Verdict::Unreliable(_) if t != 0.0 && t.abs() < least => at_scale(t.abs()),
        said => said,
    }
}

/// Weigh the estimates.
fn verdict(central: Estimate, left: Estimate, right: Estimate, options: &Options) -> Option<Verdict> {
    let size = 1.0 + left.value.abs().max(right.value.abs());
    // Half of the digits, less two, is what one-sided differences can be expected to give.
    let trust = options.precision.sqrt() * 100.0;
    let one_sided = left.error.max(right.error);
    if one_sided < trust.max(1e-6) * size && (left.value - right.value).abs() > 20.0 * one_sided + trust * size {
        return Some(Verdict::Kink { left: left.value, right: right.value });
    }
    // The error is told with the value, so here a few digits are enough to speak of a derivative.
    let smooth = central.error < trust.max(1e-4) * (1.0 + central.value.abs());
    smooth.then_some(Verdict::Smooth { value: central.value, error: central.error })
}

/// The partial derivatives of `f` at `x`, one verdict per coordinate.
pub fn gradient(mut f: impl FnMut(&[f64]) -> Result<f64, OracleError>, x: &[f64], options: &Options) -> Vec<Verdict> {
    let mut point = x.to_vec();
    (0..x.len())
        .map(|i| {
            let v = derivative(
                |t| {
                    point[i] = t;
                    f(&point)
                },
                x[i],
                options,
            );
            point[i] = x[i];
            v
        })
        .collect()
}

/// The derivative of `f` at `x` along `direction`.
pub fn directional(
    mut f: impl FnMut(&[f64]) -> Result<f64, OracleError>,
    x: &[f64],
    direction: &[f64],
    options: &Options,
) -> Verdict {
    let mut point = x.to_vec();
    derivative(
        |t| {
            for (p, (x, d)) in point.iter_mut().zip(x.iter().zip(direction)) {
                *p = x + t * d;
            }
            f(&point)
        },
        0.0,
        options,
    )
}
