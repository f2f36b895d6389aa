//! Helpers for pieces in forward mode: what generated code calls where floats move in pieces
//! ([`crate::pieces::tangents`]).
//!
//! **Question.** A float is moved in parts, with its tangent beside it, bit by bit. Is what is put
//! together at the end the tangent of a float?
//!
//! **Answer.** A *piece* has the same part of the tangent's bits as of the primal's. Which
//! tangent belongs to which float is noted where a piece is loaded ([`brolga_tangent_note`],
//! [`brolga_tangent_note_word`]) and looked up where one is made whole ([`brolga_tangent_whole`],
//! [`brolga_tangent_digits`]). Shadow memory to which pieces were stored is *dirty*
//! ([`brolga_tangent_mark`]), and copies and fills of memory take that along. Before floats are
//! loaded from dirty memory it is settled ([`brolga_tangent_settle`]): a tangent that is known is
//! put there, another one becomes poison. `Segment::end_tangent` does so for what is dirty when the
//! run ends.
//!
//! **Invariant.** `waiting` of the segment says whether anything is dirty, so that generated code
//! asks only then.
//!
//! **Safety.** Generated code passes a segment that it alone uses; primal and shadow are valid for
//! the bytes and for the multiples of eight around them.
//!
//! **Cost.** Two look-ups in hash tables for each half of a word that is noted, marked or settled.
//! Where all is zero, and where there is no shadow, one test.

use crate::pieces::WindowContents;
use crate::pieces::tangents::{HALF, POISON, WINDOW, halves, windows, word};
use crate::segment::Segment;

impl Segment {
    /// A run of forward mode ends: tangents in dirty memory that are not known become poison, where
    /// the caller knows what floats lie there.
    ///
    /// # Safety
    /// The memory that was passed to the run, primal and shadow, is still valid where the caller
    /// knows what lies there.
    pub unsafe fn end_tangent(&mut self, at: &dyn Fn(usize) -> WindowContents) {
        let dirty = self.tangent_pieces.dirty.take();
        self.waiting = 0;
        for (half, delta) in dirty {
            let window = half & !(WINDOW - 1);
            match at(window) {
                // SAFETY: our contract.
                WindowContents::Floats(WINDOW) => unsafe { self.tangent_pieces.settle(window, delta, WINDOW) },
                // SAFETY: the same.
                WindowContents::Floats(_) => unsafe { self.tangent_pieces.settle(half, delta, HALF) },
                WindowContents::Unknown | WindowContents::Nothing | WindowContents::Constants => {}
            }
        }
    }
}

/// `n` bytes at `p` have been loaded as a piece of what lies there.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; primal and shadow are valid for the bytes
/// and the multiples of eight around them.
pub unsafe extern "C" fn brolga_tangent_note(seg: *mut Segment, p: u64, delta: u64, n: u64) {
    if delta == 0 {
        return;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let (p, n, delta) = (p as usize, n as usize, delta as usize);
    let across = seg.pieces.may_lie_across();
    for at in windows(p.wrapping_add(delta), n) {
        // A double at four modulo eight lies in two windows.
        let begins = if across { &[-4_isize, 0, 4][..] } else { &[0] };
        for &from in begins {
            let at = at.wrapping_add_signed(from);
            // SAFETY: our contract; what lies across is inside of an instance's memory.
            let (primal, tangent) = unsafe { (word(at.wrapping_sub(delta)), word(at)) };
            // What was put together of pieces was noted where they come from, if it is a float.
            let float = [at, at + HALF].map(|half| !seg.tangent_pieces.dirty.contains(half));
            seg.tangent_pieces.note_parts(primal, tangent, float);
        }
    }
}

/// A word of bits of floats becomes a piece.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_tangent_note_word(seg: *mut Segment, primal: u64, tangent: u64) {
    if tangent != 0 {
        // SAFETY: our contract.
        unsafe { &mut *seg }.tangent_pieces.note_word(primal, tangent);
    }
}

