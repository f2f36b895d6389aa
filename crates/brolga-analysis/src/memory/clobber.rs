//! Clobber analysis: which loads read memory that nothing writes afterwards.
//!
//! **Question.** In a combined function the second half runs when the first has just ended. What
//! the first half loaded from memory is still there, unless something has written to it since.
//! Which loads may simply be done again?
//!
//! **Answer.** Every access has a [place](crate::memory::alias): an *origin* (a stack slot, a data
//! object, a parameter, an allocation, or unknown), and bytes around it, as far as the address
//! tells. A load may be done again if no write to memory that may be the same can come after it, on
//! any path, later iterations of loops included: stores, atomics, calls that may write (what
//! functions of the program may write is their [effect](crate::memory::mod_ref)). A load that the
//! frontend has marked `readonly` always may.
//!
//! What may be the same: two stack slots, data objects or allocations are not; a slot or an
//! allocation is nothing that the caller could have passed; two parameters may be the same memory,
//! unless the caller says that one of them is `noalias`; unknown may be anything. Of one origin,
//! bytes that are apart are not the same. Nor is what lies in different
//! [blocks](crate::memory::points_to) of the program's own allocator.
//!
//! **Invariant.** The pullback itself writes to shadows only, and a shadow is never primal memory:
//! that is what the caller promises by passing it (a debug run checks it).
//!
//! **Cost.** Pairs of a load and a write, [`MOST_PAIRS`] at most; beyond that only origins are
//! compared.

use brolga_ir::map::{HashMap, IndexMap, one_each};
use brolga_ir::program::symbol_of;
use brolga_ir::{FuncKey, Program, Promises};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData};
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::cfg::Cfg;
pub use crate::memory::alias::Origin;
use crate::memory::alias::{Place, Places};
use crate::memory::mod_ref::{self, Effect};
use crate::memory::points_to::Blocks;
use crate::query::callee::CalleeKind;

/// Pairs of a load and a write that are looked at; beyond that only origins are.
const MOST_PAIRS: usize = 1 << 20;

/// What is asked about a function.
pub struct ClobberInput<'a> {
    /// The program.
    pub program: &'a Program,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// What the caller has promised of parameters; one each, or nothing.
    pub promises: &'a [Promises],
    /// What the functions of the program may write.
    pub effects: &'a HashMap<FuncKey, Effect>,
    /// Which blocks of the program's allocator addresses may be in.
    pub blocks: &'a Blocks,
}

impl ClobberInput<'_> {
    /// Whether memory of two origins may overlap.
    pub fn may_alias(&self, a: Origin, b: Origin) -> bool {
        use Origin::*;
        let noalias = |i: usize| self.promises.get(i).is_some_and(|p| p.noalias);
        match (a, b) {
            (Slot(x), Slot(y)) => x == y,
            (Alloc(x), Alloc(y)) => x == y,
            (Data(x), Data(y)) => self.same_data(x, y),
            (Param(x), Param(y)) => x == y || !noalias(x) && !noalias(y),
            // What is unknown may have been made from this very parameter.
            (Param(x), Data(_)) | (Data(_), Param(x)) => !noalias(x),
            (Slot(_) | Alloc(_), Param(_) | Data(_) | Slot(_) | Alloc(_))
            | (Param(_) | Data(_), Slot(_) | Alloc(_)) => false,
            _ => true,
        }
    }

    fn same_data(&self, x: ir::GlobalValue, y: ir::GlobalValue) -> bool {
        let symbol = |g| match &self.func.global_values[g] {
            ir::GlobalValueData::Symbol { name, .. } => Some(symbol_of(self.func, name)),
            _ => None,
        };
        x == y || symbol(x).is_none_or(|s| symbol(y).is_none_or(|t| s == t))
    }

    /// Its addresses.
    pub fn places(&self) -> Places<'_> {
        Places { program: self.program, func: self.func, cfg: self.cfg, blocks: self.blocks }
    }

    /// Whether a `free` gives back a block that this function has allocated. In a combined function
    /// such a block stays until the end, so that its contents can be read again.
    pub fn defers(&self, free: ir::Inst) -> bool {
        matches!(self.places().origin(self.func.dfg.inst_args(free)[0]), Origin::Alloc(_))
    }

    /// The places that an instruction may write to.
    fn writes(&self, inst: ir::Inst) -> SmallVec<[Place; 2]> {
        let is_free = match CalleeKind::of(self.program, self.func, inst) {
            Some(CalleeKind::Known(r)) => matches!(r.kind, MathKind::Memory(MemFn::Free)),
            _ => false,
        };
        // A block of this function is kept until the pullback is done: see `defers`, and
        // [`crate::calls::deferred_free`].
        if is_free && self.defers(inst) || self.blocks.is_late(inst) {
            SmallVec::new()
        } else {
            mod_ref::written(self.places(), inst, self.effects)
        }
    }
}

