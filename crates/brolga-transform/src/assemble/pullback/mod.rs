//! The pullback graph: the reverse of each block, in the reverse of the order in which they ran.
//!
//! **Question.** Statements have reverses. In which order do those of a whole function run, and
//! where are cotangents meanwhile?
//!
//! **Answer.** A block for the reverse of each block, and one for the reverse of each edge:
//!
//! ```text
//! entry        find the frame; go to the reverse of the block that returned
//! reverse of B pop B's record, restore what is read, reverse fragments last statement first,
//!              take the cotangents of B's parameters, all of them at once, go to the edge by which B was entered
//! edge P -> B  the cotangents of B's parameters go to P's branch arguments; go to the reverse of P. If P leads nowhere else, that begins so
//! exit         return the cotangents of the arguments
//! ```
//!
//! **Where cotangents are.** A value's cotangent lives in one frontend variable, and means
//! something exactly where the value is live ([`Liveness`]): at the start of the reverse of B for
//! the values live out of B. On the edge P → B, a value that is live out of P but not live into B
//! (it was needed on another path, or is only an argument of this branch) becomes zero before the
//! arguments receive theirs; at the start of the reverse of B, a value that is used in B but not
//! live out of it is zero. So no cotangent survives from one iteration to another by accident, and
//! block parameters have instantaneous semantics.
//!
//! **Cost.** One walk over the statements, and for each edge a look at what is live on it.
//!
//! **Source.** Mooncake.jl: a reverse block for each block, and block parameters with instantaneous
//! semantics.

use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Term};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, Check, Defs, FrameSlot, Shape, Val};
use brolga_ir::map::{IndexMap, Table};
use brolga_ir::verify::GraphKind;
use brolga_ir::{BlockId, Diagnostics, InstId};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, Type, types};

use crate::facts::Facts;
use crate::plan::liveness::{Liveness, active_args, unfollowed};
use crate::plan::predecessors::ways;
use crate::plan::table::{HeldUpdate, Plan, PredSource, type_of};
use crate::shadow::contract_array;
use crate::translate::convert::fitted;
use crate::translate::stmt::StmtSource;
use crate::val_map::ValMap;
use crate::verified;
use builder::{Builder, Converter, HeldValues, PendingReads, RerunBlocks, to};

/// The pullback graph with the names of its parameters.
pub(crate) struct PullbackGraph {
    /// The graph.
    pub graph: CfgBlocks,
    /// The segment.
    pub seg: Val,
    /// Reverse block of each primal block.
    pub reverse_of: Table<ir::Block, BlockId>,
}

/// The pullbacks of one plan.
pub(crate) struct Pullbacks {
    /// The one that is right for all runs.
    pub guarded: PullbackGraph,
    /// One without guards, for runs in which all that is watched is as it should be
    /// ([`crate::guards::versioning`]).
    pub free: Option<PullbackGraph>,
    /// What comes before the first where there is a choice: it clears what that is going to add to
    /// ([`crate::shadow::monotone_rows`]).
    pub clearing: Option<PullbackGraph>,
}

impl Pullbacks {
    /// Look at them, beside their forward pass.
    ///
    /// # Errors
    /// The rules that they break: a bug of ours.
    pub(crate) fn verify(&self, forward: &CfgBlocks, facts: &Facts<'_>, plan: &Plan) -> Result<(), Diagnostics> {
        let Self { guarded, free, clearing } = self;
        verified::pair("assemble", forward, &guarded.graph, facts, plan)?;
        if let Some(free) = free {
            verified::pullback_of("assemble (without guards)", forward, &free.graph, facts, plan)?;
        }
        match clearing {
            Some(clearing) => verified::graph("assemble (clearing)", GraphKind::Clearing, &clearing.graph, facts, plan),
            None => Ok(()),
        }
    }
}

mod builder;
mod rerun;

/// What all pullbacks of one plan are assembled from.
pub(crate) struct PullbackParts<'a, 'f> {
    /// The facts.
    pub facts: &'a Facts<'f>,
    /// Where cotangents live.
    pub live: &'a Liveness,
    /// The plan.
    pub plan: &'a Plan,
    /// Types of [`Val::Aux`].
    pub aux: &'a IndexMap<Val, Type>,
    /// The cotangent of each result that is a parameter of the pullback.
    pub seeds: &'a [Option<Val>],
    /// The segment.
    pub seg: Val,
    /// The symbol.
    pub symbol: &'a str,
}

