//! Gradients of modules: compiled derivatives of exported functions.
//!
//! **Question.** A WebAssembly function has numbers as parameters, and all else in memory. With
//! respect to what is it differentiated, and what does a derivative consist of?
//!
//! **Answer.** A [`Gradient`] is a [`DerivedRule`] with its module and the function's type. Floats
//! by value are active ([`default_activity`]), and all of memory, globals and tables have a shadow.
//! The constructors choose the [`Mode`]: [`Gradient::new`] makes one function for value and
//! gradient, [`Gradient::split`] a forward pass and a pullback, [`Gradient::tangent`] forward mode;
//! [`Gradient::with_request`] says more of each argument. Instances run them; [`Evaluation`],
//! [`Tangents`] and [`Pullback`] are what they give.
//!
//! **Errors.** A name or a request that is of no exported function, a promise on what is no
//! address, and what cannot be differentiated. By the default [`options`] bits of floats without a
//! known derivative are left to the run, which traps where a cotangent comes there.
//!
//! **Cost.** Derivation and compilation when one is made, and once more with full effort when its
//! calls have paid for that. A clone shares the code.

use std::sync::atomic::{AtomicU64, Ordering};

use brolga::{ArgActivity, ArgSpec, DerivedRule, Mode, Options, Request, Untracked};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::module::Module;
use crate::val::Val;

/// A compiled derivative of an exported function. Cheap to clone; all instances of the module, in
/// all threads, may use one.
///
/// There are three kinds. [`Self::new`] makes one function for value and gradient, which
/// [`Instance::gradient`] runs. [`Self::split`] makes a forward pass and a pullback, for
/// [`Instance::forward`] and [`Instance::pullback`], which may run at different times, and the
/// pullback several times; it records more. The numbers are the same, bit for bit (but for the sign
/// of a cotangent that is zero). [`Self::tangent`] makes a function of forward mode, which
/// [`Instance::tangent`] runs.
///
/// [`Instance::tangent`]: crate::Instance::tangent
/// [`Instance::gradient`]: crate::Instance::gradient
/// [`Instance::forward`]: crate::Instance::forward
/// [`Instance::pullback`]: crate::Instance::pullback
///
/// ```
/// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
/// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
/// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
/// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
/// # let mut instance = Instance::new(&module)?;
/// let gradient = Gradient::new(&module, "square")?;
/// let found = instance.gradient(&gradient, &[Val::F64(3.0)], &[Val::F64(1.0)])?;
/// assert_eq!(found.cotangents, [Some(Val::F64(6.0))]);
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
#[derive(Clone)]
pub struct Gradient {
    pub(crate) module: Module,
    pub(crate) rule: DerivedRule,
    pub(crate) ty: FuncType,
    mode: Mode,
}

/// Options for functions of modules, those of [`Gradient::new`] and [`Gradient::split`]. A module
/// comes with all of its library, and a call takes few ways through it. So what is done to bits of
/// floats and has no derivative that is known is left to the run: the pullback traps
/// (`untracked_bits`) where a cotangent comes there. With [`Untracked::Refuse`] all such places are
/// errors at once.
///
/// ```
/// assert_eq!(brolga_wasm::options().untracked, brolga_wasm::brolga::Untracked::Trap);
/// ```
pub fn options() -> Options {
    Options { untracked: Untracked::Trap, ..Options::default() }
}

impl Gradient {
    /// Differentiate the function exported as `name`, with respect to all its float parameters and
    /// all of memory: one function that computes value and gradient.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert_eq!(Gradient::new(&module, "square")?.mode(), brolga_wasm::brolga::Mode::Combined);
    /// assert!(matches!(Gradient::new(&module, "cube"), Err(Error::Usage(_)))); // there is none
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such function, [`Error::Diagnostics`] if it cannot be
    /// differentiated.
    pub fn new(module: &Module, name: &str) -> Result<Self, Error> {
        Self::in_mode(module, name, Mode::Combined)
    }

