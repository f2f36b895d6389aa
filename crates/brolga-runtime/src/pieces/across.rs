//! Doubles that lie across two windows, at 4 modulo 8: in packed records, after a header of four
//! bytes.
//!
//! **Problem.** Each half of such a double is in another window, so it is in another record, and a
//! record alone does not say that two halves stood in one cotangent.
//!
//! **Answer.** A record also has what stood in the windows before and after its own when it was
//! noted, with what had been taken from there before. The upper half of a window and the lower half
//! of the next are one double's if each had the other beside it. A lower half of zeros need not
//! come: it may have no record, and a number without its last digits is that number. So may one
//! that a number has replaced in what the double has become: it is noted by its address.
//!
//! Nothing is put into the shadow before it is settled what lies there, by a store of a double or
//! at the end of the run: eight bytes at a multiple of eight may be halves of two. (At an address
//! that is no multiple of four: [`super::odd`].)
//!
//! **Cost.** Where doubles are known to lie at multiples of eight, nothing: the windows beside are
//! neither read nor kept.
//!
//! **Errs** on the side of a trap, where a place has had other numbers since.

use super::{HALF, Mask, PAGE, Pieces, TicketPart, WINDOW, WindowRecord, add_number, low};

/// In place of the size of a float: doubles that need not lie at multiples of eight
/// (`brolga_ir::inst::DOUBLES_ANYWHERE`).
pub(crate) const ANYWHERE: u64 = 0x88;

/// Half of a record: which record, and its first byte.
type Half = (u32, usize);

/// Read what need not be there.
#[cfg(target_os = "linux")]
pub(crate) fn read(at: usize) -> Option<[u8; WINDOW]> {
    let mut bytes = [0; WINDOW];
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: WINDOW };
    let there = libc::iovec { iov_base: at as *mut _, iov_len: WINDOW };
    // SAFETY: the kernel writes to our bytes, and answers with an error where the others cannot be
    // read.
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &ours, 1, &there, 1, 0) };
    (n == WINDOW as isize).then_some(bytes)
}

/// Nothing says whether it is there.
#[cfg(not(target_os = "linux"))]
pub(crate) fn read(_at: usize) -> Option<[u8; WINDOW]> {
    None
}

/// The second half.
fn last(bytes: &[u8; WINDOW]) -> [u8; HALF] {
    *bytes.last_chunk().expect("a half is less than the whole")
}

impl WindowRecord {
    fn half(&self, at: usize) -> [u8; HALF] {
        std::array::from_fn(|i| self.bytes[at + i])
    }
}

impl Pieces {
    /// A window beside another one as it was before anything was taken from it, if it can be read.
    /// Windows of one page can, if one of them can.
    ///
    /// # Safety
    /// The window at `near` is valid.
    pub(crate) unsafe fn beside(&self, near: usize, at: usize) -> Option<[u8; WINDOW]> {
        // SAFETY: our contract; a page is readable or not.
        let there = || Some(unsafe { super::window_at(at) });
        let mut bytes = if near / PAGE == at / PAGE { there() } else { read(at).map(super::without_signs_of_zero) }?;
        for half in [0, HALF] {
            let Some(&record) = self.last.get(&(at + half)) else { continue };
            let r = &self.records[record as usize];
            let away = |i: usize| r.away & 1 << i != 0;
            // Something else may have come there since.
            if (half..half + HALF).all(|i| bytes[i] == if away(i) { 0 } else { r.bytes[i] }) {
                bytes[half..half + HALF].copy_from_slice(&r.bytes[half..half + HALF]);
            }
        }
        Some(bytes)
    }

    /// Whether two halves are those of one double.
    pub(crate) fn one_double(&self, (first, i): Half, (second, j): Half) -> bool {
        let (a, b) = (&self.records[first as usize], &self.records[second as usize]);
        if [a, b].iter().any(|r| !matches!(r.of, 0 | WINDOW)) {
            return false;
        }
        if first == second {
            return (i, j) == (0, HALF);
        }
        let (Some(before), Some(after)) = (b.before, a.after) else { return false };
        let as_noted = *low(&after) == b.half(0) && last(&before) == a.half(HALF);
        (i, j) == (HALF, 0) && a.home != 0 && b.home == a.home + WINDOW && as_noted
    }

    /// The halves that wait at a multiple of four.
    fn halves_at(&self, at: usize) -> Vec<Half> {
        let base = at & !(WINDOW - 1);
        let all = self.waiting.get(&base).map_or(&[][..], Vec::as_slice);
        let half = |w: &super::WaitingBytes| {
            let first = usize::try_from((at - base) as isize - w.shift).ok()?;
            (first.is_multiple_of(HALF) && first < WINDOW && w.have & 0xf << first == 0xf << first)
                .then_some((w.record, first))
        };
        all.iter().filter_map(half).collect()
    }

