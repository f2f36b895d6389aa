//! Options of a derivation: modes, effort, inlining, and what is left to the caller's judgement.
//!
//! **Question.** Which derivative does a caller want, how soon, in how much memory, and what may be
//! taken on trust?
//!
//! **Answer.** [`Options`] has a field for each of these questions, and defaults that are right for
//! most callers. [`Options::settled`] gives what a pipeline runs with: the passes that effort and
//! order of floats leave out are disabled, and [`Inline::Auto`] is decided. [`Options::tiers`]
//! gives the two sets of options of a rule that is made twice.
//!
//! **Cost.** None at run time of the options themselves; what each choice costs a derivation or a
//! run stands beside it.

use std::path::PathBuf;

use crate::passes::{Pass, PassSet};

/// Which functions a derivative is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A forward pass and a pullback that may run later, or several times.
    #[default]
    Split,
    /// One function that does both at once: what is alive between the halves stays where it is, and
    /// memory that no later store clobbers is reloaded instead of being recorded.
    Combined,
    /// As `Combined`, without the primal's results: what only they need is not computed. Memory is
    /// written as ever.
    Gradient,
    /// Forward mode: one function that computes the primal's results and their tangents along one
    /// direction (a Jacobian-vector product). Shadows hold tangents.
    Tangent,
}

impl Mode {
    /// Whether forward pass and pullback are one function.
    pub fn is_joint(self) -> bool {
        matches!(self, Self::Combined | Self::Gradient)
    }
}

/// What the pullback does with memory that the primal wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryMode {
    /// Primal memory stays as the forward pass left it (Enzyme's contract, and the default: it
    /// costs nothing, and callers usually want the outputs that they asked for).
    #[default]
    Leave,
    /// The pullback undoes every write, so that memory is as before the call (Mooncake's contract).
    Restore,
}

/// How much is done to make derived code fast.
///
/// Fast code takes time to make, and more code, which takes time in turn. A gradient that is called
/// a few times only should be there soon, one that is called often should be fast, and where that
/// is not known, one after the other. No effort changes a gradient by more than roundings (of
/// additions in another order).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effort {
    /// As little as there is: none of the passes that make code longer ([`Pass::LASTING`]), no
    /// mid-end of Cranelift's, and registers given out in a single pass. The primal is compiled in
    /// the same way.
    Quick,
    /// All that pays in the long run.
    Full,
    /// Little at first, and all when calls have paid for it. Both compute the same gradient, bit by
    /// bit but for signs of zeros, since neither adds in another order ([`Pass::UNLIKE`]). Where no
    /// rule is called (CLIF is asked for, or a derivation is compiled), all.
    Tiered(SecondTier),
}

impl Default for Effort {
    fn default() -> Self {
        Self::Tiered(SecondTier::default())
    }
}

/// Where the second rule of a [tiered](Effort::Tiered) one is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SecondTier {
    /// By the call that has made it worth while, which takes longer by that.
    #[default]
    Here,
    /// In a thread of its own, while calls go on with the first rule.
    InBackground,
}

/// Whether calls are replaced by the bodies of what they call before a function is differentiated.
///
/// Then the analyses see what crosses the call (pointers, constants, what is the same in every
/// iteration of a loop), and no frame is needed. The primal that users call stays as it is, and so
/// do its values and traps, bit for bit; gradients are the same numbers, but for roundings, since
/// what a callee adds up by itself is then added where the caller adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Inline {
    /// What pays wherever it was measured: [`Inline::TINY`], but [`Inline::Never`] with
    /// [`Effort::Quick`], since a body that is there twice is derived twice.
    #[default]
    Auto,
    /// No call is.
    Never,
    /// Direct calls of short functions of the program are, unless a cycle of calls leads through
    /// the function. Callees come first, so that the body that is put in is final. Where anything
    /// stands in the way, the call stays; it is never an error.
    Small {
        /// Most instructions of a body that replaces a call, with all that was put into it.
        callee: u32,
        /// The same of a function that is called in one place only, and for each caller of all such
        /// bodies together.
        single_call: u32,
        /// Most instructions by which a function may grow beside its own length. A derivation as a
        /// whole grows to no more than twice its length and ten thousand instructions.
        growth: u32,
    },
}

