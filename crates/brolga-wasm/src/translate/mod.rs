//! From a module to a [`Program`]: one CLIF function for each Wasm function, and a few helpers.
//!
//! **Question.** What is a function of Wasm in CLIF, and what are a reference, a table and a call
//! through one, so that a derivative can follow them?
//!
//! **Answer.** A function of type `[t…] -> [u…]` becomes `(i64 vmctx, t…) -> (u…)`; see
//! [`crate::layout`] for what `vmctx` points at. References are 32-bit numbers: 0 is null, a
//! function is its number among those that have references, plus one. So a table holds numbers and
//! no addresses, and needs no shadow of its own. A call through a table goes to the *dispatcher* of
//! its type, `(i64 vmctx, i32 reference, t…)`, a `br_table` of direct calls: the callees are known,
//! so a derivative is as exact as through a direct call, and nothing depends on where code lies.
//!
//! | part | file |
//! |---|---|
//! | one function | [`crate::function`] |
//! | dispatchers, `memory.grow`, table loops | `helpers` |
//! | time loops | `loops` |
//! | calls that are undone | `inverses` |
//! | what tasks have of their own | `views` |
//! | forks | `forks` |
//! | OpenMP | `openmp` |
//!
//! **Cost.** A pass over each body. A dispatcher has an entry for each function that has
//! references: types that are called times such functions, in all. Where functions are left to the
//! run, callers are looked for in the whole program, for each callee of theirs.

mod forks;
mod helpers;
mod inverses;
mod loops;
mod openmp;
pub(crate) mod views;

use std::collections::{BTreeMap, HashMap, HashSet};

use brolga::cranelift_codegen::ir::Function;
use brolga::cranelift_codegen::isa::CallConv;
use brolga::{DataObject, FuncKey, Program};
use indexmap::{IndexMap, IndexSet};
use wasmparser::ExternalKind;

use crate::error::{Error, trap};
use crate::function::env::{self, CodeOptions, Env};
use crate::function::func;
use crate::imports::Provider;
use crate::layout::Layout;
use crate::parse::{ConstOp, ElemSegment, Func, Info};
use crate::provided::ProvidedFunction;

/// A translated module.
pub(crate) struct TranslatedModule {
    /// The functions.
    pub program: Program,
    /// Key of each function of the index space that is defined in the module.
    pub funcs: Vec<Option<FuncKey>>,
    /// Number of each function that has references.
    pub refs: BTreeMap<u32, u32>,
    /// Functions of the index space as tasks call them, if that differs.
    pub tasks: Vec<(u32, FuncKey)>,
    /// Functions that set globals, other than the stack pointer.
    pub sets_globals: Vec<FuncKey>,
}

impl TranslatedModule {
    /// What a function of the index space has become: one function, and what tasks call.
    pub(crate) fn keys_of(&self, index: u32) -> Vec<FuncKey> {
        let tasks = self.tasks.iter().filter(|t| t.0 == index).map(|t| t.1);
        self.funcs[index as usize].into_iter().chain(tasks).collect()
    }
}

