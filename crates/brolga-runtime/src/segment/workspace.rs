//! Workspace: the memory of a typed tape, for derived functions that are derived again.
//!
//! **Problem.** A derived function that is derived again records on a tape that takes part itself:
//! it has a shadow, and in a derivative of order n so has that shadow.
//!
//! **Answer.** A typed tape is four channels (doubles, singles, integers, addresses), each of which
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
//! A shadow of several derivatives at once has room for as many in the place of each byte, and
//! addresses in the first of the words in the place of one.
//!
//! **Invariants.** Channels are zero at first. Forward mode reads of a shadow only what it has
//! written, and the reverse of a tape leaves zeros, so that channels are never cleared.
//!
//! **Cost.** Address space of four channels for each copy, and memory as far as they fill.

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
    header: Box<[u64]>,
    /// How many derivatives it holds: each word of the header, and each byte of a channel, has so
    /// many in its place.
    width: usize,
    channels: Vec<(MmapMut, std::ops::Range<usize>)>,
}

/// A typed tape and its shadows. See the module documentation.
pub struct Workspace {
    copies: Vec<Copy>,
}

impl Workspace {
    /// Reserve channels of `capacity` bytes each, or of less where the system refuses, for a tape
    /// and `copies - 1` shadows of `width` derivatives. Memory is used only as the channels fill.
    ///
    /// # Errors
    /// If not even [`MIN_CAPACITY`](crate::segment::MIN_CAPACITY) bytes of address space are left.
    pub fn new(capacity: usize, copies: usize, width: usize) -> Result<Self, ReserveError> {
        let copy = |k: usize| -> Result<Copy, ReserveError> {
            let width = if k == 0 { 1 } else { width };
            let channels = (0..COUNT).map(|_| reserve(capacity.saturating_mul(width))).collect::<Result<_, _>>()?;
            Ok(Copy { header: vec![0; WORDS * width].into(), width, channels })
        };
        let mut it = Self { copies: (0..copies).map(copy).collect::<Result<_, _>>()? };
        it.reset();
        Ok(it)
    }

    /// Every channel is empty again: to be called before each run.
    pub fn reset(&mut self) {
        let rooms = self.copies.iter().flat_map(|c| c.channels.iter().map(|channel| channel.1.len() / c.width));
        let room = rooms.min().unwrap_or(0) & !15;
        for Copy { header, width, channels } in &mut self.copies {
            for (k, (mapping, place)) in channels.iter_mut().enumerate() {
                let base = mapping.as_mut_ptr() as u64 + place.start as u64;
                for (i, at) in [base, base + (room * *width) as u64, base].into_iter().enumerate() {
                    header[(CHANNELS / 8 + 3 * k + i) * *width] = at;
                }
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
        let mut w = Workspace::new(1 << 20, 2, 1).expect("there is room");
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

    #[test]
    fn a_shadow_of_several_derivatives_has_their_room() {
        let mut w = Workspace::new(1 << 20, 2, 4).expect("there is room");
        let word = |at: u64, i: usize| {
            // SAFETY: a header has as many words, times the width.
            unsafe { *(at as *const u64).add(i) }
        };
        let (tape, shadow) = (w.address(0), w.address(1));
        for i in (0..COUNT).map(|k| CHANNELS / 8 + 3 * k) {
            let room = word(tape, i + 1) - word(tape, i);
            assert_eq!(room, 1 << 20);
            assert_eq!(word(shadow, (i + 1) * 4) - word(shadow, i * 4), 4 * room);
            assert_eq!(word(shadow, i * 4), word(shadow, (i + 2) * 4));
        }
    }
}
