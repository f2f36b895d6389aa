//! What can go wrong when a derivative is asked of a module.

use brolga_ir::Diagnostics;
use cranelift_module::ModuleError;

/// Why there is no derivative. The module is as it was, or everything in it that is declared is
/// defined.
#[derive(Debug, thiserror::Error)]
pub enum AdError {
    /// The program cannot be differentiated as asked: every problem, with function, block and
    /// instruction.
    #[error("{0}")]
    Diagnostics(#[from] Diagnostics),
    /// The request makes no sense for this module. The sentence says what to do instead.
    #[error("{0}")]
    Usage(String),
    /// The module does not accept what was derived.
    #[error("{what}: {source}")]
    Module {
        /// What was being done.
        what: String,
        /// What the module says.
        source: Box<ModuleError>,
    },
}

impl AdError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn module(what: impl Into<String>, source: ModuleError) -> Self {
        Self::Module { what: what.into(), source: Box::new(source) }
    }
}
