//! Templates: derived pairs of drivers ([`brolga_ir::driver`]).
//!
//! **Question.** A driver has a body, and its pair is not made of it. Of what is it made?
//! **Answer.** Of calls, written as CLIF: of the pair that a call drives ([`call`]), or of steps
//! and their gradient, as the run time says ([`steps`]), or of a call, what undoes it, and its
//! gradient ([`inverse`]), or of tasks that the run time enters ([`tasks`]). The variant is that of
//! the call. Analyses, forward mode, combined functions and derivatives that are derived again are
//! those of the body.
//!
//! **Invariant.** Where a template does not apply, the pair is made of the body, which gives the
//! same cotangents.
//!
//! **Cost.** A template has a few instructions for each parameter and result, whatever the body
//! has. What a run of it costs is said in the file of each kind.

mod build;
mod call;
mod inverse;
mod steps;
pub(crate) mod tasks;

use brolga_analysis::calls::summarise::reachable;
use brolga_analysis::{RootKind, Variant};
use brolga_ir::driver::Driver;
use brolga_ir::inst::{AdInst, AdOp, Callee, Val};
use brolga_ir::names::Names;
use brolga_ir::{Diagnostic, Diagnostics, FuncKey, Program};
use cranelift_codegen::ir;

use crate::derived::{DerivedCombined, DerivedPair, PairSymbols, TaskEntry};
use crate::facts::{Context, Facts};
use crate::program::variants::Worklist;
use crate::translate::stmt::{AdStmt, AdStmts};

/// The pair of a variant, if it is one of a driver to which a template applies.
pub(crate) fn pair(
    cx: Context<'_>,
    variant: &Variant,
    symbols: &PairSymbols,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> Option<(DerivedPair, Vec<TaskEntry>)> {
    // The pullback of what is undone is given more than a pullback is.
    let undone = |func| Variant { func, ..variant.clone() }.is_undone(cx.program, cx.options);
    let mut entries = Vec::new();
    let (forward, pullback) = match cx.program.funcs[variant.func].driver.as_ref()? {
        // Others go back to states, or run both halves in one.
        driver if variant.strand && !matches!(driver, Driver::Tasks(_)) => return None,
        Driver::Call(driven) if !undone(*driven) => call::pair(cx, variant, *driven, symbols, work, names),
        Driver::Steps(of) => steps::pair(cx, variant, of, symbols, work, names)?,
        Driver::Inverse(of) if variant.is_undone(cx.program, cx.options) => {
            inverse::pair(cx, variant, of, symbols, work, names)
        }
        Driver::Tasks(task) => {
            let (forward, pullback, entered) = tasks::pair(cx, variant, task, symbols, work, names)?;
            entries = entered;
            (forward, pullback)
        }
        Driver::Call(_) | Driver::Inverse(_) => return None,
    };
    let pair = DerivedPair {
        variant: variant.clone(),
        forward_symbol: symbols.forward.clone(),
        pullback_symbol: symbols.pullback.clone(),
        forward,
        pullback,
        frame: 0,
    };
    Some((pair, entries))
}

/// The function of forward mode of a variant, if it is one of a driver to which a template applies:
/// tasks are entered by the run time in forward mode, too.
pub(crate) fn tangent(
    cx: Context<'_>,
    variant: &Variant,
    symbol: &str,
    work: &mut Worklist<'_>,
    names: &mut Names,
) -> Option<(DerivedCombined, TaskEntry)> {
    let Driver::Tasks(task) = cx.program.funcs[variant.func].driver.as_ref()? else { return None };
    let (func, entry) = tasks::tangent(cx, variant, task, symbol, work, names)?;
    let (variant, symbol) = (variant.clone(), symbol.to_owned());
    Some((DerivedCombined { variant, symbol, func, results: true, segment: true, versioned: false }, entry))
}

/// Where a function stores a pointer, or copies some, to memory that outlives it. The shadow is
/// then the shadow of one time, and a state that is put back is of another.
pub(crate) fn stored_pointer(facts: &Facts<'_>, stmts: &AdStmts) -> Option<ir::Inst> {
    let outlives = |delta: &Val| match delta {
        Val::Delta(root) => !matches!(facts.pointers.roots.get(root), Some(RootKind::Slot(_))),
        _ => true,
    };
    let stores = |i: &AdInst| match &i.op {
        AdOp::StoreDelta { place, .. } => outlives(&place.delta),
        AdOp::Call { callee: Callee::Symbol(s), args, .. } if &**s == "brolga_copy_shadow" => {
            args[1].as_ref().is_none_or(outlives)
        }
        _ => false,
    };
    let found = |(&inst, stmt): (&ir::Inst, &AdStmt)| {
        let all = stmt.before.values().chain(stmt.after.values());
        all.into_iter().any(stores).then_some(inst)
    };
    stmts.iter().filter_map(found).min()
}

/// Refuse functions with a state that store pointers: those that do, and where.
pub(crate) fn check(program: &Program, drivers: &[FuncKey], stored: &[(FuncKey, ir::Inst)]) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    for &driver in drivers {
        let what = match program.funcs[driver].driver {
            Some(Driver::Steps(_)) => "a step of a time loop stores a pointer",
            Some(Driver::Inverse(_)) => "a function that is undone by an inverse stores a pointer",
            _ => continue,
        };
        let reached = reachable(program, driver);
        for &(func, inst) in stored.iter().filter(|s| reached.contains(&s.0)) {
            let d = Diagnostic::new("AD0190", what);
            let d = d.note("states are put back, and shadows of pointers are not");
            let d = d.help("keep an index in place of the pointer, or call the function as any other");
            problems.push(d.at(program, func, inst));
        }
    }
    problems.or_ok(())
}
