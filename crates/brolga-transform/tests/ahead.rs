//! What a loop has loaded a turn ahead, and where that is seen.

use brolga_analysis::{Cfg, Loops};
use brolga_testing::function;
use brolga_transform::primal::loop_simplify::canonical;
use brolga_transform::primal::undo_commoning::{add_twins, twins};
use cranelift_codegen::ir::{Function, Opcode};
use cranelift_codegen::settings::{self, Flags};
use cranelift_codegen::verify_function;

/// How many twins are found in a loop over `v2` elements of 32 bits at `v0`, after they have been
/// added. `first` makes `v5` in front of it, `next` what it hands on as `v15`, with `v10` as the
/// next index.
fn found(first: &str, next: &str, more: &str) -> usize {
    let text = format!(
        "function %f(i64, i64, i32) -> i32 {{ fn0 = %g() block0(v0: i64, v1: i64, v2: i32):
            v3 = iconst.i32 0
            {first}
            jump block1(v5, v3, v3)
        block1(v6: i32, v7: i32, v8: i32):
            v9 = iconst.i32 1
            v10 = iadd v7, v9
            {next}
            v20 = imul v15, v6
            v21 = iadd v8, v20
            {more}
            v22 = icmp slt v10, v2
            brif v22, block1(v15, v10, v21), block2
        block2:
            return v21 }}"
    );
    let mut func = function(&text);
    let (_, loops) = canonical(&mut func);
    let loads = |f: &Function| {
        let insts = f.layout.blocks().flat_map(|b| f.layout.block_insts(b));
        insts.filter(|&i| f.dfg.insts[i].opcode() == Opcode::Load).count()
    };
    let before = loads(&func);
    add_twins(&mut func, &loops);
    verify_function(&func, &Flags::new(settings::builder())).unwrap();
    let found = twins(&func, &Loops::compute(&Cfg::compute(&func))).len();
    assert_eq!(loads(&func) - before, found, "{func}");
    found
}

const FIRST: &str = "v5 = load.i32 v0";
const NEXT: &str = "v11 = iconst.i32 2
    v12 = ishl v10, v11
    v13 = uextend.i64 v12
    v14 = iadd v0, v13
    v15 = load.i32 v14";

#[test]
fn the_element_behind_the_present_one() {
    assert_eq!(found(FIRST, NEXT, ""), 1);
}

#[test]
fn loaded_elsewhere_at_first() {
    assert_eq!(found("v5 = load.i32 v1", NEXT, ""), 0);
    assert_eq!(found("v5 = load.i32 v0+4", NEXT, ""), 0);
    assert_eq!(found("v5 = iconst.i32 0", NEXT, ""), 0);
}

#[test]
fn another_element_than_that_of_the_next_index() {
    for next in ["v16 = iadd v10, v9\nv12 = ishl v16, v11", "v12 = imul v10, v7", "v12 = ishl v7, v11"] {
        assert_eq!(found(FIRST, &NEXT.replace("v12 = ishl v10, v11", next), ""), 0, "{next}");
    }
}

#[test]
fn a_call_may_take_the_memory_away() {
    assert_eq!(found(FIRST, NEXT, "call fn0()"), 0);
}

#[test]
fn a_number_of_another_width() {
    let wide = |text: &str| text.replace("load.i32", "load.i64").replace("v15 =", "v25 =").replace("v5 =", "v24 =");
    let (first, next) = (wide(FIRST) + "\nv5 = ireduce.i32 v24", wide(NEXT) + "\nv15 = ireduce.i32 v25");
    assert_eq!(found(&first, &next, ""), 0);
}
