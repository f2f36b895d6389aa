//! What a module's imports mean.
//!
//! **Question.** A module imports functions of its host. Which have a derivative, and what happens
//! to the others?
//!
//! **Answer.** What has a rule is called, what moves or writes memory is written out in CLIF, and
//! the rest is a trap:
//!
//! | import | becomes |
//! |---|---|
//! | a mathematical function of C (`env.sin`) | a call of that function, which has a rule |
//! | the same with pointers (`env.frexp`), or with a `long` (`env.lrint`) | a shim that checks and widens the pointers, and widens or cuts the `long` |
//! | `env.memcpy`, `memmove`, `memset`, `memcmp`, `abort` | a shim, as the bulk operators |
//! | `env.__divdc3`, `__divsc3` | a shim, see [`complex`] |
//! | growth of memory, large copies, and calls out of which an exception would be caught, as Emscripten has them | a shim, see [`emscripten`] |
//! | `brolga_time_loop`, `brolga_while_loop` (`include/brolga.h`), whatever the module is called | a loop of steps |
//! | `brolga_inverse_pair`, the same | a call that another function undoes |
//! | `brolga_par_join` and its like (the same), whatever the module is called | tasks of a fork |
//! | `__kmpc_fork_call` and its like, which clang calls for OpenMP | the same, see [`openmp`] |
//! | WASI preview 1 | a shim, see [`wasi`]: there are no files |
//! | a global | the value that the embedder gives |
//! | a memory or a table | one of the instance's own, of the size that is asked for: it is not shared |
//!
//! A function that is none of these is a trap when it is called, and the trap says which import
//! that was: what compilers make for JavaScript imports dozens, and a computation calls none of
//! them. A global without a value is an error when the module is loaded, since its value would be
//! made up. An embedder that wants every name to be known asks for that
//! ([`Imports::refuse_missing`]).
//!
//! **Cost.** A few look-ups by name for each import.

pub(crate) mod complex;
mod emscripten;
mod libc_shims;
mod openmp;
mod wasi;

pub(crate) use emscripten::seconds;

use std::collections::HashMap;

use brolga::cranelift_codegen::ir::{InstBuilder, types};
use brolga_rules::{MathKind, MathRule, Ty, math_rule};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::forked::{ForkKind, OpenMp};
use crate::function::env::HostFunc;
use crate::function::func::Fx;
use crate::parse::{ImportName, Info};
use crate::provided::{ProvidedFunction, Replacements};
use crate::val::Val;

/// `brolga_wasm_grow(memory, bytes) -> ok`.
pub(crate) static GROW: HostFunc = HostFunc {
    symbol: "host.grow",
    params: &[types::I32, types::I64],
    result: Some(types::I32),
    repeatable: true,
    address: || crate::host::grow as *const () as usize,
};

/// Values and allowances for a module's imports.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    globals: HashMap<(String, String), Val>,
    ignored: Vec<(String, String)>,
    means: HashMap<(String, String), String>,
    refuse_missing: bool,
}

impl Imports {
    /// Nothing beyond what every module gets: C's mathematics, and WASI without files. Calling any
    /// other function is a trap.
    pub fn new() -> Self {
        Self::default()
    }

    /// Give an imported global its value.
    pub fn global(mut self, module: &str, name: &str, value: Val) -> Self {
        self.globals.insert((module.to_owned(), name.to_owned()), value);
        self
    }

    /// Let calls of this function, which returns nothing, do nothing: a logger, say.
    pub fn ignore(mut self, module: &str, name: &str) -> Self {
        self.ignored.push((module.to_owned(), name.to_owned()));
        self
    }

    /// Take this function for the one of `env`, or of WASI, that is called so: in modules whose
    /// imports have been given short names, `a.b` for `emscripten_memcpy_js`, or for `exp`. If
    /// nothing is known of that name and of this type, it is as if nothing had been said.
    pub fn means(mut self, module: &str, name: &str, function: &str) -> Self {
        self.means.insert((module.to_owned(), name.to_owned()), function.to_owned());
        self
    }

    /// Load no module that imports what nothing provides, called or not.
    pub fn refuse_missing(mut self) -> Self {
        self.refuse_missing = true;
        self
    }
}

/// Imports, and functions of the module's own that are replaced, as the translator asks for them.
pub(crate) struct Provider<'i> {
    pub imports: &'i Imports,
    pub replaced: Replacements,
}

/// Modules whose functions are C's, if they are called like C's.
const C_MODULES: [&str; 6] = ["env", "c", "libc", "libm", "math", "Math"];

