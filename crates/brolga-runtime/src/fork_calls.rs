//! What generated code calls for forks: [`crate::forks`] has the tasks.

use crate::forks::ForkCall;
use crate::segment::Segment;

/// Run the forward passes of the tasks of a fork. Returns 0 if one of them has trapped, 1 if all
/// have run, 2 if the tape is full, and 3 if there is no memory for pending sums.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; `call`, with the words behind it, describes
/// generated code that takes them. The caller is generated code that a guarded call has entered.
pub unsafe extern "C" fn brolga_fork(seg: *mut Segment, call: *const ForkCall, n: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).fork(call, n as usize) as u64 }
}

/// Run the pullbacks of the tasks of the last fork that has not been reversed. Returns 0 if one of
/// them has trapped, 3 if there is no memory for pending sums, and otherwise 1.
///
/// # Safety
/// As for [`brolga_fork`], which this segment has been used for.
pub unsafe extern "C" fn brolga_join(seg: *mut Segment, _: u64, _: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).join() as u64 }
}

/// The delta that a strand's pullback adds by in place of `delta`, which is that of `p`: to pending
/// sums, where the strand does not own the shadow.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_pending(seg: *mut Segment, p: u64, delta: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).pending_or_note(p as usize, delta as usize) as u64 }
}

/// What others have added for the `n` bytes of shadow at `p + delta` comes there, before they are
/// read or cleared.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses. The bytes are a shadow's, or its pending
/// sums' of this strand, and no concurrent task adds for them.
pub unsafe extern "C" fn brolga_gather(seg: *mut Segment, p: u64, delta: u64, n: u64) {
    if delta != 0 {
        // SAFETY: our contract.
        unsafe { (*seg).gather(p.wrapping_add(delta) as usize, n as usize) }
    }
}
