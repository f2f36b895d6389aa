//! Editing a primal function: where new instructions go, and arguments for block parameters that a
//! pass adds.
//!
//! **Question.** A pass adds block parameters while it rewrites. When are their arguments written?
//!
//! **Answer.** What an edge hands on for one new parameter may ask for another of the same block,
//! so arguments are collected, and written in the order of the parameters at last.
//!
//! **Cost.** A sort of the arguments of each edge.

use std::collections::BTreeMap;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir;

/// A cursor before an instruction, for what has its source location.
pub(crate) fn before(func: &mut ir::Function, inst: ir::Inst) -> FuncCursor<'_> {
    let srcloc = func.srcloc(inst);
    let mut pos = FuncCursor::new(func).at_inst(inst);
    pos.set_srcloc(srcloc);
    pos
}

/// What edges are going to hand on.
#[derive(Default)]
pub(crate) struct BlockArgs(BTreeMap<(ir::Block, ir::Block), Vec<(usize, ir::Value)>>);

impl BlockArgs {
    /// Add a parameter to a block. Returns it, and its number.
    pub(crate) fn param(func: &mut ir::Function, b: ir::Block, ty: ir::Type) -> (ir::Value, usize) {
        let v = func.dfg.append_block_param(b, ty);
        (v, func.dfg.num_block_params(b) - 1)
    }

    /// The argument that the edges between two blocks have for a parameter.
    pub(crate) fn push(&mut self, (from, to): (ir::Block, ir::Block), n: usize, arg: ir::Value) {
        self.0.entry((from, to)).or_default().push((n, arg));
    }

    /// Write them after those that are there.
    pub(crate) fn write(self, func: &mut ir::Function) {
        for ((from, to), mut args) in self.0 {
            args.sort_unstable_by_key(|a| a.0);
            let last = func.layout.last_inst(from).expect("a block ends");
            let dfg = &mut func.dfg;
            for call in dfg.insts[last].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables) {
                if call.block(&dfg.value_lists) == to {
                    args.iter().for_each(|&(_, v)| call.append_argument(v, &mut dfg.value_lists));
                }
            }
        }
    }
}
