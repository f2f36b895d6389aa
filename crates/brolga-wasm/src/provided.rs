//! Provided functions: what a function of a module stands for that its body does not say.
//!
//! **Question.** An import, or a library function that is replaced, has to be something in CLIF.
//! What can that be?
//!
//! **Answer.** A [`ProvidedFunction`]: a function of C's with a rule, a [`Shim`], a call through
//! the table, a time loop, an inverse pair, a fork, a part of OpenMP, nothing (a trap), or a
//! function that is written around the module's own. The latter is a [`WrapperFunction`], which
//! says its type, writes its body, and tries the module's function to see whether it computes what
//! is expected ([`TrialRun`]).
//!
//! **Cost.** An entry for each such function; trials run the module's function a few times when it
//! is loaded.

use std::collections::HashMap;
use std::sync::Arc;

use brolga_rules::MathRule;
use wasmparser::FuncType;

use crate::forked::{ForkImport, ForkKind, OpenMp};
use crate::function::func::Fx;
use crate::val::Val;

/// Emits the body of a shim, whose parameters are on the stack, up to its return.
pub(crate) type Shim = fn(&mut Fx<'_, '_, '_, '_>);

/// What an imported function stands for.
#[derive(Clone)]
pub(crate) enum ProvidedFunction {
    /// A C function, by its symbol.
    Math(&'static str),
    /// A function that we write.
    Shim(Shim),
    /// A C function with pointers among its parameters, or with a `long`.
    Widened(&'static MathRule),
    /// A call through the first table, of what the first parameter says, with the others.
    Invoke,
    /// A loop of steps, which are called through the first table; with `true` they say when it
    /// ends.
    Loop(bool),
    /// A call through the first table that another function of it undoes.
    Inverse,
    /// Tasks, which are called through the first table.
    Fork(ForkKind),
    /// A part of OpenMP.
    OpenMp(OpenMp),
    /// Nothing: calling it is a trap.
    Missing,
    /// A function that is written around the module's own, which is called for the value.
    Around(Arc<dyn WrapperFunction>),
}

impl ProvidedFunction {
    /// What forks, if it does.
    pub(crate) fn forks(&self) -> Option<ForkImport> {
        match self {
            Self::Fork(kind) => Some(ForkImport::Call(*kind)),
            Self::OpenMp(OpenMp::Region) => Some(ForkImport::Region),
            _ => None,
        }
    }
}

/// Functions that are replaced, by index.
pub(crate) type Replacements = HashMap<u32, ProvidedFunction>;

/// Runs the module's function: with bytes at some places of memory, and on arguments. What it
/// returns, and the first bytes of memory behind it.
pub(crate) type TrialRun<'t> = dyn FnMut(&[(usize, Vec<u8>)], &[Val]) -> Option<(Vec<Val>, Vec<u8>)> + 't;

/// A function that is written around a module's own.
pub(crate) trait WrapperFunction: Send + Sync {
    /// Its type.
    fn ty(&self) -> FuncType;
    /// Its body, up to the return; `wrapped` is the symbol of the module's function.
    fn emit(&self, fx: &mut Fx<'_, '_, '_, '_>, wrapped: &str);
    /// Whether the module's function computes what is written around it.
    fn agrees(&self, trial: &mut TrialRun<'_>) -> bool;
}
