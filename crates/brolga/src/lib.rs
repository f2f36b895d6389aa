//! Brolga: automatic differentiation for Cranelift IR.
//!
//! **Question.** A function is given in CLIF. How are its derivatives had, compiled and ready to be
//! called?
//!
//! **Answer.** The crate takes functions in CLIF and produces their derivatives as CLIF, compiled
//! with `cranelift-jit`: a forward pass, which computes the primal results and records, and a
//! pullback, which maps cotangents of the results to cotangents of the arguments; or, in
//! [`Mode::Combined`], one function that does both. In [`Mode::Tangent`] one function computes
//! values and tangents. [`drivers`] makes gradients, Jacobians and Hessians at points of these, and
//! [`second`] Hessian-vector products. `jit` compiles, `stages` prints what the pipeline did,
//! `cache` keeps rules for calls that ask for them again, and `error` has what can go wrong.
//!
//! **Cost.** A derivative is derived and compiled once, and called as often as is wanted. By
//! default that is done with little effort first, and with all when calls have paid for it
//! ([`Effort::Tiered`]).

pub mod cache;
pub mod drivers;
pub mod error;
pub mod jit;
pub mod second;
pub mod stages;

pub use brolga_ir::driver::StateLength;
pub use brolga_ir::{
    Allocator, ArgActivity, ArgSpec, Checkpoints, DataObject, Diagnostic, Diagnostics, Effort, Elem, FloatOrder,
    FuncKey, Inline, InverseCheck, MemoryMode, Mode, Options, Pass, PassSet, Program, Promises, Request,
    ResultActivity, SecondTier, TapeKind, Tolerance, Untracked,
};
pub use brolga_rules::{RuleError, TangentArg, UserRule, parse_rules};
pub use brolga_runtime::traps::{handlers_are_in_place, install_handlers};
pub use brolga_runtime::{InverseFault, InverseStats, LoopFault, LoopStats, Selection, StateFault, WorkAndSpan};
pub use brolga_transform::{caller_of_ruled, find_inverse, set_rules};
pub use cache::Cache;
pub use cranelift_codegen;
pub use error::{Error, Trap};
pub use jit::{Arg, DerivedRule, Floats, LoopReport, Primal, Pullback, Run};
pub use second::HessianRule;
pub use stages::{Stage, dot, dump, dumps};

/// The program of the README, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct CrateReadme;

/// The program of the page on modes, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/MODES.md")]
pub struct Modes;
