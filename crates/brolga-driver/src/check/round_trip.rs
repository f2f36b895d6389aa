//! A reversible function and its inverse, one behind the other, from random states.
//!
//! **Question.** Does `~f` undo `f`?
//! **Answer.** States around that of a call are tried: floats are moved, and in every other state
//! the integers that `f` changes, too. Behind both the state is what it was: integers and
//! fixed-point numbers bit by bit, floats as the function says. Where a check of the function fails
//! instead, it has left the state as it was, bit by bit.
//!
//! Integers stay where something of the file is not checked: an index may be among them.

use brolga::{Error, FuncKey, Options, Primal, Program};
use brolga_reversible::Fault;
use brolga_reversible::ast::{CheckMode, Function, Stmt, StmtKind, Type};

use crate::bind::{BoundArg, Invocation};
use crate::memory::Memory;
use crate::noise::Noise;
use crate::reversible::Reversible;
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

/// Call a function and its inverse from so many states.
///
/// # Errors
/// If they cannot be compiled, or write past what they are given.
pub fn round_trip(
    program: &Program,
    reversible: &Reversible,
    call: &Invocation,
    states: u64,
) -> Result<Option<RoundTrip>, Error> {
    let (name, back) = match call.symbol.strip_suffix("__inverse") {
        Some(name) => (name, true),
        None => (call.symbol.as_str(), false),
    };
    let Some(function) = reversible.functions.functions.iter().find(|f| f.name == name) else { return Ok(None) };
    let other = if back { name.to_owned() } else { format!("{name}__inverse") };
    let Some(other) = program.func(&other) else { return Ok(None) };
    let primal = Primal::new(program, &[call.func, other], &Options::default())?;
    let moves_integers = !reversible.functions.functions.iter().any(is_unchecked);
    let mut found =
        RoundTrip { undone: 0, refused: 0, left_out: 0, wrong: None, by_bits: function.check == CheckMode::Bits };
    for number in 0..states {
        let state = around(call, function, number, moves_integers && number % 2 == 1);
        one(&primal, &state, other, function, &mut found)?;
        if found.wrong.is_some() {
            break;
        }
    }
    Ok(Some(found))
}

/// One state.
fn one(
    primal: &Primal,
    call: &Invocation,
    other: FuncKey,
    function: &Function,
    found: &mut RoundTrip,
) -> Result<(), Error> {
    let memory = Memory::new(call)?;
    let bytes = |i: usize| memory.buffer(i).map(|b| b.primal.bytes().to_vec());
    let before: Vec<Option<Vec<u8>>> = (0..call.args.len()).map(bytes).collect();
    // SAFETY: the arguments are those of the call, and both functions take the same.
    let done = unsafe { primal.call(call.func, &memory.values()) };
    let left_as_it_was = |e: Error, direction: &str, found: &mut RoundTrip| match e {
        Error::Trap(trap) if Fault::ALL.iter().any(|f| f.name() == trap.code) => {
            let differs = (0..call.args.len()).find(|&i| bytes(i) != before[i]);
            match differs {
                None if direction == "call" => found.refused += 1,
                None | Some(_) if direction == "call" => {
                    found.wrong = Some(format!("a failed check ({}) changes argument {differs:?}", trap.code));
                }
                _ => found.wrong = Some(format!("the inverse fails where the call does not: {trap}")),
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
    // SAFETY: as above.
    if let Err(e) = unsafe { primal.call(other, &memory.values()) } {
        return left_as_it_was(e, "inverse", found);
    }
    crate::run::undamaged(&memory)?;
    for (i, (before, behind)) in before.iter().zip(&behind).enumerate() {
        let (Some(before), Some(behind), Some(buffer)) = (before, behind, memory.buffer(i)) else { continue };
        let (was, is) = (decode_all(buffer.elem, before), decode_all(buffer.elem, buffer.primal.bytes()));
        let size = |n: &Num| if n.is_float() { n.as_f64().abs() } else { 0.0 };
        let between = decode_all(buffer.elem, behind).iter().map(size).fold(1.0, f64::max);
        let exact = !has_floats(&function.params[i].ty) || function.check == CheckMode::Bits;
        if let Some(k) = (0..was.len()).find(|&k| !same(was[k], is[k], between, exact, function.check)) {
            let (was, is) = (was[k], is[k]);
            found.wrong = Some(format!("argument {i} at [{k}] was {was:?}, and is {is:?} behind call and inverse"));
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

/// A call from another state.
fn around(call: &Invocation, function: &Function, number: u64, integers: bool) -> Invocation {
    let mut noise = Noise::new(0x9e37_79b9_7f4a_7c15 ^ number.wrapping_mul(0xd134_2543_de82_ef95));
    let mut call = call.clone();
    for (arg, param) in call.args.iter_mut().zip(&function.params) {
        let BoundArg::Buffer { elem, data, .. } = arg else { continue };
        let on_grid = is_fixed(&param.ty);
        for word in data.chunks_exact_mut(elem.bytes()) {
            match (*elem, <[u8; 8]>::try_from(&*word), <[u8; 4]>::try_from(&*word)) {
                (ElemType::F64, Ok(bytes), _) => {
                    let mut x = f64::from_le_bytes(bytes) + unit(&mut noise);
                    if on_grid {
                        x = (x * 2_f64.powi(43)).round() * 2_f64.powi(-43);
                    }
                    word.copy_from_slice(&x.to_le_bytes());
                }
                (ElemType::F32, _, Ok(bytes)) => {
                    let x = f32::from_le_bytes(bytes) + unit(&mut noise) as f32;
                    word.copy_from_slice(&x.to_le_bytes());
                }
                (ElemType::Int(_), _, _) if integers && !param.input => {
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
