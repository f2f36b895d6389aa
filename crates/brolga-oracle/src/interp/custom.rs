//! Functions of floats that the caller of an oracle implements.

use std::collections::HashMap;

/// A function of floats that the caller implements: from the operands to the value and the slope of
/// each operand.
#[derive(Clone, Copy, Debug)]
pub struct Custom {
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
    pub(super) by_symbol: HashMap<String, Custom>,
}

impl Externs {
    /// Implement `symbol`. This takes precedence over the C library.
    pub fn define(&mut self, symbol: &str, f: Custom) {
        self.by_symbol.insert(symbol.to_owned(), f);
    }
}
