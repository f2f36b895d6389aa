//! Drivers: functions whose derived pair is not made of their body.
//!
//! **Question.** Which functions have pairs of another making, and what has to be known of each to
//! make it?
//!
//! **Answer.** A driver has an ordinary body, which is what it computes: it is what the primal
//! runs, what analyses and oracles see, what forward mode and a second derivation derive. Only its
//! forward pass and its pullback are a *template*, which calls derivatives of other functions in an
//! order of its own. A [`Driver`] says which template, and what parameters mean to it: of steps of
//! a loop a [`StepsDriver`], of a call that is undone an [`InverseDriver`], and for the memory that
//! both change [`StatePart`]s.
//!
//! **Invariant.** Numbers in [`part`], [`inverse`] and [`run`] are those of the run time; tests
//! compare them.
//!
//! **Cost.** None at run time of the description itself; what each template costs is with what it
//! stands for ([`crate::time_loop`], [`crate::inverse_pair`], [`crate::fork`]).

use crate::FuncKey;
use crate::options::InverseCheck;

/// What the derived pair of a function is a template of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// A call: the body calls this function with its own parameters and returns what that returns.
    /// The pair calls the function's pair, and is what is derived of the body, bit for bit.
    Call(FuncKey),
    /// Steps of a loop ([`crate::time_loop`]): the pair keeps states of the loop, and the pullback
    /// runs the steps between them again.
    Steps(StepsDriver),
    /// A call that an inverse undoes ([`crate::inverse_pair`]): the pair calls the function and
    /// records nothing, and the pullback undoes the call and runs it again, or undoes it with
    /// cotangents.
    Inverse(InverseDriver),
    /// Tasks that may run at the same time ([`crate::fork`]): the body calls the function of this
    /// symbol with its own parameters, but for the last one, which is how many tasks there are, and
    /// for the function the number of the task.
    Tasks(Box<str>),
}

impl Driver {
    /// Whether the run time has to be told of the caller's objects: of those that a state is, or
    /// that tasks may share.
    pub fn keeps_objects(&self) -> bool {
        match self {
            Self::Steps(of) => of.state.iter().any(|part| part.length == StateLength::Object),
            Self::Tasks(_) => true,
            Self::Call(_) | Self::Inverse(_) => false,
        }
    }
}

/// What the parameters of a function mean whose body calls what changes a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InverseDriver {
    /// The state, which is changed.
    pub state: Vec<StatePart>,
    /// The function that undoes the call, with the same parameters: its symbol.
    pub undo: Box<str>,
    /// A function that undoes the call and carries cotangents back beside the values: its symbol.
    /// Its parameters are those of the function, and then the shadow of each, null where there is
    /// none.
    pub adjoint: Option<Box<str>>,
    /// What is checked of it, if the program says so.
    pub check: Option<InverseCheck>,
}

/// What the parameters of a function mean that does the steps of a loop from one to another. It
/// returns what the step that comes next is given ([`carried`](Self::carried)), whatever else is
/// asked for after the loop, and at last two numbers: that of the next step, and whether the loop
/// has ended before it (not zero). Where steps carry nothing, and none of them ends the loop, it
/// may return nothing at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepsDriver {
    /// The memory that steps change.
    pub state: Vec<StatePart>,
    /// What is handed on from step to step: of each of the first results, the parameter by which
    /// the next step is given it.
    pub carried: Vec<usize>,
    /// Whether the limits say how many steps there are. If not, a step may end the loop before.
    pub counted: bool,
    /// Most bytes that the loop takes, if not those of
    /// [`Options::memory_budget`](crate::Options::memory_budget).
    pub budget: Option<u64>,
    /// The parameter that is the number of the first step, of 64 bits.
    pub from: usize,
    /// The parameter that is the number of the step after the last one, of 64 bits.
    pub to: usize,
    /// The function that the body calls with its own parameters, and whose derivatives are those
    /// of some steps: its symbol.
    pub steps: Box<str>,
}

/// A part of a state: where it begins, and how long it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePart {
    /// Parameters whose sum is its address. Those of 32 bits have no sign.
    pub address: Vec<usize>,
    /// Bytes from there.
    pub offset: i64,
    /// How many bytes it has.
    pub length: StateLength,
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateLength {
    /// This parameter, which has a sign.
    Param(usize),
    /// As many elements as this parameter says, which has a sign.
    Elements {
        /// The parameter.
        count: usize,
        /// Bytes of an element.
        bytes: u32,
    },
    /// This many.
    Bytes(u32),
    /// This many, of which steps change few: a state has the pages that differ from those in front
    /// of the loop.
    Pages(u32),
    /// The same, and how many it are is stored so many bytes after the first one, and may grow.
    PagesUpTo(i64),
    /// The object that the address lies in: memory of an argument, whose length the caller of a run
    /// declares. Without that, all steps are recorded.
    Object,
}

