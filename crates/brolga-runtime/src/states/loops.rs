//! Time loops: states of a loop of steps, kept in slots, and what a pair of it is to do next.
//!
//! **Question.** A loop of many steps is reversed by running steps again from states that were kept
//! (`time_loop` of `brolga-ir`). Which steps does generated code run now?
//!
//! **Answer.** The forward pass asks `brolga_loop_forward`, the pullback `brolga_loop_next`,
//! which go through a [`Schedule`] and copy states on the way:
//!
//! ```text
//!   forward:   run = begin(seg, words, shape)             pullback:  run = reverse(seg)
//!              at = from                                             loop  next(seg, run)
//!              loop  forward(seg, run, at)                                 0: return
//!                    0: return                                             1: steps run.from..run.to
//!                    1, run.taped: forward pass of run.from..run.to        2: gradient of run.from..run.to
//!                       or else:   steps run.from..run.to                  3: pullback of run.from..run.to
//!                    at = run.to
//! ```
//!
//! Steps that the forward pass records at once ([`crate::states::loop_tape`]) are the first ones.
//! The schedule is that of the others.
//!
//! **Memory.** Slots are the run's own, up to the budget; what a block of steps records lies on the
//! tape, and is measured, so that a block that is too long for what the slots leave is reversed in
//! parts. A pullback that is called again begins with the initial state, whose slot is never given
//! away. Runs that began within a block are over when the block is.
//!
//! **Invariant.** A pullback leaves the states as it found them. Wherever steps have run again up
//! to a state that is known, what they have made is compared with it: steps that do not give the
//! same twice are an error ([`LoopFault::Differs`]), not a wrong gradient.
//!
//! **Cost.** A copy of the state for each store and restore, a checksum for each block.

use std::collections::HashMap;
use std::sync::Arc;

use brolga_schedules::{Action, LoopSize, Method, Reversal, Schedule, Selection, SlotError, SlotId, Stats, StepId};

use crate::states::StateFault;
use crate::states::loop_files::{LoopFiles, StateFolder, select};
use crate::states::loop_state::LoopState;
use crate::states::loop_stats::{LoopPlan, LoopStats};
use crate::states::loop_tape::{LoopRoom, LoopTape, Stretch};

pub use crate::states::loop_state::part;

/// What is wrong with a loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoopFault {
    /// It ends before it begins.
    #[error("a time loop has {0} steps; pass the number of steps, zero or more")]
    Count(i64),
    /// What it works on is no state.
    #[error(transparent)]
    State(#[from] StateFault),
    /// The initial state and the one after the loop do not fit.
    #[error(
        "the memory budget of {budget} bytes is less than a time loop takes, which keeps two states of {state} bytes; \
         raise `memory_budget` (`--memory-budget`)"
    )]
    Budget {
        /// The budget.
        budget: u64,
        /// Bytes of a state.
        state: u64,
    },
    /// A loop has not ended when it should.
    #[error("internal: a loop of {expected} steps has ended before step {found}")]
    Miscounted {
        /// How many steps it has.
        expected: i64,
        /// Before which step it ended, or went on.
        found: i64,
    },
    /// Steps that ran again have made another state.
    #[error(
        "the steps up to step {0} of a time loop have made another state when they ran again: a step reads or \
         writes memory outside of the state that has changed since; make that memory part of the state"
    )]
    Differs(u64),
    /// A step has written outside of its states: a check of a debug run.
    #[error(
        "a step of a time loop writes to byte {offset} of a buffer of the caller's, which is outside of the loop's \
         states; make it part of a state, or let the step have memory of its own"
    )]
    Footprint {
        /// Where in the buffer.
        offset: i64,
    },
    /// A file for states has failed.
    #[error("a time loop keeps states in a file (`checkpoint_dir`): {0}")]
    Files(Box<str>),
}

impl From<SlotError> for LoopFault {
    fn from(error: SlotError) -> Self {
        Self::Files(error.to_string().into())
    }
}

