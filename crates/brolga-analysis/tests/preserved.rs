//! Which memory calls are told is kept, and which loads may rely on it, on small functions.

use brolga_analysis::PreservedMemory;
use brolga_analysis::memory::alias::Places;
use brolga_analysis::memory::preserved;
use brolga_ir::Program;
use brolga_testing::program;
use cranelift_codegen::ir::{Inst, InstructionData};

use crate::common;
use crate::common::{MALLOC_AND_FREE, NOTHING_SAID, with_input};

/// Functions to call.
const LIBRARY: &str = "
    function %read(i64, i64) -> f64 { block0(v0: i64, v1: i64):
        v2 = load.f64 v0
        v3 = load.f64 v1
        v4 = fmul v2, v3
        return v4 }
    function %deep(i64, i64) -> f64 { block0(v0: i64, v1: i64):
        v2 = load.i64 v0
        v3 = load.f64 v2
        return v3 }
    function %copy(i64, i64) -> f64 { block0(v0: i64, v1: i64):
        v2 = load.f64 v0
        store v2, v1
        return v2 }
    function %both(i64, i64) -> f64 { fn0 = %copy(i64, i64) -> f64
        block0(v0: i64, v1: i64):
        v2 = call fn0(v0, v0)
        v3 = call fn0(v0, v1)
        v4 = load.f64 v0+64
        return v2 }
    function %scratch(i64, i64) -> f64 { ss0 = explicit_slot 8
        fn0 = %malloc(i64) -> i64
        fn1 = %free(i64)
        fn2 = %copy(i64, i64) -> f64
        block0(v0: i64, v1: i64): v2 = stack_addr.i64 ss0
        v3 = call fn2(v0, v2)
        v4 = call fn0(v1)
        store v3, v4
        call fn1(v4)
        return v3 }
    function %drop(i64, i64) -> f64 { fn0 = %free(i64)
        block0(v0: i64, v1: i64): v2 = load.f64 v0
        call fn0(v0)
        return v2 }";

/// What `%f` can call, by number.
const CALLEES: &str = "ss0 = explicit_slot 16
    fn0 = %read(i64, i64) -> f64
    fn1 = %deep(i64, i64) -> f64
    fn2 = %copy(i64, i64) -> f64
    fn3 = %both(i64, i64) -> f64
    fn4 = %scratch(i64, i64) -> f64
    fn5 = %drop(i64, i64) -> f64
    fn6 = %malloc(i64) -> i64
    fn7 = %free(i64)";

/// What each call of `%f` of a function of the program is told, in order: parameters, and `r` for
/// the rest.
fn told(program: &Program, noalias: &[bool], preserved_memory: Option<PreservedMemory>) -> Vec<String> {
    with_input(program, (noalias, &[]), |cx, _| {
        let found = preserved::calls(&cx, preserved_memory);
        let insts = cx.cfg.blocks.iter().flat_map(|&b| cx.func.layout.block_insts(b));
        let derived = |i: &Inst| match cx.func.dfg.insts[*i] {
            InstructionData::Call { func_ref, .. } => {
                program.callee(cx.func, func_ref).is_some_and(|k| program.funcs[k].body.is_some())
            }
            _ => false,
        };
        let of = |i: Inst| found.get(&i).copied().unwrap_or_default();
        insts.filter(derived).map(|i| show(of(i))).collect()
    })
}

fn show(preserved_memory: PreservedMemory) -> String {
    let rest = preserved_memory.the_rest().then(|| "r".to_owned());
    preserved_memory.params().map(|i| i.to_string()).chain(rest).collect()
}

/// The same of a function `%f` of two pointers and a float, that does both halves itself.
fn calls(body: &str) -> Vec<String> {
    let text = format!(
        "{LIBRARY} function %f(i64, i64, f64) -> f64 {{ {CALLEES}
        block0(v0: i64, v1: i64, v2: f64): v3 = stack_addr.i64 ss0\n{body}\n return v2 }}"
    );
    told(&program(&text), &[], None)
}

#[test]
fn what_is_not_written_is_preserved() {
    assert_eq!(calls("v9 = call fn0(v0, v1)"), ["01"]);
    // Before the call any code may.
    assert_eq!(calls("store v2, v0\n v9 = call fn0(v0, v1)"), ["01"]);
    // Without more being said, two parameters may be one.
    assert_eq!(calls("v9 = call fn0(v0, v1)\n store v2, v0"), [""]);
    assert_eq!(calls("v9 = call fn0(v0, v3)\n store v2, v0"), ["1"]);
    assert_eq!(calls("v9 = call fn0(v0, v3)\n store v2, v3+8"), ["0"]);
    // What is behind a pointer is kept if everything is.
    assert_eq!(calls("v9 = call fn1(v0, v1)"), ["0r"]);
    assert_eq!(calls("v9 = call fn1(v0, v1)\n store v2, v3"), ["0"]);
    assert_eq!(calls("v9 = call fn1(v3, v1)\n store v2, v0"), ["0"]);
}

