//! From a module to a [`Program`]: one CLIF function for each Wasm function, and a few helpers.
//!
//! A function of type `[t…] -> [u…]` becomes `(i64 vmctx, t…) -> (u…)`; see [`crate::layout`] for
//! what `vmctx` points at. References are 32-bit numbers: 0 is null, a function is its number among
//! those that have references, plus one. So a table holds numbers and no addresses, and needs no
//! shadow of its own. A call through a table goes to the *dispatcher* of its type, `(i64 vmctx, i32
//! reference, t…)`, a `br_table` of direct calls: the callees are known, so a derivative is as
//! exact as through a direct call, and nothing depends on where code lies.
//!
//! | part | file |
//! |---|---|
//! | control flow, locals, calls | `func` |
//! | numbers | `ops` |
//! | vectors | `simd` |
//! | linear memory, globals, tables | `memory` |
//! | dispatchers, `memory.grow`, table loops | `helpers` |

mod func;
mod helpers;
mod memory;
mod ops;
mod simd;

use std::collections::{BTreeMap, HashMap, HashSet};

use brolga::cranelift_codegen::ir::{self, AbiParam, ArgumentPurpose, Signature, Type, types};
use brolga::cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use brolga::{DataObject, FuncKey, Program};
use indexmap::IndexMap;
use wasmparser::{ExternalKind, FuncType, ValType};

use crate::around;
use crate::error::{Error, trap};
use crate::imports::{HostFunc, Provided, Provider};
use crate::layout::Layout;
use crate::parse::{ConstOp, Elem, Func, Info};

pub(crate) use func::Fx;
pub(crate) use helpers::{Helper, call_host};
pub(crate) use ops::little;

/// How accesses of linear memory are kept inside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bounds {
    /// By pages that may not be accessed: no comparison at all. Needs the host's signals, so it is
    /// for compiled code.
    Guard,
    /// By a comparison with the memory's size before every access.
    Checked,
}

/// What a program is translated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// How memory is kept in bounds.
    pub bounds: Bounds,
    /// Whether loops and functions use up fuel.
    pub fuel: bool,
}

/// A translated module.
pub struct Translated {
    /// The functions.
    pub program: Program,
    /// Key of each function of the index space that is defined in the module.
    pub funcs: Vec<Option<FuncKey>>,
    /// Number of each function that has references.
    pub refs: BTreeMap<u32, u32>,
}

/// What functions share while they are translated.
pub(crate) struct Env<'e, 'a> {
    pub info: &'e Info<'a>,
    pub layout: &'e Layout,
    pub mode: Mode,
    pub config: TargetFrontendConfig,
    pub program: Program,
    /// Symbol of each function of the index space.
    pub symbols: Vec<String>,
    /// What provides each imported function, and each that is replaced.
    pub provided: Vec<Option<Provided>>,
    /// Functions that have references, in the order of their numbers.
    refs: IndexMap<u32, ()>,
    /// Types of calls through tables, with their dispatchers.
    dispatchers: IndexMap<FuncType, String>,
    /// Helpers that something calls.
    helpers: IndexMap<helpers::Helper, String>,
    conv: CallConv,
}

/// A reference to a function or data object by symbol.
pub(crate) type Symbol = ir::ExternalName;

pub(crate) fn named(symbol: &str) -> Symbol {
    ir::ExternalName::testcase(symbol)
}

/// The CLIF type of values.
pub(crate) fn clif_type(ty: ValType) -> Type {
    match ty {
        ValType::I32 | ValType::Ref(_) => types::I32,
        ValType::I64 => types::I64,
        ValType::F32 => types::F32,
        ValType::F64 => types::F64,
        ValType::V128 => types::I8X16,
    }
}

impl<'e, 'a> Env<'e, 'a> {
    /// The signature of a function with the instance in front.
    pub fn signature(&self, ty: &FuncType) -> Signature {
        self.signature_of(ty.params().iter().map(|t| clif_type(*t)), ty.results().iter().map(|t| clif_type(*t)))
    }

    /// The same from CLIF types.
    pub fn signature_of(
        &self,
        params: impl IntoIterator<Item = Type>,
        results: impl IntoIterator<Item = Type>,
    ) -> Signature {
        let mut sig = Signature::new(self.conv);
        sig.params.push(AbiParam::special(types::I64, ArgumentPurpose::VMContext));
        sig.params.extend(params.into_iter().map(AbiParam::new));
        sig.returns.extend(results.into_iter().map(AbiParam::new));
        sig
    }

