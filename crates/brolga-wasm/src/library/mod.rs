//! Functions of the C library that were compiled into a module: found by their names, or by what
//! they compute, and tried before they are believed.

pub(crate) mod around;
pub(crate) mod clib;
mod complexes;
pub(crate) mod mathlib;
mod parts;
mod quads;
mod remquo;
pub(crate) mod unnamed;
pub(crate) mod wrapped;
