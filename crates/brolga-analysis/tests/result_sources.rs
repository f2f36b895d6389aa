//! What results are made from.

use brolga_analysis::Summaries;
use brolga_testing::program;

use crate::common::bodies;

/// The sources of the results of `%f`, with `%g`.
fn sources(g: &str, f: &str) -> String {
    let program = program(&format!("function %g{g}\nfunction %f{f}"));
    let root = program.func("f").expect("it is there");
    let bodies = bodies(&program);
    let all = Summaries::compute(&program, &bodies);
    let results = 0..bodies[&root].signature.returns.len();
    results.map(|i| format!("{:?}", all.sources(root, i))).collect::<Vec<_>>().join(", ")
}

const SECOND: &str = "(f64, f64) -> f64 { block0(v0: f64, v1: f64): return v1 }";

#[test]
fn operands_lead_to_results() {
    let of = |f| sources(SECOND, f);
    let f = "(f64, f64, f64) -> f64, f64, f64 {
        fn0 = %sin(f64) -> f64
        block0(v0: f64, v1: f64, v2: f64):
            v3 = call fn0(v2)
            v4 = fmul v3, v0
            v5 = f64const 0x1.0
            return v4, v1, v5 }";
    assert_eq!(of(f), "Params([0, 2]), Params([1]), Params([])");
}

#[test]
fn parameters_of_blocks_are_what_is_passed() {
    // Around a loop, and by the branch that is not taken at first. What decides is not among them.
    let f = "(f64, f64, i32) -> f64 {
        block0(v0: f64, v1: f64, v2: i32):
            v3 = f64const 0x1.0
            jump block1(v3, v2)
        block1(v4: f64, v5: i32):
            v8 = iconst.i32 -1
            v6 = iadd v5, v8
            brif v6, block1(v4, v6), block2
        block2:
            brif v5, block3(v4), block3(v1)
        block3(v7: f64):
            return v7 }";
    assert_eq!(sources(SECOND, f), "Params([1])");
}

#[test]
fn callees_hand_on_what_they_are_made_from() {
    let f = "(f64, f64, f64) -> f64 {
        fn0 = %g(f64, f64) -> f64
        block0(v0: f64, v1: f64, v2: f64):
            v3 = fadd v0, v1
            v4 = call fn0(v3, v2)
            return v4 }";
    assert_eq!(sources(SECOND, f), "Params([2])");
    let loads = "(f64, f64) -> f64 { ss0 = explicit_slot 8
        block0(v0: f64, v1: f64): v2 = stack_addr.i64 ss0 store v1, v2 v3 = load.f64 v2 return v3 }";
    assert_eq!(sources(loads, f), "Anything");
}

#[test]
fn what_has_no_derivative_leads_nowhere() {
    // A comparison, a conversion to an integer, and what is left of a float without its mantissa;
    // but not the mantissa.
    let f = "(f64, f64) -> i8, i32, i64, i64 {
        block0(v0: f64, v1: f64):
            v2 = fcmp gt v0, v1
            v3 = fcvt_to_sint_sat.i32 v0
            v4 = bitcast.i64 v1
            v5 = iconst.i64 52
            v6 = ushr v4, v5
            v7 = iconst.i64 51
            v8 = ushr v4, v7
            return v2, v3, v6, v8 }";
    assert_eq!(sources(SECOND, f), "Params([]), Params([]), Params([]), Params([1])");
}

#[test]
fn who_calls_itself_is_made_from_what_it_ends_with() {
    let f = "(f64, f64, i32) -> f64 {
        fn0 = %f(f64, f64, i32) -> f64
        block0(v0: f64, v1: f64, v2: i32):
            brif v2, block1, block2
        block1:
            v6 = iconst.i32 -1
            v3 = iadd v2, v6
            v4 = fmul v0, v1
            v5 = call fn0(v4, v1, v3)
            return v5
        block2:
            return v1 }";
    assert_eq!(sources(SECOND, f), "Params([1])");
    // Arguments change places.
    let swaps = f.replace("call fn0(v4, v1, v3)", "call fn0(v1, v0, v3)");
    assert_eq!(sources(SECOND, &swaps), "Params([0, 1])");
}

#[test]
fn of_whom_nothing_is_known() {
    for (declared, value) in [
        ("fn0 = %unknown(f64) -> f64", "call fn0(v1)"),
        ("sig0 = (f64) -> f64", "call_indirect sig0, v0(v1)"),
        ("", "load.f64 v0"),
        ("", "atomic_load.i64 v0"),
    ] {
        let ty = if value.contains("i64") { "i64" } else { "f64" };
        let f = format!("(i64, f64) -> {ty} {{ {declared}\nblock0(v0: i64, v1: f64): v2 = {value}\n return v2 }}");
        assert_eq!(sources(SECOND, &f), "Anything", "{value}");
    }
}

#[test]
fn callees_that_hand_out_memory() {
    let returns_memory = |f: &str| {
        let program = program(&format!("function %f{f}"));
        let root = program.func("f").expect("it is there");
        Summaries::compute(&program, &bodies(&program)).returns_memory(root, 0)
    };
    // As it is; a byte, whatever becomes of it; a word whose bytes are put elsewhere. Not a word
    // that is calculated with, nor a float.
    assert!(returns_memory("(i64) -> i64 { block0(v0: i64): v1 = load.i64 v0 return v1 }"));
    assert!(returns_memory("(i64) -> i32 { block0(v0: i64): v1 = uload8.i32 v0 v2 = imul v1, v1 return v2 }"));
    assert!(returns_memory("(i64) -> i8 { block0(v0: i64): v1 = load.i8 v0 v2 = iadd v1, v1 return v2 }"));
    let shifted = "(i64) -> i64 { block0(v0: i64): v1 = load.i64 v0 v2 = iconst.i64 16 v3 = ushr v1, v2 return v3 }";
    assert!(returns_memory(shifted) && !returns_memory(&shifted.replace("16", "15")));
    assert!(!returns_memory("(i64) -> i64 { block0(v0: i64): v1 = load.i64 v0 v2 = iadd v1, v1 return v2 }"));
    assert!(!returns_memory("(i64) -> f64 { block0(v0: i64): v1 = load.f64 v0 return v1 }"));
}