/// The loops of a segment's run.
#[derive(Default)]
pub(crate) struct Loops {
    // Generated code holds their addresses.
    #[expect(clippy::vec_box, reason = "a run stays where it is when others begin")]
    pub(crate) runs: Vec<Box<LoopRun>>,
    /// Of runs that are gone.
    stats: LoopStats,
    /// What a step of a loop records, by where the loop begins.
    pub(crate) a_step: HashMap<usize, usize>,
    /// States in a file.
    pub(crate) files: LoopFiles,
    /// Runs whose steps are being recorded, the outermost first.
    stepping: Vec<*const LoopRun>,
    plans: Vec<LoopPlan>,
    fault: Option<LoopFault>,
}

impl Loops {
    pub(crate) fn clear(&mut self) {
        if !self.runs.is_empty() || self.fault.is_some() || self.stats != LoopStats::default() {
            let (a_step, files) = (std::mem::take(&mut self.a_step), self.files.renewed());
            *self = Self { a_step, files, ..Self::default() };
        }
    }

    /// A pullback begins; one that ended in a trap may have left loops that were on their way.
    pub(crate) fn begin_pullback(&mut self) {
        self.fault = None;
        self.stepping.clear();
        if let Some(mark) = self.runs.iter().find_map(|r| r.mark) {
            self.truncate(mark);
        }
        self.runs.iter_mut().for_each(|r| r.abandon());
    }

    /// Forget runs that began later.
    pub(crate) fn truncate(&mut self, len: usize) {
        for mut run in self.runs.drain(len..) {
            run.leave_files(&mut self.files);
            self.stats.add(&run.stats, run.most);
        }
    }

    pub(crate) fn fails(&mut self, fault: LoopFault) {
        self.fault = Some(fault);
    }

    /// A loop of a task has.
    pub(crate) fn fails_as(&mut self, of_task: &Self) {
        self.fault = of_task.fault.clone().or_else(|| self.fault.take());
    }

    pub(crate) fn fault(&self) -> Option<LoopFault> {
        self.fault.clone()
    }

    /// What is recorded next are steps of this run, or of those around it.
    pub(crate) fn steps_of(&mut self, run: *const LoopRun, are_recorded: bool) {
        let around = self.stepping.iter().position(|r| *r == run).unwrap_or(self.stepping.len());
        self.stepping.truncate(around);
        self.stepping.extend(are_recorded.then_some(run));
    }

    /// Whether bytes are in the states of all runs whose steps are being recorded.
    pub(crate) fn may_write(&self, at: u64, n: u64) -> bool {
        // SAFETY: a run whose steps are being recorded is in the list.
        self.stepping.iter().all(|run| unsafe { &**run }.state.holds(at as usize, n as usize))
    }

    /// States may be kept in this folder.
    pub(crate) fn keep_in(&mut self, folder: Option<Arc<StateFolder>>) {
        self.files = LoopFiles::new(folder);
    }

    /// The forward pass of a run is over.
    pub(crate) fn note_plan(&mut self, plan: LoopPlan) {
        match self.plans.iter_mut().find(|p| p.site == plan.site) {
            Some(known) => *known = LoopPlan { runs: known.runs + 1, ..plan },
            None => self.plans.push(plan),
        }
    }

    pub(crate) fn plans(&self) -> &[LoopPlan] {
        &self.plans
    }

    pub(crate) fn stats(&self) -> LoopStats {
        let mut all = self.stats;
        self.runs.iter().for_each(|r| all.add(&r.stats, r.most));
        all.disk_bytes = self.files.most_bytes();
        all
    }
}

