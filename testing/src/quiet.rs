//! Panics that are expected and not printed.
//!
//! The hook of a process is global and tests run on many threads: it is replaced once, and asks the
//! thread that panics whether its panics are to be printed.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// What `work` returns, or `None` if it panics, of which nothing is printed.
pub fn catch<T>(work: impl FnOnce() -> T) -> Option<T> {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                previous(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    result.ok()
}
