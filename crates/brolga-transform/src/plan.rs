//! What is recorded, and where.
//!
//! **Question.** The reverse fragments read names of the forward pass: primal values, deltas, what forward fragments hand
//! over. How does each get into each reverse block?
//!
//! **Answer.** Constants are made again. What was defined in a block that runs at most once per call has a slot in the
//! *activation frame*, at a fixed offset, whoever reads it. What a once-block reads of a loop is kept in the frame by that
//! block. Everything else is pushed on the tape by the block whose reverse reads it, as one record per execution (Mooncake's
//! comms stack). Of the values a block would push, those that pure and cheap arithmetic gives back from the others are
//! computed again, and if pushing the leaves of all their expressions is cheaper than pushing them, the leaves are pushed
//! instead (loop counters instead of addresses).
//!
//! The predecessor of a block with several is found the same way: in a frame slot if the block runs at most once, else as
//! the last bytes of the predecessor's record, where the reverse block looks before the predecessor's reverse pops it.
//!
//! **Invariants.** A record is pushed at the end of its block and popped at the start of the reverse of that block, so on
//! every path pops mirror pushes. A block pushes a number only if some successor in a loop has several predecessors.

use brolga_analysis::{Cfg, RootKind};
use brolga_ir::MemoryMode;
use brolga_ir::inst::{FrameSlot, Val};
use brolga_ir::lower::{FrameLayout, SlotPlace};
use brolga_rules::{cost, is_pure};
use cranelift_codegen::ir::{self, Opcode, Type, types};
use cranelift_entity::{EntitySet, SecondaryMap};
use indexmap::{IndexMap, IndexSet};

use crate::facts::Facts;
use crate::stmt::AdStmts;

/// How a name gets into a reverse block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Read from the activation frame.
    Frame(FrameSlot),
    /// Popped with the block's record.
    Record,
    /// Computed again by this primal instruction.
    Recompute(ir::Inst),
}

/// How the pullback finds the predecessor of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredSource {
    /// There is only one.
    Unique(ir::Block),
    /// In a frame slot.
    Frame(FrameSlot),
    /// On top of the tape.
    Tape,
}

/// The plan of one block.
#[derive(Clone, Debug, Default)]
pub struct BlockPlan {
    /// What the reverse block reads and where from, in an order in which it can be had.
    pub sources: Vec<(Val, Source)>,
    /// What the forward block pushes.
    pub record: Vec<Val>,
    /// Whether it pushes its number too.
    pub push_id: bool,
    /// What the forward block keeps in the frame at its end.
    pub keeps: Vec<(FrameSlot, Val)>,
    /// Frame slots in which it keeps its number.
    pub keep_ids: Vec<FrameSlot>,
}

/// The plan of a function.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// By block.
    pub blocks: SecondaryMap<ir::Block, BlockPlan>,
    /// Predecessors, for blocks that have any.
    pub preds: SecondaryMap<ir::Block, Option<PredSource>>,
    /// Frame slot of the number of the block that returned, if several can.
    pub exit: Option<FrameSlot>,
    /// The activation frame, if there is anything in it.
    pub frame: Option<FrameLayout>,
    /// Number of each block, as recorded.
    pub number: SecondaryMap<ir::Block, u32>,
    /// Bytes of a block number.
    pub id_bytes: u32,
    /// Blocks that may return.
    pub returning: EntitySet<ir::Block>,
    /// Blocks that do return.
    pub exits: Vec<ir::Block>,
}

/// Type of a recordable name.
pub fn type_of(facts: &Facts<'_>, aux: &IndexMap<Val, Type>, v: Val) -> Type {
    match v {
        Val::Primal(p) => facts.func().dfg.value_type(p),
        Val::Delta(_) => types::I64,
        Val::Aux(..) => aux[&v],
        Val::D(_) => unreachable!("derived values are local"),
    }
}

/// The block that defines a name in the forward pass.
fn def_block(facts: &Facts<'_>, v: Val) -> ir::Block {
    let entry = facts.cfg.blocks[0];
    match v {
        Val::Primal(p) => facts.cfg.def_block[p].expect("a primal value has a block"),
        Val::Delta(r) => match facts.pointers.roots.get(&r) {
            Some(RootKind::Param(_) | RootKind::Slot(_) | RootKind::Data(_)) => entry,
            _ => facts.cfg.def_block[r].expect("a root has a block"),
        },
        Val::Aux(inst, _) => facts.func().layout.inst_block(inst).expect("an instruction has a block"),
        Val::D(_) => unreachable!("derived values are local"),
    }
}

struct Planner<'a, 'f> {
    facts: &'a Facts<'f>,
    aux: &'a IndexMap<Val, Type>,
    plan: Plan,
    /// Frame slots of names, and of names as seen by one block.
    slots: IndexMap<(Val, Option<ir::Block>), FrameSlot>,
    size: u32,
}

