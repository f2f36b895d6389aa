//! Deferred frees: which releases of blocks can wait until the pullback is done.
//!
//! **Problem.** In a combined function a load is done again where nothing has written to the place
//! since ([`crate::memory::clobber`]), and what a program allocates it releases before it returns.
//! A release is a write to the block, so nothing that lies in one could be read again.
//!
//! **Answer.** The release waits: the first half notes what is to be released, and when the second
//! half is done, all that was noted is released, in the order of the program. A release can wait if
//! no call after it, on any way to the end, may allocate, or release otherwise
//! ([`Blocks::allocates`]). So the allocator is called in the order of the program, with what the
//! program has asked for, and gives what it would have given; no block's bytes are another's in the
//! meantime, and no memory is needed that was not in use.
//!
//! All that wait are calls of one function with a block and nothing else, that returns nothing.
//!
//! **Cost.** Linear in the function.
//!
//! Source: the same is done for C's `free` ([`crate::memory::clobber::deferred`]), where the run
//! time keeps the blocks.

use brolga_ir::{Allocator, FuncKey, Program};
use cranelift_codegen::ir::{self, InstructionData, types};
use cranelift_codegen::isa::CallConv;
use cranelift_entity::EntitySet;

use crate::cfg::Cfg;
use crate::memory::points_to::{Blocks, allocator_of};

/// Note which releases of a function wait, and give the function that is called to do it.
pub fn releases(program: &Program, func: &ir::Function, cfg: &Cfg, blocks: &mut Blocks) -> Option<FuncKey> {
    let callee = cfg.calls.iter().find_map(|&i| simple(program, func, i))?;
    let is_one = |i: ir::Inst| simple(program, func, i) == Some(callee);
    let is_bad = |i: ir::Inst| func.dfg.insts[i].opcode().is_call() && blocks.allocates(i) && !is_one(i);
    // Blocks from whose start something bad can come.
    let mut reaches_bad: EntitySet<ir::Block> = EntitySet::new();
    let mut work: Vec<ir::Block> =
        cfg.blocks.iter().copied().filter(|&b| cfg.insts(b).iter().any(|&i| is_bad(i))).collect();
    while let Some(b) = work.pop() {
        if reaches_bad.insert(b) {
            work.extend(&cfg.preds[b]);
        }
    }
    let mut late = EntitySet::new();
    for &b in &cfg.blocks {
        let mut waits = !cfg.succs[b].iter().any(|&s| reaches_bad.contains(s));
        for &i in cfg.insts(b).iter().rev() {
            waits &= !is_bad(i);
            if waits && is_one(i) {
                late.insert(i);
            }
        }
    }
    let found = !late.is_empty();
    blocks.late = late;
    found.then_some(callee)
}

/// The function that a call goes to, if that releases the block that it is given and is asked for
/// nothing else.
fn simple(program: &Program, func: &ir::Function, call: ir::Inst) -> Option<FuncKey> {
    let Some(Allocator::Release { pointer: 1 }) = allocator_of(program, func, call) else { return None };
    let InstructionData::Call { func_ref, .. } = func.dfg.insts[call] else { return None };
    let callee = program.callee(func, func_ref)?;
    let sig = &program.funcs[callee].signature;
    let params = sig.params.iter().map(|p| p.value_type);
    (params.eq([types::I64, types::I32]) && sig.returns.is_empty() && sig.call_conv == CallConv::Fast).then_some(callee)
}
