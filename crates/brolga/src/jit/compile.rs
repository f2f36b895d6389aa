//! A derivation as machine code: primals, derived pairs, data objects and entry points in one
//! `JITModule`.
//!
//! **Question.** Functions of a derivation name each other by symbol, and have signatures of many
//! kinds. How do they become code that Rust can call?
//!
//! **Answer.** Here symbols become ids of functions and of data objects; functions of the run time
//! and of C are imports, found by name. For each function that Rust calls there is an *entry
//! point*, a C function of one pointer that reads arguments from an array of 16-byte cells, calls,
//! and writes results to the same array, so that one trampoline (`brolga_runtime::call_guarded`)
//! serves all signatures. What the request asked for is its own entry point, unless others call it
//! (`brolga_transform::clif::entry_thunk`).
//!
//! Only what the derivative calls is compiled with it. The primal is [added](CompiledModule::add)
//! to the same module when it is called, so that a function or a data object has one address for
//! both. So is the second derivative of a program that [asks for addresses](super::tiers): the
//! symbols of derived functions then mean those of the second.
//!
//! **Errors.** A symbol that is no data object (AD0151), a function that nothing defines (AD0152; a
//! fork or a loop that is none, AD0191), and a call of a data object (AD0153).
//!
//! **Cost.** One compilation of each function ([`codegen`]). A derived function is looked at once
//! more, to see whether Cranelift's mid-end would do it good. The code stays until the module is
//! dropped, that of a first tier too if a second is added to it.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use brolga_analysis::calls::summarise::reachable;
use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::names::Names;
use brolga_ir::program::{functions_used, symbol_of, symbols_used};
use brolga_ir::{Diagnostic, Diagnostics, Effort, FuncKey, Options, Program, intrinsics};
use brolga_rules::OF_C;
use brolga_transform::Derivation;
use brolga_transform::clif::entry_thunk::entry_signature;
use brolga_transform::program::codegen_units::{CodegenUnit, UnitRole};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Opcode, UserExternalName, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module, default_libcall_names};

use super::batch;
use super::codegen::{self, Code, Links, UncompiledFunction, worth_help};
use super::isa::host_isa;
use super::memory::CodeMemory;
use super::sincos::sincos;
use super::traps::{CodeMap, CompiledFunction};
use crate::Error;

/// What one symbol of generated code stands for.
#[derive(Clone, Copy)]
enum CompileTarget {
    Func(FuncId),
    Data(DataId),
}

/// What the run time has for generated code.
fn runtime_symbol(symbol: &str) -> Option<*const u8> {
    static SYMBOLS: LazyLock<HashMap<&'static str, usize>> =
        LazyLock::new(|| brolga_runtime::symbols().into_iter().map(|(name, at)| (name, at as usize)).collect());
    SYMBOLS.get(symbol.strip_prefix(OF_C).unwrap_or(symbol)).map(|&at| at as *const u8)
}

/// Ask once for a sine and a cosine, where both are glibc's and the program has not defined
/// functions of their names.
pub fn one_call_of_two(func: &mut ir::Function, program: &Program) {
    let has_definition = |k: FuncKey| program.funcs[k].body.is_some() || program.funcs[k].host.is_some();
    let is_of_c = |symbol: &str| {
        cfg!(all(target_os = "linux", target_env = "gnu"))
            && runtime_symbol(symbol).is_some()
            && !program.func(symbol).is_some_and(has_definition)
    };
    sincos(func, is_of_c);
}

/// How functions are named in a module; those of a second derivative have names of their own.
const FIRST: &str = "brolga";
const SECOND: &str = "brolga.second";

/// A module under construction.
pub(crate) struct Builder<'p> {
    program: &'p Program,
    linked: LinkState,
    /// What is going to be compiled.
    functions: Vec<UncompiledFunction>,
    /// What the module calls its functions: `NAME.SYMBOL`.
    name: &'static str,
}

/// What is known of a module between the times that something is added to it.
struct LinkState {
    module: JITModule,
    /// How its functions are compiled, as a rule.
    isa: OwnedTargetIsa,
    targets: HashMap<String, CompileTarget>,
    /// What has an address.
    functions: HashMap<FuncId, CompiledFunction>,
    /// Most threads that compile ([`Options::threads`]).
    threads: usize,
}

