//! Pieces of floats in forward mode: which tangents are whole.
//!
//! **Problem.** A program may move a float byte by byte, or in halves. The bytes of its tangent
//! move along, by the same instructions; but where they become a float again, nothing says that all
//! of them are of one tangent: a half may have been replaced by a number.
//!
//! **Answer.** A float that is taken apart is noted, with its tangent. Where bytes become a float,
//! they are one if the float and its tangent have been noted together, or if the tangent is zero,
//! or if no more than last digits of both have become a number's; otherwise the tangent is not
//! known, and becomes [`POISON`]. Memory that pieces, or numbers in place of a part of a float,
//! have been stored to is *dirty*, by four bytes: what is loaded there as a float is asked in the
//! same way. A float that is stored cleans it.
//!
//! ```text
//! v1 = load.i32 v0        note    (f64 at v0, its tangent)
//! v2 = load.i32 v0+4      note    the same
//! store v1, v3            mark    four bytes at v3
//! store v2, v3+4          mark    four bytes at v3+4
//! v4 = load.f64 v3        settle  dirty: (f64 at v3, its tangent) has been noted, so it stays
//! ```
//!
//! **Invariants.** A tangent that is taken for whole was the tangent of the same float. What is
//! forgotten ([`MOST`]) errs on the side of poison. Without dirty memory nothing is asked.
//!
//! **Cost.** A look into a hash table for each word that is moved in pieces and has a tangent
//! that is not zero.

use std::collections::{HashMap, HashSet};

/// Bytes of a window: a double may be there, or two singles.
pub(crate) const WINDOW: usize = 8;

/// Bytes of a single.
pub(crate) const HALF: usize = 4;

/// Floats that are noted before the older half of them is forgotten.
const MOST: usize = 1 << 20;

/// The tangent of bits whose derivative is not known, as a double and as a single: a NaN with a
/// payload of its own.
pub(crate) const POISON: (u64, u32) = (0x7fff_ffff_ffff_ffff, 0x7fff_ffff);

/// A float and its tangent: the size in bytes, and the bits of both.
type NotedFloat = (u8, u64, u64);

/// Floats that have been taken apart, and memory that has been put together, in one run.
#[derive(Default)]
pub(crate) struct TangentPieces {
    /// What has been noted lately, and before that.
    noted: [HashSet<NotedFloat>; 2],
    /// The same without the lower half of the float and of its tangent, which may be last digits
    /// that a number replaces: the tangent, unless there are several.
    upper: [HashMap<NotedFloat, Option<u64>>; 2],
    /// Memory that has been put together of them.
    pub(crate) dirty: DirtyMemory,
}

/// Dirty halves of windows: their shadow addresses, each with the delta. If there are any, each
/// load of a float asks, and most floats lie elsewhere: so a bit for the line around a half, among
/// few, is looked at first.
#[derive(Default)]
pub(crate) struct DirtyMemory {
    halves: HashMap<usize, usize>,
    lines: Vec<u64>,
}

/// Bytes of a line, as a power of two.
const LINE: u32 = 6;

/// Bits for lines, as a power of two.
const BITS: u32 = 12;

impl DirtyMemory {
    /// The bit for the line that an address lies in.
    fn bit(at: usize) -> (usize, u64) {
        let line = (at as u64 >> LINE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
        (line as usize / 64, 1 << (line % 64))
    }

    pub(crate) fn contains(&self, half: usize) -> bool {
        let (word, bit) = Self::bit(half);
        self.lines.get(word).is_some_and(|w| w & bit != 0) && self.halves.contains_key(&half)
    }

    pub(crate) fn insert(&mut self, half: usize, delta: usize) {
        if self.halves.is_empty() {
            self.lines.clear();
            self.lines.resize(1 << (BITS - 6), 0);
        }
        let (word, bit) = Self::bit(half);
        self.lines[word] |= bit;
        self.halves.insert(half, delta);
    }

    pub(crate) fn remove(&mut self, half: usize) {
        if self.contains(half) {
            self.halves.remove(&half);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.halves.len()
    }

    /// What is dirty, by address; nothing is from there on.
    pub(crate) fn take(&mut self) -> Vec<(usize, usize)> {
        let mut all: Vec<_> = self.halves.drain().collect();
        all.sort_unstable();
        all
    }

    /// A task begins: what is dirty where it is forked.
    pub(crate) fn begin_task(&mut self, parent: &Self) {
        self.halves.clone_from(&parent.halves);
        self.lines.clone_from(&parent.lines);
    }

    /// Tasks are over. What they have made dirty, or have cleaned, is so here.
    pub(crate) fn end_tasks<'t>(&mut self, tasks: impl Iterator<Item = &'t mut Self>) {
        let before = self.halves.clone();
        for task in tasks {
            let after = std::mem::take(&mut task.halves);
            for &half in before.keys().filter(|half| !after.contains_key(half)) {
                self.remove(half);
            }
            for (half, delta) in after.into_iter().filter(|(half, _)| !before.contains_key(half)) {
                self.insert(half, delta);
            }
        }
    }
}

impl TangentPieces {
    /// Forget everything: another run begins.
    pub(crate) fn clear(&mut self) {
        self.noted.iter_mut().for_each(HashSet::clear);
        self.upper.iter_mut().for_each(HashMap::clear);
        self.dirty.halves.clear();
    }

    fn note(&mut self, size: u8, primal: u64, tangent: u64) {
        if tangent == 0 {
            return;
        }
        if self.noted[0].len() >= MOST / 2 {
            self.noted.swap(0, 1);
            self.noted[0].clear();
            self.upper.swap(0, 1);
            self.upper[0].clear();
        }
        if self.noted[0].insert((size, primal, tangent)) {
            let found = self.upper[0].entry(upper((size, primal, tangent))).or_insert(Some(tangent));
            *found = found.filter(|t| *t == tangent);
        }
    }

