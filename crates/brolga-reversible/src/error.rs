//! Errors of reversible programs: what can be wrong with one, and what a run may find.
//!
//! **Question.** A program claims that it can be undone. What of that is refuted before it runs,
//! and what by a run?
//!
//! **Answer.** A [`RevError`] is found in the text or by the checker: its [`ErrorKind`] has a
//! diagnostic's code, it stands at a line and column (of a builder, at a statement of a function),
//! and says what to do. A [`Fault`] is what a check of a run has found: it has the code of a trap,
//! a name, and a sentence.
//!
//! **Cost.** None at run time unless a check fails.

use std::fmt;

use crate::ast::SourceSpan;

/// What is wrong with a program: seen before it runs.
///
/// ```
/// # use brolga_reversible::{ErrorKind, Fault, compile};
/// assert_eq!(compile("fn f(x: f64) { x += y }").unwrap_err().0[0].kind, ErrorKind::Name);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The text is none of the language.
    Syntax,
    /// A name is unknown, or is there already.
    Name,
    /// Types do not fit.
    Type,
    /// A statement changes what it reads, or two names lead to one place.
    AliasWrite,
    /// A place ends that was not made there, or does not end.
    Dealloc,
    /// The number of an iteration is changed.
    IteratorChanged,
}

impl ErrorKind {
    /// The code of its diagnostic.
    ///
    /// ```
    /// # use brolga_reversible::{ErrorKind, Fault};
    /// assert_eq!(ErrorKind::AliasWrite.code(), "AD0034");
    /// ```
    pub fn code(self) -> &'static str {
        match self {
            Self::Syntax => "AD0031",
            Self::Name => "AD0032",
            Self::Type => "AD0033",
            Self::AliasWrite => "AD0034",
            Self::Dealloc => "AD0035",
            Self::IteratorChanged => "AD0036",
        }
    }
}

/// An error with its place.
///
/// ```
/// # use brolga_reversible::{ErrorKind, Fault, compile};
/// let error = compile("fn f(x: f64) { x += y }").unwrap_err().0.remove(0);
/// assert_eq!((error.at.line, &error.function[..]), (1, "f"));
/// assert!(error.to_string().starts_with("AD0032: line 1, column "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where.
    pub at: SourceSpan,
    /// In which function, if in one.
    pub function: String,
    /// A sentence.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl RevError {
    pub(crate) fn new(kind: ErrorKind, at: SourceSpan, message: impl Into<String>) -> Self {
        Self { kind, at, function: String::new(), message: message.into(), help: None }
    }

    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for RevError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, SourceSpan { line, column }) = (self.kind.code(), self.at);
        match column {
            0 if self.function.is_empty() => write!(f, "{code}: {}", self.message),
            0 if line == 0 => write!(f, "{code}: `{}`: {}", self.function, self.message),
            0 => write!(f, "{code}: `{}`, statement {line}: {}", self.function, self.message),
            _ => write!(f, "{code}: line {line}, column {column}: {}", self.message),
        }
    }
}

impl std::error::Error for RevError {}

/// What a check of a run has found: the trap's code, its name, and a sentence.
///
/// ```
/// # use brolga_reversible::{ErrorKind, Fault};
/// assert_eq!(Fault::ALL.map(Fault::code), [230, 231, 232, 233, 234, 235, 236, 237]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Two names lead to one place, one of which is changed.
    AliasWrite,
    /// What a condition said before it did not say after.
    PostconditionFailed,
    /// A place ends with other contents than are known.
    DeallocMismatch,
    /// A limit of a loop has changed.
    IteratorChanged,
    /// An index is out of range, or a stack is full or empty.
    OutOfRange,
    /// An integer is divided by zero, or the quotient has no room.
    NoQuotient,
    /// A number is none of its type.
    NoNumber,
    /// There is not as much memory as a place needs.
    NoMemory,
}

impl Fault {
    /// All.
    pub const ALL: [Self; 8] = [
        Self::AliasWrite,
        Self::PostconditionFailed,
        Self::DeallocMismatch,
        Self::IteratorChanged,
        Self::OutOfRange,
        Self::NoQuotient,
        Self::NoNumber,
        Self::NoMemory,
    ];

    /// The code of the trap.
    ///
    /// ```
    /// # use brolga_reversible::{ErrorKind, Fault};
    /// assert_eq!(Fault::OutOfRange.code(), 234);
    /// ```
    pub fn code(self) -> u8 {
        match self {
            Self::AliasWrite => 230,
            Self::PostconditionFailed => 231,
            Self::DeallocMismatch => 232,
            Self::IteratorChanged => 233,
            Self::OutOfRange => 234,
            Self::NoQuotient => 235,
            Self::NoNumber => 236,
            Self::NoMemory => 237,
        }
    }

    /// Its name.
    ///
    /// ```
    /// # use brolga_reversible::{ErrorKind, Fault};
    /// assert_eq!(Fault::OutOfRange.name(), "out_of_range");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::AliasWrite => "alias_write",
            Self::PostconditionFailed => "postcondition_failed",
            Self::DeallocMismatch => "dealloc_mismatch",
            Self::IteratorChanged => "iterator_changed",
            Self::OutOfRange => "out_of_range",
            Self::NoQuotient => "no_quotient",
            Self::NoNumber => "no_number",
            Self::NoMemory => "no_memory",
        }
    }

    /// What has happened, and what to do.
    ///
    /// ```
    /// # use brolga_reversible::{ErrorKind, Fault};
    /// assert_eq!(Fault::OutOfRange.message(), "an index is out of range, or a stack is full or empty");
    /// ```
    pub fn message(self) -> &'static str {
        match self {
            Self::AliasWrite => "a statement changes what it reads, or changes one place by two names",
            Self::PostconditionFailed => {
                "a condition did not hold behind the statement as it did before, or what a loop says of its entry held not \
                 at first, or again behind an iteration: correct the postcondition, or what stands behind `from`"
            }
            Self::DeallocMismatch => {
                "a place ends that does not hold what is said: undo what was computed in it, or allow for roundings \
                 (`check`)"
            }
            Self::IteratorChanged => "a limit of the loop was changed by its iterations: copy it to a place of its own",
            Self::OutOfRange => "an index is out of range, or a stack is full or empty",
            Self::NoQuotient => "an integer is divided by zero, or the least one by -1",
            Self::NoNumber => {
                "a `q43` is beyond 2¹⁰, no multiple of 2⁻⁴³ or -0.0, or a `log` is multiplied by what is not positive"
            }
            Self::NoMemory => "a place is larger than the memory that there is: correct its length",
        }
    }
}