/// Assemble a pullback.
pub(crate) fn pullback(parts: &PullbackParts<'_, '_>, stmts: StmtSource<'_>, ids: &mut Ids) -> PullbackGraph {
    let &PullbackParts { facts, live, plan, aux, seeds, seg, symbol } = parts;
    let entry = ids.block();
    // Reverse order, so that the text reads in the order in which the pullback runs.
    let reverse_of: Table<ir::Block, BlockId> =
        facts.cfg.blocks.iter().rev().filter(|&&b| plan.returning.contains(b)).map(|&b| (b, ids.block())).collect();
    let exit = ids.block();
    let rerun = plan.reruns.iter().map(|a| (a.header, RerunBlocks::new(a, &reverse_of, ids))).collect();
    let (blocks, heads) = (Table::with_capacity(2 * reverse_of.len() + 2, ids.blocks()), Table::default());
    let notes = ValMap::default();
    let mut b = Builder { facts, stmts, plan, aux, live, ids, reverse_of, rerun, exit, blocks, heads, notes };
    b.entry(entry, seg, seeds);
    for block in b.reverse_of.keys().copied().collect::<Vec<_>>() {
        if let Some(a) = plan.rerun(block) {
            if a.blocks.last() == Some(&block) {
                b.rerun(a);
            }
            if block == a.header && a.by_iteration {
                b.next_iteration(a);
            }
        }
        if b.is_reversed(block) {
            b.reverse(block);
        }
    }
    assert!(b.heads.values().all(Fragment::is_empty), "what happens on an edge is part of a block");
    b.exit_block();
    let signature = facts.variant.pullback_signature(&facts.func().signature);
    let graph = CfgBlocks { symbol: symbol.to_owned(), signature, blocks: b.blocks };
    PullbackGraph { graph, seg, reverse_of: b.reverse_of }
}

/// One pullback of two with the same parameters: the first if the flag that the forward pass has
/// left is set.
pub(crate) fn either(guarded: PullbackGraph, free: PullbackGraph, flag: FrameSlot, ids: &mut Ids) -> PullbackGraph {
    let PullbackGraph { graph: mut merged, seg, reverse_of } = guarded;
    let (old, new) = (merged.entry(), ids.block());
    let mut others = free.graph.blocks;
    let free_entry = *others.keys().next().expect("a graph has an entry");
    let opens = merged.blocks[&old].insts.iter().find(|i| i.1.op == AdOp::OpenFrame).map(|(id, i)| (*id, i.clone()));
    let mut entry = CfgBlock { id: new, insts: opens.into_iter().collect(), ..merged.blocks[&old].clone() };
    let d = Val::D(ids.dv());
    entry.insts.insert(ids.inst(), AdInst { defs: [(d, types::I8)].into(), op: AdOp::Restore(flag), at: None });
    entry.term = Term::If(d, to(old), to(free_entry));
    for way in [&mut merged.blocks[&old], &mut others[&free_entry]] {
        way.params.clear();
        way.insts.retain(|_, i| i.op != AdOp::OpenFrame);
    }
    merged.make_cold();
    let mut blocks: Table<BlockId, CfgBlock> = Table::default();
    blocks.insert(new, entry);
    blocks.extend(std::mem::take(&mut merged.blocks));
    blocks.extend(others);
    merged.blocks = blocks;
    PullbackGraph { graph: merged, seg, reverse_of }
}

impl Builder<'_, '_> {
    fn entry(&mut self, id: BlockId, seg: Val, seeds: &[Option<Val>]) {
        let mut params = vec![(seg, types::I64)];
        for (i, shape) in self.facts.variant.result_shapes(&self.facts.func().signature) {
            params.push((seeds[i].expect("a result with a shape has a seed"), shape.ty()));
        }
        let mut f = Fragment::default();
        self.add(&mut f, Defs::default(), AdOp::OpenFrame, None);
        let exits = &self.plan.exits;
        let term = match (self.plan.exit, exits.as_slice()) {
            (_, []) => Term::Jump(to(self.exit)),
            (None, exits) => Term::Jump(to(self.reverse_of[&exits[0]])),
            (Some(slot), exits) => {
                let cases = exits.iter().map(|&b| (self.plan.number[b], self.reverse_of[&b])).collect();
                let d = Val::D(self.ids.dv());
                self.add(&mut f, [(d, types::I32)].into(), AdOp::RestoreBlock(slot), None);
                Term::Switch(d, cases)
            }
        };
        self.finish(id, Role::Entry, params, f, term, None);
    }

