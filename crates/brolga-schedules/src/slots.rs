//! Slots that hold bytes: in memory, and in a file.
//!
//! **Question.** Where are the states that a schedule keeps?
//!
//! **Answer.** In [`Slots`]: those of memory in a map, those of files in one file of the run. A
//! state is stored and restored in parts, as it lies in the program's memory. It comes back only if
//! slot, step and length are those that it was stored with.
//!
//! **Errors.** Memory or a file that does not take a state, and a state that is not there
//! ([`SlotError`]).
//!
//! **Cost.** A copy of the state for each store and each restore.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use crate::action::{SlotId, StepId};
use crate::slot_error::SlotError;
use crate::slot_file::SlotFile;

/// The slots of one run. They go with it, whatever happens to the run.
#[derive(Debug, Default)]
pub struct Slots {
    memory: BTreeMap<SlotId, (StepId, Vec<u8>)>,
    bytes: u64,
    file: Option<SlotFile>,
}

impl Slots {
    /// Slots in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Slots in memory, and in a file in this folder, of at most so many bytes. The file has a new
    /// name, and none as soon as the system allows: a process that ends, in whatever way, leaves
    /// nothing after. No run opens what another one has made.
    pub fn in_folder(folder: &Path, most: u64) -> Result<Self, SlotError> {
        Ok(Self { file: Some(SlotFile::in_folder(folder, most)?), ..Self::default() })
    }

    /// Slots in memory and in this file, which can be read and written, and is the run's as long as
    /// it lasts.
    pub fn in_file(file: File, most: u64) -> Self {
        Self { file: Some(SlotFile::new(file, None, most)), ..Self::default() }
    }

    /// Put a state, in parts, into a slot.
    pub fn store<'s, P>(&mut self, slot: SlotId, step: StepId, parts: P) -> Result<(), SlotError>
    where
        P: IntoIterator<Item = &'s [u8]>,
        P::IntoIter: Clone,
    {
        let parts = parts.into_iter();
        let size: usize = parts.clone().map(<[u8]>::len).sum();
        if matches!(slot, SlotId::Disk(_)) {
            return self.file.as_mut().ok_or(SlotError::NoFolder)?.store(slot, step, size as u64, parts);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| SlotError::Memory { step, bytes: size as u64 })?;
        parts.for_each(|part| bytes.extend_from_slice(part));
        self.drop_slot(slot);
        self.bytes += size as u64;
        self.memory.insert(slot, (step, bytes));
        Ok(())
    }

    /// Copy a slot to a state in parts. If that fails, they may hold some of it.
    pub fn restore<'s, P>(&mut self, slot: SlotId, step: StepId, parts: P) -> Result<(), SlotError>
    where
        P: IntoIterator<Item = &'s mut [u8]>,
    {
        if matches!(slot, SlotId::Disk(_)) {
            return self.file.as_mut().ok_or(SlotError::NoFolder)?.restore(slot, step, parts);
        }
        let missing = |bytes: usize| SlotError::Missing { slot, step, bytes: bytes as u64 };
        let (_, held) = self.memory.get(&slot).filter(|s| s.0 == step).ok_or_else(|| missing(0))?;
        let mut rest = &held[..];
        for part in parts {
            let (front, back) = rest.split_at_checked(part.len()).ok_or_else(|| missing(part.len()))?;
            part.copy_from_slice(front);
            rest = back;
        }
        if rest.is_empty() { Ok(()) } else { Err(missing(held.len() - rest.len())) }
    }

    /// Forget a slot.
    pub fn drop_slot(&mut self, slot: SlotId) {
        match (slot, &mut self.file) {
            (SlotId::Disk(_), Some(file)) => file.drop_slot(slot),
            _ => self.bytes -= self.memory.remove(&slot).map_or(0, |(_, bytes)| bytes.len() as u64),
        }
    }

    /// Bytes of the slots in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, SlotFile::bytes)
    }
}
