//! What a crate needs to be published.
//!
//! - Each package below `crates/` says what it is: a description, a README, categories, keywords, a
//!   license with its text, the repository, and for which targets its documentation is made.
//! - What it depends on below `crates/` has a version in the workspace's table. Packages elsewhere
//!   have none and are not published, so that published manifests leave them out.
//! - Dependencies that are published, those of tests among them, have no cycle. What a test asks
//!   for by its path is not published.
//!
//! `cargo package` says the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is looked at of a package.
#[derive(Default)]
struct CrateFiles {
    manifest: String,
    readme: String,
    /// Files beside the manifest.
    files: BTreeSet<String>,
}

/// Lines that a manifest must have, by how they begin.
const WANTED: [&str; 9] = [
    "description = \"",
    "readme = \"README.md\"",
    "keywords = [\"",
    "categories = [\"",
    "include = [\"/src\"",
    "license.workspace",
    "repository.workspace",
    "rust-version.workspace",
    "[package.metadata.docs.rs]",
];

/// Files that must lie beside it.
const FILES: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// What is missing in the packages of the workspace.
pub(super) fn check(root: &Path) -> Vec<String> {
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let members = workspace.split("members = [").nth(1).and_then(|m| m.split(']').next()).unwrap_or_default();
    let read = |folder: &str| {
        let at = root.join(folder);
        let text = |file| std::fs::read_to_string(at.join(file)).unwrap_or_default();
        let files = std::fs::read_dir(&at).into_iter().flatten().flatten();
        let files = files.map(|f| f.file_name().to_string_lossy().into_owned()).collect();
        (folder.to_owned(), CrateFiles { manifest: text("Cargo.toml"), readme: text("README.md"), files })
    };
    packages(&workspace, &members.split('"').skip(1).step_by(2).map(read).collect())
}

/// The packages that the lines of a section of dependencies name, but for those with a path alone.
fn names<'t>(manifest: &'t str, section: &str) -> Vec<&'t str> {
    let lines = manifest.split(section).nth(1).unwrap_or_default().lines().take_while(|l| !l.starts_with('['));
    let versioned = lines.filter(|l| !l.contains("path = ") || l.contains("version = "));
    versioned.filter_map(|l| l.split(['.', ' ', '=']).next()).filter(|n| !n.is_empty() && !n.starts_with('#')).collect()
}

fn packages(workspace: &str, all: &BTreeMap<String, CrateFiles>) -> Vec<String> {
    let mut found = Vec::new();
    let versions: BTreeMap<&str, bool> = workspace
        .split("[workspace.dependencies]")
        .nth(1)
        .unwrap_or_default()
        .lines()
        .filter_map(|l| l.split_once(" = { path = "))
        .map(|(name, rest)| (name, rest.contains("version = ")))
        .collect();
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (folder, package) in all {
        let Some(name) = folder.strip_prefix("crates/") else {
            if !package.manifest.contains("publish = false") {
                found.push(format!("{folder}/Cargo.toml: `publish = false` is missing outside of crates/"));
            }
            continue;
        };
        let missing = |line: &&&str| !package.manifest.lines().any(|l| l.starts_with(**line));
        found.extend(WANTED.iter().filter(missing).map(|l| format!("{folder}/Cargo.toml: no line `{l}…`")));
        let missing = |file: &&&str| !package.files.contains(**file);
        found.extend(FILES.iter().filter(missing).map(|f| format!("{folder}: no {f}")));
        if !package.readme.starts_with(&format!("# {name}\n")) {
            found.push(format!("{folder}/README.md: does not begin with `# {name}`"));
        }
        let depends = names(&package.manifest, "\n[dependencies]\n");
        let tests = names(&package.manifest, "\n[dev-dependencies]\n");
        for dependency in depends.iter().filter(|d| versions.get(*d) == Some(&false)) {
            found.push(format!("Cargo.toml: {dependency} has no version, and {name} depends on it"));
        }
        let published = depends.into_iter().chain(tests).filter(|d| versions.get(d) == Some(&true));
        needs.insert(name, published.collect());
    }
    let has_version = versions.iter().filter(|v| *v.1 && !all.contains_key(&format!("crates/{}", v.0)));
    found.extend(has_version.map(|v| format!("Cargo.toml: {} has a version, and is not below crates/", v.0)));
    found.extend(cycle(needs));
    found
}

