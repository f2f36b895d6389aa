//! Float opcodes on one lane: values exactly as the machine computes them, and slopes.
//!
//! **Question.** What is the result of a float opcode, bit by bit, and what are its slopes?
//!
//! **Answer.** [`eval`] works on bits of 32 or 64, so that signs of zeros and NaN come out as in
//! compiled code. [`slopes`] gives ∂ result / ∂ operand for each operand, `None` where the
//! derivative is zero by the nature of the operation (rounding) or of the case (the operand that a
//! minimum does not take), so that no infinity further on can turn it into NaN. At a kink the slope
//! is the mean of the one-sided derivatives:
//!
//! ```text
//! fabs x           x = ±0: 0
//! fmin, fmax x, y  x = y: 1/2 each (also for +0 and -0); NaN: all to the operands that are NaN
//! fcopysign x, y   x = ±0: 0; y: always 0
//! sqrt x           x = ±0: +inf
//! ceil, floor, trunc, nearest: 0
//! ```
//!
//! Comparisons and conversions to integers are here, too; what does not fit is an
//! [`IntConversion`], of which the caller makes a trap.
//!
//! **Cost.** One operation of the host for a value, a few for a slope.

use cranelift_codegen::ir::Opcode;
use cranelift_codegen::ir::condcodes::FloatCC;

use super::value::float_of;
use crate::real::Real;

macro_rules! eval {
    ($name:ident, $f:ty, $b:ty, $doc:literal) => {
        #[doc = $doc]
        fn $name(op: Opcode, a: [u128; 3]) -> Option<u128> {
            const SIGN: $b = 1 << (<$b>::BITS - 1);
            let bits = a.map(|a| a as $b);
            let [x, y, z] = bits.map(<$f>::from_bits);
            // The sum of two operands, of which one at least is NaN, is a quiet NaN.
            let min_max = |takes_x: bool, equal: $b| {
                if x.is_nan() || y.is_nan() {
                    (x + y).to_bits()
                } else if x == y {
                    equal
                } else if takes_x {
                    bits[0]
                } else {
                    bits[1]
                }
            };
            let r = match op {
                Opcode::Fadd => (x + y).to_bits(),
                Opcode::Fsub => (x - y).to_bits(),
                Opcode::Fmul => (x * y).to_bits(),
                Opcode::Fdiv => (x / y).to_bits(),
                Opcode::Sqrt => x.sqrt().to_bits(),
                Opcode::Fma => x.mul_add(y, z).to_bits(),
                Opcode::Fneg => bits[0] ^ SIGN,
                Opcode::Fabs => bits[0] & !SIGN,
                Opcode::Fcopysign => (bits[0] & !SIGN) | (bits[1] & SIGN),
                // Equal operands differ at most in the sign of zero.
                Opcode::Fmin => min_max(x < y, bits[0] | bits[1]),
                Opcode::Fmax => min_max(x > y, bits[0] & bits[1]),
                Opcode::Ceil => x.ceil().to_bits(),
                Opcode::Floor => x.floor().to_bits(),
                Opcode::Trunc => x.trunc().to_bits(),
                Opcode::Nearest => x.round_ties_even().to_bits(),
                _ => return None,
            };
            Some(r.into())
        }
    };
}

eval!(eval32, f32, u32, "An operation on `f32` bits.");
eval!(eval64, f64, u64, "An operation on `f64` bits.");

/// The bits of `op` applied to floats of `width` bytes; `None` if `op` is no operation of this
/// file.
pub(super) fn eval(op: Opcode, width: u8, a: [u128; 3]) -> Option<u128> {
    if width == 4 { eval32(op, a) } else { eval64(op, a) }
}

