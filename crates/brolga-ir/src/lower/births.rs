//! Live ranges of cotangent variables: where cotangents begin, and which of them may share a
//! variable.
//!
//! **Problem.** A cotangent that several blocks ask for is a variable of `cranelift-frontend`. The
//! frontend keeps a table by block for each variable, and looks for what a variable has block by
//! block, backwards. If all were zero from the entry on, a function of 30 000 instructions with a
//! branch in every nine would ask for a gigabyte, and the search would go through all of the
//! forward half for each of them.
//!
//! **Answer.** Put the blocks in a row so that edges lead to higher places, but for some on cycles,
//! which are together ([`Row`]). Each cotangent has a *span* of places, and two of one type share a
//! variable if their spans do not meet.
//! - On a cycle it is said where a cotangent becomes zero before it is added to. Where that is so
//!   on all ways, its span is from the first place to the last of the blocks in which it is alive
//!   or asked for.
//! - Any other is zero until it is added to. So its variable is set to zero where that is seen to
//!   be soon enough: at the start of the last block that dominates all that ask for it and is on no
//!   cycle. From there its span goes to the last of those that ask; of the cycles that these are on
//!   it has all.
//!
//! **Invariants.** In between the last time that a cotangent was set and a block that asks for it,
//! on any way, there are only blocks of its span. If that is where it is alive, by definition.
//! Otherwise, let it begin in B. B dominates the blocks that ask, and runs once, before anything is
//! added. After B places go up, but on cycles, which the span has as a whole. And a cotangent that
//! shares the variable sets it within another span.
//!
//! **Cost.** Asks are sorted; each takes a logarithmic number of steps in the tree of dominators.
//! To find where cotangents on cycles are alive, at most 32 blocks are looked at for each block of
//! the graph; cotangents beyond that have the whole cycle.
//!
//! **Source.** Sharing by spans: linear-scan allocation (Poletto and Sarkar, 1999). Steps in the
//! tree: Myers, *An applicative random-access stack* (1983).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cranelift_codegen::ir::{self, Type};

use crate::graph::{Edges, Row, dominators};
use crate::map::HashMap;

/// What is done to a cotangent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CotangentUse {
    /// It becomes zero.
    Zero,
    /// It is read.
    Take,
    /// It is added to.
    Add,
}

/// That something is done to a cotangent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CotangentEvent {
    /// Whose cotangent.
    pub value: ir::Value,
    /// In which block, by its position.
    pub block: u32,
    /// What is done.
    pub what: CotangentUse,
}

/// A cotangent that is going to be in a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Birth {
    /// The block at whose start it becomes zero, by its position. None if it is said where.
    pub block: Option<usize>,
    /// Whose cotangent.
    pub value: ir::Value,
    /// Which variable, of all that are needed.
    pub variable: usize,
}

/// How blocks lie to each other.
pub(super) struct Flow<'a> {
    /// All edges, by the positions of blocks.
    edges: &'a Edges,
    place: Vec<usize>,
    last: Vec<usize>,
    cyclic: Vec<bool>,
    tree: Tree,
}

impl<'a> Flow<'a> {
    /// Look at a graph with these edges.
    pub(super) fn of(edges: &'a Edges) -> Self {
        let Row { place, last, cyclic } = Row::of(edges);
        let tree = Tree::new(&dominators(edges, &edges.reversed(), 0), &cyclic);
        Self { edges, place, last, cyclic, tree }
    }

    /// Whether a block runs once at most, and before another one does.
    pub(super) fn precedes_acyclic(&self, block: usize, other: usize) -> bool {
        !self.cyclic[block] && self.tree.meet(block, other) == block
    }
}

