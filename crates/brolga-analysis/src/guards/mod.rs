//! Guards of products: strong zeros, and versions of the pullback without them where a run has
//! shown that every factor is finite.
//!
//! - [`unit_cotangents`]: whose cotangent is the constant one.
//! - [`roots`]: whose cotangent may be infinite because of a root.
//! - [`root_takers`]: which functions take a root.
//! - [`products`]: which masked values of a program are guarded products.

pub mod products;
pub mod root_takers;
pub mod roots;
pub mod unit_cotangents;
