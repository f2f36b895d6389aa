//! Shadows: of heap blocks, of data objects, and what a debug run declares of any.

pub(crate) mod blocks;
pub(crate) mod declared;
pub(crate) mod globals;
