//! The oracles against numbers worked out by hand, compiled code and another interpreter.

mod common;
mod cranelift_interpreter;
mod dependence;
mod fd;
mod footprint;
mod identity;
mod kinks;
mod memory;
mod native;
mod races;
mod slopes;
mod tape;
mod trace;