    /// A half is added, or given up: it no longer waits.
    fn take_half(&mut self, at: usize, (record, first): Half) {
        let base = at & !(WINDOW - 1);
        let Some(all) = self.waiting.get_mut(&base) else { return };
        let mask: Mask = 0xf << first;
        let shift = (at - base) as isize - first as isize;
        let ours = all.iter_mut().filter(|w| w.record == record && w.shift == shift);
        ours.for_each(|w| w.have &= !mask);
        all.retain(|w| w.have != 0);
        if all.is_empty() {
            self.waiting.remove(&base);
        }
        self.done(record, mask);
    }

    /// Put halves of a window back that have been taken from here, where nothing else has happened
    /// since, with what has come of them already. The halves of the doubles that they are may be
    /// elsewhere.
    ///
    /// # Safety
    /// The window is valid.
    pub(crate) unsafe fn half_comes_home(&mut self, base: usize, record: u32, bytes: Mask) -> bool {
        // SAFETY: our contract.
        let there = unsafe { super::window_at(base) };
        let here = self.waiting.get(&base).and_then(|all| all.iter().find(|w| w.record == record && w.shift == 0));
        let all = bytes | here.map_or(0, |w| w.have);
        let r = &self.records[record as usize];
        let is_back = |half: usize| {
            let mask = 0xf << half;
            let last = self.last.get(&(base + half)) == Some(&record);
            all & mask == mask && r.away & mask == mask && last && there[half..half + HALF] == [0; HALF]
        };
        let back = [0, HALF].into_iter().filter(|&half| is_back(half)).fold(0, |m, half| m | 0xf << half);
        let is_home = r.home == base && bytes & !back == 0;
        // SAFETY: our contract.
        if !is_home || !unsafe { self.takes_digits_home(base, record, back) } {
            return false;
        }
        if let Some(waiting) = self.waiting.get_mut(&base) {
            waiting.iter_mut().filter(|w| w.record == record && w.shift == 0).for_each(|w| w.have &= !back);
            waiting.retain(|w| w.have != 0);
            if waiting.is_empty() {
                self.waiting.remove(&base);
            }
        }
        let r = &mut self.records[record as usize];
        r.under_way -= back.count_ones();
        // Last digits that have been given up.
        let alone = back == 0xf0 && r.cut & 0xf == 0xf && there[..HALF] == [0; HALF];
        let back = if alone { 0xff } else { back };
        for i in (0..WINDOW).filter(|i| back & 1 << i != 0) {
            // SAFETY: the byte lies in the window.
            unsafe { (base as *mut u8).add(i).write(r.bytes[i]) };
        }
        (r.left, r.away, r.cut) = (r.left | back, r.away & !back, r.cut & !back);
        for half in [0, HALF].into_iter().filter(|half| back & 0xf << half != 0) {
            self.open.insert(base + half, record);
        }
        if self.records[record as usize].left == 0xff {
            self.close(base, record);
            self.forget(record);
        }
        true
    }

    /// Of a double in two windows of which the upper half comes home, put the last digits back that
    /// have been given up. False if something else is there.
    ///
    /// # Safety
    /// The window is valid, and so is the one before it if something was taken there.
    pub(crate) unsafe fn takes_digits_home(&mut self, base: usize, record: u32, bytes: Mask) -> bool {
        let at = base.wrapping_sub(HALF);
        let r = &self.records[record as usize];
        let Some(&digits) = self.dropped.get(&at).filter(|_| bytes & 0xf == 0xf) else { return true };
        if r.before.map(|w| last(&w)) != Some(digits) {
            return true;
        }
        // SAFETY: our contract.
        let there = unsafe { (at as *const [u8; HALF]).read() };
        if there == [0; HALF] {
            // SAFETY: the same.
            unsafe { (at as *mut [u8; HALF]).write(digits) };
            self.dropped.remove(&at);
        }
        there == [0; HALF]
    }

    /// Some bytes of a record have been given up, as last digits: so is what the upper half of a
    /// window has of a double in two.
    pub(crate) fn drop_across(&mut self, record: u32) {
        let r = &self.records[record as usize];
        if self.across && r.home != 0 && r.cut & 0xf0 == 0xf0 {
            self.dropped.insert(r.home + HALF, last(&r.bytes));
        }
    }

    /// Whether half of a window is zero because it has been taken, while the other half is as it
    /// was then: there is nothing more to take.
    pub(crate) fn is_taken(&self, base: usize, half: usize, there: &[u8; WINDOW]) -> bool {
        let Some(&record) = self.last.get(&(base + half)) else { return false };
        let r = &self.records[record as usize];
        let as_it_was = |i: usize| there[i] == if r.away & 1 << i != 0 { 0 } else { r.bytes[i] };
        let mask = 0xf << half;
        self.across && r.away & mask == mask && (0..WINDOW).all(as_it_was)
    }

    /// What had been taken of a double at 4 modulo 8 has been put back.
    pub(crate) fn put_back(&mut self, at: usize) {
        for half in [at, at + HALF] {
            if let Some(&record) = self.last.get(&half) {
                self.records[record as usize].away &= !(0xf << (half % WINDOW));
            }
        }
    }

