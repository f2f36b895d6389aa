//! A module: translated once, instantiated as often as one likes.

use std::sync::{Arc, OnceLock};

use brolga::{ArgActivity, ArgSpec, FuncKey, Options, Primal, Program, Request};
use wasmparser::{ExternalKind, FuncType, ValType};

use crate::allocators::{self, Allocators, Source};
use crate::clib::{self, Replaced};
use crate::error::Error;
use crate::imports::{Imports, Provider};
use crate::layout::{self, Layout, PAGE};
use crate::parse::{self, Export, Info};
use crate::translate::{Bounds, Mode, Translated, translate};
use crate::{around, mathlib, unnamed};

/// How a module is translated.
#[derive(Clone, Debug)]
pub struct ModuleOptions {
    /// What its imports are.
    pub imports: Imports,
    /// How accesses of linear memory are kept inside of it.
    pub bounds: Bounds,
    /// Whether every call of a function and every turn of a loop uses a unit of fuel, so that
    /// runaway programs end: see [`crate::Instance::set_fuel`]. It costs a load, a comparison and a
    /// store each.
    pub fuel: bool,
    /// Which of its functions allocate and release memory, so that arrays are known to be apart. It
    /// is taken on trust.
    pub allocators: Allocators,
}

impl Default for ModuleOptions {
    fn default() -> Self {
        // Where hardware traps come back as errors, the hardware does the checking.
        let guarded = cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")));
        let bounds = if guarded { Bounds::Guard } else { Bounds::Checked };
        Self { imports: Imports::default(), bounds, fuel: false, allocators: Allocators::default() }
    }
}

/// A WebAssembly module. Cheap to clone; clones share everything, and threads may share one.
#[derive(Clone)]
pub struct Module(pub(crate) Arc<Inner>);

/// Clones of one module are equal; two translations of one file are not.
impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.functions().map(|(name, ty)| format!("{name}: {ty}"))).finish()
    }
}

pub(crate) struct Inner {
    pub layout: Layout,
    pub translated: Translated,
    pub exports: Vec<Export>,
    pub start: Option<u32>,
    pub types: Vec<FuncType>,
    /// Type of each global.
    pub globals: Vec<(ValType, bool)>,
    /// Bytes that every instance begins with, by their offsets from the instance pointer.
    pub image: Vec<(i64, Vec<u8>)>,
    /// Initial bytes of each memory.
    pub memories: Vec<u64>,
    /// What the host has to call before anything else, after the start function.
    pub initialise: Option<u32>,
    /// Which function gives out memory.
    pub source: Option<Source>,
    primal: OnceLock<Result<Primal, String>>,
}

impl Inner {
    fn new(info: &Info<'_>, layout: &Layout, provider: &Provider<'_>, mode: Mode) -> Result<Self, Error> {
        let translated = translate(info, layout, provider, mode)?;
        Ok(Self {
            image: image(info, layout, provider, &translated)?,
            memories: info.memories.iter().map(|m| m.ty.initial * PAGE).collect(),
            source: allocators::source(info),
            exports: info.exports.clone(),
            start: info.start,
            initialise: info.initialise(),
            types: (0..info.funcs.len() as u32).map(|f| info.type_of(f).clone()).collect(),
            globals: info.globals.iter().map(|g| (g.ty.content_type, g.ty.mutable)).collect(),
            layout: layout.clone(),
            translated,
            primal: OnceLock::new(),
        })
    }
}

