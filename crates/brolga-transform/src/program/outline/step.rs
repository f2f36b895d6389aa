//! The function of a step: some iterations of a loop, cut out of its function.
//!
//! **Question.** What does a function look like that runs an iteration, or a few, as the loop does?
//! **Answer.** It is a copy of the loop's function without the blocks outside of the loop:
//!
//! ```text
//!   block1(v4, v5):  …  brif v6, block1(v7, v8), block2(v9)      the loop
//!
//!   entry(invariants, v4', v5'):  jump block1(v4', v5', 0)       the step
//!   block1(v4, v5, c):  …  brif v6, latch(v7, v8), left(v9)
//!   latch(w4, w5):  c' = c + 1;  brif c' < K, block1(w4, w5, c'), goes_on
//!   goes_on:  return w4, w5, 0…, 0
//!   left:     return 0, 0, v9, 1
//! ```
//!
//! **Invariant.** Values and instructions keep their numbers, so what is known of them in the
//! function that is cut is known here.
//!
//! **Cost.** A copy of the function for each loop.

use brolga_ir::driver_call::zero;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, UserFuncName, types};

use super::parts::OutlinedLoop;

/// The function.
pub(super) fn function(of: &OutlinedLoop<'_>, symbol: &str) -> ir::Function {
    let mut func = of.func.clone();
    func.name = UserFuncName::testcase(symbol);
    func.signature = of.of_step();
    let at = location(of);
    let entry = enter(&mut func, of, at);
    let carried: Vec<ir::Value> = func.dfg.block_params(entry)[of.invariants.len()..].to_vec();
    let floats = carried[carried.len() - of.handed_on.len()..].to_vec();
    latch(&mut func, of, &floats, at);
    leave(&mut func, of, at);
    for b in func.layout.blocks().collect::<Vec<_>>() {
        if b != entry && !of.blocks.contains(&b) && (b.as_u32() as usize) < of.func.dfg.num_blocks() {
            remove(&mut func, b);
        }
    }
    func.sized_stack_slots.clear();
    func.dfg.resolve_all_aliases();
    func
}

/// Where new instructions come from.
pub(super) fn location(of: &OutlinedLoop<'_>) -> ir::SourceLoc {
    of.func.srcloc(of.func.layout.last_inst(of.of.header).expect("a block ends"))
}

/// Take a block out of the layout, with all instructions.
pub(super) fn remove(func: &mut ir::Function, b: ir::Block) {
    while let Some(i) = func.layout.first_inst(b) {
        func.layout.remove_inst(i);
    }
    func.layout.remove_block(b);
}

/// Let a value be another one; what it is a result or a parameter of goes.
pub(super) fn rename(func: &mut ir::Function, v: ir::Value, to: ir::Value) {
    match func.dfg.value_def(v) {
        ir::ValueDef::Result(i, _) => {
            func.dfg.detach_inst_results(i);
        }
        ir::ValueDef::Param(b, _) => {
            func.dfg.detach_block_params(b);
        }
        ir::ValueDef::Union(..) => {}
    }
    func.dfg.change_to_alias(v, to);
}

/// A first block, which hands on to the header what the function is given.
fn enter(func: &mut ir::Function, of: &OutlinedLoop<'_>, at: ir::SourceLoc) -> ir::Block {
    let first = func.layout.entry_block().expect("there is a body");
    let entry = func.dfg.make_block();
    func.layout.insert_block(entry, first);
    for p in func.signature.params.clone() {
        func.dfg.append_block_param(entry, p.value_type);
    }
    let given = func.dfg.block_params(entry).to_vec();
    // Addresses are taken by the caller.
    for &i in &of.addresses {
        func.layout.remove_inst(i);
    }
    let from_outside = of.invariants.iter().zip(&given);
    let floats = of.handed_on.iter().zip(&given[given.len() - of.handed_on.len()..]);
    for (&v, &p) in from_outside.chain(floats) {
        rename(func, v, p);
    }
    let n = func.dfg.num_block_params(of.of.header);
    let mut pos = FuncCursor::new(func).at_bottom(entry);
    for &i in &of.constants {
        pos.func.layout.remove_inst(i);
        pos.insert_inst(i);
    }
    pos.set_srcloc(at);
    let zero = pos.ins().iconst(types::I32, 0);
    let carried = given[of.invariants.len()..][..n].iter().chain([&zero]);
    let args: Vec<ir::BlockArg> = carried.map(|&v| v.into()).collect();
    pos.ins().jump(of.of.header, &args);
    entry
}

/// Count iterations, and return after the last one.
fn latch(func: &mut ir::Function, of: &OutlinedLoop<'_>, floats: &[ir::Value], at: ir::SourceLoc) {
    let header = of.of.header;
    let types: Vec<ir::Type> = func.dfg.block_params(header).iter().map(|&v| func.dfg.value_type(v)).collect();
    let counter = func.dfg.append_block_param(header, types::I32);
    let [latch, goes_on] = [(); 2].map(|()| func.dfg.make_block());
    for b in [latch, goes_on] {
        func.layout.append_block(b);
    }
    let next: Vec<ir::Value> = types.iter().map(|&ty| func.dfg.append_block_param(latch, ty)).collect();
    redirect(func, of.of.latches[0], header, latch, true);
    let mut pos = FuncCursor::new(func).at_bottom(latch);
    pos.set_srcloc(at);
    let count = pos.ins().iadd_imm_s(counter, 1);
    let more = pos.ins().icmp_imm_s(IntCC::UnsignedLessThan, count, i64::from(of.iterations));
    let args: Vec<ir::BlockArg> = next.iter().chain([&count]).map(|&v| v.into()).collect();
    pos.ins().brif(more, header, &args, goes_on, &[]);
    pos.goto_bottom(goes_on);
    let mut results = [&next[..], floats].concat();
    results.extend(of.out_types().into_iter().map(|ty| zero(&mut pos, ty)).collect::<Vec<_>>());
    results.push(pos.ins().iconst(types::I8, 0));
    pos.ins().return_(&results);
}

/// Return where an edge leaves the loop.
fn leave(func: &mut ir::Function, of: &OutlinedLoop<'_>, at: ir::SourceLoc) {
    for (code, &(from, to)) in (1..).zip(&of.of.exits) {
        let left = func.dfg.make_block();
        func.layout.append_block(left);
        redirect(func, from, to, left, false);
        let mut pos = FuncCursor::new(func).at_bottom(left);
        pos.set_srcloc(at);
        let mut results: Vec<_> = of.carried().into_iter().map(|ty| zero(&mut pos, ty)).collect();
        for &v in &of.outs {
            let there = of.is_there(v, from);
            results.push(if there { v } else { zero(&mut pos, of.func.dfg.value_type(v)) });
        }
        results.push(pos.ins().iconst(types::I8, code));
        pos.ins().return_(&results);
    }
}

/// Let the edge between two blocks lead to another one, with the same arguments or none.
pub(super) fn redirect(func: &mut ir::Function, from: ir::Block, to: ir::Block, instead: ir::Block, with_args: bool) {
    let last = func.layout.last_inst(from).expect("a block ends");
    let dfg = &mut func.dfg;
    for call in dfg.insts[last].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables) {
        if call.block(&dfg.value_lists) == to {
            if with_args {
                call.set_block(instead, &mut dfg.value_lists);
            } else {
                *call = ir::BlockCall::new(instead, [], &mut dfg.value_lists);
            }
        }
    }
}
