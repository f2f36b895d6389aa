//! To-be-recorded analysis: the planner, which works off the names that the reverse half needs.
//!
//! **Question.** Which names does each reverse block need, and which of them does the forward half
//! record? **Answer.** [`super`] says what is decided, [`super::ways`] in which order. Here is the
//! state of the decision: what each block needs, what is recorded so far, and slots. Blocks are
//! looked at until none needs anything more; a need may open others, as what a recomputation reads
//! is needed too.
//!
//! **Cost.** A block is planned again only if its needs have grown.
//!
//! **Source.** Hascoët, Naumann and Pascual, *"To be recorded" analysis in reverse-mode automatic
//! differentiation* (2005).

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use brolga_analysis::memory::clobber::ClobberInput;
use brolga_analysis::memory::reload_after_undo::Rewind;
use brolga_analysis::{LoopId, Loops, ResultMode, RootKind};
use brolga_ir::inst::{FrameSlot, Val};
use brolga_ir::lower::{FrameHome, FrameLayout, SlotPlace};
use brolga_ir::map::{HashMap, IndexMap, IndexSet, one_each};
use brolga_ir::{Effort, MemoryMode, Mode, Pass};
use brolga_rules::cost::{MANY_RECOMPUTED, OF_ALL};
use cranelift_codegen::ir::{self, Type, ValueDef, types};
use cranelift_codegen::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use super::invert::{Carry, CarryInput};
use super::min_cut::cheapest;
use super::offers::{MAX_DEPTH, computable};
use super::val_set::{FreeNames, NameSet, ValSet};
use crate::facts::Facts;
use crate::plan::table::{HeldUpdate, Plan, Rerun, Source, Supply, Way, def_block, type_of};
use crate::translate::stmt::AdStmts;
use crate::val_map::ValMap;

/// Most instructions of a function whose frame is kept in variables: beyond that, more of them
/// would be spilled than kept.
const MAX_FOR_VARIABLES: usize = 1500;
/// The same without loops. There every variable is alive from one half to the other: the register
/// allocator spills all but a dozen, and takes long to find out.
const MAX_WITHOUT_LOOPS: usize = 64;
/// The same with little effort, for instructions times blocks: registers are then given out in a
/// single pass, so that a variable is in memory wherever it is not in use. That takes no
/// instructions of ours, but a table by block for each variable.
const MAX_PLACES: usize = 1 << 16;
/// And for instructions: what is spilled lies on the stack.
const MAX_SPILLED: usize = 8000;
/// Most bytes of a frame on the stack.
const MAX_ON_STACK: u32 = 64 << 10;
/// Most values of one block that the minimum cut is asked about.
const MAX_CUT: usize = 20_000;
/// What is known of loads where every write is undone.
fn rewind<'a>(facts: &'a Facts<'_>) -> Rewind<'a> {
    let input = ClobberInput {
        program: facts.program,
        func: facts.func(),
        cfg: facts.cfg,
        promises: &facts.variant.promises,
        effects: facts.summaries.effects(),
        blocks: &facts.blocks,
    };
    Rewind::new(input, facts.summaries.rewinding())
}

pub(super) struct Planner<'a, 'f> {
    pub(super) facts: &'a Facts<'f>,
    pub(super) stmts: &'a AdStmts,
    pub(super) loops: &'a Loops,
    pub(super) plan: Plan,
    pub(super) aux: &'a IndexMap<Val, Type>,
    pub(super) carry: Carry,
    /// The instruction of each value that the reverse half can execute: cheap and pure arithmetic,
    /// or a load from memory that still holds it.
    pub(super) computable: SecondaryMap<ir::Value, PackedOption<ir::Inst>>,
    /// The names that the block that is being planned has already.
    pub(super) seen: NameSet,
    /// Values that are known not to be made of constants alone.
    pub(super) varies: RefCell<EntitySet<ir::Value>>,
    /// Names that the reverse of each block must have.
    pub(super) needed: SecondaryMap<ir::Block, ValSet>,
    /// Where in each block the last statement stands whose reverse reads a name: see
    /// [`Rewind::reloads`]. Nothing for the start.
    read_at: HashMap<(ir::Block, Val), u32>,
    /// The same for the block that is being planned, and for all that may be computed on the way to
    /// what is read.
    pub(super) available_at: HashMap<Val, u32>,
    /// Loads that can be done again once what was written since is undone, if everything is.
    pub(super) rewind: Option<RefCell<Rewind<'a>>>,
    /// Carried parameters that are read.
    pub(super) carried: IndexSet<ir::Value>,
    /// Names that are held in a loop, set after it.
    pub(super) hoisted: IndexSet<(LoopId, Val)>,
    /// Blocks whose reverses compute quotients again.
    pub(super) divides: EntitySet<ir::Block>,
    /// What can be had for nothing in the block that is being planned.
    pub(super) free: FreeNames,
    /// Frame slots of names, and of names as seen by one block.
    slots: ValMap<Option<FrameSlot>>,
    slots_in: HashMap<(Val, ir::Block), FrameSlot>,
    pub(super) home: FrameHome,
    size: u32,
    /// Slots that are variables are only numbered.
    variables: u32,
}

