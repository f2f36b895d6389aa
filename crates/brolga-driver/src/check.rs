//! Gradient check: a gradient against everything that can say something about it: finite
//! differences, the tape oracle, and the oracle's forward mode, which runs on dual numbers.
//!
//! **Question.** Is the gradient of a call right?
//!
//! **Answer.** [`check`] asks each oracle about each input, and gives a [`Row`] for it; [`forward`]
//! and [`second`] do the same for tangents and for second derivatives, and [`round_trip`] for
//! inverses.
//!
//! Finite differences know only the compiled primal; they see any mistake, but only to a few
//! digits, and nothing at kinks. The tape interprets the program and knows slopes of its own; it is
//! exact to rounding and shares conventions at kinks. Forward mode checks the whole gradient at
//! once, by ⟨ȳ, Jẋ⟩ = ⟨Jᵀȳ, ẋ⟩ with one random direction ẋ.
//!
//! What the tape knows of the roundings of a run, the differences are told: a number that cancels
//! on the way leaves more noise than the result shows.
//!
//! **Invariant.** An oracle that cannot answer (an instruction that it does not know, no digits)
//! says so; it never agrees by default.
//!
//! **Errors.** If the primal itself does not run at the point, there is nothing to check. A race of
//! tasks is an error too.
//!
//! **Cost.** One interpreted run with a tape and one with dual numbers, and some compiled runs of
//! the primal for each input. Where a program has data that it may change, each of those gets a
//! rule of its own.

pub mod forward;
pub mod round_trip;
pub mod second;

use brolga::{DerivedRule, Error, InverseStats, LoopStats, Program};
use brolga_ir::driver::Driver;
use brolga_oracle::fd::{self, FdFailure, Verdict};
use brolga_oracle::{Oracle, OracleError, StrayStore, Tangent};

use crate::bind::Invocation;
use crate::compare::{close, uses_f32};
use crate::inputs::{GRID, Input, direction, flatten, inputs, noise_of_grid, objective, oracle_args, with_inputs};
use crate::memory::Memory;
use crate::noise::Noise;
use crate::run::Outcome;
use crate::value::{Item, Num, from_data};

/// How closely oracles must be met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// Against the tape, relative and absolute.
    pub tape: f64,
    /// Against finite differences, beside their own error.
    pub differences: f64,
    /// Precision of the primal's arithmetic.
    pub precision: f64,
}

impl Tolerances {
    /// What suits the types in the function; `tol` is the tolerance that the caller asks for, if
    /// any.
    pub fn of(program: &Program, call: &Invocation, tol: Option<f64>) -> Self {
        let t = if uses_f32(program, call.func) {
            Self { tape: 1e-4, differences: 2e-3, precision: f32::EPSILON.into() }
        } else {
            Self { tape: 1e-9, differences: 1e-6, precision: f64::EPSILON }
        };
        Self { tape: t.tape.max(tol.unwrap_or(0.0)), differences: t.differences.max(tol.unwrap_or(0.0)), ..t }
    }
}

/// What is said about one input.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The input.
    pub input: Input,
    /// Its entry in the gradient.
    pub gradient: f64,
    /// Finite differences, if they were asked for.
    pub difference: Option<Verdict>,
    /// The tape, if it could run.
    pub tape: Option<f64>,
    /// The conclusion.
    pub verdict: RowVerdict,
    /// Why differences, or the tape, say nothing of it.
    pub silent: Vec<String>,
}

/// The conclusion about one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowVerdict {
    /// At least one oracle agrees and none disagrees.
    Ok,
    /// The point is a kink: the gradient lies between the one-sided derivatives, and the tape
    /// agrees if it could run.
    Kink,
    /// Finite differences disagree.
    NotTheDifference,
    /// The tape disagrees.
    NotTheTape,
    /// No oracle could say anything, or the gradient is NaN, which no oracle contradicts.
    Unknown,
}

impl RowVerdict {
    /// Whether an oracle disagrees.
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::NotTheDifference | Self::NotTheTape)
    }
}

