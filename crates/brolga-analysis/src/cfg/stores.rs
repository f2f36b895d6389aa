//! Index of stores: those of a function by block, base and place, after
//! [`crate::memory::reaching_store`].
//!
//! **Question.** Which is the last write to some bytes before a place in a block?
//!
//! **Answer.** Writes with a name are listed for each sixteen bytes that they touch, in the order
//! of the block; a load looks into the lists of the bytes that it reads. Calls, and all that is
//! written, have lists of their own.
//!
//! **Cost.** One walk over the function. A question is a binary search in one or two lists, and a
//! look at the writes in front that touch other bytes of the same sixteen.

use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use crate::query::cell::{Base, Cell, cell_of};
use crate::query::{access_address, access_bytes, access_offset};

/// Bytes of a piece of memory by which stores are found.
const PIECE: i64 = 16;

/// A store, or an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Write {
    /// Where it stands in its block.
    pub(crate) position: u32,
    pub(crate) inst: ir::Inst,
    pub(crate) offset: i64,
    pub(crate) bytes: u32,
    /// An update stores what has no name.
    pub(crate) update: bool,
}

/// All stores of a function, by block, base, and the pieces that they write to. So that a search
/// does not go through all that lies between, which in a long block takes quadratic time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stores {
    pub(crate) position: SecondaryMap<ir::Inst, u32>,
    writes: HashMap<(ir::Block, Base, i64), SmallVec<[Write; 1]>>,
    /// Where calls stand in each block.
    pub(crate) calls: SecondaryMap<ir::Block, Vec<u32>>,
    /// Where something is written in each block, and the base of the place, if it has one.
    all: SecondaryMap<ir::Block, Vec<(u32, Option<Base>)>>,
}

impl Stores {
    pub(crate) fn compute(func: &ir::Function, blocks: &[ir::Block]) -> Self {
        let mut stores = Self::default();
        stores.position.resize(func.dfg.num_insts());
        for &b in blocks {
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
    pub(crate) fn last(&self, block: ir::Block, (base, offset): Cell, bytes: u32, before: u32) -> Option<Write> {
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
    pub(crate) fn only(&self, block: ir::Block, base: Base, after: u32, before: u32) -> bool {
        let all = &self.all[block];
        let from = all.partition_point(|w| w.0 <= after);
        all[from..].iter().take_while(|w| w.0 < before).all(|w| w.1 == Some(base))
    }
}

fn pieces(offset: i64, bytes: u32) -> impl Iterator<Item = i64> {
    let last = offset.saturating_add(i64::from(bytes.max(1)) - 1);
    offset.div_euclid(PIECE)..=last.div_euclid(PIECE)
}
