//! Judging in another process, which may crash or hang.
//!
//! **Question.** A wrong derivative may crash the process that runs it, or never end. How is it
//! judged?
//!
//! **Answer.** This executable runs again for the program, with a limit of time; what it prints is
//! the verdict, and how it ends if it prints none.
//!
//! **Cost.** A process for each program.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How long a program may take, with everything that is done to it. Seconds of an idle machine are
/// minutes of a busy one.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A verdict as the other process printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The class of the mistake, if there is one.
    pub class: Option<String>,
    /// All that was said.
    pub line: String,
}

impl Report {
    /// Read a printed verdict.
    pub fn parse(line: &str) -> Self {
        let class = line.strip_prefix("wrong ").map(|rest| rest.split('\t').next().unwrap_or(rest).to_owned());
        Report { class, line: line.to_owned() }
    }

    /// A mistake that the process did not live to print.
    pub fn death(how: &str) -> Self {
        Self::parse(&format!("wrong {how}\tthe process ended"))
    }
}

/// How a process ended, as a class of mistakes.
pub fn manner_of_death(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("crash signal {signal}"),
        (None, code) => format!("crash exit {}", code.unwrap_or(-1)),
    }
}

/// Where files of this process may lie.
pub struct ProcessFiles {
    exe: PathBuf,
    folder: PathBuf,
}

impl ProcessFiles {
    /// Judge with this executable.
    pub fn new() -> Result<Self> {
        let exe = std::env::current_exe().context("finding the executable")?;
        let folder = std::env::temp_dir().join(format!("brolga-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { exe, folder })
    }

    /// This executable with other arguments, its output piped.
    pub fn spawn(&self, args: &[String]) -> Result<Child> {
        let child = Command::new(&self.exe).args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        child.context("starting a worker")
    }

    /// Judge a program, which is written in the language that files with this extension are in.
    pub fn judge(&self, text: &str, extension: &str) -> Result<Report> {
        let path = self.folder.join("candidate").with_extension(extension);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        self.judge_file(&path)
    }

    fn judge_file(&self, path: &Path) -> Result<Report> {
        let mut child = self.spawn(&["--check".to_owned(), path.display().to_string()])?;
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                return Ok(Report::death("hang"));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let mut said = String::new();
        child.stdout.take().context("the worker's output")?.read_to_string(&mut said)?;
        match said.lines().last() {
            Some(line) if status.success() => Ok(Report::parse(line)),
            _ => Ok(Report::death(&manner_of_death(status))),
        }
    }
}

impl Drop for ProcessFiles {
    fn drop(&mut self) {
        // What is left in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
