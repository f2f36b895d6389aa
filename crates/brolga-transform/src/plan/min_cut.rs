//! Minimum vertex cut: the fewest bytes of values from which everything that is needed can be
//! recomputed.
//!
//! **Question.** The reverse of a block needs values that can be computed from others. Which does
//! the forward half record, so that it records the fewest bytes?
//!
//! **Answer.** Nodes are values; an edge goes from an operand to what is computed from it. *Leaves*
//! cannot be computed, *sinks* are what a reverse block reads. Every way from a leaf to a sink must
//! pass a value that is recorded, and the cheapest such set is a minimum cut (Dinic's algorithm on
//! the graph with every node split in two). Of all minimum cuts the one next to the sinks is taken:
//! it leaves the least to be computed.
//!
//! **Cost.** None if all that cannot be computed is read itself: then that is the cut. Else O(V² E)
//! at worst for V values and E operands.
//!
//! **Source.** The cache rule of Enzyme (Moses and Churavy, 2020) and the min-cut partitioning of
//! AOTAutograd, for the idea.

/// Flow that is never the bottleneck.
const INF: u64 = u64::MAX / 4;

struct FlowEdge {
    to: usize,
    left: u64,
    /// The next edge out of the same vertex: one more than its number.
    next: usize,
}

/// The minimum cut of a graph whose nodes cost so much each: those that are needed are the first,
/// and `computed_from` has results with their operands. Nodes are numbered in their order, and so
/// is what comes back.
pub(super) fn cheapest(
    costs: impl Iterator<Item = u64>,
    needed: usize,
    leaves: &[usize],
    computed_from: &[(usize, usize)],
) -> Vec<usize> {
    // What is needed and cannot be computed is in every cut, and mostly it is what all else is
    // computed from.
    if leaves.iter().all(|&n| n < needed) {
        return leaves.to_vec();
    }
    let mut cut = Cut::new();
    for cost in costs {
        cut.node(cost);
    }
    (0..needed).for_each(|n| cut.needed(n));
    leaves.iter().for_each(|&n| cut.leaf(n));
    computed_from.iter().for_each(|&(result, operand)| cut.computed_from(result, operand));
    cut.minimum()
}

/// The graph under construction.
struct Cut {
    edges: Vec<FlowEdge>,
    /// The first edge out of each vertex: one more than its number. There are as many lists as
    /// vertices, and most are short.
    out: Vec<usize>,
    nodes: usize,
}

const SOURCE: usize = 0;
const SINK: usize = 1;

impl Cut {
    /// No nodes.
    fn new() -> Self {
        Self { edges: Vec::new(), out: vec![0, 0], nodes: 0 }
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        for (from, to, left) in [(from, to, capacity), (to, from, 0)] {
            self.edges.push(FlowEdge { to, left, next: self.out[from] });
            self.out[from] = self.edges.len();
        }
    }

