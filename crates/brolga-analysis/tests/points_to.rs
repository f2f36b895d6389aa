//! Blocks of an allocator that the program brings along: which loads may be done again, on small
//! functions.

use brolga_analysis::calls::deferred_free;
use brolga_analysis::memory::clobber::{ClobberInput, reloadable};
use brolga_analysis::memory::mod_ref::Region;
use brolga_analysis::memory::points_to::{PointerFlow, allocator_of};
use brolga_analysis::memory::reload_after_undo::Rewind;
use brolga_analysis::{Blocks, Cfg, Summaries};
use brolga_ir::{Allocator, Program};
use cranelift_codegen::ir::{Function, Inst, InstructionData};

use crate::common::{MALLOC_AND_FREE, NOTHING_SAID, bodies, module, with_input};

/// An allocator of which nothing but its names tells that it is one: it writes wherever it wants.
const LIBRARY: &str = "
    function %malloc(i64 vmctx, i32) -> i32 fast { block0(v0: i64, v1: i32):
        v2 = load.i32 v0+16
        v3 = uextend.i64 v2
        v4 = iadd v0, v3
        store v1, v4
        v5 = load.i32 v4+8
        return v5 }
    function %free(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        v2 = uextend.i64 v1
        v3 = iadd v0, v2
        store v1, v3-8
        return }
    function %realloc(i64 vmctx, i32, i32) -> i32 fast { block0(v0: i64, v1: i32, v2: i32):
        v3 = uextend.i64 v1
        v4 = iadd v0, v3
        store v1, v4-8
        return v1 }
    function %fill(i64 vmctx, i32, f64) fast { block0(v0: i64, v1: i32, v2: f64):
        v3 = uextend.i64 v1
        v4 = iadd v0, v3
        store v2, v4
        return }
    function %keep(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        store v1, v0+64
        return }
    function %scratch(i64 vmctx, i32) -> f64 fast { fn0 = %malloc(i64 vmctx, i32) -> i32 fast
            fn1 = %free(i64 vmctx, i32) fast
        block0(v0: i64, v1: i32):
        v2 = call fn0(v0, v1)
        v3 = uextend.i64 v2
        v4 = iadd v0, v3
        v5 = f64const 0.0
        store v5, v4
        v6 = load.f64 v4
        call fn1(v0, v2)
        return v6 }";

/// What `%f` can call, by number.
const CALLEES: &str = "fn0 = %malloc(i64 vmctx, i32) -> i32 fast
    fn1 = %free(i64 vmctx, i32) fast
    fn2 = %realloc(i64 vmctx, i32, i32) -> i32 fast
    fn3 = %fill(i64 vmctx, i32, f64) fast
    fn4 = %keep(i64 vmctx, i32) fast
    fn5 = %scratch(i64 vmctx, i32) -> f64 fast";

fn program(body: &str, known: bool) -> Program {
    let text = format!("{LIBRARY} function %f(i64 vmctx, i32, i32, f64) -> f64 fast {{ {CALLEES}\n{body} }}");
    let all = [MALLOC_AND_FREE[0], MALLOC_AND_FREE[1], ("realloc", Allocator::Reallocate { pointer: 1 })];
    module(&text, if known { &all } else { &[] })
}

fn floats(func: &Function) -> Vec<Inst> {
    let all = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let is_float = |i: &Inst| {
        matches!(func.dfg.insts[*i], InstructionData::Load { .. })
            && func.dfg.value_type(func.dfg.first_result(*i)).is_float()
    };
    all.filter(is_float).collect()
}

/// For each load of a float of `%f`, whether it may be done again at the end.
fn reloads(body: &str) -> Vec<bool> {
    let of = |known: bool| {
        with_input(&program(body, known), NOTHING_SAID, |input, _| {
            let found = reloadable(&input);
            floats(input.func).into_iter().map(|l| found.contains(l)).collect::<Vec<_>>()
        })
    };
    assert!(!of(false).contains(&true), "without an allocator all memory is one");
    of(true)
}

/// Two blocks (`v12`, `v22`), and what a parameter points at (`v32`), as addresses; `rest` does
/// what it likes with them.
fn two_blocks(rest: &str) -> String {
    format!(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            v10 = call fn0(v0, v2)
            v11 = uextend.i64 v10
            v12 = iadd v0, v11
            v20 = call fn0(v0, v2)
            v21 = uextend.i64 v20
            v22 = iadd v0, v21
            v31 = uextend.i64 v1
            v32 = iadd v0, v31
            {rest}
            return v3"
    )
}

