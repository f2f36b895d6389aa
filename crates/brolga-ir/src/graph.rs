//! Dominators and strongly connected components of a small graph whose nodes are numbers.
//!
//! **Problem.** Control flow graphs are asked about several times for each function, and most have
//! a few dozen blocks. There a graph that is built for the question, with hash sets of
//! predecessors, takes longer than the answer, and so does an allocation for each node.
//!
//! **Answer.** A graph is two lists ([`Edges`]), made once and shared by all readers, and what is
//! known of a node is in one place.
//!
//! - *Dominators* ([`dominators`]): Semi-NCA, with paths that become shorter as they are gone:
//!   thousands of blocks that lead to one cost no more each.
//! - *Cycles* ([`on_cycles`], [`order`], [`Row`]): Tarjan's strongly connected components.
//!
//! Both are iterative, so that a long chain of blocks does not overflow the stack.
//!
//! **Cost.** Components are linear in nodes and edges, and where all edges lead to higher numbers
//! one look at each says that there is no cycle. Dominators are close to linear, but for a walk up
//! the tree that is quadratic in the worst case. A graph of a dozen nodes takes no memory of the
//! heap but for answers.
//!
//! **Source.** L. Georgiadis, *Linear-Time Algorithms for Dominators and Related Problems* (2005).
//! R. Tarjan, *Depth-First Search and Linear Graph Algorithms* (1972).

use std::cmp::Reverse;

use smallvec::{SmallVec, smallvec};

/// What is known of each node, or of each edge: most graphs are so small that no memory is asked
/// for.
type PerItem<T> = SmallVec<[T; 16]>;

/// No node, or none yet.
const NONE: u32 = u32::MAX;

/// The edges of a graph: those that leave each node, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edges {
    /// After the last one of each node; before them a zero.
    ends: PerItem<u32>,
    to: SmallVec<[u32; 24]>,
}

impl Default for Edges {
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl Edges {
    /// No nodes, with room for so many, and so many edges.
    pub fn with_capacity(nodes: usize, edges: usize) -> Self {
        let mut ends = PerItem::with_capacity(nodes + 1);
        ends.push(0);
        Self { ends, to: SmallVec::with_capacity(edges) }
    }

    /// Add a node from which edges lead to these.
    pub fn push(&mut self, to: impl IntoIterator<Item = usize>) {
        self.to.extend(to.into_iter().map(|s| s as u32));
        self.ends.push(self.to.len() as u32);
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn slice(&self, node: usize) -> &[u32] {
        &self.to[self.ends[node] as usize..self.ends[node + 1] as usize]
    }

    /// Where the edges of a node lead.
    pub fn of(&self, node: usize) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator + Clone + '_ {
        self.slice(node).iter().map(|&s| s as usize)
    }

    /// How many edges there are.
    pub fn of_all(&self) -> usize {
        self.to.len()
    }

    /// Whether each leads to a higher number, so that there is no cycle.
    fn lead_onwards(&self) -> bool {
        (0..self.len()).all(|b| self.of(b).all(|s| s > b))
    }

    /// The same, each the other way.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let n = self.len();
        // Where the next one of each node is to be put, one node further on.
        let mut ends: PerItem<u32> = smallvec![0; n + 2];
        self.to.iter().for_each(|&s| ends[s as usize + 2] += 1);
        for i in 2..=n {
            ends[i + 1] += ends[i];
        }
        let mut to = smallvec![0; self.to.len()];
        for b in 0..n {
            for &s in self.slice(b) {
                let at = &mut ends[s as usize + 1];
                to[*at as usize] = b as u32;
                *at += 1;
            }
        }
        ends.pop();
        Self { ends, to }
    }

    /// Which nodes can be reached from these.
    pub fn reached(&self, from: impl IntoIterator<Item = usize>) -> Vec<bool> {
        let mut seen = vec![false; self.len()];
        let mut work: PerItem<u32> = from.into_iter().map(|b| b as u32).collect();
        while let Some(b) = work.pop() {
            if !std::mem::replace(&mut seen[b as usize], true) {
                work.extend_from_slice(self.slice(b as usize));
            }
        }
        seen
    }
}

impl<I: IntoIterator<Item = usize>> FromIterator<I> for Edges {
    fn from_iter<N: IntoIterator<Item = I>>(nodes: N) -> Self {
        let nodes = nodes.into_iter();
        let mut edges = Self::with_capacity(nodes.size_hint().0, 0);
        nodes.for_each(|to| edges.push(to));
        edges
    }
}

