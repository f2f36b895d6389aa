//! Derivatives in modules of Cranelift's.

mod activities;
mod common;
mod errors;
mod features;
mod formula;
mod objects;
mod programs;
mod workspace;
