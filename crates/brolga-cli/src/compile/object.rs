//! Object: derived functions, with all that they call and name, as an object file.
//!
//! **Question.** What has to be in the object for the derivatives to be linked, and what does it
//! leave to other objects?
//!
//! **Answer.** Functions that derivatives call as they are become functions of the object, too, and
//! are local to it. Data is local as well, unless it has a shadow: then both are the caller's to
//! see. What is named and not there is [`Object::undefined`].
//!
//! **Errors.** Helpers of Cranelift that no library has, data in bytes on a big-endian machine, and
//! data that holds addresses of functions.
//!
//! **Cost.** One compilation by Cranelift of all functions, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use brolga::Program;
use brolga_ir::program::{functions_used, symbol_of, symbols_used};
use brolga_module::cranelift_module::{DataDescription, DataId, Linkage, Module, ModuleError, default_libcall_names};
use brolga_module::{AdModule, DataActivity, EmbeddedFunctions};
use cranelift_codegen::ir::{self, LibCall};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_object::{ObjectBuilder, ObjectModule};
use target_lexicon::Endianness;

use super::binding::Data;
use crate::failure::Failure;

/// Functions that are visible, and their names.
pub(super) type ExportedFunctions = (EmbeddedFunctions, Vec<String>);

/// An object file.
pub(super) struct Object {
    pub bytes: Vec<u8>,
    /// Data that is visible.
    pub data: Vec<Data>,
    /// What it names and does not hold.
    pub undefined: BTreeSet<String>,
}

/// The object of these functions.
pub(super) fn object(
    isa: OwnedTargetIsa,
    name: &str,
    roots: &[ExportedFunctions],
    image: Option<(&str, &[u8])>,
) -> Result<Object, Failure> {
    let called = Arc::new(Mutex::new(Vec::new()));
    let names = default_libcall_names();
    let note = Arc::clone(&called);
    let libcall = Box::new(move |call: LibCall| {
        note.lock().expect("no thread has failed").push(call);
        names(call)
    });
    let mut builder = ObjectBuilder::new(isa, name, libcall).map_err(|e| failed("an object file", &e))?;
    builder.per_function_section(true);
    let mut module = AdModule::new(ObjectModule::new(builder));
    let data = data(&mut module, roots)?;
    if let Some((name, bytes)) = image {
        let id = module.declare_data(name, Linkage::Export, false, false).map_err(|e| failed(name, &e))?;
        let mut description = DataDescription::new();
        description.define(bytes.into());
        description.set_align(16);
        module.define_data(id, &description).map_err(|e| failed(name, &e))?;
    }
    for (embedded, names) in roots {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        module.define(embedded, &names, Linkage::Export).map_err(|e| Failure::Other(e.to_string()))?;
    }
    let imports = module.declarations().get_functions().filter(|f| f.1.linkage == Linkage::Import);
    let mut undefined: BTreeSet<String> = imports.map(|(id, f)| f.linkage_name(id).into_owned()).collect();
    let bytes = module.into_inner().finish().emit().map_err(|e| Failure::Other(format!("the object: {e}")))?;
    for call in called.lock().expect("no thread has failed").iter() {
        let help = match call {
            LibCall::X86Pshufb => "--set has_ssse3=true lets the machine do it",
            LibCall::Probestack => "--set probestack_strategy=inline does without",
            LibCall::ElfTlsGetAddr | LibCall::ElfTlsGetOffset => "thread-local data is not supported",
            _ => {
                undefined.insert(default_libcall_names()(*call));
                continue;
            }
        };
        return Err(Failure::Other(format!(
            "the code calls `{}`, which no library has: {help}",
            default_libcall_names()(*call)
        )));
    }
    Ok(Object { bytes, data, undefined })
}

fn failed(what: &str, e: &ModuleError) -> Failure {
    Failure::Other(format!("{what}: {e}"))
}

