//! Link: derived functions as functions of a module.
//!
//! **Question.** What is derived names everything by symbols, and a module has ids. Which function
//! or data object of the module does each symbol mean?
//!
//! **Answer.** Here symbols become ids: of what the module has already, of imports, and of the
//! derived functions themselves, which are declared first ([`define`]). A function that is the same
//! as one that was defined before, callees included, is that one ([`SharedFunctions`]): two
//! gradients of which both call `g` share its derivative. Functions are linked callees first, so
//! that a function is compared when its callees have ids.
//!
//! **Errors.** What is missing or does not fit is told before anything is declared. Where the
//! module does not compile a function, what is declared is defined nonetheless, by functions that
//! trap, so that the module can still be finished.
//!
//! **Cost.** A copy of each derived function, its hash, and a comparison with those of the same
//! hash; then one compilation by the module. A copy of each function that may be shared is kept.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use brolga_ir::lower::{CHECK_SRCLOC, forget_integer_region};
use brolga_ir::program::{functions_used, symbol_of, symbols_used};
use brolga_rules::{OF_C, math_rule};
use brolga_transform::embed::{EmbeddedFunction, EmbeddedFunctions};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, ExternalName, InstBuilder, TrapCode, UserExternalName, UserFuncName};
use cranelift_module::{DataId, FuncId, FuncOrDataId, Linkage, Module};

use crate::AdError;
use crate::recorded::{DataActivity, RecordedModule};

/// Functions that were defined, by their hashes.
#[derive(Default)]
pub(crate) struct SharedFunctions(HashMap<u64, Vec<(ir::Function, FuncId)>>);

impl SharedFunctions {
    fn find(&self, func: &ir::Function) -> Option<FuncId> {
        let found = self.0.get(&hash(func))?;
        found.iter().find(|(f, _)| f.stencil == func.stencil && names(f) == names(func)).map(|f| f.1)
    }

    fn add(&mut self, func: ir::Function, id: FuncId) {
        self.0.entry(hash(&func)).or_default().push((func, id));
    }
}

fn hash(func: &ir::Function) -> u64 {
    let mut hasher = DefaultHasher::new();
    func.stencil.hash(&mut hasher);
    hasher.finish()
}

fn names(func: &ir::Function) -> Vec<&UserExternalName> {
    func.params.user_named_funcs().values().collect()
}

/// Define what was derived. The roots get the given names and linkage.
pub(crate) fn define<M: Module>(
    module: &mut M,
    recorded: &RecordedModule,
    shared: &mut SharedFunctions,
    embedded: &EmbeddedFunctions,
    (roots, linkage): (&[&str], Linkage),
) -> Result<Vec<FuncId>, AdError> {
    let n = embedded.signatures.len();
    if roots.len() != n {
        return Err(AdError::usage(format!("{} names are given for {n} functions", roots.len())));
    }
    let mut links = Links { module, recorded, embedded, known: HashMap::new() };
    // What is missing is told before anything is declared.
    embedded.shadows.iter().try_for_each(|(_, symbol)| links.symbol(symbol).map(drop))?;
    let functions = links.functions()?;
    links.fit(&functions)?;
    roots.iter().zip(&functions).try_for_each(|(name, f)| links.free_for(name, &f.func.signature))?;
    let order = callees_first(&functions);
    let mut ids: Vec<Option<FuncId>> = vec![None; functions.len()];
    let mut pending = Vec::new();
    for component in order {
        let alone = !component.recursive;
        for &i in &component.members {
            let f = &functions[i];
            if alone && i >= n {
                // Its callees have ids, so it can be compared.
                let func = links.linked(f)?;
                if let Some(id) = shared.find(&func) {
                    ids[i] = Some(id);
                    links.known.insert(f.symbol.clone(), id);
                    continue;
                }
            }
            let (name, linkage) = match roots.get(i) {
                Some(&name) => (name.to_owned(), linkage),
                None => (links.free(&format!("{}.{}", roots[0], f.symbol)), Linkage::Local),
            };
            let id = links.module.declare_function(&name, linkage, &f.func.signature);
            let id = id.map_err(|e| AdError::module(format!("%{name} cannot be declared"), e))?;
            ids[i] = Some(id);
            links.known.insert(f.symbol.clone(), id);
            pending.push((i, id));
        }
    }
    // From here on what is declared is defined.
    let mut failed = None;
    for &(i, id) in &pending {
        let found = match &failed {
            None => links.linked(&functions[i]).and_then(|func| links.compile(id, func, shared, i >= n)),
            Some(_) => Ok(()),
        };
        match found {
            Ok(()) if failed.is_none() => {}
            Ok(()) => links.trap(id),
            Err(e) => {
                links.trap(id);
                failed = Some(e);
            }
        }
    }
    match failed {
        Some(e) => Err(e),
        None => Ok(ids.into_iter().take(n).map(|id| id.expect("roots are declared")).collect()),
    }
}