impl Provider<'_> {
    /// What each function stands for, in order: imported ones, and those that are replaced.
    pub(crate) fn resolve(&self, info: &Info<'_>) -> Result<Vec<Option<ProvidedFunction>>, Error> {
        let mut missing = Vec::new();
        let mut out = Vec::new();
        for (i, f) in info.funcs.iter().enumerate() {
            let Some(import) = &f.import else {
                out.push(self.replaced.get(&(i as u32)).cloned());
                continue;
            };
            let ty = &info.types[f.ty as usize];
            let found = if !info.tables.is_empty() && self.invokes(import, ty) {
                Some(ProvidedFunction::Invoke)
            } else if let Some(found) = self.driver(import, ty).filter(|_| !info.tables.is_empty()) {
                Some(found)
            } else if let Some(found) = self.forks_by(import, ty, info) {
                Some(found)
            } else {
                self.function(import, ty, !info.memories.is_empty())
            };
            if found.is_none() {
                missing.push(format!("{}.{}: {}", import.module, import.name, text(ty)));
            }
            out.push(found);
        }
        for g in &info.globals {
            if let Some(import) = &g.import
                && self.global(import, g.ty.content_type).is_none()
            {
                missing.push(format!("{}.{}: a global of type {}", import.module, import.name, g.ty.content_type));
            }
        }
        let memories = info.memories.iter().map(|m| ("memory", &m.import));
        for (what, import) in memories.chain(info.tables.iter().map(|t| ("table", &t.import))) {
            if let Some(i) = import
                && i.module != "env"
                && self.imports.refuse_missing
            {
                missing.push(format!("{}.{}: a {what}", i.module, i.name));
            }
        }
        if missing.is_empty() { Ok(out) } else { Err(Error::Imports(missing)) }
    }

    /// The bits of an imported global.
    pub(crate) fn global(&self, import: &ImportName, ty: ValType) -> Option<u128> {
        let key = (import.module.clone(), import.name.clone());
        self.imports.globals.get(&key).filter(|v| v.ty() == ty).map(|v| v.bits())
    }

    /// What an import is called, or what the embedder says that it is.
    fn meant<'s>(&'s self, import: &'s ImportName) -> (&'s str, &'s str) {
        match self.imports.means.get(&(import.module.clone(), import.name.clone())) {
            Some(function) => ("env", function),
            None => (&import.module, &import.name),
        }
    }

    fn invokes(&self, import: &ImportName, ty: &FuncType) -> bool {
        let (module, name) = self.meant(import);
        C_MODULES.contains(&module) && emscripten::invokes(name, ty)
    }

    /// A loop of steps, or a call that is undone, if an import is one.
    fn driver(&self, import: &ImportName, ty: &FuncType) -> Option<ProvidedFunction> {
        let words = |n: usize| ty.params() == vec![ValType::I32; n];
        match (self.meant(import).1, ty.results()) {
            ("brolga_time_loop", []) if words(5) => Some(ProvidedFunction::Loop(false)),
            ("brolga_while_loop", [ValType::I32]) if words(5) => Some(ProvidedFunction::Loop(true)),
            ("brolga_inverse_pair", []) if words(6) => Some(ProvidedFunction::Inverse),
            _ => None,
        }
    }

    /// A call that forks, or a part of OpenMP, if an import is one. Sums of tasks, and what OpenMP
    /// keeps of a team, lie on the stack of C.
    fn forks_by(&self, import: &ImportName, ty: &FuncType, info: &Info<'_>) -> Option<ProvidedFunction> {
        let name = self.meant(import).1;
        let words = |n: usize| ty.params() == vec![ValType::I32; n];
        let may = !info.tables.is_empty() && !info.memories.is_empty();
        let has_stack = info.stack_pointer().is_some();
        match (name, ty.results()) {
            ("brolga_par_join", []) if may && words(4) => Some(ProvidedFunction::Fork(ForkKind::Join)),
            ("brolga_par_n", []) if may && words(2) => Some(ProvidedFunction::Fork(ForkKind::Entries)),
            ("brolga_par_for", []) if may && words(5) => Some(ProvidedFunction::Fork(ForkKind::For)),
            ("brolga_par_reduce_f64", [ValType::F64]) if may && words(5) && has_stack => {
                Some(ProvidedFunction::Fork(ForkKind::Sum))
            }
            _ => {
                let part = openmp::part(name, ty).filter(|_| C_MODULES.contains(&self.meant(import).0))?;
                Some(ProvidedFunction::OpenMp(if may && has_stack { part } else { OpenMp::Refused }))
            }
        }
    }

    /// Whether the module imports a function that forks.
    pub(crate) fn forks(&self, info: &Info<'_>) -> bool {
        let forks = |f: &crate::parse::Func<'_>| {
            let by = f.import.as_ref().and_then(|i| self.forks_by(i, &info.types[f.ty as usize], info));
            matches!(by, Some(ProvidedFunction::Fork(_) | ProvidedFunction::OpenMp(OpenMp::Region)))
        };
        info.funcs.iter().any(forks)
    }

    /// Whether a function that the module imports makes its memory grow.
    pub(crate) fn grows(&self, info: &Info<'_>) -> bool {
        let imports = info.funcs.iter().filter_map(|f| f.import.as_ref());
        imports.map(|i| self.meant(i)).any(|(module, name)| C_MODULES.contains(&module) && emscripten::grows(name))
    }

    /// What has pointers among its parameters makes no sense without a memory that they point into.
    fn function(&self, import: &ImportName, ty: &FuncType, memory: bool) -> Option<ProvidedFunction> {
        let (module, name) = self.meant(import);
        if ty.results().is_empty() && self.imports.ignored.iter().any(|(m, n)| (m, n) == (&import.module, &import.name))
        {
            return Some(ProvidedFunction::Shim(|fx| {
                fx.b.ins().return_(&[]);
            }));
        }
        // An embedder that says what a function is need not say where it comes from.
        let said = (module, name) != (import.module.as_str(), import.name.as_str());
        if let Some(shim) = wasi::shim(if said { wasi::MODULE } else { module }, name, ty, memory) {
            return Some(ProvidedFunction::Shim(shim));
        }
        if C_MODULES.contains(&module) {
            if let Some(shim) = libc_shims::shim(name, ty).or_else(|| emscripten::shim(name, ty)).filter(|_| memory) {
                return Some(ProvidedFunction::Shim(shim));
            }
            if let Some(found) = math(name, ty).filter(|m| memory || !has_pointers(m)) {
                return Some(found);
            }
        }
        (!self.imports.refuse_missing).then_some(ProvidedFunction::Missing)
    }
}

