//! Shadow moves, saved bytes, and C's block routines.
//!
//! **Question.** Routines move and clear bytes of memory. What do they do to shadows, backwards?
//!
//! **Answer.** The shadow block is moved back and added, in an order that needs no buffer.
//!
//! *Reverse of a copy.* The primal's `memmove(dst, src, n)` gives `new[dst+i] = old[src+i]`, so in
//! reverse, for the shadows `D = dst + dst_delta` and `S = src + src_delta`,
//!
//! ```text
//!   t[i] = D[i];   D[i] = 0;   S[i] += t[i]        for all i "at once"
//! ```
//!
//! Without a buffer for `t` this must be done in an order in which no `S[i]` is added to before the
//! `D[j]` that lies on the same bytes has been taken. Adding to `S[i]` touches bytes below
//! `S + (i+1)e`. If `D >= S` that is at most where `D[i+1]` begins, so going up is right; if
//! `D < S`, going down is, by symmetry. The argument does not ask that the distance be a multiple
//! of the element size, nor that the step be one element, so we go in blocks of eight, which
//! vectorise. The order is decided by the shadow addresses: shadows need not overlap as their
//! primals do.
//!
//! *Floats of unknown size.* Where memory holds floats of 8 and of 4 bytes, nothing says which of
//! them a copy of many bytes moves. It does not matter where one of the two cotangents is zero: the
//! sum is the other one, whatever it is, so its bytes are moved. Only where both are there, within
//! the bytes of one float, is it not known what to add: then they wait ([`crate::pieces`]).
//!
//! **Faults.** Routines that touch primal memory on behalf of a primal instruction can fault where
//! that instruction would have, so they name their caller to the guard (see `traps::leaf`).
//!
//! **Cost.** Linear in the bytes; no other memory is asked for.

use std::ops::Add;

use crate::calls::pieces::{brolga_settle_bytes, moved};
use crate::pieces::ACCOUNT;
use crate::pieces::cut::tears;
use crate::segment::Segment;
use crate::status;
use crate::traps::{self, attributed};

/// Elements per step.
const BLOCK: usize = 8;

/// Pullback of copying `n` bytes of floats of `elem` bytes (8 or 4) from `src` to `dst`, which may
/// overlap. Bytes beyond the last whole element are no number; their shadow at `dst` is zeroed.
///
/// # Safety
/// Each shadow that exists is valid for `n` bytes.
pub unsafe extern "C" fn brolga_memmove_rev(
    dst: *mut u8,
    dst_delta: u64,
    src: *mut u8,
    src_delta: u64,
    n: u64,
    elem: u64,
) {
    if src_delta == 0 {
        // SAFETY: our contract.
        return unsafe { brolga_zero(dst, dst_delta, n) };
    }
    if dst_delta == 0 {
        return;
    }
    debug_assert!(elem == 8 || elem == 4, "element of {elem} bytes");
    let (dst, src) = (dst.wrapping_add(dst_delta as usize), src.wrapping_add(src_delta as usize));
    // SAFETY: our contract.
    unsafe {
        match elem {
            4 => take_add::<f32>(dst, src, n as usize),
            _ => take_add::<f64>(dst, src, n as usize),
        }
    }
}

