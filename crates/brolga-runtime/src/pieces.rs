//! Pieces of floats at run time: cotangents of what is copied in pieces.
//!
//! **Problem.** A program may move a float byte by byte, in halves, or in words that hold a double
//! here and two singles there. A derivative adds the cotangent of the copy to that of the original,
//! but bytes of cotangents cannot be added, and in the reverse half they come one by one, in
//! whatever order. Nor does an instruction that moves bytes know of what size the floats are.
//!
//! **Answer.** What a piece carries back from the copy to the original is not its part of the
//! cotangent but a *ticket*, a number that says which bytes of which cotangent it stands for. Eight
//! bytes of shadow at a multiple of eight are a *window*.
//!
//! ```text
//! take    the shadow of a place that a piece was stored to: the window is noted down as a window record, the piece's bytes of the shadow are cleared, and the
//!         ticket names the record and the bytes. A window of zeros gives ticket 0, and nothing is noted.
//! add     a ticket comes to the shadow of the place that the piece was loaded from: the bytes wait there. Once all bytes of a float's cotangent
//!         have come, they are a number, and are added.
//! settle  a float of known size is written there in the primal: what waits for it is added now, as floats of that size.
//! ```
//!
//! **Invariants.** Bytes that wait are no part of the shadow. A number is only added as a whole:
//! all its bytes, also those that are zero, stood in one cotangent, in this order. Nothing is added
//! to a float while its own cotangent has been taken in part. What cannot be put together is
//! [`UNTRACKED`](crate::status::UNTRACKED): pieces of two floats in one, a float of which a part
//! went elsewhere, bytes in another order. So is what still waits, and is not zero, when the
//! pullback ends; but if a whole window waits where there are zeros, it is put there, which is
//! right whatever it is, and where the caller of the run knows what it has put into memory, it is
//! added as that ([`WindowContents`]).
//!
//! **Errs** on the side of a trap. A double at 4 modulo 8 is put together from the records of two
//! windows ([`across`]) if it is said that there may be such; floats at other addresses are not.
//!
//! **Cost.** Hash look-ups for each move of a piece. What waits in a window, and the parts of a
//! ticket, are short lists that are searched from the start; at the end of a pullback comes one
//! walk over all that waits. A program that moves no pieces pays nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

pub(crate) mod across;
mod covered;
pub(crate) mod cut;
pub(crate) mod demand;
mod numbers;
mod odd;
pub(crate) mod poison;
pub(crate) mod tangents;
#[cfg(test)]
mod tests;

/// Bytes of a window.
pub(crate) const WINDOW: usize = 8;

/// Bytes of memory that are there in whole or not at all.
const PAGE: usize = 4096;

/// Bytes of half a window.
pub(crate) const HALF: usize = 4;

/// A ticket that stands for a demand of all bytes of a piece.
pub(crate) const DEMAND: u64 = u64::MAX;

/// Added to a size of floats: the account is kept, because floats' stores look there.
pub const ACCOUNT: u64 = 0x100;

/// Added to a size of floats: no digits stay where they are.
pub const STRICT: u64 = 0x200;

/// Added to a size of floats: an integer was moved there.
pub const MOVED: u64 = 0x400;

/// Each bit of a mask is a byte of a window, the lowest bit the first byte.
type Mask = u8;

/// A window of the shadow as it was when a piece of it was taken.
struct WindowRecord {
    bytes: [u8; WINDOW],
    /// Which window; 0 if it is no place.
    home: usize,
    /// Bytes that have not been taken.
    left: Mask,
    /// Bytes that have been taken, and are zeros where they were because of that.
    away: Mask,
    /// Bytes that have been given up, because a number was stored over them, or stands there in
    /// what the others have become.
    cut: Mask,
    /// Bytes of which some of the last bits have been given up.
    rough: Mask,
    /// It is no cotangent, but stands for a demand of each byte.
    demand: bool,
    /// Some bytes, all of them zeros, have ended in a double.
    ended: bool,
    /// Bytes that have been taken and not been added, or given up.
    under_way: u32,
    /// Bytes of the number that it is, or 0 if that is not known: what is one double for certain is
    /// no two singles.
    of: usize,
    /// The windows before it and after it as they were before anything was taken there, where
    /// there are such.
    before: Option<[u8; WINDOW]>,
    after: Option<[u8; WINDOW]>,
}

