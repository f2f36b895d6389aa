//! The chores of the project: tests, blessing, and what must hold before a merge.
//!
//! **Question.** What has to be run, and in which order, before a change is merged?
//!
//! **Answer.** A function for each chore, which runs cargo; [`ci`] runs all and goes on after a
//! failure.
//!
//! **Cost.** That of the commands: `CONTRIBUTING.md` has the times.

use std::process::{Command, ExitCode};
use std::time::Instant;

use brolga_cli::cli::finish;
use brolga_cli::failure::Failure;

use crate::{root, tidy};

/// All tests, or the file tests whose name contains `filter`. `quick`: of what takes long a part;
/// `full`: all that could be asked of each case.
pub fn test(filter: Option<&str>, depth: Option<&str>) -> Result<(), Failure> {
    let mut tests = match filter {
        None if depth == Some("quick") => command("cargo", &["test", "--workspace", "--tests"]),
        None => command("cargo", &["test", "--workspace"]),
        Some(filter) => command("cargo", &["test", "--package", "ir-tests", "--test", "files", "--", filter]),
    };
    if let Some(depth) = depth {
        // `brolga_testing::budget` looks at it.
        tests.env("BROLGA_TESTS", depth);
    }
    if filter.is_none() {
        let minutes = match depth {
            Some("quick") => "about two minutes",
            Some(_) => "three quarters of an hour",
            None => "a quarter of an hour; with --quick about two minutes",
        };
        println!("Once they are compiled, on two cores, these tests take {minutes}.");
    }
    run(tests)
}

/// Derive every function of the cases, and of the modules, a second time: tables of what is
/// refused.
pub fn census() -> Result<(), Failure> {
    let of_tests = ["test", "--quiet", "--package", "ir-tests", "--test", "main", "--"];
    let mut census = command("cargo", &of_tests);
    census.args(["--exact", "second::census", "hessians::products_of_modules", "--nocapture"]);
    census.env("BROLGA_CENSUS", "1");
    run(census)
}

/// Rewrite blessed dumps and generated references, then show what changed.
pub fn bless(filter: Option<&str>) -> Result<(), Failure> {
    let mut files = command("cargo", &["test", "--package", "ir-tests", "--test", "files", "--"]);
    files.arg(filter.unwrap_or("blessed")).env("BROLGA_BLESS", "1");
    let mut result = run(files);
    if filter.is_none() {
        let mut expectations = command("cargo", &["test", "--workspace", "--exclude", "ir-tests", "--quiet"]);
        expectations.env("UPDATE_EXPECT", "1");
        result = result.and(run(expectations));
    }
    // What changed is worth seeing, also if a test failed for another reason.
    run(command("git", &["status", "--short", "--", "*.stages.txt", "docs"]))?;
    run(command("git", &["--no-pager", "diff", "--stat"]))?;
    result
}

/// Measure what the command line says, by the package that measures, which reads it again. It is
/// compiled as this program is: with optimisations, if this one is.
pub fn bench() -> ExitCode {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--package", "benches"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    command.arg("--manifest-path").arg(root().join("Cargo.toml"));
    command.arg("--").args(std::env::args_os().skip(2));
    match command.status() {
        // What is wrong has been said.
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(e) => finish(None, None, || Err(Failure::Other(format!("cargo could not be started: {e}")))),
    }
}

/// Something that must hold.
type Step = fn() -> Result<(), Failure>;

/// Everything that must hold before a merge. Goes on after a failure, so that one run shows all of
/// them.
pub fn ci() -> Result<(), Failure> {
    let steps: [(&str, Step); 7] = [
        ("format", || cargo(&["fmt", "--all", "--check"])),
        ("lints", || cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
        ("documentation", documentation),
        ("tidy", tidy::run),
        ("tests", || cargo(&["test", "--workspace", "--all-targets"])),
        ("documentation tests", || cargo(&["test", "--workspace", "--doc"])),
        ("determinism", determinism),
    ];
    let mut failed = Vec::new();
    for (name, step) in steps {
        eprintln!("==== {name}");
        if let Err(failure) = step() {
            if let Failure::Other(message) | Failure::Mismatch(message) | Failure::Usage(message) = &failure {
                eprintln!("{message}");
            }
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Other(format!("failed: {}", failed.join(", ")))) }
}

/// The adapters, which are outside of the workspace: tests, documentation, and examples, which
/// compare what they find.
pub fn adapters() -> Result<(), Failure> {
    let begin = Instant::now();
    let all = ["--manifest-path", "adapters/Cargo.toml", "--locked", "--all-features"];
    cargo(&["fmt", "--manifest-path", all[1], "--check"])?;
    cargo(&[&["test"], &all[..]].concat())?;
    for example in ["minimise", "fit", "sample", "integrate"] {
        cargo(&[&["run", "--quiet", "--example", example], &all[..]].concat())?;
    }
    eprintln!("all adapters, in {} seconds", begin.elapsed().as_secs());
    Ok(())
}

/// Two processes, which run side by side, print the same dumps for all cases: nothing depends on
/// addresses, hash seeds or time.
pub fn determinism() -> Result<(), Failure> {
    run(command("cargo", &["build", "--quiet", "--package", "ir-tests", "--bin", "dumps"]))?;
    let dumps = || {
        let output = command("cargo", &["run", "--quiet", "--package", "ir-tests", "--bin", "dumps"]).output();
        match output {
            Ok(output) if output.status.success() => Ok(output.stdout),
            Ok(output) => Err(Failure::Other(String::from_utf8_lossy(&output.stderr).into_owned())),
            Err(e) => Err(Failure::Other(format!("cargo: {e}"))),
        }
    };
    let (first, second) = std::thread::scope(|s| {
        let beside = s.spawn(dumps);
        (dumps(), beside.join())
    });
    let second = second.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let (first, second) = (first?, second?);
    if first == second {
        eprintln!("{} lines of dumps are the same in two runs", first.iter().filter(|b| **b == b'\n').count());
        return Ok(());
    }
    let (a, b) = (String::from_utf8_lossy(&first), String::from_utf8_lossy(&second));
    let line = a.lines().zip(b.lines()).position(|(x, y)| x != y).unwrap_or(0);
    let context: Vec<_> = a.lines().take(line + 1).filter(|l| l.starts_with("====")).last().into_iter().collect();
    Err(Failure::Other(format!("two runs print different dumps, first in {}", context.join(""))))
}

fn cargo(args: &[&str]) -> Result<(), Failure> {
    run(command("cargo", args))
}

/// What rustdoc has to say.
fn documentation() -> Result<(), Failure> {
    let mut doc = command("cargo", &["doc", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    run(doc)
}

/// A command in the workspace's root.
pub fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Run it to its end.
pub fn run(mut command: Command) -> Result<(), Failure> {
    let shown = format!("{command:?}").replace('"', "");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Other(format!("`{shown}` failed ({status})"))),
        Err(e) => Err(Failure::Other(format!("`{shown}` could not be started: {e}"))),
    }
}
