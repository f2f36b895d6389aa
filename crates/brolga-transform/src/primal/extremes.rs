//! The larger and the smaller of two integers, as a choice between them.
//!
//! **Problem.** Where floats are not negative, their bits are in the order of the floats, and the
//! larger of a float's bits and zero is the float if it is positive. An optimiser makes that of
//! `u & ~(u >> 31)` over arrays. Analyses of bits follow what is chosen, and no arithmetic.
//!
//! **Answer.** In lanes as wide as floats, and of a float's bits, what is chosen is compared and
//! selected (of other numbers the larger one is an index, say, and no choice between addresses):
//!
//! ```text
//! v3 = smax v1, v2          v4 = icmp sgt v1, v2
//!                           v3 = bitselect v4, v1, v2
//! ```
//!
//! **Invariant.** Every bit is what it was.
//!
//! **Cost.** A walk over the instructions.

use brolga_analysis::query::extreme_condition;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode};

use crate::primal::edit::before;

/// Write them so.
pub(crate) fn extremes(func: &mut ir::Function) {
    let all: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    for inst in all {
        let InstructionData::Binary { opcode, args: [x, y] } = func.dfg.insts[inst] else { continue };
        let Some(cond) = extreme_condition(opcode) else { continue };
        let ty = func.dfg.value_type(x);
        let of_float = [x, y].into_iter().any(|v| is_of_float(func, v));
        if !matches!(ty.lane_type().bytes(), 4 | 8) || !(ty.is_vector() || of_float) {
            continue;
        }
        let c = before(func, inst).ins().icmp(cond, x, y);
        let opcode = if ty.is_vector() { Opcode::Bitselect } else { Opcode::Select };
        func.dfg.insts[inst] = InstructionData::Ternary { opcode, args: [c, x, y] };
    }
}

/// Whether an integer is a float's bits.
fn is_of_float(func: &ir::Function, v: ir::Value) -> bool {
    let made = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Bitcast);
    made.is_some_and(|i| func.dfg.value_type(func.dfg.inst_args(i)[0]).is_float())
}
