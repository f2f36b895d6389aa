//! Functions of both halves that others call: what they are told of their seed, and of their
//! segment.

use brolga_analysis::ResultMode;
use brolga_ir::{ArgActivity, Mode, Options, Request, ResultActivity};
use brolga_testing::program;
use brolga_transform::derive::derive;
use brolga_transform::derived::Derivation;

use crate::host;

/// The gradient of `%f(i64, i64) -> f64`, a duplicated pointer and a count.
fn gradient(body: &str, seed: ResultActivity) -> Derivation {
    let text = format!("function %f(i64, i64) -> f64 {{\n    fn0 = %f(i64, i64) -> f64\n{body}\n}}");
    let program = program(&text);
    let key = program.func("f").unwrap();
    let request = Request { results: vec![seed], ..Request::new(key, [ArgActivity::Duplicated, ArgActivity::Const]) };
    let isa = host::isa();
    derive(&program, &request, &Options { mode: Mode::Gradient, ..Options::full() }, &*isa).unwrap()
}

/// Parameters of the function that is called, and arguments of its calls.
fn arity(d: &Derivation) -> (usize, Vec<usize>) {
    let func = &d.joint[0].func;
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let calls = insts.filter(|&i| func.dfg.insts[i].opcode().is_call());
    (func.signature.params.len(), calls.map(|i| func.dfg.inst_args(i).len()).collect())
}

/// Squares added up by halves.
const HALVES: &str = "
block0(v0: i64, v1: i64):
    v2 = iconst.i64 1
    v3 = icmp ugt v1, v2
    brif v3, block1, block2
block1:
    v4 = ushr v1, v2
    v5 = isub v1, v4
    v6 = iconst.i64 3
    v7 = ishl v4, v6
    v8 = iadd v0, v7
    v9 = call fn0(v0, v4)
    v10 = call fn0(v8, v5)
    v11 = fadd v9, v10
    return v11
block2:
    v12 = load.f64 v0
    v13 = fmul v12, v12
    return v13";

#[test]
fn a_seed_of_one_is_passed_on_by_a_sum() {
    let d = gradient(HALVES, ResultActivity::Unit);
    assert_eq!(d.joint.len(), 1);
    assert_eq!(d.joint[0].variant.results, [ResultMode::Unit]);
    let d = gradient(HALVES, ResultActivity::Active);
    assert_eq!(d.joint[0].variant.results, [ResultMode::Active]);
    // A multiple is not one any more.
    let d = gradient(
        &HALVES.replace("v11 = fadd v9, v10", "v14 = fadd v9, v10\n    v11 = fadd v14, v14"),
        ResultActivity::Unit,
    );
    assert_eq!(d.joint[0].variant.results, [ResultMode::Active]);
}

#[test]
fn segments_without_a_use_are_left_out() {
    let d = gradient(HALVES, ResultActivity::Unit);
    assert!(!d.joint[0].segment && !d.combined.as_ref().unwrap().segment);
    // Of two calls the last one is a jump to the beginning.
    assert_eq!(arity(&d), (3, vec![3]));
}

#[test]
fn a_call_of_itself_that_a_function_ends_with_is_a_jump() {
    let blocks_to = |body: &str| {
        let func = gradient(body, ResultActivity::Active).joint.remove(0).func;
        let entry = func.layout.entry_block().unwrap();
        let begin = func.block_successors(entry).next().unwrap();
        let to = func.layout.blocks().filter(|&b| func.block_successors(b).any(|s| s == begin)).count();
        (arity(&gradient(body, ResultActivity::Active)).1.len(), to)
    };
    // From the entry, and from after the first call.
    assert_eq!(blocks_to(HALVES), (1, 2));
    // The first call is the last one of the reverse; after it a cotangent is added in memory here.
    let last = HALVES
        .replace("v9 = call fn0(v0, v4)", "v20 = load.f64 v0\n    v21 = call fn0(v0, v4)\n    v9 = fadd v20, v21");
    assert_eq!(blocks_to(&last).0, 2);
    // A slot of the caller's could be looked at by what it calls.
    let slot = format!(
        "ss0 = explicit_slot 8\n{}",
        HALVES.replace(
            "v12 = load.f64 v0",
            "v20 = load.f64 v0\n    v21 = stack_addr.i64 ss0\n    store v20, v21\n    v12 = load.f64 v21"
        )
    );
    assert_eq!(blocks_to(&slot).0, 2);
}

#[test]
fn who_records_asks_for_the_segment() {
    // Squares of squares, each of which is recorded.
    let d = gradient(
        "block0(v0: i64, v1: i64):
            v2 = iconst.i64 1
            v3 = f64const 0.0
            v4 = icmp ugt v1, v2
            v5 = load.f64 v0
            jump block1(v1, v5)
        block1(v6: i64, v7: f64):
            brif v6, block2, block3
        block2:
            v8 = fmul v7, v7
            v9 = isub v6, v2
            jump block1(v9, v8)
        block3:
            brif v4, block4, block5(v7)
        block4:
            v10 = iconst.i64 8
            v11 = iadd v0, v10
            v12 = isub v1, v2
            v13 = call fn0(v11, v12)
            v14 = fadd v13, v7
            jump block5(v14)
        block5(v15: f64):
            return v15",
        ResultActivity::Unit,
    );
    assert!(d.joint[0].segment && d.combined.as_ref().unwrap().segment);
    // Each run squares often enough for a pullback without guards beside that with them.
    assert_eq!(arity(&d), (4, vec![4, 4]));
}

/// `g`, which squares what a recursion with this body returns.
fn square_of(body: &str) -> Derivation {
    let text = format!(
        "function %f(i64, i64) -> f64 {{\n    fn0 = %f(i64, i64) -> f64\n{body}\n}}
        function %g(i64, i64) -> f64 {{
            fn0 = %f(i64, i64) -> f64
        block0(v0: i64, v1: i64):
            v2 = call fn0(v0, v1)
            v3 = fmul v2, v2
            return v3
        }}"
    );
    let program = program(&text);
    let request = Request::new(program.func("g").unwrap(), [ArgActivity::Duplicated, ArgActivity::Const]);
    let isa = host::isa();
    derive(&program, &request, &Options { mode: Mode::Gradient, ..Options::full() }, &*isa).unwrap()
}

#[test]
fn a_recursion_whose_value_is_needed_runs_plainly_and_then_whole() {
    let counts = |body: &str| {
        let d = square_of(body);
        (d.joint.len(), d.pairs.len())
    };
    assert_eq!(counts(HALVES), (1, 0));
    // Halves and constants are no reason to need what it returns to itself.
    let weighed = "v14 = f64const 0x1.0p-1\n    v15 = fadd v9, v10\n    v11 = fmul v14, v15";
    assert_eq!(counts(&HALVES.replace("v11 = fadd v9, v10", weighed)), (1, 0));
    // It needs that itself, and would run once more on each level.
    assert_eq!(counts(&HALVES.replace("v11 = fadd v9, v10", "v11 = fmul v9, v10")), (0, 1));
    // What is dear is not computed once more.
    let dear = "v14 = fmul v12, v12\n    v15 = sqrt v14\n    v13 = fdiv v15, v12";
    assert_eq!(counts(&HALVES.replace("v13 = fmul v12, v12", dear)), (0, 1));
}
