//! Which calls in `cases/calls/joint_calls.clif` are joint: the callee runs once, in the reverse
//! half. What that must leave as it is: traps, the tape's limit and what is left on it, errors of
//! endless recursion. That the numbers are right is what the file tests say.

use std::collections::BTreeMap;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::stages::dump;
use brolga::{Arg, DerivedRule, Error, MemoryMode, Mode, Options, Pass, PassSet, Program, Request, Stage};
use brolga_driver::File;
use ir_tests::requests::request;

const TEXT: &str = include_str!("../cases/calls/joint_calls.clif");

/// Per function: calls that are joint, and calls that are pairs.
fn expected() -> BTreeMap<&'static str, (usize, usize)> {
    BTreeMap::from([
        ("halves", (2, 0)),
        ("even", (1, 0)),
        ("odd", (1, 0)),
        ("power", (0, 1)),
        ("overwritten", (0, 1)),
        ("overwritten_in_part", (0, 1)),
        ("written_beside", (1, 0)),
        ("written_through", (0, 1)),
        ("written_in_front", (1, 0)),
        ("written_anywhere", (0, 1)),
        ("nothing_is_read", (1, 0)),
        ("own_slot_overwritten", (0, 1)),
        ("own_slot_written_beside", (1, 0)),
        ("written_before", (1, 0)),
        ("written_in_the_next_iteration", (0, 1)),
        ("each", (1, 0)),
        ("activities", (2, 0)),
        ("prefixes", (1, 0)),
        ("both", (1, 1)),
        ("both_turned", (1, 1)),
        ("both_inside", (2, 0)),
        ("both_each", (1, 0)),
        ("unused", (2, 0)),
        ("two_of_three", (1, 0)),
        ("one_squared", (0, 1)),
        ("compared", (0, 1)),
        ("chosen", (1, 0)),
        ("root_if", (1, 0)),
        ("root_of", (1, 0)),
        ("traps_last", (1, 0)),
        ("traps_first", (0, 1)),
        ("traps_before_a_write", (0, 1)),
        ("own_arrays", (2, 0)),
        ("callers_array", (1, 0)),
        ("array_of_pointers", (0, 1)),
        ("heap_of_pointers", (1, 0)),
        ("writes", (0, 1)),
        ("interleaved", (2, 0)),
        ("scaled_twice", (1, 0)),
        ("sine_if", (1, 0)),
        ("trapped", (1, 1)),
        ("allocates", (0, 1)),
        ("atomically", (0, 1)),
        ("bits", (0, 1)),
        ("next", (0, 2)),
        ("indirectly", (0, 1)),
    ])
}

fn program() -> Program {
    File::parse("joint_calls.clif", TEXT.to_owned()).expect("it is read").program
}

/// Pointers among a function's parameters, as its first `; grad:` line passes lists. In this file
/// they come before its integers.
fn pointers(symbol: &str) -> usize {
    let line = TEXT.lines().find(|l| l.starts_with(&format!("; grad: %{symbol}("))).expect("it is called");
    let call = line.split(" value ").next().and_then(|l| l.split(" == ").next()).expect("a call comes first");
    call.matches('[').count() - call.matches("i32[").count()
}

/// The pass by which a pullback may be there twice, calls and all.
const TWICE: PassSet = PassSet::of(&[Pass::VersionGuards]);

/// Calls in the first of the functions that are dumped: joint ones, and forward passes.
fn calls(program: &Program, request: &Request, options: &Options) -> (usize, usize) {
    let dump = dump(program, request, options, Stage::Combined).expect("it can be derived");
    let root = dump.split("\n; %").next().expect("there is a function");
    (root.matches("call_above %").count(), root.matches("__forward").count())
}

#[test]
fn calls_are_joint_where_their_value_has_no_use_and_nothing_that_they_read_is_written_behind() {
    let program = program();
    for (symbol, (joint, pairs)) in expected() {
        let request = request(&program, symbol, pointers(symbol));
        for memory in [MemoryMode::Leave, MemoryMode::Restore] {
            let options = Options { mode: Mode::Gradient, memory, disabled: TWICE, ..Options::as_calls() };
            assert_eq!(calls(&program, &request, &options), (joint, pairs), "%{symbol}, {memory:?}");
            // For the value, the callee's forward pass runs with everything else.
            let options = Options { mode: Mode::Combined, ..options };
            assert_eq!(
                calls(&program, &request, &options),
                (0, joint + pairs),
                "%{symbol}, {memory:?}, with its value"
            );
        }
        for pass in [Pass::JointCalls, Pass::Dce] {
            let options = Options { mode: Mode::Gradient, disabled: TWICE.set(pass, true), ..Options::as_calls() };
            assert_eq!(calls(&program, &request, &options), (0, joint + pairs), "%{symbol}, without {pass}");
        }
    }
}

#[test]
fn the_primal_call_is_gone() {
    let program = program();
    let options = Options { mode: Mode::Gradient, ..Options::as_calls() };
    for (symbol, _) in expected().into_iter().filter(|(_, calls)| calls.1 == 0) {
        let request = request(&program, symbol, pointers(symbol));
        let dump = dump(&program, &request, &options, Stage::Combined).expect("it can be derived");
        let calls = dump.lines().filter(|l| l.contains("call fn") && !l.trim_start().starts_with(';'));
        assert_eq!(calls.count(), 0, "%{symbol}\n{dump}");
    }
}

