//! A function and its inverse, one behind the other, from random states.
//!
//! **Question.** Does `~f` undo `f`?
//! **Answer.** States around that of a call are tried: floats are moved, and in every other state
//! the integers that `f` changes, too, where no address is made of them. Behind both the state is
//! what it was: integers bit by bit, fixed-point numbers too, unless floats are changed beside
//! them, and floats as the function says. Where a check of the function fails instead, it has left
//! the state as it was, bit by bit.
//!
//! Of a reversible function the file says what is a state. Of a function in CLIF that another one
//! undoes, what declares that says it; then `f` changes nothing else, which is compared, too.
//! Integers stay where an index may be among them: where something of a file of reversible
//! functions is not checked, and in states of an inverse that is not derived.

use brolga::{Error, FuncKey, InverseCheck, Options, Primal, Program, StateLength};
use brolga_reversible::Fault;
use brolga_reversible::ast::{CheckMode, FnParam, Function, Stmt, StmtKind, Type};
use cranelift_codegen::data_value::DataValue;

use crate::bind::{BoundArg, Invocation};
use crate::memory::Memory;
use crate::noise::Noise;
use crate::reversible::KnownInverses;
use crate::text::ElemType;
use crate::value::{Num, decode_all};

/// How many states are tried.
pub const STATES: u64 = 64;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// States from which both have run.
    pub undone: u64,
    /// States that a check of the function has refused, and left as they were.
    pub refused: u64,
    /// States from which something else has trapped, or numbers have become infinite or NaN.
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
    /// Whether no bit of the state differs behind both.
    exact: bool,
    /// Whether it is made of fixed-point numbers.
    on_grid: bool,
    /// Whether integers of the state may be others.
    moves: bool,
}

/// Call a function and its inverse from so many states; none if it has no inverse. Of a function in
/// CLIF, floats differ by no more than `check` allows.
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
    let pair = reversible_pair(program, known, call).or_else(|| undone_pair(program, known, call, check));
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
fn reversible_pair(program: &Program, known: KnownInverses<'_>, call: &Invocation) -> Option<UndonePair> {
    let functions = &known.reversible?.functions.functions;
    let (name, back) = match call.symbol.strip_suffix("__inverse") {
        Some(name) => (name, true),
        None => (call.symbol.as_str(), false),
    };
    let function = functions.iter().find(|f| f.name == name)?;
    let other = program.func(&if back { name.to_owned() } else { format!("{name}__inverse") })?;
    // Floats that come back but for roundings may have been added to fixed-point numbers.
    let drifts = function.params.iter().any(|p| !p.input && has_floats(&p.ty));
    let is_exact = |ty: &Type| if is_fixed(ty) { !drifts } else { !has_floats(ty) };
    let arg = |p: &FnParam| UndoneArg {
        state: if p.input { 0 } else { usize::MAX },
        exact: is_exact(&p.ty) || function.check == CheckMode::Bits,
        on_grid: is_fixed(&p.ty),
        moves: !p.input && is_counted(&p.ty),
    };
    Some(UndonePair {
        other,
        args: function.params.iter().map(arg).collect(),
        check: function.check,
        moves_integers: !functions.iter().any(is_unchecked),
    })
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
    let bytes = |length: StateLength| match length {
        StateLength::Bytes(n) => n as usize,
        StateLength::Param(i) => match call.args.get(i) {
            Some(BoundArg::Value(DataValue::I64(n))) => usize::try_from(*n).unwrap_or(0),
            Some(BoundArg::Value(DataValue::I32(n))) => usize::try_from(*n).unwrap_or(0),
            _ => 0,
        },
        _ => usize::MAX,
    };
    let state = |i: usize| said.state.iter().filter(|s| s.0 == i).map(|s| bytes(s.1)).max().unwrap_or(0);
    let check = match check {
        InverseCheck::Bits => CheckMode::Bits,
        InverseCheck::Within(t) => CheckMode::Within(t.into()),
        // Nothing is said of how far floats may be from what they were.
        InverseCheck::Record | InverseCheck::Off => CheckMode::default(),
    };
    let arg = |i| UndoneArg { state: state(i), exact: check == CheckMode::Bits, on_grid: false, moves: state(i) > 0 };
    let args = (0..call.args.len()).map(arg).collect();
    Some(UndonePair { other: program.func(&other)?, args, check, moves_integers: said.inverse.is_none() })
}

