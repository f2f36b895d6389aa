//! Forks: tasks of a run, each with a tape of its own.
//!
//! **Question.** Tasks of a parallel program (`fork` of `brolga-ir`) may run at the same time.
//! Where does each record, and which tape does its pullback find?
//!
//! **Answer.** A fork of few tasks gives each a *strand*: a segment that belongs to it, which the
//! fork's record on the parent's tape leads to. So strands are a tree:
//!
//! ```text
//!   segment of the run    | … | fork 0 | … | fork 1 |        forward:  fork(seg, call, n)
//!                                 │            │             pullback: join(seg)
//!                         child 0, child 1    child 0 …
//! ```
//!
//! How many strands there are depends on the program alone: a fork whose strands would be more
//! than [`MOST_STRANDS`], counted with those of the forks around it, runs its tasks one after the
//! other on the segment that it is given. So does a fork of a run whose floats move in pieces,
//! which are known to one segment.
//!
//! Tasks run on the threads of an [`Executor`], and so do their pullbacks, which add to sums of
//! their own ([`crate::pending`]).
//!
//! **Traps.** A task that traps ends, and its siblings go on to their ends. The trap of the fork is
//! that of its first task that trapped, whatever the order in which they ran.
//!
//! **Heap.** What a task has allocated is its parent's when the fork is over.
//!
//! **Invariants.** Forks lie in the order of their records. A record that is written where others
//! were before has replaced those: their strands are free for others. A strand is used by one
//! thread at a time, and its parent not at all meanwhile.
//!
//! **Source.** T. Smeding, M. Vákár: Parallel dual-numbers reverse AD. Journal of Functional
//! Programming (2025).

use std::ops::Range;
use std::sync::Arc;

use crate::guard::{self, CodeRanges, Entry, RawTrap};
use crate::pending::Pending;
use crate::segment::Segment;
use crate::stack;

/// Most strands of a run at a time, but for those of forks that are over.
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
    forward: Entry,
    /// Takes the address of a segment's address.
    pullback: Entry,
    /// How many words follow, which each task is given.
    words: u64,
}

/// What a segment knows of its forks.
#[derive(Default)]
pub(crate) struct Forks {
    /// In the order of their records.
    forks: Vec<Fork>,
    /// Strands that wait for a fork, and lists for them.
    spare: (Strands, Vec<Strands>),
    /// Runs tasks; without one, the calling thread does.
    pub(crate) executor: Option<Arc<dyn Executor>>,
    /// All tasks run on the segment of the run.
    pub(crate) inline: bool,
    /// Strands beside which this one may run, with itself; zero stands for one.
    width: usize,
    /// The strand that has forked, while it waits.
    pub(crate) parent: Option<*const Segment>,
    /// What a task is given.
    args: Vec<u64>,
    /// What has stopped a task.
    trap: Option<RawTrap>,
    /// What has stopped this strand's task.
    failed: Option<RawTrap>,
    /// Sums that pullbacks add to, of this strand.
    pub(crate) pending: Pending,
    /// Bytes of the floats that pullbacks of tasks add up.
    pub(crate) float_size: u8,
    /// The stack of the thread that has forked.
    stack: Range<usize>,
    /// There was no memory for pending sums.
    lacking: bool,
}

/// Boxed because generated code holds the addresses of segments.
type Strands = Vec<Box<Segment>>;

/// One fork of a run.
struct Fork {
    pullback: Entry,
    /// Where its record is.
    at: usize,
    /// How many tasks it has.
    tasks: usize,
    /// Their segments, unless they have run on that of the fork.
    strands: Strands,
}

impl Forks {
    /// The run is over.
    pub(crate) fn clear(&mut self) {
        self.forget_from(0);
        (self.trap, self.failed, self.parent) = (None, None, None);
        self.lacking = false;
        self.pending.clear();
    }

    /// Forget forks whose records are not below this place.
    fn forget_from(&mut self, at: usize) {
        while self.forks.last().is_some_and(|f| f.at >= at) {
            let mut strands = self.forks.pop().expect("there is one").strands;
            strands.iter_mut().for_each(|strand| strand.reset());
            self.spare.0.append(&mut strands);
            self.spare.1.push(strands);
        }
    }

