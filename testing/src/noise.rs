//! Numbers that look random and are the same in each run, for tests of many programs.

/// A linear congruential generator, with its state.
pub struct Noise(pub u64);

impl Noise {
    /// One of the numbers below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
