//! The reverse half of a loop that is run again ([`crate::again`]).
//!
//! ```text
//! edge p -> b   (out of the loop) the cotangent of the member of each sum that leaves goes to the sum's first
//! loop of H     what is read from outside is had; the cotangents of sums are taken, once and for all
//! B again       B as in the primal, then the reverse fragments of its statements, last first; goes where B goes
//! edge e -> H   (at the end) the cotangents of sums go to what they began with; go to the reverse of e
//! ```

use brolga_analysis::cfg::edge_args;
use brolga_ir::BlockId;
use brolga_ir::block::{CfgBlock, Fragment, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Arith, Val};
use brolga_ir::lift::{BlockMap, lift_block};
use brolga_ir::map::{HashMap, IndexMap};
use cranelift_codegen::ir;
use smallvec::smallvec;

use super::{Builder, Holds, to};
use crate::again::Again;
use crate::plan::{Source, type_of};

/// Where the reverse half goes in a loop that is run again.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// The block that begins it.
    pub begin: BlockId,
    /// The edge behind it.
    pub end: BlockId,
}

impl Builder<'_, '_> {
    /// Where the pullback goes on behind what happens on the edge from `p`.
    pub(super) fn back(&self, p: ir::Block) -> BlockId {
        self.plan.again(p).map_or(self.reverse_of[&p], |a| self.again[&a.header].begin)
    }

    /// On an edge out of a loop that is run again, each sum's first gets the cotangent that arrives.
    pub(super) fn leave(&mut self, f: &mut Fragment, p: ir::Block, b: ir::Block) {
        let Some(a) = self.plan.again(p) else { return };
        let at = self.facts.func().layout.last_inst(p);
        let arrives: Vec<_> = a.starts().map(|s| (s, a.leaving(self.facts, &self.live, p, b, s))).collect();
        let mut taken = Vec::new();
        for &(start, member) in arrives.iter().filter(|(start, member)| Some(*start) != *member) {
            let d = member.map(|m| {
                let d = Val::D(self.ids.dv());
                self.add(f, smallvec![(d, type_of(self.facts, self.aux, Val::Primal(m)))], AdOp::TakeCt(m), at);
                d
            });
            taken.push((start, d));
        }
        for (start, d) in taken {
            self.add(f, smallvec![], AdOp::ZeroCt(start), at);
            if let Some(d) = d {
                self.add(f, smallvec![], AdOp::AddCt(start, d), at);
            }
        }
    }

    /// All blocks of a loop that is run again.
    pub(super) fn run_again(&mut self, a: &Again) {
        let facts = self.facts;
        let func = facts.func();
        let Way { begin, end } = self.again[&a.header];
        let mut f = Fragment::default();
        let at = func.layout.last_inst(a.entry);
        let mut waiting: HashMap<Val, Source> = self.plan.blocks[a.entry].sources.iter().copied().collect();
        for &v in &a.outer {
            self.have(&mut f, v, &mut waiting, at);
        }
        let mut taken: IndexMap<ir::Value, Val> = IndexMap::default();
        for start in a.starts() {
            let d = Val::D(self.ids.dv());
            let ty = facts.activity.ct[start].expect("a sum has a cotangent").ty();
            self.add(&mut f, smallvec![(d, ty)], AdOp::TakeCt(start), at);
            taken.insert(start, d);
        }
        let args = edge_args(func, a.entry, a.header).into_iter().map(Val::Primal).collect();
        let first = Target { block: self.reverse_of[&a.header], args };
        self.finish(begin, Role::Begin(a.header), vec![], f, Term::Jump(first), at);
        let mut map: BlockMap = func.layout.blocks().map(|b| (b, end)).collect();
        map.extend(a.blocks.iter().map(|b| (*b, self.reverse_of[b])));
        for &b in &a.blocks {
            let block = self.block_again(a, b, &map, &taken);
            self.blocks.insert(block.id, block);
        }
        // What is held inside of loops has nothing to do with one that is outermost, and is run forwards.
        let holds: Holds = [(a.entry, vec![])].into_iter().collect();
        let mut f = Fragment::default();
        self.edge(&mut f, a.entry, a.header, &taken, &holds);
        let term = Term::Jump(to(self.reverse_of[&a.entry]));
        self.finish(end, Role::Edge(a.entry, a.header), vec![], f, term, at);
    }

    /// A block as in the primal, and behind it the reverses of its statements.
    fn block_again(&mut self, a: &Again, b: ir::Block, map: &BlockMap, taken: &IndexMap<ir::Value, Val>) -> CfgBlock {
        let func = self.facts.func();
        let mut block = lift_block(func, b, self.reverse_of[&b], Role::Again(a.header, b), map, self.ids);
        let end = self.again[&a.header].end;
        for target in block.term.targets_mut().into_iter().filter(|t| t.block == end) {
            target.args.clear();
        }
        let last = func.layout.last_inst(b);
        for v in self.live.touched[b].clone() {
            if !self.live.live_out[b].contains(&v) && !a.sums.contains_key(&v) {
                self.add(&mut block.insts, smallvec![], AdOp::ZeroCt(v), last);
            }
        }
        for inst in func.layout.block_insts(b).collect::<Vec<_>>().into_iter().rev() {
            for (&id, i) in &self.stmts[&inst].rvs {
                let i = match i.op {
                    AdOp::AddCt(v, _) if a.sums.contains_key(&v) => continue,
                    AdOp::TakeCt(v) if a.sums.contains_key(&v) => {
                        let op = AdOp::Arith(Arith::Copy, smallvec![taken[&a.sums[&v]]], i.defs[0].1);
                        AdInst { op, ..i.clone() }
                    }
                    _ => i.clone(),
                };
                block.insts.insert(id, i);
            }
        }
        block
    }
}