/// A finished module.
pub(crate) struct CompiledModule {
    /// The module; its memory is freed when this is dropped.
    linked: Mutex<Option<LinkState>>,
    /// Where everything lies.
    pub code: CodeMap,
    addresses: HashMap<String, usize>,
}

/// What was added to a module when it had been finished, and what was there before.
pub(crate) struct ModuleAddition {
    /// Where everything lies.
    pub code: CodeMap,
    addresses: HashMap<String, usize>,
}

impl CompiledModule {
    /// The address of a function or data object.
    pub(crate) fn address(&self, symbol: &str) -> Option<usize> {
        self.addresses.get(symbol).copied()
    }

    /// Define more. Nothing that is there moves.
    pub(crate) fn add(
        &self,
        program: &Program,
        define: impl FnOnce(&mut Builder<'_>) -> Result<(), Error>,
    ) -> Result<ModuleAddition, Error> {
        let mut linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || Error::Internal { stage: "link", message: "the module was lost in a panic".to_owned() };
        let linked_now = linked.take().ok_or_else(gone)?;
        let mut b = Builder { program, linked: linked_now, functions: Vec::new(), name: FIRST };
        let found = define(&mut b).and_then(|()| b.link());
        *linked = Some(b.linked);
        found.map(|(code, addresses)| ModuleAddition { code, addresses })
    }
}

impl ModuleAddition {
    /// The address of a function or data object.
    pub(crate) fn address(&self, symbol: &str) -> Option<usize> {
        self.addresses.get(symbol).copied()
    }
}

impl Drop for CompiledModule {
    fn drop(&mut self) {
        if let Some(linked) = self.linked.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: every run holds a reference to this value, so none is on its way, and no
            // other code was given an address that outlives it.
            unsafe { linked.module.free_memory() }
        }
    }
}

impl<'p> Builder<'p> {
    /// An empty module with all data objects of the program.
    pub(crate) fn new(program: &'p Program, options: &Options) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        let mut b = JITBuilder::with_isa(isa.clone(), default_libcall_names());
        b.symbol_lookup_fn(Box::new(runtime_symbol));
        b.memory_provider(Box::new(CodeMemory::new()));
        for f in program.funcs.values() {
            if let Some(address) = f.host {
                b.symbol(&f.symbol, address as *const u8);
            }
        }
        let module = JITModule::new(b);
        let (targets, functions) = Default::default();
        let linked = LinkState { module, isa, targets, functions, threads: options.threads };
        let mut this = Self { program, linked, functions: Vec::new(), name: FIRST };
        for d in program.data.values() {
            let mut desc = DataDescription::new();
            desc.define(d.bytes.clone().into_boxed_slice());
            desc.set_align(d.align.max(1));
            let name = format!("data.{}", d.symbol);
            let id = this
                .linked
                .module
                .declare_data(&name, Linkage::Local, d.writable, false)
                .map_err(|e| internal("data", &e))?;
            this.linked.module.define_data(id, &desc).map_err(|e| internal("data", &e))?;
            this.linked.targets.insert(d.symbol.clone(), CompileTarget::Data(id));
        }
        Ok(this)
    }

    /// Declare a function that will be defined here.
    pub(crate) fn declare(&mut self, symbol: &str, sig: &ir::Signature) -> Result<(), Error> {
        let id = self
            .linked
            .module
            .declare_function(&format!("{}.{symbol}", self.name), Linkage::Local, sig)
            .map_err(|e| internal("declare", &e))?;
        self.linked.targets.insert(symbol.to_owned(), CompileTarget::Func(id));
        Ok(())
    }

    fn target(&mut self, symbol: &str, sig: Option<&ir::Signature>) -> Result<CompileTarget, Error> {
        if let Some(&t) = self.linked.targets.get(symbol) {
            return Ok(t);
        }
        let Some(sig) = sig else {
            let d = Diagnostic::new("AD0151", format!("%{symbol} is no data object of the program"))
                .help("define it (in a .clif file: `; data: %name = f64[…]`)");
            return Err(Diagnostics::from(d).into());
        };
        let host = self.program.func(symbol).is_some_and(|k| self.program.funcs[k].host.is_some());
        if !host && runtime_symbol(symbol).is_none() {
            if let Some(d) = self.misuse(symbol) {
                return Err(Diagnostics::from(d).into());
            }
            let help = match symbol.starts_with("brolga_") {
                true => {
                    "derive the function that calls the derivative: floats that are moved in pieces need a run's account"
                }
                false => "define it in the program, or call a C math or memory function",
            };
            let d = Diagnostic::new("AD0152", format!("%{symbol} is imported, and nothing of that name is linked"))
                .note(format!("its signature is {sig}"))
                .help(help);
            return Err(Diagnostics::from(d).into());
        }
        let id =
            self.linked.module.declare_function(symbol, Linkage::Import, sig).map_err(|e| internal("import", &e))?;
        self.linked.targets.insert(symbol.to_owned(), CompileTarget::Func(id));
        Ok(CompileTarget::Func(id))
    }

