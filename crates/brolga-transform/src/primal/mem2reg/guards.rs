//! Guards of scalar promotion: stores that must not lead into a promoted frame trap if they do.
//!
//! **Question.** After a store through another address, a cell of a frame is what it was if the
//! store did not lead there. Which stores are asked, at run time, and for which cells?
//!
//! **Answer.** A backward liveness of cells, from the loads that are promoted: a cell is live from
//! such a load back to the store that says what it holds. If that stored what another load has
//! read, that load's cells are live before it, and so are those that say where an access is. A
//! store that may lead to a live cell traps if it does ([`Check::UntrackedBits`]). Frames of
//! callees that have returned are not live, so they may be written again.
//!
//! **Invariant.** A run that passes all guards has found in every promoted load what it is promoted
//! to.
//!
//! **Cost.** A comparison for each such store and each run of cells that are live there.

use std::collections::{BTreeMap, BTreeSet};

use brolga_analysis::Cfg;
use brolga_analysis::query::cell::Base;
use brolga_analysis::query::{access_address, access_bytes, access_offset};
use brolga_ir::inst::Check;
use brolga_ir::lower::CHECK_SRCLOC;
use brolga_ir::map::HashMap;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, TrapCode, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use super::cells::{CellPlace, WriteTarget};
use super::words::{Words, loaded};
use crate::primal::edit::before;

/// A store that must not lead to some cells of a frame.
pub(super) struct StoreGuard {
    /// The store.
    store: ir::Inst,
    /// Memory, and the address of 32 bits from which the cells are so far away.
    from: (ir::Value, ir::Value),
    /// The first byte of the cells, and after the last.
    cells: (i64, i64),
}

/// The guards that these promoted loads ask for.
pub(super) fn guards(cfg: &Cfg, words: &Words<'_>, loads: impl IntoIterator<Item = ir::Inst>) -> Vec<StoreGuard> {
    let mut needed = EntitySet::new();
    needed.extend(loads);
    let mut live =
        LiveCells { words, writes: writes(cfg, words), needed, hit: BTreeMap::new(), enters: SecondaryMap::new() };
    while live.sweep(cfg) {}
    live.hit.into_iter().flat_map(|(store, cells)| runs(words, store, &cells)).collect()
}

/// What stores and calls write.
fn writes(cfg: &Cfg, words: &Words<'_>) -> HashMap<ir::Inst, Vec<WriteTarget>> {
    let mut all = HashMap::default();
    for &b in &cfg.blocks {
        let mut state = words.entering(b);
        for inst in words.func.layout.block_insts(b) {
            let written = words.written(inst, &state);
            if !written.is_empty() {
                all.insert(inst, written);
            }
            words.step(inst, &mut state);
        }
    }
    all
}

/// Cells that are relied on.
struct LiveCells<'a> {
    words: &'a Words<'a>,
    writes: HashMap<ir::Inst, Vec<WriteTarget>>,
    /// Loads that are relied on.
    needed: EntitySet<ir::Inst>,
    /// Cells that a store may lead to, where they are live.
    hit: BTreeMap<ir::Inst, BTreeSet<CellPlace>>,
    /// Cells that are live where a block begins.
    enters: SecondaryMap<ir::Block, BTreeSet<CellPlace>>,
}

