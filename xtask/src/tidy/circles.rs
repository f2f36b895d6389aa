//! Circles of modules: files, and folders, of one crate that import each other, directly or by way
//! of others.
//!
//! A module is a file. It imports another if a path in it leads there: from `crate` or `super`, or
//! by the name of a child, in a `use` or in the midst of code. What a crate's root exports again
//! counts as where it is defined. Tests at the end of a file or in `tests.rs` are not looked at,
//! nor are methods, which belong to their type. A folder imports what its files do; the file that
//! it is the child of counts as part of it, and so does `mod.rs`.

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
pub(super) fn check(crates: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(crates).into_iter().flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let modules = modules(&folder.path().join("src"));
        let edges = imports(&modules);
        let shown = |what: &str, circle: &[String]| {
            format!("{what} import each other in a circle: {name}: {}", circle.join(", "))
        };
        found.extend(circles(&edges).iter().map(|circle| shown("modules", circle)));
        found.extend(folders(&edges).iter().map(|circle| shown("folders", circle)));
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
        } else if let Some(stem) = name.strip_suffix(".rs").filter(|stem| *stem != "tests")
            && let Ok(text) = std::fs::read_to_string(entry.path())
        {
            let module = if stem == "mod" || stem == "lib" { path.to_owned() } else { below(stem) };
            out.insert(module, code(&text));
        }
    }
}

