//! What steps of time loops write outside of their states: the store and the load are named where a
//! later step or the code after the loop reads it, and nothing is said where none does.

use brolga_oracle::Oracle;
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;

use crate::common::func;

/// A loop of `%step` on eight bytes at `v0`, with parameters at `v1`, and what is read behind it.
const LOOP: &str = "
function %f(i64, i64) -> f64 {
    fn0 = %step(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    v3 = iconst.i64 8
    v4 = iconst.i64 3
    call fn1(v2, v0, v3, v1, v4)
    BEHIND
    v5 = load.f64 v0
    return v5
}
";

const STEP: &str = "
function %step(i64, i64, i64) {
    ss0 = explicit_slot 16
    fn0 = %malloc(i64) -> i64
    fn1 = %free(i64)
    fn2 = %memcpy(i64, i64, i64) -> i64
    fn3 = %inner(i64, i64, i64)
    fn4 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    STEP
    return
}
function %inner(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    INNER
    return
}
";

/// What the oracle says of a step, an inner step, and what is after the loop.
fn found(step: &str, inner: &str, after: &str) -> Option<(String, String)> {
    let text = STEP.replace("STEP", step).replace("INNER", inner) + &LOOP.replace("BEHIND", after);
    let p = program(&text);
    let (mut state, mut params) = ([1.5], [0.5; 4]);
    let args = [state.as_mut_ptr(), params.as_mut_ptr()].map(|p| DataValue::I64(p as i64));
    // SAFETY: the program reads and writes what is there.
    let stray = unsafe { Oracle::new(&p).footprint(func(&p, "f"), &args) }.unwrap();
    stray
        .map(|s| (format!("%{}: {}", s.store.function, s.store.text), format!("%{}: {}", s.load.function, s.load.text)))
}

#[test]
fn steps_that_keep_to_their_states() {
    let steps = [
        // In the state.
        ("v4 = fadd v3, v3\n store v4, v0", ""),
        // What is read was written in the same step.
        ("store v3, v1+8\n v4 = load.f64 v1+8\n store v4, v0", ""),
        // A slot of the step's own.
        ("v9 = stack_addr.i64 ss0\n v5 = load.f64 v9\n store v3, v9\n v4 = load.f64 v9\n store v4, v0", ""),
        // Memory that the step allocates.
        ("v4 = iconst.i64 8\n v5 = call fn0(v4)\n store v3, v5\n v6 = load.f64 v5\n call fn1(v5)\n store v6, v0", ""),
        // A loop on the step's own memory.
        (
            "v9 = stack_addr.i64 ss0\n store v3, v9\n v5 = func_addr.i64 fn3\n v6 = iconst.i64 8\n v7 = iconst.i64 2
             call fn4(v5, v9, v6, v1, v7)\n v8 = load.f64 v9\n store v8, v0",
            "v4 = fadd v3, v3\n store v4, v0",
        ),
        // A copy of what nothing looks at.
        ("v6 = iconst.i64 16\n v7 = iadd v1, v6\n v8 = call fn2(v7, v1, v6)\n store v3, v1+8", ""),
    ];
    for (step, inner) in steps {
        assert_eq!(found(step, inner, ""), None, "{step}");
    }
    // It is written again before it is read.
    assert_eq!(found("store v3, v1", "", "v9 = load.f64 v0\n store v9, v1\n v8 = load.f64 v1"), None);
}

#[test]
fn stores_that_are_read() {
    let inner = "v5 = func_addr.i64 fn3\n v6 = iconst.i64 8\n v7 = iconst.i64 2\n call fn4(v5, v0, v6, v1, v7)";
    let cases = [
        // A later step.
        ("v4 = load.f64 v1\n store v3, v1", "", "", "%step: store v3, v1", "%step: v4 = load.f64 v1"),
        // Some bytes of it.
        ("v4 = uload8.i64 v1+7\n store v3, v1", "", "", "%step: store v3, v1", "%step: v4 = uload8.i64 v1+7"),
        // The code after the loop.
        ("store v3, v1", "", "v9 = load.f64 v1", "%step: store v3, v1", "%f: v9 = load.f64 v1"),
        // What an inner step writes, in a later step and after the inner loop.
        (inner, "v4 = load.f64 v1\n store v3, v1", "", "%inner: store v3, v1", "%inner: v4 = load.f64 v1"),
        (
            &format!("{inner}\n v9 = load.f64 v1\n store v9, v0"),
            "store v3, v1",
            "",
            "%inner: store v3, v1",
            "%step: v9 = load.f64 v1",
        ),
        // By way of a copy.
        (
            "v9 = load.f64 v1+16\n v6 = iconst.i64 16\n v7 = iadd v1, v6\n v8 = call fn2(v7, v1, v6)\n store v3, v1",
            "",
            "",
            "%step: v8 = call fn2(v7, v1, v6)",
            "%step: v9 = load.f64 v1+16",
        ),
    ];
    for (step, inner, after, store, load) in cases {
        let (found_store, found_load) = found(step, inner, after).unwrap_or_else(|| panic!("{step}: nothing is found"));
        // Constants stand after.
        let plain = |text: &str| text.split(";").next().unwrap_or_default().trim_end().replace(".f64", "");
        assert_eq!((plain(&found_store), plain(&found_load)), (plain(store), plain(load)), "{step}");
    }
}
