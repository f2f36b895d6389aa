//! The program: a closed set of functions and data objects that refer to each other by symbol.
//!
//! **Question.** CLIF functions name their callees through `ExternalName`s, and what such a name
//! means is the embedder's business. What does a derivation take it to mean?
//!
//! **Answer.** A [`Program`] settles it: every name becomes a symbol string ([`symbol_of`]), and
//! every symbol is a defined function, an imported function or a data object. [`Func`] and
//! [`DataObject`] hold what frontends say of them beside the body and the bytes. The pipeline reads
//! programs and never edits them: a derivation that needs more functions copies the program.
//!
//! **Invariant.** The `SourceLoc` of every instruction of a body is `inst index + 1` (see
//! [`Program::define`]), so whatever is made from it, down to a machine-code offset, can still be
//! traced back to the instruction that the user wrote. The source locations that the body came with
//! are kept in [`Func::srclocs`].
//!
//! **Cost.** To define a function, a few walks over its instructions. A copy of a program shares
//! its functions, and copies the bytes of its data objects.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::map::HashMap;
use cranelift_codegen::ir::instructions::CallInfo;
use cranelift_codegen::ir::{self, UserFuncName};
use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};

use crate::attached::AttachedValue;
use crate::copies::Copies;
use crate::driver::Driver;
use crate::driver_call::MadeFunc;
use crate::{DataKey, FuncKey, fork, intrinsics, source_name};

pub use crate::symbols::{libcall_symbol, symbol_in, symbol_of};

/// A function of the program.
#[derive(Clone, Debug)]
pub struct Func {
    /// Symbol, without the `%` of CLIF text.
    pub symbol: String,
    /// What the source calls the function, where the frontend knows that, and the symbol alone does
    /// not say it: see [`Func::source_name`].
    pub called: Option<String>,
    /// Signature as declared.
    pub signature: ir::Signature,
    /// The body, verified; `None` for an imported function.
    pub body: Option<ir::Function>,
    /// Source location of each instruction as the frontend gave it.
    pub srclocs: SecondaryMap<ir::Inst, ir::SourceLoc>,
    /// Where each instruction stands in what the user wrote: see [`crate::position()`].
    pub lines: SecondaryMap<ir::Inst, u32>,
    /// Of a function that is a derivative: which instruction that the user wrote each stems from.
    pub stems: SecondaryMap<ir::Inst, Option<(FuncKey, ir::Inst)>>,
    /// Where the embedder's own implementation of an imported function lies (see
    /// [`Program::define_host`]).
    pub host: Option<usize>,
    /// The known function that this one computes, though it has a body of its own (a C library that
    /// was compiled into the program). Its first parameter is the instance; the others are the
    /// known function's. Calls of it are differentiated by the known function's rule, at the values
    /// that the body gives.
    pub computes: Option<&'static str>,
    /// The user's rule for it, by which calls are differentiated: a `MathRule` of `brolga_rules`.
    /// It counts before a body, and before what is known of the name.
    pub rule: Option<AttachedValue>,
    /// The user's adjoint for it, by which calls are differentiated: an `AdjointRule` of
    /// `brolga_rules`. Analyses see the body.
    pub adjoint: Option<AttachedValue>,
    /// Whether a function of the embedder's may be called once more with the memory that it found:
    /// it does the same, and nothing that is seen outside of it.
    pub repeatable: bool,
    /// The body only says what the function may do, and is not the function's: it is neither
    /// derived nor compiled.
    pub stand_in: bool,
    /// What it does for the program's memory, if it is part of an allocator.
    pub allocator: Option<Allocator>,
    /// Whether operations on bits in it are left to the run, as
    /// [`Untracked::Trap`](crate::Untracked::Trap) leaves them everywhere: for a function that is
    /// called for its value only, by one that sees to the derivative (`brolga_with_value`).
    pub untracked: bool,
    /// What its derived pair is a template of, if it is not made of its body.
    pub driver: Option<Driver>,
    /// Why tasks that it could run at the same time run one after the other: half a sentence about
    /// one of them.
    pub serial: Option<String>,
    /// What the function is, if calls of it are refused: it is a part of a parallel language that
    /// has no place here.
    pub refused: Option<CallRefusal>,
}

/// Why calls of a function are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRefusal {
    /// What such a call does, as the subject of a sentence.
    pub what: String,
    /// Why there is no derivative.
    pub note: &'static str,
    /// What to do instead.
    pub help: &'static str,
}

