//! Check of second derivatives against three things that know no derived text of theirs:
//! differences of gradients, the oracle's forward over reverse of the primal, and symmetry.
//!
//! **Question.** Are the Hessian-vector products of a call right?
//!
//! **Answer.** One product `H v` with a random direction v is compared, entry by entry. A second
//! direction u gives `u·(H v) = v·(H u)`. The gradient that comes beside a product is compared with
//! the one that comes alone. What roundings of the inputs move in the oracle's product, or the tape
//! loses where terms cancel or functions saturate, is no difference: there nothing is said.
//!
//! **Cost.** Two products, a gradient, and one run of the oracle; two more runs of that where a
//! product and the oracle, or the two sides of the symmetry, differ. Differences take gradients
//! along `v`, each of which is kept for all entries.

use std::cell::LazyCell;
use std::collections::HashMap;

use brolga::{DerivedRule, Error, Program};
use brolga_oracle::fd::{self, FdFailure, Verdict};
use brolga_oracle::{Oracle, OracleError, Reverse};

use super::{DotProduct, FreshRule, RowVerdict, Tolerances, close, conclude, is_limit, terms_of};
use crate::bind::Invocation;
use crate::inputs::{Input, direction, flatten, inputs, oracle_args, oracle_tangents, size, with_inputs};
use crate::memory::Memory;
use crate::noise::Noise;
use crate::run;
use crate::second::{flat, products};
use crate::tangent::Direction;

/// How far both sides of the symmetry may be apart, in terms of what they are made of.
pub const SYMMETRY: f64 = 1e-13;

/// How often as far as roundings of inputs move a product it may be from another one: then there is
/// nothing to say.
const ROUNDINGS: f64 = 16.0;

/// As many roundings of a number are nothing to speak of.
const FEW: f64 = 1024.0;

/// What is said about one entry of a product.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductRow {
    /// The input whose entry it is.
    pub input: Input,
    /// The entry.
    pub product: f64,
    /// Differences of the gradient's entry, if they were asked for.
    pub difference: Option<Verdict>,
    /// The oracle, if it could run.
    pub oracle: Option<f64>,
    /// The conclusion.
    pub verdict: RowVerdict,
    /// Why differences, or the oracle, say nothing of it.
    pub silent: Vec<String>,
}

/// What was found out about second derivatives.
#[derive(Clone, Debug)]
pub struct SecondOrderCheck {
    /// One per input.
    pub rows: Vec<ProductRow>,
    /// Why the oracle could not run.
    pub oracle_error: Option<OracleError>,
    /// `u·(H v)` and `v·(H u)`.
    pub symmetry: DotProduct,
    /// Whether these are equal; `None` if one is not finite.
    pub symmetric: Option<bool>,
    /// Entries of the gradient that differ: beside the product, and alone.
    pub gradients: Vec<(Input, [f64; 2])>,
}

impl SecondOrderCheck {
    /// What is wrong, as sentences.
    pub fn complaints(&self) -> Vec<String> {
        let mut out = Vec::new();
        for row in self.rows.iter().filter(|r| r.verdict.is_wrong()) {
            let other = match (row.verdict, row.difference, row.oracle) {
                (RowVerdict::NotTheTape, _, Some(t)) => format!("the oracle says {t:?}"),
                (_, Some(Verdict::Smooth { value, error }), _) => {
                    format!("differences of gradients say {value:?} ± {error:.0e}")
                }
                (_, d, t) => format!("oracles say {d:?} and {t:?}"),
            };
            out.push(format!("input {}: Hessian-vector product {:?}, but {other}", row.input.name(), row.product));
        }
        for (input, [beside, alone]) in &self.gradients {
            out.push(format!("input {}: gradient {beside:?} beside the product, but {alone:?} alone", input.name()));
        }
        let DotProduct { forward, reverse, .. } = self.symmetry;
        if self.symmetric == Some(false) {
            out.push(format!("the Hessian is not symmetric: {forward:?} and {reverse:?}"));
        }
        out
    }
}

