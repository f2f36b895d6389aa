//! Panics as values.
//!
//! **Question.** Cranelift's reader, verifier and back ends assert some of what they expect of
//! their input. How does such a panic become an error that says so?
//!
//! **Answer.** [`catch`] returns the panic's message and place; [`quietly`] leaves the catching to
//! its argument. Neither lets the default hook print the panic.
//!
//! The hook of a process is global: it is replaced once, by one that asks the thread that panics
//! whether its panics are quiet. All others go to the hook that was there before.
//!
//! **Cost.** Two writes to a thread-local flag, unless there is a panic.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Run `work`; a panic inside comes back as its message and place.
///
/// What `work` leaves half done is dropped with it: it is to build new values only.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    quietly(|| panic::catch_unwind(AssertUnwindSafe(work)))
        .map_err(|_| MESSAGE.take().unwrap_or_else(|| "panicked".to_owned()))
}

/// Run `work`, which catches its panics: none is printed.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return previous(info);
            }
            MESSAGE.set(Some(message(info)));
        }));
    });
    let outer = QUIET.replace(true);
    let result = work();
    QUIET.set(outer);
    result
}

/// What a panic says, and where.
fn message(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned());
    match info.location() {
        Some(at) => format!("{text} ({}:{})", file_name(at.file()), at.line()),
        None => text,
    }
}

/// The last part of a path, so that messages do not depend on where a registry lies.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::catch;

    #[test]
    fn a_panic_becomes_its_message() {
        let message = catch(|| -> u32 { panic!("v{} is odd", 3) }).unwrap_err();
        assert!(message.starts_with("v3 is odd (panics.rs:"), "{message}");
        assert_eq!(catch(|| 7), Ok(7));
    }

    #[test]
    fn nested_catches_stay_quiet() {
        let outer = catch(|| {
            let inner = catch(|| panic!("inner"));
            assert!(inner.is_err());
            panic!("outer")
        });
        assert!(outer.unwrap_err().starts_with("outer"));
    }
}
