//! The planner: see [`super`] for what it decides.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use brolga_analysis::memory::clobber::ClobberInput;
use brolga_analysis::memory::reload_after_undo::Rewind;
use brolga_analysis::{LoopId, Loops, RootKind};
use brolga_ir::inst::{FrameSlot, Val};
use brolga_ir::lower::{FrameHome, FrameLayout, SlotPlace};
use brolga_ir::map::{HashMap, IndexMap, IndexSet, one_each};
use brolga_ir::{Effort, MemoryMode, Mode, Pass};
use brolga_rules::cost::{CHEAP, MANY_AGAIN, OF_ALL, cost};
use brolga_rules::is_pure;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, ValueDef, types};
use cranelift_codegen::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use super::invert::{Carry, CarryInput};
use super::min_cut::cheapest;
use super::val_set::{Free, NameSet, Needs};
use crate::facts::Facts;
use crate::plan::table::{Again, Hold, Last, Plan, Source, def_block, type_of};
use crate::primal::induction::{exit_test, induction, steps};
use crate::translate::stmt::AdStmts;
use crate::val_map::ByName;

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
/// Operands of an instruction.
type Operands = SmallVec<[Val; 3]>;

/// How far expressions are followed.
pub(super) const MAX_DEPTH: u32 = 64;

/// The instruction of each value that is cheap to have again.
fn cheap(facts: &Facts<'_>, combined: bool) -> SecondaryMap<ir::Value, PackedOption<ir::Inst>> {
    let dfg = &facts.func().dfg;
    let mut found = one_each(dfg.num_values());
    for &inst in facts.cfg.all_insts() {
        let op = dfg.insts[inst].opcode();
        let again = || {
            facts.reload.contains(inst)
                || is_pure(op) && cost(op) <= CHEAP && op != Opcode::FuncAddr
                || op == Opcode::StackAddr && combined
        };
        if let &[v] = dfg.inst_results(inst)
            && again()
        {
            found[v] = inst.into();
        }
    }
    found
}

/// Values of the primal by name.
fn operands(values: &[ir::Value]) -> Operands {
    values.iter().map(|&v| Val::Primal(v)).collect()
}

/// What is known of loads where every write is undone.
fn rewind<'a>(facts: &'a Facts<'_>) -> Rewind<'a> {
    let input = ClobberInput {
        program: facts.program,
        func: facts.func(),
        cfg: facts.cfg,
        noalias: &facts.variant.noalias,
        effects: facts.summaries.effects(),
        blocks: &facts.blocks,
    };
    Rewind::new(input, facts.summaries.rewinding())
}

pub struct Planner<'a, 'f> {
    pub(super) facts: &'a Facts<'f>,
    pub(super) stmts: &'a AdStmts,
    pub(super) loops: &'a Loops,
    pub(super) plan: Plan,
    pub(super) aux: &'a IndexMap<Val, Type>,
    carry: Carry,
    /// The instruction of each value that is cheap to have again: pure arithmetic, or memory that
    /// still holds it.
    again: SecondaryMap<ir::Value, PackedOption<ir::Inst>>,
    /// The names that the block that is being planned has already.
    seen: NameSet,
    /// Values that are known not to be made of constants alone.
    varies: RefCell<EntitySet<ir::Value>>,
    /// Names that the reverse of each block must have.
    pub(super) needed: SecondaryMap<ir::Block, Needs>,
    /// Where in each block the last statement stands whose reverse reads a name: see
    /// [`Rewind::again`]. Nothing for the start.
    read_at: HashMap<(ir::Block, Val), u32>,
    /// The same for the block that is being planned, and for all that may be computed on the way to
    /// what is read.
    had_at: HashMap<Val, u32>,
    /// Loads that can be done again once what was written since is undone, if everything is.
    rewind: Option<RefCell<Rewind<'a>>>,
    /// Carried parameters that somebody reads.
    carried: IndexSet<ir::Value>,
    /// Names that are held in a loop from behind it.
    hoisted: IndexSet<(LoopId, Val)>,
    /// Blocks whose reverses compute quotients again.
    divides: EntitySet<ir::Block>,
    /// What can be had for nothing in the block that is being planned.
    free: Free,
    /// Frame slots of names, and of names as seen by one block.
    slots: ByName<Option<FrameSlot>>,
    slots_in: HashMap<(Val, ir::Block), FrameSlot>,
    home: FrameHome,
    size: u32,
    /// Slots that are variables are only numbered.
    variables: u32,
}