    /// [`Self::new`] as a forward pass and a pullback.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert_eq!(Gradient::split(&module, "square")?.mode(), brolga_wasm::brolga::Mode::Split);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn split(module: &Module, name: &str) -> Result<Self, Error> {
        Self::in_mode(module, name, Mode::Split)
    }

    /// [`Self::new`] in forward mode: values and their tangents along a direction.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert_eq!(Gradient::tangent(&module, "square")?.mode(), brolga_wasm::brolga::Mode::Tangent);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn tangent(module: &Module, name: &str) -> Result<Self, Error> {
        Self::in_mode(module, name, Mode::Tangent)
    }

    fn in_mode(module: &Module, name: &str, mode: Mode) -> Result<Self, Error> {
        let (_, ty) = module.function(name)?;
        let activity: Vec<ArgActivity> = ty.params().iter().map(|t| default_activity(*t)).collect();
        Self::with_options(module, name, &activity, &Options { mode, ..options() })
    }

    /// [`Self::new`] with one activity for each parameter (active or constant: what lies in memory
    /// has a shadow in any case) and options, which say what kind it is to be (`Options::mode`);
    /// see [`options`].
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// use brolga_wasm::brolga::{ArgActivity, Mode, Options};
    /// let options = Options { mode: Mode::Combined, ..brolga_wasm::options() };
    /// let constant = Gradient::with_options(&module, "square", &[ArgActivity::Const], &options)?;
    /// let found = instance.gradient(&constant, &[Val::F64(3.0)], &[Val::F64(1.0)])?;
    /// assert_eq!((found.values, found.cotangents), (vec![Val::F64(9.0)], vec![None]));
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options<A: Copy + Into<ArgSpec>>(
        module: &Module,
        name: &str,
        args: &[A],
        options: &Options,
    ) -> Result<Self, Error> {
        Self::with_request(module, &module.request(name, args)?, options)
    }

    /// [`Self::with_options`] of a [request](Module::request), in which more can be said.
    ///
    /// An `i32` that is said to be [`noalias`](brolga::Promises::noalias) is the address of an
    /// object that is reached through addresses computed from it, and through no others: from no
    /// other argument, no global, no constant and nothing that lies in memory; and nothing else is
    /// reached from it. C's `restrict` pointers are of that kind. Less is recorded then: what has
    /// been read of one object is still there when another one has been written. It is taken on
    /// trust. What is written to such an object need not be written if the caller does not read it
    /// ([`no_need`](brolga::Promises::no_need)), with [`Mode::Gradient`].
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// use brolga_wasm::brolga::{ArgSpec, Mode, Options};
    /// let request = module.request("scaled", &[ArgSpec::CONST])?;
    /// let options = Options { mode: Mode::Combined, ..brolga_wasm::options() };
    /// assert_eq!(Gradient::with_request(&module, &request, &options)?.ty().params(), [ValType::I32]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::new`], and [`Error::Usage`] for a request of no exported function of this module,
    /// or if a number that is no address is said to be one.
    pub fn with_request(module: &Module, request: &Request, options: &Options) -> Result<Self, Error> {
        let is_it = |name: &str| module.function(name).is_ok_and(|f| f.0 == request.func);
        let Some((name, ty)) = module.functions().find(|f| is_it(f.0)) else {
            return Err(Error::Usage("what the request asks for is no exported function of the module".to_owned()));
        };
        for (i, _) in request.args.iter().enumerate().filter(|a| a.1.promises.noalias) {
            if i == 0 || !matches!(ty.params().get(i - 1), Some(ValType::I32)) {
                let which = if i == 0 { "the instance".to_owned() } else { format!("argument {}", i - 1) };
                return Err(Error::Usage(format!(
                    "{which} of `{name}` is said to be noalias, but is no address: that is an i32"
                )));
            }
        }
        let rule = DerivedRule::new(module.program(), request, options)?;
        Ok(Self { module: module.clone(), rule, ty: ty.clone(), mode: options.mode })
    }

    /// The same with [all effort](brolga::Effort) now, before calls have paid for it.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert!(Gradient::new(&module, "square")?.settled().rule().is_settled());
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    #[must_use]
    pub fn settled(self) -> Self {
        self.rule.settle();
        self
    }

    /// The type of the function.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert_eq!(Gradient::new(&module, "square")?.ty().results(), [ValType::F64]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn ty(&self) -> &FuncType {
        &self.ty
    }

    /// Which functions it is made of.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert_eq!(Gradient::split(&module, "square")?.mode(), brolga_wasm::brolga::Mode::Split);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The rule behind it, whose first argument is the instance pointer.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// // The instance pointer, and the float.
    /// assert_eq!(Gradient::new(&module, "square")?.rule().signature().params.len(), 2);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn rule(&self) -> &DerivedRule {
        &self.rule
    }
}

