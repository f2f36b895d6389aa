//! Guards of products: strong zeros, and versions of the pullback without them where a run has
//! shown that every factor is finite.
//!
//! - [`versioning`]: the pullback without guards, for runs in which it is right.
//! - [`rows`]: versions for the rows of a sparse matrix.

pub(crate) mod rows;
pub(crate) mod versioning;
