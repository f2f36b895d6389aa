//! How many iterations of a loop are a step.
//!
//! **Question.** A call takes as long as some dozen instructions. How many iterations are enough
//! for a call to be little beside them?
//!
//! **Answer.** As many as weigh [`ENOUGH`], by the cost model, where a loop within is taken to have
//! [`OF_INNER`] iterations, and a call of a function of the program is enough.
//!
//! **Cost.** One walk over the loop.

use brolga_ir::Program;
use brolga_rules::cost::cost;
use cranelift_codegen::ir;

use crate::primal::normalise::NormalisedPrimal;

/// What a step weighs, if it is not a single iteration: a call is little beside it.
const ENOUGH: u64 = 1000;
/// Most iterations of a step.
const MOST_ITERATIONS: u64 = 64;
/// Iterations that a loop within the step is taken to have.
const OF_INNER: u64 = 16;

/// How many iterations are a step: a power of two. It does not depend on the budget, since sums in
/// a step are added to what the steps after it have made.
pub(super) fn iterations(program: &Program, n: &NormalisedPrimal, blocks: &[ir::Block]) -> u32 {
    let inst = |i: ir::Inst| match n.func.dfg.insts[i] {
        ir::InstructionData::Call { func_ref, .. } if program.callee(&n.func, func_ref).is_some() => ENOUGH,
        ref data => u64::from(cost(data.opcode())),
    };
    let depth = |b: ir::Block| n.loops.innermost[b].map_or(1, |l| n.loops.loops[l].depth);
    let outer = blocks.iter().map(|&b| depth(b)).min().unwrap_or(1);
    let in_block = |&b: &ir::Block| {
        let iterations = OF_INNER.saturating_pow((depth(b) - outer).min(4));
        iterations * n.cfg.insts(b).iter().map(|&i| inst(i)).sum::<u64>()
    };
    let weight = blocks.iter().map(in_block).sum::<u64>().max(1);
    let most = (ENOUGH / weight).clamp(1, MOST_ITERATIONS);
    1 << most.ilog2()
}