/// The dot-product identity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DotProduct {
    /// ⟨ȳ, Jẋ⟩, by a forward run.
    pub forward: f64,
    /// ⟨Jᵀȳ, ẋ⟩, from the gradient.
    pub reverse: f64,
    /// Whether they are equal, as far as rounding lets one tell.
    pub holds: bool,
}

/// All that was found out about one gradient.
#[derive(Clone, Debug)]
pub struct Check {
    /// One per input.
    pub rows: Vec<Row>,
    /// Why the tape could not run.
    pub tape_error: Option<OracleError>,
    /// A store of a step of a time loop that is read when the step is over, outside of the states.
    pub stray: Option<StrayStore>,
    /// The dot-product identity, or why it could not be evaluated.
    pub dot: Result<DotProduct, String>,
}

impl Check {
    /// Whether no oracle disagrees.
    pub fn is_ok(&self) -> bool {
        self.complaints().is_empty()
    }

    /// What oracles disagree with, as sentences.
    pub fn complaints(&self) -> Vec<String> {
        let mut out = Vec::new();
        for row in self.rows.iter().filter(|r| r.verdict.is_wrong()) {
            let other = match (row.verdict, row.difference, row.tape) {
                (RowVerdict::NotTheTape, _, Some(t)) => format!("the tape says {t:?}"),
                (_, Some(Verdict::Smooth { value, error }), _) => {
                    format!("finite differences say {value:?} ± {error:.0e}")
                }
                (_, Some(Verdict::Kink { left, right }), _) => {
                    format!("the slopes at this kink are {left:?} and {right:?}")
                }
                (_, d, t) => format!("oracles say {d:?} and {t:?}"),
            };
            out.push(format!("input {}: gradient {:?}, but {other}", row.input.name(), row.gradient));
        }
        out.extend(self.stray.as_ref().map(StrayStore::to_string));
        if let Ok(DotProduct { forward, reverse, holds: false }) = self.dot {
            out.push(format!("dot product: dual numbers give {forward:?}, the gradient {reverse:?}"));
        }
        out
    }
}

/// How to get a rule whose data objects are as at the start. Runs may change them.
pub type FreshRule<'a> = &'a dyn Fn() -> Result<DerivedRule, Error>;

/// Check `outcome`, the gradient of `call`. Finite differences are left out if `differences` says
/// so. A race of tasks is an error.
pub fn check(
    program: &Program,
    call: &Invocation,
    outcome: &Outcome,
    rule: FreshRule<'_>,
    tolerances: Tolerances,
    differences: bool,
) -> Result<Check, Error> {
    let inputs = inputs(call);
    let gradient = flatten(outcome, &inputs);
    let tape = on_tape(program, call);
    if let Some(race) = tape.as_ref().err().and_then(OracleError::race) {
        return Err(Error::Diagnostics(race.diagnostic.clone().into()));
    }
    let known = tape.as_ref().ok();
    let noise = known.map_or(0.0, |t| t.noise_at(tolerances)).max(noise_of_grid(call));
    let mut samples =
        if differences { Some(Samples::new(program, call, rule, &inputs, tolerances.precision, noise)?) } else { None };
    let rounding = known.map(|t| flatten(&t.rounding, &inputs));
    let mut rows = Vec::new();
    for (i, input) in inputs.iter().enumerate().filter(|(_, i)| !i.is_other()) {
        let mut silent = Vec::new();
        let tape = known.map(|t| flatten(&t.outcome, &inputs)[i]);
        let mut difference = samples.as_mut().map(|s| s.derivative(i, &mut silent));
        if let (Some(samples), Some(Verdict::Smooth { value, .. })) = (&mut samples, difference)
            && !difference.is_some_and(|d| d.accepts(gradient[i], tolerances.differences))
        {
            let closer = samples.as_doubles(i).filter(|d| d.accepts(gradient[i], tolerances.differences));
            let near = |d: &Verdict| matches!(d, Verdict::Smooth { value: v, .. } if close(*v, value, NEARBY));
            difference = closer.filter(near).or(difference);
        }
        // What the tape loses by rounding it cannot tell.
        let off = rounding.as_ref().map_or(0.0, |r| LOST * r[i]);
        let lost = |t: f64| off > tolerances.tape * (1.0 + t.abs()) && (gradient[i] - t).abs() <= off;
        let says = tape.filter(|&t| !lost(t));
        if tape.is_some() && says.is_none() {
            silent.push(format!("the tape: terms of its sums cancel, and it may be off by {off:.0e}"));
        }
        if gradient[i].is_nan() && tape.is_some_and(f64::is_nan) {
            silent.push("the tape: it gives NaN, too".to_owned());
        }
        let says = says.filter(|&t| !is_limit(&inputs, gradient[i], t));
        let verdict = conclude(gradient[i], difference, says, tolerances);
        rows.push(Row { input: *input, gradient: gradient[i], difference, tape, verdict, silent });
    }
    let slack = rounding.as_deref();
    let dot = dot_product(program, call, &inputs, &gradient, slack, tolerances);
    let stray = known.and_then(|t| t.stray.clone());
    Ok(Check { rows, stray, tape_error: tape.err(), dot })
}

