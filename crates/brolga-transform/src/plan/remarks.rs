//! Reasons, for people: why the planner lets a reverse block have a name in the way that it does,
//! and who reads it there.
//!
//! The planner decides without keeping reasons; these are its conditions once more, in the order in
//! which [`super`] lists them, so they hold for whatever it decided. Nothing that is derived
//! depends on them.

use brolga_analysis::RootKind;
use brolga_ir::Mode;
use brolga_ir::inst::Val;
use brolga_rules::is_pure;
use cranelift_codegen::ir::{self, Opcode, ValueDef};

use crate::facts::Facts;
use crate::plan::invert::Other;
use crate::plan::table::{Last, Plan, PredSource, Source, def_block};
use crate::translate::stmt::AdStmts;

/// Who reads a name in a reverse block.
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
    Again(ir::Block),
}

/// Who reads `v` in the reverse of `b`.
pub fn readers(facts: &Facts<'_>, stmts: &AdStmts, plan: &Plan, b: ir::Block, v: Val) -> Vec<Reader> {
    let func = facts.func();
    let reverses = func.layout.block_insts(b).filter(|i| stmts.get(i).is_some_and(|stmt| stmt.comms().contains(&v)));
    let mut out: Vec<Reader> = reverses.map(Reader::Reverse).collect();
    for &(w, source) in &plan.blocks[b].sources {
        let computes = match source {
            Source::Recompute(i) => func.dfg.inst_args(i).iter().any(|&a| Val::Primal(a) == v),
            Source::Last(last) => last.operands().any(|a| Val::Primal(a) == v),
            Source::Frame(_) | Source::Record | Source::Held => false,
        };
        if computes {
            out.push(Reader::Computes(w));
        }
    }
    for &p in &facts.cfg.preds[b] {
        for hold in plan.holds.get(&(p, b)).into_iter().flatten() {
            let undone = hold.undo.iter().any(|u| matches!(u.other, Other::Value(y) if Val::Primal(y) == v));
            // What is held anyway and changes by nothing is not read.
            let kept = hold.name == hold.base && hold.undo.is_empty() && held(plan, b, v);
            if undone || hold.base == v && !kept {
                out.push(Reader::Holds(hold.name, p));
            }
        }
    }
    let again = plan.again.iter().filter(|a| a.entry == b && a.outer.contains(&v));
    out.extend(again.map(|a| Reader::Again(a.header)));
    let way = match plan.preds[b] {
        Some(PredSource::Turn { iv, .. }) => [iv.var, iv.start].map(Val::Primal).contains(&v),
        Some(PredSource::Branch { cond, .. }) => Val::Primal(cond) == v,
        Some(PredSource::Table { index, .. }) => Val::Primal(index) == v,
        Some(PredSource::Unique(_) | PredSource::Frame(_) | PredSource::Tape) | None => false,
    };
    out.extend(way.then_some(Reader::Way));
    out
}

fn held(plan: &Plan, b: ir::Block, v: Val) -> bool {
    plan.blocks[b].sources.contains(&(v, Source::Held))
}

/// Why a reverse block has `v` from `source`.
pub fn reason(facts: &Facts<'_>, plan: &Plan, v: Val, source: Source) -> &'static str {
    match source {
        Source::Record => not_again(facts, plan, v, true),
        Source::Frame(_) if plan.combined => "both halves are one function, so it stays where it is",
        Source::Frame(_) => not_again(facts, plan, v, false),
        Source::Held if plan.holds.values().flatten().any(|h| h.name == v && (h.base != v || !h.undo.is_empty())) => {
            "its value before a step of the loop follows from the value after it"
        }
        Source::Held => "all turns of the loop read the same value",
        Source::Last(Last { of: Some(_), .. }) => {
            "it has gone as many steps as a number that was compared with its bound"
        }
        Source::Last(_) => "the loop has ended where it was compared with its bound",
        Source::Recompute(inst) if facts.reload.contains(inst) => "nothing has written to this memory since",
        Source::Recompute(inst) if facts.func().dfg.insts[inst].opcode().can_load() => {
            "what was written there since has been undone by then"
        }
        Source::Recompute(inst) if facts.func().dfg.inst_args(inst).is_empty() => {
            "it is the same wherever it is computed"
        }
        Source::Recompute(inst) if facts.func().dfg.insts[inst].opcode() == Opcode::Fdiv => {
            "its reverse divides by the same number, and both are one division"
        }
        Source::Recompute(_) => "this costs less than memory, and the operands are there",
    }
}

/// Why a name is recorded. `each` time its block runs, or in a place of its own.
fn not_again(facts: &Facts<'_>, plan: &Plan, v: Val, each: bool) -> &'static str {
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
    let func = facts.func();
    let inst = match func.dfg.value_def(p) {
        ValueDef::Param(b, _) if b == facts.cfg.blocks[0] => return "the caller passes it to the forward pass only",
        ValueDef::Param(..) => return "which value it got depends on the way that was taken",
        ValueDef::Union(..) => return "it is not computed by one instruction",
        ValueDef::Result(inst, _) => inst,
    };
    let op = func.dfg.insts[inst].opcode();
    if op.is_call() {
        "a call is not made again"
    } else if op.can_load() {
        match facts.mode {
            Mode::Split => "the memory may be another when the pullback runs",
            _ => "something may write to this memory afterwards",
        }
    } else if !is_pure(op) {
        "it cannot be computed again in another place"
    } else if each {
        "computing it again would need more bytes of operands, or more time"
    } else if plan.once(facts, def_block(facts, v)) {
        "a place for it costs less than computing it again"
    } else {
        "its last value in the loop is wanted, and the operands are gone"
    }
}
