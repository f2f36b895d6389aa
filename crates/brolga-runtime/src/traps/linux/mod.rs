//! Guard on Linux: a handler for signals, and a landing pad for each guarded call ([`frames`]).
//!
//! **Question.** Generated code is called. How does a trap in it come back as an error, on a thread
//! that may make such calls within each other?
//!
//! **Answer.** [`call`] has the handler installed and an alternate stack ready, puts a frame on the
//! thread's chain, and enters the code by the trampoline of the architecture. If the handler has
//! sent control to the landing pad, the frame has the trap. The chain is as before when the call is
//! over.
//!
//! **Safety.** What lies below the landing pad on the stack is generated code, which may be
//! abandoned.
//!
//! **Cost.** Two tests and the trampoline for a call; a signal for a trap.

mod altstack;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;
mod frames;
mod signals;

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;

use super::ranges::CodeRanges;
use super::trap::{Entry, RawTrap};
use frames::{CURRENT, Frame};

pub(super) use frames::mark;

/// See [`call_guarded`](super::call_guarded).
///
/// # Safety
/// As there.
pub(super) unsafe fn call(entry: Entry, arg: *mut u8, code: &CodeRanges) -> Result<(), RawTrap> {
    signals::install();
    altstack::ensure();
    let frame =
        Frame { sp: Cell::new(0), landing: Cell::new(0), leaf: AtomicUsize::new(0), code, trap: Cell::new(None) };
    let outer = CURRENT.replace(&frame);
    // SAFETY: our caller's obligation for the code; the frame outlives the call. Should the handler
    // send control to the landing pad, what lies below it on the stack is generated code, which may
    // be abandoned.
    let landed = unsafe { arch::enter(entry, arg, &frame) };
    CURRENT.set(outer);
    match frame.trap.take() {
        Some(trap) if landed != 0 => Err(trap),
        _ => Ok(()),
    }
}

/// See [`innermost`](super::innermost).
///
/// # Safety
/// As there.
pub(super) unsafe fn innermost<'c>() -> Option<&'c CodeRanges> {
    // SAFETY: the frame is null or alive, and so are its ranges as long as the call that it is of.
    unsafe { CURRENT.get().as_ref().map(|frame| &*frame.code) }
}

/// See [`install_handlers`](super::install_handlers).
pub(super) fn reinstall() {
    signals::reinstall();
}

/// See [`handlers_are_in_place`](super::handlers_are_in_place).
pub(super) fn in_place() -> bool {
    signals::in_place()
}