/// One run of a loop. Generated code reads the first fields.
#[repr(C)]
pub struct LoopRun {
    /// Steps to be done next.
    from: i64,
    to: i64,
    /// What the forward pass was given.
    words: *const u64,
    /// Generated code says so when a step has ended the loop.
    ended: u64,
    /// Not zero if the forward pass records the steps that are next.
    taped: u64,
    /// What the next step is given, and what there is after the loop.
    values: *mut u128,
    /// Cotangents of the same.
    cotangents: *mut u128,
    tape: LoopTape,
    ends_early: bool,
    given: Box<[u64]>,
    state: LoopState,
    /// What `cotangents` points at.
    cotangent_cells: Box<[u128]>,
    budget: usize,
    /// Number of the first step of the schedule, which counts from zero.
    base: i64,
    /// The schedule of all steps that are not on the tape, and of those of a block that is reversed
    /// in parts.
    schedules: Vec<InnerSchedule>,
    /// States that are kept.
    live: usize,
    /// Bytes of them.
    held: usize,
    slots: Vec<Option<Box<[u8]>>>,
    /// Where in the file others are.
    on_disk: Vec<Option<u32>>,
    selection: Option<Selection>,
    spare: Vec<Box<[u8]>>,
    /// What was there when the pullback began.
    found: Option<Box<[u8]>>,
    /// Checksum of the state after the step that is reversed next.
    expected: u64,
    /// That after the last step.
    last: u64,
    /// That before the block that is being reversed.
    in_front: u64,
    /// Bytes that a step records, at most, as soon as one has been seen.
    pub(crate) a_step: Option<usize>,
    /// Which loop of the program it is: where it began.
    pub(crate) site: usize,
    /// Where the tape ended when a block began, and the highest position before.
    pub(crate) measured: Option<(usize, usize)>,
    /// Where the tape ended when the loop began: the caller's pullback goes on to pop there.
    pub(crate) start: *mut u8,
    /// Where it ends after the loop: what runs within a block moves the cursor.
    pub(crate) cursor: *mut u8,
    /// How many loops there were when the pullback began.
    pub(crate) mark: Option<usize>,
    was_reversed: bool,
    stats: Stats,
    most: u64,
}

/// A schedule of steps that begin at some number.
struct InnerSchedule {
    base: u64,
    schedule: Schedule,
    /// Of which slot the first one is.
    first_slot: usize,
}

/// Offsets in a run that generated code uses.
pub mod offset {
    use std::mem::offset_of;

    use super::LoopRun;

    /// The first step.
    pub const FROM: usize = offset_of!(LoopRun, from);
    /// The step after the last one.
    pub const TO: usize = offset_of!(LoopRun, to);
    /// What the forward pass was given.
    pub const WORDS: usize = offset_of!(LoopRun, words);
    /// Not zero if a step has ended the loop.
    pub const ENDED: usize = offset_of!(LoopRun, ended);
    /// Not zero if steps are recorded.
    pub const TAPED: usize = offset_of!(LoopRun, taped);
    /// What steps hand on.
    pub const VALUES: usize = offset_of!(LoopRun, values);
    /// Cotangents of that.
    pub const COTANGENTS: usize = offset_of!(LoopRun, cotangents);
}

/// Words before what the forward pass was given: the limits of the steps, the budget, how many
/// values are kept with a state, and how many there are. Those of the state's parts follow.
pub const HEAD: usize = 5;

/// Words of a part of the state: address, length, and what it is ([`part`]).
pub const PART: usize = 3;

/// Bytes of a value.
pub const VALUE_BYTES: usize = size_of::<u128>();

/// What the forward pass is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i64)]
pub enum LoopForward {
    /// The loop is over, and the tape holds the run.
    Over,
    /// Steps are to be done.
    Steps,
    /// The tape has no room for the run.
    NoRoom,
    /// There is a fault.
    Fault,
}

/// What a step is taken to record, in states, until one has been seen.
const GUESS: u64 = 16;

impl LoopRun {
    /// A run of what generated code has put into words.
    pub(crate) fn new(
        given: Box<[u64]>,
        n_parts: usize,
        ends_early: bool,
        (site, a_step): (usize, Option<usize>),
        objects: impl Iterator<Item = (u64, u64)> + Clone,
    ) -> Result<Box<Self>, LoopFault> {
        let [from, to, budget, stored_values, values] = [0, 1, 2, 3, 4].map(|i| given[i] as i64);
        to.checked_sub(from).filter(|&n| n >= 0).ok_or(LoopFault::Count(to.wrapping_sub(from)))?;
        let mut state =
            LoopState::new(&given[HEAD..HEAD + PART * n_parts], (stored_values as usize, values as usize), objects)?;
        let mut cotangent_cells = vec![0; values as usize].into_boxed_slice();
        let (budget, bytes) = (budget as usize, state.bytes());
        if state.is_known() && !state.is_paged() && budget / 2 < bytes {
            return Err(LoopFault::Budget { budget: budget as u64, state: bytes as u64 });
        }
        let (values, cotangents) = (state.values.as_mut_ptr(), cotangent_cells.as_mut_ptr());
        Ok(Box::new(Self {
            from,
            to: from,
            words: given.as_ptr(),
            ended: 0,
            taped: 0,
            values,
            cotangents,
            tape: LoopTape::default(),
            ends_early,
            given,
            state,
            cotangent_cells,
            held: 0,
            budget,
            base: from,
            schedules: Vec::new(),
            live: 0,
            slots: Vec::new(),
            on_disk: Vec::new(),
            selection: None,
            spare: Vec::new(),
            found: None,
            expected: 0,
            last: 0,
            in_front: 0,
            a_step,
            site,
            measured: None,
            start: std::ptr::null_mut(),
            cursor: std::ptr::null_mut(),
            mark: None,
            was_reversed: false,
            stats: Stats::default(),
            most: 0,
        }))
    }