impl<'a, 'f> Planner<'a, 'f> {
    pub(super) fn new(
        facts: &'a Facts<'f>,
        stmts: &'a AdStmts,
        aux: &'a IndexMap<Val, Type>,
        reruns: Vec<Rerun>,
    ) -> Self {
        let combined = facts.mode != Mode::Split;
        let most = match facts.options.effort {
            Effort::Quick => MAX_SPILLED.min(MAX_PLACES / facts.cfg.blocks.len()),
            _ if facts.loops.loops.is_empty() => MAX_WITHOUT_LOOPS,
            _ => MAX_FOR_VARIABLES,
        };
        let home = match (combined, stmts.len()) {
            (false, _) => FrameHome::Tape,
            (true, n) if n > most => FrameHome::Stack,
            (true, _) => FrameHome::Variables,
        };
        let options = facts.options;
        let restores_jointly = options.memory == MemoryMode::Restore && options.mode != Mode::Split;
        let rewinds = restores_jointly && options.runs(Pass::ReloadAfterUndo);
        let func = facts.func();
        let mut p = Planner {
            facts,
            computable: computable(facts, combined),
            seen: NameSet::new(func.dfg.num_values()),
            stmts,
            loops: facts.loops,
            plan: Plan { combined, reruns, ..Plan::default() },
            aux,
            carry: Carry::default(),
            varies: RefCell::default(),
            needed: one_each(func.dfg.num_blocks()),
            read_at: HashMap::default(),
            available_at: HashMap::default(),
            rewind: rewinds.then(|| RefCell::new(rewind(facts))),
            carried: IndexSet::default(),
            hoisted: IndexSet::default(),
            divides: EntitySet::new(),
            free: FreeNames::new(func.dfg.num_values()),
            slots: ValMap::new(func.dfg.num_values()),
            slots_in: HashMap::default(),
            home,
            size: if home == FrameHome::Variables { 0 } else { 8 },
            variables: 0,
        };
        for (i, a) in p.plan.reruns.iter().enumerate() {
            a.blocks.iter().for_each(|&b| p.plan.rerun_of[b] = Some(i));
        }
        p.stack_slots();
        p.returning();
        if facts.mode == Mode::Combined {
            // Results, and the deltas of those that are pointers.
            let deltas = facts.variant.results.iter().filter(|r| **r == ResultMode::Ptr).map(|_| types::I64);
            for ty in facts.func().signature.returns.iter().map(|r| r.value_type).chain(deltas) {
                let slot = p.alloc(ty.bytes());
                p.plan.results.push(slot);
            }
        }
        let returning = p.plan.returning.clone();
        let input = CarryInput {
            func: facts.func(),
            cfg: facts.cfg,
            loops: p.loops,
            returning: &returning,
            steady: &|b, v| p.steady(b, Val::Primal(v)),
        };
        if facts.options.runs(Pass::Invert) {
            p.carry = Carry::compute(&input);
        }
        p
    }

    pub(super) fn alloc(&mut self, bytes: u32) -> FrameSlot {
        if self.home == FrameHome::Variables {
            return self.variable();
        }
        let at = self.size.next_multiple_of(bytes.min(8));
        self.size = at + bytes;
        FrameSlot(at)
    }

    fn variable(&mut self) -> FrameSlot {
        self.variables += 1;
        FrameSlot::variable(self.variables)
    }

    /// Whether what a block computes is better off in a variable although the frame is on the
    /// stack: if it is there on all ways to a return, and calls come between. Whatever lives across
    /// them is on the stack already, and need not be there twice.
    fn stays(&self, def: ir::Block) -> bool {
        self.home == FrameHome::Stack
            && self.facts.loops.loops.is_empty()
            && self.stmts.len() <= MAX_FOR_VARIABLES
            && !self.facts.cfg.calls.is_empty()
            && self.plan.exits.iter().all(|&e| self.loops.dominates(def, e))
    }

