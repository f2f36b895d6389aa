//! The last store to a place before a load, where that is certain.
//!
//! Evidence about a cell (see [`crate::contents`]) says what it holds at one time or another. Where a load follows a store
//! to the same bytes in its own block, or in blocks that lead to it and nowhere else, we know which of its lives it is in:
//! the answer is the store, and it is final. Stores through other base values may alias, but what they write is of the type
//! that the load expects, or the program would be reading it as something else by accident; they are passed over. Calls
//! that receive an address end the search.

use cranelift_codegen::ir::{self, Opcode};

use crate::cell::{Cell, access_offset, cell_of};
use crate::cfg::Cfg;
use crate::pointers::access_address;

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The store.
    pub store: ir::Inst,
    /// Offset of its first byte from the load's.
    pub offset: i64,
    /// Bytes that it writes.
    pub bytes: u32,
}

/// Bytes that a memory access moves.
pub fn access_bytes(func: &ir::Function, inst: ir::Inst) -> u32 {
    match func.dfg.insts[inst].opcode() {
        Opcode::Istore8 | Opcode::Uload8 | Opcode::Sload8 => 1,
        Opcode::Istore16 | Opcode::Uload16 | Opcode::Sload16 => 2,
        Opcode::Istore32 | Opcode::Uload32 | Opcode::Sload32 => 4,
        Opcode::Store | Opcode::AtomicStore => func.dfg.value_type(func.dfg.inst_args(inst)[0]).bytes(),
        _ => func.dfg.inst_results(inst).first().map_or(8, |&r| func.dfg.value_type(r).bytes()),
    }
}

/// The last store that writes any of `bytes` bytes at `cell` before `load`.
pub fn last_store(func: &ir::Function, cfg: &Cfg, load: ir::Inst, cell: Cell, bytes: u32) -> Option<Found> {
    let mut block = func.layout.inst_block(load)?;
    let mut at = func.layout.prev_inst(load);
    for _ in 0..64 {
        while let Some(inst) = at {
            let op = func.dfg.insts[inst].opcode();
            if op.is_call() {
                return None;
            }
            if op.can_store()
                && let Some(addr) = access_address(func, inst)
            {
                let c = cell_of(func, addr, access_offset(func, inst));
                let n = access_bytes(func, inst);
                if c.0 == cell.0 && c.1 < cell.1 + i64::from(bytes) && cell.1 < c.1 + i64::from(n) {
                    // An update stores what nobody has named.
                    let update = matches!(op, Opcode::AtomicRmw | Opcode::AtomicCas);
                    return (!update).then_some(Found { store: inst, offset: c.1 - cell.1, bytes: n });
                }
            }
            at = func.layout.prev_inst(inst);
        }
        let [pred] = cfg.preds[block][..] else { return None };
        block = pred;
        at = func.layout.last_inst(block);
    }
    None
}
