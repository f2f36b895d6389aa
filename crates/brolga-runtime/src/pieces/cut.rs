//! Floats that numbers have been stored over in part.
//!
//! **Problem.** A number is stored over a byte, two or four: its place gets no cotangent. But if
//! these were bytes of a float, so that a mixture of both was read, the other bytes of the
//! cotangent are no number. If the program stores numbers over all parts one by one, as `memset`
//! and unions do, the float is a constant; if the rest came from a float, its derivative would be
//! that of half a number.
//!
//! **Answer.** The bytes are taken like a piece ([`super`]), and given up. Then the record says
//! which bytes of the cotangent are left. Numbers under them clear those, too. A float's store
//! finds the cotangent of its place taken in part, and the run traps; so does the end of the run,
//! where the caller has put a float. But if only lower digits are missing, they are put back: a
//! float whose last digits are cut has the slope 1, as where that happens in a register.
//!
//! **Cost.** A look at the shadow for each such store; a record for each that meets a cotangent.
//!
//! **Errs** on the side of a trap.

use super::{DEMAND, HALF, Mask, Pieces, TicketPart, WINDOW, WindowContents, WindowRecord, nonzero};

/// The bytes of a float that are digits and nothing else: the lower half.
fn digits(float: Mask) -> Mask {
    match float {
        0xff => 0x0f,
        0xf0 => 0x30,
        _ => float & 0x03,
    }
}

impl WindowRecord {
    /// Whether some bytes are a float, which has these, but for last digits that have been given
    /// up.
    pub(crate) fn is_complete(&self, have: Mask, float: Mask) -> bool {
        let missing = float & !have;
        missing & !self.cut == 0 && (missing | self.rough & float) & !digits(float) == 0
    }
}

impl Pieces {
    /// Of what a ticket stands for, these bytes have a number in their place in what the others
    /// have become, and some of the bits of those do (of the bytes of a piece, the first in the
    /// lowest bit). The others stay.
    pub(crate) fn drop_digits(&mut self, ticket: u64, numbers: u64, rough: u64) -> u64 {
        if ticket == DEMAND {
            return DEMAND;
        }
        let mut left = Vec::new();
        for part in self.redeem(ticket) {
            let among = |mask: u64| {
                (0..WINDOW)
                    .filter(|&i| {
                        let place = i as isize + part.at;
                        place >= 0 && mask >> place.min(63) & 1 != 0
                    })
                    .fold(0, |m: Mask, i| m | 1 << i)
                    & part.bytes
            };
            let (cut, rough) = (among(numbers), among(rough));
            let r = &mut self.records[part.record as usize];
            r.cut |= cut;
            r.rough |= rough;
            left.extend((part.bytes != cut).then_some(TicketPart { bytes: part.bytes & !cut, ..part }));
            self.drop_across(part.record);
            self.done(part.record, cut);
        }
        self.ticket(left)
    }

    /// Numbers have been stored over `n` bytes at `p`, which may be a part of a float of `of`
    /// bytes.
    ///
    /// # Safety
    /// The bytes and the windows that they lie in are valid.
    pub(crate) unsafe fn cut(&mut self, p: usize, n: usize, of: usize) {
        // SAFETY: our contract.
        unsafe {
            self.cover(p, n, true);
            self.give_up(p, n, of);
        }
    }

    /// The same where it has been noted that something was stored over them.
    ///
    /// # Safety
    /// As for [`Self::cut`].
    pub(crate) unsafe fn give_up(&mut self, p: usize, n: usize, of: usize) {
        // SAFETY: our contract.
        let ticket = unsafe { self.take_away(p, n) };
        for part in self.redeem(ticket) {
            let r = &mut self.records[part.record as usize];
            r.cut |= part.bytes;
            self.lost |= r.ended && nonzero(&r.bytes) & part.bytes != 0;
            if r.home != 0 && r.of == 0 {
                r.of = of;
            }
            self.done(part.record, part.bytes);
        }
    }

