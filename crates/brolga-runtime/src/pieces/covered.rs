//! Doubles that are no whole windows and have been stored over in part.
//!
//! **Problem.** Numbers over a part of a double are noted by window ([`super::cut`]). Of a double
//! that lies in two windows each has a part, and no record says that the other is a part of the
//! same: half of a window may be taken or cleared as a whole, and a half of zeros has no record.
//!
//! **Answer.** Where numbers are stored over digits, each double that these may be a part of is
//! noted, with what is left of it. What covers the rest is added. The store of a double at one of
//! these addresses says which of them was there: if a part of it is missing that was not zero, the
//! run traps, unless these are its lower digits, which are put back. A float's store elsewhere in
//! the same bytes says that it was none. If the double has changed in between, it was read while a
//! part was missing.
//!
//! **Cost.** In programs with doubles that need not lie at multiples of eight, some look-ups for
//! each store over digits; no other program has any.
//!
//! **Errs** on the side of a trap: if half of a double is zero and is stored over before the other
//! half, in the reverse, that is not seen.

use super::across::read;
use super::{CoveredDouble, PAGE, Pieces, WINDOW, WindowContents, nonzero, within};

impl CoveredDouble {
    /// What is left.
    fn left(&self) -> [u8; WINDOW] {
        std::array::from_fn(|i| if self.mask & 1 << i == 0 { self.was[i] } else { 0 })
    }
}

/// The doubles in two windows that have a byte among `n` at `p`.
fn doubles(p: usize, n: usize) -> impl Iterator<Item = usize> {
    (p.saturating_sub(WINDOW - 1)..p + n).filter(|at| !at.is_multiple_of(WINDOW))
}

/// Eight bytes of which some can be read; zeros for the others if they are on another page.
///
/// # Safety
/// `near` is the address of one that can.
unsafe fn double_at(at: usize, near: usize) -> [u8; WINDOW] {
    let page = at.next_multiple_of(PAGE);
    if page >= at + WINDOW {
        // SAFETY: our contract; a page is readable or not.
        return unsafe { (at as *const [u8; WINDOW]).read() };
    }
    read(at).unwrap_or_else(|| {
        let ours = |i: usize| (at + i) / PAGE == near / PAGE;
        // SAFETY: the same.
        std::array::from_fn(|i| if ours(i) { unsafe { ((at + i) as *const u8).read() } } else { 0 })
    })
}

impl Pieces {
    /// Something is stored over `n` bytes at `p`: numbers, or what has a cotangent of its own.
    ///
    /// # Safety
    /// They are valid, and still as they were.
    pub(crate) unsafe fn cover(&mut self, p: usize, n: usize, are_numbers: bool) {
        if !self.across {
            return;
        }
        for at in doubles(p, n) {
            let ours = within(at as isize - p as isize, 0, n as isize);
            // SAFETY: our contract.
            let there = unsafe { double_at(at, at.max(p)) };
            let digits = nonzero(&there) & ours != 0;
            let begun = self.covered.contains_key(&at);
            if !begun && (ours == 0xff || !digits || !are_numbers) {
                continue;
            }
            let new = || CoveredDouble { was: there, mask: 0, lost: false, torn: false };
            let double = self.covered.entry(at).or_insert_with(new);
            if double.left() != there {
                *double = CoveredDouble { torn: double.torn || double.lost, ..new() };
            }
            double.mask |= ours;
            double.lost |= digits && are_numbers;
            if double.mask == 0xff {
                *double = CoveredDouble { was: [0; WINDOW], mask: 0, lost: false, ..*double };
            }
            if double.mask == 0 && !double.torn {
                self.covered.remove(&at);
            }
        }
    }

    /// Floats of `of` bytes have been written to `n` bytes at `p`, in the primal. False if they are
    /// doubles of which a part is missing.
    ///
    /// # Safety
    /// The bytes are valid.
    pub(crate) unsafe fn uncover(&mut self, p: usize, n: usize, of: usize) -> bool {
        let mut complete = true;
        if self.covered.is_empty() {
            return complete;
        }
        for at in doubles(p, n) {
            let Some(double) = self.covered.remove(&at) else { continue };
            if of != WINDOW || at < p || !(at - p).is_multiple_of(WINDOW) || !double.lost && !double.torn {
                continue;
            }
            // SAFETY: our contract.
            let as_left = unsafe { (at as *const [u8; WINDOW]).read() } == double.left();
            if !double.torn && as_left && double.mask & 0xf0 == 0 {
                // SAFETY: our contract.
                unsafe { (at as *mut [u8; WINDOW]).write(double.was) };
                self.put_back(at);
            } else {
                complete = false;
            }
        }
        complete
    }

    /// The first double of which a part is missing, and which the caller has put there.
    ///
    /// # Safety
    /// All bytes that something was stored over are valid.
    pub(crate) unsafe fn covered_at_the_end(
        &mut self,
        known: &dyn Fn(usize) -> WindowContents,
        holds_floats: &dyn Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut all: Vec<usize> = self.covered.keys().copied().collect();
        all.sort_unstable();
        let is_one = |&at: &usize| {
            let base = at - at % WINDOW;
            let others =
                || [base, base + WINDOW].iter().any(|&window| matches!(known(window), WindowContents::Floats(_)));
            known(at) == WindowContents::Floats(WINDOW) || (at..at + WINDOW).any(holds_floats) && !others()
        };
        // SAFETY: our contract.
        all.into_iter().filter(is_one).find(|&at| !unsafe { self.uncover(at, WINDOW, WINDOW) })
    }
}