impl<'a, 'f> Planner<'a, 'f> {
    pub fn new(facts: &'a Facts<'f>, stmts: &'a AdStmts, aux: &'a IndexMap<Val, Type>, again: Vec<Again>) -> Self {
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
        let at_once = options.memory == MemoryMode::Restore && options.mode != Mode::Split;
        let rewinds = at_once && options.runs(Pass::ReloadAfterUndo);
        let func = facts.func();
        let mut p = Planner {
            facts,
            again: cheap(facts, combined),
            seen: NameSet::new(func.dfg.num_values()),
            stmts,
            loops: facts.loops,
            plan: Plan { combined, again, ..Plan::default() },
            aux,
            carry: Carry::default(),
            varies: RefCell::default(),
            needed: one_each(func.dfg.num_blocks()),
            read_at: HashMap::default(),
            had_at: HashMap::default(),
            rewind: rewinds.then(|| RefCell::new(rewind(facts))),
            carried: IndexSet::default(),
            hoisted: IndexSet::default(),
            divides: EntitySet::new(),
            free: Free::new(func.dfg.num_values()),
            slots: ByName::new(func.dfg.num_values()),
            slots_in: HashMap::default(),
            home,
            size: if home == FrameHome::Variables { 0 } else { 8 },
            variables: 0,
        };
        for (i, a) in p.plan.again.iter().enumerate() {
            a.blocks.iter().for_each(|&b| p.plan.again_of[b] = Some(i));
        }
        p.stack_slots();
        p.returning();
        if facts.mode == Mode::Combined {
            for r in &facts.func().signature.returns {
                let slot = p.alloc(r.value_type.bytes());
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
    pub fn flag(&mut self) {
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
            layout.slots[slot] = Some(SlotPlace { shadow, primal, size, at_enter, at_turn: used });
        }
        self.plan.frame = Some(layout);
    }

    /// Operands of a primal value that is cheap to have again.
    fn operands(&self, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
        let Val::Primal(p) = v else { return None };
        let inst = self.again[p].expand()?;
        Some((inst, self.facts.func().dfg.inst_args(inst)))
    }

    /// A quotient of a block's own whose reverse divides by the same number, so that both are one
    /// division ([`brolga_clif::slp_divisions`]).
    fn quotient(&self, b: ir::Block, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
        let Val::Primal(p) = v else { return None };
        let func = self.facts.func();
        let inst = func.dfg.value_def(p).inst()?;
        let divides = func.dfg.insts[inst].opcode() == Opcode::Fdiv && self.facts.is_active(p);
        let scalar = matches!(func.dfg.value_type(p), types::F64 | types::F32);
        (divides && scalar && func.layout.inst_block(inst) == Some(b)).then(|| (inst, func.dfg.inst_args(inst)))
    }

    /// The same if the reverse of the block computes quotients again.
    fn divided(&self, b: ir::Block, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
        if self.divides.contains(b) { self.quotient(b, v) } else { None }
    }

    /// [`Self::operands`] in the reverse of a block, where memory may be again what it was.
    pub(super) fn operands_in(&self, b: ir::Block, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
        self.operands(v).or_else(|| self.divided(b, v)).or_else(|| {
            let at = *self.had_at.get(&v)?;
            let (inst, args) = self.load(v)?;
            self.rewind.as_ref()?.borrow_mut().again(inst, b, at).then_some((inst, args))
        })
    }

    /// A value that is loaded, with its address.
    fn load(&self, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
        let Val::Primal(p) = v else { return None };
        let func = self.facts.func();
        let inst = func.dfg.value_def(p).inst()?;
        let InstructionData::Load { .. } = func.dfg.insts[inst] else { return None };
        Some((inst, func.dfg.inst_args(inst)))
    }

    /// Find out when each name is had in the reverse of a block, at the earliest in the order of
    /// the pullback: with the last statement that may ask for it, be it through other names. A name
    /// that is not asked for in the end does no harm.
    fn when(&mut self, b: ir::Block) {
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
            let args = self.operands(v).or_else(|| self.divided(b, v)).or_else(|| self.load(v)).map(|x| operands(x.1));
            let args = args.or_else(|| Some(self.last_of(b, v)?.operands().map(Val::Primal).collect()));
            work.extend(args.into_iter().flatten().map(|a| (n, Reverse(a))));
        }
        self.had_at = at;
    }

    /// Whether a value is made of constants alone, by little arithmetic.
    fn is_constant(&self, v: Val) -> bool {
        fn go(p: &Planner<'_, '_>, v: Val, depth: u32) -> bool {
            let known = |v: ir::Value| p.varies.borrow().contains(v);
            depth < 6
                && !matches!(v, Val::Primal(v) if known(v))
                && p.operands(v).is_some_and(|(i, args)| {
                    !p.facts.reload.contains(i) && args.iter().all(|&a| go(p, Val::Primal(a), depth + 1))
                })
        }
        let found = go(self, v, 0);
        if let (false, Val::Primal(v)) = (found, v) {
            self.varies.borrow_mut().insert(v);
        }
        found
    }

    fn once(&self, v: Val) -> bool {
        self.plan.once(self.facts, def_block(self.facts, v))
    }

    /// The loop around `b`, but not around the definition of `v`, that is to hold `v`.
    fn holder(&self, b: ir::Block, v: Val) -> Option<LoopId> {
        if !self.facts.options.runs(Pass::HoistRecords) {
            return None;
        }
        let def = def_block(self.facts, v);
        let home = self.loops.innermost[def];
        let l = self.loops.around(b).find(|&l| self.loops.loops[l].parent == home)?;
        (!self.loops.contains(l, def) && self.loops.dominates(def, self.loops.loops[l].header)).then_some(l)
    }

    /// Whether a value is the same in all turns of the loop of `b`, and to be had there without a
    /// record.
    pub(super) fn steady(&self, b: ir::Block, v: Val) -> bool {
        self.is_constant(v) || self.once(v) || self.holder(b, v).is_some()
    }

    pub(super) fn is_carried(&self, b: ir::Block, v: Val) -> bool {
        matches!(v, Val::Primal(p) if self.carry.known(b, p))
    }

    /// An induction variable at the exit of its loop.
    fn last(&mut self, b: ir::Block, v: Val, depth: u32) -> Option<Last> {
        let last = self.last_of(b, v)?;
        last.operands().all(|o| self.free_within(b, Val::Primal(o), depth + 1)).then_some(last)
    }

    /// The same if what it follows from is to be had.
    fn last_of(&self, b: ir::Block, v: Val) -> Option<Last> {
        let func = self.facts.func();
        let Val::Primal(p) = v else { return None };
        if !self.facts.options.runs(Pass::FinalValues) {
            return None;
        }
        let ValueDef::Param(header, i) = func.dfg.value_def(p) else { return None };
        let l = self.loops.headed_by(header).filter(|&l| !self.loops.contains(l, b))?;
        let (from, to) = self.left_by(l, b)?;
        self.compared(l, i, from, to).or_else(|| {
            let of = steps(func, &self.loops.loops[l], i)?;
            let others = (0..func.dfg.block_params(header).len()).filter(|&j| j != i);
            others.into_iter().find_map(|j| self.compared(l, j, from, to)?.with(func, of))
        })
    }

    /// The edge by which a loop was left before a block began.
    fn left_by(&self, l: LoopId, b: ir::Block) -> Option<(ir::Block, ir::Block)> {
        if let Some(from) = self.exit_of(l, b) {
            return Some((from, b));
        }
        let mut exits = self.loops.loops[l].exits.iter().filter(|e| self.plan.returning.contains(e.1));
        match (exits.next(), exits.next()) {
            (Some(&exit), None) if !self.plan.once(self.facts, b) => Some(exit),
            _ => None,
        }
    }

    /// The block of a loop from which alone another one, outside, is entered.
    fn exit_of(&self, l: LoopId, b: ir::Block) -> Option<ir::Block> {
        match self.facts.cfg.preds[b][..] {
            [from] if self.loops.contains(l, from) && !self.loops.contains(l, b) => Some(from),
            _ => None,
        }
    }

    /// Whether a block is entered where a value's loop ends. Farther behind there may be a variable
    /// that holds it.
    fn is_exit(&self, b: ir::Block, v: Val) -> bool {
        self.loops.headed_by(def_block(self.facts, v)).is_some_and(|l| self.exit_of(l, b).is_some())
    }

    /// A parameter of a loop's header where the loop was left, if it was compared there.
    fn compared(&self, l: LoopId, i: usize, from: ir::Block, to: ir::Block) -> Option<Last> {
        let func = self.facts.func();
        let iv = induction(func, self.loops, l, i)?;
        let test = exit_test(func, self.loops, l, &iv, from, to)?;
        let far = match test.cc {
            IntCC::Equal => None,
            // Every turn must have made the test for the bound to be where it first failed.
            _ if !self.loops.dominates(from, self.loops.loops[l].latches[0]) => return None,
            IntCC::UnsignedGreaterThanOrEqual => Some(Opcode::Umax),
            IntCC::SignedGreaterThanOrEqual => Some(Opcode::Smax),
            IntCC::UnsignedLessThanOrEqual => Some(Opcode::Umin),
            _ => Some(Opcode::Smin),
        };
        Some(Last { of: None, iv, bound: test.bound, of_next: test.of_next, far })
    }

    /// Whether a block's reverse can have a value without a record.
    pub(super) fn is_free(&mut self, b: ir::Block, v: Val) -> bool {
        self.free_within(b, v, 0)
    }

    fn free_within(&mut self, b: ir::Block, v: Val, depth: u32) -> bool {
        if let Some(f) = self.free.get(b, v) {
            return f;
        }
        let direct = self.steady(b, v)
            || self.plan.once(self.facts, b)
            || self.is_carried(b, v)
            || depth < MAX_DEPTH && self.last(b, v, depth).is_some();
        let f = direct
            || depth < MAX_DEPTH
                && self
                    .operands_in(b, v)
                    .is_some_and(|(_, args)| args.iter().all(|&a| self.free_within(b, Val::Primal(a), depth + 1)));
        // A "no" that is owed to the depth alone is not remembered.
        if f || depth == 0 {
            self.free.set(b, v, f);
        }
        f
    }

    /// The values that a block pushes. Whether it computes quotients again is decided here: if the
    /// record gets so much shorter by that.
    fn record(&mut self, b: ir::Block) -> Vec<Val> {
        self.divides.remove(b);
        self.free.forget();
        let (recorded, divides) = self.record_as_it_is(b);
        if !self.facts.options.runs(Pass::SlpDivisions) || !divides {
            return recorded;
        }
        let before = self.bytes(&recorded);
        self.divides.insert(b);
        self.free.forget();
        let (fewer, _) = self.record_as_it_is(b);
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
        self.when(b);
        recorded
    }

    /// What a block pushes as it stands, and whether a quotient of its own is among what it cannot
    /// compute.
    fn record_as_it_is(&mut self, b: ir::Block) -> (Vec<Val>, bool) {
        self.when(b);
        if self.plan.once(self.facts, b) {
            // All of it is free.
            return Default::default();
        }
        // What is needed comes first, and behind it what may be recorded instead: each with how far
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
        let may_be_dear = self.facts.options.runs(Pass::CostModel) && nodes.len() - found.len() >= MANY_AGAIN as usize;
        if may_be_dear && self.is_dear(b, needed(), &found) {
            return (needed(), divides);
        }
        (found, divides)
    }

    pub(super) fn bytes<'v>(&self, all: impl IntoIterator<Item = &'v Val>) -> u32 {
        all.into_iter().map(|&v| type_of(self.facts, self.aux, v).bytes()).sum()
    }