/// Bytes of a record that wait at a window.
struct WaitingBytes {
    record: u32,
    /// Where byte 0 of the record would be, from the beginning of the window: a single may come
    /// from the other half of its window.
    shift: isize,
    have: Mask,
    /// Bytes of a float there, or 0 if that is not known.
    of: usize,
}

/// When what waits at a window is put together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Something has come there, or has been taken from there.
    Arrives,
    /// A float is stored there, in the primal.
    Settles,
    /// The run ends.
    Ends,
}

/// Some bytes of a record, as a part of a piece.
#[derive(Clone, Copy)]
pub(crate) struct TicketPart {
    pub(crate) record: u32,
    /// Which.
    pub(crate) bytes: Mask,
    /// Where byte 0 of the record would be, from the beginning of the piece.
    pub(crate) at: isize,
}

/// A double of which a part has been stored over.
struct CoveredDouble {
    /// What it was.
    was: [u8; WINDOW],
    /// The bytes that something was stored over.
    mask: Mask,
    /// Some of them were given up that are not zero.
    lost: bool,
    /// It was read while a part was missing.
    torn: bool,
}

/// What the caller of a run knows of eight bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowContents {
    /// Nothing.
    Unknown,
    /// Nothing that the caller has put there.
    Nothing,
    /// Floats of so many bytes.
    Floats(usize),
    /// Constants of the program: their cotangents are not asked for. Where those cannot be put
    /// together the shadow is no number, neither as a double nor as singles, and the run ends well.
    Constants,
}

/// NaN as a double, and as either of two singles.
const NO_NUMBER: u64 = 0x7ff8_0000_7fc0_0000;

/// A cotangent that moved in pieces could not be put together again: the address of the eight bytes
/// of shadow at which pieces of it wait, if they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrayPieces(pub Option<usize>);

/// What pieces of one run of a pullback are under way. Empty unless a program moves floats in
/// pieces.
#[derive(Default)]
pub(crate) struct Pieces {
    records: Vec<WindowRecord>,
    /// Records that are free again.
    free: Vec<u32>,
    /// By half of a window: the record of which more may be taken there.
    open: HashMap<usize, u32>,
    /// By half of a window: the record of which something was last taken there, while that is
    /// somewhere.
    last: HashMap<usize, u32>,
    /// By window: what waits there.
    waiting: HashMap<usize, Vec<WaitingBytes>>,
    /// What tickets stand for, until they are used; the first is that of ticket 1.
    pub(crate) tickets: Vec<Option<Vec<TicketPart>>>,
    /// Bytes were to be a number, and were none.
    pub(crate) lost: bool,
    /// A demand was to be a number, and has become a NaN.
    pub(crate) poisoned: bool,
    /// Doubles may lie across windows ([`across`]).
    pub(crate) across: bool,
    /// By window: bytes at which a demand waits ([`demand`]).
    demanded: HashMap<usize, Mask>,
    /// Of a task that runs back: sums, and how far each is from the shadow.
    pub(crate) sums: Vec<(Range<usize>, usize)>,
    /// By address: doubles in two windows that have been stored over in part ([`covered`]).
    covered: HashMap<usize, CoveredDouble>,
    /// By address: upper halves of windows that have been given up, as last digits of doubles in
    /// two windows, and what they were ([`across`]).
    dropped: HashMap<usize, [u8; HALF]>,
    /// By address that is no multiple of four: words that were added there as doubles, and whether
    /// there was something else ([`odd`]).
    odd: BTreeMap<usize, bool>,
}

