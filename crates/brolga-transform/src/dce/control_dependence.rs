//! Control dependence in a derived graph: which branch decides whether something runs.
//!
//! **Problem.** Whether a block runs is decided by certain branches; which of several arguments a
//! block parameter receives is decided by branches too, and not always by the same ones.
//! **Answer.** One graph in which an edge that passes arguments is a node of its own, between the
//! block that it leaves and the block that it enters. A node depends on a branch if it
//! post-dominates one way out of the branch, but not the branch itself (Ferrante, Ottenstein and
//! Warren, 1987). A parameter then depends on what its edges depend on, and a loop whose exit
//! passes arguments does not depend on itself.
//!
//! **Exits.** A virtual exit joins returns and traps. A block that cannot reach it is in an endless
//! loop, which no post-dominator describes: such blocks, and all that can lead to them, are listed
//! apart as [`Control::endless`].
//!
//! **Invariants.** Only reachable blocks are here, in layout order; they are named by their
//! position in that order. Nothing that can be seen depends on the order of a hash map.
//!
//! **Cost.** Linear in the graph but for dominators and for the dependences themselves, of which a
//! block has as many as there are branches that decide on it.

use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlocks, Term};
use brolga_ir::graph::{Edges, dominators, order};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

/// An edge that passes arguments: one target of a terminator.
pub(super) struct Edge {
    /// Block that it leaves.
    pub from: usize,
    /// Which target of its terminator.
    pub target: usize,
    /// Block that it enters.
    pub to: usize,
}

/// A block, or an edge that passes arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockOrEdge {
    /// By position.
    Block(usize),
    /// By position in [`Control::edges`].
    Edge(usize),
}

/// Edges, post-dominators and control dependence of a graph.
pub(super) struct Control {
    /// Reachable blocks in layout order, the entry first.
    pub blocks: Vec<BlockId>,
    /// Edges that pass arguments.
    pub edges: Vec<Edge>,
    /// Blocks from which the run may get to where no exit can be reached.
    pub endless: Vec<usize>,
    /// By block: its number in an order in which no block can run after one of a higher number, and
    /// whether it can run after itself. Blocks of one cycle have one number.
    pub order: Vec<(usize, bool)>,
    at: SecondaryMap<BlockId, u32>,
    /// What leads to each node: blocks come first, then edges, then the virtual exit.
    preds: Edges,
    /// Immediate post-dominators of nodes; none for the exit and for nodes that cannot reach it.
    ipdom: Vec<Option<usize>>,
    /// By node, mostly one or two.
    deps: Vec<SmallVec<[usize; 2]>>,
}

impl Control {
    /// Compute it; `None` if no exit can be reached at all, or nothing is there.
    pub(super) fn compute(graph: &CfgBlocks) -> Option<Self> {
        if graph.blocks.is_empty() {
            return None;
        }
        let all = graph.edges();
        let reached = all.reached([0]);
        let here = || (0..all.len()).filter(|&i| reached[i]);
        let n = here().count();
        let mut blocks = Vec::with_capacity(n);
        let mut at: SecondaryMap<BlockId, u32> = graph.blocks.one_each();
        let mut position = vec![0; all.len()];
        for (i, &b) in graph.blocks.keys().enumerate().filter(|x| reached[x.0]) {
            position[i] = blocks.len();
            at[b] = blocks.len() as u32;
            blocks.push(b);
        }
        let mut edges: Vec<Edge> = Vec::with_capacity(all.len());
        // From block to block, whatever is passed.
        let mut direct = Edges::with_capacity(n, 2 * n);
        for i in here() {
            let from = position[i];
            if !matches!(graph.blocks[i].term, Term::Switch(..)) {
                let passes = all.of(i).enumerate().filter(|&(_, s)| !graph.blocks[s].params.is_empty());
                edges.extend(passes.map(|(target, s)| Edge { from, target, to: position[s] }));
            }
            direct.push(all.of(i).map(|s| position[s]));
        }
        let exit = n + edges.len();
        let mut succs = Edges::with_capacity(exit + 1, direct.of_all() + edges.len() + n);
        let mut rest = edges.iter().zip(n..).peekable();
        for b in 0..n {
            let node =
                |(target, s)| rest.next_if(|(e, _)| (e.from, e.target) == (b, target)).map_or(s, |(_, node)| node);
            let leaves = (direct.of(b).len() == 0).then_some(exit);
            succs.push(direct.of(b).enumerate().map(node).chain(leaves));
        }
        edges.iter().for_each(|e| succs.push([e.to]));
        succs.push([]);
        let preds = succs.reversed();
        let ipdom = dominators(&preds, &succs, exit);
        let leaves = |node: usize| node == exit || ipdom[node].is_some();
        if !leaves(0) {
            return None;
        }
        let mut stuck = (0..n).filter(|&b| !leaves(b)).peekable();
        let mut endless = Vec::new();
        if stuck.peek().is_some() {
            let leads = preds.reached(stuck);
            endless.extend((0..n).filter(|&b| leads[b]));
        }
        let mut deps: Vec<SmallVec<[usize; 2]>> = vec![SmallVec::new(); exit + 1];
        for a in (0..n).filter(|&a| leaves(a)) {
            for s in succs.of(a).filter(|&s| leaves(s)) {
                let mut above = Some(s);
                while let Some(x) = above.filter(|_| above != ipdom[a]) {
                    // Another way out of `a` has been here, and went on from here.
                    if deps[x].last() == Some(&a) {
                        break;
                    }
                    deps[x].push(a);
                    above = ipdom[x];
                }
            }
        }
        Some(Control { blocks, edges, endless, order: order(&direct), at, preds, ipdom, deps })
    }

    /// Those that pass arguments to a block, by position in [`Control::edges`].
    pub(super) fn incoming(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        let n = self.blocks.len();
        self.preds.of(block).filter_map(move |node| node.checked_sub(n))
    }

    /// The position of a reachable block.
    pub(super) fn position(&self, b: BlockId) -> usize {
        self.at[b] as usize
    }

    /// How many places there are.
    pub(super) fn len(&self) -> usize {
        self.blocks.len() + self.edges.len()
    }

    /// The number of a place, below [`Self::len`].
    pub(super) fn number(&self, p: BlockOrEdge) -> usize {
        match p {
            BlockOrEdge::Block(b) => b,
            BlockOrEdge::Edge(e) => self.blocks.len() + e,
        }
    }

    /// The blocks whose terminators decide whether a place is passed.
    pub(super) fn deps(&self, p: BlockOrEdge) -> &[usize] {
        &self.deps[self.number(p)]
    }

    /// The first place after block `b`, on every way to an exit, for which `wanted` holds of its
    /// number.
    pub(super) fn next(&self, b: usize, wanted: impl Fn(usize) -> bool) -> Option<BlockOrEdge> {
        let mut at = self.ipdom[b]?;
        while at < self.len() {
            if wanted(at) {
                return Some(if at < self.blocks.len() {
                    BlockOrEdge::Block(at)
                } else {
                    BlockOrEdge::Edge(at - self.blocks.len())
                });
            }
            at = self.ipdom[at]?;
        }
        None
    }
}