impl Inline {
    /// What has been found to pay for most programs: bodies of up to 100 instructions, of up to
    /// 2000 if they are called in one place only, and a thousand by which a function may grow.
    pub const SMALL: Self = Self::Small { callee: 100, single_call: 2000, growth: 1000 };
    /// Bodies of up to 40 instructions: a formula, or a choice between some. To call one takes
    /// about as long as to run it.
    pub const TINY: Self = Self::Small { callee: 40, single_call: 40, growth: 1000 };

    /// What [`Inline::Auto`] stands for.
    #[must_use]
    pub fn settled(self, effort: Effort) -> Self {
        match (self, effort) {
            (Self::Auto, Effort::Quick) => Self::Never,
            (Self::Auto, _) => Self::TINY,
            _ => self,
        }
    }
}

/// What becomes of operations on the bits of active floats that have no known derivative (AD0110 to
/// AD0112, and AD0113 where a callee returns what it has calculated).
///
/// Enzyme has the same choice (`-enzyme-runtime-error`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Untracked {
    /// They are refused before anything runs.
    #[default]
    Refuse,
    /// The pullback traps (`untracked_bits`) where a cotangent that is not zero arrives at their
    /// result. For code with ways that are not taken: a C library's, say, which keeps such
    /// operations for numbers that are very large or very small.
    Trap,
}

/// In which order a gradient adds and multiplies floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FloatOrder {
    /// As the reverse of the program has it: the same bits with any effort and in any mode. Tasks
    /// of a fork run one after the other, so that the bits are those of the program with calls in
    /// place of forks.
    AsWritten,
    /// In mode `gradient` also in another order, where that is faster: sums of a loop in partial
    /// sums or forwards, products of an iteration beforehand. Gradients differ by roundings.
    #[default]
    Reassociated,
}

/// How a record that does not fit on the tape is noticed. (A trap either way.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TapeKind {
    /// Memory behind the tape cannot be accessed, so that records need not ask for room: those that
    /// do not fit fault. On Linux; elsewhere as [`TapeKind::Checked`].
    #[default]
    Fenced,
    /// Records ask for room.
    Checked,
    /// Records ask for room, and nothing belongs to the run time: shadows of data are data objects
    /// ([`crate::lower::shadow_of_data`]), and functions of the program find the halves of what is
    /// called through a pointer ([`crate::lower::half_of`]). For functions that become part of
    /// another module (`brolga_transform::embed`).
    Workspace,
    /// Records ask for room, and the tape is four: of doubles, singles, integers and addresses.
    /// What is derived so is derived again: each place on it holds what its part of the tape holds.
    /// It does not run on the segment of the run time, and none of [`Pass::LASTING`] is part of the
    /// pipeline.
    Typed,
}

impl TapeKind {
    /// Whether functions run without the run time.
    pub fn is_standalone(self) -> bool {
        matches!(self, Self::Workspace | Self::Typed)
    }
}

/// What is checked of a function that undoes another one ([`crate::inverse_pair`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InverseCheck {
    /// What the program says of each pair
    /// ([`Program::set_inverse_check`](crate::Program::set_inverse_check)); [`Bits`](Self::Bits) of
    /// one of which it says nothing.
    #[default]
    Declared,
    /// Nothing: it is taken on trust.
    Off,
    /// Floats of the state may differ from those before the call as far as
    /// [`Tolerance::allows`]. Other words may not.
    Within(Tolerance),
    /// The state has to be the one before the call, bit by bit.
    Bits,
    /// The same, and what the inverse does not give back is recorded and put there: words of eight
    /// bytes. So sums of floats are undone where that is exact, and recorded where it is not.
    Record,
}

/// How far floats may be from each other: in proportion. What was zero has no proportion, and may
/// become as much as the tolerance. Of singles it is the root of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tolerance(u64);

impl Tolerance {
    /// Whether a double that was `before` may be `found`.
    pub fn allows(self, before: f64, found: f64) -> bool {
        let size = if before == 0.0 { 1.0 } else { before.abs() };
        before == found || (found - before).abs() <= f64::from_bits(self.0) * size
    }

