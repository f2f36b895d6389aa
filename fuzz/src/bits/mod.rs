//! Random programs in C that move floats as bits, compiled at four levels of optimisation.
//!
//! [`generate`] makes a [`program`]; [`c`] writes it as C, [`dual`] knows its gradient without
//! running it, [`clang`] compiles it, [`judge`] compares what the pass makes of it with that and
//! with the tape, and [`small`] drops what a mistake does not need.

pub mod c;
pub mod case;
pub mod clang;
pub mod dual;
pub mod generate;
pub mod judge;
pub mod program;
pub mod small;
pub mod target;
