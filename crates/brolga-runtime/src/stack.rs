//! Stack for work that may recurse.
//!
//! **Problem.** To derive and to compile is done by walks over blocks, values and expressions, ours
//! and Cranelift's, some of which recurse as deep as their input is. A host may call on a thread
//! with a small stack (fibers of a server, threads of musl, secondary threads of macOS), and to run
//! out of stack is the end of the process.
//!
//! **Answer.** The caller of such work says how much stack it may need. If less is left, or that is
//! not known, the work is done on a thread of its own, while the caller waits. Untouched pages of a
//! stack take no memory.
//!
//! **Cost.** A look at the stack pointer; a thread where there is too little.

use std::thread::{Builder, scope};

/// What is asked for by the smallest program.
const LEAST: usize = 512 << 10;
/// For each instruction: a frame or two of a walk.
const EACH: usize = 1 << 10;
/// No stack is larger.
const MOST: usize = 256 << 20;
/// A thread that is made has no less than this.
const THREAD_STACK: usize = 8 << 20;

/// Run `work`, about so many instructions, with a stack that is large enough for it.
pub fn ample<R: Send>(insts: usize, work: impl FnOnce() -> R + Send) -> R {
    let need = insts.saturating_mul(EACH).saturating_add(LEAST).min(MOST);
    if left().is_some_and(|left| left >= need) { work() } else { elsewhere(need.max(THREAD_STACK), work) }
}

/// Bytes of stack that are left where generated code is entered from a routine that it has called.
const MARGIN: usize = 256 << 10;

/// A thread that goes on with a recursion.
const MORE: usize = 64 << 20;

/// Run `work`, which may enter generated code that comes back here: on another thread, if little of
/// the stack is left. An overflow in generated code is a trap, but one in a routine of ours is not.
pub(crate) fn with_margin<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if left().is_none_or(|left| left >= MARGIN) { work() } else { elsewhere(MORE, work) }
}

/// Whether the calling thread is known to have so many bytes of stack left.
pub fn is_left(bytes: usize) -> bool {
    left().is_some_and(|left| left >= bytes)
}

/// Run `work` on a thread with so much stack, while the caller waits.
fn elsewhere<R: Send>(bytes: usize, work: impl FnOnce() -> R + Send) -> R {
    let mut work = Some(work);
    let mut run = || work.take().map(|work| work());
    let done = scope(|s| {
        let thread = Builder::new().name("brolga".to_owned()).stack_size(bytes).spawn_scoped(s, &mut run);
        thread.ok().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Where no thread can be made, what there is has to do.
    done.flatten().or_else(run).expect("it runs once")
}

/// Bytes of stack below this call, if that is known.
fn left() -> Option<usize> {
    let stack = around_here()?;
    let here = std::ptr::from_ref(&stack) as usize;
    // A fiber runs on a stack that the thread knows nothing of.
    stack.contains(&here).then(|| here - stack.start)
}

/// The stack of this thread, if that is known.
#[cfg(target_os = "linux")]
pub(crate) fn around_here() -> Option<std::ops::Range<usize>> {
    use std::cell::Cell;
    use std::mem::MaybeUninit;
    use std::ptr;

    thread_local! {
        /// The lowest address of this thread's stack and its size.
        static STACK: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
    }
    let ask = || {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let (mut low, mut size) = (ptr::null_mut(), 0);
        // SAFETY: attributes are filled by the first call, read by the second and destroyed by the
        // third.
        let known = unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
                return None;
            }
            let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut size) == 0;
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            known
        };
        known.then_some((low as usize, size))
    };
    let (low, size) = STACK.get().or_else(ask)?;
    STACK.set(Some((low, size)));
    Some(low..low + size)
}

/// Nothing tells here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn around_here() -> Option<std::ops::Range<usize>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As deep as asked, with frames of half a kilobyte.
    #[inline(never)]
    fn deep(n: usize) -> usize {
        let frame = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { deep(n - 1) + usize::from(frame[n % 64] == n) }
    }

    #[test]
    fn deep_work_runs_on_a_small_stack() {
        let small = Builder::new().stack_size(128 << 10);
        let thread = small.spawn(|| {
            let here = std::thread::current().id();
            assert!(left().is_none_or(|left| left <= 160 << 10));
            ample(50_000, || (deep(20_000), std::thread::current().id() != here))
        });
        assert_eq!(thread.unwrap().join().unwrap(), (20_000, true));
    }

    #[test]
    fn where_stack_is_left_the_caller_works() {
        let large = Builder::new().stack_size(64 << 20);
        let here = large.spawn(|| ample(1000, || std::thread::current().id()) == std::thread::current().id());
        assert_eq!(here.unwrap().join().unwrap(), cfg!(target_os = "linux"));
    }

    #[test]
    fn panics_pass() {
        let small = Builder::new().stack_size(128 << 10);
        let thread = small.spawn(|| ample(0, || panic!("as expected")));
        let text = *thread.unwrap().join().unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(text, "as expected");
    }
}
