//! Derivatives of exported functions.

use std::sync::atomic::{AtomicU64, Ordering};

use brolga::{ArgActivity, DerivedRule, Mode, Options, Request};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::module::Module;
use crate::val::Val;

/// A compiled derivative of an exported function. Cheap to clone; all instances of the module, in all threads, may use one.
///
/// There are two kinds. [`Self::new`] makes one function for value and gradient, which [`Instance::gradient`] runs.
/// [`Self::split`] makes a forward pass and a pullback, for [`Instance::forward`] and [`Instance::pullback`], which may run at
/// different times, and the pullback several times; it records more. The numbers are the same, bit for bit (but for the
/// sign of a cotangent that is zero).
///
/// [`Instance::gradient`]: crate::Instance::gradient
/// [`Instance::forward`]: crate::Instance::forward
/// [`Instance::pullback`]: crate::Instance::pullback
#[derive(Clone)]
pub struct Gradient {
    pub(crate) module: Module,
    pub(crate) rule: DerivedRule,
    pub(crate) ty: FuncType,
    mode: Mode,
}

impl Gradient {
    /// Differentiate the function exported as `name`, with respect to all its float parameters and all of memory: one
    /// function that computes value and gradient.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such function, [`Error::Diagnostics`] if it cannot be differentiated.
    pub fn new(module: &Module, name: &str) -> Result<Self, Error> {
        Self::in_mode(module, name, Mode::Combined)
    }

    /// [`Self::new`] as a forward pass and a pullback.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn split(module: &Module, name: &str) -> Result<Self, Error> {
        Self::in_mode(module, name, Mode::Split)
    }

    fn in_mode(module: &Module, name: &str, mode: Mode) -> Result<Self, Error> {
        let (_, ty) = module.function(name)?;
        let activity: Vec<ArgActivity> = ty.params().iter().map(|t| default_activity(*t)).collect();
        Self::with_options(module, name, &activity, &Options { mode, ..Options::default() })
    }

    /// [`Self::new`] with one activity for each parameter (active or constant: what lies in memory has a shadow in any case)
    /// and options, which say what kind it is to be (`Options::mode`).
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options(
        module: &Module,
        name: &str,
        activity: &[ArgActivity],
        options: &Options,
    ) -> Result<Self, Error> {
        let (func, ty) = module.function(name)?;
        if activity.len() != ty.params().len() {
            let (n, m) = (activity.len(), ty.params().len());
            return Err(Error::Usage(format!("{n} activities are given, `{name}` has {m} parameters")));
        }
        if let Some(i) = activity.iter().position(|a| *a == ArgActivity::Duplicated) {
            return Err(Error::Usage(format!(
                "argument {i} of `{name}` is duplicated, but Wasm's pointers are numbers: all of memory has a shadow"
            )));
        }
        let args = [ArgActivity::Duplicated].into_iter().chain(activity.iter().copied());
        let rule = DerivedRule::new(module.program(), &Request::new(func, args), options)?;
        Ok(Self { module: module.clone(), rule, ty: ty.clone(), mode: options.mode })
    }

    /// The type of the function.
    pub fn ty(&self) -> &FuncType {
        &self.ty
    }

    /// Which functions it is made of.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The rule behind it, whose first argument is the instance pointer.
    pub fn rule(&self) -> &DerivedRule {
        &self.rule
    }
}

/// Floats by value are active, everything else is constant.
pub fn default_activity(ty: ValType) -> ArgActivity {
    match ty {
        ValType::F32 | ValType::F64 => ArgActivity::Active,
        _ => ArgActivity::Const,
    }
}

/// What [`crate::Instance::gradient`] has found, beside what it has added to the shadow of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The function's results; none with [`Mode::Gradient`](brolga::Mode::Gradient).
    pub values: Vec<Val>,
    /// One entry for each parameter: its cotangent, if it is active.
    pub cotangents: Vec<Option<Val>>,
    /// Bytes that the run recorded, at most at a time.
    pub tape_bytes: usize,
}

/// The pullback of one forward run of an instance; see [`crate::Instance::pullback`].
pub struct Pullback {
    pub(crate) inner: brolga::Pullback,
    pub(crate) gradient: Gradient,
    /// The instance that ran.
    pub(crate) instance: u64,
}

impl Pullback {
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