    /// A call in the program of what would stand for a driver, if it were called in another way.
    fn misuse(&self, symbol: &str) -> Option<Diagnostic> {
        let bodies = self.program.funcs.iter().filter_map(|(key, f)| Some((key, f.body.as_ref()?)));
        bodies.filter(|_| intrinsics::is_intrinsic(symbol)).find_map(|(key, body)| {
            let calls = body.layout.blocks().flat_map(|b| body.layout.block_insts(b));
            let ((message, help), call) = { calls }.find_map(|i| {
                let is_meant = match body.dfg.insts[i] {
                    ir::InstructionData::Call { func_ref, .. } => {
                        symbol_of(body, &body.dfg.ext_funcs[func_ref].name) == symbol
                    }
                    _ => false,
                };
                Some((intrinsics::why_not(body, i).filter(|_| is_meant)?, i))
            })?;
            Some(Diagnostic::new("AD0191", message).at(self.program, key, call).help(help))
        })
    }

    /// A function whose external names are symbols (in the spelling of `names`, if there is one),
    /// to be compiled as the module is.
    pub(crate) fn define(
        &mut self,
        symbol: &str,
        mut func: ir::Function,
        names: Option<&Names>,
        owner: FuncKey,
    ) -> Result<&mut UncompiledFunction, Error> {
        let CompileTarget::Func(id) = self.linked.targets[symbol] else { unreachable!("declared as a function") };
        one_call_of_two(&mut func, self.program);
        let links = self.links(symbol, &func, names)?;
        let (symbol, func, isa) = (symbol.to_owned(), Arc::new(func), Some(self.linked.isa.clone()));
        self.functions.push(UncompiledFunction { id, symbol, func, links, isa, verified: false, owner });
        Ok(self.functions.last_mut().expect("just pushed"))
    }

    /// The ids of symbols.
    fn links(&mut self, symbol: &str, func: &ir::Function, names: Option<&Names>) -> Result<Links, Error> {
        let mut links = Links::default();
        let spelled = |s: String| names.and_then(|n| n.symbol(&s).map(str::to_owned)).unwrap_or(s);
        // What is declared and not called need not exist.
        for r in functions_used(func).iter() {
            let e = &func.dfg.ext_funcs[r];
            if matches!(e.name, ir::ExternalName::LibCall(_)) {
                continue;
            }
            let name = spelled(symbol_of(func, &e.name));
            let id = match self.target(&name, Some(&func.dfg.signatures[e.signature]))? {
                CompileTarget::Func(id) => id,
                CompileTarget::Data(_) => {
                    let d = Diagnostic::new("AD0153", format!("%{name} is called, but it is a data object"));
                    return Err(Diagnostics::from(d.in_func(symbol)).into());
                }
            };
            links.funcs.push((r, UserExternalName { namespace: 0, index: id.as_u32() }));
        }
        for gv in symbols_used(func).iter() {
            let ir::GlobalValueData::Symbol { name, .. } = &func.global_values[gv] else { continue };
            let s = spelled(symbol_of(func, name));
            let (namespace, index) = match self.target(&s, None)? {
                CompileTarget::Func(id) => (0, id.as_u32()),
                CompileTarget::Data(id) => (1, id.as_u32()),
            };
            links.symbols.push((gv, UserExternalName { namespace, index }));
        }
        Ok(links)
    }

