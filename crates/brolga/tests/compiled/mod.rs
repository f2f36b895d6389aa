//! Functions as text, compiled as they are: for tests of passes over CLIF.

use brolga::jit::host_isa;
use cranelift_codegen::ir;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};

/// Functions compiled together, and where they are, in order.
pub fn compile(funcs: Vec<ir::Function>) -> (JITModule, Vec<*const u8>) {
    let isa = host_isa(&brolga::Options::full()).unwrap();
    let mut module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
    let mut ids = Vec::new();
    for (i, func) in funcs.into_iter().enumerate() {
        let text = func.to_string();
        let id = module.declare_function(&format!("f{i}"), Linkage::Local, &func.signature).unwrap();
        let mut ctx = cranelift_codegen::Context::for_function(func);
        ctx.func.name = ir::UserFuncName::user(0, id.as_u32());
        module.define_function(id, &mut ctx).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        ids.push(id);
    }
    module.finalize_definitions().unwrap();
    let found = ids.into_iter().map(|id| module.get_finalized_function(id)).collect();
    (module, found)
}
