//! Which loads can be done again where, when every write is undone.

use brolga_analysis::memory::reload_after_undo::Rewind;
use brolga_testing::program;
use cranelift_codegen::ir::{Block, Inst, InstructionData};

use crate::common::{NOTHING_SAID, with_input};

/// For the first load of `%f`: in each block, the positions at which it can be done again, as a
/// string of `+` and `-`.
fn reach(text: &str) -> Vec<String> {
    with_input(&program(text), NOTHING_SAID, |input, summaries| {
        let func = input.func;
        let mut rewind = Rewind::new(input, summaries.rewinding());
        let insts = |b: Block| func.layout.block_insts(b).collect::<Vec<Inst>>();
        let load =
            func.layout.blocks().flat_map(insts).find(|i| matches!(func.dfg.insts[*i], InstructionData::Load { .. }));
        let load = load.unwrap();
        let blocks = func.layout.blocks();
        let of_block = |b: Block| {
            let positions = 0..=insts(b).len() as u32;
            positions.map(|at| if rewind.reloads(load, b, at) { '+' } else { '-' }).collect()
        };
        blocks.map(of_block).collect()
    })
}

#[test]
fn until_the_place_is_written() {
    // Not before it has been done, nor after the store, nor in the reverse of the store itself.
    let found = reach(
        "function %f(i64, f64) -> f64 { block0(v0: i64, v1: f64):
            v2 = load.f64 v0
            v3 = fmul v2, v1
            store v3, v0
            return v2 }",
    );
    assert_eq!(found, ["-++--"]);
}

#[test]
fn a_store_beside_it_does_not_matter() {
    let found = reach(
        "function %f(i64, f64) -> f64 { block0(v0: i64, v1: f64):
            v2 = load.f64 v0
            store v1, v0+8
            return v2 }",
    );
    assert_eq!(found, ["-+++"]);
}

#[test]
fn in_a_loop() {
    // The load runs again each iteration; what it read last holds until the store, on the way out
    // too.
    let found = reach(
        "function %f(i64, i64, f64) -> f64 {
        block0(v0: i64, v1: i64, v2: f64):
            jump block1(v1)
        block1(v3: i64):
            v4 = load.f64 v0
            brif v3, block2, block3
        block2:
            v5 = fmul v4, v2
            store v5, v0
            v6 = isub v3, v1
            jump block1(v6)
        block3:
            return v4
        }",
    );
    assert_eq!(found[1..], ["-++", "++---", "++"]);
}

#[test]
fn what_an_inner_loop_writes() {
    // Read outside of a loop that writes the place: in its second iteration it is another.
    let found = reach(
        "function %f(i64, i64, f64) -> f64 {
        block0(v0: i64, v1: i64, v2: f64):
            v3 = load.f64 v0
            jump block1(v1)
        block1(v4: i64):
            v5 = fmul v3, v2
            store v5, v0
            brif v4, block1(v1), block2
        block2:
            return v3
        }",
    );
    assert_eq!(found, ["-++", "----", "--"]);
}

#[test]
fn ways_that_meet() {
    let found = reach(
        "function %f(i64, i64, f64) -> f64 {
        block0(v0: i64, v1: i64, v2: f64):
            v3 = load.f64 v0
            brif v1, block1, block2
        block1:
            store v2, v0
            jump block3
        block2:
            jump block3
        block3:
            return v3
        }",
    );
    assert_eq!(found, ["-++", "+--", "++", "--"]);
}

#[test]
fn what_others_write_and_undo() {
    let text = |callee: &str| {
        format!(
            "function %f(i64) -> f64 {{
                fn0 = {callee}
            block0(v0: i64):
                v1 = load.f64 v0
                call fn0(v0)
                return v1 }}
            function %g(i64) {{ block0(v0: i64):
                v1 = load.f64 v0
                store v1, v0+8
                return }}
            function %h(i64) {{
                fn0 = %without(i64)
            block0(v0: i64):
                call fn0(v0)
                return }}"
        )
    };
    // A function of the program undoes what it writes: eight bytes after, then anything that an
    // unknown function may.
    assert_eq!(reach(&text("%g(i64)")), ["-+++"]);
    assert_eq!(reach(&text("%h(i64)")), ["----"]);
    assert_eq!(reach(&text("%without(i64)")), ["----"]);
    // Before it, the place is what it was.
    let before = "function %f(i64, i64, f64) -> f64 { fn0 = %memset(i64, i32, i64) -> i64
        block0(v0: i64, v1: i64, v2: f64):
            v3 = load.f64 v0
            v4 = iconst.i32 0
            v5 = call fn0(v0, v4, v1)
            return v3 }";
    assert_eq!(reach(before), ["-++--"]);
}
