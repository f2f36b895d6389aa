//! States: memory of a program that is kept, compared and put back.
//!
//! **Question.** A time loop, and a call that an inverse undoes, work on memory that the program
//! has named as a list of addresses and lengths. Is that a state, and what is there now?
//!
//! **Answer.** [`ProgramState`] has the list if no length is negative and no two parts meet. It is
//! copied, compared and put back part by part.
//!
//! **Invariant.** A fault of an access is one of the instruction that called the run time.
//!
//! **Cost.** A pass over the bytes for each question.

pub mod inverses;
pub(crate) mod loop_files;
pub(crate) mod loop_state;
pub(crate) mod loop_stats;
pub(crate) mod loop_tape;
pub mod loops;

use std::hash::Hasher;
use std::ops::Range;

use crate::traps::attributed;

/// What is wrong with a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateFault {
    /// A length is negative.
    #[error("a state has {0} bytes; pass its length")]
    Length(i64),
    /// Two parts have bytes in common.
    #[error("two states overlap; pass memory that holds both as one state")]
    Overlap,
    /// There is no memory for a copy.
    #[error("there is no memory for a copy of a state of {0} bytes; keep fewer of them (`memory_budget`)")]
    Memory(u64),
}

/// A part of a state: an address, and bytes.
pub(crate) type StateSpan = (*mut u8, usize);

/// Whether some have bytes in common.
fn overlap(parts: &[StateSpan]) -> bool {
    let end = |p: &StateSpan| (p.0 as usize).saturating_add(p.1);
    // Few are compared with each other, without memory for a copy.
    if parts.len() <= 4 {
        let meets = |p: &StateSpan, q: &StateSpan| (p.0 as usize) < end(q) && (q.0 as usize) < end(p);
        return parts.iter().enumerate().any(|(i, p)| parts[..i].iter().any(|q| meets(p, q)));
    }
    let mut sorted = parts.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|w| end(&w[0]) > w[1].0 as usize)
}

/// Words into one: each is multiplied in, and both halves of the product count.
#[derive(Clone, Copy)]
pub(crate) struct WordHasher(u64);

