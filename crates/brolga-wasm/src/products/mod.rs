//! Products of derivatives: what is made of several gradients, or of a gradient's derivative.
//!
//! - [`batch`]: several directions, or several seeds, in one run of an instance.
//! - [`second`]: products of the Hessian with a direction.
//! - [`point`]: an exported function at a point of an instance, with derivatives as flat vectors.

pub(crate) mod batch;
pub(crate) mod point;
pub(crate) mod second;
