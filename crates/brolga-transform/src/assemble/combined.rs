//! Joint reversal of the root: the combined graph, forward blocks and then reverse blocks in one
//! function.
//!
//! **Question.** A gradient is asked for, and the primal has no other use. How do both halves
//! become one function?
//!
//! ```text
//! f__gradient(p…, δ of each Dup parameter…, seg, r̄ of each Active result…)
//!     -> (r…, δ of each Ptr result…, p̄ of each Active parameter…)
//! ```
//!
//! **Answer.** Where the forward pass would return, the combined function keeps the results and
//! goes on with the reverse of the block that it is in. There is no link to a frame and no number
//! of the block that returned: the frame is in variables or in a stack slot, and control flow
//! itself knows. In [`Mode::Gradient`](brolga_ir::Mode::Gradient) the results are left out, and
//! [`crate::dce`] removes what only they needed. Calls inside such a function may be of this kind
//! as well (`brolga_analysis::calls::joint`). At its very end it releases the blocks whose release
//! has waited.
//!
//! **Cost.** One walk over the blocks of both halves, which move.
//!
//! **Source.** Enzyme's combined mode (`ReverseModeCombined`).

use brolga_analysis::variant::combined_signature;
use brolga_ir::FuncKey;
use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Callee, Defs, Tape, Val};
use cranelift_codegen::ir::{AbiParam, Signature, types};

use crate::assemble::forward::Forward;
use crate::assemble::pullback::{PullbackGraph, Pullbacks};
use crate::facts::Facts;
use crate::plan::table::Plan;

/// Join the halves of one plan: a forward pass and its pullbacks.
pub(crate) fn combine(
    facts: &Facts<'_>,
    forward: Forward,
    Pullbacks { guarded, free, clearing }: Pullbacks,
    plan: &Plan,
    symbol: String,
    ids: &mut Ids,
) -> CfgBlocks {
    let Forward { graph: mut combined, .. } = forward;
    combined.symbol = symbol;
    combined.signature = combined_signature(&combined.signature, &guarded.graph.signature, plan.results.len());
    let seeds = guarded.graph.blocks[0].params.iter().skip(1).copied().collect::<Vec<_>>();
    combined.blocks[0].params.extend(seeds);
    for block in combined.blocks.values_mut() {
        let (Role::Forward(b), Term::Return(values)) = (block.role, &block.term) else { continue };
        block.insts.retain(|_, i| i.op != AdOp::LeaveFrame);
        let keeps = plan.results.iter().zip(values).map(|(&slot, &v)| AdOp::Keep(slot, v));
        for op in keeps.chain([AdOp::NextIteration]).collect::<Vec<_>>() {
            block.insts.insert(ids.inst(), AdInst { defs: Defs::default(), op, at: block.term_at });
        }
        let to = |half: &PullbackGraph| Target { block: half.reverse_of[&b], args: vec![] };
        block.term = match &free {
            None => Term::Jump(to(&guarded)),
            Some(free) => {
                let flag = Val::D(ids.dv());
                let watched = AdInst { defs: [(flag, types::I8)].into(), op: AdOp::Watched, at: block.term_at };
                block.insts.insert(ids.inst(), watched);
                Term::If(flag, to(clearing.as_ref().unwrap_or(&guarded)), to(free))
            }
        };
    }
    let Some(exit_block) = plan.exits.first() else {
        // It never returns, so it never turns around.
        return combined;
    };
    let mut rare = free.is_some();
    let begins = guarded.reverse_of[exit_block];
    for PullbackGraph { graph: mut half, .. } in [Some(guarded), free].into_iter().flatten() {
        leave(facts, plan, &mut half, ids);
        if std::mem::take(&mut rare) {
            half.make_cold();
        }
        append(&mut combined, half);
    }
    if let Some(PullbackGraph { graph: mut half, .. }) = clearing {
        let exit = exit(&mut half);
        exit.insts = Fragment::default();
        exit.term = Term::Jump(Target { block: begins, args: vec![] });
        half.make_cold();
        append(&mut combined, half);
    }
    combined
}

fn exit(half: &mut CfgBlocks) -> &mut CfgBlock {
    half.blocks.values_mut().find(|b| matches!(b.term, Term::Return(_))).expect("one block returns")
}

/// All blocks of a half but its entry, which finds the frame of a pair.
fn append(combined: &mut CfgBlocks, half: CfgBlocks) {
    combined.blocks.append_tail(half.blocks, 1);
}

/// Let a half return what the first has kept, too.
fn leave(facts: &Facts<'_>, plan: &Plan, half: &mut CfgBlocks, ids: &mut Ids) {
    let exit = exit(half);
    let Term::Return(cotangents) = &exit.term else { unreachable!("found as such") };
    let mut out = Vec::new();
    // Deltas of results come after them.
    let types = facts.func().signature.returns.iter().map(|r| r.value_type).chain(std::iter::repeat(types::I64));
    for (&slot, ty) in plan.results.iter().zip(types) {
        let d = Val::D(ids.dv());
        let defs = [(d, ty)].into();
        exit.insts.insert(ids.inst(), AdInst { defs, op: AdOp::Restore(slot), at: None });
        out.push(d);
    }
    out.extend(cotangents);
    exit.term = Term::Return(out);
    if let Some(release) = facts.release {
        release_all(facts, release, half, ids);
    }
}

/// Before it returns, release what the first half has noted
/// (`brolga_analysis::calls::deferred_free`):
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
    let returns = std::mem::replace(&mut exit(half).term, jump(next));
    let mut ask = Signature::new(brolga_analysis::variant::HELPER_CONV);
    ask.params.push(AbiParam::new(types::I64));
    ask.returns.extend([types::I64, types::I32].map(AbiParam::new));
    let call = |callee: &str, args: Vec<Option<Val>>, sig: Signature, tape: Tape| AdOp::Call {
        callee: Callee::Symbol(callee.into()),
        args: args.into(),
        sig: Box::new(sig),
        tape,
    };
    let asks = AdInst {
        defs: [(base, types::I64), (block, types::I32)].into(),
        op: call("brolga_released", vec![None], ask, Tape::Aside),
        at: None,
    };
    let releases = AdInst {
        defs: Defs::default(),
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
