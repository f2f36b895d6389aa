//! What the caller asks for: activities, in the words of Enzyme and of rustc's `std::autodiff`, and
//! options.

use crate::FuncKey;

/// What the caller says of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArgActivity {
    /// Not differentiated. A pointer has no shadow, and storing active data behind it is an error.
    Const,
    /// A float (or float vector) by value; the pullback returns its cotangent.
    Active,
    /// A pointer with a shadow of the same layout; the pullback accumulates (`+=`) into the shadow.
    Duplicated,
}

/// What the caller says of one result. Seeds are given for all results, whatever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResultActivity {
    /// If it is a float (or float vector), each run has a seed for it.
    #[default]
    Active,
    /// A float whose seed is one in each run: products with it are left out. Several results may be
    /// units.
    Unit,
    /// Not differentiated: the seed of a float is zero in each run, and nothing that leads to it
    /// alone is derived.
    Const,
}

/// What a duplicated pointer points at, where the code alone does not tell (a function that only
/// copies bits, say).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Elem {
    /// 64-bit floats.
    F64,
    /// 32-bit floats.
    F32,
    /// Pointers, whose shadows stand in the shadow memory.
    Pointer,
    /// Integers: no derivative passes through.
    Int,
}

/// One derivative: a function and the activity of each of its arguments. There is no default, since
/// only the caller knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The function to differentiate.
    pub func: FuncKey,
    /// One per parameter.
    pub args: Vec<ArgActivity>,
    /// One per parameter: what a pointer points at, if the caller knows.
    pub elems: Vec<Option<Elem>>,
    /// One per parameter: the caller promises that the memory behind this pointer is reached
    /// through no other one while the function runs (C's `restrict`). A debug run checks it as far
    /// as lengths are declared. Where memory is one piece (WebAssembly's), what is a pointer is a
    /// number, and nothing checks it.
    pub noalias: Vec<bool>,
    /// One per parameter: the shadow of this pointer holds nothing before the call. What it does
    /// hold must be zeros, unless the derived rule says that it overwrites it
    /// (`DerivedRule::overwrites`): then it may be anything, and what the function reads through
    /// the pointer has its cotangent *stored* there; the rest of the shadow stays as it is. Of use
    /// together with `noalias`. A debug run looks for the zeros as far as lengths are declared.
    pub fresh: Vec<bool>,
    /// One per parameter: the caller does not read what the function has written behind this
    /// pointer (Enzyme's `dupnoneed`, `DuplicatedOnly` of `std::autodiff`). It may be anything
    /// then: what only the caller would read need be neither computed nor written. Values that are
    /// returned and the gradient are the same. Of use together with `noalias`, with
    /// [`MemoryMode::Leave`], and for stores that cannot fault, or in [`Mode::Gradient`].
    pub no_need: Vec<bool>,
    /// One per parameter that is an address in a WebAssembly instance's memory, all of which has a
    /// shadow: the caller asks for no cotangent of what lies there (Enzyme's `enzyme_const`), such
    /// as data and labels. What is read there has none, if nothing that runs is seen to write
    /// there; otherwise the promise is of no use, and the gradient is the same. Of use together
    /// with `noalias` where the function writes to memory.
    pub constant: Vec<bool>,
    /// One per result; those at the end that are missing are active.
    pub results: Vec<ResultActivity>,
}

impl Request {
    /// A request without hints.
    pub fn new(func: FuncKey, args: impl IntoIterator<Item = ArgActivity>) -> Self {
        let args: Vec<_> = args.into_iter().collect();
        let (elems, no) = (vec![None; args.len()], vec![false; args.len()]);
        Self {
            func,
            args,
            elems,
            noalias: no.clone(),
            fresh: no.clone(),
            no_need: no.clone(),
            constant: no,
            results: vec![],
        }
    }
}

