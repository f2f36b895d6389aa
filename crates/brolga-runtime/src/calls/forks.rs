//! Helpers of forks: what generated code calls to run tasks and to add to shadows that they share
//! ([`crate::forks`] has the tasks).
//!
//! **Question.** A call runs parts of the program at the same time. How do its forward pass, its
//! pullback, and additions to shared shadows get from generated code to the tasks?
//!
//! **Answer.**
//!
//! | call | what it does |
//! |---|---|
//! | [`brolga_fork`] | runs the forward passes of tasks |
//! | [`brolga_join`] | runs the pullbacks of the last fork that has not been reversed |
//! | [`brolga_pending`], [`brolga_pending_data`] | the delta by which a task adds to a shadow |
//! | [`brolga_pending_within`] | the same for a loop, whose extent is known before |
//! | [`brolga_gather`] | what others have added comes to a place before it is read |
//!
//! **Errors.** A task that has trapped, a full tape, and no memory for pending sums come back as
//! numbers.
//!
//! **Safety.** Generated code passes its own segment, and a description of code that takes what
//! stands after it.
//!
//! **Cost.** A call for each; `brolga_pending` looks for the owner of a shadow.

use crate::forks::ForkCall;
use crate::forks::pending::Extent;
use crate::segment::Segment;

/// Run the forward passes of the tasks of a fork. Returns 0 if one of them has trapped, 1 if all
/// have run, 2 if the tape is full, and 3 if there is no memory for pending sums.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; `call`, with the words after it, describes
/// generated code that takes them. The caller is generated code that a guarded call has entered.
pub unsafe extern "C" fn brolga_fork(seg: *mut Segment, call: *const ForkCall, n: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).fork(call, n as usize) as u64 }
}

/// Run the pullbacks of the tasks of the last fork that has not been reversed. Returns 0 if one of
/// them has trapped, 3 if there is no memory for pending sums, and otherwise 1.
///
/// # Safety
/// As for [`brolga_fork`], which this segment has been used for.
pub unsafe extern "C" fn brolga_join(seg: *mut Segment, _: u64, _: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).join() as u64 }
}

/// The delta that a strand's pullback adds by in place of `delta`, which is that of `p`: to pending
/// sums, where the strand does not own the shadow.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses.
pub unsafe extern "C" fn brolga_pending(seg: *mut Segment, p: u64, delta: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { (*seg).pending_or_note(p as usize, delta as usize) as u64 }
}

/// Where the delta of what lies at `p` will be while a strand's pullback runs that touches nothing
/// by it but this: `bytes` bytes from `first` on, a primal address, and as many in steps from there
/// on, in up to three loops, each of so many iterations.
///
/// # Safety
/// As for [`brolga_pending`].
pub unsafe extern "C" fn brolga_pending_within(
    seg: *mut Segment,
    p: u64,
    delta: u64,
    first: u64,
    bytes: u64,
    step0: i64,
    trips0: i64,
    step1: i64,
    trips1: i64,
    step2: i64,
    trips2: i64,
) -> *const usize {
    let loops = [(step0, trips0), (step1, trips1), (step2, trips2)];
    let touched = extent(i128::from(first.wrapping_add(delta)), i128::from(bytes), loops);
    // SAFETY: our contract.
    unsafe { (*seg).pending_within(p as usize, delta as usize, touched) }
}

/// From the lowest byte to after the highest; none if there is no such address.
fn extent(first: i128, bytes: i128, loops: [(i64, i64); 3]) -> Option<Extent> {
    if loops.iter().any(|l| l.1 <= 0) {
        return Some(0..0);
    }
    let (mut from, mut to) = (first, first + bytes);
    for (step, trips) in loops {
        let moved = i128::from(step) * (i128::from(trips) - 1);
        let end = if moved < 0 { &mut from } else { &mut to };
        *end = end.saturating_add(moved);
    }
    Some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
}

/// The same as [`brolga_pending`] for the data object of a number.
///
/// # Safety
/// As for [`brolga_pending`].
pub unsafe extern "C" fn brolga_pending_data(seg: *mut Segment, object: u64, delta: u64) -> u64 {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let at = seg.data_shadow(object as usize).map_or(0, |shadow| shadow.start.wrapping_sub(delta as usize));
    seg.pending_or_note(at, delta as usize) as u64
}

/// What others have added for the `n` bytes of shadow at `p + delta` comes there, before they are
/// read or cleared.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses. The bytes are a shadow's, or its pending
/// sums' of this strand, and no concurrent task adds for them.
pub unsafe extern "C" fn brolga_gather(seg: *mut Segment, p: u64, delta: u64, n: u64) {
    if delta != 0 {
        // SAFETY: our contract.
        unsafe { (*seg).gather(p.wrapping_add(delta) as usize, n as usize) }
    }
}
