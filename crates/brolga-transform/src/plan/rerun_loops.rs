//! II-loops (loops with independent iterations): the reverse half runs them again, forwards, so
//! that nothing is recorded.
//!
//! **Problem.** To run a loop backwards, its way must be known: a merge of two sorted lists, a walk
//! along an index, records a number for each iteration. But code that only adds up does not ask for
//! that order. The cotangent of the sum is the same in all iterations, and an iteration has nothing
//! to do with another one.
//!
//! **Answer.** Where only a gradient is asked for, such a loop is not run in the forward half, and
//! in the reverse half it is run forwards, and reversed piece by piece. Nothing is recorded. An
//! adjoint by hand does the same.
//!
//! **Which loops.** Outermost ones, inner loops included, that
//! - do nothing but compute, read memory that is not written afterwards, and branch;
//! - carry cotangents in *sums* alone. A sum begins with a parameter of the header. Its members are
//!   what it is passed to (arguments of branches) and what something is added to it makes; of
//!   those, at each point one is live, and the one that is live at the end of a block is the one
//!   that the block has ended up with. So all members have one cotangent, that which the sum has
//!   after the loop;
//! - use all other cotangents in the iteration in which the value is made, or they belong to values
//!   from before the loop, which only ever receive;
//! - store to no shadow ([`crate::shadow::store_for_add`]) that another statement adds to, since
//!   that depends on the order.
//!
//! **Block by block, or iteration by iteration.** If all other cotangents stay in one block, the
//! reverses of its statements stand after them. Otherwise an iteration is run as a whole, from the
//! header to the latch, and then reversed, as a function of both halves is: its blocks run once
//! each, so what they make is kept in variables ([`Plan::is_unrepeated`]). That is done if the loop
//! is left by its header, if loops inside of it record nothing, and if much would be recorded
//! otherwise: an iteration of many values in variables is no faster than a few bytes on the tape,
//! and saves nothing but those.
//!
//! **When not.** An iteration does what the primal does and then the reverse of that, and waits for
//! the one before it begins with the other. If it is so long that no next iteration begins
//! meanwhile, and the primal is a long chain of divisions and roots, two loops and a record between
//! them are quicker ([`is_waited_for`]): there a processor does the chains of several iterations at
//! once.
//!
//! **Invariants.** Contributions are the same as ever. They are added up in another order where
//! several iterations add to one place, so gradients may differ by rounding, and by nothing else. A
//! loop of which the forward half needs anything (its value, a trap) runs there, and then
//! backwards: `Assembly::replan` does that when the graph has been pruned.
//!
//! **Cost.** A few walks over each outermost loop that records; loads whose reverse stores are
//! compared with all other loads of the loop. If a loop is found, the function is planned again.
//!
//! Source: for parallel loops, Hascoët, Hovland and Hückelheim ("Source-to-source adjoint
//! differentiation of parallel loops", 2021) reverse each iteration on its own, in any order.

use brolga_analysis::LoopId;
use brolga_ir::inst::{AdInst, AdOp, Arith, Shape, Tape, Val};
use brolga_ir::map::{HashMap, IndexMap, IndexSet};
use brolga_rules::MathKind;
use brolga_rules::cost::{MANY_BYTES, cost, is_waited_for, latency};
use cranelift_codegen::ir::{self, Opcode};
use cranelift_entity::EntitySet;

use brolga_analysis::CalleeKind;
use brolga_analysis::cfg::edge_args;
use smallvec::SmallVec;

use crate::facts::{Facts, delta_params};
use crate::plan::liveness::{Liveness, active_args};
use crate::plan::table::{Plan, PredSource, Rerun, chain, def_block};
use crate::translate::stmt::AdStmts;
use brolga_ir::Pass;

impl Rerun {
    /// The parameters of the header that are sums.
    pub fn starts(&self) -> impl Iterator<Item = ir::Value> {
        self.sums.iter().filter(|(member, start)| member == start).map(|x| *x.0)
    }

    /// The member of a sum whose cotangent arrives on an edge out of the loop, if one does.
    pub fn leaving(
        &self,
        facts: &Facts<'_>,
        live: &Liveness,
        p: ir::Block,
        b: ir::Block,
        start: ir::Value,
    ) -> Option<ir::Value> {
        on_edge(facts, live, p, b).find(|m| self.sums.get(m) == Some(&start))
    }
}

