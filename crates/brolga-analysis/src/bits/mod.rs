//! Bits: what an integer instruction does to the bits of a float, as far as its own text and that
//! of its operands say.

pub mod bit_arith;
pub mod bit_idioms;
pub mod bytes;
pub mod exponent;