impl Default for WordHasher {
    fn default() -> Self {
        Self(0x243f_6a88_85a3_08d3)
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        // Where it is zero, what comes next still counts.
        let product = u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(0x1319_8a2e_0370_7345);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The bytes of a state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProgramState {
    parts: Box<[StateSpan]>,
    bytes: usize,
}

impl ProgramState {
    /// Of addresses and lengths by turns.
    pub(crate) fn new(words: &[u64]) -> Result<Self, StateFault> {
        let mut parts = Vec::with_capacity(words.len() / 2);
        for pair in words.chunks(2) {
            let len = usize::try_from(pair[1] as i64).map_err(|_| StateFault::Length(pair[1] as i64))?;
            // Where nothing lies, the address may be any.
            parts.push((if len > 0 { pair[0] as *mut u8 } else { std::ptr::dangling_mut() }, len));
        }
        if overlap(&parts) {
            return Err(StateFault::Overlap);
        }
        let bytes = parts.iter().fold(0, |sum: usize, p| sum.saturating_add(p.1));
        Ok(Self { parts: parts.into(), bytes })
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether these bytes are among its own.
    pub(crate) fn holds(&self, at: usize, n: usize) -> bool {
        let of = |byte: usize| self.parts.iter().find(|p| (p.0 as usize..p.0 as usize + p.1).contains(&byte));
        let mut next = at;
        while next < at.saturating_add(n) {
            let Some(part) = of(next) else { return false };
            next = part.0 as usize + part.1;
        }
        true
    }

    /// Where its parts lie in a copy.
    pub(crate) fn spans(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.parts.iter().scan(0, |at, part| {
            let from = *at;
            *at += part.1;
            Some(from..*at)
        })
    }

    /// Its words of eight bytes in a copy; the last one of a part may be shorter.
    pub(crate) fn words(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.spans().flat_map(|part| part.clone().step_by(8).map(move |at| at..part.end.min(at + 8)))
    }

    /// The word that begins there.
    pub(crate) fn word_at(&self, at: usize) -> Range<usize> {
        let part = self.spans().find(|part| part.contains(&at)).expect("the word of a state");
        at..part.end.min(at + 8)
    }

    /// Copy it; a copy that is not needed any more may lend its memory. A fault leaves this
    /// function at once, so what is lent stays where it is until it is full.
    pub(crate) fn copied(&self, spare: &mut Vec<Box<[u8]>>, caller: usize) -> Result<Box<[u8]>, StateFault> {
        self.copy_to(lend(spare, self.bytes)?, caller);
        Ok(spare.pop().expect("just filled"))
    }

    /// Copy it to where there are as many bytes.
    pub(crate) fn copy_to(&self, copy: &mut [u8], caller: usize) {
        let (into, mut at) = (copy.as_mut_ptr(), 0);
        for &(p, len) in &self.parts {
            // SAFETY: a copy has as many bytes as all parts, which the program says are its state.
            attributed(caller, || unsafe { into.add(at).copy_from_nonoverlapping(p, len) });
            at += len;
        }
    }

    /// Let it be what a copy holds.
    pub(crate) fn put_back(&self, copy: &[u8], caller: usize) {
        let mut at = 0;
        for &(p, len) in &self.parts {
            // SAFETY: as above.
            attributed(caller, || unsafe { p.copy_from_nonoverlapping(copy.as_ptr().add(at), len) });
            at += len;
        }
    }

    /// Whether it is what a copy holds, bit by bit.
    pub(crate) fn is(&self, copy: &[u8], caller: usize) -> bool {
        let mut at = 0;
        self.parts.iter().all(|&(p, len)| {
            let stored = &copy[at..at + len];
            at += len;
            // SAFETY: the program says that its state is there, and writes nothing meanwhile.
            attributed(caller, || unsafe { std::slice::from_raw_parts(p, len) == stored })
        })
    }

    /// A checksum of it, in which all NaNs are alike: which one an operation gives depends on how
    /// it is compiled.
    pub(crate) fn checksum(&self, caller: usize) -> u64 {
        let mut hasher = WordHasher::default();
        for &(p, len) in &self.parts {
            // SAFETY: the program says that its state is there.
            attributed(caller, || unsafe { hash(&mut hasher, p, len) });
        }
        hasher.finish()
    }

    /// The first byte at which two copies differ as far as checksums see.
    pub(crate) fn differ_at(&self, a: &[u8], b: &[u8]) -> Option<usize> {
        let word = |copy: &[u8], at: &Range<usize>| {
            let mut word = [0; 8];
            word[..at.len()].copy_from_slice(&copy[at.clone()]);
            plain(u64::from_le_bytes(word))
        };
        let found = self.words().find(|at| word(a, at) != word(b, at))?;
        found.into_iter().find(|&i| a[i] != b[i])
    }
}

/// The last of the spare copies, of this length.
pub(crate) fn lend(spare: &mut Vec<Box<[u8]>>, len: usize) -> Result<&mut [u8], StateFault> {
    if spare.last().is_none_or(|s| s.len() != len) {
        let mut fresh = Vec::new();
        fresh.try_reserve_exact(len).map_err(|_| StateFault::Memory(len as u64))?;
        fresh.resize(len, 0);
        spare.push(fresh.into_boxed_slice());
    }
    Ok(spare.last_mut().expect("just pushed"))
}

/// Put bytes into a checksum.
///
/// # Safety
/// They may be read.
pub(crate) unsafe fn hash(hasher: &mut WordHasher, p: *const u8, len: usize) {
    let words = len / 8;
    for at in 0..words {
        // SAFETY: the word lies within the bytes.
        hasher.write_u64(plain(unsafe { p.add(8 * at).cast::<u64>().read_unaligned() }));
    }
    let mut rest = [0; 8];
    // SAFETY: what is left of the bytes is shorter than a word.
    unsafe { rest.as_mut_ptr().copy_from_nonoverlapping(p.add(8 * words), len % 8) };
    hasher.write_u64(plain(u64::from_le_bytes(rest)));
}

/// A word of a state, with one NaN for all, of either size.
fn plain(word: u64) -> u64 {
    let nan = |w: u32| if w & 0x7fff_ffff > 0x7f80_0000 { 0x7fc0_0000 } else { w };
    if word & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000 {
        return 0x7ff8_0000_0000_0000;
    }
    u64::from(nan(word as u32)) | u64::from(nan((word >> 32) as u32)) << 32
}
