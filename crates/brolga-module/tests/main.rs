//! Derivatives in modules of Cranelift's.

#![expect(clippy::duplicate_mod, reason = "two examples that are tested have one module in common")]

mod activities;
mod adjoints;
mod bare;
mod common;
mod consumed;
mod corners;
mod equations;
mod errors;
mod features;
mod forks;
mod formula;
mod growth;
mod heap;
mod names;
mod nesting;
mod objects;
mod orders;
mod pieces;
mod programs;
mod rules;
mod unshadowed;
mod user_rules;
mod workspace;
