//! Random programs against the engine.
//!
//! [`brolga_oracle::generate`] makes programs that can be run as they are. [`judge`] differentiates
//! one, runs it, and compares with the tape oracle and with the promises of
//! [`brolga_driver::protocol`]. [`reduce`] makes a failing program small. The binary does this for
//! as long as it is told to ([`campaign`]), each program in a process that may crash or hang.
//!
//! [`bits`] does the same with programs in C that move floats as bits.
//!
//! Nothing here knows how a derivative is made, and nothing here decides what one should be.

pub mod bits;
pub mod campaign;
pub mod judge;
pub mod outside;
pub mod reduce;

use brolga_oracle::generate::{Feature, Size, Source, program};

/// The program with this number, to be judged by its gradient, or by second derivatives.
pub fn text_of(seed: u64, second: bool) -> String {
    let mut source = Source::seed(seed);
    let features = Feature::some(&mut source);
    // Small programs find most mistakes and explain them better; large ones find the rest.
    let statements = source.choose(&[8, 16, 32, 64, 128]);
    let size = Size { statements, helper_statements: statements / 3, ..Size::default() };
    let text = program(&mut source, &features, size);
    if second { format!("{}\n{text}", judge::SECOND) } else { text }
}