    /// The step after those that are to be done next.
    #[cfg(test)]
    pub(crate) fn to(&self) -> i64 {
        self.to
    }

    /// The pullback did not come to its end.
    fn abandon(&mut self) {
        self.mark = None;
        self.schedules.truncate(1);
        self.measured = None;
        self.found = None;
    }

    /// The number of the last step that a loop may have.
    fn limit(&self) -> u64 {
        (self.given[1] as i64).wrapping_sub(self.base) as u64
    }

    fn note_bytes(&mut self, tape: usize) {
        // A state on its way to the file, or from there, is in memory.
        let on_its_way = if self.on_disk.is_empty() { 0 } else { self.state.bytes() };
        self.most = self.most.max((self.bytes_held() + on_its_way + self.tape.bytes() + tape) as u64);
    }

    /// Bytes of states.
    fn bytes_held(&self) -> usize {
        self.held + self.found.as_ref().map_or(0, |f| f.len()) + self.state.image_bytes()
    }

    /// Do what an action of a schedule, whose slots in memory begin at `first`, says of states.
    fn act(&mut self, base: u64, first: usize, action: Action, files: &mut LoopFiles, caller: usize) -> LoopResult {
        let number = |slot: SlotId| match slot {
            SlotId::Memory(n) => first + n as usize,
            SlotId::Disk(n) => n as usize,
        };
        let step = |step: StepId| self.base.wrapping_add_unsigned(base + step.0) as u64;
        match action {
            Action::Store { slot: slot @ SlotId::Disk(_), step: at } => {
                let copy = self.state.copied(&mut self.spare, caller)?;
                let place = files.store(step(at), &copy);
                self.spare.push(copy);
                put(&mut self.on_disk, number(slot), place?);
            }
            Action::Store { slot, .. } => {
                let copy = self.state.copied(&mut self.spare, caller)?;
                self.held += copy.len();
                put(&mut self.slots, number(slot), copy);
                self.live += 1;
            }
            Action::Restore { slot: slot @ SlotId::Disk(_), step: at } => {
                let place = self.on_disk[number(slot)].expect("it holds a state");
                let mut copy = self.state.copied(&mut self.spare, caller)?;
                let read = files.restore(place, step(at), &mut copy);
                if read.is_ok() {
                    self.state.put_back(&copy, caller);
                }
                self.spare.push(copy);
                read?;
            }
            Action::Restore { slot, .. } => {
                let state = self.slots[number(slot)].as_ref().expect("it holds a state");
                self.state.put_back(state, caller);
            }
            Action::Drop { slot: slot @ SlotId::Disk(_) } => self.drop_file(number(slot), files),
            Action::Drop { slot } => self.drop_slot(number(slot)),
            _ => {}
        }
        self.note_bytes(0);
        self.stats.count(action, None);
        Ok(())
    }

    fn drop_slot(&mut self, index: usize) {
        if let Some(slot) = self.slots[index].take() {
            self.held -= slot.len();
            self.spare.push(slot);
            self.live -= 1;
        }
    }

    fn drop_file(&mut self, index: usize, files: &mut LoopFiles) {
        if let Some(place) = self.on_disk[index].take() {
            files.drop_slot(place);
        }
    }

    /// The run is gone.
    fn leave_files(&mut self, files: &mut LoopFiles) {
        (0..self.on_disk.len()).for_each(|i| self.drop_file(i, files));
    }

