//! Errors of the oracle: what can end an interpretation, and where it happened.
//!
//! **Question.** A run gives no answer. Did the program end it, a limit, or something that the
//! oracle does not know?
//!
//! **Answer.** An [`OracleError`] says which, with the instruction. An [`InstSite`] is an
//! instruction of a program, a [`Place`] the same in words that outlive the program. What a run may
//! find beside its result is here, too: a store that keeps a time loop from being reversed
//! ([`StrayStore`]), and a [`Race`] of tasks.
//!
//! **Cost.** None where there is no error. Places are boxed, because results that may be errors are
//! moved around all the time.

use std::fmt;

use brolga_ir::{Diagnostic, FuncKey, Program};
use cranelift_codegen::ir;

/// An instruction of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstSite {
    /// The function that holds it.
    pub func: FuncKey,
    /// The instruction.
    pub inst: ir::Inst,
}

/// A [`InstSite`] in words that outlive the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Symbol of the function.
    pub function: String,
    /// The instruction.
    pub inst: ir::Inst,
    /// The instruction's text.
    pub text: String,
    /// Where it stands in the input: see [`brolga_ir::position`]; 0 where unknown.
    pub line: u32,
}

impl Place {
    /// Describe `site`. Boxed, because results that may be errors are moved around all the time.
    pub fn new(program: &Program, site: InstSite) -> Box<Self> {
        let f = &program.funcs[site.func];
        let text = f.body.as_ref().map(|b| b.dfg.display_inst(site.inst).to_string()).unwrap_or_default();
        Box::new(Place { function: f.symbol.clone(), inst: site.inst, text, line: f.lines[site.inst] })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}, {}", self.function, self.inst)?;
        if self.line != 0 {
            write!(f, ", {}", brolga_ir::position(self.line))?;
        }
        write!(f, ": {}", self.text)
    }
}

/// A store of a step of a time loop, outside of the loop's states, that is read when the step is
/// over: steps which run again would find something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrayStore {
    /// The store.
    pub store: Box<Place>,
    /// What has read it, in a later step or after the loop.
    pub load: Box<Place>,
}

impl fmt::Display for StrayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, load } = self;
        write!(
            f,
            "a step of a time loop writes outside of the loop's states, and that is read when the step is over; make \
             it part of a state: written by {store}; read by {load}"
        )
    }
}

/// Two accesses of concurrent tasks to the same bytes, one of which writes: what comes out depends
/// on which is first.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// The one that was first here.
    pub first: InstSite,
    /// The other one.
    pub second: InstSite,
    /// Both in words, and what to do: AD0194.
    pub diagnostic: Diagnostic,
}

/// Why an oracle gives no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OracleError {
    /// The program trapped.
    #[error("trap {code} at {at}")]
    Trap {
        /// With this code.
        code: ir::TrapCode,
        /// Here.
        at: Box<Place>,
    },
    /// More instructions were executed than [`crate::Limits::fuel`] allows.
    #[error("out of fuel at {at}")]
    Fuel {
        /// The next instruction.
        at: Box<Place>,
    },
    /// Calls are nested deeper than [`crate::Limits::depth`] allows.
    #[error("calls nested too deeply at {at}")]
    Depth {
        /// The call.
        at: Box<Place>,
    },
    /// The graph has grown beyond [`crate::Limits::nodes`].
    #[error("more than {limit} nodes recorded")]
    Nodes {
        /// The limit.
        limit: usize,
    },
    /// The interpreter does not know this instruction, or not at this type.
    #[error("not supported: {what} at {at}")]
    Unsupported {
        /// What is not supported.
        what: String,
        /// Here.
        at: Box<Place>,
    },
    /// A call of an imported function that the oracle has no implementation of.
    #[error("no implementation of %{symbol}, called at {at}")]
    UnknownSymbol {
        /// The symbol.
        symbol: String,
        /// The call.
        at: Box<Place>,
    },
    /// An indirect call of an address that is no function's, or of a function with another
    /// signature.
    #[error("indirect call of {address:#x}, {problem}, at {at}")]
    BadCallee {
        /// The address.
        address: u64,
        /// What is wrong with it.
        problem: &'static str,
        /// The call.
        at: Box<Place>,
    },
    /// A derivative was asked for that goes through bits which were computed from a float by means
    /// the oracle does not follow.
    #[error("untracked bits: the derivative goes through {at}")]
    Untracked {
        /// The instruction that made the bits.
        at: Box<Place>,
    },
    /// Tasks that may run at the same time do not keep out of each other's way.
    #[error("{}", .0.diagnostic)]
    Race(Box<Race>),
    /// The call does not fit the function.
    #[error("bad call: {0}")]
    BadCall(String),
    /// What has to be done before the call failed.
    #[error("the call did not begin: {0}")]
    NotBegun(String),
}

impl OracleError {
    /// The race, if it is one.
    pub fn race(&self) -> Option<&Race> {
        match self {
            Self::Race(race) => Some(race),
            _ => None,
        }
    }
}