/// What a module has under a name, if it is a function.
pub(crate) fn function_named<M: Module>(module: &M, symbol: &str) -> Option<FuncId> {
    if let Some(FuncOrDataId::Func(id)) = module.get_name(symbol) {
        return Some(id);
    }
    // Functions without a name have one that says their number.
    let number = u32::from_str_radix(symbol.strip_prefix(".Lfn")?, 16).ok()?;
    Some(FuncId::from_u32(number))
}

/// Whether a name is that of a function of C's that derivatives may call.
///
/// ```
/// assert!(brolga_module::is_function_of_c("cos") && !brolga_module::is_function_of_c("cosine"));
/// ```
pub fn is_function_of_c(name: &str) -> bool {
    math_rule(name).is_some()
}

/// The same of data.
pub(crate) fn data<M: Module>(module: &M, symbol: &str) -> Option<DataId> {
    if let Some(FuncOrDataId::Data(id)) = module.get_name(symbol) {
        return Some(id);
    }
    let number = u32::from_str_radix(symbol.strip_prefix(".Ldata")?, 16).ok()?;
    Some(DataId::from_u32(number))
}

struct Links<'a, M> {
    module: &'a mut M,
    recorded: &'a RecordedModule,
    embedded: &'a EmbeddedFunctions,
    known: HashMap<String, FuncId>,
}

