//! Choice of a method for a budget in bytes.
//!
//! **Question.** States and tape together may take so many bytes. Which method, with which blocks
//! and how many slots, runs the fewest steps?
//!
//! **Answer.** [`choose`] gives a [`Selection`]. Forecasts are exact and cheap, so all that may be
//! the best are compared: for each length of blocks the slots that are left, which hold the states
//! of all blocks (blocked) or some of them (revolve). Of those that run at most a twentieth more
//! than the fewest steps, the one that takes the fewest bytes is chosen among those whose tape
//! stays in the nearest level of the cache: each byte of the tape is written and read, and of a
//! state once for a block. If files are allowed, two levels compete, with reads and writes counted
//! as steps.
//!
//! Where the number of steps is not known, a third of the bytes is for the tape: that is the
//! longest reach for running each step twice, `K (c + 1)(c + 2) / 2` steps with `K T + c S` bytes.
//! States are placed online, or evenly in files.
//!
//! **Before and after.** 10^6 steps with 480 bytes of state and 4,800 bytes of tape each, within 16
//! MiB: blocks of 54, which take 8.7 MiB. Within 1 MiB: revolve over blocks.
//!
//! **Errors.** A budget that no method fits, with the bytes that would do ([`BudgetError`]).
//!
//! **Cost.** Some hundred forecasts.

use std::fmt;

use crate::action::Reversal;
use crate::forecast::Forecast;
use crate::method::{Method, MethodError};
use crate::schedule::Schedule;
use crate::{blocked, revolve};

/// What a loop takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopSize {
    /// Steps, if their number is known.
    pub steps: Option<u64>,
    /// Bytes of a state.
    pub state: u64,
    /// Bytes that a step leaves on the tape, at most.
    pub tape: u64,
}

/// What a loop may take, beside its own working state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Bytes of memory, for states and the tape.
    pub memory: u64,
    /// Whether states may go to files.
    pub files: Option<FileBudget>,
}

/// What files may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileBudget {
    /// Bytes of all files.
    pub bytes: u64,
    /// How many steps take as long as writing or reading a state.
    pub steps_per_state: u64,
}

/// A method that fits a budget. It explains itself ([`fmt::Display`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The method.
    pub method: Method,
    /// How steps are derived.
    pub reversal: Reversal,
    /// What the loop takes.
    pub size: LoopSize,
    /// What it may take.
    pub budget: Budget,
    /// What a run costs, if the number of steps is known.
    pub forecast: Option<Forecast>,
}

/// A budget that no method fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a budget of {budget} bytes is too small: one state takes {state} bytes and the tape of one step {tape}, \
     so that a loop can be reversed within {least} bytes or more"
)]
pub struct BudgetError {
    /// Bytes that there may be.
    pub budget: u64,
    /// Bytes of a state.
    pub state: u64,
    /// Bytes that a step leaves on the tape.
    pub tape: u64,
    /// Bytes that would do.
    pub least: u64,
}

/// Bytes of a tape that stays in the second level of a processor's cache, beside what steps read,
/// and of one that stays in no level. In between, half as many are as good as nearer.
const CACHED: u128 = 256 << 10;
const NOT_CACHED: u128 = 2 << 20;

/// Slots online: each unit may search all of them, and these reach 132,354 units in two runs.
const MOST_ONLINE: u64 = 512;

/// The method for a budget.
pub fn choose(size: LoopSize, budget: Budget, reversal: Reversal) -> Result<Selection, BudgetError> {
    let LoopSize { state, tape, .. } = size;
    best(size, budget, reversal).ok_or_else(|| {
        let fits = |memory| best(size, Budget { memory, ..budget }, reversal).is_some();
        // A state, and the tape of one step or the state at the turn, always do.
        let (mut low, mut high) = (budget.memory.saturating_add(1), state.saturating_add(tape.max(state)));
        while low < high {
            let middle = low.midpoint(high);
            (low, high) = if fits(middle) { (low, middle) } else { (middle + 1, high) };
        }
        BudgetError { budget: budget.memory, state, tape, least: low }
    })
}

