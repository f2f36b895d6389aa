//! Translation environment: what functions of a module share while they are translated.
//!
//! **Question.** Functions refer to each other, to tables, helpers and the host by symbols. Which
//! symbols and signatures are these, and which of them has something asked for?
//!
//! **Answer.** An [`Env`] has the program that is being made, the symbol of each function, and
//! lists of what is needed beside the functions of the module: references, dispatchers of calls
//! through tables, helpers, forks. Whatever emits code asks it by name and so adds to the lists;
//! what they hold is defined in the end. [`Env::define`] verifies a finished function and keeps its
//! source locations, which are offsets in the module.
//!
//! This is what [`super::func`] writes functions with, and what everything that emits code builds
//! on; it knows of no function's body.
//!
//! **Errors.** Element segments whose entries are not known, and what should not happen: a function
//! that does not verify, or a symbol that is there twice.
//!
//! **Cost.** A look-up in a hash table for each symbol; one run of the verifier for each function.

use std::collections::HashMap;

use brolga::cranelift_codegen::ir::{self, AbiParam, ArgumentPurpose, Signature, Type, types};
use brolga::cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use brolga::{DataObject, FuncKey, Program};
use indexmap::{IndexMap, IndexSet};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::forked::{ForkImport, ForkKind};
use crate::layout::Layout;
use crate::parse::{ConstOp, Info};

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
pub(crate) struct CodeOptions {
    /// How memory is kept in bounds.
    pub bounds: Bounds,
    /// Whether loops and functions use up fuel.
    pub fuel: bool,
}

/// A function of the host's that translated code calls with the instance pointer in front. Integers
/// only.
pub(crate) struct HostFunc {
    /// Its symbol.
    pub symbol: &'static str,
    /// Its further parameters.
    pub params: &'static [Type],
    /// Its result.
    pub result: Option<Type>,
    /// Whether it may be called again ([`brolga_ir::Func::repeatable`]).
    pub repeatable: bool,
    /// Gives its address.
    pub address: fn() -> usize,
}

impl HostFunc {
    /// Where it is.
    pub(crate) fn address(&self) -> usize {
        (self.address)()
    }
}

/// A helper, by what it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Helper {
    /// `(pages) -> old pages or -1`.
    MemoryGrow(u32),
    /// `(value, n) -> old length or -1`.
    TableGrow(u32),
    /// `(at, value, n)`, checked by the caller.
    TableFill(u32),
}

/// A fork, by what its tasks call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fork {
    /// Which.
    pub of: ForkSource,
    /// Functions of the index space, if it is known which are called.
    pub callees: Vec<u32>,
    /// Whether a task calls it.
    pub nested: bool,
}

/// What forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ForkSource {
    /// A call of `brolga_par_for`, and its like.
    Call(ForkKind),
    /// A parallel region of OpenMP, with so many arguments.
    Region(u32),
}

/// Whether a symbol could be a helper's.
pub(crate) fn is_helper(symbol: &str) -> bool {
    let (starts, ends) =
        (["memory.grow", "table.grow", "table.fill", "host.", "elem", "loop.", "omp_parallel"], [TASK, ".own"]);
    starts.iter().any(|p| symbol.starts_with(p)) || ends.iter().any(|p| symbol.ends_with(p))
}

impl Helper {
    pub(crate) fn symbol(self) -> String {
        match self {
            Helper::MemoryGrow(m) => format!("memory.grow{m}"),
            Helper::TableGrow(t) => format!("table.grow{t}"),
            Helper::TableFill(t) => format!("table.fill{t}"),
        }
    }

    pub(crate) fn signature(self, env: &Env<'_, '_>) -> Signature {
        let (params, results): (&[Type], &[Type]) = match self {
            Helper::MemoryGrow(_) => (&[types::I32], &[types::I32]),
            Helper::TableGrow(_) => (&[types::I32; 2], &[types::I32]),
            Helper::TableFill(_) => (&[types::I32; 3], &[]),
        };
        env.signature_of(params.iter().copied(), results.iter().copied())
    }
}

/// How the symbol of a function ends that is what tasks call.
pub(crate) const TASK: &str = ".task";