    /// An instruction of a reverse, with what it reads before it.
    fn reversed(&mut self, f: &mut Fragment, waiting: &mut PendingReads<'_>, id: InstId, inst: AdInst) {
        inst.each_read(|v| self.have(f, v, waiting, inst.at));
        f.insert(id, inst);
    }

    /// The reverses of a block's statements, the last one first.
    fn reverse_statements(&mut self, f: &mut Fragment, waiting: &mut PendingReads<'_>, insts: &[ir::Inst]) {
        for inst in insts.iter().rev() {
            match &mut self.stmts {
                StmtSource::Lent(stmts) => {
                    let stmts = *stmts;
                    stmts[inst].rvs.iter().for_each(|(&id, i)| self.reversed(f, waiting, id, i.clone()));
                }
                StmtSource::Spent(stmts) => {
                    let stmt = stmts.get_mut(inst).expect("every instruction is a statement");
                    let rvs = std::mem::take(&mut stmt.rvs);
                    rvs.into_iter().for_each(|(id, i)| self.reversed(f, waiting, id, i));
                }
            }
        }
    }

    /// Take the cotangents of a block's parameters: all of them before any argument receives one.
    fn take_params(&mut self, f: &mut Fragment, b: ir::Block) -> IndexMap<ir::Value, Val> {
        let facts = self.facts;
        let first = facts.cfg.insts(b).first().copied();
        let mut taken: IndexMap<ir::Value, Val> = IndexMap::default();
        for &p in facts.func().dfg.block_params(b) {
            if let Some(shape) = facts.activity.ct[p] {
                let d = Val::D(self.ids.dv());
                self.add(f, [(d, shape.ty())].into(), AdOp::TakeCt(p), first);
                taken.insert(p, d);
            }
        }
        taken
    }

