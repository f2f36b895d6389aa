//! Guards of products: strong zeros, and versions of the pullback without them where a run has
//! shown that every factor is finite.

pub(crate) mod rows;
pub mod versioning;