impl Module {
    /// Load a module from its binary form or its text.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Unsupported`], [`Error::Imports`], or [`Error::Usage`] where an
    /// allocator is named that is not there.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        Self::with_options(bytes, &ModuleOptions::default())
    }

    /// [`Self::new`], with options.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options(bytes: impl AsRef<[u8]>, options: &ModuleOptions) -> Result<Self, Error> {
        let bytes =
            wat::parse_bytes(bytes.as_ref()).map_err(|e| Error::Invalid { message: e.to_string(), offset: 0 })?;
        let mut info = Info::parse(&bytes)?;
        let mut provider = Provider { imports: &options.imports, replaced: Replaced::default() };
        if provider.grows(&info) {
            info.mutates.memories.insert(0);
        }
        let too_large = |what| Error::unsupported(what, 0, "give it a smaller maximum");
        let layout = Layout::new(&info).map_err(too_large)?;
        let mode = Mode { bounds: options.bounds, fuel: options.fuel };
        let (mathematics, exact) = (mathlib::candidates(&info), clib::candidates(&info));
        let wrapped = around::candidates(&info);
        let mut computes = Vec::new();
        if !mathematics.is_empty() || !exact.is_empty() || !wrapped.is_empty() || unnamed::may_be_there(&info) {
            // Whatever has such a name is run, so it must end.
            let mode = Mode { fuel: true, ..mode };
            let tried = Self(Arc::new(Inner::new(&info, &layout, &provider, mode)?));
            computes = mathlib::confirmed(&tried, &mathematics)?;
            provider.replaced = clib::confirmed(&tried, exact)?;
            provider.replaced.extend(around::confirmed(&tried, wrapped)?);
            let known = computes.iter().map(|c| c.0).chain(provider.replaced.keys().copied()).collect();
            computes.extend(unnamed::confirmed(&tried, &info, known)?);
        }
        let mut inner = Inner::new(&info, &layout, &provider, mode)?;
        for (index, symbol) in computes {
            if let Some(key) = inner.translated.funcs[index as usize] {
                inner.translated.program.func_mut(key).computes = Some(symbol);
            }
        }
        for (index, kind) in options.allocators.of(&info)? {
            if let Some(key) = inner.translated.funcs[index as usize] {
                inner.translated.program.func_mut(key).allocator = Some(kind);
            }
        }
        Ok(Self(Arc::new(inner)))
    }

    /// The CLIF that the module was translated to. The instance pointer is the first parameter of
    /// every function.
    pub fn program(&self) -> &Program {
        &self.0.translated.program
    }

    /// Names and types of the exported functions, in order.
    pub fn functions(&self) -> impl Iterator<Item = (&str, &FuncType)> {
        self.0
            .exports
            .iter()
            .filter(|e| matches!(e.kind, ExternalKind::Func | ExternalKind::FuncExact))
            .map(|e| (e.name.as_str(), &self.0.types[e.index as usize]))
    }

    /// The keys of those of them that are defined in the module.
    pub fn keys(&self) -> impl Iterator<Item = FuncKey> {
        let kinds = [ExternalKind::Func, ExternalKind::FuncExact];
        let functions = self.0.exports.iter().filter(move |e| kinds.contains(&e.kind));
        functions.filter_map(|e| self.0.translated.funcs[e.index as usize])
    }

    pub(crate) fn export(&self, name: &str, kind: ExternalKind) -> Option<u32> {
        self.0.exports.iter().find(|e| e.kind == kind && e.name == name).map(|e| e.index)
    }

    /// The function exported under `name`: its key in the program, and its type.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none, or if it is an import that is exported again.
    pub fn function(&self, name: &str) -> Result<(FuncKey, &FuncType), Error> {
        let Some(index) = self.export(name, ExternalKind::Func) else {
            let all: Vec<_> = self.functions().map(|f| f.0).take(20).collect();
            return Err(Error::Usage(format!("no function `{name}` is exported; there are {}", all.join(", "))));
        };
        let key = self.0.translated.funcs[index as usize]
            .ok_or_else(|| Error::Usage(format!("`{name}` is an imported function that is exported again")))?;
        Ok((key, &self.0.types[index as usize]))
    }

    /// What is asked of the function exported under `name`, with one activity for each of its
    /// parameters, or an activity with promises. Parameter 0 of a request is the instance, so those
    /// of the function count from 1 there.
    ///
    /// # Errors
    /// As [`Self::function`], or if there is not one activity for each, or if one is duplicated.
    pub fn request<A: Copy + Into<ArgSpec>>(&self, name: &str, args: &[A]) -> Result<Request, Error> {
        let (func, ty) = self.function(name)?;
        if args.len() != ty.params().len() {
            let (n, m) = (args.len(), ty.params().len());
            return Err(Error::Usage(format!("{n} activities are given, `{name}` has {m} parameters")));
        }
        let args = args.iter().map(|&a| a.into());
        if let Some(i) = args.clone().position(|a| a.activity == ArgActivity::Duplicated) {
            return Err(Error::Usage(format!(
                "argument {i} of `{name}` is duplicated, but Wasm's pointers are numbers: all of memory has a shadow"
            )));
        }
        Ok(Request::new(func, [ArgSpec::DUPLICATED].into_iter().chain(args)))
    }

    /// The compiled functions, without derivatives.
    pub(crate) fn primal(&self) -> Result<&Primal, Error> {
        let compiled = self.0.primal.get_or_init(|| {
            let inner = &*self.0;
            let exported = inner.exports.iter().filter(|e| e.kind == ExternalKind::Func).map(|e| e.index);
            let mut roots: Vec<FuncKey> = exported
                .chain(inner.start)
                .chain(inner.initialise)
                .chain(inner.source.map(|s| s.index))
                .filter_map(|i| inner.translated.funcs[i as usize])
                .collect();
            roots.sort_unstable();
            roots.dedup();
            Primal::new(self.program(), &roots, &Options::default()).map_err(|e| Error::from(e).to_string())
        });
        compiled.as_ref().map_err(|message| Error::Internal { stage: "compile", message: message.clone() })
    }
}

