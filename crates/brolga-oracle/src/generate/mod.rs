//! Random programs in CLIF, valid by construction.
//!
//! **Question.** Two ways of differentiating a program disagree. Is it a mistake of one of them, or
//! is the program to blame?
//!
//! **Answer.** A generated program passes Cranelift's verifier, ends after a bounded number of
//! instructions, never leaves its buffers, never reads what was not written, and computes with
//! numbers of moderate size. It therefore can be run as it is, and any disagreement between two
//! ways of differentiating it is a mistake of one of them.
//!
//! How each promise is kept:
//!
//! - *Types and dominance.* A function is built block by block, with a scope of values that
//!   dominate the place where the next instruction goes. Control structures ([`control`]) cut the
//!   scope back when they leave a region.
//! - *Termination.* Loops count, arbitrary graphs of blocks carry fuel, calls go to functions later
//!   in the list, and functions that call themselves or each other carry a depth ([`sketch`]).
//! - *Memory.* Every pointer reaches at least [`kind::WINDOW`] elements, and indices are cut to
//!   that. Stack slots are filled at the function's entry.
//! - *Moderate numbers.* Every number has a bound ([`kind::GenVal`]). What is stored, passed or
//!   returned is scaled down to [`kind::TAME`] first. Logarithms, roots and quotients get operands
//!   for which they are defined.
//! - *Meaning.* A value has a [`kind::Kind`] beyond its type, so float bits in an `i64` are moved
//!   and taken apart as such, but never used as an index.
//!
//! Each program uses only some [`Feature`]s, chosen at random: a small program with loops and
//! stores alone finds other mistakes than one in which everything happens.
//!
//! The result is the text of a file with a `; grad:` line whose expected gradient is left open.
//!
//! **Cost.** Linear in the number of statements that a [`Size`] allows.

mod bits;
mod body;
mod calls;
mod control;
mod feature;
mod floats;
mod heap;
mod ints;
mod kind;
mod memory;
mod scratch;
mod sketch;
mod source;
mod vectors;

pub use feature::{Feature, Size};
pub use source::Source;

use std::fmt::Write;

use body::Body;
use sketch::Sketch;

/// A random program as the text of a file: functions, and a `; grad:` line for the first of them,
/// `%f`.
pub fn program(source: &mut Source, features: &[Feature], size: Size) -> String {
    let sketch = Sketch::new(source, features, size);
    let mut out = String::new();
    if features.contains(&Feature::Wild) {
        writeln!(out, "; wild").expect("writing to a string");
    }
    let names: Vec<String> = features.iter().map(|f| format!("{f:?}")).collect();
    writeln!(out, "; {}", names.join(" ")).expect("writing to a string");
    writeln!(out, "; grad: {}", sketch.call_line(source)).expect("writing to a string");
    for line in sketch.data_lines(source) {
        writeln!(out, "{line}").expect("writing to a string");
    }
    for index in 0..sketch.functions.len() {
        let func = Body::build(source, &sketch, index);
        writeln!(out, "\n{}", func.display().to_string().trim_end()).expect("writing to a string");
    }
    out
}