    /// The edges out of a vertex.
    fn out(&self, of: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.out[of].checked_sub(1), |&e| self.edges[e].next.checked_sub(1))
    }

    /// A node that costs `capacity` to cut.
    fn node(&mut self, capacity: u64) -> usize {
        let n = self.nodes;
        self.nodes += 1;
        self.out.extend([0, 0]);
        self.edge(2 + 2 * n, 3 + 2 * n, capacity);
        n
    }

    /// `result` is computed from `operand`.
    fn computed_from(&mut self, result: usize, operand: usize) {
        self.edge(3 + 2 * operand, 2 + 2 * result, INF);
    }

    /// The node cannot be computed.
    fn leaf(&mut self, n: usize) {
        self.edge(SOURCE, 2 + 2 * n, INF);
    }

    /// The node is needed.
    fn needed(&mut self, n: usize) {
        self.edge(3 + 2 * n, SINK, INF);
    }

    /// Distance of each vertex from the source in what is left. `queue` is used on the way.
    fn levels(&self, level: &mut [u32], queue: &mut Vec<usize>) {
        level.fill(u32::MAX);
        level[SOURCE] = 0;
        queue.clear();
        queue.push(SOURCE);
        let mut at = 0;
        while let Some(&v) = queue.get(at) {
            at += 1;
            for e in self.out(v) {
                let FlowEdge { to, left, .. } = self.edges[e];
                if left > 0 && level[to] == u32::MAX {
                    level[to] = level[v] + 1;
                    queue.push(to);
                }
            }
        }
    }

    /// One path from the source to the sink along rising levels, without recursion; false if there
    /// is none left. `next` is, for each vertex, the edge to be tried: one more than its number.
    fn augment(&mut self, level: &[u32], next: &mut [usize], path: &mut Vec<usize>) -> bool {
        path.clear();
        let mut at = SOURCE;
        while at != SINK {
            match next[at].checked_sub(1) {
                Some(e) if self.edges[e].left > 0 && level[self.edges[e].to] == level[at] + 1 => {
                    path.push(e);
                    at = self.edges[e].to;
                }
                Some(e) => next[at] = self.edges[e].next,
                None => {
                    let Some(e) = path.pop() else { return false };
                    at = self.edges[e ^ 1].to;
                    next[at] = self.edges[e].next;
                }
            }
        }
        let flow = path.iter().map(|&e| self.edges[e].left).min().expect("the source is not the sink");
        for &mut e in path {
            self.edges[e].left -= flow;
            self.edges[e ^ 1].left += flow;
        }
        true
    }

    /// The nodes of the minimum cut next to the sinks, in the order in which they were made.
    fn minimum(mut self) -> Vec<usize> {
        let (mut level, mut next) = (vec![0; self.out.len()], vec![0; self.out.len()]);
        let (mut path, mut work) = (Vec::new(), Vec::with_capacity(self.out.len()));
        loop {
            self.levels(&mut level, &mut work);
            if level[SINK] == u32::MAX {
                break;
            }
            next.clone_from(&self.out);
            while self.augment(&level, &mut next, &mut path) {}
        }
        // What still reaches the sink.
        let mut reaches = vec![false; self.out.len()];
        reaches[SINK] = true;
        work.clear();
        work.push(SINK);
        while let Some(v) = work.pop() {
            for e in self.out(v) {
                let from = self.edges[e].to;
                if self.edges[e ^ 1].left > 0 && !reaches[from] {
                    reaches[from] = true;
                    work.push(from);
                }
            }
        }
        (0..self.nodes).filter(|n| !reaches[2 + 2 * n] && reaches[3 + 2 * n]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_leaves_are_cheaper_than_four_needed_values() {
        let mut c = Cut::new();
        let leaves = [c.node(8), c.node(8), c.node(8)];
        leaves.iter().for_each(|&l| c.leaf(l));
        for k in 0..4 {
            let n = c.node(8);
            c.computed_from(n, leaves[k % 3]);
            c.computed_from(n, leaves[(k + 1) % 3]);
            c.needed(n);
        }
        assert_eq!(c.minimum(), leaves);
    }

    #[test]
    fn a_narrow_value_between_wide_ones_is_cut() {
        let mut c = Cut::new();
        let (a, b, narrow, wide) = (c.node(8), c.node(8), c.node(1), c.node(8));
        c.leaf(a);
        c.leaf(b);
        c.computed_from(narrow, a);
        c.computed_from(narrow, b);
        c.computed_from(wide, narrow);
        c.needed(wide);
        assert_eq!(c.minimum(), [narrow]);
    }

    #[test]
    fn of_equal_cuts_the_one_next_to_the_sinks_is_taken() {
        let mut c = Cut::new();
        let (a, b) = (c.node(8), c.node(8));
        c.leaf(a);
        c.computed_from(b, a);
        c.needed(b);
        assert_eq!(c.minimum(), [b]);
    }

    #[test]
    fn what_is_needed_and_made_of_nothing_is_the_cut_if_all_else_is_made_of_it() {
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut unsearched, mut searched) = (0, 0);
        for _ in 0..2000 {
            let all = 1 + random(9);
            let needed = 1 + random(all);
            // Results have lower numbers than their operands, or higher ones: nothing says which
            // comes first.
            let place: Vec<usize> = (0..all).map(|_| random(1000)).collect();
            let mut computed_from = Vec::new();
            for result in 0..all {
                let operands: Vec<usize> = (0..all).filter(|&o| place[o] < place[result] && random(3) == 0).collect();
                computed_from.extend(operands.into_iter().map(|o| (result, o)));
            }
            // Only what is needed, or something needed is made of.
            let mut met: Vec<usize> = (0..needed).collect();
            for k in 0.. {
                let Some(&n) = met.get(k) else { break };
                let operands = computed_from.iter().filter(|x| x.0 == n).map(|x| x.1);
                for o in operands.collect::<Vec<_>>() {
                    if !met.contains(&o) {
                        met.push(o);
                    }
                }
            }
            if met.len() < all {
                continue;
            }
            let leaves: Vec<usize> = (0..all).filter(|n| computed_from.iter().all(|x| x.0 != *n)).collect();
            let costs: Vec<u64> = (0..all).map(|_| 1 + random(16) as u64).collect();
            let found = cheapest(costs.iter().copied(), needed, &leaves, &computed_from);
            let mut cut = Cut::new();
            for &cost in &costs {
                cut.node(cost);
            }
            (0..needed).for_each(|n| cut.needed(n));
            leaves.iter().for_each(|&n| cut.leaf(n));
            computed_from.iter().for_each(|&(r, o)| cut.computed_from(r, o));
            assert_eq!(found, cut.minimum(), "{needed} of {all}, {computed_from:?}, {costs:?}");
            *(if leaves.iter().all(|&n| n < needed) { &mut unsearched } else { &mut searched }) += 1;
        }
        assert!(unsearched > 100 && searched > 100, "{unsearched}, {searched}");
    }

    #[test]
    fn nothing_is_cut_where_nothing_is_needed() {
        let mut c = Cut::new();
        let a = c.node(8);
        c.leaf(a);
        assert!(c.minimum().is_empty());
    }
}
