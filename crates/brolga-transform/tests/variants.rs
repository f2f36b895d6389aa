//! How many variants of a function are derived.

use std::fmt::Write;

use brolga_ir::{ArgActivity, Mode, Options, Request};
use brolga_testing::program;
use brolga_transform::derive::derive;

use crate::host;

/// Calls of a function of four parameters with a number from memory, or a constant, for each.
fn calls(signature: &str, from_memory: &str, constant: &str, start: &str, body: &str) -> String {
    let mut text = format!(
        "function %callee{signature} -> f64 fast {{
{body}
}}
function %f{start} -> f64 {{
    fn0 = %callee{signature} -> f64 fast
block0(v0: i64):
    v1 = {from_memory} v0+8
    v2 = {from_memory} v0+16
    v3 = {from_memory} v0+24
    v4 = {from_memory} v0+32
    v5 = {constant}
    v6 = load.f64 v0
"
    );
    for which in 0..16 {
        let args: Vec<String> = (0..4).map(|i| format!("v{}", if which >> i & 1 != 0 { i + 1 } else { 5 })).collect();
        let (call, sum) = (7 + 2 * which, 8 + 2 * which);
        writeln!(text, "    v{call} = call fn0(v0, {})", args.join(", ")).unwrap();
        let before = if which == 0 { 6 } else { sum - 2 };
        writeln!(text, "    v{sum} = fadd v{before}, v{call}").unwrap();
    }
    text += "    return v38\n}\n";
    text
}

fn variants(text: &str, instance: bool) -> usize {
    let mut program = program(text);
    program.vmctx_pointers_only = instance;
    let request = Request::new(program.func("f").unwrap(), [ArgActivity::Duplicated]);
    let options = Options { mode: Mode::Combined, inline: brolga_ir::Inline::Never, ..Options::full() };
    derive(&program, &request, &options, &*host::isa()).unwrap().pairs.len()
}

/// Words that may be floats' bits, or are constants.
#[test]
fn a_few_and_then_what_the_callee_makes_of_it() {
    let body = "block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64):
    v5 = bitcast.f64 v1
    v6 = bitcast.f64 v2
    v7 = bitcast.f64 v3
    v8 = bitcast.f64 v4
    v9 = fmul v5, v6
    v10 = fmul v7, v8
    v11 = fadd v9, v10
    return v11";
    let text = calls("(i64, i64, i64, i64, i64)", "load.i64", "iconst.i64 0x4000_0000_0000_0000", "(i64)", body);
    assert_eq!(variants(&text, false), 5);
}

/// Numbers of four bytes that may be halves of floats, but are places in an instance's memory to
/// the callee.
#[test]
fn places_in_an_instances_memory() {
    let body = "block0(v0: i64, v1: i32, v2: i32, v3: i32, v4: i32):
    v5 = uextend.i64 v1
    v6 = iadd v0, v5
    store v2, v6
    v7 = uextend.i64 v2
    v8 = iadd v0, v7
    store v3, v8
    v9 = uextend.i64 v3
    v10 = iadd v0, v9
    store v4, v10
    v11 = uextend.i64 v4
    v12 = iadd v0, v11
    v13 = load.f64 v12
    return v13";
    let text = calls("(i64 vmctx, i32, i32, i32, i32)", "load.i32", "iconst.i32 8", "(i64 vmctx)", body);
    assert_eq!(variants(&text, true), 5);
}
