//! Which functions of an allocator are called as they are, on small ones.

use brolga_analysis::calls::{opaque_allocator, summarise};
use brolga_analysis::{CalleeKind, Summaries};
use brolga_ir::map::HashMap;
use brolga_ir::{Allocator, FuncKey, Program};
use cranelift_codegen::ir::Function;

use crate::common::{MALLOC_AND_FREE, module};

/// Takes the first block of a list, and puts one back.
const TAKES: &str = "
    function %malloc(i64 vmctx, i32) -> i32 fast { block0(v0: i64, v1: i32):
        v2 = load.i32 v0+16
        v3 = uextend.i64 v2
        v4 = iadd v0, v3
        v5 = load.i32 v4
        store v5, v0+16
        store v1, v4-4
        return v2 }";
const GIVES_BACK: &str = "
    function %free(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        v2 = load.i32 v0+16
        v3 = uextend.i64 v1
        v4 = iadd v0, v3
        store v2, v4
        store v1, v0+16
        return }";
const CALLER: &str = "
    function %f(i64 vmctx, i32, f64) -> f64 fast { fn0 = %malloc(i64 vmctx, i32) -> i32 fast
            fn1 = %free(i64 vmctx, i32) fast
        block0(v0: i64, v1: i32, v2: f64):
        v3 = call fn0(v0, v1)
        call fn1(v0, v3)
        return v2 }";

fn program(text: &str) -> Program {
    module(text, &MALLOC_AND_FREE)
}

fn found_in(program: &Program, root: &str) -> Vec<String> {
    let root = program.func(root).unwrap();
    let found = opaque_allocator::functions(program, &summarise::reachable(program, root), root);
    found.iter().map(|k| program.funcs[k].symbol.clone()).collect()
}

/// Whether `%malloc` of this text is called as it is.
fn allocates(text: &str) -> bool {
    found_in(&program(&format!("{text}{GIVES_BACK}{CALLER}")), "f").contains(&"malloc".to_owned())
}

/// The same of `%free`.
fn releases(text: &str) -> bool {
    found_in(&program(&format!("{TAKES}{text}{CALLER}")), "f").contains(&"free".to_owned())
}

/// A release with a loop: `more` runs in each turn, with `v10`, which counts by `step` from the
/// block, and the address `v11`.
fn turns(step: i32, more: &str) -> bool {
    releases(&format!(
        "function %free(i64 vmctx, i32) fast {{ fn0 = %help(i64 vmctx, i32) fast
            block0(v0: i64, v1: i32):
                v2 = iconst.i32 {step}
                v3 = iconst.i32 0
                v4 = uextend.i64 v1
                v5 = iadd v0, v4
                store v1, v5+8
                jump block1(v1)
            block1(v10: i32):
                v11 = iadd v0, v4
                {more}
                v12 = iadd v10, v2
                v13 = icmp ult v12, v1
                brif v13, block1(v12), block2
            block2:
                return }}
        function %help(i64 vmctx, i32) fast {{ block0(v0: i64, v1: i32):
            v2 = uextend.i64 v1
            v3 = iadd v0, v2
            store v1, v3
            return }}"
    ))
}

#[test]
fn those_that_keep_lists() {
    assert_eq!(found_in(&program(&format!("{TAKES}{GIVES_BACK}{CALLER}")), "f"), ["malloc", "free"]);
    // One that is asked for is derived like anything else.
    assert_eq!(found_in(&program(&format!("{TAKES}{GIVES_BACK}{CALLER}")), "malloc"), [""; 0]);
    let mut unknown = program(&format!("{TAKES}{GIVES_BACK}{CALLER}"));
    for key in unknown.funcs.keys().collect::<Vec<_>>() {
        unknown.func_mut(key).allocator = None;
    }
    assert_eq!(found_in(&unknown, "f"), [""; 0]);
}