    /// An entry point for a function: `symbol.entry(cells)`.
    pub(crate) fn entry_point(&mut self, symbol: &str, sig: &ir::Signature, owner: FuncKey) -> Result<(), Error> {
        let entry_sig = entry_signature(self.linked.module.isa());
        let name = format!("{symbol}.entry");
        self.declare(&name, &entry_sig)?;
        let mut func = ir::Function::with_name_signature(UserFuncName::default(), entry_sig);
        let mut fctx = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut fctx);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_all_blocks();
        let cells = b.block_params(block)[0];
        let flags = MemFlagsData::new().with_notrap();
        let args: Vec<_> = sig
            .params
            .iter()
            .enumerate()
            .map(|(i, p)| b.ins().load(p.value_type, flags, cells, i as i32 * 16))
            .collect();
        let s = b.import_signature(sig.clone());
        let callee = b.import_function(ir::ExtFuncData {
            name: ir::ExternalName::testcase(symbol),
            signature: s,
            colocated: false,
            patchable: false,
        });
        let call = b.ins().call(callee, &args);
        for (i, r) in b.inst_results(call).to_vec().into_iter().enumerate() {
            b.ins().store(flags, r, cells, i as i32 * 16);
        }
        b.ins().return_(&[]);
        b.finalize(self.linked.module.isa().frontend_config());
        // The symbol may have characters that a test-case name cannot be read back from; this one
        // is not read.
        self.define(&name, func, None, owner).map(drop)
    }

    /// Compile and link what was defined.
    fn link(&mut self) -> Result<(CodeMap, HashMap<String, usize>), Error> {
        let compiled = codegen::compile(std::mem::take(&mut self.functions), self.program, self.linked.threads)?;
        let LinkState { module, targets, functions, .. } = &mut self.linked;
        for function in &compiled {
            module
                .define_function_bytes(function.id, function.align, function.code.code_buffer(), &function.relocs)
                .map_err(|e| internal("define", &e))?;
        }
        module.finalize_definitions().map_err(|e| internal("finalize", &e))?;
        for (id, f) in compiled.into_iter().map(Code::function) {
            let start = module.get_finalized_function(id) as usize;
            functions.insert(id, CompiledFunction { start, ..f });
        }
        let mut addresses = HashMap::default();
        for (symbol, t) in targets.iter() {
            let address = match *t {
                CompileTarget::Data(id) => Some(module.get_finalized_data(id).0 as usize),
                CompileTarget::Func(id) => {
                    functions.get(&id).map(|f| f.start).or_else(|| runtime_symbol(symbol).map(|p| p as usize))
                }
            };
            addresses.insert(symbol.clone(), address.unwrap_or(0));
        }
        Ok((CodeMap::new(functions.values().cloned().collect()), addresses))
    }

    /// Link everything.
    pub(crate) fn finish(mut self) -> Result<CompiledModule, Error> {
        let (code, addresses) = self.link()?;
        Ok(CompiledModule { linked: Mutex::new(Some(self.linked)), code, addresses })
    }

    /// The same with other options, if there are any.
    fn primals_as(&mut self, options: Option<&Options>, funcs: &[FuncKey]) -> Result<(), Error> {
        let Some(options) = options else { return self.primals(funcs) };
        let given_isa = std::mem::replace(&mut self.linked.isa, host_isa(options)?);
        let found = self.primals(funcs);
        self.linked.isa = given_isa;
        found
    }

    /// Functions of the program, as they are, as far as they are not there yet.
    fn primals(&mut self, funcs: &[FuncKey]) -> Result<(), Error> {
        let program = self.program;
        let missing: Vec<_> = funcs
            .iter()
            .map(|&k| (k, &program.funcs[k]))
            .filter(|(_, f)| f.body.is_some() && !self.linked.targets.contains_key(&f.symbol))
            .collect();
        for (_, f) in &missing {
            self.declare(&f.symbol, &f.signature)?;
        }
        for (k, f) in missing {
            if let Some(body) = &f.body {
                self.define(&f.symbol, body.clone(), None, k)?.verified = true;
            }
        }
        Ok(())
    }
}

/// Instructions of a short block.
const SHORT: usize = 150;

