//! Helpers of time loops: what generated code calls to run a loop of steps forwards, keep its
//! states, and reverse it ([`crate::states::loops`]).
//!
//! **Question.** The schedule of a loop is decided at run time. How does generated code, which has
//! the steps, ask what to do next?
//!
//! **Answer.** By four calls, which hand on to the [`LoopRun`] of the loop:
//!
//! | call | when | answer |
//! |---|---|---|
//! | [`brolga_loop_begin`] | the loop begins | the run, with limits and state |
//! | [`brolga_loop_forward`] | steps are done in the forward half | to go on, or that all is over |
//! | [`brolga_loop_reverse`] | the pullback begins | the run, which the tape holds |
//! | [`brolga_loop_next`] | steps are done in the pullback | to run steps, reverse them, or end |
//!
//! **Errors.** A fault is kept in the segment, and the call answers that there is one.
//!
//! **Safety.** Generated code passes its own segment, a run of it, and as many words as it says.
//! The states may be read, or the call is guarded.
//!
//! **Cost.** A call for each stretch of steps, and the copies of states that the schedule asks for.

use crate::segment::Segment;
use crate::states::loops::{LoopForward, LoopRun};
use crate::traps;

/// What a helper was not able to do.
const FAULT: u64 = 0;
/// [`brolga_loop_next`] has found a fault.
const STOPS: u64 = 4;

traps::leaf! {
    /// A loop begins: `words` are the limits of its steps, the budget, how many values are kept and
    /// how many there are, address, length and kind of each part of the state, and what the
    /// pullback is to find again. `shape` is the number of words, that of parts from bit 16 on, and
    /// bit 32 if a step may end it. Returns the run, or [`FAULT`].
    ///
    /// # Safety
    /// `seg` is a valid segment that no other thread uses, and there are as many words.
    pub(super) fn brolga_loop_begin(seg: *mut Segment, words: *const u64, shape: u64; caller) -> u64 {
        // SAFETY: our contract.
        let (seg, given) = unsafe { (&mut *seg, std::slice::from_raw_parts(words, (shape & 0xffff) as usize)) };
        let known = (caller, seg.loops.a_step.get(&caller).copied());
        let objects = seg.declared.iter().filter_map(|d| Some((d.primal, d.len?)));
        match LoopRun::new(given.into(), (shape >> 16 & 0xffff) as usize, shape >> 32 & 1 != 0, known, objects) {
            Ok(mut run) => {
                run.start = seg.top;
                let at: *mut LoopRun = &mut *run;
                seg.loops.runs.push(run);
                at as u64
            }
            Err(fault) => {
                seg.loops.fails(fault);
                FAULT
            }
        }
    }
}

traps::leaf! {
    /// The forward half has done the steps up to `at`: what there is to do next ([`LoopForward`]),
    /// with the steps that the run says.
    ///
    /// # Safety
    /// As for [`brolga_loop_begin`], of which `run` is a result; the states may be read, or the
    /// call is guarded.
    pub(super) fn brolga_loop_forward(seg: *mut Segment, run: *mut LoopRun, at: i64; caller) -> u64 {
        // SAFETY: our contract.
        let (seg, loop_run) = unsafe { (&mut *seg, &mut *run) };
        let on_tape = seg.limit as usize - seg.top as usize;
        let next = loop_run.forward(at, (seg.top, on_tape), &mut seg.loops.files, caller);
        seg.loops.steps_of(run, loop_run.records_steps() && next == Ok(LoopForward::Steps));
        let next = match next {
            Ok(LoopForward::Over) if on_tape < size_of::<u64>() => LoopForward::NoRoom,
            Ok(LoopForward::Over) => {
                // SAFETY: there is room above the top.
                unsafe { seg.top.cast::<u64>().write_unaligned(run as u64) };
                seg.top = seg.top.wrapping_add(size_of::<u64>());
                seg.loops.note_plan(loop_run.plan());
                LoopForward::Over
            }
            Ok(next) => next,
            Err(fault) => {
                seg.loops.fails(fault);
                LoopForward::Fault
            }
        };
        next as u64
    }
}

