//! Calls that an inverse undoes: states that are gone back to, and what is checked of that.
//!
//! **Question.** A function changes a state, and another one undoes that (`inverse_pair` of
//! `brolga-ir`). The forward pass calls the first and records nothing. What does the pullback
//! start from?
//!
//! **Answer.** Calls on one state of which each finds what the one before has left are a *chain*.
//! Only the state after the last call of a chain is kept. The pullback of that call begins there,
//! and that of each call before with what undoing the one after has left:
//!
//! ```text
//!   forward:   begin           a chain goes on, or a new one begins     pullback:  undo   kept state
//!              f                                                                   f_inv
//!              end             the state is kept                                   redo   is kept
//!              (f_inv, compare)  within a tolerance                                f's gradient
//!                                                                                  done   as found
//! ```
//!
//! So n calls take the memory of one, wherever between them nothing else writes to the state, and
//! what else happens to the state, before or between pullbacks, does not matter.
//!
//! **Checks.** Bit by bit: the checksums of the states before the calls of a chain, added up, are
//! those of the states that undoing has left; seen when a chain is over. Within a tolerance: each
//! call is undone at once, and the state compared with that before the call; and what a chain
//! began with, with what undoing all of it has left. With a record of what differs: each call is
//! undone at once, and the words that the state had before, where undoing does not give them, are
//! put there by the pullback; and then bit by bit as above. That is exact whatever the inverse is,
//! and a sum of floats that undoes itself costs nothing. Each function has a check of its own; a
//! call of which another one is asked begins a new chain.
//!
//! **Invariant.** A pullback leaves the state as it found it, and may run again.
//!
//! **Levels.** What runs in a pullback has chains of its own, which are over when it is: the
//! gradient of a call, a block of steps of a time loop.
//!
//! **Cost.** Three copies of the state for each call and two for its pullback; a checksum each, if
//! it is checked by bits; with a tolerance or a record, a call of the inverse. Twelve bytes for
//! each word on record, and eight for each call that has some.
//!
//! **Source.** J.-G. Liu, T. Zhao: Differentiate everything with a reversible embedded
//! domain-specific language. arXiv:2003.04617 (2020).

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use crate::states::{ProgramState, StateFault, WordHasher};

/// What is wrong with a call that is undone.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum InverseFault {
    /// What it works on is no state.
    #[error(transparent)]
    State(#[from] StateFault),
    /// The inverses of calls in a row do not lead back, bit by bit.
    #[error(
        "the inverses of {calls} calls in a row leave {found:#04x} at byte {offset} of the state, where {before:#04x} \
         was before the first: correct them, let what they read besides the state stay as it is, or record what differs \
         (`inverse_check`)"
    )]
    Differs {
        /// How many calls.
        calls: u64,
        /// Where in the state, as bytes from its first.
        offset: u64,
        /// What was there.
        before: u8,
        /// What is there.
        found: u8,
    },
    /// They lead back to the first state, by way of others.
    #[error(
        "the inverses of {0} calls in a row lead back to the state before the first, but not to all between them: \
         correct them, or let what they read besides the state stay as it is"
    )]
    Between(u64),
    /// It does not lead back, within the tolerance.
    #[error(
        "an inverse gives {found:e} at byte {offset} of the state, where {before:e} was before the call: correct it, \
         raise the tolerance of {tolerance:e}, or record what differs (`inverse_check`)"
    )]
    Far {
        /// Where in the state, as bytes from its first.
        offset: u64,
        /// What was there.
        before: f64,
        /// What is there.
        found: f64,
        /// How far these may be from each other.
        tolerance: f64,
    },
    /// The inverses of calls in a row do not, each of which does.
    #[error(
        "the inverses of {calls} calls in a row give {found:e} at byte {offset} of the state, where {before:e} was \
         before the first: raise the tolerance of {tolerance:e}, record what differs (`inverse_check`), or use a time \
         loop"
    )]
    Drifts {
        /// How many calls.
        calls: u64,
        /// Where in the state, as bytes from its first.
        offset: u64,
        /// What was there.
        before: f64,
        /// What is there.
        found: f64,
        /// How far these may be from each other.
        tolerance: f64,
    },
}

