//! Memory of arguments that the caller does not read afterwards: which functions write to it and do
//! nothing else, and which may read it.

use brolga_analysis::PrivateMemory;
use brolga_analysis::memory::alias::Places;
use brolga_analysis::memory::clobber::ClobberInput;
use brolga_analysis::uses::Uses;
use brolga_ir::Allocator;
use brolga_testing::program;
use cranelift_codegen::ir::{InstructionData, Opcode};

use crate::common::{MALLOC_AND_FREE, module, with_input};

/// A word for each load, store and call of `%f`, in order: whether it is known to write to that
/// memory and nothing else, whether it may read it.
fn asked(input: &ClobberInput<'_>) -> String {
    let ClobberInput { program, func, cfg, blocks, .. } = *input;
    let private = PrivateMemory::compute(Places { program, func, cfg, blocks }, &Uses::compute(func, cfg), &[1]);
    let insts = cfg.all_insts().iter().copied();
    let words = insts.filter_map(|inst| {
        let op = func.dfg.insts[inst].opcode();
        let access = matches!(func.dfg.insts[inst], InstructionData::Load { .. } | InstructionData::Store { .. });
        (access || op.is_call() || op == Opcode::AtomicRmw).then(|| match (private.writes(inst), private.reads(inst)) {
            (Some(_), []) => "writes",
            (None, [_]) => "reads",
            (None, []) => "-",
            other => panic!("{other:?}"),
        })
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Of a function of two pointers, `v1` to memory that is not read afterwards and `v2`.
fn native(body: &str) -> String {
    let text = format!(
        "function %memcpy(i64, i64, i64) -> i64 system_v {{ block0(v0: i64, v1: i64, v2: i64): return v0 }}
        function %g(i64) system_v {{ block0(v0: i64): return }}
        function %f(i64, i64, i64, f64) system_v {{
            fn0 = %g(i64) system_v
        block0(v0: i64, v1: i64, v2: i64, v3: f64):
            {body}
            return }}"
    );
    with_input(&program(&text), (&[false, true, false, false], &[]), |input, _| asked(&input))
}

/// The same of a module, where both are numbers, and `v12` and `v22` the addresses.
fn in_module(body: &str) -> String {
    let text = format!(
        "function %malloc(i64 vmctx, i32) -> i32 fast {{ block0(v0: i64, v1: i32): v2 = load.i32 v0+16 return v2 }}
        function %free(i64 vmctx, i32) fast {{ block0(v0: i64, v1: i32): return }}
        function %keep(i64 vmctx, i32) fast {{ block0(v0: i64, v1: i32): store v1, v0+64 return }}
        function %look(i64 vmctx, i32) fast {{ block0(v0: i64, v1: i32):
            v2 = uextend.i64 v1
            v3 = iadd v0, v2
            v4 = load.i32 v3
            v5 = uextend.i64 v4
            v6 = iadd v0, v5
            v7 = load.f64 v6
            store v7, v3+8
            return }}
        function %f(i64 vmctx, i32, i32, f64) fast {{
            fn0 = %malloc(i64 vmctx, i32) -> i32 fast
            fn1 = %keep(i64 vmctx, i32) fast
            fn2 = %look(i64 vmctx, i32) fast
        block0(v0: i64, v1: i32, v2: i32, v3: f64):
            v11 = uextend.i64 v1
            v12 = iadd v0, v11
            v21 = uextend.i64 v2
            v22 = iadd v0, v21
            {body}
            return }}"
    );
    let allocator: &[(&str, Allocator)] = &MALLOC_AND_FREE;
    with_input(&module(&text, allocator), (&[], &[false, true, false, false]), |input, _| asked(&input))
}

#[test]
fn what_leads_there_is_followed() {
    assert_eq!(native("store v3, v1\n store v3, v2\n v4 = load.f64 v1+8\n v5 = load.f64 v2"), "writes - reads -");
    let moved =
        "v8 = iconst.i64 3\n v4 = ishl v2, v8\n v5 = iadd v1, v4\n store v3, v5\n v6 = iadd v2, v4\n v7 = load.f64 v6";
    assert_eq!(native(moved), "writes -");
    // Neither is known to be it.
    assert_eq!(native("v4 = select v2, v1, v2\n store v3, v4\n store v3, v1"), "- -");
    // Others come to know of it.
    for leaves in ["call fn0(v1)", "store v1, v2", "v4 = bxor v1, v2", "v4 = atomic_rmw.i64 add v1, v2"] {
        let found = native(&format!("store v3, v1\n {leaves}"));
        assert!(!found.contains("writes"), "{leaves}: {found}");
    }
}

#[test]
fn so_it_is_in_a_module() {
    assert_eq!(
        in_module("store v3, v12\n store v3, v22\n v4 = load.f64 v12+8\n v5 = load.f64 v22"),
        "writes - reads -"
    );
    // It may be there or elsewhere.
    let either = "v4 = select v2, v1, v2\n v5 = uextend.i64 v4\n v6 = iadd v0, v5\n store v3, v6\n v7 = load.f64 v6";
    assert_eq!(in_module(either), "- reads");
    // A callee that is told of it may read it, and so may any other instruction.
    assert_eq!(in_module("store v3, v12\n call fn2(v0, v1)"), "writes reads");
    assert_eq!(in_module("store v3, v12\n call fn2(v0, v2)"), "writes -");
    assert_eq!(in_module("store v3, v12\n v4 = atomic_rmw.i64 add v12, v0"), "writes reads");
    // The address lies in a block that does not escape.
    let lies = "v30 = call fn0(v0, v2)\n v31 = uextend.i64 v30\n v32 = iadd v0, v31\n store v1, v32\n store v3, v12\n";
    assert_eq!(in_module(&format!("{lies} v33 = load.f64 v12")), "- - writes reads");
    // If other code may know of it, nothing is known.
    for keeps in ["call fn1(v0, v1)", "store v1, v22"] {
        assert_eq!(in_module(&format!("store v3, v12\n {keeps}\n v4 = load.f64 v12")), "- - -", "{keeps}");
    }
    assert_eq!(in_module(&format!("{lies} call fn2(v0, v30)")), "- - - -");
}
