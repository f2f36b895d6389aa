//! Guards of products: strong zeros, and versions of the pullback without them where a run has
//! shown that every factor is finite.

pub mod products;
pub mod root_takers;
pub mod roots;
pub mod unit_cotangents;
