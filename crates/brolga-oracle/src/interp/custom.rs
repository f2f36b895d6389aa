//! Custom functions of an oracle: functions of floats that its caller implements.
//!
//! **Question.** A program imports a function that no C library has. How does a run call it and
//! know its slopes?
//!
//! **Answer.** The caller defines a [`CustomFunction`] by the symbol: a value and the slopes of up
//! to three operands. [`Externs`] has all of them, and they go before C's.
//!
//! **Cost.** A look-up by name for each call of an import.

use std::collections::HashMap;

/// A function of floats that the caller implements: from the operands to the value and the slope of
/// each operand.
#[derive(Clone, Copy, Debug)]
pub struct CustomFunction {
    /// How many operands it takes, at most three, all of the result's type.
    pub arity: usize,
    /// The value.
    pub value: fn(&[f64]) -> f64,
    /// The slopes.
    pub slopes: fn(&[f64]) -> [f64; 3],
}

/// Implementations of imported functions beyond the C library's.
#[derive(Clone, Debug, Default)]
pub struct Externs {
    pub(super) by_symbol: HashMap<String, CustomFunction>,
}

impl Externs {
    /// Implement `symbol`. This takes precedence over the C library.
    pub fn define(&mut self, symbol: &str, f: CustomFunction) {
        self.by_symbol.insert(symbol.to_owned(), f);
    }
}
