//! Time loops: states of a loop of steps, kept in slots, and what a pair of it is to do next.
//!
//! **Question.** A loop of many steps is reversed by running steps again from states that were kept
//! (`time_loop` of `brolga-ir`). Which steps does generated code run now?
//!
//! **Answer.** The forward pass asks `brolga_loop_forward`, the pullback `brolga_loop_next`,
//! which go through a [`Schedule`] and copy states on the way:
//!
//! ```text
//!   forward:   run = begin(seg, cells, shape)           pullback:  run = reverse(seg)
//!              at = from                                           loop  next(seg, run)
//!              loop  to = forward(seg, run, at)                          0: return
//!                    to = at: return                                     1: steps run.from..run.to
//!                    run.taped: forward pass of at..to                   2: gradient of run.from..run.to
//!                    or else:   steps at..to                             3: pullback of run.from..run.to
//! ```
//!
//! Steps that the forward pass records at once ([`crate::loop_tape`]) are the first ones. The
//! schedule is that of the others.
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

use brolga_schedules::{Action, Budget, LoopSize, Method, Reversal, Schedule, SlotId, Stats, StepId, choose};

use crate::loop_tape::{LoopRoom, LoopTape, Stretch};
use crate::state::{ProgramState, StateFault};

/// What is wrong with a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoopFault {
    /// It ends before it begins.
    #[error("a time loop has {0} steps; pass the number of steps, zero or more")]
    Count(i64),
    /// What it works on is no state.
    #[error(transparent)]
    State(#[from] StateFault),
    /// The initial state and the one behind the loop do not fit.
    #[error(
        "the memory budget of {budget} bytes is less than a time loop takes, which keeps two states of {state} bytes; \
         raise `memory_budget`"
    )]
    Budget {
        /// The budget.
        budget: u64,
        /// Bytes of a state.
        state: u64,
    },
    /// Steps that ran again have made another state.
    #[error(
        "the steps up to step {0} of a time loop have made another state when they ran again: a step reads or \
         writes memory outside of the state that has changed since; make that memory part of the state"
    )]
    Differs(u64),
}

/// What the time loops of a run have done, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopStats {
    /// Steps that ran without being recorded, in both halves.
    pub forward: u128,
    /// Steps that were recorded.
    pub taped: u128,
    /// Steps that were reversed.
    pub reversed: u128,
    /// States that were kept.
    pub stores: u64,
    /// States that were put back.
    pub restores: u64,
    /// Most states of one loop at a time.
    pub max_slots: u64,
    /// Most bytes of one loop at a time: states, and what its steps have recorded.
    pub max_bytes: u64,
}

impl LoopStats {
    fn add(&mut self, own: &Stats, bytes: u64) {
        self.forward += own.forward;
        self.taped += own.taped;
        self.reversed += own.reversed;
        self.stores += own.stores;
        self.restores += own.restores;
        self.max_slots = self.max_slots.max(own.max_slots);
        self.max_bytes = self.max_bytes.max(bytes);
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
    fault: Option<LoopFault>,
}

impl Loops {
    pub(crate) fn clear(&mut self) {
        if !self.runs.is_empty() || self.fault.is_some() || self.stats != LoopStats::default() {
            *self = Self { a_step: std::mem::take(&mut self.a_step), ..Self::default() };
        }
    }

    /// A pullback begins; one that ended in a trap may have left loops that were on their way.
    pub(crate) fn begin_pullback(&mut self) {
        self.fault = None;
        if let Some(mark) = self.runs.iter().find_map(|r| r.mark) {
            self.truncate(mark);
        }
        self.runs.iter_mut().for_each(|r| r.abandon());
    }

    /// Forget runs that began later.
    pub(crate) fn truncate(&mut self, len: usize) {
        for run in self.runs.drain(len..) {
            self.stats.add(&run.stats, run.most);
        }
    }

    pub(crate) fn fails(&mut self, fault: LoopFault) {
        self.fault = Some(fault);
    }

    pub(crate) fn fault(&self) -> Option<LoopFault> {
        self.fault
    }

