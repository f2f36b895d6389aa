//! Steps of a time loop that the forward pass records at once.
//!
//! **Question.** A loop that is short enough needs no states: its forward pass records its steps,
//! and its pullback goes back through them. How many steps is that, before any has been recorded?
//!
//! **Answer.** The first step is recorded on trial, unless an earlier run of the loop has told what
//! a step takes. If all steps fit the budget, they are recorded, in stretches of half of what is
//! left, so that steps that record more than the first do not break the budget. If not, the others
//! get a schedule ([`crate::states::loops`]), for which the trial has told how long its blocks may
//! be. Of a loop that ends by itself, steps are recorded up to a quarter of the budget.
//!
//! **Invariant.** What is recorded is that of single steps, so gradients do not depend, in any bit,
//! on how many there are.
//!
//! **Cost.** One step's tape stays where it does not help. Budgets of few states have no trial.

/// States in a budget from which on there is a trial.
const MANY: usize = 64;

/// Steps that have been recorded together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// The first step.
    pub from: i64,
    /// The step after the last one.
    pub to: i64,
    /// Where the tape ends after them.
    pub top: *mut u8,
}

/// What a loop has on the tape.
#[derive(Debug, Default)]
pub(crate) struct LoopTape {
    stretches: Vec<Stretch>,
    /// How many of them are to be reversed.
    left: usize,
    /// Bytes of all.
    bytes: usize,
    /// Where the tape ended before the steps that are being recorded.
    begun: Option<usize>,
}

/// What a loop may take, when some of its steps have been recorded.
pub(crate) struct LoopRoom {
    /// Steps that are left; of a loop that ends by itself, at most.
    pub steps: u64,
    /// Whether it does.
    pub ends_early: bool,
    /// Bytes that a step records, if that is known.
    pub a_step: Option<usize>,
    /// Bytes of a state.
    pub state: usize,
    /// Bytes that there may be, for states and what is recorded; none where no state can be kept,
    /// so that all steps are recorded.
    pub budget: Option<usize>,
    /// Bytes that are left on the tape.
    pub on_tape: usize,
}

impl LoopTape {
    /// Bytes that are recorded.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many steps are recorded next: none if the others get a schedule.
    pub(crate) fn wants(&self, room: &LoopRoom) -> u64 {
        let trial = room.budget.is_none_or(|budget| budget / MANY >= room.state);
        let Some(a_step) = room.a_step else { return u64::from(trial) };
        let share = match room.budget {
            None => usize::MAX,
            Some(budget) if room.ends_early => budget / 4,
            Some(budget) => budget - 2 * room.state,
        };
        let left = share.saturating_sub(self.bytes).min(room.on_tape / 2) as u64;
        let a_step = a_step.max(1) as u64;
        let half = left / 2 / a_step;
        let fits = room.steps.saturating_mul(a_step) <= left;
        let some = if room.ends_early && room.budget.is_some() { half } else { half.max(1) };
        if fits || room.ends_early || room.budget.is_none() { some.min(room.steps) } else { 0 }
    }

    /// Steps are going to be recorded.
    pub(crate) fn begin(&mut self, top: usize) {
        self.begun = Some(top);
    }

    /// They have been, if there were some: bytes that each has taken, at most.
    pub(crate) fn end(&mut self, from: i64, to: i64, top: *mut u8) -> Option<usize> {
        let bytes = top as usize - self.begun.take()?;
        self.bytes += bytes;
        self.stretches.push(Stretch { from, to, top });
        Some(bytes.div_ceil((to - from).max(1) as usize))
    }

    /// A pullback begins.
    pub(crate) fn reverse(&mut self) {
        self.left = self.stretches.len();
    }

    /// What it reverses next.
    pub(crate) fn back(&mut self) -> Option<Stretch> {
        self.left = self.left.checked_sub(1)?;
        Some(self.stretches[self.left])
    }
}