#[test]
fn a_promise_tells_parameters_apart() {
    let text = format!(
        "{LIBRARY} function %f(i64, i64, f64) -> f64 {{ {CALLEES}
        block0(v0: i64, v1: i64, v2: f64):
        v9 = call fn0(v0, v1)
        store v2, v0
        return v2 }}"
    );
    assert_eq!(told(&program(&text), &[false, true, false], None), ["1"]);
}

#[test]
fn the_call_itself_counts() {
    assert_eq!(calls("v9 = call fn2(v0, v3)"), ["0"]);
    assert_eq!(calls("v9 = call fn2(v3, v0)"), ["0"]);
    assert_eq!(calls("v9 = call fn2(v0, v1)"), [""]);
    assert_eq!(calls("v9 = call fn2(v0, v0)"), [""]);
    // Through both of its parameters, at any distance.
    assert_eq!(calls("v9 = call fn3(v0, v3)"), [""]);
    assert_eq!(calls("v9 = call fn5(v0, v3)"), [""]);
    // A slot and a block of its own do not matter.
    assert_eq!(calls("v9 = call fn4(v0, v3)"), ["0"]);
}

#[test]
fn later_calls_count_and_the_next_iteration() {
    assert_eq!(calls("v9 = call fn0(v0, v3)\n v10 = call fn2(v3, v0)\n v11 = call fn0(v0, v3)"), ["1", "0", "01"]);
    assert_eq!(calls("v9 = call fn0(v0, v3)\n v10 = call fn4(v3, v0)"), ["01", "0"]);
    assert_eq!(calls("v9 = call fn0(v0, v3)\n v10 = call fn5(v3, v0)"), ["", ""]);
    let iterations = |before: &str| {
        calls(&format!(
            "jump block1\n block1: {before}\n v9 = call fn0(v0, v3)\n v10 = icmp eq v0, v1\n brif v10, block1, block2\n block2:"
        ))
    };
    assert_eq!(iterations(""), ["01"]);
    assert_eq!(iterations("store v2, v0"), ["1"]);
    assert_eq!(iterations("store v2, v3"), ["0"]);
}

#[test]
fn blocks_that_are_released_are_there_until_the_end() {
    assert_eq!(calls("v8 = call fn6(v0)\n v9 = call fn0(v8, v1)\n call fn7(v8)"), ["01"]);
    // That of another may be given out again.
    assert_eq!(calls("v8 = call fn6(v0)\n v9 = call fn0(v8, v1)\n call fn7(v1)"), [""]);
}

/// What the calls of a pair are told that was told this, and which of its loads are done again.
fn pair(body: &str, preserved_memory: PreservedMemory) -> (Vec<String>, Vec<bool>) {
    let text = format!(
        "{LIBRARY} function %f(i64, i64, f64) -> f64 {{ {CALLEES}
        block0(v0: i64, v1: i64, v2: f64):\n{body}\n return v2 }}"
    );
    let program = program(&text);
    let loads = with_input(&program, NOTHING_SAID, |cx, _| loads(cx.places(), preserved_memory));
    (told(&program, &[], Some(preserved_memory)), loads)
}

fn loads(places: Places<'_>, preserved_memory: PreservedMemory) -> Vec<bool> {
    let found = preserved::loads(places, preserved_memory);
    let all = places.func.layout.blocks().flat_map(|b| places.func.layout.block_insts(b));
    let is_load = |i: &Inst| matches!(places.func.dfg.insts[*i], InstructionData::Load { .. });
    all.filter(is_load).map(|i| found.contains(i)).collect()
}

#[test]
fn a_pair_passes_on_what_it_was_told() {
    let body = "v4 = load.f64 v0+8
        v5 = load.f64 v1
        v6 = load.i64 v0
        v7 = load.f64 v6
        v8 = call fn0(v0, v1)
        v9 = call fn0(v6, v0)
        v10 = call fn1(v0, v0)";
    let of = |preserved_memory| pair(body, preserved_memory);
    assert_eq!(of(PreservedMemory::NOTHING), (vec!["".into(), "".into(), "".into()], vec![false, false, false, false]));
    assert_eq!(
        of(PreservedMemory::of_params([0])),
        (vec!["0".into(), "1".into(), "0".into()], vec![true, false, true, false])
    );
    assert_eq!(
        of(PreservedMemory::of_params([1])),
        (vec!["1".into(), "".into(), "".into()], vec![false, true, false, false])
    );
    let all = PreservedMemory::of_params([0]).and_the_rest();
    assert_eq!(of(all), (vec!["0".into(), "01".into(), "0r".into()], vec![true, false, true, true]));
}