    /// Whether a name is a parameter of the function that is better off in a variable although the
    /// frame is on the stack: with little effort whatever lives in several blocks is on the stack
    /// anyway, without instructions of ours.
    fn is_given(&self, v: Val) -> bool {
        let Val::Primal(p) = v else { return false };
        let entry = self.facts.cfg.blocks[0];
        let is_param = matches!(self.facts.func().dfg.value_def(p), ValueDef::Param(of, _) if of == entry);
        self.home == FrameHome::Stack && self.facts.options.effort == Effort::Quick && is_param
    }

    /// Make room for a flag.
    pub(super) fn flag(&mut self) {
        self.plan.flag = Some(self.alloc(1));
    }

    fn stack_slots(&mut self) {
        let restore = self.facts.options.memory == MemoryMode::Restore;
        let func = self.facts.func();
        let shadowed = self.facts.pointers.roots.values().filter_map(|k| match k {
            RootKind::Slot(s) => Some(*s),
            _ => None,
        });
        let shadowed: Vec<ir::StackSlot> = shadowed.collect();
        let total: u64 = shadowed.iter().map(|&s| u64::from(func.sized_stack_slots[s].size)).sum();
        if self.plan.combined && total > u64::from(MAX_ON_STACK) {
            self.home = FrameHome::Tape;
            self.size = 8;
        }
        // In a combined function the slots themselves are still there when the second half runs.
        let moved = restore && !self.plan.combined;
        let mut layout = FrameLayout::default();
        for slot in shadowed {
            let size = func.sized_stack_slots[slot].size.next_multiple_of(16);
            let size = size.saturating_mul(self.facts.options.width);
            let align = 1_u32 << func.sized_stack_slots[slot].align_shift.min(4);
            self.size = self.size.next_multiple_of(align.max(16));
            let shadow = self.size;
            self.size += size;
            let primal = moved.then_some(self.size);
            self.size += if moved { size } else { 0 };
            // A shadow that the first half leaves alone is cleared once. In a combined function
            // that is done at the start: a call of `memset` between the halves makes Cranelift
            // spill in the loops of both.
            let used = !self.facts.overwrites.untouched.contains(slot);
            let at_enter = used || self.plan.combined;
            layout.slots[slot] = Some(SlotPlace { shadow, primal, size, at_enter, between_halves: used });
        }
        self.plan.frame = Some(layout);
    }

    /// Find out when each name is available in the reverse of a block, at the earliest in the order
    /// of the pullback: with the last statement that may ask for it, be it through other names. A
    /// name that is not asked for in the end does no harm.
    fn find_times(&mut self, b: ir::Block) {
        if self.rewind.is_none() {
            return;
        }
        // What has been found for other positions does not hold any more.
        self.free.forget();
        let mut work: BinaryHeap<(u32, Reverse<Val>)> = BinaryHeap::new();
        for &v in self.needed[b].iter() {
            work.push((self.read_at.get(&(b, v)).copied().unwrap_or(0), Reverse(v)));
        }
        let mut at: HashMap<Val, u32> = HashMap::default();
        while let Some((n, Reverse(v))) = work.pop() {
            if at.contains_key(&v) {
                continue;
            }
            at.insert(v, n);
            let args = self.load(v).or_else(|| self.computed(b, v)).map(|offer| offer.operands());
            work.extend(args.into_iter().flatten().map(|a| (n, Reverse(a))));
        }
        self.available_at = at;
    }

    /// The values that a block pushes. Whether it computes quotients again is decided here: if the
    /// record gets so much shorter by that.
    fn record(&mut self, b: ir::Block) -> Vec<Val> {
        self.divides.remove(b);
        self.free.forget();
        let (recorded, divides) = self.minimum_record(b);
        if !self.facts.options.runs(Pass::SlpDivisions) || !divides {
            return recorded;
        }
        let before = self.bytes(&recorded);
        self.divides.insert(b);
        self.free.forget();
        let (fewer, _) = self.minimum_record(b);
        let after = self.bytes(&fewer);
        let pays = if self.facts.options.runs(Pass::CostModel) {
            after * OF_ALL.1 <= before * OF_ALL.0
        } else {
            after < before
        };
        if pays {
            return fewer;
        }
        self.divides.remove(b);
        self.free.forget();
        self.find_times(b);
        recorded
    }