    /// Whether a double at 4 modulo 8 has been taken in part.
    ///
    /// # Safety
    /// Its windows are valid.
    pub(crate) unsafe fn torn_at(&self, at: usize) -> bool {
        [(at, at + HALF), (at + HALF, at)].into_iter().any(|(half, other)| {
            let Some(&record) = self.last.get(&half) else { return false };
            let r = &self.records[record as usize];
            let mask = 0xf << (half % WINDOW);
            if r.away & mask == 0 {
                return false;
            }
            // SAFETY: our contract; both halves lie in the windows.
            let [here, beside] = [half, other].map(|p| unsafe { (p as *const [u8; HALF]).read() });
            let was = if other > half { r.after.map(|w| *low(&w)) } else { r.before.map(|w| last(&w)) };
            let digits = self.any(record, mask);
            r.away & mask != mask && here != [0; HALF]
                || digits && beside != [0; HALF] && was.is_none_or(|was| was == beside)
        })
    }

    /// Doubles have been written to `n` bytes at `p`, which is 4 modulo 8: add what waits for them.
    /// True; `known` becomes false if the cotangent of one has been taken in part.
    ///
    /// # Safety
    /// The bytes and the windows that they lie in are valid.
    pub(crate) unsafe fn settle_across(&mut self, p: usize, n: usize, known: &mut bool) -> bool {
        for at in (p..p + n).step_by(WINDOW) {
            // SAFETY: our contract.
            if unsafe { self.torn_at(at) } {
                *known = false;
            } else {
                // SAFETY: the same.
                unsafe { self.doubles_at(at, true) };
            }
        }
        true
    }

    /// Add the doubles that wait at a multiple of four, of which no part has been taken.
    ///
    /// # Safety
    /// Their windows are valid.
    pub(crate) unsafe fn doubles_at(&mut self, at: usize, all: bool) {
        // SAFETY: our contract.
        let add = |bytes: [u8; WINDOW]| unsafe { add_number(at as *mut f64, f64::from_le_bytes(bytes), |x, y| x + y) };
        let (lows, mut highs) = (self.halves_at(at), self.halves_at(at + HALF));
        for low in lows {
            if let Some(n) = highs.iter().position(|&high| self.one_double(low, high)) {
                let high = highs.swap_remove(n);
                add(self.joined(Some(low), high));
                self.take_half(at, low);
                self.take_half(at + HALF, high);
            }
        }
        highs.retain(|&high| all && self.is_alone(high));
        for high in highs {
            add(self.joined(None, high));
            self.take_half(at + HALF, high);
        }
    }

    /// The sum of the doubles that some parts are of which each half is in another record, and the
    /// other parts.
    pub(crate) fn sum_across(&self, parts: &[TicketPart]) -> (f64, Vec<TicketPart>) {
        let bytes_at = |record: u32, at: isize| {
            let same = parts.iter().filter(|part| (part.record, part.at) == (record, at));
            same.fold(0, |m, part| m | part.bytes)
        };
        let halves = |at: isize, first: usize| {
            let mut found: Vec<Half> =
                parts.iter().filter(|part| part.at == at).map(|part| (part.record, first)).collect();
            found.sort_unstable();
            found.dedup();
            found.retain(|&(record, _)| bytes_at(record, at) == 0xf << first);
            found
        };
        const AT: isize = HALF as isize;
        let (lows, mut highs) = (halves(-AT, HALF), halves(AT, 0));
        let (mut sum, mut used) = (0.0, Vec::new());
        for low in lows {
            if let Some(n) = highs.iter().position(|&high| self.one_double(low, high)) {
                let high = highs.swap_remove(n);
                sum += f64::from_le_bytes(self.joined(Some(low), high));
                used.extend([(low.0, -AT), (high.0, AT)]);
            }
        }
        for high in highs.into_iter().filter(|&high| self.is_alone(high)) {
            sum += f64::from_le_bytes(self.joined(None, high));
            used.push((high.0, AT));
        }
        (sum, parts.iter().filter(|part| !used.contains(&(part.record, part.at))).copied().collect())
    }

    /// Whether the upper half of a double had a window of zeros before it, or last digits that
    /// have been given up. (What is zero may be the lower half of another one.)
    fn is_alone(&self, (record, first): Half) -> bool {
        let r = &self.records[record as usize];
        first == 0
            && self.any(record, 0xf)
            && matches!(r.of, 0 | WINDOW)
            && r.before
                .map(|w| last(&w))
                .is_some_and(|digits| digits == [0; HALF] || self.dropped.get(&(r.home - HALF)) == Some(&digits))
    }

    /// The bytes of a double, whose lower half may be none of its own ([`Self::is_alone`]).
    fn joined(&self, first: Option<Half>, second: Half) -> [u8; WINDOW] {
        let half = |(record, at): Half| self.records[record as usize].half(at);
        let before = self.records[second.0 as usize].before.map_or([0; HALF], |w| last(&w));
        let (first, second) = (first.map_or(before, half), half(second));
        std::array::from_fn(|i| if i < HALF { first[i] } else { second[i - HALF] })
    }
}
