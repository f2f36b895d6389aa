//! From the folders with CLIF files to a list of tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brolga::Diagnostics;
use brolga_driver::protocol::Share;
use brolga_driver::{Directive, File, Invocation};
use brolga_testing::budget::{Depth, shares};

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

/// The tests of all files below `root`, in order of paths and lines.
pub fn collect(root: &Path, depth: Depth) -> Vec<Case> {
    let mut turns = Turns { depth, gradients: 0, dumps: 0 };
    files(root).iter().flat_map(|path| of_file(root, path, &mut turns)).collect()
}

/// What takes long takes turns: a gradient keeps a share of the protocol, and a request is dumped
/// under some options, in a full run all. In a quick run one in [`QUICK`] does.
struct Turns {
    depth: Depth,
    gradients: usize,
    dumps: usize,
}

/// Of so many tests that take long one is made in a quick run.
const QUICK: usize = 8;

impl Turns {
    fn of_gradient(&mut self) -> Option<Share> {
        self.gradients += 1;
        let n = self.gradients;
        match self.depth {
            Depth::Full => Some(Share::All),
            Depth::Usual => Some(Share::Turn(n)),
            Depth::Quick => n.is_multiple_of(QUICK).then_some(Share::Turn(n / QUICK)),
        }
    }

    /// The number of a request that is dumped, or none where all options are tried.
    fn of_dump(&mut self) -> Option<Option<usize>> {
        self.dumps += 1;
        let n = self.dumps;
        match self.depth {
            Depth::Full => Some(None),
            Depth::Usual => Some(Some(n)),
            Depth::Quick => n.is_multiple_of(QUICK).then_some(Some(n / QUICK)),
        }
    }
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

/// The files of this package but those in folders of these names.
pub fn files_but(but: &[&str]) -> Vec<PathBuf> {
    let mut all = files(Path::new(env!("CARGO_MANIFEST_DIR")));
    all.retain(|path| !path.components().any(|c| c.as_os_str().to_str().is_some_and(|c| but.contains(&c))));
    all
}

/// A gradient line of a file, bound to its function.
pub struct BoundLine {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub file: Arc<File>,
    /// The text of the call.
    pub text: String,
    /// Whether finite differences say nothing about it (`nofd`).
    pub no_differences: bool,
    /// The call.
    pub call: Invocation,
}

impl BoundLine {
    /// `pow/%pow(2.0, 3)`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.path.file_stem().unwrap_or_default().display(), self.text)
    }
}

/// The gradient lines of [`files_but`] of which a search asks something that takes long: one in
/// [`SHARE`], in a full run all. Searches with other numbers look at other lines. How much it wants
/// to see of them, a search says by [`at_least`].
pub fn lines(but: &[&str], search: usize) -> impl Iterator<Item = BoundLine> {
    let mut n = search;
    files_but(but).into_iter().flat_map(move |path| {
        let file = Arc::new(File::read(&path).expect("it is read"));
        let mut found = Vec::new();
        for directive in &file.directives {
            let Directive::Grad(line) = directive else { continue };
            n += 1;
            if !n.is_multiple_of(shares(SHARE)) {
                continue;
            }
            let Ok(call) = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses) else { continue };
            let (text, no_differences) = (line.text.clone(), line.clauses.nofd);
            found.push(BoundLine { path: path.clone(), file: file.clone(), text, no_differences, call });
        }
        found
    })
}

/// Of so many lines a search looks at one ([`lines`]).
const SHARE: usize = 4;

/// How many of so many things a search finds at least in [`lines`], whose functions differ.
pub fn at_least(n: usize) -> usize {
    match shares(SHARE) {
        1 => n,
        shares => n / (2 * shares),
    }
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
fn of_file(root: &Path, path: &Path, turns: &mut Turns) -> Vec<Case> {
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
        let protocol = if kind == "grad" { turns.of_gradient() } else { None };
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
    for request in checks::requests(&file) {
        let Some(turn) = turns.of_dump() else { continue };
        let file = file.clone();
        cases.push(Case::new(format!("{name} dumps {}", request.name), move || {
            let complaints = checks::dumps(&file, &request, turn);
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
