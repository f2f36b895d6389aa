//! Schedule as a state machine: one action after the other.
//!
//! **Question.** What does a run do next?
//!
//! **Answer.** A [`Schedule`] gives out actions. The *sweep* of the forward half places states as
//! the method says ([`crate::method`]). The reverse half looks at the last state that is kept. If
//! it is that of the unit to be reversed next, the unit is reversed, otherwise the stretch in
//! between is split and the state in the middle kept, as long as there are slots. So one machine
//! reverses what any method has placed. Bennett's method has a machine of its own.
//!
//! A *unit* is a block of steps that are taped together. The machine counts in units, the actions
//! say steps, and only the last unit may be shorter. It is never run without a tape where the
//! number of steps is known and forward half and pullback are a pair: it is taped by the sweep.
//! With joint steps the sweep has to run it, and keeps the state before it in a slot of its own, if
//! no other is free. There is room: no tape is there yet.
//!
//! **Errors.** An end of the loop that is told at another time than it can be, and a schedule that
//! is to be run again before it is over ([`Misuse`]).
//!
//! **Cost.** A few instructions for each action, and for the online method a search through the
//! kept states.

use std::collections::VecDeque;

use crate::action::{Action, Reversal, SlotId, StepId};
use crate::bennett::Tasks;
use crate::method::{Method, MethodError};
use crate::online::{self, SlotAction};
use crate::units::{HeldState, Numbers, Units};
use crate::{revolve, treeverse};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// States are placed.
    Sweep,
    /// The loop is at its end.
    Swept,
    /// The last unit has been taped.
    Taped,
    Reverse,
    Done,
}

/// What a run does, action by action ([`Iterator`]).
///
/// The forward half is over with [`Action::Turn`], the reverse half where the iterator ends. If the
/// loop decides when it ends, the run says so ([`Schedule::end_of_loop`]).
#[derive(Debug)]
pub struct Schedule {
    method: Method,
    reversal: Reversal,
    units: Units,
    held: Vec<HeldState>,
    /// Of which unit the working state is.
    at: Option<u64>,
    /// Units that are not reversed.
    end: u64,
    /// On which level the working state is, while states are placed online.
    level: u64,
    /// The working state is kept before anything else.
    keeps_next: bool,
    /// How many of [`Schedule::held`] take one of the slots that stretches are reversed with.
    inner: u64,
    phase: Phase,
    queue: VecDeque<Action>,
    numbers: Numbers,
    files: Numbers,
    /// Of Bennett's method, which has a machine of its own.
    tasks: Option<Tasks>,
    keeps_initial: bool,
    is_first: bool,
    /// Steps that the forward half runs just now.
    running: Option<(StepId, StepId)>,
}

impl Schedule {
    /// A schedule for a loop of so many steps, or of a number that turns out.
    pub fn new(method: Method, steps: Option<u64>, reversal: Reversal) -> Result<Self, MethodError> {
        method.check(steps)?;
        let block = if method == Method::StoreAll { steps.unwrap_or(u64::MAX) } else { method.block() };
        let units = Units { steps: steps.unwrap_or(u64::MAX), is_known: steps.is_some(), block: block.max(1) };
        let tasks = match method {
            Method::Bennett { parts, uncompute, .. } => Some(Tasks::new(units, reversal, parts, uncompute)),
            _ => None,
        };
        Ok(Self {
            method,
            reversal,
            units,
            held: Vec::new(),
            at: Some(0),
            end: 0,
            level: 0,
            keeps_next: false,
            inner: 0,
            phase: Phase::Sweep,
            queue: VecDeque::new(),
            numbers: Numbers::default(),
            files: Numbers::default(),
            tasks,
            keeps_initial: false,
            is_first: true,
            running: None,
        })
    }

    /// Keep the initial state, so that all may be reversed once more ([`Schedule::restart`]).
    pub fn reusable(mut self) -> Self {
        self.keeps_initial = true;
        self
    }

    /// How the steps are to be derived.
    pub fn reversal(&self) -> Reversal {
        self.reversal
    }

    /// The method, as it was given.
    pub fn method(&self) -> Method {
        self.method
    }

    /// How many steps the loop has, if that is known by now.
    pub fn steps(&self) -> Option<u64> {
        self.units.is_known.then_some(self.units.steps)
    }

    /// The loop has ended before this step, in the [`Action::Advance`] or [`Action::Tape`] that was
    /// given out last, and which has run no step from this one on. Loops whose number of steps is
    /// known may end early, too: what is kept then is used as well as it can be.
    pub fn end_of_loop(&mut self, step: StepId) -> Result<(), Misuse> {
        let (from, to) = match self.running.take() {
            Some(running) => running,
            None if self.phase == Phase::Sweep && self.held.is_empty() => (StepId(0), StepId(0)),
            None => return Err(Misuse::NotRunning(step)),
        };
        if step < from || step > to {
            return Err(Misuse::OutOfRange { step, from, to });
        }
        if self.tasks.is_some() {
            return if self.steps() == Some(step.0) { Ok(()) } else { Err(Misuse::TooEarly(step)) };
        }
        self.units = Units { steps: step.0, is_known: true, ..self.units };
        self.keeps_next = false;
        let units = self.units.count();
        while let Some(last) = self.held.pop_if(|h| h.unit >= units) {
            self.drop_slot(last);
        }
        if self.phase != Phase::Taped || step == from {
            self.phase = Phase::Swept;
        }
        Ok(())
    }

