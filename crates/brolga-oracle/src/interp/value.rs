//! Values of the interpreter, as bits.
//!
//! **Question.** How is a value of any CLIF type held, so that moves and casts need no cases?
//!
//! **Answer.** Whatever its type, a value is up to 16 bytes, held as a `u128` in little-endian lane
//! order: lane `i` of `n` bits is bits `[i·n, (i+1)·n)`. Scalars are vectors of one lane. A
//! [`TrackedVal`] has beside its bits what is known of their origin.
//!
//! **Invariant.** Bits above the type's width are zero; every operation keeps them so.
//!
//! **Cost.** Sixteen bytes and a tag for each value, and a box where bytes are of several origins.

use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::Type;

use super::provenance::Prov;

/// A value of the interpreted program: its bits, and for each byte what is known of its origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrackedVal {
    /// The bits, zero above the width of the type.
    pub bits: u128,
    /// Where the bytes come from.
    pub prov: Prov,
}

impl TrackedVal {
    /// Bits that no float went into.
    pub fn clean(bits: u128) -> Self {
        TrackedVal { bits, prov: Prov::Clean }
    }
}

/// `n` one bits.
pub(super) fn ones(n: u32) -> u128 {
    if n >= 128 { u128::MAX } else { (1 << n) - 1 }
}

/// The low `n` bits of `x` as a signed number.
pub(super) fn sext(x: u128, n: u32) -> i128 {
    let s = 128 - n;
    ((x << s) as i128) >> s
}

/// Lane `i` of `x`, where lanes are `n` bits wide.
pub fn lane(x: u128, n: u32, i: u32) -> u128 {
    (x >> (n * i)) & ones(n)
}

/// Put lanes of `n` bits together; bits beyond `n` are cut off.
pub(super) fn collect(n: u32, lanes: impl IntoIterator<Item = u128>) -> u128 {
    lanes.into_iter().enumerate().fold(0, |all, (i, x)| all | ((x & ones(n)) << (n * i as u32)))
}

/// The lanes of `x`, a value of type `ty`.
pub fn lanes(ty: Type, x: u128) -> impl Iterator<Item = u128> {
    (0..ty.lane_count()).map(move |i| lane(x, ty.lane_bits(), i))
}

/// The bits of a Cranelift data value.
pub fn to_bits(v: &DataValue) -> u128 {
    let mut bytes = [0; 16];
    v.write_to_slice_le(&mut bytes[..v.ty().bytes() as usize]);
    u128::from_le_bytes(bytes)
}

/// The Cranelift data value of type `ty` with these bits.
pub fn from_bits(bits: u128, ty: Type) -> DataValue {
    DataValue::read_from_slice_le(&bits.to_le_bytes()[..ty.bytes() as usize], ty)
}

/// A float of `width` bytes (4 or 8) as `f64`, which holds both exactly.
pub fn float_of(bits: u128, width: u8) -> f64 {
    if width == 4 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits as u64) }
}

/// The bits of `x` rounded to a float of `width` bytes.
pub(super) fn bits_of(x: f64, width: u8) -> u128 {
    if width == 4 { (x as f32).to_bits().into() } else { x.to_bits().into() }
}