/// The second derivatives of `call`.
///
/// # Errors
/// As [`products`], and as of the gradient.
pub fn second(
    program: &Program,
    call: &Invocation,
    hessian: crate::second::FreshHessian<'_>,
    rule: FreshRule<'_>,
    tolerances: Tolerances,
    differences: bool,
) -> Result<SecondOrderCheck, Error> {
    let inputs = inputs(call);
    let mut noise = Noise::new(3);
    let mut random = || direction(&inputs, &mut noise);
    let (v, u) = (random(), random());
    let product = |along: &[f64]| -> Result<[Vec<f64>; 2], Error> {
        let found = products(&hessian(1)?, call, &Direction::along(call, &inputs, along))?;
        Ok([flat(&found.products, &inputs), flat(&found.first.gradient, &inputs)])
    };
    let ([hv, beside], [hu, _]) = (product(&v)?, product(&u)?);
    let oracle = along_by_oracle(program, call, &inputs, &v);
    let known = oracle.as_ref().ok();
    let digits = LazyCell::new(|| {
        let moved = last_digits(program, call, &inputs, &v, known.map(|o| &*o.along).unwrap_or_default());
        let lost = |i: usize| known.map_or(0.0, |o| super::LOST * o.lost[1][i]);
        moved.iter().enumerate().map(|(i, moved)| f64::max(ROUNDINGS * moved, lost(i))).collect::<Vec<_>>()
    });
    let mut gradients = Gradients::new(program, call, &inputs, &v, rule)?;
    let mut rows = Vec::new();
    for (i, input) in inputs.iter().enumerate().filter(|(_, i)| !i.is_other()) {
        let mut silent = Vec::new();
        let steps = known.map_or(0.0, |o| o.steps(i, tolerances.precision));
        let options = fd::Options {
            precision: tolerances.precision,
            f32_inputs: inputs.iter().any(|i| i.f32),
            noise: 0.0,
            steps,
            size: size(&inputs),
            unit: 0.0,
        };
        let difference = differences.then(|| fd::derivative(|t| gradients.entry(i, t), 0.0, &options));
        if let Some(Verdict::Unreliable(why)) = difference {
            silent.push(format!("differences of gradients: {}", of_gradients(why)));
        }
        let says = known.map(|o| o.along[i]).filter(|&o| !is_limit(&inputs, hv[i], o));
        // Where the first derivative has a pole there is no second one.
        let verdict = match hv[i].is_finite() || says.is_some_and(f64::is_finite) && gradients.is_finite(i) {
            true => conclude(hv[i], difference, says, tolerances),
            false => RowVerdict::Unknown,
        };
        let far = says.map_or(0.0, |t| (hv[i] - t).abs());
        let verdict = if verdict == RowVerdict::NotTheTape && far <= digits[i] {
            silent.push(format!("the oracle: roundings leave few digits, and it may be off by {:.0e}", digits[i]));
            RowVerdict::Unknown
        } else {
            verdict
        };
        rows.push(ProductRow { input: *input, product: hv[i], difference, oracle: says, verdict, silent });
    }
    let pair = |a: &[f64], b: &[f64]| terms_of(&a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>());
    let ((forward, size), (reverse, other)) = (pair(&u, &hv), pair(&v, &hu));
    let single = tolerances.precision > f64::EPSILON;
    let near = if single { tolerances.tape } else { SYMMETRY } * (1.0 + size.max(other));
    let finite = forward.is_finite() && reverse.is_finite();
    let apart = (forward - reverse).abs();
    let rounded = || digits.iter().zip(&u).map(|(d, u)| (d * u).abs()).sum::<f64>();
    let symmetric = finite.then(|| apart <= near || apart <= rounded());
    let symmetry = DotProduct { forward, reverse, holds: symmetric == Some(true) };
    let gradients = apart_from(&beside, &gradients.at(0.0)?, program, call, &inputs, tolerances);
    Ok(SecondOrderCheck { rows, oracle_error: oracle.err(), symmetry, symmetric, gradients })
}

/// Why differences of gradients say nothing, as a part of a sentence.
fn of_gradients(why: FdFailure) -> &'static str {
    match why {
        FdFailure::NotFinite => "the gradient at this point is not finite",
        FdFailure::Undefined => "there is no finite gradient in a step's distance",
        FdFailure::Noise => "rounding of gradients is more than what steps change",
        FdFailure::Coarse | FdFailure::NoLimit => why.text(),
    }
}

/// Entries of the gradient beside a product that are not those of the gradient alone, by more than
/// what the tape loses where terms cancel.
fn apart_from(
    beside: &[f64],
    alone: &[f64],
    program: &Program,
    call: &Invocation,
    inputs: &[Input],
    tolerances: Tolerances,
) -> Vec<(Input, [f64; 2])> {
    let both = inputs.iter().zip(beside.iter().zip(alone));
    // Of what is no number of its list's type the product says nothing.
    let is_apart = |(i, (b, a)): (&Input, (&f64, &f64))| !i.is_other() && !close(*b, *a, tolerances.tape);
    let apart = both.enumerate().filter(|(_, both)| is_apart(*both)).collect::<Vec<_>>();
    if apart.is_empty() {
        return vec![];
    }
    let lost = super::on_tape(program, call).map_or(vec![0.0; inputs.len()], |t| flatten(&t.rounding, inputs));
    let entry = |(i, (input, (b, a))): (usize, (&Input, (&f64, &f64)))| {
        let rounded = (b - a).abs() <= super::LOST * lost[i];
        (!rounded).then_some((*input, [*b, *a]))
    };
    apart.into_iter().filter_map(entry).collect()
}

/// Gradients along a line.
struct Gradients<'a> {
    program: &'a Program,
    call: &'a Invocation,
    inputs: &'a [Input],
    direction: &'a [f64],
    rule: FreshRule<'a>,
    shared_rule: DerivedRule,
    known: HashMap<u64, Vec<f64>>,
}