#[test]
fn a_pairs_own_memory_is_not_kept() {
    let all = PreservedMemory::of_params([0, 1]).and_the_rest();
    let in_slot = "v4 = stack_addr.i64 ss0";
    let in_block = "v4 = call fn6(v0)";
    for made in [in_slot, in_block] {
        let text = |captured: &str| {
            format!(
                "{made}
                v5 = load.f64 v4
                v6 = load.i64 v0
                v7 = load.f64 v6
                v8 = call fn0(v4, v0)
                v9 = call fn1(v0, v0)
                {captured}"
            )
        };
        // What is loaded may be the address of the slot, if that is captured.
        assert_eq!(pair(&text("store v4, v1"), all), (vec!["1".into(), "0".into()], vec![false, true, false]));
        assert_eq!(pair(&text(""), all), (vec!["1".into(), "0r".into()], vec![false, true, true]));
    }
}

/// A module's functions: memory is one piece, behind an instance pointer.
const MODULE: &str = "
    function %malloc(i64 vmctx, i32) -> i32 fast { block0(v0: i64, v1: i32):
        v2 = load.i32 v0+16
        v3 = uextend.i64 v2
        v4 = iadd v0, v3
        store v1, v4
        return v2 }
    function %free(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        v2 = uextend.i64 v1
        v3 = iadd v0, v2
        store v1, v3-8
        return }
    function %move(i64 vmctx, i32, i32) -> i32 fast { block0(v0: i64, v1: i32, v2: i32):
        v3 = uextend.i64 v2
        v4 = iadd v0, v3
        v5 = load.f64 v4
        v6 = uextend.i64 v1
        v7 = iadd v0, v6
        store v5, v7
        return v1 }
    function %global(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        store v1, v0-16
        return }
    function %keep(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        store v1, v0+64
        return }
    function %found(i64 vmctx, i32) -> f64 fast { block0(v0: i64, v1: i32):
        v2 = load.i32 v0+64
        v3 = uextend.i64 v2
        v4 = iadd v0, v3
        v5 = load.f64 v4
        v6 = load.f64 v0-32
        return v5 }
    function %get(i64 vmctx, i32) -> i32 fast { block0(v0: i64, v1: i32):
        v2 = load.i32 v0+64
        return v2 }
    function %wrapped(i64 vmctx, i32, i32) -> f64 fast {
        fn0 = %malloc(i64 vmctx, i32) -> i32 fast
        fn1 = %free(i64 vmctx, i32) fast
        fn2 = %move(i64 vmctx, i32, i32) -> i32 fast
        block0(v0: i64, v1: i32, v2: i32):
        v3 = call fn0(v0, v2)
        v4 = call fn2(v0, v3, v1)
        v5 = call fn2(v0, v2, v4)
        v6 = uextend.i64 v5
        v7 = iadd v0, v6
        v8 = load.f64 v7
        call fn1(v0, v3)
        return v8 }";

const MODULES: &str = "fn0 = %malloc(i64 vmctx, i32) -> i32 fast
    fn1 = %free(i64 vmctx, i32) fast
    fn2 = %move(i64 vmctx, i32, i32) -> i32 fast
    fn3 = %global(i64 vmctx, i32) fast
    fn4 = %keep(i64 vmctx, i32) fast
    fn5 = %found(i64 vmctx, i32) -> f64 fast
    fn6 = %wrapped(i64 vmctx, i32, i32) -> f64 fast
    fn7 = %get(i64 vmctx, i32) -> i32 fast";

fn module(body: &str) -> Program {
    let text = format!(
        "{MODULE} function %f(i64 vmctx, i32, i32) -> i32 fast {{ {MODULES}
        block0(v0: i64, v1: i32, v2: i32):\n{body}\n return v1 }}"
    );
    common::module(&text, &MALLOC_AND_FREE)
}

/// What the last call is told, all calls of allocators being told nothing.
fn last(body: &str, preserved_memory: Option<PreservedMemory>) -> String {
    told(&module(body), &[], preserved_memory).pop().unwrap()
}

