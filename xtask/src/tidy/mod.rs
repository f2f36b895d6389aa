//! Rules that no compiler knows.
//!
//! - Every Rust file begins with a `//!` header, which in the crates says what question the file
//!   answers, or which problem it solves, how, and at what cost.
//! - The header of a `lib.rs` of a crate names its modules.
//! - No Rust file has more than 800 lines.
//! - Nothing is left over from writing: no `dbg!`, `todo!`, `unimplemented!`; no test is skipped or
//!   expected to panic.
//! - Every CLIF case begins with a comment that says what it is about.
//! - No modules import each other in a circle ([`circles`]).
//! - No function has more than 100 lines, but for tables ([`functions`]).
//! - The integration tests of a package are one binary, but for a few ([`binaries`]).
//! - Crates and folders import what the layers allow ([`imports`]).
//! - A name of a type has at most two definitions, and one in a crate ([`types`]).
//! - Crates have what it takes to publish them ([`metadata`]).
//! - Prose of documents and comments has a width, documents have a most number of lines, no dates,
//!   and subjects that are named ([`prose`]).
//!
//! Test code of this file spells the forbidden words in pieces, so that it does not find itself.

mod binaries;
mod circles;
mod functions;
mod imports;
mod metadata;
mod prose;
mod types;

use std::path::{Path, PathBuf};

use crate::root;
use brolga_cli::failure::Failure;

/// Most lines of a file.
const MOST_LINES: usize = 800;

/// Check all files of the project.
pub fn run() -> Result<(), Failure> {
    let root = root();
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.push(root.join(".ci/run"));
    files.sort();
    let mut violations = Vec::new();
    for path in &files {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        let extension = path.extension().and_then(|e| e.to_str());
        let is_shell = extension == Some("sh") || name == ".ci/run";
        let found = match extension {
            Some("rs") => [rust(&text), prose::comments(&text)].concat(),
            Some("clif") => [clif(&text), prose::clif(&text)].concat(),
            Some("md") => prose::document(&name, &text),
            _ if is_shell => prose::shell(&text),
            _ => Vec::new(),
        };
        if extension == Some("rs") {
            violations.extend(functions::check(&name, &text).into_iter().map(|v| format!("{name}: {v}")));
            violations.extend(header(&name, &text).map(|v| format!("{name}: {v}")));
            violations.extend(map(&name, &text).into_iter().map(|v| format!("{name}: {v}")));
        }
        violations.extend(found.into_iter().map(|v| format!("{name}: {v}")));
    }
    violations.extend(circles::check(&root.join("crates")));
    violations.extend(circles::check(&root));
    violations.extend(binaries::check(&root));
    violations.extend(imports::check(&root));
    violations.extend(types::check(&root, &files));
    violations.extend(metadata::check(&root));
    if violations.is_empty() { Ok(()) } else { Err(Failure::Other(violations.join("\n"))) }
}

/// All files below a folder, but for what is built and what is hidden.
pub fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                walk(&path, out);
            }
        } else {
            out.push(path);
        }
    }
}

/// Least lines of code of a file whose header says more than what it is for.
const LEAST_CODE: usize = 30;

/// What the header of a file of a crate does not say.
fn header(name: &str, text: &str) -> Option<String> {
    let is_source = name.starts_with("crates/") && name.contains("/src/") && !name.ends_with("/tests.rs");
    let (header, code): (Vec<&str>, Vec<&str>) = text.lines().partition(|l| l.starts_with("//!"));
    if !is_source || code.len() < LEAST_CODE {
        return None;
    }
    let says = |words: &[&str]| header.iter().any(|l| words.iter().any(|w| l.contains(w)));
    let missing = if !says(&["**Question", "**Problem"]) {
        "**Question.** and no **Problem.**"
    } else if !says(&["**Answer"]) {
        "**Answer.**"
    } else if !says(&["**Cost"]) {
        "**Cost.**"
    } else {
        return None;
    };
    Some(format!("its header has no {missing}"))
}