    /// Put lower digits back of floats of `of` bytes in a window, if nothing else is missing. Of
    /// floats that do not lie among `ours` nothing changes.
    ///
    /// # Safety
    /// The window is valid.
    pub(crate) unsafe fn uncut(&mut self, base: usize, of: usize, ours: Mask) {
        for first in (0..WINDOW).step_by(of) {
            let Some(&record) = self.open.get(&(base + first)) else { continue };
            let float: Mask = if of == WINDOW { 0xff } else { 0xf << first };
            let r = &self.records[record as usize];
            let missing = float & !r.left;
            let only_digits = missing & !digits(float) == 0 && missing & !r.cut == 0 && ours & float == float;
            if missing == 0 || !only_digits || of == WINDOW && self.open.get(&(base + HALF)) != Some(&record) {
                continue;
            }
            // SAFETY: our contract.
            let there = unsafe { (base as *const [u8; WINDOW]).read() };
            let as_it_was = |i: usize| there[i] == if missing & 1 << i != 0 { 0 } else { r.bytes[i] };
            if !(0..WINDOW).filter(|i| float & 1 << i != 0).all(as_it_was) {
                continue;
            }
            for i in (0..WINDOW).filter(|i| missing & 1 << i != 0) {
                // SAFETY: the byte lies in the window.
                unsafe { (base as *mut u8).add(i).write(r.bytes[i]) };
            }
            let r = &mut self.records[record as usize];
            (r.left, r.away, r.cut) = (r.left | missing, r.away & !missing, r.cut & !missing);
            if r.left == 0xff {
                self.close(base, record);
                self.forget(record);
            }
        }
    }

    /// The first window in which the caller has put a float of which a part was cut.
    ///
    /// # Safety
    /// All windows from which something was taken are valid.
    pub(crate) unsafe fn cut_at_the_end(
        &mut self,
        known: &dyn Fn(usize) -> WindowContents,
        holds_floats: &dyn Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut all: Vec<usize> = self.open.keys().map(|half| half & !(WINDOW - 1)).collect();
        all.sort_unstable();
        all.dedup();
        let is_cut = |&base: &usize| {
            let size = match known(base) {
                WindowContents::Floats(size) => size,
                WindowContents::Constants => return false,
                WindowContents::Nothing if !(0..WINDOW).any(|i| holds_floats(base + i)) => return false,
                WindowContents::Nothing | WindowContents::Unknown => {
                    let record = self.open.get(&base).or_else(|| self.open.get(&(base + HALF)));
                    record.map_or(0, |&r| self.records[r as usize].of)
                }
            };
            if size != 0 {
                // SAFETY: our contract.
                unsafe { self.uncut(base, size, 0xff) };
            }
            let parts: &[Mask] = if size == WINDOW { &[0xff] } else { &[0xf, 0xf0] };
            parts.iter().any(|&part| self.in_part(base, part))
        };
        all.into_iter().find(is_cut)
    }
}

/// The floats of `size` bytes that lie in some bytes, from the first of them to after the last.
pub(crate) fn complete_floats(at: usize, end: usize, size: usize) -> (usize, usize) {
    let first = at.next_multiple_of(size).min(end);
    (first, (end - end % size).max(first))
}

/// Whether bytes of shadow end in a float of `size` bytes whose cotangent is not zero, or begin in
/// one; where it is not `strict`, its lower digits do not count.
///
/// # Safety
/// The multiples of eight around them are valid.
pub(crate) unsafe fn tears(at: usize, end: usize, size: usize, strict: bool) -> bool {
    let (first, last) = complete_floats(at, end, size);
    [(at, first), (last, end)].into_iter().filter(|(from, to)| from < to).any(|(from, to)| {
        let float = from - from % size;
        // SAFETY: our contract.
        let bytes = unsafe { std::slice::from_raw_parts(float as *const u8, size) };
        let (sign, others) = bytes.split_last().expect("a float has bytes");
        (strict || to - float > size / 2) && (sign & 0x7f != 0 || others.iter().any(|&b| b != 0))
    })
}
