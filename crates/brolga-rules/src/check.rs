//! Rule checker: whether a row of partial derivatives describes a function, by measurement.
//!
//! **Question.** A row claims to be the partial derivatives of a function. Does it describe this
//! one?
//!
//! **Answer.** The function is a black box, run as it is compiled. [`measure`] finds its slopes at
//! given points by central differences with Richardson extrapolation (Ridders' scheme), and with
//! each slope a bound on how wrong it may be, from both the extrapolation and the rounding of the
//! function's results. [`check`] then compares a row with the measurements. They are separate, so
//! that one measurement serves a row and all of its mutants ([`mutants`]), which the checker must
//! reject.
//!
//! What a difference says of a point without a derivative is this project's policy: at a corner,
//! the mean of the one-sided slopes; at the edge of the domain or at a vertical tangent, an
//! infinity with a sign.
//!
//! **What it cannot see.** Points nearer to a kink than the arithmetic resolves, operands so small
//! that differences of results drown in rounding (those slopes come back with wide bounds), errors
//! of a row below about 1e-6 relative (1e-3 for single precision), and anything about jumps, where
//! no slope is measured. Edge cases therefore also stand in a table of their own, in
//! `docs/KINKS.md`.
//!
//! **Cost.** For each point, result and operand one to two hundred runs of the function. A check
//! evaluates each partial once for each point. None at run time of a derivative.

use std::fmt;

use cranelift_codegen::ir::condcodes::CondCode;

use crate::expr::{Cond, CondNode, E, Node};
use crate::row::{ExprRow, Partial, Scale};

/// The arithmetic of the function under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 64-bit floats.
    F64,
    /// 32-bit floats, passed to and from the checker as doubles.
    F32,
}

impl Width {
    /// The nearest number of this width.
    pub fn round(self, x: f64) -> f64 {
        match self {
            Width::F64 => x,
            Width::F32 => f64::from(x as f32),
        }
    }

    fn epsilon(self) -> f64 {
        match self {
            Width::F64 => f64::EPSILON,
            Width::F32 => f64::from(f32::EPSILON),
        }
    }

    fn least(self) -> f64 {
        match self {
            Width::F64 => f64::from_bits(1),
            Width::F32 => f64::from(f32::from_bits(1)),
        }
    }

    /// How far a correct row may be off, relative to its value.
    fn tolerance(self) -> f64 {
        match self {
            Width::F64 => 1e-7,
            Width::F32 => 1e-3,
        }
    }
}

/// The slope of a function at a point, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slope {
    /// A number, and how far it may be off.
    Value {
        /// The estimate.
        value: f64,
        /// Bound of its error.
        error: f64,
    },
    /// Positive or negative infinity.
    Infinite(f64),
    /// Nothing could be measured.
    Unknown,
}

/// One point, and what was measured there.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The point.
    pub operands: Vec<f64>,
    /// The results at the point.
    pub results: Vec<f64>,
    /// By result, then by operand.
    pub slopes: Vec<Vec<Slope>>,
}

/// A row and a measurement that disagree.
#[derive(Clone, Debug)]
pub struct Mismatch {
    /// Which result.
    pub result: usize,
    /// With respect to which operand.
    pub operand: usize,
    /// The partial, in words.
    pub partial: String,
    /// Where.
    pub operands: Vec<f64>,
    /// The partial's value there.
    pub claimed: f64,
    /// What was measured there.
    pub measured: Slope,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { result, operand, partial, operands, claimed, measured } = self;
        write!(f, "∂{result}/∂{operand} = {partial} is {claimed:e} at {operands:?}, measured {measured:?}")
    }
}

/// What a successful check rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// For each partial, in the order of [`ExprRow::partials`], at how many points the measurement
    /// was sharp.
    pub sharp: Vec<usize>,
}

/// A function under test: operands to results.
pub type Function<'a> = &'a dyn Fn(&[f64]) -> Vec<f64>;

/// Measure a function at every point at which its results are finite. An operand is varied at a
/// point only where `vary` says so: integers and pointers never are.
pub fn measure(f: Function, width: Width, points: &[Vec<f64>], vary: impl Fn(&[f64], usize) -> bool) -> Vec<Probe> {
    let mut probes = Vec::new();
    for point in points {
        let operands: Vec<f64> = point.iter().map(|&x| width.round(x)).collect();
        let results = f(&operands);
        if !results.iter().all(|z| z.is_finite()) {
            continue;
        }
        let slopes = (0..results.len())
            .map(|r| {
                let slope_of = |i| if vary(&operands, i) { slope(f, width, &operands, r, i) } else { Slope::Unknown };
                (0..operands.len()).map(slope_of).collect()
            })
            .collect();
        probes.push(Probe { operands, results, slopes });
    }
    probes
}

