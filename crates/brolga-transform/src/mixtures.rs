//! Doubles of which a half was stored by itself are put together in registers.
//!
//! **Problem.** C programs take doubles apart, and put them together, by a union of a double and two words: fdlibm's `GET_HIGH_WORD` and `SET_HIGH_WORD`, and all that is made of
//! them. An optimiser makes shifts and masks of that, which are followed ([`crate::exponents`]). Without one the words go through memory, and the double that is read there is a mixture of
//! two stores.
//!
//! **Answer.** The same shifts and masks. A load of a double whose halves were last written by two stores is put together from what those stored,
//! and a load of half of a double that has just been stored, and is calculated with, takes that from the double.
//!
//! **Which.** Those for which it is certain what is there: between the stores and the load, all in one block, is no call and no store to a place of another base ([`last_store`]). A lower
//! half is only followed if it is zero, or from a double by itself: of other low digits nothing says that they are digits.
//!
//! **Invariant.** Every load that is replaced had this value. Stores stay.

use brolga_analysis::Cfg;
use brolga_analysis::cell::{Cell, access_offset, cell_of};
use brolga_analysis::pointers::{access_address, constant_int};
use brolga_analysis::reach::last_store;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Opcode, types};
use cranelift_entity::EntitySet;

/// What half of a double was stored as.
#[derive(Clone, Copy)]
enum Half {
    /// As a word.
    Word(ir::Value),
    /// As that half of a double.
    Of(ir::Value),
}

/// What a load is replaced by.
enum Instead {
    /// A double of two halves, the lower first.
    Double([Half; 2]),
    /// The lower or the upper half of a double.
    Word(ir::Value, bool),
}

/// Put them together.
pub fn mixtures(func: &mut ir::Function) {
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let of_double = |i: ir::Inst| func.dfg.value_type(func.dfg.inst_args(i)[0]) == types::F64;
    if !insts().any(|i| func.dfg.insts[i].opcode() == Opcode::Store && of_double(i))
        && !insts().any(|i| loads(func, i, types::F64))
    {
        return;
    }
    let cfg = Cfg::compute(func);
    let mut calculated = EntitySet::new();
    insts().filter(|&i| calculates(func, i)).for_each(|i| calculated.extend(func.dfg.inst_args(i).iter().copied()));
    let found: Vec<(ir::Inst, Instead)> =
        insts().filter_map(|i| Some((i, instead(func, &cfg, &calculated, i)?))).collect();
    for (load, by) in found {
        let old = func.dfg.first_result(load);
        let srcloc = func.srcloc(load);
        let mut pos = FuncCursor::new(func).at_inst(load);
        pos.set_srcloc(srcloc);
        let new = match by {
            Instead::Word(double, upper) => {
                let bits = pos.ins().bitcast(types::I64, MemFlagsData::new(), double);
                let half = if upper { pos.ins().ushr_imm_u(bits, 32) } else { bits };
                pos.ins().ireduce(types::I32, half)
            }
            Instead::Double(halves) => double(&mut pos, halves),
        };
        pos.func.dfg.clear_results(load);
        pos.func.dfg.change_to_alias(old, new);
        pos.func.layout.remove_inst(load);
    }
    func.dfg.resolve_all_aliases();
}

/// A double of two halves.
fn double(pos: &mut FuncCursor<'_>, halves: [Half; 2]) -> ir::Value {
    let mut parts = [None; 2];
    for (i, half) in halves.into_iter().enumerate() {
        parts[i] = match half {
            Half::Of(x) => {
                let bits = pos.ins().bitcast(types::I64, MemFlagsData::new(), x);
                let mask = pos.ins().iconst(types::I64, if i == 0 { 0xffff_ffff } else { !0xffff_ffff });
                Some(pos.ins().band(bits, mask))
            }
            // What has a lower half of zeros has lost its last digits.
            Half::Word(w) if i == 0 && constant_int(pos.func, w) == Some(0) => None,
            Half::Word(w) => {
                let wide = pos.ins().uextend(types::I64, w);
                Some(if i == 0 { wide } else { pos.ins().ishl_imm_u(wide, 32) })
            }
        };
    }
    let bits = match parts {
        [Some(low), Some(high)] => pos.ins().bor(low, high),
        [_, high] => high.expect("an upper half is something"),
    };
    pos.ins().bitcast(types::F64, MemFlagsData::new(), bits)
}

fn loads(func: &ir::Function, inst: ir::Inst, ty: ir::Type) -> bool {
    func.dfg.insts[inst].opcode() == Opcode::Load && func.dfg.value_type(func.dfg.first_result(inst)) == ty
}

/// What a load is known to give.
fn instead(func: &ir::Function, cfg: &Cfg, calculated: &EntitySet<ir::Value>, load: ir::Inst) -> Option<Instead> {
    let (double, word) = (loads(func, load, types::F64), loads(func, load, types::I32));
    if !double && !word {
        return None;
    }
    let addr = access_address(func, load)?;
    let cell = cell_of(func, addr, access_offset(func, load));
    if double {
        return mixture(func, cfg, load, cell).map(Instead::Double);
    }
    let (_, Half::Of(x), upper) = stored(func, cfg, load, cell)? else { return None };
    calculated.contains(func.dfg.first_result(load)).then_some(Instead::Word(x, upper))
}

/// The halves of a double, if one was stored by itself.
fn mixture(func: &ir::Function, cfg: &Cfg, load: ir::Inst, (base, at): Cell) -> Option<[Half; 2]> {
    let last = last_store(func, cfg, load, (base, at), 8).filter(|f| f.sure)?;
    let upper = match (last.offset, last.bytes) {
        (0, 4) => false,
        (4, 4) => true,
        _ => return None,
    };
    let (_, half, _) = stored(func, cfg, load, (base, at + last.offset))?;
    let (_, other, of_upper) = stored(func, cfg, last.store, (base, at + 4 - last.offset))?;
    let fits = match other {
        Half::Word(_) => true,
        Half::Of(_) => of_upper != upper,
    };
    let halves = if upper { [other, half] } else { [half, other] };
    // Low digits of another number.
    let low_is_known = match halves[0] {
        Half::Of(_) => true,
        Half::Word(w) => constant_int(func, w) == Some(0) || is_half(func, w),
    };
    (fits && low_is_known).then_some(halves)
}

/// Whether a word is half of some double.
fn is_half(func: &ir::Function, w: ir::Value) -> bool {
    func.dfg.value_def(w).inst().is_some_and(|i| func.dfg.insts[i].opcode() == Opcode::Ireduce)
}

/// What the four bytes of a place were last stored as, before an instruction, where that is certain; and whether they are the upper half of it.
fn stored(func: &ir::Function, cfg: &Cfg, before: ir::Inst, cell: Cell) -> Option<(ir::Inst, Half, bool)> {
    let found = last_store(func, cfg, before, cell, 4).filter(|f| f.sure)?;
    if func.dfg.insts[found.store].opcode() != Opcode::Store {
        return None;
    }
    let x = func.dfg.inst_args(found.store)[0];
    match (func.dfg.value_type(x), found.offset) {
        (types::F64, 0 | -4) => Some((found.store, Half::Of(x), found.offset != 0)),
        (types::I32, 0) => Some((found.store, Half::Word(x), false)),
        _ => None,
    }
}

/// Whether integers are more than moved.
fn calculates(func: &ir::Function, inst: ir::Inst) -> bool {
    use Opcode::*;
    matches!(func.dfg.insts[inst].opcode(), Band | Bor | Bxor | Iadd | Isub | Ishl | Ushr | Sshr | Icmp)
}
