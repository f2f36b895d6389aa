//! Pool of segments that wait for their next run.
//!
//! **Problem.** Reserving address space costs system calls, and first touching a page costs a
//! fault; a rule that is called in a loop should pay for neither twice.
//!
//! **Answer.** Each derived rule has a pool, shared by its clones: a run takes a segment, and the
//! last user of the run (usually the pullback) gives it back, on whatever thread. In the steady
//! state neither direction allocates.
//!
//! **Invariant.** Every segment in the pool has been reset and is linked to the captures and data
//! objects of the plan.
//!
//! **Cost.** A lock for each run, and for each return.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::captures::CaptureTable;
use crate::forks::Executor;
use crate::segment::{ReserveError, Segment};
use crate::shadows::globals::{DataSpan, GlobalShadows};
use crate::states::loop_files::StateFolder;

/// What every segment of a rule is made with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Most bytes that a run may record; address space only.
    pub capacity: usize,
    /// Derived functions by primal address.
    pub captures: Option<Arc<CaptureTable>>,
    /// Writable data objects, in the order in which generated code numbers them.
    pub globals: Vec<DataSpan>,
    /// How many derivatives a run computes.
    pub width: usize,
    /// Where time loops may keep states that do not fit into memory.
    pub states: Option<Arc<StateFolder>>,
    /// What runs tasks of forks, if not the calling thread.
    pub executor: Option<Arc<dyn Executor>>,
    /// Bytes of the floats that pullbacks of these add up; if they are not of one size, tasks run
    /// one after the other, on the tape of the run.
    pub task_floats: Option<u8>,
}

impl Default for Plan {
    fn default() -> Self {
        let (captures, globals, states, executor) = Default::default();
        Self { capacity: 8 << 30, captures, globals, width: 1, states, executor, task_floats: None }
    }
}

/// A pool of segments made after one plan.
#[derive(Default)]
pub struct Pool {
    plan: Plan,
    idle: Mutex<IdleSegments>,
}

/// Boxed because generated code holds the address of a segment, so it must not move.
type IdleSegments = Vec<Box<Segment>>;

impl Pool {
    /// An empty pool; segments are made when they are first needed.
    pub fn new(plan: Plan) -> Self {
        Self { plan, idle: Mutex::default() }
    }

    /// An empty segment, a used one if there is one.
    pub fn take(&self) -> Result<Box<Segment>, ReserveError> {
        let idle = self.lock().pop();
        idle.map_or_else(|| self.make(), Ok)
    }

    /// Empty a segment and keep it for the next [`take`](Self::take). It must come from this pool:
    /// another's has another plan's links.
    pub fn give_back(&self, mut segment: Box<Segment>) {
        // Outside the lock: freeing a run's heap shadows may take a while.
        segment.reset();
        self.lock().push(segment);
    }

    /// Like [`take`](Self::take), but the segment comes back by itself.
    pub fn lease(self: &Arc<Self>) -> Result<Lease, ReserveError> {
        Ok(Lease { segment: Some(self.take()?), pool: Arc::clone(self) })
    }

    /// Give the memory of all waiting segments back to the system.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut *self.lock());
        drop(idle);
    }

    /// How many segments wait.
    pub fn idle(&self) -> usize {
        self.lock().len()
    }

    fn make(&self) -> Result<Box<Segment>, ReserveError> {
        let Plan { capacity, captures, globals, width, states, executor, task_floats } = &self.plan;
        let mut segment = Segment::new(*capacity)?;
        if let Some(captures) = captures {
            segment.attach_captures(Arc::clone(captures));
        }
        segment.attach_globals(GlobalShadows::new(globals, *width));
        segment.keep_states_in(states.clone());
        segment.run_tasks_on(executor.clone());
        segment.run_tasks_of(*task_floats);
        Ok(segment)
    }

    fn lock(&self) -> MutexGuard<'_, IdleSegments> {
        // Nothing panics while the lock is held, and a vector of segments has no state in between.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment that goes back to its pool when dropped.
pub struct Lease {
    /// `None` only while dropping.
    segment: Option<Box<Segment>>,
    pool: Arc<Pool>,
}

impl Deref for Lease {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        self.segment.as_ref().expect("present until dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Segment {
        self.segment.as_mut().expect("present until dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(segment) = self.segment.take() {
            self.pool.give_back(segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_reused_and_comes_back_empty() {
        let pool = Arc::new(Pool::new(Plan { capacity: 1 << 20, ..Plan::default() }));
        let mut first = pool.lease().unwrap();
        first.top = first.top.wrapping_add(64);
        let address = first.as_mut_ptr();
        drop(first);
        assert_eq!(pool.idle(), 1);
        let mut second = pool.lease().unwrap();
        assert_eq!(second.as_mut_ptr(), address);
        assert_eq!((second.bytes_used(), pool.idle()), (0, 0));
        let other = pool.lease().unwrap();
        drop((second, other));
        assert_eq!(pool.idle(), 2);
        pool.trim();
        assert_eq!(pool.idle(), 0);
    }

    #[test]
    fn leases_may_end_on_other_threads() {
        let pool = Arc::new(Pool::new(Plan { capacity: 1 << 20, ..Plan::default() }));
        let leases: Vec<_> = (0..8).map(|_| pool.lease().unwrap()).collect();
        std::thread::scope(|scope| {
            for lease in leases {
                scope.spawn(move || drop(lease));
            }
        });
        assert_eq!(pool.idle(), 8);
    }

    #[test]
    fn each_segment_has_its_own_data_shadows_zeroed_on_return() {
        let data = [0.0f64; 4];
        let span = DataSpan { address: data.as_ptr() as usize, size: 32 };
        let pool = Arc::new(Pool::new(Plan { capacity: 1 << 20, globals: vec![span], ..Plan::default() }));
        let mut a = pool.lease().unwrap();
        let b = pool.lease().unwrap();
        assert_ne!(a.global_shadows().deltas(), b.global_shadows().deltas());
        a.global_shadows_mut().bytes_mut(0).unwrap()[5] = 1;
        assert_eq!(b.global_shadows().bytes(0).unwrap(), [0; 32]);
        drop(a);
        assert_eq!(pool.lease().unwrap().global_shadows().bytes(0).unwrap(), [0; 32]);
    }
}
