//! Workspace: the memory of a typed tape, for derived functions that are derived again.
//!
//! *Problem.* A derived function that is derived again records on a tape that takes part itself: it
//! has a shadow, and in a derivative of order n so has that shadow.
//!
//! *Answer.* A typed tape is four channels (doubles, singles, integers, addresses), each of which
//! is a mapping of its own, and a *header* with three addresses for each: where the next record
//! goes, where the channel ends, and where the pullback reads. The header and the channels exist
//! once for each *copy*: the first is the tape, the others are its shadows, whose addresses stand
//! in their headers at the same places.
//!
//! ```text
//!   copy 0   header [ … | doubles: top limit cursor | singles … ]   → channels
//!   copy 1   header [ … | doubles: top limit cursor | singles … ]   → channels that hold tangents or cotangents
//! ```
//!
//! *Invariants.* Channels are zero at first. Forward mode reads of a shadow only what it has
//! written, and the reverse of a tape leaves zeros, so that channels are never cleared.

use memmap2::MmapMut;

use crate::segment::{ReserveError, reserve};

/// Offset of the channels' addresses in a header.
pub const CHANNELS: usize = 192;

/// Channels of a typed tape.
pub const COUNT: usize = 4;

/// Words of a header.
const WORDS: usize = CHANNELS / 8 + 3 * COUNT;

/// One tape, or a shadow of it.
struct Copy {
    header: Box<[u64; WORDS]>,
    channels: Vec<(MmapMut, std::ops::Range<usize>)>,
}

/// A typed tape and its shadows. See the module documentation.
pub struct Workspace {
    copies: Vec<Copy>,
}

impl Workspace {
    /// Reserve channels of `capacity` bytes each, or of less where the system refuses, for a tape
    /// and `copies - 1` shadows. Memory is used only as the channels fill.
    ///
    /// # Errors
    /// If not even [`MIN_CAPACITY`](crate::segment::MIN_CAPACITY) bytes of address space are left.
    pub fn new(capacity: usize, copies: usize) -> Result<Self, ReserveError> {
        let copy = |_| -> Result<Copy, ReserveError> {
            let channels = (0..COUNT).map(|_| reserve(capacity)).collect::<Result<_, _>>()?;
            Ok(Copy { header: Box::new([0; WORDS]), channels })
        };
        let mut it = Self { copies: (0..copies).map(copy).collect::<Result<_, _>>()? };
        it.reset();
        Ok(it)
    }

    /// Every channel is empty again: to be called before each run.
    pub fn reset(&mut self) {
        let all = || self.copies.iter().flat_map(|c| &c.channels);
        let room = all().map(|c| c.1.len()).min().unwrap_or(0) as u64;
        for copy in &mut self.copies {
            for (k, (mapping, place)) in copy.channels.iter_mut().enumerate() {
                let base = mapping.as_mut_ptr() as u64 + place.start as u64;
                copy.header[CHANNELS / 8 + 3 * k..][..3].copy_from_slice(&[base, base + room, base]);
            }
        }
    }

    /// The address of a copy's header.
    pub fn address(&mut self, copy: usize) -> u64 {
        self.copies[copy].header.as_mut_ptr() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadows_are_laid_out_as_the_tape_is() {
        let mut w = Workspace::new(1 << 20, 2).expect("there is room");
        let header = |w: &mut Workspace, copy: usize| -> Vec<u64> {
            let at = w.address(copy) as *const u64;
            // SAFETY: a header has so many words.
            unsafe { std::slice::from_raw_parts(at, WORDS) }.to_vec()
        };
        let (tape, shadow) = (header(&mut w, 0), header(&mut w, 1));
        for k in 0..COUNT {
            let at = CHANNELS / 8 + 3 * k;
            assert!(tape[at] != shadow[at] && tape[at] == tape[at + 2] && shadow[at] == shadow[at + 2]);
            assert_eq!((tape[at + 1] - tape[at], shadow[at + 1] - shadow[at]), (1 << 20, 1 << 20));
            // SAFETY: the word belongs to the channel.
            unsafe { *(tape[at] as *mut u64) = 1 };
        }
        w.reset();
        assert_eq!(header(&mut w, 0), tape);
    }
}
