//! Edges of the primal, and which blocks run at most once per call.
//!
//! Parallel edges have been split, so an edge is named by its two blocks. A block outside every cycle runs at most once per
//! call: what it records has a fixed place in the activation frame, and needs no stack. Cycles are the strongly connected
//! components of the graph, irreducible ones included.

use cranelift_codegen::ir;
use cranelift_entity::{EntitySet, SecondaryMap};
use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

/// Control flow of a normalised function.
#[derive(Clone, Debug, Default)]
pub struct Cfg {
    /// Blocks in layout order; the first is the entry.
    pub blocks: Vec<ir::Block>,
    /// Predecessors in layout order.
    pub preds: SecondaryMap<ir::Block, Vec<ir::Block>>,
    /// Successors in the order of the terminator.
    pub succs: SecondaryMap<ir::Block, Vec<ir::Block>>,
    /// Blocks that may run more than once per call.
    pub cyclic: EntitySet<ir::Block>,
    /// Block of each instruction's result or each parameter.
    pub def_block: SecondaryMap<ir::Value, Option<ir::Block>>,
}

impl Cfg {
    /// Compute it.
    pub fn compute(func: &ir::Function) -> Self {
        let mut cfg = Cfg { blocks: func.layout.blocks().collect(), ..Self::default() };
        for &b in &cfg.blocks {
            for &p in func.dfg.block_params(b) {
                cfg.def_block[p] = Some(b);
            }
            for inst in func.layout.block_insts(b) {
                for &r in func.dfg.inst_results(inst) {
                    cfg.def_block[r] = Some(b);
                }
            }
            let last = func.layout.last_inst(b).expect("a block has a terminator");
            for call in func.dfg.insts[last].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables) {
                let s = call.block(&func.dfg.value_lists);
                cfg.succs[b].push(s);
                cfg.preds[s].push(b);
            }
        }
        let mut g = DiGraph::<ir::Block, ()>::new();
        let mut node = SecondaryMap::new();
        for &b in &cfg.blocks {
            node[b] = Some(g.add_node(b));
        }
        for &b in &cfg.blocks {
            for &s in &cfg.succs[b] {
                g.add_edge(node[b].unwrap(), node[s].unwrap(), ());
            }
        }
        for scc in tarjan_scc(&g) {
            let first = g[scc[0]];
            if scc.len() > 1 || cfg.succs[first].contains(&first) {
                for n in scc {
                    cfg.cyclic.insert(g[n]);
                }
            }
        }
        cfg
    }

    /// Whether a block runs at most once per call.
    pub fn once(&self, b: ir::Block) -> bool {
        !self.cyclic.contains(b)
    }

    /// Whether the block that defines a value runs at most once per call.
    pub fn once_value(&self, v: ir::Value) -> bool {
        self.def_block[v].is_none_or(|b| self.once(b))
    }
}

/// The arguments that a predecessor's terminator passes to `to`.
pub fn edge_args(func: &ir::Function, from: ir::Block, to: ir::Block) -> Vec<ir::Value> {
    let last = func.layout.last_inst(from).expect("a block has a terminator");
    func.dfg.insts[last]
        .branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables)
        .iter()
        .find(|c| c.block(&func.dfg.value_lists) == to)
        .map(|c| c.args(&func.dfg.value_lists).filter_map(|a| a.as_value()).collect())
        .unwrap_or_default()
}
