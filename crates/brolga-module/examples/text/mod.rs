//! Functions of a text, in a module.

use brolga_module::AdModule;
use cranelift_module::{FuncId, Linkage, Module};

/// Define the functions of a text, in its order. What they call and the text does not have is
/// imported.
pub(crate) fn define<M: Module>(
    module: &mut AdModule<M>,
    text: &str,
) -> Result<Vec<FuncId>, Box<dyn std::error::Error>> {
    let mut ids = vec![];
    for func in cranelift_reader::parse_functions(text)? {
        let mut cx = module.make_context();
        let convention = module.target_config().default_call_conv;
        cx.func = func;
        cx.func.signature.call_conv = convention;
        // A name of the text is one of the module.
        for r in cx.func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
            let callee = cx.func.dfg.ext_funcs[r].clone();
            cx.func.dfg.signatures[callee.signature].call_conv = convention;
            let signature = cx.func.dfg.signatures[callee.signature].clone();
            let name = callee.name.display(None).to_string();
            let id = module.declare_function(name.trim_start_matches('%'), Linkage::Import, &signature)?;
            let declared = module.declare_func_in_func(id, &mut cx.func);
            cx.func.dfg.ext_funcs[r] = cx.func.dfg.ext_funcs[declared].clone();
        }
        let name = cx.func.name.to_string();
        let id = module.declare_function(name.trim_start_matches('%'), Linkage::Local, &cx.func.signature)?;
        module.define_function(id, &mut cx)?;
        ids.push(id);
    }
    Ok(ids)
}
