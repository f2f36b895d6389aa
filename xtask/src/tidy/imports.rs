//! Layers: what each crate may depend on, and what each folder of a crate may import.
//!
//! [`CRATES`] lists, for each package of the workspace, the packages of the workspace and the
//! crates of Cranelift that its `[dependencies]` may name. What is missing from a row is what the
//! crate must not know: `brolga-runtime` names no crate of Cranelift, and `brolga-oracle` no crate
//! of the pass. [`FOLDERS`] does the same for modules at the top of a crate: which others their
//! files may import. A file at the top counts as a folder of its own; where no file has a row, rows
//! of folders are enough. A row lists no more than there is. Dependencies of tests are not looked
//! at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::circles::{Modules, imports, modules};

/// A name, and the names that it may import.
type Allowed = (&'static str, &'static [&'static str]);

/// Packages, by their folders, and what of the workspace and of Cranelift they may depend on.
const CRATES: &[Allowed] = &[
    ("crates/brolga-ir", &["cranelift-codegen", "cranelift-entity", "cranelift-frontend"]),
    ("adapters", &["brolga", "cranelift-reader"]),
    ("crates/brolga-rules", &["cranelift-codegen"]),
    ("crates/brolga-clif", &["cranelift-codegen", "cranelift-entity"]),
    ("crates/brolga-runtime", &["brolga-schedules"]),
    ("crates/brolga-schedules", &[]),
    ("crates/brolga-analysis", &["brolga-ir", "brolga-rules", "cranelift-codegen", "cranelift-entity"]),
    ("crates/brolga-oracle", &["brolga-ir", "cranelift-codegen", "cranelift-entity"]),
    (
        "crates/brolga-transform",
        &[
            "brolga-ir",
            "brolga-rules",
            "brolga-analysis",
            "brolga-clif",
            "cranelift-codegen",
            "cranelift-entity",
            "cranelift-frontend",
            "cranelift-reader",
        ],
    ),
    (
        "crates/brolga-module",
        &[
            "brolga-ir",
            "brolga-rules",
            "brolga-transform",
            "cranelift-codegen",
            "cranelift-control",
            "cranelift-module",
        ],
    ),
    (
        "crates/brolga",
        &[
            "brolga-clif",
            "brolga-ir",
            "brolga-rules",
            "brolga-analysis",
            "brolga-transform",
            "brolga-runtime",
            "cranelift-codegen",
            "cranelift-frontend",
            "cranelift-jit",
            "cranelift-module",
            "cranelift-native",
            "cranelift-reader",
        ],
    ),
    (
        "crates/brolga-wasm",
        &[
            "brolga",
            "brolga-ir",
            "brolga-rules",
            "brolga-runtime",
            "cranelift-codegen",
            "cranelift-entity",
            "cranelift-frontend",
        ],
    ),
    (
        "crates/brolga-reversible",
        &["brolga-ir", "brolga-transform", "cranelift-codegen", "cranelift-frontend", "cranelift-native"],
    ),
    (
        "crates/brolga-driver",
        &[
            "brolga",
            "brolga-ir",
            "brolga-oracle",
            "brolga-reversible",
            "brolga-transform",
            "brolga-wasm",
            "cranelift-codegen",
            "cranelift-native",
            "cranelift-reader",
        ],
    ),
    ("ir-tests", &["brolga-testing", "brolga", "brolga-driver", "brolga-transform"]),
    (
        "fuzz",
        &[
            "brolga-testing",
            "brolga",
            "brolga-driver",
            "brolga-oracle",
            "brolga-wasm",
            "cranelift-codegen",
            "cranelift-entity",
            "cranelift-reader",
        ],
    ),
    (
        "benches",
        &[
            "brolga",
            "brolga-analysis",
            "brolga-cli",
            "brolga-clif",
            "brolga-driver",
            "brolga-ir",
            "brolga-rules",
            "brolga-runtime",
            "brolga-transform",
            "cranelift-frontend",
            "cranelift-jit",
            "cranelift-module",
        ],
    ),
    (
        "testing",
        &[
            "brolga-ir",
            "cranelift-codegen",
            "cranelift-jit",
            "cranelift-module",
            "cranelift-native",
            "cranelift-reader",
        ],
    ),
    ("xtask", &["brolga-testing", "brolga", "brolga-cli"]),
    (
        "crates/brolga-cli",
        &[
            "brolga",
            "brolga-driver",
            "brolga-ir",
            "brolga-module",
            "brolga-oracle",
            "cranelift-codegen",
            "cranelift-object",
        ],
    ),
];

/// Crates with folders, and what each folder may import besides itself. Where all have rows, they
/// go from the lowest to the highest. ([`super::circles`] refuses folders that import each other.)
const FOLDERS: &[(&str, &[Allowed])] = &[
    // Folders alone: what lies beside them may import any.
    (
        "brolga",
        &[("drivers", &["error", "jit", "second"]), ("jit", &["error", "quiet"]), ("stages", &["error", "jit"])],
    ),
    (
        "brolga-driver",
        &[
            (
                "check",
                &[
                    "bind",
                    "compare",
                    "inputs",
                    "jacobian",
                    "memory",
                    "noise",
                    "reversible",
                    "run",
                    "second",
                    "tangent",
                    "value",
                ],
            ),
            ("explain", &["bind", "compare", "inputs", "memory", "output", "protocol", "quiet", "run", "value"]),
            (
                "protocol",
                &[
                    "batch", "bind", "check", "compare", "inputs", "memory", "noise", "output", "quiet", "run",
                    "tangent", "value",
                ],
            ),
            ("text", &[]),
        ],
    ),
    (
        "brolga-ir",
        &[
            ("inst", &["entities"]),
            ("lower", &["block", "entities", "graph", "inst", "map", "names", "program"]),
            ("verify", &["block", "entities", "graph", "inst", "lower", "map"]),
        ],
    ),
    (
        "brolga-wasm",
        &[
            ("error", &[]),
            ("forked", &[]),
            ("parse", &["error"]),
            ("layout", &["parse"]),
            ("function", &["error", "forked", "layout", "parse"]),
            ("host", &["error", "layout"]),
            ("val", &[]),
            ("provided", &["forked", "function", "val"]),
            ("imports", &["error", "forked", "function", "host", "layout", "parse", "provided", "val"]),
            ("translate", &["error", "forked", "function", "imports", "layout", "parse", "provided"]),
            ("module", &["error", "function", "imports", "layout", "parse", "translate", "val"]),
            ("gradient", &["error", "module", "val"]),
            ("instance", &["error", "gradient", "host", "layout", "module", "val"]),
            ("library", &["error", "function", "host", "imports", "instance", "module", "parse", "provided", "val"]),
            (
                "load",
                &["error", "function", "imports", "layout", "library", "module", "parse", "provided", "translate"],
            ),
            ("products", &["error", "gradient", "host", "instance", "module", "val"]),
        ],
    ),
    (
        "brolga-analysis",
        &[
            ("lattice", &[]),
            ("query", &[]),
            ("cfg", &["query"]),
            ("bits", &["cfg", "query"]),
            ("uses", &["bits", "cfg"]),
            ("body", &["cfg", "uses"]),
            ("variant", &["lattice"]),
            ("memory", &["body", "cfg", "lattice", "query", "uses", "variant"]),
            ("summary", &["lattice", "memory"]),
            ("kinds", &["bits", "body", "cfg", "lattice", "memory", "query", "summary", "uses", "variant"]),
            ("activity", &["bits", "cfg", "kinds", "lattice", "memory", "query", "summary", "uses", "variant"]),
            ("guards", &["activity", "bits", "cfg", "query", "summary", "uses", "variant"]),
            (
                "calls",
                &[
                    "activity", "bits", "body", "cfg", "guards", "kinds", "lattice", "memory", "query", "summary",
                    "uses", "variant",
                ],
            ),
        ],
    ),
    (
        "brolga-clif",
        &[
            ("map", &[]),
            ("marks", &[]),
            ("pure", &[]),
            ("shape", &[]),
            ("inverse", &["linear", "map", "shape"]),
            ("verified", &["map"]),
            ("simplify_cfg", &["map", "pure"]),
            ("vectorise", &["linear", "map", "marks", "simplify_cfg"]),
            ("slp_divisions", &["map", "pure"]),
            ("loop_rotate", &["map", "shape", "simplify_cfg"]),
            ("licm_gvn", &["map", "pure", "shape", "simplify_cfg"]),
            ("loop_layout", &["licm_gvn", "loop_rotate", "shape", "verified"]),
        ],
    ),
    (
        "brolga-transform",
        &[
            ("derived", &[]),
            ("pass", &[]),
            ("clif", &["derived", "pass"]),
            ("find_inverse", &["primal"]),
            ("primal", &["pass"]),
            ("facts", &["primal"]),
            ("batch", &["facts"]),
            ("shadow", &["facts", "primal"]),
            ("standalone", &["derived"]),
            ("translate", &["batch", "derived", "facts"]),
            ("program", &["batch", "clif", "derived", "facts", "primal", "translate"]),
            ("stand_in", &["derived", "translate"]),
            ("template", &["clif", "derived", "facts", "program", "translate"]),
            ("user_rules", &["stand_in", "translate"]),
            ("val_map", &[]),
            ("dce", &["val_map"]),
            ("plan", &["facts", "primal", "translate", "val_map"]),
            ("guards", &["facts", "plan", "shadow", "translate"]),
            ("verified", &["batch", "facts", "plan"]),
            (
                "assemble",
                &["batch", "dce", "facts", "guards", "plan", "primal", "shadow", "translate", "val_map", "verified"],
            ),
            ("emit", &["assemble", "batch", "clif", "derived", "facts", "plan", "translate", "verified"]),
            (
                "pipeline",
                &[
                    "assemble",
                    "batch",
                    "clif",
                    "derived",
                    "emit",
                    "facts",
                    "plan",
                    "primal",
                    "program",
                    "shadow",
                    "template",
                    "translate",
                ],
            ),
            ("nested", &["clif", "derived", "pipeline", "stand_in", "standalone"]),
            ("called", &["derived", "nested", "standalone"]),
            ("derive", &["called", "derived", "pipeline", "program"]),
            ("embed", &["called", "clif", "derived", "nested", "pipeline", "stand_in", "standalone"]),
        ],
    ),
    (
        "brolga-runtime",
        &[
            ("captures", &[]),
            ("traps", &[]),
            ("mappings", &[]),
            ("pieces", &[]),
            ("shadows", &[]),
            ("forks", &["mappings", "shadows", "traps"]),
            ("stack", &[]),
            ("states", &["traps"]),
            ("segment", &["captures", "forks", "mappings", "pieces", "shadows", "stack", "states", "traps"]),
            ("status", &[]),
            ("calls", &["captures", "forks", "pieces", "segment", "shadows", "states", "status", "traps"]),
        ],
    ),
];

/// What is wrong with the dependencies of all packages, and with imports between folders.
pub fn check(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut manifests: BTreeMap<String, String> = BTreeMap::new();
    for folder in ["", "crates"] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if let Ok(text) = std::fs::read_to_string(entry.path().join("Cargo.toml")) {
                manifests.insert(name, text);
            }
        }
    }
    found.extend(packages(CRATES, &manifests));
    for (name, rows) in FOLDERS {
        let modules = modules(&root.join("crates").join(name).join("src"));
        found.extend(folders(rows, &modules).into_iter().map(|v| format!("{name}: {v}")));
    }
    found
}