/// The best of what fits.
fn best(size: LoopSize, budget: Budget, reversal: Reversal) -> Option<Selection> {
    let candidates = match size.steps {
        Some(steps) => known(size, steps, budget, reversal),
        None => unknown(size, budget, reversal).into_iter().collect(),
    };
    let choices = candidates.into_iter().filter_map(|method| {
        let forecast = size.steps.and_then(|steps| method.forecast(steps, reversal).ok());
        let choice = Selection { method, reversal, size, budget, forecast };
        // Files are as many as may be: periods are long enough.
        (choice.bytes() <= u128::from(budget.memory)).then_some(choice)
    });
    let choices: Vec<Selection> = choices.collect();
    let fewest = choices.iter().map(Selection::cost).min()?;
    let near = choices.into_iter().filter(|c| c.cost() - fewest <= fewest / 20);
    near.min_by_key(|c| (c.distance(), c.bytes(), c.cost()))
}

/// How many slots are left beside a tape.
struct Room {
    size: LoopSize,
    memory: u64,
    reversal: Reversal,
}

impl Room {
    /// With blocks of so many steps.
    fn slots(&self, block: u64) -> Option<u64> {
        let turn = if self.reversal == Reversal::Joint { self.size.state } else { 0 };
        let rest = self.memory.checked_sub(block.checked_mul(self.size.tape)?.max(turn))?;
        Some(rest.checked_div(self.size.state).unwrap_or(u64::MAX))
    }

    /// The longest block that leaves room for `slots`.
    fn block(&self, slots: u64) -> Option<u64> {
        let rest = self.memory.checked_sub(slots.checked_mul(self.size.state)?)?;
        Some(rest / self.size.tape.max(1)).filter(|block| *block > 0)
    }
}

/// Lengths of blocks that are tried, up to `most`: all short ones, and each a twentieth longer than
/// the one before.
fn lengths(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |k| k.checked_add((k / 20).max(1))).take_while(move |k| *k <= most)
}

/// Methods for a number of steps that is known. Some may not fit.
fn known(size: LoopSize, steps: u64, budget: Budget, reversal: Reversal) -> Vec<Method> {
    let room = Room { size, memory: budget.memory, reversal };
    let mut all = vec![Method::StoreAll];
    // Without any slot the second level alone is left.
    let most = room.block(0).unwrap_or(0).min(steps);
    for block in lengths(most).chain([blocked::block_of_least(steps, size.state, size.tape), most]) {
        let units = steps.div_ceil(block.max(1));
        let Some(slots) = room.slots(block).filter(|_| block > 0) else { continue };
        if slots >= units.saturating_sub(1).max(1) {
            all.push(Method::Blocked { block });
        } else if slots > 0 {
            all.push(Method::Revolve { block, slots });
        }
        if let Some(files) = budget.files {
            // Stretches that are reversed with r repetitions, and the shortest that the files
            // allow.
            let count = files.bytes.checked_div(size.state).unwrap_or(u64::MAX);
            let periods =
                (1..=8).map(|r| u64::try_from(revolve::reach(slots.saturating_add(1), r)).unwrap_or(u64::MAX));
            let shortest = if count > 0 { units.div_ceil(count).max(1) } else { units };
            let periods = periods.chain([shortest]).filter(|p| (shortest..units).contains(p));
            let inner = |period: u64| slots.min(period.saturating_sub(2));
            all.extend(periods.map(|period| Method::TwoLevels { block, period, slots: inner(period) }));
        }
    }
    all
}

/// The method for a number of steps that is not known.
fn unknown(size: LoopSize, budget: Budget, reversal: Reversal) -> Option<Method> {
    let room = Room { size, memory: budget.memory, reversal };
    let third = (budget.memory / 3 / size.tape.max(1)).max(1);
    if budget.files.is_some() {
        let block = third.min(room.block(0)?);
        let slots = room.slots(block)?.min(MOST_ONLINE);
        return Some(Method::TwoLevels { block, period: slots + 2, slots });
    }
    let block = third.min(room.block(1)?);
    // The sweep keeps no state for the turn.
    let slots = (budget.memory - block * size.tape) / size.state.max(1);
    Some(Method::Online { block, slots: slots.clamp(1, MOST_ONLINE) })
}

