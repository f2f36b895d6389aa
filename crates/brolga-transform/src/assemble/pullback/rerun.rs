//! II-loops in the pullback: the reverse half runs the loop forwards and reverses each iteration on
//! the spot ([`crate::plan::rerun_loops`]).
//!
//! **Question.** A loop may run again in the reverse half, forwards. What stands for it in the
//! pullback?
//!
//! **Answer.** A copy of its blocks, with the reverses of their statements, and what happens where
//! it is entered and left:
//!
//! ```text
//! edge p -> b   (out of the loop) the cotangent of the member of each sum that leaves goes to the sum's first
//! loop of H     what is read from outside is loaded or computed; the cotangents of sums are taken, once and for all
//! B again       B as in the primal; block by block, then the reverse fragments of its statements, last first; goes where B goes
//! edge e -> H   (at the end) the cotangents of sums go to what they began with; go to the reverse of e
//! ```
//!
//! Iteration by iteration there are in between
//!
//! ```text
//! edge L -> H   (of latch L) the cotangents of sums go to their last members; go to the reverse of L
//! reverse of B  as ever
//! reverse of H  go to H again, with the arguments that L has kept
//! ```
//!
//! **Cost.** One copy of the blocks of the loop; iteration by iteration, and their reverses.

use brolga_analysis::cfg::edge_args;
use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlock, Fragment, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Arith, Defs, Val};
use brolga_ir::lift::{BlockMap, lift_block};
use brolga_ir::map::IndexMap;
use cranelift_codegen::ir;

use super::builder::{Builder, HeldValues, PendingReads, RerunBlocks, to};
use crate::assemble::forward::{keep_early, records};
use crate::plan::table::{Rerun, type_of};

impl Builder<'_, '_> {
    /// Where the pullback goes on after what happens on the edge from `p` to `b`.
    pub(super) fn back(&self, p: ir::Block, b: ir::Block) -> BlockId {
        match self.plan.rerun(p).filter(|a| !a.blocks.contains(&b)) {
            Some(a) => self.rerun[&a.header].begin,
            None => self.reverse_of[&p],
        }
    }

    /// On an edge out of a loop that is run again, each sum's first gets the cotangent that
    /// arrives.
    pub(super) fn leave(&mut self, f: &mut Fragment, p: ir::Block, b: ir::Block) {
        let Some(a) = self.plan.rerun(p).filter(|a| !a.blocks.contains(&b)) else { return };
        let at = self.facts.func().layout.last_inst(p);
        for start in a.starts() {
            let member = a.leaving(self.facts, self.live, p, b, start);
            if member == Some(start) {
                continue;
            }
            self.add(f, Defs::default(), AdOp::ZeroCt(start), at);
            if let Some(m) = member {
                let d = Val::D(self.ids.dv());
                self.add(f, [(d, type_of(self.facts, self.aux, Val::Primal(m)))].into(), AdOp::TakeCt(m), at);
                self.add(f, Defs::default(), AdOp::AddCt(start, d), at);
            }
        }
    }

