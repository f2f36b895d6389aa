//! What tests of several crates share: programs from texts, an allocator that counts, tests that
//! need a process of their own, and panics that are not printed.
//!
//! Only tests use this crate, as a dev-dependency by path: what is published does not mention it.

pub mod child;
pub mod counting;
pub mod noise;
pub mod quiet;
pub mod text;

pub use text::program;
