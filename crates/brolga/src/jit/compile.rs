//! A derivation as machine code: primals, derived pairs, data objects and entry points in one `JITModule`.
//!
//! Functions of a derivation name each other by symbol; here symbols become `FuncId`s. For each function that we call from
//! Rust there is an *entry point*, a C function of one pointer that reads arguments from an array of 16-byte cells, calls,
//! and writes results to the same array, so that one trampoline (`brolga_runtime::call_guarded`) serves all signatures.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use brolga_ir::names::Names;
use brolga_ir::program::symbol_of;
use brolga_ir::{Diagnostic, Diagnostics, Options, Program};
use brolga_transform::Derivation;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, UserExternalName, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{
    DataDescription, DataId, FuncId, Linkage, Module, ModuleError, ModuleReloc, default_libcall_names,
};

use super::traps::{CodeMap, CompiledFunction};
use crate::Error;

/// The host, with the flags that derived code needs.
pub fn host_isa(optimize: bool) -> Result<OwnedTargetIsa, Error> {
    let internal = |message: String| Error::Internal { stage: "host", message };
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", if optimize { "speed" } else { "none" }),
        ("is_pic", "false"),
        ("use_colocated_libcalls", "false"),
        // Derived functions return as many values as they have cotangents.
        ("enable_multi_ret_implicit_sret", "true"),
        // 128-bit integers as arguments.
        ("enable_llvm_abi_extensions", "true"),
        // Large frames must touch the guard page, so that an overflow is found.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
        // Tail calls of the primal rely on them.
        ("preserve_frame_pointers", "true"),
        // Every emitted function has been verified when it was emitted.
        ("enable_verifier", "false"),
    ] {
        flags.set(name, value).map_err(|e| internal(e.to_string()))?;
    }
    let builder = cranelift_native::builder().map_err(|e| internal(e.to_owned()))?;
    builder.finish(settings::Flags::new(flags)).map_err(|e| internal(e.to_string()))
}

/// What one symbol of generated code stands for.
#[derive(Clone, Copy)]
enum Target {
    Func(FuncId),
    Data(DataId),
}

/// A module under construction.
pub struct Builder<'p> {
    module: JITModule,
    program: &'p Program,
    targets: HashMap<String, Target>,
    functions: Vec<(FuncId, CompiledFunction)>,
    ctx: Context,
    /// The host without the mid-end, for large derived functions.
    plain: OwnedTargetIsa,
}

/// A finished module.
pub struct Compiled {
    /// The module; its memory is freed when this is dropped. Behind a lock only because it is not `Sync`.
    module: Mutex<Option<JITModule>>,
    /// Where everything lies.
    pub code: CodeMap,
    addresses: HashMap<String, usize>,
}

impl Compiled {
    /// The address of a function or data object.
    pub fn address(&self, symbol: &str) -> Option<usize> {
        self.addresses.get(symbol).copied()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(m) = self.module.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: every run holds a reference to this value, so none is on its way, and nobody else was given an
            // address that outlives it.
            unsafe { m.free_memory() }
        }
    }
}

impl<'p> Builder<'p> {
    /// An empty module with all data objects of the program.
    pub fn new(program: &'p Program, isa: OwnedTargetIsa) -> Result<Self, Error> {
        let mut b = JITBuilder::with_isa(isa, default_libcall_names());
        for (name, address) in brolga_runtime::symbols() {
            b.symbol(name, address);
        }
        for f in program.funcs.values() {
            if let Some(address) = f.host {
                b.symbol(&f.symbol, address as *const u8);
            }
        }
        let module = JITModule::new(b);
        let ctx = module.make_context();
        let plain = host_isa(false)?;
        let mut this = Self { module, program, targets: HashMap::new(), functions: Vec::new(), ctx, plain };
        for d in program.data.values() {
            let mut desc = DataDescription::new();
            desc.define(d.bytes.clone().into_boxed_slice());
            desc.set_align(d.align.max(1));
            let name = format!("data.{}", d.symbol);
            let id =
                this.module.declare_data(&name, Linkage::Local, d.writable, false).map_err(|e| internal("data", &e))?;
            this.module.define_data(id, &desc).map_err(|e| internal("data", &e))?;
            this.targets.insert(d.symbol.clone(), Target::Data(id));
        }
        Ok(this)
    }

