//! Scalar replacement of wide copies (SROA): a copy of 16 bytes becomes copies of two words.
//!
//! **Problem.** Compilers copy records by the widest loads there are. What goes through a 128-bit
//! integer or a byte vector may be two pointers, a pointer and a double, or four singles; shadows
//! of pointers move with pointers, one 64-bit word at a time.
//!
//! **Answer.** Where a 16-byte value does nothing but move from memory to memory (perhaps put
//! together from two words, or taken apart into them, perhaps renamed by a `bitcast`), it is moved
//! as two words, and whatever tells words apart does so here too. Both words are loaded where the
//! wide load was and stored where the wide store was, so overlapping places behave as before; only
//! an access that straddles the end of its memory would trap one word later.
//!
//! Anything else that is done with a 16-byte value leaves its load and its stores as they are.
//!
//! **Cost.** Nothing where no access has 16 bytes. Otherwise passes over the instructions.

use cranelift_codegen::ir::{self, Endianness, InstBuilder, InstructionData, MemFlagsData, Opcode, types};
use cranelift_entity::SecondaryMap;

use crate::primal::edit::before;

/// Split them.
pub(crate) fn split_wide_copies(func: &mut ir::Function) {
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    if !insts().any(|i| is_plain(func, i) && width_of_access(func, i) == 16) {
        return;
    }
    let insts: Vec<ir::Inst> = insts().collect();
    let movable = movable(func, &insts);
    let mut words: SecondaryMap<ir::Value, Option<[ir::Value; 2]>> = SecondaryMap::new();
    // Layout is no order of dominance: first whatever makes words, then whatever takes them.
    for &inst in &insts {
        if let Some(&v) = func.dfg.inst_results(inst).first()
            && movable[v]
        {
            words[v] = sources(func, inst);
        }
    }
    for &inst in &insts {
        let op = func.dfg.insts[inst].opcode();
        match func.dfg.inst_args(inst).first() {
            Some(&v) if movable[v] && op == Opcode::Store => store_words(func, inst, words_of(func, &words, v)),
            Some(&v) if movable[v] && op == Opcode::Isplit => {
                let results = func.dfg.inst_results(inst).to_vec();
                func.dfg.clear_results(inst);
                for (r, w) in results.into_iter().zip(words_of(func, &words, v)) {
                    func.dfg.change_to_alias(r, w);
                }
            }
            _ => match func.dfg.inst_results(inst).first() {
                Some(&r) if movable[r] => {}
                _ => continue,
            },
        }
        func.layout.remove_inst(inst);
    }
    func.dfg.resolve_all_aliases();
}

/// The words that a value is made of, where it is made; `None` for another name of a value.
fn sources(func: &mut ir::Function, inst: ir::Inst) -> Option<[ir::Value; 2]> {
    match func.dfg.insts[inst] {
        InstructionData::Load { arg, offset, .. } => {
            let flags = flags_of(func, inst);
            let mut pos = before(func, inst);
            let low = pos.ins().load(types::I64, flags, arg, offset);
            Some([low, pos.ins().load(types::I64, flags, arg, i32::from(offset) + 8)])
        }
        InstructionData::Binary { opcode: Opcode::Iconcat, args } => Some(args),
        _ => None,
    }
}

fn words_of(
    func: &ir::Function,
    words: &SecondaryMap<ir::Value, Option<[ir::Value; 2]>>,
    mut v: ir::Value,
) -> [ir::Value; 2] {
    loop {
        if let Some(found) = words[v] {
            return found;
        }
        let cast = func.dfg.value_def(v).unwrap_inst();
        v = func.dfg.inst_args(cast)[0];
    }
}

fn store_words(func: &mut ir::Function, inst: ir::Inst, words: [ir::Value; 2]) {
    let InstructionData::Store { args, offset, .. } = func.dfg.insts[inst] else { unreachable!("a store") };
    let flags = flags_of(func, inst);
    let mut pos = before(func, inst);
    for (word, offset) in words.into_iter().zip([i32::from(offset), i32::from(offset) + 8]) {
        pos.ins().store(flags, word, args[1], offset);
    }
}