/// Take away what needs nothing, until nothing is left or all that is left needs each other.
fn cycle(mut needs: BTreeMap<&str, Vec<&str>>) -> Option<String> {
    while let Some(free) = needs.iter().find(|(_, of)| of.iter().all(|d| !needs.contains_key(d))).map(|n| *n.0) {
        needs.remove(free);
    }
    let left: Vec<&str> = needs.into_keys().collect();
    (!left.is_empty()).then(|| format!("these cannot be published one after the other: {}", left.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{CrateFiles, FILES, WANTED, cycle, packages};

    fn complete_package(name: &str, rest: &str) -> (String, CrateFiles) {
        let manifest = format!("{}\n{rest}", WANTED.join("\n"));
        let files = FILES.iter().map(|f| (*f).to_owned()).collect();
        (format!("crates/{name}"), CrateFiles { manifest, readme: format!("# {name}\n"), files })
    }

    #[test]
    fn what_is_missing_is_said() {
        let workspace = "[workspace.dependencies]\na = { path = \"crates/a\", version = \"1\" }\n\
            b = { path = \"crates/b\" }\nt = { path = \"t\" }\n";
        let a = complete_package("a", "[dependencies]\nlibc = \"1\"\n");
        let b =
            complete_package("b", "\n[dependencies]\na.workspace = true\n\n[dev-dependencies]\nt.workspace = true\n");
        let t = ("t".to_owned(), CrateFiles { manifest: "publish = false".to_owned(), ..CrateFiles::default() });
        assert!(packages(workspace, &BTreeMap::from([a, b, t])).is_empty());

        let bare = ("crates/a".to_owned(), CrateFiles::default());
        let t = ("t".to_owned(), CrateFiles::default());
        // Each line, each file, the README's first line, and `publish = false`.
        let found = packages(workspace, &BTreeMap::from([bare, t]));
        assert_eq!(found.len(), WANTED.len() + FILES.len() + 2, "{found:?}");

        // `b` has no version, and `t` has one in the second table.
        let c = complete_package("c", "\n[dependencies]\nb.workspace = true\n");
        let found = packages(workspace, &BTreeMap::from([complete_package("a", ""), complete_package("b", ""), c]));
        assert_eq!(found, ["Cargo.toml: b has no version, and c depends on it"]);
        // Tests of `a` ask for what depends on it.
        let versions = workspace.replace("crates/b\"", "crates/b\", version = \"1\"");
        let tested = |by: &str| complete_package("a", &format!("\n[dev-dependencies]\nb{by}\n"));
        let b = || complete_package("b", "\n[dependencies]\na.workspace = true\n");
        assert_eq!(packages(&versions, &BTreeMap::from([tested(".workspace = true"), b()])).len(), 1);
        assert!(packages(&versions, &BTreeMap::from([tested(" = { path = \"../b\" }"), b()])).is_empty());
        let versions = workspace.replace("\"t\"", "\"t\", version = \"1\"");
        assert_eq!(packages(&versions, &BTreeMap::from([complete_package("a", "")])).len(), 1);
    }

    #[test]
    fn cycles_are_found() {
        assert_eq!(cycle(BTreeMap::from([("a", vec!["b"]), ("b", vec!["c"])])), None);
        let found = cycle(BTreeMap::from([("a", vec!["b"]), ("b", vec!["a"]), ("c", vec!["a"]), ("d", vec![])]));
        assert!(found.unwrap().ends_with(": a, b, c"));
    }
}
