//! Driver of a schedule: a loop run by it.
//!
//! **Question.** How does a loop run as its schedule says?
//!
//! **Answer.** It implements [`TimeLoop`], a function for each action. [`forward()`] runs the
//! schedule up to its turn, [`reverse()`] to its end; each action is counted, and where the loop
//! ends the schedule is told.
//!
//! **Errors.** What a step or a slot says, and an end of the loop where it cannot be
//! ([`RunError`]).
//!
//! **Cost.** That of the steps and copies; a few additions for each action.

use crate::action::{Action, SlotId, StepId};
use crate::schedule::{Misuse, Schedule};
use crate::stats::Stats;

/// A loop, as far as a schedule asks for it. The working state is the implementation's.
///
/// It is asked for [`TimeLoop::joint`] if the schedule has [`crate::Reversal::Joint`], and
/// otherwise for [`TimeLoop::tape`] and [`TimeLoop::reverse`].
pub trait TimeLoop {
    /// Why a step or a slot can fail.
    type Error;

    /// Run steps without a tape. If the loop has ended in them, say before which step.
    fn advance(&mut self, from: StepId, to: StepId) -> Result<Option<StepId>, Self::Error>;

    /// Run steps with a tape, as [`TimeLoop::advance`] does.
    fn tape(&mut self, from: StepId, to: StepId) -> Result<Option<StepId>, Self::Error> {
        unreachable!("steps {from}..{to} are derived as one function")
    }

    /// Take cotangents back through what was taped last.
    fn reverse(&mut self, from: StepId, to: StepId) -> Result<(), Self::Error> {
        unreachable!("steps {from}..{to} are derived as one function")
    }

    /// Run steps, and take cotangents back through them.
    fn joint(&mut self, from: StepId, to: StepId) -> Result<(), Self::Error> {
        unreachable!("steps {from}..{to} are derived as a pair")
    }

    /// Copy the working state to a slot.
    fn store(&mut self, slot: SlotId, step: StepId) -> Result<(), Self::Error>;

    /// Copy a slot to the working state.
    fn restore(&mut self, slot: SlotId, step: StepId) -> Result<(), Self::Error>;

    /// Forget a slot.
    fn drop_slot(&mut self, slot: SlotId);

    /// Bytes of slots and of the tape just now, if they are counted.
    fn bytes(&self) -> u64 {
        0
    }
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError<E> {
    /// A step or a slot failed.
    #[error(transparent)]
    Loop(E),
    /// The loop said that it ended where it cannot have.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// The forward half: up to [`Action::Turn`], which is counted.
pub fn forward<L: TimeLoop>(
    schedule: &mut Schedule,
    stats: &mut Stats,
    steps: &mut L,
) -> Result<(), RunError<L::Error>> {
    while let Some(action) = schedule.next() {
        act(action, schedule, stats, steps)?;
        if action == Action::Turn {
            break;
        }
    }
    Ok(())
}

/// The reverse half: to the end.
pub fn reverse<L: TimeLoop>(
    schedule: &mut Schedule,
    stats: &mut Stats,
    steps: &mut L,
) -> Result<(), RunError<L::Error>> {
    while let Some(action) = schedule.next() {
        act(action, schedule, stats, steps)?;
    }
    Ok(())
}

/// Do one action and count it.
fn act<L: TimeLoop>(
    action: Action,
    schedule: &mut Schedule,
    stats: &mut Stats,
    steps: &mut L,
) -> Result<(), RunError<L::Error>> {
    let mut end = None;
    match action {
        Action::Advance { from, to } => end = steps.advance(from, to).map_err(RunError::Loop)?,
        Action::Tape { from, to } => end = steps.tape(from, to).map_err(RunError::Loop)?,
        Action::Reverse { from, to } => steps.reverse(from, to).map_err(RunError::Loop)?,
        Action::Joint { from, to } => steps.joint(from, to).map_err(RunError::Loop)?,
        Action::Store { slot, step } => steps.store(slot, step).map_err(RunError::Loop)?,
        Action::Restore { slot, step } => steps.restore(slot, step).map_err(RunError::Loop)?,
        Action::Drop { slot } => steps.drop_slot(slot),
        Action::Turn => {}
    }
    if let Some(step) = end {
        schedule.end_of_loop(step)?;
    }
    stats.count(action, end);
    stats.note_bytes(steps.bytes());
    Ok(())
}
