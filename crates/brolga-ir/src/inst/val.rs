//! Names of values: primal values, deltas, and values of derived code.
//!
//! **Question.** By which name does a derived instruction read a value, in either half?
//!
//! **Answer.** [`Val`]: by what the value is of the primal, or by a number of its own ([`Dv`]). A
//! name does not say where the value is; a graph defines it where it is needed.
//!
//! **Cost.** A few bytes, which are copied.

use cranelift_codegen::ir;

use crate::Dv;

/// The name of a value of derived code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Val {
    /// A primal value.
    Primal(ir::Value),
    /// The shadow delta of a primal pointer: shadow address minus primal address, 0 if it has no
    /// shadow.
    Delta(ir::Value),
    /// Something else that the forward fragment of a primal instruction produced, by number.
    Aux(ir::Inst, u8),
    /// The tangent of a primal value, in forward mode; of a batch, one of its vectors, by number.
    Tangent(ir::Value, u8),
    /// A derived value.
    D(Dv),
}