impl Func {
    /// What its source calls it, if that is known and is not the symbol: shortened to a line, for
    /// messages.
    pub fn source_name(&self) -> Option<String> {
        self.called.as_deref().map(source_name::in_short).or_else(|| source_name::demangled(&self.symbol))
    }
}

/// What a function of an allocator does, in a program whose memory is one piece, reached from an
/// instance pointer (the function's first parameter, of purpose `vmctx`) by adding widened 32-bit
/// numbers, as a WebAssembly module's is.
///
/// A frontend that sets [`Func::allocator`] promises what C does. What is allocated is a *block*:
/// no access through another pointer touches it, and none through a pointer into it touches
/// anything else, until it is released. A released block is not accessed, and what a new one holds
/// is not asked for, unless it is zeroed. Of what the allocator keeps for itself, nothing is read
/// by other functions than those that it consists of. The function keeps its body and is called as
/// ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allocator {
    /// The first result is where a new block begins, or a number that is not used as an address.
    Allocate {
        /// The block is full of zeros, on which the program may rely.
        zeroed: bool,
    },
    /// The block that parameter `pointer` points at is released.
    Release {
        /// Index of the parameter, the instance pointer included.
        pointer: usize,
    },
    /// The block that parameter `pointer` points at is released, and its contents are in a new
    /// block, the first result.
    Reallocate {
        /// Index of the parameter, the instance pointer included.
        pointer: usize,
    },
}

/// A data object: what `symbol_value` of its symbol points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataObject {
    /// Symbol, without `%`.
    pub symbol: String,
    /// Initial contents.
    pub bytes: Vec<u8>,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// Whether code may write to it. A read-only object is constant: nothing differentiates with
    /// respect to it, and it has no shadow. A writable one gets a shadow of equal size, zero at the
    /// start of every forward run.
    pub writable: bool,
    /// Symbols of functions whose addresses it holds.
    pub functions: Vec<String>,
}

/// Where the memory of an instance lies, as seen from the instance pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceMemory {
    /// Bytes before the pointer: globals, tables, sizes.
    pub header: u32,
    /// Memories.
    pub memories: Vec<MemoryPlace>,
    /// Bytes of the first memory, after all that it may grow to, that tasks of forks have their
    /// stacks in.
    pub stacks: Option<Range<u64>>,
}

/// Where a memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlace {
    /// Its first byte.
    pub offset: i64,
    /// Its size in bytes, a word of the header. Bytes after it are zero.
    pub size_at: i32,
}

/// A closed set of functions and data objects.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Functions in order of declaration. Copies of the program share them: a derivation makes one,
    /// to add few or none.
    pub funcs: PrimaryMap<FuncKey, Arc<Func>>,
    /// Data objects in order of declaration.
    pub data: PrimaryMap<DataKey, DataObject>,
    /// Only parameters with the purpose `vmctx`, and what is computed from them, are pointers.
    /// Frontends of languages whose pointers are offsets into an instance's memory (WebAssembly)
    /// set this: there a 64-bit integer is a number, whatever it is passed to. Otherwise any 64-bit
    /// parameter may be a pointer.
    pub vmctx_pointers_only: bool,
    /// Some access of a double says that it is less aligned than a double, so that doubles may lie
    /// at 4 modulo 8, and eight bytes at a multiple of eight may be halves of two. Frontends set
    /// this whose accesses say so (WebAssembly, of packed records). In programs that are
    /// [`confined`](Self::confined) it is found for integers of eight bytes that move doubles and
    /// are not marked as aligned.
    pub unaligned_doubles: bool,
    /// Whatever traps a function has, its callers do not rely on them for their own accesses to be
    /// within memory: each access is within, or traps. So are those to shadows. Frontends of
    /// languages set this whose memory is bounded (WebAssembly).
    pub confined: bool,
    /// The memory of an instance, in a program that is confined to one.
    pub instance: Option<InstanceMemory>,
    /// What the program's own trap codes mean: a name and a sentence for each, by which errors call
    /// them.
    pub traps: BTreeMap<u8, (&'static str, &'static str)>,
    /// Instructions that a derivation has copied from one function into another. No body that is
    /// held here has any.
    pub copies: Copies,
    /// Functions that a derivation calls as they are, though they have bodies. None in a program
    /// that is not derived.
    pub plain: EntitySet<FuncKey>,
    /// How many derivatives have been made functions of the program, to be derived again.
    pub nested: u32,
    /// The functions that these consist of.
    pub made: EntitySet<FuncKey>,
    func_by_symbol: HashMap<Arc<str>, FuncKey>,
    data_by_symbol: HashMap<Arc<str>, DataKey>,
}

