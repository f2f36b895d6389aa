//! Loading a module: parsed, translated, its library functions recognised.
//!
//! **Question.** A C library is compiled into the module. Which of its functions are what their
//! names say, so that a rule may take their place?
//!
//! **Answer.** What may be one, by its name and type, is tried in an instance of a first
//! translation, which runs on fuel; what agrees with C's is marked, or replaced, in a second one.
//!
//! **Cost.** One translation where nothing may be of a library, else two, and the candidates are
//! compiled and run.

pub(crate) mod serial;

use std::sync::{Arc, OnceLock};

use crate::error::Error;
use crate::function::env::CodeOptions;
use crate::imports::Provider;
use crate::layout::{self, Layout, PAGE};
use crate::library::{clib, mathlib, unnamed, wrapped};
use crate::module::allocators;
use crate::module::{Module, ModuleData, ModuleOptions};
use crate::parse::{self, Info};
use crate::provided::Replacements;
use crate::translate::{TranslatedModule, translate};

impl ModuleData {
    fn new(info: &Info<'_>, layout: &Layout, provider: &Provider<'_>, mode: CodeOptions) -> Result<Self, Error> {
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
    /// ```
    /// # use brolga_wasm::{Error, Module};
    /// assert!(Module::new(r#"(module (func (export "f")))"#).is_ok());
    /// assert!(matches!(Module::new(b"no module"), Err(Error::Invalid { .. })));
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Unsupported`], [`Error::Imports`], or [`Error::Usage`] where an
    /// allocator is named that is not there.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, Error> {
        Self::with_options(bytes, &ModuleOptions::default())
    }

    /// [`Self::new`], with options.
    ///
    /// ```
    /// # use brolga_wasm::{Module, ModuleOptions};
    /// let options = ModuleOptions { fuel: true, ..ModuleOptions::default() };
    /// assert_eq!(Module::with_options(r#"(module (func (export "f")))"#, &options)?.functions().count(), 1);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options(bytes: impl AsRef<[u8]>, options: &ModuleOptions) -> Result<Self, Error> {
        let bytes =
            wat::parse_bytes(bytes.as_ref()).map_err(|e| Error::Invalid { message: e.to_string(), offset: 0 })?;
        let mut info = Info::parse(&bytes)?;
        let mut provider = Provider { imports: &options.imports, replaced: Replacements::default() };
        if provider.grows(&info) {
            info.mutates.memories.insert(0);
        }
        let too_large = |what| Error::unsupported(what, 0, "give it a smaller maximum");
        let layout = Layout::new(&info, provider.forks(&info)).map_err(too_large)?;
        let mode = CodeOptions { bounds: options.bounds, fuel: options.fuel };
        let (mathematics, exact) = (mathlib::candidates(&info), clib::candidates(&info));
        let around = wrapped::candidates(&info);
        let mut computes = Vec::new();
        if !mathematics.is_empty() || !exact.is_empty() || !around.is_empty() || unnamed::may_be_there(&info) {
            // Whatever has such a name is run, so it must end.
            let mode = CodeOptions { fuel: true, ..mode };
            let tried = Self(Arc::new(ModuleData::new(&info, &layout, &provider, mode)?));
            computes = mathlib::confirmed(&tried, &mathematics)?;
            provider.replaced = clib::confirmed(&tried, exact)?;
            provider.replaced.extend(wrapped::confirmed(&tried, around)?);
            let known = computes.iter().map(|c| c.0).chain(provider.replaced.keys().copied()).collect();
            computes.extend(unnamed::confirmed(&tried, &info, known)?);
        }
        let mut inner = ModuleData::new(&info, &layout, &provider, mode)?;
        for (index, symbol) in computes {
            for key in inner.translated.keys_of(index) {
                inner.translated.program.func_mut(key).computes = Some(symbol);
            }
        }
        for (index, kind) in options.allocators.of(&info)? {
            for key in inner.translated.keys_of(index) {
                inner.translated.program.func_mut(key).allocator = Some(kind);
            }
        }
        serial::leave(&mut inner.translated, &info, mode);
        Ok(Self(Arc::new(inner)))
    }
}

/// What every instance begins with: sizes, globals, tables, active segments.
fn image(
    info: &Info<'_>,
    layout: &Layout,
    provider: &Provider<'_>,
    translated: &TranslatedModule,
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
        if let parse::SegmentMode::Active(table, offset) = &e.mode {
            let at = u64::from(eval(offset) as u32);
            if at + e.items.len() as u64 > info.tables[*table as usize].ty.initial {
                return Err(Error::Usage(format!(
                    "out of bounds table access: element segment {i} does not fit table {table}"
                )));
            }
            let refs: Vec<u8> = e.items.iter().flat_map(|c| (eval(c) as u32).to_le_bytes()).collect();
            out.push((i64::from(layout.tables[*table as usize]) + 4 * at as i64, refs));
        }
        if !matches!(e.mode, parse::SegmentMode::Passive) {
            out.push((layout.elem_dropped[i].into(), dropped.clone()));
        }
    }
    for (i, d) in info.data.iter().enumerate() {
        if let parse::SegmentMode::Active(memory, offset) = &d.mode {
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