    /// The reverse of a block.
    fn reverse(&mut self, b: ir::Block) {
        let facts = self.facts;
        let func = facts.func();
        let plan = &self.plan.blocks[b];
        let last = func.layout.last_inst(b);
        let live = self.live;
        let insts = facts.cfg.insts(b);
        // All of it at once: a long block should not move.
        let params = func.dfg.block_params(b).len();
        let reverse = insts.iter().map(|i| self.stmts.all()[i].rvs.len()).sum::<usize>();
        let touched = live.touched[b].iter().count();
        let head = self.heads.get_mut(&b).map(std::mem::take).unwrap_or_default();
        let mut f = Fragment::with_capacity(head.len() + touched + plan.sources.len() + reverse + 2 * params + 3);
        f.extend(head);
        // Popping comes first: what is on top of the tape is this block's.
        if !plan.record.is_empty() || plan.push_id {
            let defs = plan.record.iter().map(|&v| (v, type_of(facts, self.aux, v))).collect();
            let id = plan.push_id.then_some(self.plan.number[b]);
            self.add(&mut f, defs, AdOp::Pop(plan.record.clone(), id), last);
        }
        // Values are defined just before their first use: a block may be long, and registers are
        // few.
        let mut waiting = PendingReads::new(&plan.sources, std::mem::take(&mut self.notes));
        for v in live.touched[b].iter() {
            if !live.live_out[b].contains(v) {
                self.add(&mut f, Defs::default(), AdOp::ZeroCt(v), last);
            }
        }
        self.reverse_statements(&mut f, &mut waiting, insts);
        let first = insts.first().copied();
        let id = self.reverse_of[&b];
        let Some(pred) = self.plan.preds[b] else {
            // The entry block: nothing came before it.
            self.notes = waiting.end();
            self.finish(id, Role::Reverse(b), vec![], f, Term::Jump(to(self.exit)), first);
            return;
        };
        let holds: HeldValues = facts.cfg.preds[b]
            .iter()
            .filter_map(|&p| Some((p, self.held(&mut f, self.plan.holds.get(&(p, b))?, &mut waiting, first))))
            .collect();
        let taken = self.take_params(&mut f, b);
        let mut edges: Vec<(BlockId, Role, Fragment, Term)> = Vec::new();
        let term = match pred {
            PredSource::Unique(p) => {
                self.edge(&mut f, p, b, &taken, &holds);
                Term::Jump(to(self.back(p, b)))
            }
            PredSource::Frame(_) | PredSource::Tape => {
                let op = if let PredSource::Frame(slot) = pred { AdOp::RestoreBlock(slot) } else { AdOp::PeekBlock };
                let d = Val::D(self.ids.dv());
                self.add(&mut f, [(d, types::I32)].into(), op, first);
                let preds = facts.cfg.preds[b].clone();
                let cases = preds
                    .into_iter()
                    .map(|p| (self.plan.number[p], self.way_back(p, b, &taken, &holds, &mut edges)))
                    .collect();
                Term::Switch(d, cases)
            }
            PredSource::Induction { iv, entry, latch } => {
                let (var, start) = (Val::Primal(iv.var), Val::Primal(iv.start));
                self.have(&mut f, var, &mut waiting, first);
                self.have(&mut f, start, &mut waiting, first);
                let d = Val::D(self.ids.dv());
                let op = AdOp::Arith(Arith::Icmp(IntCC::Equal), [var, start].into(), types::I8);
                self.add(&mut f, [(d, types::I8)].into(), op, first);
                let entry = self.way_back(entry, b, &taken, &holds, &mut edges);
                let latch = self.way_back(latch, b, &taken, &holds, &mut edges);
                Term::If(d, to(entry), to(latch))
            }
            PredSource::Branch { cond, yes, no } => {
                let cond = Val::Primal(cond);
                self.have(&mut f, cond, &mut waiting, first);
                let yes = self.way_back(yes, b, &taken, &holds, &mut edges);
                let no = self.way_back(no, b, &taken, &holds, &mut edges);
                Term::If(cond, to(yes), to(no))
            }
            PredSource::Table { index, from } => {
                let index = Val::Primal(index);
                self.have(&mut f, index, &mut waiting, first);
                let mut back: IndexMap<ir::Block, BlockId> = IndexMap::default();
                for &p in &facts.cfg.preds[b] {
                    back.insert(p, self.way_back(p, b, &taken, &holds, &mut edges));
                }
                let ways = ways(facts, b, from).expect("planned as such");
                let mut targets = ways.iter().map(|p| to(back[p]));
                let default = targets.next().expect("a table has a default");
                Term::Table(index, default, targets.collect())
            }
        };
        self.notes = waiting.end();
        self.finish(id, Role::Reverse(b), vec![], f, term, first);
        for (edge, role, e, term) in edges {
            self.finish(edge, role, vec![], e, term, first);
        }
    }

    /// Where the pullback goes from the reverse of `b` if that was entered from `p`: to an edge
    /// block, if anything happens on the edge, and the reverse of `p` can also be reached
    /// otherwise.
    fn way_back(
        &mut self,
        p: ir::Block,
        b: ir::Block,
        taken: &IndexMap<ir::Value, Val>,
        holds: &HeldValues,
        edges: &mut Vec<(BlockId, Role, Fragment, Term)>,
    ) -> BlockId {
        let mut e = Fragment::default();
        self.edge(&mut e, p, b, taken, holds);
        let back = self.back(p, b);
        if e.is_empty() {
            return back;
        }
        if self.leads_only_to(p, b) {
            match self.blocks.get_mut(&back) {
                Some(reverse) => {
                    e.extend(std::mem::take(&mut reverse.insts));
                    reverse.insts = e;
                }
                None => drop(self.heads.insert(p, e)),
            }
            return back;
        }
        let edge = self.ids.block();
        edges.push((edge, Role::Edge(p, b), e, Term::Jump(to(back))));
        edge
    }

    /// Whether the reverse of `p` comes after that of `b` and no other.
    fn leads_only_to(&self, p: ir::Block, b: ir::Block) -> bool {
        let returning = self.facts.cfg.succs[p].iter().filter(|s| self.plan.returning.contains(**s));
        p != b && returning.take(2).count() == 1 && self.is_reversed(p)
    }

