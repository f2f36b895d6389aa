//! Documents say what commands print, and this runs them. `UPDATE_EXPECT=1` writes what they print
//! now.
//!
//! A block ```` ```console ```` starts with one line `$ brolga …`; the rest is its output, and
//! after that what it says if it fails. Arguments with spaces stand in double quotes.

use std::path::Path;
use std::process::Command;

#[test]
fn commands_of_the_readmes() {
    commands("README.md");
    commands("crates/brolga-cli/README.md");
}

#[test]
fn commands_of_the_pages() {
    ["docs/DEBUGGING.md", "docs/MODES.md", "docs/WASM.md"].into_iter().for_each(commands);
}

#[test]
fn commands_of_the_design_pages() {
    ["drivers", "second-derivatives"].iter().for_each(|page| commands(&format!("docs/design/{page}.md")));
}

fn commands(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut renewed = String::new();
    let mut rest = text.as_str();
    let mut n_blocks = 0;
    while let Some((before, block)) = rest.split_once("```console\n$ brolga ") {
        let (command, block) = block.split_once('\n').expect("a command ends with its line");
        let (_, after) = block.split_once("```\n").expect("a block is closed");
        let output = run(&root, command);
        renewed += &format!("{before}```console\n$ brolga {command}\n{output}```\n");
        rest = after;
        n_blocks += 1;
    }
    renewed += rest;
    assert!(n_blocks > 0, "{name} shows no command");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, renewed).unwrap_or_else(|e| panic!("{name}: {e}"));
    } else if let Some((old, new)) = text.lines().zip(renewed.lines()).find(|(old, new)| !same(old, new)) {
        panic!("{name} says\n{old}\nbut the command says\n{new}\n(UPDATE_EXPECT=1 writes what the commands print)");
    } else {
        assert_eq!(
            text.lines().count(),
            renewed.lines().count(),
            "{name} shows another number of lines than a command prints"
        );
    }
}

/// Whether two lines say the same. Numbers may differ in their last digits, since math libraries
/// do, and the error of a difference is such digits.
fn same(old: &str, new: &str) -> bool {
    let same_word = |(old, new): (&str, &str)| {
        let number = |word: &str| word.trim_matches(|c| "[](),:".contains(c)).parse::<f64>().ok();
        old == new
            || number(old).zip(number(new)).is_some_and(|(a, b)| (a - b).abs() <= 1e-12 + 1e-9 * a.abs().max(b.abs()))
    };
    let (old_words, new_words) = (old.split_whitespace(), new.split_whitespace());
    old_words.clone().count() == new_words.clone().count() && old_words.zip(new_words).all(same_word)
}

fn run(root: &Path, command: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_brolga"))
        .args(words(command))
        .current_dir(root)
        .output()
        .expect("brolga can be started");
    // Status 2 is wrong usage, which no document shows.
    assert!(output.status.code() < Some(2), "`{command}` failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let said = if output.status.success() { Vec::new() } else { output.stderr };
    String::from_utf8([output.stdout, said].concat()).expect("the output is text")
}

/// Words of a command line: what stands between quotes is one, quotes taken off.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in command.split('"').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}
