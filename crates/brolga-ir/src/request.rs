//! What the caller asks for: activities, in the words of Enzyme and of rustc's `std::autodiff`.

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
    /// [`MemoryMode::Leave`](crate::MemoryMode::Leave), and for stores that cannot fault, or in
    /// [`Mode::Gradient`](crate::Mode::Gradient).
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