/// Where the cotangents that several blocks ask for begin. `asks` are in the order of blocks, and
/// in that of instructions within each; `ty` is the type of a cotangent. Also the type of each
/// variable that is needed.
pub(super) fn births(
    flow: &Flow<'_>,
    asks: &[CotangentEvent],
    shared: impl Fn(ir::Value) -> bool,
    ty: impl Fn(ir::Value) -> Type,
) -> (Vec<Birth>, Vec<Type>) {
    within(flow, asks, shared, ty, STEPS * flow.cyclic.len())
}

/// Blocks in which cotangents on cycles are alive, for each block there is: more are not looked at.
const STEPS: usize = 32;

fn within(
    Flow { edges, place, last, cyclic, tree }: &Flow<'_>,
    asks: &[CotangentEvent],
    shared: impl Fn(ir::Value) -> bool,
    ty: impl Fn(ir::Value) -> Type,
    steps: usize,
) -> (Vec<Birth>, Vec<Type>) {
    let all = asks.iter().copied().filter(|a| shared(a.value));
    let mut asks = Vec::with_capacity(asks.len());
    asks.extend(all);
    if asks.is_empty() {
        return (vec![], vec![]);
    }
    asks.sort_by_key(|a| a.value);
    let n = cyclic.len();
    let mut alive = CotangentLiveness { preds: None, found: vec![0; n], round: 0, work: vec![], left: steps };
    let mut spans: Vec<Span> = Vec::new();
    for asks in asks.chunk_by(|a, b| a.value == b.value) {
        let value = asks[0].value;
        let blocks = || asks.iter().map(|a| a.block as usize);
        let dominates = blocks().reduce(|a, b| tree.meet(a, b)).expect("there is one");
        let by_itself = cyclic[dominates].then(|| alive.span(asks, place, || edges.reversed()));
        spans.push(match by_itself.flatten() {
            Some((first, last)) => Span { value, first, last, block: None },
            None => {
                let block = tree.nodes[dominates].outside;
                let last = blocks().map(|b| last[b]).max().expect("there is one");
                Span { value, first: place[block], last, block: Some(block) }
            }
        });
    }
    spans.sort_by_key(|s| s.first);
    let mut types: Vec<Type> = Vec::new();
    let mut free: HashMap<Type, BinaryHeap<Reverse<(usize, usize)>>> = HashMap::default();
    let births = spans.into_iter().map(|Span { value, first, last, block }| {
        let ty = ty(value);
        let free = free.entry(ty).or_default();
        let variable = match free.peek() {
            Some(&Reverse((before, variable))) if before < first => {
                free.pop();
                variable
            }
            _ => {
                types.push(ty);
                types.len() - 1
            }
        };
        free.push(Reverse((last, variable)));
        Birth { block, value, variable }
    });
    let births: Vec<Birth> = births.collect();
    (births, types)
}

/// The places of a cotangent, both ends included, and the block in which it begins.
struct Span {
    value: ir::Value,
    first: usize,
    last: usize,
    block: Option<usize>,
}

/// Where a cotangent is alive.
struct CotangentLiveness {
    preds: Option<Edges>,
    /// For each block the last round in which one was found to be alive at its start.
    found: Vec<u32>,
    round: u32,
    work: Vec<usize>,
    /// Blocks that may be looked at yet.
    left: usize,
}

impl CotangentLiveness {
    /// The first and the last place of all blocks in which a cotangent is alive or asked for. None
    /// if it is alive at the entry, or that takes too long to find out.
    fn span(
        &mut self,
        asks: &[CotangentEvent],
        place: &[usize],
        preds: impl FnOnce() -> Edges,
    ) -> Option<(usize, usize)> {
        let preds = self.preds.get_or_insert_with(preds);
        self.round += 1;
        self.work.clear();
        let (mut first, mut last) = (usize::MAX, 0);
        let mut meet = |b: usize| (first, last) = (first.min(place[b]), last.max(place[b]));
        // The first thing that is done in each block.
        for here in asks.chunk_by(|a, b| a.block == b.block) {
            let b = here[0].block as usize;
            meet(b);
            if here[0].what == CotangentUse::Zero {
                self.found[b] = self.round;
            } else {
                self.work.push(b);
            }
        }
        while let Some(b) = self.work.pop() {
            if self.found[b] == self.round {
                continue;
            }
            if b == 0 || self.left == 0 {
                return None;
            }
            self.left -= 1;
            self.found[b] = self.round;
            meet(b);
            self.work.extend(preds.of(b));
        }
        Some((first, last))
    }
}