impl<M: Module> Links<'_, M> {
    /// What is derived, and functions that the module does not have: those of the program, such as
    /// the thunks of C's functions, and what primal code calls that is ours.
    fn functions(&self) -> Result<Vec<EmbeddedFunction>, AdError> {
        let mut out: Vec<EmbeddedFunction> = self.embedded.functions.clone();
        let mut seen: BTreeSet<String> = out.iter().map(|f| f.symbol.clone()).collect();
        let mut at = 0;
        while at < out.len() {
            for r in functions_used(&out[at].func).iter() {
                let symbol = symbol_of(&out[at].func, &out[at].func.dfg.ext_funcs[r].name);
                if !seen.insert(symbol.clone()) || self.function_named(&symbol).is_some() {
                    continue;
                }
                let program = &self.embedded.program;
                if let Some(key) = program.func(&symbol).filter(|&k| !program.funcs[k].stand_in)
                    && let Some(body) = &program.funcs[key].body
                {
                    out.push(EmbeddedFunction { symbol, func: body.clone(), of: key });
                } else if let Some(func) = brolga_transform::embed::intrinsic(&symbol, self.module.isa()) {
                    out.push(EmbeddedFunction { symbol, func, of: self.embedded.func });
                }
            }
            at += 1;
        }
        Ok(out)
    }

    fn function_named(&self, symbol: &str) -> Option<FuncId> {
        function_named(&*self.module, symbol)
    }

    fn is_defined(&self, name: &str) -> bool {
        self.function_named(name).is_some_and(|id| self.recorded.is_defined(id))
    }

    /// Whether a derivative of this signature can have a name.
    fn free_for(&self, name: &str, signature: &ir::Signature) -> Result<(), AdError> {
        if self.is_defined(name) {
            return Err(AdError::usage(format!("%{name} is defined already: give the derivative another name")));
        }
        let declared = self.function_named(name).map(|id| &self.module.declarations().get_function_decl(id).signature);
        match declared.filter(|d| *d != signature) {
            Some(d) => Err(AdError::usage(format!(
                "%{name} is declared as {d}, and the derivative is {signature}: declare it so, or give it another name"
            ))),
            None => Ok(()),
        }
    }

    fn free(&self, name: &str) -> String {
        let mut n = 1;
        let mut out = name.to_owned();
        while self.module.get_name(&out).is_some() {
            n += 1;
            out = format!("{name}_{n}");
        }
        out
    }

    /// A function whose names are ids.
    fn linked(&mut self, f: &EmbeddedFunction) -> Result<ir::Function, AdError> {
        let mut func = f.func.clone();
        self.locations(&mut func, f);
        let named: Vec<(ir::FuncRef, String, ir::Signature)> = functions_used(&func)
            .iter()
            .filter(|&r| !matches!(func.dfg.ext_funcs[r].name, ExternalName::LibCall(_)))
            .map(|r| {
                let e = &func.dfg.ext_funcs[r];
                (r, symbol_of(&func, &e.name), func.dfg.signatures[e.signature].clone())
            })
            .collect();
        // Names of ids only, in the order in which they are met.
        func.params = ir::function::FunctionParameters::new();
        func.params.ensure_base_srcloc(ir::SourceLoc::new(0));
        for (r, symbol, signature) in named {
            let id = self.function(&symbol, &signature)?;
            let name = func.declare_imported_user_function(UserExternalName::new(0, id.as_u32()));
            let decl = self.module.declarations().get_function_decl(id);
            let (is_near, declared) = (decl.linkage.is_final() && self.is_near(), decl.signature.clone());
            let e = &mut func.dfg.ext_funcs[r];
            (e.name, e.colocated) = (ExternalName::user(name), is_near);
            // Its own convention, and how it extends small integers.
            let sig_ref = e.signature;
            if declared != func.dfg.signatures[sig_ref] {
                let signature = func.import_signature(declared);
                func.dfg.ext_funcs[r].signature = signature;
            }
        }
        for gv in symbols_used(&func).iter().collect::<Vec<_>>() {
            let ir::GlobalValueData::Symbol { name, .. } = &f.func.global_values[gv] else { continue };
            let symbol = symbol_of(&f.func, name);
            let (namespace, index, is_final) = match self.symbol(&symbol)? {
                FuncOrDataId::Func(id) => {
                    (0, id.as_u32(), self.module.declarations().get_function_decl(id).linkage.is_final())
                }
                FuncOrDataId::Data(id) => {
                    (1, id.as_u32(), self.module.declarations().get_data_decl(id).linkage.is_final())
                }
            };
            let user = func.declare_imported_user_function(UserExternalName::new(namespace, index));
            let ir::GlobalValueData::Symbol { name, colocated, .. } = &mut func.global_values[gv] else { continue };
            *name = ExternalName::user(user);
            *colocated = is_final && self.is_near();
        }
        func.name = UserFuncName::default();
        Ok(func)
    }

    /// Whether what the module defines is near enough for relative addresses. Where code is not
    /// independent of its position, a JIT may have put each function anywhere.
    fn is_near(&self) -> bool {
        self.module.isa().flags().is_pic()
    }

    /// Locations as the frontend gave them to the primal's instructions.
    fn locations(&self, func: &mut ir::Function, f: &EmbeddedFunction) {
        let program = &self.embedded.program;
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect::<Vec<_>>() {
            let number = func.srcloc(inst).bits() & !CHECK_SRCLOC;
            let known = number != 0 && number != !CHECK_SRCLOC;
            let loc = known.then(|| {
                let origin = program.origin(f.of, ir::Inst::from_u32(number - 1));
                program.funcs[origin.func].srclocs[origin.inst]
            });
            func.set_srcloc(inst, loc.unwrap_or_default());
        }
    }

    /// Whether what the functions call beside each other is what the module has under that name.
    fn fit(&self, functions: &[EmbeddedFunction]) -> Result<(), AdError> {
        let derived: BTreeSet<&str> = functions.iter().map(|f| f.symbol.as_str()).collect();
        for func in functions.iter().map(|f| &f.func) {
            for e in functions_used(func).iter().map(|r| &func.dfg.ext_funcs[r]) {
                let symbol = symbol_of(func, &e.name);
                if !matches!(e.name, ExternalName::LibCall(_)) && !derived.contains(symbol.as_str()) {
                    self.of_module(&symbol, &func.dfg.signatures[e.signature])?;
                }
            }
        }
        Ok(())
    }

    /// Whether a derivative that calls a name means C's function: one that the program, as far as
    /// it is derived, neither defines nor calls.
    fn is_of_c(&self, name: &str) -> bool {
        let funcs = &self.embedded.program.funcs;
        let is_called = |body: &ir::Function| {
            functions_used(body).iter().any(|r| symbol_of(body, &body.dfg.ext_funcs[r].name) == name)
        };
        let bodies = || funcs.values().filter_map(|f| Some((f.symbol.as_str(), f.body.as_ref()?)));
        math_rule(name).is_some() && !bodies().any(|(symbol, body)| symbol == name || is_called(body))
    }

    /// The function of the module that is called by a name, if it has one.
    fn of_module(&self, symbol: &str, signature: &ir::Signature) -> Result<Option<FuncId>, AdError> {
        let of_c = symbol.strip_prefix(OF_C);
        let name = of_c.unwrap_or(symbol);
        let Some(id) = self.function_named(name) else {
            return match self.module.get_name(name) {
                Some(FuncOrDataId::Data(_)) => Err(AdError::usage(format!(
                    "the derivative calls C's %{name}, and the module has data of that name: rename it"
                ))),
                _ => Ok(None),
            };
        };
        if (of_c.is_some() || self.is_of_c(name)) && self.recorded.is_defined(id) {
            return Err(AdError::usage(format!(
                "the derivative calls C's %{name}, and the module defines a function of that name: rename it"
            )));
        }
        let decl = &self.module.declarations().get_function_decl(id).signature;
        if types(decl) != types(signature) {
            return Err(AdError::usage(format!(
                "the derivative calls %{name}{signature}, and the module declares it as {decl}"
            )));
        }
        Ok(Some(id))
    }

    fn function(&mut self, symbol: &str, signature: &ir::Signature) -> Result<FuncId, AdError> {
        if let Some(&id) = self.known.get(symbol) {
            return Ok(id);
        }
        if let Some(id) = self.of_module(symbol, signature)? {
            return Ok(id);
        }
        let name = symbol.strip_prefix(OF_C).unwrap_or(symbol);
        let id = self.module.declare_function(name, Linkage::Import, signature);
        id.map_err(|e| AdError::module(format!("%{name} cannot be imported"), e))
    }

    fn symbol(&self, symbol: &str) -> Result<FuncOrDataId, AdError> {
        if let Some((key, _)) = self.embedded.shadows.iter().find(|s| s.1 == symbol) {
            let of = &self.embedded.program.data[*key].symbol;
            let id = self.data(of)?;
            return match self.recorded.activity_of(id) {
                Some(DataActivity::Shadow(shadow)) => Ok(FuncOrDataId::Data(shadow)),
                _ => Err(AdError::usage(format!(
                    "%{of} is writable data: say with `set_data` that it is constant, or what its shadow is"
                ))),
            };
        }
        if let Some(&id) = self.known.get(symbol) {
            return Ok(FuncOrDataId::Func(id));
        }
        match self.function_named(symbol) {
            Some(id) => Ok(FuncOrDataId::Func(id)),
            None => self.data(symbol).map(FuncOrDataId::Data),
        }
    }

    fn data(&self, symbol: &str) -> Result<DataId, AdError> {
        data(&*self.module, symbol).ok_or_else(|| AdError::usage(format!("%{symbol} is no data of this module")))
    }

    fn compile(
        &mut self,
        id: FuncId,
        func: ir::Function,
        shared: &mut SharedFunctions,
        share: bool,
    ) -> Result<(), AdError> {
        let mut cx = self.module.make_context();
        cx.func = func.clone();
        cx.func.name = UserFuncName::user(0, id.as_u32());
        let name = self.module.declarations().get_function_decl(id).linkage_name(id).into_owned();
        forget_integer_region(&mut cx.func);
        let found = self.module.define_function(id, &mut cx);
        found.map_err(|e| AdError::module(format!("%{name} cannot be compiled"), e))?;
        if share {
            shared.add(func, id);
        }
        Ok(())
    }

    /// Define a function that traps, in place of one that could not be: the module can still be
    /// finished.
    fn trap(&mut self, id: FuncId) {
        let mut cx = self.module.make_context();
        cx.func.signature = self.module.declarations().get_function_decl(id).signature.clone();
        cx.func.name = UserFuncName::user(0, id.as_u32());
        let block = cx.func.dfg.make_block();
        cx.func.layout.append_block(block);
        for p in cx.func.signature.params.clone() {
            cx.func.dfg.append_block_param(block, p.value_type);
        }
        FuncCursor::new(&mut cx.func).at_bottom(block).ins().trap(TrapCode::unwrap_user(1));
        // A signature that cannot be compiled at all leaves the function undefined.
        let _ = self.module.define_function(id, &mut cx);
    }
}

