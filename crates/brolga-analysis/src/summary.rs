//! Function summaries: what is known of a function without its body, and of all functions of a
//! program.
//!
//! **Question.** A call, or a caller, needs to know what a function does with its parameters and
//! what its results are made from. What is that?
//!
//! **Answer.** [`crate::calls::summarise`] computes a [`Summary`] for each function, and
//! [`Summaries`] for all: which parameters are addresses, what lies behind them, between which ends
//! bits move ([`Link`]), how they become floats ([`BitDemand`]) or numbers ([`IntegerFate`]), what
//! functions write, and which can run later than in the primal ([`Delay`]). What has no summary has
//! an answer that stands for that: `false`, nothing, or [`Sources::Anything`].
//!
//! **Cost.** A look-up for each question; of calls through a pointer, one for each function of the
//! signature whose address is taken.

use std::collections::{BTreeMap, BTreeSet};

use brolga_ir::FuncKey;
use brolga_ir::map::{HashMap, HashSet};

use crate::lattice::kinds::Kinds;
use crate::lattice::number_uses::NumberUses;
use crate::memory::mod_ref::Effect;
use crate::memory::points_to::PointerFlow;
use crate::memory::punned_cells::PunnedCells;

/// How the bits of an integer become a float's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BitDemand {
    /// As they are, whole or in pieces.
    Moved,
    /// By arithmetic, on one way at least.
    Computed,
}

/// What becomes of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntegerFate {
    /// It is stored, or what is computed from it is.
    Stored,
    /// A float, by a conversion.
    Number,
}

/// Where integers come into a function, or leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// As a parameter.
    Param(usize),
    /// As a result.
    Result(usize),
}

/// Two ends between which a function moves floats of so many bytes, unchanged, if there are any in
/// the integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// They.
    pub ends: (End, End),
    /// Bytes of a float.
    pub bytes: u32,
}

/// What is at each offset of a struct, as far as accesses say.
pub type FieldKinds = BTreeMap<i64, Kinds>;

/// By function and parameter: the struct behind it, as far as callers say.
pub(crate) type Given = HashMap<FuncKey, Vec<FieldKinds>>;

/// What is known of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Per parameter: used as an address.
    pub address: Vec<bool>,
    /// Per parameter: what is behind it.
    pub contents: Vec<Kinds>,
    /// Per parameter: the struct behind it, as far as it and its callees access that.
    pub cells: Vec<FieldKinds>,
    /// Per result: which pointers it may derive from.
    pub pointer_result: Vec<Origins>,
    /// Per parameter and per result: the width of the floats whose bits it may carry, as an
    /// integer; else zero.
    pub lanes: (Vec<u32>, Vec<u32>),
    /// Parameters and results between which it moves bits, whosever they are.
    pub links: Vec<Link>,
    /// Per parameter: it goes to memory, to other functions or back to the caller, whole or in
    /// part, as it is, or becomes a float.
    pub hands_on: Vec<bool>,
    /// Per parameter: what becomes of it as a number.
    pub number_uses: Vec<NumberUses>,
    /// Per parameter: how its bits become a float's, as far as the function tells.
    pub demands: Vec<Option<BitDemand>>,
    /// Per parameter: what becomes of it.
    pub becomes: BTreeSet<(usize, IntegerFate)>,
    /// It loads an address.
    pub loads_pointers: bool,
}

/// Where a returned pointer may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// From the callee's own doings: an allocation, a data object, memory.
    pub from_callee: bool,
    /// From these parameters, if they are pointers.
    pub params: BTreeSet<usize>,
    /// From a function that was called through a pointer, which may have returned the bits of a
    /// float instead.
    pub unknown_callee: bool,
}

/// What is to be known of a function that can run later than in the primal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// It may trap, other than by the fault of a load.
    pub traps: bool,
    /// It accesses memory.
    pub memory: bool,
    /// It loads what may be a pointer.
    pub pointers: bool,
}

impl Delay {
    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            traps: self.traps | other.traps,
            memory: self.memory | other.memory,
            pointers: self.pointers | other.pointers,
        }
    }
}

/// What a result is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// Parameters, in order.
    Params(Vec<usize>),
    /// Memory, or whatever else.
    Anything,
}

/// What a result is made from, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// From what.
    pub from: Sources,
    /// The parameters that lead to it from operand to operand, whatever memory is read beside.
    pub through: Vec<usize>,
    /// It may be bits that were read from memory, or a part of them.
    pub bits: bool,
}