/// Compare a row with measurements.
pub fn check(row: &ExprRow, width: Width, probes: &[Probe]) -> Result<Evidence, Vec<Mismatch>> {
    let mut sharp = vec![0; row.partials().count()];
    let mut mismatches = Vec::new();
    for Probe { operands, results, slopes } in probes {
        for (k, (r, o, partial)) in row.partials().enumerate() {
            let claimed = partial.eval(1.0, operands, results);
            let measured = slopes[r][o];
            let agrees = match measured {
                Slope::Value { value, error } => {
                    let scale = claimed.abs().max(value.abs());
                    // A slope of zero has no size of its own to be compared with.
                    sharp[k] += usize::from(3.0 * error <= 0.01 * scale.max(1e-3));
                    let near = (claimed - value).abs() <= 3.0 * error + width.tolerance() * scale;
                    claimed.is_finite() && near || beyond(width, claimed, value)
                }
                Slope::Infinite(value) => {
                    sharp[k] += 1;
                    claimed == value
                }
                Slope::Unknown => true,
            };
            // A partial that promises to stay finite is held to it.
            if !agrees || !(partial.may_blow_up() || claimed.is_finite()) {
                let (operands, partial) = (operands.clone(), partial.to_string());
                mismatches.push(Mismatch { result: r, operand: o, partial, operands, claimed, measured });
            }
        }
    }
    if mismatches.is_empty() { Ok(Evidence { sharp }) } else { Err(mismatches) }
}

/// Whether both numbers are too large for the width, with the same sign: one overflowed, the other
/// is about to.
fn beyond(width: Width, a: f64, b: f64) -> bool {
    let large = match width {
        Width::F64 => f64::MAX / 1e3,
        Width::F32 => f64::from(f32::MAX) / 1e3,
    };
    a.abs() >= large && b.abs() >= large && a.signum() == b.signum()
}

/// Halvings of the step in one extrapolation.
const COLUMNS: usize = 8;

fn slope(f: Function, width: Width, at: &[f64], result: usize, operand: usize) -> Slope {
    let x = at[operand];
    let at_shifted = |x: f64| {
        let mut moved = at.to_vec();
        moved[operand] = width.round(x);
        (moved[operand], f(&moved)[result])
    };
    if let Some(infinity) = vertical(&at_shifted, x, width) {
        return Slope::Infinite(infinity);
    }
    let first = first_step(at, operand);
    let mut best = Slope::Unknown;
    let mut best_error = f64::INFINITY;
    for k in 0..6 {
        let (value, error) = ridders(&at_shifted, x, first * 0.5f64.powi(6 * k), width);
        if error < best_error {
            (best, best_error) = (Slope::Value { value, error }, error);
        }
    }
    best
}

/// A power of two well below the distance to every place where functions like to have corners,
/// edges and poles: zero, ±1, the other operands and their negatives.
fn first_step(at: &[f64], operand: usize) -> f64 {
    let x = at[operand];
    let mut room = 1.0f64;
    for distance in [x, x - 1.0, x + 1.0]
        .into_iter()
        .chain(at.iter().enumerate().filter(|&(i, _)| i != operand).flat_map(|(_, &y)| [y, x - y, x + y]))
    {
        if distance != 0.0 && distance.abs() < room {
            room = distance.abs();
        }
    }
    // For a large operand a step of one is lost in rounding.
    let room = if at.iter().all(|a| a.abs() >= 2.0) { at.iter().fold(f64::MAX, |m, a| m.min(a.abs())) } else { room };
    0.5f64.powi(3) * 2.0f64.powi(room.log2().floor().max(-1070.0) as i32)
}

/// Ridders' extrapolation of central differences. Returns the estimate and a bound on its error,
/// infinite if there is none.
fn ridders(f: &dyn Fn(f64) -> (f64, f64), x: f64, first: f64, width: Width) -> (f64, f64) {
    let mut best = (f64::NAN, f64::INFINITY);
    let mut last: Vec<f64> = Vec::new();
    for column in 0..COLUMNS {
        let h = first * 0.5f64.powi(column as i32);
        let ((x1, z1), (x0, z0)) = (f(x + h), f(x - h));
        let quotient = (z1 - z0) / (x1 - x0);
        if !(x1 > x && x > x0 && quotient.is_finite()) {
            last.clear();
            continue;
        }
        // Results are taken to be right to four units in the last place; extrapolation at most
        // doubles that.
        let noise = 8.0 * (width.epsilon() * z1.abs().max(z0.abs()) + width.least()) / (x1 - x0);
        let mut now = vec![quotient];
        for (m, &before) in last.iter().enumerate() {
            let four = 4.0f64.powi(m as i32 + 1);
            let better = (four * now[m] - before) / (four - 1.0);
            let error = (better - now[m]).abs().max((better - before).abs()) + noise;
            if error < best.1 {
                best = (better, error);
            }
            now.push(better);
        }
        last = now;
    }
    best
}

