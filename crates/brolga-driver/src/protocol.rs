//! What every derived rule promises beside a right gradient.
//!
//! For a call, and for both memory modes:
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
//! And of the text: the same request gives the same dump twice, and emitted CLIF can be read back.

mod batches;
mod inlined;
mod known;
mod overwritten;
mod tangents;
mod tiers;
mod unneeded;

use brolga::{
    ArgActivity, DerivedRule, Effort, Error, MemoryMode, Mode, Options, Pass, PassSet, Program, Request, Stage,
    TapeKind,
};

use crate::bind::{BoundArg, Invocation};
use crate::compare::close;
use crate::memory::{Block, Memory};
use crate::noise::Noise;
use crate::quiet::catch;
use crate::run::{Outcome, collect, contents, gradient, gradient_in, items, primal_in};
use crate::value::{Item, Num, is_float, to_data};

/// Differentiate; a panic inside is the bug that it is, but does not end the process.
pub fn derive(program: &Program, request: &Request, options: &Options) -> Result<DerivedRule, Error> {
    catch(|| DerivedRule::new(program, request, options))
        .unwrap_or_else(|message| Err(Error::Internal { stage: "derive", message }))
}

/// How to get a rule for a set of options. Nearly always [`derive()`]; tests of the tests pass
/// wrong rules on purpose.
pub type Deriver<'a> = &'a dyn Fn(&Options) -> Result<DerivedRule, Error>;

/// Promises that the rule of `call` breaks, as sentences. `tol` is for what need not agree bit by
/// bit.
pub fn violations(program: &Program, call: &Invocation, tol: f64) -> Result<Vec<String>, Error> {
    let mut found = violations_of(program, call, tol, &|options| derive(program, &call.request(), options))?;
    found.extend(overwritten::violations(program, call)?);
    found.extend(unneeded::violations(program, call)?);
    found.extend(known::violations(program, call)?);
    found.extend(tangents::violations(program, call, tol)?);
    found.extend(batches::violations(program, call));
    Ok(found)
}

/// [`violations`] of rules that `rule` makes.
pub fn violations_of(program: &Program, call: &Invocation, tol: f64, rule: Deriver<'_>) -> Result<Vec<String>, Error> {
    let (mut found, leave) = violations_in(program, call, MemoryMode::Leave, tol, rule)?;
    let (others, restore) = violations_in(program, call, MemoryMode::Restore, tol, rule)?;
    found.extend(others);
    // Memory that is put back has been read in between, so that other sums begin with a zero.
    if !leave.equal_gradient(&restore) {
        found.push("the gradient depends on the memory mode".to_owned());
    }
    let debug = Options { debug: true, ..Options::as_calls() };
    match rule(&debug).and_then(|rule| gradient(&rule, call)) {
        Ok(outcome) if outcome.same_gradient(&leave) => {}
        Ok(_) => found.push("a debug run gives another gradient".to_owned()),
        Err(e) => found.push(format!("debug run: {e}")),
    }
    for (mode, memory, debug) in [
        (Mode::Combined, MemoryMode::Leave, false),
        (Mode::Gradient, MemoryMode::Leave, false),
        (Mode::Combined, MemoryMode::Restore, true),
        (Mode::Gradient, MemoryMode::Restore, false),
    ] {
        let split = if memory == MemoryMode::Leave { &leave } else { &restore };
        // Where memory is restored, with all that is possible, be it worth it or not; but not with
        // what adds in another order.
        let disabled = Pass::REORDERING.set(Pass::CostModel, memory != MemoryMode::Leave);
        let options = Options { mode, memory, debug, disabled, ..Options::as_calls() };
        match rule(&options).and_then(|rule| run_anywhere(&rule, call)) {
            Ok(one) => {
                found.extend(as_one(&one, split, mode).into_iter().map(|c| format!("{mode:?}, {memory:?}: {c}")))
            }
            Err(e) => found.push(format!("{mode:?}, {memory:?}: {e}")),
        }
    }
    // Some of the passes, others for each call, and in the same way what else there is to choose
    // from.
    let (bits, choice) = chosen(call);
    let mode = [Mode::Split, Mode::Combined, Mode::Gradient, Mode::Gradient][(choice & 3) as usize];
    let memory = if choice >> 2 & 1 == 0 { MemoryMode::Leave } else { MemoryMode::Restore };
    let all = PassSet::of_bits(!bits);
    let some = all.and(Pass::REORDERING);
    let tape = if choice >> 9 & 1 == 0 { TapeKind::Fenced } else { TapeKind::Checked };
    // Loops that are run again, wherever that can be done, add in another order.
    let again = all.and(Pass::CostModel.into()).without(PassSet::of(&[Pass::Dce, Pass::Reload, Pass::RerunLoops]));
    // What adds in the same order must give the same bits where little effort is made, too.
    let same_order = Pass::REORDERING;
    let (full, quick) = (Effort::Full, Effort::Quick);
    for (mode, disabled, effort) in [(mode, some, full), (Mode::Gradient, again, full), (mode, same_order, quick)] {
        let options = Options { mode, memory, disabled, effort, tape, ..Options::as_calls() };
        match rule(&options).and_then(|rule| run_anywhere(&rule, call)) {
            Ok(other) if options.runs(Pass::RerunLoops) && other.apart(&leave, tol).is_none() => {}
            Ok(other) if other.equal_gradient(&leave) && (mode == Mode::Gradient || other.same_value(&leave)) => {}
            Ok(other) => found.push(format!(
                "{mode:?}, {effort:?} without {disabled:?}: the gradient is {}, else {}",
                describe(&other),
                describe(&leave)
            )),
            Err(e) => found.push(format!("{mode:?}, {effort:?} without {disabled:?}: {e}")),
        }
    }
    found.extend(tiers::violations(call, mode, memory, rule));
    if mode != Mode::Gradient {
        // Where only a gradient is asked for, more is done to it.
        found.extend(tiers::violations(call, Mode::Gradient, memory, rule));
    }
    found.extend(inlined::violations(program, call, tol, (bits, choice), rule, (&leave, &restore)));
    Ok(found)
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

/// A call under one set of options.
struct Subject<'a> {
    derive: Deriver<'a>,
    call: &'a Invocation,
    options: Options,
    /// The rule, unless runs leave traces in its data objects.
    stateless: Option<DerivedRule>,
}

