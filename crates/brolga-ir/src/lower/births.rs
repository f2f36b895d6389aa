//! Where cotangents begin, and which of them may share a variable.
//!
//! **Problem.** A cotangent that several blocks ask for is a variable of `cranelift-frontend`. The frontend keeps a table by block for
//! each variable, and looks for what a variable has block by block, backwards. If all were zero from the entry on, a function of
//! 30 000 instructions with a branch in every nine would ask for a gigabyte, and the search would go through all of the forward half
//! for each of them.
//!
//! **Answer.** A cotangent is zero until it is added to. So its variable is set to zero where that is seen to be soon enough: at the start of the
//! last block that dominates all that ask for it and is on no cycle. From there on it lives up to the last of those that ask. Number the blocks so
//! that no edge leads to a lower number, and each cycle has one: two cotangents of one type, of which one begins behind the end of the
//! other, share a variable.
//!
//! **Invariants.** A block on no cycle runs once, so nobody has added to the cotangent before it begins. Whoever asks for it is dominated by
//! its beginning, so finds nothing from in front of that. What is set behind the last one that asks cannot come back to it: ways lead to
//! higher numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cranelift_codegen::ir::{self, Type};

use crate::block::CfgBlocks;
use crate::graph::{dominators, order};
use crate::map::{HashMap, IndexMap};

/// A cotangent that is going to be in a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The block at whose start it is zero, by its position.
    pub block: usize,
    /// Whose cotangent.
    pub value: ir::Value,
    /// Which variable, of all that are needed.
    pub variable: usize,
}

/// Where the cotangents that several blocks ask for begin. `asks` are values and positions of blocks that ask, `ty` is the type of a cotangent.
/// Also the type of each variable that is needed.
pub fn births(
    graph: &CfgBlocks,
    asks: &[(ir::Value, u32)],
    shared: impl Fn(ir::Value) -> bool,
    ty: impl Fn(ir::Value) -> Type,
) -> (Vec<Birth>, Vec<Type>) {
    let mut spans: IndexMap<ir::Value, Span> = IndexMap::default();
    let mut asks = asks.iter().filter(|a| shared(a.0)).peekable();
    if asks.peek().is_none() {
        return (vec![], vec![]);
    }
    let mut ends = vec![0];
    let mut succs: Vec<usize> = Vec::with_capacity(2 * graph.blocks.len());
    for block in graph.blocks.values() {
        let at = |s| graph.blocks.get_index_of(&s).expect("a successor is a block");
        succs.extend(block.term.successors().into_iter().map(at));
        ends.push(succs.len());
    }
    let succs = |b: usize| succs[ends[b]..ends[b + 1]].iter().copied();
    let number = order(graph.blocks.len(), succs);
    let tree = Tree::new(&dominators(graph.blocks.len(), 0, succs), |b| number[b].1);
    for &(v, block) in asks {
        let block = block as usize;
        let here = Span { first: block, last: number[block].0 };
        let span = spans.entry(v).or_insert(here);
        *span = Span { first: tree.meet(span.first, block), last: span.last.max(here.last) };
    }
    for span in spans.values_mut() {
        span.first = tree.nodes[span.first].outside;
    }
    spans.sort_by_key(|_, s| number[s.first].0);
    let mut types: Vec<Type> = Vec::new();
    let mut free: HashMap<Type, BinaryHeap<Reverse<(usize, usize)>>> = HashMap::default();
    let births = spans.into_iter().map(|(value, span)| {
        let ty = ty(value);
        let free = free.entry(ty).or_default();
        let variable = match free.peek() {
            Some(&Reverse((last, variable))) if last < number[span.first].0 => {
                free.pop();
                variable
            }
            _ => {
                types.push(ty);
                types.len() - 1
            }
        };
        free.push(Reverse((span.last, variable)));
        Birth { block: span.first, value, variable }
    });
    let mut births: Vec<Birth> = births.collect();
    births.sort_by_key(|b| b.block);
    (births, types)
}

/// From the block where it begins to the number of the last that asks.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    last: usize,
}

