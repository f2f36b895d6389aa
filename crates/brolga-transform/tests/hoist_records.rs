//! What the loops of a pullback read from the frame that its forward pass has left on the tape.

use brolga_ir::lower::TAPE_REGION;
use brolga_ir::{ArgActivity, Options, Pass, PassSet, Request};
use brolga_testing::program;
use brolga_transform::derive::derive;
use cranelift_codegen::ir::{Block, Function, InstructionData};

use crate::host;

/// `a Σ x[i]²`, and the factor within the loop: its pullback needs `a`, `x` and the shadow's
/// distance in each iteration.
const SCALED: &str = "function %f(i64, i64, f64) -> f64 system_v {
    block0(v0: i64, v1: i64, v2: f64):
        v3 = iconst.i64 0
        v4 = f64const 0.0
        jump block1(v3, v4)
    block1(v5: i64, v6: f64):
        v7 = iconst.i64 3
        v8 = ishl v5, v7
        v9 = iadd v0, v8
        v10 = load.f64 v9
        v11 = fmul v10, v10
        v12 = fmul v11, v2
        v13 = fadd v6, v12
        v14 = iconst.i64 1
        v15 = iadd v5, v14
        v16 = icmp slt v15, v1
        brif v16, block1(v15, v13), block2
    block2:
        return v13 }";

/// Loads from the tape in loops of the pullback.
fn in_loops(disabled: PassSet) -> usize {
    let program = program(SCALED);
    let activity = [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Active];
    let request = Request::new(program.func("f").unwrap(), activity);
    let d = derive(&program, &request, &Options { disabled, ..Options::full() }, &*host::isa()).unwrap();
    let f = &d.pairs[0].pullback;
    let blocks: Vec<Block> = f.layout.blocks().filter(|b| comes_back(f, *b)).collect();
    let insts = blocks.iter().flat_map(|&b| f.layout.block_insts(b));
    let taped = |flags| {
        let flags: cranelift_codegen::ir::MemFlagsData = f.dfg.mem_flags[flags];
        flags.alias_region().is_some_and(|r| f.dfg.alias_regions[r].user_id == TAPE_REGION)
    };
    insts.filter(|&i| matches!(f.dfg.insts[i], InstructionData::Load { flags, .. } if taped(flags))).count()
}

/// Whether a block can be reached from itself.
fn comes_back(f: &Function, b: Block) -> bool {
    let mut seen = vec![];
    let mut work: Vec<Block> = f.block_successors(b).collect();
    while let Some(x) = work.pop() {
        if !seen.contains(&x) {
            seen.push(x);
            work.extend(f.block_successors(x));
        }
    }
    seen.contains(&b)
}

#[test]
fn only_records_are_read_in_a_loop() {
    // One number is recorded in each iteration. (Lanes would have the loop twice, and so would a
    // pullback without guards.)
    let held = PassSet::of(&[Pass::Vectorise, Pass::PartialSums, Pass::VersionGuards]);
    assert_eq!(in_loops(held), 1);
    let each_time = in_loops(held.and(Pass::HoistRecords.into()));
    assert!(each_time > 3, "{each_time}");
}
