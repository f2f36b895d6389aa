//! Helpers for poisoned cotangents: what generated code calls where a cotangent is not known
//! ([`crate::pieces::poison`]).
//!
//! **Question.** A program has made a number of an integer in memory, which may be a float's bits.
//! How is the shadow told that the float's cotangent is not known, and what becomes of that?
//!
//! **Answer.** The shadow is filled with ones, which are a NaN that nothing else makes
//! ([`brolga_poison`]). The reverse of a store of an integer that had been computed takes it out,
//! and from then on loads that such integers may come from poison as well
//! ([`brolga_without_poison`], [`brolga_hand_on`]); the reverse of a copy of integers moves it to
//! the original ([`brolga_move_poison`]). Places outside of the run's own memory are noted. What is
//! still poisoned when the pullback is over is the shadow of an integer, and becomes zero
//! (`Segment::forget_poison`). A task's places go to its parent (`Segment::join_poison`).
//!
//! **Safety.** Generated code passes a segment that it alone uses, and shadows that are valid for
//! the bytes.
//!
//! **Cost.** An entry in a hash table for each place that is poisoned, none if it is the one before
//! again. A copy looks at its words only where something was poisoned.

use crate::forks::pending::PendingObject;
use crate::pieces::poison::Poison;
use crate::segment::Segment;

/// All bits of four bytes.
const ALL: u32 = u32::MAX;

impl Segment {
    /// The cotangent of what lies at `n` bytes of shadow is not known.
    ///
    /// # Safety
    /// They are valid.
    pub(crate) unsafe fn poison(&mut self, at: usize, n: usize) {
        // SAFETY: our contract.
        unsafe { (at as *mut u8).write_bytes(u8::MAX, n) };
        self.poison.any = true;
        self.note_poison(at, n);
    }

    /// Shadows of frames and blocks are cleared before they are used again, and may be gone by the
    /// end: others are noted.
    fn note_poison(&mut self, at: usize, n: usize) {
        if self.poison.last != at && !self.owns(at) {
            self.poison.last = at;
            let known = self.poison.places.entry(at).or_default();
            *known = (*known).max(n);
        }
    }

    /// What the reverse of a task has poisoned is known to its parent from here on, which asks as
    /// well. What is in sums of the task comes out of them, since sums are added up as floats;
    /// where in the shadow it was goes to `poisoned_words`.
    pub(crate) fn join_poison(&mut self, strand: &mut Self, poisoned_words: &mut Vec<usize>) {
        let Poison { any, places, .. } = std::mem::take(&mut strand.poison);
        self.poison.any |= any;
        self.pieces.poisoned |= std::mem::take(&mut strand.pieces.poisoned);
        self.asked |= std::mem::take(&mut strand.asked);
        for (at, n) in places {
            let sums = strand.forks.pending.of_sum(at).map(PendingObject::distance);
            match sums {
                Some(distance) => {
                    // SAFETY: memory of the task's own, which has come to its end.
                    let left = words(at, n).filter(|&word| unsafe { take_poison(word) });
                    poisoned_words.extend(left.map(|word| word.wrapping_sub(distance)));
                }
                None => self.note_poison(at, n),
            }
        }
    }

    /// Whether any shadow has been poisoned.
    pub fn has_poison(&self) -> bool {
        self.poison.any
    }

    /// A pullback has run: shadows that are still poisoned are those of integers, and become zero.
    /// Whether there ever were any.
    pub fn forget_poison(&mut self) -> bool {
        let Poison { any, places, .. } = std::mem::take(&mut self.poison);
        for word in places.into_iter().flat_map(|(at, n)| words(at, n)) {
            // SAFETY: it was valid when the reverse of a load stored there, and shadows of the
            // caller's are until the run is over.
            unsafe { take_poison(word) };
        }
        any || self.pieces.poisoned
    }
}

/// Words of so many bytes.
fn words(at: usize, n: usize) -> impl Iterator<Item = usize> {
    (at..at + n).step_by(4)
}

/// Clear a word that is poisoned. Whether it was.
///
/// # Safety
/// It can be read and written.
unsafe fn take_poison(word: usize) -> bool {
    let word = word as *mut u32;
    // SAFETY: our contract.
    unsafe {
        let is_poisoned = word.read_unaligned() == ALL;
        if is_poisoned {
            word.write_unaligned(0);
        }
        is_poisoned
    }
}

/// The cotangent of what lies at `n` bytes of shadow at `at` is not known.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses, and the bytes are valid.
pub(crate) unsafe extern "C" fn brolga_poison(seg: *mut Segment, at: u64, n: u64) {
    // SAFETY: our contract.
    unsafe { (*seg).poison(at as usize, n as usize) };
}

/// What has arrived where an integer was stored that had been computed, without what is unknown:
/// that leads to the loads that it was computed from.
///
/// # Safety
/// As for [`brolga_poison`].
pub(crate) unsafe extern "C" fn brolga_without_poison(seg: *mut Segment, x: u64) -> u64 {
    let is_unknown = |half: u64| half == 0 || half == u64::from(ALL);
    if !is_unknown(x & u64::from(ALL)) || !is_unknown(x >> 32) {
        return x;
    }
    // SAFETY: our contract.
    unsafe { (*seg).asked = 1 };
    0
}

/// An integer that had been computed was stored over `n` bytes at `p`, which may be a part of a
/// float: a demand that waits there leads to the loads that it was computed from.
///
/// # Safety
/// As for [`brolga_poison`].
pub(crate) unsafe extern "C" fn brolga_hand_on(seg: *mut Segment, p: u64, delta: u64, n: u64) {
    if delta != 0 {
        // SAFETY: our contract.
        let seg = unsafe { &mut *seg };
        if !seg.pieces.take_demands(p.wrapping_add(delta) as usize, n as usize).is_empty() {
            seg.asked = 1;
        }
        seg.note_waiting();
    }
}

/// `n` bytes of integers have been copied from `src` to `dst`: what is unknown of the copy is
/// unknown of the original.
///
/// # Safety
/// As for [`brolga_poison`], of shadows that exist.
pub(crate) unsafe extern "C" fn brolga_move_poison(seg: *mut Segment, dst: u64, to: u64, src: u64, from: u64, n: u64) {
    if to == 0 || from == 0 {
        return;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let (dst, src, n) = (dst.wrapping_add(to) as usize, src.wrapping_add(from) as usize, n as usize);
    // SAFETY: our contract.
    let is_poisoned = |word: usize| unsafe { (word as *const u32).read_unaligned() == ALL };
    // Nothing else puts such words there.
    let all = (0..n.saturating_sub(3)).step_by(4).filter(|_| seg.poison.any);
    let found: Vec<usize> = all.filter(|at| is_poisoned(dst + at)).collect();
    if dst.abs_diff(src) < n {
        // The copy is cleared next, and where the original overlaps it with it.
        if !found.is_empty() || seg.pieces.take_demand(dst, n) {
            seg.pieces.lose();
        }
        return;
    }
    seg.pieces.move_demand(dst, src, n);
    seg.note_waiting();
    for at in found {
        // SAFETY: our contract.
        unsafe { seg.poison(src + at, 4) };
    }
}