/// Loads from the first block, from the second, and from the parameter's memory.
const LOADS: &str = "v40 = load.f64 v12
    v41 = load.f64 v22
    v42 = load.f64 v32
    ";

#[test]
fn blocks_are_apart_from_each_other_and_from_what_is_older() {
    let after = |what: &str| reloads(&two_blocks(&format!("{LOADS} {what}")));
    assert_eq!(after("store v3, v12"), [false, true, true]);
    assert_eq!(after("store v3, v22"), [true, false, true]);
    assert_eq!(after("store v3, v32"), [true, true, false]);
    // Another allocation writes nothing.
    assert_eq!(after("v50 = call fn0(v0, v2)\n store v3, v12"), [false, true, true]);
}

#[test]
fn what_is_released_is_written() {
    let after = |what: &str| reloads(&two_blocks(&format!("{LOADS} {what}")));
    assert_eq!(after("call fn1(v0, v10)\n store v3, v32"), [false, true, false]);
    assert_eq!(after("call fn1(v0, v1)\n store v3, v12"), [false, true, false]);
    assert_eq!(after("v50 = call fn2(v0, v20, v2)\n store v3, v32"), [true, false, false]);
}

#[test]
fn a_new_block_of_an_old_size_is_a_new_block() {
    // What realloc gives is neither the old block nor older.
    let found = reloads(&two_blocks(
        "v50 = call fn2(v0, v20, v2)
        v51 = uextend.i64 v50
        v52 = iadd v0, v51
        v53 = load.f64 v52
        v54 = load.f64 v12
        store v3, v32
        store v3, v12",
    ));
    assert_eq!(found, [true, false]);
}

#[test]
fn an_escaped_block_may_be_what_is_loaded() {
    let through = |keep: &str| {
        reloads(&two_blocks(&format!(
            "{keep}
            v50 = load.i32 v32+16
            v51 = uextend.i64 v50
            v52 = iadd v0, v51
            {LOADS}
            store v3, v52"
        )))
    };
    assert_eq!(through(""), [true, true, false]);
    assert_eq!(through("store v10, v32+16"), [false, true, false]);
    assert_eq!(through("call fn4(v0, v10)"), [false, true, false]);
    // In halves of a 64-bit number, shifted out of the way, as bits of a float.
    assert_eq!(
        through(
            "v60 = iconst.i64 32
            v61 = ishl v11, v60
            store v61, v32+16"
        ),
        [false, true, false]
    );
    assert_eq!(
        through(
            "v60 = iconst.i32 1
            v61 = ishl v10, v60
            store v61, v32+16"
        ),
        [false, true, false]
    );
    assert_eq!(
        through(
            "v60 = bitcast.f32 v10
            store v60, v32+16"
        ),
        [false, true, false]
    );
    // Where it lies in a block that escapes, too.
    assert_eq!(through("store v10, v22\n store v20, v32+16"), [false, false, false]);
}

#[test]
fn escaping_later_is_escaping() {
    // In the next iteration the pointer that is loaded is the block.
    let found = reloads(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            v10 = call fn0(v0, v2)
            v11 = uextend.i64 v10
            v12 = iadd v0, v11
            jump block1
        block1:
            v20 = load.i32 v0+128
            v21 = uextend.i64 v20
            v22 = iadd v0, v21
            v23 = load.f64 v12
            store v3, v22
            store v10, v0+128
            brif v2, block1, block2
        block2:
            return v3",
    );
    assert_eq!(found, [false]);
}

#[test]
fn what_lies_in_a_block_that_no_other_function_knows() {
    // A block of pointers: what is loaded from it is what has been stored there.
    let found = reloads(&two_blocks(&format!(
        "v60 = call fn0(v0, v2)
        v61 = uextend.i64 v60
        v62 = iadd v0, v61
        store v10, v62
        {LOADS}
        v63 = load.i32 v62+8
        v64 = uextend.i64 v63
        v65 = iadd v0, v64
        store v3, v65"
    )));
    assert_eq!(found, [false, true, true]);
}

#[test]
fn blocks_that_change_places() {
    let found = reloads(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            v10 = call fn0(v0, v2)
            v20 = call fn0(v0, v2)
            v30 = call fn0(v0, v2)
            v31 = uextend.i64 v30
            v32 = iadd v0, v31
            jump block1(v10, v20)
        block1(v40: i32, v41: i32):
            v42 = uextend.i64 v40
            v43 = iadd v0, v42
            v44 = uextend.i64 v41
            v45 = iadd v0, v44
            v46 = load.f64 v43
            v47 = load.f64 v32
            v48 = fadd v46, v47
            store v48, v45
            brif v2, block1(v41, v40), block2
        block2:
            return v3",
    );
    assert_eq!(found, [false, true]);
}

