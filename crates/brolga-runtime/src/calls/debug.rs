//! What a debug run checks of shadow accesses: that they stay inside what the caller declared.
//!
//! **Problem.** A shadow is the caller's memory. One that is too short, or that lies on top of a
//! primal, gives no trap: the pullback adds cotangents to whatever is there, and the gradient, or
//! the caller, is wrong later.
//!
//! **Answer.** In debug mode the caller says how long its buffers are, the run keeps that list in
//! its segment, and every shadow access of generated code asks [`brolga_debug_shadow`] first. An
//! access is known by its delta:
//!
//! ```text
//!   delta of a declared buffer     the access lies in the shadow of one of the buffers with this delta,
//!                                  or else: SHADOW_BOUNDS
//!   any delta but 0                it overlaps no declared primal, or else: SHADOW_ALIASES_PRIMAL
//!   delta 0                        it overlaps no declared primal that has a shadow, or else: CONST_ALIAS
//! ```
//!
//! Deltas that are not declared (heap, stack, data objects) are checked by the second line only,
//! and generated code does not heed the first one for pointers that it has loaded: those may have a
//! declared delta by chance. A buffer without a declared length takes its delta out of the first
//! line: what cannot be judged is not reported.
//!
//! **Steps.** What steps of a time loop write has to be in its states, or go with the run that
//! wrote it. So each store of a step asks [`brolga_debug_store`], which knows the loops that are
//! running. It looks at buffers that the caller has declared: a step's own slots and blocks are
//! none.
//!
//! **Limits.** Buffers that a caller carves out of two arenas with one distance between them share
//! a delta. If a callee is given a pointer to one that was not declared, its accesses look like
//! ones that are out of bounds.
//!
//! **Cost.** Of a debug run alone: for each access a look at each buffer that was declared.

use crate::segment::Segment;
use crate::shadows::declared::DeclaredPointer;
use crate::states::loops::LoopFault;

/// The access lies outside of the shadows that it may belong to.
pub const SHADOW_BOUNDS: u64 = 1;
/// The shadow lies on top of a primal.
pub const SHADOW_ALIASES_PRIMAL: u64 = 2;
/// There is no shadow, but what is accessed has one under another pointer.
pub const CONST_ALIAS: u64 = 4;

/// Whether `[a, a + n)` and `[b, b + m)` have a byte in common.
pub fn overlap(a: u64, n: u64, b: u64, m: u64) -> bool {
    n > 0 && m > 0 && a < b.saturating_add(m) && b < a.saturating_add(n)
}

fn inside(at: u64, n: u64, begin: u64, len: u64) -> bool {
    at >= begin && at.checked_add(n).is_some_and(|end| end <= begin.saturating_add(len))
}

/// What is wrong with an access of `n` bytes to the shadow of `address`, given what was declared: a
/// sum of [`SHADOW_BOUNDS`], [`SHADOW_ALIASES_PRIMAL`] and [`CONST_ALIAS`], or 0.
pub fn judge(declared: &[DeclaredPointer], address: u64, delta: u64, n: u64) -> u64 {
    if n == 0 {
        return 0;
    }
    let sized = || declared.iter().filter_map(|d| Some((d, d.len?)));
    if delta == 0 {
        let hit = sized().any(|(d, len)| d.shadow != 0 && overlap(address, n, d.primal, len));
        return if hit { CONST_ALIAS } else { 0 };
    }
    let at = address.wrapping_add(delta);
    let mut same = declared.iter().filter(|d| d.shadow != 0 && d.shadow.wrapping_sub(d.primal) == delta).peekable();
    let strayed = same.peek().is_some() && !same.any(|d| d.len.is_none_or(|len| inside(at, n, d.shadow, len)));
    let aliases = sized().any(|(d, len)| overlap(at, n, d.primal, len));
    u64::from(strayed) * SHADOW_BOUNDS + u64::from(aliases) * SHADOW_ALIASES_PRIMAL
}

/// [`judge`] for an access at `address + offset`.
///
/// # Safety
/// `seg` is a valid segment.
pub unsafe extern "C" fn brolga_debug_shadow(
    seg: *const Segment,
    address: u64,
    delta: u64,
    offset: i64,
    n: u64,
) -> u64 {
    // SAFETY: our contract.
    let declared = unsafe { &(*seg).declared };
    judge(declared, address.wrapping_add(offset as u64), delta, n)
}

/// Whether a store of `n` bytes at `address + offset` is one of a step of a time loop into a buffer
/// that the caller has declared, outside of the states of a loop that is running: 1, and the reason
/// is kept, or 0.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_debug_store(seg: *mut Segment, address: u64, offset: i64, n: u64) -> u64 {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let at = address.wrapping_add(offset as u64);
    let hit = |d: &&DeclaredPointer| d.len.is_some_and(|len| overlap(at, n, d.primal, len));
    let declared = seg.declared.iter().find(hit).filter(|_| !seg.loops.may_write(at, n));
    let Some(buffer) = declared else { return 0 };
    seg.loops.fails(LoopFault::Footprint { offset: at.wrapping_sub(buffer.primal) as i64 });
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: [DeclaredPointer; 3] = [
        DeclaredPointer { primal: 1000, shadow: 2000, len: Some(80) },
        DeclaredPointer { primal: 1100, shadow: 2100, len: Some(16) },
        DeclaredPointer { primal: 5000, shadow: 0, len: Some(8) },
    ];

    #[test]
    fn accesses_inside_any_buffer_of_the_delta_are_right() {
        for (at, n) in [(1000, 8), (1072, 8), (1000, 80), (1100, 16), (1080, 0)] {
            assert_eq!(judge(&DECLARED, at, 1000, n), 0, "{at}+{n}");
        }
        for (at, n) in [(1073, 8), (1080, 8), (992, 8), (1096, 8), (1108, 16), (u64::MAX - 1004, 8)] {
            assert_eq!(judge(&DECLARED, at, 1000, n), SHADOW_BOUNDS, "{at}+{n}");
        }
    }

    #[test]
    fn unknown_deltas_and_lengths_are_not_judged() {
        assert_eq!(judge(&DECLARED, 7000, 64, 8), 0);
        let open = [DECLARED[0], DeclaredPointer { primal: 3000, shadow: 4000, len: None }];
        assert_eq!(judge(&open, 1500, 1000, 8), 0);
    }

    #[test]
    fn shadows_on_primals_and_lost_shadows() {
        assert_eq!(judge(&DECLARED, 4996, 4, 8), SHADOW_ALIASES_PRIMAL);
        assert_eq!(judge(&DECLARED, 100, 1000, 8), SHADOW_BOUNDS + SHADOW_ALIASES_PRIMAL);
        assert_eq!(judge(&DECLARED, 1008, 0, 8), CONST_ALIAS);
        // Constant memory has no shadow to miss.
        assert_eq!(judge(&DECLARED, 5000, 0, 8), 0);
    }
}
