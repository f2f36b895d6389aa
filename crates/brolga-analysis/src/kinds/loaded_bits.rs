//! Uses of loaded bits: where an integer that was loaded goes.
//!
//! **Question.** An integer is loaded. Is it stored elsewhere, handed to a callee, made a float, or
//! calculated with?
//!
//! **Answer.** Its uses are followed through moves: block parameters, selects, lanes, halves and
//! bytes that are put elsewhere in a word. A use that is no move is arithmetic.
//!
//! **Cost.** A walk over the uses of a value, and of what it is moved to; at most 64 moves deep.

use cranelift_codegen::ir::{self, Opcode, types};
use cranelift_entity::EntitySet;

use crate::bits::bytes::bytes_of;
use crate::kinds::pointers::PointerInput;
use crate::lattice::kinds::Kinds;
use crate::query::callee::CalleeKind;
use crate::query::{access_offset, constant_int};
use crate::uses::{Use, Uses};

/// Where loaded bits go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BitUses {
    /// Evidence from bitcasts to float.
    pub(super) kinds: Kinds,
    pub(super) stored: bool,
    pub(super) passed: bool,
    pub(super) arithmetic: bool,
    /// Stored in part.
    pub(super) cut: bool,
}

impl BitUses {
    fn join(&mut self, other: Self) {
        self.kinds = self.kinds.join(other.kinds);
        self.stored |= other.stored;
        self.passed |= other.passed;
        self.arithmetic |= other.arithmetic;
        self.cut |= other.cut;
    }
}

/// Whether an argument counts as passed on, given the call and which operand it is.
type Passes<'a> = &'a dyn Fn(ir::Inst, usize) -> bool;

/// What becomes of a value, if all that is passed to others is passed on.
pub(super) fn fate(func: &ir::Function, uses: &Uses, v: ir::Value) -> BitUses {
    fate_of(func, uses, v, &|_, _| true, (&mut EntitySet::new(), 0))
}

fn fate_of(
    func: &ir::Function,
    uses: &Uses,
    v: ir::Value,
    passes: Passes<'_>,
    (seen, depth): (&mut EntitySet<ir::Value>, u32),
) -> BitUses {
    let mut f = BitUses::default();
    if depth > 64 || !seen.insert(v) {
        return f;
    }
    for u in uses.of(v) {
        let mut follow = |w: ir::Value| f.join(fate_of(func, uses, w, passes, (&mut *seen, depth + 1)));
        match *u {
            Use::Edge(_, p) => follow(p),
            Use::Inst(i, n) => match func.dfg.insts[i].opcode() {
                Opcode::Store | Opcode::AtomicStore if n == 0 => f.stored = true,
                Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 if n == 0 => f.cut = true,
                Opcode::AtomicCas if n == 2 => f.stored = true,
                Opcode::AtomicRmw if exchanges(func, i) && n == 1 => f.stored = true,
                // The address of code is used up by the call.
                Opcode::CallIndirect if n == 0 => f.arithmetic = true,
                Opcode::Return => f.passed = true,
                Opcode::Call | Opcode::CallIndirect => f.passed |= passes(i, n),
                Opcode::Bitcast => {
                    let r = func.dfg.first_result(i);
                    let ty = func.dfg.value_type(r);
                    if ty.lane_type().is_float() {
                        f.kinds = f.kinds.join(Kinds::of_type(ty));
                    } else {
                        follow(r);
                    }
                }
                Opcode::Select | Opcode::SelectSpectreGuard if n > 0 => follow(func.dfg.first_result(i)),
                Opcode::Isplit
                | Opcode::Iconcat
                | Opcode::Insertlane
                | Opcode::Extractlane
                | Opcode::ScalarToVector
                | Opcode::Splat => {
                    func.dfg.inst_results(i).iter().for_each(|&r| follow(r));
                }
                // Two singles in one word are taken apart and put together by halves.
                Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr if moves_half(func, i) => {
                    follow(func.dfg.first_result(i));
                }
                // A sign or lane mask perhaps: a move as far as evidence goes, if it ends in a
                // float.
                Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Bitselect | Opcode::Shuffle | Opcode::Bnot => {
                    follow(func.dfg.first_result(i));
                }
                // Bytes that are put elsewhere in a word are moved, too.
                _ if bytes_of(func, i).is_some() => follow(func.dfg.first_result(i)),
                Opcode::Iadd | Opcode::Isub if uses.steps_to_float(func, i, v) => follow(func.dfg.first_result(i)),
                _ => f.arithmetic = true,
            },
        }
    }
    f
}