#[test]
fn in_a_module_blocks_are_told_apart() {
    let last = |body: &str| last(body, None);
    let new = |rest: &str| last(&format!("v3 = call fn0(v0, v2)\n v4 = call fn0(v0, v2)\n {rest}"));
    // It writes to the first and reads the second.
    assert_eq!(new("v9 = call fn2(v0, v3, v4)"), "2");
    assert_eq!(new("v9 = call fn2(v0, v3, v1)"), "2");
    assert_eq!(new("v9 = call fn2(v0, v2, v4)"), "2");
    assert_eq!(new("v9 = call fn2(v0, v2, v1)"), "");
    assert_eq!(new("v9 = call fn2(v0, v3, v3)"), "");
    // A function that returns what it was given returns the same block.
    assert_eq!(new("v8 = call fn2(v0, v3, v1)\n v9 = call fn2(v0, v8, v4)"), "2");
    assert_eq!(new("v8 = call fn2(v0, v3, v1)\n v9 = call fn2(v0, v8, v3)"), "");
    // What an allocation writes is not read; a release is a write to the block.
    assert_eq!(
        told(
            &module("v3 = call fn0(v0, v2)\n v9 = call fn2(v0, v3, v1)\n v5 = call fn0(v0, v2)\n call fn1(v0, v5)"),
            &[],
            None
        )[1],
        "2"
    );
    assert_eq!(told(&module("v3 = call fn0(v0, v2)\n v9 = call fn2(v0, v3, v1)\n call fn1(v0, v1)"), &[], None)[1], "");
    // Nor does it matter what a callee does with blocks of its own.
    assert_eq!(new("v9 = call fn6(v0, v4, v3)"), "1");
    assert_eq!(new("v9 = call fn6(v0, v3, v3)"), "");
}

#[test]
fn in_a_module_the_rest_is_all_but_blocks() {
    // Globals lie before memory, and are not kept.
    assert_eq!(last("v9 = call fn5(v0, v1)", None), "r");
    assert_eq!(told(&module("v9 = call fn5(v0, v1)\n call fn3(v0, v1)"), &[], None)[0], "r");
    assert_eq!(told(&module("v9 = call fn5(v0, v1)\n call fn4(v0, v1)"), &[], None)[0], "");
    // A block that has been kept may be found there.
    let block = |between: &str| {
        let body = format!("v3 = call fn0(v0, v2)\n {between}\n v8 = call fn5(v0, v1)\n v9 = call fn2(v0, v3, v1)");
        let found = told(&module(&body), &[], None);
        found[found.len() - 2].clone()
    };
    assert_eq!(block(""), "r");
    assert_eq!(block("call fn4(v0, v3)"), "");
    // So it may be what a call returns that was not given it.
    let got = |between: &str| {
        let body = format!("v3 = call fn0(v0, v2)\n {between}\n v8 = call fn7(v0, v1)\n v9 = call fn2(v0, v8, v3)");
        last(&body, None)
    };
    assert_eq!(got(""), "2");
    assert_eq!(got("call fn4(v0, v3)"), "");
}

#[test]
fn in_a_module_pairs_know_parameters_by_their_blocks() {
    let body = "v3 = iconst.i32 3
        v4 = ishl v2, v3
        v5 = iadd v1, v4
        v6 = uextend.i64 v5
        v7 = iadd v0, v6
        v8 = load.f64 v7
        v10 = load.i32 v7
        v11 = uextend.i64 v10
        v12 = iadd v0, v11
        v13 = load.f64 v12
        v14 = load.f64 v0-16
        v9 = call fn2(v0, v2, v1)";
    let loads =
        |preserved_memory| with_input(&module(body), NOTHING_SAID, |cx, _| loads(cx.places(), preserved_memory));
    assert_eq!(loads(PreservedMemory::of_params([1])), [true, true, false, false]);
    assert_eq!(loads(PreservedMemory::of_params([2])), [false, false, false, false]);
    assert_eq!(loads(PreservedMemory::NOTHING.and_the_rest()), [false, false, true, false]);
    assert_eq!(last(body, Some(PreservedMemory::of_params([1]))), "2");
    assert_eq!(last(body, Some(PreservedMemory::of_params([2]))), "");
    // One of two, of which one is kept.
    let one = body.replace("iadd v1, v4", "select v4, v1, v2").replace("fn2(v0, v2, v1)", "fn2(v0, v2, v5)");
    let loads =
        |preserved_memory| with_input(&module(&one), NOTHING_SAID, |cx, _| self::loads(cx.places(), preserved_memory));
    assert_eq!(loads(PreservedMemory::of_params([1])), [false, false, false, false]);
    assert_eq!(loads(PreservedMemory::of_params([1, 2])), [true, true, false, false]);
    assert_eq!(last(&one, Some(PreservedMemory::of_params([1]))), "");
    assert_eq!(last(&one, Some(PreservedMemory::of_params([1, 2]))), "2");
    // A block of its own is not kept, and what is found elsewhere may be one that has escaped.
    let new_block = "v3 = call fn0(v0, v2)\n v9 = call fn2(v0, v2, v3)";
    assert_eq!(last(new_block, Some(PreservedMemory::of_params([1, 2]).and_the_rest())), "");
    let escaped = |what: &str| format!("v3 = call fn0(v0, v2)\n {what}\n v9 = call fn5(v0, v1)");
    assert_eq!(last(&escaped(""), Some(PreservedMemory::NOTHING.and_the_rest())), "r");
    assert_eq!(last(&escaped("call fn4(v0, v3)"), Some(PreservedMemory::NOTHING.and_the_rest())), "");
}
