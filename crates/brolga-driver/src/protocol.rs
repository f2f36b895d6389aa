//! Protocol of derived rules: what every derived rule promises beside a right gradient.
//!
//! **Question.** Does the rule of a call keep its promises?
//!
//! **Answer.** [`violations`] derives rules under many options, runs them, and says what they
//! break. For a call, and for both memory modes:
//!
//! - the forward pass returns what the primal returns and leaves in memory what the primal leaves,
//!   bit for bit;
//! - after the pullback memory is as the mode says: left, or restored;
//! - addresses that it returns or leaves in memory point where the primal's would: into the same
//!   argument, as far in;
//! - a second run gives the same bits, and so do two threads that run one rule at once;
//! - the pullback can be called again, with other seeds, and then gives what a fresh run with those
//!   seeds gives;
//! - what comes out is linear in seeds and initial shadows together;
//! - nothing is written outside of its bounds;
//! - a debug run has nothing to complain of, and gives the same bits;
//! - with some of the passes turned off, and with little effort, it gives the same numbers;
//! - when its calls have paid for more effort, it gives the same bits as before, but for signs of
//!   zeros;
//! - with calls replaced by what they call it computes the same bits and, but for roundings, the
//!   same gradient;
//! - where shadows may be overwritten it stores the same numbers, whatever was there;
//! - forward mode gives the same value, and tangents that fit the gradient;
//! - a batch of derivatives is what a run for each of them gives, bit for bit;
//! - where the caller does not read what it writes it computes the same numbers;
//! - as one function for both halves, with results and without, it does the same: bit for bit, but
//!   for signs of zeros in gradients.
//!
//! Buffers cannot move, since the driver owns them; that a pullback leaves its stacks empty,
//! [`brolga::Pullback::call`] asserts itself; that a second call allocates nothing needs an
//! allocator that counts, which the file tests have.
//!
//! And of the text: the same request gives the same dump twice, and emitted CLIF can be read back
//! ([`dump_violations`]).
//!
//! **Cost.** Some dozens of derivations and runs for a call that is asked about all promises. A
//! [`Share`] divides them among calls that follow each other.

mod batches;
mod inlined;
mod known;
mod overwritten;
mod subject;
mod tangents;
mod tiers;
mod unmoored;
mod unneeded;

use brolga::{ArgActivity, Effort, Error, MemoryMode, Mode, Options, Pass, PassSet, Program, Request, Stage, TapeKind};

use crate::bind::Invocation;
use crate::run::{Outcome, gradient};
use brolga_ir::panics::catch;
use subject::Subject;
use unmoored::{describe, run_anywhere, same_contents};

pub use subject::{Deriver, derive, reseeded};

/// Which promises a call is asked about: rules under many options, which take long to derive.
#[derive(Clone, Copy, Debug)]
pub enum Share {
    /// All of them.
    All,
    /// Those of the memory mode that leaves memory, and of the others those whose turn it is: in
    /// [`Share::COUNT`] calls with numbers that follow each other, all.
    Turn(usize),
}

impl Share {
    /// Into how many shares the promises are divided.
    pub const COUNT: usize = 4;

    fn has(self, share: usize) -> bool {
        match self {
            Share::All => true,
            Share::Turn(turn) => turn % Self::COUNT == share,
        }
    }
}

/// Promises that the rule of `call` breaks, as sentences. `tol` is for what need not agree bit by
/// bit.
pub fn violations(program: &Program, call: &Invocation, tol: f64, share: Share) -> Result<Vec<String>, Error> {
    let mut found = violations_of(program, call, tol, share, &|options| derive(program, &call.request(), options))?;
    if share.has(2) {
        found.extend(overwritten::violations(program, call)?);
        found.extend(unneeded::violations(program, call)?);
        found.extend(known::violations(program, call)?);
    }
    if share.has(3) {
        found.extend(tangents::violations(program, call, tol)?);
        found.extend(batches::violations(program, call));
    }
    Ok(found)
}

/// [`violations`] of rules that `rule` makes.
pub fn violations_of(
    program: &Program,
    call: &Invocation,
    tol: f64,
    share: Share,
    rule: Deriver<'_>,
) -> Result<Vec<String>, Error> {
    let (mut found, leave) = violations_in(program, call, MemoryMode::Leave, tol, rule)?;
    let in_order = Options { disabled: Pass::REORDERING.set(Pass::CostModel, false), ..Options::as_calls() };
    for mode in [Mode::Combined, Mode::Gradient] {
        found.extend(together(call, &leave, Options { mode, ..in_order.clone() }, rule));
    }
    if share.has(0) {
        found.extend(restored(program, call, tol, &leave, rule)?);
    }
    if share.has(1) {
        found.extend(chosen_options(call, tol, &leave, rule));
    }
    Ok(found)
}

