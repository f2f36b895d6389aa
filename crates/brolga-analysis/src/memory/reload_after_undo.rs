//! Availability under undo: which loads a pullback that undoes every write can do again, and where.
//!
//! **Question.** In memory mode `restore` the reverse of a store puts back what was there before.
//! If no other code runs between the two halves (the caller asked for one function that does both),
//! memory is at each point of the pullback what it was at that point of the primal. A load may then
//! be done again in the reverse of a statement that reads its result, however often the place is
//! written later: arrays that are updated in place need no record of what was read, only of what
//! was overwritten. That holds across calls too, since the functions of the program undo their
//! writes alike.
//!
//! **Answer.** A load L may be done again in the reverse of a statement S that L dominates, if no
//! write that may be to the [same place](crate::memory::clobber) happens from L to S, S included
//! (the reverse of a store undoes it before it asks for anything). Within the block of L that is a
//! stretch of instructions; any other block is reached by ways on which L does not run again, since
//! S reads the last result of L. Writes that are not undone must not come after L at all.
//!
//! **Undone** are stores and atomics of any type, the block copies of C, and calls of functions of
//! the program all of whose writes are. Blocks that are freed stay until the end, so `free` writes
//! nothing here. Functions of the embedder write nothing that the program reads
//! (`Program::define_host`). Not undone is what an unknown function does.
//!
//! **Cost.** Pairs of a load and a write, [`MOST_PAIRS`] at most.
//!
//! Source: Tapenade (Hascoët and Pascual, 2013), for recording what is overwritten, not what is
//! read.

use brolga_ir::map::HashMap;
use brolga_ir::{FuncKey, Program};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::memory::alias::Place;
use crate::memory::clobber::ClobberInput;
use crate::memory::mod_ref;
use crate::query::callee::CalleeKind;

/// Pairs of a load and a write that are looked at in one function; after that no more loads are
/// done again.
const MOST_PAIRS: usize = 1 << 22;

/// What becomes of an instruction's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It writes nothing.
    None,
    /// The pullback undoes them.
    Undone,
    /// They stay.
    Stays,
}

/// Functions whose pullbacks undo everything that they write, in memory mode `restore`.
pub fn rewinding(program: &Program, funcs: &HashMap<FuncKey, &ir::Function>) -> HashMap<FuncKey, bool> {
    let mut all: HashMap<FuncKey, bool> = funcs.keys().map(|&k| (k, true)).collect();
    loop {
        let stays = |k: &FuncKey| {
            let insts = funcs[k].layout.blocks().flat_map(|b| funcs[k].layout.block_insts(b));
            insts.into_iter().any(|i| fate(program, funcs[k], i, &all) == Fate::Stays)
        };
        let changed: Vec<FuncKey> = all.iter().filter(|(k, ok)| **ok && stays(k)).map(|x| *x.0).collect();
        if changed.is_empty() {
            return all;
        }
        all.extend(changed.into_iter().map(|k| (k, false)));
    }
}

fn fate(program: &Program, func: &ir::Function, inst: ir::Inst, rewinding: &HashMap<FuncKey, bool>) -> Fate {
    let op = func.dfg.insts[inst].opcode();
    let derived_fate = |k: FuncKey| if rewinding.get(&k) == Some(&true) { Fate::Undone } else { Fate::Stays };
    match CalleeKind::of(program, func, inst) {
        Some(CalleeKind::Known(r)) => match r.kind {
            MathKind::Expr(_) | MathKind::Inactive => Fate::None,
            MathKind::Memory(MemFn::Malloc | MemFn::Calloc | MemFn::Memcmp | MemFn::Free | MemFn::FreeAtEnd) => {
                Fate::None
            }
            MathKind::Memory(MemFn::Memcpy | MemFn::Memmove | MemFn::Memset | MemFn::Realloc) => Fate::Undone,
            MathKind::Writes(..) => Fate::Undone,
        },
        Some(CalleeKind::Derived(k)) => derived_fate(k),
        Some(CalleeKind::Computes(_)) => match func.dfg.insts[inst] {
            InstructionData::Call { func_ref, .. } => program.callee(func, func_ref).map_or(Fate::Stays, derived_fate),
            _ => Fate::Stays,
        },
        Some(CalleeKind::Host) => Fate::None,
        // There are none where memory is restored.
        Some(CalleeKind::Plain(_)) => Fate::Stays,
        Some(CalleeKind::Indirect(_)) if rewinding.values().all(|ok| *ok) => Fate::Undone,
        Some(CalleeKind::Indirect(_) | CalleeKind::Missing(_)) => Fate::Stays,
        None if op.can_store() => Fate::Undone,
        None if op == Opcode::Fence => Fate::Stays,
        None => Fate::None,
    }
}

/// An instruction that writes.
#[derive(Clone)]
struct PlacedWrite {
    at: u32,
    place: Place,
    undone: bool,
}

