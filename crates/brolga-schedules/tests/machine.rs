//! A machine that runs actions on a toy step, and refuses whatever a schedule must not do.
//!
//! The state is a number that a step mixes with its index, so that a state that is not the right
//! one does not go unnoticed. The machine compares each state with a list that was made without any
//! schedule.

use std::collections::BTreeMap;

use brolga_schedules::{Action, Method, Reversal, Schedule, SlotId, Stats, StepId};

/// One step: reversible by nothing but a tape.
fn step(state: u64, index: u64) -> u64 {
    (state ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(23)
}

/// The states before each step, and the one after the loop.
pub(crate) fn states(steps: u64) -> Vec<u64> {
    let mut all = vec![7];
    for i in 0..steps {
        all.push(step(all[i as usize], i));
    }
    all
}

/// The machine's memory.
pub(crate) struct Machine {
    states: Vec<u64>,
    /// The working state, and which it is; nothing after a reversal.
    working: Option<(u64, u64)>,
    slots: BTreeMap<SlotId, (u64, u64)>,
    /// The states on the tape, of steps from this one on.
    tape: Option<(u64, Vec<u64>)>,
    /// Steps that are not reversed.
    end: u64,
    is_past_turn: bool,
    /// The end of the loop is seen at the step after it, not at its last one.
    pub is_late: bool,
    /// Most slots of memory, and of files.
    pub most: [usize; 2],
    /// How often each step has run without a tape.
    pub runs: Vec<u64>,
    pub stats: Stats,
}

impl Machine {
    pub(crate) fn new(steps: u64) -> Self {
        Self {
            states: states(steps),
            working: Some((0, 7)),
            slots: BTreeMap::new(),
            tape: None,
            end: steps,
            is_past_turn: false,
            is_late: false,
            most: [0; 2],
            runs: vec![0; steps as usize],
            stats: Stats::default(),
        }
    }

    fn steps(&self) -> u64 {
        self.runs.len() as u64
    }

    /// Run steps `from..to`, or to the end of the loop; the states before each.
    fn run(&mut self, from: StepId, to: StepId) -> Vec<u64> {
        let (at, mut state) = self.working.expect("a working state");
        assert_eq!(at, from.0, "the working state is that of step {at}");
        assert!(from < to || self.steps() == from.0, "no step to run");
        let end = to.0.min(self.steps());
        let mut before = Vec::new();
        for i in from.0..end {
            before.push(state);
            state = step(state, i);
        }
        assert_eq!(state, self.states[end as usize], "not the state before step {end}");
        self.working = Some((end, state));
        before
    }

    fn reverse(&mut self, from: StepId, to: StepId) {
        let (first, states) = self.tape.as_ref().expect("a tape");
        assert_eq!((*first, first + states.len() as u64), (from.0, to.0.min(self.steps())));
        assert_eq!(to.0.min(self.steps()), self.end, "a step is reversed out of order");
        assert_eq!(states[..], self.states[from.0 as usize..self.end as usize]);
        assert!(self.is_past_turn, "a step is reversed in the forward half");
        (self.end, self.working) = (from.0, None);
    }

    /// Where the loop has ended, if it is seen in the steps before `to`.
    fn end_in(&self, to: StepId) -> Option<StepId> {
        let is_seen = to.0 > self.steps() || to.0 == self.steps() && !self.is_late;
        (is_seen && !self.is_past_turn).then_some(StepId(self.steps()))
    }

    /// Do one action. Where the loop ends, if it is not known to.
    pub(crate) fn act(&mut self, action: Action) -> Option<StepId> {
        let mut end = None;
        if !matches!(action, Action::Reverse { .. } | Action::Turn) {
            self.tape = None;
        }
        match action {
            Action::Advance { from, to } => {
                self.run(from, to);
                let last = to.0.min(self.steps());
                self.runs[from.0 as usize..last as usize].iter_mut().for_each(|n| *n += 1);
                end = self.end_in(to);
            }
            Action::Tape { from, to } => {
                self.tape = Some((from.0, self.run(from, to)));
                end = self.end_in(to);
            }
            Action::Reverse { from, to } => self.reverse(from, to),
            Action::Joint { from, to } => {
                self.tape = Some((from.0, self.run(from, to)));
                self.reverse(from, to);
            }
            Action::Store { slot, step } => {
                let working = self.working.expect("a working state");
                assert_eq!(working.0, step.0);
                assert_eq!(self.slots.insert(slot, working), None, "{slot} is not free");
            }
            Action::Restore { slot, step } => {
                let held = self.slots[&slot];
                assert_eq!(held.0, step.0);
                self.working = Some(held);
            }
            Action::Drop { slot } => assert!(self.slots.remove(&slot).is_some(), "{slot} is free"),
            Action::Turn => {
                assert!(!self.is_past_turn, "a second turn");
                assert_eq!(self.working, Some((self.steps(), self.states[self.states.len() - 1])));
                self.is_past_turn = true;
                // What the program does after the loop.
                self.working = None;
            }
        }
        let files = self.slots.keys().filter(|s| matches!(s, SlotId::Disk(_))).count();
        self.most = [self.most[0].max(self.slots.len() - files), self.most[1].max(files)];
        self.stats.count(action, end);
        end
    }

    /// Slots that hold a state.
    pub(crate) fn live(&self) -> impl Iterator<Item = &SlotId> {
        self.slots.keys()
    }

    /// Steps on the tape, with those that a joint step has put there.
    pub(crate) fn on_tape(&self) -> u64 {
        self.tape.as_ref().map_or(0, |t| t.1.len() as u64)
    }

    /// Reverse all again.
    pub(crate) fn restart(&mut self) {
        assert_eq!(self.end, 0);
        self.end = self.steps();
        self.runs.fill(0);
        self.stats = Stats::default();
    }

    /// Whether everything has been reversed, with so many slots left.
    pub(crate) fn finished(&self, slots: usize) {
        assert!(self.is_past_turn, "no turn");
        assert_eq!(self.end, 0, "steps that were not reversed");
        assert_eq!(self.slots.len(), slots, "slots that were not dropped");
        assert_eq!(self.stats.reversed, u128::from(self.steps()));
        assert_eq!(self.stats.taped, self.stats.reversed);
        assert_eq!(self.stats.forward, self.runs.iter().map(|n| u128::from(*n)).sum::<u128>());
    }
}

/// Run a schedule for a loop of `steps`, of which it knows `told`.
pub(crate) fn run(method: Method, steps: u64, told: Option<u64>, reversal: Reversal) -> Machine {
    let mut schedule = Schedule::new(method, told, reversal).unwrap();
    let mut machine = Machine::new(steps);
    drive(&mut schedule, &mut machine);
    machine.finished(0);
    machine
}

/// Run what is left of a schedule.
pub(crate) fn drive(schedule: &mut Schedule, machine: &mut Machine) {
    while let Some(action) = schedule.next() {
        if let Some(end) = machine.act(action) {
            schedule.end_of_loop(end).unwrap();
        }
    }
}
