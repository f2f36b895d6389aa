//! Units: what schedules count with: blocks of steps, states that are kept, numbers of slots.
//!
//! **Question.** Methods count in blocks, loops in steps. Which steps are a block, and which slot
//! is free?
//!
//! **Answer.** [`Units`] turns a number of a block into the steps that it begins and ends with, and
//! into the actions that reverse it. A [`HeldState`] is a state in a slot. [`Numbers`] gives out
//! numbers of slots, those first that were given back.
//!
//! **Cost.** A few instructions.

use crate::action::{Action, Reversal, SlotId, StepId};

/// Steps in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    /// How many there are, or more than there can be.
    pub(crate) steps: u64,
    pub(crate) is_known: bool,
    /// How many are a unit.
    pub(crate) block: u64,
}

impl Units {
    pub(crate) fn count(self) -> u64 {
        self.steps.div_ceil(self.block)
    }

    /// The first step of a unit.
    pub(crate) fn step(self, unit: u64) -> StepId {
        StepId(unit.saturating_mul(self.block).min(self.steps))
    }

    /// The actions that reverse a unit whose state is the working state.
    pub(crate) fn taken_back(self, unit: u64, reversal: Reversal) -> impl Iterator<Item = Action> {
        let (from, to) = (self.step(unit), self.step(unit + 1));
        let split = [Action::Tape { from, to }, Action::Reverse { from, to }];
        let joint = [Action::Joint { from, to }; 2];
        let (actions, count) = if reversal == Reversal::Joint { (joint, 1) } else { (split, 2) };
        actions.into_iter().take(count)
    }
}

/// A state that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldState {
    pub(crate) slot: SlotId,
    pub(crate) unit: u64,
    /// Of the online method its level, of treeverse how many repetitions are left.
    pub(crate) level: u64,
    /// Whether it takes one of the slots that stretches are reversed with.
    pub(crate) is_inner: bool,
}

/// Numbers of slots that are free.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl Numbers {
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(crate) fn give_back(&mut self, slot: SlotId) {
        let (SlotId::Memory(n) | SlotId::Disk(n)) = slot;
        self.free.push(n);
    }
}
