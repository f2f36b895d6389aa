//! Circles of modules: files of one crate that import each other, directly or by way of others.
//!
//! A module is a file. It imports another if a path that begins with `crate`, `super` or a child's
//! name leads into it; what a crate's root exports again counts as where it is defined. Tests at
//! the end of a file are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

/// Modules of a crate, by their paths: what each file says.
pub(super) type Modules = BTreeMap<String, String>;

/// The modules below a crate's `src`.
pub(super) fn modules(folder: &Path) -> Modules {
    let mut modules = Modules::new();
    read(folder, "", &mut modules);
    modules
}

/// What is wrong with the imports of all crates below a folder.
pub fn check(crates: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(crates).into_iter().flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let modules = modules(&folder.path().join("src"));
        let shown =
            |circle: Vec<String>| format!("modules import each other in a circle: {name}: {}", circle.join(", "));
        found.extend(circles(&modules).into_iter().map(shown));
    }
    found.sort_unstable();
    found
}

fn read(folder: &Path, path: &str, out: &mut Modules) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}::{name}") };
        if entry.path().is_dir() {
            read(&entry.path(), &below(&name), out);
        } else if let Some(stem) = name.strip_suffix(".rs")
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            let module = if stem == "mod" || stem == "lib" { path.to_owned() } else { below(stem) };
            out.insert(module, code(&text));
        }
    }
}

/// A file without its comments, and without the tests at its end.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end].lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Groups of modules that import each other, the root left out.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let edges = imports(modules);
    let graph: DiGraphMap<&str, ()> = edges.iter().map(|(from, to)| (from.as_str(), to.as_str(), ())).collect();
    let groups = tarjan_scc(&graph).into_iter().filter(|group| group.len() > 1);
    groups
        .map(|mut group| {
            group.sort_unstable();
            group.into_iter().map(str::to_owned).collect()
        })
        .collect()
}

/// Which module imports which, the root left out.
pub(super) fn imports(modules: &Modules) -> BTreeSet<(String, String)> {
    let exported: BTreeMap<String, String> = modules
        .get("")
        .into_iter()
        .flat_map(|root| paths(root, "pub use "))
        .filter_map(|p| p.rsplit_once("::").map(|(_, item)| (item.to_owned(), p.clone())))
        .collect();
    let mut edges = BTreeSet::new();
    for (module, text) in modules.iter().filter(|m| !m.0.is_empty()) {
        let parent = module.rsplit_once("::").map_or("", |m| m.0);
        let within = |base: &str, p: String| if base.is_empty() { p } else { format!("{base}::{p}") };
        let from_root = paths(text, "crate::").into_iter().map(|p| {
            let first = p.split("::").next().unwrap_or("");
            exported.get(first).cloned().unwrap_or(p)
        });
        let beside = paths(text, "super::").into_iter().map(|p| within(parent, p));
        let children = paths(text, "use ").into_iter().map(|p| within(module, p));
        for path in from_root.chain(beside).chain(children) {
            if let Some(target) = target(modules, &path).filter(|t| t != module && !t.is_empty()) {
                edges.insert((module.clone(), target));
            }
        }
    }
    edges
}

/// The module that a path leads into: its longest part that is one.
fn target(modules: &Modules, path: &str) -> Option<String> {
    let mut part = path;
    loop {
        if modules.contains_key(part) {
            return Some(part.to_owned());
        }
        part = part.rsplit_once("::")?.0;
    }
}

/// The paths that follow a word in a text, with those of a list in braces each by itself.
fn paths(text: &str, after: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(after) {
        let before = &text[..at];
        let is_start = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        if is_start && !before.ends_with("in ") {
            path(&text[at + after.len()..], "", &mut found);
        }
    }
    found
}

/// Read one path, or a list of paths, and return what is left of the text.
fn path<'t>(text: &'t str, prefix: &str, out: &mut Vec<String>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut list) = text.strip_prefix('{') {
        while !list.trim_start().starts_with('}') && !list.is_empty() {
            let rest = path(list, prefix, out);
            let rest = rest.trim_start().trim_start_matches(|c| c != ',' && c != '}');
            list = rest.strip_prefix(',').unwrap_or(rest);
        }
        return list.trim_start().strip_prefix('}').unwrap_or("");
    }
    let name: &str = &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())];
    if name.is_empty() {
        return text.get(1..).unwrap_or("");
    }
    let whole = match (prefix, name) {
        ("", _) => name.to_owned(),
        (_, "self") => prefix.to_owned(),
        _ => format!("{prefix}::{name}"),
    };
    match text[name.len()..].strip_prefix("::") {
        Some(rest) => path(rest, &whole, out),
        None => {
            out.push(whole);
            &text[name.len()..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Modules, circles, code, paths};

    fn modules(files: &[(&str, &str)]) -> Modules {
        files.iter().map(|(m, text)| ((*m).to_owned(), code(text))).collect()
    }

    #[test]
    fn paths_are_read() {
        assert_eq!(
            paths("use crate::a::{self, b::C, d::{E, F as G}};", "crate::"),
            ["a", "a::b::C", "a::d::E", "a::d::F"]
        );
        assert_eq!(paths("crate::a::f(1); pub(in crate::b) x::crate::c", "crate::"), ["a::f"]);
    }

    #[test]
    fn circles_are_found() {
        let none = modules(&[("", "pub use b::X;"), ("a", "use crate::X;"), ("b", "// use crate::a::Y;")]);
        assert!(circles(&none).is_empty());
        let two = modules(&[("", "pub use b::X;"), ("a", "use crate::X;"), ("b", "fn f() { crate::a::g() }")]);
        assert_eq!(circles(&two), [["a", "b"]]);
        let three =
            modules(&[("m", "use n::f;"), ("m::n", "use super::o::f;"), ("m::o", "use crate::m::g;"), ("", "")]);
        assert_eq!(circles(&three), [["m", "m::n", "m::o"]]);
        let in_tests = modules(&[("a", "use crate::b::f;"), ("b", "#[cfg(test)]\nmod tests { use crate::a::g; }")]);
        assert!(circles(&in_tests).is_empty());
    }
}
