//! Domains: what an interpretation records beside the values.
//!
//! **Question.** The same run serves a value, a gradient, a tangent, and an explanation. How does
//! the interpreter know nothing of which?
//!
//! **Answer.** The interpreter computes primal values in any case, and tells its [`Domain`] of
//! every float that depends on other floats which the domain knows: value, operands, slopes. What
//! comes of it is the domain's business: nothing ([`PlainDomain`]), a graph to go back through
//! ([`crate::tape::Tape`]), or a tangent (`crate::dual::Forward`). A domain that observes hears of
//! more ([`Event`]).
//!
//! **Invariant.** Ids of nodes grow in order of creation, so operands come before results. A domain
//! that does not track makes no nodes.
//!
//! **Cost.** That of the domain: of [`PlainDomain`] none, since it is known when the interpreter is
//! compiled.

use brolga_ir::FuncKey;
use cranelift_codegen::ir;
use cranelift_entity::entity_impl;

use crate::error::InstSite;
use crate::real::Real;

/// A float that a domain knows. Ids grow in order of creation, so operands come before results.
/// Printed `node7`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);
entity_impl!(NodeId, "node");

/// What a domain that observes is told beside float operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An instruction was executed that had active operands.
    Executed {
        /// The instruction.
        site: InstSite,
        /// The floats among its operands; of a branch, among the arguments of all its edges.
        operands: &'a [NodeId],
        /// The floats in its results, or among the arguments of the edge that was taken.
        results: &'a [NodeId],
        /// Nodes from here on were made by it.
        first_new: usize,
    },
    /// A float was put into memory.
    Stored(NodeId, InstSite),
    /// Memory that held a float was overwritten.
    Overwritten(NodeId, InstSite),
    /// A block was entered.
    Entered(FuncKey, ir::Block),
}

/// A receiver of the computation, float by float.
pub trait Domain {
    /// The numbers in which slopes are computed.
    type Num: Real;

    /// Whether anything is recorded at all; if not, no provenance is kept either.
    const TRACKS: bool;

    /// Whether [`Domain::observe`] wants to know anything. It costs time at every instruction.
    const OBSERVES: bool = false;

    /// The value of a node.
    fn value(&self, node: NodeId) -> Self::Num;

    /// A float that was computed at `site` from `prev`, each with ∂ value / ∂ operand.
    fn float(&mut self, value: f64, prev: &[(NodeId, Self::Num)], site: InstSite) -> NodeId;

    /// The node is a root of its first operand that is active, and that is at or inside the edge
    /// where roots are infinitely steep.
    fn root(&mut self, _node: NodeId) {}

    /// The value of the node comes in steps of so many of its last places: digits were cut off.
    fn steps(&mut self, _node: NodeId, _last_places: f64) {}

    /// What a program can know of the node's slope in its one operand is off by about so much: it
    /// has only the rounded value to compute it from.
    fn rough(&mut self, _node: NodeId, _by: Self::Num) {}

    /// A float whose bits were computed at `origin` from those of active floats by means that are
    /// not followed. It is no error unless a derivative goes through it.
    fn untracked(&mut self, value: f64, origin: InstSite) -> NodeId;

    /// How many nodes there are.
    fn n_nodes(&self) -> usize;

    /// Something happened. Not called unless the domain observes.
    fn observe(&mut self, _event: Event<'_>) {}
}

/// The domain that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainDomain;

impl Domain for PlainDomain {
    type Num = f64;
    const TRACKS: bool = false;

    fn value(&self, node: NodeId) -> f64 {
        unreachable!("{node} in the plain domain, which makes none")
    }

    fn float(&mut self, _: f64, _: &[(NodeId, f64)], site: InstSite) -> NodeId {
        unreachable!("a node for {} in the plain domain, where no float is active", site.inst)
    }

    fn untracked(&mut self, _: f64, origin: InstSite) -> NodeId {
        unreachable!("active bits of {} in the plain domain, where no float is active", origin.inst)
    }

    fn n_nodes(&self) -> usize {
        0
    }
}