/// Whether Cranelift's mid-end would do a derived function more harm than good.
///
/// It computes pure values where they are first needed. A pullback is long chains of those between
/// loads, and in a large one they are then all computed at the end, from loads that live until
/// there; or, with many branches, once in every arm. Measured on generated functions: code five to
/// thirty times as large, compiled in quadratic time. The transform already emits what a large
/// function needs. Where nothing is repeated there is nothing to hoist either, which is most of
/// what the mid-end is good for: a chain of 400 multiplications is compiled twice as fast without
/// it, and runs by a third faster. But only the mid-end replaces divisions of integers by
/// constants.
///
/// Where blocks are short no long chain is there to be moved, and more branches and instructions do
/// no harm: loops that a C compiler has unrolled, with what they leave over, are many short blocks.
/// There, blocks for rare runs do not count, as whatever becomes of them costs no time when it
/// runs, unless they are more than all others.
///
/// Blocks that run iterations in lanes do not count: they are there beside what they do.
/// `versioned` says that half of the function is there twice.
pub fn is_better_plain(func: &ir::Function, versioned: bool) -> bool {
    let divides = divides_by_constants(func);
    // What the mid-end would do for a short function has been done.
    if brolga_clif::licm_gvn::is_short(func) {
        return !divides;
    }
    let lanes = brolga_clif::vectorise::in_front(func);
    // An edge back in layout order: all loops have one, and it costs nothing to ask. A loop that
    // asks at its end adds no arm.
    let mut earlier = brolga_ir::map::HashSet::default();
    let (mut loops, mut longest) = (false, 0);
    // Instructions and branches: of all blocks, and of those that are not for rare runs.
    let (mut all, mut warm) = ((0, 0), (0, 0));
    for b in func.layout.blocks() {
        earlier.insert(b);
        let back = func.block_successors(b).any(|s| earlier.contains(&s));
        loops |= back;
        if lanes.contains(b) {
            continue;
        }
        let insts = func.layout.block_insts(b).count();
        let branches = usize::from(!back && func.block_successors(b).nth(1).is_some());
        longest = longest.max(insts);
        all = (all.0 + insts, all.1 + branches);
        if !func.layout.is_cold(b) {
            warm = (warm.0 + insts, warm.1 + branches);
        }
    }
    let ((insts, branches), most) = match versioned {
        _ if longest <= SHORT => ((warm.0.max(all.0 / 2), warm.1.max(all.1 / 2)), (4000, 128)),
        true => (all, (3000, 64)),
        false => (all, (2000, 32)),
    };
    insts > most.0 || branches > most.1 || !divides && (!loops || !has_cycle(func))
}

/// Whether integers are divided by constants, which the mid-end replaces by shifts and
/// multiplications: a recursion by halves waits for nothing else.
fn divides_by_constants(func: &ir::Function) -> bool {
    let is_constant = |v: ir::Value| {
        let inst = func.dfg.value_def(func.dfg.resolve_aliases(v)).inst();
        inst.is_some_and(|i| func.dfg.insts[i].opcode() == Opcode::Iconst)
    };
    func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).any(|i| {
        let divides = matches!(func.dfg.insts[i].opcode(), Opcode::Sdiv | Opcode::Udiv | Opcode::Srem | Opcode::Urem);
        divides && is_constant(func.dfg.inst_args(i)[1])
    })
}

/// Whether control flow leads from some block to itself.
fn has_cycle(func: &ir::Function) -> bool {
    // Blocks on the way from the entry to where the search is, and those from which it has come
    // back.
    let (mut open, mut done) = (HashSet::default(), HashSet::default());
    let mut work: Vec<(ir::Block, bool)> = func.layout.entry_block().map(|b| (b, false)).into_iter().collect();
    while let Some((b, leave)) = work.pop() {
        if leave {
            open.remove(&b);
            done.insert(b);
        } else if open.contains(&b) {
            return true;
        } else if !done.contains(&b) {
            open.insert(b);
            work.push((b, true));
            work.extend(func.block_successors(b).map(|s| (s, false)));
        }
    }
    false
}

fn internal(stage: &'static str, e: &dyn std::fmt::Display) -> Error {
    Error::Internal { stage, message: e.to_string() }
}

/// Declare and define functions of a program as they are, with entry points for `roots`.
pub(crate) fn primals(
    program: &Program,
    roots: &[FuncKey],
    needed: &[FuncKey],
    options: &Options,
) -> Result<CompiledModule, Error> {
    let mut b = Builder::new(program, options)?;
    b.primals(needed)?;
    for &k in roots.iter().filter(|&&k| program.funcs[k].body.is_some()) {
        b.entry_point(&program.funcs[k].symbol, &program.funcs[k].signature, k)?;
    }
    b.finish()
}

