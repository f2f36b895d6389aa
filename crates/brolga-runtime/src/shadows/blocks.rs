//! Heap blocks of one run: which blocks the primal owns, and the shadows that go with them.
//!
//! **Problem.** The pullback reads and writes the shadow of a block that the primal may have freed
//! long ago, and it may run several times; the primal block itself may be needed too, when the
//! pullback reloads from it instead of recording.
//!
//! **Answer.** A shadow lives from its primal's allocation to the end of the run. Each shadow
//! carries a header with its size and a link to the one made before it, so that the pullback finds
//! the size from the shadow alone and the run frees all of them without any other list:
//!
//! ```text
//!   newest -> [ next | size | shadow bytes ... ] -> [ next | size | ... ] -> null
//!                             ^ address that primal address + delta gives; 16-byte aligned, as malloc's
//! ```
//!
//! `live` maps the address of each block that the primal has not freed to its shadow. It answers
//! `realloc`'s question how large the old block was, and tells our blocks from others. Addresses
//! return after a `free`, hence a map that forgets.
//!
//! A shadow of [`MAPPED`] bytes or more is a mapping of its own, so that only its pages that are
//! touched take memory: what `calloc` gives again after the primal's `free` it fills with zeros,
//! and a program that allocates and frees a large block in a loop would have as much memory as all
//! of these blocks together.
//!
//! Forward mode has no pullback: there a shadow is free for another block of its size as soon as
//! its primal is freed.
//!
//! **Invariants.** Every shadow is in the list exactly once. Every value in `live` is in the list.
//! `deferred` holds primal blocks that the primal has freed and only the pullback will use. A block
//! that the primal never freed belongs to its caller, and is left alone.
//!
//! **Cost.** A hash for each block that is allocated or freed, and sixteen bytes or so beside each
//! shadow; memory for all blocks of a run until it is over, but for pages of large shadows that
//! were not touched.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

use memmap2::MmapMut;

/// Bytes from which on a shadow is a mapping: four pages, which take about as long to fill as to
/// map.
const MAPPED: usize = 1 << 14;

#[repr(C, align(16))]
struct Header {
    next: Option<NonNull<Header>>,
    size: usize,
}

/// The shadow bytes of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shadow(NonNull<Header>);

impl Shadow {
    /// The shadow whose bytes begin at `address`.
    ///
    /// # Safety
    /// `address` was returned by [`Shadow::bytes`] of a shadow that is still alive.
    pub(crate) unsafe fn at(address: NonNull<u8>) -> Self {
        // SAFETY: bytes follow their header, so the header lies in the same allocation.
        Self(unsafe { address.cast::<Header>().sub(1) })
    }

    /// Its first byte.
    pub(crate) fn bytes(self) -> NonNull<u8> {
        // SAFETY: the allocation begins with a header, so one past the header is inside it or at
        // its end.
        unsafe { self.0.add(1).cast() }
    }

    /// How many bytes it has: as many as its primal was asked for.
    pub(crate) fn size(self) -> usize {
        // SAFETY: a `Shadow` is made only from the header of a living shadow.
        unsafe { (*self.0.as_ptr()).size }
    }

    /// Fill it with zeros. Pages of a mapping are given back for that, since most may not have been
    /// touched.
    pub(crate) fn clear(self) {
        let mut rest = self.size();
        #[cfg(target_os = "linux")]
        if rest >= MAPPED {
            // SAFETY: sysconf only asks.
            let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
            let begun = page - size_of::<Header>();
            if begun < rest {
                // SAFETY: whole pages of a mapping that begins with the header; what is given back
                // reads as zeros.
                let gone = unsafe {
                    let second = self.0.as_ptr().byte_add(page).cast();
                    libc::madvise(second, rest - begun, libc::MADV_DONTNEED)
                };
                if gone == 0 {
                    rest = begun;
                }
            }
        }
        // SAFETY: there are as many bytes.
        unsafe { self.bytes().write_bytes(0, rest) };
    }
}

