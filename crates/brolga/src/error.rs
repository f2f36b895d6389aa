//! What can go wrong, in three classes: the input is outside what we support
//! ([`Error::Diagnostics`]), the primal trapped or a run-time check failed ([`Error::Trap`]), the
//! caller broke a documented precondition ([`Error::Usage`]). Anything else is a bug in Brolga and
//! says so ([`Error::Internal`]).

use brolga_ir::Diagnostics;
use cranelift_codegen::ir;

/// A run that did not finish: the primal trapped, or one of our own run-time checks failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Trap code in CLIF's spelling (`int_divz`, `heap_oob`, `user3`), or for our own checks
    /// `tape_full`, `unknown_callee`, `untracked_bits`, ….
    pub code: String,
    /// Symbol of the primal function.
    pub function: String,
    /// What its source calls it, if that is known and is not the symbol.
    pub source_name: Option<String>,
    /// Block of the primal instruction.
    pub block: Option<ir::Block>,
    /// The primal instruction.
    pub inst: Option<ir::Inst>,
    /// Its text.
    pub inst_text: Option<String>,
    /// Where the instruction stands in the input: see [`brolga_ir::position`].
    pub line: Option<u32>,
    /// The calls that were replaced by the bodies of what they call, if the function had been put
    /// into others so ([`brolga_ir::Inline`]): the innermost first, as `%f, block0, inst3, line
    /// 12`.
    pub inlined: Vec<String>,
    /// Whether it happened in `primal`, `forward` or `pullback`.
    pub phase: &'static str,
    /// One sentence that explains the code.
    pub message: String,
}

impl std::fmt::Display for Trap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "trap {}: {}", self.code, self.message)?;
        write!(f, "\n  --> %{}", self.function)?;
        if let Some(b) = self.block {
            write!(f, ", {b}")?;
        }
        if let Some(i) = self.inst {
            write!(f, ", {i}")?;
        }
        if let Some(l) = self.line {
            write!(f, ", {}", brolga_ir::position(l))?;
        }
        write!(f, " ({})", self.phase)?;
        if let Some(t) = &self.inst_text {
            write!(f, "\n   |  {t}")?;
        }
        for note in self.notes() {
            write!(f, "\n  note: {note}")?;
        }
        Ok(())
    }
}

impl Trap {
    /// What else is known of the place, in sentences.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let inlined = self.inlined.iter().map(|call| format!("inlined into {call}"));
        inlined.chain(self.source_name.iter().map(|name| format!("the function is {name}")))
    }
}

impl Error {
    /// Whether a program was refused because it cannot be derived for several directions at once
    /// (AD0180): for one it can be, unless something else is said.
    pub fn has_no_batch(&self) -> bool {
        matches!(self, Error::Diagnostics(all) if all.0.iter().any(|d| d.code == "AD0180"))
    }

    /// Whether one direction at a time may do where several at once do not: they are refused, or
    /// their frames have filled the stack.
    pub fn is_too_wide(&self) -> bool {
        self.has_no_batch() || matches!(self, Error::Trap(t) if t.code == "stk_ovf")
    }
}

/// Anything that can go wrong between a program and its gradient.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot be differentiated as asked; every problem is listed.
    #[error("{0}")]
    Diagnostics(#[from] Diagnostics),
    /// The run did not finish. The rule can be called again.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// Wrong number or type of arguments, seeds or shadows.
    #[error("{0}")]
    Usage(String),
    /// A bug in Brolga.
    #[error("internal error in stage {stage}: {message}")]
    Internal {
        /// The stage that failed.
        stage: &'static str,
        /// What happened, with the dump where there is one.
        message: String,
    },
}
