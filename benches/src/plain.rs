//! Functions as they are, compiled without Brolga: the adjoints written by hand, and primals whose
//! way to machine code is timed.
//!
//! They go through the Cranelift that derived functions go through, with the same flags, and
//! adjoints get the same kind of entry point.

use std::collections::HashMap;
use std::sync::LazyLock;

use brolga::Error;
use brolga::cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, Function, InstBuilder, MemFlagsData, Signature, UserExternalName,
    UserFuncName, types,
};
use brolga::cranelift_codegen::isa::OwnedTargetIsa;
use brolga::cranelift_codegen::verify_function;
use brolga_analysis::calls::summarise::reachable;
use brolga_ir::program::symbol_of;
use brolga_ir::{FuncKey, Program};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};

use crate::Configuration;

/// Functions of a program, compiled.
pub struct PlainModule {
    module: Option<JITModule>,
    /// Entry points.
    entries: HashMap<String, FuncId>,
}

impl Drop for PlainModule {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: an address is kept together with this value.
            unsafe { module.free_memory() }
        }
    }
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::Internal { stage: "plain", message: error.to_string() }
}

impl PlainModule {
    /// Compile all functions of a program, which may call each other and the functions of
    /// `brolga_runtime::symbols`, with entry points.
    ///
    /// # Errors
    /// What Cranelift refuses.
    pub fn new(program: &Program) -> Result<Self, Error> {
        let isa = brolga::jit::host_isa(&Configuration::default().options())?;
        let (mut module, names) = declared(program, isa)?;
        let mut entries = HashMap::new();
        for f in program.funcs.values() {
            let Some(body) = &f.body else { continue };
            let id = names[&f.symbol];
            let body = resolved(&mut module, &names, id, body)?;
            define(&mut module, id, body)?;
            entries.insert(f.symbol.clone(), entry_point(&mut module, id, &f.symbol, &f.signature)?);
        }
        module.finalize_definitions().map_err(internal)?;
        Ok(Self { module: Some(module), entries })
    }

    /// Verify and compile a function and what it calls, until it can be called: what a program pays
    /// that has no derivatives. It has no entry point.
    ///
    /// # Errors
    /// What Cranelift refuses.
    pub fn ready(program: &Program, root: FuncKey, isa: OwnedTargetIsa) -> Result<Self, Error> {
        let (mut module, names) = declared(program, isa.clone())?;
        for key in reachable(program, root) {
            let f = &program.funcs[key];
            let Some(body) = &f.body else { continue };
            verify_function(body, &*isa).map_err(internal)?;
            let id = names[&f.symbol];
            let body = resolved(&mut module, &names, id, body)?;
            define(&mut module, id, body)?;
        }
        module.finalize_definitions().map_err(internal)?;
        std::hint::black_box(module.get_finalized_function(names[&program.funcs[root].symbol]));
        Ok(Self { module: Some(module), entries: HashMap::new() })
    }

    /// The address of a function's entry point.
    pub fn entry(&self, symbol: &str) -> Option<usize> {
        Some(self.module.as_ref()?.get_finalized_function(*self.entries.get(symbol)?) as usize)
    }
}

/// A module in which the functions of a program are declared.
fn declared(program: &Program, isa: OwnedTargetIsa) -> Result<(JITModule, HashMap<String, FuncId>), Error> {
    static SYMBOLS: LazyLock<HashMap<&'static str, usize>> =
        LazyLock::new(|| brolga_runtime::symbols().into_iter().map(|(name, at)| (name, at as usize)).collect());
    let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
    builder.symbol_lookup_fn(Box::new(|symbol| SYMBOLS.get(symbol).map(|&at| at as *const u8)));
    let mut module = JITModule::new(builder);
    let mut names = HashMap::new();
    for f in program.funcs.values() {
        let (name, linkage) = match f.body {
            Some(_) => (format!("plain.{}", f.symbol), Linkage::Local),
            None => (f.symbol.clone(), Linkage::Import),
        };
        names.insert(f.symbol.clone(), module.declare_function(&name, linkage, &f.signature).map_err(internal)?);
    }
    Ok((module, names))
}

/// A body that calls by the numbers that functions have in a module.
fn resolved(
    module: &mut JITModule,
    names: &HashMap<String, FuncId>,
    id: FuncId,
    body: &Function,
) -> Result<Function, Error> {
    let mut body = body.clone();
    for r in body.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        let callee = &body.dfg.ext_funcs[r];
        let (symbol, signature) = (symbol_of(&body, &callee.name).to_owned(), callee.signature);
        let callee = match names.get(&symbol) {
            Some(id) => *id,
            None => {
                let signature = &body.dfg.signatures[signature];
                module.declare_function(&symbol, Linkage::Import, signature).map_err(internal)?
            }
        };
        let name = UserExternalName { namespace: 0, index: callee.as_u32() };
        let name = body.declare_imported_user_function(name);
        body.dfg.ext_funcs[r].name = ExternalName::user(name);
    }
    body.name = UserFuncName::user(0, id.as_u32());
    Ok(body)
}

fn define(module: &mut JITModule, id: FuncId, body: Function) -> Result<(), Error> {
    let mut context = module.make_context();
    context.func = body;
    module.define_function(id, &mut context).map_err(internal)
}

/// A function of one pointer, to cells of 16 bytes for arguments and results.
fn entry_point(module: &mut JITModule, callee: FuncId, symbol: &str, signature: &Signature) -> Result<FuncId, Error> {
    let mut entry = module.make_signature();
    entry.params.push(AbiParam::new(types::I64));
    let id = module.declare_function(&format!("plain.{symbol}.entry"), Linkage::Local, &entry).map_err(internal)?;
    let mut func = Function::with_name_signature(UserFuncName::user(0, id.as_u32()), entry);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_all_blocks();
    let cells = b.block_params(block)[0];
    let flags = MemFlagsData::new().with_notrap();
    let at = |i: usize| i32::try_from(i * 16).unwrap_or(i32::MAX);
    let params = signature.params.iter().enumerate();
    let args: Vec<_> = params.map(|(i, p)| b.ins().load(p.value_type, flags, cells, at(i))).collect();
    let signature = b.import_signature(signature.clone());
    let name = b.func.declare_imported_user_function(UserExternalName { namespace: 0, index: callee.as_u32() });
    let name = ExternalName::user(name);
    let callee = b.import_function(ExtFuncData { name, signature, colocated: false, patchable: false });
    let call = b.ins().call(callee, &args);
    for (i, result) in b.inst_results(call).to_vec().into_iter().enumerate() {
        b.ins().store(flags, result, cells, at(i));
    }
    b.ins().return_(&[]);
    b.finalize(module.isa().frontend_config());
    define(module, id, func)?;
    Ok(id)
}