/// Values whose cotangents are live on an edge: arguments, once for each parameter, and what lives
/// on.
fn on_edge<'a>(
    facts: &'a Facts<'_>,
    live: &'a Liveness,
    p: ir::Block,
    b: ir::Block,
) -> impl Iterator<Item = ir::Value> + 'a {
    active_args(facts, p, b).map(|a| a.0).chain(live.live_in[b].iter())
}

/// Whether a block records anything.
fn records(plan: &Plan, b: ir::Block) -> bool {
    !plan.blocks[b].record.is_empty() || plan.blocks[b].push_id
}

/// Whether a plan bears a loop out: it holds nothing on the way into it; and iteration by
/// iteration, the loop records nothing and nothing else asks for what it makes.
pub fn holds_good(facts: &Facts<'_>, plan: &Plan, rerun: &Rerun) -> bool {
    let ours = |b: &ir::Block| rerun.blocks.contains(b);
    let held = plan
        .holds
        .keys()
        .any(|(p, b)| rerun.entry == *p && ours(b) || rerun.by_iteration && ours(p) && *b == rerun.header);
    let asks = |b: &ir::Block| {
        let joins = matches!(plan.preds[*b], Some(PredSource::Frame(_) | PredSource::Tape));
        plan.blocks[*b].sources.iter().any(|s| ours(&def_block(facts, s.name)))
            || joins && facts.cfg.preds[*b].iter().any(ours)
    };
    let alone =
        || !rerun.blocks.iter().any(|&b| records(plan, b)) && !facts.cfg.blocks.iter().any(|b| !ours(b) && asks(b));
    !held && (!rerun.by_iteration || alone())
}

/// Whether the reverse of a block outside of a loop asks for a float that the loop hands from
/// iteration to iteration: a sum, for the most part.
fn sum_is_read(facts: &Facts<'_>, plan: &Plan, blocks: &IndexSet<ir::Block>) -> bool {
    let dfg = &facts.func().dfg;
    let is_sum = |v: &Val| match *v {
        Val::Primal(v) => {
            let passed_on = matches!(dfg.value_def(v), ir::ValueDef::Param(b, _) if blocks.contains(&b));
            passed_on && dfg.value_type(v).lane_type().is_float()
        }
        _ => false,
    };
    let outside = facts.cfg.blocks.iter().filter(|b| !blocks.contains(*b));
    outside.into_iter().any(|&b| plan.blocks[b].sources.iter().any(|s| is_sum(&s.name)))
}

/// The loops to run again, given what is recorded otherwise: those that record anything.
pub fn find(facts: &Facts<'_>, stmts: &AdStmts, live: &Liveness, plan: &Plan) -> Vec<Rerun> {
    let all = &facts.cfg.blocks;
    let mut outermost: IndexMap<LoopId, IndexSet<ir::Block>> = IndexMap::default();
    let pays = |b: ir::Block| !facts.options.runs(Pass::CostModel) || records(plan, b);
    let pay = all.iter().filter(|b| pays(**b)).filter_map(|&b| facts.loops.around(b).last());
    outermost.extend(pay.map(|l| (l, IndexSet::default())));
    for (&l, blocks) in &mut outermost {
        blocks.reserve(all.len());
        blocks.extend(all.iter().filter(|b| facts.loops.contains(l, **b)));
    }
    // The forward half runs those anyway. To find that out when all is assembled takes as long as
    // to plan and to assemble it again.
    outermost.retain(|_, blocks| !sum_is_read(facts, plan, blocks));
    if outermost.is_empty() {
        return Vec::new();
    }
    let finder = RerunFinder { facts, stmts, plan, live };
    outermost.into_iter().filter_map(|(l, blocks)| finder.look(l, blocks)).collect()
}

struct RerunFinder<'a, 'f> {
    facts: &'a Facts<'f>,
    stmts: &'a AdStmts,
    plan: &'a Plan,
    live: &'a Liveness,
}

