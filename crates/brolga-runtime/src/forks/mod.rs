//! Forks: tasks of a run, each with a tape of its own.
//!
//! **Question.** Tasks of a parallel program (`fork` of `brolga-ir`) may run at the same time.
//! Where does each record, and which tape does its pullback find?
//!
//! **Answer.** A segment has a *strand* for each task that its forks have: a segment, too. Forks
//! follow each other, so tasks of one number share a strand, on whose tape their records follow
//! each other. Strands are a tree:
//!
//! ```text
//!   segment of the run    | … | fork 0 | … | fork 1 |        forward:  fork(seg, call, n)
//!     strand 0            | task 0 of fork 0 | of fork 1 |   pullback: join(seg)
//!     strand 1            | task 1 of fork 0 | of fork 1 |
//!       strand 0 of 1     | …
//! ```
//!
//! How many strands there are depends on the program alone: a fork whose strands would be more
//! than [`MOST_STRANDS`], counted with those of the forks around it, runs its tasks one after the
//! other on the segment that it is given. So does a fork of a run whose floats move in pieces,
//! which are known to one segment.
//!
//! Tasks run on the threads of an [`Executor`], and so do their pullbacks, which add to sums of
//! their own ([`crate::forks::pending`]).
//!
//! **Traps.** A task that traps ends, and its siblings go on to their ends. The trap of the fork is
//! that of its first task that trapped, whatever the order in which they ran.
//!
//! **Heap.** What a task has allocated is its parent's when the fork is over.
//!
//! **Invariants.** Forks lie in the order of their records. A record that is written where others
//! were before has replaced those: what their tasks have recorded is forgotten. A strand is used by
//! one thread at a time, and its parent not at all meanwhile.
//!
//! **Cost.** A fork has a mark for each of its tasks. Strands are used again by later forks. Which
//! extents are apart is found in two walks over them, once they are sorted.
//!
//! **Source.** T. Smeding, M. Vákár: Parallel dual-numbers reverse AD. Journal of Functional
//! Programming (2025).

pub(crate) mod pending;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::forks::pending::{Extent, PendingSums, PlaceId};
use crate::shadows::declared::SharedInstance;
use crate::traps::{Entry, RawTrap};

/// Most strands that may run at a time.
pub const MOST_STRANDS: usize = 256;

/// What runs tasks.
pub trait Executor: std::fmt::Debug + Send + Sync {
    /// Run `task` for each number below `n`, on one thread in ascending order, or on several.
    fn each(&self, n: usize, task: &(dyn Fn(usize) + Sync));
}

/// What generated code says of a fork: the layout of `brolga_transform::template::tasks`, in words.
#[repr(C)]
pub struct ForkCall {
    /// Takes the address of what a task is given, its number and its segment.
    pub(crate) forward: Entry,
    /// Takes the address of a segment's address. In forward mode there is none, and nothing is kept
    /// of the fork when it is over.
    pub(crate) pullback: Option<Entry>,
    /// How many words follow, which each task is given.
    pub(crate) words: u64,
}

/// A segment, as far as forks are concerned.
pub(crate) trait Strand {
    /// Forget the run.
    fn forget(&mut self);
    /// Forget what has been recorded from this place on.
    fn rewind(&mut self, to: usize);
    /// Bytes that it has recorded, with those of its own strands.
    fn recorded(&self) -> usize;
}

