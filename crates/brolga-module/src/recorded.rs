//! Recorded: what a module has been given, as a program that can be differentiated.
//!
//! **Problem.** A module compiles a body and drops it, and names callees by numbers.
//!
//! **Answer.** Here bodies are kept as they were given, and become functions of a [`Program`], by
//! their linkage names, when a derivative first reaches them: names become symbols, and scalars in
//! stack slots values. Data objects take part as their [`DataActivity`] says. A derivative that the
//! function calls becomes a function that can be derived again, those first that reach no other.
//!
//! **Errors.** [`AdError`] for functions without a body and data without bytes or activity, for
//! shadows that do not fit, and for a function that calls its own derivative.
//!
//! **Cost.** A copy of each body that is defined. Each derivation makes a program anew, of copies
//! of the bodies that the function reaches; derivatives among them are derived anew, too.

use std::collections::{BTreeMap, BTreeSet};

use brolga_ir::program::{functions_used, symbol_of, symbols_used};
use brolga_ir::spec::{Derivative, Spec};
use brolga_ir::{DataKey, DataObject, Diagnostic, Diagnostics, FuncKey, Options, Program};
use brolga_rules::UserRule;
use brolga_transform::embed::{DerivedSignature, EmbeddedDerivative, Room, define_nested};
use brolga_transform::primal::slots::promote_slots;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{self, ExternalName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{DataDescription, DataId, FuncId, FuncOrDataId, FunctionDeclaration, Init, ModuleDeclarations};

use crate::AdError;

/// How a data object takes part.
///
/// ```
/// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
/// # use cranelift_jit::{JITBuilder, JITModule};
/// # use cranelift_module::{Linkage, Module, default_libcall_names};
/// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
/// let mut module = AdModule::new(jit()?);
/// let log = module.declare_data("log", Linkage::Export, true, false)?;
/// module.set_data(log, DataActivity::Const); // a program may write its log
/// let [state, shadow] = ["state", "shadow"].map(|name| module.declare_data(name, Linkage::Export, true, false));
/// module.set_data(state?, DataActivity::Shadow(shadow?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataActivity {
    /// It is not differentiated, whether or not code writes to it.
    Const,
    /// This object, of the same size, is its shadow. It belongs to the caller: derivatives add to
    /// it, and do not clear it.
    Shadow(DataId),
}

/// A function that is a derivative.
pub(crate) struct ModuleDerivative {
    /// Of which function, if that is in the module.
    pub of: Option<FuncId>,
    pub spec: Spec,
    pub signature: DerivedSignature,
    pub room: Room,
    /// What the module knew of its data then.
    pub data: BTreeMap<DataId, DataActivity>,
    /// Data that it uses the shadows of.
    pub shadowed: Vec<DataId>,
}

impl ModuleDerivative {
    /// Data that it uses, and their shadows.
    fn shadows(&self) -> impl Iterator<Item = (DataId, DataId)> + '_ {
        self.shadowed.iter().filter_map(|&id| match self.data.get(&id) {
            Some(DataActivity::Shadow(shadow)) => Some((id, *shadow)),
            _ => None,
        })
    }
}

type Lines = Box<dyn Fn(ir::SourceLoc) -> u32 + Send + Sync>;

/// Bodies and data of a module.
#[derive(Default)]
pub(crate) struct RecordedModule {
    bodies: BTreeMap<FuncId, ir::Function>,
    /// Functions that were given as machine code.
    bytes: BTreeSet<FuncId>,
    derivatives: BTreeMap<FuncId, ModuleDerivative>,
    data: BTreeMap<DataId, DataDescription>,
    activities: BTreeMap<DataId, DataActivity>,
    /// By the names of functions.
    rules: BTreeMap<String, UserRule>,
    /// Which line a location is.
    lines: Option<Lines>,
}

impl RecordedModule {
    pub(crate) fn function(&mut self, id: FuncId, body: ir::Function) {
        self.bodies.insert(id, body);
    }

    pub(crate) fn machine_code(&mut self, id: FuncId) {
        self.bytes.insert(id);
    }

    pub(crate) fn derivative(&mut self, id: FuncId, derived: ModuleDerivative) {
        self.derivatives.insert(id, derived);
    }

