//! Control-flow graph of the primal: its edges, and which blocks run at most once per call.
//!
//! **Question.** Which blocks lead to a block, what does each pass, and can it run twice in a call?
//!
//! **Answer.** Parallel edges have been split, so an edge is named by its two blocks. A block
//! outside every cycle runs at most once per call: what it records has a fixed place in the
//! activation frame, and needs no stack. Cycles are the strongly connected components of the graph,
//! irreducible ones included.
//!
//! **Cost.** One walk over the function, and one over its edges for the cycles.

pub mod loops;
pub mod stores;

use std::cell::OnceCell;

use brolga_ir::graph::{Edges, on_cycles};
use brolga_ir::map::one_each;
use cranelift_codegen::ir;
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::cfg::stores::Stores;

/// The ends of a block's edges: mostly one or two.
pub type Ends = SmallVec<[ir::Block; 2]>;

/// A part of a list: from here to there.
type ListRange = (u32, u32);

/// Control flow of a normalised function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cfg {
    /// Blocks in layout order; the first is the entry.
    pub blocks: Vec<ir::Block>,
    /// Predecessors in layout order.
    pub preds: SecondaryMap<ir::Block, Ends>,
    /// Successors in the order of the terminator.
    pub succs: SecondaryMap<ir::Block, Ends>,
    /// The same, by the positions of blocks in the layout.
    pub edges: Edges,
    /// Blocks that may run more than once per call.
    pub cyclic: EntitySet<ir::Block>,
    /// Block of each instruction's result or each parameter.
    pub def_block: SecondaryMap<ir::Value, Option<ir::Block>>,
    /// All calls, in layout order.
    pub calls: Vec<ir::Inst>,
    /// All instructions, in layout order. Two dozen analyses go through them, and the layout itself
    /// is a linked list.
    insts: Vec<ir::Inst>,
    /// Where those of each block are.
    of_block: SecondaryMap<ir::Block, ListRange>,
    /// What is passed along each edge, one after the other.
    args: Vec<ir::Value>,
    /// For each predecessor of a block, where that is.
    passed: SecondaryMap<ir::Block, SmallVec<[ListRange; 2]>>,
    /// The same for each successor.
    passes: SecondaryMap<ir::Block, SmallVec<[ListRange; 2]>>,
    /// Where memory is written, once an analysis has asked for the last store before a load.
    pub(crate) stores: OnceCell<Stores>,
}

impl Cfg {
    /// Compute it.
    pub fn compute(func: &ir::Function) -> Self {
        let mut cfg = Self::default();
        cfg.blocks.reserve(func.dfg.num_blocks());
        cfg.blocks.extend(func.layout.blocks());
        cfg.preds.resize(func.dfg.num_blocks());
        cfg.succs.resize(func.dfg.num_blocks());
        cfg.def_block.resize(func.dfg.num_values());
        cfg.of_block.resize(func.dfg.num_blocks());
        cfg.passed.resize(func.dfg.num_blocks());
        cfg.passes.resize(func.dfg.num_blocks());
        cfg.insts.reserve(func.dfg.num_insts());
        cfg.edges = Edges::with_capacity(cfg.blocks.len(), 2 * cfg.blocks.len());
        let node = cfg.numbers();
        for i in 0..cfg.blocks.len() {
            let b = cfg.blocks[i];
            for &p in func.dfg.block_params(b) {
                cfg.def_block[p] = Some(b);
            }
            let first = cfg.insts.len() as u32;
            for inst in func.layout.block_insts(b) {
                for &r in func.dfg.inst_results(inst) {
                    cfg.def_block[r] = Some(b);
                }
                if func.dfg.insts[inst].opcode().is_call() {
                    cfg.calls.push(inst);
                }
                cfg.insts.push(inst);
            }
            cfg.of_block[b] = (first, cfg.insts.len() as u32);
            let last = *cfg.insts.last().expect("a block has a terminator");
            for call in func.dfg.insts[last].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables) {
                let s = call.block(&func.dfg.value_lists);
                cfg.succs[b].push(s);
                cfg.preds[s].push(b);
                let first = cfg.args.len() as u32;
                cfg.args.extend(call.args(&func.dfg.value_lists).filter_map(|a| a.as_value()));
                let part = (first, cfg.args.len() as u32);
                cfg.passed[s].push(part);
                cfg.passes[b].push(part);
            }
            cfg.edges.push(cfg.succs[b].iter().map(|&s| node[s]));
        }
        let cyclic = on_cycles(&cfg.edges);
        cfg.cyclic.extend(cfg.blocks.iter().zip(cyclic).filter(|x| x.1).map(|x| *x.0));
        cfg
    }

    /// The instructions of a block.
    pub fn insts(&self, b: ir::Block) -> &[ir::Inst] {
        let (first, end) = self.of_block[b];
        &self.insts[first as usize..end as usize]
    }

    /// All instructions, in layout order.
    pub fn all_insts(&self) -> &[ir::Inst] {
        &self.insts
    }

    /// What a predecessor passes to a block, one for each of its parameters.
    pub fn args(&self, from: ir::Block, to: ir::Block) -> &[ir::Value] {
        let (preds, succs) = (&self.preds[to], &self.succs[from]);
        // A table's entries are many edges out of one block, and the ways after them many into
        // one: the other end has few.
        let found = if preds.len() < succs.len() {
            preds.iter().position(|&p| p == from).map(|i| self.passed[to][i])
        } else {
            succs.iter().position(|&s| s == to).map(|i| self.passes[from][i])
        };
        let (first, end) = found.unwrap_or_default();
        &self.args[first as usize..end as usize]
    }

    /// What each predecessor of a block passes for one of its parameters.
    pub fn incoming(&self, to: ir::Block, param: usize) -> impl Iterator<Item = ir::Value> + '_ {
        self.passed[to].iter().map(move |p| self.args[p.0 as usize..p.1 as usize][param])
    }

    /// The position of each block in the layout.
    pub fn numbers(&self) -> SecondaryMap<ir::Block, usize> {
        let mut at = one_each(self.preds.keys().len());
        for (i, &b) in self.blocks.iter().enumerate() {
            at[b] = i;
        }
        at
    }

    /// Whether a block runs at most once per call.
    pub fn is_acyclic(&self, b: ir::Block) -> bool {
        !self.cyclic.contains(b)
    }

    /// Whether the block that defines a value runs at most once per call.
    pub fn def_is_acyclic(&self, v: ir::Value) -> bool {
        self.def_block[v].is_none_or(|b| self.is_acyclic(b))
    }
}

/// The arguments that a predecessor's terminator passes to `to`.
pub fn edge_args(func: &ir::Function, from: ir::Block, to: ir::Block) -> SmallVec<[ir::Value; 4]> {
    let last = func.layout.last_inst(from).expect("a block has a terminator");
    func.dfg.insts[last]
        .branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables)
        .iter()
        .find(|c| c.block(&func.dfg.value_lists) == to)
        .map(|c| c.args(&func.dfg.value_lists).filter_map(|a| a.as_value()).collect())
        .unwrap_or_default()
}
