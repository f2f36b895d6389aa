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
    Steps(Steps),
}

impl Driver {
    /// The function that it drives.
    pub fn driven(&self) -> FuncKey {
        match self {
            Self::Call(f) => *f,
            Self::Steps(s) => s.step,
        }
    }
}

/// What the parameters of a function mean that does the steps of a loop from one to another. It
/// returns nothing, or the step that comes next and whether there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The step.
    pub step: FuncKey,
    /// For each part of the state, the parameter that is its address, and that which is its length
    /// in bytes.
    pub state: Vec<(usize, usize)>,
    /// The parameter that is the number of the first step.
    pub from: usize,
    /// The parameter that is the number of the step behind the last one.
    pub to: usize,
}
