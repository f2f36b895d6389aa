//! Recorded: what a module has been given, as a program that can be differentiated.
//!
//! A module compiles a body and drops it, and names callees by numbers. Here bodies are kept as
//! they were given, and become functions of a [`Program`], by their linkage names, when a
//! derivative first reaches them.

use std::collections::{BTreeMap, BTreeSet};

use brolga_ir::program::{functions_used, symbols_used};
use brolga_ir::{DataObject, FuncKey, Program};
use brolga_rules::UserRule;
use brolga_transform::primal::slots::promote_slots;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{self, ExternalName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{DataDescription, DataId, FuncId, FuncOrDataId, Init, ModuleDeclarations};

use crate::AdError;

/// How a data object takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataActivity {
    /// It is not differentiated, whether or not code writes to it.
    Const,
    /// This object, of the same size, is its shadow. It belongs to the caller: derivatives add to
    /// it, and do not clear it.
    Shadow(DataId),
}

/// Bodies and data of a module.
#[derive(Default)]
pub(crate) struct Recorded {
    bodies: BTreeMap<FuncId, ir::Function>,
    /// Functions that were given as machine code.
    bytes: BTreeSet<FuncId>,
    /// Functions that are derivatives.
    derivatives: BTreeSet<FuncId>,
    data: BTreeMap<DataId, DataDescription>,
    activities: BTreeMap<DataId, DataActivity>,
    /// By the names of functions.
    rules: BTreeMap<String, UserRule>,
}

impl Recorded {
    pub(crate) fn function(&mut self, id: FuncId, body: ir::Function) {
        self.bodies.insert(id, body);
    }

    pub(crate) fn machine_code(&mut self, id: FuncId) {
        self.bytes.insert(id);
    }

    pub(crate) fn derivative(&mut self, id: FuncId) {
        self.derivatives.insert(id);
    }

    pub(crate) fn data(&mut self, id: DataId, data: &DataDescription) {
        self.data.insert(id, data.clone());
    }

    pub(crate) fn activity(&mut self, id: DataId, activity: DataActivity) {
        self.activities.insert(id, activity);
    }

    pub(crate) fn rule(&mut self, symbol: &str, rule: UserRule) {
        self.rules.insert(symbol.to_owned(), rule);
    }

    pub(crate) fn is_defined(&self, id: FuncId) -> bool {
        self.bodies.contains_key(&id) || self.bytes.contains(&id) || self.derivatives.contains(&id)
    }

    pub(crate) fn activity_of(&self, id: DataId) -> Option<DataActivity> {
        self.activities.get(&id).copied()
    }

    /// The program that a function reaches.
    pub(crate) fn program(
        &self,
        root: FuncId,
        declared: &ModuleDeclarations,
        isa: &dyn TargetIsa,
    ) -> Result<(Program, FuncKey), AdError> {
        let name = |id: FuncId| declared.get_function_decl(id).linkage_name(id).into_owned();
        if !self.bodies.contains_key(&root) {
            return Err(self.no_body(root, declared));
        }
        let mut program = Program::new();
        let (mut seen, mut work) = (BTreeSet::from([root]), vec![root]);
        let mut key = None;
        while let Some(id) = work.pop() {
            let Some(body) = self.bodies.get(&id) else { continue };
            let uses = uses(body);
            for &data in &uses.data {
                self.define_data(&mut program, data, declared)?;
                let functions = self.data.get(&data).into_iter().flat_map(functions_in);
                work.extend(functions.filter(|f| seen.insert(*f)));
            }
            let body = by_symbols(body.clone(), declared, isa);
            let found = program.define(&name(id), body, |_| 0);
            let found = found.map_err(|symbol| AdError::usage(format!("%{symbol} is declared with two signatures")))?;
            if id == root {
                key = Some(found);
            }
            work.extend(uses.functions.into_iter().filter(|f| seen.insert(*f)));
        }
        brolga_transform::set_rules(&mut program, &self.rules)?;
        Ok((program, key.expect("the root was the first")))
    }

    fn no_body(&self, id: FuncId, declared: &ModuleDeclarations) -> AdError {
        let decl = declared.get_function_decl(id);
        let (why, help) = if self.bytes.contains(&id) {
            ("was defined by its machine code", "define it by its CLIF, with `define_function`")
        } else if self.derivatives.contains(&id) {
            ("is a derivative", "second derivatives are of programs (`brolga::HessianRule`)")
        } else if decl.linkage.is_definable() {
            ("has not been defined yet", "ask for the derivative after `define_function`")
        } else {
            ("is imported", "define it in this module")
        };
        AdError::usage(format!("there is no derivative of %{}, which {why}: {help}", decl.linkage_name(id)))
    }

