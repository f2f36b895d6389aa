//! What documents point at is there, and the code map of `docs/ARCHITECTURE.md` is that of the
//! workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{files, root};

#[test]
fn imports_go_downwards_in_the_code_map() {
    let text = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let map = text.split("## Code map").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = map.lines().filter_map(|l| l.strip_prefix("| `")).map(|l| l.split(" |").next().unwrap_or_default());
    let order: Vec<String> = rows.flat_map(|r| r.split(", ").map(|c| c.replace('`', ""))).collect();
    let crates = files(&root().join("crates"), "toml").into_iter();
    let beside = ["adapters", "benches", "fuzz", "ir-tests", "testing", "xtask"];
    let manifests = crates.chain(beside.map(|folder| root().join(folder).join("Cargo.toml")));
    let mut seen = BTreeSet::new();
    for path in manifests.filter(|p| p.ends_with("Cargo.toml")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = text.lines().find_map(|l| l.strip_prefix("name = \"")).unwrap().trim_end_matches('"').to_owned();
        let place = |c: &str| order.iter().position(|o| o == c).unwrap_or_else(|| panic!("{c} is not in the code map"));
        let dependencies = text.split("\n[dependencies]").nth(1).unwrap_or_default().split("\n[").next().unwrap();
        for dependency in dependencies.lines().filter_map(|l| l.split(['.', ' ', '=']).next()) {
            if dependency.starts_with("brolga") {
                assert!(place(&name) < place(dependency), "{name} stands below {dependency}, but imports it");
            }
        }
        place(&name);
        seen.insert(name);
    }
    assert_eq!(order.len(), seen.len(), "the code map has {order:?}, the workspace {seen:?}");
}

/// The pages of `docs`, and those that lie beside it.
fn documents() -> Vec<PathBuf> {
    let beside = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    files(&root().join("docs"), "md").into_iter().chain(beside).collect()
}

/// A page that the README does not link to is found in the list of design pages.
#[test]
fn pages_are_found() {
    let text = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let (readme, architecture) = (text("README.md"), text("docs/ARCHITECTURE.md"));
    for page in files(&root().join("docs"), "md") {
        let name = page.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        let design = name.strip_prefix("docs/").filter(|n| n.starts_with("design/"));
        let found =
            design.map_or(readme.contains(&format!("]({name})")), |n| architecture.contains(&format!("]({n})")));
        assert!(found, "no link to {name}");
    }
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|t| t.split(')').next()) {
            if target.starts_with("http") {
                continue;
            }
            let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
            let to = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let found = to.exists() && anchor.is_none_or(|a| anchors(&to).contains(a));
            if !found {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Anchors of headings, as GitHub makes them.
fn anchors(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let headings = text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim().to_lowercase());
    let slug =
        |h: String| h.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>();
    headings.map(|h| slug(h).replace(' ', "-")).collect()
}

#[test]
fn files_that_documents_name_exist() {
    let mut missing = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        // Odd pieces between backticks are code.
        for name in
            text.split('`').skip(1).step_by(2).filter(|n| n.contains("/src/") && !n.contains(char::is_whitespace))
        {
            let name = name.strip_prefix("crates/").unwrap_or(name);
            for file in braces(name) {
                if !root().join("crates").join(&file).exists() && !root().join(&file).exists() {
                    missing.push(format!("{}: {file}", path.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`; a folder may stand for a file.
fn braces(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else { return vec![name.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap_or((rest, ""));
    inside.split(',').map(|x| format!("{before}{x}{after}")).collect()
}

/// Names of files without their crate, as `plan/min_cut.rs`, and of cases, in any document.
#[test]
fn short_names_of_files_exist() {
    let sources = files(&root().join("crates"), "rs").into_iter().chain(files(&root().join("benches"), "rs"));
    let sources = sources.chain(["ir-tests", "xtask", "fuzz"].iter().flat_map(|f| files(&root().join(f), "rs")));
    let sources: Vec<String> = sources.map(|p| p.to_string_lossy().replace('\\', "/")).collect();
    let exists = |name: &str| {
        let (file, folder) = (format!("/{name}"), format!("/{}/", name.trim_end_matches('/')));
        sources.iter().any(|s| s.ends_with(&file) || s.contains(&folder))
    };
    let mut missing = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_glossary = path.ends_with("GLOSSARY.md");
        let prose: String = text.split("```").step_by(2).collect();
        for name in prose.split('`').skip(1).step_by(2) {
            let is_case = ["cases/", "wasm/"].iter().any(|f| name.starts_with(f)) && name.contains('.');
            if is_case && !root().join("ir-tests").join(name).exists() {
                missing.push(format!("{}: {name}", path.display()));
            }
            let is_name = name.ends_with(".rs") || is_glossary && name.contains('/');
            if is_name && !name.contains(char::is_whitespace) && braces(name).iter().any(|n| !exists(n)) {
                missing.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn stops_of_the_walks_exist() {
    let text = std::fs::read_to_string(root().join("docs/WALKS.md")).unwrap();
    let mut missing = Vec::new();
    for walk in text.split("\n## ").skip(1) {
        let stops: Vec<&str> = walk.lines().filter(|l| l.starts_with("| `")).collect();
        assert!((1..=6).contains(&stops.len()), "a walk has at most six stops: {walk}");
        for stop in stops {
            let mut cells = stop.split('`').skip(1).step_by(2);
            let (file, function) = (cells.next().unwrap(), cells.next().unwrap());
            let source = std::fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
            let heads = [format!("fn {function}("), format!("fn {function}<")];
            if !heads.iter().any(|h| source.contains(h)) {
                missing.push(format!("{file}: {function}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
