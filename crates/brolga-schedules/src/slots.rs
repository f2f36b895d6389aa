//! Slots that hold bytes: in memory, and in a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::action::{SlotId, StepId};
use crate::slot_file::SlotFile;

/// The slots of one run. They go with it, whatever happens to the run.
#[derive(Debug, Default)]
pub struct Slots {
    memory: BTreeMap<SlotId, (StepId, Vec<u8>)>,
    bytes: u64,
    file: Option<SlotFile>,
}

/// Why a state could not be kept, or is not there any more. The run is lost, and nothing else.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The folder does not allow for a file.
    #[error("no file for states can be made in {}: {source}; name a folder that can be written", folder.display())]
    Folder {
        /// Where.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file does not take a state.
    #[error("the state before step {step} cannot be written: {source}; name another folder, or allow more memory")]
    Write {
        /// Which state.
        step: StepId,
        /// What the system says.
        source: io::Error,
    },
    /// The files would take more than they may.
    #[error("the state before step {step} would make the file {needed} bytes long, and {most} are allowed")]
    Full {
        /// Which state.
        step: StepId,
        /// Bytes with that state.
        needed: u64,
        /// Bytes that the file may have.
        most: u64,
    },
    /// The file does not give a state back.
    #[error("the state before step {step} cannot be read: {source}")]
    Read {
        /// Which state.
        step: StepId,
        /// What the system says.
        source: io::Error,
    },
    /// What the file gives back is not what was written.
    #[error("the file does not hold the state before step {step} any more: {what}")]
    Corrupt {
        /// Which state.
        step: StepId,
        /// What is wrong.
        what: &'static str,
    },
    /// Memory is not there.
    #[error("no memory for {bytes} bytes of the state before step {step}; a smaller budget takes fewer states")]
    Memory {
        /// Which state.
        step: StepId,
        /// Its bytes.
        bytes: u64,
    },
    /// The slot does not hold that state: the run did not do what its schedule said.
    #[error("slot {slot} does not hold {bytes} bytes of the state before step {step}")]
    Missing {
        /// The slot.
        slot: SlotId,
        /// Which state was asked for.
        step: StepId,
        /// How many bytes of it.
        bytes: u64,
    },
    /// A state for a file, of slots that have none.
    #[error("the schedule keeps states in files, and no folder is named")]
    NoFolder,
}

impl Slots {
    /// Slots in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Slots in memory, and in a file in this folder, of at most so many bytes. The file has a new
    /// name, and none as soon as the system allows: a process that ends, in whatever way, leaves
    /// nothing behind. No run opens what another one has made.
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
            let (front, behind) = rest.split_at_checked(part.len()).ok_or_else(|| missing(part.len()))?;
            part.copy_from_slice(front);
            rest = behind;
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