    pub(crate) fn stats(&self) -> LoopStats {
        let mut all = self.stats;
        self.runs.iter().for_each(|r| all.add(&r.stats, r.most));
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
    cells: *const u64,
    /// Generated code says so when a step has ended the loop.
    ended: u64,
    /// Not zero if the forward pass records the steps that are next.
    taped: u64,
    tape: LoopTape,
    ends_early: bool,
    given: Box<[u64]>,
    state: ProgramState,
    budget: usize,
    /// Number of the first step of the schedule, which counts from zero.
    base: i64,
    /// The schedule of all steps that are not on the tape, and of those of a block that is reversed
    /// in parts.
    schedules: Vec<Nested>,
    /// States that are kept.
    live: usize,
    slots: Vec<Option<Box<[u8]>>>,
    spare: Vec<Box<[u8]>>,
    /// What was there when the pullback began.
    found: Option<Box<[u8]>>,
    /// Checksum of the state behind the step that is reversed next.
    expected: u64,
    /// That behind the last step.
    last: u64,
    /// That in front of the block that is being reversed.
    in_front: u64,
    /// Bytes that a step records, at most, as soon as one has been seen.
    pub(crate) a_step: Option<usize>,
    /// Which loop of the program it is: where it began.
    pub(crate) site: usize,
    /// Where the tape ended when a block began, and the highest position before.
    pub(crate) measured: Option<(usize, usize)>,
    /// Where the tape ended when the loop began: the caller's pullback goes on to pop there.
    pub(crate) start: *mut u8,
    /// Where it ends behind the loop: what runs within a block moves the cursor.
    pub(crate) cursor: *mut u8,
    /// How many loops there were when the pullback began.
    pub(crate) mark: Option<usize>,
    reversed_once: bool,
    stats: Stats,
    most: u64,
}

/// A schedule of steps that begin at some number.
struct Nested {
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
    /// The step behind the last one.
    pub const TO: usize = offset_of!(LoopRun, to);
    /// What the forward pass was given.
    pub const CELLS: usize = offset_of!(LoopRun, cells);
    /// Not zero if a step has ended the loop.
    pub const ENDED: usize = offset_of!(LoopRun, ended);
    /// Not zero if steps are recorded.
    pub const TAPED: usize = offset_of!(LoopRun, taped);
}

/// Cells in front of what the forward pass was given: the limits of the steps and the budget. Two
/// for each part of the state follow.
pub const HEAD: usize = 3;

/// Where the tape has no room for the run, in place of a step: none has this number.
pub const NO_ROOM: i64 = i64::MIN + 1;

/// What a step is taken to record, in states, until one has been seen.
const GUESS: u64 = 16;

/// How states are placed, of a loop of so many steps, or of a number that turns out.
fn method(steps: Option<u64>, state: usize, a_step: Option<usize>, budget: usize) -> Method {
    // One state is what the pullback finds.
    let (state, memory) = (state as u64, (budget - state) as u64);
    let size = LoopSize { steps, state, tape: a_step.map_or(GUESS * state, |t| t as u64) };
    // What a step records may be more than there is room for.
    let least = || match steps {
        None => Method::Online { block: 1, slots: memory / state },
        Some(_) => Method::Revolve { block: 1, slots: memory / state },
    };
    let found = choose(size, Budget { memory, files: None }, Reversal::Joint);
    found.map_or_else(|_| least(), |selection| selection.method)
}

impl LoopRun {
    /// A run of what generated code has put into cells.
    pub(crate) fn new(
        given: Box<[u64]>,
        n_parts: usize,
        ends_early: bool,
        (site, a_step): (usize, Option<usize>),
    ) -> Result<Box<Self>, LoopFault> {
        let [from, to, budget] = [0, 1, 2].map(|i| given[i] as i64);
        to.checked_sub(from).filter(|&n| n >= 0).ok_or(LoopFault::Count(to.wrapping_sub(from)))?;
        let state = ProgramState::new(&given[HEAD..HEAD + 2 * n_parts])?;
        let bytes = state.bytes();
        let budget = budget as usize;
        if budget / 2 < bytes {
            return Err(LoopFault::Budget { budget: budget as u64, state: bytes as u64 });
        }
        Ok(Box::new(Self {
            from,
            to: from,
            cells: given.as_ptr(),
            ended: 0,
            taped: 0,
            tape: LoopTape::default(),
            ends_early,
            given,
            state,
            budget,
            base: from,
            schedules: Vec::new(),
            live: 0,
            slots: Vec::new(),
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
            reversed_once: false,
            stats: Stats::default(),
            most: 0,
        }))
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
        let live = self.live + usize::from(self.found.is_some());
        self.most = self.most.max((live * self.state.bytes() + self.tape.bytes() + tape) as u64);
    }

    fn store(&mut self, index: usize, caller: usize) -> Result<(), LoopFault> {
        let copy = self.state.copied(&mut self.spare, caller)?;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(copy);
        self.live += 1;
        self.note_bytes(0);
        Ok(())
    }