impl<'a> Subject<'a> {
    fn new(program: &Program, call: &'a Invocation, options: Options, derive: Deriver<'a>) -> Result<Self, Error> {
        let rule = derive(&options)?;
        let stateful = program.has_writable_data();
        Ok(Self { derive, call, options, stateless: (!stateful).then_some(rule) })
    }

    /// A rule whose data objects are as at the start.
    fn rule(&self) -> Result<DerivedRule, Error> {
        match &self.stateless {
            Some(rule) => Ok(rule.clone()),
            None => (self.derive)(&self.options),
        }
    }

    fn run(&self, found: &mut Vec<String>, tol: f64) -> Result<Outcome, Error> {
        let first = self.one_run(found)?;
        let again = run_anywhere(&self.rule()?, self.call)?;
        // Unless there are data objects, both runs are of the same compiled code.
        if !again.same_gradient(&first) || !again.same_value(&first) {
            found.push("a second run gives other bits".to_owned());
        }
        self.threads(&first, found);
        self.linear(&first, found, tol)?;
        Ok(first)
    }

    /// One forward run and three pullbacks, watched closely.
    fn one_run(&self, found: &mut Vec<String>) -> Result<Outcome, Error> {
        let call = self.call;
        let mut plain = Memory::new(call)?;
        let value = primal_in(&self.rule()?, call, &mut plain)?;
        let value = Unmoored::new(call, &plain).items(&value);
        let after_primal = Unmoored::new(call, &plain).contents();

        let rule = self.rule()?;
        let mut memory = Memory::new(call)?;
        let before = Unmoored::new(call, &memory).contents();
        // SAFETY: as in `run::gradient_in`.
        let (results, mut pullback) = unsafe { rule.forward(&memory.arguments()) }?;
        let forward_value = Unmoored::new(call, &memory).items(&items(call, &results));
        if !(value.len() == forward_value.len() && value.iter().zip(&forward_value).all(|(a, b)| a.same_bits(b))) {
            found.push(format!("the forward pass returns {forward_value:?}, the primal {value:?}"));
        }
        same_contents("the forward pass", &after_primal, &Unmoored::new(call, &memory).contents(), found);
        // SAFETY: `memory` is alive.
        let cotangents = unsafe { pullback.call(&call.seeds) }?;
        let first = collect(call, &memory, &results, &cotangents, pullback.tape_bytes());
        let first = Unmoored::new(call, &memory).outcome(&first);
        let promised = if self.options.memory == MemoryMode::Leave { &after_primal } else { &before };
        same_contents("the pullback", promised, &Unmoored::new(call, &memory).contents(), found);

        let other = reseeded(call, 2);
        for (what, call) in [("with other seeds", &other), ("with the first seeds again", call)] {
            memory.reset_shadows(call);
            // SAFETY: `memory` is alive.
            let cotangents = unsafe { pullback.call(&call.seeds) }?;
            let repeated = collect(call, &memory, &results, &cotangents, pullback.tape_bytes());
            let repeated = Unmoored::new(call, &memory).outcome(&repeated);
            let fresh = run_anywhere(&self.rule()?, call)?;
            if !repeated.same_gradient(&fresh) {
                found.push(format!(
                    "a pullback called again {what} gives {}, a fresh run {}",
                    describe(&repeated),
                    describe(&fresh)
                ));
            }
            same_contents("a repeated pullback", promised, &Unmoored::new(call, &memory).contents(), found);
        }
        if let Some(damage) = memory.damage() {
            found.push(damage);
        }
        Ok(first)
    }

