//! Why a command did not succeed, and which exit status that is.

use std::process::ExitCode;

use brolga::{Diagnostics, Error};
use brolga_driver::SyntaxError;

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
    /// A chore failed, or the time is over.
    Chore(String),
    /// A program that did the work has said what is wrong, and ended with this status.
    Told(u8),
}

impl Failure {
    /// The status that the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Told(status) => ExitCode::from(*status),
            _ => ExitCode::FAILURE,
        }
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