/// Packages that are not in the table, and dependencies that their rows do not have.
fn packages(table: &[Allowed], manifests: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, text) in manifests {
        let Some((_, allowed)) = table.iter().find(|row| row.0 == folder) else {
            found.push(format!("{folder} is not in the table of tidy/imports.rs"));
            continue;
        };
        let ours = |name: &str| {
            name.starts_with("brolga") || name.starts_with("cranelift-") || matches!(name, "benches" | "ir-tests")
        };
        let names: Vec<String> = dependencies(text).into_iter().filter(|n| ours(n)).collect();
        for name in names.iter().filter(|n| !allowed.contains(&n.as_str())) {
            found.push(format!("{folder} must not depend on {name} (tidy/imports.rs)"));
        }
        for name in allowed.iter().filter(|a| !names.iter().any(|n| n == *a)) {
            found.push(format!("{folder} may depend on {name} by tidy/imports.rs, and does not"));
        }
    }
    found
}

/// Names below `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or("").split("\n[").next().unwrap_or("");
    let names = section.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split(['.', ' ', '=']).next());
    names.filter(|n| !n.is_empty()).map(str::to_owned).collect()
}

/// Imports between top modules that their rows do not have.
fn folders(table: &[Allowed], modules: &Modules) -> Vec<String> {
    let top = |module: &str| module.split("::").next().unwrap_or("").to_owned();
    let is_folder = |name: &str| modules.keys().any(|m| m.split_once("::").is_some_and(|(top, _)| top == name));
    let all = table.iter().any(|row| !is_folder(row.0));
    let (mut found, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (from, to) in imports(modules) {
        let (folder, other) = (top(&from), top(&to));
        let row = table.iter().find(|row| row.0 == folder).map(|row| row.1);
        match row {
            None if all || is_folder(&folder) => {
                found.insert(format!("the module {folder} is not in the table of tidy/imports.rs"))
            }
            None => false,
            Some(allowed) if folder != other && !allowed.contains(&other.as_str()) => {
                found.insert(format!("{from} must not import {to} (tidy/imports.rs)"))
            }
            Some(_) => false,
        };
        used.insert((folder, other));
    }
    let rows = table.iter().flat_map(|row| row.1.iter().map(|other| (row.0, *other)));
    let unused = rows.filter(|(folder, other)| !used.contains(&((*folder).to_owned(), (*other).to_owned())));
    found.extend(unused.map(|(folder, other)| format!("{folder} may import {other} by tidy/imports.rs, and does not")));
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Allowed, folders, packages};

    #[test]
    fn what_a_row_lacks_is_refused() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nbrolga-ir.workspace = true\ncranelift-jit = \"1\"\n\
            libc = \"1\"\n\n[dev-dependencies]\nbrolga-rules = \"1\"\n";
        let manifests = BTreeMap::from([("a".to_owned(), manifest.to_owned())]);
        assert!(packages(&[("a", &["brolga-ir", "cranelift-jit"])], &manifests).is_empty());
        assert_eq!(packages(&[("a", &["brolga-ir"])], &manifests).len(), 1);
        assert_eq!(packages(&[("b", &[])], &manifests).len(), 1);
        let too_many = packages(&[("a", &["brolga-ir", "brolga-rules", "cranelift-jit"])], &manifests);
        assert!(matches!(&too_many[..], [one] if one.contains("brolga-rules by tidy")), "{too_many:?}");
    }

    #[test]
    fn folders_are_layers() {
        let files = [
            ("low::x", "fn f() {}"),
            ("high", "use crate::low::x::f;"),
            ("high::y", ""),
            ("low", "use crate::high::g;"),
            ("beside", "use crate::low::x::f;"),
        ];
        let modules = files.iter().map(|(m, t)| ((*m).to_owned(), (*t).to_owned())).collect();
        assert!(folders(&[("low", &["high"]), ("high", &["low"])], &modules).is_empty());
        assert_eq!(folders(&[("low", &[]), ("high", &["low"])], &modules).len(), 1);
        assert_eq!(folders(&[("low", &["high"])], &modules).len(), 1);
        assert_eq!(folders(&[("low", &["high"]), ("high", &["low", "middle"])], &modules).len(), 1);
        // Where a file has a row, all have one.
        let all: [Allowed; 3] = [("low", &["high"]), ("high", &["low"]), ("beside", &["low"])];
        assert!(folders(&all, &modules).is_empty());
        assert_eq!(folders(&all[1..], &modules).len(), 1);
        assert_eq!(folders(&[all[0], ("beside", &["low"])], &modules).len(), 1);
    }
}
