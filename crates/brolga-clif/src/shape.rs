//! Loop information of an emitted function: its flow graph, dominators and loops.
//!
//! **Question.** Where are the loops of a function, as it is now?
//!
//! **Answer.** [`FlowInfo::of`] computes Cranelift's three analyses, each from those before it.
//! After a change of control flow they are computed anew.
//!
//! **Cost.** That of Cranelift's analyses: a walk over the blocks for each.

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir;
use cranelift_codegen::loop_analysis::LoopAnalysis;

/// The control flow of a function.
pub struct FlowInfo {
    pub(crate) cfg: ControlFlowGraph,
    pub(crate) domtree: DominatorTree,
    /// Loops.
    pub(crate) loops: LoopAnalysis,
}

impl FlowInfo {
    /// As it is now.
    pub fn of(func: &ir::Function) -> Self {
        let (mut cfg, mut domtree, mut loops) = (ControlFlowGraph::new(), DominatorTree::new(), LoopAnalysis::new());
        cfg.compute(func);
        domtree.compute(func, &cfg);
        loops.compute(func, &cfg, &domtree);
        FlowInfo { cfg, domtree, loops }
    }
}
