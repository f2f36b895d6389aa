//! Tail-recursion elimination: a function that ends with a call of itself jumps to its beginning.
//!
//! **Problem.** A recursion by halves is derived whole (`brolga_analysis::calls::joint`): its
//! derivative calls itself twice, and the second call is the last thing that it does. In an adjoint
//! written by hand a C compiler makes a loop of that. Where most of a recursion is the calls, half
//! of them are most of what can be saved.
//!
//! **Answer.** Where a function returns what a call of itself has just returned, or nothing, the
//! call becomes a jump to its beginning with the arguments of the call, after a new entry block.
//!
//! **Where.** In functions that derived code calls, if they have no stack slot: the callee may read
//! a slot through a pointer that it is given. This is done after
//! [`crate::clif::dead_segment_arg`], for which a segment that is only passed on is one that is not
//! used.
//!
//! **Invariants.** Each activation does what it did, in the same order. Fewer are there at a time,
//! so that less of the stack is used.
//!
//! ```text
//!     v5 = call %f(v3, v4)        ⟶         jump block0(v3, v4)
//!     return v5
//! ```
//!
//! **Cost.** A look at the end of each block.
//!
//! **Source.** Tail-call elimination of LLVM.

use brolga_ir::names::Names;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, Opcode, Value};

use crate::clif::dead_segment_arg::callee;

/// Do that in a function with this symbol.
pub(crate) fn jump_back(func: &mut ir::Function, symbol: &str, names: &Names) {
    let blocks: Vec<ir::Block> = func.layout.blocks().collect();
    let calls: Vec<ir::Inst> = blocks.into_iter().filter_map(|b| last_call(func, b, symbol, names)).collect();
    let Some(begin) = func.layout.entry_block().filter(|_| !calls.is_empty() && func.sized_stack_slots.is_empty())
    else {
        return;
    };
    let entry = func.dfg.make_block();
    func.layout.insert_block(entry, begin);
    let types: Vec<ir::Type> = func.dfg.block_params(begin).iter().map(|&v| func.dfg.value_type(v)).collect();
    let params: Vec<Value> = types.into_iter().map(|ty| func.dfg.append_block_param(entry, ty)).collect();
    jump(FuncCursor::new(func).at_bottom(entry), begin, &params);
    for call in calls {
        let block = func.layout.inst_block(call).expect("it is in the layout");
        let args = func.dfg.inst_args(call).to_vec();
        let srcloc = func.srcloc(call);
        let ret = func.layout.last_inst(block).expect("it returns");
        func.layout.remove_inst(ret);
        func.layout.remove_inst(call);
        let mut pos = FuncCursor::new(func).at_bottom(block);
        pos.set_srcloc(srcloc);
        jump(pos, begin, &args);
    }
}

fn jump(mut pos: FuncCursor<'_>, to: ir::Block, args: &[Value]) {
    let args: Vec<BlockArg> = args.iter().map(|&v| v.into()).collect();
    pos.ins().jump(to, &args);
}

/// The call of the function itself that a block ends with.
fn last_call(func: &ir::Function, block: ir::Block, symbol: &str, names: &Names) -> Option<ir::Inst> {
    let ret = func.layout.last_inst(block).filter(|&i| func.dfg.insts[i].opcode() == Opcode::Return)?;
    let call = func.layout.prev_inst(ret).filter(|&i| func.dfg.insts[i].opcode() == Opcode::Call)?;
    let itself = func.dfg.inst_args(ret) == func.dfg.inst_results(call);
    (itself && callee(func, call, names).as_deref() == Some(symbol)).then_some(call)
}
