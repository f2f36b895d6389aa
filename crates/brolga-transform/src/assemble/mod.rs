//! Assembly: fragments become graphs. The forward graph, the pullback, or both in one function.

pub(crate) mod assembly;
pub mod combined;
mod exclusive;
pub mod forward;
pub mod pullback;
pub(crate) mod strands;
pub(crate) mod tangent;
