//! Numbers, lanes and lists: what goes into a call and comes out of it, independent of how it was
//! written.
//!
//! **Question.** A value is a register, or bytes of a buffer. Which number is it, and are two the
//! same?
//!
//! **Answer.** A [`Num`] is one number of any type, an [`Item`] one or several. [`from_data`] and
//! [`to_data`] lead from and to the values that compiled code takes; [`Num::decode`] and
//! [`Num::encode`] from and to bytes. Numbers are compared bit by bit ([`Num::same_bits`]), or
//! within a tolerance ([`close`]).
//!
//! Floats of 16 and of 128 bits are moved, and nothing is computed with them: a [`Num`] has their
//! bits.
//!
//! **Cost.** A few instructions for each number.

use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{Type, types};

use crate::text::ElemType;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num {
    /// A 64-bit float.
    F64(f64),
    /// A 32-bit float.
    F32(f32),
    /// The bits of a 16-bit float: it is moved, and nothing is computed with it.
    F16(u16),
    /// The bits of a 128-bit float, likewise.
    F128(u128),
    /// An integer, sign-extended.
    Int(i128),
}

impl Num {
    /// As a double; integers are rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::F64(v) => v,
            Self::F32(v) => f64::from(v),
            Self::F16(bits) => rounded(bits.into(), 5, 10),
            Self::F128(bits) => rounded(bits, 15, 112),
            Self::Int(v) => v as f64,
        }
    }

    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        !matches!(self, Self::Int(_))
    }

    /// Whether every bit agrees, NaN payloads and signs of zero included.
    pub fn same_bits(self, other: Self) -> bool {
        match (self, other) {
            (Self::F64(a), Self::F64(b)) => a.to_bits() == b.to_bits(),
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F16(a), Self::F16(b)) => a == b,
            (Self::F128(a), Self::F128(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            _ => false,
        }
    }

    /// Read one element of a buffer.
    pub fn decode(elem: ElemType, bytes: &[u8]) -> Self {
        match elem {
            ElemType::F64 => Self::F64(f64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))),
            ElemType::F32 => Self::F32(f32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))),
            ElemType::Int(bits) => {
                let n = usize::from(bits) / 8;
                let mut wide = [0u8; 16];
                wide[..n].copy_from_slice(&bytes[..n]);
                let unused = 128 - u32::from(bits);
                Self::Int((i128::from_le_bytes(wide) << unused) >> unused)
            }
        }
    }

    /// Write one element of a buffer. A number of another kind is converted.
    pub fn encode(self, elem: ElemType, out: &mut [u8]) {
        match elem {
            ElemType::F64 => out[..8].copy_from_slice(&self.as_f64().to_le_bytes()),
            ElemType::F32 => {
                let v = if let Self::F32(v) = self { v } else { self.as_f64() as f32 };
                out[..4].copy_from_slice(&v.to_le_bytes());
            }
            ElemType::Int(bits) => {
                let v = if let Self::Int(v) = self { v } else { self.as_f64() as i128 };
                let n = usize::from(bits) / 8;
                out[..n].copy_from_slice(&v.to_le_bytes()[..n]);
            }
        }
    }
}

/// The float with these bits, with so many for the exponent and the mantissa, as a double: of a
/// longer one the first digits, cut off.
fn rounded(bits: u128, exponent: u32, mantissa: u32) -> f64 {
    let max = (1_i32 << exponent) - 1;
    let field = (bits >> mantissa) as i32 & max;
    let fraction = bits & ((1 << mantissa) - 1);
    let cut = mantissa.saturating_sub(52);
    let fraction = (fraction >> cut) as f64 / (1_u64 << (mantissa - cut)) as f64;
    let scale = |e: i32| 2f64.powi(e / 2) * 2f64.powi(e - e / 2);
    let magnitude = match field {
        f if f == max && bits & ((1 << mantissa) - 1) != 0 => f64::NAN,
        f if f == max => f64::INFINITY,
        0 => fraction * scale(1 - max / 2),
        f => (1.0 + fraction) * scale(f - max / 2),
    };
    if bits >> (exponent + mantissa) & 1 == 1 { -magnitude } else { magnitude }
}