/// What a segment knows of its forks, whose strands are segments.
pub(crate) struct Forks<S> {
    /// In the order of their records.
    pub(crate) forks: Vec<Fork>,
    /// Tasks have run since the run began.
    pub(crate) has_forked: bool,
    /// For each task of each fork with strands: where its records begin and end.
    pub(crate) marks: Vec<(usize, usize)>,
    /// What tasks of forks touch that no other task of the same fork does.
    pub(crate) exclusive: Vec<ExclusiveAccess>,
    pub(crate) compared: ComparedMemory,
    /// Pages of sums that are added up at once: where to, in which order, and where they are.
    pub(crate) added_pages: Vec<(usize, usize, usize)>,
    /// A segment for each task: the first is that of the first task of all forks.
    pub(crate) strands: Strands<S>,
    /// Runs tasks; without one, the calling thread does.
    pub(crate) executor: Option<Arc<dyn Executor>>,
    /// All tasks run on the segment of the run.
    pub(crate) inline: bool,
    /// Strands beside which this one may run, with itself; zero stands for one.
    pub(crate) width: usize,
    /// The strand that has forked, while it waits.
    pub(crate) parent: Option<*const S>,
    /// What tasks are given that run on this segment, one within the other.
    pub(crate) args: Vec<u64>,
    /// What has stopped a task.
    pub(crate) trap: Option<RawTrap>,
    /// What has stopped this strand's task.
    pub(crate) failed: Option<RawTrap>,
    /// Sums that pullbacks add to, of this strand.
    pub(crate) pending: PendingSums,
    /// Bytes of the floats that pullbacks of tasks add up.
    pub(crate) float_size: u8,
    /// The instance whose memory tasks share, in a program of one.
    pub(crate) instance: Option<SharedInstance>,
    /// Deltas of data objects while a pullback runs.
    pub(crate) data: Vec<i64>,
    /// Where on the stack of the thread that has forked its own frames are.
    pub(crate) stack: Range<usize>,
    /// Where the stack was when this strand's task was entered.
    pub(crate) entered: Option<usize>,
    /// There was no memory for pending sums.
    pub(crate) lacking: bool,
    /// Of a debug run: executed instructions that are not on the longest way to here.
    pub(crate) beside: u64,
}

/// What a run has executed: instructions of derived code, as a debug run counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkAndSpan {
    /// All of them.
    pub work: u64,
    /// Those on the longest way through forks: of a fork those of its longest task, and one.
    pub span: u64,
}

/// Boxed because generated code holds the addresses of segments.
pub(crate) type Strands<S> = Vec<Box<S>>;

/// One fork of a run.
#[derive(Clone)]
pub(crate) struct Fork {
    pub(crate) pullback: Entry,
    /// Where its record is.
    pub(crate) at: usize,
    /// How many tasks it has.
    pub(crate) tasks: usize,
    /// Where its marks begin; none if its tasks have run on the segment of the fork.
    pub(crate) marks: Option<usize>,
    /// Where what its tasks touch alone is.
    pub(crate) exclusive: Range<usize>,
}

/// What one task of a fork touches by one delta, and no other task.
pub(crate) struct ExclusiveAccess {
    /// The task.
    pub(crate) task: usize,
    /// The number of the object among those that its strand has sums for.
    pub(crate) object: usize,
    /// Where the delta is.
    pub(crate) delta_place: PlaceId,
    /// Where in the shadow.
    pub(crate) extent: Extent,
    /// The task adds to the object by such deltas alone.
    pub(crate) all: bool,
}

/// Memory in which what tasks touch is compared.
#[derive(Default)]
pub(crate) struct ComparedMemory {
    /// Whether each touches nothing that one of another task does.
    pub(crate) apart: Vec<bool>,
    /// Objects that a task touches with another one: the task, and the number of the object.
    pub(crate) shared: HashSet<(usize, usize)>,
}

