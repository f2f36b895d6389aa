//! Failure: why a command did not succeed, and which exit status that is.
//!
//! **Question.** Which failures are there, and how does a program that started the command tell
//! them apart?
//!
//! **Answer.** A [`Failure`] is one of a few kinds, each with an exit status ([`STATUSES`]) and a
//! form in JSON ([`failure_json`]). A call on the command line that cannot be read, or does not fit
//! its function, is wrong usage.
//!
//! **Cost.** None where all goes well.

use std::sync::LazyLock;

use brolga::{Diagnostics, Error};
use brolga_driver::{SyntaxError, output};

/// Exit statuses and what they say: in help, in manual pages and in the README.
pub const STATUSES: [(u8, &str); 3] = [
    (0, "All went well. That a reader stops early (`brolga … | head`) is no failure."),
    (1, "A file cannot be read or differentiated, a run traps or takes too long, or a number is wrong."),
    (2, "The command line is wrong, or a call does not fit its function."),
];

/// The same as lines.
pub fn statuses() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let lines = STATUSES.map(|(status, meaning)| format!("\n  {status}  {meaning}"));
        format!("Exit status:{}", lines.concat())
    });
    &TEXT
}

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong.
    Usage(String),
    /// Something is wrong with the file.
    Problems(Diagnostics),
    /// A derivation or a run failed; the text says of what.
    Run(String, Error),
    /// Everything ran, but not everything is right. The details have been printed already.
    Mismatch(String),
    /// The oracle cannot follow what it was asked about.
    Oracle(String),
    /// Something else, such as the end of the time that there is.
    Other(String),
}

impl Failure {
    /// The status that the process ends with.
    pub fn status(&self) -> u8 {
        if let Self::Usage(_) = self { 2 } else { 1 }
    }
}

impl From<Diagnostics> for Failure {
    fn from(problems: Diagnostics) -> Self {
        Self::Problems(problems)
    }
}

/// A call on the command line that cannot be read or does not fit is wrong usage.
impl From<Box<SyntaxError>> for Failure {
    fn from(e: Box<SyntaxError>) -> Self {
        Self::Usage(e.to_string())
    }
}

/// A failure as JSON.
pub fn failure_json(failure: &Failure) -> serde_json::Value {
    match failure {
        Failure::Usage(message) => output::message_json("usage", message),
        Failure::Problems(problems) => output::diagnostics_json(problems),
        Failure::Run(_, error) => output::error_json(error),
        Failure::Mismatch(message) => output::message_json("mismatch", message),
        Failure::Oracle(message) => output::message_json("oracle", message),
        Failure::Other(message) => output::message_json("internal", message),
    }
}
