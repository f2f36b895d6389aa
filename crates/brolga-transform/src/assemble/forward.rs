//! The augmented forward pass: the primal, forward fragments, and records.
//!
//! **Question.** What computes the primal, and leaves what the pullback needs?
//!
//! **Answer.** The lifted primal is copied block by block. Its instructions are neither renumbered
//! nor reordered; a derived call stands in place of the call it replaces. What is new: an entry
//! that begins the activation, deltas as further block parameters, records at the ends of blocks,
//! and the end of the activation before each return.
//!
//! **Invariant.** The forward pass computes the primal's results bit for bit.
//!
//! **Cost.** One walk over the lifted graph. If no later assembly reads it, its instructions move
//! and are not copied.

use brolga_analysis::{ParamMode, ResultMode, RootKind};
use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Role, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, Defs, Val};
use brolga_ir::lift::BlockMap;
use brolga_ir::map::Table;
use cranelift_codegen::ir::{self, types};
use smallvec::SmallVec;

use crate::facts::{Facts, delta_params};
use crate::plan::table::Plan;
use crate::translate::stmt::AdStmts;
use crate::val_map::ValMap;

/// The forward graph, and the name of its segment parameter.
pub(crate) struct Forward {
    /// The graph.
    pub graph: CfgBlocks,
    /// The segment; `None` if the function records nothing and calls nothing that does.
    pub seg: Val,
}

/// The lifted primal, and which of its blocks are which.
pub(crate) struct LiftedPrimal<'a> {
    /// The graph.
    pub graph: &'a mut CfgBlocks,
    /// The forward block of each primal block.
    pub map: &'a BlockMap,
    /// Whether no later assembly reads its instructions, so that they move.
    pub spent: bool,
}

/// Assemble the forward graph.
pub(crate) fn forward(
    facts: &Facts<'_>,
    LiftedPrimal { graph: lifted, map, spent }: LiftedPrimal<'_>,
    stmts: &AdStmts,
    plan: &Plan,
    symbol: &str,
    ids: &mut Ids,
) -> Forward {
    let func = facts.func();
    let seg = Val::D(ids.dv());
    let mut blocks = Table::with_capacity(map.len(), ids.blocks());
    let mut notes = ValMap::default();
    for (&b, id) in map.iter() {
        let primal = &mut lifted.blocks[id];
        let (taken_insts, term) = if spent {
            (std::mem::take(&mut primal.insts), std::mem::replace(&mut primal.term, Term::Return(Vec::new())))
        } else {
            (Fragment::default(), primal.term.clone())
        };
        let primal = &lifted.blocks[id];
        let mut params = primal.params.clone();
        let is_entry = b == facts.cfg.blocks[0];
        let stmt = |inst: &AdInst| &stmts[&inst.at.expect("a lifted instruction knows its primal")];
        let stays = |inst: &AdInst| {
            let stmt = stmt(inst);
            stmt.keep && stmt.before.is_empty() && stmt.after.is_empty()
        };
        // As it is, if nothing comes between.
        let as_it_is = spent && !is_entry && taken_insts.values().all(stays);
        let room = if as_it_is { 0 } else { taken_insts.len() + primal.insts.len() + ENDS };
        let mut insts = Fragment::with_capacity(room);
        let mut add = |ids: &mut Ids, defs: Defs, op: AdOp, at: Option<ir::Inst>| {
            insts.insert(ids.inst(), AdInst { defs, op, at });
        };
        if is_entry {
            for (i, mode) in facts.variant.params.iter().enumerate() {
                if matches!(mode, ParamMode::Dup { .. }) {
                    params.push((Val::Delta(func.dfg.block_params(b)[i]), types::I64));
                }
            }
            params.push((seg, types::I64));
            add(ids, Defs::default(), AdOp::EnterFrame, None);
            for (&root, kind) in &facts.pointers.roots {
                let op = match kind {
                    RootKind::Slot(s) => AdOp::SlotDelta(*s),
                    RootKind::Data(k) => AdOp::DataDelta(*k),
                    _ => continue,
                };
                add(ids, [(Val::Delta(root), types::I64)].into(), op, func.dfg.value_def(root).inst());
            }
        } else {
            params.extend(delta_params(facts, b).into_iter().map(|(_, v)| (Val::Delta(v), types::I64)));
        }
        if as_it_is {
            insts = taken_insts;
        } else {
            let lent = primal.insts.iter().map(|(&i, inst)| (i, inst.clone()));
            for (i, inst) in taken_insts.into_iter().chain(lent) {
                let stmt = stmt(&inst);
                insts.extend_from(&stmt.before);
                if stmt.keep {
                    insts.insert(i, inst);
                }
                insts.extend_from(&stmt.after);
            }
        }
        let term_at = primal.term_at;
        if let Some(stmt) = term_at.and_then(|last| stmts.get(&last)) {
            insts.extend_from(&stmt.before);
        }
        // What is reversed iteration by iteration is kept for that when it is run again.
        if plan.rerun(b).is_none_or(|a| !a.by_iteration) {
            keep_early(plan, b, &params, &mut insts, ids, &mut notes);
            records(plan, b, term_at, &mut insts, ids);
        }
        let term = terminator(facts, b, lifted, term, term_at, &mut insts, ids);
        if matches!(term, Term::Return(_)) {
            if let Some(slot) = plan.flag {
                let d = Val::D(ids.dv());
                let defs = [(d, types::I8)].into();
                insts.insert(ids.inst(), AdInst { defs, op: AdOp::Watched, at: term_at });
                insts.insert(ids.inst(), AdInst { defs: Defs::default(), op: AdOp::Keep(slot, d), at: term_at });
            }
            insts.insert(ids.inst(), AdInst { defs: Defs::default(), op: AdOp::LeaveFrame, at: term_at });
        }
        blocks
            .insert(*id, CfgBlock { id: *id, role: Role::Forward(b), params, insts, term, term_at, cold: primal.cold });
    }
    let signature = facts.variant.forward_signature(&func.signature);
    Forward { graph: CfgBlocks { symbol: symbol.to_owned(), signature, blocks }, seg }
}

