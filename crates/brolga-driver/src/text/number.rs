//! Number syntax: numbers as people write them, read as the type that is wanted.
//!
//! **Question.** Which number of a type does a text stand for?
//!
//! **Answer.** Accepted are decimal (`-1.5e3`), CLIF's hexadecimal floats (`0x1.8p1`), `inf`,
//! `nan`, `nan:0x1` (quiet with payload), integers in decimal or hexadecimal, `true` and `false`. A
//! float is rounded once, to the type that is wanted. An [`ElemType`] is what a buffer holds, and
//! reads its elements.
//!
//! **Errors.** Text that is no number of the type, and integers that are out of its range, signed
//! or unsigned.
//!
//! **Cost.** A parse of the text, twice at most.

use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{Type, types};

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElemType {
    /// 64-bit floats.
    F64,
    /// 32-bit floats.
    F32,
    /// Integers of this many bits: 8, 16, 32 or 64.
    Int(u8),
}

impl ElemType {
    /// From its name before a bracket.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "f64" => Self::F64,
            "f32" => Self::F32,
            "i8" => Self::Int(8),
            "i16" => Self::Int(16),
            "i32" => Self::Int(32),
            "i64" => Self::Int(64),
            _ => return None,
        })
    }

    /// Of a scalar CLIF type.
    pub fn of(ty: Type) -> Option<Self> {
        Some(match ty {
            types::F64 => Self::F64,
            types::F32 => Self::F32,
            types::I8 => Self::Int(8),
            types::I16 => Self::Int(16),
            types::I32 => Self::Int(32),
            types::I64 => Self::Int(64),
            _ => return None,
        })
    }

    /// Size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::Int(bits) => usize::from(bits) / 8,
        }
    }

    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        !matches!(self, Self::Int(_))
    }

    /// Name as written.
    pub fn name(self) -> String {
        match self {
            Self::F64 => "f64".to_owned(),
            Self::F32 => "f32".to_owned(),
            Self::Int(bits) => format!("i{bits}"),
        }
    }

    /// Little-endian bytes of `text` read as this type.
    pub fn encode(self, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::F64 => out.extend_from_slice(&parse_f64(text)?.to_le_bytes()),
            Self::F32 => out.extend_from_slice(&parse_f32(text)?.to_le_bytes()),
            Self::Int(bits) => out.extend_from_slice(&parse_int(text, bits)?.to_le_bytes()[..usize::from(bits) / 8]),
        }
        Ok(())
    }
}

/// `text` as an `f64`.
pub fn parse_f64(text: &str) -> Result<f64, String> {
    match special(text) {
        Some(clif) => clif.parse::<Ieee64>().map(Ieee64::as_f64).map_err(|e| bad(text, "f64", e)),
        None => decimal(text).parse().map_err(|_| bad(text, "f64", "not a number")),
    }
}

/// `text` as an `f32`, rounded once.
pub fn parse_f32(text: &str) -> Result<f32, String> {
    match special(text) {
        Some(clif) => match clif.parse::<Ieee32>() {
            Ok(v) => Ok(v.as_f32()),
            // More bits than an `f32` holds: the number is meant, so round it.
            Err(e) => clif.parse::<Ieee64>().map(|v| v.as_f64() as f32).map_err(|_| bad(text, "f32", e)),
        },
        None => decimal(text).parse().map_err(|_| bad(text, "f32", "not a number")),
    }
}

/// `text` as an integer of `bits` bits: anything from the signed minimum to the unsigned maximum.
pub fn parse_int(text: &str, bits: u8) -> Result<i128, String> {
    let kind = format!("i{bits}");
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.replace('_', "");
    let magnitude = match digits.as_str() {
        "true" => Ok(1),
        "false" => Ok(0),
        d => match d.strip_prefix("0x") {
            Some(hex) => u128::from_str_radix(hex, 16),
            None => d.parse::<u128>(),
        },
    }
    .map_err(|_| bad(text, &kind, "not a whole number"))?;
    let max = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let min = 1u128 << (bits - 1);
    if magnitude > if negative { min } else { max } {
        return Err(bad(text, &kind, "out of range"));
    }
    let value = magnitude as i128;
    let value = if negative { value.wrapping_neg() } else { value };
    // Sign-extend, so that 0xff and -1 are the same i8.
    let unused = 128 - u32::from(bits);
    Ok((value << unused) >> unused)
}

/// CLIF's spelling of a number that Rust's parser does not read.
fn special(text: &str) -> Option<String> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("+", text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = body.to_ascii_lowercase();
    Some(match lower.as_str() {
        "inf" | "infinity" => format!("{sign}Inf"),
        "nan" => format!("{sign}NaN"),
        l if l.starts_with("nan:") => format!("{sign}NaN{}", &l[3..]),
        l if l.starts_with("snan:") => format!("{sign}sNaN{}", &l[4..]),
        l if l.starts_with("0x") => format!("{sign}{}", l.replace('_', "")),
        _ => return None,
    })
}

fn decimal(text: &str) -> String {
    text.replace('_', "")
}

fn bad(text: &str, ty: &str, why: &str) -> String {
    format!("`{text}` is not an {ty}: {}", why.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::{parse_f32, parse_f64, parse_int};

    #[test]
    fn floats() {
        assert_eq!(parse_f64("-1.5e3"), Ok(-1500.0));
        assert_eq!(parse_f64("0x1.8p1"), Ok(3.0));
        assert_eq!(parse_f64("-0x1.0p-1074").unwrap(), -5e-324);
        assert_eq!(parse_f64("-inf"), Ok(f64::NEG_INFINITY));
        assert_eq!(parse_f64("-0").unwrap().to_bits(), (-0.0f64).to_bits());
        assert!(parse_f64("nan").unwrap().is_nan());
        assert_eq!(parse_f64("NaN:0x1").unwrap().to_bits(), 0x7ff8_0000_0000_0001);
        assert_eq!(parse_f64("0x10"), Ok(16.0));
        assert!(parse_f64("1.0.0").unwrap_err().contains("f64"));
        assert!(parse_f64("true").is_err());
    }

    #[test]
    fn one_rounding_to_f32() {
        assert_eq!(parse_f32("0.1"), Ok(0.1f32));
        // Rounding to f64 first would give 1 + 2^-23 here.
        assert_eq!(parse_f32("1.00000005960464477539062500000000001"), Ok(1.0 + f32::EPSILON));
        assert_eq!(parse_f32("0x1.0000000000001p0"), Ok(1.0));
    }

    #[test]
    fn integers() {
        assert_eq!(parse_int("0xff", 8), Ok(-1));
        assert_eq!(parse_int("255", 8), Ok(-1));
        assert_eq!(parse_int("-128", 8), Ok(-128));
        assert_eq!(parse_int("true", 8), Ok(1));
        assert_eq!(parse_int("-170141183460469231731687303715884105728", 128), Ok(i128::MIN));
        assert!(parse_int("256", 8).unwrap_err().contains("out of range"));
        assert!(parse_int("-129", 8).is_err());
        assert!(parse_int("1.5", 64).unwrap_err().contains("whole number"));
    }
}
