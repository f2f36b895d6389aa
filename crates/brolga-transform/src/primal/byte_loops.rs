//! Loops over the bytes of a word, as straight lines.
//!
//! **Problem.** `for (k = 0; k < 8; k++) word |= (uint64_t)p[k] << 8 * k` reads a double, byte by
//! byte. Where bytes go is known of shifts by constants, and here one shift stands for eight.
//!
//! **Answer.** A loop of one block that has a shift by a whole number of bytes which varies, but is
//! known in each of its few iterations, is written out:
//!
//! ```text
//!     jump block1(v8, v9)                     v8 = 0, v9 = 0
//! block1(v1: i64, v2: i64):               block1:
//!     v3 = uload8.i64 v4                      v3 = uload8.i64 v4
//!     v5 = ishl v3, v2                        v5 = ishl v3, 0
//!     …                              ⟶        …
//!     brif v6, block1(v7, v5), block2         v13 = uload8.i64 v14
//!                                             v15 = ishl v13, 8
//! ```
//!
//! The last iteration keeps the instructions, so that what is after the loop finds its values.
//!
//! **Cost.** Nothing without a block that is its own successor and has such a shift; else each
//! instruction of it once for each iteration.

use brolga_analysis::query::constant_int;
use brolga_ir::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, types};

use crate::primal::decided::{evaluate, within};
use crate::primal::edit::before;

/// Iterations: a word has eight bytes.
const MOST_ITERATIONS: usize = 8;

/// Instructions of such a loop.
const MOST_INSTS: usize = 48;

/// Write them out. Whether there are any.
pub(crate) fn byte_loops(func: &mut ir::Function) -> bool {
    let loops: Vec<(ir::Block, ir::Inst)> = func
        .layout
        .blocks()
        .filter_map(|b| Some((b, func.layout.last_inst(b)?)))
        .filter(|&(b, last)| is_own_successor(func, b, last) && shifts(func, b))
        .collect();
    loops.into_iter().fold(false, |any, (b, last)| write_out(func, b, last) || any)
}

/// Whether one of the two edges of a block leads to itself.
fn is_own_successor(func: &ir::Function, b: ir::Block, last: ir::Inst) -> bool {
    let InstructionData::Brif { blocks, .. } = func.dfg.insts[last] else { return false };
    blocks.iter().filter(|to| to.block(&func.dfg.value_lists) == b).count() == 1
}

/// Whether a block is short, calls nothing, and has a shift that varies.
fn shifts(func: &ir::Function, b: ir::Block) -> bool {
    let insts: Vec<ir::Inst> = func.layout.block_insts(b).take(MOST_INSTS + 1).collect();
    let op = |i: ir::Inst| func.dfg.insts[i].opcode();
    insts.len() <= MOST_INSTS
        && !insts.iter().any(|&i| op(i).is_call())
        && insts.iter().any(|&i| shift_amount(func, i).is_some_and(|by| constant_int(func, by).is_none()))
}

/// By what an instruction shifts a word.
fn shift_amount(func: &ir::Function, inst: ir::Inst) -> Option<ir::Value> {
    match func.dfg.insts[inst] {
        InstructionData::Binary { opcode: Opcode::Ishl | Opcode::Ushr | Opcode::Sshr, args: [x, by] } => {
            matches!(func.dfg.value_type(x), types::I32 | types::I64).then_some(by)
        }
        _ => None,
    }
}

/// What is known of the values in one iteration.
type KnownInts = HashMap<ir::Value, u64>;

/// Of each iteration what is known in it, if they are few, and each shift is by bytes.
fn iterations(func: &ir::Function, b: ir::Block, last: ir::Inst) -> Option<Vec<KnownInts>> {
    let InstructionData::Brif { arg, blocks, .. } = func.dfg.insts[last] else { return None };
    let back = blocks.iter().position(|to| to.block(&func.dfg.value_lists) == b)?;
    let again: Vec<ir::Value> =
        blocks[back].args(&func.dfg.value_lists).map(|a| a.as_value()).collect::<Option<_>>()?;
    let params = func.dfg.block_params(b);
    let number = |v: ir::Value| {
        let ty = func.dfg.value_type(v);
        Some(within(ty, constant_int(func, v).filter(|_| ty.is_int() && ty.bits() <= 64)? as u64))
    };
    let entry = entry_args(func, b)?;
    let mut known: KnownInts = params.iter().zip(entry).filter_map(|(&p, v)| Some((p, number(v)?))).collect();
    let mut found = Vec::new();
    loop {
        for inst in func.layout.block_insts(b) {
            let &[r] = func.dfg.inst_results(inst) else { continue };
            let (ty, args) = (func.dfg.value_type(r), func.dfg.inst_args(inst));
            if !ty.is_int() || ty.bits() > 64 {
                continue;
            }
            let of = |v: &ir::Value| known.get(v).copied().or_else(|| number(*v));
            let value = match (func.dfg.insts[inst], args) {
                (InstructionData::UnaryImm { .. }, _) => number(r),
                (data, &[x]) => of(&x).and_then(|a| evaluate(&data, func.dfg.value_type(x), [a, 0])),
                (data, [x, y]) => of(x).zip(of(y)).and_then(|(a, b)| evaluate(&data, func.dfg.value_type(*x), [a, b])),
                _ => None,
            };
            if let Some(value) = value {
                known.insert(r, within(ty, value));
            }
        }
        let by_bytes = |inst| match shift_amount(func, inst) {
            Some(by) => known.get(&by).copied().or_else(|| number(by)).is_some_and(|n| n % 8 == 0),
            None => true,
        };
        let stays = (*known.get(&arg)? != 0) == (back == 0);
        if found.len() == MOST_ITERATIONS || !func.layout.block_insts(b).filter(|&i| varies(func, i)).all(by_bytes) {
            return None;
        }
        let next = params.iter().zip(&again);
        let next: KnownInts =
            next.filter_map(|(&p, v)| Some((p, known.get(v).copied().or_else(|| number(*v))?))).collect();
        found.push(std::mem::replace(&mut known, next));
        if !stays {
            return Some(found).filter(|found| found.len() > 1);
        }
    }
}