#[test]
fn what_is_in_the_block_matters() {
    for (kind, is_plain) in [
        (Allocator::Allocate { zeroed: false }, true),
        (Allocator::Allocate { zeroed: true }, false),
        (Allocator::Reallocate { pointer: 1 }, false),
    ] {
        let mut program = program(&format!("{TAKES}{GIVES_BACK}{CALLER}"));
        let key = program.func("malloc").unwrap();
        program.func_mut(key).allocator = Some(kind);
        assert_eq!(found_in(&program, "f").contains(&"malloc".to_owned()), is_plain, "{kind:?}");
    }
}

#[test]
fn what_they_handle() {
    let with = |more: &str| allocates(&TAKES.replace("store v1, v4-4", &format!("store v1, v4-4\n{more}")));
    assert!(with("v10 = iconst.i64 0\n store v10, v4-8\n v11 = load.i64 v4-16\n store v11, v4-24"));
    assert!(!with("v10 = f64const 0.0\n store v10, v4-8"), "a float");
    assert!(!with("v10 = load.f32 v4-8"), "a float that is read");
    assert!(!with("v10 = load.i64x2 v4-32\n store v10, v4-48"), "vectors");
    assert!(!with("v10 = load.i128 v4-32\n store v10, v4-48"), "more than a word");
    assert!(!with("v10 = atomic_rmw.i32 add v4, v1"), "atomics");
    assert!(!with("v10 = load.i64 v0+96\n v11 = bitcast.f64 v10\n v12 = fcvt_to_sint_sat.i32 v11"), "float bits");
}

#[test]
fn what_they_are_given_and_give() {
    let with = |params: &str, results: &str, value: &str, defs: &str| {
        let text = format!(
            "function %free({params}) {results} fast {{ block0(v0: i64, v1: i32, v2: i32):
                v3 = uextend.i64 v1
                v4 = iadd v0, v3
                store v1, v4
                return {value} }}
            function %g(i64 vmctx, i32) fast {{ fn0 = %free({params}) {results} fast block0(v0: i64, v1: i32):
                {defs} call fn0(v0, v1, v1)
                return }}"
        );
        !found_in(&program(&text), "g").is_empty()
    };
    assert!(with("i64 vmctx, i32, i32", "", "", ""));
    assert!(with("i64 vmctx, i32, i32", "-> i32", "v2", "v9 ="));
    assert!(!with("i64, i32, i32", "", "", ""), "an address of anything");
    assert!(!with("i64 vmctx, i32, i32", "-> i64", "v4", "v9 ="), "an address");
    assert!(!with("i64 vmctx, i32, i32", "-> i32, i32", "v1, v2", "v9, v10 ="));
    let text = "function %free(i64 vmctx, f64) fast { block0(v0: i64, v1: f64):
            v3 = load.i64 v0+8
            store v3, v3
            return }
        function %g(i64 vmctx, f64) fast { fn0 = %free(i64 vmctx, f64) fast block0(v0: i64, v1: f64):
            call fn0(v0, v1)
            return }";
    assert!(found_in(&program(text), "g").is_empty(), "a float");
}

