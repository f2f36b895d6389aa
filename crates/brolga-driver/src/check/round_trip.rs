//! Round trips: a function and its inverse, one after the other, from random states.
//!
//! **Question.** Does `~f` undo `f`?
//!
//! **Answer.** States around that of a call are tried. Floats are moved, and in every other state
//! also the integers that `f` changes, if no address is made of them. After both functions
//!
//! - integers are what they were, bit by bit, and so are fixed-point numbers, unless floats are
//!   changed beside them;
//! - floats are as near to what they were as the function says ([`Tolerance::allows`]). A run whose
//!   calls are checked refuses the same;
//! - where a check of the function fails, the state is what it was, bit by bit.
//!
//! A difference is no fault of the inverse if roundings of the state that it is given grow as
//! large: a second run, of a state with other last digits, says so.
//!
//! Of a reversible function the file says what is a state. Of a function in CLIF that another one
//! undoes, what declares that says it; then `f` changes nothing else, which is compared, too.
//! Integers stay where an index may be among them: where something of a file of reversible
//! functions is not checked, and in states of an inverse that is not derived.
//!
//! **Cost.** Both functions are compiled once. For each state a run of each, and a few comparisons
//! of all buffers; where a float differs by more than is allowed, four runs of the inverse more.

use brolga::{Error, FuncKey, InverseCheck, Options, Primal, Program, StateLength, Tolerance};
use brolga_reversible::ast::{CheckMode, FnParam, Function, Stmt, StmtKind, Type};
use brolga_reversible::{Fault, PlaceWord};

use crate::bind::{BoundArg, Invocation};
use crate::inputs::on_grid;
use crate::memory::Memory;
use crate::noise::Noise;
use crate::reversible::KnownInverses;
use crate::value::Num;

/// How many states are tried.
pub const STATES: u64 = 64;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// States from which both have run.
    pub undone: u64,
    /// States that a check of the function has refused, and left as they were.
    pub refused: u64,
    /// States from which something else has trapped, numbers have become infinite or NaN, or
    /// roundings have grown beyond what is allowed.
    pub left_out: u64,
    /// What is wrong.
    pub wrong: Option<String>,
    /// Whether floats are compared bit by bit.
    pub by_bits: bool,
}

/// What is called, and what each argument is to the two.
struct UndonePair {
    other: FuncKey,
    args: Vec<UndoneArg>,
    check: CheckMode,
    moves_integers: bool,
}

/// An argument of both.
#[derive(Clone, Copy)]
struct UndoneArg {
    /// How many bytes of it are a state.
    state: usize,
    /// Whether no bit of the state differs after both.
    exact: bool,
    /// Whether it is made of fixed-point numbers.
    on_grid: bool,
    /// Whether floats that are zero stay so: it may be a stack, above whose top there are such.
    keeps_zeros: bool,
    /// Whether integers of the state may be others.
    moves: bool,
}

/// Call a function and its inverse from so many states; none if it has no inverse. Floats differ by
/// no more than `check` allows, or where it is none, as the function says; of one in CLIF, which
/// says nothing, they do not differ.
///
/// # Errors
/// If they cannot be compiled, or write past what they are given.
pub fn round_trip(
    program: &Program,
    known: KnownInverses<'_>,
    call: &Invocation,
    check: InverseCheck,
    states: u64,
) -> Result<Option<RoundTrip>, Error> {
    let pair = reversible_pair(program, known, call, check).or_else(|| undone_pair(program, known, call, check));
    let Some(pair) = pair else { return Ok(None) };
    // What undoes itself is compiled once.
    let both = [call.func, pair.other];
    let funcs = if call.func == pair.other { &both[..1] } else { &both };
    let primal = Primal::new(program, funcs, &Options::default())?;
    let by_bits = pair.check == CheckMode::Bits;
    let mut found = RoundTrip { undone: 0, refused: 0, left_out: 0, wrong: None, by_bits };
    for number in 0..states {
        let state = around(call, &pair, number, pair.moves_integers && number % 2 == 1);
        one(&primal, &state, &pair, &mut found)?;
        if found.wrong.is_some() {
            break;
        }
    }
    Ok(Some(found))
}

