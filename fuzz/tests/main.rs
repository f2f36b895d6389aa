//! The generator of programs about bits.

mod bits;