/// Which functions a derivative is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A forward pass and a pullback that may run later, or several times.
    #[default]
    Split,
    /// One function that does both at once: what is alive between the halves stays where it is, and
    /// memory that nobody has written since is read again instead of being recorded.
    Combined,
    /// As `Combined`, without the primal's results: what only they need is not computed. Memory is
    /// written as ever.
    Gradient,
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

/// Declare [`Ideas`], so that each is named once.
macro_rules! ideas {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the planner may do to record less and compute less. All of it is on by default.
        /// Each may cost or save time and space; none changes a gradient by a bit, but for `again`,
        /// `partial` and `preaccumulate`, which add or multiply in another order. That is what
        /// turning them off is for: to measure what they are worth, and to test.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct Ideas {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl Ideas {
            /// Names, in the order of the bits.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// One for each bit of a number, in the order of the fields.
            pub fn of_bits(mut bits: u32) -> Self {
                let mut next = || {
                    let on = bits & 1 != 0;
                    bits >>= 1;
                    on
                };
                Self { $($name: next()),* }
            }

            /// The number that [`Ideas::of_bits`] makes these of.
            pub fn bits(self) -> u32 {
                [$(self.$name),*].into_iter().rev().fold(0, |bits, on| bits << 1 | u32::from(on))
            }
        }
    };
}

ideas! {
    /// Integers run backwards instead of being recorded.
    carry,
    /// What a loop reads from outside of it is recorded once, behind the loop.
    hold,
    /// Induction variables are known behind their loops, from the bound; and what goes in steps
    /// beside them.
    last,
    /// Predecessors follow from induction variables and conditions.
    turn,
    /// Values are computed again from others, as a minimum cut says; otherwise what is read is
    /// recorded.
    cut,
    /// A combined function reads memory again that nobody has written since.
    reload,
    /// Where every write is undone (memory mode `restore`) by a function that does both halves at
    /// once, memory is read again when it is again what it was.
    rewind,
    /// Additions in place leave cotangents where they are.
    in_place,
    /// What nobody needs is removed.
    prune,
    /// Where all numbers are finite, products need no guards.
    finite,
    /// Where only a gradient is asked for, a function that is called for its derivative alone is
    /// run once, in the reverse half.
    whole,
    /// What takes more code is done only where that is expected to pay.
    worth,
    /// Where only a gradient is asked for, a loop that adds up is run once, forwards, in the
    /// reverse half, rather than logged.
    again,
    /// The shadow of an array whose elements are all added to one sum is one number in a variable.
    summed,
    /// Loops over neighbours in memory run several turns at a time, in the lanes of vector
    /// registers.
    lanes,
    /// Where only a gradient is asked for, such a loop adds a cotangent up in partial sums.
    partial,
    /// Where only a gradient is asked for, what a turn of a loop multiplies a cotangent by is
    /// multiplied out before the cotangent is there. Without [`Ideas::partial`] only in functions
    /// none of whose products is guarded.
    preaccumulate,
    /// A loop of which it is known how much it records asks once whether there is room on the tape.
    room,
    /// What a loop adds to one place in memory, turn by turn, is added up in a register.
    stay,
    /// Functions of the program's own allocator that only keep lists are called as they are.
    plain,
    /// Where one function does both halves, those that it calls read memory again that nobody
    /// writes until their pullbacks have run.
    kept,
    /// A quotient is computed again where its reverse divides by the same number, if much less is
    /// recorded by that: two divisions by one number are one, in two lanes.
    quotient,
    /// What a derivative asks a C function for is taken from the primal, where it asks the same.
    share,
    /// What a loop has loaded a turn ahead and handed on is loaded from where it was, if nobody has
    /// written there since.
    ahead,
    /// Whether the rows of a matrix lie one behind another is asked while the program runs, so that
    /// the shadow of what is read once can be stored.
    ascending,
    /// Memory behind the tape cannot be accessed, so that records need not ask for room: those that
    /// do not fit fault. (On Linux.)
    fence,
    /// What a loop reads anew in each turn of another one is watched in the first turn only.
    once,
    /// What is stored to neighbours in shadow memory is computed in the lanes of vector registers.
    slp,
    /// With little effort, a function that calls itself for the derivative that is asked of it is
    /// derived once.
    served,
}