    /// Whether the steps that are next are recorded, by the forward pass.
    pub(crate) fn records_steps(&self) -> bool {
        self.taped != 0
    }

    /// How it is reversed, when its forward pass is over.
    pub(crate) fn plan(&self) -> LoopPlan {
        let recorded = u64::try_from(self.stats.taped).unwrap_or(u64::MAX);
        LoopPlan { site: self.site, runs: 1, recorded, selection: self.selection }
    }

    /// What the innermost schedule has next; that of a block that is over goes.
    fn next_action(&mut self) -> Option<(u64, usize, Action)> {
        loop {
            let nested = self.schedules.last_mut()?;
            if let Some(action) = nested.schedule.next() {
                return Some((nested.base, nested.first_slot, action));
            }
            if self.schedules.len() == 1 {
                return None;
            }
            self.schedules.pop();
        }
    }

    /// Steps to `at` are done: what there is to do next. The tape ends at `top`, and has so many
    /// bytes left.
    pub(crate) fn forward(
        &mut self,
        at: i64,
        (top, on_tape): (*mut u8, usize),
        files: &mut LoopFiles,
        caller: usize,
    ) -> Result<LoopForward, LoopFault> {
        let limit = self.given[1] as i64;
        if !self.ends_early && self.ended != 0 && at != limit {
            return Err(LoopFault::Miscounted { expected: limit, found: at });
        }
        if self.schedules.is_empty() {
            self.end_of_stretch(at, top);
            let steps = limit.wrapping_sub(at) as u64;
            if steps == 0 || self.ended != 0 {
                return Ok(LoopForward::Over);
            }
            let (LoopRun { ends_early, a_step, budget, .. }, state) = (&*self, self.state.least_bytes());
            let (ends_early, a_step) = (*ends_early, *a_step);
            let budget = self.state.is_known().then_some(*budget);
            let wanted = self.tape.wants(&LoopRoom { steps, ends_early, a_step, state, budget, on_tape });
            if wanted > 0 {
                self.taped = 1;
                self.tape.begin(top as usize);
                (self.from, self.to) = (at, at + wanted as i64);
                return Ok(LoopForward::Steps);
            }
            self.base = at;
            self.state.begin();
            self.schedule(steps, files)?;
        }
        if self.ends_early && (self.ended != 0 || (at - self.base) as u64 == self.limit()) {
            self.ends(at);
        }
        while let Some((base, first, action)) = self.next_action() {
            match action {
                Action::Advance { from, to } => {
                    let to = StepId(to.0.min(self.limit()));
                    self.hand_out(from.0, to.0);
                    self.stats.count(Action::Advance { from, to }, None);
                    return Ok(LoopForward::Steps);
                }
                Action::Turn if self.has_grown() => self.restart_forward(files, caller)?,
                Action::Turn => break,
                action => {
                    self.act(base, first, action, files, caller)?;
                    if matches!(action, Action::Store { .. }) && self.exceeds() {
                        self.restart_forward(files, caller)?;
                    }
                }
            }
        }
        self.last = self.state.checksum(caller);
        Ok(LoopForward::Over)
    }

    /// Whether states have turned out to be longer than was thought, so that they do not fit.
    fn exceeds(&self) -> bool {
        self.state.is_paged()
            && self.live > 1
            && self.bytes_held() + self.state.bytes() + self.tape.bytes() > self.budget
    }

    /// Whether states are so much longer at the end of the loop than was thought that those which
    /// the pullback keeps would not fit.
    fn has_grown(&mut self) -> bool {
        if !self.state.is_paged() {
            return false;
        }
        self.state.count_pages();
        let (state, image) = (self.state.bytes() as u64, self.state.image_bytes());
        self.selection.is_some_and(|s| {
            let as_they_are = Selection { size: LoopSize { state, ..s.size }, ..s };
            let beside = (self.tape.bytes() + image) as u64 + state;
            state > s.size.state && as_they_are.bytes() + u128::from(beside) > self.budget as u128
        })
    }