/// Put the data that functions name into the module.
fn data(module: &mut AdModule<ObjectModule>, roots: &[ExportedFunctions]) -> Result<Vec<Data>, Failure> {
    let mut objects = BTreeMap::new();
    let mut shadowed = BTreeSet::new();
    for (embedded, _) in roots {
        let program = &embedded.program;
        for symbol in named(embedded) {
            if let Some(key) = program.data_object(&symbol) {
                objects.entry(symbol).or_insert_with(|| program.data[key].clone());
            }
        }
        shadowed.extend(embedded.shadows.iter().map(|s| program.data[s.0].symbol.clone()));
    }
    // A shadow is of data that the functions need not name themselves.
    for (embedded, _) in roots {
        for (key, _) in &embedded.shadows {
            let object = &embedded.program.data[*key];
            objects.entry(object.symbol.clone()).or_insert_with(|| object.clone());
        }
    }
    let mut visible = Vec::new();
    for (symbol, object) in &objects {
        if module.isa().triple().endianness() == Ok(Endianness::Big) && object.bytes.iter().any(|b| *b != 0) {
            return Err(Failure::Other(format!(
                "%{symbol} is data in bytes of a little-endian machine, and {} is big-endian: pass it as an argument",
                module.isa().triple()
            )));
        }
        if !object.functions.is_empty() {
            return Err(Failure::Other(format!(
                "%{symbol} holds addresses of functions, which data in an object cannot yet: call them by name"
            )));
        }
        let shadow = shadowed.contains(symbol);
        let linkage = if shadow { Linkage::Export } else { Linkage::Local };
        let mut define = |name: &str, bytes: Option<&[u8]>, writable| -> Result<DataId, Failure> {
            let id = module.declare_data(name, linkage, writable, false).map_err(|e| failed(name, &e))?;
            let mut description = DataDescription::new();
            match bytes {
                Some(bytes) => description.define(bytes.into()),
                None => description.define_zeroinit(object.bytes.len()),
            }
            description.set_align(object.align.max(16));
            module.define_data(id, &description).map_err(|e| failed(name, &e))?;
            Ok(id)
        };
        let primal = define(symbol, Some(&object.bytes), object.writable)?;
        if shadow {
            let name = format!("{symbol}_shadow");
            let shadow = define(&name, None, true)?;
            module.set_data(primal, DataActivity::Shadow(shadow));
            visible.push(Data { symbol: symbol.clone(), shadow: name, bytes: object.bytes.len() });
        }
    }
    Ok(visible)
}

/// The functions of a derivation, and those that they call as they are.
fn reached(embedded: &EmbeddedFunctions) -> Vec<&ir::Function> {
    let mut seen: BTreeSet<String> = embedded.functions.iter().map(|f| f.symbol.clone()).collect();
    let mut out: Vec<&ir::Function> = embedded.functions.iter().map(|f| &f.func).collect();
    let mut at = 0;
    while at < out.len() {
        let more = callees(out[at], &embedded.program).filter(|f| seen.insert(f.0.clone())).map(|f| f.1);
        let more: Vec<&ir::Function> = more.collect();
        out.extend(more);
        at += 1;
    }
    out
}

/// What they name as data.
fn named(embedded: &EmbeddedFunctions) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for func in reached(embedded) {
        for gv in symbols_used(func).iter() {
            if let ir::GlobalValueData::Symbol { name, .. } = &func.global_values[gv] {
                out.insert(symbol_of(func, name));
            }
        }
    }
    out
}

/// A function that a host implements, if one is called.
pub(super) fn of_host(embedded: &EmbeddedFunctions) -> Option<String> {
    let program = &embedded.program;
    reached(embedded).into_iter().find_map(|func| {
        let called = functions_used(func);
        let mut symbols = called.iter().map(|r| symbol_of(func, &func.dfg.ext_funcs[r].name));
        symbols.find(|s| program.func(s).is_some_and(|k| program.funcs[k].host.is_some()))
    })
}

fn callees<'a>(func: &'a ir::Function, program: &'a Program) -> impl Iterator<Item = (String, &'a ir::Function)> {
    let used: Vec<ir::FuncRef> = functions_used(func).iter().collect();
    used.into_iter().filter_map(|r| {
        let symbol = symbol_of(func, &func.dfg.ext_funcs[r].name);
        let f = &program.funcs[program.func(&symbol)?];
        let body = f.body.as_ref().filter(|_| !f.stand_in)?;
        Some((symbol, body))
    })
}
