//! Threads on which tasks of parallel programs run.
//!
//! **Question.** A program forks ([`brolga_ir::fork`]). Which threads run its tasks?
//! **Answer.** Those of the rayon pool that the caller is in (`pool.install(|| rule.gradient(…))`),
//! or else a pool of the process, with as many threads as there are processors, or as
//! [`Options::task_threads`] says. With one, tasks run on the calling thread. What comes out does
//! not depend on it.
//!
//! **Cost.** A pool is made when it is first asked for, one for each number of threads, and stays.
//! A rule of a program that does not fork has none.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use brolga_ir::driver::Driver;
use brolga_ir::{Options, Program};
use brolga_runtime::forks::{Executor, MOST_STRANDS};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Error;

/// Bytes of stack for a thread: no less than that of a main thread, on which a task may run as
/// well.
const STACK: usize = 8 << 20;

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
        if self.yields && rayon::current_thread_index().is_some() { run() } else { self.pool.install(run) }
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
