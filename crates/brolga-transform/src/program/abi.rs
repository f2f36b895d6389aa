//! ABI of derived functions: what a variant says of parameters and results, for callers of a pair
//! from outside.
//!
//! **Question.** Which deltas, seeds and cotangents does a derived pair take and return, in which
//! order?
//!
//! **Answer.** [`Abi::of`] lists them by the modes of a variant: parameters with a delta, results
//! with a seed, parameters with a cotangent, and how many deltas of results are returned.
//!
//! **Cost.** A few walks over parameters and results, once for each rule.

use brolga_analysis::{ParamMode, ResultMode, Variant};
use cranelift_codegen::ir;

/// The ABI of a derived pair, spelled out for its callers.
#[derive(Clone, Debug)]
pub struct Abi {
    /// Which primal parameters come with a delta.
    pub deltas: Vec<usize>,
    /// Which primal results' cotangents the pullback receives.
    pub seeds: Vec<usize>,
    /// Which primal parameters' cotangents it returns.
    pub cotangents: Vec<usize>,
    /// How many deltas the forward pass returns after the results.
    pub n_result_deltas: usize,
}

impl Abi {
    /// The ABI of a variant.
    pub fn of(variant: &Variant, sig: &ir::Signature) -> Self {
        let dup = |p: &ParamMode| matches!(p, ParamMode::Dup { .. });
        Abi {
            deltas: (0..variant.params.len()).filter(|&i| dup(&variant.params[i])).collect(),
            seeds: variant.result_shapes(sig).map(|x| x.0).collect(),
            cotangents: variant.param_shapes(sig).map(|x| x.0).collect(),
            n_result_deltas: variant.results.iter().filter(|r| **r == ResultMode::Ptr).count(),
        }
    }
}
