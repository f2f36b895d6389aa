//! The tape segment: the one pointer that every derived function receives.
//!
//! **Problem.** The forward pass records an amount of data that is not known in advance, generated
//! code wants to record a value with one compare and one store, and the pullback must find
//! everything where the forward pass left it.
//!
//! **Answer.** A private anonymous mapping, reserved in one piece at the size of the limit and
//! touched page by page as the forward pass gets there. The kernel does the growing, so recording
//! is `top += n` with a check against `limit`, and an address on the tape stays valid until
//! [`Segment::reset`]. The pullback walks `cursor` down from `top`; `top` itself stays, so a
//! pullback can be run again.
//!
//! **The end.** A helper that takes room compares with `limit`. Records of generated code need not,
//! where memory that cannot be accessed begins right at `limit` (the *fence*, on Linux): they are
//! written byte by byte from where the tape ends, without a gap, so the first that does not fit
//! faults, and the fault is reported as the check would be.
//!
//! **Layout.** The first 2256 bytes are read and written by generated code at the offsets in
//! `brolga_ir::lower::segment`; the rest is private.
//!
//! ```text
//!   0  top        forward: next free byte         64  sink    cotangents sent to inactive memory land here
//!   8  limit      first byte beyond the tape     128  zeros   shadow of inactive memory, read only, always zero
//!  16  cursor     pullback: next byte to pop, from above
//!  24  globals    one delta per writable data object
//!  32  captures   derived pairs by primal address
//!  40  peak       highest position of what functions of both halves have recorded and given back
//!  48  waiting    at how many places cotangents wait that have come in pieces
//!  56  pending_sums  of a task that runs back: whether there may be pending sums that it reads
//! 192  sink and zeros once more, 1024 bytes each, for batches of derivatives
//! 2240  asked    whether a number was made of an integer that had been computed and stored
//! 2248  executed of a debug run: how many instructions
//! ```
//!
//! **Invariants.** `base <= cursor <= top <= limit` between calls, and `base <= peak <= limit`;
//! `base` and `limit` are aligned to 16 bytes, but `top` is not aligned at all: a record is as long
//! as what is in it, down to one byte for the number of a block, and generated code reads and
//! writes records without assuming any alignment. `zeros` is never written.
//!
//! **Cost.** Address space of the limit, and as much memory as a run has touched. A run that
//! follows another one touches no new page where that has been.

pub(crate) mod pool;
pub(crate) mod strands;
pub mod workspace;

use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions};

use crate::captures::{CaptureTable, Captures};
use crate::forks::{Executor, Forks, Strand};
use crate::pieces::cut::tears;
use crate::pieces::poison::Poison;
use crate::pieces::tangents::TangentPieces;
use crate::pieces::{HALF, Pieces, StrayPieces, WINDOW, WindowContents};
use crate::shadows::blocks::Blocks;
use crate::shadows::declared::{DeclaredPointer, KnownFloats, SharedInstance};
use crate::shadows::globals::GlobalShadows;
use crate::states::inverses::{InverseFault, InverseStats, Inverses};
use crate::states::loop_files::StateFolder;
use crate::states::loop_stats::{LoopPlan, LoopStats};
use crate::states::loops::{LoopFault, Loops};
use crate::traps::RawTrap;

/// The smallest reservation that [`Segment::new`] falls back to on its own.
pub const MIN_CAPACITY: usize = 1 << 20;

/// Bytes of touched tape that a segment keeps in any case.
const RETAINED: usize = 16 << 20;

/// From here on the tape asks for huge pages: first touching a long tape is several times faster
/// with them, while a short one would pay for clearing more than it uses.
#[cfg(target_os = "linux")]
const HUGE_FROM: usize = 2 << 20;

/// Bytes that stand for a shadow in a batch of derivatives: those of a vector for each of 64.
const WIDE: usize = 16 * 64;

/// As many: aligned as a line is.
#[repr(C, align(64))]
struct WideLine([u8; WIDE]);

/// A cache line: aligned so that generated code may use any vector access on it.
#[repr(C, align(64))]
struct Line([u8; 64]);