/// A word becomes floats of `of` bytes: the bits of their tangents.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_tangent_whole(seg: *mut Segment, primal: u64, tangent: u64, of: u64) -> u64 {
    if tangent == 0 {
        return 0;
    }
    // SAFETY: our contract.
    let known = &unsafe { &*seg }.tangent_pieces;
    if of == 8 {
        return known.known_tangent(8, primal, tangent);
    }
    let half =
        |shift: u32| known.known_tangent(4, primal >> shift & 0xffff_ffff, tangent >> shift & 0xffff_ffff) << shift;
    half(0) | half(32)
}

/// What has to be added to the tangents of a word that becomes floats of `of` bytes: the last
/// digits that a number has replaced in the primal, or [`POISON`] where they are not whole;
/// otherwise the zero that changes no float. The bits of floats of this size.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_tangent_digits(seg: *mut Segment, primal: u64, tangent: u64, of: u64) -> u64 {
    // SAFETY: our contract.
    let full = unsafe { brolga_tangent_whole(seg, primal, tangent, of) };
    match of {
        8 => left_out(8, tangent, full),
        _ => left_out(4, tangent, full) | left_out(4, tangent >> 32, full >> 32) << 32,
    }
}

/// The same of the float of `of` bytes at `p`, whose tangent lies `delta` further.
///
/// # Safety
/// As for [`brolga_tangent_note`].
pub unsafe extern "C" fn brolga_tangent_digits_at(seg: *mut Segment, p: u64, delta: u64, of: u64) -> u64 {
    // SAFETY: our contract.
    let known = &unsafe { &*seg }.tangent_pieces;
    let (float, size) = (p.wrapping_add(delta) as usize, of as usize);
    if known.dirty_floats(float, size, size).next().is_none() {
        return left_out(size, 0, 0);
    }
    // SAFETY: our contract.
    let (tangent, full) = unsafe { known.settled(float, delta as usize, size) };
    left_out(size, tangent, full)
}

/// What has to be added to a float of `size` bytes to have another that has the same first digits;
/// all three by their bits.
fn left_out(size: usize, is: u64, full: u64) -> u64 {
    if size == 8 {
        let sum = || (f64::from_bits(full) - f64::from_bits(is)).to_bits();
        return if is == full { (-0.0_f64).to_bits() } else { poison_or(full, POISON.0, sum) };
    }
    let (is, full) = (is as u32, full as u32);
    let sum = || (f32::from_bits(full) - f32::from_bits(is)).to_bits().into();
    if is == full { (-0.0_f32).to_bits().into() } else { poison_or(full.into(), POISON.1.into(), sum) }
}

fn poison_or(full: u64, poison: u64, other: impl Fn() -> u64) -> u64 {
    if full == poison { poison } else { other() }
}

