//! Reverse control flow: how the pullback finds the predecessor of each block.
//!
//! **Question.** A block with several predecessors was entered from one of them, and its reverse
//! goes back there. Which was it?
//!
//! **Answer.** The first of these that there is:
//! 1. *One predecessor*: that one.
//! 2. *The induction variable*: a header was entered from outside if the variable has its first
//!    value, else from the latch.
//! 3. *The condition* of the branch that the predecessors lie after, or the index of its table, if
//!    the reverse has that without a record.
//! 4. *A number* that each predecessor leaves: in a frame slot if the block runs at most once, else
//!    as the last bytes of its record. That is the block stack of Mooncake.
//!
//! ```text
//! block1(i):   brif i != n, block2, block3      reverse of block1:
//! block2:      i' = i + 1; jump block1(i')          brif i == 0, rev block0, rev block2
//! ```
//!
//! **Invariant.** What a decision reads is needed in the reverse block from then on.
//!
//! **Cost.** Each block with several predecessors is asked once.

use brolga_ir::inst::Val;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::{self, InstructionData, Opcode};
use smallvec::SmallVec;

use super::planner::Planner;
use crate::facts::Facts;
use crate::plan::table::PredSource;
use crate::primal::induction::{Induction, exit_test, induction};
use brolga_ir::Pass;

impl Planner<'_, '_> {
    /// Number the blocks, and find those that may return.
    pub(super) fn returning(&mut self) {
        let facts = self.facts;
        let func = facts.func();
        let all = func.dfg.num_blocks();
        self.plan.number.resize(all);
        self.plan.blocks.resize(all);
        self.plan.preds.resize(all);
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
        let mut work: SmallVec<[ir::Block; 16]> = self.plan.exits.iter().copied().collect();
        while let Some(b) = work.pop() {
            if self.plan.returning.insert(b) {
                work.extend(facts.cfg.preds[b].iter().copied());
            }
        }
    }

    /// Decide for all blocks; what a decision relies on becomes needed.
    pub(super) fn predecessors(&mut self) {
        let facts = self.facts;
        let id_bytes = self.plan.id_bytes;
        // A combined function goes on with the reverse of the block that would have returned.
        if self.plan.exits.len() > 1 && !self.plan.combined {
            let slot = self.alloc(id_bytes);
            self.plan.exit = Some(slot);
            for b in self.plan.exits.clone() {
                self.plan.blocks[b].keep_ids.push(slot);
            }
        }
        for &b in &facts.cfg.blocks {
            if !self.plan.reversed(b) {
                continue;
            }
            self.plan.preds[b] = match facts.cfg.preds[b].as_slice() {
                [] => None,
                [p] => Some(PredSource::Unique(*p)),
                preds => Some(self.derived(b, preds).unwrap_or_else(|| self.numbered(b, preds))),
            };
        }
    }

    /// From what is known anyway.
    fn derived(&mut self, b: ir::Block, preds: &[ir::Block]) -> Option<PredSource> {
        if !self.facts.options.runs(Pass::RecoverPredecessors) {
            return None;
        }
        self.iteration(b).or_else(|| self.branch(b, preds)).or_else(|| self.table(b))
    }

    /// By a number that the predecessors leave.
    fn numbered(&mut self, b: ir::Block, preds: &[ir::Block]) -> PredSource {
        if !self.plan.is_unrepeated(self.facts, b) {
            preds.iter().for_each(|&p| self.plan.blocks[p].push_id = true);
            return PredSource::Tape;
        }
        let slot = self.alloc(self.plan.id_bytes);
        preds.iter().for_each(|&p| self.plan.blocks[p].keep_ids.push(slot));
        PredSource::Frame(slot)
    }

    /// Whether the reverse of a block can have that value: for nothing, or in a frame, if that gets
    /// no longer by it than by a number.
    fn has(&mut self, b: ir::Block, v: ir::Value) -> bool {
        let short = self.facts.func().dfg.value_type(v).bytes() <= self.plan.id_bytes;
        (self.plan.combined || short || !self.plan.is_unrepeated(self.facts, b)) && self.is_free(b, Val::Primal(v))
    }

