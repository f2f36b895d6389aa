//! Module: translated once, instantiated as often as one likes.
//!
//! **Question.** What is known of a WebAssembly module once it has been translated, whatever
//! instances there will be?
//!
//! **Answer.** A [`Module`] has the program in CLIF ([`Module::program`]), the layout of an
//! instance, the bytes with which every instance begins, and names and types of what is exported.
//! [`Module::function`] finds an export, [`Module::request`] says what is asked of its derivative:
//! the instance, which is parameter 0, is duplicated, so arguments are active or constant.
//! Functions are compiled when one of them is first called.
//!
//! **Errors.** Names that are not exported, imports that are exported again, and activities that do
//! not fit.
//!
//! **Cost.** Translation and compilation once; a clone shares everything.

pub(crate) mod allocators;

use std::sync::{Arc, OnceLock};

use brolga::{ArgActivity, ArgSpec, FuncKey, Options, Primal, Program, Request};
use wasmparser::{ExternalKind, FuncType, ValType};

use crate::error::Error;
use crate::function::env::Bounds;
use crate::imports::Imports;
use crate::layout::Layout;
use crate::module::allocators::{Allocators, HeapSource};
use crate::parse::Export;
use crate::translate::TranslatedModule;

/// How a module is translated.
///
/// ```
/// # use brolga_wasm::{Bounds, Module, ModuleOptions};
/// let options = ModuleOptions { bounds: Bounds::Checked, ..ModuleOptions::default() };
/// assert!(Module::with_options("(module (memory 1))", &options)?.functions().next().is_none());
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModuleOptions {
    /// What its imports are.
    pub imports: Imports,
    /// How accesses of linear memory are kept inside of it.
    pub bounds: Bounds,
    /// Whether every call of a function and every iteration of a loop uses a unit of fuel, so that
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
///
/// ```
/// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
/// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
/// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
/// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
/// assert!(module == module.clone());
/// assert!(format!("{module:?}").contains("square"));
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
#[derive(Clone)]
pub struct Module(pub(crate) Arc<ModuleData>);

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

pub(crate) struct ModuleData {
    pub layout: Layout,
    pub translated: TranslatedModule,
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
    pub source: Option<HeapSource>,
    /// The compiled functions, once they have been asked for.
    pub primal: OnceLock<Result<Primal, String>>,
}

impl Module {
    /// The CLIF that the module was translated to. The instance pointer is the first parameter of
    /// every function.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// let (square, _) = module.function("square")?;
    /// assert_eq!(module.program().funcs[square].signature.params.len(), 2); // the instance pointer comes first
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn program(&self) -> &Program {
        &self.0.translated.program
    }

    /// Names and types of the exported functions, in order.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert!(module.functions().map(|f| f.0).eq(["square", "scaled"]));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn functions(&self) -> impl Iterator<Item = (&str, &FuncType)> {
        self.0
            .exports
            .iter()
            .filter(|e| matches!(e.kind, ExternalKind::Func | ExternalKind::FuncExact))
            .map(|e| (e.name.as_str(), &self.0.types[e.index as usize]))
    }

    /// The keys of those of them that are defined in the module.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert_eq!(module.keys().next(), Some(module.function("square")?.0));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
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
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// let (_, ty) = module.function("square")?;
    /// assert_eq!((ty.params(), ty.results()), (&[ValType::F64][..], &[ValType::F64][..]));
    /// assert!(matches!(module.function("cube"), Err(Error::Usage(_))));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
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
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// use brolga_wasm::brolga::ArgActivity;
    /// let request = module.request("square", &[ArgActivity::Active])?;
    /// assert_eq!(request.args[1].activity, ArgActivity::Active); // 0 is the instance
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
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
