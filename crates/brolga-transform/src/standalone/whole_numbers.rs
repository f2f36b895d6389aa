//! Whole numbers: cotangents that become pieces, and numbers again before a piece is taken.
//!
//! **Problem.** The cotangent of bits that might go different ways is a ticket of the run time,
//! which has no derivative. Where all of them go one way (the upper half of a double that is
//! changed and put back, say) the ticket is made of a number and is made that number again, in one
//! function.
//!
//! **Answer.** The number is used as it is, if that is all that becomes of its ticket but for the
//! question whether it is none. A ticket of zero is none, and stands for zero: the answer may as
//! well be that it is one. As a choice, it would have the slope zero at zero.
//!
//! ```text
//! v3 = call %brolga_bytes_of_double(v1, v2)
//! brif v3, block1, block2(v0)               ; v0 = 0.0      brif v6, block1, block2(v0)    ; v6 = 1
//! block1:                                                   block1:
//!   v4 = call %brolga_double_of_bytes(v1, v3)
//!   jump block2(v4)                                           jump block2(v2)
//! ```
//!
//! **Before.** Helpers have their symbols.
//!
//! **After.** Every float is the number that it was, but for signs of zeros.
//!
//! **Cost.** One pass over the instructions, and one for each ticket.

use brolga_ir::program::symbol_of;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, types};

/// What makes a ticket of a number, and what makes that number of it.
const WAYS: [[&str; 2]; 2] =
    [["brolga_bytes_of_double", "brolga_double_of_bytes"], ["brolga_bytes_of_single", "brolga_single_of_bytes"]];

/// Use numbers in place of their tickets.
pub(crate) fn used(mut func: ir::Function) -> ir::Function {
    let all: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    for &made in &all {
        let Some([_, back]) = WAYS.into_iter().find(|way| calls(&func, made, way[0])) else { continue };
        let (number, ticket) = (func.dfg.inst_args(made)[1], func.dfg.first_result(made));
        let users: Vec<ir::Inst> = all.iter().copied().filter(|&i| uses(&func, i, ticket)).collect();
        if !users.iter().all(|&i| asks(&func, i, ticket) || calls(&func, i, back)) {
            continue;
        }
        for user in users {
            if calls(&func, user, back) {
                let again = func.dfg.first_result(user);
                func.layout.remove_inst(user);
                func.dfg.clear_results(user);
                func.dfg.change_to_alias(again, number);
            } else {
                let one = FuncCursor::new(&mut func).at_inst(user).ins().iconst(types::I64, 1);
                func.dfg.inst_args_mut(user)[0] = one;
            }
        }
        func.layout.remove_inst(made);
    }
    func.dfg.resolve_all_aliases();
    func
}

/// Whether an instruction, which may have been removed, calls a helper.
fn calls(func: &ir::Function, inst: ir::Inst, helper: &str) -> bool {
    match func.dfg.insts[inst] {
        InstructionData::Call { func_ref, .. } => {
            func.layout.inst_block(inst).is_some() && symbol_of(func, &func.dfg.ext_funcs[func_ref].name) == helper
        }
        _ => false,
    }
}

fn uses(func: &ir::Function, inst: ir::Inst, v: ir::Value) -> bool {
    func.layout.inst_block(inst).is_some() && func.dfg.inst_values(inst).any(|u| func.dfg.resolve_aliases(u) == v)
}

/// Whether all that a branch does with a value is to ask whether it is zero.
fn asks(func: &ir::Function, inst: ir::Inst, v: ir::Value) -> bool {
    let InstructionData::Brif { blocks, .. } = func.dfg.insts[inst] else { return false };
    let pool = &func.dfg.value_lists;
    !blocks.iter().any(|b| b.args(pool).any(|a| a.as_value().is_some_and(|a| func.dfg.resolve_aliases(a) == v)))
}