traps::leaf! {
    /// The pullback begins: the run that the tape holds, or [`FAULT`].
    ///
    /// # Safety
    /// As for [`brolga_loop_forward`]; the cursor is where that left the top in the end.
    pub(super) fn brolga_loop_reverse(seg: *mut Segment, _a: u64, _b: u64; caller) -> u64 {
        // SAFETY: our contract.
        let seg = unsafe { &mut *seg };
        seg.cursor = seg.cursor.wrapping_sub(size_of::<u64>());
        // SAFETY: a run was pushed there.
        let at = unsafe { seg.cursor.cast::<u64>().read_unaligned() } as *mut LoopRun;
        let mark = seg.loops.runs.len();
        // SAFETY: it is in the list.
        let run = unsafe { &mut *at };
        run.cursor = seg.cursor;
        match run.reverse(mark, &mut seg.loops.files, caller) {
            Ok(()) => at as u64,
            Err(fault) => {
                seg.loops.fails(fault);
                FAULT
            }
        }
    }
}

traps::leaf! {
    /// What the pullback does next with the steps that the run says: 1 to run them, 2 to reverse
    /// them, 3 to do so by what is recorded, 0 if all is done, [`STOPS`] for a fault.
    ///
    /// # Safety
    /// As for [`brolga_loop_forward`].
    pub(super) fn brolga_loop_next(seg: *mut Segment, run: *mut LoopRun, _b: u64; caller) -> u64 {
        // SAFETY: our contract.
        let (seg, run) = unsafe { (&mut *seg, &mut *run) };
        if let (Some(mark), Some(_)) = (run.mark, run.measured) {
            seg.loops.truncate(mark);
            seg.inverses.leave();
        }
        let (top, mut peak) = (seg.top as usize, seg.peak as usize);
        let mut cursor = run.cursor;
        let next = run.next(top, (&mut peak, &mut cursor), &mut seg.loops.files, caller);
        (seg.peak, seg.cursor) = (seg.peak.with_addr(peak), cursor);
        if let (Some(a_step), Ok(0)) = (run.a_step, &next) {
            seg.loops.a_step.insert(run.site, a_step);
        }
        seg.loops.steps_of(run, matches!(next, Ok(2)));
        if let Ok(2) = next {
            seg.inverses.enter();
        }
        next.unwrap_or_else(|fault| {
            seg.loops.fails(fault);
            STOPS
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tape_holds_a_run_or_has_no_room() {
        let mut seg = Segment::new(4096).unwrap();
        let (limit, base) = (seg.limit, seg.top);
        let mut state = [1_u64];
        let words = [0, 3, 16, 0, 0, state.as_mut_ptr() as u64, 8, 0];
        for room in [0, 7, 8] {
            seg.top = limit.wrapping_sub(room);
            // SAFETY: the segment is valid, there are as many words, and the state is there.
            let found = unsafe {
                let seg: *mut Segment = &mut *seg;
                let run = brolga_loop_begin(seg, words.as_ptr(), words.len() as u64 | 1 << 16) as *mut LoopRun;
                let mut at = 0;
                loop {
                    match brolga_loop_forward(seg, run, at) {
                        next if next == LoopForward::Steps as u64 => at = (*run).to(),
                        next => break (next, at),
                    }
                }
            };
            let (next, top) =
                if room < 8 { (LoopForward::NoRoom, limit.wrapping_sub(room)) } else { (LoopForward::Over, limit) };
            assert_eq!((found, seg.top), ((next as u64, 3), top));
        }
        seg.top = base;
    }

    /// `/dev/full` takes nothing.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk() {
        let mut seg = Segment::new(4096).unwrap();
        let mut state = [1_u64];
        let words = [0, 100, 16, 0, 0, state.as_mut_ptr() as u64, 8, 0];
        let begun = |seg: &mut Segment| {
            // SAFETY: as above.
            unsafe {
                let run = brolga_loop_begin(seg, words.as_ptr(), words.len() as u64 | 1 << 16) as *mut LoopRun;
                brolga_loop_forward(seg, run, 0)
            }
        };
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        seg.loops.files.use_file(full);
        assert_eq!(begun(&mut seg), LoopForward::Fault as u64);
        let message = seg.loop_fault().unwrap().to_string();
        assert!(message.contains("cannot be written") && message.contains("name another folder"), "{message}");
        // The next run has nothing to do with it.
        seg.reset();
        seg.keep_states_in(None);
        assert!(begun(&mut seg) == LoopForward::Steps as u64 && seg.loop_fault().is_none());
    }
}
