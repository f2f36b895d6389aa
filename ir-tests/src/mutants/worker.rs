//! The process in which mutants run: a subject and the numbers of the mutants to try, one line of
//! output for each event.
//!
//! ```text
//! try 17
//! killed 17 tape
//! try 21
//! survived 21 <kind> <text of the instruction>
//! done
//! ```
//!
//! The line `try` comes first, so that the reader knows which mutant a silent end belongs to.

use std::io::{self, Write};
use std::path::Path;

use super::edits::EditKind;
use super::{Fate, MODES, Subject, read};

/// Which mutants of which subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutantTask {
    /// The file, relative to the root.
    pub file: String,
    /// Which of its requests.
    pub request: usize,
    /// Name of the memory mode.
    pub mode: &'static str,
    /// Number of the first mutant to try.
    pub first: usize,
    /// Distance to the next.
    pub stride: usize,
}

impl MutantTask {
    /// As command line arguments.
    pub fn to_args(&self) -> Vec<String> {
        let Self { file, request, mode, first, stride } = self;
        vec![file.clone(), request.to_string(), (*mode).to_owned(), first.to_string(), stride.to_string()]
    }

    /// From command line arguments.
    pub fn from_args(args: &[String]) -> Option<Self> {
        let [file, request, mode, first, stride] = args else { return None };
        let mode = MODES.iter().find(|m| m.1 == mode)?.1;
        let (request, first) = (request.parse().ok()?, first.parse().ok()?);
        Some(Self { file: file.clone(), request, mode, first, stride: stride.parse().ok().filter(|s| *s > 0)? })
    }
}

/// Run a task, writing events to the standard output.
pub fn run(root: &Path, task: &MutantTask) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut say = |line: String| writeln!(out, "{line}").and_then(|()| out.flush());
    let file = read(root, &task.file);
    let memory = MODES.iter().find(|m| m.1 == task.mode).map(|m| m.0).unwrap_or_default();
    let Some(subject) = file.as_ref().and_then(|f| Subject::new(f, task.request, memory)) else {
        return say("none".to_owned());
    };
    if task.first == 0 {
        say("try unchanged".to_owned())?;
        if let Fate::Killed(check) = subject.unchanged() {
            return say(format!("broken {check}"));
        }
    }
    for (n, mutant) in subject.mutants.iter().enumerate().skip(task.first).step_by(task.stride) {
        let kind: EditKind = mutant.kind;
        say(format!("try {n} {}", kind.name()))?;
        say(match subject.fate(mutant) {
            Fate::Killed(check) => format!("killed {n} {check}"),
            Fate::Survived => format!("survived {n} {} {}", kind.name(), subject.text(mutant)),
        })?;
    }
    say("done".to_owned())
}