    /// What a block pushes as it stands, and whether a quotient of its own is among what it cannot
    /// compute.
    fn minimum_record(&mut self, b: ir::Block) -> (Vec<Val>, bool) {
        self.find_times(b);
        if self.plan.is_unrepeated(self.facts, b) {
            // All of it is free.
            return Default::default();
        }
        // What is needed comes first, and after it what may be recorded instead: each with how far
        // that is.
        let mut nodes: IndexMap<Val, u32> = IndexMap::default();
        for i in 0..self.needed[b].len() {
            let v = self.needed[b][i];
            if !self.is_free(b, v) {
                nodes.insert(v, 0);
            }
        }
        let n_needed = nodes.len();
        let mut leaves: SmallVec<[usize; 8]> = SmallVec::new();
        let mut computed_from: SmallVec<[(usize, usize); 16]> = SmallVec::new();
        let mut at = 0;
        while let Some((&v, &depth)) = nodes.get_index(at) {
            let args = self.made_of(b, v).filter(|_| depth < MAX_DEPTH && nodes.len() < MAX_CUT);
            if args.is_none() {
                leaves.push(at);
            }
            for a in args.into_iter().flatten().filter(|_| self.facts.options.runs(Pass::MinCut)) {
                if !self.is_free(b, a) {
                    let operand = nodes.entry(a);
                    computed_from.push((at, operand.index()));
                    operand.or_insert(depth + 1);
                }
            }
            at += 1;
        }
        let name = |n: usize| *nodes.get_index(n).expect("nodes are numbered in order").0;
        let divides = leaves.iter().any(|&n| self.quotient(b, name(n)).is_some());
        let needed = || nodes.keys().take(n_needed).copied().collect();
        if !self.facts.options.runs(Pass::MinCut) {
            return (needed(), divides);
        }
        let bytes = nodes.keys().map(|&v| type_of(self.facts, self.aux, v).bytes().into());
        let found: Vec<Val> = cheapest(bytes, n_needed, &leaves, &computed_from).into_iter().map(name).collect();
        if let Some(ends) = self.ends_of_chains(b, &found) {
            return (ends, divides);
        }
        let may_be_dear =
            self.facts.options.runs(Pass::CostModel) && nodes.len() - found.len() >= MANY_RECOMPUTED as usize;
        if may_be_dear && self.is_dear(b, needed(), &found) {
            return (needed(), divides);
        }
        (found, divides)
    }