/// The immediate dominator of each node; none for the root, and for those that cannot be reached
/// from it. `preds` are `succs`, [the other way](Edges::reversed).
pub fn dominators(succs: &Edges, preds: &Edges, root: usize) -> Vec<Option<usize>> {
    let DepthFirst { numbers, order, parents } = DepthFirst::from(succs, root);
    let n = order.len();
    // All by number. The nearest node that a walk was at when it left the tree for this one, by a
    // way on which all others have higher numbers; the least of those up to where the tree is
    // known; and where that is.
    let mut semi: PerItem<u32> = (0..n as u32).collect();
    let mut least = semi.clone();
    let mut above = parents.clone();
    let mut path: PerItem<u32> = PerItem::new();
    for i in (1..n as u32).rev() {
        let at = i as usize;
        let known = preds.slice(order[at] as usize).iter().map(|&p| numbers[p as usize]).filter(|&p| p != NONE);
        let mut found = parents[at];
        for p in known {
            found = found.min(if p <= i { p } else { least_above(p, i, &mut least, &mut above, &mut path) });
        }
        (semi[at], least[at]) = (found, found);
    }
    let mut idoms = parents;
    for i in 1..n {
        while idoms[i] > semi[i] {
            idoms[i] = idoms[idoms[i] as usize];
        }
    }
    let mut all = vec![None; succs.len()];
    (1..n).for_each(|i| all[order[i] as usize] = Some(order[idoms[i] as usize] as usize));
    all
}

/// The least of what is known of a node and of those above it that have numbers beyond `last`. Ways
/// are made shorter that have been gone.
fn least_above(node: u32, last: u32, least: &mut [u32], above: &mut [u32], path: &mut PerItem<u32>) -> u32 {
    let mut top = node;
    while above[top as usize] > last {
        path.push(top);
        top = above[top as usize];
    }
    let (end, mut so_far) = (above[top as usize], least[top as usize]);
    while let Some(below) = path.pop() {
        so_far = so_far.min(least[below as usize]);
        (least[below as usize], above[below as usize]) = (so_far, end);
    }
    so_far
}

/// A depth-first walk: nodes have numbers in the order in which it meets them.
struct DepthFirst {
    /// By node; [`NONE`] for those that it does not meet.
    numbers: PerItem<u32>,
    /// By number: the node, and the number of the one that it was met from.
    order: PerItem<u32>,
    parents: PerItem<u32>,
}

impl DepthFirst {
    fn from(succs: &Edges, root: usize) -> Self {
        let mut numbers: PerItem<u32> = smallvec![NONE; succs.len()];
        let (mut order, mut parents) = (PerItem::new(), PerItem::new());
        let mut work: PerItem<(u32, u32)> = smallvec![(root as u32, 0)];
        while let Some((b, parent)) = work.pop() {
            if numbers[b as usize] != NONE {
                continue;
            }
            let number = order.len() as u32;
            numbers[b as usize] = number;
            order.push(b);
            parents.push(parent);
            let new = succs.slice(b as usize).iter().filter(|&&s| numbers[s as usize] == NONE);
            work.extend(new.map(|&s| (s, number)));
        }
        Self { numbers, order, parents }
    }
}

/// Which nodes lie on a cycle.
pub fn on_cycles(succs: &Edges) -> Vec<bool> {
    if succs.lead_onwards() {
        return vec![false; succs.len()];
    }
    components(succs).into_iter().map(|found| found.cyclic).collect()
}

/// For each node a number, and whether it lies on a cycle. No edge leads to a lower number; nodes
/// that can be reached from each other have the same, and no others have.
pub fn order(succs: &Edges) -> Vec<(usize, bool)> {
    if succs.lead_onwards() {
        return (0..succs.len()).map(|b| (b, false)).collect();
    }
    components(succs).into_iter().map(|p| (p.component as usize, p.cyclic)).collect()
}

/// A node as a depth-first walk from node 0 finds it, and then from those that have not been met.
#[derive(Clone, Copy)]
struct WalkNode {
    /// As [`order`] numbers it. What the walk finds one after the other has numbers that follow
    /// each other.
    component: u32,
    cyclic: bool,
    /// Whether it is not known yet which component it is in, though it has been met.
    open: bool,
    /// How many the walk has met before it, and the first of those that it leads back to.
    index: u32,
    low: u32,
    /// How many the walk has left before it.
    left: u32,
}

