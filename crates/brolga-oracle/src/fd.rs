//! Finite differences with an estimate of their own error.
//!
//! # Algorithm
//!
//! For a function of one real `t` (a gradient is checked coordinate by coordinate, or along a direction) we compute central
//! differences `D(h) = (f(t+h) - f(t-h)) / 2h` for steps `h, h/2, h/4, …` and extrapolate them to `h = 0` (Richardson):
//! the error of D is a series in h², so with `T[i][0] = D(h/2ⁱ)`
//!
//! ```text
//! T[i][k] = T[i][k-1] + (T[i][k-1] - T[i-1][k-1]) / (4ᵏ - 1)
//! ```
//!
//! The answer is the entry that differs least from its neighbours (Ridders), and that difference, together with the
//! rounding noise of the samples, is the error.
//!
//! Agreement of neighbours can be luck: samples of a sine at whole periods are all zero, and large steps may look past a jump
//! or a kink. So several first steps are tried. The answer with the smallest error stands if no smaller scale contradicts it
//! within the errors of both; otherwise only the smaller scales are listened to, and so on.
//!
//! # Kinks
//!
//! One-sided derivatives are extrapolated from `f(t)` and samples on one side only (an error series in h, so factors 2ᵏ - 1).
//! If both are trustworthy and differ by far more than their errors, the point is a kink, and a derivative there is a
//! convention. If nothing converges, the verdict is that there is none.

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
    /// Not to be told: noise, a pole, a jump, or the function cannot be evaluated nearby.
    Unreliable,
}

impl Verdict {
    /// Whether `d` may be the derivative, with a relative and absolute tolerance beside the own error. At a kink every
    /// number between the one-sided derivatives may; where nothing can be told, anything.
    pub fn accepts(&self, d: f64, tolerance: f64) -> bool {
        match *self {
            Verdict::Smooth { value, error } => {
                (d - value).abs() <= 10.0 * error + tolerance * (1.0 + value.abs().max(d.abs()))
            }
            Verdict::Kink { left, right } => {
                let slack = tolerance * (1.0 + left.abs().max(right.abs()));
                (left.min(right) - slack..=left.max(right) + slack).contains(&d)
            }
            Verdict::Unreliable => true,
        }
    }
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Relative precision of the function's values: `f64::EPSILON` for computations in `f64`, `f32::EPSILON` where `f32` is
    /// involved.
    pub precision: f64,
    /// Whether inputs are rounded to `f32`, so that a step must survive that.
    pub f32_inputs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { precision: f64::EPSILON, f32_inputs: false }
    }
}

/// Halvings of the step in one extrapolation.
const ROWS: usize = 7;

/// An extrapolated derivative with its error.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    value: f64,
    error: f64,
}

impl Estimate {
    const NONE: Estimate = Estimate { value: f64::NAN, error: f64::INFINITY };

    fn better(self, other: Estimate) -> Estimate {
        if other.error < self.error { other } else { self }
    }

    /// Whether both can be right.
    fn agrees(self, other: Estimate) -> bool {
        !other.value.is_finite() || (self.value - other.value).abs() <= 10.0 * (self.error + other.error)
    }
}

/// The most exact of some estimates, from large scales to small ones, that no smaller scale contradicts.
fn reconcile(mut scales: &[Estimate]) -> Estimate {
    loop {
        let best = scales.iter().copied().fold(Estimate::NONE, Estimate::better);
        let Some(at) = scales.iter().position(|e| e.error == best.error) else { return Estimate::NONE };
        if scales[at + 1..].iter().all(|&smaller| best.agrees(smaller)) {
            return best;
        }
        scales = &scales[at + 1..];
    }
}

/// Extrapolate difference quotients, the step halving from row to row, whose error is a series in powers of `1/base`.
/// `noise` is the error of each quotient that comes from rounding.
fn extrapolate(quotients: &[f64], noise: &[f64], base: f64) -> Estimate {
    let mut best = Estimate::NONE;
    let mut above: Vec<f64> = Vec::new();
    for (i, (&q, &rounding)) in quotients.iter().zip(noise).enumerate() {
        let mut row = vec![q];
        let mut factor = 1.0;
        for k in 1..=i {
            factor *= base;
            let t = row[k - 1] + (row[k - 1] - above[k - 1]) / (factor - 1.0);
            let spread = (t - row[k - 1]).abs().max((t - above[k - 1]).abs());
            // Extrapolation amplifies rounding little: the weights sum to one and are at most about two.
            let error = spread + 2.0 * rounding;
            if t.is_finite() {
                best = best.better(Estimate { value: t, error });
            }
            row.push(t);
        }
        above = row;
    }
    best
}

/// The derivative of `f` at `t`.
pub fn derivative(mut f: impl FnMut(f64) -> Result<f64, OracleError>, t: f64, options: &Options) -> Verdict {
    let mut sample = |x: f64| f(x).unwrap_or(f64::NAN);
    let f0 = sample(t);
    if !f0.is_finite() {
        return Verdict::Unreliable;
    }
    let round = |x: f64| if options.f32_inputs { f64::from(x as f32) } else { x };
    // A step near 0 has only the size of the function's values to go by; where those have few digits it must be large.
    let scale = t.abs().max(if options.precision > 1e-12 { 0.5 } else { 1e-3 });
    let (mut central, mut left, mut right) = (Vec::new(), Vec::new(), Vec::new());
    let first_steps: &[f64] = if options.precision > 1e-12 { &[0.3, 0.1, 0.03] } else { &[0.1, 0.01, 1e-3, 1e-4] };
    for &first in first_steps {
        let (mut c, mut l, mut r) = (Vec::new(), Vec::new(), Vec::new());
        let (mut c_noise, mut one_noise) = (Vec::new(), Vec::new());
        for i in 0..ROWS {
            let h = first * scale / f64::from(1 << i);
            // The steps that the arguments really take.
            let (up, down) = (round(t + h), round(t - h));
            let (dup, ddown) = (up - t, t - down);
            if dup <= 0.0 || ddown <= 0.0 {
                break;
            }
            let (fu, fd) = (sample(up), sample(down));
            let magnitude = f0.abs().max(fu.abs()).max(fd.abs());
            let noise = options.precision * magnitude;
            c.push((fu - fd) / (dup + ddown));
            l.push((f0 - fd) / ddown);
            r.push((fu - f0) / dup);
            c_noise.push(2.0 * noise / (dup + ddown));
            one_noise.push(2.0 * noise / dup.min(ddown));
        }
        central.push(extrapolate(&c, &c_noise, 4.0));
        left.push(extrapolate(&l, &one_noise, 2.0));
        right.push(extrapolate(&r, &one_noise, 2.0));
    }
    verdict(reconcile(&central), reconcile(&left), reconcile(&right), options)
}

/// Weigh the estimates.
fn verdict(central: Estimate, left: Estimate, right: Estimate, options: &Options) -> Verdict {
    let size = 1.0 + left.value.abs().max(right.value.abs());
    // Half of the digits, less two, is what one-sided differences can be expected to give.
    let trust = options.precision.sqrt() * 100.0;
    let one_sided = left.error.max(right.error);
    if one_sided < trust.max(1e-6) * size && (left.value - right.value).abs() > 20.0 * one_sided + trust * size {
        return Verdict::Kink { left: left.value, right: right.value };
    }
    // The error is told with the value, so here a few digits are enough to speak of a derivative.
    if central.error < trust.max(1e-4) * (1.0 + central.value.abs()) {
        return Verdict::Smooth { value: central.value, error: central.error };
    }
    Verdict::Unreliable
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
