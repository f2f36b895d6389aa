//! Counters of a debug run: how many instructions derived code executes.
//!
//! **Question.** How much work is a derivative, whatever the machine? **Answer.** Each block adds
//! how many instructions it has to a word of the segment when it is entered. Of a block that ends
//! by a trap all count.
//!
//! ```text
//! block1(v3: f64):                     block1(v3: f64):
//!     v4 = fmul v3, v3           ─►        v8 = load.i64 v2+2248
//!     jump block2(v4)                      v9 = iadd_imm v8, 2
//!                                          store v9, v2+2248
//!                                          v4 = fmul v3, v3
//!                                          jump block2(v4)
//! ```
//!
//! The run time knows which of them are in tasks (`brolga_runtime::segment::strands`), and so how
//! many are on the longest way. Instructions of functions that are called as they are, without a
//! derivative, and of the run time do not count.
//!
//! **Cost.** Three instructions for each block, in debug runs alone.

use brolga_ir::lower::segment;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};

/// Count the instructions of a function that has its segment at this place among its parameters.
pub(crate) fn count(func: &mut ir::Function, place: usize) {
    let entry = func.layout.entry_block().expect("a function has a body");
    let seg = func.dfg.block_params(entry)[place];
    let blocks: Vec<ir::Block> = func.layout.blocks().collect();
    for block in blocks {
        let n = func.layout.block_insts(block).count() as i64;
        let mut pos = FuncCursor::new(func).at_first_insertion_point(block);
        let flags = MemFlagsData::trusted();
        let before = pos.ins().load(types::I64, flags, seg, segment::EXECUTED);
        let after = pos.ins().iadd_imm_s(before, n);
        pos.ins().store(flags, after, seg, segment::EXECUTED);
    }
}