/// How far from what differences say with the noise of singles they may be with that of doubles.
const NEARBY: f64 = 0.1;

/// What the tape may be off by, in terms of what changed terms change in its sums.
const LOST: f64 = 8.0;

/// Whether one of two derivatives is NaN where an argument is infinite: there one may be the limit,
/// and another a quotient of infinities.
fn is_limit(inputs: &[Input], a: f64, b: f64) -> bool {
    a.is_nan() != b.is_nan() && inputs.iter().any(|i| i.value.is_infinite())
}

fn conclude(gradient: f64, difference: Option<Verdict>, tape: Option<f64>, tolerances: Tolerances) -> RowVerdict {
    if tape.is_some_and(|t| !close(gradient, t, tolerances.tape)) {
        return RowVerdict::NotTheTape;
    }
    match difference {
        Some(v @ Verdict::Smooth { .. }) if v.accepts(gradient, tolerances.differences) => RowVerdict::Ok,
        Some(v @ Verdict::Kink { .. }) if v.accepts(gradient, tolerances.differences) => RowVerdict::Kink,
        Some(Verdict::Smooth { .. } | Verdict::Kink { .. }) => RowVerdict::NotTheDifference,
        Some(Verdict::Unreliable(_)) | None if tape.is_some() && !gradient.is_nan() => RowVerdict::Ok,
        Some(Verdict::Unreliable(_)) | None => RowVerdict::Unknown,
    }
}

/// The objective as a function of one input at a time.
struct Samples<'a> {
    call: &'a Invocation,
    inputs: &'a [Input],
    rule: FreshRule<'a>,
    /// The rule for all samples, unless runs leave traces in its data objects.
    shared_rule: Option<DerivedRule>,
    precision: f64,
    noise: f64,
}

impl<'a> Samples<'a> {
    /// Fails if the primal cannot be compiled, or does not run at the point itself.
    fn new(
        program: &Program,
        call: &'a Invocation,
        rule: FreshRule<'a>,
        inputs: &'a [Input],
        precision: f64,
        noise: f64,
    ) -> Result<Self, Error> {
        let shared_rule = rule()?;
        objective(&shared_rule, call)?;
        let stateful = program.has_writable_data();
        Ok(Self { call, inputs, rule, shared_rule: (!stateful).then_some(shared_rule), precision, noise })
    }

    /// The objective where input `i` is `x`.
    fn at(&self, i: usize, x: f64) -> Result<f64, Error> {
        let mut values: Vec<f64> = self.inputs.iter().map(|i| i.value).collect();
        values[i] = x;
        let moved = with_inputs(self.call, self.inputs, &values);
        match &self.shared_rule {
            Some(rule) => objective(rule, &moved),
            None => objective(&(self.rule)()?, &moved),
        }
    }

