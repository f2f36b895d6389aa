//! Branches at the edge of loops, turned so that Cranelift can hoist.
//!
//! **Problem.** Cranelift's mid-end places pure instructions as it walks the dominator tree, and moves what a loop does not
//! change out of it. It keeps a stack of the loops that it is in. Children are visited in reverse postorder; where the block
//! behind a loop comes before the body (as it does for `brif more, body, behind`), the walk leaves the loop, forgets it, and
//! then finds itself in a body whose loop it does not know. Nothing is hoisted from there: the address of an array's row is
//! multiplied out anew for each element. (Seen in Cranelift 0.135. Loops that ask at their end are not concerned.)
//!
//! **Algorithm.** A branch of which only the first target is in the innermost loop is turned around: targets swapped,
//! condition complemented. Nothing else changes; values, blocks and their order stay.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData};
use cranelift_codegen::loop_analysis::LoopAnalysis;
use cranelift_entity::EntitySet;

/// Turn the branches of a function.
pub fn orient(func: &mut ir::Function) {
    // An edge that leads back in layout order: all loops have one, and it costs nothing to ask.
    let mut earlier = EntitySet::new();
    let leads_back = func.layout.blocks().any(|b| {
        earlier.insert(b);
        func.block_successors(b).any(|s| earlier.contains(s))
    });
    if !leads_back {
        return;
    }
    let cfg = ControlFlowGraph::with_function(func);
    let domtree = DominatorTree::with_function(func, &cfg);
    let mut loops = LoopAnalysis::new();
    loops.compute(func, &cfg, &domtree);
    let mut wrong = Vec::new();
    for b in func.layout.blocks() {
        let (Some(l), Some(last)) = (loops.innermost_loop(b), func.layout.last_inst(b)) else { continue };
        let InstructionData::Brif { blocks, .. } = func.dfg.insts[last] else { continue };
        let [stays, leaves] = blocks.map(|c| loops.is_in_loop(c.block(&func.dfg.value_lists), l));
        if stays && !leaves {
            wrong.push(last);
        }
    }
    for branch in wrong {
        turn(func, branch);
    }
}

fn turn(func: &mut ir::Function, branch: ir::Inst) {
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