    fn define_data(&self, program: &mut Program, id: DataId, declared: &ModuleDeclarations) -> Result<(), AdError> {
        let decl = declared.get_data_decl(id);
        let symbol = decl.linkage_name(id).into_owned();
        if program.data_object(&symbol).is_some() {
            return Ok(());
        }
        let activity = self.activity_of(id);
        let data = self.data.get(&id);
        if data.is_none() && activity.is_none() {
            return Err(AdError::usage(format!(
                "%{symbol} is data without bytes: define it after the module is wrapped, or say with `set_data` \
                 that it is constant, or what its shadow is"
            )));
        }
        if let Some(data) = data
            && !data.data_relocs.is_empty()
            && activity != Some(DataActivity::Const)
        {
            return Err(AdError::usage(format!(
                "%{symbol} holds addresses of other data: say with `set_data` that it is constant"
            )));
        }
        let bytes = match data.map(|d| &d.init) {
            Some(Init::Bytes { contents }) => contents.to_vec(),
            Some(Init::Zeros { size }) => vec![0; *size],
            Some(Init::Uninitialized) | None => vec![],
        };
        let align = data.and_then(|d| d.align).unwrap_or(1);
        // What is constant has no shadow, as what is never written has none.
        let writable = match activity {
            Some(DataActivity::Const) => false,
            Some(DataActivity::Shadow(_)) => true,
            None => decl.writable,
        };
        let functions = data.into_iter().flat_map(functions_in);
        let functions = functions.map(|f| declared.get_function_decl(f).linkage_name(f).into_owned()).collect();
        let object = DataObject { symbol: symbol.clone(), bytes, align, writable, functions };
        program.define_data(object).map(drop).map_err(|s| AdError::usage(format!("%{s} is declared twice")))
    }
}

/// What a body names.
struct Named {
    functions: Vec<FuncId>,
    data: Vec<DataId>,
}

fn uses(body: &ir::Function) -> Named {
    let id = |name: &ExternalName| match name {
        ExternalName::User(r) => {
            let name = &body.params.user_named_funcs()[*r];
            match name.namespace {
                0 => Some(FuncOrDataId::Func(FuncId::from_u32(name.index))),
                1 => Some(FuncOrDataId::Data(DataId::from_u32(name.index))),
                _ => None,
            }
        }
        _ => None,
    };
    let (mut functions, mut data) = (vec![], vec![]);
    // Frontends declare more than a body uses.
    let (called, named) = (functions_used(body), symbols_used(body));
    let symbols = named.iter().filter_map(|gv| match &body.global_values[gv] {
        ir::GlobalValueData::Symbol { name, .. } => Some(name),
        _ => None,
    });
    for name in called.iter().map(|f| &body.dfg.ext_funcs[f].name).chain(symbols) {
        match id(name) {
            Some(FuncOrDataId::Func(f)) => functions.push(f),
            Some(FuncOrDataId::Data(d)) => data.push(d),
            None => {}
        }
    }
    Named { functions, data }
}

/// Functions whose addresses an object holds.
fn functions_in(data: &DataDescription) -> impl Iterator<Item = FuncId> + '_ {
    data.function_relocs.iter().filter_map(|(_, r)| match data.function_decls[*r] {
        cranelift_module::ModuleRelocTarget::User { namespace: 0, index } => Some(FuncId::from_u32(index)),
        _ => None,
    })
}

/// A body as frontends leave it, made ready: names are symbols, scalars in stack slots are values,
/// and parameters of blocks that are always the same value are gone.
fn by_symbols(body: ir::Function, declared: &ModuleDeclarations, isa: &dyn TargetIsa) -> ir::Function {
    let mut cx = Context::for_function(body);
    cx.compute_cfg();
    cx.compute_domtree();
    // The module has compiled it, so it is valid.
    cx.eliminate_unreachable_code(isa).expect("it was valid");
    promote_slots(&mut cx.func);
    cx.compute_cfg();
    cx.compute_domtree();
    cx.remove_constant_phis(isa).expect("it was valid");
    let mut body = cx.func;
    body.dfg.resolve_all_aliases();
    let symbol = |body: &ir::Function, name: &ExternalName| match name {
        ExternalName::User(r) => {
            let name = &body.params.user_named_funcs()[*r];
            Some(match name.namespace {
                0 => {
                    let id = FuncId::from_u32(name.index);
                    declared.get_function_decl(id).linkage_name(id).into_owned()
                }
                1 => {
                    let id = DataId::from_u32(name.index);
                    declared.get_data_decl(id).linkage_name(id).into_owned()
                }
                _ => return None,
            })
        }
        _ => None,
    };
    for r in body.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        if let Some(symbol) = symbol(&body, &body.dfg.ext_funcs[r].name) {
            body.dfg.ext_funcs[r].name = ExternalName::testcase(symbol);
        }
    }
    for gv in body.global_values.keys().collect::<Vec<_>>() {
        let ir::GlobalValueData::Symbol { name, .. } = &body.global_values[gv] else { continue };
        if let Some(symbol) = symbol(&body, &name.clone()) {
            let ir::GlobalValueData::Symbol { name, .. } = &mut body.global_values[gv] else { continue };
            *name = ExternalName::testcase(symbol);
        }
    }
    body
}
