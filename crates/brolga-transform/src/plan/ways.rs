//! Record or recompute: ways to have a name in a reverse block (frame, record, rematerialisation,
//! inversion, reload). One list, in order of preference, that recording, choosing and explaining
//! read.
//!
//! **Question.** Recording asks which names need no record, choosing asks where each name comes
//! from, and `explain` asks why.
//!
//! **Answer.** [`Way::LIST`] is read by all three. [`Planner::offer`] is what a way has for a name,
//! if anything. A name is *free* ([`Planner::is_free`]) if a way has it without a record. Of a name
//! that is neither free nor recorded, the minimum cut has recorded what it is computed from. The
//! plan takes the first way of the list ([`Planner::choose`]) and keeps it, so that
//! [`super::remarks`] needs no conditions.
//!
//! **Invariant.** Each way gives the same value, bit for bit.
//!
//! **Cost.** Names that are free are remembered for the block that is being planned.

use brolga_analysis::LoopId;
use brolga_ir::inst::Val;
use brolga_ir::lower::FrameHome;
use brolga_ir::{Effort, Pass};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef, types};

use super::offers::{MAX_DEPTH, Offer, Operands};
use super::planner::Planner;
use crate::plan::table::{ExitValue, Source, Way, def_block};
use crate::primal::induction::{exit_test, induction, steps};

