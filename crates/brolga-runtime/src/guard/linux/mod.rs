//! The guard on Linux: the chain of guarded calls of a thread.
//!
//! *Invariant.* `CURRENT` is null or points to the frame of the innermost guarded call of this
//! thread, which is alive. Only this thread and signal handlers that interrupt it read or write a
//! frame, hence cells and relaxed atomics suffice, with compiler fences where the order matters to
//! the handler.

mod altstack;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;
mod signals;

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use super::ranges::CodeRanges;
use super::trap::{Entry, RawTrap};

/// One guarded call. The trampoline writes the first two fields, which must stay first, and the
/// handler the last.
#[repr(C)]
struct Frame {
    /// Stack pointer at the landing pad.
    sp: Cell<usize>,
    /// Address of the landing pad.
    landing: Cell<usize>,
    /// Return address of the leaf routine at work, or 0.
    leaf: AtomicUsize,
    code: *const CodeRanges,
    trap: Cell<Option<RawTrap>>,
}

thread_local! {
    /// The innermost guarded call. Constant and without destructor, so that a signal handler may
    /// read it.
    static CURRENT: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

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

/// See [`install_handlers`](super::install_handlers).
pub(super) fn install_again() {
    signals::install_again();
}

/// See [`handlers_are_in_place`](super::handlers_are_in_place).
pub(super) fn in_place() -> bool {
    signals::in_place()
}

/// Note that a leaf routine called from `caller` is about to touch memory.
pub(super) fn mark<R>(caller: usize, access: impl FnOnce() -> R) -> R {
    // SAFETY: null or alive, by the invariant.
    let Some(frame) = (unsafe { CURRENT.get().as_ref() }) else { return access() };
    frame.leaf.store(caller, Relaxed);
    compiler_fence(SeqCst);
    let result = access();
    compiler_fence(SeqCst);
    frame.leaf.store(0, Relaxed);
    result
}

/// If a fault at `pc` belongs to the guarded call `frame`, the pc to report. `callee_of` is the
/// return address, if the fault is that there is no code at `pc`.
fn claim(frame: &Frame, pc: usize, callee_of: Option<usize>) -> Option<usize> {
    // SAFETY: `call` has borrowed the ranges for as long as the frame lives.
    let code = unsafe { &*frame.code };
    // A return address points behind the call, perhaps to another function; the call itself ends
    // one byte before.
    let call = frame.leaf.load(Relaxed).wrapping_sub(1);
    let caller = callee_of.map_or(0, |at| at.wrapping_sub(1));
    [pc, call, caller].into_iter().find(|&pc| code.contains(pc))
}