/// Which functions take a root.
#[derive(Clone, Debug, Default)]
pub struct RootTakers {
    /// Those that do themselves.
    pub(crate) direct: HashSet<FuncKey>,
    /// Those as well that call one that does.
    pub(crate) all: HashSet<FuncKey>,
}

/// What is known of all functions.
#[derive(Clone, Debug, Default)]
pub struct Summaries {
    pub(crate) funcs: HashMap<FuncKey, Summary>,
    /// What typed accesses say of each alias region, by the frontend's id.
    pub(crate) regions: HashMap<u32, Kinds>,
    /// By signature: what arguments of indirect calls point at, over all call sites.
    pub(crate) indirect: HashMap<u64, Vec<Kinds>>,
    /// By signature: functions whose address is taken.
    pub(crate) addressed: HashMap<u64, Vec<FuncKey>>,
    /// Places that hold pointers and floats.
    pub punned: PunnedCells,
    /// What functions may write.
    pub(crate) effects: HashMap<FuncKey, Effect>,
    /// Which parameters functions write through, or keep.
    pub(crate) flows: HashMap<FuncKey, PointerFlow>,
    /// Whose pullbacks undo all that they write, in memory mode `restore`.
    pub(crate) rewinding: HashMap<FuncKey, bool>,
    /// Which functions can run later than in the primal.
    pub(crate) delays: HashMap<FuncKey, Delay>,
    /// Which recursions may as well run once more.
    pub(crate) rerunnable: HashSet<FuncKey>,
    /// What results are made from.
    pub(crate) results: HashMap<FuncKey, Vec<Provenance>>,
    /// Which parameters are places in an instance's memory.
    pub(crate) offsets: HashMap<FuncKey, Vec<bool>>,
    /// What callers keep in structs that they hand to functions.
    pub(crate) given: Given,
    /// Whether some function computes a float's bits from integers in memory.
    pub(crate) demanded: bool,
    /// Which functions take a root.
    pub(crate) roots: RootTakers,
    /// Whether the program makes numbers of integers at all.
    pub(crate) makes_numbers: bool,
    /// What callers make of results.
    pub(crate) becoming_results: HashSet<(FuncKey, usize, IntegerFate)>,
}

impl Summaries {
    /// Which functions take a root, or call one that does: [`crate::guards::root_takers::taking`].
    pub fn roots(&self) -> &RootTakers {
        &self.roots
    }

    /// What each function may write.
    pub fn effects(&self) -> &HashMap<FuncKey, Effect> {
        &self.effects
    }

    /// Which parameters functions write through, or keep.
    pub fn flows(&self) -> &HashMap<FuncKey, PointerFlow> {
        &self.flows
    }

    /// Whose pullbacks undo all that they write, in memory mode `restore`.
    pub fn rewinding(&self) -> &HashMap<FuncKey, bool> {
        &self.rewinding
    }

    /// Which functions can run later than in the primal, and what is to be known of them.
    pub fn delays(&self) -> &HashMap<FuncKey, Delay> {
        &self.delays
    }

    /// Which recursions may as well run once more, where their caller needs what they return.
    pub fn rerunnable(&self) -> &HashSet<FuncKey> {
        &self.rerunnable
    }

    /// Whether a parameter of `f` is used as an address.
    pub fn is_address(&self, f: FuncKey, i: usize) -> bool {
        self.funcs.get(&f).and_then(|s| s.address.get(i)).copied().unwrap_or(false)
    }

    /// Whether a parameter is used as an address by a function that may be called through a pointer
    /// with this signature.
    pub fn is_address_through(&self, signature: u64, i: usize) -> bool {
        self.addressed.get(&signature).into_iter().flatten().any(|&f| self.is_address(f, i))
    }

    /// Whether a parameter of `f` is a number of which it makes an address in an instance's memory.
    pub fn is_offset(&self, f: FuncKey, i: usize) -> bool {
        self.offsets.get(&f).and_then(|all| all.get(i)).copied().unwrap_or(false)
    }

    /// What is behind a parameter of `f`.
    pub fn contents(&self, f: FuncKey, i: usize) -> Kinds {
        self.funcs.get(&f).and_then(|s| s.contents.get(i)).copied().unwrap_or_default()
    }

    /// What is at the offsets of a struct behind a parameter of `f`.
    pub fn cells(&self, f: FuncKey, i: usize) -> impl Iterator<Item = (&i64, &Kinds)> {
        self.funcs.get(&f).and_then(|s| s.cells.get(i)).into_iter().flatten()
    }

    /// What becomes of a parameter of `f`.
    pub fn number_uses(&self, f: FuncKey, i: usize) -> NumberUses {
        self.funcs.get(&f).and_then(|s| s.number_uses.get(i)).copied().unwrap_or_default()
    }