/// What the calls of a run have done that inverses undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InverseStats {
    /// Calls.
    pub calls: u64,
    /// Those that were undone.
    pub undone: u64,
    /// Words of states that inverses have not given back, and that were recorded.
    pub recorded: u64,
    /// States that were kept: one for each chain.
    pub chains: u64,
    /// Most bytes of these at a time, with what checks keep besides.
    pub max_bytes: u64,
}

/// What is checked.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum UndoCheck<'c> {
    Off,
    /// Floats may differ: of each part of the state how many bytes one has, or zero if there are
    /// both, and by how much a double may differ, in proportion if it was not zero. A single may by
    /// the root of that.
    Within {
        widths: &'c [u64],
        tolerance: f64,
    },
    Bits,
    Record,
}

impl UndoCheck<'_> {
    /// Which it is, and its tolerance.
    fn kind(&self) -> (u8, u64) {
        match *self {
            Self::Off => (0, 0),
            Self::Within { tolerance, .. } => (1, tolerance.to_bits()),
            Self::Bits => (2, 0),
            Self::Record => (3, 0),
        }
    }
}

/// A word of a state that an inverse does not give back.
struct Word {
    /// Where it begins, as bytes from the state's first.
    at: u32,
    before: [u8; 8],
}

/// Calls on one state, each of which found what the one before had left, and of which the same is
/// checked.
struct CallChain {
    check: (u8, u64),
    /// After the last call.
    after: Box<[u8]>,
    /// Before the first call, and for a tolerance before the last: for checks.
    first: Box<[u8]>,
    before: Box<[u8]>,
    /// What undoing has left.
    now: Option<Box<[u8]>>,
    /// What inverses do not give back, in the order of calls, and how many of these are not put
    /// there.
    words: Vec<Word>,
    /// Calls that have some: which of the chain, and the first.
    marks: Vec<(u32, u32)>,
    marks_left: usize,
    /// Bytes that the forward pass keeps.
    bytes: u64,
    calls: u64,
    /// Those that are not undone.
    left: u64,
    /// Checksums of states before calls.
    sum: u64,
    /// The same of what undoing has left.
    undone: u64,
}

/// The chains of one state.
#[derive(Default)]
struct CallChains {
    all: Vec<CallChain>,
    /// Those that are not undone.
    live: usize,
}

/// A pullback of a call that is on its way.
struct UndoFrame {
    found: Box<[u8]>,
    /// What is to be taken back next when it is over.
    cursor: *mut u8,
    /// How many levels there were.
    levels: usize,
}

/// The chains of a level, by their states.
type Level = HashMap<ProgramState, CallChains, BuildHasherDefault<WordHasher>>;

/// Most copies that are kept for later runs, and most bytes of each.
const MOST_SPARE: (usize, usize) = (8, 64 << 10);

/// The calls of a segment's run.
#[derive(Default)]
pub(crate) struct Inverses {
    levels: Vec<Level>,
    undoing: Vec<UndoFrame>,
    /// Copies and levels that are over.
    spare: Vec<Box<[u8]>>,
    spare_levels: Vec<Level>,
    pub(crate) fault: Option<InverseFault>,
    stats: InverseStats,
    bytes: u64,
}

impl CallChain {
    /// Record what a call had before and undoing has not given back.
    fn note(&mut self, state: &ProgramState, found: &[u8]) -> Result<usize, InverseFault> {
        let had = self.words.len();
        let memory = || StateFault::Memory(found.len() as u64);
        let first = u32::try_from(had).map_err(|_| memory())?;
        for word in state.spans().flat_map(|part| others(part, &self.before, found)) {
            let at = u32::try_from(word.start).map_err(|_| memory())?;
            let mut before = [0; 8];
            before[..word.len()].copy_from_slice(&self.before[word]);
            self.words.push(Word { at, before });
        }
        let more = self.words.len() - had;
        if more > 0 {
            self.marks.push((self.calls as u32 - 1, first));
        }
        self.marks_left = self.marks.len();
        Ok(more)
    }