/// Plan a function.
pub fn plan(facts: &Facts<'_>, stmts: &AdStmts, aux: &IndexMap<Val, Type>) -> Plan {
    let mut p = Planner { facts, aux, plan: Plan::default(), slots: IndexMap::new(), size: 8 };
    p.control_flow();
    p.stack_slots();
    for &b in &facts.cfg.blocks {
        if p.plan.returning.contains(b) {
            p.block(b, stmts);
        }
    }
    p.finish()
}

/// Operands of a pure primal value that is cheap to compute again.
fn operands(facts: &Facts<'_>, v: Val) -> Option<(ir::Inst, Vec<Val>)> {
    let Val::Primal(p) = v else { return None };
    let func = facts.func();
    let inst = func.dfg.value_def(p).inst()?;
    let op = func.dfg.insts[inst].opcode();
    if !is_pure(op) || cost(op) > 2 || func.dfg.inst_results(inst).len() != 1 || op == Opcode::FuncAddr {
        return None;
    }
    Some((inst, func.dfg.inst_args(inst).iter().map(|&a| Val::Primal(a)).collect()))
}

impl Planner<'_, '_> {
    fn cfg(&self) -> &Cfg {
        &self.facts.cfg
    }

    fn alloc(&mut self, bytes: u32) -> FrameSlot {
        let at = self.size.next_multiple_of(bytes.min(8));
        self.size = at + bytes;
        FrameSlot(at)
    }

    fn control_flow(&mut self) {
        let facts = self.facts;
        let func = facts.func();
        for (i, &b) in facts.cfg.blocks.iter().enumerate() {
            self.plan.number[b] = i as u32;
            let last = func.layout.last_inst(b).expect("a block has a terminator");
            if func.dfg.insts[last].opcode() == Opcode::Return {
                self.plan.exits.push(b);
            }
        }
        self.plan.id_bytes = match facts.cfg.blocks.len() {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 4,
        };
        let mut work = self.plan.exits.clone();
        while let Some(b) = work.pop() {
            if self.plan.returning.insert(b) {
                work.extend(&facts.cfg.preds[b]);
            }
        }
        let id_bytes = self.plan.id_bytes;
        if self.plan.exits.len() > 1 {
            let slot = self.alloc(id_bytes);
            self.plan.exit = Some(slot);
            for b in self.plan.exits.clone() {
                self.plan.blocks[b].keep_ids.push(slot);
            }
        }
        for &b in &facts.cfg.blocks {
            if !self.plan.returning.contains(b) {
                continue;
            }
            self.plan.preds[b] = match facts.cfg.preds[b].as_slice() {
                [] => None,
                [p] => Some(PredSource::Unique(*p)),
                preds if facts.cfg.once(b) => {
                    let slot = self.alloc(id_bytes);
                    for &p in preds {
                        self.plan.blocks[p].keep_ids.push(slot);
                    }
                    Some(PredSource::Frame(slot))
                }
                preds => {
                    for &p in preds {
                        self.plan.blocks[p].push_id = true;
                    }
                    Some(PredSource::Tape)
                }
            };
        }
    }

    fn stack_slots(&mut self) {
        let restore = self.facts.options.memory == MemoryMode::Restore;
        let func = self.facts.func();
        let mut layout = FrameLayout::default();
        for kind in self.facts.pointers.roots.values() {
            if let RootKind::Slot(slot) = kind {
                let size = func.sized_stack_slots[*slot].size.next_multiple_of(16);
                let align = 1_u32 << func.sized_stack_slots[*slot].align_shift.min(4);
                self.size = self.size.next_multiple_of(align.max(16));
                let shadow = self.size;
                self.size += size;
                let primal = restore.then_some(self.size);
                self.size += if restore { size } else { 0 };
                layout.slots[*slot] = Some(SlotPlace { shadow, primal, size });
            }
        }
        self.plan.frame = Some(layout);
    }

    /// Whether a value is made of constants alone, by little arithmetic.
    fn is_free(&self, v: Val) -> bool {
        fn go(facts: &Facts<'_>, v: Val, depth: u32) -> bool {
            depth < 6 && operands(facts, v).is_some_and(|(_, args)| args.iter().all(|&a| go(facts, a, depth + 1)))
        }
        go(self.facts, v, 0)
    }