/// The bytes of a record that lie in `from..to` if its byte 0 lies at `at`.
fn within(at: isize, from: isize, to: isize) -> Mask {
    (0..WINDOW as isize).filter(|i| (from..to).contains(&(at + i))).fold(0, |m, i| m | 1 << i)
}

/// The first half.
fn low(bytes: &[u8; WINDOW]) -> &[u8; HALF] {
    bytes.first_chunk().expect("a half is less than the whole")
}

fn nonzero(bytes: &[u8; WINDOW]) -> Mask {
    bytes.iter().enumerate().filter(|b| *b.1 != 0).fold(0, |m, (i, _)| m | 1 << i)
}

/// What a window holds: zeros if that is no cotangent but zeros, of whatever sign.
///
/// # Safety
/// The window is valid.
unsafe fn window_at(base: usize) -> [u8; WINDOW] {
    // SAFETY: our contract.
    without_signs_of_zero(unsafe { (base as *const [u8; WINDOW]).read() })
}

/// Zeros in place of a double, or of two singles, that are zeros of whatever sign. (A double of
/// which nothing but the sign of what may be a single in its lower half is left is less than any
/// cotangent that counts.)
fn without_signs_of_zero(bytes: [u8; WINDOW]) -> [u8; WINDOW] {
    const NUMBERS: u64 = 0x7fff_ffff_7fff_ffff;
    if u64::from_le_bytes(bytes) & NUMBERS == 0 { [0; WINDOW] } else { bytes }
}

impl Pieces {
    /// Forget everything: another run begins.
    pub(crate) fn clear(&mut self) {
        let noted = self.demanded.len() + self.covered.len() + self.odd.len() + self.dropped.len();
        if !self.records.is_empty() || self.lost || self.poisoned || noted != 0 {
            *self = Self { across: self.across, ..Self::default() };
        }
        self.sums.clear();
    }

    /// Whether doubles may lie across windows.
    pub(crate) fn may_lie_across(&self) -> bool {
        self.across
    }

    /// How many windows something waits at, or have been taken in part.
    pub(crate) fn places(&self) -> u64 {
        (self.waiting.len() + self.open.len() + self.demanded.len() + self.covered.len() + self.odd.len()) as u64
    }

