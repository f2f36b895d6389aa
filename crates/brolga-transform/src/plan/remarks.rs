//! Optimisation remarks: why a reverse block has a name in the way that it does, and what reads it
//! there.
//!
//! **Question.** Why is a value on the tape, or computed again?
//!
//! **Answer.** The plan keeps the way of each name ([`super::ways`]); here are the sentences.
//! Nothing that is derived depends on them.
//!
//! **Cost.** A look at the sources of one block for each name that is asked about.

use brolga_analysis::query::access_address;
use brolga_analysis::{MemRole, RootKind};
use brolga_ir::Mode;
use brolga_ir::block::CfgBlocks;
use brolga_ir::inst::{AdOp, Val};
use brolga_ir::map::{HashSet, IndexMap};
use cranelift_codegen::ir::{self, ValueDef};

use crate::facts::Facts;
use crate::plan::invert::StepOperand;
use crate::plan::offers::{Obstacle, obstacle};
use crate::plan::table::{ExitValue, Plan, PredSource, Source, Supply, Way};
use crate::translate::stmt::AdStmts;

/// What reads a name in a reverse block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The reverse of an instruction.
    Reverse(ir::Inst),
    /// Another name, which is computed from it.
    Computes(Val),
    /// A name that is set on the way back into this block, and held from there on.
    Holds(Val, ir::Block),
    /// The way back: which predecessor it is.
    Way,
    /// The loop of a header, which is run again.
    Rerun(ir::Block),
}

/// What reads `v` in the reverse of `b`.
pub fn readers(facts: &Facts<'_>, stmts: &AdStmts, plan: &Plan, b: ir::Block, v: Val) -> Vec<Reader> {
    let func = facts.func();
    let reverses = func.layout.block_insts(b).filter(|i| stmts.get(i).is_some_and(|stmt| stmt.comms().contains(&v)));
    let mut out: Vec<Reader> = reverses.map(Reader::Reverse).collect();
    for supply in &plan.blocks[b].sources {
        let computes = match supply.source {
            Source::Recompute(i) => func.dfg.inst_args(i).iter().any(|&a| Val::Primal(a) == v),
            Source::Last(last) => last.operands().any(|a| Val::Primal(a) == v),
            Source::Frame(_) | Source::Record | Source::Held => false,
        };
        if computes {
            out.push(Reader::Computes(supply.name));
        }
    }
    for &p in &facts.cfg.preds[b] {
        for hold in plan.holds.get(&(p, b)).into_iter().flatten() {
            let undone = hold.undo.iter().any(|u| matches!(u.other, StepOperand::Value(y) if Val::Primal(y) == v));
            // What is held anyway and changes by nothing is not read.
            let unread = hold.name == hold.base && hold.undo.is_empty() && held(plan, b, v);
            if undone || hold.base == v && !unread {
                out.push(Reader::Holds(hold.name, p));
            }
        }
    }
    let rerun = plan.reruns.iter().filter(|a| a.entry == b && a.outer.contains(&v));
    out.extend(rerun.map(|a| Reader::Rerun(a.header)));
    let way = match plan.preds[b] {
        Some(PredSource::Induction { iv, .. }) => [iv.var, iv.start].map(Val::Primal).contains(&v),
        Some(PredSource::Branch { cond, .. }) => Val::Primal(cond) == v,
        Some(PredSource::Table { index, .. }) => Val::Primal(index) == v,
        Some(PredSource::Unique(_) | PredSource::Frame(_) | PredSource::Tape) | None => false,
    };
    out.extend(way.then_some(Reader::Way));
    out
}

fn held(plan: &Plan, b: ir::Block, v: Val) -> bool {
    plan.blocks[b].sources.iter().any(|s| s.name == v && s.source == Source::Held)
}