type Insts = Fragment;

/// Room for what begins and ends a block, so that a long one does not move for its sake.
const ENDS: usize = 8;

/// Keep values in the frame as soon as they are there, so that nothing lives longer than in the
/// primal. `first` is zero for all names, and is left so.
pub(crate) fn keep_early(
    plan: &Plan,
    b: ir::Block,
    params: &[(Val, ir::Type)],
    insts: &mut Insts,
    ids: &mut Ids,
    first: &mut ValMap<u32>,
) {
    let keeps = &plan.blocks[b].keeps[..];
    if keeps.is_empty() {
        return;
    }
    // For each name one more than its first position among them, and for each position the next.
    let mut next = vec![0; keeps.len()];
    for (k, &(_, v)) in keeps.iter().enumerate().rev() {
        next[k] = std::mem::replace(first.at(v), k as u32 + 1);
    }
    let mut out = Insts::with_capacity(insts.len() + keeps.len() + ENDS);
    let mut keep = |v: Val, at: Option<ir::Inst>, first: &mut ValMap<u32>, out: &mut Insts| {
        let mut k = first.get(v);
        if k != 0 {
            *first.at(v) = 0;
        }
        while k != 0 {
            let op = AdOp::Keep(keeps[k as usize - 1].0, v);
            out.insert(ids.inst(), AdInst { defs: Defs::default(), op, at });
            k = next[k as usize - 1];
        }
    };
    // The frame must have been entered before anything can be kept in it.
    let enters = insts.values().any(|i| i.op == AdOp::EnterFrame);
    if !enters {
        params.iter().for_each(|p| keep(p.0, None, first, &mut out));
    }
    for (id, inst) in std::mem::take(insts) {
        let (entered, at) = (matches!(inst.op, AdOp::EnterFrame), inst.at);
        let defs: SmallVec<[Val; 1]> = inst.defs.iter().map(|d| d.0).collect();
        out.insert(id, inst);
        if entered {
            params.iter().for_each(|p| keep(p.0, None, first, &mut out));
        }
        defs.into_iter().for_each(|v| keep(v, at, first, &mut out));
    }
    // What an earlier block defined.
    for &(slot, v) in keeps.iter().filter(|k| first.get(k.1) != 0) {
        out.insert(ids.inst(), AdInst { defs: Defs::default(), op: AdOp::Keep(slot, v), at: None });
    }
    keeps.iter().for_each(|k| *first.at(k.1) = 0);
    *insts = out;
}

/// What a block leaves for its reverse at its end.
pub(crate) fn records(plan: &Plan, b: ir::Block, at: Option<ir::Inst>, insts: &mut Insts, ids: &mut Ids) {
    let p = &plan.blocks[b];
    let mut add = |op: AdOp| {
        insts.insert(ids.inst(), AdInst { defs: Defs::default(), op, at });
    };
    for &slot in &p.keep_ids {
        add(AdOp::KeepBlock(slot, plan.number[b]));
    }
    let id = p.push_id.then_some(plan.number[b]);
    if !p.record.is_empty() || id.is_some() {
        add(AdOp::Push(p.record.clone(), id));
    }
}

/// The primal terminator, with deltas among the arguments.
fn terminator(
    facts: &Facts<'_>,
    b: ir::Block,
    lifted: &CfgBlocks,
    term: Term,
    at: Option<ir::Inst>,
    insts: &mut Insts,
    ids: &mut Ids,
) -> Term {
    let mut zero: Option<Val> = None;
    let mut none = |insts: &mut Insts| {
        *zero.get_or_insert_with(|| {
            let d = Val::D(ids.dv());
            let op = AdOp::Arith(Arith::Iconst(0), Args::default(), types::I64);
            insts.insert(ids.inst(), AdInst { defs: [(d, types::I64)].into(), op, at });
            d
        })
    };
    let mut extend = |mut t: Target, insts: &mut Insts| -> Target {
        let Role::Forward(to) = lifted.blocks[&t.block].role else { unreachable!("a target is a primal block") };
        let args = facts.cfg.args(b, to);
        for (i, _) in delta_params(facts, to) {
            let d = facts.delta(args[i]).unwrap_or_else(|| none(insts));
            t.args.push(d);
        }
        t
    };
    match term {
        Term::Jump(t) => Term::Jump(extend(t, insts)),
        Term::If(c, x, y) => {
            let (x, y) = (extend(x, insts), extend(y, insts));
            Term::If(c, x, y)
        }
        Term::Table(i, d, ts) => {
            let d = extend(d, insts);
            Term::Table(i, d, ts.into_iter().map(|t| extend(t, insts)).collect())
        }
        Term::Return(mut vs) => {
            let pointers = facts.variant.results.iter().enumerate().filter(|(_, r)| **r == ResultMode::Ptr);
            for i in pointers.map(|(i, _)| i).collect::<Vec<_>>() {
                let Val::Primal(v) = vs[i] else { unreachable!("a primal returns primal values") };
                let d = facts.delta(v).unwrap_or_else(|| none(insts));
                vs.push(d);
            }
            Term::Return(vs)
        }
        t @ (Term::Trap(_) | Term::Switch(..)) => t,
    }
}