    fn drop_slot(&mut self, index: usize) {
        if let Some(slot) = self.slots[index].take() {
            self.spare.push(slot);
            self.live -= 1;
        }
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

    /// Steps to `at` are done: where those end that are to run next, or `at` at the end. The tape
    /// ends at `top`, and has so many bytes left.
    pub(crate) fn forward(
        &mut self,
        at: i64,
        (top, on_tape): (*mut u8, usize),
        caller: usize,
    ) -> Result<i64, LoopFault> {
        if self.schedules.is_empty() {
            self.end_of_stretch(at, top);
            let limit = self.given[1] as i64;
            let steps = limit.wrapping_sub(at) as u64;
            if steps == 0 || self.ended != 0 {
                return Ok(at);
            }
            let (LoopRun { ends_early, a_step, budget, .. }, state) = (&*self, self.state.bytes());
            let (ends_early, a_step, budget) = (*ends_early, *a_step, *budget);
            let wanted = self.tape.wants(&LoopRoom { steps, ends_early, a_step, state, budget, on_tape });
            if wanted > 0 {
                self.taped = 1;
                self.tape.begin(top as usize);
                (self.from, self.to) = (at, at + wanted as i64);
                return Ok(self.to);
            }
            self.schedule(at, steps);
        }
        if self.ended != 0 || self.ends_early && (at - self.base) as u64 == self.limit() {
            self.ends(at);
        }
        while let Some((_, _, action)) = self.next_action() {
            match action {
                Action::Store { slot, .. } => self.store(number(slot), caller)?,
                Action::Drop { slot } => self.drop_slot(number(slot)),
                Action::Advance { from, to } => {
                    let to = StepId(to.0.min(self.limit()));
                    self.hand_out(from.0, to.0);
                    self.stats.count(Action::Advance { from, to }, None);
                    return Ok(self.to);
                }
                Action::Turn => break,
                _ => {}
            }
            self.stats.count(action, None);
        }
        self.last = self.state.checksum(caller);
        Ok(at)
    }

    /// Steps up to `at` have been recorded, if some were to be.
    fn end_of_stretch(&mut self, at: i64, top: *mut u8) {
        let Some(a_step) = self.tape.end(self.from, at, top) else { return };
        self.taped = 0;
        self.a_step = self.a_step.max(Some(a_step));
        self.stats.taped += (at - self.from) as u128;
        self.note_bytes(0);
    }

    /// The steps from `at` on are not recorded.
    fn schedule(&mut self, at: i64, steps: u64) {
        (self.base, self.from, self.to) = (at, at, at);
        self.budget = self.budget.saturating_sub(self.tape.bytes()).max(2 * self.state.bytes());
        let known = (!self.ends_early).then_some(steps);
        let method = method(known, self.state.bytes(), self.a_step, self.budget);
        let schedule = Schedule::new(method, known, Reversal::Joint).expect("all parameters are above zero");
        self.schedules.push(Nested { base: 0, schedule: schedule.reusable(), first_slot: 0 });
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
    pub(crate) fn reverse(&mut self, mark: usize, caller: usize) -> Result<(), LoopFault> {
        self.mark = Some(mark);
        self.tape.reverse();
        if self.schedules.is_empty() {
            return Ok(());
        }
        self.found = Some(self.state.copied(&mut self.spare, caller)?);
        self.expected = self.last;
        if self.reversed_once {
            // Nothing but the initial state is there.
            let n = self.schedules[0].schedule.steps();
            let again = self.schedules[0].schedule.restart();
            if again.is_err() {
                self.start_over(n);
            }
        }
        self.reversed_once = true;
        Ok(())
    }

    /// A pullback that ended in a trap has left its schedule on the way: a new one has the initial
    /// state only.
    fn start_over(&mut self, steps: Option<u64>) {
        let method = match self.schedules[0].schedule.method() {
            Method::Online { block, slots } => Method::Revolve { block, slots },
            other => other,
        };
        let mut schedule = Schedule::new(method, steps, Reversal::Joint).expect("as before").reusable();
        for slot in 1..self.slots.len() {
            self.drop_slot(slot);
        }
        // It is told what is there: a run of it that does nothing comes to its end.
        while schedule.next().is_some() {}
        let again = schedule.restart();
        debug_assert!(again.is_ok(), "{again:?}");
        self.schedules[0].schedule = schedule;
    }

    /// The next steps of the pullback, and the place on the tape to go back from: 1 if they only
    /// run, 2 if they are reversed, 3 if that is done by what is recorded of them, 0 at the end.
    pub(crate) fn next(
        &mut self,
        top: usize,
        (peak, cursor): (&mut usize, &mut *mut u8),
        caller: usize,
    ) -> Result<u64, LoopFault> {
        if let Some((base, before)) = self.measured.take() {
            let recorded = peak.saturating_sub(base);
            *peak = before.max(*peak);
            self.block_is_over(recorded, caller)?;
        }
        while let Some((base, first, action)) = self.next_action() {
            match action {
                Action::Store { slot, .. } => self.store(first + number(slot), caller)?,
                Action::Restore { slot, .. } => {
                    let kept = self.slots[first + number(slot)].as_ref().expect("it holds a state");
                    self.state.put_back(kept, caller);
                }
                Action::Drop { slot } => self.drop_slot(first + number(slot)),
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
                    continue;
                }
                Action::Tape { .. } | Action::Reverse { .. } | Action::Turn => {}
            }
            self.stats.count(action, None);
        }
        if let Some(found) = self.found.take() {
            self.state.put_back(&found, caller);
            self.spare.push(found);
        }
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
        let left = self.budget.saturating_sub((self.live + 1) * self.state.bytes());
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
        self.schedules.push(Nested { base: from, schedule, first_slot });
        true
    }
}

fn number(slot: SlotId) -> usize {
    match slot {
        SlotId::Memory(n) | SlotId::Disk(n) => n as usize,
    }
}