    /// What the reverse of a block can compute a name from, if it does not record that.
    pub(super) fn made_of(&self, b: ir::Block, v: Val) -> Option<Operands> {
        let args = self.operands_in(b, v).map(|x| operands(x.1));
        args.or_else(|| Some(self.last_of(b, v)?.operands().map(Val::Primal).collect()))
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
        sources.extend(record.iter().map(|&v| (v, Source::Record)));
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
    fn source(&mut self, b: ir::Block, v: Val, out: &mut Vec<(Val, Source)>) {
        if !self.seen.insert(v) {
            return;
        }
        let source = self.choose(b, v);
        match source {
            Source::Recompute(_) => {
                let (_, args) = self.operands_in(b, v).expect("it can be computed");
                for &a in args {
                    self.source(b, Val::Primal(a), out);
                }
            }
            Source::Last(last) => {
                for o in last.operands() {
                    self.source(b, Val::Primal(o), out);
                }
            }
            Source::Frame(_) | Source::Record | Source::Held => {}
        }
        out.push((v, source));
    }

    fn choose(&mut self, b: ir::Block, v: Val) -> Source {
        if self.is_constant(v) {
            let (inst, _) = self.operands(v).expect("constants are computed");
            return Source::Recompute(inst);
        }
        if self.once(v) {
            // On the tape it would be read again in each turn.
            if self.home == FrameHome::Tape
                && let Some(l) = self.holder(b, v)
            {
                self.hoisted.insert((l, v));
                return Source::Held;
            }
            return self.at_hand(b, v).map_or_else(|| Source::Frame(self.slot(b, v)), Source::Recompute);
        }
        let last = self.last(b, v, 0);
        if let Some(last) = last.filter(|_| self.is_exit(b, v)) {
            return Source::Last(last);
        }
        if self.plan.once(self.facts, b) {
            return Source::Frame(self.slot(b, v));
        }
        if let (true, Val::Primal(p)) = (self.is_carried(b, v), v) {
            self.carried.insert(p);
            return Source::Held;
        }
        if let Some(l) = self.holder(b, v) {
            self.hoisted.insert((l, v));
            return Source::Held;
        }
        match self.operands_in(b, v) {
            Some((inst, _)) if last.is_none() => Source::Recompute(inst),
            _ => Source::Last(self.last_of(b, v).expect("what is neither free nor recorded is computed from what is")),
        }
    }

    /// What computes a value from others that the reverse of the block has by now anyway. To keep
    /// it takes two instructions on the stack, and a parameter of each join on the way to the end
    /// where it is not on all ways; this takes one, which is what counts with little effort.
    fn at_hand(&self, b: ir::Block, v: Val) -> Option<ir::Inst> {
        let def = def_block(self.facts, v);
        let costs = || match self.home {
            FrameHome::Tape => false,
            FrameHome::Stack => true,
            FrameHome::Variables => !self.plan.exits.iter().all(|&e| self.loops.dominates(def, e)),
        };
        if self.facts.options.effort != Effort::Quick || !self.plan.once(self.facts, b) || !costs() {
            return None;
        }
        let (inst, args) = self.operands(v)?;
        // Not a whole chain: it would be had as a whole, and be alive to its end.
        let dfg = &self.facts.func().dfg;
        let is_made_here =
            |a| dfg.value_def(a).inst().is_some_and(|i| self.facts.func().layout.inst_block(i) == Some(b));
        let has =
            |&a: &ir::Value| self.is_constant(Val::Primal(a)) || self.seen.contains(Val::Primal(a)) && !is_made_here(a);
        args.iter().all(has).then_some(inst)
    }

    fn slot(&mut self, b: ir::Block, v: Val) -> FrameSlot {
        let def = def_block(self.facts, v);
        let once = self.once(v);
        let known = if once { self.slots.get(v) } else { self.slots_in.get(&(v, b)).copied() };
        if let Some(s) = known {
            return s;
        }
        let s = if once && (self.stays(def) || self.is_given(v)) {
            self.variable()
        } else {
            self.alloc(type_of(self.facts, self.aux, v).bytes())
        };
        let keeper = if once {
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
                        self.add_hold(p, b, Hold { name: v, base: v, undo: vec![] });
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
                    if let crate::plan::invert::Other::Value(y) = u.other {
                        self.needed[b].insert(Val::Primal(y));
                    }
                }
                self.add_hold(p, b, Hold { name, base, undo });
            }
        }
    }

    fn add_hold(&mut self, p: ir::Block, b: ir::Block, hold: Hold) {
        self.needed[b].insert(hold.base);
        let holds = self.plan.holds.entry((p, b)).or_default();
        if !holds.contains(&hold) {
            holds.push(hold);
        }
    }

    pub fn finish(mut self) -> Plan {
        let facts = self.facts;
        for (i, a) in self.plan.again.clone().into_iter().enumerate() {
            self.needed[a.entry].extend(a.outer);
            if a.turns {
                let params = facts.func().dfg.block_params(a.header).iter();
                self.plan.again[i].next = params.map(|&v| self.alloc(facts.func().dfg.value_type(v).bytes())).collect();
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
        blocks.sort_by_key(|&b| (Reverse(depth(b)), self.plan.once(facts, b)));
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
