//! Versions for the rows of a sparse matrix: what a run asks of them
//! ([`monotone_rows`](crate::shadow::monotone_rows)), and how rare runs clear shadows before they
//! add to them.
//!
//! **Question.** Which statements store, ask or clear in which version of the pullback?
//!
//! **Answer.** The forward half asks of each row, where both ends are known. In the version that
//! is taken if all rows ascend, their loads' reverse stores. Otherwise the reverse adds, and what
//! it adds to is cleared first, by the statements of the same loops with nothing but that in them.
//!
//! **Cost.** One pass over the statements, and over the graph that clears.

use brolga_ir::block::{CfgBlocks, Fragment, Ids, Term};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, ClearQuery, Defs, Val};
use brolga_ir::map::HashSet;
use cranelift_codegen::ir;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types;

use crate::facts::Facts;
use crate::facts::overwrites::{Order, Rows};
use crate::plan::table::Plan;
use crate::shadow::strides::MOST_ITERATIONS;
use crate::translate::stmt::{AdStmt, AdStmts, RootGuards};

/// Ask of each row, where its ends are known.
pub(crate) fn ask(facts: &Facts<'_>, stmts: &mut AdStmts, order: Order, ids: &mut Ids) {
    let Order { low, high, cc, near, block } = order;
    let func = facts.func();
    let last = func.layout.last_inst(block).expect("a block has a terminator");
    let stmt = stmts.get_mut(&last).expect("every instruction is a statement");
    let most = near.then(|| {
        let most = Val::D(ids.dv());
        let constant = AdOp::Arith(Arith::Iconst((1 << MOST_ITERATIONS) - 1), Args::default(), types::I64);
        stmt.before.insert(ids.inst(), AdInst { defs: [(most, types::I64)].into(), op: constant, at: Some(last) });
        most
    });
    let mut watch = |cc, other| {
        let flag = Val::D(ids.dv());
        let asks = AdOp::Arith(Arith::Icmp(cc), [Val::Primal(high), other].into(), types::I8);
        let new = |defs, op| AdInst { defs, op, at: Some(last) };
        stmt.before.insert(ids.inst(), new([(flag, types::I8)].into(), asks));
        stmt.before.insert(ids.inst(), new(Defs::default(), AdOp::WatchFlag(flag)));
    };
    watch(cc, Val::Primal(low));
    if let Some(most) = most {
        watch(IntCC::UnsignedGreaterThan, most);
    }
}

/// The reverse of a load that stores.
pub(crate) fn storing(rvs: &mut Fragment) {
    for inst in rvs.values_mut() {
        if let AdOp::AddMem { fresh, .. } = &mut inst.op {
            *fresh = true;
        }
    }
}

/// Statements whose reverse clears what these loads are going to add to, and does nothing else.
pub(crate) fn clearing(rows: &[Rows], stmts: &AdStmts, ids: &mut Ids) -> AdStmts {
    let of = |stmt: &AdStmt| {
        let mut rvs = Fragment::default();
        if rows.iter().any(|r| r.argument.is_some() && r.loads.contains(&stmt.primal)) {
            for inst in stmt.rvs.values() {
                let AdOp::AddMem { place, shape, .. } = inst.op else { continue };
                let op = AdOp::ZeroMem { place, bytes: shape.bytes(), asks: ClearQuery::Nothing, cuts: None };
                rvs.insert(ids.inst(), AdInst { defs: Defs::default(), op, at: inst.at });
            }
        }
        let (before, after) = (Fragment::default(), Fragment::default());
        (
            stmt.primal,
            AdStmt {
                primal: stmt.primal,
                before,
                keep: stmt.keep,
                after,
                rvs,
                guards: vec![],
                roots: RootGuards::default(),
            },
        )
    };
    stmts.values().map(of).collect()
}

/// Whether the reverse of a function can run twice, the first time to clear: it ends at one place,
/// and does not ask the tape for its way.
pub(crate) fn can_clear(plan: &Plan) -> bool {
    plan.exits.len() == 1 && plan.reruns.is_empty() && !plan.returning.iter().any(|b| plan.blocks[b].push_id)
}

/// Leave the tape and cotangents to the pullback that comes after. Whether that can be done:
/// whether what clears needs nothing of the tape.
pub(crate) fn only_clears(graph: &mut CfgBlocks, func: &ir::Function) -> bool {
    for block in graph.blocks.values_mut() {
        let mut read: HashSet<Val> = block.insts.values().flat_map(AdInst::reads).collect();
        for inst in block.insts.values() {
            if let AdOp::Primal(copied) = inst.op {
                read.extend(func.dfg.inst_args(copied).iter().map(|&v| Val::Primal(v)));
            }
        }
        if let Term::If(v, ..) | Term::Switch(v, _) = &block.term {
            read.insert(*v);
        }
        let pops = |i: &AdInst| matches!(i.op, AdOp::Pop(..));
        let asked = |i: &AdInst| i.defs.iter().any(|(name, _)| read.contains(name));
        if block.insts.values().any(|i| pops(i) && asked(i)) {
            return false;
        }
        block.insts.retain(|_, i| !pops(i) && !matches!(i.op, AdOp::AddCt(..) | AdOp::ZeroCt(_)));
        for inst in block.insts.values_mut() {
            if let AdOp::TakeCt(_) = inst.op {
                let ty = inst.defs[0].1;
                inst.op = AdOp::Arith(Arith::Const(0.0), Args::default(), ty);
            }
        }
    }
    true
}