impl<'f> Planner<'_, 'f> {
    /// What a way has for a name in the reverse of a block.
    fn offer(&self, way: Way, b: ir::Block, v: Val) -> Option<Offer<'f>> {
        let computed = |(inst, args)| Offer::Computed(inst, args);
        let reload = |inst: ir::Inst| self.facts.reload.contains(inst);
        match way {
            Way::Constant => self.is_constant(v).then(|| self.operands(v)).flatten().map(computed),
            // On the tape it would be read in each iteration.
            Way::HeldFromTape if self.home == FrameHome::Tape && self.is_unrepeated(v) => {
                self.holder(b, v).map(Offer::Held)
            }
            Way::FromAvailableOperands if self.is_unrepeated(v) => self.available_operands(b, v).map(computed),
            Way::Frame => self.is_unrepeated(v).then_some(Offer::Frame),
            Way::FinalAtExit if self.is_exit(b, v) => self.last_of(b, v).map(Offer::Final),
            Way::FrameOfReader => self.plan.is_unrepeated(self.facts, b).then_some(Offer::Frame),
            Way::Inverted => self.is_carried(b, v).then_some(Offer::Inverted),
            Way::Held => self.holder(b, v).map(Offer::Held),
            Way::Final => self.last_of(b, v).map(Offer::Final),
            Way::Reload => self.operands(v).filter(|x| reload(x.0)).map(computed),
            Way::Recompute => self.operands(v).filter(|x| !reload(x.0)).map(computed),
            Way::Quotient => self.divided(b, v).map(computed),
            Way::ReloadAfterUndo => self.load_after_undo(b, v),
            Way::HeldFromTape | Way::FromAvailableOperands | Way::FinalAtExit | Way::Record => None,
        }
    }

    /// Whether a block's reverse can have a name without a record.
    pub(super) fn is_free(&mut self, b: ir::Block, v: Val) -> bool {
        self.free_within(b, v, 0)
    }

    fn free_within(&mut self, b: ir::Block, v: Val, depth: u32) -> bool {
        if let Some(f) = self.free.get(b, v) {
            return f;
        }
        let f = Way::LIST.into_iter().any(|way| self.is_open(way, b, v, depth).is_some());
        // A "no" that is owed to the depth alone is not remembered.
        if f || depth == 0 {
            self.free.set(b, v, f);
        }
        f
    }

    /// What a way has for a name, if what that takes is free as well.
    fn is_open(&mut self, way: Way, b: ir::Block, v: Val, depth: u32) -> Option<Offer<'f>> {
        if way.computes() && depth >= MAX_DEPTH {
            return None;
        }
        let offer = self.offer(way, b, v)?;
        let open = !way.computes() || offer.operands().into_iter().all(|a| self.free_within(b, a, depth + 1));
        open.then_some(offer)
    }

    /// From what the reverse of a block can compute a name, if it does not record that.
    pub(super) fn computed(&self, b: ir::Block, v: Val) -> Option<Offer<'f>> {
        Way::LIST.into_iter().filter(|way| way.computes()).find_map(|way| self.offer(way, b, v))
    }

    /// The same: the names.
    pub(super) fn made_of(&self, b: ir::Block, v: Val) -> Option<Operands> {
        Some(self.computed(b, v)?.operands())
    }

    /// Whether a block has a name without a record and without computing it in each iteration.
    pub(super) fn is_available(&self, b: ir::Block, v: Val) -> bool {
        Way::LIST.into_iter().any(|way| !way.computes() && self.offer(way, b, v).is_some())
    }

    /// Whether a value is the same in all iterations of the loop of `b`, and to be had there
    /// without a record.
    pub(super) fn steady(&self, b: ir::Block, v: Val) -> bool {
        [Way::Constant, Way::Frame, Way::Held].into_iter().any(|way| self.offer(way, b, v).is_some())
    }

    /// Where a block gets a name from that it does not record: the first way that needs no record,
    /// else the first from what is recorded.
    pub(super) fn choose(&mut self, b: ir::Block, v: Val) -> (Way, Source, Operands) {
        let free = Way::LIST.into_iter().find_map(|way| Some((way, self.is_open(way, b, v, 0)?)));
        let (way, offer) = free.unwrap_or_else(|| {
            let computes = Way::LIST.into_iter().filter(|way| way.computes());
            let mut found = computes.filter_map(|way| Some((way, self.offer(way, b, v)?)));
            found.next().expect("what is neither free nor recorded is computed from what is")
        });
        let operands = offer.operands();
        let source = match offer {
            Offer::Frame => Source::Frame(self.slot(b, v)),
            Offer::Computed(inst, _) => Source::Recompute(inst),
            Offer::Final(last) => Source::Last(last),
            Offer::Inverted => {
                let Val::Primal(p) = v else { unreachable!("integers of the primal are inverted") };
                self.carried.insert(p);
                Source::Held
            }
            Offer::Held(l) => {
                self.hoisted.insert((l, v));
                Source::Held
            }
        };
        (way, source, operands)
    }

    /// A primal value that the reverse half can compute, and what from.
    fn operands(&self, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
        let Val::Primal(p) = v else { return None };
        let inst = self.computable[p].expand()?;
        Some((inst, self.facts.func().dfg.inst_args(inst)))
    }

    /// A quotient of a block's own whose reverse divides by the same number, so that both are one
    /// division ([`brolga_clif::slp_divisions`]).
    pub(super) fn quotient(&self, b: ir::Block, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
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

    /// A value that is loaded, with its address.
    pub(super) fn load(&self, v: Val) -> Option<Offer<'f>> {
        let Val::Primal(p) = v else { return None };
        let func = self.facts.func();
        let inst = func.dfg.value_def(p).inst()?;
        let InstructionData::Load { .. } = func.dfg.insts[inst] else { return None };
        Some(Offer::Computed(inst, func.dfg.inst_args(inst)))
    }

    /// A load that gives the same once what was written since is undone.
    fn load_after_undo(&self, b: ir::Block, v: Val) -> Option<Offer<'f>> {
        let at = *self.available_at.get(&v)?;
        let offer = self.load(v)?;
        let Offer::Computed(inst, _) = offer else { return None };
        self.rewind.as_ref()?.borrow_mut().reloads(inst, b, at).then_some(offer)
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

    pub(super) fn is_unrepeated(&self, v: Val) -> bool {
        self.plan.is_unrepeated(self.facts, def_block(self.facts, v))
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

    fn is_carried(&self, b: ir::Block, v: Val) -> bool {
        matches!(v, Val::Primal(p) if self.carry.known(b, p))
    }

    /// An induction variable at the exit of its loop.
    fn last_of(&self, b: ir::Block, v: Val) -> Option<ExitValue> {
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
            (Some(&exit), None) if !self.plan.is_unrepeated(self.facts, b) => Some(exit),
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

    /// Whether a block is entered where a value's loop ends. Farther on there may be a variable
    /// that holds it.
    fn is_exit(&self, b: ir::Block, v: Val) -> bool {
        self.loops.headed_by(def_block(self.facts, v)).is_some_and(|l| self.exit_of(l, b).is_some())
    }

    /// A parameter of a loop's header where the loop was left, if it was compared there.
    fn compared(&self, l: LoopId, i: usize, from: ir::Block, to: ir::Block) -> Option<ExitValue> {
        let func = self.facts.func();
        let iv = induction(func, self.loops, l, i)?;
        let test = exit_test(func, self.loops, l, &iv, from, to)?;
        let far = match test.cc {
            IntCC::Equal => None,
            // Every iteration must have made the test for the bound to be where it first failed.
            _ if !self.loops.dominates(from, self.loops.loops[l].latches[0]) => return None,
            IntCC::UnsignedGreaterThanOrEqual => Some(Opcode::Umax),
            IntCC::SignedGreaterThanOrEqual => Some(Opcode::Smax),
            IntCC::UnsignedLessThanOrEqual => Some(Opcode::Umin),
            _ => Some(Opcode::Smin),
        };
        Some(ExitValue { of: None, iv, bound: test.bound, of_next: test.of_next, far })
    }

    /// What computes a value from others that the reverse of the block has by now anyway. To keep
    /// it takes two instructions on the stack, and a parameter of each join on the way to the end
    /// where it is not on all ways; this takes one, which is what counts with little effort.
    fn available_operands(&self, b: ir::Block, v: Val) -> Option<(ir::Inst, &'f [ir::Value])> {
        let def = def_block(self.facts, v);
        let costs = || match self.home {
            FrameHome::Tape => false,
            FrameHome::Stack => true,
            FrameHome::Variables => !self.plan.exits.iter().all(|&e| self.loops.dominates(def, e)),
        };
        if self.facts.options.effort != Effort::Quick || !self.plan.is_unrepeated(self.facts, b) || !costs() {
            return None;
        }
        let (inst, args) = self.operands(v)?;
        // Not a whole chain: it would be had as a whole, and be alive to its end.
        let dfg = &self.facts.func().dfg;
        let is_made_here =
            |a| dfg.value_def(a).inst().is_some_and(|i| self.facts.func().layout.inst_block(i) == Some(b));
        let has =
            |&a: &ir::Value| self.is_constant(Val::Primal(a)) || self.seen.contains(Val::Primal(a)) && !is_made_here(a);
        args.iter().all(has).then_some((inst, args))
    }
}
