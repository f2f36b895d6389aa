//! Points-to sets: what an address may be made from, as bits
//! ([`points_to`](crate::memory::points_to) computes them).
//!
//! **Question.** Can two addresses lead to the same place, as far as it matters what they were made
//! from?
//!
//! **Answer.** Not if their sets are apart. Bits 1 to 62 are parameters, bit 63 is all else that is
//! older than the call (among it parameter 0 and those beyond the bits), and the upper half are the
//! sites of allocations. In sets of bases bit 0 is what is no address, or that of a static object.
//! Sets are joined by union.
//!
//! **Cost.** Sixteen bytes for each set, one instruction or two for each join. Parameters and sites
//! beyond the bits share one with others.

/// What something may be made from: parameters by index, [`OTHER`], then sites.
pub type Set = u128;

/// In the rest, and not from a parameter that has a bit.
pub const OTHER: Set = 1 << 63;
/// In sets of bases: not an address, or that of a static object. The instance, parameter 0, needs
/// no bit.
pub(crate) const NUMBER: Set = 1;
/// Everything but sites.
pub const REST: Set = u64::MAX as Set;
/// All sites.
pub(crate) const SITES: Set = !REST;
/// Anything at all.
pub const ANYTHING: Set = Set::MAX;

/// Whether two sets are apart.
pub fn apart(a: Set, b: Set) -> bool {
    a & b & SITES == 0 && (a & REST == 0 || b & REST == 0)
}

/// Whether a set has nothing in it that is older than the function's activation, if its caller has
/// said nothing of parameters.
pub fn is_new(set: Set) -> bool {
    set & REST == 0
}

/// What stands for a parameter.
pub fn bit(param: usize) -> Set {
    if (1..63).contains(&param) { 1 << param } else { OTHER }
}