/// A reversible function, or the inverse of one.
fn reversible_pair(
    program: &Program,
    known: KnownInverses<'_>,
    call: &Invocation,
    check: InverseCheck,
) -> Option<UndonePair> {
    let functions = &known.reversible?.functions.functions;
    let (name, back) = match call.symbol.strip_suffix("__inverse") {
        Some(name) => (name, true),
        None => (call.symbol.as_str(), false),
    };
    let function = functions.iter().find(|f| f.name == name)?;
    let other = program.func(&if back { name.to_owned() } else { format!("{name}__inverse") })?;
    let check = asked(check).unwrap_or(function.check);
    // Floats that come back but for roundings may have been added to fixed-point numbers.
    let drifts = function.params.iter().any(|p| !p.input && has_floats(&p.ty));
    let is_exact = |ty: &Type| if is_fixed(ty) { !drifts } else { !has_floats(ty) };
    let arg = |p: &FnParam| UndoneArg {
        state: if p.input { 0 } else { usize::MAX },
        exact: is_exact(&p.ty) || check == CheckMode::Bits,
        on_grid: is_fixed(&p.ty),
        keeps_zeros: matches!(p.ty, Type::Stack(..) | Type::Record(_)),
        moves: !p.input && is_counted(&p.ty),
    };
    Some(UndonePair {
        other,
        args: function.params.iter().map(arg).collect(),
        check,
        moves_integers: !functions.iter().any(is_unchecked),
    })
}

/// What is asked of floats, if anything is.
fn asked(check: InverseCheck) -> Option<CheckMode> {
    match check {
        InverseCheck::Bits => Some(CheckMode::Bits),
        InverseCheck::Within(t) => Some(CheckMode::Within(t.into())),
        InverseCheck::Declared | InverseCheck::Record | InverseCheck::Off => None,
    }
}

/// A function in CLIF that another one undoes, or that one.
fn undone_pair(
    program: &Program,
    known: KnownInverses<'_>,
    call: &Invocation,
    check: InverseCheck,
) -> Option<UndonePair> {
    let (said, other) = known.undone.iter().find_map(|u| match (&u.function.node, u.undoes()) {
        (f, back) if *f == call.symbol => Some((u, back)),
        (f, back) if back == call.symbol => Some((u, f.clone())),
        _ => None,
    })?;
    let bytes = |length: StateLength| length.of(|i| call.integer(i).unwrap_or(0)).map_or(usize::MAX, |n| n as usize);
    let state = |i: usize| said.state.iter().filter(|s| s.0 == i).map(|s| bytes(s.1)).max().unwrap_or(0);
    let check = asked(check).unwrap_or(match check {
        InverseCheck::Declared => CheckMode::Bits,
        // Nothing is said of how far floats may be from what they were.
        _ => CheckMode::default(),
    });
    let arg = |i| UndoneArg {
        state: state(i),
        exact: check == CheckMode::Bits,
        on_grid: false,
        keeps_zeros: false,
        moves: state(i) > 0,
    };
    let args = (0..call.args.len()).map(arg).collect();
    Some(UndonePair { other: program.func(&other)?, args, check, moves_integers: said.inverse.is_none() })
}

