//! Tasks of forks that are running: which of them are concurrent, and how long they take.
//!
//! **Question.** The interpreter runs tasks one after the other. Which of those that are over could
//! run at the same time as the one that runs now, and how long would all take with enough threads?
//!
//! **Answer.** SP-bags. Tasks are put into sets: what is in the set of a running task comes before
//! all that it does; what is in the set of a running fork (tasks of it that are over, with all that
//! they have forked) is concurrent with the task that runs now. A fork that is over joins the set
//! of the task around it. Sets are trees of a union-find, so a question takes almost no time.
//!
//! The *span* of a run counts the instructions on its longest way: a fork counts what its longest
//! task counts, and one for itself. The *work* counts all.
//!
//! **Cost.** Nothing for an instruction, something for a call.
//!
//! **Source.** M. Feng, C. E. Leiserson: Efficient detection of determinacy races in Cilk programs.
//! SPAA 1997.

use brolga_ir::driver::Driver;
use brolga_ir::{Func, FuncKey};

/// A task, among all of an outermost fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskId(u32);

/// A fork that is running.
#[derive(Debug)]
struct RunningFork {
    /// The driver, and how many frames there are when it calls its tasks.
    func: FuncKey,
    depth: usize,
    /// The task that runs.
    task: Option<TaskId>,
    /// One of those that are over.
    over: Option<TaskId>,
    /// The span before the fork, and the longest at the end of a task.
    before: u64,
    longest: u64,
}

/// Forks of a run.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: Vec<RunningFork>,
    /// The union-find.
    parents: Vec<u32>,
    /// Instructions that are not on the longest way to here.
    beside: u64,
}

impl Tasks {
    /// Whether a task runs.
    pub(super) fn is_active(&self) -> bool {
        self.current().is_some()
    }

    /// The innermost task that runs.
    pub(super) fn current(&self) -> Option<TaskId> {
        self.running.last().and_then(|f| f.task)
    }

    /// The span of a run of which so many instructions have been executed.
    pub(super) fn span(&self, work: u64) -> u64 {
        work - self.beside
    }

    /// A function is entered, with so many frames below its own and instructions executed.
    pub(super) fn enter(&mut self, key: FuncKey, func: &Func, below: usize, work: u64) {
        if let Some(fork) = self.running.last_mut().filter(|f| f.depth == below) {
            fork.task = Some(TaskId(self.parents.len() as u32));
            self.beside = work - fork.before;
            self.parents.push(self.parents.len() as u32);
        }
        if let Some(Driver::Tasks(_)) = func.driver {
            let before = self.span(work);
            let fork = RunningFork { func: key, depth: below + 1, task: None, over: None, before, longest: before };
            self.running.push(fork);
        }
    }

    /// A function has returned, and there are so many frames. Whether no fork is left that runs.
    pub(super) fn leave(&mut self, frames: usize, work: u64) -> bool {
        let now = self.span(work);
        if let Some(fork) = self.running.last_mut().filter(|f| f.depth == frames) {
            fork.longest = fork.longest.max(now);
            let (task, over) = (fork.task.take(), fork.over);
            self.running.last_mut().expect("it is there").over = self.joined(task, over);
            return false;
        }
        let Some(fork) = self.running.pop_if(|f| f.depth == frames + 1) else { return false };
        self.beside = work - (fork.longest + 1);
        match self.running.last().map(|f| f.task) {
            None => self.parents.clear(),
            Some(around) => {
                self.joined(around, fork.over);
            }
        }
        self.running.is_empty()
    }

    /// The fork that makes the task that runs now concurrent with another one.
    pub(super) fn concurrent(&mut self, other: TaskId) -> Option<FuncKey> {
        let root = self.root(other);
        let Self { running, parents, .. } = self;
        // Sets of running tasks are never those of forks.
        let is_of = |f: &&RunningFork| f.over.is_some_and(|over| find(parents, over) == root);
        running.iter().find(is_of).map(|f| f.func)
    }

    fn root(&mut self, task: TaskId) -> u32 {
        find(&mut self.parents, task)
    }

    /// Two sets are one from now on, that of the first one.
    fn joined(&mut self, to: Option<TaskId>, from: Option<TaskId>) -> Option<TaskId> {
        let (Some(a), Some(b)) = (to, from) else { return to.or(from) };
        let [a, b] = [a, b].map(|task| self.root(task));
        self.parents[b as usize] = a;
        Some(TaskId(a))
    }
}

/// The root of a tree, whose paths become shorter.
fn find(parents: &mut [u32], TaskId(task): TaskId) -> u32 {
    let mut at = task;
    while parents[at as usize] != at {
        let above = parents[parents[at as usize] as usize];
        parents[at as usize] = above;
        at = above;
    }
    at
}
