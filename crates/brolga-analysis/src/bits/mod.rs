//! Bits: what an integer instruction does to the bits of a float, as far as its own text and that
//! of its operands say.
//!
//! - [`bytes`]: which bytes of which operands an integer is made of.
//! - [`bit_idioms`]: sign changes, absolute values and lane masks.
//! - [`bit_arith`]: instructions that count in units of a float's last place.
//! - [`converted`]: floats that are put together from converted numbers.
//! - [`exponent`]: what lies above a float's mantissa.

pub mod bit_arith;
pub mod bit_idioms;
pub mod bytes;
pub mod converted;
pub mod exponent;
