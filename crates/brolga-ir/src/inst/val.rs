//! Names of values: primal values, deltas, and values of derived code.

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
