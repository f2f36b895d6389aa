//! What is made of several gradients, or of a gradient's derivative: batches, Hessians, gradients
//! at points of an instance.

pub(crate) mod batch;
pub(crate) mod point;
pub(crate) mod second;
