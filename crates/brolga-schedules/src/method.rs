//! The methods by their parameters, and what each costs before it runs.

use std::fmt;

use crate::schedule::Reversal;
use crate::stats::Stats;
use crate::{blocked, periodic, revolve, two_levels};

/// How states are placed. `block` is how many steps are taped together. Slots are in memory and hold
/// one state each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One tape of all steps: [`crate::store_all`].
    StoreAll,
    /// No state but the initial one: [`crate::recompute_all`].
    RecomputeAll {
        /// Steps taped together.
        block: u64,
    },
    /// A state before each block: [`crate::blocked`].
    Blocked {
        /// Steps taped together.
        block: u64,
    },
    /// A state every so many blocks, and revolve in between: [`crate::periodic`].
    Periodic {
        /// Steps taped together.
        block: u64,
        /// Blocks from one state to the next.
        period: u64,
        /// Slots for states in between.
        slots: u64,
    },
    /// The fewest steps, if their number is known: [`crate::revolve`].
    Revolve {
        /// Steps taped together.
        block: u64,
        /// Slots, that of the initial state among them.
        slots: u64,
    },
    /// The recursion that revolve came from: [`crate::treeverse`].
    Treeverse {
        /// Steps taped together.
        block: u64,
        /// Slots, that of the initial state among them.
        slots: u64,
    },
    /// For a number of steps that turns out: [`crate::online`].
    Online {
        /// Steps taped together.
        block: u64,
        /// Slots, that of the initial state among them.
        slots: u64,
    },
    /// A state every so many blocks in a file, and revolve in memory in between:
    /// [`crate::two_levels`].
    TwoLevels {
        /// Steps taped together.
        block: u64,
        /// Blocks from one file to the next.
        period: u64,
        /// Slots in memory.
        slots: u64,
    },
    /// No state goes before it has been computed again: [`crate::bennett`].
    Bennett {
        /// Steps taped together.
        block: u64,
        /// Into how many parts a stretch is cut.
        parts: u64,
        /// Whether states between the outermost parts go, too.
        uncompute: bool,
    },
}

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
}

/// Parameters that give no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A count that is zero, or too small.
    #[error("{what} is {is}, and has to be at least {least}")]
    TooFew {
        /// Of what.
        what: &'static str,
        /// How many there are.
        is: u64,
        /// How many there have to be.
        least: u64,
    },
    /// The method needs the number of steps.
    #[error("{0} needs the number of steps: choose online, blocked, periodic or two levels")]
    UnknownSteps(&'static str),
}