/// Pullback of copying `n` bytes of floats from `src` to `dst`, which may overlap, where it is not
/// certain where each float begins: they are of unknown size (`elem` is 0), or of `elem` bytes
/// where they begin at multiples of that.
///
/// Returns [`status::UNTRACKED`] where bytes of cotangents cannot be put together, or a part of a
/// float is moved in a program without an account of these ([`ACCOUNT`], added to `elem`).
///
/// # Safety
/// Each shadow that exists is valid for `n` bytes, and the multiples of eight around them; `seg` is
/// a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_move_rev(
    seg: *mut Segment,
    dst: *mut u8,
    dst_delta: u64,
    src: *mut u8,
    src_delta: u64,
    n: u64,
    elem: u64,
) -> u64 {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let (account, elem) = (elem & ACCOUNT != 0, elem % ACCOUNT);
    let aligned = |p: *mut u8| elem != 0 && (p as u64).is_multiple_of(elem);
    let nothing_waits = seg.waiting == 0;
    if dst_delta == 0 || n == 0 {
        return status::OK;
    }
    if nothing_waits && (src_delta == 0 || aligned(dst) && aligned(src) && n.is_multiple_of(elem)) {
        // SAFETY: our contract.
        unsafe { brolga_memmove_rev(dst, dst_delta, src, src_delta, n, elem) };
        return status::OK;
    }
    let (to, n) = (dst.wrapping_add(dst_delta as usize), n as usize);
    // SAFETY: our contract.
    if !account && elem != 0 && unsafe { tears(to as usize, to as usize + n, elem as usize, true) } {
        return status::UNTRACKED;
    }
    if src_delta == 0 {
        // SAFETY: our contract.
        unsafe { brolga_settle_bytes(seg, dst as u64, dst_delta, n as u64, 0) };
        // SAFETY: our contract.
        unsafe { brolga_zero(dst, dst_delta, n as u64) };
        return status::OK;
    }
    let from = src.wrapping_add(src_delta as usize);
    // SAFETY: our contract. The copy leaves the two shadows to overlap as they like; the borrow
    // ends here.
    let taken = unsafe { std::slice::from_raw_parts(to, n) }.to_vec();
    let apart = (to as usize).abs_diff(from as usize) >= n;
    let size = if elem == 0 { 8 } else { elem as usize };
    // A number that is stored over a part of a float finds the rest where floats lie.
    let in_place = !account || (to as usize).abs_diff(from as usize).is_multiple_of(size);
    // Of a float of which a part is copied the other part is not forgotten.
    // SAFETY: our contract.
    let untorn = in_place && !unsafe { seg.tears(to as usize, to as usize + n, size) };
    // SAFETY: our contract; the two are apart.
    if nothing_waits && apart && untorn && merge(unsafe { std::slice::from_raw_parts_mut(from, n) }, &taken) {
        // SAFETY: our contract.
        unsafe { to.write_bytes(0, n) };
        return status::OK;
    }
    // SAFETY: our contract.
    let all = unsafe { moved(seg, to, from, n, elem as usize) };
    if all { status::OK } else { status::UNTRACKED }
}

/// Put bytes of floats where there are zeros; false, and nothing done, if some that are not zero
/// may be of one float.
fn merge(there: &mut [u8], taken: &[u8]) -> bool {
    // The last byte of either that is not zero.
    let (mut last_taken, mut last_there) = (None, None);
    for (i, (t, s)) in taken.iter().zip(&*there).enumerate() {
        if *t != 0 {
            last_taken = Some(i);
        }
        if *s != 0 {
            last_there = Some(i);
        }
        if let (Some(a), Some(b)) = (last_taken, last_there)
            && a.abs_diff(b) < size_of::<f64>()
        {
            return false;
        }
    }
    there.iter_mut().zip(taken).for_each(|(s, t)| *s |= t);
    true
}

/// Pullback of `memset`: what was there before no longer matters.
///
/// # Safety
/// The shadow, if there is one, is valid for `n` bytes.
pub unsafe extern "C" fn brolga_zero(ptr: *mut u8, delta: u64, n: u64) {
    if delta != 0 {
        // SAFETY: our contract.
        unsafe { ptr.wrapping_add(delta as usize).write_bytes(0, n as usize) };
    }
}

/// Forward pass of copying pointers: their shadows, which are deltas stored in shadow memory, are
/// copied too. Pointers that come from memory without shadow have none.
///
/// # Safety
/// Each shadow that exists is valid for `n` bytes.
pub unsafe extern "C" fn brolga_copy_shadow(dst: *mut u8, dst_delta: u64, src: *const u8, src_delta: u64, n: u64) {
    if src_delta == 0 {
        // SAFETY: our contract.
        return unsafe { brolga_zero(dst, dst_delta, n) };
    }
    if dst_delta != 0 {
        let (dst, src) = (dst.wrapping_add(dst_delta as usize), src.wrapping_add(src_delta as usize));
        // SAFETY: our contract.
        unsafe { dst.copy_from(src, n as usize) };
    }
}