impl RerunFinder<'_, '_> {
    fn look(&self, id: LoopId, blocks: IndexSet<ir::Block>) -> Option<Rerun> {
        let facts = self.facts;
        let l = &facts.loops.loops[id];
        let [entry] = l.entries[..] else { return None };
        let computes = |b: &ir::Block| {
            self.plan.returning.contains(*b)
                && delta_params(facts, *b).is_empty()
                && facts.cfg.insts(*b).iter().all(|&i| self.computes(i))
        };
        if !facts.cfg.is_acyclic(entry) {
            return None;
        }
        // Most loops that carry a cotangent and are not run again carry no sum.
        if !self.are_sums(l.header, &blocks) {
            return None;
        }
        let sums = self.sums(l.header, &blocks)?;
        if !blocks.iter().all(computes) || !self.any_order(&blocks) {
            return None;
        }
        let outer = IndexSet::default();
        let mut found = Rerun { header: l.header, entry, blocks, sums, outer, by_iteration: false, next: vec![] };
        let all = |found: &Rerun| found.blocks.iter().all(|&b| self.adds_up(found, b) == Some(()));
        if !all(&found) {
            found.by_iteration = true;
            let pays = !facts.options.runs(Pass::CostModel) || self.recorded(&found) >= MANY_BYTES;
            if !pays || !self.may_go_by_iteration(id, &found.blocks) || !all(&found) {
                return None;
            }
        } else if self.is_slower(id, &found) {
            return None;
        }
        found.outer = self.outer(entry, l.header, &found.blocks)?;
        Some(found)
    }

    /// Whether a loop that is reversed block by block waits longer for what its iterations repeat
    /// than its record would take.
    fn is_slower(&self, id: LoopId, found: &Rerun) -> bool {
        let facts = self.facts;
        let dfg = &facts.func().dfg;
        let flat = found.blocks.iter().all(|&b| facts.loops.innermost[b] == Some(id));
        if !facts.options.runs(Pass::CostModel) || !flat {
            return false;
        }
        let insts = || found.blocks.iter().flat_map(|&b| facts.cfg.insts(b));
        let takes = |i: &ir::Inst| cost(dfg.insts[*i].opcode()) > 0;
        let mut at: HashMap<ir::Value, u32> = HashMap::default();
        let (mut primal, mut repeated) = (0, 0);
        for &i in insts() {
            let end = chain(&at, dfg.inst_args(i)) + latency(dfg.insts[i].opcode());
            at.extend(dfg.inst_results(i).iter().map(|&r| (r, end)));
            primal = primal.max(end);
        }
        for &b in &found.blocks {
            repeated = repeated.max(self.plan.blocks[b].chain(dfg));
        }
        is_waited_for(
            primal.saturating_sub(repeated),
            insts().filter(|i| takes(i)).count() as u32,
            self.recorded(found),
        )
    }

    /// Bytes that blocks of a loop record otherwise, each once.
    fn recorded(&self, found: &Rerun) -> u32 {
        let bytes = |v: &Val| match v {
            Val::Primal(v) => self.facts.func().dfg.value_type(*v).bytes(),
            _ => 8,
        };
        found.blocks.iter().flat_map(|&b| &self.plan.blocks[b].record).map(bytes).sum()
    }

    /// Whether a loop is left by its header alone, where nothing is reversed, and iterations end
    /// outside of inner loops.
    fn may_go_by_iteration(&self, id: LoopId, blocks: &IndexSet<ir::Block>) -> bool {
        let facts = self.facts;
        let l = &facts.loops.loops[id];
        let idle = |b: ir::Block| facts.cfg.insts(b).iter().all(|i| self.stmts[i].rvs.is_empty());
        l.exits.iter().all(|&(from, _)| from == l.header)
            && idle(l.header)
            && l.latches.iter().all(|&b| b != l.header && facts.loops.innermost[b] == Some(id))
            && !blocks.iter().any(|&b| facts.loops.irreducible.contains(b))
    }