/// One state.
fn one(primal: &Primal, call: &Invocation, pair: &UndonePair, found: &mut RoundTrip) -> Result<(), Error> {
    let mut memory = Memory::new(call)?;
    let bytes = |i: usize| memory.buffer(i).map(|b| b.primal.bytes().to_vec());
    let before: Vec<Option<Vec<u8>>> = (0..call.args.len()).map(bytes).collect();
    // SAFETY: the arguments are those of the call, and both functions take the same.
    let done = unsafe { primal.call(call.func, &memory.values()) };
    let left_as_it_was = |e: Error, direction: &str, found: &mut RoundTrip| match e {
        Error::Trap(trap) if direction == "inverse" => {
            found.wrong = Some(format!("the inverse fails where the call does not: {trap}"));
            Ok(())
        }
        Error::Trap(trap) if Fault::ALL.iter().any(|f| f.name() == trap.code) => {
            match (0..call.args.len()).find(|&i| bytes(i) != before[i]) {
                None => found.refused += 1,
                Some(i) => found.wrong = Some(format!("a failed check ({}) changes argument {i}", trap.code)),
            }
            Ok(())
        }
        Error::Trap(_) => {
            found.left_out += 1;
            Ok(())
        }
        other => Err(other),
    };
    if let Err(e) = done {
        return left_as_it_was(e, "call", found);
    }
    let is_finite =
        |n: &Num| !matches!(n, Num::F64(x) if !x.is_finite()) && !matches!(n, Num::F32(x) if !x.is_finite());
    let after_call: Vec<Option<Vec<u8>>> = (0..call.args.len()).map(bytes).collect();
    let finite = |i: usize, b: &[u8]| call.numbers(i).iter().all(|&(at, elem)| is_finite(&Num::decode(elem, &b[at..])));
    if !(0..call.args.len()).all(|i| memory.buffer(i).is_none_or(|b| finite(i, b.primal.bytes()))) {
        found.left_out += 1;
        return Ok(());
    }
    for (i, (before, after_call)) in before.iter().zip(&after_call).enumerate() {
        let (Some(before), Some(after_call), BoundArg::Buffer { .. }) = (before, after_call, &call.args[i]) else {
            continue;
        };
        let aliases = (0..call.args.len()).filter(|&j| call.buffer(j).is_some_and(|b| b.0 == i));
        let state = aliases.map(|j| pair.args[j].state).max().unwrap_or(0);
        if let Some(k) = (state.min(before.len())..before.len()).find(|&k| before[k] != after_call[k]) {
            found.wrong = Some(format!("byte {k} of argument {i} is changed, which is no part of a state"));
            return Ok(());
        }
    }
    // SAFETY: as above.
    if let Err(e) = unsafe { primal.call(pair.other, &memory.values()) } {
        return left_as_it_was(e, "inverse", found);
    }
    crate::run::undamaged(&memory)?;
    let after: Vec<Option<Vec<u8>>> = (0..call.args.len()).map(bytes).collect();
    for i in 0..call.args.len() {
        let (Some(before), Some(is), Some(buffer)) = (&before[i], &after[i], call.buffer(i)) else { continue };
        let of = buffer.1;
        let allowed = tolerance(pair.check).filter(|_| !pair.args[i].exact);
        let numbers = call.numbers(i).into_iter();
        let mut both =
            numbers.map(|(at, elem)| (at, elem, Num::decode(elem, &before[at..]), Num::decode(elem, &is[at..])));
        if let Some((at, elem, was, is)) = both.find(|&(_, _, was, is)| !same(was, is, allowed)) {
            let k = at / of.bytes();
            let far = (was.as_f64() - is.as_f64()).abs();
            if allowed.is_some() && was.is_float() {
                let mut one = |number| {
                    let moved = of_last_digits(primal, call, pair, &mut memory, &after_call, number);
                    let other = moved.get(i).and_then(Option::as_ref).map(|b| Num::decode(elem, &b[at..]).as_f64());
                    other.map_or(0.0, |other| (other - is.as_f64()).abs())
                };
                if far <= (0..TRIES).map(&mut one).fold(0.0, f64::max) {
                    found.left_out += 1;
                    return Ok(());
                }
            }
            let shown = |n: Num| match n {
                Num::Int(n) => n.to_string(),
                float => format!("{:?}", float.as_f64()),
            };
            let (was, is) = (shown(was), shown(is));
            let than = allowed.map(|t| format!(", which is more than the {:e} that is allowed", f64::from(t)));
            let than = than.unwrap_or_default();
            found.wrong = Some(format!("argument {i} at [{k}] was {was}, and is {is} behind call and inverse{than}"));
            return Ok(());
        }
    }
    found.undone += 1;
    Ok(())
}

/// How many digits of a double, and of a single, roundings of all steps may cost: ten bits.
const LAST_DIGITS: [f64; 2] = [1.0 / (1_u64 << 42) as f64, 1.0 / (1_u64 << 13) as f64];

/// How often it is tried what becomes of them.
const TRIES: u64 = 4;

/// What the inverse makes of the state after the call, of whose floats the last digits are others;
/// nothing if it fails then.
fn of_last_digits(
    primal: &Primal,
    call: &Invocation,
    pair: &UndonePair,
    memory: &mut Memory,
    after_call: &[Option<Vec<u8>>],
    number: u64,
) -> Vec<Option<Vec<u8>>> {
    let mut noise = Noise::new(number);
    for (i, after_call) in after_call.iter().enumerate() {
        let (Some(after_call), Some(buffer)) = (after_call, memory.buffer_mut(i)) else { continue };
        let bytes = buffer.primal.bytes_mut();
        bytes.copy_from_slice(after_call);
        for (at, elem) in call.numbers(i).into_iter().filter(|_| !pair.args[i].on_grid && pair.args[i].state > 0) {
            let by = unit(&mut noise);
            match Num::decode(elem, &bytes[at..]) {
                Num::F64(x) => Num::F64(x + x * by * LAST_DIGITS[0]),
                Num::F32(x) => Num::F32(x + x * (by * LAST_DIGITS[1]) as f32),
                other => other,
            }
            .encode(elem, &mut bytes[at..]);
        }
    }
    // SAFETY: as for the call itself.
    match unsafe { primal.call(pair.other, &memory.values()) } {
        Ok(_) => (0..call.args.len()).map(|i| memory.buffer(i).map(|b| b.primal.bytes().to_vec())).collect(),
        Err(_) => vec![],
    }
}

