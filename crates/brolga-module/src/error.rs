//! Errors of a derivative that is asked of a module.
//!
//! **Question.** Why is there no derivative, and what is to be done?
//!
//! **Answer.** [`AdError`] has three classes: the program cannot be differentiated as asked, the
//! request makes no sense for the module, or the module does not accept what was derived.
//!
//! **Invariant.** After an error the module is as it was, or everything in it that is declared is
//! defined.
//!
//! **Cost.** None, where nothing goes wrong.

use brolga_ir::Diagnostics;
use cranelift_module::ModuleError;

/// Why there is no derivative. The module is as it was, or everything in it that is declared is
/// defined.
///
/// ```
/// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
/// # use cranelift_jit::{JITBuilder, JITModule};
/// # use cranelift_module::{Linkage, Module, default_libcall_names};
/// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
/// # let mut module = AdModule::new(jit()?);
/// # let mut cx = module.make_context();
/// # let text = "function %f(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
/// # cx.func = cranelift_reader::parse_functions(text)?.remove(0);
/// # cx.func.signature.call_conv = module.target_config().default_call_conv;
/// # let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
/// # module.define_function(f, &mut cx)?;
/// // A gradient is one function, and a pair is two.
/// let Err(AdError::Usage(message)) = module.pair(f, &Spec::gradient([Active])) else { panic!("it is refused") };
/// assert!(message.contains("`Spec::pair`"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
