//! Calls: summaries bottom-up, and how a call is reversed.

pub mod deferred_free;
pub mod joint;
pub mod opaque_allocator;
pub mod result_sources;
pub mod summarise;