    /// What a result is made from.
    pub fn sources(&self, f: FuncKey, i: usize) -> &Sources {
        self.results.get(&f).and_then(|all| all.get(i)).map_or(&Sources::Anything, |made| &made.from)
    }

    /// The structs that callers of `f` keep behind its parameters, or nothing.
    pub fn given(&self, f: FuncKey) -> &[FieldKinds] {
        self.given.get(&f).map_or(&[], Vec::as_slice)
    }

    /// Whether some function loads an address: if none does, what becomes of shadows of pointers in
    /// memory does not matter.
    pub fn loads_pointers(&self) -> bool {
        self.funcs.values().any(|s| s.loads_pointers)
    }

    /// The parameters that lead to a result from operand to operand.
    pub fn through(&self, f: FuncKey, i: usize) -> &[usize] {
        self.results.get(&f).and_then(|all| all.get(i)).map_or(&[], |made| &made.through)
    }

    /// Where an indirect call may go: functions of its signature whose address is taken.
    pub fn addressed(&self, signature: u64) -> impl Iterator<Item = FuncKey> + '_ {
        self.addressed.get(&signature).into_iter().flatten().copied()
    }

    /// Whether a result may be bits that were read from memory.
    pub fn returns_memory(&self, f: FuncKey, i: usize) -> bool {
        self.results.get(&f).and_then(|all| all.get(i)).is_none_or(|made| made.bits)
    }

    /// Which pointers a result of `f` may derive from.
    pub fn pointer_result(&self, f: FuncKey, i: usize) -> Option<&Origins> {
        self.funcs.get(&f).and_then(|s| s.pointer_result.get(i))
    }

    /// What a function hands on from parameters to results.
    pub fn links(&self, f: FuncKey) -> &[Link] {
        self.funcs.get(&f).map_or(&[], |s| &s.links)
    }

    /// Whether a parameter of `f` goes to memory, to other functions or back to the caller, whole
    /// or in part, as it is.
    pub fn hands_on(&self, f: FuncKey, i: usize) -> bool {
        self.funcs.get(&f).and_then(|s| s.hands_on.get(i)).copied().unwrap_or(false)
    }

    /// How the bits of a parameter of `f` become a float's.
    pub fn demands(&self, f: FuncKey, i: usize) -> Option<BitDemand> {
        self.funcs.get(&f).and_then(|s| s.demands.get(i)).copied().flatten()
    }

    /// Whether the program makes numbers of integers at all.
    pub fn makes_numbers(&self) -> bool {
        self.makes_numbers
    }

    /// Whether this becomes of a parameter of `f`, or of what is computed from it.
    pub fn becomes(&self, f: FuncKey, i: usize, what: IntegerFate) -> bool {
        self.funcs.get(&f).is_some_and(|s| s.becomes.contains(&(i, what)))
    }

    /// Whether a caller of `f` makes this of a result.
    pub fn result_becomes(&self, f: FuncKey, k: usize, what: IntegerFate) -> bool {
        self.becoming_results.contains(&(f, k, what))
    }

    /// The width of the floats whose bits a parameter of `f` carries, as far as `f` tells.
    pub fn param_lane(&self, f: FuncKey, i: usize) -> u32 {
        self.funcs.get(&f).and_then(|s| s.lanes.0.get(i)).copied().unwrap_or(0)
    }

    /// The same for a result.
    pub fn result_lane(&self, f: FuncKey, i: usize) -> u32 {
        self.funcs.get(&f).and_then(|s| s.lanes.1.get(i)).copied().unwrap_or(0)
    }

    /// Whether a function that may be called through a pointer with this signature makes a float of
    /// what it is given, as far as such functions tell.
    pub fn takes_bits_through(&self, signature: u64, i: usize) -> bool {
        self.addressed.get(&signature).into_iter().flatten().any(|&f| self.param_lane(f, i) != 0)
    }

    /// The same of what it returns.
    pub fn returns_bits_through(&self, signature: u64, i: usize) -> bool {
        self.addressed.get(&signature).into_iter().flatten().any(|&f| self.result_lane(f, i) != 0)
    }

    /// What accesses of an alias region say that it holds.
    pub fn region(&self, id: u32) -> Kinds {
        self.regions.get(&id).copied().unwrap_or_default()
    }

    /// What the arguments of functions that are called through a pointer point at.
    pub fn indirect_contents(&self, signature: u64, i: usize) -> Kinds {
        self.indirect.get(&signature).and_then(|ks| ks.get(i)).copied().unwrap_or_default()
    }
}