/// What every instance begins with: sizes, globals, tables, active segments.
fn image(
    info: &Info<'_>,
    layout: &Layout,
    provider: &Provider<'_>,
    translated: &Translated,
) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let mut out: Vec<(i64, Vec<u8>)> = Vec::new();
    let mut globals: Vec<u128> = Vec::new();
    let func = |f: u32| translated.refs.get(&f).copied().unwrap_or(0);
    for (i, g) in info.globals.iter().enumerate() {
        let known = globals.clone();
        let bits = match (&g.init, &g.import) {
            (Some(init), _) => init.eval(&|g| known[g as usize], &func),
            (None, Some(import)) => provider.global(import, g.ty.content_type).unwrap_or(0),
            (None, None) => 0,
        };
        globals.push(bits);
        let n = layout::bytes(g.ty.content_type);
        out.push((layout.globals[i].into(), bits.to_le_bytes()[..n].to_vec()));
    }
    let eval = |c: &parse::Const| c.eval(&|g| globals[g as usize], &func);
    for (i, m) in info.memories.iter().enumerate() {
        out.push((layout.memory_size[i].into(), (m.ty.initial * PAGE).to_le_bytes().to_vec()));
    }
    for (i, t) in info.tables.iter().enumerate() {
        out.push((layout.table_size[i].into(), (t.ty.initial as u32).to_le_bytes().to_vec()));
        if let Some(init) = &t.init {
            let entry = (eval(init) as u32).to_le_bytes();
            out.push((layout.tables[i].into(), entry.repeat(t.ty.initial as usize)));
        }
    }
    let dropped = 1u32.to_le_bytes().to_vec();
    for (i, e) in info.elems.iter().enumerate() {
        if let parse::Mode::Active(table, offset) = &e.mode {
            let at = u64::from(eval(offset) as u32);
            if at + e.items.len() as u64 > info.tables[*table as usize].ty.initial {
                return Err(Error::Usage(format!(
                    "out of bounds table access: element segment {i} does not fit table {table}"
                )));
            }
            let refs: Vec<u8> = e.items.iter().flat_map(|c| (eval(c) as u32).to_le_bytes()).collect();
            out.push((i64::from(layout.tables[*table as usize]) + 4 * at as i64, refs));
        }
        if !matches!(e.mode, parse::Mode::Passive) {
            out.push((layout.elem_dropped[i].into(), dropped.clone()));
        }
    }
    for (i, d) in info.data.iter().enumerate() {
        if let parse::Mode::Active(memory, offset) = &d.mode {
            let at = u64::from(eval(offset) as u32);
            if at + d.bytes.len() as u64 > info.memories[*memory as usize].ty.initial * PAGE {
                return Err(Error::Usage(format!(
                    "out of bounds memory access: data segment {i} does not fit memory {memory}"
                )));
            }
            out.push(((layout.memory(*memory) + at) as i64, d.bytes.to_vec()));
            out.push((layout.data_dropped[i].into(), dropped.clone()));
        }
    }
    Ok(out)
}
