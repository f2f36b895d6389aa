//! Tape engine of the oracle: the graph of a computation, and the way back through it.
//!
//! **Question.** What is the cotangent of each float of a run, by no more than the chain rule?
//!
//! **Answer.** While the program runs, every float that depends on an active input becomes a
//! [`Node`]:
//!
//! ```text
//! value   what was computed
//! prev    the operands, each with the slope ∂ value / ∂ operand at this point
//! grad    (during `backward`) ∂ Σ seeds·results / ∂ value
//! ```
//!
//! Operands are recorded before results, so the order of creation is a topological order, and
//! [`Tape::backward`] is one loop from the last node to the first, in which each node passes
//! `grad · slope` on to each operand with `+=`. With dual numbers as slopes the same loop gives
//! second derivatives. [`Tape::rounding`] repeats it with changed terms and slopes, to see how far
//! roundings reach.
//!
//! **Invariant.**
//!
//! - `prev` of a node has smaller ids than the node.
//! - A cotangent that is exactly zero passes nothing on, whatever the slope (also infinite or NaN).
//! - What roots are made of (`sqrt` and others that end with a number and an infinite slope) has a
//!   cotangent that may be infinite. That passes zero on to an operand with slope zero: along that
//!   operand the root turns back where it ends, and the mean slope is zero.
//! - A node of untracked bits has no operands, and an error if its cotangent is not exactly zero.
//!
//! **Cost.** Every float operation costs a node, so memory grows with the length of the run. That
//! is what a compiled pullback is compared with, and why this engine is an oracle and not the
//! product. A sweep is linear in the edges.

use std::collections::HashMap;

use cranelift_entity::{EntityRef, EntitySet, PrimaryMap, SecondaryMap};

use crate::error::InstSite;
use crate::interp::{Domain, NodeId};
use crate::real::Real;

/// Sweeps with changed terms, whose largest effect is believed.
const SHAKES: u64 = 2;
/// By how much terms are changed: 2⁻⁴⁸, some units in the last place.
const SHAKEN: f64 = 1.0 / (1_u64 << 48) as f64;

/// One float of the computation.
#[derive(Clone, Debug)]
pub struct Node<T> {
    /// What was computed.
    pub value: T,
    /// Where; `None` for an input.
    pub site: Option<InstSite>,
    /// Where its operands end in the tape's list of edges; they begin where those of the previous
    /// node end.
    end: u32,
}

/// The graph of a computation, with slopes of type `T`.
#[derive(Clone, Debug)]
pub struct Tape<T = f64> {
    nodes: PrimaryMap<NodeId, Node<T>>,
    /// Operands and slopes of all nodes, in order of nodes.
    edges: Vec<(NodeId, T)>,
    /// Nodes of untracked bits, with the instruction that made the bits. Looked up only, never
    /// iterated.
    untracked: HashMap<NodeId, InstSite>,
    /// Operands of roots.
    rooted: Vec<NodeId>,
    /// Nodes whose values come in steps of so many last places, since digits were cut off.
    steps: HashMap<NodeId, f64>,
    /// Nodes whose slope a program computes from their rounded value, and how far off it is.
    rough: HashMap<NodeId, T>,
}

impl<T> Default for Tape<T> {
    fn default() -> Self {
        Tape {
            nodes: PrimaryMap::new(),
            edges: Vec::new(),
            untracked: HashMap::new(),
            rooted: Vec::new(),
            steps: HashMap::new(),
            rough: HashMap::new(),
        }
    }
}

impl<T: Real> Tape<T> {
    /// An empty tape.
    pub fn new() -> Self {
        Self::default()
    }

    /// Record an input.
    pub fn leaf(&mut self, value: T) -> NodeId {
        self.push(value, None)
    }

    fn push(&mut self, value: T, site: Option<InstSite>) -> NodeId {
        let end = self.edges.len().try_into().expect("fewer than 2^32 edges");
        self.nodes.push(Node { value, site, end })
    }

    /// A node.
    pub fn node(&self, n: NodeId) -> &Node<T> {
        &self.nodes[n]
    }

    /// The operands of a node, with slopes.
    pub fn prev(&self, n: NodeId) -> &[(NodeId, T)] {
        let begin = match n.index() {
            0 => 0,
            i => self.nodes[NodeId::new(i - 1)].end,
        };
        &self.edges[begin as usize..self.nodes[n].end as usize]
    }

    /// How many edges there are.
    pub fn n_edges(&self) -> usize {
        self.edges.len()
    }

