//! Derivation, the output: pairs, combined functions, and the tables that hold them together.
//!
//! **Question.** What does a request lead to, for a caller that compiles or embeds it?
//!
//! **Answer.** A [`Derivation`] has the functions: of the root and of others [`DerivedPair`]s or
//! [`DerivedCombined`] functions, and [`TaskEntry`]s by which the run time enters tasks. Beside
//! them it has what a run has to be told: which pair belongs to which function address
//! ([`AddressableFunction`]), whether floats move in pieces, which shadows are overwritten, and
//! what has become of loops ([`LoopOutcome`]).
//!
//! **Cost.** None at run time. A derivation keeps all derived functions, and the normalised
//! primals.

use brolga_analysis::Variant;
use brolga_analysis::calls::summarise::PriorFacts;
use brolga_ir::map::IndexMap;
use brolga_ir::names::Names;
use brolga_ir::{FuncKey, Mode, Program};
use cranelift_codegen::ir;

/// Both halves of one derived variant.
#[derive(Clone, Debug)]
pub struct DerivedPair {
    /// What was derived.
    pub variant: Variant,
    /// Symbol of the forward pass.
    pub forward_symbol: String,
    /// Symbol of the pullback.
    pub pullback_symbol: String,
    /// The forward pass.
    pub forward: ir::Function,
    /// The pullback.
    pub pullback: ir::Function,
    /// Bytes of the frame that they have on the tape.
    pub frame: u32,
}

/// A function that the run time calls, by C's calling convention, with a pointer to words. It calls
/// a derivative: that of a fork's task.
#[derive(Clone, Debug)]
pub struct TaskEntry {
    /// The driver that forks.
    pub of: FuncKey,
    /// Its symbol.
    pub symbol: String,
    /// The symbol of what it calls.
    pub calls: String,
    /// The function.
    pub func: ir::Function,
}

/// Forward pass and pullback as one function.
#[derive(Clone, Debug)]
pub struct DerivedCombined {
    /// What was derived.
    pub variant: Variant,
    /// Its symbol.
    pub symbol: String,
    /// The function.
    pub func: ir::Function,
    /// Whether it returns the primal's results before the cotangents.
    pub results: bool,
    /// Whether it uses the segment that it is given: it records, calls what may record, or asks for
    /// shadows of data.
    pub segment: bool,
    /// Whether the pullback is there twice: with its guards and without
    /// ([`crate::guards::versioning`]).
    pub versioned: bool,
}

/// Symbols of the two functions of a pair.
#[derive(Clone, Debug)]
pub struct PairSymbols {
    /// The forward pass.
    pub forward: String,
    /// The pullback.
    pub pullback: String,
}

/// Symbols of what a variant becomes.
#[derive(Clone, Debug)]
pub(crate) enum Symbols {
    /// Of a pair.
    Pair(PairSymbols),
    /// Of the one function.
    Combined(String),
}

impl Symbols {
    /// That of the forward pass or of the one function, and that of the pullback.
    pub(crate) fn both(&self) -> [&str; 2] {
        match self {
            Self::Pair(symbols) => [&symbols.forward, &symbols.pullback],
            Self::Combined(symbol) => [symbol, ""],
        }
    }

    /// Those of a pair.
    pub(crate) fn pair(self) -> PairSymbols {
        match self {
            Self::Pair(symbols) => symbols,
            Self::Combined(symbol) => unreachable!("{symbol} is one function"),
        }
    }

    /// That of one function.
    pub(crate) fn combined(self) -> String {
        match self {
            Self::Combined(symbol) => symbol,
            Self::Pair(symbols) => unreachable!("{symbols:?} are two functions"),
        }
    }
}

/// What a variant became.
#[derive(Clone, Debug)]
pub enum DerivedVariant {
    /// Two functions.
    Pair(Box<DerivedPair>),
    /// One function.
    Combined(Box<DerivedCombined>),
}

/// A function that may be called through a pointer.
#[derive(Clone, Debug)]
pub struct AddressableFunction {
    /// The function.
    pub symbol: String,
    /// Identifies its signature.
    pub signature: u64,
    /// Symbols of its derived pair.
    pub forward: String,
    /// The pullback's.
    pub pullback: String,
}

/// Everything that a request leads to.
#[derive(Clone, Debug, Default)]
pub struct Derivation {
    /// The program, with thunks for known functions whose address is taken.
    pub program: Program,
    /// The combined function of the root, in that mode.
    pub combined: Option<DerivedCombined>,
    /// Derived pairs; unless there is a combined function, the first is the root's.
    pub pairs: Vec<DerivedPair>,
    /// Functions of both halves that others call. They return cotangents and no value.
    pub joint: Vec<DerivedCombined>,
    /// Functions by which the run time enters tasks.
    pub entries: Vec<TaskEntry>,
    /// The captures tuple: which pair belongs to which function address.
    pub captures: Vec<AddressableFunction>,
    /// One per parameter of the root: its shadow is overwritten, so it need not be filled with
    /// zeros.
    pub overwrites: Vec<bool>,
    /// Spelling of symbols in the functions.
    pub names: Names,
    /// Functions with a body that the root reaches: those that calls may still go to, as they are.
    pub primals: Vec<FuncKey>,
    /// Normalised primals of all functions that were derived, with what was put into them.
    pub normalised: IndexMap<FuncKey, ir::Function>,
    /// Loops that were to be reversed from states.
    pub loops: Vec<LoopOutcome>,
    /// Whether a function moves floats in pieces.
    pub pieces: bool,
    /// Whether integers of memory become numbers, so that the run is told where the host has put
    /// floats.
    pub numbers: bool,
    /// Bytes of the floats whose cotangents tasks of forks add up; none if they differ, or if there
    /// are no tasks.
    pub task_floats: Option<u8>,
    /// Why tasks of forks run one after the other, on one tape, if they have to.
    pub one_tape: Option<String>,
    /// What some function does that all had to know of.
    pub known: PriorFacts,
    /// Of which sizes floats are that are moved as integers which may be none
    /// ([`Activity::guessed`](brolga_analysis::activity::Activity::guessed)).
    pub guessed: u8,
    /// Bytes that the tape is to have room for beyond its limit: for a frame that would not be
    /// there if the root had a function of its own.
    pub spare: usize,
}

/// What has become of a loop that was to be reversed from states
/// ([`Options::checkpoints`](brolga_ir::Options::checkpoints)).
#[derive(Clone, Debug)]
pub struct LoopOutcome {
    /// The function that has the loop.
    pub func: FuncKey,
    /// The end of its header, as the user wrote it.
    pub inst: ir::Inst,
    /// The function that runs its steps, or why it stays as it is: what it does.
    pub driver: Result<FuncKey, String>,
}

/// Of which function a name is the derivative, and in which mode.
pub fn derivative_of(symbol: &str) -> Option<(&str, Mode)> {
    match symbol.strip_suffix("__gradient") {
        Some(base) => Some((base, Mode::Combined)),
        None => Some((symbol.strip_suffix("__tangent")?, Mode::Tangent)),
    }
}
