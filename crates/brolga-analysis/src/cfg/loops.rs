//! Dominators and natural loops.
//!
//! **Question.** Which blocks are loops, how are they nested, and where are they entered and left?
//!
//! **Answer.** A back edge goes to a block that dominates its source; the loop of a header is what
//! reaches its back edges without passing through it. Loops nest or are disjoint. A cycle that
//! remains when all back edges are taken away has more than one way in: it is *irreducible*, and
//! the answer names the blocks that lie on one.
//!
//! **Cost.** The dominators, a walk over each loop, and a look at all blocks for each loop. Whether
//! one block dominates another is asked of intervals of a walk over the dominator tree, in a
//! constant number of steps.
//!
//! **Source.** Aho, Lam, Sethi, Ullman, *Compilers*, section 9.6.

use brolga_ir::graph::{Edges, dominators, on_cycles};
use brolga_ir::map::one_each;
use cranelift_codegen::ir;
use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap, entity_impl};
use smallvec::{SmallVec, smallvec};

use crate::cfg::{Cfg, Ends};

/// A natural loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoopId(u32);
entity_impl!(LoopId, "loop");

/// One natural loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The block through which it is entered.
    pub header: ir::Block,
    /// Sources of its back edges, in layout order.
    pub latches: Vec<ir::Block>,
    /// Predecessors of the header outside of it, in layout order.
    pub entries: Vec<ir::Block>,
    /// All its blocks, those of inner loops included.
    pub blocks: EntitySet<ir::Block>,
    /// Edges that leave it, in layout order of their sources.
    pub exits: Vec<(ir::Block, ir::Block)>,
    /// The loop around it.
    pub parent: Option<LoopId>,
    /// 1 for an outermost loop.
    pub depth: u32,
}

/// Dominators and loops of a function.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    /// All natural loops; an outer one comes before those in it.
    pub loops: PrimaryMap<LoopId, Loop>,
    /// The innermost loop of each block.
    pub innermost: SecondaryMap<ir::Block, Option<LoopId>>,
    /// Blocks on cycles that are no natural loops.
    pub irreducible: EntitySet<ir::Block>,
    /// Immediate dominators.
    pub idom: SecondaryMap<ir::Block, Option<ir::Block>>,
    /// Interval of each block in a depth-first walk of the dominator tree.
    span: SecondaryMap<ir::Block, (u32, u32)>,
}

impl Loops {
    /// Compute them. Every block is reachable.
    pub fn compute(cfg: &Cfg) -> Self {
        let mut l = Self::default();
        if cfg.blocks.is_empty() {
            return l;
        }
        l.dominators(cfg);
        l.find(cfg);
        l.find_irreducible(cfg);
        l
    }

    fn dominators(&mut self, cfg: &Cfg) {
        let idoms = dominators(&cfg.edges, &cfg.edges.reversed(), 0);
        let all = cfg.preds.keys().len();
        let mut children: SecondaryMap<ir::Block, Ends> = one_each(all);
        self.idom.resize(all);
        self.span.resize(all);
        self.innermost.resize(all);
        for (&b, d) in cfg.blocks.iter().zip(idoms) {
            self.idom[b] = d.map(|d| cfg.blocks[d]);
            if let Some(d) = self.idom[b] {
                children[d].push(b);
            }
        }
        let mut clock = 0;
        let mut work: SmallVec<[(ir::Block, bool); 16]> = smallvec![(cfg.blocks[0], false)];
        while let Some((b, left)) = work.pop() {
            clock += 1;
            if left {
                self.span[b].1 = clock;
                continue;
            }
            self.span[b].0 = clock;
            work.push((b, true));
            work.extend(children[b].iter().rev().map(|&c| (c, false)));
        }
    }

    /// Whether every path from the entry to `b` passes through `a`.
    pub fn dominates(&self, a: ir::Block, b: ir::Block) -> bool {
        self.span[a].0 <= self.span[b].0 && self.span[b].1 <= self.span[a].1
    }

