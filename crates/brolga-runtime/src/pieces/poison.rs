//! Cotangents that are not known: of floats of whose bits a program has made numbers.
//!
//! **Problem.** A program loads an integer and converts it to a float. Where the program had stored
//! a float, the number depends on it in a way that no rule describes, and a cotangent of zero would
//! be wrong. Where it had stored an integer there is nothing to be known.
//!
//! **Answer.** The reverse of such a load sets all bits of the shadow of what it loaded. That is a
//! NaN, whatever the size of the float.
//!
//! ```text
//! a float was stored there               its reverse takes the NaN, which goes where the float came from
//! an integer, a constant                 its reverse clears the shadow
//! an integer that was computed           the same, and the loads that lead to integers in memory do likewise from then on
//! nothing, and no float is there         the shadow is cleared when the run ends
//! ```
//!
//! Where cotangents move in pieces, a demand waits in place of the NaN
//! ([`super::demand`]).
//!
//! A task poisons what it adds to. What is left in its sums when it is over is that of its parent.
//!
//! **Cost.** Nothing where the integer is too near to zero to be a float's bits; else a look-up.
//!
//! **Errs** on the side of a NaN: whether the number has a cotangent is not asked.

use std::collections::HashMap;

/// What has been poisoned.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    /// Whether anything has been.
    pub(crate) any: bool,
    /// Bytes of the caller's shadows, by address.
    pub(crate) places: HashMap<usize, usize>,
    /// The place that was noted last.
    pub(crate) last: usize,
}

impl Poison {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