/// The values that only move: both where they come from and where they go to is one of the
/// instructions known here.
fn movable(func: &ir::Function, insts: &[ir::Inst]) -> SecondaryMap<ir::Value, bool> {
    let mut ok: SecondaryMap<ir::Value, bool> = SecondaryMap::new();
    for &inst in insts {
        for &r in func.dfg.inst_results(inst) {
            ok[r] = is_wide(func, r) && comes_from(func, inst);
        }
    }
    // Take back until nothing changes: a cast is as movable as what it casts, and the other way
    // round.
    let mut changed = true;
    while changed {
        changed = false;
        let mut not = |ok: &mut SecondaryMap<ir::Value, bool>, v: ir::Value| {
            changed |= std::mem::replace(&mut ok[v], false);
        };
        for &inst in insts {
            let op = func.dfg.insts[inst].opcode();
            for v in func.dfg.inst_values(inst).collect::<Vec<_>>() {
                let moves = match op {
                    Opcode::Store => is_plain(func, inst) && func.dfg.inst_args(inst)[0] == v,
                    Opcode::Isplit => true,
                    Opcode::Bitcast => ok[func.dfg.first_result(inst)],
                    _ => false,
                };
                if !moves {
                    not(&mut ok, v);
                }
            }
            if op == Opcode::Bitcast && !ok[func.dfg.inst_args(inst)[0]] {
                not(&mut ok, func.dfg.first_result(inst));
            }
        }
    }
    ok
}

/// A 128-bit integer or byte vector: what carries bytes of unknown meaning.
fn is_wide(func: &ir::Function, v: ir::Value) -> bool {
    matches!(func.dfg.value_type(v), types::I128 | types::I8X16 | types::I16X8 | types::I32X4 | types::I64X2)
}

fn comes_from(func: &ir::Function, inst: ir::Inst) -> bool {
    match func.dfg.insts[inst].opcode() {
        Opcode::Load => is_plain(func, inst),
        Opcode::Iconcat => func.dfg.value_type(func.dfg.first_result(inst)) == types::I128,
        Opcode::Bitcast => is_wide(func, func.dfg.inst_args(inst)[0]) && little(func, inst),
        _ => false,
    }
}

/// Whether an instruction is a load or store of whole values whose first byte is the lowest.
fn is_plain(func: &ir::Function, inst: ir::Inst) -> bool {
    let is_full_width = matches!(func.dfg.insts[inst].opcode(), Opcode::Load | Opcode::Store);
    // The second word's offset must be one, too.
    let near = match func.dfg.insts[inst] {
        InstructionData::Load { offset, .. } | InstructionData::Store { offset, .. } => {
            i32::from(offset).checked_add(8).is_some()
        }
        _ => false,
    };
    is_full_width && near && little(func, inst)
}

/// Whether the first byte of what an access moves is the lowest. On a big-endian target accesses
/// say that it is not ([`mod@crate::primal::normalise`]).
pub(crate) fn little(func: &ir::Function, inst: ir::Inst) -> bool {
    let flags = func.dfg.insts[inst].memflags_data(&func.dfg);
    flags.is_none_or(|f| f.explicit_endianness() != Some(Endianness::Big))
}

fn width_of_access(func: &ir::Function, inst: ir::Inst) -> u32 {
    let v = func.dfg.inst_results(inst).first().copied().unwrap_or_else(|| func.dfg.inst_args(inst)[0]);
    func.dfg.value_type(v).bytes()
}

fn flags_of(func: &ir::Function, inst: ir::Inst) -> MemFlagsData {
    func.dfg.insts[inst].memflags_data(&func.dfg).unwrap_or(MemFlagsData::new())
}