/// Functions of C with a `long`, which has 64 bits for the host, and 32 in a module.
const WITH_LONG: [&str; 7] = ["lrint", "lrintf", "lround", "lroundf", "scalbln", "scalblnf", "labs"];

/// A C function of that name whose rule is about this type.
fn math(name: &str, ty: &FuncType) -> Option<ProvidedFunction> {
    let rule = math_rule(name)?;
    let numbers = |ts: &[Ty], vs: &[ValType]| {
        ts.len() == vs.len()
            && ts.iter().zip(vs).all(|(t, v)| match t {
                Ty::F64 => *v == ValType::F64,
                Ty::F32 => *v == ValType::F32,
                Ty::I32 | Ty::Ptr => *v == ValType::I32,
                Ty::I64 if WITH_LONG.contains(&name) => *v == ValType::I32,
                Ty::I64 => *v == ValType::I64,
                Ty::Size => false,
            })
    };
    if !numbers(&rule.params, ty.params()) || !numbers(&rule.rets, ty.results()) {
        return None;
    }
    let pointers = rule.params.contains(&Ty::Ptr);
    match rule.kind {
        MathKind::Expr(_) | MathKind::Inactive if WITH_LONG.contains(&name) => Some(ProvidedFunction::Widened(rule)),
        MathKind::Expr(_) => Some(ProvidedFunction::Math(&rule.symbol)),
        MathKind::Inactive if !pointers && name != "exit" && name != "abort" => {
            Some(ProvidedFunction::Math(&rule.symbol))
        }
        MathKind::Writes(..) => Some(ProvidedFunction::Widened(rule)),
        _ => None,
    }
}

/// What a module's own function of a name of C's is replaced by, if it is one that is exact.
pub(crate) fn library(name: &str, ty: &FuncType) -> Option<ProvidedFunction> {
    let shim = libc_shims::shim(name, ty).map(ProvidedFunction::Shim);
    shim.or_else(|| math(name, ty).filter(has_pointers))
}

fn has_pointers(provided: &ProvidedFunction) -> bool {
    matches!(provided, ProvidedFunction::Widened(rule) if rule.params.contains(&Ty::Ptr))
}

/// A function type as text.
fn text(ty: &FuncType) -> String {
    let list = |ts: &[ValType]| ts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    format!("({}) -> ({})", list(ty.params()), list(ty.results()))
}

/// The body of the shim for a C function with pointers, or with a `long`.
pub(crate) fn widened(fx: &mut Fx<'_, '_, '_, '_>, rule: &'static MathRule) {
    libc_shims::widened(fx, rule);
}
