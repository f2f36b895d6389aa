//! `malloc` and its family in derived code: each primal block gets a zeroed shadow.
//!
//! **Question.** A program allocates memory. Where is its shadow, and until when?
//!
//! **Answer.** Each block gets a zeroed shadow, which lives until the run is over:
//!
//! | primal | forward | pullback |
//! |---|---|---|
//! | `p = malloc(n)` | `p, d = brolga_malloc(seg, n)` | `brolga_malloc_rev(p + d)` |
//! | `p = calloc(n, m)` | `p, d = brolga_calloc(seg, n, m)` | `brolga_malloc_rev(p + d)` |
//! | `q = realloc(p, n)` | `q, e = brolga_realloc(seg, p, d, n, deferred)` | `brolga_realloc_rev(p + d, q + e)` |
//! | `free(p)` | `brolga_free(seg, p, deferred)` | nothing |
//!
//! Reverse mode sees an allocation last: by then the cotangents in the shadow have been read by the
//! reverses of the block's stores, and the shadow is zeroed so that the next pullback of the same
//! run begins as the first did. `realloc` copies the common prefix `old -> new`, so its reverse
//! moves the shadow of that prefix `new -> old` (the old block is dead after the call: nothing has
//! been accumulated in its shadow) and zeroes the rest. A combined function, whose reverse runs
//! once, leaves the shadow of `malloc` and `calloc` as it is: nothing reads it before it is freed
//! with the run. The forward copy of the shadow matters to the shadows of pointers that the block
//! contains; the shadows of numbers are zero at that time.
//!
//! An allocator that the program brings along (a WebAssembly module's) needs nothing of this, but
//! that its releases may wait until the second half of a combined function is done:
//! `brolga_release` notes them, `brolga_released` gives them back one by one.
//!
//! `deferred` (non-zero) keeps a freed primal block until the segment is reset, for pullbacks that
//! read primal memory. `realloc` always moves, so that old and new blocks, hence old and new
//! shadows, are different memory.
//!
//! A result with delta 0 has no shadow; this happens only with a null pointer. A failed allocation
//! of primal memory is the primal's own business and returns null as C does. Failures of ours are
//! statuses in the delta, see [`status`].
//!
//! **Cost.** As C's for a block and its shadow, with zeros for the shadow; a look-up for each
//! release.

use std::ptr::NonNull;

use crate::segment::Segment;
use crate::shadows::blocks::{self, Shadow};
use crate::status;

/// A primal address and the delta of its shadow, returned in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The primal address, null if nothing was allocated.
    pub pointer: u64,
    /// Shadow address minus primal address; 0 without shadow; odd if it is a [`status`].
    pub delta: u64,
}

impl Pair {
    const NULL: Pair = Pair { pointer: 0, delta: 0 };

    fn failed(status: u64) -> Pair {
        Pair { pointer: 0, delta: status }
    }

    fn new(primal: NonNull<u8>, shadow: Shadow, width: u64) -> Pair {
        let (pointer, shadow) = (primal.as_ptr() as u64, shadow.bytes().as_ptr() as u64);
        Pair { pointer, delta: shadow.wrapping_sub(pointer.wrapping_mul(width)) }
    }
}

/// `malloc(n)`: a primal block and a zeroed shadow.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub(crate) unsafe extern "C" fn brolga_malloc(seg: *mut Segment, n: u64) -> Pair {
    // SAFETY: our contract.
    unsafe { brolga_malloc_wide(seg, n, 1) }
}

/// The same in a batch of so many derivatives: the shadow is as many times as large, and the delta
/// is the shadow's address minus as many times the block's.
///
/// # Safety
/// As for [`brolga_malloc`].
pub(crate) unsafe extern "C" fn brolga_malloc_wide(seg: *mut Segment, n: u64, width: u64) -> Pair {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    match blocks::allocate(n as usize) {
        None => Pair::NULL,
        Some(primal) => with_shadow(seg, primal, n as usize, width),
    }
}

/// `calloc(n, m)`: a zeroed primal block and a zeroed shadow.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub(crate) unsafe extern "C" fn brolga_calloc(seg: *mut Segment, n: u64, m: u64) -> Pair {
    // SAFETY: our contract.
    unsafe { brolga_calloc_wide(seg, n, m, 1) }
}