/// The functions whose address a function takes, in order: symbols, and the signatures that they
/// are declared with.
pub fn addresses(func: &ir::Function) -> impl Iterator<Item = (String, ir::SigRef)> {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    insts.filter_map(|inst| match func.dfg.insts[inst] {
        ir::InstructionData::FuncAddr { func_ref, .. } => {
            let callee = &func.dfg.ext_funcs[func_ref];
            Some((symbol_of(func, &callee.name), callee.signature))
        }
        _ => None,
    })
}

/// The functions that a function calls or takes the address of. It may declare more, of which
/// nothing is asked: they need not exist.
pub fn functions_used(func: &ir::Function) -> EntitySet<ir::FuncRef> {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let mut used = EntitySet::new();
    used.extend(insts.filter_map(|inst| {
        let data = &func.dfg.insts[inst];
        match data.analyze_call(&func.dfg.value_lists, &func.dfg.exception_tables) {
            CallInfo::Direct(callee, _) | CallInfo::DirectWithSig(callee, ..) => Some(callee),
            _ => match *data {
                ir::InstructionData::FuncAddr { func_ref, .. } => Some(func_ref),
                _ => None,
            },
        }
    }));
    used
}

/// The symbols that a function takes the address of as global values. It may declare more, which
/// need not exist.
pub fn symbols_used(func: &ir::Function) -> EntitySet<ir::GlobalValue> {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let mut work: Vec<ir::GlobalValue> = func.stack_limit.into_iter().collect();
    work.extend(insts.filter_map(|inst| match func.dfg.insts[inst] {
        ir::InstructionData::UnaryGlobalValue { global_value, .. } => Some(global_value),
        _ => None,
    }));
    let mut used = EntitySet::new();
    while let Some(gv) = work.pop() {
        if used.insert(gv)
            && let ir::GlobalValueData::Load { base, .. } | ir::GlobalValueData::IAddImm { base, .. } =
                func.global_values[gv]
        {
            work.push(base);
        }
    }
    used
}

/// Let every declared function be one that is called, and every signature one that is used, so that
/// walks over the tables need no exception.
fn forget_unused(func: &mut ir::Function) {
    let used = functions_used(func);
    match used.iter().next().map(|r| func.dfg.ext_funcs[r].clone()) {
        None => func.dfg.ext_funcs.clear(),
        Some(real) => {
            func.dfg.ext_funcs.iter_mut().filter(|(r, _)| !used.contains(*r)).for_each(|(_, e)| *e = real.clone());
        }
    }
    let mut signatures: EntitySet<ir::SigRef> = EntitySet::new();
    signatures.extend(func.dfg.ext_funcs.values().map(|e| e.signature));
    signatures.extend(func.dfg.exception_tables.values().map(|t| t.signature()));
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    signatures.extend(insts.filter_map(|i| match func.dfg.insts[i] {
        ir::InstructionData::CallIndirect { sig_ref, .. } => Some(sig_ref),
        _ => None,
    }));
    // A back end lays out whatever it finds, and gives up on what it does not know.
    let sig = func.signature.clone();
    for (_, s) in func.dfg.signatures.iter_mut().filter(|(s, _)| !signatures.contains(*s)) {
        *s = sig.clone();
    }
}

/// The symbol under which a function defines itself.
pub fn symbol_of_func(name: &UserFuncName) -> String {
    match name {
        UserFuncName::User(n) => format!("u{}:{}", n.namespace, n.index),
        UserFuncName::Testcase(t) => String::from_utf8_lossy(t.raw()).into_owned(),
    }
}