/// Why a reverse block has a name in the way of its plan.
pub fn reason(facts: &Facts<'_>, plan: &Plan, supply: &Supply) -> &'static str {
    match (supply.way, supply.source) {
        (Way::Frame | Way::FrameOfReader, _) if plan.combined => {
            "both halves are one function, so it stays where it is"
        }
        (Way::Frame, _) => not_computed(facts, plan, supply.name, "a place for it costs less than computing it again"),
        (Way::FrameOfReader, _) => {
            not_computed(facts, plan, supply.name, "its last value in the loop is wanted, and the operands are gone")
        }
        (Way::Record, _) => {
            let dear = "computing it again would need more bytes of operands, or more time";
            not_computed(facts, plan, supply.name, dear)
        }
        (Way::Constant, _) => "it is the same wherever it is computed",
        (Way::HeldFromTape | Way::Held, _) => "all iterations of the loop read the same value",
        (Way::Inverted, _) => "its value before a step of the loop follows from the value after it",
        (Way::FinalAtExit | Way::Final, Source::Last(ExitValue { of: Some(_), .. })) => {
            "it has gone as many steps as a number that was compared with its bound"
        }
        (Way::FinalAtExit | Way::Final, _) => "the loop has ended where it was compared with its bound",
        (Way::Reload, _) => "nothing has written to this memory since",
        (Way::ReloadAfterUndo, _) => "what was written there since has been undone by then",
        (Way::Quotient, _) => "its reverse divides by the same number, and both are one division",
        (Way::FromAvailableOperands | Way::Recompute, _) => "this costs less than memory, and the operands are there",
    }
}

/// What keeps the reverse half from computing a name, or `dear` if nothing does.
fn not_computed(facts: &Facts<'_>, plan: &Plan, v: Val, dear: &'static str) -> &'static str {
    let p = match v {
        Val::Primal(p) => p,
        Val::Delta(r) => {
            return match facts.pointers.roots.get(&r) {
                Some(RootKind::Param(_)) => "the caller passes it to the forward pass only",
                _ => "where the shadow lies is found out by the forward pass only",
            };
        }
        Val::Aux(..) | Val::Tangent(..) | Val::D(_) => return "the forward pass alone can know it",
    };
    let inst = match facts.func().dfg.value_def(p) {
        ValueDef::Param(b, _) if b == facts.cfg.blocks[0] => return "the caller passes it to the forward pass only",
        ValueDef::Param(..) => return "which value it got depends on the way that was taken",
        ValueDef::Union(..) => return "it is not computed by one instruction",
        ValueDef::Result(inst, _) => inst,
    };
    match obstacle(facts, plan.combined, inst) {
        Some(Obstacle::Call) => "a call is not made again",
        Some(Obstacle::Load) if facts.mode == Mode::Split => "the memory may be another when the pullback runs",
        Some(Obstacle::Load) => "something may write to this memory afterwards",
        Some(Obstacle::Impure) => "it cannot be computed again in another place",
        Some(Obstacle::Dear) | None => dear,
    }
}

/// Where the pullback of a task adds cotangents until the fork is over ([`crate::assemble`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSums {
    /// To the shadow, which no other task has.
    Shadow,
    /// To the shadow, if tasks touch different bytes of it; else to sums of the task's own.
    Apart,
    /// To sums of the task's own.
    Pending,
}

/// Accesses of a task of a fork, or of what one calls, by one pointer.
#[derive(Clone, Debug)]
pub struct TaskAccesses {
    /// The pointer.
    pub pointer: ir::Value,
    /// Where their cotangents go.
    pub sums: TaskSums,
    /// They.
    pub accesses: Vec<ir::Inst>,
}

/// Where the cotangents of a task's accesses go. Nothing if the function is none.
pub fn task_accesses(facts: &Facts<'_>, plan: &Plan, pullback: &CfgBlocks) -> Vec<TaskAccesses> {
    let mut found: IndexMap<ir::Value, Vec<ir::Inst>> = IndexMap::default();
    let live = facts.cfg.blocks.iter().filter(|b| facts.variant.strand && plan.returning.contains(**b));
    for &inst in live.flat_map(|&b| facts.cfg.insts(b)) {
        let is_float = matches!(facts.activity.mem[inst], MemRole::Float(_));
        let address = access_address(facts.func(), inst).filter(|_| is_float);
        let Some(root) = address.and_then(|p| facts.pointers.root(p)) else { continue };
        found.entry(root).or_default().push(inst);
    }
    let insts = pullback.blocks.values().flat_map(|b| b.insts.values());
    let task_deltas = insts.filter(|i| matches!(i.op, AdOp::LoadTaskDelta(_))).map(|i| i.defs[0].0);
    let task_deltas: HashSet<Val> = task_deltas.collect();
    let of = |(pointer, accesses)| {
        let sums = match facts.pointers.roots.get(&pointer) {
            Some(RootKind::Slot(_)) => TaskSums::Shadow,
            _ if task_deltas.contains(&Val::Delta(pointer)) => TaskSums::Apart,
            _ => TaskSums::Pending,
        };
        TaskAccesses { pointer, sums, accesses }
    };
    found.into_iter().map(of).collect()
}