/// Whether an instruction is a shift by what is no constant.
fn varies(func: &ir::Function, inst: ir::Inst) -> bool {
    shift_amount(func, inst).is_some_and(|by| constant_int(func, by).is_none())
}

/// What the parameters of a block are where it is entered from another one, if it is once.
fn entry_args(func: &ir::Function, b: ir::Block) -> Option<Vec<ir::Value>> {
    let dfg = &func.dfg;
    let others = func.layout.blocks().filter(|&other| other != b).filter_map(|other| func.layout.last_inst(other));
    let mut found = None;
    for last in others {
        for call in dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            if call.block(&dfg.value_lists) == b {
                let args: Option<Vec<ir::Value>> = call.args(&dfg.value_lists).map(|a| a.as_value()).collect();
                if found.replace(args?).is_some() {
                    return None;
                }
            }
        }
    }
    found
}

/// Write a loop out, if it has few iterations.
fn write_out(func: &mut ir::Function, b: ir::Block, last: ir::Inst) -> bool {
    let Some(iterations) = iterations(func, b, last) else { return false };
    let InstructionData::Brif { blocks, .. } = func.dfg.insts[last] else { return false };
    let back = usize::from(blocks[1].block(&func.dfg.value_lists) == b);
    let [again, out] = [back, 1 - back].map(|k| {
        let args: Vec<ir::BlockArg> = blocks[k].args(&func.dfg.value_lists).collect();
        args
    });
    let to = blocks[1 - back].block(&func.dfg.value_lists);
    let params = func.dfg.block_params(b).to_vec();
    let insts: Vec<ir::Inst> = func.layout.block_insts(b).filter(|&i| i != last).collect();
    insts.iter().for_each(|&i| func.layout.remove_inst(i));
    let mut names: HashMap<ir::Value, ir::Value> = HashMap::default();
    let n = iterations.len();
    for (k, known) in iterations.iter().enumerate() {
        for &inst in &insts {
            // The last one keeps its name.
            let new = if k + 1 == n { inst } else { func.dfg.clone_inst(inst) };
            let at = func.srcloc(inst);
            func.set_srcloc(new, at);
            func.layout.insert_inst(new, last);
            for i in 0..func.dfg.inst_args(new).len() {
                let arg = func.dfg.inst_args(new)[i];
                let is_amount = i == 1 && varies(func, inst);
                let value = match known.get(&arg).filter(|_| is_amount) {
                    Some(&c) => {
                        let ty = func.dfg.value_type(arg);
                        before(func, new).ins().iconst(ty, c as i64)
                    }
                    None => names.get(&arg).copied().unwrap_or(arg),
                };
                func.dfg.inst_args_mut(new)[i] = value;
            }
            if new != inst {
                let results = func.dfg.inst_results(inst).to_vec().into_iter();
                names.extend(results.zip(func.dfg.inst_results(new).to_vec()));
            }
        }
        let given = |v: &ir::BlockArg| v.as_value().map(|v| names.get(&v).copied().unwrap_or(v));
        if k + 1 < n {
            let next: Vec<Option<ir::Value>> = again.iter().map(given).collect();
            names.extend(params.iter().zip(next).filter_map(|(&p, v)| Some((p, v?))));
        }
        if k + 2 == n {
            // What follows goes by the names that the instructions have.
            names.retain(|v, _| params.contains(v));
        }
    }
    let named = |names: &HashMap<_, _>, v: ir::Value| names.get(&v).copied().unwrap_or(v);
    let out: Vec<ir::BlockArg> = out.into_iter().map(|a| a.as_value().map_or(a, |v| named(&names, v).into())).collect();
    let srcloc = func.srcloc(last);
    func.layout.remove_inst(last);
    let mut pos = FuncCursor::new(func).at_bottom(b);
    pos.set_srcloc(srcloc);
    pos.ins().jump(to, &out);
    let others: Vec<ir::Inst> =
        func.layout.blocks().filter(|&other| other != b).flat_map(|b| func.layout.block_insts(b)).collect();
    others.into_iter().for_each(|inst| func.dfg.map_inst_values(inst, |v| named(&names, v)));
    true
}
