//! Prose: documents and comments, as far as lines and words tell.
//!
//! - Prose has at most [`WIDTH`] columns, in documents and in comments of Rust, CLIF and shell
//!   scripts. Tables, listings, and what has no space to break at may be longer, and so may the
//!   lines of CLIF that are read as a whole ([`DIRECTIVES`]).
//! - A document has a most number of lines ([`bound`]), unless it is generated ([`GENERATED`]).
//! - A document has no dates: it says what is, and `git log` says since when.
//! - Documents and comments have no subject that is not named ([`VAGUE`]).

/// Most columns of a line of prose.
const WIDTH: usize = 100;
/// Documents that are made by a test or a command, at least for the most part: no bound on lines.
const GENERATED: [&str; 3] = ["docs/DESIGN-BY-EXAMPLE.md", "docs/DIAGNOSTICS.md", "docs/RULES.md"];
/// Words for a subject that is not named.
const VAGUE: [&str; 10] = [
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("who", "ever"),
    concat!("any", "body"),
    concat!("every", "body"),
    concat!("no", " ", "one"),
    concat!("any", "one"),
    concat!("some", "one"),
    concat!("every", "one"),
    concat!("who", " ", "knows"),
];
/// Keywords of comments of CLIF that commands read (`brolga_driver::Directive`).
const DIRECTIVES: [&str; 6] = ["grad", "trap", "error", "data", "inverse", "bless"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Most lines of a document.
fn bound(name: &str) -> Option<usize> {
    match name {
        "docs/ARCHITECTURE.md" => Some(250),
        "docs/PERFORMANCE.md" => Some(150),
        "CHANGELOG.md" => Some(100),
        _ if GENERATED.contains(&name) => None,
        _ if name.starts_with("docs/design/") => Some(150),
        _ => Some(300),
    }
}

/// What is wrong with a document.
pub(super) fn document(name: &str, text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let lines = text.lines().count();
    if let Some(most) = bound(name).filter(|most| lines > *most) {
        out.push(format!("has {lines} lines; the limit is {most}"));
    }
    let mut listing = name == "docs/RULES.md";
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            listing = !listing;
            continue;
        }
        if listing {
            continue;
        }
        if is_wide(line) && !is_table(line) && !line.starts_with("<!--") {
            out.push(format!("line {number}: {} columns of prose; the limit is {WIDTH}", line.chars().count()));
        }
        // A message in italics is the program's, to the letter.
        let quoted = line.starts_with("*A") || line.starts_with("*T");
        for word in vague(line).filter(|_| !quoted) {
            out.push(unnamed(number, word));
        }
        if let Some(date) = date(line) {
            out.push(format!("line {number}: `{date}`: documents have no dates"));
        }
    }
    out
}

/// What is wrong with the comments of a Rust file: lines that are wider than prose may be, and
/// words that are [`VAGUE`], at the end of a line of code, too.
pub(super) fn comments(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut listing = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            listing = false;
            let trailing = line.split_once("// ").map_or("", |(_, comment)| comment);
            out.extend(vague(trailing).map(|word| unnamed(number, word)));
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        if comment.starts_with("```") {
            listing = !listing;
            continue;
        }
        out.extend(vague(comment).map(|word| unnamed(number, word)));
        if is_wide(line) && !listing && !is_table(comment) {
            out.push(too_wide(number, line));
        }
    }
    out
}

/// What is wrong with the comments of a CLIF file: lines that are wider than prose may be, but for
/// directives, and words that are [`VAGUE`].
pub(super) fn clif(text: &str) -> Vec<String> {
    let is_directive = |comment: &str| comment.split_once(':').is_some_and(|(word, _)| DIRECTIVES.contains(&word));
    lines_with(text, ';', is_directive)
}

/// The same of a shell script.
pub(super) fn shell(text: &str) -> Vec<String> {
    lines_with(text, '#', |comment| comment.starts_with('!'))
}

/// What is wrong with comments from a mark to the end of the line. A line of code may be wide, and
/// so may a comment that is `read`.
fn lines_with(text: &str, mark: char, read: impl Fn(&str) -> bool) -> Vec<String> {
    let mut out = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((code, comment)) = line.split_once(mark) else { continue };
        let comment = comment.trim_start_matches(mark).trim();
        out.extend(vague(comment).map(|word| unnamed(number, word)));
        if code.trim().is_empty() && is_wide(line) && !read(comment) {
            out.push(too_wide(number, line));
        }
    }
    out
}

