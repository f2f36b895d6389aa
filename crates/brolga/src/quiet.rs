//! Panics inside Cranelift and the pipeline, kept off the terminal and turned into errors.
//!
//! **Problem.** Cranelift panics on some instructions that a back end lacks. That is caught and
//! reported as a diagnostic; the default panic hook would print it first.
//!
//! **Answer.** The hook is replaced once, by one that is silent on a thread that asks for it
//! ([`quietly`]). [`caught`] runs a stage of the work so, with stack enough for the program, and
//! makes an internal error of a panic.
//!
//! **Cost.** A counter of the thread for each call. Where little of the stack is left for the size
//! of the program, a thread with one that is longer.

use std::any::Any;
use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    static QUIET: Cell<u32> = const { Cell::new(0) };
}

/// Run something whose panics will be caught, without a message.
pub(crate) fn quietly<R>(f: impl FnOnce() -> R) -> R {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.with(Cell::get) == 0 {
                before(info);
            }
        }));
    });
    QUIET.with(|q| q.set(q.get() + 1));
    let r = f();
    QUIET.with(|q| q.set(q.get() - 1));
    r
}

/// What a panic says.
pub(crate) fn text(panic: &(dyn Any + Send)) -> Option<String> {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
}

/// Run a stage of the work on a program, with stack enough for that; a panic becomes an internal
/// error.
pub(crate) fn caught<R: Send>(
    stage: &'static str,
    program: &crate::Program,
    f: impl FnOnce() -> Result<R, crate::Error> + Send,
) -> Result<R, crate::Error> {
    let bodies = program.funcs.values().filter_map(|f| f.body.as_ref());
    let insts = bodies.map(|body| body.dfg.num_insts()).sum();
    brolga_runtime::ample(insts, || quietly(|| panic::catch_unwind(panic::AssertUnwindSafe(f)))).unwrap_or_else(|p| {
        Err(crate::Error::Internal { stage, message: text(&*p).unwrap_or_else(|| "panic".to_owned()) })
    })
}