/// A result, an argument's contents, or a cotangent.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A scalar.
    One(Num),
    /// Lanes of a vector, or elements of a buffer.
    Many(Vec<Num>),
}

impl Item {
    /// The numbers in it.
    pub fn nums(&self) -> &[Num] {
        match self {
            Self::One(n) => std::slice::from_ref(n),
            Self::Many(v) => v,
        }
    }

    /// Whether every bit agrees.
    pub fn same_bits(&self, other: &Self) -> bool {
        let (a, b) = (self.nums(), other.nums());
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same_bits(*y))
    }
}

/// Elements of a buffer's bytes.
pub fn decode_all(elem: ElemType, bytes: &[u8]) -> Vec<Num> {
    bytes.chunks_exact(elem.bytes()).map(|b| Num::decode(elem, b)).collect()
}

/// What a value of type `ty` looks like from outside: its lanes, or the number that it is.
pub fn from_data(value: &DataValue, ty: Type) -> Item {
    let lanes = |bytes: &[u8]| {
        if ty.lane_type() == types::F16 {
            return Item::Many(bytes.chunks_exact(2).map(|b| Num::F16(u16::from_le_bytes([b[0], b[1]]))).collect());
        }
        let lane = ElemType::of(ty.lane_type()).unwrap_or(ElemType::Int(8));
        Item::Many(decode_all(lane, bytes))
    };
    Item::One(match value {
        DataValue::F64(v) => Num::F64(v.as_f64()),
        DataValue::F32(v) => Num::F32(v.as_f32()),
        DataValue::I8(v) => Num::Int((*v).into()),
        DataValue::I16(v) => Num::Int((*v).into()),
        DataValue::I32(v) => Num::Int((*v).into()),
        DataValue::I64(v) => Num::Int((*v).into()),
        DataValue::I128(v) => Num::Int(*v),
        DataValue::F16(v) => Num::F16(v.bits()),
        DataValue::F128(v) => Num::F128(v.bits()),
        DataValue::V128(b) => return lanes(b),
        DataValue::V64(b) => return lanes(b),
        DataValue::V32(b) => return lanes(b),
        DataValue::V16(b) => return lanes(b),
    })
}

/// The value of type `ty` with these lanes (one for a scalar), each made by `lane`.
///
/// `None` for a type that cannot be passed.
pub fn to_data(ty: Type, mut lane: impl FnMut(usize) -> Num) -> Option<DataValue> {
    if ty.is_vector() {
        let elem = ElemType::of(ty.lane_type())?;
        let n = elem.bytes();
        let mut bytes = [0u8; 16];
        for i in 0..ty.lane_count() as usize {
            lane(i).encode(elem, bytes.get_mut(i * n..(i + 1) * n)?);
        }
        return Some(match ty.bytes() {
            16 => DataValue::V128(bytes),
            8 => DataValue::V64(bytes[..8].try_into().ok()?),
            4 => DataValue::V32(bytes[..4].try_into().ok()?),
            2 => DataValue::V16(bytes[..2].try_into().ok()?),
            _ => return None,
        });
    }
    let n = lane(0);
    let int = if let Num::Int(v) = n { v } else { n.as_f64() as i128 };
    Some(match ty {
        types::F64 => DataValue::F64(Ieee64::with_float(n.as_f64())),
        types::F32 => DataValue::F32(Ieee32::with_float(if let Num::F32(v) = n { v } else { n.as_f64() as f32 })),
        types::I8 => DataValue::I8(int as i8),
        types::I16 => DataValue::I16(int as i16),
        types::I32 => DataValue::I32(int as i32),
        types::I64 => DataValue::I64(int as i64),
        types::I128 => DataValue::I128(int),
        _ => return None,
    })
}