impl Program {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declare a function, or find it if its symbol is known. The first declaration's signature
    /// stays.
    pub fn declare(&mut self, symbol: &str, signature: &ir::Signature) -> FuncKey {
        if let Some(&k) = self.func_by_symbol.get(symbol) {
            return k;
        }
        let k = self.funcs.push(Arc::new(Func {
            symbol: symbol.to_owned(),
            called: None,
            signature: signature.clone(),
            body: None,
            srclocs: SecondaryMap::new(),
            stems: SecondaryMap::new(),
            lines: SecondaryMap::new(),
            host: None,
            repeatable: false,
            computes: None,
            rule: None,
            adjoint: None,
            stand_in: false,
            allocator: None,
            untracked: false,
            driver: None,
            serial: None,
            refused: None,
        }));
        self.func_by_symbol.insert(symbol.into(), k);
        k
    }

    /// Define a function under `symbol` and declare everything it calls. What it declares and does
    /// not call is left out. Calls that stand for drivers ([`crate::intrinsics`]) become calls of
    /// functions that are defined for them.
    ///
    /// Returns the key, or the symbol back if it is defined already or its signature differs from
    /// an earlier declaration. `lines` gives the [`crate::position()`] of an instruction, 0 where
    /// unknown.
    pub fn define(
        &mut self,
        symbol: &str,
        mut body: ir::Function,
        lines: impl Fn(ir::Inst) -> u32,
    ) -> Result<FuncKey, String> {
        let key = self.declare(symbol, &body.signature);
        let f = self.func_mut(key);
        if f.body.is_some()
            || f.host.is_some()
            || f.signature.params != body.signature.params
            || f.signature.returns != body.signature.returns
        {
            return Err(symbol.to_owned());
        }
        f.signature = body.signature.clone();
        let mut stand_ins = Vec::new();
        let made = intrinsics::replace(&mut body, &mut stand_ins);
        let written = |inst| stand_ins.iter().find(|s| s.0 == inst).map_or(inst, |s| s.1);
        let f = self.func_mut(key);
        let insts: Vec<ir::Inst> = body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).collect();
        f.srclocs.resize(body.dfg.num_insts());
        f.lines.resize(body.dfg.num_insts());
        for &inst in &insts {
            f.srclocs[inst] = body.srcloc(written(inst));
            f.lines[inst] = lines(written(inst));
        }
        forget_unused(&mut body);
        body.srclocs.clear();
        // Locations are kept relative to a base, and one value is taken for "none": with base 0 it
        // is out of reach.
        let named: Vec<_> = body.params.user_named_funcs().values().cloned().collect();
        body.params = ir::function::FunctionParameters::new();
        for n in named {
            body.params.ensure_user_func_name(n);
        }
        body.params.ensure_base_srcloc(ir::SourceLoc::new(0));
        for &inst in &insts {
            body.set_srcloc(inst, ir::SourceLoc::new(written(inst).as_u32() + 1));
        }
        let refs: Vec<(String, ir::Signature)> = body
            .dfg
            .ext_funcs
            .values()
            .map(|e| (symbol_of(&body, &e.name), body.dfg.signatures[e.signature].clone()))
            .collect();
        self.func_mut(key).body = Some(body);
        for (s, sig) in refs {
            if !self.data_by_symbol.contains_key(s.as_str()) {
                self.declare(&s, &sig);
            }
        }
        made.into_iter().try_for_each(|(symbol, functions)| self.define_made(&symbol, functions))?;
        Ok(key)
    }

    /// Define the functions that a call becomes a call of, unless another call has.
    fn define_made(&mut self, symbol: &str, functions: Vec<MadeFunc>) -> Result<(), String> {
        if self.func(symbol).is_some_and(|k| self.funcs[k].body.is_some()) {
            return Ok(());
        }
        for (symbol, body, driver) in functions {
            if let Some(Driver::Tasks(_)) = driver {
                let (code, name, message) = fork::NEGATIVE_RANGE;
                self.traps.insert(code, (name, message));
            }
            let key = self.define(&symbol, body, |_| 0)?;
            self.func_mut(key).driver = driver;
        }
        Ok(())
    }

    /// Define an imported function as one of the embedder's own, at `address`.
    ///
    /// It is compiled to a call of that address, in the primal and in the forward pass, and the
    /// pullback knows nothing of it: whatever it does must not matter for derivatives. So its
    /// parameters and results are integers, and it writes no memory that the program reads (it may
    /// map memory, or write what the program has just filled by `memset`).
    ///
    /// Returns the symbol back if it is defined already, if its signature differs from an earlier
    /// declaration, or if there is a float in it.
    ///
    /// # Safety
    /// `address` is a function of the host's C convention with this signature, which does not
    /// unwind, as long as any code that was compiled from this program may run.
    pub unsafe fn define_host(
        &mut self,
        symbol: &str,
        signature: &ir::Signature,
        address: usize,
    ) -> Result<FuncKey, String> {
        let key = self.declare(symbol, signature);
        let f = self.func_mut(key);
        let ints = signature.params.iter().chain(&signature.returns).all(|p| p.value_type.is_int());
        if f.body.is_some() || f.host.is_some() || f.signature != *signature || !ints {
            return Err(symbol.to_owned());
        }
        f.host = Some(address);
        Ok(key)
    }

    /// A function, to say more of it. If copies of the program share it, it is copied first.
    pub fn func_mut(&mut self, key: FuncKey) -> &mut Func {
        Arc::make_mut(&mut self.funcs[key])
    }

    /// Define a data object; gives its symbol back if it is taken.
    pub fn define_data(&mut self, object: DataObject) -> Result<DataKey, String> {
        if self.data_by_symbol.contains_key(object.symbol.as_str())
            || self.func_by_symbol.contains_key(object.symbol.as_str())
        {
            return Err(object.symbol);
        }
        let symbol = object.symbol.as_str().into();
        let k = self.data.push(object);
        self.data_by_symbol.insert(symbol, k);
        Ok(k)
    }

    /// Whether there is a data object that code may write to, so that a run may see what another
    /// one has left.
    pub fn has_writable_data(&self) -> bool {
        self.data.values().any(|d| d.writable)
    }

    /// The function with this symbol (without `%`).
    pub fn func(&self, symbol: &str) -> Option<FuncKey> {
        self.func_by_symbol.get(symbol).copied()
    }

    /// The data object with this symbol.
    pub fn data_object(&self, symbol: &str) -> Option<DataKey> {
        self.data_by_symbol.get(symbol).copied()
    }

    /// The function that `callee` names inside `caller`.
    pub fn callee(&self, caller: &ir::Function, callee: ir::FuncRef) -> Option<FuncKey> {
        self.func(&symbol_in(caller, &caller.dfg.ext_funcs[callee].name))
    }

    /// Functions whose addresses stand in the data objects that a function names.
    pub fn functions_in_data(&self, func: &ir::Function) -> Vec<FuncKey> {
        let objects = symbols_used(func).iter().filter_map(|gv| self.data_of(func, gv)).collect::<Vec<_>>();
        objects.into_iter().flat_map(|d| &self.data[d].functions).filter_map(|f| self.func(f)).collect()
    }

    /// The data object that a `symbol` global value of `func` names.
    pub fn data_of(&self, func: &ir::Function, gv: ir::GlobalValue) -> Option<DataKey> {
        match &func.global_values[gv] {
            ir::GlobalValueData::Symbol { name, .. } => self.data_object(&symbol_in(func, name)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_is_forgotten() {
        let text = "function %f(f64) -> f64 system_v {
            sig0 = (f16) -> f128 windows_fastcall
            sig1 = (f64) -> f64 fast
            gv0 = symbol %a
            gv1 = symbol %b
            fn0 = %unused(i64) -> i64 windows_fastcall
            fn1 = %called(f64) -> f64 fast
            fn2 = %addressed(f64) -> f64 fast
        block0(v0: f64):
            v1 = symbol_value.i64 gv1
            v2 = func_addr.i64 fn2
            v3 = call_indirect sig1, v2(v0)
            v4 = call fn1(v3)
            return v4
        }";
        let body = cranelift_reader::parse_functions(text).unwrap().remove(0);
        let used: Vec<_> = functions_used(&body).iter().map(|r| r.as_u32()).collect();
        assert_eq!(used, [1, 2]);
        assert_eq!(symbols_used(&body).iter().map(|g| g.as_u32()).collect::<Vec<_>>(), [1]);
        let mut program = Program::new();
        let key = program.define("f", body, |_| 0).unwrap();
        assert!(program.func("unused").is_none() && program.func("called").is_some());
        let body = program.funcs[key].body.as_ref().unwrap();
        assert!(body.dfg.ext_funcs.values().all(|e| symbol_of(body, &e.name) != "unused"));
        let odd = cranelift_codegen::isa::CallConv::WindowsFastcall;
        assert!(body.dfg.signatures.values().all(|s| s.call_conv != odd));
    }
}
