//! One binary for the integration tests of a package.
//!
//! Linking is what a test binary costs, and one that holds all tests of a package shares out its
//! threads better than many that run one after the other. So `tests/main.rs` is the root of all
//! files in `tests`, and cargo looks for no other (`autotests = false`). A file that no root names
//! would not be compiled, which is refused as well. [`ALONE`] are the binaries beside it.

use std::collections::BTreeSet;
use std::path::Path;

/// Test binaries beside `main`: the package's folder, the binary, and why its tests are not in
/// `main`.
const ALONE: [(&str, &str, &str); 2] = [
    ("crates/brolga-wasm", "spec", "its tests are the specification's files, which are known when it starts"),
    ("ir-tests", "files", "its tests are lines of files in folders, which are known when it starts"),
];

/// What is wrong with the test binaries of the workspace.
pub(super) fn check(root: &Path) -> Vec<String> {
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let members = workspace.split("members = [").nth(1).and_then(|m| m.split(']').next()).unwrap_or_default();
    let members = members.split('"').skip(1).step_by(2);
    members.flat_map(|folder| package(folder, &Package::read(&root.join(folder)))).collect()
}

/// What is looked at of a package.
#[derive(Default)]
struct Package {
    manifest: String,
    /// Files and folders with modules in `tests`, by their names as modules, with their texts.
    modules: Vec<(String, String)>,
}

impl Package {
    fn read(folder: &Path) -> Self {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let mut modules = Vec::new();
        for entry in std::fs::read_dir(folder.join("tests")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let (module, file) = match name.strip_suffix(".rs") {
                Some(module) => (module.to_owned(), entry.path()),
                None => (name, entry.path().join("mod.rs")),
            };
            // Another folder holds data.
            if let Ok(text) = std::fs::read_to_string(file) {
                modules.push((module, text));
            }
        }
        modules.sort();
        Self { manifest, modules }
    }
}

/// What is wrong with the test binaries of one package.
fn package(folder: &str, package: &Package) -> Vec<String> {
    let alone: BTreeSet<&str> = ALONE.iter().filter(|a| a.0 == folder).map(|a| a.1).collect();
    let mut found = Vec::new();
    let sections = package.manifest.split("\n[[test]]\n").skip(1);
    let names = sections.filter_map(|s| s.lines().find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"')));
    let binaries: BTreeSet<&str> = names.collect();
    for name in binaries.iter().filter(|name| **name != "main" && !alone.contains(*name)) {
        found.push(format!("{folder}: the test binary `{name}`: tests belong into `main` (tidy/binaries.rs)"));
    }
    for name in alone.difference(&binaries) {
        found.push(format!("tidy/binaries.rs: {folder} has no test binary `{name}` any more"));
    }
    if package.modules.is_empty() {
        return found;
    }
    if !package.manifest.lines().any(|l| l == "autotests = false") {
        found.push(format!("{folder}: `autotests = false` is missing, so each file in `tests` is a binary"));
    }
    let roots = package.modules.iter().filter(|(name, _)| binaries.contains(name.as_str()));
    let named: BTreeSet<&str> = roots.clone().flat_map(|(_, text)| modules(text)).collect();
    for (name, _) in package.modules.iter().filter(|(name, _)| !binaries.contains(name.as_str())) {
        if !named.contains(name.as_str()) {
            found.push(format!("{folder}: tests/{name} is not compiled: say `mod {name};` in tests/main.rs"));
        }
    }
    found
}

/// The modules that a root names.
fn modules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|l| l.strip_prefix("mod ")?.strip_suffix(';'))
}

#[cfg(test)]
mod tests {
    use super::{Package, package};

    const MANIFEST: &str = "[package]\nautotests = false\n\n[[test]]\nname = \"main\"\n";

    fn found(folder: &str, manifest: &str, modules: &[(&str, &str)]) -> Vec<String> {
        let modules = modules.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        package(folder, &Package { manifest: manifest.to_owned(), modules })
    }

    #[test]
    fn one_binary_with_all_files() {
        assert!(found("a", "[package]\n", &[]).is_empty());
        assert!(found("a", MANIFEST, &[("main", "mod x;\n"), ("x", "")]).is_empty());
        let not_named = found("a", MANIFEST, &[("main", "mod x;\n"), ("x", ""), ("y", "")]);
        assert!(not_named.len() == 1 && not_named[0].contains("tests/y is not compiled"), "{not_named:?}");
        let by_default = found("a", "[package]\n\n[[test]]\nname = \"main\"\n", &[("main", "")]);
        assert!(by_default.len() == 1 && by_default[0].contains("autotests"), "{by_default:?}");
    }

    #[test]
    fn a_second_binary_is_refused() {
        let second = MANIFEST.to_owned() + "\n[[test]]\nname = \"spec\"\nharness = false\n";
        let modules = [("main", "mod x;\n"), ("spec", ""), ("x", "")];
        assert!(found("crates/brolga-wasm", &second, &modules).is_empty());
        assert!(found("a", &second, &modules)[0].contains("`spec`: tests belong into `main`"));
        assert!(found("crates/brolga-wasm", MANIFEST, &modules)[0].contains("has no test binary `spec` any more"));
    }
}
