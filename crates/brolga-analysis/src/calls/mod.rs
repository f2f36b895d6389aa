//! Calls: summaries bottom-up, and how a call is reversed.
//!
//! - [`summarise`]: what a callee's parameters and results are, for its callers.
//! - [`result_sources`]: what a callee's results are made from.
//! - [`solve`]: type inference of one function.
//! - [`handed_down`]: what callers keep behind a callee's parameters.
//! - [`joint`]: which calls run whole in the reverse half.
//! - [`deferred_free`]: which releases of blocks can wait until the pullback is done.
//! - [`opaque_allocator`]: which functions of an allocator are called as they are.

pub mod deferred_free;
pub mod handed_down;
pub mod joint;
pub mod opaque_allocator;
pub mod result_sources;
pub mod solve;
pub mod summarise;