    /// Go back to the first state that was kept, with a schedule for states as long as they are.
    fn restart_forward(&mut self, files: &LoopFiles, caller: usize) -> Result<(), LoopFault> {
        let first = self.slots[0].take().expect("it is kept from the beginning");
        self.state.put_back(&first, caller);
        self.ended = 0;
        (self.slots, self.spare, self.live, self.held) = (Vec::new(), Vec::new(), 0, 0);
        self.schedules.clear();
        self.schedule(self.limit(), files)
    }

    /// Steps up to `at` have been recorded, if some were to be.
    fn end_of_stretch(&mut self, at: i64, top: *mut u8) {
        let Some(a_step) = self.tape.end(self.from, at, top) else { return };
        self.taped = 0;
        self.a_step = self.a_step.max(Some(a_step));
        self.stats.taped += (at - self.from) as u128;
        self.note_bytes(0);
    }

    /// Steps from the base on, so many at most, are not recorded.
    fn schedule(&mut self, steps: u64, files: &LoopFiles) -> Result<(), LoopFault> {
        debug_assert!(self.state.is_known(), "steps that are not recorded run again from states");
        (self.from, self.to) = (self.base, self.base);
        let (state, image, is_paged) = (self.state.bytes(), self.state.image_bytes(), self.state.is_paged());
        let left = self.budget.saturating_sub(self.tape.bytes() + image);
        let budget = if is_paged { left } else { left.max(2 * state) };
        if budget / 2 < state {
            return Err(LoopFault::Budget { budget: self.budget as u64, state: (state + image / 2) as u64 });
        }
        let known = (!self.ends_early).then_some(steps);
        let tape = self.a_step.map_or(GUESS * state as u64, |t| t as u64);
        let size = LoopSize { steps: known, state: state as u64, tape };
        // States of pages differ in length.
        let of_files = if is_paged { None } else { files.budget(size.state, tape) };
        let selection = select(size, budget as u64, of_files);
        let schedule = selection.schedule().expect("all parameters are above zero");
        self.selection = Some(selection);
        self.schedules.push(InnerSchedule { base: 0, schedule: schedule.reusable(), first_slot: 0 });
        Ok(())
    }

    /// The loop ends before this step.
    fn ends(&mut self, at: i64) {
        self.stats.forward -= (self.to - at) as u128;
        self.to = at;
        let end = StepId((at - self.base) as u64);
        let told = self.schedules[0].schedule.end_of_loop(end);
        debug_assert!(told.is_ok(), "{told:?}");
    }

    /// The pullback begins.
    pub(crate) fn reverse(&mut self, mark: usize, files: &mut LoopFiles, caller: usize) -> Result<(), LoopFault> {
        self.mark = Some(mark);
        self.tape.reverse();
        if self.schedules.is_empty() {
            return Ok(());
        }
        self.found = Some(self.state.copied(&mut self.spare, caller)?);
        self.expected = self.last;
        if self.was_reversed {
            // Nothing but the initial state is there.
            let n = self.schedules[0].schedule.steps();
            let restarted = self.schedules[0].schedule.restart();
            if restarted.is_err() {
                self.start_over(n, files);
            }
        }
        self.was_reversed = true;
        Ok(())
    }

    /// A pullback that ended in a trap has left its schedule on the way: a new one has the initial
    /// state only.
    fn start_over(&mut self, steps: Option<u64>, files: &mut LoopFiles) {
        let method = match self.schedules[0].schedule.method() {
            Method::Online { block, slots } => Method::Revolve { block, slots },
            other => other,
        };
        let mut schedule = Schedule::new(method, steps, Reversal::Joint).expect("as before").reusable();
        // The initial one is the first in the file, or in memory if there is none.
        (usize::from(self.on_disk.is_empty())..self.slots.len()).for_each(|slot| self.drop_slot(slot));
        (1..self.on_disk.len()).for_each(|slot| self.drop_file(slot, files));
        // It is told what is there: a run of it that does nothing comes to its end.
        while schedule.next().is_some() {}
        let restarted = schedule.restart();
        debug_assert!(restarted.is_ok(), "{restarted:?}");
        self.schedules[0].schedule = schedule;
    }

