//! Doubles of which a half was stored by itself are put together in registers.
//!
//! **Problem.** C programs take doubles apart, and put them together, by a union of a double and two words: fdlibm's `GET_HIGH_WORD` and `SET_HIGH_WORD`, and all that is made of
//! them. An optimiser makes shifts and masks of that, which are followed ([`crate::exponents`]). Without one the words go through memory, and the double that is read there is a mixture of
//! two stores.
//!
//! **Answer.** The same shifts and masks. A load of a double whose halves were last written by two stores is put together from what those stored,
//! and a load of half of a double that has just been stored, and is calculated with, takes that from the double. So does the load of a variable in which such a word, or what
//! was calculated from it, has been kept, and in such a function that of any double or word which has just been stored.
//!
//! **Which.** Those for which it is certain what is there: between the stores and the load, all in one block, is no call and no store to a place of another base ([`last_store`]). A lower
//! half is only followed if it is zero, or from a double by itself: of other low digits nothing says that they are digits.
//!
//! **Invariant.** Every load that is replaced had this value. Stores stay.

use brolga_analysis::Cfg;
use brolga_analysis::cell::{Cell, access_offset, cell_of};
use brolga_analysis::pointers::{access_address, constant_int};
use brolga_analysis::reach::last_store;
use brolga_ir::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Opcode, types};
use cranelift_entity::EntitySet;

use crate::wide::little;

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
    /// What has been stored there.
    Stored(ir::Value),
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
    let stored: HashMap<ir::Inst, (Half, bool)> = insts()
        .filter(|&i| loads(func, i, types::I32))
        .filter_map(|i| {
            let cell = cell_of(func, access_address(func, i)?, access_offset(func, i));
            let (_, half, upper) = stored(func, &cfg, i, cell)?;
            Some((i, (half, upper)))
        })
        .collect();
    let wanted = wanted(func, &stored);
    // Words that are made of halves of doubles, in the order in which they are computed.
    let mut halves: EntitySet<ir::Value> = EntitySet::new();
    let mut found: Vec<(ir::Inst, Instead)> = Vec::new();
    for i in insts() {
        let args = func.dfg.inst_args(i);
        let by = match stored.get(&i) {
            Some(&(Half::Of(x), upper)) => Some(Instead::Word(x, upper)),
            Some(&(Half::Word(w), _)) if halves.contains(w) => Some(Instead::Stored(w)),
            _ if loads(func, i, types::F64) => mixture(func, &cfg, i, &halves).map(Instead::Double),
            _ => None,
        };
        let result = func.dfg.inst_results(i).first().copied();
        let is_half = match by {
            Some(Instead::Double(_)) | None => calculates(func, i) && args.iter().any(|&a| halves.contains(a)),
            Some(_) => true,
        };
        halves.extend(result.filter(|_| is_half));
        found.extend(
            by.filter(|by| matches!(by, Instead::Double(_)) || result.is_some_and(|r| wanted.contains(r)))
                .map(|by| (i, by)),
        );
    }
    if found.is_empty() {
        return;
    }
    // Which double it is that two words are of, and what a word was made of, is seen where there is no memory in between.
    let mut done: EntitySet<ir::Inst> = EntitySet::new();
    done.extend(found.iter().map(|x| x.0));
    let left = insts().filter(|&i| !done.contains(i));
    let again: Vec<_> = left.filter_map(|i| Some((i, Instead::Stored(whole(func, &cfg, i)?)))).collect();
    again.into_iter().for_each(|(load, by)| replace(func, load, by));
    found.into_iter().for_each(|(load, by)| replace(func, load, by));
    func.dfg.resolve_all_aliases();
}

/// Words with which something is calculated, also when they have been stored and loaded again.
fn wanted(func: &ir::Function, stored: &HashMap<ir::Inst, (Half, bool)>) -> EntitySet<ir::Value> {
    let mut wanted = EntitySet::new();
    for b in func.layout.blocks() {
        let mut next = func.layout.last_inst(b);
        while let Some(i) = next {
            next = func.layout.prev_inst(i);
            if calculates(func, i) {
                wanted.extend(func.dfg.inst_args(i).iter().copied());
            } else if let Some((Half::Word(w), _)) = stored.get(&i)
                && wanted.contains(func.dfg.first_result(i))
            {
                wanted.insert(*w);
            }
        }
    }
    wanted
}