    /// Whether functions have the convention that tail calls need. Then dispatchers must not use
    /// stack either.
    pub fn has_tail_calls(&self) -> bool {
        self.conv == CallConv::Tail
    }

    /// The number of a reference to a function.
    pub fn reference(&mut self, func: u32) -> u32 {
        self.refs.insert_full(func, ()).0 as u32 + 1
    }

    /// The symbol of the dispatcher for a type.
    pub fn dispatcher(&mut self, ty: &FuncType) -> String {
        if let Some(s) = self.dispatchers.get(ty) {
            return s.clone();
        }
        let symbol = format!("call.type{}", self.dispatchers.len());
        self.dispatchers.insert(ty.clone(), symbol.clone());
        symbol
    }

    /// The symbol of a helper.
    pub fn helper(&mut self, helper: helpers::Helper) -> String {
        self.helpers.entry(helper).or_insert_with(|| helper.symbol()).clone()
    }

    /// The references of an element segment as a data object, `elem` and its number.
    pub fn use_elem(&mut self, elem: u32, offset: u64) -> Result<(), Error> {
        let symbol = format!("elem{elem}");
        if self.program.data_object(&symbol).is_some() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for c in &self.info.elems[elem as usize].items {
            let bits = match c.0[..] {
                [ConstOp::Bits(bits)] => bits as u32,
                [ConstOp::Func(f)] => self.reference(f),
                _ => {
                    let what = format!("element segment {elem}, whose entries depend on globals, in `table.init`");
                    return Err(Error::unsupported(what, offset, "list functions in the segment"));
                }
            };
            bytes.extend(bits.to_le_bytes());
        }
        let object = DataObject { symbol, bytes, align: 16, writable: false };
        let taken = |s: String| Error::Internal { stage: "translate", message: format!("%{s} is defined twice") };
        self.program.define_data(object).map(|_| ()).map_err(taken)
    }

    /// Define a finished function. Its source locations are offsets in the module.
    pub fn define(&mut self, symbol: &str, func: ir::Function) -> Result<FuncKey, Error> {
        let internal = |message: String| Error::Internal { stage: "translate", message };
        if let Err(e) = cranelift_codegen::verify_function(&func, &*crate::host_isa()?) {
            return Err(internal(format!("{}\n{func}", e)));
        }
        let offsets: HashMap<ir::Inst, u32> = func
            .layout
            .blocks()
            .flat_map(|b| func.layout.block_insts(b))
            .map(|i| (i, func.srcloc(i)))
            .filter(|(_, l)| !l.is_default())
            .map(|(i, l)| (i, l.bits()))
            .collect();
        self.program
            .define(symbol, func, |i| offsets.get(&i).map_or(0, |at| at | brolga_ir::OFFSET))
            .map_err(|s| internal(format!("%{s} is defined twice, or called as something else")))
    }
}

/// Translate all functions of a module.
pub fn translate(info: &Info<'_>, layout: &Layout, provider: &Provider<'_>, mode: Mode) -> Result<Translated, Error> {
    let provided = provider.resolve(info)?;
    let tail = info.funcs.iter().filter_map(|f| f.body.as_ref()).any(func::has_tail_calls);
    let isa = crate::host_isa()?;
    let names = names(info);
    let mut env = Env {
        info,
        layout,
        mode,
        config: isa.frontend_config(),
        program: Program::new(),
        symbols: symbols(&names, &provided),
        provided,
        refs: IndexMap::new(),
        dispatchers: IndexMap::new(),
        helpers: IndexMap::new(),
        conv: if tail { CallConv::Tail } else { CallConv::Fast },
    };
    env.program.vmctx_pointers_only = true;
    env.program.short_indices = env.layout.has_room();
    env.program.confined = true;
    env.program.traps = trap::names();
    data_objects(&mut env)?;
    reference_numbers(&mut env);
    let mut funcs = vec![None; info.funcs.len()];
    let mut context = func::Context::default();
    for (i, f) in info.funcs.iter().enumerate() {
        funcs[i] = match &f.body {
            Some(body) if env.provided[i].is_none() => {
                let symbol = env.symbols[i].clone();
                Some(func::translate(&mut env, &mut context, &symbol, i as u32, body)?)
            }
            Some(body) if matches!(env.provided[i], Some(Provided::Around(_))) => {
                let symbol = helpers::own(&env.symbols[i]);
                let key = func::translate(&mut env, &mut context, &symbol, i as u32, body)?;
                env.program.func_mut(key).untracked = true;
                helpers::import_shim(&mut env, &mut context, i as u32)?
            }
            _ => helpers::import_shim(&mut env, &mut context, i as u32)?,
        };
        if let Some(key) = funcs[i] {
            let missing = f.import.as_ref().filter(|_| matches!(env.provided[i], Some(Provided::Missing)));
            let other = names[i].filter(|&n| n != env.symbols[i]).map(str::to_owned);
            env.program.func_mut(key).called =
                missing.map(|m| format!("the import `{}` of `{}`", m.name, m.module)).or(other);
        }
    }
    helpers::define(&mut env, &mut context)?;
    // Others may call what is exported, or in a table.
    let exported = info.exports.iter().filter(|e| e.kind == ExternalKind::Func).map(|e| e.index);
    let known = exported.chain(env.refs.keys().copied()).chain(info.start).filter_map(|i| funcs[i as usize]).collect();
    around::spread(&mut env.program, &known);
    let refs = env.refs.keys().enumerate().map(|(n, &f)| (f, n as u32 + 1)).collect();
    Ok(Translated { program: env.program, funcs, refs })
}