impl Ideas {
    /// Without those that add or multiply in another order.
    pub fn in_order(self) -> Self {
        Self { again: false, partial: false, preaccumulate: false, ..self }
    }

    /// Without those that little effort leaves out and that add or multiply in another order: what
    /// is left gives the same bits with little effort and with all. ([`Ideas::again`] adds in
    /// another order, too, and [`Ideas::preaccumulate`] multiplies in another, but either is then
    /// done with both.)
    #[must_use]
    pub fn alike(self) -> Self {
        Self { partial: false, ..self }
    }

    /// Those of them that do not make code longer to make it faster, [`Ideas::room`], since a loop
    /// without end fills memory, and [`Ideas::preaccumulate`], as far as it is
    /// [alike](Ideas::alike) with all effort. What is recorded and what is run again does not
    /// depend on the others.
    #[must_use]
    pub fn brief(self) -> Self {
        let (lanes, partial, stay) = (false, false, false);
        Self { finite: false, lanes, partial, stay, slp: false, ..self }
    }
}

impl Default for Ideas {
    fn default() -> Self {
        Self::of_bits(u32::MAX)
    }
}

/// How much is done to make derived code fast.
///
/// To make code fast takes time, and more code, which takes time in turn. Who calls a gradient a
/// few times only, or compiles while somebody waits, wants it soon; who calls it often wants it
/// fast; and who does not know wants both, one after the other. None of them changes a gradient by
/// more than roundings (of additions in another order).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effort {
    /// As little as there is: only those ideas that are [`brief`](Ideas::brief), no mid-end of
    /// Cranelift's, and registers given out in a single pass. The primal is compiled in the same
    /// way.
    Quick,
    /// All that pays in the long run.
    Full,
    /// Little at first, and all when calls have paid for it. Both compute the same gradient, bit by
    /// bit but for signs of zeros, since neither adds in another order ([`Ideas::alike`]). Where no
    /// rule is called (who asks for CLIF, or compiles a derivation), all.
    Tiered(Made),
}

impl Default for Effort {
    fn default() -> Self {
        Self::Tiered(Made::default())
    }
}

/// Where the second rule of a [tiered](Effort::Tiered) one is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Made {
    /// By the call that has made it worth while, which takes longer by that.
    #[default]
    Here,
    /// In a thread of its own, while calls go on with the first rule.
    InBackground,
}

/// Whether calls are replaced by the bodies of what they call before a function is differentiated.
///
/// Then the analyses see what crosses the call (pointers, constants, what is the same in every turn
/// of a loop), and no frame is needed. The primal that users call stays as it is, and so do its
/// values and traps, bit for bit; gradients are the same numbers, but for roundings, since what a
/// callee adds up by itself is then added where the caller adds.
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
        once: u32,
        /// Most instructions by which a function may grow beside its own length. A derivation as a
        /// whole grows to no more than twice its length and ten thousand instructions.
        growth: u32,
    },
}