    /// Put there what is on record of the last call that is left, and whether there was anything.
    fn put_words(&mut self, state: &ProgramState, now: &mut [u8]) -> bool {
        let call = self.left as u32 - 1;
        let Some(&(_, first)) = self.marks[..self.marks_left].last().filter(|m| m.0 == call) else { return false };
        let end = self.marks.get(self.marks_left).map_or(self.words.len(), |m| m.1 as usize);
        for w in &self.words[first as usize..end] {
            let word = state.word_at(w.at as usize);
            let len = word.len();
            now[word].copy_from_slice(&w.before[..len]);
        }
        self.marks_left -= 1;
        true
    }
}

impl Inverses {
    pub(crate) fn clear(&mut self) {
        while !self.levels.is_empty() {
            self.leave();
        }
        self.undoing.clear();
        self.spare.truncate(MOST_SPARE.0);
        self.spare.retain(|s| s.len() <= MOST_SPARE.1);
        (self.fault, self.stats, self.bytes) = Default::default();
    }

    /// A pullback begins: of what an earlier one has left, only what the forward pass kept is good.
    pub(crate) fn begin_pullback(&mut self) {
        self.fault = None;
        self.undoing.clear();
        if self.levels.is_empty() {
            return;
        }
        while self.levels.len() > 1 {
            self.leave();
        }
        for chains in self.levels[0].values_mut() {
            chains.live = chains.all.len();
            for chain in &mut chains.all {
                (chain.left, chain.undone, chain.now) = (chain.calls, 0, None);
                chain.marks_left = chain.marks.len();
            }
        }
        self.enter();
    }

    /// What follows has chains of its own.
    pub(crate) fn enter(&mut self) {
        self.levels.push(self.spare_levels.pop().unwrap_or_default());
    }

    /// It is over.
    pub(crate) fn leave(&mut self) {
        let Some(mut level) = self.levels.pop() else { return };
        for chain in level.drain().flat_map(|(_, chains)| chains.all) {
            self.bytes -= chain.bytes;
            let copies = [chain.after, chain.first, chain.before].into_iter().chain(chain.now);
            let room = MOST_SPARE.0.saturating_sub(self.spare.len());
            self.spare.extend(copies.filter(|c| !c.is_empty() && c.len() <= MOST_SPARE.1).take(room));
        }
        self.spare_levels.push(level);
    }

    /// A call of a task has failed.
    pub(crate) fn fails_as(&mut self, of_task: &Self) {
        self.fault = of_task.fault.or_else(|| self.fault.take());
    }

    pub(crate) fn fault(&self) -> Option<InverseFault> {
        self.fault
    }

    pub(crate) fn stats(&self) -> InverseStats {
        self.stats
    }

    /// A call begins.
    pub(crate) fn begin(
        &mut self,
        state: ProgramState,
        check: UndoCheck<'_>,
        caller: usize,
    ) -> Result<(), InverseFault> {
        if self.levels.is_empty() {
            self.enter();
        }
        let level = self.levels.last_mut().expect("there is one");
        if !level.contains_key(&state) {
            level.insert(state.clone(), CallChains::default());
        }
        let chains = level.get_mut(&state).expect("it is there");
        let kind = check.kind();
        let is_open = |c: &CallChain| c.check == kind && c.left == c.calls && c.calls < u64::from(u32::MAX);
        let goes_on = |c: &CallChain| is_open(c) && state.is(&c.after, caller);
        if !chains.all[..chains.live].last().is_some_and(goes_on) {
            let after = state.copied(&mut self.spare, caller)?;
            let first = if check == UndoCheck::Off { Box::default() } else { after.clone() };
            let compares = matches!(check, UndoCheck::Within { .. } | UndoCheck::Record);
            let before = if compares { after.clone() } else { Box::default() };
            self.bytes -= chains.all.drain(chains.live..).map(|c| c.bytes).sum::<u64>();
            let bytes = (after.len() + first.len() + before.len()) as u64;
            let (now, words, marks, marks_left, calls, left, sum, undone) = Default::default();
            let copies = CallChain {
                check: kind,
                after,
                first,
                before,
                now,
                words,
                marks,
                marks_left,
                bytes,
                calls,
                left,
                sum,
                undone,
            };
            chains.all.push(copies);
            chains.live += 1;
            self.bytes += bytes;
            self.stats.chains += 1;
            self.stats.max_bytes = self.stats.max_bytes.max(self.bytes);
        }
        let chain = &mut chains.all[chains.live - 1];
        if let UndoCheck::Bits | UndoCheck::Record = check {
            chain.sum = chain.sum.wrapping_add(state.checksum(caller));
        }
        if let UndoCheck::Within { .. } | UndoCheck::Record = check {
            chain.before.copy_from_slice(&chain.after);
        }
        Ok(())
    }