    fn block(&mut self, b: ir::Block, stmts: &AdStmts) {
        let facts = self.facts;
        let mut needed: IndexSet<Val> = IndexSet::new();
        for inst in facts.func().layout.block_insts(b) {
            needed.extend(stmts[&inst].comms());
        }
        let once_here = facts.cfg.once(b);
        let framed = |v: Val| facts.cfg.once(def_block(facts, v));
        let mut pushed: IndexSet<Val> =
            needed.iter().copied().filter(|&v| !once_here && !framed(v) && !self.is_free(v)).collect();
        self.reduce(&mut pushed);
        let mut seen: IndexSet<Val> = IndexSet::new();
        let mut sources = Vec::new();
        for v in pushed.iter().copied() {
            seen.insert(v);
            sources.push((v, Source::Record));
        }
        let pushed_set = pushed.clone();
        for v in needed {
            self.source(b, v, &pushed_set, &mut seen, &mut sources);
        }
        let mut record: Vec<Val> = pushed.into_iter().collect();
        // Wide fields first, so that nothing needs padding.
        record.sort_by_key(|&v| std::cmp::Reverse(type_of(facts, self.aux, v).bytes()));
        let p = &mut self.plan.blocks[b];
        p.sources = sources;
        p.record = record;
    }

    /// Where a block gets a name from, after the names that it is computed from.
    fn source(
        &mut self,
        b: ir::Block,
        v: Val,
        pushed: &IndexSet<Val>,
        seen: &mut IndexSet<Val>,
        out: &mut Vec<(Val, Source)>,
    ) {
        if !seen.insert(v) {
            return;
        }
        let facts = self.facts;
        let recomputable = |s: &Self| {
            if pushed.contains(&v) {
                return None;
            }
            let (inst, args) = operands(facts, v)?;
            let framed = |v: Val| facts.cfg.once(b) || facts.cfg.once(def_block(facts, v));
            (s.is_free(v) || !framed(v)).then_some((inst, args))
        };
        if let Some((inst, args)) = recomputable(self) {
            for a in args {
                self.source(b, a, pushed, seen, out);
            }
            out.push((v, Source::Recompute(inst)));
            return;
        }
        let def = def_block(facts, v);
        let key = if facts.cfg.once(def) { (v, None) } else { (v, Some(b)) };
        let slot = match self.slots.get(&key) {
            Some(&s) => s,
            None => {
                let s = self.alloc(type_of(facts, self.aux, v).bytes());
                self.slots.insert(key, s);
                let keeper = if key.1.is_none() { def } else { b };
                self.plan.blocks[keeper].keeps.push((s, v));
                s
            }
        };
        out.push((v, Source::Frame(slot)));
    }

    /// Leave out what the rest gives back; push leaves instead where they are smaller.
    fn reduce(&self, pushed: &mut IndexSet<Val>) {
        let bytes = |set: &IndexSet<Val>| set.iter().map(|&v| type_of(self.facts, self.aux, v).bytes()).sum::<u32>();
        let drop_derived = |set: &mut IndexSet<Val>| {
            for v in set.clone().into_iter().rev() {
                let mut rest = set.clone();
                rest.shift_remove(&v);
                let mut leaves = IndexSet::new();
                if operands(self.facts, v).is_some() && self.leaves(v, &rest, &mut leaves, 0) && leaves.is_subset(&rest)
                {
                    *set = rest;
                }
            }
        };
        let mut leaves: IndexSet<Val> = IndexSet::new();
        let mut fits = true;
        for &v in pushed.iter() {
            fits &= self.leaves(v, &IndexSet::new(), &mut leaves, 0);
        }
        if pushed.len() <= 256 {
            drop_derived(pushed);
        }
        if fits && bytes(&leaves) < bytes(pushed) {
            *pushed = leaves;
        }
    }

    /// The names that `v` is computed from by cheap arithmetic, down to those in `stop`, in loops, or not to be computed
    /// again. False if the expression is too large.
    fn leaves(&self, v: Val, stop: &IndexSet<Val>, out: &mut IndexSet<Val>, depth: u32) -> bool {
        if depth > 12 || out.len() > 64 {
            return false;
        }
        if stop.contains(&v) {
            out.insert(v);
            return true;
        }
        // Once-blocks' values have frame slots: they cost the loop nothing.
        if self.is_free(v) || self.facts.cfg.once(def_block(self.facts, v)) {
            return true;
        }
        match operands(self.facts, v) {
            Some((_, args)) if !args.is_empty() => args.iter().all(|&a| self.leaves(a, stop, out, depth + 1)),
            _ => {
                out.insert(v);
                true
            }
        }
    }

    fn finish(mut self) -> Plan {
        let _ = self.cfg();
        let layout = self.plan.frame.as_mut().expect("set by stack_slots");
        layout.size = self.size.next_multiple_of(8);
        let has_slots = layout.slots.values().any(Option::is_some);
        if self.size == 8 && !has_slots {
            self.plan.frame = None;
        }
        self.plan
    }
}
