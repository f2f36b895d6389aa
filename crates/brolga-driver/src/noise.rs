//! Pseudo-random numbers that are the same in every run.
//!
//! **Question.** A check wants numbers without a pattern. Which, if it has to give the same each
//! time?
//!
//! **Answer.** Those of [`Noise`], which depend on a seed alone: bits, and numbers of either sign
//! that are neither small nor large ([`Noise::unit`]).
//!
//! **Cost.** A few instructions for each number.
//!
//! **Source.** SplitMix64: G. L. Steele, D. Lea, C. H. Flood, *Fast splittable pseudorandom number
//! generators* (2014).

/// A generator of pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Noise(u64);

impl Noise {
    /// A generator that depends on nothing but `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of either sign with magnitude between ½ and 1½: never so small that what it is
    /// multiplied with is lost.
    ///
    /// It has few bits, so an `f32` holds it exactly.
    pub fn unit(&mut self) -> f64 {
        let bits = self.bits();
        let magnitude = 0.5 + (bits >> 48) as f64 / 65536.0;
        if bits & 1 == 0 { magnitude } else { -magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::Noise;

    #[test]
    fn units_are_neither_small_nor_large() {
        let mut noise = Noise::new(7);
        let units: Vec<f64> = (0..1000).map(|_| noise.unit()).collect();
        assert!(units.iter().all(|u| (0.5..1.5).contains(&u.abs()) && f64::from(*u as f32) == *u));
        assert!(units.iter().any(|u| *u < 0.0) && units.iter().any(|u| *u > 0.0));
    }
}
