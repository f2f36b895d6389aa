//! The pipeline of Brolga: from CLIF to a forward pass and a pullback.
//!
//! ```text
//! normalise    the primal in the form that the rest relies on
//! facts        every analysis, run in order
//! translate    each statement becomes a forward fragment and a reverse fragment      (rules/*)
//! plan         what is recorded, and where: frame or stack
//! forward      the primal plus forward fragments plus records
//! pullback     reverse fragments, predecessor switches, edge blocks
//! derive       all of it, for a function and everything that it calls
//! ```

pub mod normalise;
