//! Panics inside Cranelift, kept off the terminal.
//!
//! Cranelift panics on some instructions that a back end lacks. We catch that and report it as a diagnostic; the default
//! panic hook would print it first. The hook is replaced once, by one that is silent on a thread that asks for it.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    static QUIET: Cell<u32> = const { Cell::new(0) };
}

/// Run something whose panics will be caught, without a message.
pub fn quietly<R>(f: impl FnOnce() -> R) -> R {
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