    /// Reverse all steps once more, after the iterator has ended. Nothing but the initial state is
    /// kept from the time before, and the tape where all steps were taped at once.
    pub fn restart(&mut self) -> Result<(), Misuse> {
        if self.phase != Phase::Done || !self.queue.is_empty() || !self.keeps_initial {
            return Err(Misuse::Restart);
        }
        self.is_first = false;
        let units = self.units.count();
        if units == 0 {
            return Ok(());
        }
        if let Some(tasks) = &mut self.tasks {
            tasks.restart();
            self.phase = Phase::Reverse;
            return Ok(());
        }
        if self.held.is_empty() {
            // The tape is still there.
            self.queue.push_back(Action::Reverse { from: StepId(0), to: StepId(self.units.steps) });
            return Ok(());
        }
        if let Some(initial) = self.held.first_mut() {
            initial.level = self.method.first_level(units);
        }
        (self.at, self.phase) = (None, Phase::Sweep);
        Ok(())
    }

    /// Plan on until there is an action.
    fn refill(&mut self) {
        while self.queue.is_empty() {
            if let (Some(tasks), Phase::Sweep | Phase::Reverse) = (&mut self.tasks, self.phase) {
                if !tasks.refill(&mut self.queue, self.keeps_initial) {
                    self.phase = Phase::Done;
                } else if self.queue.back() == Some(&Action::Turn) {
                    self.phase = Phase::Reverse;
                }
                continue;
            }
            match self.phase {
                Phase::Done => return,
                Phase::Sweep => self.sweep(),
                Phase::Swept => {
                    self.queue.push_back(Action::Turn);
                    self.turn();
                }
                Phase::Taped => {
                    let unit = self.units.count() - 1;
                    self.queue.push_back(Action::Turn);
                    self.turn();
                    // It is taped already.
                    self.queue.extend(self.units.taken_back(unit, Reversal::Split).skip(1));
                    self.retire(unit);
                }
                Phase::Reverse => self.reverse(),
            }
        }
    }

    fn turn(&mut self) {
        (self.at, self.end, self.phase) = (None, self.units.count(), Phase::Reverse);
    }

    /// The forward half, up to the next stretch of steps that are run.
    fn sweep(&mut self) {
        let units = self.units.count();
        if units == 0 {
            self.phase = Phase::Swept;
            return;
        }
        let tapes_all = self.method == Method::StoreAll && self.reversal == Reversal::Split;
        if self.held.is_empty() && !tapes_all {
            self.keep_initial();
        }
        let at = self.arrive();
        if at == units {
            self.phase = Phase::Swept;
            return;
        }
        match self.method {
            Method::Online { slots, .. } if self.is_first => self.place_online(at, slots),
            _ => {
                let period = self.method.period().unwrap_or(u64::MAX);
                let is_last = self.units.is_known && at + 1 == units;
                if at.is_multiple_of(period) && self.last_held() != Some(at) && !is_last {
                    self.keep(at, false);
                }
                if self.units.is_known && units - at <= period {
                    self.approach(at, units);
                } else {
                    self.advance(at, at.saturating_add(period));
                }
            }
        }
    }

    /// One move towards the last unit of all, or what is done with it.
    fn approach(&mut self, at: u64, units: u64) {
        if at + 1 < units {
            self.halve(at, units);
            return;
        }
        let (from, to) = (self.units.step(at), self.units.step(units));
        if !self.is_first {
            (self.end, self.phase) = (units, Phase::Reverse);
        } else if self.reversal == Reversal::Split {
            self.queue.push_back(Action::Tape { from, to });
            self.phase = Phase::Taped;
        } else {
            if self.last_held() != Some(at) {
                self.keep(at, true);
            }
            self.advance(at, units);
        }
    }

    /// The state that has been reached is kept, or another one goes for it.
    fn place_online(&mut self, at: u64, slots: u64) {
        let next = if self.last_held() == Some(at) {
            SlotAction::Not(0)
        } else {
            online::keep(self.held.iter().map(|h| h.level), self.level, slots)
        };
        let level = match next {
            SlotAction::Not(level) => level,
            SlotAction::InPlaceOf(_) | SlotAction::Free => {
                if let SlotAction::InPlaceOf(i) = next {
                    let old = self.held.remove(i);
                    self.drop_slot(old);
                }
                self.keep(at, true);
                if let Some(last) = self.held.last_mut() {
                    last.level = self.level;
                }
                0
            }
        };
        self.level = level;
        self.advance(at, at + 1);
    }