    /// The same of singles.
    pub fn allows_single(self, before: f32, found: f32) -> bool {
        Self::from(f64::from_bits(self.0).sqrt()).allows(before.into(), found.into())
    }
}

impl From<f64> for Tolerance {
    fn from(x: f64) -> Self {
        Self(x.to_bits())
    }
}

impl From<Tolerance> for f64 {
    fn from(x: Tolerance) -> Self {
        f64::from_bits(x.0)
    }
}

/// How many derivatives one run can compute.
pub const WIDTHS: std::ops::RangeInclusive<u32> = 1..=64;

/// Loops that are reversed as time loops are ([`crate::time_loop`]), though the program does not
/// mark them: states before some of their steps are kept, and steps run again from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checkpoints {
    /// All outermost loops, of the function that is derived and of those that it calls once.
    pub outermost: bool,
    /// Loops around calls of these functions, by symbol or the name in the source, with most bytes
    /// for each.
    pub around: Vec<(String, usize)>,
}

/// Options of a derivation. The defaults are right for most callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whether forward pass and pullback are two functions or one.
    pub mode: Mode,
    /// In which order floats are added and multiplied.
    pub float_order: FloatOrder,
    /// How a tape that is full is noticed.
    pub tape: TapeKind,
    /// Passes that are left out, for tests and measurements. Without one that another builds on
    /// (`dce` for `rerun-loops`, `partial-sums` for most of `preaccumulate`) that one does
    /// nothing.
    #[doc(hidden)]
    pub disabled: PassSet,
    /// Whether derived code is to be fast, or to be there soon.
    pub effort: Effort,
    /// Whether calls are replaced by the bodies of what they call.
    pub inline: Inline,
    /// How many derivatives one run computes: directions, in [`Mode::Tangent`]. One of [`WIDTHS`];
    /// the layout of shadows depends on it ([`crate::lower`], `batch`).
    pub width: u32,
    /// In [`Mode::Tangent`]: what is carried are not tangents along as many directions but the
    /// Taylor coefficients of one path, from the first to as many.
    pub taylor: bool,
    /// Whether the pullback restores primal memory.
    pub memory: MemoryMode,
    /// Treat a cotangent of exactly zero as "nothing depends on this": it contributes zero even
    /// where the partial derivative is infinite or NaN.
    pub strong_zero: bool,
    /// Cotangents of results may be infinite because a caller takes a root at zero: products ask
    /// for that (`docs/KINKS.md`). Of roots in the program itself that is known.
    pub under_root: bool,
    /// What becomes of operations on the bits of active floats that have no known derivative.
    pub untracked: Untracked,
    /// Most bytes that one run may record.
    pub tape_limit: usize,
    /// Most bytes that a time loop ([`crate::time_loop`]) takes for states, and for what the steps
    /// between them record, while it is reversed. What one step records is taken in any case.
    pub memory_budget: usize,
    /// Where a time loop that does not fit its budget may keep states in a file, if it may: a
    /// folder. The file is gone when the run is over, however it ends.
    pub checkpoint_dir: Option<PathBuf>,
    /// Most bytes of that file.
    pub checkpoint_limit: u64,
    /// Which loops take no more than that, besides those that the program marks.
    pub checkpoints: Checkpoints,
    /// What is checked of functions that undo others.
    pub inverse_check: InverseCheck,
    /// Verify each derived graph after each stage that makes or changes it ([`crate::verify`]),
    /// and derived CLIF after the last pass, or after each if that fails, so that an internal error
    /// names the stage. Debug builds do
    /// so unless told otherwise. Every emitted function is verified in any case.
    pub verify_stages: bool,
    /// Check at run time what the caller promises and what generated code relies on: bounds and
    /// overlaps of shadows whose arguments declare a length, lost shadows, the order of the tape.
    /// Slower, and never another gradient.
    pub debug: bool,
    /// Most threads that verify and compile the functions of a rule: the calling one, and helpers
    /// that sleep when there is nothing to do. Zero stands for as many as there are processors, up
    /// to eight; with one, nothing runs outside of the calling thread. What comes out is the same.
    pub threads: usize,
    /// On how many threads tasks of a program that forks run ([`crate::fork`]), not zero; with one,
    /// on the calling thread. `None` stands for the pool of rayon's that the calling thread belongs
    /// to, or else for as many as there are processors. What comes out is the same, bit for bit.
    pub task_threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Split,
            float_order: FloatOrder::default(),
            tape: TapeKind::default(),
            disabled: PassSet::NONE,
            effort: Effort::default(),
            inline: Inline::default(),
            width: 1,
            taylor: false,
            memory: MemoryMode::Leave,
            strong_zero: true,
            under_root: false,
            untracked: Untracked::Refuse,
            tape_limit: 8 << 30,
            memory_budget: 64 << 20,
            checkpoint_dir: None,
            checkpoint_limit: u64::MAX,
            checkpoints: Checkpoints::default(),
            inverse_check: InverseCheck::default(),
            verify_stages: cfg!(debug_assertions),
            debug: false,
            threads: 0,
            task_threads: None,
        }
    }
}

