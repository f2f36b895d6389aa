//! Forking imports of a module: those of `include/brolga.h`, and what clang calls for OpenMP.
//!
//! **Question.** Which tasks does a call fork, and what else of OpenMP is there?
//!
//! **Answer.** A [`ForkKind`] says what `brolga_join` and its like fork; an [`OpenMp`] says which
//! part of OpenMP's runtime a function is, those that are not here included. A [`ForkImport`] is an
//! import that forks, of either kind.
//!
//! **Cost.** A tag for each import.

/// Which tasks a call forks (`include/brolga.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ForkKind {
    /// Two functions.
    Join,
    /// Functions of an array of entries.
    Entries,
    /// Parts of a range.
    For,
    /// Parts of a range, each of which returns a double.
    Sum,
}

/// Most threads of a team of OpenMP.
pub(crate) const MOST_THREADS: i32 = 64;

/// What code that clang has compiled by `-fopenmp` calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OpenMp {
    /// A parallel region.
    Region,
    /// A region that is not parallel.
    Serialized,
    /// Which iterations of a loop a thread has; its numbers have 64 bits, and a sign.
    StaticInit {
        /// 64 bits.
        wide: bool,
        /// A sign.
        signed: bool,
    },
    /// What threads have computed is put together.
    Reduce,
    /// The number of the thread.
    ThreadNum,
    /// Whether the thread is the first one.
    IsFirst,
    /// How many threads its team has.
    Threads,
    /// How many a team has at most.
    MostThreads,
    /// Whether there are several.
    InParallel,
    /// How many threads teams have from here on, or only the next one.
    SetThreads {
        /// The parameter that says it.
        param: usize,
        /// Only the next one.
        next: bool,
    },
    /// Nothing has to be done.
    Nothing,
    /// A number that is the same in any run.
    Constant(i32),
    /// Seconds that a clock shows.
    Time,
    /// Seconds from one time that it shows to the next.
    Tick,
    /// There is none of it here.
    Refused,
}

/// An import that forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkImport {
    /// A call of `brolga_par_for`, and its like.
    Call(ForkKind),
    /// A parallel region of OpenMP.
    Region,
}