/// Loads that may be done again at the end of the function. When it has returned that is another
/// matter: even what is marked `readonly` may have been a stack slot that is no more.
pub fn reloadable(cx: &ClobberInput<'_>) -> EntitySet<ir::Inst> {
    let mut found = EntitySet::new();
    let mut loads: Vec<Access> = Vec::new();
    for &block in &cx.cfg.blocks {
        for &inst in cx.cfg.insts(block) {
            let InstructionData::Load { flags, .. } = cx.func.dfg.insts[inst] else { continue };
            if cx.func.dfg.mem_flags[flags].readonly() {
                found.insert(inst);
            } else {
                loads.push(Access { block, inst, place: cx.places().of_access(inst) });
            }
        }
    }
    if loads.is_empty() {
        return found;
    }
    let mut writes = Writes::of(cx, loads.len());
    found.extend(loads.iter().filter(|l| !writes.may_follow(l)).map(|l| l.inst));
    found
}

/// A load or a write.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub block: ir::Block,
    pub inst: ir::Inst,
    pub place: Place,
}

/// The writes of a function.
pub(crate) struct Writes<'a> {
    cx: &'a ClobberInput<'a>,
    /// By origin, in the order of blocks.
    by_origin: IndexMap<Origin, Vec<Access>>,
    /// For each origin, the blocks from whose start such a write can still come.
    writes_after: IndexMap<Origin, EntitySet<ir::Block>>,
    /// The last write to each origin in each block, by the order of its instructions.
    last: HashMap<(Origin, ir::Block), u32>,
    order: SecondaryMap<ir::Inst, u32>,
    /// Whether each write is looked at.
    closely: bool,
    reachable: SecondaryMap<ir::Block, Option<EntitySet<ir::Block>>>,
}

impl<'a> Writes<'a> {
    /// Find them. So many questions are going to be asked.
    pub(crate) fn of(cx: &'a ClobberInput<'a>, questions: usize) -> Self {
        let mut by_origin: IndexMap<Origin, Vec<Access>> = IndexMap::default();
        let mut order: SecondaryMap<ir::Inst, u32> = one_each(cx.func.dfg.num_insts());
        for &block in &cx.cfg.blocks {
            for (n, &inst) in cx.cfg.insts(block).iter().enumerate() {
                order[inst] = n as u32;
                for place in cx.writes(inst) {
                    by_origin.entry(place.origin).or_default().push(Access { block, inst, place });
                }
            }
        }
        let mut writes_after: IndexMap<Origin, EntitySet<ir::Block>> = IndexMap::default();
        let mut last: HashMap<(Origin, ir::Block), u32> = HashMap::default();
        for (&o, at) in &by_origin {
            last.extend(at.iter().map(|w| ((o, w.block), order[w.inst])));
            let mut set = EntitySet::new();
            let mut work: Vec<ir::Block> = at.iter().map(|w| w.block).collect();
            while let Some(b) = work.pop() {
                if set.insert(b) {
                    work.extend(&cx.cfg.preds[b]);
                }
            }
            writes_after.insert(o, set);
        }
        let pairs = questions.saturating_mul(by_origin.values().map(Vec::len).sum());
        let blocks = cx.cfg.blocks.len();
        let closely = pairs <= MOST_PAIRS && blocks.saturating_mul(blocks) <= MOST_PAIRS;
        Self { cx, by_origin, writes_after, last, order, closely, reachable: SecondaryMap::new() }
    }

    /// Whether the place of an access may be written by its instruction or after it, on any way.
    pub(crate) fn may_follow(&mut self, l: &Access) -> bool {
        let Self { cx, by_origin, writes_after, last, order, closely, reachable } = self;
        let places = cx.places();
        by_origin.iter().filter(|w| cx.may_alias(*w.0, l.place.origin)).any(|(o, at)| {
            let here = last.get(&(*o, l.block)).is_some_and(|&w| w >= order[l.inst]);
            let after = here || cx.cfg.succs[l.block].iter().any(|&s| writes_after[o].contains(s));
            let overlaps = |w: &&Access| !places.apart(&l.place, &w.place);
            let follows = |w: &Access| w.block == l.block && order[w.inst] >= order[l.inst];
            after
                && (!*closely
                    || at.iter().filter(overlaps).any(|w| {
                        let later_blocks = reachable[l.block].get_or_insert_with(|| reached_from(cx.cfg, l.block));
                        follows(w) || later_blocks.contains(w.block)
                    }))
        })
    }
}

/// Blocks that can run when a block has ended.
fn reached_from(cfg: &Cfg, b: ir::Block) -> EntitySet<ir::Block> {
    let mut set = EntitySet::new();
    let mut work = cfg.succs[b].to_vec();
    while let Some(b) = work.pop() {
        if set.insert(b) {
            work.extend(&cfg.succs[b]);
        }
    }
    set
}

/// Calls of `free` whose blocks must stay until the pullback is done.
pub fn deferred(cx: &ClobberInput<'_>) -> EntitySet<ir::Inst> {
    let insts = cx.cfg.calls.iter().copied();
    let is_free = |inst: &ir::Inst| match CalleeKind::of(cx.program, cx.func, *inst) {
        Some(CalleeKind::Known(r)) => matches!(r.kind, MathKind::Memory(MemFn::Free)),
        _ => false,
    };
    let mut found = EntitySet::new();
    found.extend(insts.filter(|i| is_free(i) && cx.defers(*i)));
    found
}
