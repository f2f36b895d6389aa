//! Derived functions on their way into a program or an embedder's module.

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
