//! Assembly: fragments become graphs. The forward graph, the pullback, or both in one function.

pub mod combined;
pub mod forward;
pub mod pullback;
