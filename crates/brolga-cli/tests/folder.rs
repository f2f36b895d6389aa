//! A folder for a test that compiles objects, and programs that they are linked into.

use std::path::PathBuf;
use std::process::Command;

use brolga_testing::command::{Run, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_brolga");

/// A folder that lives as long as the test.
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("brolga-objects-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary folder is writable");
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("it is writable");
    }

    /// `brolga compile FILE …` in the folder.
    pub(crate) fn compile(&self, file: &str, args: &[&str]) -> Run {
        let outputs = ["-o", "--header", "--rust"];
        let path = |name: &str| self.0.join(name).to_str().expect("a plain path").to_owned();
        let mut all = vec!["compile".to_owned(), path(file)];
        for (k, arg) in args.iter().enumerate() {
            let is_output = k > 0 && outputs.contains(&args[k - 1]) && *arg != "-";
            all.push(if is_output { path(arg) } else { (*arg).to_owned() });
        }
        run(PROGRAM, &all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Run a compiler; `false` where there is none.
    pub(crate) fn build(&self, compiler: &str, args: &[&str]) -> bool {
        match Command::new(compiler).current_dir(&self.0).args(args).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && said.is_empty(), "{compiler} {args:?}: {said}");
                true
            }
            Err(_) => {
                println!("skipped: there is no `{compiler}`");
                false
            }
        }
    }

    pub(crate) fn run(&self, program: &str) -> String {
        let mut command = Command::new(self.0.join(program));
        let output = command.env("LD_LIBRARY_PATH", &self.0).output().expect("it runs");
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).expect("it prints text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|n| n.parse().unwrap_or_else(|_| panic!("{n} is no number"))).collect()
}

#[track_caller]
pub(crate) fn close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len(), "{found:?} {wanted:?}");
    for (a, b) in found.iter().zip(wanted) {
        assert!((a - b).abs() <= 1e-13 * b.abs().max(1.0), "{found:?}\n{wanted:?}");
    }
}
