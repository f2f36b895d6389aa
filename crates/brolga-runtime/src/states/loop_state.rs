//! States of loops: what steps change, kept and put back.
//!
//! **Question.** The steps of a loop change bytes that the program has named ([`ProgramState`]),
//! values that one step hands on to the next, and perhaps memory of which it is not known what they
//! change there: that of an instance. What is kept of all that?
//!
//! **Answer.** Of such memory the pages that differ from those that were there when the first state
//! was kept, whose *image* has the pages that are not full of zeros:
//!
//! ```text
//!   a copy:   bytes of all named parts │ values │ for each page: part, number │ its bytes │ …
//! ```
//!
//! **Invariants.** All that may differ is looked at, however far memory has grown since. Values are
//! in no checksum: a gradient that runs in one function does not give them back.
//!
//! **Cost.** A comparison of all pages with those of the image for each question, and 4 KiB for
//! each page that differs.

use std::hash::Hasher;

use crate::states::{ProgramState, StateFault, WordHasher, hash, lend};

/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes before a page in a copy.
const PAGE_HEAD: usize = 8;
/// Bytes of a value.
pub(crate) const VALUE: usize = 16;
/// Pages that a state is taken to have until one has been seen.
const GUESS: usize = 4;
/// Bytes that a state with pages has at least, where the question is whether a step is recorded on
/// trial.
const FEW: usize = 1024;

static ZEROS: [u8; PAGE] = [0; PAGE];

/// What a part of a state is.
pub mod part {
    /// Bytes, all of which are kept.
    pub const BYTES: u64 = 0;
    /// Pages.
    pub const PAGES: u64 = 1;
    /// Pages, and in place of a length the address where it is stored.
    pub const PAGES_UP_TO: u64 = 2;
    /// The object around an address.
    pub const OBJECT: u64 = 3;
}

/// What the steps of a loop change.
pub(crate) struct LoopState {
    is_known: bool,
    bytes: ProgramState,
    memory: Vec<PagedMemory>,
    /// What the next step is given, and what there is after the loop; the first ones are kept.
    pub(crate) values: Box<[u128]>,
    stored_values: usize,
    /// Most pages that a state has had.
    pages: usize,
    /// Pages that differ now: part and number.
    changed: Vec<(u32, u32)>,
}

/// Memory of which pages are kept.
struct PagedMemory {
    base: *mut u8,
    length: MemoryLength,
    /// Most bytes that it has had.
    most: usize,
    /// Its pages when the first state was kept; none for zeros.
    image: Vec<Option<Box<[u8; PAGE]>>>,
}

enum MemoryLength {
    Bytes(usize),
    StoredAt(*const u64),
}

impl PagedMemory {
    fn new(at: u64, length: MemoryLength) -> Self {
        Self { base: at as *mut u8, length, most: 0, image: Vec::new() }
    }

    /// See how far it reaches now.
    fn measure(&mut self) {
        let now = match self.length {
            MemoryLength::Bytes(n) => n,
            // SAFETY: the program says that the length is stored there.
            MemoryLength::StoredAt(at) => unsafe { at.read() as usize },
        };
        self.most = self.most.max(now);
    }

    /// A page, which may be shorter at the end.
    fn page(&self, index: usize) -> &[u8] {
        let len = PAGE.min(self.most - index * PAGE);
        // SAFETY: memory of the instance, which does not shrink.
        unsafe { std::slice::from_raw_parts(self.base.add(index * PAGE), len) }
    }

    /// The same of the image.
    fn of_image(&self, index: usize) -> &[u8; PAGE] {
        self.image.get(index).and_then(|p| p.as_deref()).unwrap_or(&ZEROS)
    }

    fn take_image(&mut self) {
        let copied = |i| {
            let (page, mut copy) = (self.page(i), Box::new(ZEROS));
            copy[..page.len()].copy_from_slice(page);
            (*copy != ZEROS).then_some(copy)
        };
        self.image = (0..self.most.div_ceil(PAGE)).map(copied).collect();
    }

    /// Pages that differ from those of the image.
    fn changed(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.most.div_ceil(PAGE)).filter(|&i| {
            let page = self.page(i);
            *page != self.of_image(i)[..page.len()]
        })
    }

    /// Let a page be as it was.
    fn put_back(&self, index: usize, was: &[u8]) {
        let page = self.page(index);
        if *page != was[..page.len()] {
            // SAFETY: as in `page`; nothing else refers to it now.
            unsafe { self.base.add(index * PAGE).copy_from_nonoverlapping(was.as_ptr(), page.len()) };
        }
    }
}