/// Functions of the program that derived functions call as they are, directly or not. Where
/// functions are called through pointers, all: which one a pointer leads to is known by the address
/// that the primal took.
fn called(d: &Derivation) -> Vec<FuncKey> {
    if !d.captures.is_empty() {
        return d.primals.clone();
    }
    let mut work: Vec<FuncKey> = Vec::new();
    let joint = d.combined.iter().chain(&d.joint).map(|w| &w.func);
    for func in joint.chain(d.pairs.iter().flat_map(|p| [&p.forward, &p.pullback])) {
        let named = func.dfg.ext_funcs.values().map(|e| &e.name);
        let data = func.global_values.values().filter_map(|g| match g {
            ir::GlobalValueData::Symbol { name, .. } => Some(name),
            _ => None,
        });
        work.extend(named.chain(data).filter_map(|name| {
            let spelled = symbol_of(func, name);
            d.program.func(d.names.symbol(&spelled).unwrap_or(&spelled))
        }));
    }
    let mut found: HashSet<FuncKey> = HashSet::default();
    while let Some(k) = work.pop() {
        if found.insert(k) {
            work.extend(reachable(&d.program, k));
        }
    }
    d.primals.iter().copied().filter(|k| found.contains(k)).collect()
}

/// The root's derivative as it is compiled: forward pass and pullback, or the combined function.
pub(crate) type RootBodies = Vec<Arc<ir::Function>>;

/// Declare and define the derived functions, and what they call. `primals` is for functions of the
/// program, if those are compiled otherwise.
pub(crate) fn compile(
    d: &mut Derivation,
    root: FuncKey,
    options: &Options,
    primals: Option<&Options>,
) -> Result<(CompiledModule, RootBodies), Error> {
    let taken = CompiledParts::from(d, options)?;
    let mut b = Builder::new(&d.program, options)?;
    let shown = derived(&mut b, d, taken, root, options, primals)?;
    Ok((b.finish()?, shown))
}

/// The same beside a derivative that is there, of the same function: both share all functions and
/// data objects of the program.
pub(crate) fn add_second(
    compiled: &CompiledModule,
    d: &mut Derivation,
    root: FuncKey,
    options: &Options,
) -> Result<(ModuleAddition, RootBodies), Error> {
    let isa = host_isa(options)?;
    let taken = CompiledParts::from(d, options)?;
    let mut shown = RootBodies::new();
    let added = compiled.add(&d.program, |b| {
        (b.linked.isa, b.name) = (isa, SECOND);
        shown = derived(b, d, taken, root, options, None)?;
        Ok(())
    })?;
    Ok((added, shown))
}

/// What is compiled of a derivation, which has no more use for it.
struct CompiledParts {
    units: Vec<(CodegenUnit, ir::Function)>,
    /// Functions of the program that they call as they are.
    called: Vec<FuncKey>,
}

impl CompiledParts {
    fn from(d: &mut Derivation, options: &Options) -> Result<Self, Error> {
        let isa = host_isa(options)?;
        let called = called(d);
        let units = d.codegen_units();
        let (mut taken, mut problems) = (Vec::with_capacity(units.len()), Diagnostics::default());
        for unit in units {
            match d.take(&unit, &*isa) {
                Ok(func) => taken.push((unit, func)),
                Err(e) => problems.extend(e.0),
            }
        }
        let sizes = taken.iter().map(|p| p.1.dfg.num_insts());
        if worth_help(sizes.clone(), sizes.sum()) {
            batch::wake(options.threads);
        }
        Ok(problems.or_ok(Self { units: taken, called })?)
    }
}

fn derived(
    b: &mut Builder<'_>,
    d: &Derivation,
    CompiledParts { units, called }: CompiledParts,
    root: FuncKey,
    options: &Options,
    primals: Option<&Options>,
) -> Result<RootBodies, Error> {
    for (unit, func) in &units {
        b.declare(&unit.symbol, &func.signature)?;
    }
    b.primals_as(primals, &called)?;
    let (mut shown, mut thunks) = (RootBodies::new(), false);
    for (unit, func) in units {
        let plain = options.effort != Effort::Quick && is_better_plain(&func, unit.versioned);
        let function = b.define(&unit.symbol, func, Some(&d.names), unit.owner)?;
        if plain {
            function.isa = None;
        }
        thunks |= unit.thunk;
        if is_root(unit.role, d) {
            shown.push(Arc::clone(&function.func));
        }
    }
    if !thunks {
        // Others call the root's pair.
        let p = &d.pairs[0];
        b.entry_point(&p.forward_symbol, &p.forward.signature, root)?;
        b.entry_point(&p.pullback_symbol, &p.pullback.signature, root)?;
    }
    Ok(shown)
}