#[test]
fn what_they_call() {
    let with = |declared: &str, call: &str, more: &str| {
        let body = TAKES.replace("fast { block0", &format!("fast {{ {declared} block0"));
        allocates(&(body.replace("store v1, v4-4", &format!("store v1, v4-4\n{call}")) + more))
    };
    let helper = |body: &str| format!("function %help(i64 vmctx, i32) -> i32 fast {{ {body} }}");
    let declared = "fn0 = %help(i64 vmctx, i32) -> i32 fast";
    let call = "v10 = call fn0(v0, v1)";
    assert!(with(declared, call, &helper("block0(v0: i64, v1: i32): store v1, v0+8\n return v1")));
    assert!(!with(
        declared,
        call,
        &helper("block0(v0: i64, v1: i32): v2 = f64const 0x1.0\n store v2, v0+8\n return v1")
    ));
    assert!(!with(declared, call, ""), "imported");
    let recursive = "fn0 = %help(i64 vmctx, i32) -> i32 fast
        block0(v0: i64, v1: i32): brif v1, block1, block2
        block1: v2 = call fn0(v0, v1)\n return v2
        block2: return v1";
    assert!(!with(declared, call, &helper(recursive)), "recursive");
    let itself =
        "fn0 = %malloc(i64 vmctx, i32) -> i32 fast block0(v0: i64, v1: i32): v2 = call fn0(v0, v1)\n return v2";
    assert!(!with(declared, call, &helper(itself)), "recursive with another");
    assert!(!with("sig0 = (i64 vmctx) fast", "v10 = load.i64 v0-8\n call_indirect sig0, v10(v0)", ""), "a pointer");
    assert!(!with(
        "fn0 = %memset(i64, i32, i64) -> i64",
        "v10 = iconst.i32 0\n v11 = iconst.i64 8\n v12 = call fn0(v4, v10, v11)",
        ""
    ));
    assert!(!with(
        "fn0 = %help(i64 vmctx, i32) -> i32 fast",
        "v10 = func_addr.i64 fn0",
        &helper("block0(v0: i64, v1: i32): return v1")
    ));
    // Functions of the embedder do not matter for derivatives.
    let text = TAKES.replace("fast { block0", "fast { fn0 = %host(i64, i32) -> i32 block0");
    let text = text.replace("store v1, v4-4", "store v1, v4-4\n v10 = call fn0(v0, v1)") + GIVES_BACK + CALLER;
    let mut program = program(&text);
    let signature = program.funcs[program.func("host").unwrap()].signature.clone();
    assert!(!found_in(&program, "f").contains(&"malloc".to_owned()));
    // SAFETY: nothing is compiled.
    unsafe { program.define_host("host", &signature, 16) }.unwrap();
    assert!(found_in(&program, "f").contains(&"malloc".to_owned()));
}

#[test]
fn a_computed_function_is_not_an_allocator() {
    let mut program = program(&format!("{TAKES}{GIVES_BACK}{CALLER}"));
    let key = program.func("malloc").unwrap();
    program.func_mut(key).computes = Some("exp");
    assert_eq!(found_in(&program, "f"), ["free"]);
}

#[test]
fn marks_in_loops() {
    assert!(turns(4, "v20 = iconst.i32 7\n store v20, v11"));
    assert!(turns(4, "v20 = iconst.i32 0x1ff\n istore8 v20, v11"));
    assert!(!turns(4, "v20 = iconst.i32 0x100\n istore8 v20, v11"), "zero, as far as it is stored");
    assert!(!turns(4, "store v3, v11"), "zero");
    assert!(!turns(4, "v20 = iconst.i32 -1\n store v20, v11"));
    assert!(!turns(4, "v20 = iconst.i32 0x3f80_0000\n store v20, v11"), "the bits of one");
    assert!(!turns(4, "v20 = load.i32 v11\n store v20, v11+4"), "a copy");
}

#[test]
fn counts_in_loops() {
    assert!(turns(4, "store v10, v11"));
    assert!(turns(-8, "v20 = iconst.i32 12\n v21 = iadd v20, v10\n store v21, v11"));
    assert!(!turns(0, "store v10, v11"), "the same number in each turn");
    assert!(!turns(4, "v20 = isub v10, v10\n store v20, v11"), "a zero that is computed");
    assert!(!turns(4, "v20 = band v10, v3\n store v20, v11"));
    assert!(!turns(4, "istore8 v10, v11"), "zero every now and then");
    // Before memory lies what is not memory.
    assert!(turns(4, "store v3, v0-8\n v20 = load.i32 v0-16\n store v20, v0-16"));
    assert!(!turns(4, "store v3, v0+8"));
}

/// A release with a loop in a loop: the outer one counts `v10`, the inner one `v20`, and stores
/// `what`. `back` is where the inner one begins.
fn nested(what: &str, back: &str) -> bool {
    releases(&format!(
        "function %free(i64 vmctx, i32) fast {{
            block0(v0: i64, v1: i32):
                v2 = iconst.i32 4
                v3 = iconst.i32 0
                v4 = uextend.i64 v1
                v5 = iadd v0, v4
                store v1, v5+8
                jump block1(v3, v3)
            block1(v10: i32, v11: i32):
                v12 = iadd v10, v2
                jump block2({back})
            block2(v20: i32):
                v21 = iadd v20, v2
                store {what}, v5
                v22 = icmp ult v21, v1
                brif v22, block2(v21), block3
            block3:
                v23 = icmp ult v12, v1
                brif v23, block1(v12, v21), block4
            block4:
                return }}"
    ))
}