impl Method {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::StoreAll => "store all",
            Self::RecomputeAll { .. } => "recompute all",
            Self::Blocked { .. } => "blocked",
            Self::Periodic { .. } => "periodic",
            Self::Revolve { .. } => "revolve",
            Self::Treeverse { .. } => "treeverse",
            Self::Online { .. } => "online",
            Self::TwoLevels { .. } => "two levels",
            Self::Bennett { .. } => "Bennett",
        }
    }

    /// Steps taped together; of [`Method::StoreAll`] all that there are.
    pub fn block(self) -> u64 {
        match self {
            Self::StoreAll => u64::MAX,
            Self::RecomputeAll { block }
            | Self::Blocked { block }
            | Self::Periodic { block, .. }
            | Self::Revolve { block, .. }
            | Self::Treeverse { block, .. }
            | Self::Online { block, .. }
            | Self::TwoLevels { block, .. }
            | Self::Bennett { block, .. } => block,
        }
    }

    /// Slots that stretches are reversed with.
    pub(crate) fn slots(self) -> u64 {
        match self {
            Self::Revolve { slots, .. }
            | Self::Treeverse { slots, .. }
            | Self::Online { slots, .. }
            | Self::Periodic { slots, .. }
            | Self::TwoLevels { slots, .. } => slots,
            Self::StoreAll | Self::RecomputeAll { .. } => 1,
            Self::Blocked { .. } | Self::Bennett { .. } => 0,
        }
    }

    /// Blocks from one state to the next, if the method places them evenly.
    pub(crate) fn period(self) -> Option<u64> {
        match self {
            Self::Blocked { .. } => Some(1),
            Self::Periodic { period, .. } | Self::TwoLevels { period, .. } => Some(period),
            _ => None,
        }
    }

    /// Whether what is placed evenly goes to files.
    pub(crate) fn uses_files(self) -> bool {
        matches!(self, Self::TwoLevels { .. })
    }

    /// The level of the initial state.
    pub(crate) fn first_level(self, units: u64) -> u64 {
        match self {
            Self::Treeverse { slots, .. } => revolve::repetitions(units, slots),
            _ => u64::MAX,
        }
    }

    /// Whether the parameters give a schedule.
    pub(crate) fn check(self, steps: Option<u64>) -> Result<(), Unfit> {
        let least = |what, is, least| if is < least { Err(Unfit::TooFew { what, is, least }) } else { Ok(()) };
        least("the length of a block", self.block(), 1)?;
        match self {
            Self::Revolve { slots, .. } | Self::Treeverse { slots, .. } | Self::Online { slots, .. } => {
                least("the number of slots", slots, 1)?;
            }
            Self::Periodic { period, .. } | Self::TwoLevels { period, .. } => least("the period", period, 1)?,
            Self::Bennett { parts, .. } => least("the number of parts", parts, 2)?,
            Self::StoreAll | Self::RecomputeAll { .. } | Self::Blocked { .. } => {}
        }
        let needs_steps = matches!(
            self,
            Self::RecomputeAll { .. } | Self::Revolve { .. } | Self::Treeverse { .. } | Self::Bennett { .. }
        );
        if steps.is_none() && needs_steps { Err(Unfit::UnknownSteps(self.name())) } else { Ok(()) }
    }

    /// What a loop of so many steps costs. Of the online method, treeverse and Bennett's the counts
    /// come from the actions themselves, of the others from closed forms.
    pub fn forecast(self, steps: u64, reversal: Reversal) -> Result<Forecast, Unfit> {
        self.check(Some(steps))?;
        let block = self.block().min(steps.max(1));
        let units = steps.div_ceil(block);
        let revolve =
            |units, slots: u64| (revolve::untaped(units, slots), slots.min(units.saturating_sub(1).max(1)), 0);
        let (untaped, slots, files) = match self {
            Self::Online { .. } | Self::Treeverse { .. } | Self::Bennett { .. } => {
                return Stats::of(self, steps, reversal).map(|s| s.forecast(block.max(1)));
            }
            _ if units == 0 => (0, 0, 0),
            Self::StoreAll => (0, u64::from(reversal == Reversal::Joint), 0),
            Self::RecomputeAll { .. } => revolve(units, 1),
            Self::Blocked { .. } => (blocked::untaped(units), (units - 1).max(1), 0),
            Self::Periodic { period, slots, .. } => {
                let (outer, inner) = periodic::kept(units, period, slots);
                (periodic::untaped(units, period, slots), outer + inner, 0)
            }
            Self::TwoLevels { period, slots, .. } => {
                let (files, slots) = periodic::kept(units, period, slots);
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

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match *self {
            Self::StoreAll => Ok(()),
            Self::RecomputeAll { block } | Self::Blocked { block } => write!(f, ", blocks of {block}"),
            Self::Revolve { block, slots } | Self::Treeverse { block, slots } | Self::Online { block, slots } => {
                write!(f, ", blocks of {block}, {slots} slots")
            }
            Self::Periodic { block, period, slots } => {
                write!(f, ", blocks of {block}, a state every {period}, {slots} slots between")
            }
            Self::TwoLevels { block, period, slots } => {
                write!(f, ", blocks of {block}, a file every {period}, {slots} slots between")
            }
            Self::Bennett { block, parts, uncompute } => {
                let which = if uncompute { "all" } else { "inner" };
                write!(f, ", blocks of {block}, {parts} parts, {which} states erased")
            }
        }
    }
}
