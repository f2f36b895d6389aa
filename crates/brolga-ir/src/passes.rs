//! Names of passes, and sets of them.
//!
//! **Question.** Which passes are there, what is each worth, and which belong together?
//!
//! **Answer.** Each pass and each technique of the planner that can be left out without another
//! gradient has a name ([`Pass`]), so that tests can switch it off and `cargo xtask bench --passes`
//! can measure what it is worth. A pass stays in the pipeline as long as it earns its place:
//! without it two programs of `bench` take 5 % longer, or one takes or records 20 % more, or a
//! promise of the documentation would be lost. [`Pass::worth`] names what would. A [`PassSet`] is a
//! set of them; three have names: [`Pass::REORDERING`], [`Pass::LASTING`] and [`Pass::UNLIKE`].
//!
//! **Cost.** A set is one word; whether it has a pass is one bit of it.

use std::fmt;
use std::str::FromStr;

/// Declare [`Pass`], so that each is described once: its name, and what would be lost without it.
macro_rules! passes {
    ($($(#[doc = $doc:literal])* $pass:ident $name:literal $worth:literal,)*) => {
        /// A pass, or a technique of the planner. None changes a gradient by a bit, but for
        /// [`Pass::REORDERING`], which add or multiply in another order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Pass {
            $($(#[doc = $doc])* $pass,)*
        }

        impl Pass {
            /// All of them, in the order of the pipeline as far as there is one.
            pub const ALL: &'static [Self] = &[$(Self::$pass),*];

            /// Its name on the command line and in tables.
            pub fn name(self) -> &'static str {
                match self { $(Self::$pass => $name),* }
            }

            /// What it does, in a sentence.
            pub fn about(self) -> &'static str {
                match self { $(Self::$pass => concat!($($doc),*).trim_ascii()),* }
            }

            /// The problem of `bench`, or the promise, that it is there for.
            pub fn worth(self) -> &'static str {
                match self { $(Self::$pass => $worth),* }
            }
        }
    };
}

passes! {
    /// Of two integer operations with one result in a loop, the second goes (common-subexpression
    /// elimination).
    Cse "cse" "wasm/kernels/outer",
    /// A sine that is multiplied has its cosine computed beside it, and the other way round.
    PairSincos "pair-sincos" "wasm/quadrature",
    /// Loop-carried integers are computed backwards from their last values (inversion).
    Invert "invert" "kron",
    /// What a loop reads from outside of it is recorded once, after the loop.
    HoistRecords "hoist-records" "wasm/heat",
    /// Induction variables have their final values from the bound, and so has what goes in steps
    /// beside them.
    FinalValues "final-values" "sum",
    /// The reverse finds predecessors from induction variables and conditions, without a log.
    RecoverPredecessors "recover-predecessors" "kron",
    /// What is recorded is a minimum cut between what must be and what is read; otherwise what is
    /// read is recorded.
    MinCut "min-cut" "ba",
    /// A combined function reloads memory that no later store clobbers.
    Reload "reload" "dot_f32",
    /// In memory mode `restore`, a combined function reloads memory when the pullback has put it
    /// back.
    ReloadAfterUndo "reload-after-undo" "memory mode `restore`: tape",
    /// Additions in place leave cotangents where they are.
    Accumulate "accumulate" "spmv",
    /// What has no use is removed (aggressive dead-code elimination).
    Dce "dce" "sum",
    /// The pullback is there twice: in runs in which all numbers are finite, products need no
    /// guards (function versioning).
    VersionGuards "version-guards" "wasm/nbody",
    /// In mode `gradient`, a callee whose value has no use runs once, in the reverse half (joint
    /// reversal).
    JointCalls "joint-calls" "recursive_sum",
    /// What takes more code is done only where that is expected to pay. Without it, wherever it is
    /// legal.
    CostModel "cost-model" "smv1000",
    /// In mode `gradient`, a loop that only adds up runs once, forwards, in the reverse half.
    RerunLoops "rerun-loops" "spdot",
    /// The shadow of an array whose elements are all added to one sum is a scalar (array
    /// contraction).
    ContractArrays "contract-arrays" "kron",
    /// Loops over neighbours in memory run several iterations at a time, in vector registers.
    Vectorise "vectorise" "sum",
    /// In mode `gradient`, a vectorised loop adds a cotangent up in partial sums.
    PartialSums "partial-sums" "kron",
    /// In mode `gradient`, what an iteration multiplies a cotangent by is multiplied out before the
    /// cotangent is there (preaccumulation). Without [`Pass::PartialSums`] only in functions none
    /// of whose products is guarded.
    Preaccumulate "preaccumulate" "logistic",
    /// A loop of which it is known how much it records asks once whether there is room on the tape.
    HoistTapeChecks "hoist-tape-checks" "a loop that cannot fit on the tape says so at once",
    /// What a loop adds to one place in memory is added up in a register (scalar promotion).
    Promote "promote" "wasm/kernels/outer",
    /// Functions of the program's own allocator that only keep lists are called as they are.
    OpaqueAllocator "opaque-allocator" "wasm/gmm",
    /// Where one function does both halves, its callees reload memory that is not written until
    /// their pullbacks have run.
    PreservedMemory "preserved-memory" "wasm/cg",
    /// A quotient is computed again where its reverse divides by the same number, if much less is
    /// recorded by that: two divisions by one number are one, of two lanes.
    SlpDivisions "slp-divisions" "wasm/heat",
    /// What a derivative asks a C function for is taken from a call of the primal's that asks the
    /// same.
    ShareCalls "share-calls" "wasm/quadrature",
    /// Loops test at their ends (loop rotation).
    LoopRotate "loop-rotate" "spdot",
    /// In short functions, what no iteration changes is computed before its loop, and what is
    /// computed twice, once (loop-invariant code motion, value numbering). Cranelift does so in
    /// longer ones.
    LicmGvn "licm-gvn" "sum_squares",
    /// Whether the rows of a matrix lie one after another is asked at run time, so that the shadow
    /// of what is read once can be stored (inspector and executor).
    MonotoneRows "monotone-rows" "spmv",
    /// With little effort, a function that calls itself for the derivative that is asked of it is
    /// derived once.
    ForwardRoot "forward-root" "first gradient of a recursion",
}

