//! The harness: every directive of every file is a test.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial, run};

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let trials = ir_tests::cases::collect(root)
        .into_iter()
        .map(|case| Trial::test(case.name, || (case.run)().map_err(|why| Failed::from(why.join("\n")))))
        .collect();
    run(&args, trials).exit_code()
}
