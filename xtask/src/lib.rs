//! The command line of the driver: what its commands are ([`cli`]), how calls of a file are read
//! ([`grad`]), and how failures are told ([`report`]).
//!
//! It is a library for `benches`, whose command line is a part of this one: `cargo xtask bench`
//! runs
//! the package `benches` through cargo. So do all commands that need more than the driver: tests,
//! benchmarks, mutants and searches are packages that are compiled when they are asked for.

pub mod check;
pub mod chores;
pub mod cli;
pub mod dump;
pub mod explain;
pub mod failure;
pub mod forward;
pub mod grad;
pub mod report;
pub mod rules;
pub mod second;
pub mod tidy;
pub mod trust;