fn components(succs: &Edges) -> PerItem<WalkNode> {
    let n = succs.len();
    let none = WalkNode { component: NONE, cyclic: false, open: false, index: NONE, low: NONE, left: NONE };
    let mut found: PerItem<WalkNode> = smallvec![none; n];
    let mut left = 0;
    // Those that are found first come last.
    let mut number = n as u32;
    let mut stack: PerItem<u32> = PerItem::with_capacity(n);
    let mut work: PerItem<(u32, u32)> = PerItem::new();
    let mut next = 0;
    for start in 0..n {
        if found[start].index != NONE {
            continue;
        }
        work.push((start as u32, succs.ends[start]));
        while let Some((b, edge)) = work.last_mut() {
            let (b, at) = (*b as usize, *edge);
            *edge += 1;
            if found[b].index == NONE {
                (found[b].index, found[b].low, found[b].open) = (next, next, true);
                next += 1;
                stack.push(b as u32);
            }
            if at < succs.ends[b + 1] {
                let s = succs.to[at as usize] as usize;
                if found[s].index == NONE {
                    work.push((s as u32, succs.ends[s]));
                    continue;
                }
                found[b].cyclic |= s == b;
                if found[s].open {
                    found[b].low = found[b].low.min(found[s].index);
                }
                continue;
            }
            work.pop();
            found[b].left = left;
            left += 1;
            let low = found[b].low;
            if let Some(&(above, _)) = work.last() {
                let above = &mut found[above as usize];
                above.low = above.low.min(low);
            }
            if low == found[b].index {
                let at = stack.iter().rposition(|&x| x as usize == b).unwrap_or(0);
                let several = stack.len() - at > 1;
                number -= 1;
                for x in stack.drain(at..) {
                    let x = &mut found[x as usize];
                    x.open = false;
                    x.component = number;
                    x.cyclic |= several;
                }
            }
        }
    }
    found
}

/// The nodes in a row.
pub struct Row {
    /// For each node its place. Edges lead to higher places, but for some on cycles.
    pub place: Vec<usize>,
    /// For each node the last place of all that are on cycles with it: the highest that may come up
    /// before it is left for good.
    pub last: Vec<usize>,
    /// For each node whether it is on a cycle.
    pub cyclic: Vec<bool>,
}

