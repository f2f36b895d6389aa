//! Legalisation: the primal in the form that the rest relies on, and idioms in a form that has a
//! derivative.
//!
//! Every pass here changes a primal function and leaves its results, its memory and its traps as
//! they were.

pub mod cse;
pub(crate) mod decided;
pub(crate) mod edit;
pub(crate) mod exponent_idiom;
pub(crate) mod guarded;
pub(crate) mod induction;
pub mod loop_simplify;
pub mod mem2reg;
pub mod normalise;
pub(crate) mod pair_sincos;
pub mod reload_bits;
pub mod rounding_sum;
pub mod scev;
pub mod slots;
pub(crate) mod split_wide_copies;
pub mod upper_halves;