    /// Declare a function that will be defined here.
    pub fn declare(&mut self, symbol: &str, sig: &ir::Signature) -> Result<(), Error> {
        let id = self
            .module
            .declare_function(&format!("brolga.{symbol}"), Linkage::Local, sig)
            .map_err(|e| internal("declare", &e))?;
        self.targets.insert(symbol.to_owned(), Target::Func(id));
        Ok(())
    }

    fn target(&mut self, symbol: &str, sig: Option<&ir::Signature>) -> Result<Target, Error> {
        if let Some(&t) = self.targets.get(symbol) {
            return Ok(t);
        }
        let Some(sig) = sig else {
            let d = Diagnostic::new("AD0151", format!("%{symbol} is no data object of the program"))
                .help("define it (in a .clif file: `; data: %name = f64[…]`)");
            return Err(Diagnostics::from(d).into());
        };
        let host = self.program.func(symbol).is_some_and(|k| self.program.funcs[k].host.is_some());
        if !host && !brolga_runtime::symbols().iter().any(|s| s.0 == symbol) {
            let d = Diagnostic::new("AD0152", format!("%{symbol} is imported, and nothing of that name is linked"))
                .note(format!("its signature is {sig}"))
                .help("define it in the program, or call a C math or memory function");
            return Err(Diagnostics::from(d).into());
        }
        let id = self.module.declare_function(symbol, Linkage::Import, sig).map_err(|e| internal("import", &e))?;
        self.targets.insert(symbol.to_owned(), Target::Func(id));
        Ok(Target::Func(id))
    }

