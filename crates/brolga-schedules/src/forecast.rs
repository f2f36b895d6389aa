//! Forecast: what a method costs, before it runs.
//!
//! **Question.** How many steps does a method run for a loop of so many, with how many states and
//! bytes?
//!
//! **Answer.** [`Method::forecast`]. Of the online method, treeverse and Bennett's the counts come
//! from the actions themselves, of the others from closed forms. [`Forecast::bytes`] says what that
//! takes in memory.
//!
//! **Cost.** A closed form takes some multiplications. The three others take all actions of a
//! schedule, without a loop.

use crate::action::{Action, Reversal, StepId};
use crate::method::{Method, MethodError};
use crate::schedule::Schedule;
use crate::stats::Stats;
use crate::{blocked, periodic, revolve, two_levels};

/// What a run costs that goes to the end: one forward half, one reverse half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Steps without a tape, in both halves: exact.
    pub forward: u128,
    /// Steps with a tape, which are the steps reversed.
    pub taped: u64,
    /// States in memory at a time, at most, while there is a tape.
    pub slots: u64,
    /// States in files at a time, at most.
    pub files: u64,
    /// Whether a slot more is taken at the end of the forward half, until the reverse half begins.
    /// No tape is there at that time.
    pub has_turn: bool,
    /// Steps on the tape at a time.
    pub block: u64,
}

impl Forecast {
    /// Most bytes in memory, for states of so many bytes and steps that leave so many on the tape.
    pub fn bytes(self, state: u64, tape: u64) -> u128 {
        let [slots, block, state, tape] = [self.slots, self.block, state, tape].map(u128::from);
        slots * state + (block * tape).max(if self.has_turn { state } else { 0 })
    }

    fn new(stats: &Stats, block: u64) -> Self {
        let has_turn = stats.max_slots == stats.max_slots_taped + 1;
        Self {
            forward: stats.forward,
            taped: u64::try_from(stats.taped).unwrap_or(u64::MAX),
            slots: if has_turn { stats.max_slots_taped } else { stats.max_slots },
            files: stats.max_files,
            has_turn,
            block,
        }
    }
}

impl Method {
    /// What a loop of so many steps costs. Of the online method, treeverse and Bennett's the counts
    /// come from the actions themselves, of the others from closed forms.
    pub fn forecast(self, steps: u64, reversal: Reversal) -> Result<Forecast, MethodError> {
        self.check(Some(steps))?;
        let block = self.block().min(steps);
        let units = steps.div_ceil(block.max(1));
        let revolve =
            |units, slots: u64| (revolve::untaped(units, slots), slots.min(units.saturating_sub(1).max(1)), 0);
        let (untaped, slots, files) = match self {
            Self::Online { .. } | Self::Treeverse { .. } | Self::Bennett { .. } => {
                return counted(self, steps, reversal).map(|stats| Forecast::new(&stats, block));
            }
            _ if units == 0 => (0, 0, 0),
            Self::StoreAll => (0, u64::from(reversal == Reversal::Joint), 0),
            Self::RecomputeAll { .. } => revolve(units, 1),
            Self::Blocked { .. } => (blocked::untaped(units), (units - 1).max(1), 0),
            Self::Periodic { period, slots, .. } => {
                let (outer, inner) = periodic::most_states(units, period, slots);
                (periodic::untaped(units, period, slots), outer + inner, 0)
            }
            Self::TwoLevels { period, slots, .. } => {
                let (files, slots) = periodic::most_states(units, period, slots);
                (two_levels::untaped(units, period, slots), slots, files)
            }
            Self::Revolve { slots, .. } => revolve(units, slots),
        };
        // The sweep of joint steps runs the last block, too.
        let last = steps - units.saturating_sub(1) * block;
        let more = if reversal == Reversal::Joint { last } else { 0 };
        Ok(Forecast {
            forward: u128::from(block) * untaped + u128::from(more),
            taped: steps,
            slots,
            files,
            has_turn: reversal == Reversal::Joint && units > 1,
            block,
        })
    }
}

/// The counts of a schedule's actions for a loop of so many steps.
fn counted(method: Method, steps: u64, reversal: Reversal) -> Result<Stats, MethodError> {
    let known = (!matches!(method, Method::Online { .. })).then_some(steps);
    let mut schedule = Schedule::new(method, known, reversal)?;
    let mut stats = Stats::default();
    while let Some(action) = schedule.next() {
        let end = match action {
            Action::Advance { to, .. } if schedule.steps().is_none() && to.0 >= steps => Some(StepId(steps)),
            _ => None,
        };
        if let Some(end) = end {
            let told = schedule.end_of_loop(end);
            debug_assert!(told.is_ok(), "{told:?}");
        }
        stats.count(action, end);
    }
    Ok(stats)
}
