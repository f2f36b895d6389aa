//! Doubles at addresses that are no multiples of four: in packed records and streams of bytes.
//!
//! **Problem.** Windows have no boundary where such a double begins, and records no place for its
//! halves.
//!
//! **Answer.** Eight bytes that are moved there by a function that knows of no other floats are
//! taken for one double, as a whole. They may as well be halves of two, of a record after a number
//! of four bytes. As long as they are merely moved, and come to where there are zeros, that makes
//! no difference: they arrive as they were. A sum of two such words is right if they are doubles,
//! and no number at all if they are halves. So each word that came to its place is noted, with
//! whether there was something to add it to. Whatever is read there at another distance says that
//! the words are none: the run traps if one of them is a sum. So it does if the run ends, and
//! nothing is known of what lies there.
//!
//! **Cost.** A look-up for each such word; no other access has any.
//!
//! **Errs** on the side of a trap, where a place has held other numbers since.

use super::{HALF, Pieces, StrayPieces, WINDOW, WindowContents, within};

impl Pieces {
    /// Eight bytes at an odd address are a double: it is taken as one, if it is there whole.
    /// (Records without gaps, with single bytes.)
    ///
    /// # Safety
    /// As for [`Pieces::take`].
    pub(crate) unsafe fn take_odd(&mut self, p: usize, n: usize) -> Option<u64> {
        if n != WINDOW || p.is_multiple_of(HALF) || !self.demanded.is_empty() {
            return None;
        }
        self.lost |= !self.read_odd(p, n, WINDOW);
        let first = p & !(WINDOW - 1);
        let ours = |base: usize| within(base as isize - p as isize, 0, n as isize);
        let touched = |base: usize| {
            let waits = self.waiting.get(&base).is_some_and(|all| {
                let at = base as isize - p as isize;
                all.iter().any(|w| w.have & within(at + w.shift, 0, n as isize) != 0)
            });
            let away =
                |half: &usize| self.open.get(half).is_some_and(|&r| self.records[r as usize].away & ours(base) != 0);
            waits || [base, base + HALF].iter().any(away)
        };
        if [first, first + WINDOW].into_iter().any(touched) {
            return None;
        }
        // Nothing more is taken of what was noted of these bytes.
        for base in [first, first + WINDOW] {
            for half in [base, base + HALF] {
                let Some(&record) = self.open.get(&half) else { continue };
                let mine = ours(base) & 0xf << (half - base);
                let left = &mut self.records[record as usize].left;
                *left &= !mine;
                if *left == 0 {
                    self.close(base, record);
                    self.release(record);
                }
            }
        }
        // SAFETY: our contract.
        let there = unsafe { (p as *const [u8; WINDOW]).read() };
        // SAFETY: the same.
        unsafe { (p as *mut [u8; WINDOW]).write([0; WINDOW]) };
        Some(self.of_number(there, WINDOW, WINDOW))
    }

    /// Add a double at an odd address, if a ticket stands for all bytes of one.
    ///
    /// # Safety
    /// As for [`Pieces::add`].
    pub(crate) unsafe fn add_odd(&mut self, p: usize, n: usize, ticket: u64) -> bool {
        let parts = self.tickets.get((ticket as usize).wrapping_sub(1)).and_then(Option::as_deref);
        let [part] = parts.unwrap_or_default() else { return false };
        let is_double =
            part.at == 0 && part.bytes == 0xff && matches!(self.records[part.record as usize].of, 0 | WINDOW);
        if n != WINDOW || p.is_multiple_of(HALF) || !is_double {
            return false;
        }
        let part = *part;
        self.redeem(ticket);
        let bytes = self.records[part.record as usize].bytes;
        // SAFETY: our contract.
        let there = f64::from_le_bytes(unsafe { (p as *const [u8; WINDOW]).read() });
        let is_sum = there != 0.0;
        // Halves keep their digits where nothing is added.
        let sum = if is_sum { (there + f64::from_le_bytes(bytes)).to_le_bytes() } else { bytes };
        // SAFETY: the same.
        unsafe { (p as *mut [u8; WINDOW]).write(sum) };
        self.lost |= is_sum && self.beside_odd(p).next().is_some();
        *self.odd.entry(p).or_default() |= is_sum;
        self.done(part.record, part.bytes);
        true
    }

    /// Words that overlap with one at this address and are not there.
    fn beside_odd(&self, p: usize) -> impl Iterator<Item = usize> + '_ {
        self.odd.range(p.saturating_sub(WINDOW - 1)..p + WINDOW).map(|w| *w.0).filter(move |&at| at != p)
    }

    /// `n` bytes at `p` are read, or taken: by floats of `of` bytes, or as a part of something if
    /// that is 0. False if there are sums of words that are no doubles then.
    pub(crate) fn read_odd(&mut self, p: usize, n: usize, of: usize) -> bool {
        if self.odd.is_empty() {
            return true;
        }
        let there: Vec<(usize, bool)> =
            self.odd.range(p.saturating_sub(WINDOW - 1)..p + n).map(|w| (*w.0, *w.1)).collect();
        let is_one = |at: usize| of == WINDOW && at >= p && at + WINDOW <= p + n && (at - p).is_multiple_of(WINDOW);
        self.odd.retain(|&at, _| !is_one(at));
        !there.iter().any(|&(at, is_sum)| is_sum && !is_one(at))
    }

    /// The first sum of words of which it is not known, when the run ends, that they are doubles.
    pub(crate) fn odd_at_the_end(
        &self,
        known: &dyn Fn(usize) -> WindowContents,
        holds_floats: &dyn Fn(usize) -> bool,
    ) -> Result<(), StrayPieces> {
        let is_lost = |at: usize| match known(at) {
            WindowContents::Floats(WINDOW) | WindowContents::Constants => false,
            WindowContents::Floats(_) | WindowContents::Unknown => true,
            WindowContents::Nothing => (0..WINDOW).any(|i| holds_floats(at + i)),
        };
        match self.odd.iter().find(|&(&at, &is_sum)| is_sum && is_lost(at)) {
            Some((&at, _)) => Err(StrayPieces(Some(at))),
            None => Ok(()),
        }
    }
}
