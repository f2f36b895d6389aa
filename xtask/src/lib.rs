//! The chores of the project: what they are ([`cli`]), and how they are done ([`chores`], [`tidy`],
//! [`trust`]).
//!
//! It is a library for `benches`, whose command line is a part of this one: `cargo xtask bench`
//! runs the package `benches` through cargo. So do all commands that need more than the driver:
//! tests, benchmarks, mutants and searches are packages that are compiled when they are asked for.

pub mod chores;
pub mod cli;
pub mod tidy;
pub mod trust;
