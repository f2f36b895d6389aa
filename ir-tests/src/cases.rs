//! From the folders with CLIF files to a list of tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brolga::Diagnostics;
use brolga_driver::{Directive, File};
use brolga_testing::budget;

use crate::{Complaints, blessed, checks};

/// A test: its name, and what to run.
pub struct Case {
    /// `cases/scalar/pow.clif:12 grad %pow(2.0, 3)`, which is also what filters match.
    pub name: String,
    /// What it does.
    pub run: Box<dyn FnOnce() -> Result<(), Complaints> + Send>,
}

impl Case {
    fn new(name: String, run: impl FnOnce() -> Result<(), Complaints> + Send + 'static) -> Self {
        Self { name, run: Box::new(run) }
    }
}

/// The tests of all files below `root`, in order of paths and lines. In a quick run the protocol is
/// that of one gradient in [`QUICK`], and dumps are those of one request in as many.
pub fn collect(root: &Path, quick: bool) -> Vec<Case> {
    let mut count = 0;
    files(root).iter().flat_map(|path| of_file(root, path, quick.then_some(&mut count))).collect()
}

/// Of so many tests that take long one is made in a quick run.
const QUICK: usize = 20;

/// Whether a test that takes long is made; in a quick run, how many came before.
fn is_made(quick: &mut Option<&mut usize>) -> bool {
    quick.as_mut().is_none_or(|n| std::mem::replace(*n, **n + 1).is_multiple_of(QUICK))
}

/// The CLIF files below `root`, in order of paths.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for folder in ["cases", "real"] {
        clif_files(&root.join(folder), &mut out);
    }
    out.sort();
    out
}

/// The files of this package but those in folders of these names; in a quick run one in [`SOME`].
/// How much a test wants to see of them, it says by [`at_least`].
pub fn some_files(but: &[&str]) -> Vec<PathBuf> {
    let mut all = files(Path::new(env!("CARGO_MANIFEST_DIR")));
    all.retain(|path| !path.components().any(|c| c.as_os_str().to_str().is_some_and(|c| but.contains(&c))));
    all.into_iter().step_by(budget(1, SOME)).collect()
}

/// Of so many files a quick run looks at one ([`some_files`]).
const SOME: usize = 6;

/// How many of so many things a run finds at least in [`some_files`], whose sizes differ.
pub fn at_least(n: usize) -> usize {
    n / budget(1, 3 * SOME)
}

fn clif_files(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            // What the files in `real` were made from.
            if entry.file_name() != "src" {
                clif_files(&path, out);
            }
        } else if path.extension().is_some_and(|e| e == "clif") {
            out.push(path);
        }
    }
}

/// The tests of one file.
fn of_file(root: &Path, path: &Path, mut quick: Option<&mut usize>) -> Vec<Case> {
    let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let file = match File::read(path) {
        Ok(file) => Arc::new(file),
        Err(problems) => return vec![Case::new(format!("{name} load"), move || Err(listed(&problems)))],
    };
    let mut cases = Vec::new();
    if !file.malformed.is_empty() {
        let problems = file.malformed.clone();
        cases.push(Case::new(format!("{name} directives"), move || Err(listed(&problems))));
    } else if file.directives.is_empty() {
        cases.push(Case::new(format!("{name} directives"), || Err(vec!["the file has no directive".to_owned()])));
    }
    for (index, directive) in file.directives.iter().enumerate() {
        let (line, kind, text) = match directive {
            Directive::Grad(l) => (l.line, "grad", &l.text[l.call.span.clone()]),
            Directive::Trap(l) => (l.line, "trap", l.text.as_str()),
            Directive::Error(l) => (l.line, "error", l.text.as_str()),
            Directive::Data(_) | Directive::Inverse(_) | Directive::Bless(_) => continue,
        };
        let short: String = text.chars().take(60).collect();
        let file = file.clone();
        let protocol = kind != "grad" || is_made(&mut quick);
        cases.push(Case::new(format!("{name}:{line} {kind} {short}"), move || {
            let complaints = match &file.directives[index] {
                Directive::Grad(line) => checks::grad(&file, line, protocol),
                Directive::Trap(line) => checks::trap(&file, line),
                Directive::Error(line) => checks::error(&file, line),
                Directive::Data(_) | Directive::Inverse(_) | Directive::Bless(_) => Vec::new(),
            };
            if complaints.is_empty() { Ok(()) } else { Err(complaints) }
        }));
    }
    for request in checks::requests(&file).into_iter().filter(|_| is_made(&mut quick)) {
        let file = file.clone();
        cases.push(Case::new(format!("{name} dumps {}", request.name), move || {
            let complaints = checks::dumps(&file, &request);
            if complaints.is_empty() { Ok(()) } else { Err(complaints) }
        }));
    }
    if blessed::is_wanted(&file, path) {
        let path = path.to_owned();
        cases.push(Case::new(format!("{name} blessed"), move || blessed::check(&file, &path, blessed::is_blessing())));
    }
    cases
}

fn listed(problems: &Diagnostics) -> Complaints {
    problems.0.iter().map(|d| format!("line {}: {d}", d.line.unwrap_or(0))).collect()
}