    /// Compile a function whose external names are symbols (in the spelling of `names`, if there is one); `plain` is without the
    /// mid-end.
    pub fn define(
        &mut self,
        symbol: &str,
        mut func: ir::Function,
        names: Option<&Names>,
        plain: bool,
        owner: brolga_ir::FuncKey,
    ) -> Result<(), Error> {
        func.stack_limit = None;
        let spelled = |s: String| names.and_then(|n| n.symbol(&s).map(str::to_owned)).unwrap_or(s);
        for r in func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
            let e = &func.dfg.ext_funcs[r];
            if matches!(e.name, ir::ExternalName::LibCall(_)) {
                continue;
            }
            let name = spelled(symbol_of(&func, &e.name));
            let sig = func.dfg.signatures[e.signature].clone();
            let id = match self.target(&name, Some(&sig))? {
                Target::Func(id) => id,
                Target::Data(_) => {
                    let d = Diagnostic::new("AD0153", format!("%{name} is called, but it is a data object"));
                    return Err(Diagnostics::from(d.in_func(symbol)).into());
                }
            };
            let name = func.declare_imported_user_function(UserExternalName { namespace: 0, index: id.as_u32() });
            func.dfg.ext_funcs[r].name = ir::ExternalName::user(name);
            func.dfg.ext_funcs[r].colocated = false;
        }
        for gv in func.global_values.keys().collect::<Vec<_>>() {
            let ir::GlobalValueData::Symbol { name, .. } = &func.global_values[gv] else { continue };
            let s = spelled(symbol_of(&func, name));
            let (namespace, index) = match self.target(&s, None)? {
                Target::Func(id) => (0, id.as_u32()),
                Target::Data(id) => (1, id.as_u32()),
            };
            let new = func.declare_imported_user_function(UserExternalName { namespace, index });
            if let ir::GlobalValueData::Symbol { name, colocated, .. } = &mut func.global_values[gv] {
                *name = ir::ExternalName::user(new);
                *colocated = false;
            }
        }
        let Target::Func(id) = self.targets[symbol] else { unreachable!("declared as a function") };
        func.name = UserFuncName::user(0, id.as_u32());
        self.compile(id, symbol, func, plain, owner)
    }

    fn compile(
        &mut self,
        id: FuncId,
        symbol: &str,
        func: ir::Function,
        plain: bool,
        owner: brolga_ir::FuncKey,
    ) -> Result<(), Error> {
        // The mid-end has been seen to panic on valid functions that the back end alone compiles.
        let again = (!plain).then(|| func.clone());
        let mut failed = self.attempt(id, func, plain).err();
        if failed.is_some()
            && let Some(func) = again
        {
            failed = self.attempt(id, func, true).err();
        }
        if let Some(what) = failed {
            let d = Diagnostic::new("AD0160", format!("Cranelift cannot compile %{symbol} for this machine"))
                .in_func(&self.program.funcs[owner].symbol)
                .note(what)
                .help("replace the unsupported instruction by ones that the back end has");
            return Err(Diagnostics::from(d).into());
        }
        let code = self.ctx.compiled_code().expect("just compiled");
        let traps = code.buffer.traps().iter().map(|t| (t.offset, t.code)).collect();
        let locs = code.buffer.get_srclocs_sorted().iter().map(|l| (l.start, l.end, l.loc.bits())).collect();
        let size = code.code_info().total_size;
        let f = CompiledFunction { owner, start: 0, size, traps, locs };
        self.functions.push((id, f));
        Ok(())
    }

    /// Compile with the mid-end or without, and define. An error or a panic of Cranelift's comes back as text.
    fn attempt(&mut self, id: FuncId, func: ir::Function, plain: bool) -> Result<(), String> {
        self.ctx.clear();
        self.ctx.func = func;
        let (module, ctx, plain_isa) = (&mut self.module, &mut self.ctx, &*self.plain);
        let define = || -> Result<(), Box<ModuleError>> {
            let isa = if plain { plain_isa } else { module.isa() };
            let align = isa.function_alignment().minimum.max(isa.symbol_alignment() as u32);
            ctx.compile(isa, &mut ControlPlane::default()).map_err(|e| Box::new(ModuleError::Compilation(e.inner)))?;
            let code = ctx.compiled_code().expect("just compiled");
            let bytes = code.code_buffer().to_vec();
            let align = u64::from(align).max(u64::from(code.buffer.alignment));
            let relocs: Vec<ModuleReloc> =
                code.buffer.relocs().iter().map(|r| ModuleReloc::from_mach_reloc(r, &ctx.func, id)).collect();
            module.define_function_bytes(id, align, &bytes, &relocs).map_err(Box::new)
        };
        // Cranelift panics on some instructions that a back end does not support.
        match crate::quiet::quietly(|| catch_unwind(AssertUnwindSafe(define))) {
            Ok(result) => result.map_err(|e| format!("{e:?}")),
            Err(panic) => {
                self.ctx = self.module.make_context();
                let text = panic.downcast_ref::<String>().cloned();
                Err(text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
            }
        }
    }

    /// An entry point for a function: `symbol.entry(cells)`.
    pub fn entry_point(&mut self, symbol: &str, sig: &ir::Signature, owner: brolga_ir::FuncKey) -> Result<(), Error> {
        let entry_sig = brolga_transform::derive::entry_signature(self.module.isa());
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
        b.finalize(self.module.isa().frontend_config());
        // The symbol may have characters that a test-case name cannot be read back from; nobody reads this one.
        self.define(&name, func, None, false, owner)
    }

    /// Link everything.
    pub fn finish(mut self) -> Result<Compiled, Error> {
        self.module.finalize_definitions().map_err(|e| internal("finalize", &e))?;
        let mut addresses = HashMap::new();
        for (symbol, t) in &self.targets {
            let address = match *t {
                Target::Data(id) => self.module.get_finalized_data(id).0 as usize,
                Target::Func(id) => match self.functions.iter().any(|f| f.0 == id) {
                    true => self.module.get_finalized_function(id) as usize,
                    false => brolga_runtime::symbols().iter().find(|s| s.0 == symbol).map_or(0, |s| s.1 as usize),
                },
            };
            addresses.insert(symbol.clone(), address);
        }
        let functions = self
            .functions
            .into_iter()
            .map(|(id, f)| CompiledFunction { start: self.module.get_finalized_function(id) as usize, ..f })
            .collect();
        Ok(Compiled { module: Mutex::new(Some(self.module)), code: CodeMap::new(functions), addresses })
    }
}

/// Instructions of a short block.
const SHORT: usize = 150;

