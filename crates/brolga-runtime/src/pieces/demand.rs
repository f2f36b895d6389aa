//! Demand: bits from which integer arithmetic has computed what became a float.
//!
//! **Problem.** A program loads an integer, calculates with it, and makes a float of the result. If
//! the integer was a number (the state of a random generator, a count), the float is a constant. If
//! it was the bits of a float, the float depends on that one in a way that no rule describes. The
//! load cannot tell which, nor can an analysis where all memory is one array of bytes.
//!
//! **Answer.** A cotangent that is not zero and arrives at such a float becomes a *demand*: one
//! bit, which goes backwards along the arithmetic, and waits at the place that the integer was
//! loaded from. What the primal had stored there decides:
//!
//! ```text
//! an integer that was computed from others    the demand goes on to those
//! an integer that is a constant               the demand ends
//! a copy of other memory                      the demand waits there
//! a float                                     the run traps: its derivative would be lost
//! nothing, and the caller put floats there    the same, when the run ends
//! ```
//!
//! **Cost.** Nothing in a run in which no demand arises, but the question whether anything waits.
//!
//! **Forks.** A task that runs back knows of the demands of its parent, which may be of what it has
//! stored, and what it has not taken of its own goes on to the parent. Its sums
//! ([`crate::forks::pending`]) are no other places than the shadows that they are pending for.
//!
//! **Errs** on the side of a trap: the bits of two numbers in one word are not told apart.

use std::ops::Range;

use super::{HALF, MOVED, Mask, Pieces, TicketPart, WINDOW, window_at, within};

/// In place of the size of a float: an integer of which it is not known that it is a constant, and
/// for which loads ask that it may have been computed from.
const CHECKED: u64 = u64::MAX;

/// The same where none asks.
const UNASKED: u64 = u64::MAX - 1;

/// The first, where only a demand is of interest.
const DEMANDED: u64 = u64::MAX - 2;

/// The bytes of a window that lie among `n` at `p`.
pub(crate) fn bytes_of(window: usize, p: usize, n: usize) -> Mask {
    within(window as isize - p as isize, 0, n as isize)
}

/// The parts of `n` bytes at `p`, by window.
fn windows(p: usize, n: usize) -> impl Iterator<Item = (usize, Mask)> {
    let first = p & !(WINDOW - 1);
    (first..p + n).step_by(WINDOW).map(move |base| (base, within(base as isize - p as isize, 0, n as isize)))
}

impl Pieces {
    /// Sums and the shadow that they are pending for are one place: how far that is.
    fn to_shadow(&self, p: usize) -> usize {
        self.sums.iter().find(|s| s.0.contains(&p)).map_or(0, |s| s.1)
    }

    /// A task begins to run back, which waits for nothing: it knows what its parent knows. It has
    /// these sums, each so far from the shadow.
    pub(crate) fn begin_task(&mut self, parent: &Self, sums: impl Iterator<Item = (Range<usize>, usize)>) {
        self.demanded.clone_from(&parent.demanded);
        self.sums.clone_from(&parent.sums);
        self.sums.extend(sums);
    }

