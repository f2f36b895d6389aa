//! Panics as values.
//!
//! **Problem.** Cranelift's reader, verifier and back ends assert some of what they expect of their
//! input. A file that violates such an assertion is a bad file, not a bug of Brolga's.
//!
//! **Answer.** [`catch`] turns the panic into an error that carries its message, and keeps the
//! default hook from printing it.
//!
//! The hook of a process is global and tests run on many threads: it is replaced once, and a
//! thread-local flag says whether the current thread wants its panics quiet. Panics elsewhere go to
//! the hook that was there before.
//!
//! **Cost.** Two writes to a thread-local flag, unless there is a panic.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Run `work`; a panic inside comes back as its message and place.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return previous(info);
            }
            let what = info
                .payload()
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| info.payload().downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            MESSAGE.set(Some(match info.location() {
                Some(at) => format!("{what} ({}:{})", file_name(at.file()), at.line()),
                None => what,
            }));
        }));
    });
    let outer = QUIET.replace(true);
    // What `work` leaves half done is dropped with it: the closures passed here only build new
    // values.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(outer);
    result.map_err(|_| MESSAGE.take().unwrap_or_else(|| "panicked".to_owned()))
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
        assert!(message.starts_with("v3 is odd (quiet.rs:"), "{message}");
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