impl LoopState {
    /// Of words: address, length and kind of each part by turns. Of all values the first ones are
    /// kept. `objects` are those that are known: address and length.
    pub(crate) fn new(
        words: &[u64],
        (stored_values, values): (usize, usize),
        objects: impl Iterator<Item = (u64, u64)> + Clone,
    ) -> Result<Self, StateFault> {
        let (mut bytes, mut memory, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_known = true;
        // An argument may lie in what the program has said itself.
        let has_objects = words.chunks(3).any(|part| part[2] == part::OBJECT);
        for part in words.chunks(3) {
            match part[2] {
                part::BYTES | part::PAGES if has_objects => found.push((part[0], part[1])),
                part::BYTES => bytes.extend_from_slice(&part[..2]),
                part::PAGES => memory.push(PagedMemory::new(part[0], MemoryLength::Bytes(part[1] as usize))),
                part::PAGES_UP_TO => {
                    memory.push(PagedMemory::new(part[0], MemoryLength::StoredAt(part[1] as *const u64)));
                }
                _ => {
                    // An address after the last byte may be that of the object, or of the next.
                    let around = || objects.clone().filter(|&(at, n)| part[0].wrapping_sub(at) <= n);
                    is_known &= around().next().is_some();
                    found.extend(around());
                }
            }
        }
        for (at, n) in merged(found) {
            if n <= PAGE as u64 {
                bytes.extend([at, n]);
            } else {
                memory.push(PagedMemory::new(at, MemoryLength::Bytes(n as usize)));
            }
        }
        let values = vec![0; values].into_boxed_slice();
        let pages = if memory.is_empty() { 0 } else { GUESS };
        Ok(Self {
            is_known,
            bytes: ProgramState::new(&bytes)?,
            memory,
            values,
            stored_values,
            pages,
            changed: Vec::new(),
        })
    }

    /// Whether it is known how far it reaches; if not, no state can be kept.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether these bytes are among its own, as far as it is known.
    pub(crate) fn holds(&self, at: usize, n: usize) -> bool {
        let in_pages = |m: &PagedMemory| {
            let length = if let MemoryLength::Bytes(length) = m.length { length } else { usize::MAX };
            at.checked_sub(m.base as usize).and_then(|from| from.checked_add(n)).is_some_and(|end| end <= length)
        };
        !self.is_known || self.bytes.holds(at, n) || self.memory.iter().any(in_pages)
    }

    /// Whether there is memory of which pages are kept, so that states may differ in length.
    pub(crate) fn is_paged(&self) -> bool {
        !self.memory.is_empty()
    }

    /// Bytes of a copy, at most, as far as it is known.
    pub(crate) fn bytes(&self) -> usize {
        (self.flat() + self.pages * (PAGE_HEAD + PAGE)).max(1)
    }

    /// Bytes of a copy, at least; few, even where pages are kept.
    pub(crate) fn least_bytes(&self) -> usize {
        let few = if self.is_paged() { FEW } else { 1 };
        self.flat().max(few)
    }

    /// Bytes of a copy without pages.
    fn flat(&self) -> usize {
        self.bytes.bytes() + self.stored_values * VALUE
    }

    /// Bytes of the image.
    pub(crate) fn image_bytes(&self) -> usize {
        self.memory.iter().flat_map(|m| &m.image).flatten().count() * PAGE
    }

    /// States are going to be kept: this is the first one.
    pub(crate) fn begin(&mut self) {
        for m in &mut self.memory {
            m.measure();
            m.take_image();
        }
    }

    /// See how many pages differ now.
    pub(crate) fn count_pages(&mut self) {
        self.memory.iter_mut().for_each(PagedMemory::measure);
        self.pages = self.pages.max(self.memory.iter().map(|m| m.changed().count()).sum());
    }

    fn values_as_bytes(&mut self) -> &mut [u8] {
        // SAFETY: numbers of 16 bytes are as many bytes.
        unsafe { std::slice::from_raw_parts_mut(self.values.as_mut_ptr().cast::<u8>(), self.stored_values * VALUE) }
    }

    /// Copy it; a copy that is not needed any more may lend its memory. A fault leaves this
    /// function at once, so that nothing is held here.
    pub(crate) fn copied(&mut self, spare: &mut Vec<Box<[u8]>>, caller: usize) -> Result<Box<[u8]>, StateFault> {
        self.changed.clear();
        for (m, paged) in self.memory.iter_mut().enumerate() {
            paged.measure();
            self.changed.extend(paged.changed().map(|i| (m as u32, i as u32)));
        }
        self.pages = self.pages.max(self.changed.len());
        let (named, flat) = (self.bytes.bytes(), self.flat());
        let copy = lend(spare, flat + self.changed.len() * (PAGE_HEAD + PAGE))?;
        self.bytes.copy_to(&mut copy[..named], caller);
        copy[named..flat].copy_from_slice(self.values_as_bytes());
        for (at, &(m, i)) in copy[flat..].chunks_mut(PAGE_HEAD + PAGE).zip(&self.changed) {
            at[..4].copy_from_slice(&m.to_le_bytes());
            at[4..8].copy_from_slice(&i.to_le_bytes());
            let page = self.memory[m as usize].page(i as usize);
            let (bytes, rest) = at[PAGE_HEAD..].split_at_mut(page.len());
            bytes.copy_from_slice(page);
            rest.fill(0);
        }
        Ok(spare.pop().expect("just filled"))
    }

    /// Let it be what a copy holds.
    pub(crate) fn put_back(&mut self, copy: &[u8], caller: usize) {
        let (named, flat) = (self.bytes.bytes(), self.flat());
        self.bytes.put_back(&copy[..named], caller);
        self.values_as_bytes().copy_from_slice(&copy[named..flat]);
        let mut pages = copy[flat..].chunks(PAGE_HEAD + PAGE).peekable();
        self.memory.iter_mut().for_each(PagedMemory::measure);
        for (m, paged) in self.memory.iter().enumerate() {
            for i in 0..paged.most.div_ceil(PAGE) {
                let is_it = |at: &&[u8]| at[..4] == (m as u32).to_le_bytes() && at[4..8] == (i as u32).to_le_bytes();
                match pages.next_if(is_it) {
                    Some(at) => paged.put_back(i, &at[PAGE_HEAD..]),
                    None => paged.put_back(i, paged.of_image(i)),
                }
            }
        }
    }

    /// A checksum of all but values, in which all NaNs are alike.
    pub(crate) fn checksum(&mut self, caller: usize) -> u64 {
        self.memory.iter_mut().for_each(PagedMemory::measure);
        let mut hasher = WordHasher::default();
        hasher.write_u64(self.bytes.checksum(caller));
        for (m, paged) in self.memory.iter().enumerate() {
            for i in paged.changed() {
                hasher.write_usize(m);
                hasher.write_usize(i);
                let page = paged.page(i);
                // SAFETY: it is a slice.
                unsafe { hash(&mut hasher, page.as_ptr(), page.len()) };
            }
        }
        hasher.finish()
    }
}

/// Objects that overlap as one.
fn merged(mut all: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    all.retain(|&(_, n)| n > 0);
    all.sort_unstable();
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (at, n) in all {
        match found.last_mut() {
            Some(last) if at < last.0 + last.1 => last.1 = last.1.max(at + n - last.0),
            _ => found.push((at, n)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two arguments and a data object, parts of which are the same memory.
    #[test]
    fn what_overlaps_is_one_part() {
        let mut memory = vec![0_u64; 2000];
        let at = memory.as_mut_ptr() as u64;
        let words = [at + 8, 0, part::OBJECT, at, 16, part::BYTES, at + 8000, 0, part::OBJECT];
        let objects = [(at, 64), (at + 7000, 9000)];
        let mut state = LoopState::new(&words, (0, 0), objects.into_iter()).unwrap();
        assert!(state.is_known() && state.is_paged());
        assert_eq!(state.flat(), 64);
        state.begin();
        let first = state.copied(&mut Vec::new(), 0).unwrap();
        // Of the words one is in both, one in pages only.
        (memory[1], memory[1500]) = (5, 6);
        let changed = state.copied(&mut Vec::new(), 0).unwrap();
        assert_eq!((first.len(), changed.len()), (64, 64 + PAGE_HEAD + PAGE));
        let (before, after) = (state.checksum(0), [memory[1], memory[1500]]);
        state.put_back(&first, 0);
        assert_eq!((memory[1], memory[1500]), (0, 0));
        state.put_back(&changed, 0);
        assert_eq!(([memory[1], memory[1500]], state.checksum(0)), (after, before));
    }

    #[test]
    fn an_address_behind_an_object_may_be_of_two() {
        let words = [0x1040, 0, part::OBJECT];
        let state = LoopState::new(&words, (0, 0), [(0x1000, 64), (0x1040, 32), (0x2000, 8)].into_iter()).unwrap();
        assert_eq!((state.is_known(), state.flat()), (true, 96));
    }

    #[test]
    fn an_object_that_is_not_declared_is_not_known() {
        let words = [0x1000, 0, part::OBJECT];
        assert!(!LoopState::new(&words, (0, 0), [(0x2000, 64)].into_iter()).unwrap().is_known());
    }

    #[test]
    fn pages_behind_the_end_are_zeros_again() {
        let mut memory = vec![1_u64; 1024];
        let size = std::cell::Cell::new(PAGE as u64);
        let words = [memory.as_mut_ptr() as u64, size.as_ptr() as u64, part::PAGES_UP_TO];
        memory[512..].fill(0);
        let mut state = LoopState::new(&words, (0, 0), std::iter::empty()).unwrap();
        state.begin();
        let first = state.copied(&mut Vec::new(), 0).unwrap();
        size.set(2 * PAGE as u64);
        memory[600] = 7;
        let grown = state.copied(&mut Vec::new(), 0).unwrap();
        size.set(PAGE as u64);
        state.put_back(&first, 0);
        assert!(memory[512..].iter().all(|&w| w == 0));
        state.put_back(&grown, 0);
        assert_eq!(memory[600], 7);
    }
}
