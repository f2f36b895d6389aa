//! Trip counts: how many steps a loop has, computed before it.
//!
//! **Question.** A schedule for a known number of steps is better than one for a number that turns
//! out. Which loops tell theirs before they run?
//!
//! **Answer.** Those with one exit, by a test in each iteration that compares an induction variable
//! with a bound that the loop does not change (`primal::induction`). With a start s, a step c and
//! the test of s + (m + d) c in iteration m, where d is 1 if the next value is tested:
//!
//! ```text
//!   exit at ==:       m = (bound - s) / c - d, modulo what comes back
//!   exit at >=, c>0:  m = max(⌈(bound - s) / c⌉ - d, 0), and alike for <= and c<0
//!   steps:            m / K + 1
//! ```
//!
//! **Invariant.** The run checks that the loop ends with the last step.
//!
//! **Cost.** A look at each parameter of the header. In the run about ten instructions before
//! the loop.

use brolga_analysis::LoopId;
use cranelift_codegen::cursor::FuncCursor;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};

use crate::primal::induction::{ExitTest, Induction, exit_test, induction};
use crate::primal::normalise::NormalisedPrimal;

/// What a number of iterations is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    iv: Induction,
    test: ExitTest,
    ty: Type,
}

/// How the iterations of a loop are counted.
pub(super) fn of(n: &NormalisedPrimal, l: LoopId) -> Option<Count> {
    let lp = &n.loops.loops[l];
    let [(from, to)] = lp.exits[..] else { return None };
    let [latch] = lp.latches[..] else { return None };
    if !n.loops.dominates(from, latch) {
        return None;
    }
    (0..n.func.dfg.num_block_params(lp.header)).find_map(|i| {
        let iv = induction(&n.func, &n.loops, l, i)?;
        let test = exit_test(&n.func, &n.loops, l, &iv, from, to)?;
        let ty = n.func.dfg.value_type(iv.var);
        (iv.step.unsigned_abs().is_power_of_two() && ty.bits() <= 64).then_some(Count { iv, test, ty })
    })
}

/// The number of steps of so many iterations, a power of two.
pub(super) fn steps_of(pos: &mut FuncCursor<'_>, count: &Count, iterations: u32) -> Value {
    let Count { iv, test, ty } = *count;
    let shift = i64::from(iv.step.unsigned_abs().trailing_zeros());
    let d = i64::from(test.of_next);
    let up = iv.step > 0;
    let (low, high) = if up { (iv.start, test.bound) } else { (test.bound, iv.start) };
    let last = if test.cc == IntCC::Equal {
        let gap = pos.ins().isub(high, low);
        let gap = pos.ins().ushr_imm_u(gap, shift);
        let last = pos.ins().iadd_imm_s(gap, -d);
        let bits = ty.bits() - shift as u32;
        let last = if ty == types::I64 { last } else { pos.ins().uextend(types::I64, last) };
        let all = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        pos.ins().band_imm_u(last, all as i64)
    } else {
        let signed = matches!(test.cc, IntCC::SignedGreaterThanOrEqual | IntCC::SignedLessThanOrEqual);
        let [low, high] = [low, high].map(|v| match (ty, signed) {
            (types::I64, _) => v,
            (_, true) => pos.ins().sextend(types::I64, v),
            (_, false) => pos.ins().uextend(types::I64, v),
        });
        let is_less = if signed { IntCC::SignedLessThan } else { IntCC::UnsignedLessThan };
        let some = pos.ins().icmp(is_less, low, high);
        let gap = pos.ins().isub(high, low);
        // Rounded up: none is left behind the last one that is less than a step.
        let gap = pos.ins().iadd_imm_s(gap, -1);
        let gap = pos.ins().ushr_imm_u(gap, shift);
        let last = pos.ins().iadd_imm_s(gap, 1 - d);
        let zero = pos.ins().iconst(types::I64, 0);
        pos.ins().select(some, last, zero)
    };
    let steps = pos.ins().ushr_imm_u(last, i64::from(iterations.trailing_zeros()));
    let most = pos.ins().iconst(types::I64, i64::MAX - 1);
    let steps = pos.ins().umin(steps, most);
    pos.ins().iadd_imm_s(steps, 1)
}