impl StateLength {
    /// The parameter that says how long it is.
    pub fn param(self) -> Option<usize> {
        match self {
            Self::Param(count) | Self::Elements { count, .. } => Some(count),
            Self::Bytes(_) | Self::Pages(_) | Self::PagesUpTo(_) | Self::Object => None,
        }
    }

    /// The number of bytes, where parameters have these values; nothing if it is not a matter of
    /// parameters. Less than none is none.
    pub fn of(self, value: impl Fn(usize) -> i64) -> Option<u64> {
        let count = |i| u64::try_from(value(i)).unwrap_or(0);
        match self {
            Self::Param(i) => Some(count(i)),
            Self::Elements { count: i, bytes } => Some(count(i).saturating_mul(bytes.into())),
            Self::Bytes(n) | Self::Pages(n) => Some(n.into()),
            Self::PagesUpTo(_) | Self::Object => None,
        }
    }

    /// How the run time is told what the length stands for (`brolga_runtime::states::loops::part`).
    pub fn kind(self) -> u64 {
        match self {
            Self::Param(_) | Self::Elements { .. } | Self::Bytes(_) => part::BYTES,
            Self::Pages(_) => part::PAGES,
            Self::PagesUpTo(_) => part::PAGES_UP_TO,
            Self::Object => part::OBJECT,
        }
    }
}

/// What a part of a state is to the run time; a test compares the two.
pub mod part {
    /// Bytes, all of which are kept.
    pub const BYTES: u64 = 0;
    /// Pages.
    pub const PAGES: u64 = 1;
    /// Pages, and in place of a length the address where it is stored.
    pub const PAGES_UP_TO: u64 = 2;
    /// The object around an address.
    pub const OBJECT: u64 = 3;
}

/// What generated code tells the run time of a call that is undone
/// (`brolga_runtime::calls::inverses::code`); a test compares the two.
pub mod inverse {
    /// A call begins.
    pub const BEGIN: u64 = 0;
    /// It has run.
    pub const END: u64 = 1;
    /// It has been undone at once.
    pub const COMPARE: u64 = 2;
    /// A pullback begins.
    pub const UNDO: u64 = 3;
    /// The call has been undone.
    pub const REDO: u64 = 4;
    /// The gradient has run.
    pub const DONE: u64 = 5;
    /// From this bit on: how many parts the state has.
    pub const PARTS: u64 = 8;
    /// From this bit on: what is checked. Nothing; within a tolerance; bit by bit; or so with what
    /// differs on record.
    pub const CHECK: u64 = 32;
    /// What is checked if floats may differ. Then there is a word more for each part: how many
    /// bytes a float has there, or zero if there are both.
    pub const WITHIN: u64 = 4;
    /// What is checked if all bits count.
    pub const BITS: u64 = 1;
    /// The same, where what differs is recorded.
    pub const RECORD: u64 = 2;
}

/// What generated code relies on of a run of steps, which the run time keeps
/// (`brolga_runtime::states::loops`); a test compares the two.
pub mod run {
    /// The first of the steps that are to be done next.
    pub const FROM: i32 = 0;
    /// The step after the last of them.
    pub const TO: i32 = 8;
    /// The words that the forward pass has filled.
    pub const WORDS: i32 = 16;
    /// Not zero if a step has ended the loop.
    pub const ENDED: i32 = 24;
    /// Not zero if the steps that are next are recorded.
    pub const TAPED: i32 = 32;
    /// What the next step is given, and what else there is after the loop.
    pub const VALUES: i32 = 40;
    /// Cotangents of the same.
    pub const COTANGENTS: i32 = 48;
    /// Bytes of one of those.
    pub const VALUE_BYTES: i32 = 16;
    /// What `brolga_loop_forward` returns: the loop is over; steps are to be done; the tape has no
    /// room for the run. Anything else is a fault.
    pub const OVER: i64 = 0;
    /// See [`OVER`].
    pub const STEPS: i64 = 1;
    /// See [`OVER`].
    pub const NO_ROOM: i64 = 2;
    /// Words before those of the state: the limits of the steps, the budget, how many values
    /// the next step is given, and how many there are in all.
    pub const HEAD: usize = 5;
    /// Words of each part of a state: address, length, and what it is ([`super::part`]).
    pub const PART: usize = 3;
}