/// No address space was left for a tape.
#[derive(Debug, thiserror::Error)]
#[error("cannot reserve {bytes} bytes of address space for a tape: {source}")]
pub struct ReserveError {
    /// The smallest size that was tried.
    pub bytes: usize,
    /// What the system said.
    #[source]
    pub source: std::io::Error,
}

/// A tape and what else belongs to one forward run and its pullbacks. See the module documentation.
#[repr(C, align(64))]
pub struct Segment {
    pub(crate) top: *mut u8,
    pub(crate) limit: *mut u8,
    pub(crate) cursor: *mut u8,
    globals: *const i64,
    captures: *const Captures,
    pub(crate) peak: *mut u8,
    pub(crate) waiting: u64,
    pub(crate) pending_sums: u64,
    sink: Line,
    zeros: Line,
    wide_sink: WideLine,
    wide_zeros: WideLine,
    pub(crate) asked: u64,
    pub(crate) executed: u64,
    mapping: MmapMut,
    /// Where in the mapping the tape is: it ends where a page does.
    place: std::ops::Range<usize>,
    /// Bytes of the tape that may be backed by memory.
    touched: usize,
    /// Heap blocks of the run and their shadows.
    pub(crate) blocks: Blocks,
    /// Cotangents that move in pieces.
    pub(crate) pieces: Pieces,
    /// Cotangents that are not known.
    pub(crate) poison: Poison,
    /// Pieces of floats in forward mode.
    pub(crate) tangent_pieces: TangentPieces,
    /// Time loops of the run.
    pub(crate) loops: Loops,
    /// Calls of the run that inverses undo.
    pub(crate) inverses: Inverses,
    /// Forks of the run, and whose strand this is.
    pub(crate) forks: Forks<Segment>,
    /// Pointer arguments of a debug run; empty otherwise. Keeps its storage from run to run.
    pub(crate) declared: Vec<DeclaredPointer>,
    /// Where the caller has put floats, if the program makes numbers of integers in memory.
    pub(crate) known_floats: KnownFloats,
    /// Keeps `globals` valid.
    global_shadows: GlobalShadows,
    /// Keeps `captures` valid.
    capture_table: Option<Arc<CaptureTable>>,
}

// SAFETY: the pointers lead into the mapping, the shadows and the table, all of which the segment
// owns (or shares, immutable, by `Arc`); none of them is tied to a thread.
unsafe impl Send for Segment {}

impl Segment {
    /// Reserve a tape of `capacity` bytes, or of half as much as often as the system refuses, down
    /// to [`MIN_CAPACITY`]. Memory is used only as the tape fills.
    pub fn new(capacity: usize) -> Result<Box<Segment>, ReserveError> {
        let (mut mapping, place) = reserve(capacity)?;
        let base = mapping.as_mut_ptr().wrapping_add(place.start);
        let limit = base.wrapping_add(place.len());
        let global_shadows = GlobalShadows::default();
        Ok(Box::new(Segment {
            top: base,
            limit,
            cursor: base,
            globals: global_shadows.deltas().as_ptr(),
            captures: std::ptr::null(),
            peak: base,
            waiting: 0,
            pending_sums: 0,
            sink: Line([0; 64]),
            zeros: Line([0; 64]),
            wide_sink: WideLine([0; WIDE]),
            wide_zeros: WideLine([0; WIDE]),
            asked: 0,
            executed: 0,
            mapping,
            place,
            touched: 0,
            blocks: Blocks::default(),
            pieces: Pieces::default(),
            poison: Poison::default(),
            tangent_pieces: TangentPieces::default(),
            loops: Loops::default(),
            inverses: Inverses::default(),
            forks: Forks::default(),
            declared: Vec::new(),
            known_floats: KnownFloats::default(),
            global_shadows,
            capture_table: None,
        }))
    }

    /// Give the segment the shadows of the data objects, in the order in which generated code
    /// numbers them.
    pub fn attach_globals(&mut self, shadows: GlobalShadows) {
        self.globals = shadows.deltas().as_ptr();
        self.global_shadows = shadows;
    }