    /// The chain of a state to which its next pullback belongs.
    fn chain(&mut self, state: &ProgramState) -> Option<&mut CallChains> {
        self.levels.iter_mut().rev().filter_map(|l| l.get_mut(state)).find(|c| c.live > 0)
    }

    /// It has run.
    pub(crate) fn end(&mut self, state: &ProgramState, caller: usize) {
        self.stats.calls += 1;
        let chains = self.chain(state).expect("the call has begun");
        let chain = &mut chains.all[chains.live - 1];
        state.copy_to(&mut chain.after, caller);
        (chain.calls, chain.left) = (chain.calls + 1, chain.left + 1);
    }

    /// It has been undone at once, to be compared.
    pub(crate) fn compare(
        &mut self,
        state: &ProgramState,
        check: UndoCheck<'_>,
        caller: usize,
    ) -> Result<(), InverseFault> {
        let found = state.copied(&mut self.spare, caller)?;
        let chains = self.chain(state).expect("the call has begun");
        let chain = &mut chains.all[chains.live - 1];
        if check == UndoCheck::Record {
            let more = chain.note(state, &found)?;
            let mark = if more > 0 { size_of::<(u32, u32)>() } else { 0 };
            let bytes = (more * size_of::<Word>() + mark) as u64;
            chain.bytes += bytes;
            state.put_back(&chain.after, caller);
            self.spare.push(found);
            self.stats.recorded += more as u64;
            self.bytes += bytes;
            self.stats.max_bytes = self.stats.max_bytes.max(self.bytes);
            return Ok(());
        }
        let far = differs(state, &chain.before, &found, check);
        state.put_back(if far.is_some() { &chain.before } else { &chain.after }, caller);
        self.spare.push(found);
        match (far, check) {
            (Some((offset, before, found)), UndoCheck::Within { tolerance, .. }) => {
                Err(InverseFault::Far { offset, before, found, tolerance })
            }
            _ => Ok(()),
        }
    }

    /// The pullback of a call begins.
    pub(crate) fn undo(&mut self, state: &ProgramState, cursor: *mut u8, caller: usize) -> Result<(), InverseFault> {
        let found = state.copied(&mut self.spare, caller)?;
        let levels = self.levels.len();
        let chains = self.chain(state).expect("a call has begun");
        let chain = &chains.all[chains.live - 1];
        state.put_back(chain.now.as_ref().unwrap_or(&chain.after), caller);
        self.undoing.push(UndoFrame { found, cursor, levels });
        Ok(())
    }

    /// The call has been undone, and its gradient is to run.
    pub(crate) fn redo(
        &mut self,
        state: &ProgramState,
        check: UndoCheck<'_>,
        caller: usize,
    ) -> Result<(), InverseFault> {
        let mut now = state.copied(&mut self.spare, caller)?;
        let chains = self.chain(state).expect("a call has begun");
        let chain = &mut chains.all[chains.live - 1];
        if check == UndoCheck::Record && chain.put_words(state, &mut now) {
            state.put_back(&now, caller);
        }
        if let UndoCheck::Bits | UndoCheck::Record = check {
            chain.undone = chain.undone.wrapping_add(state.checksum(caller));
        }
        let spare = chain.now.replace(now);
        self.spare.extend(spare);
        self.enter();
        Ok(())
    }