/// Translate all functions of a module.
pub(crate) fn translate(
    info: &Info<'_>,
    layout: &Layout,
    provider: &Provider<'_>,
    mode: CodeOptions,
) -> Result<TranslatedModule, Error> {
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
        by_name: provided.iter().map(|p| matches!(p, Some(ProvidedFunction::Math(_)))).collect(),
        refs: IndexMap::new(),
        dispatchers: IndexMap::new(),
        helpers: IndexMap::new(),
        fork_imports: provided.iter().map(|p| p.as_ref()?.forks()).collect(),
        tasks: IndexSet::new(),
        needs_view: views::need_view(info, &provided),
        forks: IndexMap::new(),
        sets_globals: Vec::new(),
        conv: if tail { CallConv::Tail } else { CallConv::Fast },
    };
    env.program.vmctx_pointers_only = true;
    env.program.confined = true;
    env.program.instance = Some(env.layout.instance());
    env.program.traps = trap::names();
    data_objects(&mut env)?;
    reference_numbers(&mut env);
    let mut funcs = vec![None; info.funcs.len()];
    let mut context = func::Context::default();
    for (i, f) in info.funcs.iter().enumerate() {
        funcs[i] = match &f.body {
            Some(body) if provided[i].is_none() => {
                let symbol = env.symbols[i].clone();
                Some(func::translate(&mut env, &mut context, &symbol, i as u32, body)?)
            }
            Some(body) if matches!(provided[i], Some(ProvidedFunction::Around(_))) => {
                let symbol = helpers::wrapped_symbol(&env.symbols[i]);
                let key = func::translate(&mut env, &mut context, &symbol, i as u32, body)?;
                env.program.func_mut(key).untracked = true;
                helpers::import_shim(&mut env, &mut context, i as u32, provided[i].as_ref())?
            }
            _ => helpers::import_shim(&mut env, &mut context, i as u32, provided[i].as_ref())?,
        };
        if let Some(key) = funcs[i] {
            let missing = f.import.as_ref().filter(|_| matches!(provided[i], Some(ProvidedFunction::Missing)));
            let other = names[i].filter(|&n| n != env.symbols[i]).map(str::to_owned);
            env.program.func_mut(key).called =
                missing.map(|m| format!("the import `{}` of `{}`", m.name, m.module)).or(other);
        }
    }
    let tasks = helpers::define(&mut env, &mut context, &provided)?;
    // Others may call what is exported, or in a table.
    let exported = info.exports.iter().filter(|e| e.kind == ExternalKind::Func).map(|e| e.index);
    let known = exported.chain(env.refs.keys().copied()).chain(info.start).filter_map(|i| funcs[i as usize]).collect();
    spread(&mut env.program, &known);
    let refs = env.refs.keys().enumerate().map(|(n, &f)| (f, n as u32 + 1)).collect();
    Ok(TranslatedModule { program: env.program, funcs, refs, tasks, sets_globals: env.sets_globals })
}

/// Passive segments are constant data of the program. (Active ones are the host's to write.)
fn data_objects(env: &mut Env<'_, '_>) -> Result<(), Error> {
    let taken = |s: String| Error::Internal { stage: "translate", message: format!("%{s} is defined twice") };
    for (i, d) in env.info.data.iter().enumerate() {
        let object = DataObject {
            symbol: format!("data{i}"),
            bytes: d.bytes.to_vec(),
            align: 16,
            writable: false,
            functions: vec![],
        };
        env.program.define_data(object).map_err(taken)?;
    }
    Ok(())
}

/// Number the functions that have references, except those that only code refers to.
fn reference_numbers(env: &mut Env<'_, '_>) {
    let info = env.info;
    let items = info.elems.iter().flat_map(|e: &ElemSegment| &e.items);
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

/// What is called by functions alone that are left to the run is left to it, too. `known` are
/// functions that others may call.
fn spread(program: &mut Program, known: &HashSet<FuncKey>) {
    if !program.funcs.values().any(|f| f.untracked) {
        return;
    }
    let callers = |program: &Program, f: FuncKey| {
        let calls = |body: &Function| body.dfg.ext_funcs.keys().any(|r| program.callee(body, r) == Some(f));
        program
            .funcs
            .keys()
            .filter(|&k| k != f && program.funcs[k].body.as_ref().is_some_and(calls))
            .collect::<Vec<_>>()
    };
    let mut open: Vec<FuncKey> = program.funcs.keys().filter(|&k| program.funcs[k].untracked).collect();
    while let Some(f) = open.pop() {
        let Some(body) = &program.funcs[f].body else { continue };
        let callees: Vec<FuncKey> = body.dfg.ext_funcs.keys().filter_map(|r| program.callee(body, r)).collect();
        for callee in callees {
            let found = &program.funcs[callee];
            if found.body.is_some()
                && !found.untracked
                && !known.contains(&callee)
                && callers(program, callee).iter().all(|&k| program.funcs[k].untracked)
            {
                program.func_mut(callee).untracked = true;
                open.push(callee);
            }
        }
    }
}

/// A symbol for each function: its name, or its number; never that of a C function, since a call by
/// such a name means C's.
fn symbols(names: &[Option<&str>], provided: &[Option<ProvidedFunction>]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut out = Vec::new();
    for (i, name) in names.iter().enumerate() {
        if let Some(Some(ProvidedFunction::Math(symbol))) = provided.get(i) {
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
            || env::is_helper(&symbol)
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