    pub(super) fn bytes<'v>(&self, all: impl IntoIterator<Item = &'v Val>) -> u32 {
        all.into_iter().map(|&v| type_of(self.facts, self.aux, v).bytes()).sum()
    }

    /// Decide where a block gets everything from that it needs.
    fn block(&mut self, b: ir::Block) {
        let mut record = self.record(b);
        self.seen.clear();
        for &v in &record {
            self.seen.insert(v);
        }
        let all = self.needed[b].len();
        let mut sources = Vec::with_capacity(2 * all);
        sources.extend(record.iter().map(|&name| Supply { name, source: Source::Record, way: Way::Record }));
        for i in 0..all {
            self.source(b, self.needed[b][i], &mut sources);
        }
        // Wide fields first, so that nothing needs padding.
        record.sort_by_key(|&v| Reverse(type_of(self.facts, self.aux, v).bytes()));
        let p = &mut self.plan.blocks[b];
        p.sources = sources;
        p.record = record;
    }

    /// Where a block gets a name from, after the names that it is computed from.
    fn source(&mut self, b: ir::Block, v: Val, out: &mut Vec<Supply>) {
        if !self.seen.insert(v) {
            return;
        }
        let (way, source, operands) = self.choose(b, v);
        for o in operands {
            self.source(b, o, out);
        }
        out.push(Supply { name: v, source, way });
    }

    pub(super) fn slot(&mut self, b: ir::Block, v: Val) -> FrameSlot {
        let def = def_block(self.facts, v);
        let unrepeated = self.is_unrepeated(v);
        let known = if unrepeated { self.slots.get(v) } else { self.slots_in.get(&(v, b)).copied() };
        if let Some(s) = known {
            return s;
        }
        let s = if unrepeated && (self.stays(def) || self.is_given(v)) {
            self.variable()
        } else {
            self.alloc(type_of(self.facts, self.aux, v).bytes())
        };
        let keeper = if unrepeated {
            *self.slots.at(v) = Some(s);
            def
        } else {
            self.slots_in.insert((v, b), s);
            b
        };
        self.plan.blocks[keeper].keeps.push((s, v));
        s
    }

    /// Hold carried and hoisted names on the edges where they change.
    fn hold(&mut self, done: &mut (usize, usize)) {
        while done.0 < self.carried.len() || done.1 < self.hoisted.len() {
            if done.0 < self.carried.len() {
                let r = self.carried[done.0];
                done.0 += 1;
                self.hold_carried(r);
            } else {
                let (l, v) = self.hoisted[done.1];
                done.1 += 1;
                for (p, b) in self.loops.loops[l].exits.clone() {
                    if self.plan.returning.contains(b) {
                        self.add_hold(p, b, HeldUpdate { name: v, base: v, undo: vec![] });
                    }
                }
            }
        }
    }

    fn hold_carried(&mut self, r: ir::Value) {
        let facts = self.facts;
        let def = def_block(facts, Val::Primal(r));
        let name = Val::Primal(r);
        for p in self.carry.blocks(facts.cfg, r).collect::<SmallVec<[_; 8]>>() {
            for &b in &facts.cfg.succs[p] {
                if !self.plan.returning.contains(b) {
                    continue;
                }
                let (base, undo) = match self.carry.on_edge(r, def, p, b) {
                    Ok(None) => continue,
                    Ok(Some((q, undo))) => (Val::Primal(*q), undo.clone()),
                    Err(()) => (name, vec![]),
                };
                for u in &undo {
                    if let crate::plan::invert::StepOperand::Value(y) = u.other {
                        self.needed[b].insert(Val::Primal(y));
                    }
                }
                self.add_hold(p, b, HeldUpdate { name, base, undo });
            }
        }
    }

    fn add_hold(&mut self, p: ir::Block, b: ir::Block, hold: HeldUpdate) {
        self.needed[b].insert(hold.base);
        let holds = self.plan.holds.entry((p, b)).or_default();
        if !holds.contains(&hold) {
            holds.push(hold);
        }
    }

    pub(super) fn finish(mut self) -> Plan {
        let facts = self.facts;
        for (i, a) in self.plan.reruns.clone().into_iter().enumerate() {
            self.needed[a.entry].extend(a.outer);
            if a.by_iteration {
                let params = facts.func().dfg.block_params(a.header).iter();
                self.plan.reruns[i].next =
                    params.map(|&v| self.alloc(facts.func().dfg.value_type(v).bytes())).collect();
            }
        }
        for &b in facts.cfg.blocks.iter().filter(|b| self.plan.reversed(**b)).collect::<Vec<_>>() {
            for (n, inst) in facts.cfg.insts(b).iter().enumerate() {
                for v in self.stmts[inst].comms() {
                    self.needed[b].insert(v);
                    if self.rewind.is_some() {
                        self.read_at.insert((b, v), n as u32 + 1);
                    }
                }
            }
        }
        self.predecessors();
        let depth = |b: ir::Block| self.loops.innermost[b].map_or(0, |l| self.loops.loops[l].depth);
        let mut blocks: Vec<ir::Block> = facts.cfg.blocks.iter().copied().filter(|&b| self.plan.reversed(b)).collect();
        // Blocks outside of all cycles last.
        blocks.sort_by_key(|&b| (Reverse(depth(b)), self.plan.is_unrepeated(facts, b)));
        let mut done = (0, 0);
        let mut planned: SecondaryMap<ir::Block, Option<usize>> = one_each(facts.func().dfg.num_blocks());
        loop {
            for &b in &blocks {
                // What is needed only grows; a block is planned again if it has.
                let n = self.needed[b].len();
                if planned[b].replace(n) != Some(n) {
                    self.block(b);
                    self.hold(&mut done);
                }
            }
            if blocks.iter().all(|&b| planned[b] == Some(self.needed[b].len())) {
                break;
            }
        }
        self.frame();
        self.plan
    }

    fn frame(&mut self) {
        let layout = self.plan.frame.as_mut().expect("set by stack_slots");
        layout.home = self.home;
        layout.size = self.size.next_multiple_of(8);
        if layout.home == FrameHome::Stack && layout.size > MAX_ON_STACK {
            layout.home = FrameHome::Tape;
        }
        let has_slots = layout.slots.values().any(Option::is_some);
        let least = if layout.home == FrameHome::Variables { 0 } else { 8 };
        if self.size == least && self.variables == 0 && !has_slots {
            self.plan.frame = None;
        }
    }
}