impl Pass {
    /// Those that add or multiply in another order.
    pub const REORDERING: PassSet = PassSet::of(&[Self::RerunLoops, Self::PartialSums, Self::Preaccumulate]);

    /// Those that little effort leaves out: they make code longer to make it faster. What is
    /// recorded and which loops run again does not depend on them. ([`Pass::HoistTapeChecks`] is
    /// not among them, since a loop without end fills memory.)
    pub const LASTING: PassSet = PassSet::of(&[Self::VersionGuards, Self::Vectorise, Self::PartialSums, Self::Promote]);

    /// Those of [`Pass::REORDERING`] that little effort leaves out, so that a derivation of two
    /// tiers does without: what is left gives the same bits with little effort and with all.
    pub const UNLIKE: PassSet = PassSet::of(&[Self::PartialSums]);
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No pass has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no pass; passes are {}", .0, Pass::ALL.iter().map(|p| p.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownPass(pub String);

impl FromStr for Pass {
    type Err = UnknownPass;

    fn from_str(name: &str) -> Result<Self, UnknownPass> {
        Self::ALL.iter().copied().find(|p| p.name() == name).ok_or_else(|| UnknownPass(name.to_owned()))
    }
}

/// A set of passes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PassSet(u32);

impl PassSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self::of(Pass::ALL);

    /// These.
    pub const fn of(passes: &[Pass]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < passes.len() {
            bits |= 1 << passes[i] as u32;
            i += 1;
        }
        Self(bits)
    }

    /// One pass for each bit that is set, in the order of [`Pass::ALL`]; bits beyond say nothing.
    pub const fn of_bits(bits: u32) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// Whether a pass is among them.
    pub const fn contains(self, pass: Pass) -> bool {
        self.0 & 1 << pass as u32 != 0
    }

    /// These and others.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These without others.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// With a pass, or without it.
    #[must_use]
    pub const fn set(self, pass: Pass, contained: bool) -> Self {
        let only = Self::of(&[pass]);
        if contained { self.and(only) } else { self.without(only) }
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Pass> {
        Pass::ALL.iter().copied().filter(move |&p| self.contains(p))
    }
}

impl From<Pass> for PassSet {
    fn from(pass: Pass) -> Self {
        Self::of(&[pass])
    }
}

impl<const N: usize> From<[Pass; N]> for PassSet {
    fn from(passes: [Pass; N]) -> Self {
        Self::of(&passes)
    }
}

impl FromIterator<Pass> for PassSet {
    fn from_iter<I: IntoIterator<Item = Pass>>(passes: I) -> Self {
        passes.into_iter().fold(Self::NONE, |set, p| set.and(p.into()))
    }
}

impl fmt::Debug for PassSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromStr for PassSet {
    type Err = UnknownPass;

    /// Names, separated by commas.
    fn from_str(names: &str) -> Result<Self, UnknownPass> {
        names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(Pass::from_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Pass, PassSet};

    #[test]
    fn sets_hold_what_they_are_made_of() {
        for &p in Pass::ALL {
            let only = PassSet::from(p);
            assert!(only.iter().eq([p]) && PassSet::ALL.without(only).iter().all(|q| q != p), "{p}");
            assert_eq!(p.name().parse(), Ok(p));
            assert!(!p.about().is_empty() && !p.worth().is_empty(), "{p}");
        }
        assert_eq!(PassSet::of_bits(u32::MAX), PassSet::ALL);
        assert_eq!("promote, vectorise".parse(), Ok(PassSet::of(&[Pass::Vectorise, Pass::Promote])));
        assert_eq!("promote,gvn".parse::<PassSet>().unwrap_err().0, "gvn");
    }
}
