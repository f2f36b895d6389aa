//! A program in a module of Cranelift's, as a frontend would have put it there.
//!
//! **Question.** A test has a program. How does it get into a module, with data, and called by one
//! pointer?
//!
//! **Answer.** [`load`] declares and defines all that a root reaches; [`entry`] makes a function
//! that reads arguments from memory.
//!
//! **Cost.** A copy of each body.

use std::collections::BTreeMap;

use brolga_ir::program::symbol_of;
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::{self, ExternalName, UserExternalName, UserFuncName};
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module, ModuleError};

/// What a program's functions and data are in a module, by their symbols.
#[derive(Default)]
pub struct LoadedModule {
    /// Functions, imports among them.
    pub functions: BTreeMap<String, FuncId>,
    /// Data objects.
    pub data: BTreeMap<String, DataId>,
}

/// Declare and define all functions and data that `root` reaches.
///
/// # Errors
/// What the module says, if it does not compile a function.
pub fn load<M: Module>(module: &mut M, program: &Program, root: FuncKey) -> Result<LoadedModule, Box<ModuleError>> {
    let mut out = LoadedModule::default();
    for d in program.data.values() {
        let id = module.declare_data(&d.symbol, Linkage::Local, d.writable, false)?;
        let mut description = DataDescription::new();
        description.define(d.bytes.clone().into_boxed_slice());
        description.set_align(d.align.max(8));
        module.define_data(id, &description)?;
        out.data.insert(d.symbol.clone(), id);
    }
    let mut work = vec![root];
    let mut at = 0;
    while at < work.len() {
        let f = &program.funcs[work[at]];
        let linkage = if f.body.is_some() { Linkage::Local } else { Linkage::Import };
        let id = module.declare_function(&f.symbol, linkage, &f.signature)?;
        out.functions.insert(f.symbol.clone(), id);
        if let Some(body) = &f.body {
            let callees = body.dfg.ext_funcs.keys().filter_map(|r| program.callee(body, r)).collect::<Vec<_>>();
            callees.into_iter().for_each(|k| {
                if !work.contains(&k) {
                    work.push(k)
                }
            });
        }
        at += 1;
    }
    for k in work {
        let f = &program.funcs[k];
        let Some(body) = &f.body else { continue };
        let id = out.functions[&f.symbol];
        let mut cx = module.make_context();
        cx.func = named(body, &out);
        cx.func.name = UserFuncName::user(0, id.as_u32());
        module.define_function(id, &mut cx)?;
    }
    Ok(out)
}

/// A body whose names are ids.
fn named(body: &ir::Function, loaded: &LoadedModule) -> ir::Function {
    let mut func = body.clone();
    let id = |symbol: &str| match (loaded.functions.get(symbol), loaded.data.get(symbol)) {
        (Some(f), _) => Some((0, f.as_u32())),
        (None, Some(d)) => Some((1, d.as_u32())),
        (None, None) => None,
    };
    for r in func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        if let Some((namespace, index)) = id(&symbol_of(body, &body.dfg.ext_funcs[r].name)) {
            let name = func.declare_imported_user_function(UserExternalName { namespace, index });
            func.dfg.ext_funcs[r].name = ExternalName::user(name);
            func.dfg.ext_funcs[r].colocated = false;
        }
    }
    for gv in func.global_values.keys().collect::<Vec<_>>() {
        let ir::GlobalValueData::Symbol { name, .. } = &body.global_values[gv] else { continue };
        if let Some((namespace, index)) = id(&symbol_of(body, name)) {
            let user = func.declare_imported_user_function(UserExternalName { namespace, index });
            if let ir::GlobalValueData::Symbol { name, .. } = &mut func.global_values[gv] {
                *name = ExternalName::user(user);
            }
        }
    }
    func
}

/// Define a function of one pointer that calls another: it reads arguments from cells of 16 bytes,
/// and writes results there.
///
/// # Errors
/// What the module says.
pub fn entry<M: Module>(module: &mut M, callee: FuncId) -> Result<FuncId, Box<ModuleError>> {
    use cranelift_codegen::cursor::{Cursor, FuncCursor};
    use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, types};
    let decl = module.declarations().get_function_decl(callee);
    let (sig, name) = (decl.signature.clone(), format!("{}.entry", decl.linkage_name(callee)));
    let mut cx = module.make_context();
    cx.func.signature.params.push(AbiParam::new(types::I64));
    let id = module.declare_function(&name, Linkage::Local, &cx.func.signature)?;
    cx.func.name = UserFuncName::user(0, id.as_u32());
    let callee = module.declare_func_in_func(callee, &mut cx.func);
    let block = cx.func.dfg.make_block();
    cx.func.layout.append_block(block);
    let cells = cx.func.dfg.append_block_param(block, types::I64);
    let mut cursor = FuncCursor::new(&mut cx.func).at_bottom(block);
    let flags = MemFlagsData::new();
    let load = |(i, p): (usize, &AbiParam)| cursor.ins().load(p.value_type, flags, cells, 16 * i as i32);
    let args: Vec<ir::Value> = sig.params.iter().enumerate().map(load).collect();
    let call = cursor.ins().call(callee, &args);
    let results = cursor.func.dfg.inst_results(call).to_vec();
    for (i, r) in results.into_iter().enumerate() {
        cursor.ins().store(flags, r, cells, 16 * i as i32);
    }
    cursor.ins().return_(&[]);
    module.define_function(id, &mut cx)?;
    Ok(id)
}