impl Row {
    /// A row in which nodes on cycles with each other are together, and what only leads to one node
    /// is near it.
    pub fn of(succs: &Edges) -> Self {
        let n = succs.len();
        let found = components(succs);
        let mut order: PerItem<usize> = (0..n).collect();
        order.sort_unstable_by_key(|&b| (found[b].component, Reverse(found[b].left)));
        let cyclic = found.iter().map(|f| f.cyclic).collect();
        let mut row = Row { place: vec![0; n], last: vec![0; n], cyclic };
        let mut at = 0;
        for same in order.chunk_by(|&a, &b| found[a].component == found[b].component) {
            let end = at + same.len() - 1;
            for &b in same {
                (row.place[b], row.last[b]) = (at, end);
                at += 1;
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use petgraph::algo::{dominators::simple_fast, has_path_connecting, tarjan_scc};
    use petgraph::graph::{DiGraph, NodeIndex};

    use super::*;

    /// Graphs of all kinds: sparse and dense, with nodes that nothing leads to.
    fn graphs() -> impl Iterator<Item = Vec<Vec<usize>>> {
        let mut state = 1_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        (0..500).map(move |_| {
            let n = 1 + random(12);
            (0..n).map(|_| (0..random(4)).map(|_| random(n)).collect()).collect()
        })
    }

    fn edges(succs: &[Vec<usize>]) -> Edges {
        succs.iter().map(|to| to.iter().copied()).collect()
    }

    fn known(succs: &[Vec<usize>]) -> DiGraph<(), ()> {
        let mut g = DiGraph::new();
        for _ in succs {
            g.add_node(());
        }
        for (a, ss) in succs.iter().enumerate() {
            for &s in ss {
                g.add_edge(NodeIndex::new(a), NodeIndex::new(s), ());
            }
        }
        g
    }

    #[test]
    fn edges_lead_back() {
        for succs in graphs() {
            let (edges, back) = (edges(&succs), edges(&succs).reversed());
            assert_eq!((edges.len(), back.len()), (succs.len(), succs.len()));
            for (a, b) in (0..succs.len()).flat_map(|a| (0..succs.len()).map(move |b| (a, b))) {
                let [there, home] = [edges.of(a).filter(|&s| s == b).count(), back.of(b).filter(|&s| s == a).count()];
                assert_eq!((there, home), (succs[a].iter().filter(|&&s| s == b).count(), there), "{succs:?}");
            }
            let reached = edges.reached([0]);
            let (graph, node) = (known(&succs), NodeIndex::new);
            let found = (0..succs.len()).map(|b| has_path_connecting(&graph, node(0), node(b), None));
            assert!(found.eq(reached), "{succs:?}");
        }
    }

    #[test]
    fn dominators_are_those_of_petgraph() {
        for succs in graphs() {
            let tree = simple_fast(&known(&succs), NodeIndex::new(0));
            let want: Vec<_> =
                (0..succs.len()).map(|b| tree.immediate_dominator(NodeIndex::new(b)).map(NodeIndex::index)).collect();
            let edges = edges(&succs);
            assert_eq!(dominators(&edges, &edges.reversed(), 0), want, "{succs:?}");
        }
    }

    #[test]
    fn cycles_are_those_of_petgraph() {
        let mut some = false;
        for succs in graphs() {
            let mut want = vec![false; succs.len()];
            for scc in tarjan_scc(&known(&succs)) {
                let alone = scc.len() == 1 && !succs[scc[0].index()].contains(&scc[0].index());
                scc.iter().for_each(|n| want[n.index()] = !alone);
            }
            some |= want.contains(&true) && want.contains(&false);
            assert_eq!(on_cycles(&edges(&succs)), want, "{succs:?}");
        }
        assert!(some);
    }

    #[test]
    fn no_edge_leads_back() {
        for succs in graphs() {
            let order = order(&edges(&succs));
            let classes = tarjan_scc(&known(&succs));
            for (a, b) in (0..succs.len()).flat_map(|a| succs[a].iter().map(move |&b| (a, b))) {
                assert!(order[a].0 <= order[b].0, "{succs:?}");
            }
            let mut numbers: Vec<_> = classes.iter().map(|c| order[c[0].index()].0).collect();
            assert!(classes.iter().zip(&numbers).all(|(c, &k)| c.iter().all(|x| order[x.index()].0 == k)));
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), classes.len(), "{succs:?}");
        }
    }

    #[test]
    fn in_a_row_cycles_are_together() {
        let mut back = 0;
        for succs in graphs() {
            let n = succs.len();
            let edges = edges(&succs);
            let Row { place, last, cyclic } = Row::of(&edges);
            let mut all = place.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n), "{succs:?}");
            assert_eq!(cyclic, on_cycles(&edges), "{succs:?}");
            for class in tarjan_scc(&known(&succs)) {
                let mut places: Vec<usize> = class.iter().map(|b| place[b.index()]).collect();
                places.sort_unstable();
                assert_eq!(places[places.len() - 1] - places[0] + 1, places.len(), "{succs:?}");
                assert!(class.iter().all(|b| last[b.index()] == places[places.len() - 1]), "{succs:?}");
            }
            for (a, b) in (0..n).flat_map(|a| succs[a].iter().map(move |&b| (a, b))) {
                assert!(place[a] < place[b] || last[a] == last[b], "{a} to {b} of {succs:?}");
                back += usize::from(place[a] >= place[b]);
            }
        }
        assert!(back > 300, "{back}");
    }

    #[test]
    fn a_long_chain_is_no_deep_recursion() {
        let n = 200_000;
        let chain: Edges = (0..n).map(|b| (b + 1 < n).then_some(b + 1)).collect();
        assert_eq!(dominators(&chain, &chain.reversed(), 0)[n - 1], Some(n - 2));
        // Each leads to the last one as well: where two ways meet is found without going them.
        let comb: Edges = (0..n).map(|b| [b + 1, n - 1].map(|s| s.min(n - 1))).collect();
        assert_eq!(dominators(&comb, &comb.reversed(), 0)[n - 1], Some(0));
        let ring: Edges = (0..n).map(|b| [(b + 1) % n]).collect();
        assert!(on_cycles(&ring).into_iter().all(|c| c));
    }
}