    /// Give the segment the table in which [`brolga_lookup`](crate::captures::brolga_lookup) looks.
    pub fn attach_captures(&mut self, table: Arc<CaptureTable>) {
        self.captures = table.as_ptr();
        self.capture_table = Some(table);
    }

    /// The pointer that generated code receives.
    pub fn as_mut_ptr(&mut self) -> *mut Segment {
        self
    }

    /// Empty the tape, zero the shadows of data objects, free every heap shadow and every primal
    /// block whose `free` was deferred. Pullbacks of the run that recorded it are over.
    ///
    /// The memory that this run has used stays for the next, so that a rule in a loop faults no
    /// page twice; what only an earlier run used goes back to the system.
    #[inline]
    pub fn reset(&mut self) {
        let base = self.base();
        self.forget_pieces();
        self.known_floats = KnownFloats::default();
        self.loops.clear();
        self.inverses.clear();
        self.forks.clear();
        self.reset_counts();
        let unused = self.top == base && self.cursor == base && self.peak == base && self.touched == 0;
        // What records nothing may be shorter than what follows here.
        if !(unused && self.blocks.is_empty() && self.declared.is_empty() && self.global_shadows.is_empty()) {
            self.empty();
        }
    }

    /// Where the tape begins.
    fn base(&self) -> *mut u8 {
        self.mapping.as_ptr().cast_mut().wrapping_add(self.place.start)
    }

    fn empty(&mut self) {
        let used = self.used_on_tape();
        let base = self.base();
        (self.top, self.cursor, self.peak) = (base, base, base);
        self.blocks.release();
        self.declared.clear();
        self.global_shadows.zero();
        let retained = used.max(RETAINED);
        if self.touched > retained {
            give_pages_back(&self.mapping, self.place.start + retained, self.place.start + self.touched);
        }
        self.touched = used.max(self.touched.min(retained));
    }

    /// Bytes that the run has recorded, at most at a time: in all of its tasks.
    pub fn bytes_used(&self) -> usize {
        self.used_on_tape() + self.forks.bytes_used()
    }

    /// The same, on this tape.
    fn used_on_tape(&self) -> usize {
        self.top.max(self.peak) as usize - self.base() as usize
    }

    /// Where the tape is, all of it, and as far as it is used.
    pub(crate) fn tape_range(&self) -> std::ops::Range<usize> {
        self.base() as usize..self.limit as usize
    }

    /// See [`tape_range`](Self::tape_range).
    pub(crate) fn used_tape(&self) -> std::ops::Range<usize> {
        self.base() as usize..self.top.max(self.peak) as usize
    }

    /// This is going to be a strand of another, of the same rule.
    pub(crate) fn follows(&mut self, parent: &Segment) {
        self.globals = parent.globals;
        if self.captures != parent.captures {
            self.captures = parent.captures;
            self.capture_table.clone_from(&parent.capture_table);
        }
        self.declared.clone_from(&parent.declared);
        self.known_floats.clone_from(&parent.known_floats);
        self.blocks.of_task = true;
        self.blocks.note_ranges();
    }

    /// Data objects have the deltas of the strand's pending sums.
    pub(crate) fn lead_data_by_strand(&mut self) {
        self.globals = self.forks.data.as_ptr();
    }

    /// Tasks of forks run on threads of this; without one, on the calling thread.
    pub fn run_tasks_on(&mut self, executor: Option<Arc<dyn Executor>>) {
        self.forks.executor = executor;
    }

    /// Pullbacks of tasks add up floats of so many bytes. Without that, tasks of forks run one
    /// after the other, on this tape.
    pub fn run_tasks_of(&mut self, float_size: Option<u8>) {
        self.forks.inline = float_size.is_none();
        self.forks.float_size = float_size.unwrap_or(8);
        if float_size.is_some() {
            self.blocks.note_ranges();
        }
    }

    /// Tasks of forks share the memory of an instance.
    pub fn share_instance(&mut self, instance: SharedInstance) {
        self.forks.instance = Some(instance);
    }

    /// What has stopped a task of a fork.
    pub fn task_trap(&self) -> Option<&RawTrap> {
        self.forks.trap()
    }

