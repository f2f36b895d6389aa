//! Functions have at most 100 lines, but for tables.
//!
//! A function whose body is one `match` with a row for each opcode, or a text, is read row by row,
//! and is no shorter in parts. Those are listed.

/// Most lines of a function.
const MOST: usize = 100;

/// Tables: a file, and the function.
const TABLES: &[(&str, &str)] = &[
    ("benches/src/wasm.rs", "problems"),
    ("crates/brolga-driver/tests/explain.rs", "a_loop_in_every_mode"),
    ("crates/brolga-oracle/src/interp/step.rs", "step"),
    ("crates/brolga-oracle/tests/common/ops.rs", "cases"),
    ("crates/brolga-rules/src/table.rs", "opcode_rule"),
    ("crates/brolga-wasm/src/function/ops.rs", "number"),
    ("crates/brolga-wasm/src/function/simd.rs", "vector_numbers"),
    ("crates/brolga/tests/stages.rs", "load_and_store"),
    ("crates/brolga/tests/stages.rs", "loop_of_two_values"),
];

/// Functions of a file that are too long.
pub(super) fn check(file: &str, text: &str) -> Vec<String> {
    let long = lengths(text).into_iter().filter(|(_, lines)| *lines > MOST);
    long.filter(|(name, _)| !TABLES.contains(&(file, name.as_str())))
        .map(|(name, lines)| format!("`{name}` has {lines} lines; {MOST} are allowed"))
        .collect()
}

/// The functions of a file that rustfmt has laid out, and how many lines each has.
fn lengths(text: &str) -> Vec<(String, usize)> {
    let text = without_strings(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some(name) = name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let ends = |l: &&str| {
            l.strip_prefix(&line[..indent])
                .is_some_and(|rest| rest == "}" || rest.ends_with(';') && !rest.starts_with(' '))
        };
        let one_line = line.ends_with('}') || line.ends_with(';');
        let length = if one_line { 1 } else { lines[i..].iter().position(ends).map_or(1, |n| n + 1) };
        found.push((name.to_owned(), length));
    }
    found
}

/// A file without what its strings and comments say: that is not code, and may end as a function
/// does.
fn without_strings(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        // Characters, and names that end in `r`, begin no string.
        let before = out.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let hashes = rest.bytes().skip(1).take_while(|b| *b == b'#').count();
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find("\"'").map_or(1, |n| n + 3)
        } else if c == 'r' && !before && rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let inner = 2 + hashes;
            rest[inner..].find(&end).map_or(rest.len(), |n| inner + n + end.len())
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |n| n + 2)
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let skipped = &rest[..length];
        // What follows stands in no column of its own.
        out.push_str(&format!("\n{}", " ".repeat(80)).repeat(skipped.matches('\n').count()));
        rest = &rest[length..];
    }
    out
}

/// The name of the function that begins on a line.
fn name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if rest.starts_with("pub(in ") {
        rest = rest.split_once(") ")?.1;
    }
    while let Some((word, after)) = rest.split_once(' ') {
        let visible = word.starts_with("pub") || ["const", "unsafe", "async", "extern", ""].contains(&word);
        match word {
            "fn" => return after.split(['(', '<']).next(),
            _ if visible => rest = after,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{check, lengths};

    #[test]
    fn lines_are_counted() {
        let text = "fn a() {}\nimpl X {\n    pub(super) fn b<T>(\n        x: T,\n    ) -> T {\n        x\n    }\n    fn c();\n    pub(in a::b) fn d() {}\n}\n";
        let names = [("a", 1), ("b", 5), ("c", 1), ("d", 1)];
        assert_eq!(lengths(text), names.map(|(name, lines)| (name.to_owned(), lines)));
        let long = format!("fn long() {{\n{}}}\n", "    f();\n".repeat(99));
        assert_eq!(check("x.rs", &long), ["`long` has 101 lines; 100 are allowed"]);
        let texts = "fn f() {\n    g(\"\n}\n\", r#\"\n}\"; \n\"#, '\"', b'\\\"');\n    // \"\n}\n";
        assert_eq!(lengths(texts), [("f".to_owned(), 8)]);
        assert!(check("crates/brolga-rules/src/table.rs", &long.replace("long", "opcode_rule")).is_empty());
    }
}
