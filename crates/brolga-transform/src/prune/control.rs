//! Control dependence in a derived graph: which branch decides whether something runs.
//!
//! **Problem.** Whether a block runs is decided by certain branches; which of several arguments a block parameter receives
//! is decided by branches too, and not always by the same ones. **Answer.** One graph in which an edge that passes arguments
//! is a node of its own, between the block that it leaves and the block that it enters. A node depends on a branch if it
//! post-dominates one way out of the branch, but not the branch itself (Ferrante, Ottenstein and Warren, 1987). A parameter
//! then depends on what its edges depend on, and a loop whose exit passes arguments does not depend on itself.
//!
//! **Exits.** A virtual exit joins returns and traps. A block that cannot reach it is in an endless loop, which no
//! post-dominator describes: such blocks, and all that can lead to them, are listed apart as [`Control::endless`].
//!
//! **Invariants.** Only reachable blocks are here, in layout order; they are named by their position in that order. Nothing
//! that can be seen depends on the order of a hash map. Time and space are linear in the graph but for the dependences
//! themselves, of which a block has as many as there are branches that decide on it.

use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlocks, Term};
use brolga_ir::graph::{dominators, order};
use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};

/// Nodes at the ends of edges: mostly one or two.
type Ends = SmallVec<[usize; 2]>;

/// An edge that passes arguments: one target of a terminator.
pub struct Edge {
    /// Block that it leaves.
    pub from: usize,
    /// Which target of its terminator.
    pub target: usize,
    /// Block that it enters.
    pub to: usize,
}

/// A block, or an edge that passes arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// By position.
    Block(usize),
    /// By position in [`Control::edges`].
    Edge(usize),
}

/// Edges, post-dominators and control dependence of a graph.
pub struct Control {
    /// Reachable blocks in layout order, the entry first.
    pub blocks: Vec<BlockId>,
    /// Edges that pass arguments.
    pub edges: Vec<Edge>,
    /// Those that enter each block.
    pub incoming: Vec<Vec<usize>>,
    /// Blocks from which the run may get to where no exit can be reached.
    pub endless: Vec<usize>,
    /// By block: its number in an order in which no block can run after one of a higher number, and whether it can run after itself. Blocks
    /// of one cycle have one number.
    pub order: Vec<(usize, bool)>,
    at: SecondaryMap<BlockId, u32>,
    /// Immediate post-dominators, by node: blocks first, then edges, then the virtual exit; none for the exit and for nodes that cannot
    /// reach it.
    ipdom: Vec<Option<usize>>,
    deps: Vec<Ends>,
}

/// Blocks that can be reached from the entry, in layout order.
pub fn reachable(graph: &CfgBlocks) -> Vec<BlockId> {
    let mut seen = vec![false; graph.blocks.len()];
    let mut work: Vec<BlockId> = graph.blocks.keys().copied().take(1).collect();
    while let Some(b) = work.pop() {
        let i = graph.blocks.get_index_of(&b).expect("a successor is a block");
        if !std::mem::replace(&mut seen[i], true) {
            work.extend(graph.blocks[i].term.successors());
        }
    }
    graph.blocks.keys().zip(seen).filter(|x| x.1).map(|x| *x.0).collect()
}

/// Nodes from which one of `from` can be reached, by way of `next`.
fn closure(next: &[Ends], from: Vec<usize>) -> Vec<bool> {
    let mut seen = vec![false; next.len()];
    let mut work = from;
    while let Some(n) = work.pop() {
        if !std::mem::replace(&mut seen[n], true) {
            work.extend(&next[n]);
        }
    }
    seen
}

impl Control {
    /// Compute it; `None` if no exit can be reached at all, or nothing is there.
    pub fn compute(graph: &CfgBlocks) -> Option<Self> {
        let blocks = reachable(graph);
        let mut at: SecondaryMap<BlockId, u32> = SecondaryMap::new();
        blocks.iter().zip(0..).for_each(|(&b, i)| at[b] = i);
        let n = blocks.len();
        let mut edges: Vec<Edge> = Vec::new();
        let mut incoming = vec![Vec::new(); n];
        let mut block_succs: Vec<SmallVec<[Place; 2]>> = (0..n).map(|_| SmallVec::new()).collect();
        for (from, b) in blocks.iter().enumerate() {
            let term = &graph.blocks[b].term;
            for (target, s) in term.successors().into_iter().enumerate() {
                let to = at[s] as usize;
                if graph.blocks[&s].params.is_empty() || matches!(term, Term::Switch(..)) {
                    block_succs[from].push(Place::Block(to));
                } else {
                    incoming[to].push(edges.len());
                    block_succs[from].push(Place::Edge(edges.len()));
                    edges.push(Edge { from, target, to });
                }
            }
        }
        let exit = n + edges.len();
        let node = |p: Place| match p {
            Place::Block(b) => b,
            Place::Edge(e) => n + e,
        };
        let mut succs: Vec<Ends> = block_succs.iter().map(|s| s.iter().map(|&p| node(p)).collect()).collect();
        for s in succs.iter_mut().filter(|s| s.is_empty()) {
            s.push(exit);
        }
        succs.extend(edges.iter().map(|e| smallvec![e.to]));
        succs.push(Ends::new());
        let mut preds: Vec<Ends> = (0..=exit).map(|_| Ends::new()).collect();
        for (a, ss) in succs.iter().enumerate() {
            ss.iter().for_each(|&s| preds[s].push(a));
        }
        let mut order = order(succs.len(), |b| succs[b].iter().copied());
        order.truncate(n);
        let exits = closure(&preds, vec![exit]);
        if n == 0 || !exits[0] {
            return None;
        }
        let stuck = (0..n).filter(|&b| !exits[b]).collect();
        let endless = closure(&preds, stuck);
        let ipdom = dominators(exit + 1, exit, |p| preds[p].iter().copied());
        let mut deps: Vec<Ends> = (0..=exit).map(|_| Ends::new()).collect();
        for a in (0..n).filter(|&a| exits[a]) {
            for &s in succs[a].iter().filter(|&&s| exits[s]) {
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
        let endless = (0..n).filter(|&b| endless[b]).collect();
        Some(Control { blocks, edges, incoming, endless, order, at, ipdom, deps })
    }

    /// The position of a reachable block.
    pub fn position(&self, b: BlockId) -> usize {
        self.at[b] as usize
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.blocks.len() + self.edges.len()
    }

    /// The number of a place, below [`Self::len`].
    pub fn number(&self, p: Place) -> usize {
        match p {
            Place::Block(b) => b,
            Place::Edge(e) => self.blocks.len() + e,
        }
    }

    /// The blocks whose terminators decide whether a place is passed.
    pub fn deps(&self, p: Place) -> &[usize] {
        &self.deps[self.number(p)]
    }

    /// The first place after block `b`, on every way to an exit, for which `wanted` holds of its number.
    pub fn next(&self, b: usize, wanted: impl Fn(usize) -> bool) -> Option<Place> {
        let mut at = self.ipdom[b]?;
        while at < self.len() {
            if wanted(at) {
                return Some(if at < self.blocks.len() {
                    Place::Block(at)
                } else {
                    Place::Edge(at - self.blocks.len())
                });
            }
            at = self.ipdom[at]?;
        }
        None
    }
}