/// The same in a batch, as [`brolga_malloc_wide`].
///
/// # Safety
/// As for [`brolga_calloc`].
pub(crate) unsafe extern "C" fn brolga_calloc_wide(seg: *mut Segment, n: u64, m: u64, width: u64) -> Pair {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    match blocks::allocate_zeroed(n as usize, m as usize) {
        None => Pair::NULL,
        // The product fits, or calloc would have refused.
        Some(primal) => with_shadow(seg, primal, n as usize * m as usize, width),
    }
}

/// `free(p)`, now or when the segment is reset. The shadow stays.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; `p` is as C's `free` demands.
pub(crate) unsafe extern "C" fn brolga_free(seg: *mut Segment, p: *mut u8, deferred: u64) {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    if let Some(p) = NonNull::new(p) {
        // SAFETY: our contract.
        unsafe { seg.blocks.free(p, deferred != 0) };
    }
}

/// A block is freed when the run is over: what a derivative that is derived again calls for its
/// scratch memory. Its own derivative calls [`brolga_free`]; as a function of the program, which
/// knows of no run, it leaves the block to the process.
pub(crate) extern "C" fn brolga_free_at_end(_: *mut u8) {}

/// `free(p)` in forward mode: the shadow is not needed any more.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; `p` is as C's `free` demands.
pub(crate) unsafe extern "C" fn brolga_free_both(seg: *mut Segment, p: *mut u8) {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    if let Some(p) = NonNull::new(p) {
        // SAFETY: our contract.
        unsafe { seg.blocks.free_both(p) };
    }
}

/// `realloc(p, n)`: always a new block, with a new shadow; contents of both are copied. The status
/// is `UNKNOWN_BLOCK` if `p` was not allocated through this segment. `realloc(p, 0)` frees and
/// returns null, as glibc's does. The delta of `p` is for those who have no table of blocks.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; `p` is as C's `realloc` demands.
pub(crate) unsafe extern "C" fn brolga_realloc(
    seg: *mut Segment,
    p: *mut u8,
    delta: u64,
    n: u64,
    deferred: u64,
) -> Pair {
    // SAFETY: our contract.
    unsafe { brolga_realloc_wide(seg, p, delta, n, deferred, 1) }
}

/// The same in a batch, as [`brolga_malloc_wide`].
///
/// # Safety
/// As for [`brolga_realloc`].
pub(crate) unsafe extern "C" fn brolga_realloc_wide(
    seg: *mut Segment,
    p: *mut u8,
    _: u64,
    n: u64,
    deferred: u64,
    width: u64,
) -> Pair {
    let Some(old) = NonNull::new(p) else {
        // SAFETY: our contract.
        return unsafe { brolga_malloc_wide(seg, n, width) };
    };
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let Some(old_shadow) = seg.blocks.get(old) else { return Pair::failed(status::UNKNOWN_BLOCK) };
    let mut result = Pair::NULL;
    if n != 0 {
        let Some(new) = blocks::allocate(n as usize) else { return Pair::NULL };
        result = with_shadow(seg, new, n as usize, width);
        let Some(new_shadow) = seg.blocks.get(new) else { return result };
        let common = old_shadow.size().min(new_shadow.size());
        // SAFETY: both shadows have at least `common` bytes, the blocks that many for each
        // derivative, and the new ones overlap nothing.
        unsafe {
            new.copy_from_nonoverlapping(old, common / width as usize);
            new_shadow.bytes().copy_from_nonoverlapping(old_shadow.bytes(), common);
        }
    }
    // SAFETY: `old` was allocated by malloc, is alive (it is registered), and the primal gives it
    // up.
    unsafe { seg.blocks.free(old, deferred != 0) };
    result
}

/// A block of the program's own allocator is to be released when the run is over.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub(crate) unsafe extern "C" fn brolga_release(seg: *mut Segment, instance: u64, block: u32) {
    // SAFETY: our contract.
    unsafe { &mut *seg }.blocks.wait(instance, block);
}

/// A block with its instance, returned in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleasedBlock {
    /// The instance pointer, null if there is none left.
    pub instance: u64,
    /// The block.
    pub block: u32,
}