    /// The reverse half: one unit, or the way to it.
    fn reverse(&mut self) {
        if self.end == 0 {
            return self.finish();
        }
        let at = self.arrive();
        if at + 1 < self.end {
            self.halve(at, self.end);
        } else {
            // The tape may need the room.
            if let Some(last) = self.held.pop_if(|h| h.unit == at && at > 0) {
                self.drop_slot(last);
            }
            self.queue.extend(self.units.taken_back(at, self.reversal));
            self.retire(at);
        }
    }

    /// Go from `at` to where the stretch up to `end` is split, and keep the state there unless its
    /// unit is the next to be reversed.
    fn halve(&mut self, at: u64, end: u64) {
        if std::mem::take(&mut self.keeps_next) {
            self.keep(at, true);
        }
        let free = self.method.slots().saturating_sub(self.inner);
        let left = self.held.last().map_or(0, |h| h.level);
        let middle = match self.method {
            Method::Treeverse { .. } => treeverse::split(at, end, free + 1, left),
            _ => revolve::split(at, end, free),
        };
        self.advance(at, middle);
        self.keeps_next = middle + 1 < end;
    }

    /// A unit has been reversed.
    fn retire(&mut self, unit: u64) {
        (self.end, self.at) = (unit, None);
        // Of treeverse: what is left in front has a repetition less.
        if let Some(last) = self.held.last_mut() {
            last.level = last.level.saturating_sub(1);
        }
    }

    fn finish(&mut self) {
        self.phase = Phase::Done;
        if !self.keeps_initial {
            while let Some(last) = self.held.pop() {
                self.drop_slot(last);
            }
        }
    }

    /// The unit of the working state: what is kept last, if there is none.
    fn arrive(&mut self) -> u64 {
        if let Some(at) = self.at {
            return at;
        }
        let last = self.held.last().copied();
        if let Some(HeldState { slot, unit, .. }) = last {
            self.queue.push_back(Action::Restore { slot, step: self.units.step(unit) });
            self.at = Some(unit);
        }
        self.at.unwrap_or(0)
    }

    fn advance(&mut self, from: u64, to: u64) {
        self.queue.push_back(Action::Advance { from: self.units.step(from), to: self.units.step(to) });
        self.at = Some(to.min(self.units.count()));
    }

    fn last_held(&self) -> Option<u64> {
        self.held.last().map(|h| h.unit)
    }

    /// The working state is the initial one, and is kept.
    fn keep_initial(&mut self) {
        let is_inner = self.method.period().is_none();
        self.keep(0, is_inner);
        if let Some(initial) = self.held.first_mut() {
            initial.level = self.method.first_level(self.units.count());
        }
    }

    /// Keep the working state, which is that of `unit`.
    fn keep(&mut self, unit: u64, is_inner: bool) {
        let slot = if !is_inner && self.method.uses_files() {
            SlotId::Disk(self.files.take())
        } else {
            SlotId::Memory(self.numbers.take())
        };
        self.queue.push_back(Action::Store { slot, step: self.units.step(unit) });
        let level = self.held.last().map_or(0, |h| h.level);
        self.inner += u64::from(is_inner);
        self.held.push(HeldState { slot, unit, level, is_inner });
    }

    fn drop_slot(&mut self, held: HeldState) {
        self.queue.push_back(Action::Drop { slot: held.slot });
        match held.slot {
            SlotId::Memory(_) => self.numbers.give_back(held.slot),
            SlotId::Disk(_) => self.files.give_back(held.slot),
        }
        self.inner -= u64::from(held.is_inner);
    }
}

impl Iterator for Schedule {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        self.refill();
        let action = self.queue.pop_front()?;
        let is_forward = self.is_first && matches!(self.phase, Phase::Sweep | Phase::Taped);
        self.running = match action {
            Action::Advance { from, to } | Action::Tape { from, to } if is_forward => Some((from, to)),
            _ => None,
        };
        Some(action)
    }
}

/// A call that does not fit what the schedule is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// The end of the loop was told at another time.
    #[error("the loop is said to end before step {0}, but no step of the forward half is running")]
    NotRunning(StepId),
    /// The end of the loop is not in the steps that were to be run.
    #[error("the loop is said to end before step {step}, but steps {from}..{to} were to be run")]
    OutOfRange {
        /// What was told.
        step: StepId,
        /// The first step of those.
        from: StepId,
        /// The step after them.
        to: StepId,
    },
    /// Bennett's schedule has placed its states for another number of steps.
    #[error("the loop ends before step {0}, which Bennett's schedule does not allow for")]
    TooEarly(StepId),
    /// The reverse half is not over, or the initial state was not kept.
    #[error("only a reusable schedule that has come to its end can reverse the loop again")]
    Restart,
}
