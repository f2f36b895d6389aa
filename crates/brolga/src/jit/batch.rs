//! Parallel tasks: work that does not wait for each other, on the threads that there are.
//!
//! **Problem.** What has been derived is verified and compiled, function by function, and none of
//! these tasks needs another. But they are short: a helper takes as long to wake up (about 20 µs)
//! as a small function takes to be verified.
//!
//! **Answer.** The calling thread works through the tasks from the first one on, and helpers from
//! the last one back, as soon as they are awake. The caller does not wait for a helper that has not
//! begun: if none ever comes (they are busy, or there are none, as in a child of `fork`), the
//! caller has done everything itself. So a batch takes no longer than without helpers, but for
//! waking them, which is left where there is little that they could do meanwhile
//! ([`codegen::worth_help`](super::codegen::worth_help)).
//!
//! **Invariant.** Each task runs once, and what it gives is in its place, whichever thread ran it.
//! A panic in a task goes on in the calling thread.
//!
//! **Cost.** A lock for each task when it is taken and when it is done, and an allocation for the
//! batch. With one thread, nothing but the tasks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Most helpers.
const MOST: usize = 7;

/// Bytes of stack for a helper: no less than that of a main thread, which may compile the same.
const STACK: usize = 8 << 20;

/// Helpers, or none if there is one processor, or if threads cannot be made. They sleep when they
/// are not asked for.
static HELPERS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let n = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).min(MOST);
    let pool = ThreadPoolBuilder::new().num_threads(n).stack_size(STACK).thread_name(|i| format!("brolga {i}"));
    if n == 0 { None } else { pool.build().ok() }
});

/// A batch is going to run as soon as a helper can be awake.
pub(crate) fn wake(threads: usize) {
    if threads != 1
        && let Some(helpers) = HELPERS.as_ref()
    {
        // A helper without a task looks around for a while before it sleeps again.
        helpers.spawn(|| {});
    }
}

/// What a task gave, or how it panicked.
type TaskResult<R> = Result<R, Box<dyn Any + Send>>;

struct Batch<R> {
    task: Box<dyn Fn(usize) -> R + Send + Sync>,
    state: Mutex<BatchState<R>>,
    /// A helper is done.
    done: Condvar,
}

struct BatchState<R> {
    /// Tasks that have not been taken: from the first to before the second.
    left: (usize, usize),
    /// Helpers that work on one.
    working: usize,
    outcomes: Vec<Option<TaskResult<R>>>,
}

impl<R> Batch<R> {
    fn state(&self) -> std::sync::MutexGuard<'_, BatchState<R>> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, i: usize) -> TaskResult<R> {
        brolga_ir::panics::quietly(|| catch_unwind(AssertUnwindSafe(|| (self.task)(i))))
    }

    /// The next task for the caller.
    fn first(&self) -> Option<usize> {
        let left = &mut self.state().left;
        (left.0 < left.1).then(|| {
            left.0 += 1;
            left.0 - 1
        })
    }

    /// The next task for a helper.
    fn last(&self) -> Option<usize> {
        let mut state = self.state();
        (state.left.0 < state.left.1).then(|| {
            state.left.1 -= 1;
            state.working += 1;
            state.left.1
        })
    }

    fn help(&self) {
        while let Some(i) = self.last() {
            let outcome = self.run(i);
            let mut state = self.state();
            state.outcomes[i] = Some(outcome);
            state.working -= 1;
            self.done.notify_one();
        }
    }
}

/// Run so many tasks, with no more than so many threads, of which the calling one is the first;
/// zero stands for as many as there are.
pub(crate) fn run<R: Send + 'static>(
    tasks: usize,
    threads: usize,
    task: impl Fn(usize) -> R + Send + Sync + 'static,
) -> Vec<R> {
    let most = if threads == 0 { usize::MAX } else { threads }.min(tasks);
    let helpers = if most > 1 { HELPERS.as_ref() } else { None };
    let Some(helpers) = helpers else { return (0..tasks).map(task).collect() };
    let outcomes = (0..tasks).map(|_| None).collect();
    let state = Mutex::new(BatchState { left: (0, tasks), working: 0, outcomes });
    let batch = Arc::new(Batch { task: Box::new(task), state, done: Condvar::new() });
    for _ in 1..most.min(1 + helpers.current_num_threads()) {
        let batch = Arc::clone(&batch);
        helpers.spawn(move || batch.help());
    }
    while let Some(i) = batch.first() {
        let outcome = batch.run(i);
        batch.state().outcomes[i] = Some(outcome);
    }
    let working = |s: &mut BatchState<R>| s.working > 0;
    let mut state = batch.done.wait_while(batch.state(), working).unwrap_or_else(PoisonError::into_inner);
    let outcomes = std::mem::take(&mut state.outcomes);
    drop(state);
    outcomes.into_iter().map(|o| o.expect("each task runs").unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn each_task_runs_once_on_any_thread() {
        for threads in [0, 1, 2, 16] {
            for tasks in [0, 1, 2, 100] {
                let ran = Arc::new(AtomicUsize::new(0));
                let count = Arc::clone(&ran);
                let found = run(tasks, threads, move |i| {
                    count.fetch_add(1, Ordering::Relaxed);
                    i * i
                });
                assert_eq!(found, (0..tasks).map(|i| i * i).collect::<Vec<_>>());
                assert_eq!(ran.load(Ordering::Relaxed), tasks);
            }
        }
    }

    /// What a helper has begun is waited for.
    #[test]
    fn helpers_help() {
        let caller = std::thread::current().id();
        let begin = Instant::now();
        // The caller does not go on to the last task before a helper has it, if there is a helper.
        let taken = Arc::new(AtomicUsize::new(0));
        let found = run(2, 0, move |i| {
            let alone = HELPERS.is_none();
            taken.fetch_add(1, Ordering::SeqCst);
            while !alone && taken.load(Ordering::SeqCst) < 2 && begin.elapsed() < Duration::from_secs(60) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(if i == 1 { 20 } else { 0 }));
            std::thread::current().id() == caller
        });
        assert_eq!(found, [true, HELPERS.is_none()]);
    }

    #[test]
    fn a_panic_is_the_callers() {
        for at in [0, 3] {
            let run = || run(4, 0, move |i| assert_ne!(i, at, "task {i}"));
            let panic = brolga_ir::panics::quietly(|| catch_unwind(run)).expect_err("a task panics");
            assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains(&format!("task {at}"))));
        }
    }

    #[test]
    fn batches_of_several_threads_do_not_mix() {
        std::thread::scope(|s| {
            for k in 0..8 {
                s.spawn(move || assert_eq!(run(50, 0, move |i| i + k), (k..50 + k).collect::<Vec<_>>()));
            }
        });
    }
}
