//! Accesses of shadows, and where they are.
//!
//! **Question.** What does the reverse of an access do to the shadow, and where?
//!
//! **Answer.** A [`ShadowAccess`] has its place as the sum of an address ([`Sum`]) and bytes behind
//! it; an [`Event`] says what happens there ([`ShadowEffect`]), and whether the place is another
//! one each time.
//!
//! **Cost.** A sum for each access that is looked at.

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
pub(crate) enum ShadowEffect {
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
    pub does: ShadowEffect,
    pub access: ShadowAccess,
    /// It is in other places each time that it runs.
    pub(super) moves: bool,
}
