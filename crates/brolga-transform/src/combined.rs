//! The combined graph: forward blocks, then reverse blocks, in one function.
//!
//! ```text
//! f__gradient(p…, δ of each Dup parameter…, seg, r̄ of each Active result…) -> (r…, p̄ of each Active parameter…)
//! ```
//!
//! Where the forward pass would return, the combined function keeps the results and goes on with the reverse of the block
//! that it is in. There is no link to a frame and no number of the block that returned: the frame is in variables or in a
//! stack slot, and control flow itself knows. In [`Mode::Gradient`](brolga_ir::Mode::Gradient) the results are left out, and
//! [`crate::prune`] removes what only they needed. Calls inside such a function may be of this kind as well
//! (`brolga_analysis::whole`).
//!
//! Source: Enzyme's combined mode (`ReverseModeCombined`).

use brolga_ir::block::{CfgBlocks, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Val};
use cranelift_codegen::ir::{Signature, types};
use smallvec::smallvec;

use crate::facts::Facts;
use crate::forward::Forward;
use crate::plan::Plan;
use crate::pullback::Pullback;

/// The signature: see above.
pub fn signature(forward: &Signature, pullback: &Signature, n_results: usize) -> Signature {
    let mut s = forward.clone();
    s.params.extend(pullback.params[1..].iter().copied());
    s.returns.truncate(n_results);
    s.returns.extend(pullback.returns.iter().copied());
    s
}

/// Join the halves of one plan: a forward pass and its pullback, or, behind it, one without guards that is taken if all that is
/// watched is finite.
pub fn combine(
    facts: &Facts<'_>,
    forward: Forward,
    pullbacks: Vec<Pullback>,
    plan: &Plan,
    symbol: String,
    ids: &mut Ids,
) -> CfgBlocks {
    let Forward { graph: mut whole, .. } = forward;
    let returns = &facts.func().signature.returns;
    whole.symbol = symbol;
    whole.signature = signature(&whole.signature, &pullbacks[0].graph.signature, plan.results.len());
    let seeds = pullbacks[0].graph.blocks[0].params.iter().skip(1).copied().collect::<Vec<_>>();
    whole.blocks[0].params.extend(seeds);
    for block in whole.blocks.values_mut() {
        let (Role::Forward(b), Term::Return(values)) = (block.role, &block.term) else { continue };
        block.insts.retain(|_, i| i.op != AdOp::LeaveFrame);
        let keeps = plan.results.iter().zip(values).map(|(&slot, &v)| AdOp::Keep(slot, v));
        for op in keeps.chain([AdOp::Turn]).collect::<Vec<_>>() {
            block.insts.insert(ids.inst(), AdInst { defs: smallvec![], op, at: block.term_at });
        }
        let mut ways = pullbacks.iter().map(|half| Target { block: half.reverse_of[&b], args: vec![] });
        let guarded = ways.next().expect("there is a pullback");
        block.term = match ways.next() {
            None => Term::Jump(guarded),
            Some(free) => {
                let flag = Val::D(ids.dv());
                let watched = AdInst { defs: smallvec![(flag, types::I8)], op: AdOp::Watched, at: block.term_at };
                block.insts.insert(ids.inst(), watched);
                Term::If(flag, guarded, free)
            }
        };
    }
    if plan.exits.is_empty() {
        // It never returns, so it never turns around.
        return whole;
    }
    for Pullback { graph: mut half, .. } in pullbacks {
        let entry = half.entry();
        half.blocks.shift_remove(&entry);
        let exit = half.blocks.values_mut().find(|b| matches!(b.term, Term::Return(_))).expect("one block returns");
        let Term::Return(cotangents) = &exit.term else { unreachable!("found as such") };
        let mut out = Vec::new();
        for (&slot, r) in plan.results.iter().zip(returns) {
            let d = Val::D(ids.dv());
            let defs = smallvec![(d, r.value_type)];
            exit.insts.insert(ids.inst(), AdInst { defs, op: AdOp::Restore(slot), at: None });
            out.push(d);
        }
        out.extend(cotangents);
        exit.term = Term::Return(out);
        whole.blocks.extend(half.blocks);
    }
    whole
}
