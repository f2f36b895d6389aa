//! Conversion of binary128 to doubles and back, on two words.
//!
//! **Question.** C's `long double` has 128 bits in Wasm, and no hardware for it. Which double is
//! next to such a number?
//!
//! **Answer.** The fraction is cut at the last bit that a double has, or at that of a subnormal
//! double, and rounded to the nearest, ties to even; what is carried goes into the exponent by
//! itself. The way back is exact, NaNs included.
//!
//! **Cost.** A few shifts.
//!
//! **Source.** IEEE 754, roundTiesToEven.

/// Bits of the fraction of a binary128, and of those a binary64 does not have.
const FRACTION: u32 = 112;
const LESS: u32 = FRACTION - 52;
/// What is added to an exponent.
const BIAS: i32 = 16383;

/// The double next to a binary128, of which the lower word is the first.
pub(crate) fn to_double([low, high]: [u64; 2]) -> f64 {
    let sign = high >> 63 << 63;
    let exponent = (high >> 48 & 0x7fff) as i32 - BIAS;
    let fraction = u128::from(high & 0xffff_ffff_ffff) << 64 | u128::from(low);
    let magnitude = if exponent > BIAS {
        if fraction == 0 { f64::INFINITY.to_bits() } else { f64::NAN.to_bits() }
    } else if exponent > 1023 {
        f64::INFINITY.to_bits()
    } else {
        // One bit less for each power of two below the smallest normal number.
        let drop = LESS + (-1022 - exponent).clamp(0, 60) as u32;
        let significand = fraction | 1 << FRACTION;
        let (upper, lost, half) = ((significand >> drop) as u64, significand & ((1 << drop) - 1), 1 << (drop - 1));
        let up = u64::from(lost > half || lost == half && upper & 1 == 1);
        // The leading bit adds one to the exponent, and so does what is carried.
        let bias = (exponent + 1022).max(0) as u64;
        if exponent == -BIAS { 0 } else { (bias << 52) + upper + up }
    };
    f64::from_bits(sign | magnitude)
}

/// A double as a binary128.
pub(crate) fn of_double(x: f64) -> [u64; 2] {
    let sign = x.to_bits() >> 63 << 63;
    let bits = x.to_bits() << 1 >> 1;
    let (exponent, fraction) = match bits >> 52 {
        0 if bits == 0 => (0, 0),
        0 => {
            let shift = bits.leading_zeros() - 11;
            ((BIAS - 1022) as u64 - u64::from(shift), (bits << shift) & (u64::MAX >> 12))
        }
        0x7ff => (0x7fff, bits & (u64::MAX >> 12)),
        e => (e + (BIAS - 1023) as u64, bits & (u64::MAX >> 12)),
    };
    [fraction << LESS, sign | exponent << 48 | fraction >> 4]
}

#[cfg(test)]
mod tests {
    use super::{of_double, to_double};

    #[test]
    fn doubles_there_and_back() {
        let some = [0.0, -0.0, 1.0, -2.5, 1e-310, -5e-324, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, 0.1];
        for x in some {
            assert_eq!(to_double(of_double(x)).to_bits(), x.to_bits(), "{x}");
        }
        assert!(to_double(of_double(f64::NAN)).is_nan());
        assert_eq!(of_double(1.0), [0, 0x3fff << 48]);
    }

    #[test]
    fn rounding() {
        let [low, high] = of_double(1.0);
        let half = 1 << 59;
        assert_eq!(to_double([low + half, high]), 1.0);
        assert_eq!(to_double([low + half + 1, high]), 1.0 + f64::EPSILON);
        assert_eq!(to_double([low + (1 << 60) + half, high]), 1.0 + 2.0 * f64::EPSILON);
        let [low, high] = of_double(f64::MAX);
        assert_eq!(to_double([low | half, high]), f64::INFINITY);
        assert_eq!(to_double([0, 0x7ffe << 48]), f64::INFINITY);
        assert_eq!(to_double([0, 1 << 63 | 1 << 48]).to_bits(), (-0.0_f64).to_bits());
        // Half of the smallest number goes to zero, anything more does not.
        let tiny = |low| to_double([low, (super::BIAS as u64 - 1075) << 48]);
        assert_eq!((tiny(0), tiny(1)), (0.0, 5e-324));
    }
}
