//! Chores that ask whether the tests would notice: mutants of rules, and search for inputs that
//! break a promise.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::chores::{command, run};
use crate::root;
use crate::tidy::walk;
use brolga_cli::failure::Failure;
use brolga_cli::report::show;

/// Targets whose oracle is in `ir_tests::inputs`.
const INPUTS: [&str; 3] = ["clif_text", "call_syntax", "activities"];

/// Targets whose inputs are whole programs: in CLIF, for first and for second derivatives, and in
/// C.
const PROGRAMS: [&str; 3] = ["program", "second", "bits"];

/// Mutants of rule rows, or of one row, and of emitted functions: of a selection of the cases, or
/// at most `most` of each derivative in the files whose name contains `case`.
pub fn mutants(row: Option<&str>, case: Option<&str>, most: usize) -> Result<(), Failure> {
    let mut survived = Vec::new();
    if case.is_none() {
        show("Rows, against the functions that they describe:\n\n");
        let args = ["test", "--quiet", "--package", "brolga-rules", "--test", "main", "mutants::", "--", "--nocapture"];
        let mut rows = command("cargo", &args);
        if let Some(row) = row {
            rows.env("BROLGA_ROW", row);
        }
        run(rows).unwrap_or_else(|_| survived.push("rows"));
    }
    if row.is_none() {
        show("\nEmitted functions, against the lines of their files:\n\n");
        let most = most.to_string();
        let mut args = vec!["run", "--quiet", "--package", "ir-tests", "--bin", "mutants", "--"];
        if let Some(case) = case {
            args.extend([case, &most]);
        }
        run(command("cargo", &args)).unwrap_or_else(|_| survived.push("emitted functions"));
    }
    match survived.as_slice() {
        [] => Ok(()),
        which => Err(Failure::Mismatch(format!("mutants of {} survived", which.join(" and of ")))),
    }
}

/// Search for inputs that break a promise, for some minutes.
pub fn fuzz(target: &str, minutes: u64, seed: Option<u32>) -> Result<(), Failure> {
    match target {
        target if PROGRAMS.contains(&target) => programs(target, minutes, seed),
        target if !INPUTS.contains(&target) => {
            let all = [&INPUTS[..], &PROGRAMS[..]].concat().join(", ");
            Err(Failure::Usage(format!("`{target}` is no target; there are {all}")))
        }
        target if has_libfuzzer() => by_coverage(target, minutes),
        target => {
            show("cargo-fuzz is not installed, so inputs are drawn blindly.\n");
            let args = ["test", "--package", "ir-tests", "--test", "main", "--"];
            let mut search = command("cargo", &args);
            search.args([&format!("inputs::{target}"), "--exact", "--nocapture"]);
            search.env("BROLGA_FUZZ_SECONDS", (minutes * 60 / parts(target)).to_string());
            run(search)
        }
    }
}

/// How many searches a test of `tests/inputs.rs` makes, one after the other.
fn parts(target: &str) -> u64 {
    if target == "activities" { 1 } else { 2 }
}

/// Random programs, with the statistics in a file that grows while it goes on.
fn programs(target: &str, minutes: u64, seed: Option<u32>) -> Result<(), Failure> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs() as u32);
    let seed = seed.unwrap_or_else(now);
    let finds = root().join("fuzz/finds");
    std::fs::create_dir_all(&finds).map_err(|e| Failure::Other(format!("{}: {e}", finds.display())))?;
    let statistics = finds.join(format!("statistics-{target}-{seed}.txt"));
    show(&format!("Programs of seed {seed}; statistics in {}.\n", statistics.display()));
    let mut search = command("cargo", &["run", "--quiet", "--package", "brolga-fuzz", "--", "--statistics"]);
    search.arg(statistics).args(["--minutes", &minutes.to_string(), "--seed", &seed.to_string()]);
    if target != "program" {
        search.arg(format!("--{target}"));
    }
    run(search)
}

fn has_libfuzzer() -> bool {
    Command::new("cargo").args(["fuzz", "--version"]).output().is_ok_and(|o| o.status.success())
}

/// libFuzzer, from the cases as a corpus. It prints its statistics at the end.
fn by_coverage(target: &str, minutes: u64) -> Result<(), Failure> {
    let folder = root().join("fuzz/libfuzzer");
    let corpus = folder.join("corpus").join(target);
    seed(target, &corpus).map_err(|e| Failure::Other(format!("{}: {e}", corpus.display())))?;
    // Address sanitizing would fight with the guard pages of generated code over signals.
    let mut search = command("cargo", &["fuzz", "run", "--sanitizer", "none", "--fuzz-dir"]);
    // Instrumentation for coverage is not for stable compilers, unless they are told that they may.
    search.env("RUSTC_BOOTSTRAP", "1");
    search.arg(&folder).arg(target).arg(&corpus).arg("--");
    search.arg(format!("-max_total_time={}", minutes * 60));
    search.args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=4096"]);
    run(search)
}

/// Texts of the cases, so that the search starts where parsers say yes.
fn seed(target: &str, corpus: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(corpus)?;
    let mut files = Vec::new();
    for folder in ["cases", "real"] {
        walk(&root().join("ir-tests").join(folder), &mut files);
    }
    // What the files in `real` were made from is left out.
    files.retain(|path| path.extension().is_some_and(|e| e == "clif") && !path.iter().any(|part| part == "src"));
    files.sort();
    for (i, path) in files.iter().enumerate() {
        let text = std::fs::read_to_string(path)?;
        match target {
            "clif_text" if text.len() < 20_000 => std::fs::write(corpus.join(format!("case-{i}")), text)?,
            "call_syntax" => {
                let directives = text.lines().filter_map(|l| l.strip_prefix("; ")?.split_once(": "));
                for (j, (_, rest)) in directives.enumerate() {
                    std::fs::write(corpus.join(format!("case-{i}-{j}")), rest)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
