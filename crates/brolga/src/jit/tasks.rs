//! Threads on which tasks of parallel programs run.
//!
//! **Question.** A program forks ([`brolga_ir::fork`]). Which threads run its tasks?
//! **Answer.** Those of the rayon pool that the caller is in (`pool.install(|| rule.gradient(…))`),
//! or else a pool of the process, with as many threads as there are processors, or as
//! [`Options::task_threads`] says. A calling thread that is in no pool runs tasks as well, if it
//! has as much stack left as a task may need: it hands a fork to the pool, and takes tasks until
//! none is left. With one thread, tasks run on the calling thread. What comes out does not depend
//! on it.
//!
//! **Cost.** A pool is made when it is first asked for, one for each number of threads, and stays.
//! A rule of a program that does not fork has none. A fork of a thread that is in no pool is an
//! allocation, and a thread is woken if the pool sleeps; with little stack left, two switches
//! between threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use brolga_ir::driver::Driver;
use brolga_ir::{Options, Program};
use brolga_runtime::forks::{Executor, MOST_STRANDS};
use brolga_runtime::is_left;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Error;

/// Bytes of stack for a thread: no less than that of a main thread, on which a task may run as
/// well.
const STACK: usize = 8 << 20;

/// A calling thread that has so much stack left runs tasks as well as one of the pool.
const ENOUGH: usize = STACK / 4 * 3;

/// How often a calling thread looks for the last task before it sleeps.
const SPINS: usize = 100;

/// Pools of the process, by how many threads they have.
static POOLS: LazyLock<Mutex<HashMap<usize, Option<Arc<ThreadPool>>>>> = LazyLock::new(Mutex::default);

/// A pool of so many threads; none if they cannot be made.
fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let pool = ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK);
        pool.thread_name(|i| format!("brolga task {i}")).build().ok().map(Arc::new)
    };
    pools.entry(threads).or_insert_with(make).clone()
}

/// Runs tasks on the threads of a pool.
#[derive(Debug)]
struct Threads {
    pool: Arc<ThreadPool>,
    /// Whether a pool that the calling thread belongs to comes first.
    yields: bool,
}

impl Executor for Threads {
    fn each(&self, n: usize, task: &(dyn Fn(usize) + Sync)) {
        let run = || match n {
            2 => {
                rayon::join(|| task(0), || task(1));
            }
            _ => (0..n).into_par_iter().with_max_len(1).for_each(task),
        };
        match rayon::current_thread_index() {
            Some(_) if self.yields => run(),
            None if is_left(ENOUGH) => self.share(n, task),
            _ => self.pool.install(run),
        }
    }
}

impl Threads {
    /// Run tasks on the calling thread and on those of the pool that come in time. It waits for
    /// tasks, and not for threads: a fork that is over before a thread is awake costs no switch.
    fn share(&self, n: usize, task: &(dyn Fn(usize) + Sync)) {
        // SAFETY: only the lifetime changes. It is called for tasks that have not been run, before
        // this returns.
        let task = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(task) };
        let fork = Arc::new(SharedFork { n, task, taken: 0.into(), ended: Mutex::new(0), all: Condvar::new() });
        let helpers = (self.pool.current_num_threads() - 1).min(n - 1);
        let shared = Arc::clone(&fork);
        self.pool.spawn(move || match helpers {
            1 => shared.run(),
            _ => (0..helpers).into_par_iter().with_max_len(1).for_each(|_| shared.run()),
        });
        fork.run();
        fork.wait();
    }
}

/// A fork whose tasks the calling thread runs together with a pool.
struct SharedFork {
    n: usize,
    /// The calling thread's, which waits until all tasks have been run.
    task: *const (dyn Fn(usize) + Sync),
    /// Tasks that a thread has taken.
    taken: AtomicUsize,
    /// Tasks that have been run.
    ended: Mutex<usize>,
    all: Condvar,
}

// SAFETY: threads share the function, which may be shared.
unsafe impl Send for SharedFork {}
// SAFETY: as before.
unsafe impl Sync for SharedFork {}

impl SharedFork {
    /// Take tasks and run them, until none is left.
    fn run(&self) {
        let mut count = 0;
        while let Some(i) = Some(self.taken.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < self.n) {
            // SAFETY: task `i` has not been run yet, so the calling thread has not gone on.
            unsafe { (*self.task)(i) };
            count += 1;
        }
        if count > 0 {
            *self.ended() += count;
            self.all.notify_one();
        }
    }

    /// Wait for the tasks that other threads have taken.
    fn wait(&self) {
        for _ in 0..SPINS {
            if *self.ended() == self.n {
                return;
            }
            std::hint::spin_loop();
        }
        let all = self.all.wait_while(self.ended(), |ended| *ended < self.n);
        drop(all.unwrap_or_else(PoisonError::into_inner));
    }

    fn ended(&self) -> MutexGuard<'_, usize> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a program forks.
pub(super) fn forks(program: &Program) -> bool {
    program.funcs.values().any(|f| matches!(f.driver, Some(Driver::Tasks(_))))
}

/// What runs the tasks of a program; nothing if the calling thread does.
pub(super) fn executor(program: &Program, options: &Options) -> Result<Option<Arc<dyn Executor>>, Error> {
    let threads = match options.task_threads {
        Some(0) => {
            let message = "`task_threads` is 0: a pool has at least one thread; leave it out for as many as there are \
                           processors";
            return Err(Error::Usage(message.to_owned()));
        }
        Some(n) => n,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    // No more tasks run at a time, so more threads would only wait.
    let threads = threads.min(MOST_STRANDS);
    let pool = if forks(program) && threads > 1 { pool(threads) } else { None };
    Ok(pool.map(|pool| Arc::new(Threads { pool, yields: options.task_threads.is_none() }) as Arc<dyn Executor>))
}
