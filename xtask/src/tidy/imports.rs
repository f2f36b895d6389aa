//! Layers: what each crate may depend on, and what each folder of a crate may import.
//!
//! [`CRATES`] lists, for each package of the workspace, the packages of the workspace and the
//! crates of Cranelift that its `[dependencies]` may name. What is missing from a row is what the
//! crate must not know: `brolga-runtime` names no crate of Cranelift, and `brolga-oracle` no crate
//! of the pass. [`FOLDERS`] does the same for modules at the top of a crate: which others their
//! files may import. A file at the top counts as a folder of its own. Each crate below `crates` is
//! in both tables, with a row for each of its folders; a row lists no more than there is.
//! Dependencies of tests are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::circles::{Modules, imports, modules};

/// A name, and the names that it may import.
type AllowedImports = (&'static str, &'static [&'static str]);

/// Packages, by their folders, and what of the workspace and of Cranelift they may depend on.
const CRATES: &[AllowedImports] = &[
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
    ("ir-tests", &["brolga-testing", "brolga", "brolga-driver", "brolga-ir", "brolga-transform"]),
    (
        "fuzz",
        &[
            "brolga-testing",
            "brolga",
            "brolga-ir",
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

/// Crates, and what each of their folders may import besides itself. Rows go from the lowest to the
/// highest: what a row imports has its own row before it. ([`super::circles`] refuses folders that
/// import each other.)
const FOLDERS: &[(&str, &[AllowedImports])] = &[
    (
        "brolga",
        &[
            ("error", &[]),
            ("jit", &["error"]),
            ("cache", &["error", "jit"]),
            ("second", &["error", "jit"]),
            ("stages", &["error", "jit"]),
            ("drivers", &["error", "jit", "second"]),
        ],
    ),
    (
        "brolga-driver",
        &[
            ("noise", &[]),
            ("source", &[]),
            ("text", &[]),
            ("wasm", &[]),
            ("value", &["text"]),
            ("bind", &["text", "value", "wasm"]),
            ("guess", &["bind"]),
            ("memory", &["bind", "text"]),
            ("place", &["bind", "wasm"]),
            ("reversible", &["bind", "text"]),
            ("load", &["bind", "guess", "reversible", "source", "text", "wasm"]),
            ("run", &["bind", "memory", "value"]),
            ("inputs", &["bind", "memory", "noise", "run", "text", "value"]),
            ("output", &["bind", "run", "value"]),
            ("compare", &["bind", "output", "run", "text", "value"]),
            ("tangent", &["bind", "inputs", "memory", "run", "text", "value"]),
            ("batch", &["bind", "memory", "run", "tangent", "value"]),
            ("second", &["batch", "bind", "inputs", "memory", "run", "tangent", "value"]),
            ("jacobian", &["batch", "bind", "inputs", "memory", "run", "second", "tangent", "value"]),
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
            ("sparsity", &["bind", "inputs", "jacobian", "memory"]),
            (
                "protocol",
                &[
                    "batch", "bind", "check", "compare", "inputs", "memory", "noise", "output", "run", "tangent",
                    "value",
                ],
            ),
            ("explain", &["bind", "compare", "inputs", "memory", "output", "protocol", "run", "value"]),
            ("timing", &["bind", "inputs", "memory", "protocol", "run", "tangent"]),
        ],
    ),
    (
        "brolga-ir",
        &[
            ("attached", &[]),
            ("entities", &[]),
            ("graph", &[]),
            ("pages", &[]),
            ("passes", &[]),
            ("position", &[]),
            ("source_name", &[]),
            ("symbols", &[]),
            ("inst", &["entities"]),
            ("map", &["pages"]),
            ("options", &["passes"]),
            ("request", &["entities"]),
            ("block", &["entities", "graph", "inst", "map", "pages"]),
            ("copies", &["entities", "map"]),
            ("driver", &["entities", "options"]),
            ("panics", &[]),
            ("names", &["map"]),
            ("spec", &["entities", "options", "request"]),
            ("dot", &["block", "entities"]),
            ("driver_call", &["driver", "symbols"]),
            ("lift", &["block", "entities", "inst", "map"]),
            ("fork", &["driver", "driver_call"]),
            ("inverse_pair", &["driver", "driver_call"]),
            ("time_loop", &["driver", "driver_call"]),
            ("intrinsics", &["driver_call", "fork", "inverse_pair", "symbols", "time_loop"]),
            (
                "program",
                &[
                    "attached",
                    "copies",
                    "driver",
                    "driver_call",
                    "entities",
                    "fork",
                    "intrinsics",
                    "map",
                    "source_name",
                    "symbols",
                ],
            ),
            ("diag", &["copies", "entities", "position", "program"]),
            ("lower", &["block", "entities", "graph", "inst", "map", "names", "program"]),
            ("origin", &["copies", "entities", "position", "program"]),
            ("print", &["block", "entities", "inst", "map", "program"]),
            ("set_inverse", &["diag", "driver", "driver_call", "options", "program", "symbols"]),
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
            ("linear", &[]),
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
            ("primal", &["pass"]),
            ("find_inverse", &["primal"]),
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
    (
        "brolga-cli",
        &[
            ("args", &[]),
            ("failure", &[]),
            ("rules", &[]),
            ("choice", &["failure"]),
            ("jobs", &["args", "failure", "rules"]),
            ("report", &["failure"]),
            ("bench", &["args", "failure", "jobs", "report", "rules"]),
            ("check", &["args", "failure", "jobs", "report", "rules"]),
            ("compile", &["args", "choice", "failure", "jobs", "report"]),
            ("completions", &["failure", "report"]),
            ("dump", &["args", "choice", "failure", "jobs", "report"]),
            ("explain", &["args", "failure", "jobs", "report", "rules"]),
            ("forward", &["args", "failure", "jobs", "report", "rules"]),
            ("grad", &["args", "failure", "jobs", "report", "rules"]),
            ("invert", &["args", "failure", "jobs", "report"]),
            ("man", &["failure", "report"]),
            ("run", &["args", "failure", "jobs", "report"]),
            ("second", &["args", "failure", "forward", "jobs", "report"]),
            (
                "cli",
                &[
                    "bench",
                    "check",
                    "compile",
                    "completions",
                    "dump",
                    "explain",
                    "failure",
                    "forward",
                    "grad",
                    "invert",
                    "man",
                    "report",
                    "run",
                    "second",
                ],
            ),
        ],
    ),
    (
        "brolga-module",
        &[("error", &[]), ("bare", &["error"]), ("recorded", &["error"]), ("link", &["error", "recorded"])],
    ),
    (
        "brolga-oracle",
        &[
            ("error", &[]),
            ("generate", &[]),
            ("real", &[]),
            ("fd", &["error"]),
            ("special", &["real"]),
            ("interp", &["error", "real", "special"]),
            ("dual", &["error", "interp", "real"]),
            ("tape", &["error", "interp", "real"]),
            ("trace", &["error", "interp", "tape"]),
            ("oracle", &["dual", "error", "interp", "real", "tape", "trace"]),
        ],
    ),
    (
        "brolga-reversible",
        &[
            ("ast", &[]),
            ("error", &["ast"]),
            ("expressions", &["ast"]),
            ("invert", &["ast"]),
            ("print", &["ast"]),
            ("build", &["ast", "expressions"]),
            ("define", &["ast", "error"]),
            ("layout", &["ast", "error"]),
            ("lex", &["ast", "error"]),
            ("parse", &["ast", "error", "lex"]),
            ("types", &["ast", "error", "invert", "layout"]),
            ("lower", &["ast", "error", "invert", "layout", "types"]),
        ],
    ),
    (
        "brolga-rules",
        &[
            ("gamma", &[]),
            ("sig", &[]),
            ("adjoint", &["sig"]),
            ("math_fn", &["gamma"]),
            ("expr", &["math_fn"]),
            ("row", &["expr"]),
            ("check", &["expr", "row"]),
            ("table", &["expr", "row"]),
            ("cost", &["table"]),
            ("libm", &["expr", "math_fn", "row", "sig", "table"]),
            ("user", &["adjoint", "expr", "libm", "math_fn", "row", "sig"]),
        ],
    ),
    (
        "brolga-schedules",
        &[
            ("action", &[]),
            ("blocked", &[]),
            ("recompute_all", &[]),
            ("revolve", &[]),
            ("store_all", &[]),
            ("treeverse", &[]),
            ("method", &["revolve"]),
            ("online", &["revolve"]),
            ("periodic", &["revolve"]),
            ("slot_error", &["action"]),
            ("stats", &["action"]),
            ("units", &["action"]),
            ("bennett", &["action", "units"]),
            ("slot_file", &["action", "slot_error"]),
            ("two_levels", &["periodic"]),
            ("schedule", &["action", "bennett", "method", "online", "revolve", "treeverse", "units"]),
            ("slots", &["action", "slot_error", "slot_file"]),
            ("forecast", &["action", "blocked", "method", "periodic", "revolve", "schedule", "stats", "two_levels"]),
            ("run", &["action", "schedule", "stats"]),
            ("budget", &["action", "blocked", "forecast", "method", "revolve", "schedule"]),
        ],
    ),
];

/// What is wrong with the dependencies of all packages, and with imports between folders.
pub(super) fn check(root: &Path) -> Vec<String> {
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
    let absent = manifests.keys().filter_map(|folder| folder.strip_prefix("crates/"));
    let absent = absent.filter(|name| FOLDERS.iter().all(|row| row.0 != *name));
    found.extend(absent.map(|name| format!("the folders of {name} are not in the table of tidy/imports.rs")));
    for (name, rows) in FOLDERS {
        let modules = modules(&root.join("crates").join(name).join("src"));
        found.extend(folders(rows, &modules).into_iter().map(|v| format!("{name}: {v}")));
    }
    found
}

/// Packages that are not in the table, and dependencies that their rows do not have.
fn packages(table: &[AllowedImports], manifests: &BTreeMap<String, String>) -> Vec<String> {
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
fn folders(table: &[AllowedImports], modules: &Modules) -> Vec<String> {
    let top = |module: &str| module.split("::").next().unwrap_or("").to_owned();
    let row = |folder: &str| table.iter().find(|row| row.0 == folder).map(|row| row.1);
    // A program's `main` imports its library, whose modules the table has.
    let names: BTreeSet<String> = modules.keys().map(|m| top(m)).filter(|m| !m.is_empty() && m != "main").collect();
    let absent = names.iter().filter(|name| row(name).is_none());
    let mut found: BTreeSet<String> =
        absent.map(|name| format!("the module {name} is not in the table of tidy/imports.rs")).collect();
    let mut used = BTreeSet::new();
    for (from, to) in imports(modules) {
        let (folder, other) = (top(&from), top(&to));
        if folder != other && row(&folder).is_some_and(|allowed| !allowed.contains(&other.as_str())) {
            found.insert(format!("{from} must not import {to} (tidy/imports.rs)"));
        }
        used.insert((folder, other));
    }
    let rows = table.iter().flat_map(|row| row.1.iter().map(|other| (row.0, *other)));
    for (place, (folder, allowed)) in table.iter().enumerate() {
        let above = table[place..].iter().map(|row| row.0).filter(|other| allowed.contains(other));
        found.extend(above.map(|other| format!("{folder} stands before {other} in tidy/imports.rs, and imports it")));
    }
    let unused = rows.filter(|(folder, other)| !used.contains(&((*folder).to_owned(), (*other).to_owned())));
    found.extend(unused.map(|(folder, other)| format!("{folder} may import {other} by tidy/imports.rs, and does not")));
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{AllowedImports, folders, packages};

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
            ("low", "fn g() {}"),
            ("beside", "use crate::low::x::f;"),
        ];
        let modules = files.iter().map(|(m, t)| ((*m).to_owned(), (*t).to_owned())).collect();
        let all: [AllowedImports; 3] = [("low", &[]), ("high", &["low"]), ("beside", &["low"])];
        assert!(folders(&all, &modules).is_empty());
        assert_eq!(folders(&[all[0], ("high", &[]), all[2]], &modules).len(), 1);
        assert_eq!(folders(&[all[0], ("high", &["low", "middle"]), all[2]], &modules).len(), 1);
        // Each folder has a row, and each file.
        assert_eq!(folders(&all[..2], &modules).len(), 1);
        assert_eq!(folders(&all[1..], &modules).len(), 1);
        // What is imported has its row first.
        let found = folders(&[all[1], all[0], all[2]], &modules);
        assert!(matches!(&found[..], [one] if one.contains("high stands before low")), "{found:?}");
    }
}
