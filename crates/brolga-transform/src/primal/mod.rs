//! Legalisation: the primal in the form that the rest relies on, and idioms in a form that has a
//! derivative.
//!
//! Every pass here changes a primal function and leaves its results, its memory and its traps as
//! they were.
//!
//! - [`normalise`]: the form that the rest relies on; it runs most of the passes below, in order.
//! - [`decided`]: branches that constants decide, and loops of one iteration.
//! - [`byte_loops`]: loops over the bytes of a word.
//! - [`loop_simplify`]: one preheader, one latch and a counter for each loop.
//! - [`cse`]: integer operations that a loop level computes twice.
//! - [`mem2reg`], [`slots`]: variables in memory and in stack slots become values.
//! - [`split_wide_copies`], [`wide_words`]: words that go through wider values.
//! - [`moved_bytes`]: values that come out as they went in.
//! - [`reload_bits`], [`upper_halves`], [`exponent_idiom`], [`rounding_sum`]: idioms on the bits of
//!   floats.
//! - [`extremes`]: the larger and the smaller of two integers.
//! - [`guard_masks`], [`guarded`], [`pair_sincos`]: products with guards, and sines beside cosines.
//! - [`chosen_numbers`]: numbers that are made of memory in case they are chosen.
//! - [`induction`], [`scev`]: induction variables, and addresses as polynomials of trip counts.
//! - [`edit`]: where new instructions go.

pub(crate) mod byte_loops;
pub(crate) mod chosen_numbers;
pub mod cse;
pub(crate) mod decided;
pub(crate) mod edit;
pub(crate) mod exponent_idiom;
pub(crate) mod extremes;
pub(crate) mod guard_masks;
pub(crate) mod guarded;
pub(crate) mod induction;
pub mod loop_simplify;
pub mod mem2reg;
pub(crate) mod moved_bytes;
pub mod normalise;
pub(crate) mod pair_sincos;
pub mod reload_bits;
pub mod rounding_sum;
pub mod scev;
pub mod slots;
pub(crate) mod split_wide_copies;
pub mod upper_halves;
pub(crate) mod wide_words;
