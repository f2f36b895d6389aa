//! What the caller of a debug run says of its pointer arguments.

/// A pointer argument of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Address of the primal.
    pub primal: u64,
    /// Address of its shadow; 0 if it is constant.
    pub shadow: u64,
    /// Bytes of each, if the caller says so.
    pub len: Option<u64>,
}