#[test]
fn counts_that_begin_again() {
    // The inner loop counts on.
    assert!(!nested("v20", "v3"), "it begins with zero each time");
    assert!(!nested("v10", "v3"), "it is the same in all turns of the inner loop");
    // A head that is not passed in each turn.
    assert!(!nested("v11", "v11"));
    let skipped = "function %free(i64 vmctx, i32) fast {
            block0(v0: i64, v1: i32):
                v2 = iconst.i32 4
                v3 = iconst.i32 0
                v4 = uextend.i64 v1
                v5 = iadd v0, v4
                store v1, v5+8
                jump block1(v3)
            block1(v10: i32):
                v11 = iadd v10, v2
                brif v1, block1(v11), block1(STEP)
        }";
    // Edges may be parallel.
    assert!(releases(&skipped.replace("v11 = iadd", "store v10, v5\n v11 = iadd").replace("STEP", "v11")));
    assert!(!releases(&skipped.replace("v11 = iadd", "store v10, v5\n v11 = iadd").replace("STEP", "v3")));
}

#[test]
fn what_is_called_in_a_loop() {
    // The helper stores what it is given.
    assert!(!turns(4, "call fn0(v0, v3)"));
    let text = |store: &str| {
        format!(
            "function %free(i64 vmctx, i32) fast {{ fn0 = %deeper(i64 vmctx, i32) fast
                block0(v0: i64, v1: i32): store v1, v0+16\n jump block1
                block1: call fn0(v0, v1)\n brif v1, block1, block2
                block2: return }}
            function %deeper(i64 vmctx, i32) fast {{ fn0 = %help(i64 vmctx, i32) fast
                block0(v0: i64, v1: i32): call fn0(v0, v1)\n return }}
            function %help(i64 vmctx, i32) fast {{ block0(v0: i64, v1: i32):
                v2 = uextend.i64 v1
                v3 = iadd v0, v2
                v4 = iconst.i32 3
                v5 = iconst.i32 0
                {store}
                return }}"
        )
    };
    assert!(releases(&text("store v4, v3")));
    assert!(!releases(&text("store v5, v3")));
    assert!(!releases(&text("store v1, v3")));
}

#[test]
fn blocks_that_are_filled() {
    let with = |more: &str, result: &str| {
        let body = TAKES.replace("store v1, v4-4", &format!("v9 = iconst.i64 0\n {more}"));
        allocates(&body.replace("return v2", &format!("return {result}")))
    };
    assert!(!with("store v9, v4", "v2"), "it is zeroed");
    assert!(!with("store v9, v4-4", "v2"), "half of it");
    assert!(with("store v9, v4-8", "v2"), "what lies in front");
    assert!(!with("store v9, v4+24", "v2"));
    // A header in front.
    assert!(with("v10 = iconst.i32 8\n v11 = iadd v2, v10\n store v1, v4", "v11"));
    assert!(!with("v10 = iconst.i32 8\n v11 = iadd v2, v10\n store v1, v4+8", "v11"));
    assert!(!with("v10 = iconst.i32 -8\n v11 = isub v2, v10\n store v9, v4+4", "v11"));
    // One of several.
    let joined = "brif v1, block1(v2), block1(v1) block1(v10: i32):";
    assert!(with(&format!("store v9, v4-8\n {joined}"), "v10"));
    assert!(!with(&format!("store v9, v4\n {joined}"), "v10"));
    assert!(!with("v10 = select v1, v2, v1\n store v9, v4", "v10"));
    // Another fills it.
    let text = TAKES.replace("fast { block0", "fast { fn0 = %help(i64 vmctx, i32) fast block0");
    let helper = "function %help(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        v2 = uextend.i64 v1
        v3 = iadd v0, v2
        v4 = iconst.i64 0
        store v4, v3
        return }";
    assert!(!allocates(&(text.replace("store v1, v4-4", "call fn0(v0, v2)") + helper)));
    assert!(allocates(&(text.replace("store v1, v4-4", "call fn0(v0, v1)") + helper)));
    // Variables in memory, as they are without optimisation.
    let in_memory = |result: &str, store: &str| {
        allocates(&format!(
            "function %malloc(i64 vmctx, i32) -> i32 fast {{ block0(v0: i64, v1: i32):
                v2 = load.i32 v0-48
                v3 = iconst.i32 16
                v4 = isub v2, v3
                v5 = uextend.i64 v4
                v6 = iadd v0, v5
                v7 = load.i32 v0+16
                v20 = uextend.i64 v7
                v21 = iadd v0, v20
                v8 = iconst.i64 0
                store v7, v6+12
                v9 = load.i32 v6+12
                v10 = uextend.i64 v9
                v11 = iadd v0, v10
                {store}
                v12 = load.i32 v6+12
                v13 = load.i32 v6+8
                return {result} }}"
        ))
    };
    assert!(in_memory("v12", "store v8, v11-8"));
    assert!(!in_memory("v12", "store v8, v11"), "another load of the variable");
    assert!(!in_memory("v12", "store v8, v21"), "what was stored in it");
    assert!(in_memory("v13", "store v8, v11"), "another variable");
    // A function that releases a block may do anything with it.
    assert!(releases(&GIVES_BACK.replace("store v2, v4", "v9 = iconst.i64 0\n store v9, v4")));
}

