//! An alternate signal stack on every thread that makes a guarded call.
//!
//! **Question.** On which stack does the handler of a stack overflow run?
//!
//! **Answer.** On one of its own, which each thread has that makes a guarded call.
//!
//! Without one, the handler of a stack overflow would have no stack to run on. Rust gives one to
//! the threads it starts, but not to threads that other languages started and that call into us,
//! and only if its own handler is installed.
//!
//! **Cost.** One system call for each thread, and 64 KiB where it has none.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;

/// Ample for our handler and for the registers that the kernel stores, vector state included.
const SIZE: usize = 64 << 10;

thread_local! {
    /// Whether this thread has been looked at. Apart from `OWNED`, so that the common case costs no
    /// destructor check.
    static CHECKED: Cell<bool> = const { Cell::new(false) };
    static OWNED: Cell<Option<AltStack>> = const { Cell::new(None) };
}

/// A stack that we installed.
struct AltStack {
    base: *mut libc::c_void,
    length: usize,
}

/// Make sure that this thread has an alternate stack.
pub(super) fn ensure() {
    if !CHECKED.replace(true) && !present() {
        // A thread that is past its destructors, or for which there is no memory, does without:
        // only a stack overflow is then fatal, as it would be without us.
        let _ = OWNED.try_with(|owned| owned.set(AltStack::install()));
    }
}

fn present() -> bool {
    let mut current = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: asks only; all-zero bytes are a valid stack_t.
    let current = unsafe {
        libc::sigaltstack(ptr::null(), current.as_mut_ptr());
        current.assume_init()
    };
    current.ss_flags & libc::SS_DISABLE == 0
}

impl AltStack {
    fn install() -> Option<Self> {
        // SAFETY: sysconf only asks.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let length = page + SIZE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, without access at first.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let stack = AltStack { base, length };
        let usable = base.wrapping_byte_add(page);
        let request = libc::stack_t { ss_sp: usable, ss_flags: 0, ss_size: SIZE };
        // SAFETY: the pages lie in our mapping, the lowest of which stays without access, to catch
        // an overflow of this stack; the mapping lives until the thread ends.
        let installed = unsafe {
            libc::mprotect(usable, SIZE, libc::PROT_READ | libc::PROT_WRITE) == 0
                && libc::sigaltstack(&request, ptr::null_mut()) == 0
        };
        installed.then_some(stack)
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        let mut current = MaybeUninit::<libc::stack_t>::zeroed();
        // SAFETY: we disable the stack only if it is still this one, and then no code can be
        // running on it, since the thread is here; if it was replaced, it is out of use as well.
        unsafe {
            libc::sigaltstack(ptr::null(), current.as_mut_ptr());
            let range = self.base as usize..self.base as usize + self.length;
            if range.contains(&(current.assume_init().ss_sp as usize)) {
                let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: SIZE };
                libc::sigaltstack(&none, ptr::null_mut());
            }
            libc::munmap(self.base, self.length);
        }
    }
}
