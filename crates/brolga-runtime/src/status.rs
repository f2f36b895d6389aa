//! Statuses of helpers: what a helper reports to the generated code that called it.
//!
//! **Question.** How does generated code test by one instruction whether a helper has failed, and
//! how?
//!
//! **Answer.** A helper that returns a status returns one of these numbers and has changed nothing
//! unless it returned [`OK`]. An allocating helper returns a [`Pair`](crate::Pair) instead: deltas
//! are multiples of sixteen, and a delta with its lowest bit set is one of these statuses (with a
//! null pointer), so one `band` and one `trapnz` check both kinds.
//!
//! **Invariant.** Every status other than [`OK`] is odd.
//!
//! **Cost.** Two instructions for a call of a helper.

/// All went well.
pub(crate) const OK: u64 = 0;
/// The tape segment has no room left.
pub(crate) const TAPE_FULL: u64 = 1;
/// The primal's memory was available but memory for its shadow was not.
pub(crate) const NO_SHADOW_MEMORY: u64 = 3;
/// `realloc` of a block that was not allocated through this segment, so that its size is not known.
pub(crate) const UNKNOWN_BLOCK: u64 = 5;
/// Two cotangents of unknown size meet, so they cannot be added.
pub(crate) const UNTRACKED: u64 = 7;
