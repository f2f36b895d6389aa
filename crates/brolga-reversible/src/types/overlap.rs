//! Overlap of places: which of them share memory, and which names can be read.
//!
//! **Question.** Does a statement that changes a place change another one?
//!
//! **Answer.** If both have one name, and fields and indices do not lead apart ([`overlap`]); where
//! indices differ, a run knows ([`Overlap::Maybe`]). [`readable`] is for names that a builder
//! gives, which the parser has not seen.
//!
//! **Cost.** One walk over both paths, with a comparison of expressions for each index.

use crate::ast::{ExprKind, PathStep, RevPlace, SourceSpan};
use crate::error::{ErrorKind, RevError};

/// Words that begin something else where they stand.
const WORDS: [&str; 11] = ["if", "else", "from", "while", "for", "compute", "copy", "check", "not", "and", "or"];

pub(super) type TypeResult<T> = Result<T, RevError>;

/// Whether two places share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    Never,
    Always,
    /// Indices decide.
    Maybe,
}

/// Whether what two places lead to shares memory.
pub(crate) fn overlap(a: &RevPlace, b: &RevPlace) -> Overlap {
    if a.root != b.root {
        return Overlap::Never;
    }
    let mut found = Overlap::Always;
    for (x, y) in a.path.iter().zip(&b.path) {
        match (x, y) {
            (PathStep::Field(x), PathStep::Field(y)) if x != y => return Overlap::Never,
            (PathStep::Index(x), PathStep::Index(y)) if x != y => match (&x.kind, &y.kind) {
                (ExprKind::Int(_), ExprKind::Int(_)) => return Overlap::Never,
                _ => found = Overlap::Maybe,
            },
            _ => {}
        }
    }
    found
}

/// That a name can be read where it is used; a builder may say anything.
pub(super) fn readable(name: &str, at: SourceSpan) -> TypeResult<()> {
    let wrong = |what: &str| {
        let e = RevError::new(ErrorKind::Name, at, format!("`{name}` {what}"));
        Err(e.help("give it another name"))
    };
    let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return wrong("is no name: it has other than letters, digits and underscores, or begins with a digit");
    }
    if WORDS.contains(&name) { wrong("is a word of the language") } else { Ok(()) }
}
