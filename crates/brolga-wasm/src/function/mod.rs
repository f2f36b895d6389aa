//! A function of a module as CLIF: control flow, numbers, vectors, memory.

pub(crate) mod env;
pub(crate) mod func;
pub(crate) mod memory;
pub(crate) mod ops;
mod simd;