    pub(crate) fn derived(&self, id: FuncId) -> Option<&ModuleDerivative> {
        self.derivatives.get(&id)
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

    pub(crate) fn lines(&mut self, lines: Lines) {
        self.lines = Some(lines);
    }

    pub(crate) fn is_defined(&self, id: FuncId) -> bool {
        self.bodies.contains_key(&id) || self.bytes.contains(&id) || self.derivatives.contains_key(&id)
    }

    pub(crate) fn activities(&self) -> &BTreeMap<DataId, DataActivity> {
        &self.activities
    }

    pub(crate) fn activity_of(&self, id: DataId) -> Option<DataActivity> {
        self.activities.get(&id).copied()
    }

    /// The program that a function reaches, the function, and whether that is a derivative which
    /// keeps its tape in the workspace that it is given.
    pub(crate) fn program(
        &self,
        root: FuncId,
        declared: &ModuleDeclarations,
        (options, isa): (&Options, &dyn TargetIsa),
    ) -> Result<(Program, FuncKey, bool), AdError> {
        let name = |id: FuncId| declared.get_function_decl(id).linkage_name(id).into_owned();
        if !self.bodies.contains_key(&root) && !self.is_derivable(root) {
            return Err(self.no_body(root, declared));
        }
        self.activities_fit(declared)?;
        let mut program = Program::new();
        let (mut seen, mut work) = (BTreeSet::from([root]), vec![root]);
        let mut derivatives = Vec::new();
        while let Some(id) = work.pop() {
            if name(id).is_empty() {
                return Err(AdError::usage(
                    "a function whose name is empty: declare it by another one, or by `declare_anonymous_function`",
                ));
            }
            if let Some(derived) = self.derivatives.get(&id)
                && let Some(of) = derived.of
                && !self.rules.contains_key(&name(id))
            {
                derivatives.push((id, of, derived));
                self.refuse_taken_shadows(id, derived, declared)?;
                derived.shadows().try_for_each(|(_, shadow)| self.define_data(&mut program, shadow, declared))?;
                work.extend(Some(of).filter(|f| seen.insert(*f)));
                continue;
            }
            let Some(body) = self.bodies.get(&id) else {
                work.extend(self.of_rule(&name(id), declared).filter(|f| seen.insert(*f)));
                continue;
            };
            let uses = uses(body);
            for &data in &uses.data {
                self.define_data(&mut program, data, declared)?;
                let functions = self.data.get(&data).into_iter().flat_map(functions_in);
                work.extend(functions.filter(|f| seen.insert(*f)));
            }
            let body = by_symbols(body.clone(), declared, isa);
            let insts = (0..body.dfg.num_insts() as u32).map(ir::Inst::from_u32);
            let lines: Vec<u32> = self.lines.iter().flat_map(|f| insts.clone().map(|i| f(body.srcloc(i)))).collect();
            let found = program.define(&name(id), body, |i| lines.get(i.as_u32() as usize).copied().unwrap_or(0));
            found.map_err(|symbol| AdError::usage(format!("%{symbol} is declared with two signatures")))?;
            let called = uses.functions.into_iter().chain(self.of_rule(&name(id), declared));
            work.extend(called.filter(|f| seen.insert(*f)));
        }
        brolga_transform::set_rules(&mut program, &self.rules, true)?;
        let (program, recording) = self.with_derivatives(program, derivatives, declared, options, isa)?;
        let key = program.func(&name(root)).expect("the root was the first");
        Ok((program, key, recording.contains(&root)))
    }

    /// That what has been said of data fits it: shadows are data of their own, that can be written
    /// to, and as large as what they are shadows of.
    fn activities_fit(&self, declared: &ModuleDeclarations) -> Result<(), AdError> {
        let known = declared.get_data_objects().count();
        let is_known = |id: DataId| (id.as_u32() as usize) < known;
        let name = |id: DataId| declared.get_data_decl(id).linkage_name(id).into_owned();
        let size = |id: DataId| self.data.get(&id).map(|d| d.init.size());
        for (&id, &activity) in &self.activities {
            let shadow = if let DataActivity::Shadow(shadow) = activity { Some(shadow) } else { None };
            if let Some(unknown) = [Some(id), shadow].into_iter().flatten().find(|&d| !is_known(d)) {
                return Err(AdError::usage(format!("`set_data` of {unknown}, which the module has not declared")));
            }
            let Some(shadow) = shadow else { continue };
            let wrong = match (size(id), size(shadow)) {
                _ if shadow == id => Some("is its own shadow: declare data for that".to_owned()),
                // A table of addresses that is only read has a table of their shadows.
                _ if declared.get_data_decl(id).writable && !declared.get_data_decl(shadow).writable => {
                    Some(format!("has %{} for a shadow, which is not writable: declare it so", name(shadow)))
                }
                (Some(n), Some(m)) if n != m => Some(format!(
                    "has {n} bytes, and its shadow %{} {m}: a shadow is as large as what it is the shadow of",
                    name(shadow)
                )),
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(AdError::usage(format!("%{} {wrong}", name(id))));
            }
        }
        Ok(())
    }

    /// Functions of the module that the rule of a function calls.
    fn of_rule<'a>(&'a self, symbol: &str, declared: &'a ModuleDeclarations) -> impl Iterator<Item = FuncId> + 'a {
        let symbols = self.rules.get(symbol).into_iter().flat_map(UserRule::symbols);
        symbols.filter_map(|s| match declared.get_name(s) {
            Some(FuncOrDataId::Func(id)) => Some(id),
            _ => None,
        })
    }

    fn is_derivable(&self, id: FuncId) -> bool {
        self.derivatives.get(&id).is_some_and(|d| d.of.is_some() && d.spec.derivative != Derivative::Pair)
    }

    /// The program with the derivatives that it reaches, as functions that can be derived: those
    /// first that reach no other. And those of them that keep their tape in the workspace that they
    /// are given.
    fn with_derivatives(
        &self,
        mut program: Program,
        mut derivatives: Vec<(FuncId, FuncId, &ModuleDerivative)>,
        declared: &ModuleDeclarations,
        options: &Options,
        isa: &dyn TargetIsa,
    ) -> Result<(Program, BTreeSet<FuncId>), AdError> {
        let mut recording = BTreeSet::new();
        let name = |id: FuncId| declared.get_function_decl(id).linkage_name(id).into_owned();
        while let Some(&(first, ..)) = derivatives.first() {
            let missing: BTreeSet<String> = derivatives.iter().map(|d| name(d.0)).collect();
            let is_next = |d: &(FuncId, FuncId, &ModuleDerivative)| !reaches(&program, &name(d.1), &missing);
            let Some(next) = derivatives.iter().position(is_next) else {
                let name = name(first);
                return Err(AdError::usage(format!(
                    "%{name} depends on itself: the function calls its own derivative; derive one that does not"
                )));
            };
            let (id, of, derived) = derivatives.swap_remove(next);
            let symbol = name(id);
            if derived.spec.derivative == Derivative::Pair {
                // Calls of it are refused where something active is given to it.
                continue;
            }
            let func = program.func(&name(of)).expect("it is in the program");
            let data = |id: DataId| declared.get_data_decl(id).linkage_name(id).into_owned();
            let shadows: Vec<_> = derived.shadows().map(|(of, shadow)| (data(of), data(shadow))).collect();
            let (spec, signature) = (&derived.spec, &derived.signature);
            let of = EmbeddedDerivative { symbol: &symbol, func, spec, signature, shadows: &shadows };
            // Data takes part as it did when the derivative was asked for.
            let now = self.let_take_part(&mut program, &derived.data, declared);
            let in_workspace;
            (program, in_workspace) = define_nested(&program, of, options, isa)?;
            // It may call functions that a rule names, which have rules of their own.
            brolga_transform::set_rules(&mut program, &self.rules, true)?;
            now.into_iter().for_each(|(key, writable)| program.data[key].writable = writable);
            recording.extend(Some(id).filter(|_| in_workspace));
        }
        Ok((program, recording))
    }

    /// Refuse a derivative whose shadows of data would be shadows once more, of what is derived
    /// now.
    fn refuse_taken_shadows(
        &self,
        id: FuncId,
        of: &ModuleDerivative,
        declared: &ModuleDeclarations,
    ) -> Result<(), AdError> {
        let name = |id: DataId| declared.get_data_decl(id).linkage_name(id).into_owned();
        for (object, shadow) in of.shadows() {
            let taken = self.activities.iter().find(|a| *a.1 == DataActivity::Shadow(shadow));
            if let Some((&other, _)) = taken {
                return Err(AdError::usage(format!(
                    "%{shadow} is the shadow of %{object} in %{derivative}, and cannot be that of %{other} in a \
                     derivative of it: say with `set_data` which data is the shadow of %{other} now, and which that \
                     of %{shadow}",
                    shadow = name(shadow),
                    object = name(object),
                    derivative = declared.get_function_decl(id).linkage_name(id),
                    other = name(other),
                )));
            }
        }
        Ok(())
    }

    /// Let data take part as activities say: what has a shadow is writable, what is constant is
    /// not. What was so before is returned.
    fn let_take_part(
        &self,
        program: &mut Program,
        activities: &BTreeMap<DataId, DataActivity>,
        declared: &ModuleDeclarations,
    ) -> Vec<(DataKey, bool)> {
        let mut before = Vec::new();
        for (&id, activity) in activities {
            let decl = declared.get_data_decl(id);
            if let Some(key) = program.data_object(&decl.linkage_name(id)) {
                let writable = matches!(activity, DataActivity::Shadow(_));
                before.push((key, std::mem::replace(&mut program.data[key].writable, writable)));
            }
        }
        before
    }

    fn no_body(&self, id: FuncId, declared: &ModuleDeclarations) -> AdError {
        let decl = declared.get_function_decl(id);
        let (why, help) = if self.bytes.contains(&id) {
            ("was defined by its machine code", "define it by its CLIF, with `define_function`")
        } else if let Some(derived) = self.derivatives.get(&id) {
            if derived.of.is_some() {
                let message = format!("a derivative of %{}, which is half of a pair", decl.linkage_name(id));
                return Diagnostics::from(Diagnostic::new("AD0173", message).note(HALF.0).help(HALF.1)).into();
            }
            ("is of a function that the module does not have", "define that function here, too")
        } else if decl.linkage.is_definable() {
            ("has not been defined yet", "ask for the derivative after `define_function`")
        } else {
            ("is imported", "define it in this module")
        };
        AdError::usage(format!("there is no derivative of %{}, which {why}: {help}", decl.linkage_name(id)))
    }

    /// What is refused because a half of a pair is called with something active, with the code of
    /// that, or because a function is called that is declared and not defined.
    pub(crate) fn of_callees(&self, mut all: Diagnostics, declared: &ModuleDeclarations) -> Diagnostics {
        let halves = self.derivatives.iter().filter(|d| d.1.spec.derivative == Derivative::Pair);
        let halves: Vec<String> =
            halves.map(|d| format!("%{}", declared.get_function_decl(*d.0).linkage_name(*d.0))).collect();
        for d in all.0.iter_mut().filter(|d| d.code == "AD0150") {
            if let Some(symbol) = halves.iter().find(|h| d.message.ends_with(h.as_str())) {
                d.code = "AD0173";
                d.message = format!("a derivative of {symbol}, which is half of a pair");
                (d.notes, d.help) = (vec![HALF.0.to_owned()], Some(HALF.1.to_owned()));
                continue;
            }
            let missing = |(id, decl): &(FuncId, &FunctionDeclaration)| {
                decl.linkage.is_definable() && d.message.ends_with(&format!("%{}", decl.linkage_name(*id)))
            };
            if let Some((id, decl)) = declared.get_functions().find(missing) {
                d.message = format!("%{} is called, and has not been defined yet", decl.linkage_name(id));
                d.help = Some("ask for the derivative after `define_function` of all that it calls".to_owned());
            }
        }
        all
    }

    /// Whether an object holds addresses of data that may be written, or of data that does.
    fn leads_to_what_is_written(&self, id: DataId, declared: &ModuleDeclarations) -> bool {
        let (mut seen, mut work) = (BTreeSet::from([id]), vec![id]);
        while let Some(id) = work.pop() {
            for to in self.data.get(&id).into_iter().flat_map(data_in) {
                match self.activity_of(to) {
                    Some(DataActivity::Const) => {}
                    None if !declared.get_data_decl(to).writable => work.extend(Some(to).filter(|d| seen.insert(*d))),
                    _ => return true,
                }
            }
        }
        false
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
        if activity.is_none() && self.leads_to_what_is_written(id, declared) {
            return Err(AdError::usage(format!(
                "%{symbol} holds addresses of writable data: say with `set_data` that it is constant, or what its \
                 shadow is, which holds the addresses of their shadows"
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

/// Why a half of a pair has no derivative, and what to do.
const HALF: (&str, &str) = (
    "what it records is laid out for the other half alone",
    "ask for the derivative of the gradient (`Spec::gradient`), and call that in place of the pair",
);

/// The data whose addresses an object holds.
fn data_in(data: &DataDescription) -> impl Iterator<Item = DataId> + '_ {
    data.data_relocs.iter().filter_map(|(_, gv, _)| match data.data_decls[*gv] {
        cranelift_module::ModuleRelocTarget::User { namespace: 1, index } => Some(DataId::from_u32(index)),
        _ => None,
    })
}

/// Whether a function of a program calls one of these, or calls one that does.
fn reaches(program: &Program, symbol: &str, wanted: &BTreeSet<String>) -> bool {
    let (mut seen, mut work) = (BTreeSet::new(), vec![symbol.to_owned()]);
    while let Some(symbol) = work.pop() {
        if wanted.contains(&symbol) {
            return true;
        }
        let body = program.func(&symbol).and_then(|k| program.funcs[k].body.as_ref());
        let names = body.into_iter().flat_map(|b| b.dfg.ext_funcs.values().map(|f| symbol_of(b, &f.name)));
        work.extend(names.filter(|s| seen.insert(s.clone())));
    }
    false
}

/// What a body names.
struct References {
    functions: Vec<FuncId>,
    data: Vec<DataId>,
}

fn uses(body: &ir::Function) -> References {
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
    References { functions, data }
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