/// A node in the tree of dominators.
#[derive(Clone, Copy)]
struct BirthNode {
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
    nodes: Vec<BirthNode>,
}

impl Tree {
    fn new(dominates: &[Option<usize>], cyclic: &[bool]) -> Self {
        let root = BirthNode { depth: 0, up: 0, jump: 0, outside: 0 };
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
                tree.nodes[b] = tree.below(b, dominates[b].unwrap_or(0), cyclic[b]);
            }
        }
        tree
    }

    fn below(&self, b: usize, up: usize, cyclic: bool) -> BirthNode {
        let over = self.nodes[up];
        let depth = |b: usize| self.nodes[b].depth;
        let even = over.depth - depth(over.jump) == depth(over.jump) - depth(self.nodes[over.jump].jump);
        let jump = if even { self.nodes[over.jump].jump } else { up };
        BirthNode { depth: over.depth + 1, up, jump, outside: if cyclic { over.outside } else { b } }
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
pub(in crate::lower) mod tests {
    use cranelift_codegen::ir::types;
    use cranelift_codegen::isa::CallConv;

    use super::*;
    use crate::BlockId;
    use crate::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
    use crate::inst::Val;

    fn noise() -> impl FnMut(usize) -> usize {
        let mut state = 1_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    }

    /// A graph with these edges; one without is the end.
    pub(in crate::lower) fn graph(edges: &[impl AsRef<[usize]>]) -> CfgBlocks {
        let mut ids = Ids::default();
        let names: Vec<BlockId> = edges.iter().map(|_| ids.block()).collect();
        let index = Val::D(ids.dv());
        let to = |b: &usize| Target { block: names[*b], args: vec![] };
        let blocks = edges.iter().zip(&names).map(|(out, &id)| {
            let term = match out.as_ref() {
                [] => Term::Return(vec![]),
                [first, rest @ ..] => Term::Table(index, to(first), rest.iter().map(to).collect()),
            };
            let insts = Fragment::default();
            (id, CfgBlock { id, role: Role::Entry, params: vec![], insts, term, term_at: None, cold: false })
        });
        let signature = ir::Signature::new(CallConv::Fast);
        CfgBlocks { symbol: "f".to_owned(), signature, blocks: blocks.collect() }
    }

    /// What a run has in a variable: whose it is, and whether that may be something other than
    /// zero.
    type VariableContents = Option<(ir::Value, bool)>;

    /// A query finds what is its own, and what would be there in a variable of its own, wherever a
    /// run comes from.
    #[test]
    fn each_function_begins_without_what_others_left() {
        let mut random = noise();
        let (mut variables, mut tenants, mut inside) = (0, 0, 0);
        for round in 0..6000 {
            let n = 2 + random(14);
            let back = [0, 1, 3, n][round % 4];
            let edges = |b: usize, random: &mut dyn FnMut(usize) -> usize| {
                let count = if b == n - 1 { 0 } else { 1 + random(2) };
                (0..count).map(|_| (b + 1 + random(3)).saturating_sub(random(back + 1)).clamp(1, n - 1)).collect()
            };
            let edges: Vec<Vec<usize>> = (0..n).map(|b| edges(b, &mut random)).collect();
            let values = 1 + random(6) as u32;
            let mut asks: Vec<CotangentEvent> = Vec::new();
            for value in (0..values).map(ir::Value::from_u32) {
                let near = random(n);
                for what in [CotangentUse::Zero, CotangentUse::Add, CotangentUse::Add, CotangentUse::Take]
                    .into_iter()
                    .skip(random(3))
                {
                    let block = (near + random(3)).min(n - 1) as u32;
                    asks.push(CotangentEvent { value, block, what });
                }
            }
            asks.sort_by_key(|a| a.block);
            let steps = [0, 10, 1000, 1000][random(4)];
            let (births, types) = within(&Flow::of(&graph(&edges).edges()), &asks, |_| true, |_| types::F64, steps);
            variables += types.len();
            tenants += births.len();
            inside += births.iter().filter(|b| b.block.is_none()).count();
            let variable = |v| births.iter().find(|b| b.value == v).expect("all that are asked for begin").variable;
            let told = || format!("{edges:?}, {asks:?}, {births:?}");
            // A variable, and beside it one of its own for one of those that share it, which is
            // zero from the entry on.
            for (x, watched) in births.iter().map(|birth| (birth.variable, birth.value)) {
                let mut seen: Vec<Vec<(VariableContents, bool)>> = vec![vec![]; n];
                let mut work = vec![(0, (None, false))];
                while let Some((b, state)) = work.pop() {
                    if seen[b].contains(&state) {
                        continue;
                    }
                    seen[b].push(state);
                    let (mut has, mut other): (VariableContents, bool) = state;
                    for birth in births.iter().filter(|birth| birth.block == Some(b) && birth.variable == x) {
                        assert!(birth.value != watched || !other, "block {b} of {}", told());
                        has = Some((birth.value, false));
                    }
                    for ask in asks.iter().filter(|a| a.block as usize == b && variable(a.value) == x) {
                        let zero = ask.what == CotangentUse::Zero;
                        let found = has.or(zero.then_some((ask.value, false)));
                        let (whose, something) = found.unwrap_or_else(|| panic!("block {b} of {}", told()));
                        assert!(zero || whose == ask.value, "block {b} of {}", told());
                        if ask.value == watched {
                            assert!(zero || something == other, "block {b} of {}", told());
                            other = ask.what == CotangentUse::Add || other && !zero;
                        }
                        has = Some((ask.value, ask.what == CotangentUse::Add || something && !zero));
                    }
                    work.extend(edges[b].iter().map(|&s| (s, (has, other))));
                }
            }
        }
        assert!(variables * 4 < tenants * 3 && inside > 200, "{variables} for {tenants}, {inside} on cycles");
    }

    #[test]
    fn a_long_chain_needs_few() {
        // Diamonds in a row: each value is asked for from its own to the next. By itself, and in a
        // loop.
        for (around, zeros) in [(false, false), (true, true), (true, false)] {
            let edges = (0..29_998).map(|b| match b % 3 {
                _ if b == 29_997 && around => vec![3, b + 1],
                _ if b == 29_997 => vec![b + 1],
                0 => vec![b + 1, b + 2],
                1 => vec![b + 2],
                _ => vec![b + 1],
            });
            let edges: Vec<Vec<usize>> = edges.chain([vec![]]).collect();
            let values = (0..9_999).map(|k| (ir::Value::from_u32(k), 3 * k));
            let asks = values.flat_map(|(value, b)| {
                let ask = |block, what| CotangentEvent { value, block, what };
                let all = [ask(b, CotangentUse::Zero), ask(b, CotangentUse::Add), ask(b + 3, CotangentUse::Take)];
                all.into_iter().filter(move |a| zeros || a.what != CotangentUse::Zero)
            });
            let (births, types) =
                births(&Flow::of(&graph(&edges).edges()), &asks.collect::<Vec<_>>(), |_| true, |_| types::F64);
            assert_eq!(births.len(), 9_999);
            // Nothing says that they are zero when the next iteration begins.
            assert_eq!(types.len() < 5, zeros || !around, "{}", types.len());
        }
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
            let tree = Tree::new(&dominates, &cyclic);
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