fn too_wide(number: usize, line: &str) -> String {
    format!("line {number}: a comment of {} columns; the limit is {WIDTH}", line.chars().count())
}

fn unnamed(number: usize, word: &str) -> String {
    format!("line {number}: `{word}` is no subject: name the thing of the program that does it")
}

/// Whether a line is too long, and has a space at which it could have been broken.
fn is_wide(line: &str) -> bool {
    line.chars().count() > WIDTH && line.trim().trim_start_matches(['/', '!', '-', '*', ';', '#']).trim().contains(' ')
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Words of a line that are [`VAGUE`].
fn vague(line: &str) -> impl Iterator<Item = &'static str> {
    let words: Vec<String> = line.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
    let text = format!(" {} ", words.join(" "));
    // A sentence about an actor without a name, and no question.
    let actor = (line.starts_with("Who ") || line.contains(". Who ")) && !line.contains('?');
    VAGUE.into_iter().filter(move |v| text.contains(&format!(" {v} "))).chain(actor.then_some("Who"))
}

/// A date as `2000-01-31`, or a month with a year.
fn date(line: &str) -> Option<&str> {
    let is_year = |w: &str| w.len() == 4 && w.bytes().all(|b| b.is_ascii_digit()) && w.starts_with("20");
    let number = |w: &str| w.len() == 2 && w.bytes().all(|b| b.is_ascii_digit());
    let words = || line.split(|c: char| !c.is_alphanumeric() && c != '-').filter(|w| !w.is_empty());
    let iso = words().find(|w| {
        let parts: Vec<&str> = w.split('-').collect();
        matches!(parts[..], [year, month, day] if is_year(year) && number(month) && number(day))
    });
    let month = || words().zip(words().skip(1)).find(|(a, b)| MONTHS.contains(a) && is_year(b)).map(|(a, _)| a);
    iso.or_else(month)
}

#[cfg(test)]
mod tests {
    use super::{VAGUE, clif, comments, document, shell};

    #[test]
    fn prose_is_held_to_its_width() {
        let long = format!("{} {}", "a".repeat(60), "b".repeat(60));
        assert_eq!(document("docs/X.md", &long).len(), 1);
        assert!(document("docs/X.md", &format!("| {long} |\n```\n{long}\n```\n{}", "c".repeat(120))).is_empty());
        let found = comments(&format!("/// {long}\n//! ```\n//! {long}\n//! ```\nlet x = 1; // {long}\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(clif(&format!("; {long}\n; grad: {long}\n;; error: {long}\nblock0({long}):\n")).len(), 1);
        assert_eq!(shell(&format!("#!/bin/{long}\n# {long}\necho {long} # as above\n")).len(), 1);
    }

    #[test]
    fn documents_are_bounded_and_name_their_subjects() {
        assert_eq!(document("docs/ARCHITECTURE.md", &"\n".repeat(251)).len(), 1);
        assert!(document("docs/RULES.md", &"\n".repeat(2510)).is_empty());
        for word in VAGUE {
            assert_eq!(document("docs/X.md", &format!("What {word} reads.")).len(), 1);
            assert_eq!(comments(&format!("// What {word} reads.")).len(), 1);
            assert_eq!(comments(&format!("let x = 1; // What {word} reads.")).len(), 1);
            assert_eq!(clif(&format!("; What {word} reads.\nfunction %{word}\n")).len(), 1);
            assert_eq!(shell(&format!("# What {word} reads.\necho {word}\n")).len(), 1);
        }
        let who = "Who";
        assert_eq!(comments(&format!("// {who} reads it has it.\n// It runs. {who} calls it waits.\n")).len(), 2);
        assert!(comments("// A caller who reads it.\n// Who reads it?\n").is_empty());
    }

    #[test]
    fn dates_are_found() {
        let dated = ["as of 2026-01-31,", "since March 2026", "(2026-01-31)"];
        assert!(dated.iter().all(|text| document("docs/X.md", text).len() == 1));
        let free = ["in the 2000 steps", "March on", "x-2026-y", "version 2021"];
        assert!(free.iter().all(|text| document("docs/X.md", text).is_empty()));
    }
}