/// Passive segments are constant data of the program. (Active ones are the host's to write.)
fn data_objects(env: &mut Env<'_, '_>) -> Result<(), Error> {
    let taken = |s: String| Error::Internal { stage: "translate", message: format!("%{s} is defined twice") };
    for (i, d) in env.info.data.iter().enumerate() {
        let object = DataObject { symbol: format!("data{i}"), bytes: d.bytes.to_vec(), align: 16, writable: false };
        env.program.define_data(object).map_err(taken)?;
    }
    Ok(())
}

/// Number the functions that have references, except those that only code refers to.
fn reference_numbers(env: &mut Env<'_, '_>) {
    let info = env.info;
    let items = info.elems.iter().flat_map(|e: &Elem| &e.items);
    let all = items.chain(info.globals.iter().filter_map(|g| g.init.as_ref()));
    for c in all.chain(info.tables.iter().filter_map(|t| t.init.as_ref())) {
        for op in &c.0 {
            if let ConstOp::Func(f) = op {
                env.reference(*f);
            }
        }
    }
}

/// What the module calls each function: in its export, or in the name section, or where it is
/// imported.
fn names<'a>(info: &'a Info<'_>) -> Vec<Option<&'a str>> {
    let mut exported: HashMap<u32, &str> = HashMap::new();
    for e in &info.exports {
        if matches!(e.kind, ExternalKind::Func | ExternalKind::FuncExact) {
            exported.entry(e.index).or_insert(&e.name);
        }
    }
    let name = |(i, f): (u32, &'a Func<'_>)| {
        let import = f.import.as_ref().map(|i| i.name.as_str());
        exported.get(&i).copied().or(info.names.get(&i).map(String::as_str)).or(import)
    };
    (0..).zip(&info.funcs).map(name).collect()
}

/// A symbol for each function: its name, or its number; never that of a C function, since a call by
/// such a name means C's.
fn symbols(names: &[Option<&str>], provided: &[Option<Provided>]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut out = Vec::new();
    for (i, name) in names.iter().enumerate() {
        if let Some(Some(Provided::Math(symbol))) = provided.get(i) {
            out.push((*symbol).to_owned());
            continue;
        }
        let mut symbol: String = name
            .unwrap_or_default()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '.' { c } else { '_' })
            .collect();
        if symbol.is_empty() || !symbol.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            symbol = format!("f{i}{symbol}");
        }
        if brolga_rules::math_rule(&symbol).is_some()
            || symbol.starts_with("brolga_")
            || symbol.starts_with("call.type")
            || symbol.starts_with("data")
            || helpers::is_helper(&symbol)
        {
            symbol += ".wasm";
        }
        if !taken.insert(symbol.clone()) {
            symbol = format!("{symbol}.{i}");
            taken.insert(symbol.clone());
        }
        out.push(symbol);
    }
    out
}

/// A host function's signature in CLIF: the instance, then integers; the C convention.
pub(crate) fn host_signature(config: &TargetFrontendConfig, f: &HostFunc) -> Signature {
    let mut sig = Signature::new(config.default_call_conv);
    sig.params.push(AbiParam::new(types::I64));
    sig.params.extend(f.params.iter().map(|t| AbiParam::new(*t)));
    sig.returns.extend(f.result.iter().map(|t| AbiParam::new(*t)));
    sig
}
