//! The harness itself: what it finds in a folder, and that it fails when it should.

use std::path::{Path, PathBuf};

use brolga_driver::File;
use brolga_testing::budget::Depth;
use ir_tests::{blessed, cases};

/// A folder that is removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("brolga-harness-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("cases/sub")).expect("the temporary folder is writable");
        std::fs::create_dir_all(path.join("real/src")).expect("the temporary folder is writable");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the temporary folder is writable");
        path
    }

    /// Names of the tests, and why each fails.
    fn run(&self) -> Vec<(String, Vec<String>)> {
        let cases = cases::collect(&self.0, Depth::Full);
        cases.into_iter().map(|c| (c.name, (c.run)().err().unwrap_or_default())).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SQUARE: &str = "function %f(f64) -> f64 system_v {\nblock0(v0: f64):\n    v1 = fmul v0, v0\n    return v1\n}\n";

#[test]
fn every_directive_is_a_test() {
    let folder = Folder::new("collect");
    folder.file("cases/sub/a.clif", &format!("; about\n; grad: %f(1.5) == [3.0]\n; grad: %f(2.0) == [4.5]\n{SQUARE}"));
    folder.file("cases/b.clif", &format!("; trap: %f(1.0) int_divz\n; error: %f\n{SQUARE}"));
    folder.file("real/c.clif", &format!("; grad: %f(1.5 == [3.0]\n{SQUARE}"));
    folder.file("real/d.clif", "function %f( {\n");
    folder.file("real/e.clif", SQUARE);
    folder.file("real/src/ignored.clif", "not for us");
    folder.file("real/notes.txt", "not for us");
    let results = folder.run();
    let failing: Vec<_> = results.iter().filter(|(_, why)| !why.is_empty()).map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        failing,
        [
            "cases/b.clif:1 trap %f(1.0) int_divz",
            "cases/b.clif:2 error %f",
            "cases/sub/a.clif:3 grad %f(2.0)",
            "real/c.clif directives",
            "real/d.clif load",
            "real/e.clif directives",
        ]
    );
    let passing: Vec<_> = results.iter().filter(|(_, why)| why.is_empty()).map(|(name, _)| name.as_str()).collect();
    assert_eq!(passing, ["cases/sub/a.clif:2 grad %f(1.5)", "cases/sub/a.clif dumps %f(active)"]);
    let why = &results.iter().find(|(name, _)| name.contains("a.clif:3")).expect("it is there").1;
    assert_eq!(why.len(), 1, "the gradient is right, only the expectation is not: {why:?}");
    assert!(why[0].contains("expected 4.5, found 4.0"));
}

#[test]
fn blessed_dumps_are_compared() {
    let folder = Folder::new("bless");
    let path =
        folder.file("cases/x.clif", &format!("; grad: %f(1.5) == [3.0]\n; bless: normalised, pullback\n{SQUARE}"));
    let file = File::read(&path).expect("the file is fine");
    assert!(blessed::is_wanted(&file, &path));
    let why = blessed::check(&file, &path, false).expect_err("nothing is blessed yet");
    assert!(why[0].contains("x.stages.txt is out of date"), "{why:?}");
    blessed::check(&file, &path, true).expect("blessing writes the file");
    blessed::check(&file, &path, false).expect("what was blessed is up to date");
    let kept = path.with_extension("stages.txt");
    let text = std::fs::read_to_string(&kept).expect("blessing wrote it");
    assert!(
        text.contains("==== %f(active) normalised ====") && text.contains("==== %f(active) pullback ===="),
        "{text}"
    );
    std::fs::write(&kept, text.replacen("====", "=====", 1)).expect("the folder is writable");
    assert!(blessed::check(&file, &path, false).is_err());

    let unasked = folder.file("cases/y.clif", &format!("; grad: %f(1.5) == [3.0]\n{SQUARE}"));
    let file = File::read(&unasked).expect("the file is fine");
    assert!(!blessed::is_wanted(&file, Path::new(&unasked)));
    std::fs::write(unasked.with_extension("stages.txt"), "").expect("the folder is writable");
    assert!(blessed::is_wanted(&file, &unasked) && blessed::check(&file, &unasked, false).is_err());
}