    /// Tasks have run back: what none of them has taken is still demanded, and what they have left.
    pub(crate) fn end_tasks<'p>(&mut self, tasks: impl Iterator<Item = &'p mut Self>) {
        let before = std::mem::take(&mut self.demanded);
        let mut left = before.clone();
        for task in tasks {
            left.retain(|base, bytes| {
                *bytes &= task.demanded.get(base).copied().unwrap_or_default();
                *bytes != 0
            });
            for (base, bytes) in task.demanded.drain() {
                let more = bytes & !before.get(&base).copied().unwrap_or_default();
                if more != 0 {
                    *self.demanded.entry(base).or_default() |= more;
                }
            }
        }
        for (base, bytes) in left {
            *self.demanded.entry(base).or_default() |= bytes;
        }
    }

    /// Whether cotangents wait: something else than demands.
    pub(crate) fn any_cotangent_waits(&self) -> bool {
        self.places() != self.demanded.len() as u64
    }

    /// A demand arrives at `n` bytes at `p`.
    pub(crate) fn demand(&mut self, p: usize, n: usize) {
        for (base, bytes) in windows(p.wrapping_sub(self.to_shadow(p)), n) {
            *self.demanded.entry(base).or_default() |= bytes;
        }
    }

    /// A cotangent cannot be put together: the run says so when it ends.
    pub(crate) fn lose(&mut self) {
        self.lost = true;
    }

    /// Whether any of `n` bytes at `p` are demanded; they are not any more.
    pub(crate) fn take_demand(&mut self, p: usize, n: usize) -> bool {
        !self.take_demands(p, n).is_empty()
    }

    /// Which of `n` bytes at `p` are demanded, by window; they are not any more.
    pub(crate) fn take_demands(&mut self, p: usize, n: usize) -> Vec<(usize, Mask)> {
        let mut found = Vec::new();
        if self.demanded.is_empty() {
            return found;
        }
        let distance = self.to_shadow(p);
        for (base, bytes) in windows(p.wrapping_sub(distance), n) {
            let Some(there) = self.demanded.get_mut(&base) else { continue };
            found.extend((*there & bytes != 0).then_some((base.wrapping_add(distance), *there & bytes)));
            *there &= !bytes;
            if *there == 0 {
                self.demanded.remove(&base);
            }
        }
        found
    }

    /// The parts of a piece at `p` of which some bytes are demanded: those have no cotangent.
    pub(crate) fn with_demands(
        &mut self,
        p: usize,
        parts: Vec<TicketPart>,
        demanded: &[(usize, Mask)],
    ) -> Vec<TicketPart> {
        let is_demanded = |place: isize| {
            let at = p.wrapping_add_signed(place);
            demanded.iter().any(|&(base, bytes)| at & !(WINDOW - 1) == base && bytes & 1 << (at - base) != 0)
        };
        let mut left = Vec::new();
        for part in parts {
            let is_ours = |i: &usize| part.bytes & 1 << i != 0 && is_demanded(part.at + *i as isize);
            let asked = (0..WINDOW).filter(is_ours).fold(0, |m: Mask, i| m | 1 << i);
            self.done(part.record, asked);
            left.extend((part.bytes != asked).then_some(TicketPart { bytes: part.bytes & !asked, ..part }));
        }
        for &(base, bytes) in demanded {
            let record = self.note([u8::MAX; WINDOW], 0);
            let r = &mut self.records[record as usize];
            (r.left, r.under_way, r.demand) = (0, bytes.count_ones(), true);
            left.push(TicketPart { record, bytes, at: base as isize - p as isize });
        }
        left
    }

    /// A part that stands for a demand comes to where a piece of `n` bytes at `p` was loaded.
    pub(crate) fn demand_part(&mut self, p: usize, n: usize, part: TicketPart) {
        let ours = part.bytes & within(part.at, 0, n as isize);
        for i in (0..WINDOW).filter(|i| ours & 1 << i != 0) {
            self.demand(p.wrapping_add_signed(part.at + i as isize), 1);
        }
        self.done(part.record, part.bytes);
    }

    /// Whether some of `n` bytes from `from` on of what parts are put together to are demanded.
    pub(crate) fn are_demanded(&self, parts: &[TicketPart], from: isize, n: isize) -> bool {
        let asked = |part: &TicketPart| part.bytes & within(part.at, from, from + n) != 0;
        parts.iter().any(|part| self.records[part.record as usize].demand && asked(part))
    }

    /// Demands of `n` bytes at `dst`, which were copied from `src`, go there.
    pub(crate) fn move_demand(&mut self, dst: usize, src: usize, n: usize) {
        if self.demanded.is_empty() {
            return;
        }
        // Overlapping places: all are taken before any is given.
        let taken: Vec<usize> = (0..n).filter(|&i| self.take_demand(dst + i, 1)).collect();
        taken.into_iter().for_each(|i| self.demand(src + i, 1));
    }

    /// Take what has arrived at `n` bytes at `p`, where an integer was stored that had been
    /// computed, and say whether it is anything: a cotangent, a part of one, or a demand.
    ///
    /// # Safety
    /// The bytes and the windows that they lie in are valid.
    pub(crate) unsafe fn take_computed(&mut self, p: usize, n: usize) -> bool {
        let mut any = self.take_demand(p, n);
        for (base, ours) in windows(p, n) {
            // A part of a double has arrived, also if its own bytes are zeros.
            // SAFETY: our contract.
            any |= unsafe { window_at(base) } != [0; WINDOW];
            if let Some(all) = self.waiting.get(&base) {
                let at = base as isize - p as isize;
                any |= all.iter().any(|w| self.any(w.record, w.have & within(at + w.shift, 0, n as isize)));
            }
            for half in [0, HALF] {
                any |= ours & 0xf << half != 0 && self.open.contains_key(&(base + half));
            }
        }
        if any {
            // Of a float of which this is a part the others are not forgotten.
            // SAFETY: our contract.
            unsafe { self.cut(p, n, 0) };
        }
        any
    }
}

/// What a place is said to hold when it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettledContents {
    /// An integer that is a constant.
    Integer,
    /// Another integer, for which loads ask that it may have been computed from.
    Computed,
    /// The same: a cotangent that is no demand ends there.
    Demanded,
    /// One for which none asks.
    Unasked,
    /// An integer that was moved, and may be a float of so many bytes.
    Moved(usize),
    /// A float of so many bytes.
    Float(usize),
}

impl SettledContents {
    /// As generated code says it.
    pub(crate) fn of(elem: u64) -> Self {
        match elem {
            0 => Self::Integer,
            CHECKED => Self::Computed,
            UNASKED => Self::Unasked,
            DEMANDED => Self::Demanded,
            _ if elem & MOVED != 0 => Self::Moved((elem & !MOVED) as usize),
            _ => Self::Float(elem as usize),
        }
    }

    /// The size of a float there, or 0.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Integer | Self::Computed | Self::Demanded | Self::Unasked => 0,
            Self::Moved(size) | Self::Float(size) => size,
        }
    }
}
