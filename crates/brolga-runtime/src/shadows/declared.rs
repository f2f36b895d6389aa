//! Declarations of a run's caller: what it says of its pointer arguments.
//!
//! **Question.** A pointer argument is an address. How large is what lies there, where is its
//! shadow, and where are floats in it?
//!
//! **Answer.** A [`DeclaredPointer`] has the addresses and, if the caller says it, the length. A
//! [`SharedInstance`] is a WebAssembly instance whose memory tasks of forks share. [`Floats`] are
//! where the caller has put floats; [`KnownFloats`] has all of them by offset, for integers that
//! become numbers.
//!
//! **Invariant.** Known floats are sorted, none over another.
//!
//! **Cost.** A binary search for each question whether a float lies somewhere.

use std::ops::Range;
use std::sync::Arc;

/// A pointer argument of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredPointer {
    /// Address of the primal.
    pub primal: u64,
    /// Address of its shadow; 0 if it is constant.
    pub shadow: u64,
    /// Bytes of each, if the caller says so.
    pub len: Option<u64>,
}

/// An instance whose memory tasks of forks share: its shadow, which is one object whose pieces are
/// far from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedInstance {
    /// From the first byte of the shadow to after the last one that tasks may reach.
    pub shadow: Range<usize>,
    /// The shadow of the first byte of memory.
    pub memory: usize,
    /// Where the number of bytes of memory is stored, 64 bits. It is read while the run lasts.
    pub size: usize,
    /// The shadow of stacks of tasks, after all that memory may grow to.
    pub stacks: Range<usize>,
}

impl SharedInstance {
    /// The pieces of the shadow that can be accessed.
    ///
    /// # Safety
    /// The instance is there, and its memory does not grow meanwhile.
    pub(crate) unsafe fn pieces(&self) -> [Range<usize>; 2] {
        // SAFETY: our contract.
        let size = unsafe { (self.size as *const u64).read() } as usize;
        [self.shadow.start..self.memory.saturating_add(size), self.stacks.clone()]
    }
}

/// Floats in memory, as the caller of a function has put them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floats {
    /// Where they begin: bytes from the pointer.
    pub offset: u64,
    /// How many bytes they have together.
    pub len: u64,
    /// Bytes of each, 4 or 8. They lie at multiples of that. 0 if they are constants of the
    /// program, whose meaning is not known: if their cotangents cannot be put together, their
    /// shadow is NaN (as a double, and as singles), and the pullback does not trap.
    pub size: u32,
}

/// Where the caller has put floats, for integers that become numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownFloats {
    /// The pointer from which offsets count.
    base: u64,
    /// By offset, none over another.
    all: Option<Arc<[Floats]>>,
}

impl KnownFloats {
    /// By offset from this pointer, none over another.
    pub(crate) fn of(base: u64, all: Arc<[Floats]>) -> Self {
        debug_assert!(all.is_sorted_by(|a, b| a.offset + a.len <= b.offset), "one over another");
        Self { base, all: Some(all) }
    }

    /// Whether a float lies, in part at least, in `n` bytes at `p`.
    #[inline]
    pub(crate) fn holds(&self, p: u64, n: u64) -> bool {
        let Some(all) = &self.all else { return false };
        let at = p.wrapping_sub(self.base);
        let before = all.partition_point(|f| f.offset < at.saturating_add(n));
        all[..before].iter().rev().take_while(|f| f.offset + f.len > at).any(|f| f.size != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Floats, KnownFloats};

    #[test]
    fn floats_are_found_where_they_are() {
        let floats = |offset, len, size| Floats { offset, len, size };
        let all = [floats(16, 16, 8), floats(32, 8, 0), floats(64, 4, 4)].into();
        let known = KnownFloats { base: 1000, all: Some(all) };
        let found: Vec<u64> = (0..80).step_by(4).filter(|at| known.holds(1000 + at, 4)).collect();
        assert_eq!(found, [16, 20, 24, 28, 64]);
        assert!(known.holds(1012, 8) && known.holds(1060, 8) && !known.holds(1032, 8) && !known.holds(900, 8));
    }
}