#[test]
fn indices_are_scaled() {
    let at = |index: &str| {
        reloads(&two_blocks(&format!(
            "{LOADS}
            {index}
            v55 = iadd v20, v54
            v56 = uextend.i64 v55
            v57 = iadd v0, v56
            store v3, v57"
        )))
    };
    assert_eq!(at("v50 = iconst.i32 3\n v54 = ishl v1, v50"), [true, false, true]);
    assert_eq!(at("v54 = imul v1, v2"), [true, false, true]);
    // A number that is added as it is may be a pointer, and the block's number the index.
    assert_eq!(at("v54 = load.i32 v32+8"), [true, false, false]);
    // The distance from one block to another leads to the other, or is a number.
    assert_eq!(at("v54 = isub v10, v20"), [false, false, true]);
    // What is shifted there and back is what it was.
    assert_eq!(
        at("v50 = iconst.i32 1
            v51 = ishl v10, v50
            v54 = ushr v51, v50"),
        [false, false, true]
    );
}

#[test]
fn static_objects_are_numbers_plus_numbers() {
    // Numbers that were made from a block's address are indices of what lies at a constant address,
    // or are merged with it.
    let at = |number: &str| {
        reloads(&two_blocks(&format!(
            "{LOADS}
            v60 = load.f64 v0+1024
            {number}
            v56 = uextend.i64 v55
            v57 = iadd v0, v56
            store v3, v57+1024"
        )))
    };
    // The first block, the second, a parameter's, the static one.
    assert_eq!(at("v55 = iadd v10, v20"), [false, false, true, true]);
    assert_eq!(at("v50 = imul v1, v2\n v55 = isub v10, v50"), [false, true, true, true]);
    assert_eq!(at("v50 = iconst.i32 255\n v55 = band v10, v50"), [false, true, false, false]);
    assert_eq!(at("v50 = iconst.i32 8\n v51 = iadd v10, v50\n v55 = isub v51, v10"), [false, true, false, false]);
    assert_eq!(at("v50 = iconst.i32 2048\n v55 = select v2, v10, v50"), [false, true, false, false]);
    assert_eq!(
        at("v50 = iconst.i32 3
            v51 = ishl v1, v50
            v52 = iconst.i32 1024
            v53 = iadd v51, v52
            v55 = select v2, v10, v53"),
        [false, true, false, false]
    );
    // Through a block that no other code knows.
    assert_eq!(
        at("v50 = iconst.i32 8
            v51 = isub v10, v50
            v52 = isub v51, v10
            store v52, v22+32
            v55 = load.i32 v22+32"),
        [false, true, false, false]
    );
    assert_eq!(at("store v10, v22+32\n v55 = load.i32 v22+32"), [false, true, true, true]);
}

#[test]
fn callees_write_what_they_are_given() {
    let after = |what: &str| reloads(&two_blocks(&format!("{LOADS} {what}")));
    assert_eq!(after("call fn3(v0, v10, v3)\n store v3, v32"), [false, true, false]);
    assert_eq!(after("call fn3(v0, v1, v3)\n store v3, v12"), [false, true, false]);
    // It writes a place of its own, and keeps the pointer there; that changes no float.
    assert_eq!(after("call fn4(v0, v10)\n store v3, v32\n store v3, v12\n store v3, v22"), [false, false, false]);
}

#[test]
fn a_callee_may_find_what_lies_in_a_block() {
    // It is told of a block in which there is a pointer to another.
    let found = reloads(&two_blocks(&format!(
        "store v10, v22
        call fn3(v0, v20, v3)
        v50 = load.i32 v32+16
        v51 = uextend.i64 v50
        v52 = iadd v0, v51
        {LOADS}
        store v3, v52"
    )));
    assert_eq!(found, [false, true, false]);
}

#[test]
fn the_same_site_twice() {
    // The next iteration's block may be this iteration's.
    let found = reloads(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            jump block1
        block1:
            v10 = call fn0(v0, v2)
            v11 = uextend.i64 v10
            v12 = iadd v0, v11
            store v3, v12
            v13 = load.f64 v12
            call fn1(v0, v10)
            brif v2, block1, block2
        block2:
            return v3",
    );
    assert_eq!(found, [false]);
}

#[test]
fn what_lies_in_front_of_memory_is_written_by_an_allocation() {
    // The size of memory, say.
    let program = program(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            v4 = load.f64 v0-16
            v5 = load.f64 v0+32
            v10 = call fn0(v0, v2)
            return v4",
        true,
    );
    let found = with_input(&program, NOTHING_SAID, |input, _| {
        let found = reloadable(&input);
        floats(input.func).into_iter().map(|l| found.contains(l)).collect::<Vec<_>>()
    });
    assert_eq!(found, [false, true]);
}

#[test]
fn for_callers() {
    let program = program("block0(v0: i64, v1: i32, v2: i32, v3: f64):\n return v3", true);
    with_input(&program, NOTHING_SAID, |_, summaries| {
        let flow = |name: &str| summaries.flows()[&program.func(name).unwrap()];
        let effect = |name: &str| summaries.effects()[&program.func(name).unwrap()].writes();
        // It keeps the float, whatever that may be.
        assert_eq!(flow("fill"), PointerFlow { keeps: 1 << 2, ..PointerFlow::default() });
        assert!(matches!(effect("fill"), [Region { through: Some(0), span: Some((0, _)), within: 0b10 }]));
        assert_eq!(flow("keep").keeps & (1 << 1), 1 << 1);
        // It returns a float that it is given.
        assert_eq!(flow("f"), PointerFlow { made: 1 << 3, based: 1 << 3, ..PointerFlow::default() });
        // What it allocates is its own; before memory something may change.
        assert!(matches!(effect("scratch"), [Region { through: Some(0), span: Some((_, 0)), .. }]));
    });
}

#[test]
fn until_it_is_released() {
    // Where all writes are undone, a load can be done again up to the release, whatever is stored
    // elsewhere.
    let program = program(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            v10 = call fn0(v0, v2)
            v11 = uextend.i64 v10
            v12 = iadd v0, v11
            v13 = load.f64 v12
            v20 = call fn0(v0, v2)
            v21 = uextend.i64 v20
            v22 = iadd v0, v21
            store v3, v22
            call fn1(v0, v20)
            call fn1(v0, v10)
            return v13",
        true,
    );
    let found: String = with_input(&program, NOTHING_SAID, |input, summaries| {
        let (func, load) = (input.func, floats(input.func)[0]);
        let block = func.layout.entry_block().unwrap();
        let n = func.layout.block_insts(block).count() as u32;
        let mut rewind = Rewind::new(input, summaries.rewinding());
        (0..=n).map(|at| if rewind.reloads(load, block, at) { '+' } else { '-' }).collect()
    });
    assert_eq!(found, "----++++++--");
}

/// The releases of `%f` that wait, in layout order of all calls of `%free`.
fn late(body: &str) -> Vec<bool> {
    let program = program(body, true);
    let func = program.funcs[program.func("f").unwrap()].body.as_ref().unwrap();
    let cfg = Cfg::compute(func);
    let summaries = Summaries::compute(&program, &bodies(&program));
    let mut blocks = Blocks::compute(&program, func, &cfg, summaries.flows(), &[]);
    let release = deferred_free::releases(&program, func, &cfg, &mut blocks);
    let all = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let frees = all.filter(|&i| matches!(allocator_of(&program, func, i), Some(Allocator::Release { .. })));
    let found: Vec<bool> = frees.map(|i| blocks.is_late(i)).collect();
    assert_eq!(release.is_some(), found.contains(&true));
    found
}

#[test]
fn releases_wait_unless_something_is_allocated_behind_them() {
    let with = |rest: &str| late(&two_blocks(rest));
    assert_eq!(with("call fn1(v0, v10)\n call fn1(v0, v20)"), [true, true]);
    // Another block could be given the bytes; a callee may allocate, too; what only writes does not
    // matter.
    assert_eq!(with("call fn1(v0, v10)\n v50 = call fn0(v0, v2)\n call fn1(v0, v20)"), [false, true]);
    assert_eq!(with("call fn1(v0, v10)\n v50 = call fn2(v0, v20, v2)"), [false]);
    assert_eq!(with("call fn1(v0, v10)\n v50 = call fn5(v0, v2)\n call fn1(v0, v20)"), [false, true]);
    assert_eq!(with("call fn1(v0, v10)\n call fn3(v0, v20, v3)"), [true]);
    // In a loop the next iteration is after this one.
    let found = late(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            jump block1
        block1:
            v10 = call fn0(v0, v2)
            call fn1(v0, v10)
            brif v2, block1, block2
        block2:
            call fn1(v0, v1)
            brif v2, block2, block3
        block3:
            return v3",
    );
    assert_eq!(found, [false, true]);
}

#[test]
fn a_block_whose_release_waits_is_not_written() {
    let program = program(&two_blocks(&format!("{LOADS} call fn1(v0, v10)\n store v3, v22")), true);
    let func = program.funcs[program.func("f").unwrap()].body.as_ref().unwrap();
    let cfg = Cfg::compute(func);
    let summaries = Summaries::compute(&program, &bodies(&program));
    let mut blocks = Blocks::compute(&program, func, &cfg, summaries.flows(), &[]);
    assert!(deferred_free::releases(&program, func, &cfg, &mut blocks).is_some());
    let effects = summaries.effects();
    let input = ClobberInput { program: &program, func, cfg: &cfg, promises: &[], effects, blocks: &blocks };
    let found = reloadable(&input);
    assert_eq!(floats(func).into_iter().map(|l| found.contains(l)).collect::<Vec<_>>(), [true, false, true]);
}

/// Whether the loads may be done again, with and without an allocator, if nothing is said, and if
/// it is said of the parameters in turn that nothing else leads to their memory.
fn said(body: &str) -> [Vec<bool>; 3] {
    let text = format!(
        "block0(v0: i64, v1: i32, v2: i32, v3: f64):
            v11 = uextend.i64 v1
            v12 = iadd v0, v11
            v21 = uextend.i64 v2
            v22 = iadd v0, v21
            {body}
            return v3"
    );
    [[false, false], [true, false], [false, true]].map(|[one, two]| {
        let found = [true, false].map(|known| {
            with_input(&program(&text, known), (&[], &[false, one, two, false]), |input, _| {
                let found = reloadable(&input);
                floats(input.func).into_iter().map(|l| found.contains(l)).collect::<Vec<_>>()
            })
        });
        // Of callees nothing is known without an allocator.
        assert!(body.contains("call") || found[0] == found[1], "{found:?}");
        found[0].clone()
    })
}

#[test]
fn what_nothing_else_leads_to_is_apart() {
    let stores = "v4 = load.f64 v12+8\n store v3, v22\n v5 = load.f64 v22";
    assert_eq!(said(stores), [[false, true], [true, true], [true, true]]);
    // Computed from either of them.
    let either = "v4 = load.f64 v12\n v5 = select v3, v1, v2\n v6 = uextend.i64 v5\n v7 = iadd v0, v6\n store v3, v7";
    let either = either.replace("select v3", "select v2");
    assert_eq!(said(&either), [[false], [false], [false]]);
    // From a difference, or from what only might be an address.
    let differs = "v4 = load.f64 v12\n v5 = isub v2, v1\n v6 = iadd v1, v5\n v7 = uextend.i64 v6\n v8 = iadd v0, v7\n store v3, v8";
    assert_eq!(said(differs), [[false], [false], [false]]);
    let fixed = "v4 = load.f64 v12\n v5 = load.f64 v22\n v6 = iconst.i32 1024\n v7 = uextend.i64 v6\n v8 = iadd v0, v7\n store v3, v8";
    assert_eq!(said(fixed), [[false, false], [true, false], [false, true]]);
    // What lies in memory leads elsewhere.
    let found = "v4 = load.f64 v12\n v6 = load.i32 v22\n v7 = uextend.i64 v6\n v8 = iadd v0, v7\n store v3, v8";
    assert_eq!(said(found), [[false], [true], [false]]);
}

#[test]
fn unless_the_function_tells_others_of_it() {
    // Stored where it is found again.
    let stored =
        "v4 = load.f64 v12\n store v1, v22\n v6 = load.i32 v22\n v7 = uextend.i64 v6\n v8 = iadd v0, v7\n store v3, v8";
    assert_eq!(said(stored), [[false], [false], [false]]);
    // Of an object that only one argument leads to, what is stored there is what is found there, or
    // what has been there.
    let private_object = "v4 = load.f64 v12\n store v2, v12+16\n v6 = load.i32 v12+16\n v7 = uextend.i64 v6\n v8 = iadd v0, v7\n store v3, v8";
    assert_eq!(said(private_object), [[false], [true], [false]]);
    // Given to a function that keeps it, and to one that writes through another.
    let captured = "v4 = load.f64 v12\n call fn4(v0, v1)\n v6 = load.i32 v22\n v7 = uextend.i64 v6\n v8 = iadd v0, v7\n store v3, v8";
    assert_eq!(said(captured), [[false], [false], [false]]);
    assert_eq!(said("v4 = load.f64 v12\n call fn3(v0, v2, v3)"), [[false], [true], [true]]);
}