/// One function for both halves does what two do, whose outcome is `split`.
fn together(call: &Invocation, split: &Outcome, options: Options, rule: Deriver<'_>) -> Vec<String> {
    let (mode, memory) = (options.mode, options.memory);
    match rule(&options).and_then(|rule| run_anywhere(&rule, call)) {
        Ok(one) => as_one(&one, split, mode).into_iter().map(|c| format!("{mode:?}, {memory:?}: {c}")).collect(),
        Err(e) => vec![format!("{mode:?}, {memory:?}: {e}")],
    }
}

/// What is promised where memory is restored; and of debug runs and of inlining, which are compared
/// with both modes. `leave` is the outcome where memory is left.
fn restored(
    program: &Program,
    call: &Invocation,
    tol: f64,
    leave: &Outcome,
    rule: Deriver<'_>,
) -> Result<Vec<String>, Error> {
    let (mut found, restore) = violations_in(program, call, MemoryMode::Restore, tol, rule)?;
    // Memory that is put back has been read in between, so that other sums begin with a zero.
    if !leave.equal_gradient(&restore) {
        found.push("the gradient depends on the memory mode".to_owned());
    }
    let debug = Options { debug: true, ..Options::as_calls() };
    match rule(&debug).and_then(|rule| gradient(&rule, call)) {
        Ok(outcome) if outcome.same_gradient(leave) => {}
        Ok(_) => found.push("a debug run gives another gradient".to_owned()),
        Err(e) => found.push(format!("debug run: {e}")),
    }
    for (mode, debug) in [(Mode::Combined, true), (Mode::Gradient, false)] {
        // With all that is possible, be it worth it or not; but with nothing that adds in another
        // order.
        let disabled = Pass::REORDERING.set(Pass::CostModel, true);
        let options = Options { mode, memory: MemoryMode::Restore, debug, disabled, ..Options::as_calls() };
        found.extend(together(call, &restore, options, rule));
    }
    found.extend(inlined::violations(program, call, tol, chosen(call), rule, (leave, &restore)));
    Ok(found)
}

/// What is promised whatever the options are: some of the passes, others for each call, and in the
/// same way what else there is to choose from.
fn chosen_options(call: &Invocation, tol: f64, leave: &Outcome, rule: Deriver<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let (bits, choice) = chosen(call);
    let mode = [Mode::Split, Mode::Combined, Mode::Gradient, Mode::Gradient][(choice & 3) as usize];
    let memory = if choice >> 2 & 1 == 0 { MemoryMode::Leave } else { MemoryMode::Restore };
    let all = PassSet::of_bits(!bits);
    let some = all.and(Pass::REORDERING);
    let tape = if choice >> 9 & 1 == 0 { TapeKind::Fenced } else { TapeKind::Checked };
    // Loops that are run again, wherever that can be done, add in another order.
    let rerun = all.and(Pass::CostModel.into()).without(PassSet::of(&[Pass::Dce, Pass::Reload, Pass::RerunLoops]));
    // What adds in the same order must give the same bits where little effort is made, too.
    let same_order = Pass::REORDERING;
    let (full, quick) = (Effort::Full, Effort::Quick);
    for (mode, disabled, effort) in [(mode, some, full), (Mode::Gradient, rerun, full), (mode, same_order, quick)] {
        let options = Options { mode, memory, disabled, effort, tape, ..Options::as_calls() };
        match rule(&options).and_then(|rule| run_anywhere(&rule, call)) {
            Ok(other) if options.runs(Pass::RerunLoops) && other.apart(leave, tol).is_none() => {}
            Ok(other) if other.equal_gradient(leave) && (mode == Mode::Gradient || other.same_value(leave)) => {}
            Ok(other) => found.push(format!(
                "{mode:?}, {effort:?} without {disabled:?}: the gradient is {}, else {}",
                describe(&other),
                describe(leave)
            )),
            Err(e) => found.push(format!("{mode:?}, {effort:?} without {disabled:?}: {e}")),
        }
    }
    found.extend(tiers::violations(call, mode, memory, rule));
    if mode != Mode::Gradient {
        // Where only a gradient is asked for, more is done to it.
        found.extend(tiers::violations(call, Mode::Gradient, memory, rule));
    }
    found
}

