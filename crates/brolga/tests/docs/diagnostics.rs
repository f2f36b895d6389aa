//! `docs/DIAGNOSTICS.md` lists every code of the sources and no other, and its examples provoke
//! what they stand under.

use std::collections::{BTreeMap, BTreeSet};

use brolga::{Error, Options};
use brolga_driver::check::tape_gradient;
use brolga_driver::protocol::derive;
use brolga_driver::{Directive, File, Invocation, guess};
use brolga_ir::inst::Check;

use super::{files, root};

fn document() -> String {
    std::fs::read_to_string(root().join("docs/DIAGNOSTICS.md")).unwrap()
}

/// `AD` and four digits in quotes, wherever the sources (not their tests) say so.
fn codes_of_sources() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for folder in std::fs::read_dir(root().join("crates")).unwrap().flatten() {
        for path in files(&folder.path().join("src"), "rs") {
            let text = std::fs::read_to_string(path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (at, _) in text.match_indices("\"AD") {
                let code = &text[at + 1..].chars().take_while(|&c| c != '"').collect::<String>();
                if code.len() == 6 && code[2..].chars().all(|c| c.is_ascii_digit()) {
                    codes.insert(code.clone());
                }
            }
        }
    }
    codes
}

/// Sections by heading `### AD0101 …`.
fn sections(text: &str) -> BTreeMap<String, String> {
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if line.starts_with('#') {
            current = line.strip_prefix("### ").map(|h| h.split(' ').next().unwrap_or_default().to_owned());
            if let Some(c) = &current {
                let old = sections.insert(c.clone(), String::new());
                assert!(old.is_none(), "two sections on {c}");
            }
        } else if let Some(c) = &current {
            let body = sections.get_mut(c).expect("inserted with its heading");
            body.push_str(line);
            body.push('\n');
        }
    }
    sections
}

#[test]
fn every_code_is_explained() {
    let listed: BTreeSet<String> = sections(&document()).into_keys().filter(|k| k.starts_with("AD")).collect();
    assert_eq!(listed, codes_of_sources(), "left: docs/DIAGNOSTICS.md, right: the sources");
}

#[test]
fn every_check_is_explained() {
    let sections = sections(&document());
    let text = document().split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    for check in Check::ALL {
        assert!(sections.contains_key(&format!("`{}`", check.name())), "no section on `{}`", check.name());
        let message = check.message().split(';').next().unwrap_or_default();
        assert!(text.contains(&message.to_lowercase()), "the message of `{}` reads: {message}", check.name());
    }
}

#[test]
fn examples_provoke_their_codes() {
    let mut wrong = Vec::new();
    for (code, body) in sections(&document()) {
        for example in body.split("```clif\n").skip(1) {
            let found = provoke(example.split("```").next().unwrap_or_default());
            if found.iter().all(|c| *c != code) {
                wrong.push(format!("the example of {code} gives {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Codes that reading a file comes back with, or deriving as its `; error:` line says, or running
/// its `; grad:` line on the tape.
fn provoke(source: &str) -> Vec<&'static str> {
    let file = match File::parse("example.clif", source) {
        Ok(file) => file,
        Err(found) => return found.0.iter().map(|d| d.code).collect(),
    };
    let mut codes: Vec<&'static str> = file.malformed.0.iter().map(|d| d.code).collect();
    for directive in &file.directives {
        if let Directive::Grad(line) = directive {
            let call = file.bind(&line.text, &line.call, &line.clauses).unwrap();
            codes.extend(tape_gradient(&file.program, &call).err().and_then(|e| Some(e.race()?.diagnostic.code)));
        }
        let Directive::Error(line) = directive else { continue };
        let request = match &line.call {
            Some(call) => Invocation::bind(&file.program, &line.text, call, &line.clauses).unwrap().request(),
            None => {
                let mut request = guess::request(&file.program, file.defined(&line.func.node).unwrap());
                if let Some(activity) = &line.clauses.activity {
                    request.args = activity.node.iter().map(|&a| a.into()).collect();
                }
                request
            }
        };
        match derive(&file.program, &request, &Options::full()) {
            Err(Error::Diagnostics(found)) => codes.extend(found.0.iter().map(|d| d.code)),
            Err(other) => panic!("{other}\n{source}"),
            Ok(_) => {}
        }
    }
    codes
}