/// A node in the tree of dominators.
#[derive(Clone, Copy)]
struct Node {
    /// How many are above it.
    depth: u32,
    up: usize,
    /// One further up, so that any above it is reached in a logarithmic number of steps.
    jump: usize,
    /// The next from here up that is on no cycle.
    outside: usize,
}

/// The tree of dominators, in which what cannot be reached is below the root.
///
/// Source of the jumps: Myers, *An Applicative Random-Access Stack* (1983).
struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    fn new(dominates: &[Option<usize>], cycles: impl Fn(usize) -> bool) -> Self {
        let root = Node { depth: 0, up: 0, jump: 0, outside: 0 };
        let mut known = vec![false; dominates.len()];
        known[0] = true;
        let mut tree = Tree { nodes: vec![root; dominates.len()] };
        let mut above = Vec::new();
        for b in 1..dominates.len() {
            let mut at = b;
            while !known[at] {
                above.push(at);
                known[at] = true;
                at = dominates[at].unwrap_or(0);
            }
            while let Some(b) = above.pop() {
                tree.nodes[b] = tree.below(b, dominates[b].unwrap_or(0), cycles(b));
            }
        }
        tree
    }

    fn below(&self, b: usize, up: usize, cyclic: bool) -> Node {
        let over = self.nodes[up];
        let depth = |b: usize| self.nodes[b].depth;
        let even = over.depth - depth(over.jump) == depth(over.jump) - depth(self.nodes[over.jump].jump);
        let jump = if even { self.nodes[over.jump].jump } else { up };
        Node { depth: over.depth + 1, up, jump, outside: if cyclic { over.outside } else { b } }
    }

    /// The last node that dominates both.
    fn meet(&self, a: usize, b: usize) -> usize {
        let n = &self.nodes;
        let (mut a, mut b) = if n[a].depth >= n[b].depth { (a, b) } else { (b, a) };
        while n[a].depth > n[b].depth {
            a = if n[n[a].jump].depth >= n[b].depth { n[a].jump } else { n[a].up };
        }
        while a != b {
            (a, b) = if n[a].jump == n[b].jump { (n[a].up, n[b].up) } else { (n[a].jump, n[b].jump) };
        }
        a
    }
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::types;
    use cranelift_codegen::isa::CallConv;

    use super::*;
    use crate::BlockId;
    use crate::block::{CfgBlock, Fragment, Ids, Role, Target, Term};
    use crate::graph::on_cycles;
    use crate::inst::Val;

    fn noise() -> impl FnMut(usize) -> usize {
        let mut state = 1_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    }

    /// A graph with these edges; one without is the end.
    fn graph(edges: &[Vec<usize>]) -> CfgBlocks {
        let mut ids = Ids::default();
        let names: Vec<BlockId> = edges.iter().map(|_| ids.block()).collect();
        let index = Val::D(ids.dv());
        let to = |b: &usize| Target { block: names[*b], args: vec![] };
        let blocks = edges.iter().zip(&names).map(|(out, &id)| {
            let term = match &out[..] {
                [] => Term::Return(vec![]),
                [first, rest @ ..] => Term::Table(index, to(first), rest.iter().map(to).collect()),
            };
            let insts = Fragment::default();
            (id, CfgBlock { id, role: Role::Entry, params: vec![], insts, term, term_at: None, cold: false })
        });
        let signature = ir::Signature::new(CallConv::Fast);
        CfgBlocks { symbol: "f".to_owned(), signature, blocks: blocks.collect() }
    }

    /// Whoever asks finds what is its own, and the beginning of that, wherever a run comes from.
    #[test]
    fn nobody_finds_what_others_left() {
        let mut random = noise();
        let (mut variables, mut tenants, mut inside) = (0, 0, 0);
        for round in 0..2000 {
            let n = 2 + random(14);
            let back = [0, 1, n][round % 3];
            let edges = |b: usize, random: &mut dyn FnMut(usize) -> usize| {
                let count = if b == n - 1 { 0 } else { 1 + random(2) };
                (0..count).map(|_| (b + 1 + random(3)).saturating_sub(random(back + 1)).clamp(1, n - 1)).collect()
            };
            let edges: Vec<Vec<usize>> = (0..n).map(|b| edges(b, &mut random)).collect();
            let values = 1 + random(6) as u32;
            let mut asks: Vec<(ir::Value, u32)> = Vec::new();
            for v in (0..values).map(ir::Value::from_u32) {
                let near = random(n);
                asks.extend((0..1 + random(3)).map(|_| (v, (near + random(3)).min(n - 1) as u32)));
            }
            let (births, types) = births(&graph(&edges), &asks, |_| true, |_| types::F64);
            variables += types.len();
            tenants += births.len();
            let variable = |v| births.iter().find(|b| b.value == v).expect("all that are asked for begin").variable;
            let cyclic = on_cycles(n, |b| edges[b].iter().copied());
            for x in 0..types.len() {
                // Whose was it last? No one's at the entry.
                let mut left: Vec<Vec<Option<ir::Value>>> = vec![vec![]; n];
                let mut work = vec![(0, None)];
                while let Some((b, mut whose)) = work.pop() {
                    if left[b].contains(&whose) {
                        continue;
                    }
                    left[b].push(whose);
                    for birth in births.iter().filter(|birth| birth.block == b && birth.variable == x) {
                        assert!(!cyclic[b], "{edges:?}");
                        whose = Some(birth.value);
                    }
                    for &(v, _) in asks.iter().filter(|a| a.1 as usize == b && variable(a.0) == x) {
                        assert_eq!(whose, Some(v), "block {b} of {edges:?}, {asks:?}, {births:?}");
                        inside += usize::from(cyclic[b]);
                    }
                    work.extend(edges[b].iter().map(|&s| (s, whose)));
                }
            }
        }
        assert!(variables * 4 < tenants * 3 && inside > 1000, "{variables} for {tenants}, {inside} on cycles");
    }

    #[test]
    fn a_long_chain_needs_few() {
        // Diamonds in a row: each value is asked for from its own to the next.
        let edges = (0..29_998).map(|b| match b % 3 {
            _ if b == 29_997 => vec![],
            0 => vec![b + 1, b + 2],
            1 => vec![b + 2],
            _ => vec![b + 1],
        });
        let edges: Vec<Vec<usize>> = edges.collect();
        let asks = (0..9_999).flat_map(|k| [3 * k, 3 * k + 1, 3 * k + 3].map(|b| (ir::Value::from_u32(k), b)));
        let (births, types) = births(&graph(&edges), &asks.collect::<Vec<_>>(), |_| true, |_| types::F64);
        assert_eq!((births.len(), types.len()), (9_999, 2));
    }

    #[test]
    fn jumps_end_where_steps_do() {
        let mut random = noise();
        for round in 0..200 {
            let n = 2 + random(60);
            // Chains and bushes; nodes in any order, some of which nothing dominates.
            let mut names: Vec<usize> = (1..n).collect();
            (1..n - 1).for_each(|i| names.swap(i, random(i + 1)));
            names.insert(0, 0);
            let mut dominates = vec![None; n];
            for i in 1..n {
                let up = names[if round % 2 == 0 { i - 1 - random(i.min(3)) } else { random(i) }];
                dominates[names[i]] = (random(20) > 0).then_some(up);
            }
            let cyclic: Vec<bool> = (0..n).map(|b| b > 0 && random(2) == 0).collect();
            let tree = Tree::new(&dominates, |b| cyclic[b]);
            let line = |b: usize| {
                std::iter::successors(Some(b), |&b| (b != 0).then(|| dominates[b].unwrap_or(0))).collect::<Vec<_>>()
            };
            for a in 0..n {
                assert_eq!(Some(tree.nodes[a].outside), line(a).into_iter().find(|&x| !cyclic[x]));
                for b in 0..n {
                    let both = line(b);
                    assert_eq!(Some(tree.meet(a, b)), line(a).into_iter().find(|x| both.contains(x)), "{a} {b}");
                }
            }
        }
    }
}
