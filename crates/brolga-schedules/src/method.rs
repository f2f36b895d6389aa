//! Methods of checkpointing, by their parameters.
//!
//! **Question.** Which ways are there to place states, and do their parameters give a schedule?
//!
//! **Answer.** A [`Method`] is one of nine, each of which has a module that explains it. Here is
//! what a schedule asks of all of them: how many steps are taped together, how many slots there
//! are, whether states are placed evenly, or in files. Parameters are looked at before a schedule
//! is made ([`MethodError`]).
//!
//! **Cost.** A few instructions.

use std::fmt;

use crate::revolve;

/// How states are placed. `block` is how many steps are taped together. Slots are in memory and
/// hold one state each.
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
        /// Units from one state to the next.
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
        /// Units from one file to the next.
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

/// Parameters that give no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
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

    /// Units from one state to the next, if the method places them evenly.
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
    pub(crate) fn check(self, steps: Option<u64>) -> Result<(), MethodError> {
        let least = |what, is, least| if is < least { Err(MethodError::TooFew { what, is, least }) } else { Ok(()) };
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
        if steps.is_none() && needs_steps { Err(MethodError::UnknownSteps(self.name())) } else { Ok(()) }
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
                write!(f, ", blocks of {block}, a state every {period} blocks, {slots} slots between")
            }
            Self::TwoLevels { block, period, slots } => {
                write!(f, ", blocks of {block}, a file every {period} blocks, {slots} slots between")
            }
            Self::Bennett { block, parts, uncompute } => {
                let which = if uncompute { "all" } else { "inner" };
                write!(f, ", blocks of {block}, {parts} parts, {which} states erased")
            }
        }
    }
}
