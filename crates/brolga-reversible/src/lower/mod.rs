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
mod entry;
mod expr;
mod gradient;
mod memory;
mod place;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};

use crate::ast::{Check, File, Function, Stmt, StmtKind};
use crate::error::{Fault, RevError};
use crate::layout::Layouts;
use abi::Form;
use gradient::Gradients;

/// A function in CLIF. Each instruction has the line that it is of as its source location.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Its symbol.
    pub symbol: String,
    /// The function.
    pub func: ir::Function,
    /// The line of the function that it is made of.
    pub line: u32,
}

/// What functions of a file share while they are lowered.
struct Lowering<'f> {
    file: &'f File,
    layouts: &'f Layouts,
    /// Functions that return a number.
    fallible: HashSet<String>,
    sites: RefCell<Vec<Site>>,
    gradients: RefCell<Gradients>,
    isa: OwnedTargetIsa,
}

/// What a check that fails says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Site {
    fault: Fault,
    line: u32,
}

impl Lowering<'_> {
    fn function(&self, name: &str) -> &Function {
        self.file.functions.iter().find(|f| f.name == name).expect("the checker has seen it")
    }

    /// The number of a check, from 1.
    fn site(&self, fault: Fault, line: u32) -> i64 {
        let mut sites = self.sites.borrow_mut();
        let site = Site { fault, line };
        let at = sites.iter().position(|s| *s == site).unwrap_or_else(|| {
            sites.push(site);
            sites.len() - 1
        });
        at as i64 + 1
    }
}

/// All functions of a checked file.
pub(crate) fn lower(file: &File, layouts: &Layouts) -> Result<Vec<Lowered>, Vec<RevError>> {
    let fallible = fallible(file);
    let isa = host_isa();
    let (sites, gradients) = Default::default();
    let cx = Lowering { file, layouts, fallible, sites, gradients, isa };
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
    }
    out.extend(cx.gradients.into_inner().functions);
    // Callers come first, in the order of the text.
    let rank = |l: &Lowered| if l.symbol.contains("__") { 1 } else { 0 };
    out.sort_by_key(rank);
    Ok(out)
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
                StmtKind::Checked { check, body } => checks(body, *check != Check::Off, calls),
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
        if checks(&f.body, f.check != Check::Off, &mut calls) {
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

/// The host, for functions that return as many numbers as they like.
fn host_isa() -> OwnedTargetIsa {
    let mut flags = settings::builder();
    flags.set("enable_multi_ret_implicit_sret", "true").expect("there is such a flag");
    let builder = cranelift_native::builder().expect("Cranelift supports the host");
    builder.finish(settings::Flags::new(flags)).expect("flags fit the host")
}

/// A function without a body.
fn empty(symbol: &str, signature: ir::Signature) -> ir::Function {
    let mut func = ir::Function::with_name_signature(UserFuncName::testcase(symbol), signature);
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    func
}
