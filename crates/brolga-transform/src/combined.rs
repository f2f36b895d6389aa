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
//! (`brolga_analysis::whole`). At its very end it releases the blocks whose release has waited.
//!
//! Source: Enzyme's combined mode (`ReverseModeCombined`).

use brolga_ir::FuncKey;
use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Callee, Tape, Val};
use cranelift_codegen::ir::{AbiParam, Signature, types};
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

/// Join the halves of one plan: a forward pass and its pullback; or, behind that, one without guards that is taken if all that is
/// watched is as it should be; and, behind that, one that clears what the first is going to add to ([`crate::ascending`]).
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
        let ways: Vec<_> = pullbacks.iter().map(|half| Target { block: half.reverse_of[&b], args: vec![] }).collect();
        let rare = if ways.len() > 2 { 2 } else { 0 };
        block.term = match (ways[rare].clone(), ways.get(1).cloned()) {
            (guarded, None) => Term::Jump(guarded),
            (rare, Some(free)) => {
                let flag = Val::D(ids.dv());
                let watched = AdInst { defs: smallvec![(flag, types::I8)], op: AdOp::Watched, at: block.term_at };
                block.insts.insert(ids.inst(), watched);
                Term::If(flag, rare, free)
            }
        };
    }
    if plan.exits.is_empty() {
        // It never returns, so it never turns around.
        return whole;
    }
    let twice = pullbacks.len() > 1;
    let guarded = plan.exits.first().map(|b| pullbacks[0].reverse_of[b]);
    for (k, Pullback { graph: mut half, .. }) in pullbacks.into_iter().enumerate() {
        let entry = half.entry();
        let exit = half.blocks.values_mut().find(|b| matches!(b.term, Term::Return(_))).expect("one block returns");
        if k == 2 {
            let block = guarded.expect("there is one exit");
            exit.insts = Fragment::default();
            exit.term = Term::Jump(Target { block, args: vec![] });
            half.make_cold();
            whole.blocks.extend(half.blocks.into_iter().filter(|b| b.0 != entry));
            continue;
        }
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
        if let Some(release) = facts.release {
            release_all(facts, release, &mut half, ids);
        }
        if twice && k == 0 {
            half.make_cold();
        }
        whole.blocks.extend(half.blocks.into_iter().filter(|b| b.0 != entry));
    }
    whole
}

/// Before it returns, release what the first half has noted (`brolga_analysis::late`):
///
/// ```text
/// exit:  …                                  next: base, block = brolga_released seg
///        jump next                                if base, one(base, block), end
///                                           one:  call free(base, block); jump next
///                                           end:  return …
/// ```
fn release_all(facts: &Facts<'_>, release: FuncKey, half: &mut CfgBlocks, ids: &mut Ids) {
    let func = &facts.program.funcs[release];
    let [next, one, end] = [(); 3].map(|()| ids.block());
    let [base, block, each_base, each] = [(); 4].map(|()| Val::D(ids.dv()));
    let jump = |block| Term::Jump(Target { block, args: vec![] });
    let exit = half.blocks.values_mut().find(|b| matches!(b.term, Term::Return(_))).expect("one block returns");
    let returns = std::mem::replace(&mut exit.term, jump(next));
    let mut ask = Signature::new(brolga_analysis::modes::HELPER_CONV);
    ask.params.push(AbiParam::new(types::I64));
    ask.returns.extend([types::I64, types::I32].map(AbiParam::new));
    let call = |callee: &str, args: Vec<Option<Val>>, sig: Signature, tape: Tape| AdOp::Call {
        callee: Callee::Symbol(callee.to_owned()),
        args,
        sig: Box::new(sig),
        tape,
    };
    let asks = AdInst {
        defs: smallvec![(base, types::I64), (block, types::I32)],
        op: call("brolga_released", vec![None], ask, Tape::Aside),
        at: None,
    };
    let releases = AdInst {
        defs: smallvec![],
        op: call(&func.symbol, vec![Some(each_base), Some(each)], func.signature.clone(), Tape::Aside),
        at: None,
    };
    let to_one = Target { block: one, args: vec![base, block] };
    let found = Term::If(base, to_one, Target { block: end, args: vec![] });
    let params = vec![(each_base, types::I64), (each, types::I32)];
    let mut add = |id, params, inst: Option<AdInst>, term| {
        let insts = inst.map(|i| (ids.inst(), i)).into_iter().collect();
        half.blocks.insert(id, CfgBlock { id, role: Role::Exit, params, insts, term, term_at: None, cold: false });
    };
    add(next, vec![], Some(asks), found);
    add(one, params, Some(releases), jump(next));
    add(end, vec![], None, returns);
}
