//! The request: activities and promises of arguments.
//!
//! **Question.** With respect to which arguments and results is a function differentiated, and what
//! may be relied on?
//!
//! **Answer.** A [`Request`] has an [`ArgSpec`] for each parameter and a [`ResultActivity`] for
//! each result. An [`ArgSpec`] says whether an argument takes part ([`ArgActivity`]), what a
//! pointer points at ([`Elem`]), and what the caller promises of the memory behind it
//! ([`Promises`]).
//!
//! **Cost.** None at run time of the request itself. What is constant is not differentiated, and a
//! promise may make a derivative cheaper.
//!
//! **Source.** Activities and promises are in the words of Enzyme and of rustc's `std::autodiff`.

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
    /// A pointer that is returned with the pointer to its shadow, in forward mode and in two
    /// functions.
    Duplicated,
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

/// What the caller promises of the memory behind one argument. The derivative is right without a
/// promise; with it, it may be cheaper. A promise that does not hold may give wrong numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Promises {
    /// The memory is reached through no other pointer while the function runs (C's `restrict`). A
    /// debug run checks it as far as lengths are declared. Where memory is one piece
    /// (WebAssembly's), what is a pointer is a number, and nothing checks it.
    pub noalias: bool,
    /// The shadow holds nothing before the call. What it does hold must be zeros, unless the
    /// derived rule says that it overwrites it (`DerivedRule::overwrites`): then it may be
    /// anything, and what the function reads through the pointer has its cotangent *stored* there;
    /// the rest of the shadow stays as it is. Of use together with `noalias`. A debug run looks for
    /// the zeros as far as lengths are declared.
    pub fresh: bool,
    /// The caller does not read what the function has written there (Enzyme's `dupnoneed`,
    /// `DuplicatedOnly` of `std::autodiff`). It may be anything then: what only the caller would
    /// read need be neither computed nor written. Values that are returned and the gradient are the
    /// same. Of use together with `noalias`, with [`MemoryMode::Leave`](crate::MemoryMode::Leave),
    /// and for stores that cannot fault, or in [`Mode::Gradient`](crate::Mode::Gradient).
    pub no_need: bool,
    /// The caller asks for no cotangent of what lies there (Enzyme's `enzyme_const`), such as data
    /// and labels. For addresses in a WebAssembly instance's memory, all of which has a shadow.
    /// What is read there has none, if nothing that runs is seen to write there; otherwise the
    /// promise is of no use, and the gradient is the same. Of use together with `noalias` where the
    /// function writes to memory.
    pub no_cotangent: bool,
}

/// One argument of a derivative: its activity, what it points at, and what the caller promises.
///
/// ```
/// # use brolga_ir::{ArgSpec, request::Elem};
/// let x = ArgSpec::ACTIVE;
/// let out = ArgSpec::duplicated(Elem::F64).noalias().no_need();
/// assert!(out.promises.noalias && !out.promises.fresh);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArgSpec {
    /// Whether and how it takes part.
    pub activity: ArgActivity,
    /// What a pointer points at, if the caller knows.
    pub elem: Option<Elem>,
    /// What holds for the memory behind it.
    pub promises: Promises,
}

impl ArgSpec {
    /// Not differentiated.
    pub const CONST: Self = Self::of(ArgActivity::Const);
    /// A float (or float vector) by value.
    pub const ACTIVE: Self = Self::of(ArgActivity::Active);
    /// A pointer with a shadow; what it points at is for the code to show.
    pub const DUPLICATED: Self = Self::of(ArgActivity::Duplicated);

    const fn of(activity: ArgActivity) -> Self {
        let promises = Promises { noalias: false, fresh: false, no_need: false, no_cotangent: false };
        Self { activity, elem: None, promises }
    }

    /// A pointer with a shadow, and what it points at.
    pub const fn duplicated(elem: Elem) -> Self {
        Self { elem: Some(elem), ..Self::DUPLICATED }
    }

    /// The same, with the promise [`Promises::noalias`].
    #[must_use]
    pub const fn noalias(mut self) -> Self {
        self.promises.noalias = true;
        self
    }

    /// The same, with the promise [`Promises::fresh`].
    #[must_use]
    pub const fn fresh(mut self) -> Self {
        self.promises.fresh = true;
        self
    }

    /// The same, with the promise [`Promises::no_need`].
    #[must_use]
    pub const fn no_need(mut self) -> Self {
        self.promises.no_need = true;
        self
    }

    /// The same, with the promise [`Promises::no_cotangent`].
    #[must_use]
    pub const fn no_cotangent(mut self) -> Self {
        self.promises.no_cotangent = true;
        self
    }
}

impl From<ArgActivity> for ArgSpec {
    fn from(activity: ArgActivity) -> Self {
        Self::of(activity)
    }
}

/// One derivative: a function and what the caller says of its arguments and results. There is no
/// default, since only the caller knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The function to differentiate.
    pub func: FuncKey,
    /// One per parameter.
    pub args: Vec<ArgSpec>,
    /// One per result; those at the end that are missing are active.
    pub results: Vec<ResultActivity>,
}

impl Request {
    /// A request for these arguments: activities, or activities with hints. All results are active.
    pub fn new<A: Into<ArgSpec>>(func: FuncKey, args: impl IntoIterator<Item = A>) -> Self {
        Self { func, args: args.into_iter().map(Into::into).collect(), results: vec![] }
    }
}