impl Inline {
    /// What has been found to pay for most programs: bodies of up to 100 instructions, of up to
    /// 2000 if they are called in one place only, and a thousand by which a function may grow.
    pub const SMALL: Self = Self::Small { callee: 100, once: 2000, growth: 1000 };
    /// Bodies of up to 40 instructions: a formula, or a choice between some. To call one takes
    /// about as long as to run it.
    pub const TINY: Self = Self::Small { callee: 40, once: 40, growth: 1000 };

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

/// What becomes of operations on the bits of active floats that have no derivative that anybody
/// knows (AD0110 to AD0112, and AD0113 where a callee returns what it has calculated).
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

/// Options of a derivation. The defaults are right for most callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whether forward pass and pullback are two functions or one.
    pub mode: Mode,
    /// What is done to record less.
    pub ideas: Ideas,
    /// Whether derived code is to be fast, or to be there soon.
    pub effort: Effort,
    /// Whether calls are replaced by the bodies of what they call.
    pub inline: Inline,
    /// Whether the pullback restores primal memory.
    pub memory: MemoryMode,
    /// Treat a cotangent of exactly zero as "nothing depends on this": it contributes zero even
    /// where the partial derivative is infinite or NaN.
    pub strong_zero: bool,
    /// What becomes of operations on the bits of active floats that have no derivative that anybody
    /// knows.
    pub untracked: Untracked,
    /// Most bytes that one run may record.
    pub tape_limit: usize,
    /// Verify each derived graph behind each stage that makes or changes it ([`crate::verify`]),
    /// and derived CLIF behind each pass, so that an internal error names the stage. Debug builds do
    /// so unless told otherwise. Every emitted function is verified in any case.
    pub verify_stages: bool,
    /// Check at run time what the caller promises and what generated code relies on: bounds and
    /// overlaps of shadows whose arguments declare a length, lost shadows, the order of the tape.
    /// Slower, and never another gradient.
    pub debug: bool,
    /// Cranelift's `opt_level=speed` for primal and derivative, unless the effort is `Quick`;
    /// otherwise `none`.
    pub optimize: bool,
    /// Most threads that verify and compile the functions of a rule: the calling one, and helpers
    /// that sleep when there is nothing to do. Zero stands for as many as there are processors, up
    /// to eight; with one, nothing runs outside of the calling thread. What comes out is the same.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Split,
            ideas: Ideas::default(),
            effort: Effort::default(),
            inline: Inline::default(),
            memory: MemoryMode::Leave,
            strong_zero: true,
            untracked: Untracked::Refuse,
            tape_limit: 8 << 30,
            verify_stages: cfg!(debug_assertions),
            debug: false,
            optimize: true,
            threads: 0,
        }
    }
}

impl Options {
    /// The defaults, with all effort at once, but that all calls stay calls: for whoever looks at
    /// calls, or compares numbers bit by bit with those of a run in which they stay.
    #[must_use]
    pub fn as_calls() -> Self {
        Self { inline: Inline::Never, ..Self::full() }
    }

    /// The defaults, with all effort at once: for whoever looks at code, or knows that it will be
    /// called often.
    #[must_use]
    pub fn full() -> Self {
        Self { effort: Effort::Full, ..Self::default() }
    }

    /// The same, with the ideas that the effort leaves, and calls replaced as it says. What is
    /// [tiered](Effort::Tiered) gets its second tier.
    #[must_use]
    pub fn settled(&self) -> Self {
        let inline = self.inline.settled(self.effort);
        let (ideas, effort) = match self.effort {
            Effort::Full => (self.ideas, Effort::Full),
            Effort::Quick => (self.ideas.brief(), Effort::Quick),
            Effort::Tiered(_) => (self.ideas.alike(), Effort::Full),
        };
        Self { ideas, effort, inline, ..self.clone() }
    }

    /// What rules are made with if they are [tiered](Effort::Tiered): at first, and when calls have
    /// paid for it.
    pub fn tiers(&self) -> Option<(Self, Self)> {
        let Effort::Tiered(_) = self.effort else { return None };
        let second = self.settled();
        Some((Self { effort: Effort::Quick, ..second.clone() }, second))
    }
}

#[cfg(test)]
mod tests {
    use super::Ideas;

    #[test]
    fn ideas_are_bits() {
        let all = (1 << Ideas::NAMES.len()) - 1;
        assert_eq!(Ideas::default().bits(), all);
        for i in 0..Ideas::NAMES.len() {
            assert_eq!(Ideas::of_bits(1 << i).bits(), 1 << i, "{}", Ideas::NAMES[i]);
        }
    }
}