/// Compute in another way what a load gives.
fn replace(func: &mut ir::Function, load: ir::Inst, by: Instead) {
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
        Instead::Stored(w) => pos.func.dfg.resolve_aliases(w),
    };
    pos.func.dfg.clear_results(load);
    pos.func.dfg.change_to_alias(old, new);
    pos.func.layout.remove_inst(load);
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
            // The last digits are cut off.
            Half::Word(w)
                if i == 0
                    && let Half::Of(x) = halves[1]
                    && let Some(kept) = kept(pos.func, w, x) =>
            {
                let bits = pos.ins().bitcast(types::I64, MemFlagsData::new(), x);
                let mask = pos.ins().iconst(types::I64, !0xffff_ffff | kept);
                let bits = pos.ins().band(bits, mask);
                return pos.ins().bitcast(types::F64, MemFlagsData::new(), bits);
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

/// The mask by which a word is part of the lower half of a double.
fn kept(func: &ir::Function, w: ir::Value, x: ir::Value) -> Option<i64> {
    let w = func.dfg.resolve_aliases(w);
    let args = |v: ir::Value, op: Opcode| {
        let inst = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == op)?;
        Some(func.dfg.inst_args(inst))
    };
    let &[a, b] = args(w, Opcode::Band)? else { return None };
    let (half, mask) = [(a, b), (b, a)].into_iter().find_map(|(v, m)| Some((v, constant_int(func, m)?)))?;
    let bits = args(func.dfg.resolve_aliases(half), Opcode::Ireduce)?[0];
    let of = args(bits, Opcode::Bitcast)?[0];
    (func.dfg.resolve_aliases(of) == func.dfg.resolve_aliases(x)).then_some(mask & 0xffff_ffff)
}

fn loads(func: &ir::Function, inst: ir::Inst, ty: ir::Type) -> bool {
    func.dfg.insts[inst].opcode() == Opcode::Load
        && func.dfg.value_type(func.dfg.first_result(inst)) == ty
        && little(func, inst)
}

/// The halves of a double, if one was stored by itself.
fn mixture(func: &ir::Function, cfg: &Cfg, load: ir::Inst, halves: &EntitySet<ir::Value>) -> Option<[Half; 2]> {
    let (base, at) = cell_of(func, access_address(func, load)?, access_offset(func, load));
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
    let parts = if upper { [other, half] } else { [half, other] };
    // Low digits of another number.
    let low_is_known = match parts[0] {
        Half::Of(_) => true,
        Half::Word(w) => constant_int(func, w) == Some(0) || halves.contains(w),
    };
    (fits && low_is_known).then_some(parts)
}

/// What the four bytes of a place were last stored as, before an instruction, where that is certain; and whether they are the upper half of it.
fn stored(func: &ir::Function, cfg: &Cfg, before: ir::Inst, cell: Cell) -> Option<(ir::Inst, Half, bool)> {
    let found = last_store(func, cfg, before, cell, 4).filter(|f| f.sure)?;
    if func.dfg.insts[found.store].opcode() != Opcode::Store || !little(func, found.store) {
        return None;
    }
    let x = func.dfg.inst_args(found.store)[0];
    match (func.dfg.value_type(x), found.offset) {
        (types::F64, 0 | -4) => Some((found.store, Half::Of(x), found.offset != 0)),
        (types::I32, 0) => Some((found.store, Half::Word(x), false)),
        _ => None,
    }
}

/// The double or word that was last stored where one is loaded, where that is certain.
fn whole(func: &ir::Function, cfg: &Cfg, load: ir::Inst) -> Option<ir::Value> {
    let ty = [types::F64, types::I32].into_iter().find(|&ty| loads(func, load, ty))?;
    let cell = cell_of(func, access_address(func, load)?, access_offset(func, load));
    let found = last_store(func, cfg, load, cell, ty.bytes()).filter(|f| f.sure && f.offset == 0)?;
    let x = func.dfg.inst_args(found.store)[0];
    let plain = func.dfg.insts[found.store].opcode() == Opcode::Store && little(func, found.store);
    (plain && func.dfg.value_type(x) == ty).then_some(x)
}

/// Whether integers are more than moved.
fn calculates(func: &ir::Function, inst: ir::Inst) -> bool {
    use Opcode::*;
    matches!(func.dfg.insts[inst].opcode(), Band | Bor | Bxor | Iadd | Isub | Ishl | Ushr | Sshr | Icmp)
}
