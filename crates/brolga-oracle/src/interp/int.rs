//! Integer operations on one lane, as pure functions of bits.
//!
//! **Question.** What is the result of an integer opcode on `n` bits?
//!
//! **Answer.** Operands and results are the low `n` bits of a `u128`, zero above; `n` is 8, 16, 32,
//! 64 or 128. There are functions for one operand, for two, for shifts, for arithmetic that tells
//! whether it overflowed, and for comparisons. Nothing here knows of types, lanes, provenance or
//! traps.
//!
//! **Errors.** A division by zero, and one that overflows, come back as an [`IntFault`].
//!
//! **Cost.** A few operations on 128 bits.

use cranelift_codegen::ir::Opcode;
use cranelift_codegen::ir::condcodes::IntCC;

use super::value::{ones, sext};

/// Why an integer operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntFault {
    /// Division by zero.
    DivisionByZero,
    /// The quotient of the smallest number and -1.
    Overflow,
    /// Not an operation of this file.
    Unknown,
}

/// Smallest and largest signed number of `n` bits.
fn signed_range(n: u32) -> (i128, i128) {
    (sext(1 << (n - 1), n), (ones(n) >> 1) as i128)
}

/// Clamp to the signed numbers of `n` bits.
pub(super) fn saturate_signed(x: i128, n: u32) -> u128 {
    let (lo, hi) = signed_range(n);
    x.clamp(lo, hi) as u128 & ones(n)
}

/// Clamp to the unsigned numbers of `n` bits.
pub(super) fn saturate_unsigned(x: i128, n: u32) -> u128 {
    x.clamp(0, ones(n) as i128) as u128
}

/// The 256-bit product of two 128-bit numbers, as high and low half.
fn mul_wide(x: u128, y: u128) -> (u128, u128) {
    let (x1, x0, y1, y0) = (x >> 64, x & ones(64), y >> 64, y & ones(64));
    let low = x0 * y0;
    let mid = x1 * y0 + (low >> 64);
    let mid2 = x0 * y1 + (mid & ones(64));
    (x1 * y1 + (mid >> 64) + (mid2 >> 64), (mid2 << 64) | (low & ones(64)))
}

/// Operations of one operand.
pub(super) fn unary(op: Opcode, n: u32, x: u128) -> Result<u128, IntFault> {
    let m = ones(n);
    Ok(match op {
        Opcode::Ineg => x.wrapping_neg() & m,
        Opcode::Iabs => (sext(x, n).wrapping_abs() as u128) & m,
        Opcode::Bnot => !x & m,
        Opcode::Bitrev => x.reverse_bits() >> (128 - n),
        Opcode::Bswap => x.swap_bytes() >> (128 - n),
        Opcode::Clz => u128::from(x.leading_zeros() - (128 - n)),
        Opcode::Cls => {
            // Copies of the sign bit after the sign bit.
            let s = sext(x, n);
            let magnitude = (s ^ (s >> 127)) as u128;
            u128::from(magnitude.leading_zeros() - (128 - n) - 1)
        }
        Opcode::Ctz => u128::from(x.trailing_zeros().min(n)),
        Opcode::Popcnt => u128::from(x.count_ones()),
        _ => return Err(IntFault::Unknown),
    })
}

/// Operations of two operands of one width.
pub(super) fn binary(op: Opcode, n: u32, x: u128, y: u128) -> Result<u128, IntFault> {
    let m = ones(n);
    let (sx, sy) = (sext(x, n), sext(y, n));
    Ok(match op {
        Opcode::Iadd => x.wrapping_add(y) & m,
        Opcode::Isub => x.wrapping_sub(y) & m,
        Opcode::Imul => x.wrapping_mul(y) & m,
        Opcode::Umulhi => {
            let (hi, lo) = mul_wide(x, y);
            if n == 128 { hi } else { (lo >> n) & m }
        }
        Opcode::Smulhi if n == 128 => {
            let (hi, _) = mul_wide(x, y);
            let fix = |neg: bool, v: u128| if neg { v } else { 0 };
            hi.wrapping_sub(fix(sx < 0, y)).wrapping_sub(fix(sy < 0, x))
        }
        Opcode::Smulhi => ((sx.wrapping_mul(sy) >> n) as u128) & m,
        Opcode::Smin => {
            if sx < sy {
                x
            } else {
                y
            }
        }
        Opcode::Smax => {
            if sx > sy {
                x
            } else {
                y
            }
        }
        Opcode::Umin => x.min(y),
        Opcode::Umax => x.max(y),
        Opcode::AvgRound => (x & y) + ((x ^ y) >> 1) + ((x ^ y) & 1),
        Opcode::UaddSat => {
            if x > m - y {
                m
            } else {
                x + y
            }
        }
        Opcode::UsubSat => x.saturating_sub(y),
        Opcode::SaddSat => saturate_signed(sx.saturating_add(sy), n),
        Opcode::SsubSat => saturate_signed(sx.saturating_sub(sy), n),
        Opcode::SqmulRoundSat => saturate_signed((sx * sy + (1 << (n - 2))) >> (n - 1), n),
        Opcode::X86Pmulhrsw => (((sx * sy + (1 << (n - 2))) >> (n - 1)) as u128) & m,
        Opcode::Band => x & y,
        Opcode::Bor => x | y,
        Opcode::Bxor => x ^ y,
        Opcode::Udiv => x.checked_div(y).ok_or(IntFault::DivisionByZero)?,
        Opcode::Urem => x.checked_rem(y).ok_or(IntFault::DivisionByZero)?,
        Opcode::Sdiv if y == 0 => return Err(IntFault::DivisionByZero),
        Opcode::Sdiv if sx == signed_range(n).0 && sy == -1 => return Err(IntFault::Overflow),
        Opcode::Sdiv => (sx / sy) as u128 & m,
        Opcode::Srem if y == 0 => return Err(IntFault::DivisionByZero),
        Opcode::Srem => sx.wrapping_rem(sy) as u128 & m,
        _ => return Err(IntFault::Unknown),
    })
}