/// A gradient in [`Mode::Gradient`], with its bytes of tape.
fn gradient(
    program: &Program,
    request: &Request,
    options: &Options,
    args: &[Arg],
) -> Result<(Vec<Option<f64>>, usize), Error> {
    let options = Options { mode: Mode::Gradient, ..options.clone() };
    let rule = DerivedRule::new(program, request, &options)?;
    let n = program.funcs[request.func].signature.returns.len();
    let (seeds, mut results, mut cotangents) = (vec![DataValue::F64(1.0.into()); n], vec![], vec![]);
    let mut first = None;
    // The second run finds the tape of the first.
    for _ in 0..2 {
        // SAFETY: the tests pass buffers that are as long as they say.
        let run = unsafe { rule.gradient(args, &seeds, &mut results, &mut cotangents) }?;
        let found = cotangents.iter().map(|c| {
            c.as_ref().map(|c| match c {
                DataValue::F64(x) => f64::from_bits(x.bits()),
                other => panic!("{other} is no double"),
            })
        });
        let found = (found.collect::<Vec<_>>(), run.tape_bytes());
        assert!(first.is_none_or(|f| f == found), "the second run gives something else");
        first = Some(found);
    }
    Ok(first.expect("there was a run"))
}

fn pointer(x: &[f64], shadow: &mut [f64]) -> Arg {
    Arg::duplicated_len(x.as_ptr() as u64, shadow.as_mut_ptr() as u64, size_of_val(x) as u64)
}

#[test]
fn traps_of_the_callee_happen() {
    let program = program();
    let (x, mut shadow) = ([2.0], [0.0]);
    for symbol in ["traps_last", "traps_first"] {
        let args =
            |n| [Arg::new(DataValue::F64(1.5.into())), pointer(&x, &mut shadow.clone()), Arg::new(DataValue::I32(n))];
        let request = request(&program, symbol, 1);
        match gradient(&program, &request, &Options::as_calls(), &args(0)) {
            Err(Error::Trap(t)) => assert_eq!(t.code, "int_divz", "%{symbol}"),
            other => panic!("%{symbol}: {:?}", other.map(|g| g.0)),
        }
    }
    // A rule that has trapped is as good as before.
    let request = request(&program, "traps_last", 1);
    let rule = DerivedRule::new(&program, &request, &Options { mode: Mode::Gradient, ..Options::as_calls() });
    let rule = rule.expect("it can be derived");
    for (n, fails) in [(0, true), (2, false), (0, true)] {
        let args = [Arg::new(DataValue::F64(1.5.into())), pointer(&x, &mut shadow), Arg::new(DataValue::I32(n))];
        // SAFETY: one element is read.
        let run = unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut vec![], &mut vec![]) };
        assert_eq!(run.is_err(), fails);
    }
}

#[test]
fn what_a_callee_records_is_given_back() {
    let program = program();
    let request = request(&program, "prefixes", 1);
    let n = 200;
    let x: Vec<f64> = (0..n).map(|i| 1.0 + f64::from(i) / 1000.0).collect();
    let mut shadow = vec![0.0; x.len()];
    let args = [pointer(&x, &mut shadow), Arg::new(DataValue::I64(n.into()))];
    let (_, bytes) = gradient(&program, &request, &Options::as_calls(), &args).expect("it runs");
    // One number for each iteration of both loops at once, and not for each call's.
    let iterations = 8 * n as usize;
    assert!((2 * iterations - 64..=2 * iterations + 64).contains(&bytes), "{bytes} bytes for {n} iterations");
    // No more is asked for than is there, and the limit is where it was said to be.
    for (limit, fits) in [(bytes, true), (bytes - 16, false), (iterations, false)] {
        let options = Options { tape_limit: limit, ..Options::as_calls() };
        match gradient(&program, &request, &options, &args) {
            Ok((_, again)) => assert!(fits && again == bytes, "{again} bytes where {limit} are allowed"),
            Err(e) => assert!(!fits && e.to_string().contains("tape"), "{e}"),
        }
    }
}

#[test]
fn a_callee_with_pairs_inside_gives_back_what_they_record() {
    let program = program();
    let request = request(&program, "both_each", 2);
    let (x, y, mut shadows) = ([2.0, 3.0], [5.0, 0.5], ([0.0; 2], [0.0; 2]));
    let mut bytes = |n| {
        let args = [pointer(&x, &mut shadows.0), pointer(&y, &mut shadows.1), Arg::new(DataValue::I32(n))];
        gradient(&program, &request, &Options::as_calls(), &args).expect("it runs").1
    };
    let one = bytes(1);
    assert!(one > 0);
    assert_eq!(bytes(50), one);
}

#[test]
fn recursion_without_end_is_an_error() {
    let text = "
function %down(i32, f64) -> f64 system_v {
    fn0 = %down(i32, f64) -> f64 system_v
block0(v0: i32, v1: f64):
    brif v0, block1, block2
block1:
    v2 = iconst.i32 1
    v3 = iadd v0, v2
    v4 = call fn0(v0, v1)
    v5 = fadd v4, v1
    return v5
block2:
    return v1
}
";
    let file = File::parse("down.clif", text.to_owned()).expect("it is read");
    let request = request(&file.program, "down", 0);
    let options = Options { mode: Mode::Gradient, ..Options::as_calls() };
    assert_eq!(calls(&file.program, &request, &options), (1, 0));
    let args = |n| [Arg::new(DataValue::I32(n)), Arg::new(DataValue::F64(1.5.into()))];
    let e = gradient(&file.program, &request, &options, &args(1)).expect_err("it does not end");
    assert!(e.to_string().contains("stack"), "{e}");
    let (found, _) = gradient(&file.program, &request, &options, &args(0)).expect("it ends at once");
    assert_eq!(found, [None, Some(1.0)]);
}
