//! Commands from outside: exit status and output, of files that live as long as a test.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// How a command has ended, and what it has printed.
pub struct Run {
    /// Its exit status.
    pub status: Option<i32>,
    /// What it has printed.
    pub stdout: String,
    /// What it has complained of.
    pub stderr: String,
}

impl Run {
    /// Ended with this status.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Said so on the standard error stream.
    #[track_caller]
    pub fn says(self, needle: &str) -> Self {
        assert!(self.stderr.contains(needle), "no {needle:?} in:\n{}", self.stderr);
        self
    }

    /// The lines of JSON that it has printed.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect()
    }
}

/// Run a program to its end.
pub fn run(program: &str, args: &[&str]) -> Run {
    let Output { status, stdout, stderr } = Command::new(program).args(args).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    Run { status: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// A file that lives as long as the test, and the program that is run on it.
pub struct TempFile {
    path: PathBuf,
    program: String,
}

impl TempFile {
    /// A file whose name ends in `name`; of all that are alive, no other has this one.
    pub fn new(program: &str, name: &str, contents: impl AsRef<[u8]>) -> Self {
        let path = std::env::temp_dir().join(format!("brolga-{}-{name}", std::process::id()));
        std::fs::write(&path, contents).expect("the temporary folder is writable");
        Self { path, program: program.to_owned() }
    }

    /// Its path.
    pub fn path(&self) -> &str {
        self.path.to_str().expect("a plain path")
    }

    /// Run a command of the program on the file.
    pub fn run(&self, command: &str, args: &[&str]) -> Run {
        run(&self.program, &[&[command, self.path()], args].concat())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
