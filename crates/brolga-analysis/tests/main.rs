//! Each analysis on small functions.

mod bytes;
mod cfg;
mod clobber;
mod common;
mod opaque_allocator;
mod points_to;
mod preserved;
mod reload_after_undo;
mod result_sources;
mod unneeded;
