//! Counts of what has been done.
//!
//! **Question.** How many steps and copies has a run taken, and how many states and bytes at a
//! time?
//!
//! **Answer.** [`Stats::count`] adds up the actions, of a run or of a schedule alone;
//! [`Stats::note_bytes`] keeps the most bytes that a run has told.
//!
//! **Cost.** A few additions for each action.

use crate::action::{Action, SlotId, StepId};

/// Counts of a run, or of the actions of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Steps without a tape.
    pub forward: u128,
    /// Steps with a tape.
    pub taped: u128,
    /// Steps reversed.
    pub reversed: u128,
    /// States put into slots of memory.
    pub stores: u64,
    /// States taken out of slots of memory.
    pub restores: u64,
    /// States written to files.
    pub disk_writes: u64,
    /// States read from files.
    pub disk_reads: u64,
    /// Most states in memory at a time.
    pub max_slots: u64,
    /// Most states in files at a time.
    pub max_files: u64,
    /// Most states in memory at a time while steps are on the tape.
    pub max_slots_taped: u64,
    /// Most bytes of states and of the tape at a time, as the run has told ([`Stats::note_bytes`]).
    pub max_bytes: u64,
    /// States there are now, in memory and in files.
    live: [u64; 2],
}

impl Stats {
    /// Count an action that has been done. `end` is where the loop has ended, if it has in its
    /// steps.
    pub fn count(&mut self, action: Action, end: Option<StepId>) {
        let steps = |from: StepId, to: StepId| u128::from(end.map_or(to, |e| e.min(to)).0 - from.0);
        match action {
            Action::Advance { from, to } => self.forward += steps(from, to),
            Action::Tape { from, to } => {
                self.taped += steps(from, to);
                self.note_tape();
            }
            Action::Reverse { from, to } => self.reversed += steps(from, to),
            Action::Joint { from, to } => {
                self.taped += steps(from, to);
                self.reversed += steps(from, to);
                self.note_tape();
            }
            Action::Store { slot, .. } => {
                let is_file = matches!(slot, SlotId::Disk(_));
                *(if is_file { &mut self.disk_writes } else { &mut self.stores }) += 1;
                self.live[usize::from(is_file)] += 1;
                self.max_slots = self.max_slots.max(self.live[0]);
                self.max_files = self.max_files.max(self.live[1]);
            }
            Action::Restore { slot, .. } => {
                let is_file = matches!(slot, SlotId::Disk(_));
                *(if is_file { &mut self.disk_reads } else { &mut self.restores }) += 1;
            }
            Action::Drop { slot } => {
                self.live[usize::from(matches!(slot, SlotId::Disk(_)))] -= 1;
            }
            Action::Turn => {}
        }
    }

    /// So many bytes of states and of the tape are there just now.
    pub fn note_bytes(&mut self, bytes: u64) {
        self.max_bytes = self.max_bytes.max(bytes);
    }

    fn note_tape(&mut self) {
        self.max_slots_taped = self.max_slots_taped.max(self.live[0]);
    }
}
