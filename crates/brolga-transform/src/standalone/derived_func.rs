//! Derived functions on their way into a program or an embedder's module.
//!
//! **Question.** What goes along with a derived function until it is defined elsewhere?
//!
//! **Answer.** A [`DerivedFunc`] has its symbol, the function that it derives from, and the
//! parameter that is its workspace. [`duplicated`] lists the parameters that come with a shadow.
//!
//! **Cost.** None at run time. Functions are moved, not copied.

use brolga_analysis::{ParamMode, Variant};
use brolga_ir::FuncKey;
use cranelift_codegen::ir;

/// A derived function on its way.
pub(crate) struct DerivedFunc {
    pub symbol: String,
    pub func: ir::Function,
    pub of: FuncKey,
    /// Which parameter is the workspace, if it has one.
    pub segment: Option<usize>,
}

/// Parameters of the primal that come with a shadow.
pub(crate) fn duplicated(variant: &Variant) -> impl Iterator<Item = usize> + '_ {
    (0..variant.params.len()).filter(|&i| matches!(variant.params[i], ParamMode::Dup { .. }))
}
