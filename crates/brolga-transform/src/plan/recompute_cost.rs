//! Cost of rematerialisation: the latency of the chain that a reverse block would wait for.
//!
//! **Question.** Does a block compute so much from what is recorded that it is better to record
//! what it needs?
//!
//! **Answer.** The cut of [`super::min_cut`] weighs bytes. What it saves in bytes is paid for in
//! instructions, and where an iteration is long, in cycles that its chain takes: of divisions and
//! roots above all. Both are compared here with the record, by the model of
//! [`mod@brolga_rules::cost`].
//!
//! **Cost.** A walk over what the names that a block needs are computed from.

use brolga_ir::inst::Val;
use brolga_ir::map::{HashMap, IndexSet};
use brolga_rules::cost::{BYTES_FOR_EACH, LONG_CHAIN, MANY_RECOMPUTED, cost, is_waited_for, latency};
use cranelift_codegen::ir;

use super::offers::{MAX_DEPTH, Offer};
use super::planner::Planner;
use crate::plan::table::type_of;
use brolga_ir::Pass;

impl Planner<'_, '_> {
    /// Whether a block would compute so much from what is recorded that it is better to record what
    /// it needs.
    pub(super) fn is_dear(&mut self, b: ir::Block, needed: Vec<Val>, recorded: &[Val]) -> bool {
        let more = self.bytes(&needed).saturating_sub(self.bytes(recorded));
        let mut seen: IndexSet<Val> = recorded.iter().copied().collect();
        let mut work = needed;
        let mut floats = 0;
        while let Some(v) = work.pop() {
            if !seen.insert(v) || self.is_free(b, v) {
                continue;
            }
            floats += u32::from(type_of(self.facts, self.aux, v).lane_type().is_float());
            work.extend(self.made_of(b, v).into_iter().flatten());
        }
        floats >= MANY_RECOMPUTED && more <= BYTES_FOR_EACH * floats
    }

    /// What a block records if it would wait too long for what it computes from `recorded`, or from
    /// what is to be had for nothing: the ends of long chains, and of what is recorded as much as
    /// the rest is made of.
    pub(super) fn ends_of_chains(&self, b: ir::Block, recorded: &[Val]) -> Option<Vec<Val>> {
        let (facts, dfg) = (self.facts, &self.facts.func().dfg);
        let l = self.loops.innermost[b]?;
        let insts = facts.cfg.insts(b).iter().filter(|i| cost(dfg.insts[**i].opcode()) > 0).count() as u32;
        let is_inner = || self.loops.loops.values().all(|other| other.parent != Some(l));
        if !facts.options.runs(Pass::CostModel) || !is_waited_for(u32::MAX, insts, 0) || !is_inner() {
            return None;
        }
        let mut at: HashMap<Val, u32> = recorded.iter().map(|&v| (v, 0)).collect();
        let before = self.needed[b].iter().map(|&v| self.chain(b, v, &mut at, 0)).max()?;
        let is_end = |v: &Val| {
            at.get(v).is_some_and(|&t| t >= LONG_CHAIN / 4) && type_of(facts, self.aux, *v).lane_type().is_float()
        };
        let ends: IndexSet<Val> = self.needed[b].iter().copied().filter(is_end).collect();
        let mut at: HashMap<Val, u32> = recorded.iter().chain(&ends).map(|&v| (v, 0)).collect();
        let after = self.needed[b].iter().map(|&v| self.chain(b, v, &mut at, 0)).max()?;
        // Of what was recorded, what is still read.
        let (mut seen, mut work) = (ends.clone(), self.needed[b].iter().copied().collect::<Vec<_>>());
        let mut all = ends;
        work.retain(|v| !all.contains(v));
        while let Some(v) = work.pop() {
            if !seen.insert(v) {
                continue;
            }
            if recorded.contains(&v) {
                all.insert(v);
            } else if !self.is_available(b, v) {
                work.extend(self.made_of(b, v).into_iter().flatten());
            }
        }
        let more = self.bytes(&all).saturating_sub(self.bytes(recorded));
        is_waited_for(before.saturating_sub(after), insts, more).then(|| all.into_iter().collect())
    }

    /// Cycles until a name is there, if the block computes it; `at` is what is known of others.
    fn chain(&self, b: ir::Block, v: Val, at: &mut HashMap<Val, u32>, depth: u32) -> u32 {
        if let Some(&known) = at.get(&v) {
            return known;
        }
        let made = if depth < MAX_DEPTH && !self.is_available(b, v) { self.computed(b, v) } else { None };
        let found = made.map_or(0, |offer| {
            let Offer::Computed(inst, args) = offer else { return 0 };
            let last = args.iter().map(|&a| self.chain(b, Val::Primal(a), at, depth + 1)).max();
            last.unwrap_or(0) + latency(self.facts.func().dfg.insts[inst].opcode())
        });
        at.insert(v, found);
        found
    }
}
