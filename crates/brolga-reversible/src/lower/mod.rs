//! Lowering: reversible functions as CLIF, in both directions.
//!
//! **Question.** What does Cranelift compile, and how is it differentiated?
//! **Answer.** Each function is lowered in four forms ([`abi::Form`]): its statements, those of its
//! inverse, and both with cotangents beside the values. A caller's function calls the first by
//! `%brolga_reversible`, which says to the transform that the call is undone, with cotangents, by
//! the third ([`brolga_ir::inverse_pair`]).
//!
//! ```text
//! x += e(y)      with cotangents, undone:      x -= e(y);  ȳ += x̄ ∂e/∂y
//! ```
//!
//! The gradient of an expression is derived by Brolga itself, with its rules ([`gradient`]).
//! Numbers without parts are in registers, all else is memory.
//!
//! **Checks.** A function of which something is checked returns a number: zero, or which check has
//! failed. What callers see (`%f__do`) has kept the states, puts them back, and traps with the code
//! and the line of that check.
//!
//! **Cost.** A derivation for each expression that is differentiated.

mod abi;
mod body;
mod context;
mod entry;
mod expr;
mod gradient;
mod memory;
mod place;
mod state;
mod uncompute;

use std::collections::{HashMap, HashSet};

pub use context::ClifFunction;

use crate::ast::{CheckMode, File, Stmt, StmtKind};
use crate::error::RevError;
use crate::layout::Layouts;
use abi::Form;
use context::{Lowering, host_isa};

/// Functions with an infinite slope at an end of where they are defined.
const ROOTS: [&str; 4] = ["sqrt", "pow", "asin", "acos"];

/// All functions of a checked file.
pub(crate) fn lower(file: &File, layouts: &Layouts) -> Result<Vec<ClifFunction>, Vec<RevError>> {
    let fallible = fallible(file);
    let isa = host_isa();
    let (sites, gradients) = Default::default();
    let takes_roots = file.functions.iter().any(|f| takes_roots(&f.body));
    let cx = Lowering { file, layouts, fallible, takes_roots, sites, gradients, isa };
    let mut out = Vec::new();
    for f in &file.functions {
        for form in Form::ALL {
            out.push(body::lowered(&cx, f, form)?);
        }
    }
    // All checks have numbers now.
    for f in &file.functions {
        for form in Form::ALL {
            out.push(entry::guarded(&cx, f, form));
        }
        for back in [false, true] {
            out.push(entry::caller(&cx, f, back));
        }
        out.push(entry::traps(&cx, f));
    }
    out.extend(cx.gradients.into_inner().functions);
    // Callers come first, in the order of the text.
    let rank = |l: &ClifFunction| if l.symbol.contains("__") { 1 } else { 0 };
    out.sort_by_key(rank);
    Ok(out)
}

/// Whether an expression of a block takes a root.
fn takes_roots(body: &[Stmt]) -> bool {
    let takes = |s: &Stmt| s.exprs().iter().any(|e| e.applies(&ROOTS)) || s.blocks().into_iter().any(takes_roots);
    body.iter().any(takes)
}

/// Functions of which something is checked, or that call such.
fn fallible(file: &File) -> HashSet<String> {
    fn checks(body: &[Stmt], on: bool, calls: &mut Vec<String>) -> bool {
        let mut found = false;
        for stmt in body {
            found |= match &stmt.kind {
                StmtKind::If { then, other, .. } => {
                    let (a, b) = (checks(then, on, calls), checks(other, on, calls));
                    on || a || b
                }
                StmtKind::While { body, .. } | StmtKind::For { body, .. } => checks(body, on, calls) || on,
                StmtKind::Compute { compute, copy } => {
                    let (a, b) = (checks(compute, on, calls), checks(copy, on, calls));
                    a || b
                }
                StmtKind::Checked { check, body } => checks(body, *check != CheckMode::Off, calls),
                StmtKind::Call { name, .. } => {
                    calls.push(name.clone());
                    on
                }
                _ => on,
            };
        }
        found
    }
    let mut found = HashSet::new();
    let mut callers: HashMap<&str, Vec<String>> = HashMap::new();
    for f in &file.functions {
        let mut calls = Vec::new();
        if checks(&f.body, f.check != CheckMode::Off, &mut calls) {
            found.insert(f.name.clone());
        }
        callers.insert(&f.name, calls);
    }
    loop {
        let more: Vec<String> = callers
            .iter()
            .filter(|(f, calls)| !found.contains(**f) && calls.iter().any(|c| found.contains(c)))
            .map(|(f, _)| (*f).to_owned())
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}
