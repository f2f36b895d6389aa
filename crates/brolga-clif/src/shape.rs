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
    pub loops: LoopAnalysis,
}

impl FlowInfo {
    /// As it is now.
    pub fn of(func: &ir::Function) -> Self {
        let (cfg, domtree) = (ControlFlowGraph::new(), DominatorTree::new());
        let mut shape = FlowInfo { cfg, domtree, loops: LoopAnalysis::new() };
        shape.compute(func);
        shape
    }

    /// As it has become, in the same tables.
    pub(super) fn compute(&mut self, func: &ir::Function) {
        self.cfg.compute(func);
        self.domtree.compute(func, &self.cfg);
        self.loops.compute(func, &self.cfg, &self.domtree);
    }
}