impl Options {
    /// The defaults, with all effort at once, and all calls stay calls: to look at calls, or to
    /// compare numbers bit by bit with those of a run in which they stay.
    #[must_use]
    pub fn as_calls() -> Self {
        Self { inline: Inline::Never, ..Self::full() }
    }

    /// The defaults, with a gradient that takes no more memory than so many bytes, as far as its
    /// outermost loops can be reversed in parts.
    #[must_use]
    pub fn within_memory(bytes: usize) -> Self {
        let checkpoints = Checkpoints { outermost: true, around: Vec::new() };
        Self { memory_budget: bytes, checkpoints, ..Self::default() }
    }

    /// The defaults, with all effort at once: to look at code, or for a derivative that is called
    /// often.
    #[must_use]
    pub fn full() -> Self {
        Self { effort: Effort::Full, ..Self::default() }
    }

    /// The same, without the passes that the effort and the order of floats leave out, and calls
    /// replaced as the effort says. What is [tiered](Effort::Tiered) gets its second tier.
    #[must_use]
    pub fn settled(&self) -> Self {
        let inline = self.inline.settled(self.effort);
        let (left_out, effort) = match self.effort {
            Effort::Full => (PassSet::NONE, Effort::Full),
            Effort::Quick => (Pass::LASTING, Effort::Quick),
            Effort::Tiered(_) => (Pass::UNLIKE, Effort::Full),
        };
        let in_order = match self.float_order {
            FloatOrder::AsWritten => Pass::REORDERING,
            FloatOrder::Reassociated => PassSet::NONE,
        };
        // Forward mode has no second half that would undo anything.
        let memory = if self.mode == Mode::Tangent { MemoryMode::Leave } else { self.memory };
        let found =
            Self { disabled: self.disabled.and(left_out).and(in_order), effort, inline, memory, ..self.clone() };
        if self.tape == TapeKind::Typed { found.plain() } else { found }
    }

    /// The same, as a typed tape has it.
    fn plain(self) -> Self {
        let left_out = Pass::LASTING.and([Pass::ForwardRoot, Pass::HoistTapeChecks].into());
        let disabled = self.disabled.and(left_out);
        Self { disabled, effort: Effort::Quick, memory: MemoryMode::Leave, debug: false, ..self }
    }

    /// Whether a pair can keep states of memory in the run time, to go back to them: there is one,
    /// one derivative at a time, and nothing is undone.
    pub fn keeps_states(&self) -> bool {
        !self.tape.is_standalone() && self.width == 1 && self.memory == MemoryMode::Leave
    }

    /// Whether a pass is part of the pipeline.
    pub fn runs(&self, pass: Pass) -> bool {
        !self.disabled.contains(pass)
    }

    /// The passes that run.
    pub fn enabled(&self) -> PassSet {
        PassSet::ALL.without(self.disabled)
    }

    /// What rules are made with if they are [tiered](Effort::Tiered): at first, and when calls have
    /// paid for it.
    pub fn tiers(&self) -> Option<(Self, Self)> {
        let Effort::Tiered(_) = self.effort else { return None };
        let second = self.settled();
        Some((Self { effort: Effort::Quick, ..second.clone() }, second))
    }
}