/// Whether the tangent is vertical: difference quotients grow without bound, but slower than at a
/// jump. One-sided where the function ends.
fn vertical(f: &dyn Fn(f64) -> (f64, f64), x: f64, width: Width) -> Option<f64> {
    let (_, z) = f(x);
    let mut quotients = Vec::new();
    let last_step = if x == 0.0 { 60 } else { (-width.epsilon().log2()) as i32 / 2 };
    for k in 4..last_step {
        let h = 0.5f64.powi(k) * if x == 0.0 { 1.0 } else { x.abs() };
        let ((x1, z1), (x0, z0)) = (f(x + h), f(x - h));
        quotients.push(match (z1.is_finite(), z0.is_finite()) {
            (true, true) => (z1 - z0) / (x1 - x0),
            (true, false) => (z1 - z) / (x1 - x),
            (false, true) => (z - z0) / (x - x0),
            (false, false) => return None,
        });
    }
    let grows = quotients.windows(2).all(|q| (1.02..1.9).contains(&(q[1] / q[0])));
    (grows && quotients.len() >= 6).then(|| f64::INFINITY.copysign(quotients[0]))
}

/// Every row that differs from this one by one mistake: a sign, a partial left out, a term or
/// factor left out, two operands confused. Each with a description. Only partials for operands that
/// `vary` accepts are changed.
pub fn mutants(row: &ExprRow, vary: impl Fn(usize) -> bool) -> Vec<(String, ExprRow)> {
    let mut all = Vec::new();
    for (r, o, partial) in row.partials().filter(|&(_, o, _)| vary(o)) {
        let mut push = |what: &str, p: Partial| {
            if p != *partial {
                all.push((format!("∂{r}/∂{o}: {what}: {p} for {partial}"), row.with_partial(r, o, p)));
            }
        };
        let Partial::Scale(scale) = partial else {
            push("not zero", Partial::ONE);
            continue;
        };
        push("sign", -partial.clone());
        push("left out", Partial::Zero);
        let Scale { neg, ref over, ref times, edge, .. } = *scale;
        let with = |over, times| Partial::Scale(Scale { neg, over, times, may_blow_up: true, edge });
        if let Some(e) = over {
            push("denominator left out", with(None, times.clone()));
            variants(e, row.n_operands()).into_iter().for_each(|e| push("denominator", with(Some(e), times.clone())));
        }
        if let Some(e) = times {
            push("numerator left out", with(over.clone(), None));
            variants(e, row.n_operands()).into_iter().for_each(|e| push("numerator", with(over.clone(), Some(e))));
        }
    }
    all
}

/// Expressions that differ from this one in one place.
fn variants(e: &E, n_operands: usize) -> Vec<E> {
    let mut out = Vec::new();
    let both = |out: &mut Vec<E>, a: &E, b: &E, make: &dyn Fn(&E, &E) -> E| {
        out.extend([a.clone(), b.clone()]);
        out.extend(variants(a, n_operands).iter().map(|a| make(a, b)));
        out.extend(variants(b, n_operands).iter().map(|b| make(a, b)));
    };
    let one = |out: &mut Vec<E>, a: &E, make: &dyn Fn(&E) -> E| {
        out.push(a.clone());
        out.extend(variants(a, n_operands).iter().map(make));
    };
    match e.node() {
        Node::Operand(i) => out.extend((0..n_operands).filter(|j| j != i).map(E::operand)),
        Node::Result(_) | Node::IntOperand(_) => {}
        Node::Const(c) => out.push(E::constant(c + 1.0)),
        Node::Neg(a) => one(&mut out, a, &|a| -a.clone()),
        Node::Sqrt(a) => one(&mut out, a, &E::sqrt),
        Node::Abs(a) => one(&mut out, a, &E::abs),
        Node::Nearest(a) => one(&mut out, a, &E::nearest),
        Node::Add(a, b) => {
            out.push(a - b);
            both(&mut out, a, b, &|a, b| a + b);
        }
        Node::Sub(a, b) => {
            out.push(a + b);
            both(&mut out, a, b, &|a, b| a - b);
        }
        Node::Mul(a, b) => both(&mut out, a, b, &|a, b| a * b),
        Node::Div(a, b) => both(&mut out, a, b, &|a, b| a / b),
        Node::Copysign(a, b) => both(&mut out, a, b, &|a, b| a.copysign(b)),
        Node::Math(f, args) => {
            for (k, arg) in args.iter().enumerate() {
                out.push(arg.clone());
                out.extend(variants(arg, n_operands).into_iter().map(|v| {
                    let mut args = args.clone();
                    args[k] = v;
                    E::math(*f, args)
                }));
            }
        }
        // What it computes is not known here.
        Node::Call(_) => {}
        Node::Select(c, a, b) => {
            out.push((!c.clone()).select(a, b));
            out.extend(cond_variants(c).into_iter().map(|c| c.select(a, b)));
            both(&mut out, a, b, &|a, b| c.clone().select(a, b));
        }
    }
    out
}

fn cond_variants(c: &Cond) -> Vec<Cond> {
    match c.node() {
        CondNode::Cmp(cc, a, b) if a != b => vec![Cond::cmp(cc.complement(), a.clone(), b.clone())],
        CondNode::Cmp(..) => vec![],
        CondNode::And(a, b) | CondNode::Or(a, b) => vec![a.clone(), b.clone()],
        CondNode::Not(a) => vec![a.clone()],
    }
}
