//! What runs steps: the function of steps from one number to another, its driver, and the call in
//! place of the loop.
//!
//! **Question.** Where the loop was, its function goes on in one of several ways. In which?
//! **Answer.** In that which the code says that the steps return:
//!
//! ```text
//!   before(C0…):  C…, outs…, next, code = call loop(invariants…, C0…, 0, n)
//!                 br_table code - 1, exit 1, [exit 1, exit 2, …]
//! ```
//!
//! **Invariant.** Values of the loop that are used after it are results of the call.
//!
//! **Cost.** In the run a call, a comparison and two branches for each step.

use brolga_ir::driver_call::{begin, calls, import, zero};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};

use super::parts::{LoopSymbols, OutlinedLoop};
use super::step::{location, redirect, remove, rename};
use super::trip_count::{Count, steps_of};

/// Steps from one number to another, as an ordinary loop.
pub(super) fn steps(of: &OutlinedLoop<'_>, symbols: &LoopSymbols) -> ir::Function {
    let (mut func, entry, params) = begin(&symbols.steps, of.of_steps());
    let callee = import(&mut func, &symbols.step, of.of_step());
    let (given, [from, to]) = params.split_last_chunk::<2>().expect("there are limits");
    let (invariants, first) = given.split_at(of.invariants.len());
    let [head, body, over, end] = [(); 4].map(|()| func.dfg.make_block());
    let carried: Vec<ir::Value> = of.carried().into_iter().map(|ty| func.dfg.append_block_param(head, ty)).collect();
    let i = func.dfg.append_block_param(head, types::I64);
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    let mut pos = FuncCursor::new(&mut func).at_bottom(entry);
    pos.set_srcloc(location(of));
    pos.ins().jump(head, &block_args(first, *from));
    pos.insert_block(head);
    let more = pos.ins().icmp(IntCC::SignedLessThan, i, *to);
    pos.ins().brif(more, body, &[], over, &[]);
    pos.insert_block(body);
    let call = pos.ins().call(callee, &[invariants, &carried].concat());
    let results = pos.func.dfg.inst_results(call).to_vec();
    let (&code, results) = results.split_last().expect("the code");
    let next = pos.ins().iadd_imm_s(i, 1);
    pos.ins().brif(code, end, &[], head, &block_args(&results[..carried.len()], next));
    pos.insert_block(end);
    pos.ins().return_(&[results, &[next, code]].concat());
    pos.insert_block(over);
    let mut found = carried;
    found.extend(of.out_types().into_iter().map(|ty| zero(&mut pos, ty)).collect::<Vec<_>>());
    found.extend([i, zero(&mut pos, types::I8)]);
    pos.ins().return_(&found);
    func
}

/// The driver: a call of the same.
pub(super) fn driver(of: &OutlinedLoop<'_>, symbols: &LoopSymbols) -> ir::Function {
    let sig = of.of_steps();
    let all: Vec<usize> = (0..sig.params.len()).collect();
    let mut func = calls(&symbols.driver, &sig, &(symbols.steps.clone(), sig.clone()), &all);
    let at = location(of);
    let insts: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    insts.into_iter().for_each(|i| func.set_srcloc(i, at));
    func
}

/// Let a function call the driver in place of the loop.
pub(super) fn replace(func: &mut ir::Function, of: &OutlinedLoop<'_>, driver: &str, count: Option<Count>) {
    let header = of.of.header;
    let before = func.dfg.make_block();
    func.layout.insert_block(before, header);
    let types: Vec<ir::Type> = func.dfg.block_params(header).iter().map(|&v| func.dfg.value_type(v)).collect();
    let first: Vec<ir::Value> = types.iter().map(|&ty| func.dfg.append_block_param(before, ty)).collect();
    redirect(func, of.of.entries[0], header, before, true);
    let callee = import(func, driver, of.of_steps());
    let mut pos = FuncCursor::new(func).at_bottom(before);
    for &i in &of.addresses {
        pos.func.layout.remove_inst(i);
        pos.insert_inst(i);
    }
    pos.set_srcloc(location(of));
    let zero = pos.ins().iconst(types::I64, 0);
    let n = match count {
        Some(count) => steps_of(&mut pos, &count, of.iterations),
        None => pos.ins().iconst(types::I64, i64::MAX),
    };
    let call = pos.ins().call(callee, &[&of.invariants[..], &first, &of.handed_on, &[zero, n]].concat());
    let results = pos.func.dfg.inst_results(call).to_vec();
    let (&code, outs) = results[first.len() + of.handed_on.len()..].split_last().expect("the code");
    leave(&mut pos, of, code);
    for &b in &of.blocks {
        remove(func, b);
    }
    for (&v, &r) in of.outs.iter().zip(outs) {
        rename(func, v, r);
    }
}

/// Go on where the loop was left.
fn leave(pos: &mut FuncCursor<'_>, of: &OutlinedLoop<'_>, code: ir::Value) {
    let exits: Vec<ir::BlockCall> = of
        .of
        .exits
        .iter()
        .map(|&(from, to)| {
            let last = of.func.layout.last_inst(from).expect("a block ends");
            let dfg = &of.func.dfg;
            let all = dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
            let call = all.iter().find(|c| c.block(&dfg.value_lists) == to).expect("the edge is there");
            let args: Vec<ir::BlockArg> = call.args(&dfg.value_lists).collect();
            ir::BlockCall::new(to, args, &mut pos.func.dfg.value_lists)
        })
        .collect();
    if let [(_, to)] = of.of.exits[..] {
        let args: Vec<ir::BlockArg> = exits[0].args(&pos.func.dfg.value_lists).collect();
        pos.ins().jump(to, &args);
        return;
    }
    let wide = pos.ins().uextend(types::I32, code);
    let index = pos.ins().iadd_imm_s(wide, -1);
    let table = pos.func.dfg.jump_tables.push(ir::JumpTableData::new(exits[0], &exits));
    pos.ins().br_table(index, table);
}

fn block_args(values: &[ir::Value], last: ir::Value) -> Vec<ir::BlockArg> {
    values.iter().chain([&last]).map(|&v| v.into()).collect()
}
