//! How much is tried where tests could go on for ever: random programs, corpora, repetitions, and
//! promises that each case of a corpus could be asked about.
//!
//! There are three depths. What asks much of each case of a large corpus takes turns: by default a
//! case is asked a share of it, the next case the next share, so that all is asked of each corpus;
//! a full run asks all of each case. What has no end goes on for a while, in a quick run for less.
//! A search can be told to go on for longer by a variable of its own.

use std::str::FromStr;

/// Says how deep tests look: `quick`, `full`, or between the two where it is not set.
pub const DEPTH: &str = "BROLGA_TESTS";

/// How deep tests look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// `cargo xtask test --quick`: a part of what takes long.
    Quick,
    /// `cargo xtask test`, `cargo test`.
    Usual,
    /// `cargo xtask test --full`: all that could be asked of each case.
    Full,
}

/// How deep this run looks.
///
/// # Panics
/// If the variable has another value.
pub fn depth() -> Depth {
    match std::env::var(DEPTH).as_deref() {
        Err(_) => Depth::Usual,
        Ok("quick") => Depth::Quick,
        Ok("full") => Depth::Full,
        Ok(other) => panic!("{DEPTH}={other} is neither quick nor full"),
    }
}

/// Whether a part of what takes long is enough.
pub fn is_quick() -> bool {
    depth() == Depth::Quick
}

/// The whole, or in a quick run the part.
pub fn budget<T>(whole: T, part: T) -> T {
    if is_quick() { part } else { whole }
}

/// Into how many shares that is divided of which a case is asked one: `usual`, in a full run 1, in
/// a quick run six times as many.
pub fn shares(usual: usize) -> usize {
    match depth() {
        Depth::Quick => 6 * usual,
        Depth::Usual => usual,
        Depth::Full => 1,
    }
}

/// What a variable asks for, if it is set.
pub fn asked<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} cannot be read")))
}