/// By how much floats may differ; where nothing is checked, as is usual.
fn tolerance(check: CheckMode) -> Option<Tolerance> {
    match (check, CheckMode::default()) {
        (CheckMode::Within(t), _) | (CheckMode::Off, CheckMode::Within(t)) => Some(t.into()),
        _ => None,
    }
}

/// Whether a number is what it was.
fn same(was: Num, is: Num, allowed: Option<Tolerance>) -> bool {
    match (was, is, allowed) {
        (a, b, _) if a.same_bits(b) => true,
        (Num::F64(a), Num::F64(b), Some(t)) => t.allows(a, b),
        (Num::F32(a), Num::F32(b), Some(t)) => t.allows_single(a, b),
        _ => false,
    }
}

/// A number near another one: of a short step of time a long one need not be undone.
fn moved(x: f64, noise: &mut Noise) -> f64 {
    let size = x.abs().min(1.0);
    x + unit(noise) * if size > 0.0 { size } else { 1.0 }
}

/// A call from another state; first comes that of the call.
fn around(call: &Invocation, pair: &UndonePair, number: u64, integers: bool) -> Invocation {
    if number == 0 {
        return call.clone();
    }
    let mut noise = Noise::new(0x9e37_79b9_7f4a_7c15 ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    let mut call = call.clone();
    for (i, arg) in pair.args.iter().enumerate() {
        let numbers = call.numbers(i);
        let words = call.words.get(i).cloned().flatten();
        let BoundArg::Buffer { data, .. } = &mut call.args[i] else { continue };
        for (at, elem) in numbers {
            let is_fixed = arg.on_grid || words.as_ref().is_some_and(|w| w[at / 4] == PlaceWord::Q43);
            let word = &mut data[at..at + elem.bytes()];
            match Num::decode(elem, word) {
                Num::F64(0.0) | Num::F32(0.0) if arg.keeps_zeros => {}
                Num::F64(x) => {
                    let x = moved(x, &mut noise);
                    Num::F64(if is_fixed { on_grid(x) } else { x }).encode(elem, word);
                }
                Num::F32(x) => Num::F32(moved(x.into(), &mut noise) as f32).encode(elem, word),
                _ if integers && arg.moves => {
                    // Small changes keep to what a function expects more often.
                    word[0] = word[0].wrapping_add((noise.bits() % 5) as u8).wrapping_sub(2);
                    let sign = if word[0] >= 0x80 { 0xff } else { 0 };
                    word[1..].fill(sign);
                }
                _ => {}
            }
        }
    }
    call
}

fn is_fixed(ty: &Type) -> bool {
    match ty {
        Type::Q43 => true,
        Type::Array(of, _) => is_fixed(of),
        _ => false,
    }
}

/// Whether nothing but integers lies there.
fn is_counted(ty: &Type) -> bool {
    match ty {
        Type::I64 | Type::I32 => true,
        Type::Array(of, _) => is_counted(of),
        _ => false,
    }
}

/// Whether roundings may change what lies there.
fn has_floats(ty: &Type) -> bool {
    match ty {
        Type::Array(of, _) | Type::Stack(of, _) => has_floats(of),
        Type::I64 | Type::I32 | Type::Q43 => false,
        _ => true,
    }
}

/// Whether something of a function is not checked.
fn is_unchecked(f: &Function) -> bool {
    fn within(body: &[Stmt]) -> bool {
        body.iter().any(|s| match &s.kind {
            StmtKind::Checked { check, body } => *check == CheckMode::Off || within(body),
            StmtKind::If { then, other, .. } => within(then) || within(other),
            StmtKind::While { body, .. } | StmtKind::For { body, .. } => within(body),
            StmtKind::Compute { compute, copy } => within(compute) || within(copy),
            _ => false,
        })
    }
    f.check == CheckMode::Off || within(&f.body)
}

/// From -1 to 1, with as many bits as a float has: what is moved by few is undone too easily.
fn unit(noise: &mut Noise) -> f64 {
    (noise.bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}
