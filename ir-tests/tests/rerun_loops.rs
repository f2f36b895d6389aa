//! For which loops in `cases/control/rerun_loops.clif` the reverse half runs them again, forwards,
//! and that nothing is recorded then. That the numbers are right is what the file tests say.

use std::collections::BTreeMap;

use brolga::stages::dump;
use brolga::{MemoryMode, Mode, Options, Pass, PassSet, Program, Stage};
use brolga_driver::File;
use ir_tests::requests::request;

const TEXT: &str = include_str!("../cases/control/rerun_loops.clif");

/// Per function: pointers with shadows, and loops that are run again.
fn expected() -> BTreeMap<&'static str, (usize, usize)> {
    BTreeMap::from([
        ("chain", (1, 1)),
        ("norm", (1, 0)),
        ("two_sums", (1, 1)),
        ("two_exits", (1, 0)),
        ("last_term", (1, 0)),
        ("anew", (1, 0)),
        ("crossed", (0, 0)),
        ("doubled", (0, 0)),
        ("either", (1, 0)),
        ("in_iteration", (1, 2)),
        ("writes", (2, 0)),
        ("forgets", (1, 0)),
        ("divides", (1, 0)),
        ("pairs", (1, 1)),
        ("iterations", (1, 0)),
        ("anew_from", (1, 0)),
    ])
}

fn rerun(program: &Program, symbol: &str, pointers: usize, options: &Options) -> (usize, bool) {
    let mut request = request(program, symbol, pointers);
    request.args.iter_mut().for_each(|a| *a = a.noalias());
    let dump = dump(program, &request, options, Stage::Combined).expect("it can be derived");
    (dump.matches(", forwards, from").count(), dump.contains(" push ["))
}

#[test]
fn what_adds_up_is_run_again() {
    let program = File::parse("rerun_loops.clif", TEXT.to_owned()).expect("it is read").program;
    for (symbol, (pointers, loops)) in expected() {
        for memory in [MemoryMode::Leave, MemoryMode::Restore] {
            let options = Options { mode: Mode::Gradient, memory, ..Options::full() };
            let (found, pushes) = rerun(&program, symbol, pointers, &options);
            assert_eq!(found, loops, "%{symbol}, {memory:?}");
            assert!(!pushes || loops == 0, "%{symbol}, {memory:?}: something is recorded");
        }
        let without = [PassSet::NONE, Pass::RerunLoops.into(), Pass::Dce.into()];
        for (mode, disabled) in [Mode::Combined, Mode::Gradient, Mode::Gradient].into_iter().zip(without) {
            let options = Options { mode, disabled, ..Options::full() };
            assert_eq!(rerun(&program, symbol, pointers, &options).0, 0, "%{symbol}, {mode:?} without {disabled:?}");
        }
    }
}

#[test]
fn iterations_are_reversed_one_by_one_where_that_pays() {
    let program = File::parse("rerun_loops.clif", TEXT.to_owned()).expect("it is read").program;
    let options = Options { mode: Mode::Gradient, disabled: Pass::CostModel.into(), ..Options::full() };
    assert_eq!(rerun(&program, "iterations", 1, &options), (1, false));
    // A sum that is left from its middle has no iterations, and one block.
    assert_eq!(rerun(&program, "last_term", 1, &options).0, 0);
}