#[test]
fn an_arena() {
    let arena = "function %malloc(i64 vmctx, i32) -> i32 fast { block0(v0: i64, v1: i32):
        v2 = iconst.i32 16
        v3 = uextend.i64 v2
        v4 = iadd v0, v3
        v5 = load.i32 v4
        v6 = iadd v5, v1
        WRITE
        return v5 }";
    assert!(!allocates(&arena.replace("WRITE", "store v6, v4")), "its end is plain to see");
    assert!(!allocates(&arena.replace("WRITE", "store v6, v0-16")), "or outside of memory");
    // One of two places.
    let either = "v7 = iconst.i32 32\n brif v1, block1(v2), block1(v7) block1(v8: i32):
        v9 = uextend.i64 v8\n v10 = iadd v0, v9\n store v6, v10";
    assert!(!allocates(&arena.replace("WRITE", either)));
    // A header is a list.
    assert!(allocates(
        &arena.replace("WRITE", "store v6, v4\n v7 = uextend.i64 v5\n v8 = iadd v0, v7\n store v1, v8-4")
    ));
}

#[test]
fn an_address_that_is_taken() {
    let pointer = "function %g(i64 vmctx) -> i64 fast { fn0 = %malloc(i64 vmctx, i32) -> i32 fast
        block0(v0: i64): v1 = func_addr.i64 fn0\n return v1 }";
    let caller = CALLER
        .replace("fast {", "fast { fn2 = %g(i64 vmctx) -> i64 fast")
        .replace("v3 = call", "v9 = call fn2(v0)\n v3 = call");
    let with = program(&format!("{TAKES}{GIVES_BACK}{caller}{pointer}"));
    assert_eq!(found_in(&with, "f"), ["free"]);
    // No function that takes it is reached.
    let without = program(&format!("{TAKES}{GIVES_BACK}{CALLER}{pointer}"));
    assert_eq!(found_in(&without, "f"), ["malloc", "free"]);
}

#[test]
fn calls_of_them_are_known() {
    let mut program = program(&format!("{TAKES}{GIVES_BACK}{CALLER}"));
    let root = program.func("f").unwrap();
    program.plain = opaque_allocator::functions(&program, &summarise::reachable(&program, root), root);
    let func = program.funcs[root].body.as_ref().unwrap();
    let calls =
        func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).filter_map(|i| CalleeKind::of(&program, func, i));
    assert!(calls.into_iter().all(|c| matches!(c, CalleeKind::Plain(_))));
    // Where nothing else is analysed, it is still known that there is an allocator.
    let only: HashMap<FuncKey, &Function> = [(root, func)].into_iter().collect();
    assert!(Summaries::compute(&program, &only).flows().contains_key(&root));
}
