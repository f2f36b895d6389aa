//! Random programs in CLIF, valid by construction.
//!
//! A generated program passes Cranelift's verifier, ends after a bounded number of instructions,
//! never leaves its buffers, never reads what was not written, and computes with numbers of
//! moderate size. It therefore can be run as it is, and any disagreement between two ways of
//! differentiating it is a mistake of one of them.
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
//! - *Moderate numbers.* Every number has a bound ([`kind::Val`]). What is stored, passed or
//!   returned is scaled down to [`kind::TAME`] first. Logarithms, roots and quotients get operands
//!   for which they are defined.
//! - *Meaning.* A value has a [`kind::Kind`] beyond its type, so float bits in an `i64` are moved
//!   and taken apart as such, but never used as an index.
//!
//! Each program uses only some [`Feature`]s, chosen at random: a small program with loops and
//! stores alone finds other mistakes than one in which everything happens.
//!
//! The result is the text of a file with a `; grad:` line whose expected gradient is left open.

mod bits;
mod body;
mod calls;
mod control;
mod floats;
mod heap;
mod ints;
mod kind;
mod memory;
mod scratch;
mod sketch;
mod source;
mod vectors;

pub use source::Source;

use std::fmt::Write;

use body::Body;
use sketch::Sketch;

/// Something that a program may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// 32-bit floats.
    Single,
    /// Vectors of floats.
    Vectors,
    /// Buffers and stack slots.
    Memory,
    /// Float bits in integers.
    Bits,
    /// Pointers that are chosen, kept in memory, passed through blocks.
    Pointers,
    /// Branches that join again.
    Branches,
    /// Loops that count.
    Loops,
    /// Arbitrary graphs of blocks.
    Graphs,
    /// Returns in the middle.
    EarlyReturns,
    /// Calls of generated functions.
    Calls,
    /// Functions that call themselves.
    Recursion,
    /// Calls through pointers.
    Indirect,
    /// C's mathematical functions.
    Libm,
    /// `memcpy`, `memmove`, `memset`, `malloc`, `free`.
    MemoryCalls,
    /// Records that point at each other.
    Lists,
    /// Data objects.
    Globals,
    /// Memory that holds one kind of thing after another, records that are copied, pointers that
    /// walk.
    Scratch,
    /// Atomic operations.
    Atomics,
    /// Checks that may fail.
    Traps,
    /// Operations outside of their domain: infinities and NaN.
    Wild,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 20] = [
        Feature::Single,
        Feature::Vectors,
        Feature::Memory,
        Feature::Bits,
        Feature::Pointers,
        Feature::Branches,
        Feature::Loops,
        Feature::Graphs,
        Feature::EarlyReturns,
        Feature::Calls,
        Feature::Recursion,
        Feature::Indirect,
        Feature::Libm,
        Feature::MemoryCalls,
        Feature::Lists,
        Feature::Globals,
        Feature::Scratch,
        Feature::Atomics,
        Feature::Traps,
        Feature::Wild,
    ];

    /// A random selection.
    pub fn some(source: &mut Source) -> Vec<Feature> {
        // The last two spoil most of what could be compared otherwise.
        let often = |f: &Feature| if matches!(f, Feature::Traps | Feature::Wild) { 8 } else { 50 };
        Self::ALL.into_iter().filter(|f| source.chance(often(f))).collect()
    }
}

/// How large programs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Statements of the function that is differentiated, those in nested regions included.
    pub statements: usize,
    /// Statements of every other function.
    pub helper_statements: usize,
    /// Most functions beside it.
    pub helpers: usize,
}

impl Default for Size {
    fn default() -> Self {
        Size { statements: 24, helper_statements: 8, helpers: 4 }
    }
}

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
