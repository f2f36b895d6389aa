//! Footprints of time loops: whether steps keep to their states.
//!
//! **Question.** A step may write outside of the states that its loop is given, if no later step
//! and nothing after the loop reads that: then it can run again. Which store breaks this?
//!
//! **Answer.** Each byte that a step writes outside of the states is marked with the store and the
//! step. A load that finds a mark of another step than those that are running has found one. Where
//! loops are nested, the mark is that of the innermost step whose states the byte is not in. Marks
//! go where a byte is written by anything else, where memory is new (slots, blocks), and where
//! functions of an allocator write, whose own data a step need not keep. `memcpy` takes marks
//! along: a copy of a structure may hold bytes that nothing reads.
//!
//! **Cost.** Nothing, until a loop has begun. Then an entry in a hash table for each byte that is
//! written outside of states, and a look-up for each byte that is read.

use std::collections::HashMap;
use std::ops::Range;

use brolga_ir::Func;
use brolga_ir::driver::{Driver, StatePart};

use super::value::TrackedVal;
use crate::error::InstSite;

/// A step of a loop, among all of a run.
type Serial = u64;

/// A loop that is running.
#[derive(Debug)]
struct RunningLoop {
    /// How many frames there are when its steps are called.
    depth: usize,
    states: Vec<Range<usize>>,
    /// The step that is running.
    step: Option<Serial>,
}

/// What steps have written outside of their states.
#[derive(Debug, Default)]
pub(super) struct Footprints {
    running: Vec<RunningLoop>,
    /// By byte.
    marks: HashMap<usize, (InstSite, Serial)>,
    steps: Serial,
    /// How many frames there were when an allocator was called.
    allocator: Option<usize>,
    /// The first store that was read, and the load.
    found: Option<(InstSite, InstSite)>,
}

impl Footprints {
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.marks.is_empty()
    }

    /// A function is entered, with so many frames below its own.
    pub(super) fn enter(&mut self, func: &Func, below: usize, args: &[TrackedVal]) {
        let Self { running, steps, allocator, .. } = self;
        if let Some(calls) = running.last_mut().filter(|l| l.depth == below) {
            *steps += 1;
            calls.step = Some(*steps);
        }
        if func.allocator.is_some() {
            allocator.get_or_insert(below);
        }
        if let Some(Driver::Steps(of)) = &func.driver {
            let states = of.state.iter().map(|part| range(part, func, args)).collect();
            running.push(RunningLoop { depth: below + 2, states, step: None });
        }
    }

    /// A function has returned, and there are so many frames.
    pub(super) fn leave(&mut self, frames: usize) {
        self.allocator = self.allocator.filter(|&below| below < frames);
        if let Some(last) = self.running.pop_if(|l| frames + 2 <= l.depth) {
            debug_assert!(last.depth == frames + 2, "functions return one by one");
        }
        if let Some(last) = self.running.last_mut().filter(|l| l.depth == frames) {
            last.step = None;
        }
    }

    /// Memory is new.
    pub(super) fn forget(&mut self, at: usize, n: usize) {
        if n > self.marks.len() {
            self.marks.retain(|byte, _| !(at..at + n).contains(byte));
        } else {
            for byte in at..at + n {
                self.marks.remove(&byte);
            }
        }
    }

    /// Bytes are written.
    pub(super) fn write(&mut self, at: usize, n: usize, site: InstSite) {
        if self.is_idle() {
            return;
        }
        if self.allocator.is_some() {
            return self.forget(at, n);
        }
        for byte in at..at + n {
            let outside = |l: &&RunningLoop| l.step.is_some() && !l.states.iter().any(|s| s.contains(&byte));
            match self.running.iter().rev().find(outside).and_then(|l| l.step) {
                Some(step) => self.marks.insert(byte, (site, step)),
                None => self.marks.remove(&byte),
            };
        }
    }

    /// Bytes are read.
    pub(super) fn read(&mut self, at: usize, n: usize, site: InstSite) {
        if self.marks.is_empty() || self.allocator.is_some() || self.found.is_some() {
            return;
        }
        let marked = (at..at + n).find_map(|byte| self.marks.get(&byte).filter(|m| !self.is_running(m.1)));
        self.found = marked.map(|&(store, _)| (store, site));
    }

    /// Bytes are copied.
    pub(super) fn copy(&mut self, to: usize, from: usize, n: usize, site: InstSite) {
        if self.is_idle() {
            return;
        }
        let marked = |i: usize| self.marks.get(&(from + i)).filter(|m| !self.is_running(m.1)).map(|m| (to + i, *m));
        let old: Vec<_> = (0..n).filter_map(marked).collect();
        self.write(to, n, site);
        if self.allocator.is_none() {
            self.marks.extend(old);
        }
    }

    fn is_running(&self, step: Serial) -> bool {
        self.running.iter().any(|l| l.step == Some(step))
    }

    /// The first store of a step that another one, or the code after the loop, has read, and where
    /// it did.
    pub(super) fn found(&self) -> Option<(InstSite, InstSite)> {
        self.found
    }
}

/// Where a part of a state is.
fn range(part: &StatePart, func: &Func, args: &[TrackedVal]) -> Range<usize> {
    let word = |i: usize| args[i].bits as u64;
    let at = part.address.iter().fold(part.offset as u64, |sum, &i| sum.wrapping_add(word(i))) as usize;
    let count = |i: usize| match func.signature.params[i].value_type.bits() {
        32 => i64::from(word(i) as i32),
        _ => word(i) as i64,
    };
    // Where nothing says how much, as much as there is.
    at..at.saturating_add(part.length.of(count).unwrap_or(i64::MAX as u64) as usize)
}
