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

use std::path::{Path, PathBuf};

/// Why a test failed; empty lists do not occur.
pub type Complaints = Vec<String>;

/// Folders of modules under `wasm`.
pub const FOLDERS: [&str; 5] = ["O0", "O2", "O3-simd", "linked", "text"];

/// Every module under `wasm`, in order.
pub fn modules(wasm: &Path) -> Vec<PathBuf> {
    let of = |folder: &str| {
        let entries = std::fs::read_dir(wasm.join(folder)).expect("the folder is there");
        let is_module = |p: &PathBuf| p.extension().is_some_and(|e| e == "wasm" || e == "wat");
        let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).filter(is_module).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{folder} has no modules");
        paths
    };
    FOLDERS.into_iter().flat_map(of).collect()
}

/// Modules, under `wasm`, for each composition of modes: curves, cameras, bodies, recursion,
/// matrices, Eigen without and with vectors.
pub const NESTED_MODULES: [&str; 7] = [
    "O2/loss.wasm",
    "O2/ba.wasm",
    "O2/nbody.wasm",
    "O2/quadrature.wasm",
    "O2/kernels.wasm",
    "O2/eigen_fixed.wasm",
    "O3-simd/eigen_fixed.wasm",
];
