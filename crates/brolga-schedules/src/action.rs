//! Actions: what a schedule tells a run to do.
//!
//! **Question.** How is a schedule written down, so that any loop can run it?
//!
//! **Answer.** As a sequence of [`Action`]s: steps run without a tape, with one, or backwards;
//! states go to slots and come back. A [`StepId`] is a step, and as a place in time the state
//! before it; a [`SlotId`] is a place for one state, in memory or in a file. Steps are derived as a
//! pair or as one function ([`Reversal`]).
//!
//! **Cost.** None: actions are a few words each.

use std::fmt;

/// A step of the loop, counted from zero. As a place in time it is the state *before* that step, so
/// that a loop of n steps begins at step 0 and ends at step n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u64);

/// A place for one state. Numbers are used again once a slot has been dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotId {
    /// In memory.
    Memory(u32),
    /// In a file.
    Disk(u32),
}

/// One thing to do. The *working state* is the program's own: the memory that a step changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Run steps `from..to` without a tape.
    Advance {
        /// The working state is the one before this step.
        from: StepId,
        /// The first step that is not run.
        to: StepId,
    },
    /// Copy the working state to a slot.
    Store {
        /// A slot that holds nothing.
        slot: SlotId,
        /// Which state it is.
        step: StepId,
    },
    /// Copy a slot to the working state.
    Restore {
        /// A slot that goes on holding it.
        slot: SlotId,
        /// Which state it is.
        step: StepId,
    },
    /// What a slot holds is not needed any more.
    Drop {
        /// A slot that holds a state.
        slot: SlotId,
    },
    /// Run steps `from..to` with a tape.
    Tape {
        /// The working state is the one before this step.
        from: StepId,
        /// The first step that is not run.
        to: StepId,
    },
    /// Take cotangents back through the steps that were taped last, and give the tape back. What
    /// this does to the working state is left to the run: no schedule relies on it.
    Reverse {
        /// The first step that was taped.
        from: StepId,
        /// The step after the last one.
        to: StepId,
    },
    /// Both in one: steps that are derived as a combined function.
    Joint {
        /// The working state is the one before this step.
        from: StepId,
        /// The step after the last one.
        to: StepId,
    },
    /// The forward half is over: the working state is that after the loop. What follows belongs to
    /// the reverse half, which begins with the cotangent of that state. It may begin much later,
    /// and does not ask what the working state is by then.
    Turn,
}

/// How a block of steps is differentiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reversal {
    /// By a forward pass with a tape, and a pullback: [`Action::Tape`], [`Action::Reverse`].
    Split,
    /// By one function that does both: [`Action::Joint`].
    Joint,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(n) => write!(f, "m{n}"),
            Self::Disk(n) => write!(f, "d{n}"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advance { from, to } => write!(f, "advance {from}..{to}"),
            Self::Store { slot, step } => write!(f, "store {step} in {slot}"),
            Self::Restore { slot, step } => write!(f, "restore {step} from {slot}"),
            Self::Drop { slot } => write!(f, "drop {slot}"),
            Self::Tape { from, to } => write!(f, "tape {from}..{to}"),
            Self::Reverse { from, to } => write!(f, "reverse {from}..{to}"),
            Self::Joint { from, to } => write!(f, "joint {from}..{to}"),
            Self::Turn => write!(f, "turn"),
        }
    }
}
