//! Forward mode of the oracle: the program on dual numbers.
//!
//! **Question.** What is the tangent of each float of a run along one direction?
//!
//! **Answer.** [`Forward`] receives the same floats and slopes as the tape, but keeps a tangent for
//! each and no graph. Its purpose is the dot-product identity: for every tangent ẋ of the inputs
//! and cotangent ȳ of the outputs
//!
//! ```text
//! ⟨ȳ, J ẋ⟩ = ⟨Jᵀ ȳ, ẋ⟩
//! ```
//!
//! which checks a whole gradient, computed elsewhere, with one forward run and without any step
//! size.
//!
//! **Errors.** A tangent that depends on untracked bits says which instruction made them
//! ([`Forward::tangent`]).
//!
//! **Cost.** Two numbers for each float that depends on an input.

use std::collections::HashMap;

use cranelift_entity::PrimaryMap;

use crate::error::InstSite;
use crate::interp::{Domain, NodeId};
use crate::real::{Dual, Real};

/// The domain of dual numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forward {
    nodes: PrimaryMap<NodeId, Dual>,
    /// Nodes whose tangent depends on untracked bits, with the instruction that made the bits.
    /// Looked up only.
    tainted: HashMap<NodeId, InstSite>,
}

impl Forward {
    /// An input with its tangent.
    pub(crate) fn leaf(&mut self, value: f64, tangent: f64) -> NodeId {
        self.nodes.push(Dual { re: value, eps: tangent })
    }

    /// The tangent of a node. `Err` says which instruction made the untracked bits that it depends
    /// on.
    pub(crate) fn tangent(&self, n: NodeId) -> Result<f64, InstSite> {
        match self.tainted.get(&n) {
            Some(&site) => Err(site),
            None => Ok(self.nodes[n].eps),
        }
    }
}

impl Domain for Forward {
    type Num = f64;
    const TRACKS: bool = true;

    fn value(&self, node: NodeId) -> f64 {
        self.nodes[node].re
    }

    fn float(&mut self, value: f64, prev: &[(NodeId, f64)], _: InstSite) -> NodeId {
        let eps = prev.iter().map(|&(p, slope)| f64::strong_mul(self.nodes[p].eps, slope)).sum();
        let taint = prev.iter().find_map(|(p, slope)| self.tainted.get(p).filter(|_| *slope != 0.0)).copied();
        let n = self.nodes.push(Dual { re: value, eps });
        if let Some(site) = taint {
            self.tainted.insert(n, site);
        }
        n
    }

    fn untracked(&mut self, value: f64, origin: InstSite) -> NodeId {
        let n = self.leaf(value, 0.0);
        self.tainted.insert(n, origin);
        n
    }

    fn n_nodes(&self) -> usize {
        self.nodes.len()
    }
}