    /// The values that held variables get on an edge: all of them are read before any changes.
    fn held(
        &mut self,
        f: &mut Fragment,
        holds: &[HeldUpdate],
        waiting: &mut PendingReads<'_>,
        at: Option<ir::Inst>,
    ) -> Vec<(Val, Val)> {
        let mut out = Vec::new();
        for hold in holds {
            self.have(f, hold.base, waiting, at);
            let mut v = hold.base;
            for undo in &hold.undo {
                v = self.undone(f, v, undo, waiting, at);
            }
            if !matches!(v, Val::D(_)) {
                // Names are local to a block; derived values are not.
                let d = Val::D(self.ids.dv());
                let ty = type_of(self.facts, self.aux, v);
                let op = AdOp::Arith(Arith::Copy, [v].into(), ty);
                self.add(f, [(d, ty)].into(), op, at);
                v = d;
            }
            out.push((hold.name, v));
        }
        out
    }

    /// What happens to cotangents on the way from the reverse of `b` back to the reverse of `p`.
    fn edge(
        &mut self,
        f: &mut Fragment,
        p: ir::Block,
        b: ir::Block,
        taken: &IndexMap<ir::Value, Val>,
        holds: &HeldValues,
    ) {
        let at = self.facts.func().layout.last_inst(p);
        for &(name, v) in holds.get(&p).into_iter().flatten() {
            self.add(f, Defs::default(), AdOp::Hold(name, v), at);
        }
        let live = self.live;
        for v in live.live_out[p].without(&live.live_in[b]) {
            self.add(f, Defs::default(), AdOp::ZeroCt(v), at);
        }
        for (a, q) in active_args(self.facts, p, b) {
            let by = self.in_shape(f, taken[&q], q, a, at);
            self.add(f, Defs::default(), AdOp::AddCt(a, by), at);
        }
        for q in unfollowed(self.facts, p, b) {
            let shape = self.facts.activity.ct[q].expect("it is active");
            let check = match shape {
                Shape::Bytes { .. } => AdOp::TrapIfBytes(taken[&q]),
                Shape::Demand { .. } => AdOp::TrapIf(taken[&q], Check::UntrackedBits),
                _ => {
                    let zero = self.arith(f, Arith::Const(0.0), &[], shape.ty(), at);
                    let arrives = self.arith(f, Arith::Fcmp(FloatCC::NotEqual), &[taken[&q], zero], types::I8, at);
                    AdOp::TrapIf(arrives, Check::UntrackedBits)
                }
            };
            self.add(f, Defs::default(), check, at);
        }
        let live = &self.live.live_out[p];
        let sums: Vec<_> = contract_array::left(self.facts, p, b).filter(|t| live.contains(t.sum)).collect();
        for total in sums {
            let d = Val::D(self.ids.dv());
            let ty = type_of(self.facts, self.aux, Val::Primal(total.sum));
            self.add(f, [(d, ty)].into(), AdOp::TakeCt(total.sum), at);
            self.add(f, Defs::default(), AdOp::Hold(total.name(), d), at);
        }
        self.leave(f, p, b);
    }

    fn exit_block(&mut self) {
        let facts = self.facts;
        let entry = facts.cfg.blocks[0];
        let formal = facts.func().dfg.block_params(entry);
        let mut f = Fragment::default();
        let mut out = Vec::new();
        for (i, shape) in facts.variant.param_shapes(&facts.func().signature) {
            let d = Val::D(self.ids.dv());
            // A lazily materialised zero: nothing was ever added to an argument without a
            // cotangent.
            let (op, ty) = match facts.activity.ct[formal[i]].filter(|_| !self.plan.exits.is_empty()) {
                Some(ct_shape) => (AdOp::TakeCt(formal[i]), ct_shape.ty()),
                None => (AdOp::Arith(Arith::Const(0.0), Args::default(), shape.ty()), shape.ty()),
            };
            self.add(&mut f, [(d, ty)].into(), op, None);
            let mut cx = Converter { builder: self, f: &mut f, at: None };
            out.push(fitted(&mut cx, d, ty, shape).expect("both are of one width"));
        }
        self.add(&mut f, Defs::default(), AdOp::CloseFrame, None);
        self.finish(self.exit, Role::Exit, vec![], f, Term::Return(out), None);
    }
}
