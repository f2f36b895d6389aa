//! Drivers: functions whose derived pair is not made of their body.
//!
//! A driver has an ordinary body, which is what it computes: it is what the primal runs, what
//! analyses and oracles see, what forward mode and a second derivation derive. Only its forward
//! pass and its pullback are a *template*, which calls derivatives of other functions in an order
//! of its own.

use crate::FuncKey;

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
    /// records nothing, and the pullback undoes the call and runs it again.
    Inverse(InverseDriver),
}

/// What the parameters of a function mean whose body calls what changes a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InverseDriver {
    /// The state, which is changed.
    pub state: Vec<StatePart>,
    /// The function that undoes the call, with the same parameters: its symbol.
    pub undo: Box<str>,
}

/// What the parameters of a function mean that does the steps of a loop from one to another. It
/// returns nothing, or the step that comes next and whether there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepsDriver {
    /// The state, which steps change.
    pub state: Vec<StatePart>,
    /// The parameter that is the number of the first step, of 64 bits.
    pub from: usize,
    /// The parameter that is the number of the step behind the last one, of 64 bits.
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
    /// This many.
    Bytes(u32),
}

/// What generated code tells the run time of a call that is undone
/// (`brolga_runtime::inverse_calls::code`); a test compares the two.
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
    /// From this bit on: what is checked. Nothing; within a tolerance, as floats of four or of
    /// eight bytes; bit by bit; or so with what differs on record.
    pub const CHECK: u64 = 32;
    /// What is checked if floats may differ: so many bytes each.
    pub const WITHIN: [u64; 2] = [4, 8];
    /// What is checked if all bits count.
    pub const BITS: u64 = 1;
    /// The same, where what differs is recorded.
    pub const RECORD: u64 = 2;
}

/// What generated code relies on of a run of steps, which the run time keeps
/// (`brolga_runtime::loops`); a test compares the two.
pub mod run {
    /// The first of the steps that are to be done next.
    pub const FROM: i32 = 0;
    /// The step behind the last of them.
    pub const TO: i32 = 8;
    /// The cells that the forward pass has filled.
    pub const CELLS: i32 = 16;
    /// Not zero if a step has ended the loop.
    pub const ENDED: i32 = 24;
    /// Not zero if the steps that are next are recorded.
    pub const TAPED: i32 = 32;
    /// What `brolga_loop_forward` returns where the tape has no room for the run.
    pub const NO_ROOM: i64 = i64::MIN + 1;
    /// Cells in front of those of the state: the limits of the steps and the budget.
    pub const HEAD: usize = 3;
}
