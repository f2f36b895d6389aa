//! Online: where states are kept while it is not known when the loop ends.
//!
//! **Question.** Each state that is passed may be kept or not, and a state that was dropped is
//! gone. Which are kept, so that reversing is cheap whenever the loop ends?
//!
//! **Answer.** Each state has a level, the initial one the highest. While slots are free, all
//! states are kept, on level 0. Then a state is *dispensable* if a later one has a higher level.
//! The last dispensable one makes room; if there is none, the newest state is passed over, and the
//! next one is on a level higher. The kept states get denser towards the end, as those of revolve
//! do. After the end, each stretch between two of them is reversed by revolve, with the slots that
//! are free by then.
//!
//! **Before and after.** Three slots keep 0, 4 and 7 of ten units, and 0, 20 and 30 of 35.
//!
//! **The end.** A loop that says with its last step that it has ended is cheapest. If that is seen
//! only by the next step, the state after the last one has been kept, perhaps in place of another.
//!
//! **Cost.** N units to the end, and `Σ t(length of stretch m, c − m)` after it, m counted from
//! zero. With the N that are taped this is at most 1.334 times what revolve needs that knows N,
//! from three slots and two units on (1.4 times with two slots). A search through the kept states
//! for each unit.
//!
//! **Source.** Q. Wang, P. Moin, G. Iaccarino: Minimal repetition dynamic checkpointing algorithm
//! for unsteady adjoint calculation. SIAM Journal on Scientific Computing 31 (2009).

use crate::revolve;

/// What to do with the state that has been reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SlotAction {
    /// Into a free slot.
    Free,
    /// In place of the state with this index.
    InPlaceOf(usize),
    /// It is passed over; the next one is on this level.
    Not(u64),
}

/// What to do with a state on `level` if those on levels `held` are there, and there are `slots`.
pub(crate) fn keep(
    held: impl ExactSizeIterator<Item = u64> + DoubleEndedIterator,
    level: u64,
    slots: u64,
) -> SlotAction {
    if (held.len() as u64) < slots {
        return SlotAction::Free;
    }
    let mut highest = level;
    for (i, level) in held.enumerate().skip(1).rev() {
        if level < highest {
            return SlotAction::InPlaceOf(i);
        }
        highest = highest.max(level);
    }
    SlotAction::Not(level + 1)
}

/// How many units run without a tape if the loop ends after `units` and states before `held` are
/// there, of `slots`.
pub fn untaped(units: u64, held: &[u64], slots: u64) -> u128 {
    let ends = held.iter().skip(1).copied().chain([units]);
    let stretches = held.iter().zip(ends).zip(0..).map(|((from, to), m)| revolve::untaped(to - from, slots - m));
    u128::from(units) + stretches.sum::<u128>()
}