/// The next block to release, in the order in which they were noted.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub(crate) unsafe extern "C" fn brolga_released(seg: *mut Segment) -> ReleasedBlock {
    // SAFETY: our contract.
    let (instance, block) = unsafe { &mut *seg }.blocks.next_waiting().unwrap_or_default();
    ReleasedBlock { instance, block }
}

/// Pullback of an allocation: the shadow is zeroed for the next pullback. Null does nothing.
///
/// # Safety
/// `shadow` is null or the shadow address (pointer + delta) of a block allocated by a helper of
/// this file, whose segment has not been reset since.
pub(crate) unsafe extern "C" fn brolga_malloc_rev(shadow: *mut u8) {
    let Some(bytes) = NonNull::new(shadow) else { return };
    // SAFETY: our contract; a living shadow has as many bytes as it says.
    unsafe { Shadow::at(bytes).clear() };
}

/// Pullback of `realloc`: the cotangents of the kept bytes move back to the old block, and the new
/// shadow is zeroed.
///
/// # Safety
/// As for [`brolga_malloc_rev`], for both addresses; null stands for the old block of
/// `realloc(NULL, n)` and for the new block of a `realloc` that returned null.
pub(crate) unsafe extern "C" fn brolga_realloc_rev(old_shadow: *mut u8, new_shadow: *mut u8) {
    if let (Some(old), Some(new)) = (NonNull::new(old_shadow), NonNull::new(new_shadow)) {
        // SAFETY: our contract; living shadows have as many bytes as they say, and different
        // shadows do not overlap.
        unsafe {
            let common = Shadow::at(old).size().min(Shadow::at(new).size());
            old.copy_from_nonoverlapping(new, common);
        }
    }
    // SAFETY: our contract.
    unsafe { brolga_malloc_rev(new_shadow) };
}