    /// Note a word: it may be a double, or two singles.
    pub(crate) fn note_word(&mut self, primal: u64, tangent: u64) {
        self.note_parts(primal, tangent, [true; 2]);
    }

    /// The same of a word whose halves may be no float's.
    pub(crate) fn note_parts(&mut self, primal: u64, tangent: u64, float: [bool; 2]) {
        if float == [true; 2] {
            self.note(8, primal, tangent);
        }
        for (shift, _) in [0, 32].into_iter().zip(float).filter(|half| half.1) {
            self.note(4, primal >> shift & 0xffff_ffff, tangent >> shift & 0xffff_ffff);
        }
    }

    /// The tangent of a float, as far as it is known.
    pub(crate) fn known_tangent(&self, size: u8, primal: u64, tangent: u64) -> u64 {
        // The sign of a zero is no tangent.
        let zero = if size == 8 { tangent << 1 == 0 } else { (tangent as u32) << 1 == 0 };
        if zero || self.noted.iter().any(|n| n.contains(&(size, primal, tangent))) {
            tangent
        } else if let Some(full) = self.without_digits((size, primal, tangent)) {
            full
        } else if size == 8 {
            POISON.0
        } else {
            POISON.1.into()
        }
    }
}

/// A float and its tangent without their lower halves.
fn upper((size, primal, tangent): NotedFloat) -> NotedFloat {
    let digits = 4 * u32::from(size);
    (size, primal >> digits, tangent >> digits)
}

impl TangentPieces {
    /// The tangent of a float whose last digits are a number's: what is left of the tangent has
    /// zeros in their place.
    fn without_digits(&self, noted: NotedFloat) -> Option<u64> {
        let (size, _, tangent) = noted;
        let mut found = self.upper.iter().filter_map(|n| n.get(&upper(noted)).copied());
        let full = found.next()??;
        let gone = u64::BITS - (full ^ tangent).leading_zeros();
        let digits = gone <= 4 * u32::from(size) && tangent == full >> gone << gone;
        (digits && found.all(|other| other == Some(full))).then_some(full)
    }

    /// Shadow addresses of those floats of `size` bytes, in `n` bytes of shadow, that lie in dirty
    /// memory.
    pub(crate) fn dirty_floats(&self, at: usize, n: usize, size: usize) -> impl Iterator<Item = usize> + use<'_> {
        (at..at + n).step_by(size).filter(move |&f| halves(f, size).any(|half| self.dirty.contains(half)))
    }

    /// Poison the tangent of a float of `size` bytes unless it is whole.
    ///
    /// # Safety
    /// Primal and shadow are valid for the float.
    pub(crate) unsafe fn settle(&self, float: usize, delta: usize, size: usize) {
        // SAFETY: our contract.
        unsafe {
            let tangent = self.settled(float, delta, size).1;
            if size == WINDOW {
                (float as *mut u64).write_unaligned(tangent);
            } else {
                (float as *mut u32).write_unaligned(tangent as u32);
            }
        }
    }

    /// Whether it is whole.
    ///
    /// # Safety
    /// As for [`Self::settle`].
    pub(crate) unsafe fn is_settled(&self, float: usize, delta: usize, size: usize) -> bool {
        // SAFETY: our contract.
        let (is, known) = unsafe { self.settled(float, delta, size) };
        is == known
    }

    /// The bits of its tangent, and as far as they are known.
    ///
    /// # Safety
    /// As for [`Self::settle`].
    pub(crate) unsafe fn settled(&self, float: usize, delta: usize, size: usize) -> (u64, u64) {
        // SAFETY: the caller's contract.
        let bits = |at: usize| unsafe {
            if size == WINDOW { word(at) } else { u64::from((at as *const u32).read_unaligned()) }
        };
        let (primal, tangent) = (bits(float.wrapping_sub(delta)), bits(float));
        (tangent, self.known_tangent(size as u8, primal, tangent))
    }
}

/// Halves of windows that bytes lie in.
pub(crate) fn halves(at: usize, n: usize) -> impl Iterator<Item = usize> {
    (at & !(HALF - 1)..at + n).step_by(HALF)
}

/// Windows that bytes lie in.
pub(crate) fn windows(at: usize, n: usize) -> impl Iterator<Item = usize> {
    (at & !(WINDOW - 1)..at + n).step_by(WINDOW)
}

/// # Safety
/// The bytes are valid.
pub(crate) unsafe fn word(at: usize) -> u64 {
    // SAFETY: our contract.
    unsafe { (at as *const u64).read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::DirtyMemory;

    #[test]
    fn tasks_hand_back_what_they_clean_and_what_they_make_dirty() {
        let mut fork = DirtyMemory::default();
        for half in [64, 68, 4096] {
            fork.insert(half, 8);
        }
        assert_eq!([64, 68, 72, 4096].map(|half| fork.contains(half)), [true, true, false, true]);
        let mut tasks = [DirtyMemory::default(), DirtyMemory::default()];
        // What was dirty in another fork is forgotten.
        tasks[1].insert(128, 8);
        tasks.iter_mut().for_each(|t| t.begin_task(&fork));
        assert_eq!([128, 64].map(|half| tasks[1].contains(half)), [false, true]);
        tasks[0].remove(64);
        tasks[1].insert(72, 16);
        fork.end_tasks(tasks.iter_mut());
        assert_eq!(fork.take(), [(68, 8), (72, 16), (4096, 8)]);
        assert_eq!(fork.len(), 0);
    }
}