/// Shifts and rotations; the amount counts modulo the width.
pub(super) fn shift(op: Opcode, n: u32, x: u128, amount: u128) -> Result<u128, IntFault> {
    let m = ones(n);
    let s = (amount % u128::from(n)) as u32;
    let rotl = |s: u32| if s == 0 { x } else { ((x << s) | (x >> (n - s))) & m };
    Ok(match op {
        Opcode::Ishl => (x << s) & m,
        Opcode::Ushr => x >> s,
        Opcode::Sshr => ((sext(x, n) >> s) as u128) & m,
        Opcode::Rotl => rotl(s),
        Opcode::Rotr => rotl((n - s) % n),
        _ => return Err(IntFault::Unknown),
    })
}

/// Arithmetic that also tells whether it overflowed. `carry` is zero for the operations that take
/// none.
pub(super) fn overflowing(op: Opcode, n: u32, x: u128, y: u128, carry: bool) -> Result<(u128, bool), IntFault> {
    let m = ones(n);
    let c = u128::from(carry);
    let (sx, sy, sc) = (sext(x, n), sext(y, n), c as i128);
    // A signed result of up to 129 bits, as a wrapped number and whether 128 bits were too few.
    let signed = |(r, o): (i128, bool)| {
        let wrapped = r as u128 & m;
        (wrapped, o || sext(wrapped, n) != r)
    };
    Ok(match op {
        Opcode::UaddOverflow | Opcode::UaddOverflowCin | Opcode::UaddOverflowTrap => {
            let (r, o1) = x.overflowing_add(y);
            let (r, o2) = r.overflowing_add(c);
            (r & m, o1 || o2 || r > m)
        }
        Opcode::UsubOverflow | Opcode::UsubOverflowBin => {
            let (r, o1) = x.overflowing_sub(y);
            let (r, o2) = r.overflowing_sub(c);
            (r & m, o1 || o2)
        }
        Opcode::SaddOverflow | Opcode::SaddOverflowCin => {
            // Overflowing up and then down again is no overflow.
            let (r, o1) = sx.overflowing_add(sy);
            let (r, o2) = r.overflowing_add(sc);
            signed((r, o1 ^ o2))
        }
        Opcode::SsubOverflow | Opcode::SsubOverflowBin => {
            let (r, o1) = sx.overflowing_sub(sy);
            let (r, o2) = r.overflowing_sub(sc);
            signed((r, o1 ^ o2))
        }
        Opcode::UmulOverflow => {
            let (r, o) = x.overflowing_mul(y);
            (r & m, o || r > m)
        }
        Opcode::SmulOverflow => signed(sx.overflowing_mul(sy)),
        _ => return Err(IntFault::Unknown),
    })
}

/// Whether `x cc y`.
pub(super) fn compare(cc: IntCC, n: u32, x: u128, y: u128) -> bool {
    let (sx, sy) = (sext(x, n), sext(y, n));
    match cc {
        IntCC::Equal => x == y,
        IntCC::NotEqual => x != y,
        IntCC::SignedLessThan => sx < sy,
        IntCC::SignedGreaterThanOrEqual => sx >= sy,
        IntCC::SignedGreaterThan => sx > sy,
        IntCC::SignedLessThanOrEqual => sx <= sy,
        IntCC::UnsignedLessThan => x < y,
        IntCC::UnsignedGreaterThanOrEqual => x >= y,
        IntCC::UnsignedGreaterThan => x > y,
        IntCC::UnsignedLessThanOrEqual => x <= y,
    }
}
