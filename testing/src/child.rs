//! Tests that need a process of their own: for what is the process's and not the thread's, such as
//! signal handlers, limits and mappings.
//!
//! The test starts its own program again, for this one test, with a variable set that makes the
//! test play the child. One thread runs it there, the main thread, and no other test runs beside
//! it.

use std::process::{Command, ExitStatus};

const CHILD: &str = "BROLGA_TEST_CHILD";

/// In the parent: run this test in a child, and say how it ended. In the child: do `what`, and
/// `None`.
///
/// `module` is `module_path!()` and `name` is that of the test.
pub fn in_child(module: &str, name: &str, what: impl FnOnce()) -> Option<ExitStatus> {
    run(module, name, what).map(|(status, _)| status)
}

/// The same for a test that succeeds in the child.
pub fn alone(module: &str, name: &str, what: impl FnOnce()) {
    if let Some((status, said)) = run(module, name, what) {
        assert!(status.success(), "in a process of its own, {status}:\n{said}");
    }
}

fn run(module: &str, name: &str, what: impl FnOnce()) -> Option<(ExitStatus, String)> {
    if std::env::var_os(CHILD).is_some() {
        what();
        return None;
    }
    // The harness leaves out the name of the binary.
    let test = module.split_once("::").map_or_else(|| name.to_owned(), |(_, rest)| format!("{rest}::{name}"));
    let program = std::env::current_exe().expect("the test binary has a path");
    let mut command = Command::new(program);
    command.args(["--exact", &test, "--test-threads=1", "--nocapture"]).env(CHILD, "1");
    let output = command.output().expect("the test binary can be started");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(said.contains("running 1 test\n"), "`{test}` is the name of a test:\n{said}");
    Some((output.status, said))
}
