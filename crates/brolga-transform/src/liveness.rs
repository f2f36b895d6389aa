//! Where cotangents live.
//!
//! **Question.** In which blocks of the primal does a value's cotangent mean something? **Answer.** Where the value is live, if only
//! uses are counted through which a cotangent comes back: reads by reverse fragments that add to it, and active arguments of
//! branches. Backward data flow over the primal's blocks, to a fixed point. Whoever assembles reverse blocks sets cotangents to zero
//! where they begin to mean something.

use std::collections::BTreeSet;

use brolga_analysis::cfg::edge_args;
use brolga_ir::inst::AdOp;
use cranelift_codegen::ir;
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::facts::Facts;
use crate::stmt::AdStmts;

/// Liveness of cotangents.
pub struct Liveness {
    /// Live at the start of a block; its parameters are not.
    pub live_in: SecondaryMap<ir::Block, BTreeSet<ir::Value>>,
    /// Live at the end of a block, arguments of its branches included.
    pub live_out: SecondaryMap<ir::Block, BTreeSet<ir::Value>>,
    /// Values that the reverse of a block adds to or takes.
    pub touched: SecondaryMap<ir::Block, Vec<ir::Value>>,
}

/// Active arguments of the edge `p -> b`, with the parameters that they feed.
pub fn active_args(facts: &Facts<'_>, p: ir::Block, b: ir::Block) -> Vec<(ir::Value, ir::Value)> {
    edge_args(facts.func(), p, b)
        .into_iter()
        .zip(facts.func().dfg.block_params(b).iter().copied())
        .filter(|&(a, q)| facts.is_active(a) && facts.is_active(q))
        .collect()
}

impl Liveness {
    /// Compute it. `returning` are the blocks that may return: the others have no reverse.
    pub fn compute(facts: &Facts<'_>, returning: &EntitySet<ir::Block>, stmts: &AdStmts) -> Self {
        let func = facts.func();
        let mut l =
            Liveness { live_in: SecondaryMap::new(), live_out: SecondaryMap::new(), touched: SecondaryMap::new() };
        let mut defs: SecondaryMap<ir::Block, BTreeSet<ir::Value>> = SecondaryMap::new();
        let mut uses: SecondaryMap<ir::Block, Vec<ir::Value>> = SecondaryMap::new();
        for &b in &facts.cfg.blocks {
            defs[b].extend(func.dfg.block_params(b).iter().copied());
            l.touched[b].extend(func.dfg.block_params(b).iter().copied().filter(|&v| facts.is_active(v)));
            for inst in func.layout.block_insts(b) {
                defs[b].extend(func.dfg.inst_results(inst).iter().copied());
                for i in stmts[&inst].rvs.values() {
                    match i.op {
                        AdOp::AddCt(v, _) => {
                            uses[b].push(v);
                            l.touched[b].push(v);
                        }
                        AdOp::TakeCt(v) => l.touched[b].push(v),
                        _ => {}
                    }
                }
            }
            l.touched[b].sort_unstable();
            l.touched[b].dedup();
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &b in facts.cfg.blocks.iter().rev() {
                if !returning.contains(b) {
                    continue;
                }
                let mut out = std::mem::take(&mut l.live_out[b]);
                for &s in &facts.cfg.succs[b] {
                    if returning.contains(s) {
                        out.extend(&l.live_in[s]);
                        out.extend(active_args(facts, b, s).into_iter().map(|a| a.0));
                    }
                }
                let before = l.live_in[b].len();
                let mut live: Vec<ir::Value> = out.iter().copied().collect();
                live.extend(&uses[b]);
                l.live_in[b].extend(live.into_iter().filter(|&v| !defs[b].contains(&v)));
                changed |= l.live_in[b].len() != before;
                l.live_out[b] = out;
            }
        }
        l
    }
}