/// Register a block that was just allocated; take it back if its shadow cannot be had.
fn with_shadow(seg: &mut Segment, primal: NonNull<u8>, size: usize, width: u64) -> Pair {
    match size.checked_mul(width as usize).and_then(|size| seg.blocks.add(primal, size)) {
        Some(shadow) => Pair::new(primal, shadow, width),
        None => {
            // SAFETY: allocated by our caller just now, and not handed out.
            unsafe { blocks::withdraw(primal) };
            Pair::failed(status::NO_SHADOW_MEMORY)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    fn segment() -> Box<Segment> {
        Segment::new(1 << 20).unwrap()
    }

    fn primal(pair: Pair) -> *mut u8 {
        ptr::with_exposed_provenance_mut(pair.pointer as usize)
    }

    fn shadow(pair: Pair) -> *mut u8 {
        ptr::with_exposed_provenance_mut(pair.pointer.wrapping_add(pair.delta) as usize)
    }

    fn bytes<'a>(p: *mut u8, n: usize) -> &'a mut [u8] {
        // SAFETY: the tests ask only for bytes of blocks that they have just allocated and not
        // released.
        unsafe { std::slice::from_raw_parts_mut(p, n) }
    }

    #[test]
    fn malloc_gives_a_zeroed_shadow_that_survives_free() {
        let mut seg = segment();
        // SAFETY (all calls in this module): the segment is alive and ours, and blocks are used as
        // C demands.
        unsafe {
            let pair = brolga_malloc(&mut *seg, 100);
            assert_eq!((pair.delta % 16, pair.pointer % 16), (0, 0));
            bytes(primal(pair), 100).fill(1);
            assert!(bytes(shadow(pair), 100).iter().all(|&b| b == 0));
            bytes(shadow(pair), 100).fill(2);
            brolga_free(&mut *seg, primal(pair), 0);
            assert!(bytes(shadow(pair), 100).iter().all(|&b| b == 2));
            brolga_malloc_rev(shadow(pair));
            assert!(bytes(shadow(pair), 100).iter().all(|&b| b == 0));
        }
        assert_eq!(seg.blocks.shadows(), 1);
        seg.reset();
        assert_eq!(seg.blocks.shadows(), 0);
    }

    #[test]
    fn deferred_free_keeps_primal_memory_until_reset() {
        let mut seg = segment();
        // SAFETY: see above.
        unsafe {
            let pair = brolga_calloc(&mut *seg, 10, 8);
            assert!(bytes(primal(pair), 80).iter().all(|&b| b == 0));
            bytes(primal(pair), 80).fill(5);
            brolga_free(&mut *seg, primal(pair), 1);
            assert!(bytes(primal(pair), 80).iter().all(|&b| b == 5));
            brolga_free(&mut *seg, ptr::null_mut(), 1);
        }
        assert_eq!(seg.blocks.waiting(), 1);
        seg.reset();
        assert_eq!(seg.blocks.waiting(), 0);
    }

    #[test]
    fn realloc_moves_contents_and_shadows_and_back() {
        let mut seg = segment();
        for n in [24u64, 64, 5] {
            // SAFETY: see above.
            unsafe {
                let old = brolga_malloc(&mut *seg, 24);
                bytes(primal(old), 24).fill(3);
                // As if the block held pointers: their shadows go along.
                bytes(shadow(old), 24).fill(4);
                let new = brolga_realloc(&mut *seg, primal(old), old.delta, n, 1);
                assert_ne!(old.pointer, new.pointer);
                let common = 24.min(n as usize);
                assert!(bytes(primal(new), common).iter().all(|&b| b == 3));
                assert!(bytes(shadow(new), common).iter().all(|&b| b == 4));
                assert!(bytes(shadow(new), n as usize)[common..].iter().all(|&b| b == 0));
                for seed in [7, 8] {
                    bytes(shadow(new), n as usize).fill(seed);
                    brolga_realloc_rev(shadow(old), shadow(new));
                    assert!(bytes(shadow(old), common).iter().all(|&b| b == seed));
                    assert!(bytes(shadow(new), n as usize).iter().all(|&b| b == 0));
                    brolga_malloc_rev(shadow(old));
                    assert!(bytes(shadow(old), 24).iter().all(|&b| b == 0));
                }
                brolga_free(&mut *seg, primal(new), 0);
            }
        }
        seg.reset();
    }

    #[test]
    fn realloc_at_the_edges_of_c() {
        let mut seg = segment();
        // SAFETY: see above.
        unsafe {
            let first = brolga_realloc(&mut *seg, ptr::null_mut(), 0, 8, 0);
            bytes(shadow(first), 8).fill(1);
            brolga_realloc_rev(ptr::null_mut(), shadow(first));
            assert_eq!(bytes(shadow(first), 8), [0; 8]);
            assert_eq!(brolga_realloc(&mut *seg, primal(first), first.delta, 0, 0), Pair::NULL);
            brolga_realloc_rev(shadow(first), ptr::null_mut());
            // Freed above, so no longer ours.
            assert_eq!(
                brolga_realloc(&mut *seg, primal(first), first.delta, 16, 0),
                Pair::failed(status::UNKNOWN_BLOCK)
            );
            let mut foreign = [0u8; 16];
            let unknown = brolga_realloc(&mut *seg, foreign.as_mut_ptr(), 0, 32, 0);
            assert_eq!((unknown.pointer, unknown.delta & 1), (0, 1));
        }
    }

    #[test]
    fn a_primal_that_asks_too_much_gets_null_as_in_c() {
        let mut seg = segment();
        // SAFETY: see above.
        unsafe {
            // Hidden from the optimiser, which may otherwise assume that an allocation that is not
            // looked at succeeds.
            let huge = std::hint::black_box(u64::MAX);
            assert_eq!(brolga_malloc(&mut *seg, huge), Pair::NULL);
            assert_eq!(brolga_calloc(&mut *seg, huge, 2), Pair::NULL);
            let block = brolga_malloc(&mut *seg, 16);
            assert_eq!(brolga_realloc(&mut *seg, primal(block), block.delta, huge / 2, 0), Pair::NULL);
            bytes(primal(block), 16).fill(1);
            brolga_free(&mut *seg, primal(block), 0);
            brolga_malloc_rev(ptr::null_mut());
        }
    }

    #[test]
    fn zero_sized_blocks_have_shadows_too() {
        let mut seg = segment();
        // SAFETY: see above.
        unsafe {
            let pair = brolga_malloc(&mut *seg, 0);
            assert_ne!((pair.pointer, pair.delta), (0, 0));
            brolga_malloc_rev(shadow(pair));
            brolga_free(&mut *seg, primal(pair), 0);
        }
    }
}
