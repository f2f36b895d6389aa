//! Assembly: fragments become graphs. The forward graph, the pullback, or both in one function.
//!
//! - [`assembly`]: the graphs of one variant, made again where one shows that the plan asks for
//!   another.
//! - [`forward`]: the augmented forward pass.
//! - [`pullback`]: the reverse of each block.
//! - [`combined`]: both in one function.
//! - [`tangent`]: the graph of forward mode.
//! - [`exclusive`], [`strands`]: what a task's pullback adds to, and where.

pub(crate) mod assembly;
pub(crate) mod combined;
mod exclusive;
pub(crate) mod forward;
pub(crate) mod pullback;
pub(crate) mod strands;
pub(crate) mod tangent;