/// Floats by value are active, everything else is constant.
///
/// ```
/// use brolga_wasm::{ValType, brolga::ArgActivity, default_activity};
/// assert_eq!([ValType::F64, ValType::I32].map(default_activity), [ArgActivity::Active, ArgActivity::Const]);
/// ```
pub fn default_activity(ty: ValType) -> ArgActivity {
    match ty {
        ValType::F32 | ValType::F64 => ArgActivity::Active,
        _ => ArgActivity::Const,
    }
}

/// What [`crate::Instance::gradient`] has found, beside what it has added to the shadow of memory.
///
/// ```
/// # use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Range, Val, ValType};
/// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
/// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
/// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
/// # let mut instance = Instance::new(&module)?;
/// let gradient = Gradient::new(&module, "square")?;
/// let found = instance.gradient(&gradient, &[Val::F64(3.0)], &[Val::F64(1.0)])?;
/// assert_eq!((found.values, found.cotangents), (vec![Val::F64(9.0)], vec![Some(Val::F64(6.0))]));
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The function's results; none with [`Mode::Gradient`].
    pub values: Vec<Val>,
    /// One entry for each parameter: its cotangent, if it is active.
    pub cotangents: Vec<Option<Val>>,
    /// Bytes that the run recorded, at most at a time.
    pub tape_bytes: usize,
}

/// What [`crate::Instance::tangent`] has found, beside the tangents of memory in its shadow.
///
/// ```
/// # use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Range, Val, ValType};
/// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
/// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
/// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
/// # let mut instance = Instance::new(&module)?;
/// let gradient = Gradient::tangent(&module, "square")?;
/// let found = instance.tangent(&gradient, &[Val::F64(3.0)], &[None])?; // along nothing
/// assert_eq!((found.values, found.tangents), (vec![Val::F64(9.0)], vec![Some(Val::F64(0.0))]));
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tangents {
    /// The function's results.
    pub values: Vec<Val>,
    /// One entry for each result: its tangent, if it is a float.
    pub tangents: Vec<Option<Val>>,
}

/// The pullback of one forward run of an instance; see [`crate::Instance::pullback`].
///
/// ```
/// # use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Range, Val, ValType};
/// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
/// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
/// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
/// # let mut instance = Instance::new(&module)?;
/// let gradient = Gradient::split(&module, "square")?;
/// let (_, mut pullback) = instance.forward(&gradient, &[Val::F64(3.0)])?;
/// assert!(pullback.tape_bytes() > 0); // the argument is recorded
/// assert!(pullback.loop_plans().is_empty()); // no loop is of time
/// assert_eq!(instance.pullback(&mut pullback, &[Val::F64(1.0)])?, [Some(Val::F64(6.0))]);
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
pub struct Pullback {
    pub(crate) inner: brolga::Pullback,
    pub(crate) gradient: Gradient,
    /// The instance that ran.
    pub(crate) instance: u64,
}

impl Pullback {
    /// What the time loops of the run have done so far (`docs/LONG-LOOPS.md`).
    pub fn loop_stats(&self) -> brolga::LoopStats {
        self.inner.loop_stats()
    }

    /// How the time loops of the run are reversed.
    pub fn loop_plans(&self) -> Vec<brolga::LoopReport> {
        self.inner.loop_plans()
    }

    /// What calls have done so far that others undo (`docs/BACKWARDS.md`).
    pub fn inverse_stats(&self) -> brolga::InverseStats {
        self.inner.inverse_stats()
    }

    /// Bytes that the forward run recorded.
    pub fn tape_bytes(&self) -> usize {
        self.inner.tape_bytes()
    }
}

/// A number for each instance of the process.
pub(crate) fn next_instance() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