/// `t = D; D = 0; S += t` for `n` bytes, at once.
///
/// # Safety
/// `dst` and `src` are valid for `n` bytes.
unsafe fn take_add<T: Copy + Default + Add<Output = T>>(dst: *mut u8, src: *mut u8, n: usize) {
    let elem = size_of::<T>();
    let (blocks, singles, tail) = (n / (BLOCK * elem), n / elem % BLOCK, n % elem);
    let block = |i: usize| {
        let at = i * BLOCK * elem;
        // SAFETY: block `i` lies within the `n` bytes.
        unsafe { step::<T, BLOCK>(dst.add(at), src.add(at)) }
    };
    let single = |i: usize| {
        let at = (blocks * BLOCK + i) * elem;
        // SAFETY: single element `i` lies within the `n` bytes.
        unsafe { step::<T, 1>(dst.add(at), src.add(at)) }
    };
    // SAFETY: the tail are the last of the `n` bytes.
    let clear_tail = || unsafe { dst.add(n - tail).write_bytes(0, tail) };
    if dst as usize >= src as usize {
        (0..blocks).for_each(block);
        (0..singles).for_each(single);
        clear_tail();
    } else {
        clear_tail();
        (0..singles).rev().for_each(single);
        (0..blocks).rev().for_each(block);
    }
}

/// [`take_add`] for `N` elements; exact even where the two places overlap.
///
/// # Safety
/// `dst` and `src` are valid for `N` elements.
#[inline(always)]
unsafe fn step<T: Copy + Default + Add<Output = T>, const N: usize>(dst: *mut u8, src: *mut u8) {
    let (dst, src) = (dst.cast::<[T; N]>(), src.cast::<[T; N]>());
    // SAFETY: our contract; no alignment is assumed.
    unsafe {
        let taken = dst.read_unaligned();
        dst.write_unaligned([T::default(); N]);
        let before = src.read_unaligned();
        src.write_unaligned(std::array::from_fn(|i| before[i] + taken[i]));
    }
}

/// What `n` bytes take on the tape: pushes keep the top a multiple of eight.
fn on_tape(n: u64) -> Option<usize> {
    usize::try_from(n).ok()?.checked_next_multiple_of(8)
}

traps::leaf! {
    /// Push the `n` bytes at `p` on the tape (the top moves by `n` rounded up to a multiple of
    /// eight). The status is `TAPE_FULL` if they do not fit; then nothing has changed.
    ///
    /// # Safety
    /// `seg` is a valid segment that no other thread uses; `p` may be read for `n` bytes, or the
    /// call is guarded.
    pub(super) fn brolga_save_bytes(seg: *mut Segment, p: *const u8, n: u64; caller) -> u64 {
        // SAFETY: our contract.
        let seg = unsafe { &mut *seg };
        let room = seg.limit as usize - seg.top as usize;
        let Some(size) = on_tape(n).filter(|&size| size <= room) else { return status::TAPE_FULL };
        // SAFETY: there is room above the top, and nothing but us points there.
        attributed(caller, || unsafe { seg.top.copy_from_nonoverlapping(p, n as usize) });
        seg.top = seg.top.wrapping_add(size);
        status::OK
    }
}

traps::leaf! {
    /// Pop the `n` bytes that [`brolga_save_bytes`] pushed and write them to `p`.
    ///
    /// # Safety
    /// `seg` is a valid segment that no other thread uses, and its cursor is where that push left
    /// the top; `p` may be written for `n` bytes, or the call is guarded.
    pub(super) fn brolga_restore_bytes(seg: *mut Segment, p: *mut u8, n: u64; caller) -> () {
        // SAFETY: our contract.
        let seg = unsafe { &mut *seg };
        let size = on_tape(n).unwrap_or(0);
        debug_assert!(size <= seg.bytes_left(), "more is popped than was pushed");
        seg.cursor = seg.cursor.wrapping_sub(size);
        let cursor = seg.cursor;
        // SAFETY: the bytes at the cursor were pushed, and primal memory is never tape.
        attributed(caller, || unsafe { p.copy_from_nonoverlapping(cursor, n as usize) });
    }
}

traps::leaf! {
    /// C's `memcpy`.
    ///
    /// # Safety
    /// As in C, but that a bad address is a trap if the call is guarded.
    pub(super) fn memcpy(dst: *mut u8, src: *const u8, n: usize; caller) -> *mut u8 {
        // SAFETY: our contract.
        attributed(caller, || unsafe { libc::memcpy(dst.cast(), src.cast(), n) }).cast()
    }
}

traps::leaf! {
    /// C's `memmove`.
    ///
    /// # Safety
    /// As for [`memcpy`].
    pub(super) fn memmove(dst: *mut u8, src: *const u8, n: usize; caller) -> *mut u8 {
        // SAFETY: our contract.
        attributed(caller, || unsafe { libc::memmove(dst.cast(), src.cast(), n) }).cast()
    }
}