/// The vector of type `ty` with all its bits in one hexadecimal number, the first lane in the
/// lowest.
pub fn bits_of_vector(text: &str, ty: Type) -> Result<DataValue, String> {
    let digits = text.strip_prefix("0x").map(|d| d.replace('_', ""));
    let bits = digits.and_then(|d| u128::from_str_radix(&d, 16).ok()).ok_or("not a hexadecimal number")?;
    let bytes = bits.to_le_bytes();
    let n = ty.bytes() as usize;
    if n > 16 || bytes[n..].iter().any(|&b| b != 0) {
        return Err(format!("`{text}` has more bits than a value of type {ty}"));
    }
    Ok(match n {
        16 => DataValue::V128(bytes),
        8 => DataValue::V64(std::array::from_fn(|i| bytes[i])),
        4 => DataValue::V32(std::array::from_fn(|i| bytes[i])),
        2 => DataValue::V16(std::array::from_fn(|i| bytes[i])),
        _ => return Err(format!("values of type {ty} cannot be passed")),
    })
}

/// Whether a cotangent of this type can be anything but zero: floats and vectors of floats.
pub fn is_float(ty: Type) -> bool {
    ty.lane_type().is_float()
}

/// Whether two numbers agree within `tol`.
pub fn close(actual: f64, expected: f64, tol: f64) -> bool {
    if expected.is_nan() || actual.is_nan() {
        return expected.is_nan() && actual.is_nan();
    }
    actual == expected || ((actual - expected).abs() <= tol * (1.0 + expected.abs()) && expected.is_finite())
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::types;

    use super::{ElemType, Item, Num, bits_of_vector, decode_all, from_data, to_data};

    #[test]
    fn values_survive_the_round_trip() {
        for ty in [types::F64X2, types::F32X4, types::I32X4, types::I8X16, types::F64, types::F32, types::I64] {
            let make =
                |i: usize| if ty.lane_type().is_int() { Num::Int(i as i128 - 3) } else { Num::F64(i as f64 - 0.5) };
            let item = from_data(&to_data(ty, make).unwrap(), ty);
            assert_eq!(item.nums().len(), ty.lane_count() as usize);
            assert!(item.nums().iter().enumerate().all(|(i, n)| n.as_f64() == make(i).as_f64()), "{ty}: {item:?}");
        }
        assert_eq!(to_data(types::F128, |_| Num::F64(0.0)), None);
    }

    #[test]
    fn floats_of_other_widths() {
        let f16 = |bits| Num::F16(bits).as_f64();
        assert_eq!([0x3c00, 0xc500, 0x0001, 0x7bff].map(f16), [1.0, -5.0, 2f64.powi(-24), 65504.0]);
        assert_eq!(f16(0xfc00), f64::NEG_INFINITY);
        assert!(f16(0x7e00).is_nan());
        let f128 = |high: u128| Num::F128(high << 64).as_f64();
        assert_eq!([0x3fff_8000_0000_0000, 0xc000_4000_0000_0000].map(f128), [1.5, -2.5]);
        assert_eq!(f128(0x7fff_0000_0000_0000), f64::INFINITY);
        assert!(Num::F128((0x7fff << 112) | 1).as_f64().is_nan());
    }

    /// A vector of all bits, as Cranelift's file tests write it: the first lane is at the end.
    #[test]
    fn hexadecimal_vectors() {
        let v = bits_of_vector("0x0000_0004_00000003_00000002_00000001", types::I32X4).unwrap();
        let lanes = [1, 2, 3, 4].map(Num::Int);
        assert_eq!(from_data(&v, types::I32X4), Item::Many(lanes.to_vec()));
        assert_eq!(
            from_data(&bits_of_vector("0x1", types::I8X8).unwrap(), types::I8X8).nums()[..2],
            [1, 0].map(Num::Int)
        );
        assert!(bits_of_vector("0x1_00000000_00000000", types::I8X8).is_err());
        assert!(bits_of_vector("17", types::I8X8).is_err());
    }

    #[test]
    fn bits_decide() {
        let zero = Item::One(Num::F64(0.0));
        assert!(!zero.same_bits(&Item::One(Num::F64(-0.0))));
        assert!(Item::One(Num::F32(f32::NAN)).same_bits(&Item::One(Num::F32(f32::NAN))));
        assert_eq!(decode_all(ElemType::Int(16), &[0xff, 0xff, 2, 0]), [Num::Int(-1), Num::Int(2)]);
    }
}
