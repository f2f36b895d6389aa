//! Helpers of derived code: what generated code calls, by name.
//!
//! - [`symbols`]: all of them, and C's functions.
//! - [`moved_pointers`]: pointers among what is copied.
//! - [`memory`], `heap`: moves and fills of shadows, C's block routines, `malloc` and its family.
//! - `pieces`, `poison`, `numbers`: cotangents of pieces of floats, and of bits that are not
//!   known.
//! - [`tangents`], [`steps`]: pieces in forward mode; slopes of ulp arithmetic.
//! - `loops`, [`inverses`], [`forks`]: time loops, inverse pairs, tasks.
//! - [`gamma`], `through`: derivatives of `lgamma`; C's functions that take pointers.
//! - [`debug`]: what a debug run checks.

pub mod debug;
pub mod forks;
pub mod gamma;
pub(crate) mod heap;
pub mod inverses;
mod loops;
pub mod memory;
pub mod moved_pointers;
mod numbers;
pub(crate) mod pieces;
pub(crate) mod poison;
pub mod steps;
pub(crate) mod symbols;
pub mod tangents;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod through;
