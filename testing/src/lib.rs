//! What tests of several crates share: programs from texts, an allocator that counts, tests that
//! need a process of their own, functions that are compiled as they are, commands from outside,
//! and how much is tried.
//!
//! Only tests use this crate, as a dev-dependency by path: what is published does not mention it.

pub mod budget;
pub mod child;
pub mod command;
pub mod counting;
pub mod jit;
pub mod module;
pub mod noise;
pub mod text;

pub use budget::{asked, budget, is_quick, shares};
pub use text::{function, program};