impl<'a> Gradients<'a> {
    fn new(
        program: &'a Program,
        call: &'a Invocation,
        inputs: &'a [Input],
        direction: &'a [f64],
        rule: FreshRule<'a>,
    ) -> Result<Self, Error> {
        Ok(Self { program, call, inputs, direction, shared_rule: rule()?, rule, known: HashMap::new() })
    }

    fn entry(&mut self, i: usize, t: f64) -> Result<f64, Error> {
        self.at(t).map(|found| found[i])
    }

    fn at(&mut self, t: f64) -> Result<Vec<f64>, Error> {
        if let Some(known) = self.known.get(&t.to_bits()) {
            return Ok(known.clone());
        }
        let moved: Vec<f64> = self.inputs.iter().zip(self.direction).map(|(i, d)| i.value + t * d).collect();
        let call = with_inputs(self.call, self.inputs, &moved);
        let stateful = self.program.has_writable_data();
        let rule = if stateful { (self.rule)()? } else { self.shared_rule.clone() };
        let found = flatten(&run::gradient(&rule, &call)?, self.inputs);
        self.known.insert(t.to_bits(), found.clone());
        Ok(found)
    }

    /// Whether an entry of the gradient is a number at the point itself.
    fn is_finite(&mut self, i: usize) -> bool {
        self.entry(i, 0.0).is_ok_and(f64::is_finite)
    }
}

/// By how much the oracle's product differs where inputs differ in their last digits: how many
/// digits a program with differences of its own, say, has lost. Zero where the oracle does not run.
fn last_digits(program: &Program, call: &Invocation, inputs: &[Input], v: &[f64], here: &[f64]) -> Vec<f64> {
    let mut most = vec![0.0; inputs.len()];
    for up in [false, true] {
        let moved = |i: &Input| match (i.f32, up) {
            (true, true) => f64::from((i.value as f32).next_up()),
            (true, false) => f64::from((i.value as f32).next_down()),
            (false, true) => i.value.next_up(),
            (false, false) => i.value.next_down(),
        };
        let call = with_inputs(call, inputs, &inputs.iter().map(moved).collect::<Vec<f64>>());
        let Ok([_, there]) = on_oracle(program, &call, inputs, v) else { continue };
        for (most, (a, b)) in most.iter_mut().zip(there.iter().zip(here)) {
            *most = f64::max(*most, (a - b).abs());
        }
    }
    most
}

/// Gradient and Hessian-vector product by the oracle of the primal, one entry for each input.
///
/// # Errors
/// As [`Oracle::hessian_vector`].
pub fn on_oracle(
    program: &Program,
    call: &Invocation,
    inputs: &[Input],
    v: &[f64],
) -> Result<[Vec<f64>; 2], OracleError> {
    along_by_oracle(program, call, inputs, v).map(|found| [found.gradient, found.along])
}

/// What the oracle of the primal says, one entry for each input.
struct ByOracle {
    gradient: Vec<f64>,
    along: Vec<f64>,
    /// How far either may be off by rounding alone.
    lost: [Vec<f64>; 2],
}

impl ByOracle {
    /// The noise of an entry of gradients, where it is more than a few roundings of the entry:
    /// gradients are no more exact than that, whatever neighbours of them look like.
    fn steps(&self, i: usize, precision: f64) -> f64 {
        let lost = self.lost[0][i];
        if lost > FEW * precision * self.gradient[i].abs() { lost } else { 0.0 }
    }
}

fn along_by_oracle(program: &Program, call: &Invocation, inputs: &[Input], v: &[f64]) -> Result<ByOracle, OracleError> {
    let hidden = call.hidden();
    let tangents = oracle_tangents(call, inputs, v);
    let memory = Memory::new(call).map_err(|e| OracleError::NotBegun(e.to_string()))?;
    let args = oracle_args(call, &memory);
    // SAFETY: as in `super::tape_gradient`.
    let found =
        unsafe { Oracle::new(call.interpreted(program)).hessian_vector(call.func, &args, &tangents, &call.seeds) }?;
    let entries = |r: &Reverse<f64>| {
        let entry = |i: &Input| {
            let lists = r.arg_lanes[hidden + i.arg].as_ref().or(r.shadows[hidden + i.arg].as_ref());
            lists.map_or(f64::NAN, |l| l[i.index.unwrap_or(0)])
        };
        inputs.iter().map(entry).collect()
    };
    let lost = |r: &Reverse<f64>| {
        let entry = |i: &Input| r.rounding[hidden + i.arg].as_ref().map_or(0.0, |l| l[i.index.unwrap_or(0)]);
        inputs.iter().map(entry).collect()
    };
    let lost = [lost(&found.gradient), lost(&found.along)];
    Ok(ByOracle { gradient: entries(&found.gradient), along: entries(&found.along), lost })
}
