//! Function translation: a function of a module as CLIF.
//!
//! - [`func`]: control flow, locals and calls.
//! - [`ops`], `simd`: numbers, vectors.
//! - [`memory`]: linear memory, globals and tables.
//! - [`mod@env`]: what functions share while they are translated.

pub(crate) mod env;
pub(crate) mod func;
pub(crate) mod memory;
pub(crate) mod ops;
mod simd;