    /// All blocks of a loop that is run again.
    pub(super) fn rerun(&mut self, a: &Rerun) {
        let facts = self.facts;
        let func = facts.func();
        let RerunBlocks { begin, end, blocks } = self.rerun[&a.header].clone();
        let mut f = Fragment::default();
        let at = func.layout.last_inst(a.entry);
        let mut waiting = PendingReads::new(&self.plan.blocks[a.entry].sources, std::mem::take(&mut self.notes));
        for &v in &a.outer {
            self.have(&mut f, v, &mut waiting, at);
        }
        self.notes = waiting.end();
        let mut taken: IndexMap<ir::Value, Val> = IndexMap::default();
        for start in a.starts() {
            let d = Val::D(self.ids.dv());
            let ty = facts.activity.ct[start].expect("a sum has a cotangent").ty();
            self.add(&mut f, [(d, ty)].into(), AdOp::TakeCt(start), at);
            taken.insert(start, d);
        }
        let args = edge_args(func, a.entry, a.header).into_iter().map(Val::Primal).collect();
        let first = Target { block: blocks[&a.header], args };
        self.finish(begin, Role::Begin(a.header), vec![], f, Term::Jump(first), at);
        let mut edges: Vec<(BlockId, ir::Block)> = Vec::new();
        let mut map: BlockMap = a.blocks.iter().flat_map(|&b| &facts.cfg.succs[b]).map(|&s| (s, end)).collect();
        map.extend(blocks.iter().map(|(&b, &id)| (b, id)));
        for &b in &a.blocks {
            let latch = a.by_iteration && facts.cfg.succs[b].contains(&a.header);
            let edge = latch.then(|| self.ids.block());
            // An iteration ends at its latch.
            map.insert(a.header, edge.unwrap_or(blocks[&a.header]));
            let mut block = lift_block(func, b, blocks[&b], Role::Rerun(a.header, b), &map, self.ids);
            for target in block.term.targets_mut().filter(|t| t.block == end || Some(t.block) == edge) {
                target.args.clear();
            }
            if a.by_iteration {
                keep_early(self.plan, b, &block.params, &mut block.insts, self.ids, &mut self.notes);
                records(self.plan, b, block.term_at, &mut block.insts, self.ids);
            } else {
                self.reverse_in(a, b, &mut block, &taken);
            }
            let at = block.term_at;
            if let Some(edge) = edge {
                for (&slot, v) in a.next.iter().zip(edge_args(func, b, a.header)) {
                    self.add(&mut block.insts, Defs::default(), AdOp::Keep(slot, Val::Primal(v)), at);
                }
                edges.push((edge, b));
            }
            self.blocks.insert(block.id, block);
        }
        for (edge, latch) in edges {
            let holds: HeldValues = [(latch, vec![])].into_iter().collect();
            let mut f = Fragment::default();
            self.edge(&mut f, latch, a.header, &taken, &holds);
            let term = Term::Jump(to(self.reverse_of[&latch]));
            self.finish(edge, Role::Edge(latch, a.header), vec![], f, term, func.layout.last_inst(latch));
        }
        // What is held inside of loops has nothing to do with one that is outermost, and is run
        // forwards.
        let holds: HeldValues = [(a.entry, vec![])].into_iter().collect();
        let mut f = Fragment::default();
        self.edge(&mut f, a.entry, a.header, &taken, &holds);
        let term = Term::Jump(to(self.reverse_of[&a.entry]));
        self.finish(end, Role::Edge(a.entry, a.header), vec![], f, term, at);
    }

    /// After an iteration, the next one.
    pub(super) fn next_iteration(&mut self, a: &Rerun) {
        let func = self.facts.func();
        let mut f = Fragment::default();
        let mut args = Vec::new();
        for (&slot, &v) in a.next.iter().zip(func.dfg.block_params(a.header)) {
            let d = Val::D(self.ids.dv());
            self.add(&mut f, [(d, func.dfg.value_type(v))].into(), AdOp::Restore(slot), None);
            args.push(d);
        }
        let next = Target { block: self.rerun[&a.header].blocks[&a.header], args };
        self.finish(self.reverse_of[&a.header], Role::Reverse(a.header), vec![], f, Term::Jump(next), None);
    }

    /// The reverses of a block's statements, after them.
    fn reverse_in(&mut self, a: &Rerun, b: ir::Block, block: &mut CfgBlock, taken: &IndexMap<ir::Value, Val>) {
        let func = self.facts.func();
        let last = func.layout.last_inst(b);
        let live = self.live;
        for v in live.touched[b].iter() {
            if !live.live_out[b].contains(v) && !a.sums.contains_key(&v) {
                self.add(&mut block.insts, Defs::default(), AdOp::ZeroCt(v), last);
            }
        }
        let insts = self.facts.cfg.insts(b);
        let stmts = self.stmts.all();
        for (&id, i) in insts.iter().rev().flat_map(|inst| stmts[inst].rvs.iter()) {
            let i = match i.op {
                AdOp::AddCt(v, _) if a.sums.contains_key(&v) => continue,
                AdOp::TakeCt(v) if a.sums.contains_key(&v) => {
                    let op = AdOp::Arith(Arith::Copy, [taken[&a.sums[&v]]].into(), i.defs[0].1);
                    AdInst { op, ..i.clone() }
                }
                _ => i.clone(),
            };
            block.insts.insert(id, i);
        }
    }
}
