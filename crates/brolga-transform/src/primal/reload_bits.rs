//! Rematerialisation of bits: the bits of a float that was loaded are loaded themselves.
//!
//! **Problem.** An optimiser that has a float in a register, and finds that a program copies some
//! of its bytes, takes those from the register by a `bitcast` and shifts; the other bytes the
//! program still reads from memory. So a float's cotangent comes back by two ways, a part to the
//! value and a part to the place that the value was loaded from, and neither is a number.
//!
//! **Answer.** Where the bits of a loaded float are cut in pieces, they are loaded once more, as an
//! integer, beside the float, and all pieces go back to one place (`brolga_runtime::pieces`). It is
//! the same memory at the same time.
//!
//! ```text
//! v1 = load.f64 v0              v1 = load.f64 v0
//! v2 = bitcast.i64 v1    ⟶      v2 = load.i64 v0
//! istore8 v2, v3                istore8 v2, v3
//! ```
//!
//! **Cost.** Two walks over the instructions, and one that renames if anything has changed.

use brolga_analysis::bits::bytes::bytes_of;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode};
use cranelift_entity::EntitySet;

/// Load them.
pub fn reload_bits(func: &mut ir::Function) {
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let casts: Vec<ir::Inst> = insts().filter(|&i| loaded(func, i).is_some()).collect();
    if casts.is_empty() {
        return;
    }
    let mut cut = EntitySet::new();
    for inst in insts() {
        match func.dfg.insts[inst].opcode() {
            Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 => {
                cut.insert(func.dfg.inst_args(inst)[0]);
            }
            _ => cut.extend(bytes_of(func, inst).into_iter().flatten().map(|b| b.of)),
        }
    }
    let casts: Vec<ir::Inst> = casts.into_iter().filter(|&i| cut.contains(func.dfg.first_result(i))).collect();
    for &cast in &casts {
        let Some((load, (flags, arg, offset))) = loaded(func, cast) else { continue };
        let bits = func.dfg.first_result(cast);
        let ty = func.dfg.value_type(bits);
        let flags = func.dfg.mem_flags[flags];
        let srcloc = func.srcloc(load);
        let mut pos = FuncCursor::new(func).after_inst(load);
        pos.set_srcloc(srcloc);
        let rerun = pos.ins().load(ty, flags, arg, offset);
        func.dfg.clear_results(cast);
        func.dfg.change_to_alias(bits, rerun);
        func.layout.remove_inst(cast);
    }
    if !casts.is_empty() {
        func.dfg.resolve_all_aliases();
    }
}

type LoadAddress = (ir::MemFlags, ir::Value, ir::immediates::Offset32);

/// The load of the scalar float whose bits an instruction names.
fn loaded(func: &ir::Function, cast: ir::Inst) -> Option<(ir::Inst, LoadAddress)> {
    if func.dfg.insts[cast].opcode() != Opcode::Bitcast {
        return None;
    }
    let (x, bits) = (func.dfg.inst_args(cast)[0], func.dfg.first_result(cast));
    let load = func.dfg.value_def(x).inst()?;
    let scalar = func.dfg.value_type(x).is_float() && func.dfg.value_type(bits).is_int();
    match func.dfg.insts[load] {
        InstructionData::Load { opcode: Opcode::Load, flags, arg, offset } if scalar => {
            Some((load, (flags, arg, offset)))
        }
        _ => None,
    }
}
