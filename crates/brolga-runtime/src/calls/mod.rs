//! What generated code calls, by name.

pub mod debug;
pub mod forks;
pub mod gamma;
pub(crate) mod heap;
pub mod inverses;
mod loops;
pub mod memory;
mod numbers;
pub(crate) mod pieces;
pub(crate) mod poison;
pub mod steps;
pub(crate) mod symbols;
pub mod tangents;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod through;
