//! The last store to a place before a load, where that is certain.
//!
//! Evidence about a cell (see [`crate::contents`]) says what it holds at one time or another. Where a load follows a store
//! to the same bytes in its own block, or in blocks that lead to it and nowhere else, we know which of its lives it is in:
//! the answer is the store, and it is final. Stores through other base values may alias, but what they write is of the type
//! that the load expects, or the program would be reading it as something else by accident; they are passed over. Calls
//! that receive an address end the search.

use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use crate::cell::{Base, Cell, access_offset, cell_of};
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
    /// Whether nothing can have written there since, whatever addresses may be the same: nobody has that calls the place otherwise.
    pub sure: bool,
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

/// Bytes of a piece of memory by which stores are found.
const PIECE: i64 = 16;

/// A store, or an update.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Write {
    /// Where it stands in its block.
    position: u32,
    inst: ir::Inst,
    offset: i64,
    bytes: u32,
    /// An update stores what nobody has named.
    update: bool,
}

/// All stores of a function, by block, base, and the pieces that they write to. So that a search does not go through all that lies
/// between, which in a long block takes quadratic time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stores {
    position: SecondaryMap<ir::Inst, u32>,
    writes: HashMap<(ir::Block, Base, i64), SmallVec<[Write; 1]>>,
    /// Where calls stand in each block.
    calls: SecondaryMap<ir::Block, Vec<u32>>,
    /// Where something is written in each block, and the base of the place, if it has one.
    all: SecondaryMap<ir::Block, Vec<(u32, Option<Base>)>>,
}

fn pieces(offset: i64, bytes: u32) -> impl Iterator<Item = i64> {
    let last = offset.saturating_add(i64::from(bytes.max(1)) - 1);
    offset.div_euclid(PIECE)..=last.div_euclid(PIECE)
}

impl Stores {
    fn compute(func: &ir::Function, cfg: &Cfg) -> Self {
        let mut stores = Self::default();
        stores.position.resize(func.dfg.num_insts());
        for &b in &cfg.blocks {
            for (position, inst) in (0..).zip(func.layout.block_insts(b)) {
                stores.position[inst] = position;
                let op = func.dfg.insts[inst].opcode();
                if op.is_call() {
                    stores.calls[b].push(position);
                } else if op.can_store()
                    && let Some(addr) = access_address(func, inst)
                {
                    let (base, offset) = cell_of(func, addr, access_offset(func, inst));
                    let bytes = access_bytes(func, inst);
                    let update = matches!(op, Opcode::AtomicRmw | Opcode::AtomicCas);
                    let write = Write { position, inst, offset, bytes, update };
                    for piece in pieces(offset, bytes) {
                        stores.writes.entry((b, base, piece)).or_default().push(write);
                    }
                    stores.all[b].push((position, Some(base)));
                    continue;
                }
                if op.can_store() || op.is_call() {
                    stores.all[b].push((position, None));
                }
            }
        }
        stores
    }

    /// The last write of a block to any of these bytes, before a position.
    fn last(&self, block: ir::Block, (base, offset): Cell, bytes: u32, before: u32) -> Option<Write> {
        let end = |offset: i64, bytes: u32| offset.saturating_add(i64::from(bytes));
        let overlaps = |w: &&Write| w.offset < end(offset, bytes) && offset < end(w.offset, w.bytes);
        let in_piece = |piece| {
            let writes = self.writes.get(&(block, base, piece))?;
            let earlier = writes.partition_point(|w| w.position < before);
            writes[..earlier].iter().rev().find(overlaps)
        };
        pieces(offset, bytes).filter_map(in_piece).max_by_key(|w| w.position).copied()
    }

    /// Whether all that is written between two positions of a block has this base.
    fn only(&self, block: ir::Block, base: Base, after: u32, before: u32) -> bool {
        let all = &self.all[block];
        let from = all.partition_point(|w| w.0 <= after);
        all[from..].iter().take_while(|w| w.0 < before).all(|w| w.1 == Some(base))
    }
}

/// The last store that writes any of `bytes` bytes at `cell` before `load`.
pub fn last_store(func: &ir::Function, cfg: &Cfg, load: ir::Inst, cell: Cell, bytes: u32) -> Option<Found> {
    let stores = cfg.stores.get_or_init(|| Stores::compute(func, cfg));
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
                let found = Found { store: w.inst, offset: w.offset.wrapping_sub(cell.1), bytes: w.bytes, sure };
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