    /// Bytes that can be recorded in all.
    pub fn capacity(&self) -> usize {
        self.place.len()
    }

    /// Set the cursor to the top of the tape, before each call of the pullback.
    pub fn begin_pullback(&mut self) {
        self.cursor = self.top;
        self.forks.forget_from(self.top as usize);
        self.loops.begin_pullback();
        self.inverses.begin_pullback();
        self.forget_pieces();
    }

    /// What time loops have done since the segment was reset.
    pub fn loop_stats(&self) -> LoopStats {
        self.loops.stats()
    }

    /// How its time loops were reversed, by where they began.
    pub fn loop_plans(&self) -> &[LoopPlan] {
        self.loops.plans()
    }

    /// Time loops of all runs may keep states in a file in this folder.
    pub fn keep_states_in(&mut self, folder: Option<Arc<StateFolder>>) {
        self.loops.keep_in(folder);
    }

    /// Why a time loop stopped the run.
    pub fn loop_fault(&self) -> Option<LoopFault> {
        self.loops.fault()
    }

    /// What calls that inverses undo have done since the segment was reset.
    pub fn inverse_stats(&self) -> InverseStats {
        self.inverses.stats()
    }

    /// Why such a call stopped the run.
    pub fn inverse_fault(&self) -> Option<InverseFault> {
        self.inverses.fault()
    }

    /// A run that ended in a trap may have left some.
    fn forget_pieces(&mut self) {
        self.waiting = 0;
        self.asked = 0;
        self.pieces.clear();
        self.poison.clear();
        self.tangent_pieces.clear();
    }

    /// Bytes that the pullback has not popped yet: zero after a complete pullback.
    pub fn bytes_left(&self) -> usize {
        self.cursor as usize - self.base() as usize
    }

    /// The recorded bytes.
    pub fn tape(&self) -> &[u8] {
        // SAFETY: all below `limit` can be read and written, and `bytes_used` ends there at most;
        // nothing writes meanwhile, since we are borrowed.
        unsafe { std::slice::from_raw_parts(self.base(), self.used_on_tape()) }
    }

    /// The recorded bytes, to be changed: tests of the checks of a debug run do.
    pub fn tape_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `tape`.
        unsafe { std::slice::from_raw_parts_mut(self.base(), self.used_on_tape()) }
    }

    /// Tell the checks of a debug run of a pointer argument.
    pub fn declare(&mut self, buffer: DeclaredPointer) {
        self.declared.push(buffer);
    }

    /// The shadows of data objects.
    pub fn global_shadows(&self) -> &GlobalShadows {
        &self.global_shadows
    }

    /// The shadows of data objects, to be seeded by the caller.
    pub fn global_shadows_mut(&mut self) -> &mut GlobalShadows {
        &mut self.global_shadows
    }

    /// The shadow read in place of that of inactive memory. A caller may check that it is still
    /// zero.
    pub fn zeros(&self) -> &[u8; 64] {
        &self.zeros.0
    }

    /// What has been sent to inactive memory. Only tests have a reason to look.
    pub fn sink(&self) -> &[u8; 64] {
        &self.sink.0
    }
}

/// A mapping, and where in it the tape is: as near to the fence as sixteen bytes allow, since what
/// is pushed may be as aligned as that.
pub(crate) fn reserve(capacity: usize) -> Result<(MmapMut, std::ops::Range<usize>), ReserveError> {
    let fence = fence_bytes();
    // A tape cannot be empty.
    let mut bytes = (capacity & !15).max(16);
    loop {
        let end = if fence == 0 { Some(bytes) } else { bytes.checked_next_multiple_of(fence) };
        let all = end.and_then(|end| end.checked_add(fence)).filter(|&all| all <= isize::MAX as usize);
        let too_long = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let mapped = all.ok_or_else(too_long).and_then(|all| MmapOptions::new().len(all).no_reserve_swap().map_anon());
        match mapped.and_then(|mapping| put_fence(&mapping, fence).map(|()| mapping)) {
            Ok(mapping) => {
                ask_for_huge_pages(&mapping);
                let end = mapping.len() - fence;
                return Ok((mapping, end - bytes..end));
            }
            Err(e) if bytes <= MIN_CAPACITY => {
                return Err(ReserveError { bytes, source: crate::mappings::explained(e) });
            }
            Err(_) => bytes = ((bytes / 2) & !15).max(MIN_CAPACITY),
        }
    }
}