    /// Two threads, one rule.
    fn threads(&self, first: &Outcome, found: &mut Vec<String>) {
        let (Some(rule), call) = (&self.stateless, self.call) else { return };
        let work = || catch(|| run_anywhere(rule, call));
        let outcomes = std::thread::scope(|s| {
            let handles = [s.spawn(work), s.spawn(work)];
            handles.map(|h| h.join().unwrap_or_else(|_| Err("a thread died".to_owned())))
        });
        for outcome in outcomes {
            match outcome {
                Ok(Ok(o)) if o.same_gradient(first) && o.same_value(first) => {}
                Ok(Ok(o)) => found.push(format!(
                    "two threads at once: one gets {}, a run alone {}",
                    describe(&o),
                    describe(first)
                )),
                Ok(Err(e)) => found.push(format!("two threads at once: {e}")),
                Err(panic) => found.push(format!("two threads at once: panic: {panic}")),
            }
        }
    }

    /// G(s + r) = G(s) + G(r), for seeds and initial shadows together.
    fn linear(&self, first: &Outcome, found: &mut Vec<String>, tol: f64) -> Result<(), Error> {
        let other = reseeded(self.call, 3);
        let sum = added(self.call, &other);
        let g_other = gradient(&self.rule()?, &other)?;
        let g_sum = gradient(&self.rule()?, &sum)?;
        for (arg, ((a, b), c)) in first.gradient.iter().zip(&g_other.gradient).zip(&g_sum.gradient).enumerate() {
            let (Some(a), Some(b), Some(c)) = (a, b, c) else { continue };
            for (i, ((a, b), c)) in a.nums().iter().zip(b.nums()).zip(c.nums()).enumerate() {
                let (a, b, c) = (a.as_f64(), b.as_f64(), c.as_f64());
                let scale = 1.0 + a.abs().max(b.abs());
                // Infinite slopes are not linear: a zero seed takes them out altogether.
                if a.is_finite() && b.is_finite() && c.is_finite() && !close(c / scale, (a + b) / scale, tol) {
                    found.push(format!(
                        "argument {arg}, element {i}: not linear in seeds and shadows: {a:?} + {b:?} is not {c:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The call with other seeds and other initial shadows.
pub fn reseeded(call: &Invocation, seed: u64) -> Invocation {
    let mut noise = Noise::new(seed);
    let mut out = call.clone();
    for (s, ty) in out.seeds.iter_mut().zip(&call.returns) {
        if is_float(*ty) {
            *s = to_data(*ty, |_| Num::F64(noise.unit())).unwrap_or_else(|| s.clone());
        }
    }
    for arg in &mut out.args {
        if let BoundArg::Buffer { elem, shadow, .. } = arg
            && elem.is_float()
        {
            let elem = *elem;
            shadow.chunks_exact_mut(elem.bytes()).for_each(|b| Num::F64(noise.unit()).encode(elem, b));
        }
    }
    out
}

/// The call with the sum of the seeds and initial shadows of two.
fn added(a: &Invocation, b: &Invocation) -> Invocation {
    let mut out = a.clone();
    for ((s, t), ty) in out.seeds.iter_mut().zip(&b.seeds).zip(&a.returns) {
        if is_float(*ty) {
            let (x, y) = (crate::value::from_data(s, *ty), crate::value::from_data(t, *ty));
            let sum = to_data(*ty, |i| Num::F64(x.nums()[i].as_f64() + y.nums()[i].as_f64()));
            *s = sum.unwrap_or_else(|| s.clone());
        }
    }
    for (x, y) in out.args.iter_mut().zip(&b.args) {
        if let (BoundArg::Buffer { elem, shadow, .. }, BoundArg::Buffer { shadow: other, .. }) = (x, y)
            && elem.is_float()
        {
            let n = elem.bytes();
            for (s, t) in shadow.chunks_exact_mut(n).zip(other.chunks_exact(n)) {
                let sum = Num::decode(*elem, s).as_f64() + Num::decode(*elem, t).as_f64();
                Num::F64(sum).encode(*elem, s);
            }
        }
    }
    out
}

/// Contents of all buffers, addresses unmoored.
type Contents = Vec<Option<Vec<Num>>>;

fn same_contents(who: &str, expected: &Contents, actual: &Contents, found: &mut Vec<String>) {
    for (arg, (e, a)) in expected.iter().zip(actual).enumerate() {
        let (Some(e), Some(a)) = (e, a) else { continue };
        if let Some(i) = e.iter().zip(a).position(|(e, a)| !e.same_bits(*a)) {
            let (e, a) = (told(e[i]), told(a[i]));
            found.push(format!("{who} leaves {a} in element {i} of argument {arg} instead of {e}"));
        }
    }
}

/// Numbers as they would read if memory lay elsewhere: an address inside a buffer becomes a number
/// beyond all addresses that names the argument and the offset. The end of a buffer counts as
/// inside; fences keep it from being another's start.
struct Unmoored<'a> {
    call: &'a Invocation,
    memory: &'a Memory,
    /// Start and length of every buffer and every shadow.
    blocks: Vec<(u64, u64)>,
}

/// Where unmoored addresses begin, and how far blocks are apart there.
const SEA: i128 = 1 << 100;
const BERTH: i128 = 1 << 64;

impl<'a> Unmoored<'a> {
    fn new(call: &'a Invocation, memory: &'a Memory) -> Self {
        let extent = |b: Option<&Block>| b.map_or((0, 0), |b| (b.address(), b.bytes().len() as u64));
        let buffers = (0..call.args.len()).map(|i| memory.buffer(i));
        let blocks = buffers.flat_map(|b| [extent(b.map(|b| &b.primal)), extent(b.map(|b| &b.shadow))]).collect();
        Self { call, memory, blocks }
    }

    fn num(&self, num: Num) -> Num {
        let Num::Int(v) = num else { return num };
        let Ok(address) = i64::try_from(v).map(|v| v as u64) else { return num };
        let inside = |(start, len): &(u64, u64)| *start != 0 && (*start..=start + len).contains(&address);
        match self.blocks.iter().position(inside) {
            Some(k) => Num::Int(SEA + k as i128 * BERTH + i128::from(address - self.blocks[k].0)),
            None => num,
        }
    }

    fn item(&self, item: &Item) -> Item {
        match item {
            Item::One(n) => Item::One(self.num(*n)),
            Item::Many(v) => Item::Many(v.iter().map(|n| self.num(*n)).collect()),
        }
    }

    fn items(&self, results: &[Item]) -> Vec<Item> {
        results.iter().map(|v| self.item(v)).collect()
    }

    fn contents(&self) -> Contents {
        let all = contents(self.call, self.memory);
        all.into_iter().map(|c| c.map(|nums| nums.into_iter().map(|n| self.num(n)).collect())).collect()
    }

    fn outcome(&self, o: &Outcome) -> Outcome {
        Outcome {
            value: self.items(&o.value),
            buffers: self.contents(),
            gradient: o.gradient.iter().map(|g| g.as_ref().map(|g| self.item(g))).collect(),
            tape_bytes: o.tape_bytes,
            loops: o.loops,
            inverses: o.inverses,
        }
    }
}

/// A number as a person would say it.
fn told(num: Num) -> String {
    match num {
        Num::Int(v) if v >= SEA => {
            let (block, offset) = ((v - SEA) / BERTH, (v - SEA) % BERTH);
            let what = if block % 2 == 0 { "argument" } else { "the shadow of argument" };
            format!("the address of {what} {} + {offset}", block / 2)
        }
        other => format!("{other:?}"),
    }
}

/// [`gradient`], its addresses unmoored.
fn run_anywhere(rule: &DerivedRule, call: &Invocation) -> Result<Outcome, Error> {
    let mut memory = Memory::new(call)?;
    let outcome = gradient_in(rule, call, &mut memory)?;
    Ok(Unmoored::new(call, &memory).outcome(&outcome))
}

fn describe(outcome: &Outcome) -> String {
    let entries: Vec<_> =
        outcome.gradient.iter().map(|g| g.as_ref().map_or_else(|| "null".to_owned(), crate::output::show)).collect();
    format!("[{}]", entries.join(", "))
}

/// Stages whose text is CLIF.
const CLIF_STAGES: [Stage; 5] =
    [Stage::Normalised, Stage::ClifForward, Stage::ClifPullback, Stage::ClifCombined, Stage::ClifTangent];

/// What is wrong with the dumps of a request, as sentences.
pub fn dump_violations(program: &Program, request: &Request, options: &Options) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for stage in Stage::ALL {
        let dump = || {
            catch(|| brolga::dump(program, request, options, stage))
                .unwrap_or_else(|message| Err(Error::Internal { stage: "dump", message }))
        };
        let text = dump()?;
        if text != dump()? {
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
