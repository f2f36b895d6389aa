//! Library functions: those of the C library that were compiled into a module, found by their
//! names, or by what they compute, and tried before they are believed.
//!
//! - [`mathlib`], [`unnamed`]: of C's mathematical library, with a name or without a known one.
//! - [`clib`]: block copies, taking floats apart, complex division.
//! - [`around`], [`wrapped`]: functions that are written around the module's own; which may be.
//! - `complexes`, `parts`, `quads`, `remquo`: complex functions, numbers taken apart in Zig's way,
//!   `long double`, `remquo`.

pub(crate) mod around;
pub(crate) mod clib;
mod complexes;
pub(crate) mod mathlib;
mod parts;
mod quads;
mod remquo;
pub(crate) mod unnamed;
pub(crate) mod wrapped;
