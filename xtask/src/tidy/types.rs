//! A name of a type has at most two definitions, and one in a crate.
//!
//! A reader who meets `Kind` should know which. Structs, enums, unions, traits and aliases below
//! the folders `src` of the workspace are counted, but for modules `tests` at the end of files.
//! [`KNOWN`] are names that have more: the list may get shorter, and must be true.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most definitions of a name.
const MOST: usize = 2;

/// Names that have more, and how many.
const KNOWN: &[(&str, usize)] = &[("Cli", 4)];

/// Names that are defined too often, and entries of [`KNOWN`] that are not true.
pub(super) fn check(root: &Path, files: &[PathBuf]) -> Vec<String> {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(path);
        let is_source = name.components().any(|c| c.as_os_str() == "src");
        // Programs of other tools have names of their own.
        let is_ours = !name.starts_with("ir-tests/real") && !name.starts_with("benches/peers");
        let is_rust = name.extension().is_some_and(|e| e == "rs");
        let Ok(text) = (if is_source && is_ours && is_rust { std::fs::read_to_string(path) } else { continue }) else {
            continue;
        };
        for ty in types(&text) {
            defined.entry(ty.to_owned()).or_default().push(name.display().to_string());
        }
    }
    let mut found = complaints(&defined, KNOWN);
    found.extend(within_crates(&defined));
    found
}

/// Names of more than one type of a crate.
fn within_crates(defined: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut out = Vec::new();
    for (name, places) in defined {
        let mut crates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for place in places {
            let folder = place.split_once("src/").map_or("", |p| p.0);
            crates.entry(folder).or_default().push(place);
        }
        let twice = crates.values().filter(|places| places.len() > 1);
        out.extend(twice.map(|places| format!("`{name}` is the name of types of one crate: {}", places.join(", "))));
    }
    out
}

fn complaints(defined: &BTreeMap<String, Vec<String>>, known: &[(&str, usize)]) -> Vec<String> {
    let most = |name: &str| known.iter().find(|k| k.0 == name).map_or(MOST, |k| k.1);
    let mut out: Vec<String> = defined
        .iter()
        .filter(|(name, places)| places.len() > most(name))
        .map(|(name, places)| format!("`{name}` is the name of {} types: {}", places.len(), places.join(", ")))
        .collect();
    for (name, n) in known {
        let found = defined.get(*name).map_or(0, Vec::len);
        if found < *n {
            out.push(format!("`{name}` is the name of {found} types, not {n}: xtask/src/tidy/types.rs lists too many"));
        }
    }
    out
}

/// The types that a file defines, as rustfmt has laid it out.
fn types(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    code.lines().filter_map(|line| {
        let indented = line.starts_with(' ');
        let mut words = line.split_whitespace().skip_while(|w| w.starts_with("pub") || *w == "unsafe");
        let is_type = match words.next()? {
            "struct" | "enum" | "union" | "trait" => true,
            // Aliases of traits stand in their bodies.
            "type" => !indented,
            _ => false,
        };
        let name = words.next().filter(|_| is_type)?;
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        name.starts_with(char::is_uppercase).then_some(&name[..end])
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{complaints, types, within_crates};

    #[test]
    fn definitions_are_found() {
        let text = "pub struct A<'a>(u8);\nenum B {\n    C,\n}\nimpl D for A {\n    type E = u8;\n}\npub(crate) type F = u8;\n\
                    unsafe trait G {}\n// struct H\n#[cfg(test)]\nmod tests {\n    struct I;\n}\n";
        assert_eq!(types(text).collect::<Vec<_>>(), ["A", "B", "F", "G"]);
    }

    #[test]
    fn names_of_three_types_are_refused_and_the_list_must_be_true() {
        let three = |name: &str| (name.to_owned(), vec![String::new(); 3]);
        let defined: BTreeMap<_, _> = [three("A"), three("B")].into();
        assert_eq!(complaints(&defined, &[("B", 3)]).len(), 1);
        assert_eq!(complaints(&defined, &[("A", 3), ("B", 4)]).len(), 1);
        assert!(complaints(&defined, &[("A", 3), ("B", 3)]).is_empty());
    }

    #[test]
    fn two_types_of_one_name_in_a_crate_are_refused() {
        let places = |places: [&str; 2]| [("A".to_owned(), places.map(str::to_owned).to_vec())].into();
        assert!(within_crates(&places(["crates/a/src/x.rs", "crates/b/src/x.rs"])).is_empty());
        assert_eq!(within_crates(&places(["crates/a/src/x.rs", "crates/a/src/y/z.rs"])).len(), 1);
    }
}
