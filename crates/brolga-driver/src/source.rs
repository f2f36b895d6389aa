//! Splitter: a CLIF file as its parts: functions, directives, and what is neither.
//!
//! **Problem.** Cranelift's reader stops at the first error of a file and insists on header lines
//! for targets that it was built with. But every problem of a file is to be reported, and the
//! header says nothing about derivatives.
//!
//! **Answer.** The text is cut into functions first, each of which is read on its own ([`split`]);
//! `test`, `set`, `target` and `feature` lines are passed over.
//!
//! A function goes from its keyword to the brace that closes it. Braces in comments and strings do
//! not count. If the next line that starts with `function` comes before that brace, the brace is
//! missing, and the function ends there: one mistake does not swallow the rest of the file.
//!
//! **Cost.** One walk over the text. A second one ([`largest_entity`]) finds the largest number of
//! an entity, up to which the reader makes room for all.

/// One function's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    /// 1-based line on which it starts.
    pub line: u32,
    /// From `function` to the closing brace.
    pub text: &'a str,
}

/// A line that is not part of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceLine<'a> {
    /// 1-based number.
    pub line: u32,
    /// Text without surrounding white space.
    pub text: &'a str,
}

/// The parts of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// The functions, in order.
    pub functions: Vec<Chunk<'a>>,
    /// Comments that have a line to themselves, inside functions too.
    pub comments: Vec<SourceLine<'a>>,
    /// Lines that belong to nothing.
    pub stray: Vec<SourceLine<'a>>,
}

const HEADER: [&str; 6] = ["test", "set", "target", "feature", "isa", "regset"];

/// Cut a file into its parts.
pub(crate) fn split(text: &str) -> Parts<'_> {
    let mut parts = Parts::default();
    // Start and line of the function we are in, and how many of its braces are open.
    let mut open: Option<(usize, u32)> = None;
    let mut depth = 0usize;
    let mut in_string = false;
    let mut start_of_line = 0;
    for (line, raw) in (1..).zip(text.split_inclusive('\n')) {
        let mut rest = raw;
        let mut at = start_of_line;
        start_of_line += raw.len();
        let trimmed = raw.trim();
        if !in_string && trimmed.starts_with(';') {
            parts.comments.push(SourceLine { line, text: trimmed });
            continue;
        }
        if starts_function(rest) && !in_string {
            if let Some((start, line)) = open.take() {
                parts.functions.push(Chunk { line, text: &text[start..at] });
            }
            depth = 0;
        }
        // A line may close one function and open the next.
        loop {
            let Some((start, first)) = open else {
                let body = rest.trim_start();
                at += rest.len() - body.len();
                if starts_function(body) {
                    open = Some((at, line));
                    rest = body;
                    continue;
                }
                let body = body.trim_end();
                let word = body.split_whitespace().next().unwrap_or("");
                if !body.is_empty() && !body.starts_with(';') && !HEADER.contains(&word) {
                    parts.stray.push(SourceLine { line, text: body });
                }
                break;
            };
            match closing_brace(rest, &mut depth, &mut in_string) {
                Some(end) => {
                    parts.functions.push(Chunk { line: first, text: &text[start..at + end] });
                    open = None;
                    rest = &rest[end..];
                    at += end;
                }
                None => break,
            }
        }
    }
    if let Some((start, line)) = open {
        parts.functions.push(Chunk { line, text: &text[start..] });
    }
    parts
}

/// Whether a line begins with the keyword `function`.
fn starts_function(line: &str) -> bool {
    line.trim_start()
        .strip_prefix("function")
        .is_some_and(|r| !r.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Offset just after the brace that brings `depth` back to zero, if it is on this line.
fn closing_brace(line: &str, depth: &mut usize, in_string: &mut bool) -> Option<usize> {
    // All of these are one byte, and no part of another character.
    for (i, c) in line.bytes().enumerate() {
        match c {
            b'"' => *in_string = !*in_string,
            _ if *in_string => {}
            b';' => return None,
            b'{' => *depth += 1,
            b'}' => {
                *depth = depth.saturating_sub(1);
                if *depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The largest number among the entities that `text` names, with its line (1-based) and name.
///
/// The reader allocates every entity up to the largest one that is named, so one `v4000000000`
/// would take all memory.
pub(crate) fn largest_entity(text: &str) -> Option<(u64, u32, String)> {
    const PREFIXES: [&[u8]; 9] = [b"v", b"ss", b"dss", b"gv", b"fn", b"sig", b"dt", b"const", b"region"];
    let bytes = text.as_bytes();
    let in_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'%';
    let mut largest: Option<(u64, u32, &[u8])> = None;
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => (at, line) = (at + 1, line + 1),
            // A comment.
            b';' => at += bytes[at..].iter().take_while(|c| **c != b'\n').count(),
            c if in_word(c) => {
                let word = &bytes[at..at + bytes[at..].iter().take_while(|c| in_word(**c)).count()];
                at += word.len();
                let digits = word.len() - word.iter().rev().take_while(|c| c.is_ascii_digit()).count();
                let (prefix, number) = word.split_at(digits);
                if number.is_empty() || !PREFIXES.contains(&prefix) {
                    continue;
                }
                let digit = |c: &u8| u64::from(c - b'0');
                let n = number.iter().fold(0_u64, |n, c| n.saturating_mul(10).saturating_add(digit(c)));
                if largest.is_none_or(|(m, ..)| n > m) {
                    largest = Some((n, line, word));
                }
            }
            _ => at += 1,
        }
    }
    largest.map(|(n, line, word)| (n, line, String::from_utf8_lossy(word).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::{largest_entity, split};

    #[test]
    fn functions_comments_and_strays() {
        let text = "test grad\nset opt_level=speed\ntarget riscv64 has_m\n; grad: %f(1) == [1]\n\
                    function %f(f64) -> f64 {\n  region0 = 1 \"a { b\"\nblock0(v0: f64): ; } not the end\n    return v0\n}\n\
                    oops\nfunction %g() {\nblock0:\n return } function %h() { block0: return }\n; last\n";
        let parts = split(text);
        let starts: Vec<_> = parts.functions.iter().map(|c| (c.line, c.text.lines().count())).collect();
        assert_eq!(starts, [(5, 5), (11, 3), (13, 1)]);
        assert!(parts.functions.iter().all(|c| c.text.starts_with("function") && c.text.ends_with('}')));
        let comments: Vec<_> = parts.comments.iter().map(|c| c.line).collect();
        assert_eq!(comments, [4, 14]);
        assert_eq!(parts.stray.iter().map(|s| (s.line, s.text)).collect::<Vec<_>>(), [(10, "oops")]);
    }

    #[test]
    fn a_missing_brace_costs_one_function() {
        let parts = split("function %f() {\nblock0:\n  return\nfunction %g() {\nblock0:\n  return\n}\n");
        assert_eq!(parts.functions.len(), 2);
        assert_eq!(parts.functions[1].line, 4);
        assert!(!parts.functions[0].text.contains("%g"));
    }

    #[test]
    fn absurd_entities_are_seen() {
        let (n, line, name) =
            largest_entity("function %v9999999999() {\nblock0:\n v70000000000 = iconst.i64 1\n").unwrap();
        assert_eq!((n, line, name.as_str()), (70_000_000_000, 3, "v70000000000"));
        assert_eq!(largest_entity("function u0:3() { ; v12\n"), None);
    }
}