/// Whether an atomic update leaves in memory what it is given.
fn exchanges(func: &ir::Function, inst: ir::Inst) -> bool {
    matches!(func.dfg.insts[inst], ir::InstructionData::AtomicRmw { op: ir::AtomicRmwOp::Xchg, .. })
}

/// Whether a value goes, by moves alone, to where its bits become a float.
pub(crate) fn becomes_float(func: &ir::Function, uses: &Uses, v: ir::Value) -> bool {
    fate(func, uses, v).kinds.has_float()
}

/// Whether a value goes, by moves alone, to memory, to another function, or to the caller.
pub(crate) fn is_handed_on(func: &ir::Function, uses: &Uses, v: ir::Value) -> bool {
    let fate = fate(func, uses, v);
    fate.stored || fate.passed
}

/// Whether nothing becomes of a value but that it is stored as it is.
pub fn is_only_stored(func: &ir::Function, uses: &Uses, v: ir::Value) -> bool {
    let is_store = |u: &Use| matches!(*u, Use::Inst(i, 0) if func.dfg.insts[i].opcode() == Opcode::Store);
    uses.of(v).iter().all(is_store) && !uses.of(v).is_empty()
}

/// Whether it goes there, or a part of it does.
pub(crate) fn goes_on(func: &ir::Function, uses: &Uses, v: ir::Value) -> bool {
    let fate = fate(func, uses, v);
    fate.stored || fate.passed || fate.cut
}

/// Whether a parameter goes on, or becomes a float, if it is known what becomes of it in functions
/// that it is passed to: where those take it for an address alone, it ends there.
pub(crate) fn param_goes_on(cx: &PointerInput<'_>, uses: &Uses, v: ir::Value) -> bool {
    let passes = |inst: ir::Inst, n: usize| match CalleeKind::of(cx.program, cx.func, inst) {
        Some(CalleeKind::Derived(f)) => cx.summaries.hands_on(f, n),
        _ => true,
    };
    let fate = fate_of(cx.func, uses, v, &passes, (&mut EntitySet::new(), 0));
    fate.stored || fate.passed || fate.cut || fate.kinds.has_float()
}

/// Whether an instruction moves one half of a 64-bit word to the other, or to or from 32 bits.
pub(crate) fn moves_half(func: &ir::Function, inst: ir::Inst) -> bool {
    let args = func.dfg.inst_args(inst);
    let (from, to) = (func.dfg.value_type(args[0]), func.dfg.value_type(func.dfg.first_result(inst)));
    match func.dfg.insts[inst].opcode() {
        Opcode::Uextend => from == types::I32 && to == types::I64,
        Opcode::Ireduce => from == types::I64 && to == types::I32,
        Opcode::Ishl | Opcode::Ushr => to == types::I64 && constant_int(func, args[1]) == Some(32),
        _ => false,
    }
}

/// Addresses, with offsets, that a loaded value is stored to, through moves alone.
pub(super) fn destinations(func: &ir::Function, uses: &Uses, v: ir::Value) -> Vec<(ir::Value, i32)> {
    let (mut out, mut seen, mut work) = (Vec::new(), EntitySet::new(), vec![v]);
    while let Some(v) = work.pop() {
        if !seen.insert(v) {
            continue;
        }
        for u in uses.of(v) {
            match *u {
                Use::Edge(_, p) => work.push(p),
                Use::Inst(i, n) => match func.dfg.insts[i].opcode() {
                    Opcode::Store | Opcode::AtomicStore if n == 0 => {
                        out.push((func.dfg.inst_args(i)[1], access_offset(func, i)));
                    }
                    Opcode::Select if n > 0 => work.push(func.dfg.first_result(i)),
                    Opcode::Bitcast => work.push(func.dfg.first_result(i)),
                    _ => {}
                },
            }
        }
    }
    out
}

/// The kind of float whose bits an integer was made of by a bitcast.
pub(super) fn from_float(func: &ir::Function, mut v: ir::Value) -> Option<Kinds> {
    loop {
        let inst = func.dfg.value_def(v).inst()?;
        if func.dfg.insts[inst].opcode() != Opcode::Bitcast {
            return None;
        }
        v = func.dfg.inst_args(inst)[0];
        let ty = func.dfg.value_type(v);
        if ty.lane_type().is_float() {
            return Some(Kinds::of_type(ty));
        }
    }
}