/// Modules that the header of a `lib.rs` does not name.
fn map(name: &str, text: &str) -> Vec<String> {
    if !name.starts_with("crates/") || !name.ends_with("/src/lib.rs") {
        return Vec::new();
    }
    let header: String = text.lines().filter(|l| l.starts_with("//!")).collect();
    let words: Vec<&str> = header.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let module = |line: &str| {
        let (before, rest) = line.split_once("mod ")?;
        let visible = before.is_empty() || before.starts_with("pub") && before.ends_with(' ');
        rest.strip_suffix(';').filter(|_| visible).map(str::to_owned)
    };
    let unnamed = text.lines().filter_map(module).filter(|m| !words.contains(&m.as_str()));
    unnamed.map(|m| format!("its header does not name the module `{m}`")).collect()
}

/// What is wrong with a Rust file.
fn rust(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if !text.starts_with("//!") {
        out.push("does not begin with a `//!` header".to_owned());
    }
    let lines = text.lines().count();
    if lines > MOST_LINES {
        out.push(format!("has {lines} lines; the limit is {MOST_LINES}"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or("");
        for (word, why) in forbidden() {
            if contains_word(code, &word) {
                out.push(format!("line {number}: `{word}`: {why}"));
            }
        }
    }
    out
}

fn forbidden() -> [(String, &'static str); 5] {
    [
        (["dbg", "!("].concat(), "left over from debugging"),
        (["todo", "!("].concat(), "not finished"),
        (["unimplemented", "!("].concat(), "not finished"),
        (["#[ig", "nore"].concat(), "assert what happens today instead"),
        (["#[should_", "panic"].concat(), "match on the result instead"),
    ]
}

/// Whether `word` occurs, but not as the tail of a longer name.
fn contains_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(i, _)| !code[..i].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// What is wrong with a CLIF case.
fn clif(text: &str) -> Vec<String> {
    let first = text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("test ") && !l.starts_with("target "));
    match first {
        Some(line) if line.trim_start().starts_with(';') => Vec::new(),
        _ => vec!["does not begin with a comment that says what it is about".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_LINES, clif, forbidden, header, map, rust};

    #[test]
    fn leftovers_are_found() {
        assert!(rust("//! A file.\nfn f() {}\n").is_empty());
        assert_eq!(rust("fn f() {}\n").len(), 1);
        for (word, _) in forbidden() {
            assert_eq!(rust(&format!("//! A file.\nfn f() {{ {word}x) }}\n")).len(), 1, "{word}");
            assert!(rust(&format!("//! A file.\n// {word}\n")).is_empty(), "comments may mention {word}");
        }
        let long = format!("//! A file.\n{}", "\n".repeat(MOST_LINES));
        assert_eq!(rust(&long).len(), 1);
        assert!(clif("test grad\n; about\nfunction").is_empty());
        assert_eq!(clif("function %f() {").len(), 1);
    }

    #[test]
    fn headers_say_what_a_file_is_for() {
        let code = "\nfn f() {}".repeat(40);
        let says = "//! **Question.** Which?\n//! **Answer.** All.\n//! **Cost.** A walk.";
        let all = format!("//! Liveness.\n//!\n{says}{code}");
        assert_eq!(header("crates/a/src/b.rs", &all), None);
        for part in ["**Question.**", "**Answer.**", "**Cost.**"] {
            let found = header("crates/a/src/b.rs", &all.replace(part, "")).expect("it says less");
            assert!(found.contains(part), "{found}");
        }
        assert_eq!(header("crates/a/src/b.rs", "//! Parts.\nmod a;"), None);
        assert_eq!(header("crates/a/tests/b.rs", &format!("//! Tests.{code}")), None);
    }

    #[test]
    fn maps_of_crates_are_complete() {
        let text = "//! Parts: `a` and [`b`].\n\nmod a;\npub mod b;\npub(crate) mod c;\n// mod d;\n";
        assert_eq!(map("crates/x/src/lib.rs", text), ["its header does not name the module `c`"]);
        assert!(map("crates/x/src/y.rs", text).is_empty());
    }
}
