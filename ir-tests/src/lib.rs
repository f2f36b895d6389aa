//! File tests: gradients, traps, refusals and dumps that CLIF files ask for in their directives.
//!
//! The files lie in `cases/`, written for a purpose, and in `real/`, emitted by existing frontends.
//! The harness in `tests/files.rs` makes one test of every directive ([`cases`]) and runs it
//! ([`checks`], [`blessed`]).
//!
//! A `; grad:` line asserts more than its numbers. The same gradient must agree with finite
//! differences (unless the line says `nofd`), with the tape oracle and with forward mode, and the
//! rule must keep the promises listed in [`brolga_driver::protocol`].

pub mod blessed;
pub mod cases;
pub mod checks;
pub mod inputs;
pub mod mutants;
pub mod requests;

/// Why a test failed; empty lists do not occur.
pub type Complaints = Vec<String>;

/// Modules, under `wasm`, whose calls are derived twice: curves, cameras, bodies, recursion,
/// matrices, Eigen without and with vectors. (Those that move floats in pieces are refused.)
pub const MODULES_TWICE: [&str; 7] = [
    "O2/loss.wasm",
    "O2/ba.wasm",
    "O2/nbody.wasm",
    "O2/quadrature.wasm",
    "O2/kernels.wasm",
    "O2/eigen_fixed.wasm",
    "O3-simd/eigen_fixed.wasm",
];