traps::leaf! {
    /// C's `memset`.
    ///
    /// # Safety
    /// As for [`memcpy`].
    pub(crate) fn memset(dst: *mut u8, byte: i32, n: usize; caller) -> *mut u8 {
        // SAFETY: our contract.
        attributed(caller, || unsafe { libc::memset(dst.cast(), byte, n) }).cast()
    }
}

traps::leaf! {
    /// C's `memcmp`.
    ///
    /// # Safety
    /// As for [`memcpy`].
    pub(super) fn memcmp(a: *const u8, b: *const u8, n: usize; caller) -> i32 {
        // SAFETY: our contract.
        attributed(caller, || unsafe { libc::memcmp(a.cast(), b.cast(), n) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, with a buffer, on numbers at whole-byte places of one arena.
    fn model<T: Copy + Add<Output = T>>(
        arena: &mut [u8],
        dst: usize,
        src: usize,
        n: usize,
        read: fn(&[u8]) -> T,
        write: fn(T, &mut [u8]),
    ) {
        let size = size_of::<T>();
        let taken = arena[dst..dst + n].to_vec();
        arena[dst..dst + n].fill(0);
        for (i, t) in taken.chunks_exact(size).enumerate() {
            let place = &mut arena[src + i * size..][..size];
            let sum = read(place) + read(t);
            write(sum, place);
        }
    }

    fn read64(b: &[u8]) -> f64 {
        f64::from_le_bytes(b.try_into().unwrap())
    }

    fn read32(b: &[u8]) -> f32 {
        f32::from_le_bytes(b.try_into().unwrap())
    }

    fn run(arena: &mut [u8], dst: usize, src: usize, n: usize, elem: u64) {
        let base = arena.as_mut_ptr();
        // Primal addresses are made up; only address + delta is used.
        let (primal, delta) = (base.wrapping_sub(4096), 4096);
        let (d, s) = (primal.wrapping_add(dst), primal.wrapping_add(src));
        // SAFETY: the strategy keeps both ranges inside the arena.
        unsafe { brolga_memmove_rev(d, delta, s, delta, n as u64, elem) };
    }

    proptest! {
        #[test]
        fn memmove_rev_is_its_definition(
            bytes in proptest::collection::vec(any::<u8>(), 1024),
            place in (0usize..512, 0usize..512, 0usize..512),
            near in proptest::option::of(-80isize..80),
        ) {
            let (dst, mut src, n) = place;
            if let Some(near) = near {
                src = dst.saturating_add_signed(near).min(512);
            }
            let (mut got, mut want) = (bytes.clone(), bytes.clone());
            run(&mut got, dst, src, n, 8);
            model(&mut want, dst, src, n, read64, |x, b| b.copy_from_slice(&x.to_le_bytes()));
            prop_assert!(same(&got, &want, src..src + n));
            let (mut got, mut want) = (bytes.clone(), bytes);
            run(&mut got, dst, src, n, 4);
            model(&mut want, dst, src, n, read32, |x, b| b.copy_from_slice(&x.to_le_bytes()));
            prop_assert!(same(&got, &want, src..src + n));
        }
    }

    /// Equal, but for which NaN a sum of NaNs is in what is added to: that is the compiler's
    /// choice. Made rare by comparing bytes first.
    fn same(got: &[u8], want: &[u8], sums: std::ops::Range<usize>) -> bool {
        let nan = |bytes: &[u8]| {
            bytes.len() == 8 && read64(bytes).is_nan() || bytes.chunks_exact(4).any(|b| read32(b).is_nan())
        };
        let outside = (0..got.len()).filter(|i| !sums.contains(i)).all(|i| got[i] == want[i]);
        let inside = got[sums.clone()].chunks(8).zip(want[sums.clone()].chunks(8));
        outside && inside.into_iter().all(|(g, w)| g == w || nan(g) && nan(w))
    }

    #[test]
    fn memmove_rev_adds_shifts_and_forgets() {
        // forward: a[1..4] = a[0..3]; reverse of the cotangent (1, 10, 100, 1000).
        let mut a = [1.0f64, 10.0, 100.0, 1000.0];
        let p = a.as_mut_ptr().cast::<u8>();
        // SAFETY: 24 bytes from elements 0 and 1.
        unsafe { brolga_memmove_rev(p.wrapping_sub(56), 64, p.wrapping_sub(64), 64, 24, 8) };
        assert_eq!(a, [11.0, 100.0, 1000.0, 0.0]);
        let mut a = [1.0f64, 10.0, 100.0, 1000.0];
        let p = a.as_mut_ptr().cast::<u8>();
        // SAFETY: as above; a[0..3] = a[1..4].
        unsafe { brolga_memmove_rev(p.wrapping_sub(64), 64, p.wrapping_sub(56), 64, 24, 8) };
        assert_eq!(a, [0.0, 1.0, 10.0, 1100.0]);
    }

    /// The reverse of a copy between two shadows, and whether all has been put together at the end.
    fn copied_back(d: *mut u8, s: *mut u8, n: u64, elem: u64) -> bool {
        let mut seg = Segment::new(1 << 20).unwrap();
        let (d, s) = (d.wrapping_sub(64), s.wrapping_sub(64));
        // SAFETY: the caller has so many bytes at both.
        let status = unsafe { brolga_move_rev(&mut *seg, d, 64, s, 64, n, elem) };
        status == status::OK && seg.end_pullback(&|_| crate::pieces::WindowContents::Unknown, &|_| false).is_ok()
    }

    #[test]
    fn floats_of_any_size_move_to_zeros() {
        // An f64 and two f32, to zeros; then to what is apart from them; then to what is not.
        let mut from = [0u64; 4];
        let (mut want, mut to) = (from, [0u64; 4]);
        (want[0], want[1]) = (1.5f64.to_bits(), u64::from(2.5f32.to_bits()) | 1 << 63);
        from.clone_from(&want);
        let merge = |dst: &mut [u64; 4], src: &mut [u64; 4], n: u64, elem: u64| {
            copied_back(dst.as_mut_ptr().cast(), src.as_mut_ptr().cast(), n, elem)
        };
        assert!(merge(&mut from, &mut to, 16, 0));
        assert_eq!((to, from), (want, [0; 4]));
        from[3] = 7.0f64.to_bits();
        assert!(merge(&mut from, &mut to, 32, 0));
        assert_eq!((&to[..2], to[3]), (&want[..2], 7.0f64.to_bits()));
        // Of what size are these? If no store says so in time, it stays unknown.
        from[1] = 1 << 32;
        assert!(!merge(&mut from, &mut to, 32, 0));
        // 1.0 ends in zeros, and a tiny number begins with them: they do not meet in any byte.
        let (mut one, mut tiny) = ([1.0f64.to_bits(), 0, 0, 0], [0xffff, 0, 0, 0]);
        assert!(!merge(&mut tiny, &mut one, 8, 0));
    }

    #[test]
    fn doubles_are_added_where_they_are_aligned() {
        let run = |from: &mut [f64; 3], to: &mut [f64; 3], at: usize, source: usize, n: u64| {
            let (d, s) = (from.as_mut_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
            copied_back(d.wrapping_add(at), s.wrapping_add(source), n, 8)
        };
        let (mut from, mut to) = ([1.0f64, 2.0, 3.0], [10.0f64, 20.0, 0.0]);
        assert!(run(&mut from, &mut to, 0, 0, 16));
        assert_eq!((from, to), ([0.0, 0.0, 3.0], [11.0, 22.0, 0.0]));
        // From the middle of a zero to the end of a number.
        assert!(run(&mut from, &mut to, 12, 12, 12));
        assert_eq!((from, to), ([0.0; 3], [11.0, 22.0, 3.0]));
        // From the middle of a number on.
        from = [0.0, 1.0, 2.0];
        assert!(!run(&mut from, &mut to, 12, 12, 12));
        // To the middle of a number: where it begins there is not known.
        (from, to) = ([0.0, 1.0, 2.0], [0.0; 3]);
        assert!(run(&mut from, &mut to, 8, 4, 16));
        assert_eq!(from, [0.0; 3]);
        let moved = to.map(f64::to_le_bytes).as_flattened()[4..20].to_vec();
        assert_eq!(moved, [1.0f64, 2.0].map(f64::to_le_bytes).as_flattened());
        // Places that overlap, from the middle of a zero: x[1..3] = x[0..2].
        let mut x = [0.0f64, 0.0, 100.0, 1000.0];
        let p = x.as_mut_ptr().cast::<u8>();
        assert!(copied_back(p.wrapping_add(12), p.wrapping_add(4), 20, 8));
        assert_eq!(x, [0.0, 100.0, 1000.0, 0.0]);
    }

    #[test]
    fn missing_shadows_are_not_touched() {
        let (mut a, mut b) = ([1.0f64; 3], [2.0f64; 3]);
        let (pa, pb) = (a.as_mut_ptr().cast::<u8>(), b.as_mut_ptr().cast::<u8>());
        let (qa, qb) = (pa.wrapping_sub(16), pb.wrapping_sub(16));
        // SAFETY: all ranges are whole arrays or not touched.
        unsafe {
            brolga_memmove_rev(std::ptr::null_mut(), 0, qb, 16, 24, 8);
            assert_eq!(b, [2.0; 3]);
            brolga_memmove_rev(qa, 16, std::ptr::null_mut(), 0, 24, 8);
            assert_eq!(a, [0.0; 3]);
            brolga_copy_shadow(qa, 16, qb, 16, 24);
            assert_eq!(a, [2.0; 3]);
            brolga_copy_shadow(std::ptr::null_mut(), 0, qb, 16, 24);
            brolga_copy_shadow(qa, 16, std::ptr::null_mut(), 0, 8);
            assert_eq!(a, [0.0, 2.0, 2.0]);
            brolga_zero(std::ptr::null_mut(), 0, 24);
            brolga_zero(qb, 16, 16);
            assert_eq!(b, [0.0, 0.0, 2.0]);
        }
    }

    #[test]
    fn saved_bytes_come_back_last_in_first_out() {
        let mut seg = Segment::new(1 << 20).unwrap();
        let mut memory = *b"hello, tape segment";
        let original = memory;
        let p = memory.as_mut_ptr();
        // SAFETY: all ranges lie in `memory`; pops mirror pushes.
        unsafe {
            assert_eq!(brolga_save_bytes(&mut *seg, p, 5), status::OK);
            p.write_bytes(b'x', 5);
            assert_eq!(brolga_save_bytes(&mut *seg, p.add(3), 16), status::OK);
            p.add(3).write_bytes(b'y', 16);
            assert_eq!(brolga_save_bytes(&mut *seg, p, 0), status::OK);
            assert_eq!(seg.bytes_used(), 8 + 16);
            for _ in 0..2 {
                p.write_bytes(b'z', 19);
                seg.begin_pullback();
                brolga_restore_bytes(&mut *seg, p, 0);
                brolga_restore_bytes(&mut *seg, p.add(3), 16);
                brolga_restore_bytes(&mut *seg, p, 5);
                assert_eq!((memory, seg.bytes_left()), (original, 0));
            }
        }
    }

    #[test]
    fn a_full_tape_says_so_and_stays_as_it_was() {
        let mut seg = Segment::new(32).unwrap();
        let bytes = [1u8; 64];
        // SAFETY: reads lie in `bytes`, and the sizes that do not are refused before reading.
        unsafe {
            assert_eq!(brolga_save_bytes(&mut *seg, bytes.as_ptr(), 20), status::OK);
            assert_eq!(brolga_save_bytes(&mut *seg, bytes.as_ptr(), 9), status::TAPE_FULL);
            assert_eq!(brolga_save_bytes(&mut *seg, bytes.as_ptr(), u64::MAX), status::TAPE_FULL);
            assert_eq!(seg.bytes_used(), 24);
            assert_eq!(brolga_save_bytes(&mut *seg, bytes.as_ptr(), 8), status::OK);
            assert_eq!(brolga_save_bytes(&mut *seg, bytes.as_ptr(), 1), status::TAPE_FULL);
        }
    }

    #[test]
    fn block_routines_are_those_of_c() {
        let (mut a, b) = ([0u8; 4], [1u8, 2, 3, 4]);
        // SAFETY: four bytes each.
        unsafe {
            assert_eq!(memcpy(a.as_mut_ptr(), b.as_ptr(), 4), a.as_mut_ptr());
            assert_eq!(memcmp(a.as_ptr(), b.as_ptr(), 4), 0);
            memmove(a.as_mut_ptr().add(1), a.as_ptr(), 3);
            assert_eq!(a, [1, 1, 2, 3]);
            assert!(memcmp(a.as_ptr(), b.as_ptr(), 4) < 0);
            memset(a.as_mut_ptr(), 7, 3);
        }
        assert_eq!(a, [7, 7, 7, 3]);
    }
}