    /// Whether an instruction does the same whenever it runs, and so does its reverse.
    fn computes(&self, inst: ir::Inst) -> bool {
        let facts = self.facts;
        let func = facts.func();
        let op = func.dfg.insts[inst].opcode();
        let does = match op {
            Opcode::Jump | Opcode::Brif | Opcode::BrTable => true,
            _ if op.is_call() => match CalleeKind::of(facts.program, func, inst) {
                Some(CalleeKind::Known(rule)) => matches!(rule.kind, MathKind::Expr(_)),
                _ => false,
            },
            _ if op.is_terminator() || op.can_store() || op.other_side_effects() => false,
            _ if op.can_load() => facts.reload.contains(inst),
            _ => true,
        };
        let stmt = &self.stmts[&inst];
        let alone = stmt.keep && stmt.before.is_empty() && stmt.after.is_empty();
        let reverses = |op: &AdOp| match op {
            AdOp::AddMem { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. } => false,
            AdOp::Arith(..)
            | AdOp::TakeCt(_)
            | AdOp::AddCt(..)
            | AdOp::AddMem { .. }
            | AdOp::TrapIf(..)
            | AdOp::TrapIfBytes(_) => true,
            AdOp::Call { tape, .. } => *tape == Tape::Aside,
            _ => false,
        };
        does && alone && stmt.rvs.values().all(|i| reverses(&i.op))
    }

    /// Whether no reverse stores to a shadow that another one adds to.
    fn any_order(&self, blocks: &IndexSet<ir::Block>) -> bool {
        let facts = self.facts;
        let func = facts.func();
        let insts = blocks.iter().flat_map(|&b| func.layout.block_insts(b));
        let loads: Vec<ir::Inst> =
            insts.filter(|i| self.stmts[i].rvs.values().any(|r| matches!(r.op, AdOp::AddMem { .. }))).collect();
        let root = |i: &ir::Inst| facts.pointers.root(func.dfg.inst_args(*i)[0]);
        let stores = loads.iter().filter(|i| facts.overwrites.stores.contains(**i));
        stores.into_iter().all(|s| loads.iter().all(|other| other == s || root(other) != root(s)))
    }

    /// Members of sums: whatever can be reached from the header's parameters. `None` if two of them
    /// meet.
    fn sums(&self, header: ir::Block, blocks: &IndexSet<ir::Block>) -> Option<IndexMap<ir::Value, ir::Value>> {
        let facts = self.facts;
        let func = facts.func();
        let mut next: HashMap<ir::Value, SmallVec<[ir::Value; 2]>> = HashMap::default();
        for &b in blocks {
            for inst in func.layout.block_insts(b) {
                for (v, _) in self.adds(inst).filter(|x| x.1) {
                    next.entry(v).or_default().push(func.dfg.first_result(inst));
                }
            }
            for &s in facts.cfg.succs[b].iter().filter(|s| blocks.contains(*s)) {
                active_args(facts, b, s).for_each(|(a, q)| next.entry(a).or_default().push(q));
            }
        }
        let starts = func.dfg.block_params(header).iter().copied().filter(|&q| facts.is_active(q));
        let mut sums: IndexMap<ir::Value, ir::Value> = starts.map(|q| (q, q)).collect();
        let mut at = 0;
        while let Some((&v, &start)) = sums.get_index(at) {
            at += 1;
            for &w in next.get(&v).into_iter().flatten() {
                if *sums.entry(w).or_insert(start) != start {
                    return None;
                }
            }
        }
        (!sums.is_empty()).then_some(sums)
    }

    /// Whether all that the header's parameters get from the loop is passed on, or made by adding
    /// to something. Otherwise the loop would not add up, which takes longer to find out.
    fn are_sums(&self, header: ir::Block, blocks: &IndexSet<ir::Block>) -> bool {
        let facts = self.facts;
        let dfg = &facts.func().dfg;
        let mut seen: EntitySet<ir::Value> = EntitySet::new();
        let mut work: SmallVec<[(ir::Block, usize); 8]> =
            (0..dfg.block_params(header).len()).map(|i| (header, i)).collect();
        while let Some((to, i)) = work.pop() {
            if !facts.is_active(dfg.block_params(to)[i]) {
                continue;
            }
            for &from in facts.cfg.preds[to].iter().filter(|p| blocks.contains(*p)) {
                let a = facts.cfg.args(from, to)[i];
                let adds = match dfg.value_def(a) {
                    ir::ValueDef::Param(b, i) if blocks.contains(&b) => {
                        if b != header && seen.insert(a) {
                            work.push((b, i));
                        }
                        true
                    }
                    ir::ValueDef::Result(inst, _) => self.adds(inst).any(|x| x.1),
                    _ => false,
                };
                if !adds && facts.is_active(a) {
                    return false;
                }
            }
        }
        true
    }

