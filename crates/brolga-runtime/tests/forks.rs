//! Forks with tasks that are Rust, so that ThreadSanitizer sees all that tasks on threads touch:
//! the records of a fork, strands, sums that wait and what is added up (docs/TESTING.md has the
//! command).
//!
//! A task makes one number of eight that all of them read, in two tasks of its own; its pullback
//! takes the cotangent of that number and leaves it on its tape, where those two read it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use brolga_runtime::calls::forks::{brolga_fork, brolga_gather, brolga_join, brolga_pending, brolga_pending_within};
use brolga_runtime::forks::Executor;
use brolga_runtime::{CodeRanges, DeclaredPointer, Entry, Plan, Pool, Segment, call_guarded};
use brolga_testing::counting::requests;

/// Numbers that all tasks read; those that they write follow.
const READ: usize = 8;
const TASKS: usize = 12;

thread_local! {
    /// Tasks whose forward passes and pullbacks have run on this thread, as they began.
    static RUN: RefCell<[Vec<u64>; 2]> = RefCell::default();
}

/// So many threads, which take tasks as they come.
#[derive(Debug)]
struct Threads(usize);

impl Executor for Threads {
    fn each(&self, n: usize, task: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let take = || {
            while let Some(t) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&t| t < n) {
                task(t);
            }
        };
        std::thread::scope(|scope| {
            // The end of a scope is not seen by ThreadSanitizer, but that of a thread is.
            let all: Vec<_> = (0..self.0.min(n)).map(|_| scope.spawn(take)).collect();
            all.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

/// A position in a segment, by its place in the layout.
unsafe fn position<'s>(seg: u64, place: usize) -> &'s mut *mut u64 {
    // SAFETY: the caller has a segment, whose first words are positions on its tape.
    unsafe { &mut *(seg as *mut *mut u64).add(place) }
}

/// Record a word; where it is.
unsafe fn push(seg: u64, word: u64) -> u64 {
    // SAFETY: there is room for a few words.
    unsafe {
        let top = position(seg, 0);
        let at = *top;
        at.write_unaligned(word);
        *top = at.add(1);
        at as u64
    }
}

unsafe fn pop(seg: u64) -> u64 {
    // SAFETY: as many words are popped as were recorded.
    unsafe {
        let cursor = position(seg, 2);
        *cursor = cursor.sub(1);
        cursor.read_unaligned()
    }
}

/// What generated code says of a fork.
#[repr(C)]
struct Call<const N: usize>(Entry, Entry, u64, [u64; N]);

impl<const N: usize> Call<N> {
    /// How the fork ends.
    unsafe fn fork(&self, seg: u64, n: u64) -> u64 {
        // SAFETY: the layout is that of what generated code says.
        unsafe { brolga_fork(seg as *mut Segment, std::ptr::from_ref(self).cast(), n) }
    }
}

unsafe extern "C" fn root_forward(words: *mut u8) {
    // SAFETY: the test passes two words and the segment.
    unsafe {
        let [p, delta, seg] = words.cast::<[u64; 3]>().read();
        assert_eq!(Call(task_forward, task_pullback, 2, [p, delta]).fork(seg, TASKS as u64), 1);
    }
}

unsafe extern "C" fn root_pullback(words: *mut u8) {
    // SAFETY: the test passes the segment.
    unsafe {
        let seg = words.cast::<u64>().read();
        assert_eq!(brolga_join(seg as *mut Segment, 0, 0), 1);
    }
}

unsafe extern "C" fn task_forward(words: *mut u8) {
    // SAFETY: what the fork says, the number of the task and its segment.
    unsafe {
        let [p, delta, t, seg] = words.cast::<[u64; 4]>().read();
        RUN.with_borrow_mut(|run| run[0].push(t));
        let slot = push(seg, 0);
        assert_eq!(Call(half_forward, half_pullback, 4, [p, delta, t, slot]).fork(seg, 2), 1);
        let place = p + 8 * (READ as u64 + t);
        let cell = brolga_pending_within(seg as *mut Segment, p, delta, place, 8, 0, 1, 0, 1, 0, 1);
        for word in [t, slot, place, cell as u64] {
            push(seg, word);
        }
    }
}

unsafe extern "C" fn task_pullback(words: *mut u8) {
    // SAFETY: the segment in which the forward pass has recorded.
    unsafe {
        let seg = words.cast::<u64>().read();
        let [cell, place, slot, t] = [(); 4].map(|()| pop(seg));
        RUN.with_borrow_mut(|run| run[1].push(t));
        let delta = (cell as *const u64).read();
        brolga_gather(seg as *mut Segment, place, delta, 8);
        let ct = place.wrapping_add(delta) as *mut f64;
        (slot as *mut f64).write_unaligned(ct.read());
        ct.write(0.0);
        assert_eq!(brolga_join(seg as *mut Segment, 0, 0), 1);
        pop(seg);
    }
}

unsafe extern "C" fn half_forward(words: *mut u8) {
    // SAFETY: what the fork says, the number of the task and its segment.
    unsafe {
        let [p, delta, t, slot, half, seg] = words.cast::<[u64; 6]>().read();
        let pending = brolga_pending(seg as *mut Segment, p, delta);
        for word in [p.wrapping_add(pending), t, slot, half] {
            push(seg, word);
        }
    }
}

unsafe extern "C" fn half_pullback(words: *mut u8) {
    // SAFETY: the segment in which the forward pass has recorded.
    unsafe {
        let seg = words.cast::<u64>().read();
        let [half, slot, t, sums] = [(); 4].map(|()| pop(seg));
        let ct = (slot as *const f64).read_unaligned();
        for j in (READ as u64 / 2 * half..).take(READ / 2) {
            let sum = sums.wrapping_add(8 * j) as *mut f64;
            sum.write(sum.read() + ct * weight(t, j));
        }
    }
}

fn weight(t: u64, j: u64) -> f64 {
    (t + 1) as f64 * (j + 1) as f64 / 3.0
}

/// The shadow after three runs, whose pullbacks are called twice, and what each has allocated.
fn gradient(executor: Option<Arc<dyn Executor>>) -> (Vec<u64>, Vec<usize>) {
    let plan = Plan { capacity: 1 << 20, executor, task_floats: Some(8), ..Plan::default() };
    let (pool, code) = (Arc::new(Pool::new(plan)), CodeRanges::default());
    let primal = [0.0_f64; READ + TASKS];
    let mut shadow = vec![0.0_f64; READ + TASKS];
    let mut asked = Vec::new();
    for run in 0..3 {
        let before = requests();
        let mut seg = pool.lease().unwrap();
        let p = primal.as_ptr() as u64;
        let delta = (shadow.as_mut_ptr() as u64).wrapping_sub(p);
        seg.declare(DeclaredPointer {
            primal: p,
            shadow: shadow.as_mut_ptr() as u64,
            len: Some(8 * (READ + TASKS) as u64),
        });
        let seg_word = seg.as_mut_ptr() as u64;
        // SAFETY: the functions are those above, and get what they expect.
        unsafe { call_guarded(root_forward, [p, delta, seg_word].as_mut_ptr().cast(), &code) }.unwrap();
        for _ in 0..2 {
            for (t, ct) in shadow[READ..].iter_mut().enumerate() {
                *ct = 1.0 / (1.0 + t as f64 + f64::from(run));
            }
            seg.begin_pullback();
            // SAFETY: the same.
            unsafe { call_guarded(root_pullback, [seg_word].as_mut_ptr().cast(), &code) }.unwrap();
            assert_eq!(seg.bytes_left(), 0);
        }
        drop(seg);
        asked.push(requests() - before);
    }
    (shadow.into_iter().map(f64::to_bits).collect(), asked)
}

/// Seen to fail: pullbacks that run in the order of the forward passes, sums of the first task that
/// come first, sums that stay where they are, and those that are not cleared.
#[test]
fn tasks_on_threads() {
    RUN.with_borrow_mut(|run| run.iter_mut().for_each(|run| run.reserve(6 * TASKS)));
    let (one, asked) = gradient(None);
    assert!(asked[0] > 0 && asked[2] == 0, "{asked:?}");
    for (j, &found) in one[..READ].iter().enumerate() {
        // Sums of the last task come first, to the last bit.
        let mut wanted = 0.0;
        for run in (0..3).flat_map(|run| [run, run]) {
            for t in (0..TASKS as u64).rev() {
                wanted += 1.0 / (1.0 + t as f64 + f64::from(run)) * weight(t, j as u64);
            }
        }
        assert_eq!(f64::from_bits(found), wanted, "{j}");
    }
    assert!(one[READ..].iter().all(|&bits| bits == 0));
    // One thread goes through the serial program, and back.
    let [forward, back] = RUN.take();
    let tasks = 0..TASKS as u64;
    assert_eq!(forward, [(); 3].into_iter().flat_map(|()| tasks.clone()).collect::<Vec<_>>());
    assert_eq!(back, [(); 6].into_iter().flat_map(|()| tasks.clone().rev()).collect::<Vec<_>>());
    for threads in [1, 2, 3, 7] {
        for _ in 0..5 {
            assert_eq!(gradient(Some(Arc::new(Threads(threads)))).0, one, "{threads}");
        }
    }
}
