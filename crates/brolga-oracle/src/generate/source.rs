//! Decisions of a generator: drawn from a seed, or read from bytes.
//!
//! **Question.** One generator is to serve random tests, which have to be repeated, and fuzzing,
//! which changes an input. Where do its decisions come from?
//!
//! **Answer.** A generator asks a [`Source`] for every decision. From a seed it draws pseudo-random
//! numbers, the same in every run. From bytes it reads them until they end, and then answers zero
//! for ever, so a byte string is a program too, a shorter string tends to be a smaller program, and
//! a mutation of bytes is a mutation of programs.
//!
//! **Invariant.** Zero is the answer that ends repetitions: [`Source::chance`] is false for it.
//!
//! **Cost.** A few operations for a decision; two bytes where bytes are read.
//!
//! **Source.** SplitMix64 (G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number
//! generators. OOPSLA 2014).

/// A stream of decisions.
#[derive(Clone, Debug)]
pub struct Source {
    kind: Stream,
}

#[derive(Clone, Debug)]
enum Stream {
    /// State of SplitMix64.
    Seed(u64),
    /// What is left, last byte first.
    Bytes(Vec<u8>),
}

impl Source {
    /// Decisions that depend on nothing but `seed`.
    pub fn seed(seed: u64) -> Self {
        Self { kind: Stream::Seed(seed) }
    }

    /// Decisions read from `bytes`.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self { kind: Stream::Bytes(bytes.iter().rev().copied().collect()) }
    }

    /// The next 32 bits.
    fn word(&mut self) -> u32 {
        match &mut self.kind {
            Stream::Seed(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((z ^ (z >> 31)) >> 32) as u32
            }
            Stream::Bytes(rest) => u32::from(rest.pop().unwrap_or(0)) << 24 | u32::from(rest.pop().unwrap_or(0)) << 16,
        }
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.word()) * n as u64) >> 32) as usize
    }

    /// A number from `low` up to and including `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        // Exhausted bytes say no, which ends every repetition.
        self.below(100) >= 100 - percent
    }

    /// One of `items`, of which there must be some.
    pub fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// One of `items`, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, items: &[(usize, T)]) -> T {
        let mut at = self.below(items.iter().map(|(w, _)| w).sum());
        for (weight, item) in items {
            if at < *weight {
                return *item;
            }
            at -= weight;
        }
        unreachable!("`at` was below the sum of the weights")
    }

    /// A number of either sign, at least 1/64 and at most 2 in magnitude, that an `f32` holds
    /// exactly; now and then zero or one, where functions have kinks and comparisons ties.
    pub fn number(&mut self) -> f64 {
        if self.chance(6) {
            return self.choose(&[0.0, -0.0, 1.0, -1.0]);
        }
        let magnitude = self.between(1, 128) as f64 / 64.0;
        if self.chance(50) { -magnitude } else { magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn both_kinds_repeat() {
        for make in [|| Source::seed(7), || Source::bytes(&[1, 200, 3, 4, 250, 6, 77, 8])] {
            let (mut a, mut b) = (make(), make());
            let draws = |s: &mut Source| (0..20).map(|n| s.below(n + 1)).collect::<Vec<_>>();
            assert_eq!(draws(&mut a), draws(&mut b));
        }
        assert!(!Source::bytes(&[]).chance(99));
    }

    #[test]
    fn draws_cover_their_range() {
        let mut s = Source::seed(1);
        let mut seen = [false; 5];
        (0..100).for_each(|_| seen[s.below(5)] = true);
        assert_eq!(seen, [true; 5]);
        assert!((0..100).all(|_| s.number().abs() <= 2.0));
    }
}
