//! The acceptance test of embedding: DiffSL, a compiler of differential equations on Cranelift
//! whose tests of reverse mode run under LLVM and Enzyme only, runs them with an [`AdModule`].
//!
//! Cargo fetches diffsl. A copy of it below `target/diffsl` is changed as [`EDITS`] and [`TESTS`]
//! say (another release of Cranelift, the module wrapped, tests of LLVM's for Cranelift's), and
//! gets two files of ours from `adapters/diffsl`: the derivatives that it asks for, and a test of a
//! large model. Then its tests run. Nothing of diffsl is a part of the project.
//!
//! [`AdModule`]: ../../../crates/brolga-module/src/lib.rs

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brolga_cli::failure::Failure;

use crate::root;

const VERSION: &str = "0.12.2";

/// How many of its tests run under Cranelift before anything is changed.
const WANTED: usize = 505;

/// In a file, so many occurrences of a text become another.
type Edit = (&'static str, &'static str, usize);

/// `src/execution/cranelift/codegen.rs`: what another release of Cranelift asks for, then the
/// module.
const EDITS: &[Edit] = &[
    (".global_value(", ".symbol_value(", 12),
    (".stack_store(", ".stack_store(self.int_ptr_type, ", 7),
    (".stack_load(self.real_type,", ".stack_load(self.int_ptr_type, self.real_type,", 3),
    (
        "codegen.builder.finalize();",
        "let config = codegen.module.target_config();\ncodegen.builder.finalize(config);",
        19,
    ),
    ("        builder.finalize();", "        builder.finalize(module.target_config());", 2),
    ("pub struct CraneliftModule<", "mod derivatives;\n\npub struct CraneliftModule<", 1),
    ("use target_lexicon::", "use brolga_module::AdModule;\nuse target_lexicon::", 1),
    ("module: Mutex<M>,", "module: Mutex<AdModule<M>>,", 1),
    ("module: MutexGuard<'a, M>,", "module: MutexGuard<'a, AdModule<M>>,", 1),
    ("        mut module: M,", "        module: M,", 1),
    (
        "        let ptr_type = match triple.pointer_width()",
        "        let mut module = AdModule::new(module);\n        let ptr_type = match triple.pointer_width()",
        1,
    ),
    (
        "Self::new_object_backend(self.triple.clone())?)",
        "AdModule::new(Self::new_object_backend(self.triple.clone())?))",
        1,
    ),
    ("module_to_emit.finish()", "module_to_emit.into_inner().finish()", 1),
    (
        "ret.compile_set_inputs_grad(&set_inputs, model)?;",
        "ret.compile_set_inputs_grad(&set_inputs, model)?;\nret.define_derivatives(model)?;",
        1,
    ),
    (
        "let module = JITModule::new(builder);",
        "builder.symbol(\"diffsl_workspace\", derivatives::workspace as *const u8);\n\
         let module = JITModule::new(builder);",
        1,
    ),
    // Functions that derivatives are made of are local.
    ("if Linkage::Import == decl.linkage {", "if decl.linkage != Linkage::Export {", 1),
];

/// `src/execution/compiler.rs`: what the other backend is asked in tests, this one is asked, too.
const TESTS: &[Edit] = &[
    ("crate::execution::llvm::codegen::LlvmModule", "crate::CraneliftJitModule", 7),
    ("crate::LlvmModule", "crate::CraneliftJitModule", 8),
    ("LlvmModule", "CraneliftJitModule", 10),
    ("\"llvm\"", "\"cranelift\"", 14),
];

/// What is put after its manifest: ours is a dependency, and Cranelift is compiled as the project
/// compiles it.
fn manifest(text: &str) -> Result<String, Failure> {
    let released = text.matches("version = \"0.133\"").count();
    if released != 5 {
        return Err(Failure::Other(format!("diffsl's manifest names Cranelift 0.133 {released} times, not five")));
    }
    let text = text.replace("version = \"0.133\"", "version = \"=0.135.8\"");
    let ours = root().join("crates/brolga-module");
    let adapters = read(&root().join("adapters/Cargo.toml"))?;
    let profiles = adapters.find("[profile").map_or("", |at| &adapters[at..]);
    let ours = format!("[dependencies.brolga-module]\npath = {:?}\n", ours.display().to_string());
    let test = "[[test]]\nname = \"battery\"\npath = \"tests/battery.rs\"\nrequired-features = [\"cranelift\"]\n";
    Ok(format!("{text}\n{ours}\n{test}\n[workspace]\n\n{profiles}"))
}

