//! Control flow of a graph that is verified, and the names that it defines.
//!
//! **Question.** Which block dominates which, and where is a derived value or a by-product defined,
//! and of which type? **Answer.** The tree of dominators with the times at which a walk enters and
//! leaves each block, so that a question of dominance is two comparisons; one table per kind of
//! name. **Cost.** Linear, but for the fixpoint of [`dominators`].

use cranelift_codegen::ir::{self, Type, types};
use cranelift_entity::{EntityRef, SecondaryMap};

use crate::block::{CfgBlock, CfgBlocks};
use crate::graph::{Edges, dominators};
use crate::inst::{Shape, Val};
use crate::lower::FrameLayout;
use crate::map::HashMap;

/// What a graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphKind {
    /// The lifted primal.
    Lifted,
    /// The augmented forward pass.
    Forward,
    /// A pullback.
    Pullback,
    /// A pullback that clears shadows and leaves the tape to the one that follows it.
    Clearing,
    /// Forward pass and pullback in one function.
    Combined,
    /// Forward mode: primal and tangents, without a frame.
    Tangent,
}

/// What is known of a graph beside itself.
#[derive(Clone, Copy)]
pub struct GraphContext<'a> {
    /// What it is.
    pub kind: GraphKind,
    /// The normalised primal.
    pub primal: &'a ir::Function,
    /// The shape of each primal value's cotangent.
    pub ct: &'a SecondaryMap<ir::Value, Option<Shape>>,
    /// The activation frame, if there is one.
    pub frame: Option<&'a FrameLayout>,
    /// Bytes of a block number.
    pub id_bytes: u32,
}

/// Dominators of a graph whose nodes are numbers; the root is node 0.
pub struct Dominators {
    /// When a walk of the tree enters and leaves each node; zeros for what cannot be reached.
    times: Vec<(u32, u32)>,
}

impl Dominators {
    /// Those of a graph with these edges, from `root`.
    pub fn of(edges: &Edges, preds: &Edges, root: usize) -> Self {
        let idom = dominators(edges, preds, root);
        let below = |(b, up): (usize, &Option<usize>)| up.map(|up| (up, b));
        let mut tree: Vec<(usize, usize)> = idom.iter().enumerate().filter_map(below).collect();
        tree.sort_unstable();
        let mut first = vec![0; edges.len() + 1];
        tree.iter().for_each(|&(up, _)| first[up + 1] += 1);
        for b in 0..edges.len() {
            first[b + 1] += first[b];
        }
        let mut times = vec![(0, 0); edges.len()];
        let mut now = 1;
        times[root].0 = now;
        let mut work = vec![(root, first[root])];
        while let Some((b, next)) = work.last_mut() {
            now += 1;
            if *next == first[*b + 1] {
                times[*b].1 = now;
                work.pop();
                continue;
            }
            let child = tree[*next].1;
            *next += 1;
            times[child].0 = now;
            work.push((child, first[child]));
        }
        Self { times }
    }

    /// Whether a node can be reached from the root.
    pub fn reached(&self, b: usize) -> bool {
        self.times[b].0 != 0
    }

    /// Whether every path to `b` comes by `a`. What cannot be reached is dominated by all.
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        let (above, below) = (self.times[a], self.times[b]);
        below.0 == 0 || above.0 != 0 && above.0 <= below.0 && below.1 <= above.1
    }
}

/// Where a name is defined: the position of the block, and one more than that of the instruction;
/// zero for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Position of the block.
    pub block: u32,
    /// Place in it.
    pub at: u32,
}

/// A derived value: where it is defined, and its type.
#[derive(Clone, Copy)]
pub struct DerivedValue {
    /// Where.
    pub site: Site,
    /// Its type.
    pub ty: Type,
}

/// A graph, its control flow, and its names.
pub struct View<'g> {
    /// The graph.
    pub graph: &'g CfgBlocks,
    /// Its blocks by position.
    pub blocks: Vec<&'g CfgBlock>,
    /// Its edges.
    pub edges: Edges,
    /// Which blocks dominate which.
    pub dominators: Dominators,
    /// Derived values, by number.
    pub derived: Vec<Option<DerivedValue>>,
    /// Types of by-products and tangents.
    pub aux: HashMap<Val, Type>,
    primal: &'g ir::Function,
}

impl<'g> View<'g> {
    /// Look at a graph all of whose successors are there.
    pub fn of(graph: &'g CfgBlocks, primal: &'g ir::Function) -> Self {
        let edges = graph.edges();
        let dominators = Dominators::of(&edges, &edges.reversed(), 0);
        let blocks: Vec<&CfgBlock> = graph.blocks.values().collect();
        let (derived, aux) = (Vec::new(), HashMap::default());
        let mut view = Self { graph, blocks, edges, dominators, derived, aux, primal };
        for b in 0..view.blocks.len() {
            let block = view.blocks[b];
            let sites = block.insts.values().zip(1..).flat_map(|(i, at)| i.defs.iter().map(move |&d| (d, at)));
            for ((name, ty), at) in block.params.iter().map(|&p| (p, 0)).chain(sites) {
                match name {
                    Val::D(d) => {
                        if d.index() >= view.derived.len() {
                            view.derived.resize((2 * d.index()).max(64), None);
                        }
                        let site = Site { block: b as u32, at };
                        view.derived[d.index()].get_or_insert(DerivedValue { site, ty });
                    }
                    Val::Aux(..) | Val::Tangent(..) => drop(view.aux.insert(name, ty)),
                    Val::Primal(_) | Val::Delta(_) => {}
                }
            }
        }
        view
    }

    /// The type of a name, if it is known.
    pub fn type_of(&self, name: Val) -> Option<Type> {
        match name {
            Val::Primal(v) if v.as_u32() < self.primal.dfg.num_values() as u32 => Some(self.primal.dfg.value_type(v)),
            Val::Primal(_) => None,
            Val::Delta(_) => Some(types::I64),
            Val::Aux(..) | Val::Tangent(..) => self.aux.get(&name).copied(),
            Val::D(d) => self.derived.get(d.index()).copied().flatten().map(|d| d.ty),
        }
    }

    /// Where a block is.
    pub fn position(&self, block: crate::BlockId) -> usize {
        self.graph.blocks.get_index_of(&block).unwrap_or(0)
    }

    /// Whether a block runs whenever the graph has come to another.
    pub fn dominates(&self, a: usize, b: usize) -> bool {
        self.dominators.dominates(a, b)
    }

    /// Blocks that can be reached, with their positions.
    pub fn reached(&self) -> impl Iterator<Item = (usize, &'g CfgBlock)> + '_ {
        self.blocks.iter().copied().enumerate().filter(|&(b, _)| self.dominators.reached(b))
    }
}
