//! Guard of targets without one: the call is a plain call, and a trap ends the process.
//!
//! **Question.** What do guarded calls mean where no signal handler is written for the target?
//!
//! **Answer.** The functions of the guard on Linux, without effect: [`call`] calls, [`mark`] runs
//! the access, and there are no handlers.
//!
//! **Cost.** None beside the call.

use super::ranges::CodeRanges;
use super::trap::{Entry, RawTrap};

/// See [`call_guarded`](super::call_guarded).
///
/// # Safety
/// As there.
pub(super) unsafe fn call(entry: Entry, arg: *mut u8, _code: &CodeRanges) -> Result<(), RawTrap> {
    // SAFETY: our caller's obligation.
    unsafe { entry(arg) };
    Ok(())
}

/// Nothing would read it.
pub(super) fn mark<R>(_caller: usize, access: impl FnOnce() -> R) -> R {
    access()
}

/// No call is noted.
///
/// # Safety
/// There is nothing to keep.
pub(super) unsafe fn innermost<'c>() -> Option<&'c CodeRanges> {
    None
}

/// There are none.
pub(super) fn reinstall() {}

/// There are none that could be gone.
pub(super) fn in_place() -> bool {
    true
}