/// Whether a unit is what was asked for.
fn is_root(role: UnitRole, d: &Derivation) -> bool {
    match role {
        UnitRole::Root => true,
        UnitRole::Forward(i) | UnitRole::Pullback(i) => i == 0 && d.combined.is_none(),
        UnitRole::Joint(_) | UnitRole::Entry(..) => false,
    }
}

/// The primal of a request, and what it calls, added to the module of its derivative; with its
/// entry point. As the derivative is compiled, or as is said.
pub(crate) fn add_primal(
    compiled: &CompiledModule,
    program: &Program,
    root: FuncKey,
    options: Option<&Options>,
) -> Result<(ModuleAddition, usize), Error> {
    let f = &program.funcs[root];
    let isa = options.map(host_isa).transpose()?;
    let added = compiled.add(program, |b| {
        if let Some(isa) = isa {
            b.linked.isa = isa;
        }
        b.primals(&reachable(program, root))?;
        b.entry_point(&f.symbol, &f.signature, root)
    })?;
    let entry = added.address(&format!("{}.entry", f.symbol)).expect("it was defined");
    Ok((added, entry))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// A loop, after so many branches, and so many in blocks for rare runs.
    fn branches(warm: usize, cold: usize) -> ir::Function {
        let mut text = "function %f(i64) {\nblock0(v0: i64):\n jump block1\n".to_owned();
        for i in 1..=warm + cold {
            let cold = if i > warm { " cold" } else { "" };
            let (here, next) = (2 * i - 1, 2 * i + 1);
            write!(text, "block{here}{cold}:\n brif v0, block{}, block{next}\n", here + 1).expect("strings grow");
            write!(text, "block{}{cold}:\n jump block{next}\n", here + 1).expect("strings grow");
        }
        let (last, exit) = (2 * (warm + cold) + 1, 2 * (warm + cold) + 2);
        write!(text, "block{last}:\n brif v0, block{last}, block{exit}\nblock{exit}:\n return\n}}").expect("grows");
        cranelift_reader::parse_functions(&text).unwrap_or_else(|e| panic!("{e}: {text}")).remove(0)
    }

    #[test]
    fn a_block_that_stands_before_where_it_is_reached_from_is_no_loop() {
        let chain = (0..150).map(|i| format!(" v{} = fmul v{i}, v{i}\n", i + 1)).collect::<String>();
        let text = |last: &str| {
            format!(
                "function %f(f64, i64) -> f64 {{\nblock0(v0: f64, v1000: i64):\n{chain} brif v1000, block1, block2\n\
                 block1:\n return v150\nblock2:\n brif v1000, block3, block4\nblock3:\n jump block1\nblock4:\n {last}\n}}"
            )
        };
        for (last, plain) in [("jump block1", true), ("jump block2", false)] {
            let func = cranelift_reader::parse_functions(&text(last)).unwrap_or_else(|e| panic!("{e}")).remove(0);
            assert!(!brolga_clif::licm_gvn::is_short(&func));
            assert_eq!(is_better_plain(&func, false), plain, "{last}");
        }
    }

    #[test]
    fn divisions_by_constants_are_for_the_mid_end() {
        for (op, by, plain) in
            [("sdiv", "v2", false), ("urem", "v2", false), ("sdiv", "v1", true), ("iadd", "v2", true)]
        {
            let text = format!(
                "function %f(i64, i64) -> i64 {{\nblock0(v0: i64, v1: i64):\n v2 = iconst.i64 2\n v3 = {op} v0, {by}\n return v3\n}}"
            );
            let func = cranelift_reader::parse_functions(&text).unwrap_or_else(|e| panic!("{e}")).remove(0);
            assert_eq!(is_better_plain(&func, false), plain, "{op} {by}");
        }
    }

    #[test]
    fn blocks_for_rare_runs_do_not_count_if_blocks_are_short() {
        for (warm, cold, plain) in
            [(128, 0, false), (129, 0, true), (80, 80, false), (128, 128, false), (80, 180, true)]
        {
            assert_eq!(is_better_plain(&branches(warm, cold), true), plain, "{warm} and {cold} cold");
        }
    }
}
