//! Liveness of cotangents: in which blocks each of them means something.
//!
//! **Question.** In which blocks of the primal does a value's cotangent mean something? **Answer.**
//! Where the value is live, if only uses are counted through which a cotangent comes back: reads by
//! reverse fragments that add to it, and active arguments of branches. Backward data flow over the
//! primal's blocks, to a fixed point. The assembly of reverse blocks sets cotangents to zero where
//! they begin to mean something.
//!
//! **Cost.** One walk over the statements, then rounds over the blocks of which a successor has
//! changed. A set is a sorted list.

use brolga_ir::inst::AdOp;
use brolga_ir::map::one_each;
use cranelift_codegen::ir;
use cranelift_entity::{EntitySet, SecondaryMap};
use smallvec::SmallVec;

use crate::facts::Facts;
use crate::translate::stmt::AdStmts;

/// A few values.
type FewValues = SmallVec<[ir::Value; 6]>;

/// Values in ascending order. A block has few, and they are mostly gone through, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(FewValues);

impl Values {
    fn new(mut all: FewValues) -> Self {
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    /// Whether a value is among them.
    pub fn contains(&self, v: ir::Value) -> bool {
        self.0.binary_search(&v).is_ok()
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = ir::Value> + '_ {
        self.0.iter().copied()
    }

    /// Those that others do not have, in order.
    pub fn without<'a>(&'a self, others: &'a Self) -> impl Iterator<Item = ir::Value> + 'a {
        self.iter().filter(|&v| !others.contains(v))
    }
}

/// Liveness of cotangents.
pub struct Liveness {
    /// Live at the start of a block; its parameters are not.
    pub live_in: SecondaryMap<ir::Block, Values>,
    /// Live at the end of a block, arguments of its branches included.
    pub live_out: SecondaryMap<ir::Block, Values>,
    /// Values that the reverse of a block adds to or takes.
    pub touched: SecondaryMap<ir::Block, Values>,
}

/// Active arguments of the edge `p -> b`, with the parameters that they feed.
pub fn active_args<'a>(
    facts: &'a Facts<'_>,
    p: ir::Block,
    b: ir::Block,
) -> impl Iterator<Item = (ir::Value, ir::Value)> + 'a {
    let args = facts.cfg.args(p, b).iter().copied();
    args.zip(facts.func().dfg.block_params(b).iter().copied())
        .filter(move |&(a, q)| facts.is_active(a) && facts.is_active(q))
}

/// Parameters of `b` that may be a float's bits, for which a branch from `p` passes an integer that
/// no rule follows.
pub fn unfollowed(facts: &Facts<'_>, p: ir::Block, b: ir::Block) -> Vec<ir::Value> {
    let args = facts.cfg.args(p, b).iter().zip(facts.func().dfg.block_params(b));
    args.filter(|(a, q)| facts.is_active(**q) && facts.is_unfollowed(**a)).map(|(_, &q)| q).collect()
}

impl Liveness {
    /// Compute it. `returning` are the blocks that may return: the others have no reverse.
    pub fn compute(facts: &Facts<'_>, returning: &EntitySet<ir::Block>, stmts: &AdStmts) -> Self {
        let func = facts.func();
        let blocks = func.dfg.num_blocks();
        let mut l = Liveness { live_in: one_each(blocks), live_out: one_each(blocks), touched: one_each(blocks) };
        // What is live at the end of each block for the sake of its branches' arguments.
        let mut passed: SecondaryMap<ir::Block, FewValues> = one_each(blocks);
        for &b in &facts.cfg.blocks {
            let mut touched: FewValues =
                func.dfg.block_params(b).iter().copied().filter(|&v| facts.is_active(v)).collect();
            let mut used = FewValues::new();
            for &inst in facts.cfg.insts(b) {
                for i in stmts[&inst].rvs.values() {
                    match i.op {
                        AdOp::AddCt(v, _) => {
                            touched.push(v);
                            if facts.cfg.def_block[v] != Some(b) {
                                used.push(v);
                            }
                        }
                        AdOp::TakeCt(v) => touched.push(v),
                        _ => {}
                    }
                }
            }
            l.touched[b] = Values::new(touched);
            if returning.contains(b) {
                l.live_in[b] = Values::new(used);
                for &s in facts.cfg.succs[b].iter().filter(|s| returning.contains(**s)) {
                    passed[b].extend(active_args(facts, b, s).map(|a| a.0));
                }
            }
        }
        let live_out = |l: &Self, b: ir::Block| {
            let mut out = passed[b].clone();
            for &s in facts.cfg.succs[b].iter().filter(|s| returning.contains(**s)) {
                out.extend(l.live_in[s].iter());
            }
            Values::new(out)
        };
        // A block is looked at again if more has become live in one that it leads to.
        let mut open: SecondaryMap<ir::Block, bool> = SecondaryMap::with_default(true);
        open.resize(func.dfg.num_blocks());
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &b in facts.cfg.blocks.iter().rev().filter(|b| returning.contains(**b)) {
                if !std::mem::take(&mut open[b]) {
                    continue;
                }
                let out = live_out(&l, b);
                let live = &mut l.live_in[b];
                let before = live.0.len();
                live.0.extend(out.iter().filter(|&v| facts.cfg.def_block[v] != Some(b)));
                if live.0.len() > before {
                    *live = Values::new(std::mem::take(&mut live.0));
                }
                if live.0.len() > before {
                    changed = true;
                    facts.cfg.preds[b].iter().for_each(|&p| open[p] = true);
                }
                l.live_out[b] = out;
            }
        }
        let mut all = facts.cfg.blocks.iter().filter(|b| returning.contains(**b));
        debug_assert!(all.all(|&b| l.live_out[b] == live_out(&l, b)), "a block was not looked at again");
        l
    }
}