/// Whether Cranelift's mid-end would do a derived function more harm than good.
///
/// It computes pure values where they are first needed. A pullback is long chains of those between loads, and in a large one
/// they are then all computed at the end, from loads that live until there; or, with many branches, once in every arm.
/// Measured on generated functions: code five to thirty times as large, compiled in quadratic time. The transform already
/// emits what a large function needs. Where nothing is repeated there is nothing to hoist either, which is most of what the
/// mid-end is good for: a chain of 400 multiplications is compiled twice as fast without it, and runs by a third faster.
///
/// Where blocks are short no long chain is there to be moved, and more branches and instructions do no harm: loops that a C compiler has
/// unrolled, with what they leave over, are many short blocks.
///
/// `twice` says that half of the function is there twice.
pub fn is_better_plain(func: &ir::Function, twice: bool) -> bool {
    let branches = func
        .layout
        .blocks()
        .filter_map(|b| func.layout.last_inst(b))
        .filter(|&i| func.dfg.insts[i].branch_destination(&func.dfg.jump_tables, &func.dfg.exception_tables).len() > 1)
        .count();
    let lengths = || func.layout.blocks().map(|b| func.layout.block_insts(b).count());
    let (insts, longest) = (lengths().sum::<usize>(), lengths().max().unwrap_or(0));
    // An edge back in layout order: all loops have one, and it costs nothing to ask.
    let mut earlier = std::collections::HashSet::new();
    let loops = func.layout.blocks().any(|b| {
        earlier.insert(b);
        func.block_successors(b).any(|s| earlier.contains(&s))
    });
    let (most_branches, most_insts) = match twice {
        _ if longest <= SHORT => (128, 4000),
        true => (64, 3000),
        false => (32, 2000),
    };
    !loops || branches > most_branches || insts > most_insts
}

fn internal(stage: &'static str, e: &dyn std::fmt::Display) -> Error {
    Error::Internal { stage, message: e.to_string() }
}

/// Declare and define functions of a program as they are, with entry points for `roots`.
pub fn primals(
    program: &Program,
    roots: &[brolga_ir::FuncKey],
    needed: &[brolga_ir::FuncKey],
    options: &Options,
) -> Result<Compiled, Error> {
    let mut b = Builder::new(program, host_isa(options.optimize)?)?;
    let bodies = || needed.iter().filter_map(|&k| Some((k, &program.funcs[k], program.funcs[k].body.clone()?)));
    for (_, f, _) in bodies() {
        b.declare(&f.symbol, &f.signature)?;
    }
    for (k, f, body) in bodies() {
        b.define(&f.symbol, body, None, false, k)?;
    }
    for (k, f, _) in bodies().filter(|(k, ..)| roots.contains(k)) {
        b.entry_point(&f.symbol, &f.signature, k)?;
    }
    b.finish()
}

/// Declare and define all functions of a derivation.
pub fn compile(d: &Derivation, root: brolga_ir::FuncKey, options: &Options) -> Result<Compiled, Error> {
    let isa = host_isa(options.optimize)?;
    let mut b = Builder::new(&d.program, isa)?;
    for &k in &d.primals {
        b.declare(&d.program.funcs[k].symbol, &d.program.funcs[k].signature)?;
    }
    for w in d.whole.iter().chain(&d.wholes) {
        b.declare(&w.symbol, &w.func.signature)?;
    }
    for p in &d.pairs {
        b.declare(&p.forward_symbol, &p.forward.signature)?;
        b.declare(&p.pullback_symbol, &p.pullback.signature)?;
    }
    for &k in &d.primals {
        let f = &d.program.funcs[k];
        let body = f.body.clone().expect("these functions have bodies");
        b.define(&f.symbol, body, None, false, k)?;
    }
    for w in d.whole.iter().chain(&d.wholes) {
        let plain = is_better_plain(&w.func, w.twice);
        b.define(&w.symbol, w.func.clone(), Some(&d.names), plain, w.variant.func)?;
    }
    for p in &d.pairs {
        for (symbol, half) in [(&p.forward_symbol, &p.forward), (&p.pullback_symbol, &p.pullback)] {
            b.define(symbol, half.clone(), Some(&d.names), is_better_plain(half, false), p.variant.func)?;
        }
    }
    let f = &d.program.funcs[root];
    b.entry_point(&f.symbol, &f.signature, root)?;
    if let Some(w) = &d.whole {
        b.entry_point(&w.symbol, &w.func.signature, root)?;
    } else {
        let p = &d.pairs[0];
        b.entry_point(&p.forward_symbol, &p.forward.signature, root)?;
        b.entry_point(&p.pullback_symbol, &p.pullback.signature, root)?;
    }
    b.finish()
}
