//! Context of lowering: what the functions of a file share while they are lowered.
//!
//! **Question.** Several forms of several functions are lowered. What do they have in common?
//!
//! **Answer.** A [`Lowering`] has the file with its layouts, which functions return a number (of a
//! check that has failed), whether there are roots, the list of checks ([`CheckSite`], which have
//! their numbers by it), and the gradients of expressions that have been derived ([`Gradients`]),
//! so that equal expressions are derived once. A [`ClifFunction`] is what comes out: a function in
//! CLIF with its symbol and line.
//!
//! **Invariant.** Checks of one function, line and fault have one number, from 1.
//!
//! **Cost.** A walk over the list of checks for each new one; a derivation for each expression that
//! is new.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use brolga_transform::embed::DerivedSignature;
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};

use crate::ast::{File, Function};
use crate::error::Fault;
use crate::layout::Layouts;

/// A function in CLIF. Each instruction has the line that it is of as its source location.
#[derive(Clone, Debug)]
pub struct ClifFunction {
    /// Its symbol.
    pub symbol: String,
    /// The function.
    pub func: ir::Function,
    /// The line of the function that it is made of; zero of one that a builder has made.
    pub line: u32,
    /// What the user calls it, if it is not the symbol.
    pub called: Option<String>,
}

/// What functions of a file share while they are lowered.
pub(super) struct Lowering<'f> {
    pub file: &'f File,
    pub layouts: &'f Layouts,
    /// Functions that return a number.
    pub fallible: HashSet<String>,
    /// Whether an expression takes a root: the cotangents of others may be infinite for that.
    pub takes_roots: bool,
    pub sites: RefCell<Vec<CheckSite>>,
    pub gradients: RefCell<Gradients>,
    pub isa: OwnedTargetIsa,
}

/// What a check that fails says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckSite {
    /// The function whose statement it is.
    pub function: String,
    pub fault: Fault,
    pub line: u32,
}

impl Lowering<'_> {
    pub(super) fn function(&self, name: &str) -> &Function {
        self.file.functions.iter().find(|f| f.name == name).expect("the checker has seen it")
    }

    /// The number of a check, from 1.
    pub(super) fn site(&self, function: &str, fault: Fault, line: u32) -> i64 {
        let mut sites = self.sites.borrow_mut();
        let site = CheckSite { function: function.to_owned(), fault, line };
        let at = sites.iter().position(|s| *s == site).unwrap_or_else(|| {
            sites.push(site);
            sites.len() - 1
        });
        at as i64 + 1
    }
}

/// Gradients that have been derived, by their expressions.
#[derive(Default)]
pub(super) struct Gradients {
    pub known: HashMap<String, ExprGradient>,
    /// Those that are called, and what they call.
    pub functions: Vec<ClifFunction>,
}

/// A gradient.
#[derive(Clone)]
pub(super) struct ExprGradient {
    pub func: ir::Function,
    pub signature: DerivedSignature,
}

/// The host, for functions that return as many numbers as they like.
pub(super) fn host_isa() -> OwnedTargetIsa {
    let mut flags = settings::builder();
    flags.set("enable_multi_ret_implicit_sret", "true").expect("there is such a flag");
    let builder = cranelift_native::builder().expect("Cranelift supports the host");
    builder.finish(settings::Flags::new(flags)).expect("flags fit the host")
}

/// A function without a body.
pub(super) fn empty(symbol: &str, signature: ir::Signature) -> ir::Function {
    let mut func = ir::Function::with_name_signature(UserFuncName::testcase(symbol), signature);
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    func
}