    /// What the reverse of a statement adds to, and whether that is the cotangent of its result as
    /// it is.
    fn adds(&self, inst: ir::Inst) -> impl Iterator<Item = (ir::Value, bool)> {
        let rvs = &self.stmts[&inst].rvs;
        let unit = self.facts.func().dfg.inst_results(inst).iter().any(|&r| self.facts.unit_cotangents.contains(r));
        let takes = |i: &&AdInst| match &i.op {
            AdOp::TakeCt(_) => true,
            AdOp::Arith(Arith::Const(x), ..) => unit && *x == 1.0,
            _ => false,
        };
        let taken: SmallVec<[Val; 4]> = rvs.values().filter(takes).map(|i| i.defs[0].0).collect();
        rvs.values().filter_map(move |i| match i.op {
            AdOp::AddCt(v, by) => Some((v, taken.contains(&by))),
            _ => None,
        })
    }

    /// Whether a block has one member of each sum to begin with, adds to it one after the other,
    /// and passes on the last; and whether no other cotangent leaves the block.
    fn adds_up(&self, found: &Rerun, b: ir::Block) -> Option<()> {
        let facts = self.facts;
        let func = facts.func();
        let ours = |v: ir::Value| facts.cfg.def_block[v].is_some_and(|d| found.blocks.contains(&d));
        let params = || func.dfg.block_params(b).iter().copied().filter(|&q| facts.is_active(q));
        // Of each sum, the beginning and the member that the block has come to. There are few.
        let mut now: SmallVec<[(ir::Value, ir::Value); 4]> = SmallVec::new();
        let at = |now: &[(ir::Value, ir::Value)], start| now.iter().position(|n| n.0 == start);
        for v in params().chain(self.live.live_in[b].iter()).filter(|&v| ours(v)) {
            match found.sums.get(&v) {
                Some(&start) if at(&now, start).is_none() => now.push((start, v)),
                None if found.by_iteration && b != found.header => {}
                _ => return None,
            }
        }
        if now.len() != found.starts().count() {
            return None;
        }
        for inst in func.layout.block_insts(b) {
            let mut members = self.adds(inst).filter_map(|(v, as_it_is)| Some((v, *found.sums.get(&v)?, as_it_is)));
            let Some((v, start, as_it_is)) = members.next() else { continue };
            let k = at(&now, start)?;
            if !as_it_is || now[k].1 != v || members.next().is_some() {
                return None;
            }
            now[k].1 = func.dfg.first_result(inst);
        }
        for &s in facts.cfg.succs[b].iter().filter(|s| self.plan.returning.contains(**s)) {
            let mut passed: SmallVec<[ir::Value; 4]> = SmallVec::new();
            for v in on_edge(facts, self.live, b, s).filter(|&v| ours(v)) {
                let inside = found.by_iteration && s != found.header && found.blocks.contains(&s);
                let Some(&start) = found.sums.get(&v) else {
                    if inside {
                        continue;
                    }
                    return None;
                };
                if now[at(&now, start)?].1 != v || passed.contains(&start) {
                    return None;
                }
                passed.push(start);
            }
            if found.blocks.contains(&s) && passed.len() != now.len() {
                return None;
            }
        }
        Some(())
    }

    /// All names from outside that blocks and their reverses read; `None` if they read what there
    /// is no name for.
    fn outer(&self, entry: ir::Block, header: ir::Block, blocks: &IndexSet<ir::Block>) -> Option<IndexSet<Val>> {
        let facts = self.facts;
        let func = facts.func();
        let mut read: IndexSet<Val> = edge_args(func, entry, header).into_iter().map(Val::Primal).collect();
        for inst in blocks.iter().flat_map(|&b| func.layout.block_insts(b)) {
            read.extend(func.dfg.inst_values(inst).map(Val::Primal));
            read.extend(self.stmts[&inst].comms());
        }
        let named = |v: &Val| matches!(v, Val::Primal(_) | Val::Delta(_));
        if !read.iter().all(named) {
            return None;
        }
        let outside = |v: &Val| !blocks.contains(&def_block(facts, *v));
        let deltas_outside = read.iter().all(|v| matches!(v, Val::Primal(_)) || outside(v));
        deltas_outside.then(|| read.into_iter().filter(outside).collect())
    }
}
