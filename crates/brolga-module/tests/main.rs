//! Derivatives in modules of Cranelift's.

mod activities;
mod adjoints;
mod again;
mod bare;
mod common;
mod equations;
mod errors;
mod features;
mod formula;
mod objects;
mod programs;
mod rules;
mod workspace;