/// Where a load can be done again.
#[derive(Clone, Default)]
struct Reach {
    /// Position of the load in its block.
    at: u32,
    /// The first position after it in its own block at which the place may have changed.
    until: u32,
    /// Blocks at whose start the place may have changed since.
    changed: EntitySet<ir::Block>,
    /// Whether it can be done again at all.
    usable: bool,
}

/// The answers for one function.
pub struct Rewind<'a> {
    cx: ClobberInput<'a>,
    /// By block, in order.
    writes: SecondaryMap<ir::Block, Vec<PlacedWrite>>,
    /// Positions of instructions in their blocks.
    position: SecondaryMap<ir::Inst, u32>,
    stays: bool,
    known: HashMap<ir::Inst, Reach>,
    pairs: usize,
}

impl<'a> Rewind<'a> {
    /// Look at the writes of a function. `rewinding` is of the whole program.
    pub fn new(cx: ClobberInput<'a>, rewinding: &HashMap<FuncKey, bool>) -> Self {
        let mut writes: SecondaryMap<ir::Block, Vec<PlacedWrite>> = SecondaryMap::new();
        let mut position = SecondaryMap::new();
        let mut stays = false;
        for &b in &cx.cfg.blocks {
            for (at, inst) in cx.func.layout.block_insts(b).enumerate() {
                position[inst] = at as u32;
                let fate = fate(cx.program, cx.func, inst, rewinding);
                if fate == Fate::None {
                    continue;
                }
                // Nothing of a function that writes nothing, whatever it may be.
                for place in mod_ref::written(cx.places(), inst, cx.effects) {
                    stays |= fate == Fate::Stays;
                    writes[b].push(PlacedWrite { at: at as u32, place, undone: fate == Fate::Undone });
                }
            }
        }
        Self { cx, writes, position, stays, known: HashMap::default(), pairs: 0 }
    }

    /// Whether a load can be done again in the reverse of block `b`, when everything from position
    /// `at` on has been undone: 0 is the start of the block, `n` after its `n`-th instruction.
    pub fn reloads(&mut self, load: ir::Inst, b: ir::Block, at: u32) -> bool {
        let Some(home) = self.cx.func.layout.inst_block(load) else { return false };
        if !self.known.contains_key(&load) {
            let reach = self.reach(load, home);
            self.known.insert(load, reach);
        }
        let reach = &self.known[&load];
        if !reach.usable {
            return false;
        }
        if b == home {
            return at > reach.at && at <= reach.until;
        }
        if reach.changed.contains(b) {
            return false;
        }
        let place = self.cx.places().of_access(load);
        self.first_change(b, 0, &place, false).is_none_or(|w| at <= w)
    }

    /// The first position in a block, from `from` on, at which a place may be written.
    fn first_change(&mut self, b: ir::Block, from: u32, place: &Place, here: bool) -> Option<u32> {
        let mut looked = 0;
        let first = self.writes[b].partition_point(|w| w.at < from);
        let found = self.writes[b][first..].iter().find(|w| {
            looked += 1;
            self.may_be(place, &w.place, here)
        });
        let found = found.map(|w| w.at);
        self.pairs += looked;
        found
    }

    /// Whether two places may be the same. `here` says that both are accessed in one execution of
    /// one block.
    fn may_be(&self, a: &Place, b: &Place, here: bool) -> bool {
        let places = self.cx.places();
        let apart = if here { places.apart_in_block(a, b) } else { places.apart(a, b) };
        self.cx.may_alias(a.origin, b.origin) && !apart
    }

    fn reach(&mut self, load: ir::Inst, home: ir::Block) -> Reach {
        let at = self.position[load];
        let place = self.cx.places().of_access(load);
        let until = self.first_change(home, at + 1, &place, true);
        let mut reach = Reach { at, until: until.unwrap_or(u32::MAX), usable: true, ..Reach::default() };
        // Blocks that can run before L runs again, and whether the place may have changed when they
        // start.
        let mut seen: EntitySet<ir::Block> = EntitySet::new();
        let mut work: Vec<(ir::Block, bool)> = self.cx.cfg.succs[home].iter().map(|&s| (s, until.is_some())).collect();
        while let Some((b, changed)) = work.pop() {
            let news = if changed { reach.changed.insert(b) } else { seen.insert(b) };
            if b == home || !news {
                continue;
            }
            let after = changed || self.first_change(b, 0, &place, false).is_some();
            work.extend(self.cx.cfg.succs[b].iter().map(|&s| (s, after)));
        }
        if self.stays {
            let later = |b: ir::Block| b != home && (seen.contains(b) || reach.changed.contains(b));
            let repeated = seen.contains(home) || reach.changed.contains(home);
            let harmful = self.cx.cfg.blocks.iter().any(|&b| {
                let may = |w: &PlacedWrite| !w.undone && self.may_be(&place, &w.place, false);
                (later(b) || repeated && b == home) && self.writes[b].iter().any(may)
                    || b == home && self.writes[b].iter().any(|w| w.at > at && may(w))
            });
            reach.usable = !harmful;
        }
        reach.usable &= self.pairs <= MOST_PAIRS;
        reach
    }
}
