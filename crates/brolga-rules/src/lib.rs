//! Rules: what each CLIF instruction, and each known imported function, means for derivatives.
//!
//! **Question.** Where is it said that the derivative of a product is the other factor?
//!
//! **Answer.** One source, many readers: the transform walks a row to emit code, the analyses ask
//! which primal values a row reads, the checker evaluates it, and the reference page prints it.
//! They cannot disagree.
//!
//! - [`expr`]: derivative expressions, the language in which rows are written.
//! - [`row`]: partial derivatives, and rows of them.
//! - [`table`]: one row per CLIF opcode, without a wildcard.
//! - [`libm`]: rules for C functions known by name.
//! - [`user`]: rules of users; [`adjoint`]: those that are functions.
//! - [`check`]: compares rows with functions.
//! - [`sig`]: the signatures of those functions;
//! - [`cost`](mod@cost): what instructions and records cost.
//! - `math_fn`: C functions that formulas call; [`gamma`]: those that the platform lacks.
//!
//! This crate never sees a block, control flow, a function body or an analysis; it knows opcodes
//! and symbols.
//!
//! **Cost.** Tables are built once, when they are first asked for. None at run time.

pub mod adjoint;
pub mod check;
pub mod cost;
pub mod expr;
pub mod gamma;
mod libm;
mod math_fn;
mod row;
mod sig;
mod table;
pub mod user;

pub use adjoint::{AdjointArg, AdjointCall, AdjointRule};
pub use cost::cost;
pub use expr::{CallArg, Cond, E, Node, PureCall, Reads};
pub use libm::{MathKind, MathRule, MemFn, OF_C, OutPtr, helper_of_account, math_rule, math_rules};
pub use math_fn::MathFn;
pub use row::{ExprRow, Partial, Scale};
pub use sig::Ty;
pub use table::{OpcodeRule, Refusal, Structural, is_pure, opcode_rule};
pub use user::{RuleError, TangentArg, UserRule, parse_rules};