/// The blocks of a run.
#[derive(Default)]
pub(crate) struct Blocks {
    newest: Option<NonNull<Header>>,
    /// Map from the address of a block that the primal owns to its shadow.
    live: HashMap<usize, Shadow>,
    /// Blocks that a task has freed and not allocated, if this is one.
    freed_elsewhere: Vec<usize>,
    /// Where large shadows are.
    mapped: Vec<MmapMut>,
    /// Shadows whose blocks are gone and which nothing reads any more, by size.
    spare: HashMap<usize, Vec<Shadow>>,
    /// Blocks whose `free` waits for the end of the run.
    deferred: Vec<NonNull<c_void>>,
    /// Blocks of the program's own allocator that wait to be released, each with its instance, and
    /// how many have been.
    waiting: (Vec<(u64, u32)>, usize),
    /// Where shadows are, if that may be asked for: from the first byte on, so many.
    ranges: Option<BTreeMap<usize, usize>>,
    /// Whether these are of a task of a fork, whose parent has blocks of its own.
    pub(crate) of_task: bool,
}

impl Blocks {
    /// Whether there is nothing to release.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none() && self.live.is_empty() && self.deferred.is_empty() && self.waiting.0.is_empty()
    }

    /// A zeroed shadow for the block of `size` bytes at `primal`; `None` if there is no memory for
    /// it.
    pub(crate) fn add(&mut self, primal: NonNull<u8>, size: usize) -> Option<Shadow> {
        let made = self.make(primal, size)?;
        if let Some(ranges) = &mut self.ranges {
            ranges.insert(made.bytes().as_ptr() as usize, size);
        }
        Some(made)
    }

    /// The same, without noting where.
    fn make(&mut self, primal: NonNull<u8>, size: usize) -> Option<Shadow> {
        if let Some(spare) = self.spare.get_mut(&size).and_then(Vec::pop) {
            spare.clear();
            self.live.insert(primal.as_ptr() as usize, spare);
            return Some(spare);
        }
        let bytes = size.checked_add(size_of::<Header>())?;
        let start = if size >= MAPPED {
            let mut map = MmapMut::map_anon(bytes).ok()?;
            let start = map.as_mut_ptr().cast();
            self.mapped.push(map);
            start
        } else {
            // SAFETY: calloc may be called with any sizes.
            unsafe { libc::calloc(1, bytes) }
        };
        let header = NonNull::new(start)?.cast::<Header>();
        // SAFETY: the allocation is large enough for a header, and malloc's alignment is a
        // header's.
        unsafe { header.write(Header { next: self.newest, size }) };
        self.newest = Some(header);
        self.live.insert(primal.as_ptr() as usize, Shadow(header));
        Some(Shadow(header))
    }

    /// Note from now on where shadows are.
    pub(crate) fn note_ranges(&mut self) {
        self.ranges.get_or_insert_default();
    }

    /// The shadow that a byte lies in.
    pub(crate) fn around(&self, at: usize) -> Option<Range<usize>> {
        let (&from, &size) = self.ranges.as_ref()?.range(..=at).next_back()?;
        (at - from < size.max(1)).then_some(from..from + size)
    }

    /// The shadow of a block that the primal owns.
    pub(crate) fn get(&self, primal: NonNull<u8>) -> Option<Shadow> {
        self.live.get(&(primal.as_ptr() as usize)).copied()
    }

    /// The primal frees a block, ours or another's: now, or at the end of the run.
    ///
    /// # Safety
    /// As for C's `free`.
    pub(crate) unsafe fn free(&mut self, primal: NonNull<u8>, deferred: bool) {
        if self.live.remove(&(primal.as_ptr() as usize)).is_none() && self.of_task {
            self.freed_elsewhere.push(primal.as_ptr() as usize);
        }
        if deferred {
            self.deferred.push(primal.cast());
        } else {
            // SAFETY: our caller's obligation.
            unsafe { libc::free(primal.as_ptr().cast()) };
        }
    }

    /// The primal frees a block, and its shadow may be another block's from then on: forward mode
    /// has no pullback that would read it.
    ///
    /// # Safety
    /// As for C's `free`.
    pub(crate) unsafe fn free_both(&mut self, primal: NonNull<u8>) {
        if let Some(shadow) = self.get(primal) {
            self.spare.entry(shadow.size()).or_default().push(shadow);
        }
        // SAFETY: our caller's obligation.
        unsafe { self.free(primal, false) };
    }

    /// The program releases a block of its own; not yet.
    pub(crate) fn wait(&mut self, instance: u64, block: u32) {
        self.waiting.0.push((instance, block));
    }

    /// The next block that has waited; `None` after the last.
    pub(crate) fn next_waiting(&mut self) -> Option<(u64, u32)> {
        let (all, at) = &mut self.waiting;
        let next = all.get(*at).copied();
        *at += 1;
        if next.is_none() {
            all.clear();
            *at = 0;
        }
        next
    }

    /// Free every shadow and every deferred block.
    pub(crate) fn release(&mut self) {
        let Self { newest, live, mapped, spare, deferred, waiting, freed_elsewhere, ranges, .. } = self;
        live.clear();
        freed_elsewhere.clear();
        ranges.iter_mut().for_each(BTreeMap::clear);
        spare.clear();
        waiting.0.clear();
        waiting.1 = 0;
        let mut next = newest.take();
        while let Some(header) = next {
            // SAFETY: the list holds living shadows, each once; this one is read, then freed, then
            // forgotten.
            unsafe {
                let Header { next: older, size } = header.read();
                next = older;
                if size < MAPPED {
                    libc::free(header.as_ptr().cast());
                }
            }
        }
        mapped.clear();
        for block in deferred.drain(..) {
            // SAFETY: the primal asked for it, once, and we waited.
            unsafe { libc::free(block.as_ptr()) };
        }
    }

    /// The blocks of a task whose fork is over are these, and those that it has freed are gone.
    pub(crate) fn adopt(&mut self, of_task: &mut Blocks) {
        for gone in of_task.freed_elsewhere.drain(..) {
            if self.live.remove(&gone).is_none() && self.of_task {
                self.freed_elsewhere.push(gone);
            }
        }
        self.live.extend(of_task.live.drain());
        if let (Some(ranges), Some(of_task)) = (&mut self.ranges, &mut of_task.ranges) {
            ranges.append(of_task);
        }
    }

    /// How many shadows there are.
    #[cfg(test)]
    pub(crate) fn shadows(&self) -> usize {
        let next = |header: &NonNull<Header>| {
            // SAFETY: the list holds living shadows.
            unsafe { (*header.as_ptr()).next }
        };
        std::iter::successors(self.newest, next).count()
    }

    /// How many blocks wait to be freed.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.deferred.len()
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.release();
    }
}

