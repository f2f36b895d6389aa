//! Guarded calls: a hardware trap in generated code comes back as an error, and the process lives.
//!
//! **Problem.** A trap in CLIF is an undefined instruction or a faulting access in machine code:
//! the kernel answers with a signal whose default is the end of the process. The code that trapped
//! has no landing pads and keeps nothing that must be cleaned up, so all we need is to abandon its
//! frames.
//!
//! **Answer.** [`call_guarded`] enters the code through a trampoline that saves what the calling
//! convention lets a callee not touch, and notes its stack pointer and the address of its landing
//! pad in a frame on a thread-local chain:
//!
//! ```text
//!   call_guarded -> trampoline -> generated code -> ud2
//!                      ^  landing pad               | SIGILL
//!                      |                            v
//!                      +-- pc, sp of the frame <- handler, on the alternate stack
//! ```
//!
//! The handler does not jump. It rewrites the interrupted context so that *returning from the
//! signal* continues at the landing pad, which restores the saved registers (and MXCSR, x87 control
//! word and direction flag, or FPCR) and returns 1 to `call_guarded`. The kernel restores the
//! signal mask on the way. Nothing is allocated or locked in the handler.
//!
//! **Which faults are ours.** Those raised by the hardware (not sent by `kill`) while the innermost
//! guarded call of the thread runs and either the pc lies in that call's [`CodeRanges`], or a leaf
//! routine is at work, which touches memory on behalf of one instruction of the code and is
//! reported as that instruction, or the pc is itself the address that could not be accessed, and
//! the code has just called it: a call through a pointer that leads nowhere. Any other goes to the
//! handler that was there before us, as the kernel would have delivered it.
//!
//! **Handlers that come later.** A handler that is installed after the first guarded call, and does
//! not pass on what it does not know, takes our traps: they end as it sees fit, mostly with the
//! process. [`install_handlers`] puts ours in front again, and [`handlers_are_in_place`] tells,
//! which a debug run asks before each call.
//!
//! *Stack overflow* is a fault on the guard page like any other, given an alternate stack for the
//! handler: `altstack` makes one for threads that have none. Generated code must not skip the guard
//! page (Cranelift: `enable_probestack` if frames can be large). An overflow inside a routine of
//! the C library that generated code has called is not ours: that routine may hold a lock, so
//! abandoning it would be worse than the end of the process.
//!
//! **Invariants.** `CURRENT` is null or points to the frame of the innermost guarded call of this
//! thread. Rust frames between generated code and its trampoline are never abandoned, except those
//! of leaf routines, which own nothing.
//!
//! On targets other than Linux on x86-64 and aarch64 the call is a plain call, and a trap ends the
//! process as ever.
//!
//! **Cost.** Some dozen instructions for each guarded call; nothing in the code that it enters.
//!
//! **Source.** Trap handling of Wasmtime.

mod leaf;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod plain;
mod platform;
mod ranges;
mod trap;

pub use ranges::CodeRanges;
pub use trap::{Cause, Entry, RawTrap, Signal};

pub(crate) use leaf::{attributed, leaf};

use std::sync::LazyLock;

use platform::imp;

/// Call `entry(arg)`. If a trap stops it, say which; everything that the code has written until
/// then stays written.
///
/// # Safety
/// - `entry` is code that may be called with `arg`, by the C calling convention, and does not
///   unwind.
/// - The ranges in `code` hold only generated code, whose frames may be abandoned: no destructors,
///   no locks. Whenever a pc in them can trap, no frame of other code lies between it and this
///   call.
pub unsafe fn call_guarded(entry: Entry, arg: *mut u8, code: &CodeRanges) -> Result<(), RawTrap> {
    // SAFETY: our contract.
    unsafe { imp::call(entry, arg, code) }
}

/// Where the code lies that the innermost guarded call of this thread has entered; nowhere, if
/// there is none.
///
/// # Safety
/// That call does not end while the ranges are used.
pub(crate) unsafe fn innermost<'c>() -> &'c CodeRanges {
    static NOWHERE: LazyLock<CodeRanges> = LazyLock::new(CodeRanges::default);
    // SAFETY: our contract.
    unsafe { imp::innermost() }.unwrap_or(&NOWHERE)
}

/// Install the signal handlers, before those that have been installed since they were. (The
/// first guarded call installs them as well.) Signals that are not ours go to the handler that was
/// installed last before this call.
pub fn install_handlers() {
    imp::reinstall();
}

/// Whether no other handlers for these signals have been installed since ours were.
pub fn handlers_are_in_place() -> bool {
    imp::in_place()
}

#[cfg(test)]
mod tests;