/// Whether each of these touches nothing that one of another task does; they are sorted by where
/// they begin.
pub(crate) fn are_apart(touched: &[ExclusiveAccess], apart: &mut Vec<bool>) {
    apart.clear();
    apart.resize(touched.len(), true);
    // The farthest end so far, of which task, and that of all other tasks.
    let (mut farthest, mut other) = ((0, usize::MAX), 0);
    for (t, apart) in touched.iter().zip(&mut *apart) {
        let before = if farthest.1 == t.task { other } else { farthest.0 };
        *apart = before <= t.extent.start;
        if t.extent.end > farthest.0 {
            other = if farthest.1 == t.task { other } else { farthest.0 };
            farthest = (t.extent.end, t.task);
        } else if t.task != farthest.1 {
            other = other.max(t.extent.end);
        }
    }
    // Where the next one of another task begins.
    let mut next: Option<usize> = None;
    for k in (0..touched.len()).rev() {
        if let Some(later) = touched.get(k + 1).filter(|later| later.task != touched[k].task) {
            next = Some(later.extent.start);
        }
        apart[k] &= next.is_none_or(|next| touched[k].extent.end <= next);
    }
}

impl<S> Default for Forks<S> {
    fn default() -> Self {
        Self {
            forks: Vec::new(),
            has_forked: false,
            marks: Vec::new(),
            exclusive: Vec::new(),
            compared: ComparedMemory::default(),
            added_pages: Vec::new(),
            strands: Vec::new(),
            executor: None,
            inline: false,
            width: 0,
            parent: None,
            args: Vec::new(),
            trap: None,
            failed: None,
            pending: PendingSums::default(),
            float_size: 8,
            instance: None,
            data: Vec::new(),
            stack: 0..0,
            entered: None,
            lacking: false,
            beside: 0,
        }
    }
}

impl<S: Strand> Forks<S> {
    /// The run is over.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_forked) {
            self.forks.clear();
            self.marks.clear();
            self.exclusive.clear();
            self.strands.iter_mut().for_each(|strand| strand.forget());
        }
        (self.trap, self.failed, self.parent) = (None, None, None);
        self.lacking = false;
        self.instance = None;
        self.pending.clear();
    }

    /// Forget forks whose records are not below this place.
    pub(crate) fn forget_from(&mut self, at: usize) {
        while let Some(fork) = self.forks.pop_if(|fork| fork.at >= at) {
            self.exclusive.truncate(fork.exclusive.start);
            let Some(first) = fork.marks else { continue };
            for (strand, mark) in self.strands.iter_mut().zip(self.marks.drain(first..)) {
                strand.rewind(mark.0);
            }
        }
    }

    /// Bytes that strands have recorded.
    pub(crate) fn bytes_used(&self) -> usize {
        self.strands.iter().map(|s| s.recorded()).sum()
    }

    /// What has stopped a task, of which the run has been stopped.
    pub(crate) fn trap(&self) -> Option<&RawTrap> {
        self.trap.as_ref()
    }
}

/// How a fork or a join ends.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkEnd {
    /// A task has trapped.
    Trapped = 0,
    /// All tasks have run.
    Done = 1,
    /// The tape has no room for the record.
    Full = 2,
    /// There is no memory for pending sums.
    Lacking = 3,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_tasks_are_compared() {
        let mut pending = PendingSums::default();
        let delta_place = pending.a_place();
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut found, mut apart) = ([0; 2], Vec::new());
        for round in 0..20_000 {
            let mut touched: Vec<ExclusiveAccess> = (0..1 + draw(8))
                .map(|_| {
                    let from = draw(60);
                    ExclusiveAccess {
                        task: draw(4),
                        object: 0,
                        delta_place,
                        extent: from..from + 1 + draw(12),
                        all: false,
                    }
                })
                .collect();
            touched.sort_by_key(|t| t.extent.start);
            let meet = |a: &ExclusiveAccess, b: &ExclusiveAccess| {
                a.task != b.task && a.extent.start < b.extent.end && b.extent.start < a.extent.end
            };
            let wanted: Vec<bool> = touched.iter().map(|a| !touched.iter().any(|b| meet(a, b))).collect();
            are_apart(&touched, &mut apart);
            assert_eq!(apart, wanted, "round {round}");
            wanted.iter().for_each(|&w| found[usize::from(w)] += 1);
        }
        assert!(found.iter().all(|&n| n > 1000), "{found:?}");
    }
}
