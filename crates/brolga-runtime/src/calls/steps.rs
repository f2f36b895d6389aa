//! Ulp arithmetic at run time: the slope of a float whose bits another float has, plus a number
//! (`brolga_analysis::activity::ulp`).
//!
//! **Question.** A float's bits are another's, plus a number. What is a cotangent times the slope,
//! when the slope is no float?
//!
//! **Answer.** As two factors.
//!
//! **Method.** A step by one unit in the last place is as long as the exponent field says, so the
//! slope is `± 2^d`, where `d` is the difference of the fields: up to 2046 for doubles, which is no
//! double. A cotangent is therefore multiplied twice, by `2^⌊d/2⌋` and by the rest. Both go in one
//! direction, so nothing is lost between them that the product has.
//!
//! *What is lost.* The product may be too large for a float, or so small that it loses digits,
//! although a later step leads back. This is asked by scaling it back.
//!
//! *Steps by one* are `nextafter`, whose slope is one on both sides of a power of two, although the
//! next float is half as far away on one of them.
//!
//! **Cost.** A dozen instructions.

use crate::status;

macro_rules! steps {
    ($float:ty, $bits:ty, $digits:literal, $bias:literal, $scaled:ident, $step:ident, $loses:ident) => {
        /// A cotangent times the slope of the float with the bits `after` over the one with the
        /// bits `before`, and that scaled back.
        fn $scaled(ct: $float, before: $bits, after: $bits) -> [$float; 2] {
            let field = |bits: $bits| ((bits >> $digits & (2 * $bias + 1)) as i32).max(1);
            let by_one = after.abs_diff(before) == 1;
            let d = if by_one { 0 } else { field(after) - field(before) };
            // The least of these powers of two is half of the least normal number.
            let power = |n: i32| match $bias + n {
                0 => <$float>::from_bits(1 << ($digits - 1)),
                field => <$float>::from_bits((field as $bits) << $digits),
            };
            let (half, rest) = (d >> 1, d - (d >> 1));
            let signed = if (before ^ after) >> (<$bits>::BITS - 1) == 0 { ct } else { -ct };
            let by = signed * power(half) * power(rest);
            [by, by * power(-half) * power(-rest)]
        }

        /// The cotangent of a float with the bits `before`, where one with the bits `after`, so
        /// many more or less, has the cotangent `ct`.
        pub extern "C" fn $step(ct: $float, before: $bits, after: $bits) -> $float {
            $scaled(ct, before, after)[0]
        }

        /// Whether that loses digits: [`status::UNTRACKED`], or [`status::OK`].
        pub extern "C" fn $loses(ct: $float, before: $bits, after: $bits) -> u64 {
            let [_, back] = $scaled(ct, before, after);
            if back.abs() == ct.abs() || ct.is_nan() { status::OK } else { status::UNTRACKED }
        }
    };
}

steps!(f64, u64, 52, 1023, scaled_double, brolga_step_double, brolga_step_loses_double);
steps!(f32, u32, 23, 127, scaled_single, brolga_step_single, brolga_step_loses_single);

#[cfg(test)]
mod tests {
    use super::*;

    /// Slopes as differences of neighbours, where all of them are in one binade.
    #[test]
    fn slopes_are_those_of_neighbours() {
        for (x, c) in [
            (1.25_f64, 1_i64 << 52),
            (1.25, 3 << 51),
            (-7.5, (-2_i64) << 52),
            (3.0e-310, 5 << 52),
            (1.9, -(1 << 52)),
            (0.7, 12345),
        ] {
            let moved = |x: f64| f64::from_bits(x.to_bits().wrapping_add_signed(c));
            let near = f64::from_bits(x.to_bits() + (1 << 30));
            let slope = (moved(near) - moved(x)) / (near - x);
            assert_eq!(brolga_step_double(1.0, x.to_bits(), moved(x).to_bits()), slope, "{x} {c}");
            assert_eq!(brolga_step_loses_double(1.0, x.to_bits(), moved(x).to_bits()), status::OK);
        }
        let moved = f32::from_bits(1.5_f32.to_bits() + (3 << 23));
        assert_eq!(brolga_step_single(2.0, 1.5_f32.to_bits(), moved.to_bits()), 16.0);
        assert_eq!(brolga_step_single(2.0, moved.to_bits(), (-1.5_f32).to_bits()), -0.25);
    }

    #[test]
    fn a_step_and_its_opposite_are_none() {
        let words = [
            0,
            1,
            0x8000_0000_0000_0000,
            0x3ff0_0000_0000_0000,
            0x7ff8_0000_0000_0123,
            u64::MAX,
            0x0010_0000_0000_0000,
        ];
        for x in words {
            for y in words {
                for ct in [0.0, 1.0, -0.3, 1e300, 1e-300, f64::INFINITY] {
                    if brolga_step_loses_double(ct, x, y) == status::OK {
                        let there = brolga_step_double(ct, x, y);
                        assert_eq!(brolga_step_loses_double(there, y, x), status::OK);
                        assert_eq!(brolga_step_double(there, y, x), ct, "{x:x} {y:x} {ct}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_or_too_small_is_lost() {
        let (tiny, huge) = (1_u64, 2046 << 52);
        assert_eq!(brolga_step_loses_double(1.0, tiny, huge), status::UNTRACKED);
        assert_eq!(brolga_step_loses_double(1.0, huge, tiny), status::UNTRACKED);
        assert_eq!(brolga_step_loses_double(1e-300, tiny, huge), status::UNTRACKED);
        assert_eq!(brolga_step_loses_double(1e-308, tiny, huge), status::OK);
        // A subnormal product is kept if it has all digits.
        assert_eq!(brolga_step_loses_double(1.0, 1050 << 52, 1 << 52), status::OK);
        assert_eq!(brolga_step_loses_double(1.0 + f64::EPSILON, 1050 << 52, 1 << 52), status::UNTRACKED);
        assert_eq!(brolga_step_loses_double(f64::NAN, 1, 2), status::OK);
        assert_eq!(brolga_step_loses_single(1.0, 1, 254 << 23), status::UNTRACKED);
    }

    #[test]
    fn steps_by_one_are_nextafter() {
        let one = 1.0_f64.to_bits();
        assert_eq!(brolga_step_double(1.0, one, one - 1), 1.0);
        assert_eq!(brolga_step_double(1.0, one - 1, one), 1.0);
        assert_eq!(brolga_step_double(1.0, one, one - 2), 0.5);
    }
}
