//! Which code may run again from the memory that it found.
//!
//! **Question.** Steps of a loop run again from a state that was kept. What they do is then done
//! twice. Is that seen anywhere?
//!
//! **Answer.** Not if memory is all that they read and change. What calls a function of the
//! embedder's that is not said to be repeatable (output, a clock), one that is not known, or one
//! that keeps memory of its own (the C library's heap), may not run again. Calls through pointers
//! may reach whatever has an address.
//!
//! **Cost.** A pass over all functions that the loop reaches.

use brolga_analysis::CalleeKind;
use brolga_analysis::calls::summarise::reachable;
use brolga_ir::{FuncKey, Program};
use brolga_rules::{MathKind, MathRule, MemFn};
use cranelift_codegen::ir;

use crate::primal::normalise::NormalisedPrimal;

/// Why instructions may not run again, if they may not.
pub(super) fn why_not(
    program: &Program,
    n: &NormalisedPrimal,
    insts: impl Iterator<Item = ir::Inst>,
    addressed: &[FuncKey],
) -> Option<String> {
    let called = |i: ir::Inst| match n.func.dfg.insts[i] {
        ir::InstructionData::Call { func_ref, .. } => program.callee(&n.func, func_ref),
        _ => None,
    };
    insts.filter_map(|i| Some((i, CalleeKind::of(program, &n.func, i)?))).find_map(|(i, callee)| match callee {
        CalleeKind::Derived(k) | CalleeKind::Plain(k) => of_function(program, k),
        CalleeKind::Computes(_) => None,
        CalleeKind::Known(rule) => of_rule(&rule),
        CalleeKind::Host => called(i).and_then(|k| of_function(program, k)),
        CalleeKind::Missing(symbol) => Some(format!("calls %{symbol}, of which nothing is known")),
        CalleeKind::Indirect(_) => addressed.iter().find_map(|&k| of_function(program, k)),
    })
}

fn of_function(program: &Program, k: FuncKey) -> Option<String> {
    reachable(program, k).into_iter().find_map(|k| {
        let f = &program.funcs[k];
        if f.body.is_some() && f.rule.is_none() {
            return None;
        }
        match brolga_rules::math_rule(&f.symbol) {
            _ if f.repeatable => None,
            Some(rule) if f.host.is_none() && f.rule.is_none() => of_rule(rule),
            _ => Some(format!("calls %{}, which may do something that is seen", f.symbol)),
        }
    })
}

fn of_rule(rule: &MathRule) -> Option<String> {
    let keeps = match rule.kind {
        MathKind::Memory(f) => !matches!(f, MemFn::Memcpy | MemFn::Memmove | MemFn::Memset | MemFn::Memcmp),
        MathKind::Expr(_) | MathKind::Writes(..) | MathKind::Inactive => false,
    };
    keeps.then(|| format!("calls %{}, which keeps memory of its own", rule.symbol))
}
