//! Induction variables: integers that change by a constant each iteration, and the test that a loop
//! ends by.
//!
//! **Question.** Which header parameters go in steps, and which comparison decides that a loop
//! ends? **Answer.** A parameter whose argument on the latch is itself plus a constant, if it does
//! not come back to its first value; and the comparison of such a parameter, before or after its
//! step, with a value from outside of the loop, in a block that leaves it.
//!
//! **Cost.** A question looks at one parameter and at the exits of its loop.

use brolga_analysis::cfg::edge_args;
use brolga_analysis::query::constant_int;
use brolga_analysis::{Loop, LoopId, Loops};
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef, types};

/// A parameter of a loop's header that changes by the same amount each iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Induction {
    /// The parameter.
    pub var: ir::Value,
    /// Its value in the first iteration; defined outside of the loop.
    pub start: ir::Value,
    /// Its value in the next iteration.
    pub next: ir::Value,
    /// The difference.
    pub step: i64,
}

/// The `i`-th parameter of a canonical loop's header, if it goes in steps and has its first value
/// in the first iteration only.
pub(crate) fn induction(func: &ir::Function, loops: &Loops, l: LoopId, i: usize) -> Option<Induction> {
    let iv = steps(func, &loops.loops[l], i)?;
    let ty = func.dfg.value_type(iv.var);
    (far(ty, iv.step) || guarded(func, loops, l, &iv)).then_some(iv)
}

/// The same if it goes in steps, but may come back to its first value.
pub(crate) fn steps(func: &ir::Function, lp: &Loop, i: usize) -> Option<Induction> {
    let ([entry], [latch]) = (&lp.entries[..], &lp.latches[..]) else { return None };
    let var = func.dfg.block_params(lp.header)[i];
    let ty = func.dfg.value_type(var);
    if !ty.is_int() || ty.bits() > 64 {
        return None;
    }
    let start = edge_args(func, *entry, lp.header)[i];
    let next = edge_args(func, *latch, lp.header)[i];
    let inst = func.dfg.value_def(next).inst()?;
    let InstructionData::Binary { opcode, args: [a, b] } = func.dfg.insts[inst] else { return None };
    // Immediates of narrow types are zero-extended.
    let signed = |c: i64| c << (64 - ty.bits()) >> (64 - ty.bits());
    let step = match opcode {
        Opcode::Iadd if a == var => signed(constant_int(func, b)?),
        Opcode::Iadd if b == var => signed(constant_int(func, a)?),
        Opcode::Isub if a == var => signed(constant_int(func, b)?).wrapping_neg(),
        _ => return None,
    };
    (step != 0).then_some(Induction { var, start, next, step })
}

/// Whether so many iterations are needed to come back that no run has them: 2⁵² of them, more than
/// a month at an iteration a nanosecond.
fn far(ty: ir::Type, step: i64) -> bool {
    ty.bits() - step.trailing_zeros().min(ty.bits()) >= 52
}

/// Whether the loop ends, if ever, before the variable comes back: a test in each iteration
/// compares it with a bound that it cannot jump over; or it ends nowhere but where the variable is
/// equal to the bound, and so never if it was not in a whole round.
fn guarded(func: &ir::Function, loops: &Loops, l: LoopId, iv: &Induction) -> bool {
    let lp = &loops.loops[l];
    let test = |&(from, to): &(ir::Block, ir::Block)| {
        exit_test(func, loops, l, iv, from, to).filter(|_| loops.dominates(from, lp.latches[0]))
    };
    match lp.exits[..] {
        // Sums of 64 bits are taken modulo 2⁶⁴ ([`crate::primal::scev`]): there `far` is all that
        // is asked.
        [exit] if func.dfg.value_type(iv.var) != types::I64 && iv.step.unsigned_abs() != 1 => {
            test(&exit).is_some_and(|t| t.cc == IntCC::Equal)
        }
        _ => iv.step.unsigned_abs() == 1 && lp.exits.iter().any(|e| test(e).is_some()),
    }
}

/// The test by which a loop is left: `tested cc bound` holds on the exit edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitTest {
    /// Whether the next value is tested, not the present one.
    pub of_next: bool,
    /// How it compares on the way out.
    pub cc: IntCC,
    /// With what; defined outside of the loop.
    pub bound: ir::Value,
}

/// The test on the exit edge `from -> to`, if it compares an induction variable with something that
/// the loop does not change, and says where the variable is then: `==`, or the first value that is
/// not on the near side of the bound, in steps of a power of two.
pub(crate) fn exit_test(
    func: &ir::Function,
    loops: &Loops,
    l: LoopId,
    iv: &Induction,
    from: ir::Block,
    to: ir::Block,
) -> Option<ExitTest> {
    let last = end(func, from);
    let InstructionData::Brif { arg, blocks, .. } = func.dfg.insts[last] else { return None };
    let on_true = blocks[0].block(&func.dfg.value_lists) == to;
    let mut cond = arg;
    // A condition may be widened on its way to the branch.
    while let ValueDef::Result(i, _) = func.dfg.value_def(cond) {
        match func.dfg.insts[i] {
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => cond = arg,
            _ => break,
        }
    }
    let inst = func.dfg.value_def(cond).inst()?;
    let InstructionData::IntCompare { args: [a, b], cond: cc, .. } = func.dfg.insts[inst] else { return None };
    let is_iv = |v| v == iv.var || v == iv.next;
    let (tested, bound, cc) = if is_iv(a) {
        (a, b, cc)
    } else if is_iv(b) {
        (b, a, cc.swap_args())
    } else {
        return None;
    };
    let cc = if on_true { cc } else { cc.complement() };
    let outside = match func.dfg.value_def(bound) {
        ValueDef::Result(i, _) => !loops.contains(l, func.layout.inst_block(i)?),
        ValueDef::Param(b, _) => !loops.contains(l, b),
        ValueDef::Union(..) => false,
    };
    use IntCC::*;
    // A longer step may jump over the bound, but not, in fewer iterations than any run has, over
    // the end of 64 bits.
    let strides = |step: i64| {
        step == 1 || func.dfg.value_type(iv.var) == types::I64 && step > 0 && step <= 4096 && step & (step - 1) == 0
    };
    let fits = match cc {
        Equal => true,
        UnsignedGreaterThanOrEqual | SignedGreaterThanOrEqual => strides(iv.step),
        UnsignedLessThanOrEqual | SignedLessThanOrEqual => strides(iv.step.wrapping_neg()),
        _ => false,
    };
    (outside && fits).then_some(ExitTest { of_next: tested == iv.next, cc, bound })
}

pub(super) fn end(func: &ir::Function, b: ir::Block) -> ir::Inst {
    func.layout.last_inst(b).expect("a block has a terminator")
}
