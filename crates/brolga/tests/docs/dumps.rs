//! Dumps inside documents.
//!
//! Where a document has
//!
//! ```text
//! <!-- dump loop.clif pullback: bb6 bb7 -->
//! <!-- end -->
//! ```
//!
//! the lines between the two comments are what `cargo xtask dump docs/examples/loop.clif --stage
//! pullback` prints now: all of it, or the named units (a block, a statement `inst3`, `Plan`; the
//! `headers` of all variants).
//! Without a stage it is the file itself. After the stage may stand what differs from the
//! defaults: `combined/gradient/versions` is of a gradient alone, with both versions of the
//! pullback, `tangent/width2` of two directions at once ([`settings`]). The test compares;
//! `UPDATE_EXPECT=1` rewrites the document. `; grad:` lines of the examples are run as well.

use std::collections::BTreeSet;
use std::path::Path;

use brolga::{Effort, Mode, Options, Pass, PassSet, Stage, dump};
use brolga_driver::protocol::derive;
use brolga_driver::{Directive, File, Invocation, compare, guess, run};

use super::{files, root};

#[test]
fn documents_show_real_dumps() {
    let mut used = BTreeSet::new();
    for path in files(&root().join("docs"), "md") {
        let text = std::fs::read_to_string(&path).unwrap();
        let fresh = regenerated(&text, &mut used);
        expect_test::expect_file![&path].assert_eq(&fresh);
    }
    let examples = files(&root().join("docs/examples"), "clif");
    let unused: Vec<_> =
        examples.iter().filter(|p| !used.contains(&*p.file_name().unwrap().to_string_lossy())).collect();
    assert!(unused.is_empty(), "no document shows {unused:?}");
}

/// A dump, a command, or a program in Rust: each is run by a test.
#[test]
fn design_pages_have_examples() {
    let run = ["<!-- dump ", "```console\n$ brolga ", "```rust\n"];
    for path in files(&root().join("docs/design"), "md") {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(run.iter().any(|r| text.contains(r)), "{} has no example that a test runs", path.display());
    }
}

#[test]
fn examples_have_the_gradients_that_they_say() {
    for path in files(&root().join("docs/examples"), "clif") {
        let file = read(&path);
        let lines: Vec<_> =
            file.directives.iter().filter_map(|d| if let Directive::Grad(l) = d { Some(l) } else { None }).collect();
        assert!(!lines.is_empty(), "{} has no `; grad:` line", path.display());
        for line in lines {
            let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses).unwrap();
            let rule = derive(&file.program, &call.request(), &Options::full()).unwrap();
            let outcome = run::gradient(&rule, &call).unwrap();
            let tol = compare::tolerance(&file.program, &call, &line.clauses);
            let differences = compare::differences(&outcome, &line.expected, &line.clauses, tol);
            assert!(differences.is_empty(), "{}:{}: {differences:?}", path.display(), line.line);
        }
    }
}

fn read(path: &Path) -> File {
    File::read(path).unwrap_or_else(|e| panic!("{e}"))
}

/// A document with its dumps made anew.
fn regenerated(text: &str, used: &mut BTreeSet<String>) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(what) = line.strip_prefix("<!-- dump ").and_then(|l| l.strip_suffix(" -->")) else { continue };
        let (what, units) = what.split_once(':').unwrap_or((what, ""));
        let (file, stage) = what.split_once(' ').unwrap_or((what, ""));
        used.insert(file.to_owned());
        let examples = files(&root().join("docs/examples"), "clif");
        let path = examples.iter().find(|p| p.ends_with(file)).unwrap_or_else(|| panic!("no example {file}"));
        let full = shown(path, stage);
        let units: Vec<&str> = units.split_whitespace().collect();
        let selected = if units.is_empty() { full } else { select(&full, &units) };
        out.push_str(&format!("```text\n{}\n```\n", selected.trim_end()));
        let end = lines.by_ref().find(|l| *l == "<!-- end -->");
        out.push_str(end.unwrap_or_else(|| panic!("{line} has no end")));
        out.push('\n');
    }
    out
}

/// A file, or a stage of the first function in it.
fn shown(path: &Path, stage: &str) -> String {
    if stage.is_empty() {
        return std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let (stage, settings) = stage.split_once('/').unwrap_or((stage, ""));
    let stage = Stage::ALL.into_iter().find(|s| s.name() == stage).unwrap_or_else(|| panic!("no stage `{stage}`"));
    let file = read(path);
    let (func, _) = file.functions[0];
    let line = file.directives.iter().find_map(|d| match d {
        Directive::Grad(line) => Invocation::bind(&file.program, &line.text, &line.call, &line.clauses).ok(),
        _ => None,
    });
    let request = line.map_or_else(|| guess::request(&file.program, func), |call| call.request());
    dump(&file.program, &request, &self::settings(settings), stage).unwrap_or_else(|e| panic!("{e}"))
}

/// Options of a dump: each pullback once, with its guards, unless both versions are asked for.
fn settings(words: &str) -> Options {
    let mut options = Options { disabled: Pass::VersionGuards.into(), ..Options::as_calls() };
    for word in words.split('/').filter(|w| !w.is_empty()) {
        match word {
            "gradient" => options.mode = Mode::Gradient,
            "versions" => options.disabled = PassSet::NONE,
            "quick" => options.effort = Effort::Quick,
            _ => match word.strip_prefix("width") {
                Some(width) => options.width = width.parse().unwrap_or_else(|e| panic!("{word}: {e}")),
                None => panic!("no setting `{word}`"),
            },
        }
    }
    options
}

/// The named units of a dump's first function: each begins with a line whose first word is the
/// name, and goes on while lines are indented deeper; the plan goes on to the end of its paragraph.
fn select(text: &str, units: &[&str]) -> String {
    if units == ["headers"] {
        return text.lines().filter(|l| l.starts_with("; %")).map(|l| format!("{l}\n")).collect();
    }
    let mut out = String::new();
    let mut inside: Option<(usize, bool)> = None;
    let headers = text.lines().enumerate().filter(|(_, l)| l.starts_with("; %"));
    let end = headers.map(|(n, _)| n).nth(1).unwrap_or(usize::MAX);
    for line in text.lines().take(end) {
        let bare = line.strip_prefix("; ").unwrap_or(line);
        let indent = bare.len() - bare.trim_start().len();
        let first = bare.trim_start().split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let ends = |&(from, plan): &(usize, bool)| line.is_empty() || (!plan && indent <= from);
        if inside.as_ref().is_some_and(ends) {
            inside = None;
        }
        if inside.is_none() && units.contains(&first) {
            if !out.is_empty() && line.starts_with("bb") {
                out.push('\n');
            }
            inside = Some((indent, first == "Plan"));
        }
        if inside.is_some() {
            out.push_str(line);
            out.push('\n');
        }
    }
    assert!(!out.is_empty(), "nothing is called {units:?} in\n{text}");
    out
}