/// C's `malloc`.
pub(crate) fn allocate(size: usize) -> Option<NonNull<u8>> {
    // SAFETY: malloc may be called with any size.
    NonNull::new(unsafe { libc::malloc(size) }).map(NonNull::cast)
}

/// C's `calloc`.
pub(crate) fn allocate_zeroed(count: usize, size: usize) -> Option<NonNull<u8>> {
    // SAFETY: calloc may be called with any sizes.
    NonNull::new(unsafe { libc::calloc(count, size) }).map(NonNull::cast)
}

/// Undo an allocation that has not been handed out.
///
/// # Safety
/// `block` came from [`allocate`] or [`allocate_zeroed`] and was not handed out.
pub(crate) unsafe fn withdraw(block: NonNull<u8>) {
    // SAFETY: our caller's obligation.
    unsafe { libc::free(block.as_ptr().cast()) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Bytes of memory that this process has.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let pages: usize = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number of pages");
        pages * 4096
    }

    #[test]
    fn large_shadows_take_what_is_touched() {
        const SIZE: usize = 1 << 20;
        const N: usize = 400;
        let mut blocks = Blocks::default();
        let before = resident();
        for _ in 0..N {
            let primal = allocate(SIZE).expect("there is memory");
            // SAFETY: the block has so many bytes, the shadow as many, and the block is not used
            // any more.
            unsafe {
                primal.as_ptr().write_bytes(1, SIZE);
                let shadow = blocks.add(primal, SIZE).expect("there is memory");
                let ends = || [shadow.bytes().read(), shadow.bytes().add(SIZE - 1).read()];
                assert_eq!((shadow.size(), ends()), (SIZE, [0, 0]));
                shadow.bytes().write(1);
                shadow.bytes().add(SIZE - 1).write(1);
                shadow.clear();
                assert_eq!(ends(), [0, 0]);
                blocks.free(primal, false);
            }
        }
        let taken = resident().saturating_sub(before);
        assert!(taken < N * SIZE / 4, "{taken} bytes for {N} shadows of which two bytes are touched");
        assert_eq!(blocks.shadows(), N);
        blocks.release();
        assert!(blocks.is_empty());
    }
}