/// A piece, or a number without a tangent, has been stored to `n` bytes at `p`.
///
/// # Safety
/// As for [`brolga_tangent_note`].
pub unsafe extern "C" fn brolga_tangent_mark(seg: *mut Segment, p: u64, delta: u64, n: u64) {
    if delta == 0 {
        return;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let (at, n) = (p.wrapping_add(delta) as usize, n as usize);
    for half in halves(at, n) {
        let around = if seg.pieces.may_lie_across() { half - HALF } else { half & !(WINDOW - 1) };
        let end = if seg.pieces.may_lie_across() { half + WINDOW } else { around + WINDOW };
        // SAFETY: our contract.
        let some = (around..end).step_by(HALF).any(|at| unsafe { (at as *const u32).read_unaligned() } != 0);
        // Where all is zero there is nothing to be told apart.
        if some {
            seg.tangent_pieces.dirty.insert(half, delta as usize);
        } else {
            seg.tangent_pieces.dirty.remove(half);
        }
    }
    seg.note_waiting();
}

/// Floats of `of` bytes are going to be loaded from `n` bytes at `p`: tangents that are not known
/// become poison. If `of` is 0, floats have been stored there.
///
/// # Safety
/// As for [`brolga_tangent_note`].
pub unsafe extern "C" fn brolga_tangent_settle(seg: *mut Segment, p: u64, delta: u64, n: u64, of: u64) {
    if delta == 0 {
        return;
    }
    if of == 0 {
        // SAFETY: our contract.
        return unsafe { brolga_tangent_clean(seg, p, delta, n) };
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    for float in seg.tangent_pieces.dirty_floats(p.wrapping_add(delta) as usize, n as usize, of as usize) {
        // SAFETY: our contract.
        unsafe { seg.tangent_pieces.settle(float, delta as usize, of as usize) };
    }
}

/// Floats have been stored to `n` bytes at `p`.
///
/// # Safety
/// As for [`brolga_tangent_note`].
pub unsafe extern "C" fn brolga_tangent_clean(seg: *mut Segment, p: u64, delta: u64, n: u64) {
    if delta == 0 {
        return;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let (at, n) = (p.wrapping_add(delta) as usize, n as usize);
    let inside = |half: &usize| *half >= at && *half + HALF <= at + n;
    for half in halves(at, n).filter(inside) {
        seg.tangent_pieces.dirty.remove(half);
    }
    seg.note_waiting();
}

/// Whether the tangent of a float of `of` bytes among `n` bytes at `p` is not known.
///
/// # Safety
/// As for [`brolga_tangent_note`].
pub unsafe extern "C" fn brolga_tangent_unsettled(seg: *mut Segment, p: u64, delta: u64, n: u64, of: u64) -> u64 {
    if delta == 0 {
        return 0;
    }
    // SAFETY: our contract.
    let known = &unsafe { &*seg }.tangent_pieces;
    let mut floats = known.dirty_floats(p.wrapping_add(delta) as usize, n as usize, of as usize);
    // SAFETY: our contract.
    u64::from(floats.any(|float| unsafe { !known.is_settled(float, delta as usize, of as usize) }))
}

/// `memmove` of a shadow, with what is dirty in it.
///
/// # Safety
/// As for [`brolga_copy_shadow`](crate::calls::memory::brolga_copy_shadow); `seg` is a valid
/// segment that no other thread uses.
pub unsafe extern "C" fn brolga_tangent_copy(
    seg: *mut Segment,
    dst: *mut u8,
    dst_delta: u64,
    src: *const u8,
    src_delta: u64,
    n: u64,
) {
    // SAFETY: our contract.
    unsafe {
        crate::calls::memory::brolga_copy_shadow(dst, dst_delta, src, src_delta, n);
        brolga_tangent_copied(seg, dst as u64, dst_delta, src as u64, src_delta, n);
    }
}

/// A shadow has been copied: what was dirty in the one place is dirty in the other.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_tangent_copied(
    seg: *mut Segment,
    dst: u64,
    dst_delta: u64,
    src: u64,
    src_delta: u64,
    n: u64,
) {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    if seg.waiting == 0 || dst_delta == 0 || n == 0 {
        return;
    }
    let shadow = |p: usize, delta: u64| p.wrapping_add(delta as usize);
    let (to, from, n) = (shadow(dst as usize, dst_delta), shadow(src as usize, src_delta), n as usize);
    let mut dirty = Vec::new();
    for half in halves(to, n) {
        let there = half.wrapping_sub(to).wrapping_add(from);
        let is_dirty = src_delta != 0 && halves(there, HALF).any(|h| seg.tangent_pieces.dirty.contains(h));
        let partly = half < to || half + HALF > to + n;
        dirty.push((half, is_dirty || partly && seg.tangent_pieces.dirty.contains(half)));
    }
    for (half, is_dirty) in dirty {
        if is_dirty {
            seg.tangent_pieces.dirty.insert(half, dst_delta as usize);
        } else {
            seg.tangent_pieces.dirty.remove(half);
        }
    }
    seg.note_waiting();
}

/// `memset` of a shadow.
///
/// # Safety
/// As for [`brolga_zero`](crate::calls::memory::brolga_zero) and [`brolga_tangent_note`].
pub unsafe extern "C" fn brolga_tangent_zero(seg: *mut Segment, p: *mut u8, delta: u64, n: u64) {
    // SAFETY: our contract.
    unsafe {
        crate::calls::memory::brolga_zero(p, delta, n);
        brolga_tangent_zeroed(seg, p as u64, delta, n);
    }
}

/// A shadow has been cleared.
///
/// # Safety
/// As for [`brolga_tangent_note`].
pub unsafe extern "C" fn brolga_tangent_zeroed(seg: *mut Segment, at: u64, delta: u64, n: u64) {
    if delta == 0 || n == 0 {
        return;
    }
    // SAFETY: our contract. Both ends may be parts of floats.
    unsafe {
        brolga_tangent_settle(seg, at, delta, n, 0);
        brolga_tangent_mark(seg, at, delta, 1);
        brolga_tangent_mark(seg, at + n - 1, delta, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pieces::tangents::POISON;

    /// A double and its tangent, and room for a copy of both.
    struct Memory {
        primal: [f64; 2],
        shadow: [f64; 2],
    }

    fn run(change: impl FnOnce(&mut Memory, *mut Segment, u64)) -> f64 {
        let mut seg = Segment::new(1 << 16).expect("there is memory");
        let mut m = Box::new(Memory { primal: [3.5, 0.0], shadow: [0.7, 0.0] });
        let delta = (&raw const m.shadow as u64).wrapping_sub(&raw const m.primal as u64);
        let (seg, to) = (seg.as_mut_ptr(), &raw const m.primal[1] as u64);
        change(&mut m, seg, delta);
        // SAFETY: all lies in `m`.
        unsafe { brolga_tangent_settle(seg, to, delta, 8, 8) };
        m.shadow[1]
    }

    /// Copy four bytes of both, as two words of a program do.
    fn half(m: &mut Memory, seg: *mut Segment, delta: u64, half: usize) {
        let from = &raw const m.primal as usize + 4 * half;
        // SAFETY: all lies in `m`.
        unsafe {
            brolga_tangent_note(seg, from as u64, delta, 4);
            for base in [&raw mut m.primal, &raw mut m.shadow] {
                let words = base.cast::<u32>();
                words.add(2 + half).write(words.add(half).read());
            }
            brolga_tangent_mark(seg, from as u64 + 8, delta, 4);
        }
    }

    #[test]
    fn two_halves_are_a_float() {
        let joined = run(|m, seg, delta| [0, 1].into_iter().for_each(|k| half(m, seg, delta, k)));
        assert_eq!(joined.to_bits(), 0.7_f64.to_bits());
    }

    #[test]
    fn a_lower_half_is_none_and_an_upper_half_is_a_float_without_its_last_digits() {
        let found = run(|m, seg, delta| half(m, seg, delta, 0));
        assert_eq!(found.to_bits(), POISON.0);
        let found = run(|m, seg, delta| half(m, seg, delta, 1));
        assert_eq!(found.to_bits(), 0.7_f64.to_bits());
    }

    #[test]
    fn an_upper_half_of_two_floats_is_none() {
        let found = run(|m, seg, delta| {
            half(m, seg, delta, 1);
            // Another float of the same upper half and another tangent.
            m.shadow[0] = f64::from_bits(m.shadow[0].to_bits() ^ 1);
            half(m, seg, delta, 1);
        });
        assert_eq!(found.to_bits(), POISON.0);
    }

    #[test]
    fn a_float_in_place_of_a_half_is_clean() {
        let found = run(|m, seg, delta| {
            half(m, seg, delta, 1);
            (m.primal[1], m.shadow[1]) = (2.0, 0.3);
            // SAFETY: all lies in `m`.
            unsafe { brolga_tangent_settle(seg, &raw const m.primal[1] as u64, delta, 8, 0) };
        });
        assert_eq!(found, 0.3);
    }

    #[test]
    fn a_number_in_place_of_a_half_is_seen() {
        let found = run(|m, seg, delta| {
            (m.primal[1], m.shadow[1]) = (2.0, 0.3);
            let low = &raw mut m.shadow[1];
            // SAFETY: all lies in `m`.
            unsafe {
                low.cast::<u32>().write(0);
                brolga_tangent_mark(seg, &raw const m.primal[1] as u64, delta, 4);
            }
        });
        assert_eq!(found.to_bits(), POISON.0);
    }
}
