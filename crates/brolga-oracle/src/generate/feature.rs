//! Features of random programs: what they contain, and how much of it.
//!
//! **Question.** A program in which everything happens hides mistakes that a small one shows. How
//! is it chosen what a program contains?
//!
//! **Answer.** By a list of [`Feature`]s, each of which statements ask for. [`Feature::some`] draws
//! each with even chances, but for traps and wild numbers, which are rare, since they spoil most of
//! what could be compared otherwise. A [`Size`] says how many statements and functions there are at
//! most.
//!
//! **Cost.** One draw for each feature.

use super::source::Source;

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
