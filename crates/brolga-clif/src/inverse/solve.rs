//! What a straight piece has overwritten, from what is there now.
//!
//! **Question.** Which values of the piece can be found from those that are known?
//! **Answer.** All that rules reach, until nothing changes:
//!
//! | known | found |
//! |---|---|
//! | all operands of an instruction | its result |
//! | the result, and all operands but one, in which nothing is lost | that operand |
//!
//! | instruction | undone by |
//! |---|---|
//! | `x + y`, `x - y` of integers or floats, `x ^ y` | the difference, the sum, the same |
//! | `-x`, `¬x`, bytes or bits in opposite order | the same |
//! | a rotation | the other one |
//! | `k x` for an odd `k` | the product with the inverse of `k` modulo 2ⁿ |
//! | `x` made wider | making it narrower |
//! | the bits of a float or an integer as the other | the same |
//!
//! **Cost.** Walks over the piece until one finds nothing: one more than the order of the piece is
//! against, at worst as many as it has instructions.

use cranelift_codegen::cursor::FuncCursor;
use cranelift_codegen::ir::{self, Inst, InstBuilder, InstructionData, MemFlagsData, Opcode, Value, ValueDef};

use super::view::View;
use crate::map::{HashMap, HashSet};

/// How a value is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndoStep {
    /// By running its instruction again.
    Forward(Inst),
    /// By undoing an instruction, whose operand of this number it is.
    Back(Inst, usize),
}

/// Values that are the same, as a load that finds what was stored.
pub(super) type EqualValues = HashMap<Value, Value>;

/// The steps to values that are wanted, or those that are not reached.
pub(super) fn steps(
    view: &View<'_>,
    insts: &[Inst],
    same: &EqualValues,
    mut known: HashSet<Value>,
    is_steady: impl Fn(Value) -> bool,
    wanted: &[Value],
) -> Result<Vec<(Value, UndoStep)>, HashSet<Value>> {
    let dfg = &view.func.dfg;
    let named = |v: Value| {
        let v = view.resolved(v);
        same.get(&v).copied().unwrap_or(v)
    };
    let mut found: Vec<(Value, UndoStep)> = Vec::new();
    loop {
        let before = found.len();
        for &inst in insts {
            // A load gives what was there at its time.
            let (false, &[result]) = (view.reads(inst), dfg.inst_results(inst)) else { continue };
            let result = named(result);
            let args: Vec<Value> = dfg.inst_args(inst).iter().map(|&v| named(v)).collect();
            let has = |v: &Value, known: &HashSet<Value>| known.contains(v) || is_steady(*v);
            let lacking: Vec<usize> = (0..args.len()).filter(|&i| !has(&args[i], &known)).collect();
            match lacking[..] {
                [] if known.insert(result) => found.push((result, UndoStep::Forward(inst))),
                [i] if known.contains(&result) && is_undone(view, inst, i) && known.insert(args[i]) => {
                    found.push((args[i], UndoStep::Back(inst, i)));
                }
                _ => {}
            }
        }
        if wanted.iter().all(|v| known.contains(v) || is_steady(*v)) {
            return Ok(needed(view, found, same, wanted));
        }
        if found.len() == before {
            return Err(known);
        }
    }
}

/// Those steps that lead to what is wanted.
fn needed(
    view: &View<'_>,
    found: Vec<(Value, UndoStep)>,
    same: &EqualValues,
    wanted: &[Value],
) -> Vec<(Value, UndoStep)> {
    let mut used: HashSet<Value> = wanted.iter().copied().collect();
    let mut needed_steps = Vec::new();
    for (v, step) in found.into_iter().rev() {
        if !used.contains(&v) {
            continue;
        }
        let (UndoStep::Forward(inst) | UndoStep::Back(inst, _)) = step;
        let dfg = &view.func.dfg;
        let all = dfg.inst_args(inst).iter().chain(dfg.inst_results(inst));
        let all = all.map(|&x| view.resolved(x)).map(|x| same.get(&x).copied().unwrap_or(x));
        used.extend(all.filter(|&x| x != v));
        needed_steps.push((v, step));
    }
    needed_steps.reverse();
    needed_steps
}

/// A constant that an operand is.
fn constant(view: &View<'_>, v: Value) -> Option<i64> {
    let ValueDef::Result(inst, _) = view.func.dfg.value_def(view.resolved(v)) else { return None };
    match view.func.dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
        _ => None,
    }
}

/// Whether an operand follows from the result and the other operands.
pub(super) fn is_undone(view: &View<'_>, inst: Inst, operand: usize) -> bool {
    let dfg = &view.func.dfg;
    match dfg.insts[inst].opcode() {
        Opcode::Iadd | Opcode::Isub | Opcode::Bxor | Opcode::Fadd | Opcode::Fsub => true,
        Opcode::Fneg | Opcode::Ineg | Opcode::Bnot | Opcode::Bswap | Opcode::Bitrev | Opcode::Bitcast => true,
        Opcode::Uextend | Opcode::Sextend | Opcode::Fpromote => true,
        Opcode::Rotl | Opcode::Rotr => operand == 0,
        Opcode::Imul => constant(view, dfg.inst_args(inst)[1 - operand]).is_some_and(|k| k & 1 == 1),
        _ => false,
    }
}

/// An operand from the result `r` and the other operand, if there is one.
pub(super) fn undo(
    view: &View<'_>,
    pos: &mut FuncCursor<'_>,
    inst: Inst,
    operand: usize,
    r: Value,
    other: Option<Value>,
) -> Value {
    let dfg = &view.func.dfg;
    let ty = dfg.value_type(dfg.inst_args(inst)[operand]);
    let y = other.unwrap_or(r);
    let first = operand == 0;
    let i = pos.ins();
    match dfg.insts[inst].opcode() {
        Opcode::Iadd => i.isub(r, y),
        Opcode::Isub if first => i.iadd(r, y),
        Opcode::Isub => i.isub(y, r),
        Opcode::Fadd => i.fsub(r, y),
        Opcode::Fsub if first => i.fadd(r, y),
        Opcode::Fsub => i.fsub(y, r),
        Opcode::Bxor => i.bxor(r, y),
        Opcode::Fneg => i.fneg(r),
        Opcode::Ineg => i.ineg(r),
        Opcode::Bnot => i.bnot(r),
        Opcode::Bswap => i.bswap(r),
        Opcode::Bitrev => i.bitrev(r),
        Opcode::Bitcast => i.bitcast(ty, MemFlagsData::new(), r),
        Opcode::Uextend | Opcode::Sextend => i.ireduce(ty, r),
        Opcode::Fpromote => i.fdemote(ty, r),
        Opcode::Rotl => i.rotr(r, y),
        Opcode::Rotr => i.rotl(r, y),
        Opcode::Imul => {
            let k = constant(view, dfg.inst_args(inst)[1 - operand]).expect("it is a constant");
            let k = pos.ins().iconst(ty, masked(inverse_of(k), ty));
            pos.ins().imul(r, k)
        }
        other => unreachable!("{other} is not undone"),
    }
}

/// The inverse of an odd number modulo 2⁶⁴. Each round doubles the bits that are right.
fn inverse_of(k: i64) -> i64 {
    (0..6).fold(k, |x, _| x.wrapping_mul(2_i64.wrapping_sub(k.wrapping_mul(x))))
}

/// A constant as its type has it.
fn masked(k: i64, ty: ir::Type) -> i64 {
    if ty.bits() < 64 { k & ((1 << ty.bits()) - 1) } else { k }
}
