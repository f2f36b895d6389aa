//! What generated code calls for forks: [`crate::forks`] has the tasks.

use crate::forks::ForkCall;
use crate::segment::Segment;

/// Run the forward passes of the tasks of a fork. Returns 0 if one of them has trapped, 1 if all
/// have run, and 2 if the tape is full.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; `call`, with the words behind it, describes
/// generated code that takes them. The caller is generated code that a guarded call has entered.
pub unsafe extern "C" fn brolga_fork(seg: *mut Segment, call: *const ForkCall, n: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).fork(call, n as usize) as u64 }
}

/// Run the pullbacks of the tasks of the last fork that has not been reversed. Returns 0 if one of
/// them has trapped, and otherwise 1.
///
/// # Safety
/// As for [`brolga_fork`], which this segment has been used for.
pub unsafe extern "C" fn brolga_join(seg: *mut Segment, _: u64, _: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).join() as u64 }
}