/// One state.
fn one(primal: &Primal, call: &Invocation, pair: &UndonePair, found: &mut RoundTrip) -> Result<(), Error> {
    let memory = Memory::new(call)?;
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
    let behind: Vec<Option<Vec<u8>>> = (0..call.args.len()).map(bytes).collect();
    let mut buffers = (0..call.args.len()).filter_map(|i| memory.buffer(i));
    if !buffers.all(|b| decode_all(b.elem, b.primal.bytes()).iter().all(is_finite)) {
        found.left_out += 1;
        return Ok(());
    }
    for (i, (before, behind)) in before.iter().zip(&behind).enumerate() {
        let (Some(before), Some(behind), BoundArg::Buffer { .. }) = (before, behind, &call.args[i]) else { continue };
        let aliases = (0..call.args.len()).filter(|&j| call.buffer(j).is_some_and(|b| b.0 == i));
        let state = aliases.map(|j| pair.args[j].state).max().unwrap_or(0);
        if let Some(k) = (state.min(before.len())..before.len()).find(|&k| before[k] != behind[k]) {
            found.wrong = Some(format!("byte {k} of argument {i} is changed, which is no part of a state"));
            return Ok(());
        }
    }
    // SAFETY: as above.
    if let Err(e) = unsafe { primal.call(pair.other, &memory.values()) } {
        return left_as_it_was(e, "inverse", found);
    }
    crate::run::undamaged(&memory)?;
    for (i, (before, behind)) in before.iter().zip(&behind).enumerate() {
        let (Some(before), Some(behind), Some(buffer)) = (before, behind, memory.buffer(i)) else { continue };
        let (was, is) = (decode_all(buffer.elem, before), decode_all(buffer.elem, buffer.primal.bytes()));
        let size = |n: &Num| if n.is_float() { n.as_f64().abs() } else { 0.0 };
        let between = decode_all(buffer.elem, behind).iter().map(size).fold(1.0, f64::max);
        let exact = pair.args[i].exact;
        if let Some(k) = (0..was.len()).find(|&k| !same(was[k], is[k], between, exact, pair.check)) {
            let shown = |n: Num| match n {
                Num::Int(n) => n.to_string(),
                float => format!("{:?}", float.as_f64()),
            };
            let (was, is) = (shown(was[k]), shown(is[k]));
            found.wrong = Some(format!("argument {i} at [{k}] was {was}, and is {is} behind call and inverse"));
            return Ok(());
        }
    }
    found.undone += 1;
    Ok(())
}

/// Whether a number is what it was; roundings are those of the largest between.
fn same(was: Num, is: Num, between: f64, exact: bool, check: CheckMode) -> bool {
    let tolerance = match check {
        CheckMode::Within(t) => t,
        _ => 1e-8,
    };
    let near = |a: f64, b: f64, t: f64| (a - b).abs() <= t * a.abs().max(between);
    match (was, is) {
        (a, b) if a.same_bits(b) => true,
        (Num::F64(a), Num::F64(b)) if !exact => near(a, b, tolerance),
        (Num::F32(a), Num::F32(b)) if !exact => near(a.into(), b.into(), tolerance.sqrt()),
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
    for (arg, own) in call.args.iter_mut().zip(&pair.args) {
        let BoundArg::Buffer { elem, data, .. } = arg else { continue };
        for word in data.chunks_exact_mut(elem.bytes()) {
            match (*elem, <[u8; 8]>::try_from(&*word), <[u8; 4]>::try_from(&*word)) {
                (ElemType::F64, Ok(bytes), _) => {
                    let mut x = moved(f64::from_le_bytes(bytes), &mut noise);
                    if own.on_grid {
                        x = (x * 2_f64.powi(43)).round() * 2_f64.powi(-43);
                    }
                    word.copy_from_slice(&x.to_le_bytes());
                }
                (ElemType::F32, _, Ok(bytes)) => {
                    let x = moved(f32::from_le_bytes(bytes).into(), &mut noise) as f32;
                    word.copy_from_slice(&x.to_le_bytes());
                }
                (ElemType::Int(_), _, _) if integers && own.moves => {
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
