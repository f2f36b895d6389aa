//! The harness: every directive of every file is a test, and so is every line about a module of
//! `ir-tests/wasm` ([`wasm`]).
//!
//! These tests are a binary of their own: they are made when it starts, from what lies in folders,
//! which the harness of `main.rs` cannot do. So a test's name says its file and line, and a file
//! that is added is tried without being named anywhere.

mod wasm;

use std::path::Path;
use std::process::ExitCode;

use brolga_testing::budget;
use brolga_testing::budget::depth;
use libtest_mimic::{Arguments, Failed, Trial, run};

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (real, cases): (Vec<_>, Vec<_>) =
        ir_tests::cases::collect(root, depth()).into_iter().partition(|case| case.name.starts_with("real"));
    let cases = cases.into_iter().chain(real.into_iter().step_by(budget(1, 8)));
    let cases = cases.map(|case| Trial::test(case.name, || (case.run)().map_err(|why| Failed::from(why.join("\n")))));
    let trials = cases.chain(wasm::trials(&root.join("wasm")).into_iter().step_by(budget(1, 30))).collect();
    run(&args, trials).exit_code()
}
