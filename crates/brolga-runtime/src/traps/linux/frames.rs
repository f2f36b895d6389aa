//! The chain of guarded calls of a thread.
//!
//! **Question.** A signal arrives. Which guarded call of the thread does it end?
//!
//! **Answer.** The innermost, if the fault is at generated code or in a leaf routine that was
//! called from there.
//!
//! **Invariant.** `CURRENT` is null or points to the frame of the innermost guarded call of this
//! thread, which is alive. Only this thread and signal handlers that interrupt it read or write a
//! frame, hence cells and relaxed atomics suffice, with compiler fences where the order matters to
//! the handler.
//!
//! **Cost.** Two writes of a thread-local cell for each guarded call.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use crate::traps::ranges::CodeRanges;
use crate::traps::trap::RawTrap;

/// One guarded call. The trampoline writes the first two fields, which must stay first, and the
/// handler the last.
#[repr(C)]
pub(super) struct Frame {
    /// Stack pointer at the landing pad.
    pub sp: Cell<usize>,
    /// Address of the landing pad.
    pub landing: Cell<usize>,
    /// Return address of the leaf routine at work, or 0.
    pub leaf: AtomicUsize,
    pub code: *const CodeRanges,
    pub trap: Cell<Option<RawTrap>>,
}

thread_local! {
    /// The innermost guarded call. Constant and without destructor, so that a signal handler may
    /// read it.
    pub(super) static CURRENT: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Note that a leaf routine called from `caller` is about to touch memory.
pub(in crate::traps) fn mark<R>(caller: usize, access: impl FnOnce() -> R) -> R {
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
pub(super) fn claim(frame: &Frame, pc: usize, callee_of: Option<usize>) -> Option<usize> {
    // SAFETY: `call` has borrowed the ranges for as long as the frame lives.
    let code = unsafe { &*frame.code };
    // A return address points after the call, perhaps to another function; the call itself ends
    // one byte before.
    let call = frame.leaf.load(Relaxed).wrapping_sub(1);
    let caller = callee_of.map_or(0, |at| at.wrapping_sub(1));
    [pc, call, caller].into_iter().find(|&pc| code.contains(pc))
}
