//! Dominators and cycles of a small graph whose nodes are numbers.
//!
//! Control flow graphs are asked about several times for each function, and most have a few dozen blocks. There a graph that is
//! built for the question, with hash sets of predecessors, takes longer than the answer.
//!
//! *Dominators*: Cooper, Harvey, Kennedy, *A Simple, Fast Dominance Algorithm* (2001): a fixpoint over reverse postorder, where two
//! sets of dominators meet by walking up the tree. *Cycles*: Tarjan's strongly connected components (1972). Both are iterative, so
//! that a long chain of blocks does not overflow the stack.

use std::cmp::Reverse;

/// No node, or none yet.
const NONE: usize = usize::MAX;

/// The immediate dominator of each of `n` nodes; none for the root, and for those that cannot be reached from it.
pub fn dominators<'a, I>(n: usize, root: usize, succs: impl Fn(usize) -> I + 'a) -> Vec<Option<usize>>
where
    I: Iterator<Item = usize> + 'a,
{
    let mut number = vec![NONE; n];
    let mut order = Vec::with_capacity(n);
    let mut seen = vec![false; n];
    let mut work = vec![(root, succs(root))];
    seen[root] = true;
    while let Some((b, rest)) = work.last_mut() {
        match rest.next() {
            Some(s) if seen[s] => {}
            Some(s) => {
                seen[s] = true;
                work.push((s, succs(s)));
            }
            None => {
                number[*b] = order.len();
                order.push(*b);
                work.pop();
            }
        }
    }
    // Predecessors, one after the other, in the order of the walk.
    let mut ends = vec![0; n + 1];
    for &b in &order {
        succs(b).for_each(|s| ends[s] += 1);
    }
    for i in 1..=n {
        ends[i] += ends[i - 1];
    }
    let mut preds = vec![0; ends[n]];
    for &b in &order {
        for s in succs(b) {
            ends[s] -= 1;
            preds[ends[s]] = b;
        }
    }
    let of = |b: usize| &preds[ends[b]..ends[b + 1]];
    let mut idom = vec![NONE; n];
    idom[root] = root;
    let meet = |idom: &[usize], mut a: usize, mut b: usize| {
        while a != b {
            while number[a] < number[b] {
                a = idom[a];
            }
            while number[b] < number[a] {
                b = idom[b];
            }
        }
        a
    };
    let mut changed = true;
    while changed {
        changed = false;
        for &b in order.iter().rev().skip(1) {
            let mut known = of(b).iter().copied().filter(|&p| idom[p] != NONE);
            let Some(first) = known.next() else { continue };
            let found = known.fold(first, |a, p| meet(&idom, a, p));
            changed |= idom[b] != found;
            idom[b] = found;
        }
    }
    idom.iter().enumerate().map(|(b, &d)| (d != NONE && b != root).then_some(d)).collect()
}

/// Which of `n` nodes lie on a cycle.
pub fn on_cycles<'a, I>(n: usize, succs: impl Fn(usize) -> I + 'a) -> Vec<bool>
where
    I: Iterator<Item = usize> + 'a,
{
    order(n, succs).into_iter().map(|x| x.1).collect()
}

/// For each of `n` nodes a number, and whether it lies on a cycle. No edge leads to a lower number; nodes that can be reached from each
/// other have the same, and no others have.
pub fn order<'a, I>(n: usize, succs: impl Fn(usize) -> I + 'a) -> Vec<(usize, bool)>
where
    I: Iterator<Item = usize> + 'a,
{
    // Edges that all lead onwards make no cycle.
    if (0..n).all(|b| succs(b).all(|s| s > b)) {
        return (0..n).map(|b| (b, false)).collect();
    }
    components(n, succs).into_iter().map(|p| (p.component, p.cyclic)).collect()
}

/// A node as a depth-first walk from node 0 finds it, and then from those that have not been met.
#[derive(Clone, Copy)]
struct Found {
    /// As [`order`] numbers it. What the walk finds one behind the other has numbers that follow each other.
    component: usize,
    cyclic: bool,
    /// How many the walk has left before it.
    left: usize,
}

fn components<'a, I>(n: usize, succs: impl Fn(usize) -> I + 'a) -> Vec<Found>
where
    I: Iterator<Item = usize> + 'a,
{
    let mut found = vec![Found { component: n, cyclic: false, left: n }; n];
    let mut left = 0;
    // Those that are found first come last.
    let mut number = n;
    let mut index = vec![NONE; n];
    let mut low = vec![NONE; n];
    let mut open = vec![false; n];
    let mut stack = Vec::new();
    let mut next = 0;
    for start in 0..n {
        if index[start] != NONE {
            continue;
        }
        let mut work = vec![(start, succs(start))];
        while let Some((b, rest)) = work.last_mut() {
            let b = *b;
            if index[b] == NONE {
                (index[b], low[b], open[b]) = (next, next, true);
                next += 1;
                stack.push(b);
            }
            match rest.next() {
                Some(s) if index[s] == NONE => work.push((s, succs(s))),
                Some(s) => {
                    found[b].cyclic |= s == b;
                    if open[s] {
                        low[b] = low[b].min(index[s]);
                    }
                }
                None => {
                    work.pop();
                    found[b].left = left;
                    left += 1;
                    if let Some((above, _)) = work.last() {
                        low[*above] = low[*above].min(low[b]);
                    }
                    if low[b] == index[b] {
                        let at = stack.iter().rposition(|&x| x == b).unwrap_or(0);
                        let several = stack.len() - at > 1;
                        number -= 1;
                        for x in stack.drain(at..) {
                            open[x] = false;
                            found[x].component = number;
                            found[x].cyclic |= several;
                        }
                    }
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
    /// For each node the last place of all that are on cycles with it: the highest that may come up before it is left for good.
    pub last: Vec<usize>,
    /// For each node whether it is on a cycle.
    pub cyclic: Vec<bool>,
}

impl Row {
    /// A row in which nodes on cycles with each other are together, and what only leads to one node is near it.
    pub fn of<'a, I>(n: usize, succs: impl Fn(usize) -> I + 'a) -> Self
    where
        I: Iterator<Item = usize> + 'a,
    {
        let found = components(n, succs);
        let mut order: Vec<usize> = (0..n).collect();
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
    use petgraph::algo::{dominators::simple_fast, tarjan_scc};
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
    fn dominators_are_those_of_petgraph() {
        for succs in graphs() {
            let tree = simple_fast(&known(&succs), NodeIndex::new(0));
            let want: Vec<_> =
                (0..succs.len()).map(|b| tree.immediate_dominator(NodeIndex::new(b)).map(NodeIndex::index)).collect();
            assert_eq!(dominators(succs.len(), 0, |b| succs[b].iter().copied()), want, "{succs:?}");
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
            assert_eq!(on_cycles(succs.len(), |b| succs[b].iter().copied()), want, "{succs:?}");
        }
        assert!(some);
    }

    #[test]
    fn no_edge_leads_back() {
        for succs in graphs() {
            let order = order(succs.len(), |b| succs[b].iter().copied());
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
            let of = |b: usize| succs[b].iter().copied();
            let Row { place, last, cyclic } = Row::of(n, of);
            let mut all = place.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n), "{succs:?}");
            assert_eq!(cyclic, on_cycles(n, of), "{succs:?}");
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
        let chain = |b: usize| [b + 1].into_iter().filter(move |&s| s < n);
        assert_eq!(dominators(n, 0, chain)[n - 1], Some(n - 2));
        let ring = |b: usize| [(b + 1) % n].into_iter();
        assert!(on_cycles(n, ring).into_iter().all(|c| c));
    }
}
