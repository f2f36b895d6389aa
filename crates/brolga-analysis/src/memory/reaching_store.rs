//! Reaching stores: the last store to a place before a load, where that is certain.
//!
//! **Question.** Which store wrote what a load reads?
//!
//! **Answer.** Evidence about a cell (see [`crate::kinds::contents`]) says what it holds at one
//! time or another. Where a load follows a store to the same bytes in its own block, or in blocks
//! that lead to it and nowhere else, we know which of its lives it is in: the answer is the store,
//! and it is final. Stores through other base values may alias, and are passed over: a store to the
//! bytes that the load reads writes a value of the load's type. Calls that receive an address end
//! the search.
//!
//! **Cost.** A search goes back 64 blocks at most, and asks an index in each.

use cranelift_codegen::ir::{self};

use crate::cfg::Cfg;
use crate::cfg::stores::Stores;
use crate::query::cell::Cell;

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachingStore {
    /// The store.
    pub store: ir::Inst,
    /// Offset of its first byte from the load's.
    pub offset: i64,
    /// Bytes that it writes.
    pub bytes: u32,
    /// Whether nothing can have written there since, whatever addresses may be the same: no store
    /// has that calls the place otherwise.
    pub sure: bool,
}

/// The last store that writes any of `bytes` bytes at `cell` before `load`.
pub fn last_store(func: &ir::Function, cfg: &Cfg, load: ir::Inst, cell: Cell, bytes: u32) -> Option<ReachingStore> {
    let stores = cfg.stores.get_or_init(|| Stores::compute(func, &cfg.blocks));
    let place = cell;
    let mut block = func.layout.inst_block(load)?;
    let mut before = stores.position[load];
    for n in 0..64 {
        let first = n == 0;
        let calls = &stores.calls[block];
        let call = calls[..calls.partition_point(|&c| c < before)].last();
        match (stores.last(block, place, bytes, before), call) {
            (Some(w), call) if call.is_none_or(|&c| c < w.position) => {
                let sure = first && stores.only(block, place.0, w.position, before);
                let found =
                    ReachingStore { store: w.inst, offset: w.offset.wrapping_sub(cell.1), bytes: w.bytes, sure };
                return (!w.update).then_some(found);
            }
            (_, Some(_)) => return None,
            _ => {}
        }
        let [pred] = cfg.preds[block][..] else { return None };
        block = pred;
        before = u32::MAX;
    }
    None
}
