//! Derivatives in modules of Cranelift's.

mod activities;
mod bare;
mod common;
mod errors;
mod objects;
mod programs;
mod rules;
mod workspace;