impl Selection {
    /// The schedule.
    pub fn schedule(&self) -> Result<Schedule, MethodError> {
        Schedule::new(self.method, self.size.steps, self.reversal)
    }

    /// Most bytes in memory.
    pub fn bytes(&self) -> u128 {
        let known = self.forecast.unwrap_or(Forecast {
            forward: 0,
            taped: 0,
            slots: self.method.slots(),
            files: 0,
            has_turn: false,
            block: self.method.block(),
        });
        known.bytes(self.size.state, self.size.tape)
    }

    /// How far away in the cache the tape of a block is: times that it is twice as long as one
    /// that is near.
    fn distance(&self) -> u32 {
        let block = self.forecast.map_or(self.method.block(), |f| f.block);
        let tape = u128::from(block) * u128::from(self.size.tape);
        tape.clamp(CACHED, NOT_CACHED).div_ceil(CACHED).next_power_of_two().ilog2()
    }

    /// Most bytes in files, if the number of steps is known.
    pub fn file_bytes(&self) -> u128 {
        u128::from(self.forecast.map_or(0, |f| f.files)) * u128::from(self.size.state)
    }

    /// Steps, taped or not, with reads and writes of files as steps.
    fn cost(&self) -> u128 {
        let Some(forecast) = self.forecast else { return 0 };
        let repetitions = match self.method {
            Method::TwoLevels { period, slots, .. } => revolve::repetitions(period, slots.saturating_add(1)),
            _ => 0,
        };
        let per_file = u128::from(self.budget.files.map_or(0, |f| f.steps_per_state)) * u128::from(2 + repetitions);
        forecast.forward + u128::from(forecast.taped) + u128::from(forecast.files) * per_file
    }
}

/// Bytes as they are written for readers.
struct ByteCount(u128);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit =
            [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)].into_iter().find(|(_, shift)| self.0 >> shift >= 1);
        match unit {
            Some((unit, shift)) => {
                let tenths = (self.0 * 10) >> shift;
                write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
            }
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LoopSize { state, tape, .. } = self.size;
        writeln!(f, "{}", self.method)?;
        let states = |n: u64| if n == 1 { "1 state".to_owned() } else { format!("{n} states") };
        if let (Some(forecast), Some(steps)) = (self.forecast, self.size.steps) {
            let thousandths = (forecast.forward * 1000).checked_div(u128::from(steps)).unwrap_or(0);
            writeln!(
                f,
                "steps: {steps} taped, {} more without a tape ({}.{:03} a step)",
                forecast.forward,
                thousandths / 1000,
                thousandths % 1000
            )?;
            let slots = states(forecast.slots);
            writeln!(f, "memory: {slots} of {state} bytes, a tape of {} steps of {tape} bytes", forecast.block)?;
            if forecast.files > 0 {
                writeln!(f, "files: {}, {}", states(forecast.files), ByteCount(self.file_bytes()))?;
            }
        } else {
            writeln!(f, "steps: as many as there turn out to be")?;
            if let Method::Online { block, slots } = self.method {
                let reach = |r| revolve::reach(slots, r).saturating_mul(u128::from(block));
                writeln!(f, "reach: {} steps run about once more, {} twice", reach(1), reach(2))?;
            }
            let (slots, block) = (states(self.method.slots()), self.method.block());
            writeln!(f, "memory: {slots} of {state} bytes, a tape of {block} steps of {tape} bytes")?;
        }
        let (most, budget) = (ByteCount(self.bytes()), ByteCount(u128::from(self.budget.memory)));
        if most.0 > budget.0 {
            return write!(f, "at most {most}: what a step is taken to leave on the tape does not fit {budget}");
        }
        write!(f, "at most {most} of {budget}")
    }
}