    /// The gradient has run. What is to be taken back next goes to `cursor`.
    pub(crate) fn done(
        &mut self,
        state: &ProgramState,
        check: UndoCheck<'_>,
        cursor: &mut *mut u8,
        caller: usize,
    ) -> Result<(), InverseFault> {
        let undoing = self.undoing.pop().expect("the pullback has begun");
        let UndoFrame { found, levels, .. } = undoing;
        *cursor = undoing.cursor;
        while self.levels.len() > levels {
            self.leave();
        }
        state.put_back(&found, caller);
        self.spare.push(found);
        self.stats.undone += 1;
        let chains = self.chain(state).expect("a call has begun");
        let chain = &mut chains.all[chains.live - 1];
        chain.left -= 1;
        if chain.left > 0 {
            return Ok(());
        }
        chains.live -= 1;
        let (calls, now) = (chain.calls, chain.now.take().expect("it was undone"));
        match check {
            UndoCheck::Bits | UndoCheck::Record if chain.undone != chain.sum => {
                return Err(match state.differ_at(&chain.first, &now) {
                    Some(at) => {
                        InverseFault::Differs { calls, offset: at as u64, before: chain.first[at], found: now[at] }
                    }
                    None => InverseFault::Between(calls),
                });
            }
            UndoCheck::Within { tolerance, .. } => {
                if let Some((offset, before, found)) = differs(state, &chain.first, &now, check) {
                    return Err(InverseFault::Drifts { calls, offset, before, found, tolerance });
                }
            }
            _ => {}
        }
        self.spare.push(now);
        Ok(())
    }
}

/// Whether a word is not the same; most have eight bytes.
fn is_another(a: &[u8], b: &[u8]) -> bool {
    match (<[u8; 8]>::try_from(a), <[u8; 8]>::try_from(b)) {
        (Ok(a), Ok(b)) => u64::from_ne_bytes(a) != u64::from_ne_bytes(b),
        _ => a != b,
    }
}

/// Where two states are too far from each other: there, and what stands there.
fn differs(state: &ProgramState, before: &[u8], found: &[u8], check: UndoCheck<'_>) -> Option<(u64, f64, f64)> {
    let UndoCheck::Within { widths, tolerance } = check else { return None };
    let near = |a: &[u8], b: &[u8], width: u64| match width {
        4 => near_singles(a, b, tolerance.sqrt()),
        8 => near_doubles(a, b, tolerance),
        _ => near_doubles(a, b, tolerance) || near_singles(a, b, tolerance.sqrt()),
    };
    state.spans().zip(widths).find_map(|(part, &width)| {
        others(part, before, found).find_map(|at| {
            let (a, b) = (&before[at.clone()], &found[at.clone()]);
            if near(a, b, width) {
                return None;
            }
            // Of two singles the one that is another.
            let half = 4.min(a.len());
            let first = a[..half] != b[..half];
            let of_it = match width {
                4 if first => at.start..at.start + half,
                4 => at.start + half..at.end,
                _ => at,
            };
            Some((of_it.start as u64, float(&before[of_it.clone()]), float(&found[of_it])))
        })
    })
}

/// The words of a part that are not the same in two copies.
fn others<'c>(part: Range<usize>, a: &'c [u8], b: &'c [u8]) -> impl Iterator<Item = Range<usize>> + use<'c> {
    let words = a[part.clone()].chunks(8).zip(b[part.clone()].chunks(8)).enumerate();
    words.filter(|(_, (x, y))| is_another(x, y)).map(move |(k, (x, _))| {
        let at = part.start + 8 * k;
        at..at + x.len()
    })
}

/// A word as a float.
fn float(w: &[u8]) -> f64 {
    match (<[u8; 8]>::try_from(w), <[u8; 4]>::try_from(w)) {
        (Ok(w), _) => f64::from_le_bytes(w),
        (_, Ok(w)) => f64::from(f32::from_le_bytes(w)),
        _ => f64::NAN,
    }
}

fn near_doubles(a: &[u8], b: &[u8], tolerance: f64) -> bool {
    let (x, y) = (float(a), float(b));
    a.len() == 8 && (x.is_nan() && y.is_nan() || is_near(x, y, tolerance, |x| x == 0.0 || x.is_normal()))
}

