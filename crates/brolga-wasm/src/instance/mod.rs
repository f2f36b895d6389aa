//! Module instance: memory, globals and tables of its own, a shadow for all of it, and calls of
//! functions and of their derivatives.
//!
//! **Question.** A WebAssembly function is called through an instance, which its code reaches by
//! one pointer. What stands behind that pointer, and how does a derivative run on it?
//!
//! **Answer.** An [`Instance`] owns a `Region`: a header with cells of globals, sizes and fuel,
//! memory 0 after it, and a shadow that is laid out alike. Every entry but a pullback does the
//! same:
//!
//! - arguments are checked by the function's type, and the instance pointer is put in front;
//! - `prepare` takes away pages beyond the memory's size, and sets the random numbers' seed, the
//!   exit code and the fuel;
//! - the compiled code runs, and what ends it becomes an [`Error`]: a trap, or an exit.
//!
//! [`Instance::call`] runs the primal, [`Instance::gradient`] a combined function,
//! [`Instance::tangent`] forward mode, [`Instance::forward`] and [`Instance::pullback`] the two
//! halves of split mode. Of a width above one, the derivatives of memory are in a shadow of that
//! width.
//!
//! **Safety.** Translated code reaches memory through the instance pointer only, and stays inside
//! of the region by checks, or by guard pages whose faults are traps. `&mut self` keeps other users
//! away. A pullback runs on the instance of its forward pass, or not at all.
//!
//! **Cost.** Address space for the region and its shadow, and a copy of the module's image. A call
//! converts its arguments and results.

mod buffers;
mod floats;

use std::collections::BTreeMap;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, Mode, Primal};
use wasmparser::{ExternalKind, FuncType, ValType};

use crate::error::Error;
use crate::gradient::{Evaluation, Gradient, Pullback, Tangents, next_instance};
use crate::host::region::Region;
use crate::host::{HostState, Output, SEED, STATE_CELL};
use crate::instance::floats::KnownFloats;
use crate::layout;
use crate::module::Module;
use crate::val::Val;

/// An instance of a module. It may move between threads, and is used by one at a time; several
/// instances are independent.
///
/// Addresses are Wasm's: offsets into memory 0. Every byte of memory has a shadow byte at the same
/// address of the shadow; where memory holds a float, the shadow holds its cotangent.
///
/// ```
/// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
/// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
/// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
/// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
/// let (mut one, other) = (Instance::new(&module)?, Instance::new(&module)?);
/// one.set_global("scale", Val::F64(3.0))?;
/// assert_eq!(other.global("scale")?, Val::F64(2.0)); // they are independent
/// assert_eq!(one.call("square", &[Val::F64(3.0)])?, [Val::F64(9.0)]);
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
pub struct Instance {
    pub(crate) module: Module,
    pub(crate) state: Box<HostState>,
    id: u64,
    fuel: u64,
    /// What is left of pages that [`Self::alloc`] got by growing memory: next address, end.
    pub(crate) spare: (u64, u64),
    /// Where the host has put floats.
    pub(crate) known: KnownFloats,
}

/// How an instance is made.
///
/// ```
/// # use brolga_wasm::{Error, Instance, InstanceOptions, Module, ModuleOptions};
/// let text = r#"(module (func (export "for_ever") (loop $again (br $again))))"#;
/// let module = Module::with_options(text, &ModuleOptions { fuel: true, ..ModuleOptions::default() })?;
/// let options = InstanceOptions { fuel: 1000, ..InstanceOptions::default() };
/// let found = Instance::with_options(&module, &options)?.call("for_ever", &[]);
/// assert!(matches!(found, Err(Error::Trap(_))));
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceOptions {
    /// Where standard output and error go.
    pub output: Output,
    /// Fuel for each call, the start function included, if the module was translated for it.
    pub fuel: u64,
}

impl Default for InstanceOptions {
    fn default() -> Self {
        Self { output: Output::default(), fuel: u64::MAX }
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance")
            .field("id", &self.id)
            .field("memory_size", &self.memory_size())
            .finish_non_exhaustive()
    }
}