    /// How many bytes the graph takes.
    pub fn n_bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node<T>>() + self.edges.len() * size_of::<(NodeId, T)>()
    }

    /// The cotangent of every node, given those of some. `Err` says which instruction made the
    /// untracked bits through which a derivative goes.
    pub fn backward(&self, seeds: &[(NodeId, T)]) -> Result<SecondaryMap<NodeId, T>, InstSite> {
        self.backward_in(self.nodes.keys().rev(), seeds)
    }

    /// [`Tape::backward`] in a given order, in which every node must come before its operands.
    pub fn backward_in(
        &self,
        order: impl IntoIterator<Item = NodeId>,
        seeds: &[(NodeId, T)],
    ) -> Result<SecondaryMap<NodeId, T>, InstSite> {
        self.sweep(order, seeds, |_, _, term| term)
    }

    /// How far rounding may leave each cotangent from what it should be: terms are changed by some
    /// units in the last place, each in a way of its own, and so much does that change the sums
    /// (Monte Carlo arithmetic). Terms that cancel are seen so, also where each of them is small in
    /// the end, or all of it is contracted further on. Slopes that a program has from rounded
    /// values alone are changed by what it cannot know of them.
    ///
    /// Of each cotangent there are two numbers: of itself, and of its derivative along the
    /// direction.
    pub fn rounding(&self, seeds: &[(NodeId, T)], exact: &SecondaryMap<NodeId, T>) -> SecondaryMap<NodeId, [f64; 2]> {
        let mut off = SecondaryMap::with_default([0.0; 2]);
        off.resize(self.nodes.len());
        for run in 1..=SHAKES {
            let mut state = run;
            // A linear congruential generator; its upper bits are a number from -1 to 1.
            let mut noise = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state as i64 as f64) / i64::MAX as f64
            };
            let shaken = self.sweep(self.nodes.keys().rev(), seeds, |n, g, term| {
                let term = term * T::constant(1.0 + noise() * SHAKEN);
                match self.rough.get(&n) {
                    Some(&by) => term + T::strong_mul(g, by) * T::constant(1.0_f64.copysign(noise())),
                    None => term,
                }
            });
            let Ok(shaken) = shaken else { continue };
            for n in self.nodes.keys() {
                let by = shaken[n] - exact[n];
                for (off, by) in off[n].iter_mut().zip([by.primal(), by.tangent()]) {
                    if by.is_finite() {
                        *off = by.abs().max(*off);
                    }
                }
            }
        }
        off
    }

    /// By how much rounding may change `Σ seeds·results`, in terms of the precision of the
    /// arithmetic: roundings are independent of each other, and each counts as its value's
    /// cotangent says. Digits that are cut off are as many roundings.
    pub fn noise(&self, cotangents: &SecondaryMap<NodeId, T>) -> f64 {
        let computed = self.nodes.iter().filter(|(_, n)| n.site.is_some());
        let steps = |n: NodeId| self.steps.get(&n).copied().unwrap_or(1.0);
        let terms = computed.map(|(n, node)| f64::strong_mul(cotangents[n].primal(), node.value.primal() * steps(n)));
        terms.filter(|t| t.is_finite()).map(|t| t * t).sum::<f64>().sqrt()
    }

    /// [`Tape::backward_in`], with something done to each term: it is that of a node, whose
    /// cotangent is given, too.
    fn sweep(
        &self,
        order: impl IntoIterator<Item = NodeId>,
        seeds: &[(NodeId, T)],
        mut term: impl FnMut(NodeId, T, T) -> T,
    ) -> Result<SecondaryMap<NodeId, T>, InstSite> {
        let zero = T::constant(0.0);
        let mut grad = SecondaryMap::with_default(zero);
        grad.resize(self.nodes.len());
        for &(n, seed) in seeds {
            grad[n] = grad[n] + seed;
        }
        let under = self.under_roots();
        for n in order {
            let g: T = grad[n];
            if g.is_zero() {
                continue;
            }
            if let Some(&site) = self.untracked.get(&n) {
                return Err(site);
            }
            for &(p, slope) in self.prev(n) {
                if !(under.contains(n) && turns_back(g.primal(), slope.primal())) {
                    grad[p] = grad[p] + term(n, g, T::strong_mul(g, slope));
                }
            }
        }
        Ok(grad)
    }

    /// What roots are made of.
    pub fn under_roots(&self) -> EntitySet<NodeId> {
        let mut under = EntitySet::new();
        let mut work = self.rooted.clone();
        while let Some(n) = work.pop() {
            if under.insert(n) {
                work.extend(self.prev(n).iter().map(|e| e.0));
            }
        }
        under
    }

    /// The nodes that some of `roots` depend on, each before its operands: depth-first postorder,
    /// reversed.
    pub fn depth_first(&self, roots: &[NodeId]) -> Vec<NodeId> {
        let mut seen = EntitySet::<NodeId>::new();
        let mut post = Vec::new();
        for &root in roots {
            // Nodes with the number of operands that have been visited; an explicit stack, since
            // chains are long.
            let mut stack = Vec::new();
            if seen.insert(root) {
                stack.push((root, 0));
            }
            while let Some((n, i)) = stack.pop() {
                match self.prev(n).get(i) {
                    Some(&(p, _)) => {
                        stack.push((n, i + 1));
                        if seen.insert(p) {
                            stack.push((p, 0));
                        }
                    }
                    None => post.push(n),
                }
            }
        }
        post.reverse();
        post
    }
}

/// Whether a cotangent that is infinite because of a root meets a slope of zero.
pub(crate) fn turns_back(ct: f64, slope: f64) -> bool {
    ct.is_infinite() && slope == 0.0
}

impl<T: Real> Domain for Tape<T> {
    type Num = T;
    const TRACKS: bool = true;

    fn value(&self, node: NodeId) -> T {
        self.nodes[node].value
    }

    fn float(&mut self, value: f64, prev: &[(NodeId, T)], site: InstSite) -> NodeId {
        let value = T::from_chain(value, prev.iter().map(|&(p, slope)| (self.nodes[p].value, slope)));
        self.edges.extend_from_slice(prev);
        self.push(value, Some(site))
    }

    fn root(&mut self, node: NodeId) {
        self.rooted.extend(self.prev(node).first().map(|e| e.0));
    }

    fn steps(&mut self, node: NodeId, last_places: f64) {
        self.steps.insert(node, last_places);
    }

    fn rough(&mut self, node: NodeId, by: T) {
        self.rough.insert(node, by);
    }

    fn untracked(&mut self, value: f64, origin: InstSite) -> NodeId {
        let n = self.push(T::constant(value), Some(origin));
        self.untracked.insert(n, origin);
        n
    }

    fn n_nodes(&self) -> usize {
        self.nodes.len()
    }
}
