//! Loop information of an emitted function: its flow graph, dominators and loops.

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