/// Bytes after a tape that cannot be accessed: a page. No field of a record is longer, and none is
/// written before those that lie below it.
#[cfg(target_os = "linux")]
fn fence_bytes() -> usize {
    // SAFETY: it only asks.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16)
}

#[cfg(not(target_os = "linux"))]
fn fence_bytes() -> usize {
    0
}

/// Let the last bytes of a mapping be inaccessible.
#[cfg(target_os = "linux")]
fn put_fence(mapping: &MmapMut, bytes: usize) -> std::io::Result<()> {
    let fence = mapping.as_ptr().cast_mut().wrapping_add(mapping.len() - bytes);
    // SAFETY: whole pages of a mapping that is ours, to which there is no reference: all who make
    // one stay below.
    match unsafe { libc::mprotect(fence.cast(), bytes, libc::PROT_NONE) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn put_fence(_mapping: &MmapMut, _bytes: usize) -> std::io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(mapping: &MmapMut) {
    if mapping.len() > 2 * HUGE_FROM {
        // A kernel without them says so, and the tape works all the same.
        let _ = mapping.advise_range(memmap2::Advice::HugePage, HUGE_FROM, mapping.len() - HUGE_FROM);
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_mapping: &MmapMut) {}

#[cfg(unix)]
fn give_pages_back(mapping: &MmapMut, from: usize, to: usize) {
    // SAFETY: the range lies above `top`, which is at the base when this is called, so it is not
    // read before it is written again; that its contents become zero is therefore not seen. Failure
    // only means that the memory stays with us.
    let _ = unsafe { mapping.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, from, to - from) };
}

#[cfg(not(unix))]
fn give_pages_back(_mapping: &MmapMut, _from: usize, _to: usize) {}

impl Strand for Segment {
    fn forget(&mut self) {
        self.reset();
    }

    fn rewind(&mut self, to: usize) {
        self.top = to as *mut u8;
        self.forks.forget_from(to);
    }

    fn recorded(&self) -> usize {
        self.bytes_used()
    }
}

/// What it knows of floats in pieces.
impl Segment {
    /// Say at how many places something waits: cotangents that have come in pieces, or, in forward
    /// mode, memory whose tangents are not known. Either mode asks before it clears.
    pub(crate) fn note_waiting(&mut self) {
        self.waiting = self.pieces.places() + self.tangent_pieces.dirty.len() as u64;
    }

    /// Doubles may lie at 4 modulo 8 in this run: where eight bytes are moved at a multiple of
    /// eight, those may be halves of two.
    pub fn doubles_may_lie_across(&mut self) {
        self.pieces.across = true;
    }

    /// A pullback has run: what moved in pieces has all come to where it belongs. `known` is asked
    /// for addresses of eight bytes of shadow: what is there of which it is the shadow?
    /// `holds_floats` is asked for single bytes of shadow: are they of a float that the caller of
    /// the run has put there, as far as that is known?
    ///
    /// # Errors
    /// If a cotangent did not, or if integer arithmetic has lost one of a float that the caller has
    /// put into memory.
    pub fn end_pullback(
        &mut self,
        known: &dyn Fn(usize) -> WindowContents,
        holds_floats: &dyn Fn(usize) -> bool,
    ) -> Result<(), StrayPieces> {
        let all = self.pieces.finish(known, holds_floats);
        self.waiting = 0;
        self.pieces.clear();
        all
    }

    /// Whether digits among some bytes of shadow may be those of a float of which another part is
    /// none of these bytes: one of `size` bytes that lies at a multiple of that, or a double that
    /// lies across.
    ///
    /// # Safety
    /// The multiples of eight around the bytes are valid.
    pub(crate) unsafe fn tears(&self, from: usize, end: usize, size: usize) -> bool {
        let across = |&(in_window, half): &(bool, usize)| {
            // SAFETY: our contract.
            in_window && self.pieces.across && unsafe { (half as *const [u8; HALF]).read() } != [0; HALF]
        };
        // SAFETY: our contract.
        let torn = unsafe { tears(from, end, size, true) };
        let splits_window = |at: usize| at.is_multiple_of(WINDOW) && end - from >= HALF;
        torn || [(splits_window(from), from), (splits_window(end), end.wrapping_sub(HALF))].iter().any(across)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of};

    use brolga_ir::lower::segment as offset;

    use super::*;

    #[test]
    fn layout_is_what_generated_code_expects() {
        let fields = [
            (offset_of!(Segment, top), offset::TOP),
            (offset_of!(Segment, limit), offset::LIMIT),
            (offset_of!(Segment, cursor), offset::CURSOR),
            (offset_of!(Segment, globals), offset::GLOBALS),
            (offset_of!(Segment, captures), offset::CAPTURES),
            (offset_of!(Segment, peak), offset::PEAK),
            (offset_of!(Segment, waiting), offset::WAITING),
            (offset_of!(Segment, pending_sums), offset::PENDING_SUMS),
            (offset_of!(Segment, sink), offset::SINK),
            (offset_of!(Segment, zeros), offset::ZEROS),
            (offset_of!(Segment, wide_sink), offset::WIDE_SINK),
            (offset_of!(Segment, wide_zeros), offset::WIDE_ZEROS),
            (offset_of!(Segment, asked), offset::ASKED),
            (offset_of!(Segment, executed), offset::EXECUTED),
        ];
        assert_eq!(fields.map(|f| f.0 as i32), fields.map(|f| f.1));
        assert_eq!(align_of::<Segment>(), 64);
    }

    #[test]
    fn a_fresh_segment_is_empty_and_aligned() {
        let segment = Segment::new(1 << 33).unwrap();
        assert_eq!(segment.bytes_used(), 0);
        assert_eq!(segment.bytes_left(), 0);
        assert_eq!(segment.top as usize % 4096, 0);
        assert!(segment.capacity() >= MIN_CAPACITY);
        assert_eq!(segment.zeros(), &[0; 64]);
    }

    #[test]
    fn an_absurd_capacity_is_halved_until_it_fits() {
        let segment = Segment::new(isize::MAX as usize).unwrap();
        assert!(segment.capacity() < isize::MAX as usize);
    }

    #[test]
    fn a_small_capacity_is_kept() {
        assert_eq!(Segment::new(100).unwrap().capacity(), 96);
        assert_eq!(Segment::new(0).unwrap().capacity(), 16);
    }

    #[test]
    fn pullback_starts_at_top_each_time_and_reset_empties() {
        let mut segment = Segment::new(1 << 20).unwrap();
        segment.top = segment.top.wrapping_add(640);
        for _ in 0..2 {
            segment.begin_pullback();
            assert_eq!(segment.bytes_left(), 640);
            segment.cursor = segment.cursor.wrapping_sub(640);
            assert_eq!(segment.bytes_left(), 0);
        }
        assert_eq!(segment.tape().len(), 640);
        segment.reset();
        assert_eq!((segment.bytes_used(), segment.bytes_left()), (0, 0));
    }

    #[test]
    fn memory_stays_for_the_next_run_and_goes_when_that_did_not_use_it() {
        let mut segment = Segment::new(1 << 30).unwrap();
        let base = segment.top;
        let far = RETAINED + (4 << 20);
        let peek = |at: usize| {
            // SAFETY: the address lies inside the reservation, which is readable everywhere.
            unsafe { base.add(at).read() }
        };
        for _ in 0..2 {
            // SAFETY: both addresses lie inside the reservation.
            unsafe {
                base.write(7);
                base.add(far).write(9);
            }
            segment.top = base.wrapping_add(far + 16);
            segment.reset();
            assert_eq!((peek(0), peek(far)), (7, 9));
        }
        segment.reset();
        assert_eq!(peek(0), 7);
        assert_eq!(peek(far), if cfg!(target_os = "linux") { 0 } else { 9 });
    }
}
