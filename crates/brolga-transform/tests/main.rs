//! Each stage and pass on small functions.

mod cse;
mod hoist_records;
mod host;
mod joint;
mod marks;
mod opaque_allocator;
mod pieces;
mod preaccumulate;
mod preserved;
mod prune;
mod quick;
mod renumber;
mod share_calls;
mod unit_cotangents;
mod unneeded;
mod variants;
mod versioning;