    fn note(&mut self, bytes: [u8; WINDOW], home: usize) -> u32 {
        let (mut before, mut after) = (None, None);
        if home != 0 && self.across {
            // SAFETY: windows are noted that are valid.
            (before, after) = unsafe { (self.beside(home, home - WINDOW), self.beside(home, home + WINDOW)) };
        }
        let record = WindowRecord {
            bytes,
            home,
            left: 0xff,
            away: 0,
            cut: 0,
            rough: 0,
            demand: false,
            ended: false,
            under_way: 0,
            of: 0,
            before,
            after,
        };
        match self.free.pop() {
            Some(i) => {
                self.records[i as usize] = record;
                i
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        }
    }

    /// So many bytes of a record are no longer under way.
    pub(crate) fn done(&mut self, record: u32, bytes: Mask) {
        let r = &mut self.records[record as usize];
        r.under_way -= bytes.count_ones();
        self.release(record);
    }

    /// A record is free if nothing of it is there and nothing is under way.
    fn release(&mut self, record: u32) {
        let r = &self.records[record as usize];
        if r.under_way == 0 && r.left == 0 {
            self.close(r.home, record);
            self.forget(record);
        }
    }

    /// A record may be used for something else.
    fn forget(&mut self, record: u32) {
        let home = self.records[record as usize].home;
        for half in [home, home + HALF] {
            if self.last.get(&half) == Some(&record) {
                self.last.remove(&half);
            }
        }
        self.free.push(record);
    }

    pub(crate) fn ticket(&mut self, parts: Vec<TicketPart>) -> u64 {
        if parts.is_empty() {
            return 0;
        }
        self.tickets.push(Some(parts));
        self.tickets.len() as u64
    }

    /// What a ticket stands for. Each is used once.
    pub(crate) fn redeem(&mut self, ticket: u64) -> Vec<TicketPart> {
        let place = self.tickets.get_mut((ticket as usize).wrapping_sub(1));
        let parts = place.and_then(Option::take).unwrap_or_default();
        // Most tickets are used next after they were made.
        while self.tickets.last().is_some_and(Option::is_none) {
            self.tickets.pop();
        }
        parts
    }

    /// Whether some of these bytes of a record are not zero.
    pub(crate) fn any(&self, record: u32, bytes: Mask) -> bool {
        nonzero(&self.records[record as usize].bytes) & bytes != 0
    }

    /// Take `n` bytes at `p`.
    ///
    /// # Safety
    /// They and the windows that they lie in are valid.
    pub(crate) unsafe fn take(&mut self, p: usize, n: usize) -> u64 {
        self.lost |= !self.read_odd(p, n, 0);
        // SAFETY: our contract.
        unsafe {
            self.cover(p, n, false);
            self.take_away(p, n)
        }
    }

    /// The same where it has been noted that something was stored over them.
    ///
    /// # Safety
    /// As for [`Self::take`].
    pub(crate) unsafe fn take_away(&mut self, p: usize, n: usize) -> u64 {
        let demanded = self.take_demands(p, n);
        let mut parts = Vec::new();
        let mut base = p & !(WINDOW - 1);
        while base < p + n {
            let at = base as isize - p as isize;
            let asked = within(at, 0, n as isize);
            // What is left of a number need not look like one.
            let begun = [base, base + HALF].iter().any(|half| self.open.contains_key(half));
            // SAFETY: our contract.
            let there = unsafe { if begun { (base as *const [u8; WINDOW]).read() } else { window_at(base) } };
            let mut closed = false;
            for half in [0, HALF] {
                let ours = asked & 0xf << half;
                if self.is_taken(base, half, &there) {
                    continue;
                }
                let is_open = self.open.contains_key(&(base + half));
                // SAFETY: our contract.
                if ours == 0 || !is_open && unsafe { window_at(base) } == [0; WINDOW] {
                    continue;
                }
                let record = self.record_of(base, half, ours, there);
                let r = &mut self.records[record as usize];
                let ours = ours & r.left;
                if ours == 0 {
                    continue;
                }
                r.left &= !ours;
                r.away |= ours;
                r.under_way += ours.count_ones();
                closed |= r.left & 0xf << half == 0;
                if r.left == 0 {
                    self.close(base, record);
                }
                if self.across {
                    self.last.insert(base + half, record);
                }
                match parts.last_mut() {
                    Some(TicketPart { record: last, bytes, at: a }) if (*last, *a) == (record, at) => *bytes |= ours,
                    _ => parts.push(TicketPart { record, bytes: ours, at }),
                }
                for i in (0..WINDOW).filter(|i| ours & 1 << i != 0) {
                    // SAFETY: the byte lies in the window.
                    unsafe { (base as *mut u8).add(i).write(0) };
                }
            }
            // What waits here goes along.
            if let Some(all) = self.waiting.get_mut(&base) {
                for w in all.iter_mut() {
                    let bytes = w.have & within(at + w.shift, 0, n as isize);
                    if bytes != 0 {
                        w.have &= !bytes;
                        parts.push(TicketPart { record: w.record, bytes, at: at + w.shift });
                    }
                }
                all.retain(|w| w.have != 0);
                let of = all.first().map(|w| w.of);
                if of.is_none() {
                    self.waiting.remove(&base);
                }
                if let Some(of) = of.filter(|_| closed) {
                    // SAFETY: our contract.
                    unsafe { self.put_together(base, of, Moment::Arrives) };
                }
            }
            base += WINDOW;
        }
        let parts = if demanded.is_empty() { parts } else { self.with_demands(p, parts, &demanded) };
        self.ticket(parts)
    }

    /// Add what a ticket stands for to `n` bytes at `p`, where there are floats of `of` bytes, or
    /// of an unknown number. False if something stands for other bytes than these. Doubles that are
    /// none of whole windows wait until they are settled.
    ///
    /// # Safety
    /// They and the windows that they lie in are valid.
    pub(crate) unsafe fn add(&mut self, p: usize, n: usize, of: usize, ticket: u64) -> bool {
        if ticket == DEMAND {
            self.demand(p, n);
            return true;
        }
        let of = if p.is_multiple_of(of.max(1)) { of } else { 0 };
        let mut places: Vec<usize> = Vec::new();
        for mut part in self.redeem(ticket) {
            if self.records[part.record as usize].demand {
                self.demand_part(p, n, part);
                continue;
            }
            let beyond = part.bytes & !within(part.at, 0, n as isize);
            if beyond != 0 {
                if self.any(part.record, beyond) {
                    return false;
                }
                self.done(part.record, beyond);
                part.bytes &= !beyond;
            }
            let first = p as isize + part.at;
            let mut base = (first as usize) & !(WINDOW - 1);
            while (base as isize) < first + WINDOW as isize {
                let shift = first - base as isize;
                let have = part.bytes & within(shift, 0, WINDOW as isize);
                // SAFETY: our contract.
                let mut home = || unsafe {
                    self.comes_home(base, part.record, have)
                        || self.across && self.half_comes_home(base, part.record, have)
                };
                if have != 0 && !(shift == 0 && home()) {
                    let all = self.waiting.entry(base).or_default();
                    match all.iter_mut().find(|w| w.record == part.record && w.shift == shift) {
                        Some(w) if w.have & have != 0 => return false,
                        Some(w) => w.have |= have,
                        None => all.push(WaitingBytes { record: part.record, shift, have, of }),
                    }
                    places.push(base);
                }
                base += WINDOW;
            }
        }
        // SAFETY: our contract: bytes wait in them.
        places.into_iter().for_each(|base| unsafe { self.put_together(base, of, Moment::Arrives) });
        true
    }

    /// Put bytes back that have been taken from here, if the others are still where they were: then
    /// nothing has happened.
    ///
    /// # Safety
    /// The window is valid.
    unsafe fn comes_home(&mut self, base: usize, record: u32, bytes: Mask) -> bool {
        let r = &self.records[record as usize];
        let is_open = |half: &usize| bytes & 0xf << half == 0 || self.open.get(&(base + half)) == Some(&record);
        if r.home != base || r.left == 0 || ![0, HALF].iter().all(is_open) {
            return false;
        }
        // SAFETY: our contract.
        let there = unsafe { window_at(base) };
        let ours = |i: &usize| bytes & 1 << i != 0;
        let free = r.left & bytes == 0 && (0..WINDOW).filter(ours).all(|i| there[i] == 0);
        // SAFETY: our contract.
        if !free || !unsafe { self.takes_digits_home(base, record, bytes) } {
            return false;
        }
        let r = &self.records[record as usize];
        for i in (0..WINDOW).filter(ours) {
            // SAFETY: the byte lies in the window.
            unsafe { (base as *mut u8).add(i).write(r.bytes[i]) };
        }
        let r = &mut self.records[record as usize];
        r.left |= bytes;
        r.away &= !bytes;
        r.under_way -= bytes.count_ones();
        if r.left == 0xff {
            self.close(base, record);
            self.forget(record);
        }
        true
    }

    /// Nothing more is taken from a record.
    fn close(&mut self, base: usize, record: u32) {
        for half in [0, HALF] {
            if self.open.get(&(base + half)) == Some(&record) {
                self.open.remove(&(base + half));
            }
        }
    }

    /// The record from which more is taken in half a window: what is left of it there must be there
    /// still, and nothing where bytes are to be taken again. What a double has in one half goes
    /// with what it has in the other.
    fn record_of(&mut self, base: usize, half: usize, asked: Mask, there: [u8; WINDOW]) -> u32 {
        let as_it_was = |r: &WindowRecord| {
            let same = |i: usize| r.left & 1 << i == 0 || r.bytes[i] == there[i];
            let gone = |i: usize| asked & !r.left & 1 << i == 0 || there[i] == 0;
            (half..half + HALF).all(|i| same(i) && gone(i))
        };
        let here = self.open.get(&(base + half)).copied();
        if let Some(record) = here.filter(|&i| as_it_was(&self.records[i as usize])) {
            return record;
        }
        let record = self.note(there, base);
        let other = base + (half ^ HALF);
        self.open.insert(base + half, record);
        // If the other half is being taken, that is of something else.
        if let Some(&beside) = self.open.get(&other) {
            let left = self.records[beside as usize].left;
            if left & 0xf << (half ^ HALF) != 0xf << (half ^ HALF) {
                self.records[record as usize].left &= 0xf << half;
                return record;
            }
        }
        self.open.insert(other, record);
        record
    }

    /// Whether a float's cotangent has been taken in part: of the double in a window, or of a
    /// single in a half.
    fn in_part(&self, base: usize, mask: Mask) -> bool {
        [0, HALF].iter().any(|half| {
            let left = self.open.get(&(base + half)).map(|&i| self.records[i as usize].left & mask);
            mask & 0xf << half != 0 && left.is_some_and(|left| left != 0 && left != mask)
        })
    }

    /// Whether some bytes of a window have been taken.
    fn misses(&self, base: usize, mask: Mask) -> bool {
        [0, HALF].iter().any(|half| {
            let left = self.open.get(&(base + half)).map_or(0xff, |&i| self.records[i as usize].left);
            mask & 0xf << half & !left != 0
        })
    }

    /// Add what waits at a window and is complete. If nothing is there, and it may be put there as
    /// it is, its size does not matter. If last digits have been given up, what is there says
    /// whether the others are a float: that is known when one is stored there, or at the end.
    ///
    /// # Safety
    /// The window is valid.
    unsafe fn put_together(&mut self, base: usize, of: usize, moment: Moment) {
        let Some(mut all) = self.waiting.remove(&base) else { return };
        let as_it_is = moment == Moment::Ends || !self.across;
        let alone = all.len() == 1;
        let undivided = |mask: Mask| !self.in_part(base, mask);
        let (double, singles) = (undivided(0xff), [undivided(0xf), undivided(0xf0)]);
        for w in &mut all {
            let WindowRecord { bytes, of: known, .. } = self.records[w.record as usize];
            let is_complete = |r: &WindowRecord, mask: Mask| {
                (moment != Moment::Arrives || w.have & mask == mask) && r.is_complete(w.have, mask)
            };
            let mut added = 0;
            match of {
                4 | 8 if known != 0 && known != of => {}
                8 if w.shift == 0 && is_complete(&self.records[w.record as usize], 0xff) && double => {
                    // SAFETY: our contract.
                    unsafe { add_number(base as *mut f64, f64::from_le_bytes(bytes), |x, y| x + y) };
                    added = w.have;
                }
                4 => {
                    for half in 0..2 {
                        let (mask, at) = (0xf << (4 * half), w.shift + 4 * half as isize);
                        let here = at == 0 || at == HALF as isize;
                        if here && is_complete(&self.records[w.record as usize], mask) && singles[at as usize / HALF] {
                            let x: [u8; 4] = std::array::from_fn(|i| bytes[4 * half + i]);
                            // SAFETY: half of the window.
                            let there = unsafe { (base as *mut u8).offset(at) }.cast();
                            // SAFETY: the same.
                            unsafe { add_number(there, f32::from_le_bytes(x), |x, y| x + y) };
                            added |= mask & w.have;
                        }
                    }
                }
                // Where nothing is, a sum is what is added, whatever kind of number that may be.
                // SAFETY: our contract.
                0 if alone
                    && as_it_is
                    && w.shift == 0
                    && w.have == 0xff
                    && self.records[w.record as usize].rough == 0
                    && double
                    && unsafe { window_at(base) } == [0; WINDOW] =>
                {
                    // SAFETY: our contract: all of it has been copied.
                    unsafe { (base as *mut [u8; WINDOW]).write(bytes) };
                    added = w.have;
                }
                _ => {}
            }
            if added != 0 {
                w.have &= !added;
                self.done(w.record, added);
            }
        }
        all.retain(|w| w.have != 0);
        if !all.is_empty() {
            self.waiting.insert(base, all);
            if of == WINDOW && double {
                // SAFETY: our contract.
                unsafe { self.doubles_at(base, as_it_is) };
            }
        }
    }

    /// Floats of `of` bytes, or something else if that is zero, have been written to `n` bytes at
    /// `p`, in the primal: add what waits for them, or forget it. False if what waits is no such
    /// float, or is not to be forgotten, or their cotangent has been taken in part.
    ///
    /// # Safety
    /// The bytes and the windows that they lie in are valid.
    pub(crate) unsafe fn settle(&mut self, p: usize, n: usize, of: usize, forgets: bool) -> bool {
        let mut base = p & !(WINDOW - 1);
        // SAFETY: our contract.
        let mut known = of == 0 || self.read_odd(p, n, of) && unsafe { self.uncover(p, n, of) };
        // SAFETY: our contract.
        let across = of == WINDOW && p % WINDOW == HALF && unsafe { self.settle_across(p, n, &mut known) };
        while base < p + n {
            let at = base as isize - p as isize;
            let ours = within(at, 0, n as isize);
            let floats: &[Mask] = match of {
                4 => &[0xf, 0xf0],
                _ if across => &[],
                _ => &[0xff],
            };
            if of != 0 && p.is_multiple_of(of) {
                // SAFETY: our contract.
                unsafe { self.uncut(base, of, ours) };
            }
            let in_part = || match of {
                // Of a float that lies across windows only its own bytes count.
                4 | 8 if !across && !p.is_multiple_of(of) => self.misses(base, ours),
                _ => floats.iter().any(|f| ours & f != 0 && self.in_part(base, *f)),
            };
            known &= of == 0 || !in_part();
            for half in [0, HALF] {
                let part = ours & 0xf << half;
                if let Some(&last) = self.last.get(&(base + half)).filter(|_| part != 0) {
                    self.records[last as usize].away &= !part;
                }
                let Some(open) = self.open.get(&(base + half)).copied().filter(|_| part != 0) else { continue };
                // What may be a float's bits lies beside a part that a number has replaced.
                let r = &self.records[open as usize];
                let float = if r.of == HALF || self.across { 0xf << half } else { 0xff };
                known &= forgets || of != 0 || !self.any(open, r.cut & float);
                let left = &mut self.records[open as usize].left;
                *left &= !part;
                if *left == 0 {
                    self.close(base, open);
                    self.release(open);
                } else if part == 0xf << half || *left & 0xf << half == 0 {
                    self.open.remove(&(base + half));
                }
            }
            if of != 0 && p.is_multiple_of(of) {
                // SAFETY: our contract.
                unsafe { self.put_together(base, of, Moment::Settles) };
                if self.across && of == WINDOW && !self.in_part(base, 0xff) {
                    // SAFETY: the same.
                    unsafe { self.doubles_at(base, true) };
                }
            }
            if let Some(mut all) = self.waiting.remove(&base) {
                for w in &mut all {
                    let bytes = w.have & within(at + w.shift, 0, n as isize);
                    if bytes != 0 {
                        let aligned = of != 0 && p.is_multiple_of(of.min(HALF));
                        let lost = self.any(w.record, bytes) || aligned && !self.ends(w.record, bytes, of);
                        known &= forgets || !lost;
                        w.have &= !bytes;
                        self.done(w.record, bytes);
                    }
                }
                all.retain(|w| w.have != 0);
                if !all.is_empty() {
                    self.waiting.insert(base, all);
                }
            }
            base += WINDOW;
        }
        known
    }

    /// Whether all that waits at a window waits for floats.
    fn waits_among(&self, base: usize, holds_floats: &dyn Fn(usize) -> bool) -> bool {
        let at = |w: &WaitingBytes, i: usize| (base as isize + w.shift + i as isize) as usize;
        let all = |w: &WaitingBytes| (0..WINDOW).all(|i| w.have & 1 << i == 0 || holds_floats(at(w, i)));
        self.waiting.get(&base).is_none_or(|found| found.iter().all(all))
    }

    /// Whether something that is not zero waits.
    fn is_stuck(&self, all: &[WaitingBytes]) -> bool {
        all.iter().any(|w| self.any(w.record, w.have))
    }

    /// Put what still waits at the end where it waits, if that is possible. Of what size floats are
    /// there that have not been written is for the caller of the run to say.
    pub(crate) fn finish(
        &mut self,
        known: &dyn Fn(usize) -> WindowContents,
        holds_floats: &dyn Fn(usize) -> bool,
    ) -> Result<(), StrayPieces> {
        let is_lost = |base: usize, mask: Mask| (0..WINDOW).any(|i| mask & 1 << i != 0 && holds_floats(base + i));
        let lost = self.demanded.iter().filter(|d| is_lost(*d.0, *d.1)).map(|d| *d.0).min();
        if lost.is_some() {
            return Err(StrayPieces(lost));
        }
        // SAFETY: shadows from which something was cut are valid until the run ends.
        let first = unsafe {
            self.covered_at_the_end(known, holds_floats).or_else(|| self.cut_at_the_end(known, holds_floats))
        };
        if first.is_some() {
            return Err(StrayPieces(first));
        }
        self.odd_at_the_end(known, holds_floats)?;
        let places: Vec<(usize, usize)> = self.waiting.iter().map(|(&base, all)| (base, all[0].of)).collect();
        for (base, of) in places {
            for at in [base - HALF, base + HALF].into_iter().filter(|&at| known(at) == WindowContents::Floats(WINDOW)) {
                // SAFETY: the caller of the run has put a double there.
                unsafe { self.doubles_at(at, true) };
            }
            let there = known(base);
            let of = match (of, there) {
                // A single may have half of a window for itself.
                (0, WindowContents::Floats(HALF)) if !self.waits_among(base, holds_floats) => 0,
                (0, WindowContents::Floats(of)) => of,
                _ => of,
            };
            // SAFETY: what waits there came by an access of these bytes; a window is never on two
            // pages.
            unsafe { self.put_together(base, of, Moment::Ends) };
            if there == WindowContents::Constants && self.waiting.get(&base).is_some_and(|all| self.is_stuck(all)) {
                self.waiting.remove(&base);
                // SAFETY: the same.
                unsafe { (base as *mut u64).write(NO_NUMBER) };
            }
        }
        let rest = |base: usize| move |w: &WaitingBytes| (base, w.record, w.have, w.shift);
        let rests: Vec<(usize, u32, Mask, isize)> =
            self.waiting.iter().flat_map(|(&base, all)| all.iter().map(rest(base))).collect();
        for (base, record, bytes, shift) in rests {
            let size = match known(base) {
                _ if known((base as isize + shift) as usize) == WindowContents::Floats(WINDOW) => WINDOW,
                WindowContents::Floats(size) => size,
                WindowContents::Unknown => self.records[record as usize].of.max(HALF),
                WindowContents::Nothing if (0..WINDOW).any(|i| holds_floats(base + i)) => HALF,
                WindowContents::Nothing | WindowContents::Constants => continue,
            };
            self.lost |= !self.ends(record, bytes, size);
        }
        let stuck = |all: &[WaitingBytes]| self.is_stuck(all);
        // The first, whatever order they are in.
        match self.waiting.iter().filter(|(_, all)| stuck(all)).map(|x| *x.0).min() {
            Some(base) => Err(StrayPieces(Some(base))),
            None if self.lost => Err(StrayPieces(None)),
            None => Ok(()),
        }
    }
}

/// # Safety
/// There is a number at `p`.
unsafe fn add_number<T: Copy>(p: *mut T, x: T, sum: impl Fn(T, T) -> T) {
    // SAFETY: our contract; no alignment is assumed.
    unsafe { p.write_unaligned(sum(p.read_unaligned(), x)) };
}