    /// Bytes that strands have recorded.
    pub(crate) fn bytes_used(&self) -> usize {
        self.forks.iter().flat_map(|f| &f.strands).map(|s| s.bytes_used()).sum()
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

/// Bytes of a record: which fork it is.
const RECORD: usize = 8;

impl Segment {
    /// Run the forward passes of a fork's tasks.
    ///
    /// # Safety
    /// `call` and the words behind it are valid, its functions are such, and this is called by
    /// generated code that has been entered by a guarded call.
    pub(crate) unsafe fn fork(&mut self, call: *const ForkCall, n: usize) -> ForkEnd {
        // SAFETY: our contract.
        let (head, words) = unsafe {
            let head = &*call;
            (head, std::slice::from_raw_parts(call.add(1).cast::<u64>(), head.words as usize))
        };
        // What runs on this segment records below the fork's own record.
        let width = self.forks.width.max(1).saturating_mul(n);
        let inline = self.forks.inline || width > MOST_STRANDS;
        self.forks.forget_from(self.top as usize);
        let strands = if inline { Some(Vec::new()) } else { self.strands(n, width) };
        let Some(strands) = strands else { return ForkEnd::Full };
        let mut fork = Fork { pullback: head.pullback, at: 0, tasks: n, strands };
        self.note_stack();
        // SAFETY: our contract.
        let code = unsafe { guard::innermost() };
        // SAFETY: our contract.
        let pass = |seg: &mut Self, t: usize| unsafe { seg.pass(head.forward, words, Some(t), code) };
        let run = |seg: &mut Self, fork: &mut Fork| {
            if inline { seg.one_by_one(0..n, pass) } else { fork.run(seg, false, pass) }
        };
        let done = stack::with_margin(|| run(self, &mut fork));
        for strand in &mut fork.strands {
            self.blocks.adopt(&mut strand.blocks);
            self.forks.lacking |= std::mem::take(&mut strand.forks.lacking);
        }
        let done = if done == ForkEnd::Done && self.forks.lacking { ForkEnd::Lacking } else { done };
        let room = (self.limit as usize).saturating_sub(self.top as usize) >= RECORD;
        fork.at = self.top as usize;
        if done == ForkEnd::Done && room {
            // SAFETY: there is room.
            unsafe { self.top.cast::<u64>().write_unaligned(self.forks.forks.len() as u64) };
            self.top = self.top.wrapping_add(RECORD);
        }
        self.forks.forks.push(fork);
        if done == ForkEnd::Done && !room { ForkEnd::Full } else { done }
    }

    /// Run the pullbacks of the tasks of the fork whose record the cursor is behind.
    ///
    /// # Safety
    /// As for [`Self::fork`], which has left the record.
    pub(crate) unsafe fn join(&mut self) -> ForkEnd {
        self.cursor = self.cursor.wrapping_sub(RECORD);
        // SAFETY: our contract.
        let i = unsafe { self.cursor.cast::<u64>().read_unaligned() } as usize;
        debug_assert_eq!(self.forks.forks.get(i).map(|f| f.at), Some(self.cursor as usize));
        let (pullback, n, strands) = match self.forks.forks.get_mut(i) {
            Some(f) => (f.pullback, f.tasks, std::mem::take(&mut f.strands)),
            None => return ForkEnd::Trapped,
        };
        let mut fork = Fork { pullback, at: self.cursor as usize, tasks: n, strands };
        // SAFETY: our contract.
        let code = unsafe { guard::innermost() };
        // SAFETY: our contract.
        let pass = |seg: &mut Self, _: usize| unsafe { seg.pass(pullback, &[], None, code) };
        let run = |seg: &mut Self, fork: &mut Fork| {
            if fork.strands.is_empty() {
                return seg.one_by_one((0..n).rev(), pass);
            }
            fork.strands.iter_mut().for_each(|strand| strand.forks.pending.begin());
            let done = fork.run(seg, true, |strand, t| {
                strand.begin_pullback();
                pass(strand, t);
            });
            if done == ForkEnd::Done { seg.add_up(&mut fork.strands) } else { done }
        };
        let done = stack::with_margin(|| run(self, &mut fork));
        if let Some(f) = self.forks.forks.get_mut(i) {
            f.strands = fork.strands;
        }
        done
    }

    /// The strands' pending sums are this segment's, the last one's first.
    fn add_up(&mut self, strands: &mut [Box<Self>]) -> ForkEnd {
        for strand in strands.iter_mut().rev() {
            if self.add_pending(strand).is_none() {
                return ForkEnd::Lacking;
            }
            strand.forks.pending.broken = false;
        }
        ForkEnd::Done
    }

    /// Stack slots of what has forked may be shadows that tasks share.
    fn note_stack(&mut self) {
        let here = std::ptr::from_ref(&self) as usize;
        let stack = stack::around_here().filter(|stack| stack.contains(&here));
        self.forks.stack = stack.map_or(0..0, |stack| here..stack.end);
    }

    /// The delta of pending sums, for a record. Without memory for them, the fork fails.
    pub(crate) fn pending_or_note(&mut self, p: usize, delta: usize) -> usize {
        let found = self.pending(p, delta);
        self.forks.lacking |= found.is_none();
        found.unwrap_or(delta)
    }

    /// What is known of a shadow's surroundings beside tapes and heap blocks.
    pub(crate) fn known_shadow(&self, shadow: usize) -> Option<Range<usize>> {
        let declared = self.declared.iter().filter(|d| d.shadow != 0).filter_map(|d| {
            let from = d.shadow as usize;
            Some(from..from.checked_add(usize::try_from(d.len?).ok()?)?)
        });
        let stack = self.forks.stack.clone();
        declared.chain([stack]).chain(self.global_shadows().ranges()).find(|r| r.contains(&shadow))
    }

    /// Tasks one after the other, on this segment. All run, also behind one that traps.
    fn one_by_one(&mut self, tasks: impl Iterator<Item = usize>, each: impl Fn(&mut Self, usize)) -> ForkEnd {
        let mut first: Option<(usize, RawTrap)> = None;
        for t in tasks {
            each(self, t);
            let trap = self.forks.failed.take();
            if let Some(trap) = trap.filter(|_| first.as_ref().is_none_or(|f| t < f.0)) {
                first = Some((t, trap));
            }
        }
        let Some((_, trap)) = first else { return ForkEnd::Done };
        self.forks.trap = Some(trap);
        ForkEnd::Trapped
    }

    /// Segments for the tasks of a fork.
    fn strands(&mut self, n: usize, width: usize) -> Option<Strands> {
        let mut all = self.forks.spare.1.pop().unwrap_or_default();
        while all.len() < n {
            let spare = self.forks.spare.0.pop();
            all.push(spare.or_else(|| Segment::new(self.capacity()).ok())?);
        }
        let parent: *const Segment = self;
        for strand in &mut all {
            strand.follows(self);
            strand.forks.executor.clone_from(&self.forks.executor);
            (strand.forks.width, strand.forks.parent) = (width, Some(parent));
            (strand.forks.inline, strand.forks.float_size) = (false, self.forks.float_size);
        }
        Some(all)
    }

    /// Enter generated code with words, the number of the task if there is one, and this segment.
    ///
    /// # Safety
    /// As for [`Self::fork`].
    unsafe fn pass(&mut self, entry: Entry, words: &[u64], task: Option<usize>, code: &CodeRanges) {
        let seg: *mut Segment = self;
        let mut args = std::mem::take(&mut self.forks.args);
        args.clear();
        args.extend_from_slice(words);
        args.extend(task.map(|t| t as u64));
        args.push(seg as u64);
        // SAFETY: our contract; the code is that of the run, of which all frames may be abandoned.
        let done = unsafe { guard::call_guarded(entry, args.as_mut_ptr().cast(), code) };
        self.forks.args = args;
        // A fork within has noted what has stopped its task.
        self.forks.failed = done.err().map(|own| self.forks.trap.take().unwrap_or(own));
    }
}

/// Segments of which each thread uses those whose tasks it runs.
#[derive(Clone, Copy)]
struct Shared(*mut Box<Segment>);

// SAFETY: each is used by the thread that runs its task.
unsafe impl Sync for Shared {}

impl Shared {
    /// That of a task.
    ///
    /// # Safety
    /// There is one, and it is not used elsewhere.
    unsafe fn of<'s>(self, t: usize) -> &'s mut Segment {
        // SAFETY: our contract.
        unsafe { &mut *self.0.add(t) }
    }
}

impl Fork {
    /// Run each task on its strand; in reverse, the last one first.
    fn run(&mut self, parent: &mut Segment, reverse: bool, each: impl Fn(&mut Segment, usize) + Sync) -> ForkEnd {
        let (n, strands) = (self.tasks, Shared(self.strands.as_mut_ptr()));
        // SAFETY: there is one for each task, and no two tasks have one number.
        let task = |t: usize| each(unsafe { strands.of(t) }, t);
        match &parent.forks.executor {
            Some(executor) if n > 1 => executor.each(n, &|i| task(if reverse { n - 1 - i } else { i })),
            _ if reverse => (0..n).rev().for_each(task),
            _ => (0..n).for_each(task),
        }
        let Some(failed) = self.strands.iter_mut().find(|s| s.forks.failed.is_some()) else { return ForkEnd::Done };
        parent.forks.trap = failed.forks.failed.take();
        parent.loops.fails_as(&failed.loops);
        parent.inverses.fails_as(&failed.inverses);
        ForkEnd::Trapped
    }
}