fn types(signature: &ir::Signature) -> Vec<ir::Type> {
    let mark = [ir::types::INVALID];
    let types = |params: &[ir::AbiParam]| params.iter().map(|p| p.value_type).collect::<Vec<_>>();
    [types(&signature.params), mark.to_vec(), types(&signature.returns)].concat()
}

/// Functions that call each other.
struct Component {
    members: Vec<usize>,
    recursive: bool,
}

/// The functions, callees before callers.
fn callees_first(functions: &[EmbeddedFunction]) -> Vec<Component> {
    let number: HashMap<&str, usize> = functions.iter().enumerate().map(|(i, f)| (f.symbol.as_str(), i)).collect();
    let mut edges = brolga_ir::graph::Edges::with_capacity(functions.len(), functions.len());
    for f in functions {
        let called = functions_used(&f.func);
        let named = called.iter().map(|r| symbol_of(&f.func, &f.func.dfg.ext_funcs[r].name));
        let addressed = symbols_used(&f.func);
        let addressed = addressed.iter().filter_map(|gv| match &f.func.global_values[gv] {
            ir::GlobalValueData::Symbol { name, .. } => Some(symbol_of(&f.func, name)),
            _ => None,
        });
        let to: Vec<usize> = named.chain(addressed).filter_map(|s| number.get(s.as_str()).copied()).collect();
        edges.push(to);
    }
    // No edge leads to a lower number, so what is called has the highest.
    let mut by_number: std::collections::BTreeMap<usize, Component> = std::collections::BTreeMap::new();
    for (i, (n, recursive)) in brolga_ir::graph::order(&edges).into_iter().enumerate() {
        by_number.entry(n).or_insert(Component { members: vec![], recursive }).members.push(i);
    }
    by_number.into_values().rev().collect()
}