/// ∂ `op`(x) / ∂ `x[i]` for each operand. `y` is the value.
pub(super) fn slopes<R: Real>(op: Opcode, x: [R; 3], y: f64) -> [Option<R>; 3] {
    let c = R::constant;
    let [p, q, _] = x.map(R::primal);
    match op {
        Opcode::Fadd => [Some(c(1.0)), Some(c(1.0)), None],
        Opcode::Fsub => [Some(c(1.0)), Some(c(-1.0)), None],
        Opcode::Fmul => [Some(x[1]), Some(x[0]), None],
        Opcode::Fdiv => [Some(x[1].recip()), Some(-(x[0] / x[1] / x[1])), None],
        Opcode::Sqrt if p == 0.0 => [Some(c(f64::INFINITY)), None, None],
        Opcode::Sqrt => [Some((c(2.0) * x[0].sqrt()).recip()), None, None],
        Opcode::Fma => [Some(x[1]), Some(x[0]), Some(c(1.0))],
        Opcode::Fneg => [Some(c(-1.0)), None, None],
        Opcode::Fabs => [sign(p).map(c), None, None],
        Opcode::Fcopysign if p.is_nan() || p != 0.0 => {
            [Some(c(if p.is_sign_negative() == y.is_sign_negative() { 1.0 } else { -1.0 })), None, None]
        }
        Opcode::Fcopysign => [None; 3],
        Opcode::Fmin | Opcode::Fmax => {
            let [a, b] = if p.is_nan() || q.is_nan() {
                [p.is_nan(), q.is_nan()].map(|n| n.then_some(1.0))
            } else if p == q {
                [Some(0.5); 2]
            } else {
                let first = (p < q) == (op == Opcode::Fmin);
                [first.then_some(1.0), (!first).then_some(1.0)]
            };
            [a.map(c), b.map(c), None]
        }
        _ => [None; 3],
    }
}

/// The derivative of |x|.
pub(super) fn sign(x: f64) -> Option<f64> {
    if x == 0.0 {
        None
    } else if x.is_nan() {
        Some(x)
    } else {
        Some(x.signum())
    }
}

/// Whether `x cc y`.
pub(super) fn compare(cc: FloatCC, width: u8, x: u128, y: u128) -> bool {
    let order = float_of(x, width).partial_cmp(&float_of(y, width));
    let (less, equal, greater, unordered) = match order {
        Some(std::cmp::Ordering::Less) => (true, false, false, false),
        Some(std::cmp::Ordering::Equal) => (false, true, false, false),
        Some(std::cmp::Ordering::Greater) => (false, false, true, false),
        None => (false, false, false, true),
    };
    match cc {
        FloatCC::Ordered => !unordered,
        FloatCC::Unordered => unordered,
        FloatCC::Equal => equal,
        FloatCC::NotEqual => !equal,
        FloatCC::OrderedNotEqual => less || greater,
        FloatCC::UnorderedOrEqual => unordered || equal,
        FloatCC::LessThan => less,
        FloatCC::LessThanOrEqual => less || equal,
        FloatCC::GreaterThan => greater,
        FloatCC::GreaterThanOrEqual => greater || equal,
        FloatCC::UnorderedOrLessThan => unordered || less,
        FloatCC::UnorderedOrLessThanOrEqual => unordered || less || equal,
        FloatCC::UnorderedOrGreaterThan => unordered || greater,
        FloatCC::UnorderedOrGreaterThanOrEqual => unordered || greater || equal,
    }
}

/// A float as an integer of `n` bits, rounded towards zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntConversion {
    /// The integer.
    Value(u128),
    /// The float is NaN.
    Nan,
    /// The integer does not fit.
    Overflow,
}

/// Round towards zero, `signed` or not.
pub(super) fn to_int(x: f64, n: u32, signed: bool) -> IntConversion {
    let t = x.trunc();
    // Powers of two, so the bounds are exact.
    let (lo, hi) =
        if signed { (-(2f64.powi(n as i32 - 1)), 2f64.powi(n as i32 - 1)) } else { (0.0, 2f64.powi(n as i32)) };
    if x.is_nan() {
        IntConversion::Nan
    } else if t < lo || t >= hi {
        IntConversion::Overflow
    } else if signed {
        IntConversion::Value(t as i128 as u128 & super::value::ones(n))
    } else {
        IntConversion::Value(t as u128)
    }
}

/// Round towards zero and clamp; NaN gives 0.
pub(super) fn to_int_sat(x: f64, n: u32, signed: bool) -> u128 {
    match to_int(x, n, signed) {
        IntConversion::Value(v) => v,
        IntConversion::Nan => 0,
        IntConversion::Overflow => match (signed, x > 0.0) {
            (true, true) => super::value::ones(n) >> 1,
            (true, false) => 1 << (n - 1),
            (false, true) => super::value::ones(n),
            (false, false) => 0,
        },
    }
}