/// A file without its comments, and without the tests at its end.
fn code(text: &str) -> String {
    let mut stripped = String::new();
    for (i, part) in text.split("#[cfg(test)]\n").enumerate() {
        let first = part.lines().next().unwrap_or("");
        let is_module = i > 0 && (first.starts_with("mod ") || first.starts_with("pub") && first.contains(" mod "));
        match is_module {
            true if first.ends_with('{') => break,
            // In a file of its own.
            true => stripped.push_str(&part[first.len()..]),
            false => stripped.push_str(part),
        }
    }
    stripped.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Groups of modules that import each other.
fn circles(edges: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let graph: DiGraphMap<&str, ()> = edges.iter().map(|(from, to)| (from.as_str(), to.as_str(), ())).collect();
    let groups = tarjan_scc(&graph).into_iter().filter(|group| group.len() > 1);
    groups
        .map(|mut group| {
            group.sort_unstable();
            group.into_iter().map(str::to_owned).collect()
        })
        .collect()
}

/// Groups of folders that import each other, at each depth; files beside folders count as such.
fn folders(edges: &BTreeSet<(String, String)>) -> BTreeSet<Vec<String>> {
    let depth = |module: &str| module.split("::").count();
    let deepest = edges.iter().map(|e| depth(&e.0).max(depth(&e.1))).max().unwrap_or(0);
    let at = |module: &str, depth: usize| module.split("::").take(depth).collect::<Vec<_>>().join("::");
    let within = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let found = (1..deepest).flat_map(|depth| {
        let ends = edges.iter().map(|(from, to)| (at(from, depth), at(to, depth)));
        circles(&ends.filter(|(from, to)| !within(from, to) && !within(to, from)).collect())
    });
    found.collect()
}

/// Which module imports which, the root left out.
pub(super) fn imports(modules: &Modules) -> BTreeSet<(String, String)> {
    let root = modules.get("").map_or("", String::as_str);
    let exported: BTreeMap<String, String> = root
        .match_indices("pub use ")
        .flat_map(|(at, words)| {
            let mut found = Vec::new();
            path(&root[at + words.len()..], "", &mut found);
            found
        })
        .filter_map(|p| p.rsplit_once("::").map(|(_, item)| (item.to_owned(), p.clone())))
        .collect();
    let mut edges = BTreeSet::new();
    for (module, text) in modules.iter().filter(|m| !m.0.is_empty()) {
        let targets = paths(text).into_iter().filter_map(|p| target(modules, &exported, module, &p));
        edges.extend(targets.filter(|t| t != module).map(|t| (module.clone(), t)));
    }
    edges
}

/// The module that a path in a module leads into, if it is one of the crate's.
fn target(modules: &Modules, exported: &BTreeMap<String, String>, module: &str, path: &str) -> Option<String> {
    let parent = |m: &str| m.rsplit_once("::").map_or("", |m| m.0).to_owned();
    let within = |base: &str, p: &str| if base.is_empty() { p.to_owned() } else { format!("{base}::{p}") };
    let (mut base, mut rest) = (module.to_owned(), path);
    match path.split_once("::")?.0 {
        "crate" => (base, rest) = (String::new(), &path["crate::".len()..]),
        "super" => {
            while let Some(above) = rest.strip_prefix("super::") {
                (base, rest) = (parent(&base), above);
            }
        }
        child if modules.contains_key(&within(module, child)) => {}
        _ => return None,
    }
    let first = rest.split("::").next().unwrap_or("");
    if base.is_empty()
        && let Some(defined) = exported.get(first)
    {
        rest = defined;
    } else if let Some(text) = modules.get(&base).filter(|_| !modules.contains_key(&within(&base, first)))
        && text.contains(&format!("mod {first};"))
    {
        // Its file has another name, and is a module of its own.
        return None;
    }
    let full_path = within(&base, rest);
    let mut part = &full_path[..];
    while !modules.contains_key(part) {
        part = part.rsplit_once("::")?.0;
    }
    Some(part.to_owned())
}

/// All paths of a text, with those of a list in braces each by itself.
fn paths(text: &str) -> Vec<String> {
    let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(colons) = text[at..].find("::").map(|n| at + n) {
        let begin = text[at..colons].chars().rev().take_while(is_name).map(char::len_utf8).sum::<usize>();
        let begin = colons - begin;
        let before = &text[..begin];
        at = colons + 2;
        if begin + 2 < at && !before.ends_with("::") && !before.ends_with("in ") {
            let rest = path(&text[begin..], "", &mut found);
            at = at.max(text.len() - rest.len());
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
        if text.starts_with('*') && !prefix.is_empty() {
            out.push(format!("{prefix}::*"));
        }
        return text.get(1..).unwrap_or("");
    }
    let full_path = match (prefix, name) {
        ("", _) => name.to_owned(),
        (_, "self") => prefix.to_owned(),
        _ => format!("{prefix}::{name}"),
    };
    match text[name.len()..].strip_prefix("::") {
        Some(rest) => path(rest, &full_path, out),
        None => {
            out.push(full_path);
            &text[name.len()..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Modules, code, folders, imports, paths};

    fn circles(modules: &Modules) -> Vec<Vec<String>> {
        super::circles(&imports(modules))
    }

    fn modules(files: &[(&str, &str)]) -> Modules {
        files.iter().map(|(m, text)| ((*m).to_owned(), code(text))).collect()
    }

    #[test]
    fn paths_are_read() {
        let list = ["crate::a", "crate::a::b::C", "crate::a::d::E", "crate::a::d::F"];
        assert_eq!(paths("use crate::a::{self, b::C, d::{E, F as G}};"), list);
        assert_eq!(paths("crate::a::f(x::g()); pub(in crate::b) <T>::c"), ["crate::a::f", "x::g"]);
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
        // A child that is named in the midst of code, and imports from two levels above.
        let child = [("m", "mod n; fn f() { n::g() }"), ("m::n", "mod o; fn g() { o::h() }")];
        let up = ("m::n::o", "use super::super::f;");
        assert_eq!(circles(&modules(&[child[0], child[1], up])), [["m", "m::n", "m::n::o"]]);
        let beside = [("m", "mod n; mod arch; fn f() { n::g() }"), ("m::n", "use super::arch;")];
        assert!(circles(&modules(&beside)).is_empty());
        let all_of_it = modules(&[("a", "use crate::b::*;"), ("b", "fn f() { super::a::g() }")]);
        assert_eq!(circles(&all_of_it), [["a", "b"]]);
        for head in ["mod tests", "pub(in crate::b) mod tests"] {
            let tests = format!("#[cfg(test)]\n{head} {{\n    use crate::a::g;\n}}");
            assert!(circles(&modules(&[("a", "use crate::b::f;"), ("b", &tests)])).is_empty());
        }
        let before_code = "#[cfg(test)]\nmod tests;\nuse crate::a::g;";
        assert_eq!(circles(&modules(&[("a", "use crate::b::f;"), ("b", before_code)])), [["a", "b"]]);
    }
    #[test]
    fn circles_of_folders_are_found() {
        let [low, high] = [("low::x", "fn f() {}"), ("high::y", "use crate::low::x::f;")];
        let of = |files: &[(&str, &str)]| folders(&imports(&modules(files))).into_iter().collect::<Vec<_>>();
        assert!(of(&[low, high]).is_empty());
        let up = ("low::z", "use crate::high::w::g;");
        assert_eq!(of(&[low, high, up, ("high::w", "")]), [["high", "low"]]);
        // What a folder's own file declares is no other's.
        assert!(of(&[("m", "mod n; fn f() { n::g() }"), ("m::n", "use super::h;")]).is_empty());
        // Within a folder.
        let inner =
            [("m::a::x", "use crate::m::b::y;"), ("m::a::w", ""), ("m::b::y", ""), ("m::b::z", "use crate::m::a::w;")];
        assert_eq!(of(&inner), [["m::a", "m::b"]]);
    }
}