    /// By the induction variable of a loop, if `b` is a header.
    fn iteration(&mut self, b: ir::Block) -> Option<PredSource> {
        let func = self.facts.func();
        let l = self.loops.headed_by(b)?;
        let lp = &self.loops.loops[l];
        let ([entry], [latch]) = (&lp.entries[..], &lp.latches[..]) else { return None };
        // One whose last value is known without a record is best, then one of the program's own.
        let costs = |iv: &Induction| {
            let known = lp.exits.iter().all(|&(from, to)| exit_test(func, self.loops, l, iv, from, to).is_some());
            u32::from(!known)
        };
        let mut found: SmallVec<[Induction; 2]> =
            (0..func.dfg.block_params(b).len()).filter_map(|i| induction(func, self.loops, l, i)).collect();
        found.sort_by_key(costs);
        let usable =
            |p: &mut Self, iv: &Induction| p.is_free(b, Val::Primal(iv.var)) && p.is_free(b, Val::Primal(iv.start));
        let iv = found.into_iter().find(|iv| usable(self, iv))?;
        self.needed[b].extend([Val::Primal(iv.var), Val::Primal(iv.start)]);
        Some(PredSource::Induction { iv, entry: *entry, latch: *latch })
    }

    /// By the condition of the branch from which both predecessors come.
    fn branch(&mut self, b: ir::Block, preds: &[ir::Block]) -> Option<PredSource> {
        let &[p, q] = preds else { return None };
        let func = self.facts.func();
        let from = self.loops.idom[b]?;
        let last = func.layout.last_inst(from)?;
        let InstructionData::Brif { arg: cond, blocks, .. } = func.dfg.insts[last] else { return None };
        // The edge to a block without another predecessor dominates what that block dominates.
        let edge_dominates = |side: ir::Block, p: ir::Block| {
            if side == b { p == from } else { self.facts.cfg.preds[side].len() == 1 && self.loops.dominates(side, p) }
        };
        let [yes, no] = blocks.map(|c| c.block(&func.dfg.value_lists));
        let (yes, no) =
            match (edge_dominates(yes, p), edge_dominates(no, q), edge_dominates(yes, q), edge_dominates(no, p)) {
                (true, true, false, false) => (p, q),
                (false, false, true, true) => (q, p),
                _ => return None,
            };
        if !self.has(b, cond) {
            return None;
        }
        self.needed[b].insert(Val::Primal(cond));
        Some(PredSource::Branch { cond, yes, no })
    }

    /// By the index of the table from which all predecessors come.
    fn table(&mut self, b: ir::Block) -> Option<PredSource> {
        let func = self.facts.func();
        let from = self.loops.idom[b]?;
        let InstructionData::BranchTable { arg: index, .. } = func.dfg.insts[func.layout.last_inst(from)?] else {
            return None;
        };
        ways(self.facts, b, from)?;
        if !self.has(b, index) {
            return None;
        }
        self.needed[b].insert(Val::Primal(index));
        Some(PredSource::Table { index, from })
    }
}

/// Targets for each predecessor of a block for which a table is written down once more. A table
/// whose ways meet in many places would be there as often.
const TARGETS: usize = 4;

/// By which of its predecessors a block is entered from each target of the table at the end of
/// `from`, which dominates it: for the default and for all entries. `None` if that cannot be told.
/// For a target from which there is no way but through the table again it may be any.
///
/// The last time that the table was asked decides if what lies between it and a predecessor can be
/// entered through one target alone. A target that is there twice has a block of its own for each
/// but the first ([`crate::primal::normalise`]).
pub(crate) fn ways(facts: &Facts<'_>, b: ir::Block, from: ir::Block) -> Option<Vec<ir::Block>> {
    let (cfg, func) = (facts.cfg, facts.func());
    let InstructionData::BranchTable { table, .. } = func.dfg.insts[func.layout.last_inst(from)?] else { return None };
    let table = func.dfg.jump_tables[table].all_branches();
    if table.len() > TARGETS * cfg.preds[b].len() {
        return None;
    }
    let leads = |x: ir::Block, to: ir::Block| cfg.preds[x][..] == [from] && cfg.succs[x][..] == [to];
    // The first block on the way to each predecessor.
    let mut firsts: HashMap<ir::Block, ir::Block> = HashMap::default();
    for &p in cfg.preds[b].iter().filter(|&&p| p != from) {
        let mut first = p;
        while facts.loops.idom[first]? != from {
            first = facts.loops.idom[first]?;
        }
        let by_table = cfg.preds[first].iter().all(|&x| x == from || leads(x, first));
        if !by_table || firsts.insert(first, p).is_some() {
            return None;
        }
    }
    let way = |target: ir::Block| {
        let first = |of: ir::Block| firsts.get(&of).copied();
        let through = || cfg.succs[target].iter().find(|&&s| leads(target, s)).and_then(|&s| first(s));
        if target == b { from } else { first(target).or_else(through).unwrap_or(cfg.preds[b][0]) }
    };
    Some(table.iter().map(|call| way(call.block(&func.dfg.value_lists))).collect())
}
