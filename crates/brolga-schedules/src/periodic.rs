//! Periodic: a state every P blocks, and revolve in between.
//!
//! **Question.** How are states placed evenly, so that the number of steps need not be known, and
//! memory is kept for states in between?
//!
//! **Answer.** The sweep keeps every P-th state. The reverse half treats each stretch of P blocks
//! by itself, as revolve does with `s` slots beside the state that it begins with. With `s = P − 2`
//! each block of a stretch runs once more.
//!
//! **Cost.** With q stretches before the last one, `qP + q·t(P, s + 1) + t(l − qP, s + 1)` blocks
//! without a tape, with t as in [`crate::revolve`].
//!
//! **When.** For a number of steps that is not known, if memory for `l / P` states is there.
//! Otherwise [`crate::online`].

use crate::revolve;

/// How many of `units` blocks run without a tape.
pub fn untaped(units: u64, period: u64, slots: u64) -> u128 {
    let period = period.min(units.max(1));
    let before = units.saturating_sub(1) / period;
    let stretch = |units| revolve::untaped(units, slots.saturating_add(1));
    u128::from(before) * (u128::from(period) + stretch(period)) + stretch(units - before * period)
}

/// Most states that are kept evenly, and in between.
pub(crate) fn most_states(units: u64, period: u64, slots: u64) -> (u64, u64) {
    // The state before the last block is not kept evenly: the block comes at once.
    let outer = units.saturating_sub(1).div_ceil(period).max(1);
    (outer, slots.min(period.min(units).saturating_sub(2)))
}
