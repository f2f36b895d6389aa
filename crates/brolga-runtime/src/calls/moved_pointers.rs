//! Pointers among what is copied: shadow memory holds addresses where the primal holds pointers.
//!
//! **Question.** Bytes are copied by code that does not know what they are. Which words of their
//! shadow are addresses, and which are cotangents?
//!
//! **Answer.** Addresses in the lower half of 47 bits, which a process has, are bits of a double
//! below 7e-310. A cotangent that is not zero is no such number where the source and the target
//! both have one. The shadow of a pointer is copied in the forward pass; the pullback finds it in
//! both places, takes it out of the target, and adds zero to the source. Where singles may lie, two
//! of them are such a word if the second is zero; there an address has more than 32 bits.
//!
//! **Cost.** Linear in the words.

use std::ops::Range;

/// Words that are addresses, of those that are not below `least`.
fn addresses(least: u64) -> Range<u64> {
    least..1 << 47
}

/// Each word of `n` bytes from `src` on, whose shadows are `src_delta` further, at multiples of
/// eight of the primal: its offset.
fn words(src: *const u8, n: u64, upwards: bool) -> impl Iterator<Item = usize> {
    let first = (src as usize).wrapping_neg() % 8;
    let count = (n as usize).saturating_sub(first) / 8;
    (0..count).map(move |i| first + 8 * if upwards { i } else { count - 1 - i })
}

/// Forward pass of copying `n` bytes of which it is not known what they are: shadows of pointers
/// are copied, and where there was one and is none now, there are zeros. Words from `least` on are
/// addresses. The two places may overlap.
///
/// # Safety
/// Each shadow that exists is valid for `n` bytes.
pub unsafe extern "C" fn brolga_copy_pointers(
    dst: *mut u8,
    dst_delta: u64,
    src: *const u8,
    src_delta: u64,
    n: u64,
    least: u64,
) {
    if dst_delta == 0 {
        return;
    }
    let (to, from) = (dst.wrapping_add(dst_delta as usize), src.wrapping_add(src_delta as usize));
    for at in words(src, n, to.cast_const() <= from || src_delta == 0) {
        // SAFETY: our contract: the word lies within the `n` bytes.
        let s = if src_delta == 0 { 0 } else { unsafe { from.wrapping_add(at).cast::<u64>().read_unaligned() } };
        let d = to.wrapping_add(at).cast::<u64>();
        let moved = addresses(least).contains(&s);
        // SAFETY: as above.
        if moved || addresses(least).contains(&unsafe { d.read_unaligned() }) {
            // SAFETY: as above.
            unsafe { d.write_unaligned(if moved { s } else { 0 }) };
        }
    }
}

/// Pullback of the same, before cotangents are moved: shadows of pointers are taken out of the
/// target.
///
/// # Safety
/// As for [`brolga_copy_pointers`].
pub unsafe extern "C" fn brolga_drop_pointers(
    dst: *mut u8,
    dst_delta: u64,
    src: *const u8,
    src_delta: u64,
    n: u64,
    least: u64,
) {
    if dst_delta == 0 || src_delta == 0 {
        return;
    }
    let (to, from) = (dst.wrapping_add(dst_delta as usize), src.wrapping_add(src_delta as usize));
    for at in words(src, n, true) {
        let d = to.wrapping_add(at).cast::<u64>();
        // SAFETY: our contract: the words lie within the `n` bytes.
        let both = unsafe { [d.read_unaligned(), from.wrapping_add(at).cast::<u64>().read_unaligned()] };
        if both.iter().all(|word| addresses(least).contains(word)) {
            // SAFETY: as above.
            unsafe { d.write_unaligned(0) };
        }
    }
}

/// Whether a pointer that has a shadow lies in one of the words that `n` bytes from `src` on are
/// part of. The shadow of `src` is at `wide + delta`: in a batch, whose width is `unit`, shadows
/// are so many times as large, and `wide` is so many times `src`.
///
/// # Safety
/// The primal may be read in the multiples of eight around the `n` bytes, and so may the shadow, if
/// there is one.
pub unsafe extern "C" fn brolga_meets_pointers(
    src: *const u8,
    wide: u64,
    delta: u64,
    n: u64,
    least: u64,
    unit: u64,
) -> u64 {
    if delta == 0 || n == 0 {
        return 0;
    }
    let src = src as u64;
    // A pointer that stands for itself has no shadow of its own.
    let is_one = |at: u64| {
        let shadow = wide.wrapping_add(delta).wrapping_add(at.wrapping_sub(src).wrapping_mul(unit)) as *const u64;
        // SAFETY: our contract.
        let [word, primal] = unsafe { [shadow.read_unaligned(), (at as *const u64).read_unaligned()] };
        addresses(least).contains(&word) && word != primal.wrapping_mul(unit)
    };
    u64::from((src & !7..src.wrapping_add(n)).step_by(8).any(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 1 << 16;

    #[test]
    fn pointers_are_copied_and_taken_out_again() {
        // Primals in the first half, shadows after: a pointer, a double, a pointer.
        let mut from = [1u64, 2, 3, 0x7000_0000_1000, 2.5f64.to_bits(), 0x7000_0000_2000];
        let mut to = [0u64; 6];
        let (d, s) = (to.as_mut_ptr().cast::<u8>(), from.as_mut_ptr().cast::<u8>());
        // SAFETY: 24 bytes, with shadows 24 bytes further.
        unsafe { brolga_copy_pointers(d, 24, s, 24, 24, LEAST) };
        assert_eq!(to[3..], [0x7000_0000_1000, 0, 0x7000_0000_2000]);
        to[4] = 1.0f64.to_bits();
        // SAFETY: as above.
        unsafe { brolga_drop_pointers(d, 24, s, 24, 24, LEAST) };
        assert_eq!(to[3..], [0, 1.0f64.to_bits(), 0]);
        assert_eq!(from[3], 0x7000_0000_1000);
        // SAFETY: as above.
        let met = |at: usize, n| unsafe {
            let at = s.wrapping_add(at);
            brolga_meets_pointers(at, at as u64, 24, n, LEAST, 1)
        };
        assert_eq!([met(0, 1), met(7, 1), met(8, 8), met(9, 8)], [1, 1, 0, 1]);
    }

    #[test]
    fn what_was_a_pointer_is_cleared_and_places_may_overlap() {
        let mut all = [0u64, 0, 0, 0x7000_0000_1000, 0x7000_0000_2000, 0x7000_0000_3000];
        let p = all.as_mut_ptr().cast::<u8>();
        // SAFETY: two words to the next, with shadows three words further.
        unsafe { brolga_copy_pointers(p.wrapping_add(8), 24, p, 24, 16, LEAST) };
        assert_eq!(all[3..], [0x7000_0000_1000, 0x7000_0000_1000, 0x7000_0000_2000]);
        // SAFETY: from where there is no shadow.
        unsafe { brolga_copy_pointers(p, 24, std::ptr::null(), 0, 16, LEAST) };
        assert_eq!(all[3..], [0, 0, 0x7000_0000_2000]);
    }
}