/// Two numbers that differ from call to call and are the same in every run: one bit for each pass,
/// and others for whatever else there is to choose from.
fn chosen(call: &Invocation) -> (u32, u32) {
    let text = format!("{}{:?}", call.symbol, call.args);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    // The last bytes of the text have not reached all bits.
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed as u32 ^ (mixed >> 32) as u32, (mixed >> 40) as u32)
}

/// What one function for both halves does differently from two.
fn as_one(one: &Outcome, split: &Outcome, mode: Mode) -> Vec<String> {
    let mut found = Vec::new();
    if !one.equal_gradient(split) {
        found.push(format!("the gradient is {}, that of two functions {}", describe(one), describe(split)));
    }
    if mode == Mode::Combined && !one.same_value(split) {
        found.push(format!("the value is {:?}, that of two functions {:?}", one.value, split.value));
    }
    same_contents("one function", &split.buffers, &one.buffers, &mut found);
    found
}

/// [`violations_of`] in one memory mode, and what came out.
pub fn violations_in(
    program: &Program,
    call: &Invocation,
    memory: MemoryMode,
    tol: f64,
    rule: Deriver<'_>,
) -> Result<(Vec<String>, Outcome), Error> {
    let options = Options { memory, ..Options::as_calls() };
    let name = if memory == MemoryMode::Leave { "memory leave" } else { "memory restore" };
    let mut found = Vec::new();
    let outcome = Subject::new(program, call, options, rule)?.run(&mut found, tol)?;
    Ok((found.into_iter().map(|c| format!("{name}: {c}")).collect(), outcome))
}

/// Stages whose text is CLIF.
const CLIF_STAGES: [Stage; 5] =
    [Stage::Normalised, Stage::ClifForward, Stage::ClifPullback, Stage::ClifCombined, Stage::ClifTangent];

/// What is wrong with the dumps of a request, as sentences.
pub fn dump_violations(program: &Program, request: &Request, options: &Options) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let dumps = || {
        catch(|| brolga::dumps(program, request, options, &Stage::ALL))
            .unwrap_or_else(|message| Err(Error::Internal { stage: "dump", message }))
    };
    for ((stage, text), repeat) in Stage::ALL.into_iter().zip(dumps()?).zip(dumps()?) {
        if text != repeat {
            found.push(format!("two dumps of stage {} differ", stage.name()));
        }
        if CLIF_STAGES.contains(&stage) {
            let parsed = catch(|| cranelift_reader::parse_functions(&text).map(|f| f.len()).map_err(|e| e.to_string()));
            match parsed.and_then(|r| r) {
                Ok(0) => found.push(format!("the dump of stage {} has no function", stage.name())),
                Ok(_) => {}
                Err(e) => found.push(format!("the dump of stage {} cannot be read back: {e}", stage.name())),
            }
        }
    }
    Ok(found)
}

/// The gradient of a call whose seeds and shadows are random, against the tape. `None` if the tape
/// cannot run.
pub fn disagreement_with_tape(program: &Program, call: &Invocation, tol: f64) -> Result<Option<String>, Error> {
    disagreement_with_tape_of(program, call, tol, &|options| derive(program, &call.request(), options))
}

/// [`disagreement_with_tape`] of a rule that `rule` makes.
pub fn disagreement_with_tape_of(
    program: &Program,
    call: &Invocation,
    tol: f64,
    rule: Deriver<'_>,
) -> Result<Option<String>, Error> {
    let call = reseeded(call, 5);
    let options = Options { memory: call.memory, ..Options::full() };
    let outcome = gradient(&rule(&options)?, &call)?;
    let Ok(tape) = crate::check::tape_gradient(program, &call) else { return Ok(None) };
    Ok(outcome.apart(&tape, tol).map(|(arg, i, a, b)| {
        format!("random seeds and shadows: argument {arg}, element {i}: {a:?}, but the tape says {b:?}")
    }))
}

/// Whether a rule returns nothing for arguments that are constant, and something for those that are
/// active.
pub fn shape_violations(call: &Invocation, outcome: &Outcome) -> Vec<String> {
    let entries = call.specs.iter().zip(&outcome.gradient).enumerate();
    entries
        .filter(|(_, (spec, entry))| (spec.activity == ArgActivity::Const) != entry.is_none())
        .map(|(i, (spec, entry))| {
            let found = if entry.is_some() { "a" } else { "no" };
            format!("argument {i} is {:?} and has {found} cotangent", spec.activity)
        })
        .collect()
}
