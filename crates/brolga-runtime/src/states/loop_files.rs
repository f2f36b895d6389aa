//! States of time loops in a file, and which method that allows for.
//!
//! **Question.** A loop whose states and records do not fit the budget may keep states in a folder
//! of the caller's. Which of them go there, and how is none taken for another?
//!
//! **Answer.** [`select`] asks `brolga-schedules` twice: a loop whose steps run once more within
//! memory uses no file. All loops of a run share one file, which is made when the first state goes
//! there, and is gone with the run ([`brolga_schedules::Slots`]). What is written is copied before,
//! and what is read is checked before it becomes the program's state, so that a file that fails
//! leaves the state as it is.
//!
//! **Cost.** A buffer of one state for each loop that uses files, which counts to its budget. How
//! many steps take as long as a state's way to a file is estimated: from the length of both.

use std::path::PathBuf;
use std::sync::Arc;

use brolga_schedules::{
    Budget, FileBudget, LoopSize, Method, Reversal, Selection, SlotError, SlotId, Slots, StepId, choose, revolve,
};

/// Bytes of a file that a state takes beside its own.
const AROUND: u64 = 64;

/// Where time loops may keep states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFolder {
    /// The folder.
    pub folder: PathBuf,
    /// Most bytes of the file of a run.
    pub most: u64,
}

/// The file of a run.
#[derive(Default)]
pub(crate) struct LoopFiles {
    folder: Option<Arc<StateFolder>>,
    slots: Option<Slots>,
    free: Vec<u32>,
    next: u32,
    /// Most bytes that it has had.
    most: u64,
}

impl LoopFiles {
    pub(crate) fn new(folder: Option<Arc<StateFolder>>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// What the next run has.
    pub(crate) fn renewed(&self) -> Self {
        Self::new(self.folder.clone())
    }

    /// What is left for a loop of such states, whose steps record so much.
    pub(crate) fn budget(&self, state: u64, tape: u64) -> Option<FileBudget> {
        let folder = self.folder.as_ref()?;
        let left = folder.most.saturating_sub(self.slots.as_ref().map_or(0, Slots::file_bytes));
        // Ten microseconds, and two nanoseconds a byte; a step records ten bytes in one.
        let steps_per_state = (10_000_u64.saturating_add(2 * state)).saturating_mul(10) / tape.max(1);
        let bytes = left / (state + AROUND) * state;
        (bytes > 0).then_some(FileBudget { bytes, steps_per_state: steps_per_state.max(1) })
    }

    /// Most bytes at a time.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.most
    }

    /// Write a state; the number of its place.
    pub(crate) fn store(&mut self, step: u64, state: &[u8]) -> Result<u32, SlotError> {
        if self.slots.is_none() {
            let StateFolder { folder, most } = &**self.folder.as_ref().ok_or(SlotError::NoFolder)?;
            self.slots = Some(Slots::in_folder(folder, *most)?);
        }
        let slots = self.slots.as_mut().ok_or(SlotError::NoFolder)?;
        let number = self.free.pop().unwrap_or(self.next);
        if let Err(error) = slots.store(SlotId::Disk(number), StepId(step), [state]) {
            self.free.extend((number < self.next).then_some(number));
            return Err(error);
        }
        self.next = self.next.max(number + 1);
        self.most = self.most.max(slots.file_bytes());
        Ok(number)
    }

    /// Read a state. If that fails, `state` may hold anything.
    pub(crate) fn restore(&mut self, number: u32, step: u64, state: &mut [u8]) -> Result<(), SlotError> {
        self.slots.as_mut().ok_or(SlotError::NoFolder)?.restore(SlotId::Disk(number), StepId(step), [state])
    }

    pub(crate) fn drop_slot(&mut self, number: u32) {
        if let Some(slots) = &mut self.slots {
            slots.drop_slot(SlotId::Disk(number));
            self.free.push(number);
        }
    }

    /// Let this be the file, as tests of what fails want it.
    #[cfg(test)]
    pub(crate) fn use_file(&mut self, file: std::fs::File) {
        self.folder = Some(Arc::new(StateFolder { folder: PathBuf::new(), most: u64::MAX }));
        self.slots = Some(Slots::in_file(file, u64::MAX));
    }
}

/// How states of a loop are placed that may take `budget` bytes, of which one state is what the
/// pullback finds; with files, another one is on its way to or from them.
pub(crate) fn select(size: LoopSize, budget: u64, files: Option<FileBudget>) -> Selection {
    let in_memory = Budget { memory: budget - size.state, files: None };
    let found = choose(size, in_memory, Reversal::Joint);
    let single_rerun = |s: &Selection| matches!(s.method, Method::StoreAll | Method::Blocked { .. });
    match (found, files) {
        (Ok(found), None) => found,
        (Ok(found), Some(_)) if single_rerun(&found) => found,
        (Err(_), None) => least(size, in_memory),
        (found, files) => {
            let on_disk = Budget { memory: in_memory.memory - size.state, files };
            let all_fit = size.steps.is_some_and(|n| n <= in_memory.memory / size.state);
            let least = |_| least(size, if all_fit { in_memory } else { on_disk });
            choose(size, on_disk, Reversal::Joint).or(found).unwrap_or_else(least)
        }
    }
}

/// The same where what a step records is more than there is room for: steps are reversed one by
/// one.
fn least(size: LoopSize, budget: Budget) -> Selection {
    let slots = budget.memory / size.state;
    let in_files = budget.files.map_or(0, |f| f.bytes / size.state);
    let (block, few) = (1, slots.max(1));
    let method = match (size.steps, in_files) {
        (None, 0) => Method::Online { block, slots: few },
        (Some(_), 0) => Method::Revolve { block, slots: few },
        (None, _) => Method::TwoLevels { block, period: slots + 2, slots },
        (Some(steps), _) => {
            let reach = u64::try_from(revolve::reach(slots + 1, 2)).unwrap_or(u64::MAX);
            let period = reach.max(steps.div_ceil(in_files));
            Method::TwoLevels { block, period, slots: slots.min(period.saturating_sub(2)) }
        }
    };
    let forecast = size.steps.and_then(|steps| method.forecast(steps, Reversal::Joint).ok());
    Selection { method, reversal: Reversal::Joint, size, budget, forecast }
}