    fn options(&self, input: Input) -> fd::Options {
        let unit = if input.on_grid() { GRID } else { 0.0 };
        fd::Options { precision: self.precision, f32_inputs: input.f32, noise: self.noise, steps: 0.0, size: 0.0, unit }
    }

    /// What differences say of a double among singles, if the value does not depend on it by any:
    /// steps that are so small that the noise of singles would hide them do not cross a kink.
    fn as_doubles(&self, i: usize) -> Option<Verdict> {
        let input = self.inputs[i];
        let less = f64::EPSILON / self.precision;
        let options = fd::Options { precision: f64::EPSILON, noise: self.noise * less, ..self.options(input) };
        let asked = less < 1.0 && !input.f32;
        asked.then(|| fd::derivative(|x| self.at(i, x), input.value, &options))
    }

    /// What differences say of input `i`; if they say nothing, why.
    fn derivative(&mut self, i: usize, silent: &mut Vec<String>) -> Verdict {
        let input = self.inputs[i];
        let options = self.options(input);
        let mut failed = None;
        let sample = |x| self.at(i, x).inspect_err(|e| failed = Some(format!("at {x:?} the primal fails: {e}")));
        let verdict = fd::derivative(sample, input.value, &options);
        if let Verdict::Unreliable(why) = verdict {
            let why = failed.filter(|_| why == FdFailure::Undefined).unwrap_or_else(|| why.text().to_owned());
            silent.push(format!("finite differences: {why}"));
        }
        verdict
    }
}

/// The gradient of `call` by the tape oracle, in the form of an outcome.
pub fn tape_gradient(program: &Program, call: &Invocation) -> Result<Outcome, OracleError> {
    on_tape(program, call).map(|t| t.outcome)
}

/// What the tape says.
struct TapeOutcome {
    outcome: Outcome,
    /// In the place of the gradient: how far it may be off by rounding alone.
    rounding: Outcome,
    /// The noise of the objective, in terms of the precision of the arithmetic.
    noise: f64,
    stray: Option<StrayStore>,
}

impl TapeOutcome {
    /// The noise of the objective. Known roundings may be none: what is only rounded to whole
    /// numbers leaves nothing on the tape.
    fn noise_at(&self, tolerances: Tolerances) -> f64 {
        (self.noise * tolerances.precision).max(f64::MIN_POSITIVE)
    }
}

/// What steps of time loops write, as far as the interpreter gets: a store outside of the states
/// that is read when its step is over.
pub fn stray(program: &Program, call: &Invocation) -> Option<StrayStore> {
    let program = call.interpreted(program);
    if !program.funcs.values().any(|f| matches!(f.driver, Some(Driver::Steps(_)))) {
        return None;
    }
    let memory = Memory::new(call).ok()?;
    let args: Vec<_> = oracle_args(call, &memory).into_iter().map(|a| a.value).collect();
    // SAFETY: as in `on_tape`.
    unsafe { Oracle::new(program).footprint(call.func, &args) }.ok()?
}

/// How many instructions a call executes, in all and on the longest way through its forks, if the
/// interpreter gets to the end.
pub fn work_and_span(program: &Program, call: &Invocation) -> Option<(u64, u64)> {
    let memory = Memory::new(call).ok()?;
    let args: Vec<_> = oracle_args(call, &memory).into_iter().map(|a| a.value).collect();
    // SAFETY: as in `on_tape`.
    unsafe { Oracle::new(call.interpreted(program)).work_and_span(call.func, &args) }.ok()
}

