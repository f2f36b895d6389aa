//! What the functions of templates are built with: an entry block, and calls by symbol.

use brolga_ir::names::Names;
use cranelift_codegen::ir::{self, InstBuilder, Signature, UserFuncName};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

/// A function of a template, and its parameters.
pub(super) fn begin<'b>(
    func: &'b mut ir::Function,
    cx: &'b mut FunctionBuilderContext,
) -> (FunctionBuilder<'b>, Vec<ir::Value>) {
    func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
    let mut b = FunctionBuilder::new(func, cx);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let params = b.block_params(block).to_vec();
    (b, params)
}

/// A function without a body.
pub(super) fn empty(names: &mut Names, symbol: &str, signature: Signature) -> ir::Function {
    ir::Function::with_name_signature(UserFuncName::testcase(names.spell(symbol)), signature)
}

/// A call of a function by its symbol.
pub(super) fn call_of(
    b: &mut FunctionBuilder<'_>,
    names: &mut Names,
    symbol: &str,
    signature: Signature,
    args: &[ir::Value],
) -> Vec<ir::Value> {
    let signature = b.import_signature(signature);
    let name = ir::ExternalName::testcase(names.spell(symbol));
    let callee = b.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let call = b.ins().call(callee, args);
    b.inst_results(call).to_vec()
}
