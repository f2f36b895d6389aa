//! The chores of the project: what they are ([`cli`]), and how they are done ([`chores`], [`tidy`],
//! [`trust`]).
//!
//! It is a library for `benches`, whose command line is a part of this one: `cargo xtask bench`
//! runs the package `benches` through cargo. So do all commands that need more than the driver:
//! tests, benchmarks, mutants and searches are packages that are compiled when they are asked for.

use std::path::{Path, PathBuf};

pub mod chores;
pub mod cli;
pub mod diffsl;
pub mod tidy;
pub mod trust;

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}
