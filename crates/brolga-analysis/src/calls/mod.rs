//! Calls: callees, summaries, and how a call is reversed.

pub mod body;
pub mod callee;
pub mod deferred_free;
pub mod joint;
pub mod opaque_allocator;
pub mod result_sources;
pub mod summarise;
pub mod summary;