    fn find(&mut self, cfg: &Cfg) {
        let mut found: Vec<Loop> = Vec::new();
        for &header in &cfg.blocks {
            if !cfg.preds[header].iter().any(|&p| self.dominates(header, p)) {
                continue;
            }
            let (latches, entries): (Vec<_>, Vec<_>) =
                cfg.preds[header].iter().copied().partition(|&p| self.dominates(header, p));
            let mut blocks = EntitySet::new();
            blocks.insert(header);
            let mut work: SmallVec<[ir::Block; 8]> = latches.iter().copied().collect();
            while let Some(b) = work.pop() {
                if blocks.insert(b) {
                    work.extend(cfg.preds[b].iter().copied());
                }
            }
            let exits = cfg
                .blocks
                .iter()
                .filter(|b| blocks.contains(**b))
                .flat_map(|&b| cfg.succs[b].iter().map(move |&s| (b, s)))
                .filter(|e| !blocks.contains(e.1))
                .collect();
            found.push(Loop { header, latches, entries, blocks, exits, parent: None, depth: 0 });
        }
        // A dominator tree is walked from the outside in, and so are the loops of the headers in
        // it.
        found.sort_by_key(|l| self.span[l.header].0);
        for mut l in found {
            l.parent = self.innermost[l.header];
            l.depth = 1 + l.parent.map_or(0, |p| self.loops[p].depth);
            let id = self.loops.next_key();
            for &b in cfg.blocks.iter().filter(|b| l.blocks.contains(**b)) {
                self.innermost[b] = Some(id);
            }
            self.loops.push(l);
        }
    }

    fn find_irreducible(&mut self, cfg: &Cfg) {
        let this = &*self;
        let onwards = |b: usize| cfg.edges.of(b).filter(move |&s| !this.dominates(cfg.blocks[s], cfg.blocks[b]));
        let n = cfg.blocks.len();
        // What leads back in the layout leads to a header, as a rule.
        if (0..n).all(|b| onwards(b).all(|s| s > b)) {
            return;
        }
        let found = on_cycles(&(0..n).map(onwards).collect::<Edges>());
        self.irreducible.extend(cfg.blocks.iter().zip(found).filter(|x| x.1).map(|x| *x.0));
    }

    /// Whether a block lies in a loop.
    pub fn contains(&self, l: LoopId, b: ir::Block) -> bool {
        self.loops[l].blocks.contains(b)
    }

    /// The loop that a block is the header of.
    pub fn headed_by(&self, b: ir::Block) -> Option<LoopId> {
        self.innermost[b].filter(|&l| self.loops[l].header == b)
    }

    /// The loops around a block, innermost first.
    pub fn around(&self, b: ir::Block) -> impl Iterator<Item = LoopId> + '_ {
        std::iter::successors(self.innermost[b], |&l| self.loops[l].parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_reader::parse_functions;

    fn loops(text: &str) -> (ir::Function, Loops) {
        let f = parse_functions(text).unwrap().remove(0);
        let l = Loops::compute(&Cfg::compute(&f));
        (f, l)
    }

    fn b(n: u32) -> ir::Block {
        ir::Block::from_u32(n)
    }

    #[test]
    fn a_nest_has_two_loops() {
        let (_, l) = loops(
            "function %f(i32) { block0(v0: i32): jump block1
             block1: jump block2
             block2: brif v0, block2, block3
             block3: brif v0, block1, block4
             block4: return }",
        );
        assert_eq!(l.loops.len(), 2);
        let inner = l.headed_by(b(2)).unwrap();
        let outer = l.headed_by(b(1)).unwrap();
        assert_eq!((l.loops[inner].parent, l.loops[inner].depth), (Some(outer), 2));
        assert_eq!(l.loops[inner].exits, [(b(2), b(3))]);
        assert_eq!(l.loops[outer].exits, [(b(3), b(4))]);
        assert_eq!((&l.loops[outer].latches[..], &l.loops[outer].entries[..]), (&[b(3)][..], &[b(0)][..]));
        assert!(l.dominates(b(1), b(4)) && !l.dominates(b(4), b(1)) && l.dominates(b(3), b(3)));
        assert_eq!(l.around(b(2)).collect::<Vec<_>>(), [inner, outer]);
        assert!((0..5).all(|n| !l.irreducible.contains(b(n))));
    }

    #[test]
    fn a_cycle_with_two_entries_is_irreducible() {
        let (_, l) = loops(
            "function %f(i32) { block0(v0: i32): brif v0, block1, block2
             block1: jump block2
             block2: brif v0, block1, block3
             block3: return }",
        );
        assert_eq!(l.loops.len(), 0);
        assert_eq!([0, 1, 2, 3].map(|n| l.irreducible.contains(b(n))), [false, true, true, false]);
    }

    #[test]
    fn two_back_edges_make_one_loop() {
        let (_, l) = loops(
            "function %f(i32) { block0(v0: i32): jump block1
             block1: brif v0, block2, block3
             block2: jump block1
             block3: brif v0, block1, block4
             block4: return }",
        );
        assert_eq!(l.loops.len(), 1);
        assert_eq!(l.loops[LoopId(0)].latches, [b(2), b(3)]);
    }
}
