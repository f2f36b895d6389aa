//! Branch canonicalisation: branches at the edge of loops are swapped so that Cranelift can hoist.
//!
//! **Problem.** Cranelift's mid-end places pure instructions as it walks the dominator tree, and
//! moves what a loop does not change out of it. It keeps a stack of the loops that it is in.
//! Children are visited in reverse postorder; where the block behind a loop comes before the body
//! (as it does for `brif more, body, behind`), the walk leaves the loop, forgets it, and then finds
//! itself in a body whose loop it does not know. Nothing is hoisted from there: the address of an
//! array's row is multiplied out anew for each element. (Seen in Cranelift 0.135. Loops that ask at
//! their end are not concerned, nor are short functions, which do without the mid-end:
//! [`crate::licm_gvn`].)
//!
//! **Answer.** A branch of which only the first target is in the innermost loop is reversed:
//! targets swapped, condition complemented. Nothing else changes; values, blocks and their order
//! stay.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData};
use cranelift_codegen::loop_analysis::LoopAnalysis;

/// Reverse the branches of a function with these loops.
pub fn orient(func: &mut ir::Function, loops: &LoopAnalysis) {
    let mut wrong = Vec::new();
    for b in func.layout.blocks() {
        let (Some(l), Some(last)) = (loops.innermost_loop(b), func.layout.last_inst(b)) else { continue };
        let InstructionData::Brif { blocks, .. } = func.dfg.insts[last] else { continue };
        let targets = blocks.map(|c| c.block(&func.dfg.value_lists));
        let [stays, leaves] = targets.map(|b| loops.is_in_loop(b, l));
        if stays && !leaves && targets[0] != loops.loop_header(l) {
            wrong.push(last);
        }
    }
    for branch in wrong {
        swap_targets(func, branch);
    }
}

fn swap_targets(func: &mut ir::Function, branch: ir::Inst) {
    let at = func.srcloc(branch);
    let cond = func.dfg.inst_args(branch)[0];
    let compare = func.dfg.value_def(cond).inst().map(|i| func.dfg.insts[i]);
    let mut pos = FuncCursor::new(func).at_inst(branch);
    pos.set_srcloc(at);
    let cond = match compare {
        Some(InstructionData::IntCompare { cond, args: [a, b], .. }) => pos.ins().icmp(cond.complement(), a, b),
        Some(InstructionData::FloatCompare { cond, args: [a, b], .. }) => pos.ins().fcmp(cond.complement(), a, b),
        _ => {
            let zero = pos.func.dfg.value_type(cond);
            let zero = pos.ins().iconst(zero, 0);
            pos.ins().icmp(IntCC::Equal, cond, zero)
        }
    };
    let InstructionData::Brif { arg, blocks, .. } = &mut func.dfg.insts[branch] else { unreachable!("found as such") };
    *arg = cond;
    blocks.swap(0, 1);
}