/// Whether both halves are.
fn near_singles(a: &[u8], b: &[u8], tolerance: f64) -> bool {
    let is_float = |x| x == 0.0 || (x as f32).is_normal();
    a.chunks(4).zip(b.chunks(4)).all(|(a, b)| {
        let (x, y) = (float(a), float(b));
        a == b || a.len() == 4 && (x.is_nan() && y.is_nan() || is_near(x, y, tolerance, is_float))
    })
}

/// What is no float but a number has an exponent of none, or of all.
fn is_near(x: f64, y: f64, tolerance: f64, is_float: impl Fn(f64) -> bool) -> bool {
    // What was zero has no proportion.
    let size = if x == 0.0 { 1.0 } else { x.abs() };
    is_float(x) && is_float(y) && (x - y).abs() <= tolerance * size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(bytes: &[usize]) -> ProgramState {
        let words: Vec<u64> = bytes.iter().zip(1..).flat_map(|(&n, i)| [0x1000 * i, n as u64]).collect();
        ProgramState::new(&words).unwrap()
    }

    fn within(widths: &[u64], tolerance: f64) -> UndoCheck<'_> {
        UndoCheck::Within { widths, tolerance }
    }

    fn far(a: f64, b: f64) -> bool {
        differs(&of_bytes(&[8]), &a.to_le_bytes(), &b.to_le_bytes(), within(&[8], 1e-8)).is_some()
    }

    #[test]
    fn floats_may_differ_and_numbers_may_not() {
        assert!(!far(1.0, 1.0 + 1e-9) && far(1.0, 1.0 + 1e-7));
        assert!(!far(1e6, 1e6 + 1e-3) && far(1e6, 1e6 + 1e-1));
        assert!(!far(1e-6, 1e-6 + 1e-15) && far(1e-6, 1e-6 + 1e-13));
        assert!(!far(0.0, 1e-12) && !far(-0.0, 0.0) && far(0.0, 1e-3) && far(1e-12, 0.0));
        assert!(!far(f64::NAN, -f64::NAN) && far(f64::NAN, 1.0) && far(f64::INFINITY, 1e300));
        // Integers of a word.
        assert!(far(f64::from_bits(5), f64::from_bits(6)) && far(0.0, f64::from_bits(1)));
        assert!(far(f64::from_bits(-1_i64 as u64), 0.0));
        let (a, b) = ([1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()], [1.5_f32.to_le_bytes(), 2.0_f32.to_le_bytes()]);
        let singles = differs(&of_bytes(&[8]), a.as_flattened(), b.as_flattened(), within(&[4], 1e-6));
        assert_eq!(singles, Some((0, 1.0, 1.5)));
        let single = |x: f32| x.to_le_bytes();
        let far_singles = |a: [f32; 2], b: [f32; 2], width| {
            let [a, b] = [a, b].map(|x| x.map(single).as_flattened().to_vec());
            differs(&of_bytes(&[8]), &a, &b, within(&[width], 1e-6)).map(|d| d.0)
        };
        for width in [4, 0] {
            assert_eq!(far_singles([1.0, 2.0], [1.0005, 2.0005], width), None);
            assert!(far_singles([1.0, 2.0], [1.0, 2.01], width).is_some());
        }
        assert_eq!(far_singles([1.0, 2.0], [1.0005, 2.01], 4), Some(0));
        // A part begins where a float does.
        let (a, b) = ([&[7; 4][..], &1_f64.to_le_bytes()].concat(), [&[7; 4][..], &2_f64.to_le_bytes()].concat());
        assert_eq!(differs(&of_bytes(&[4, 8]), &a, &b, within(&[8, 8], 1e-3)), Some((4, 1.0, 2.0)));
        let c = [&[8; 4][..], &1_f64.to_le_bytes()].concat();
        assert_eq!(differs(&of_bytes(&[4, 8]), &a, &c, within(&[8, 8], 1e-3)).map(|d| d.0), Some(0));
    }
}
