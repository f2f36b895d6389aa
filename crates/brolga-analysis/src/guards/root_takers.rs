//! Takers of roots: which functions take a root, by themselves or by what they call.
//!
//! **Question.** A root has an infinite slope at zero. Which calls may make a cotangent infinite
//! for that?
//!
//! **Answer.** Those of functions that have an instruction whose row has an edge (`ExprRow`), of
//! functions that call such, and of functions that call through a pointer if any function takes a
//! root.
//!
//! **Cost.** Rounds over the functions that are left, until none is found: each reads their
//! instructions once. Where no function takes a root, one walk over all.

use std::ops::Deref;
use std::sync::Arc;

use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::{FuncKey, Program};
use brolga_rules::{ExprRow, MathKind, OpcodeRule, opcode_rule};
use cranelift_codegen::ir;

use crate::query::callee::{CalleeKind, computed_operands};
use crate::summary::RootTakers;

/// Functions that take a root, or call one that does.
pub fn taking(program: &Program, funcs: &HashMap<FuncKey, &ir::Function>) -> RootTakers {
    let insts = |f: &ir::Function| f.layout.blocks().flat_map(|b| f.layout.block_insts(b)).collect::<Vec<_>>();
    let takes = |f: &ir::Function| {
        insts(f).into_iter().any(|i| row(program, f, i).is_some_and(|(row, _)| row.partials().any(|p| p.2.is_edge())))
    };
    let direct: HashSet<FuncKey> = funcs.iter().filter(|(_, f)| takes(f)).map(|(&k, _)| k).collect();
    let mut found = direct.clone();
    let mut left: Vec<(FuncKey, &ir::Function)> = funcs.iter().map(|(&k, &f)| (k, f)).collect();
    while !found.is_empty() {
        let before = found.len();
        left.retain(|(k, f)| {
            let calls = insts(f).into_iter().any(|i| match CalleeKind::of(program, f, i) {
                Some(CalleeKind::Derived(g)) => found.contains(&g),
                Some(CalleeKind::Indirect(_)) => true,
                _ => false,
            });
            if calls {
                found.insert(*k);
            }
            !calls
        });
        if found.len() == before {
            break;
        }
    }
    RootTakers { direct, all: found }
}

/// The formula of an instruction, and its operands.
pub(super) fn row<'a>(program: &Program, func: &'a ir::Function, inst: ir::Inst) -> Option<(Formula, &'a [ir::Value])> {
    let args = func.dfg.inst_args(inst);
    match opcode_rule(func.dfg.insts[inst].opcode()) {
        OpcodeRule::Expr(row) => Some((Formula::OfOpcode(row), args)),
        _ => match CalleeKind::of(program, func, inst)? {
            CalleeKind::Known(rule) => formula(&rule.kind).map(|row| (row, args)),
            CalleeKind::Computes(rule) => formula(&rule.kind).map(|row| (row, computed_operands(rule, args))),
            _ => None,
        },
    }
}

/// The row of an opcode or of a function.
pub(super) enum Formula {
    OfOpcode(&'static ExprRow),
    OfFunction(Arc<ExprRow>),
}

impl Deref for Formula {
    type Target = ExprRow;

    fn deref(&self) -> &ExprRow {
        match self {
            Self::OfOpcode(row) => row,
            Self::OfFunction(row) => row,
        }
    }
}

fn formula(kind: &MathKind) -> Option<Formula> {
    match kind {
        MathKind::Expr(row) | MathKind::Writes(row, _) => Some(Formula::OfFunction(Arc::clone(row))),
        MathKind::Memory(_) | MathKind::Inactive => None,
    }
}
