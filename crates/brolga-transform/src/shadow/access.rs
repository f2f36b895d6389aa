//! Accesses of shadows, and where they are.

use cranelift_codegen::ir;

use crate::primal::scev::Sum;

/// An access and its place.
pub(crate) struct ShadowAccess {
    pub inst: ir::Inst,
    pub block: ir::Block,
    /// Address without its constant.
    pub at: Sum,
    /// First byte.
    pub first: i64,
    pub bytes: i64,
}

/// What the reverse of an access does to the shadow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Adds.
    Adds,
    /// Reads, and leaves zero.
    Takes,
    /// Leaves zero.
    Clears,
    /// Reads.
    Reads,
}

/// An access and its place; of that, the start of the piece is left out.
pub(crate) struct Event {
    pub does: Does,
    pub access: ShadowAccess,
    /// It is in other places each time that it runs.
    pub(super) moves: bool,
}
