//! Errors of slots: how a slot fails.
//!
//! **Question.** Why can a state not be kept, or not be had again, and what helps?
//!
//! **Answer.** A [`SlotError`] says which state it is, what the system says, and, where something
//! helps, what: another folder, or more memory. The run is lost, and nothing else.
//!
//! **Cost.** None where all goes well.

use std::io;
use std::path::PathBuf;

use crate::action::{SlotId, StepId};

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
    #[error(
        "the state before step {step} would make the file {needed} bytes long, and {most} are allowed; \
         allow more, or more memory"
    )]
    Full {
        /// Which state.
        step: StepId,
        /// Bytes with that state.
        needed: u64,
        /// Bytes that the file may have.
        most: u64,
    },
    /// The file does not give a state back.
    #[error("the state before step {step} cannot be read: {source}; run again, perhaps with another folder")]
    Read {
        /// Which state.
        step: StepId,
        /// What the system says.
        source: io::Error,
    },
    /// What the file gives back is not what was written.
    #[error(
        "the file does not hold the state before step {step} any more: {what}; run again, with a folder in which nothing \
         else writes to the files of a run"
    )]
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