impl Instance {
    /// A fresh instance; the start function, if there is one, has run, and so has what a library
    /// exports to be called first (`_initialize`, or `__wasm_call_ctors`).
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert_eq!(instance.memory_size(), 1 << 16); // one page
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoRoom`] if address space is short, [`Error::Trap`] if one of these functions
    /// traps.
    pub fn new(module: &Module) -> Result<Self, Error> {
        Self::with_options(module, &InstanceOptions::default())
    }

    /// [`Self::new`], with options.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// let mut instance = Instance::with_options(&module, &InstanceOptions::default())?;
    /// assert_eq!(instance.call("square", &[Val::F64(3.0)])?, [Val::F64(9.0)]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options(module: &Module, options: &InstanceOptions) -> Result<Self, Error> {
        let mut this = Self::not_started(module)?;
        this.state.output = options.output;
        this.set_fuel(options.fuel);
        let inner = &*module.0;
        let nothing = FuncType::new([], []);
        if let Some(key) = inner.start.and_then(|f| inner.translated.funcs[f as usize]) {
            this.enter(key, &nothing, &[])?;
        }
        if let Some(key) = inner.initialise.and_then(|f| inner.translated.funcs[f as usize]) {
            this.set_up_stack()?;
            this.enter(key, &nothing, &[])?;
        }
        Ok(this)
    }

    /// Where Emscripten's code checks how deep its stack is, it has to be told first how large that
    /// is, by functions that it exports for this.
    fn set_up_stack(&mut self) -> Result<(), Error> {
        let module = self.module.clone();
        let has = |name, ty| module.function(name).is_ok_and(|f| *f.1 == ty);
        let (none, word) = (Vec::new, || vec![ValType::I32]);
        if has("emscripten_stack_init", FuncType::new(none(), none())) {
            self.call("emscripten_stack_init", &[])?;
        }
        let ends = ["emscripten_stack_get_base", "emscripten_stack_get_end"];
        if has("__set_stack_limits", FuncType::new([ValType::I32; 2], none()))
            && ends.iter().all(|end| has(end, FuncType::new(none(), word())))
        {
            let limits = [self.call(ends[0], &[])?, self.call(ends[1], &[])?].concat();
            self.call("__set_stack_limits", &limits)?;
        }
        Ok(())
    }

    /// An instance in which nothing has run.
    pub(crate) fn not_started(module: &Module) -> Result<Self, Error> {
        let inner = &*module.0;
        let mut region = Region::new(&inner.layout, 1)?;
        for (i, bytes) in inner.memories.iter().enumerate() {
            region.open(i as u32, *bytes)?;
        }
        let mut known = KnownFloats::default();
        for (offset, bytes) in &inner.image {
            if let Ok(at) = u32::try_from(*offset) {
                known.put_data(at, bytes.len());
            }
            // SAFETY: every entry of the image lies in the header or in an initial memory;
            // `module::image` has seen to that.
            unsafe {
                let to = region.vmctx().offset(*offset as isize);
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
        let size_cells = inner.layout.memory_size.clone();
        let state = Box::new(HostState {
            region,
            batches: BTreeMap::new(),
            size_cells,
            output: Output::default(),
            captured: Vec::new(),
            exit: None,
            random: SEED,
        });
        let mut this =
            Self { module: module.clone(), state, id: next_instance(), fuel: u64::MAX, spare: (0, 0), known };
        let pointer: *mut HostState = &mut *this.state;
        // SAFETY: the cell lies in the header.
        unsafe { this.vmctx().offset(STATE_CELL as isize).cast::<*mut HostState>().write(pointer) };
        this.set_fuel(u64::MAX);
        Ok(this)
    }

    /// The module.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert_eq!(instance.module(), &module);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The instance pointer: the address of byte 0 of memory 0.
    pub fn vmctx(&self) -> *mut u8 {
        self.state.region.vmctx()
    }

    /// The shadow of the instance pointer.
    pub fn shadow_vmctx(&self) -> *mut u8 {
        self.state.region.shadow()
    }

    /// Fuel for each call from now on, if the module was translated for it; a call that runs out of
    /// it is a trap.
    pub fn set_fuel(&mut self, fuel: u64) {
        self.fuel = fuel;
        self.set_cell(self.module.0.layout.fuel, fuel);
    }

    /// Output that was kept (see [`Output::Keep`]), taken out.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.state.captured)
    }

    fn cell<T: Copy>(&self, offset: i32) -> T {
        // SAFETY: offsets of the layout lie in the header; a cell holds what it was laid out for.
        unsafe { self.vmctx().offset(offset as isize).cast::<T>().read() }
    }

    pub(crate) fn set_cell<T: Copy>(&mut self, offset: i32, value: T) {
        // SAFETY: as in `cell`.
        unsafe { self.vmctx().offset(offset as isize).cast::<T>().write(value) }
    }

    /// What every entry into translated code begins with.
    pub(crate) fn prepare(&mut self) -> Result<(), Error> {
        for (i, cell) in self.module.0.layout.memory_size.clone().into_iter().enumerate() {
            let size = self.cell::<u64>(cell);
            self.state.region.shrink(i as u32, size)?;
        }
        self.state.random = SEED;
        self.state.exit = None;
        self.set_cell(self.module.0.layout.fuel, self.fuel);
        Ok(())
    }

    /// A trap that is an exit.
    pub(crate) fn ended(&self, e: brolga::Error) -> Error {
        match (Error::from(e), self.state.exit) {
            (Error::Trap(t), Some(code)) if t.code == "exit" => Error::Exit(code),
            (e, _) => e,
        }
    }

    pub(crate) fn arguments(&self, ty: &FuncType, args: &[Val]) -> Result<Vec<DataValue>, Error> {
        check(ty.params(), args, "argument")?;
        let vmctx = DataValue::I64(self.vmctx() as i64);
        Ok([vmctx].into_iter().chain(args.iter().map(|a| a.to_data())).collect())
    }

    pub(crate) fn results(ty: &FuncType, values: &[DataValue]) -> Vec<Val> {
        values.iter().zip(ty.results()).map(|(v, t)| Val::from_data(v, *t)).collect()
    }

    pub(crate) fn enter(&mut self, key: brolga::FuncKey, ty: &FuncType, args: &[Val]) -> Result<Vec<Val>, Error> {
        let module = self.module.clone();
        self.enter_in(module.primal()?, key, ty, args)
    }

    /// Call a function of the module that `primal` has compiled.
    pub(crate) fn enter_in(
        &mut self,
        primal: &Primal,
        key: brolga::FuncKey,
        ty: &FuncType,
        args: &[Val],
    ) -> Result<Vec<Val>, Error> {
        let args = self.arguments(ty, args)?;
        self.prepare()?;
        // SAFETY: translated code reaches memory through the instance pointer only, and stays
        // inside of the region: by checks, or by guard pages, whose faults are traps. `&mut self`
        // keeps other users away.
        let values = unsafe { primal.call(key, &args) }.map_err(|e| self.ended(e))?;
        Ok(Self::results(ty, &values))
    }

    /// Call an exported function.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert_eq!(instance.call("square", &[Val::F64(3.0)])?, [Val::F64(9.0)]);
    /// assert!(matches!(instance.call("square", &[]), Err(Error::Usage(_))));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for a wrong name or wrong arguments, [`Error::Trap`] or [`Error::Exit`] if
    /// it does not return.
    pub fn call(&mut self, name: &str, args: &[Val]) -> Result<Vec<Val>, Error> {
        let module = self.module.clone();
        let (key, ty) = module.function(name)?;
        self.enter(key, ty, args)
    }

    /// The hidden first argument of every function, as derivatives get it: the instance with its
    /// shadow, and where the host has put floats.
    pub fn pointer(&self) -> Arg {
        Arg::duplicated(self.vmctx() as u64, self.shadow_vmctx() as u64).with_floats(self.known.all())
    }

    /// The same for a derivative of a width: its shadow is [of that width](Self::shadows_mut).
    ///
    /// # Errors
    /// [`Error::NoRoom`] if address space is short.
    pub fn pointer_of_width(&mut self, width: usize) -> Result<Arg, Error> {
        let shadow = if width == 1 { self.shadow_vmctx() } else { self.batch(width)?.vmctx() };
        Ok(Arg { shadow: shadow as u64, ..self.pointer() })
    }

    /// Arguments of a derivative, with everything ready to run it.
    fn enter_derivative(&mut self, gradient: &Gradient, args: &[Val]) -> Result<Vec<Arg>, Error> {
        if !std::sync::Arc::ptr_eq(&gradient.module.0, &self.module.0) {
            return Err(Error::Usage("the gradient is of another module than the instance".to_owned()));
        }
        let values = self.arguments(&gradient.ty, args)?;
        self.prepare()?;
        let mut all: Vec<Arg> = values.into_iter().map(Arg::new).collect();
        all[0] = self.pointer_of_width(gradient.rule.width())?;
        Ok(all)
    }

    /// Value and gradient at once: from arguments and cotangents of the results (one for each;
    /// those of integers are ignored) to results, to cotangents of the arguments, and of what was
    /// in memory, which are added to its shadow. Memory is as the function leaves it, unless
    /// options say that it is to be restored.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let gradient = Gradient::new(&module, "square")?;
    /// let found = instance.gradient(&gradient, &[Val::F64(3.0)], &[Val::F64(1.0)])?;
    /// assert_eq!((found.values, found.cotangents), (vec![Val::F64(9.0)], vec![Some(Val::F64(6.0))]));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for wrong arguments or seeds; [`Error::Trap`] or [`Error::Exit`] if the
    /// function does not return, if the tape is full, or if a cotangent reaches something that
    /// cannot be followed.
    pub fn gradient(&mut self, gradient: &Gradient, args: &[Val], seeds: &[Val]) -> Result<Evaluation, Error> {
        check(gradient.ty.results(), seeds, "seed")?;
        let all = self.enter_derivative(gradient, args)?;
        let seeds: Vec<DataValue> = seeds.iter().map(|s| s.to_data()).collect();
        let (mut values, mut cotangents) = (Vec::new(), Vec::new());
        // SAFETY: as in `enter`; the shadow is laid out like the primal.
        let run =
            unsafe { gradient.rule.gradient(&all, &seeds, &mut values, &mut cotangents) }.map_err(|e| self.ended(e))?;
        Ok(Evaluation {
            values: Self::results(&gradient.ty, &values),
            cotangents: Self::cotangents(&gradient.ty, &cotangents),
            tape_bytes: run.tape_bytes(),
        })
    }

    /// Values and their tangents along a direction, by a gradient in [forward
    /// mode](Gradient::tangent): `directions` has one entry for each parameter, `None` for zero.
    /// The shadow of memory holds the tangent of what is in memory, before the call and after it;
    /// what an earlier call has left there is [cleared](Self::clear_shadow) first, unless it is
    /// meant.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let gradient = Gradient::tangent(&module, "square")?;
    /// let found = instance.tangent(&gradient, &[Val::F64(3.0)], &[Some(Val::F64(0.5))])?;
    /// assert_eq!(found.tangents, [Some(Val::F64(3.0))]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for wrong arguments or directions, or a gradient that is of another mode;
    /// [`Error::Trap`] or [`Error::Exit`] if the function does not return, or if a tangent depends
    /// on bits that are not followed.
    pub fn tangent(
        &mut self,
        gradient: &Gradient,
        args: &[Val],
        directions: &[Option<Val>],
    ) -> Result<Tangents, Error> {
        Ok(self.tangents(gradient, args, &[directions])?.remove(0))
    }

    /// The same along as many directions as the gradient's width says
    /// ([`Options::width`](brolga::Options::width)), in one run: values are the same in each. The
    /// tangents of memory are in [the shadow of that width](Self::shadows_mut).
    ///
    /// # Errors
    /// As [`Self::tangent`]; [`Error::NoRoom`] if address space is short.
    pub fn tangents(
        &mut self,
        gradient: &Gradient,
        args: &[Val],
        directions: &[impl AsRef<[Option<Val>]>],
    ) -> Result<Vec<Tangents>, Error> {
        sets(directions, gradient.rule.width(), gradient.ty.params().len(), "directions")?;
        let all = self.enter_derivative(gradient, args)?;
        let data = |d: &Option<Val>| d.map(|d| d.to_data());
        let directions: Vec<Option<DataValue>> =
            directions.iter().flat_map(|d| [None].into_iter().chain(d.as_ref().iter().map(data))).collect();
        let (mut values, mut found) = (Vec::new(), Vec::new());
        // SAFETY: as in `enter`; the shadow is laid out like the primal.
        unsafe { gradient.rule.tangent(&all, &directions, &mut values, &mut found) }.map_err(|e| self.ended(e))?;
        let (values, ty) = (Self::results(&gradient.ty, &values), gradient.ty.results());
        let one = |k: usize| {
            let of_width = found.iter().skip(k * ty.len()).zip(ty);
            let tangents = of_width.map(|(v, t)| v.as_ref().map(|v| Val::from_data(v, *t))).collect();
            Tangents { values: values.clone(), tangents }
        };
        Ok((0..gradient.rule.width()).map(one).collect())
    }

    /// Cotangents of the parameters that are written, the instance left out.
    pub(crate) fn cotangents(ty: &FuncType, found: &[Option<DataValue>]) -> Vec<Option<Val>> {
        let typed = found[1..].iter().zip(ty.params());
        typed.map(|(v, t)| v.as_ref().map(|v| Val::from_data(v, *t))).collect()
    }

    /// Run the forward pass of a gradient that is [split](Gradient::split): the function's results,
    /// and the pullback of this run. Memory is as the function leaves it.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let gradient = Gradient::split(&module, "square")?;
    /// let (values, mut pullback) = instance.forward(&gradient, &[Val::F64(3.0)])?;
    /// assert_eq!(values, [Val::F64(9.0)]);
    /// assert_eq!(instance.pullback(&mut pullback, &[Val::F64(1.0)])?, [Some(Val::F64(6.0))]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::call`]; also if the tape is full, or if the gradient is one function.
    pub fn forward(&mut self, gradient: &Gradient, args: &[Val]) -> Result<(Vec<Val>, Pullback), Error> {
        if gradient.mode() != Mode::Split {
            let message = "this gradient is one function for value and gradient: run it by `Instance::gradient`, or make a \
                forward pass and a pullback by `Gradient::split`";
            return Err(Error::Usage(message.to_owned()));
        }
        let all = self.enter_derivative(gradient, args)?;
        // SAFETY: as in `enter`; the shadow is laid out like the primal.
        let (values, inner) = unsafe { gradient.rule.forward(&all) }.map_err(|e| self.ended(e))?;
        let pullback = Pullback { inner, gradient: gradient.clone(), instance: self.id };
        Ok((Self::results(&gradient.ty, &values), pullback))
    }

    /// Run a pullback: from cotangents of the results (one for each; those of integers are ignored)
    /// and of what is in memory (its shadow) to cotangents of the arguments (`Some` for active
    /// ones) and of what was in memory before.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let gradient = Gradient::split(&module, "square")?;
    /// let (_, mut pullback) = instance.forward(&gradient, &[Val::F64(3.0)])?;
    /// for seed in [1.0, 0.5] {
    ///     assert_eq!(instance.pullback(&mut pullback, &[Val::F64(seed)])?, [Some(Val::F64(6.0 * seed))]);
    /// }
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for seeds that do not fit or a pullback of another instance;
    /// [`Error::Trap`] if a cotangent reaches something that cannot be followed.
    pub fn pullback(&mut self, pullback: &mut Pullback, seeds: &[Val]) -> Result<Vec<Option<Val>>, Error> {
        Ok(self.pullbacks(pullback, &[seeds])?.remove(0))
    }

    /// The same for as many sets of seeds as the gradient's width says, in one run. The cotangents
    /// of memory are in [the shadow of that width](Self::shadows_mut).
    ///
    /// # Errors
    /// As [`Self::pullback`].
    pub fn pullbacks(
        &mut self,
        pullback: &mut Pullback,
        seeds: &[impl AsRef<[Val]>],
    ) -> Result<Vec<Vec<Option<Val>>>, Error> {
        if pullback.instance != self.id {
            return Err(Error::Usage("the pullback is of another instance's run".to_owned()));
        }
        let ty = pullback.gradient.ty.clone();
        sets(seeds, pullback.gradient.rule.width(), ty.results().len(), "seeds")?;
        seeds.iter().try_for_each(|seeds| check(ty.results(), seeds.as_ref(), "seed"))?;
        let seeds: Vec<DataValue> = seeds.iter().flat_map(|s| s.as_ref().iter().map(|s| s.to_data())).collect();
        // SAFETY: the instance that ran is this one, so its memory is still there; what was
        // accessible then still is.
        let out = unsafe { pullback.inner.call(&seeds) }?;
        Ok(out.chunks_exact(1 + ty.params().len()).map(|of_seed| Self::cotangents(&ty, of_seed)).collect())
    }

    /// What lies before the instance pointer, and memory 0 behind it, for who puts the same
    /// elsewhere. What the host keeps of this instance is left out. An instance with other memories
    /// has none.
    pub fn image(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut header, mut memories) = self.state.region.image().into_parts();
        let at = header.len().checked_add_signed(STATE_CELL as isize)?;
        header[at..].fill(0);
        let memory = memories.pop().unwrap_or_default();
        memories.is_empty().then_some((header, memory))
    }

    /// Bytes of memory 0.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert_eq!(instance.memory_size(), 1 << 16); // one page
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn memory_size(&self) -> u64 {
        self.module.0.layout.memory_size.first().map_or(0, |c| self.cell::<u64>(*c))
    }

    /// Memory 0.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let at = instance.alloc_f64(&[1.5])? as usize;
    /// assert_eq!(instance.memory()[at..at + 8], 1.5_f64.to_le_bytes());
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn memory(&self) -> &[u8] {
        // SAFETY: as many bytes are accessible, and translated code does not run while `self` is
        // borrowed.
        unsafe { std::slice::from_raw_parts(self.vmctx(), self.memory_size() as usize) }
    }

    /// Memory 0, to be changed.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.memory_mut()[64..72].copy_from_slice(&1.5_f64.to_le_bytes());
    /// assert_eq!(instance.read_f64(64, 1)?, [1.5]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn memory_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `memory`.
        unsafe { std::slice::from_raw_parts_mut(self.vmctx(), self.memory_size() as usize) }
    }

    /// The shadow of memory 0.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Range, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert!(instance.shadow().iter().all(|byte| *byte == 0)); // at first
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn shadow(&self) -> &[u8] {
        // SAFETY: the shadow is as accessible as the primal.
        unsafe { std::slice::from_raw_parts(self.shadow_vmctx(), self.memory_size() as usize) }
    }

    /// The shadow of memory 0, to be changed.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Range, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.shadow_mut()[64..72].copy_from_slice(&0.5_f64.to_le_bytes());
    /// assert_eq!(instance.shadow_f64(64, 1)?, [0.5]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn shadow_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `shadow`.
        unsafe { std::slice::from_raw_parts_mut(self.shadow_vmctx(), self.memory_size() as usize) }
    }

    /// Set all shadows, of memories, globals and tables, to zero.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.set_shadow_f64(64, &[1.0])?;
    /// instance.clear_shadow();
    /// assert_eq!(instance.shadow_f64(64, 1)?, [0.0]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn clear_shadow(&mut self) {
        self.state.region.clear_shadow();
    }

    fn global_cell(&self, name: &str) -> Result<(u32, i32, ValType), Error> {
        let index = self
            .module
            .export(name, ExternalKind::Global)
            .ok_or_else(|| Error::Usage(format!("no global `{name}` is exported")))?;
        Ok((index, self.module.0.layout.globals[index as usize], self.module.0.globals[index as usize].0))
    }

    /// The value of an exported global.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert_eq!(instance.global("scale")?, Val::F64(2.0));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none.
    pub fn global(&self, name: &str) -> Result<Val, Error> {
        let (_, cell, ty) = self.global_cell(name)?;
        Ok(Val::from_bits(ty, self.bits_at(self.vmctx(), cell, ty)))
    }

    /// The cotangent of an exported global of float type.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let gradient = Gradient::new(&module, "scaled")?; // scale · *x
    /// let x = instance.alloc_f64(&[5.0])?;
    /// instance.gradient(&gradient, &[Val::I32(x as i32)], &[Val::F64(1.0)])?;
    /// assert_eq!((instance.global_shadow("scale")?, instance.shadow_f64(x, 1)?), (Val::F64(5.0), vec![2.0]));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::global`].
    pub fn global_shadow(&self, name: &str) -> Result<Val, Error> {
        let (_, cell, ty) = self.global_cell(name)?;
        Ok(Val::from_bits(ty, self.bits_at(self.shadow_vmctx(), cell, ty)))
    }

    /// Set an exported global.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.set_global("scale", Val::F64(3.0))?;
    /// assert_eq!(instance.global("scale")?, Val::F64(3.0));
    /// assert!(instance.set_global("scale", Val::I32(3)).is_err()); // of another type
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none, if it cannot change, or if the type is another.
    pub fn set_global(&mut self, name: &str, value: Val) -> Result<(), Error> {
        let (index, cell, ty) = self.global_cell(name)?;
        if !self.module.0.globals[index as usize].1 || !value.fits(ty) {
            return Err(Error::Usage(format!("the global `{name}` of type {ty} cannot be set to {value:?}")));
        }
        let bytes = value.bits().to_le_bytes();
        for (i, b) in bytes[..layout::bytes(ty)].iter().enumerate() {
            self.set_cell(cell + i as i32, *b);
        }
        Ok(())
    }

    /// All globals, and memory 0 from an address on, as far as linkers put data.
    pub(crate) fn globals_and_data(&self, from: usize) -> (Vec<u128>, Vec<u8>) {
        const DATA: usize = 16 << 20;
        let inner = &*self.module.0;
        let cells = inner.layout.globals.iter().zip(&inner.globals);
        let globals = cells.map(|(&cell, &(ty, _))| self.bits_at(self.vmctx(), cell, ty)).collect();
        let memory = self.memory();
        (globals, memory[from..memory.len().min(DATA)].to_vec())
    }

    fn bits_at(&self, base: *mut u8, cell: i32, ty: ValType) -> u128 {
        let mut bytes = [0; 16];
        let n = layout::bytes(ty);
        // SAFETY: cells of globals lie in the header, primal or shadow.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(base.offset(cell as isize), n) };
        u128::from_le_bytes(bytes)
    }
}

pub(crate) fn check(types: &[ValType], values: &[Val], what: &str) -> Result<(), Error> {
    if types.len() != values.len() {
        return Err(Error::Usage(format!("{} {what}s are given, {} are wanted", values.len(), types.len())));
    }
    match types.iter().zip(values).position(|(t, v)| !v.fits(*t)) {
        Some(i) => Err(Error::Usage(format!("{what} {i} is {:?}, a value of type {} is wanted", values[i], types[i]))),
        None => Ok(()),
    }
}

/// Whether there are as many sets as a width says, each of so many.
pub(crate) fn sets<T>(all: &[impl AsRef<[T]>], width: usize, each: usize, what: &str) -> Result<(), Error> {
    let message = match all.iter().find(|set| set.as_ref().len() != each) {
        _ if all.len() != width => format!("{} sets of {what} are given, the width is {width}", all.len()),
        Some(set) => format!("{} {what} are given, {each} are wanted", set.as_ref().len()),
        None => return Ok(()),
    };
    Err(Error::Usage(message))
}
