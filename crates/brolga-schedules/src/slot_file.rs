//! File of slots: states in a file.
//!
//! **Question.** How are states kept in a file so that none is ever taken for another?
//!
//! **Answer.** All slots of a run are stretches of one file, which nothing else has open
//! ([`SlotFile`]). It is made with a name that did not exist, and its name is removed at once.
//! Where the system does not allow for that, it is removed when the run is over; what a killed
//! process leaves there is never opened, as its name exists. Which stretch holds what is known to
//! the run only.
//!
//! A stretch begins with a header: a number that only this run has, the slot, the step and the
//! length. A checksum of header and state ends it. If anything is different when the state is asked
//! for, that is an error.
//!
//! **Cost.** One write and one read of each state, and a pass over its bytes for the checksum. The
//! file gets shorter when its last stretches are dropped.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crc32fast::Hasher;

use crate::action::{SlotId, StepId};
use crate::slot_error::SlotError;

/// Bytes before a state, and after it.
const HEADER: usize = 40;
const CHECKSUM: u64 = 4;

const MAGIC: u64 = u64::from_le_bytes(*b"BrolgaSt");

/// The file of one run.
#[derive(Debug)]
pub(crate) struct SlotFile {
    file: File,
    /// Its name, if that could not be removed yet.
    name: Option<PathBuf>,
    /// A number that no other run has.
    run: u64,
    most: u64,
    slots: BTreeMap<SlotId, StoredState>,
    /// Stretches that are free, by where they begin, with their lengths.
    free: BTreeMap<u64, u64>,
    end: u64,
}

/// A state in the file.
#[derive(Clone, Copy, Debug)]
struct StoredState {
    at: u64,
    /// Bytes of the stretch, some of which may be unused.
    room: u64,
    step: StepId,
    /// Bytes of the state.
    size: u64,
}

impl SlotFile {
    pub(crate) fn in_folder(folder: &Path, most: u64) -> Result<Self, SlotError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = folder.join(format!("brolga-states-{}-{count}", std::process::id()));
            match options.open(&name) {
                Ok(file) => {
                    let is_gone = std::fs::remove_file(&name).is_ok();
                    return Ok(Self::new(file, (!is_gone).then_some(name), most));
                }
                // Another process had this number once, and was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(SlotError::Folder { folder: folder.to_owned(), source }),
            }
        }
    }

    pub(crate) fn new(file: File, name: Option<PathBuf>, most: u64) -> Self {
        let run = RandomState::new().hash_one(std::process::id());
        Self { file, name, run, most, slots: BTreeMap::new(), free: BTreeMap::new(), end: 0 }
    }

    fn header(&self, slot: SlotId, step: StepId, size: u64) -> [u8; HEADER] {
        let (SlotId::Memory(number) | SlotId::Disk(number)) = slot;
        let mut header = [0; HEADER];
        let words = [MAGIC, self.run, u64::from(number), step.0, size];
        header.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        header
    }

    pub(crate) fn store<'s>(
        &mut self,
        slot: SlotId,
        step: StepId,
        size: u64,
        parts: impl Iterator<Item = &'s [u8]>,
    ) -> Result<(), SlotError> {
        self.drop_slot(slot);
        let needed = size + HEADER as u64 + CHECKSUM;
        let (at, room) = self.take(needed, step)?;
        let header = self.header(slot, step, size);
        let written = self.write(at, &header, parts);
        if let Err(source) = written {
            self.give_back(at, room);
            return Err(SlotError::Write { step, source });
        }
        self.slots.insert(slot, StoredState { at, room, step, size });
        Ok(())
    }

    fn write<'s>(&self, at: u64, header: &[u8], parts: impl Iterator<Item = &'s [u8]>) -> io::Result<()> {
        let mut file = BufWriter::new(&self.file);
        file.seek(SeekFrom::Start(at))?;
        file.write_all(header)?;
        let mut hasher = Hasher::new();
        hasher.update(header);
        for part in parts {
            file.write_all(part)?;
            hasher.update(part);
        }
        file.write_all(&hasher.finalize().to_le_bytes())?;
        // Dropped, it would lose the error.
        file.flush()
    }

    pub(crate) fn restore<'s>(
        &mut self,
        slot: SlotId,
        step: StepId,
        parts: impl IntoIterator<Item = &'s mut [u8]>,
    ) -> Result<(), SlotError> {
        let missing = |bytes| SlotError::Missing { slot, step, bytes };
        let stored = self.slots.get(&slot).filter(|s| s.step == step).ok_or_else(|| missing(0))?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::UnexpectedEof => SlotError::Corrupt { step, what: "it is too short" },
            _ => SlotError::Read { step, source },
        };
        let mut file = BufReader::new(&self.file);
        file.seek(SeekFrom::Start(stored.at)).map_err(failed)?;
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(failed)?;
        if header != self.header(slot, step, stored.size) {
            return Err(SlotError::Corrupt { step, what: "it holds something else" });
        }
        let mut hasher = Hasher::new();
        hasher.update(&header);
        let mut left = stored.size;
        for part in parts {
            let bytes = part.len() as u64;
            left = left.checked_sub(bytes).ok_or_else(|| missing(stored.size - left + bytes))?;
            file.read_exact(part).map_err(failed)?;
            hasher.update(part);
        }
        if left > 0 {
            return Err(missing(stored.size - left));
        }
        let mut checksum = [0; CHECKSUM as usize];
        file.read_exact(&mut checksum).map_err(failed)?;
        if checksum != hasher.finalize().to_le_bytes() {
            return Err(SlotError::Corrupt { step, what: "its checksum is wrong" });
        }
        Ok(())
    }

    pub(crate) fn drop_slot(&mut self, slot: SlotId) {
        if let Some(stored) = self.slots.remove(&slot) {
            self.give_back(stored.at, stored.room);
        }
    }

    /// The first free stretch that is long enough, or one after all others.
    fn take(&mut self, needed: u64, step: StepId) -> Result<(u64, u64), SlotError> {
        if let Some((at, room)) = self.free.iter().find(|f| *f.1 >= needed).map(|f| (*f.0, *f.1)) {
            self.free.remove(&at);
            return Ok((at, room));
        }
        let at = self.end;
        let end = at.saturating_add(needed);
        if end > self.most {
            return Err(SlotError::Full { step, needed: end, most: self.most });
        }
        self.end = end;
        Ok((at, needed))
    }

    fn give_back(&mut self, at: u64, room: u64) {
        self.free.insert(at, room);
        let before = self.end;
        while let Some(last) = self.free.last_entry().filter(|last| *last.key() + *last.get() == self.end) {
            self.end = *last.key();
            last.remove();
        }
        if self.end < before {
            // It only saves room, so that a failure does no harm.
            let _ = self.file.set_len(self.end);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }
}

impl Drop for SlotFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // It is never opened again, so that a failure does no harm.
            let _ = std::fs::remove_file(name);
        }
    }
}