fn on_tape(program: &Program, call: &Invocation) -> Result<TapeOutcome, OracleError> {
    let memory = Memory::new(call).map_err(|e| OracleError::NotBegun(e.to_string()))?;
    let args = oracle_args(call, &memory);
    // SAFETY: pointers are to live blocks of `memory`; see `run::gradient_in` for what the program
    // may do with them.
    let r = unsafe { Oracle::new(call.interpreted(program)).gradient(call.func, &args, &call.seeds) }?.reverse;
    let entries = |lists: Vec<Option<Vec<f64>>>| -> Vec<Option<Item>> {
        let item = |l: Vec<f64>| Item::Many(l.into_iter().map(Num::F64).collect());
        lists.into_iter().skip(call.hidden()).map(|l| l.map(item)).collect()
    };
    let lists = r.arg_lanes.into_iter().zip(r.shadows).map(|(lanes, shadow)| lanes.or(shadow)).collect();
    let outcome = Outcome {
        value: crate::run::items(call, &r.values),
        buffers: crate::run::contents(call, &memory),
        gradient: entries(lists),
        tape_bytes: r.tape_bytes,
        loops: LoopStats::default(),
        plans: Vec::new(),
        inverses: InverseStats::default(),
    };
    let rounding = Outcome { gradient: entries(r.rounding), ..outcome.clone() };
    Ok(TapeOutcome { outcome, rounding, noise: r.noise, stray: r.stray })
}

/// ⟨ȳ, Jẋ⟩ against ⟨Jᵀȳ, ẋ⟩ for a random direction.
fn dot_product(
    program: &Program,
    call: &Invocation,
    inputs: &[Input],
    gradient: &[f64],
    rounding: Option<&[f64]>,
    tolerances: Tolerances,
) -> Result<DotProduct, String> {
    let mut noise = Noise::new(1);
    let direction = direction(inputs, &mut noise);
    let hidden = call.hidden();
    let mut tangents = vec![Tangent::Zero; hidden + call.args.len()];
    for (input, x) in inputs.iter().zip(&direction) {
        match (&mut tangents[hidden + input.arg], call.buffer(input.arg).is_some()) {
            (Tangent::Lanes(t) | Tangent::Buffer(t), _) => t.push(*x),
            (t @ Tangent::Zero, true) => *t = Tangent::Buffer(vec![*x]),
            (t @ Tangent::Zero, false) => *t = Tangent::Lanes(vec![*x]),
        }
    }
    let memory = Memory::new(call).map_err(|e| e.to_string())?;
    let args = oracle_args(call, &memory);
    // SAFETY: as in `tape_gradient`.
    let r = unsafe { Oracle::new(call.interpreted(program)).tangent(call.func, &args, &tangents) }
        .map_err(|e| e.to_string())?;
    let mut terms = Vec::new();
    for ((seed, ty), tangent) in call.seeds.iter().zip(&call.returns).zip(&r.results) {
        let seed = from_data(seed, *ty);
        terms.extend(tangent.iter().flatten().zip(seed.nums()).map(|(t, s)| (s.as_f64(), *t)));
    }
    for arg in (0..call.args.len()).filter(|a| call.owns_shadow(*a)) {
        let shadow = args[hidden + arg].shadow.iter().flatten();
        terms.extend(shadow.zip(r.buffers[hidden + arg].iter().flatten()).map(|(s, t)| (*s, *t)));
    }
    let (forward, forward_size) = terms_of(&terms);
    let lost = terms_of(&rounding.into_iter().flatten().copied().zip(direction.iter().copied()).collect::<Vec<_>>()).1;
    let reverse_terms: Vec<_> = gradient.iter().copied().zip(direction).collect();
    let (reverse, reverse_size) = terms_of(&reverse_terms);
    if !forward.is_finite() || !reverse.is_finite() {
        // An infinite slope: the two sides are sums of infinities, which say nothing about each
        // other.
        return Err("not finite".to_owned());
    }
    let apart = (forward - reverse).abs();
    let holds = apart <= tolerances.tape * (1.0 + forward_size.max(reverse_size));
    if !holds && apart <= LOST * lost {
        // Forward mode loses what the tape does.
        return Err(format!("terms cancel, and it may be off by {:.0e}", LOST * lost));
    }
    Ok(DotProduct { forward, reverse, holds })
}

/// A sum of products, and that of their magnitudes. A first factor that is exactly zero makes its
/// product zero.
fn terms_of(terms: &[(f64, f64)]) -> (f64, f64) {
    let terms = terms.iter().filter(|(s, _)| *s != 0.0).map(|(s, t)| s * t);
    terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()))
}