impl LiveCells<'_> {
    /// Go through all blocks once, backwards. Whether that was news.
    fn sweep(&mut self, cfg: &Cfg) -> bool {
        let mut news = false;
        for &b in cfg.blocks.iter().rev() {
            let mut live: BTreeSet<CellPlace> =
                cfg.succs[b].iter().flat_map(|&s| self.enters[s].iter().copied()).collect();
            let insts: Vec<ir::Inst> = self.words.func.layout.block_insts(b).collect();
            for &inst in insts.iter().rev() {
                news |= self.instruction(inst, &mut live);
            }
            news |= self.enters[b] != live;
            self.enters[b] = live;
        }
        news
    }

    fn instruction(&mut self, inst: ir::Inst, live: &mut BTreeSet<CellPlace>) -> bool {
        let (words, func) = (self.words, self.words.func);
        let mut relied: Vec<ir::Inst> = Vec::new();
        if self.needed.contains(inst) {
            let Some((base, at)) = words.names.of(inst) else { return false };
            let wide = loaded(func, inst) != Some(types::I32);
            live.insert((base, at));
            live.extend(wide.then_some((base, at + 4)));
            relied = words.names.relied_on(inst);
        } else if let Some(written) = self.writes.get(&inst).filter(|_| !live.is_empty()) {
            relied = words.names.relied_on(inst);
            for w in written {
                let WriteTarget::Named(to, bytes, _) = *w else { continue };
                let over = |c: &CellPlace| c.0 == to.0 && c.1 < to.1 + bytes && to.1 < c.1 + 4;
                let many = live.len();
                live.retain(|c| !over(c));
                // What is said of the cells is said of what was stored.
                if live.len() < many && !func.dfg.insts[inst].opcode().is_call() {
                    relied.extend(words.copied(func.dfg.inst_args(inst)[0]));
                }
            }
            let hits = |c: &&CellPlace| {
                written.iter().any(|w| match *w {
                    WriteTarget::Named(to, bytes, _) => to.0 != c.0 && !words.names.apart(**c, (to, bytes)),
                    WriteTarget::Somewhere => true,
                    WriteTarget::Below(_) => false,
                })
            };
            let guarded = access_address(func, inst).is_some();
            let guarded = live.iter().filter(|c| guarded && words.names.is_frame(c.0));
            let cells: Vec<CellPlace> = guarded.filter(hits).copied().collect();
            if !cells.is_empty() {
                self.hit.entry(inst).or_default().extend(cells);
            }
        }
        relied.into_iter().fold(false, |news, load| self.needed.insert(load) | news)
    }
}

/// Guards of a store for cells: one for each run of them.
fn runs(words: &Words<'_>, store: ir::Inst, cells: &BTreeSet<CellPlace>) -> Vec<StoreGuard> {
    let mut runs: Vec<(Base, i64, i64)> = Vec::new();
    for &(base, at) in cells {
        match runs.last_mut() {
            Some(last) if last.0 == base && last.2 >= at => last.2 = at + 4,
            _ => runs.push((base, at, at + 4)),
        }
    }
    let guard = |(base, from, to)| Some(StoreGuard { store, from: words.names.root_of(base)?, cells: (from, to) });
    runs.into_iter().filter_map(guard).collect()
}

impl StoreGuard {
    /// Write it.
    pub(super) fn write(&self, func: &mut ir::Function) {
        let (Some(addr), offset) = (access_address(func, self.store), access_offset(func, self.store)) else { return };
        let last = i64::from(access_bytes(func, self.store)) - 1;
        let (memory, root) = self.from;
        let root = func.dfg.resolve_aliases(root);
        let (first, end) = self.cells;
        let mut pos: FuncCursor<'_> = before(func, self.store);
        let pointer = pos.ins().iadd_imm_s(root, first);
        let pointer = pos.ins().uextend(types::I64, pointer);
        let start = pos.ins().iadd(memory, pointer);
        let distance = pos.ins().isub(addr, start);
        // How far the last byte is after the first of the cells: both ways of meeting are one
        // comparison.
        let reach = pos.ins().iadd_imm_s(distance, i64::from(offset) + last);
        let meets = pos.ins().icmp_imm_u(IntCC::UnsignedLessThan, reach, end - first + last);
        // Known for ours by its place.
        let bits = pos.srcloc().bits();
        pos.set_srcloc(ir::SourceLoc::new(if bits == u32::MAX { 0 } else { bits } | CHECK_SRCLOC));
        pos.ins().trapnz(meets, TrapCode::unwrap_user(Check::UntrackedBits as u8));
    }
}
