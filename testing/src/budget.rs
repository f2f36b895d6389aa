//! How much is tried where tests could go on for ever: random programs, corpora, repetitions.
//!
//! There are two budgets. The whole one is that of `cargo test`, the quick one that of `cargo xtask
//! test --quick`, which says so by a variable ([`QUICK`]). A search can be told to go on for longer
//! by a variable of its own.

use std::str::FromStr;

/// Is set where a part of what takes long is enough.
pub const QUICK: &str = "BROLGA_QUICK";

/// Whether a part of what takes long is enough.
pub fn is_quick() -> bool {
    std::env::var_os(QUICK).is_some()
}

/// The whole, or in a quick run the part.
pub fn budget<T>(whole: T, part: T) -> T {
    if is_quick() { part } else { whole }
}

/// What a variable asks for, if it is set.
pub fn asked<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} cannot be read")))
}