/// Fetch, change and test it.
pub fn run() -> Result<(), Failure> {
    let place = root().join("target/diffsl");
    let copy = place.join(format!("diffsl-{VERSION}"));
    transfer(&fetch(&place)?, &copy, Path::new(""))?;
    let ours = root().join("adapters/diffsl");
    write(&copy.join("src/execution/cranelift/codegen/derivatives.rs"), &read(&ours.join("derivatives.rs"))?)?;
    write(&copy.join("tests/battery.rs"), &read(&ours.join("battery.rs"))?)?;
    let mut tests = Command::new("cargo");
    tests.current_dir(&copy).env("CARGO_TARGET_DIR", place.join("target"));
    tests.args(["test", "--no-fail-fast", "--no-default-features", "--features", "cranelift,external"]);
    tests.args(["--", "--show-output"]);
    eprintln!("diffsl's tests, in {}", copy.display());
    let out = tests.stderr(Stdio::inherit()).output().map_err(|e| Failure::Other(format!("cargo: {e}")))?;
    let out = String::from_utf8_lossy(&out.stdout);
    for line in out.lines().filter(|l| l.ends_with("... FAILED") || l.starts_with("battery:")) {
        println!("{line}");
    }
    let (passed, failed) = counts(&out);
    println!("{passed} of diffsl's tests pass, {failed} fail");
    if failed == 0 && passed >= WANTED {
        return Ok(());
    }
    Err(Failure::Mismatch(format!("{WANTED} tests pass where nothing is changed; see {}", copy.display())))
}

/// How many tests have passed and failed, by what test programs print.
fn counts(out: &str) -> (usize, usize) {
    let results = out.lines().filter_map(|l| l.strip_prefix("test result: "));
    let count = |result: &str, what: &str| {
        let before = result.split(what).next().unwrap_or_default();
        before.rsplit(' ').next().and_then(|w| w.parse().ok()).unwrap_or(0)
    };
    results.fold((0, 0), |(p, f), r| (p + count(r, " passed"), f + count(r, " failed")))
}

/// Where Cargo has diffsl, after fetching it with what it depends on.
fn fetch(place: &Path) -> Result<PathBuf, Failure> {
    let asks = place.join("fetch");
    let manifest = format!(
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies.diffsl]\n\
         version = \"={VERSION}\"\ndefault-features = false\nfeatures = [\"cranelift\"]\n"
    );
    write(&asks.join("lib.rs"), "")?;
    write(&asks.join("Cargo.toml"), &manifest)?;
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--quiet", "--format-version", "1"]).current_dir(&asks).stderr(Stdio::inherit());
    let out = metadata.output().map_err(|e| Failure::Other(format!("cargo: {e}")))?;
    let out = String::from_utf8_lossy(&out.stdout);
    let end = format!("diffsl-{VERSION}/Cargo.toml");
    let found = out.split('"').find(|word| word.ends_with(&end));
    let found = found.and_then(|word| Path::new(word).parent());
    found.map(Path::to_path_buf).ok_or_else(|| Failure::Other(format!("cargo fetched no diffsl {VERSION}")))
}

/// Copy what is compiled, changed. A file that is there already stays as it is, so that Cargo
/// compiles it once.
fn transfer(from: &Path, to: &Path, inside: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Other(format!("{}: {e}", from.display()));
    for entry in std::fs::read_dir(from.join(inside)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let inside = inside.join(entry.file_name());
        if entry.path().is_dir() {
            // LLVM's part, which is of a quarter of a million lines.
            if inside != Path::new("Enzyme") {
                transfer(from, to, &inside)?;
            }
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            let text = match inside.to_str() {
                Some("Cargo.toml") => manifest(&text)?,
                Some("src/execution/cranelift/codegen.rs") => edited(&text, EDITS)?,
                Some("src/execution/compiler.rs") => edited(&text, TESTS)?,
                _ => text,
            };
            // Cargo changes the lock file itself.
            if inside != Path::new("Cargo.lock") || !to.join(&inside).exists() {
                write(&to.join(&inside), &text)?;
            }
        }
    }
    Ok(())
}

fn edited(text: &str, edits: &[Edit]) -> Result<String, Failure> {
    let mut text = text.to_owned();
    for &(from, to, n) in edits {
        let found = text.matches(from).count();
        if found != n {
            return Err(Failure::Other(format!("diffsl has `{from}` {found} times, not {n}: is it {VERSION}?")));
        }
        text = text.replace(from, to);
    }
    Ok(text)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| Failure::Other(format!("{}: {e}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if std::fs::read_to_string(path).is_ok_and(|is| is == text) {
        return Ok(());
    }
    let parent = path.parent().expect("it is below another folder");
    let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(path, text));
    written.map_err(|e| Failure::Other(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let one = "test result: ok. 546 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 52.28s";
        let two = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(counts(&format!("running 4 tests\n{one}\n\n{two}\n")), (549, 2));
        assert_eq!(counts("error: could not compile"), (0, 0));
    }

    #[test]
    fn an_edit_that_finds_something_else_is_refused() {
        assert_eq!(edited("a.b(c)", &[(".b(", ".d(", 1)]).unwrap(), "a.d(c)");
        assert!(edited("a.b(c).b(c)", &[(".b(", ".d(", 1)]).is_err());
        assert!(manifest("version = \"0.134\"").is_err());
    }
}