    /// The next steps of the pullback, and the place on the tape to go back from: 1 if they only
    /// run, 2 if they are reversed, 3 if that is done by what is recorded of them, 0 at the end.
    pub(crate) fn next(
        &mut self,
        top: usize,
        (peak, cursor): (&mut usize, &mut *mut u8),
        files: &mut LoopFiles,
        caller: usize,
    ) -> Result<u64, LoopFault> {
        let next = self.next_or_fault(top, peak, cursor, files, caller);
        if next.is_err() {
            self.put_found_back(caller);
        }
        next
    }

    fn next_or_fault(
        &mut self,
        top: usize,
        peak: &mut usize,
        cursor: &mut *mut u8,
        files: &mut LoopFiles,
        caller: usize,
    ) -> Result<u64, LoopFault> {
        if let Some((base, before)) = self.measured.take() {
            let recorded = peak.saturating_sub(base);
            *peak = before.max(*peak);
            self.block_is_over(recorded, caller)?;
        }
        while let Some((base, first, action)) = self.next_action() {
            match action {
                Action::Advance { from, to } => {
                    self.stats.count(action, None);
                    self.hand_out(base + from.0, base + to.0);
                    return Ok(1);
                }
                Action::Joint { from, to } => {
                    let (from, to) = (base + from.0, base + to.0);
                    if !self.goes_in_parts(from, to) {
                        self.stats.count(action, None);
                        self.hand_out(from, to);
                        self.in_front = self.state.checksum(caller);
                        self.measured = Some((top, *peak));
                        *peak = top;
                        return Ok(2);
                    }
                }
                action => self.act(base, first, action, files, caller)?,
            }
        }
        self.put_found_back(caller);
        if let Some(Stretch { from, to, top }) = self.tape.back() {
            (self.from, self.to) = (from, to);
            self.stats.reversed += (to - from) as u128;
            *cursor = top;
            return Ok(3);
        }
        *cursor = self.start;
        self.mark = None;
        self.spare.clear();
        Ok(0)
    }

    /// Leave the state as the pullback has found it.
    fn put_found_back(&mut self, caller: usize) {
        if let Some(found) = self.found.take() {
            self.state.put_back(&found, caller);
            self.spare.push(found);
        }
    }

    fn hand_out(&mut self, from: u64, to: u64) {
        (self.from, self.to) = (self.base + from as i64, self.base + to as i64);
    }

    /// A block has been reversed, which recorded so many bytes.
    fn block_is_over(&mut self, recorded: usize, caller: usize) -> Result<(), LoopFault> {
        let steps = (self.to - self.from).max(1) as usize;
        self.a_step = self.a_step.max(Some(recorded.div_ceil(steps)));
        self.note_bytes(recorded);
        if self.state.checksum(caller) != self.expected {
            return Err(LoopFault::Differs(self.to as u64));
        }
        self.expected = self.in_front;
        Ok(())
    }

    /// Whether a block is too long for what the slots leave; then it gets a schedule of its own.
    fn goes_in_parts(&mut self, from: u64, to: u64) -> bool {
        let left = self.budget.saturating_sub(self.tape.bytes() + self.bytes_held() + self.state.bytes());
        let n = to - from;
        let fits = self.a_step.is_some_and(|a_step| n.saturating_mul(a_step as u64) <= left as u64);
        if fits || n == 1 {
            return false;
        }
        let method = match self.a_step {
            // The last step says what the others record.
            None => Method::Revolve { block: n - 1, slots: 1 },
            // Half of what is left for states, half for what is recorded.
            Some(a_step) => {
                let slots = (left / 2 / self.state.bytes()).max(1) as u64;
                Method::Revolve { block: ((left / 2 / a_step.max(1)) as u64).clamp(1, n - 1), slots }
            }
        };
        let schedule = Schedule::new(method, Some(n), Reversal::Joint).expect("all are above zero");
        // Its forward half runs as a part of the reverse half of this loop.
        let first_slot = self.slots.len();
        self.schedules.push(InnerSchedule { base: from, schedule, first_slot });
        true
    }
}

type LoopResult = Result<(), LoopFault>;

/// Put something into a slot.
fn put<T>(slots: &mut Vec<Option<T>>, index: usize, what: T) {
    if slots.len() <= index {
        slots.resize_with(index + 1, || None);
    }
    slots[index] = Some(what);
}