/// `(vmctx, reference, t…) -> (u…)`; with a view after them, if tasks call it.
pub(crate) fn dispatcher_signature(env: &Env<'_, '_>, ty: &FuncType, of_task: bool) -> Signature {
    let params = ty.params().iter().map(|t| clif_type(*t));
    let view = if of_task { &VIEW[..] } else { &[] };
    let params = [types::I32].into_iter().chain(params).chain(view.iter().copied());
    env.signature_of(params, ty.results().iter().map(|t| clif_type(*t)))
}

/// What functions that tasks call are given after their parameters ([`crate::translate::views`]).
pub(crate) const VIEW: [Type; 3] = [types::I32; 3];

/// What functions share while they are translated.
pub(crate) struct Env<'e, 'a> {
    pub info: &'e Info<'a>,
    pub layout: &'e Layout,
    pub mode: CodeOptions,
    pub config: TargetFrontendConfig,
    pub program: Program,
    /// Symbol of each function of the index space.
    pub symbols: Vec<String>,
    /// Whether each function of the index space is one of C's that is called by its name.
    pub by_name: Vec<bool>,
    /// Functions that have references, in the order of their numbers.
    pub refs: IndexMap<u32, ()>,
    /// Types of calls through tables, by tasks or not, with their dispatchers.
    pub dispatchers: IndexMap<(FuncType, bool), String>,
    /// Helpers that something calls.
    pub helpers: IndexMap<Helper, String>,
    /// Functions of the index space that fork.
    pub fork_imports: Vec<Option<ForkImport>>,
    /// Functions that tasks call and that use the stack of C.
    pub tasks: IndexSet<u32>,
    /// Which functions of the index space use it, so that tasks call them as something else.
    pub needs_view: Vec<bool>,
    /// Forks that something calls.
    pub forks: IndexMap<Fork, String>,
    /// Functions that set globals of the module's, other than the stack pointer.
    pub sets_globals: Vec<FuncKey>,
    pub conv: CallConv,
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
    pub(crate) fn signature(&self, ty: &FuncType) -> Signature {
        self.signature_of(ty.params().iter().map(|t| clif_type(*t)), ty.results().iter().map(|t| clif_type(*t)))
    }

    /// The same from CLIF types.
    pub(crate) fn signature_of(
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
    pub(crate) fn has_tail_calls(&self) -> bool {
        self.conv == CallConv::Tail
    }

    /// The number of a reference to a function.
    pub(crate) fn reference(&mut self, func: u32) -> u32 {
        self.refs.insert_full(func, ()).0 as u32 + 1
    }

    /// The symbol of the dispatcher for a type, for tasks or not.
    pub(crate) fn dispatcher(&mut self, ty: &FuncType, of_task: bool) -> String {
        let key = (ty.clone(), of_task);
        if let Some(s) = self.dispatchers.get(&key) {
            return s.clone();
        }
        let symbol = format!("call.type{}{}", self.dispatchers.len(), if of_task { TASK } else { "" });
        self.dispatchers.insert(key, symbol.clone());
        symbol
    }

    /// The signature of a function that tasks call: the instance, what it takes, and the view.
    pub(crate) fn task_signature(&self, ty: &FuncType) -> Signature {
        let mut sig = self.signature(ty);
        sig.params.extend(VIEW.map(AbiParam::new));
        sig
    }

    /// The symbol of a helper.
    pub(crate) fn helper(&mut self, helper: Helper) -> String {
        self.helpers.entry(helper).or_insert_with(|| helper.symbol()).clone()
    }

    /// The references of an element segment as a data object, `elem` and its number.
    pub(crate) fn use_elem(&mut self, elem: u32, offset: u64) -> Result<(), Error> {
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
        let object = DataObject { symbol, bytes, align: 16, writable: false, functions: vec![] };
        let taken = |s: String| Error::Internal { stage: "translate", message: format!("%{s} is defined twice") };
        self.program.define_data(object).map(|_| ()).map_err(taken)
    }

    /// Define a finished function. Its source locations are offsets in the module.
    pub(crate) fn define(&mut self, symbol: &str, func: ir::Function) -> Result<FuncKey, Error> {
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

/// A host function's signature in CLIF: the instance, then integers; the C convention.
pub(crate) fn host_signature(config: &TargetFrontendConfig, f: &HostFunc) -> Signature {
    let mut sig = Signature::new(config.default_call_conv);
    sig.params.push(AbiParam::new(types::I64));
    sig.params.extend(f.params.iter().map(|t| AbiParam::new(*t)));
    sig.returns.extend(f.result.iter().map(|t| AbiParam::new(*t)));
    sig
}
