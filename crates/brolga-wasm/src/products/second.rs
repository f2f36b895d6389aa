//! Second derivatives of exported functions: products of the Hessian with a direction.
//!
//! **Question.** An instance's memory is one block. Where do its tangent, its shadow and the
//! tangent of its shadow lie?
//!
//! **Answer.** Memory takes part four times: as it is, its tangent, its shadow, and the tangent of
//! the shadow. Tangents lie in a region of their own ([`crate::products::batch`]).
//!
//! **Cost.** One run of the derived rule for as many directions as its width says; a region of that
//! width, which the instance keeps.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::second::{ArgDirection, HessianProducts, HessianRule};
use brolga::{ArgSpec, Mode, Options};
use wasmparser::FuncType;

use crate::error::Error;
use crate::gradient::{default_activity, options};
use crate::instance::{Instance, check, sets};
use crate::module::Module;
use crate::val::Val;

/// A compiled second derivative of an exported function. Cheap to clone.
///
/// ```
/// # use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Range, Val, ValType};
/// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
/// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
/// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
/// # let mut instance = Instance::new(&module)?;
/// let hessian = Hessian::new(&module, "square")?;
/// let found = instance.product(&hessian, &[Val::F64(3.0)], &[Some(Val::F64(0.5))], &[Val::F64(1.0)])?;
/// // x², 2x, and 2 times the direction.
/// assert_eq!((found.cotangents[0], found.products[0]), (Some(Val::F64(6.0)), Some(Val::F64(1.0))));
/// # Ok::<(), brolga_wasm::Error>(())
/// ```
#[derive(Clone)]
pub struct Hessian {
    module: Module,
    rule: HessianRule,
    ty: FuncType,
}

/// What [`Instance::product`] has found, beside what lies in memory: the gradient is added to the
/// shadow of memory, the product to its tangent.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// The function's results.
    pub values: Vec<Val>,
    /// One entry for each parameter: its cotangent, if it is active.
    pub cotangents: Vec<Option<Val>>,
    /// The same of the Hessian-vector product.
    pub products: Vec<Option<Val>>,
}

impl Hessian {
    /// Derive the function exported as `name` twice, with respect to all its float parameters and
    /// all of memory.
    ///
    /// # Errors
    /// As [`crate::Gradient::new`].
    pub fn new(module: &Module, name: &str) -> Result<Self, Error> {
        let (_, ty) = module.function(name)?;
        let activity: Vec<_> = ty.params().iter().map(|t| default_activity(*t)).collect();
        Self::with_options(module, name, &activity, &options())
    }

    /// [`Self::new`] with one activity for each parameter (active or constant) and options, whose
    /// mode is not asked. Their [width](Options::width) says along how many directions one call
    /// goes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_options<A: Copy + Into<ArgSpec>>(
        module: &Module,
        name: &str,
        args: &[A],
        options: &Options,
    ) -> Result<Self, Error> {
        let (_, ty) = module.function(name)?;
        // With the function's results.
        let options = Options { mode: Mode::Combined, ..options.clone() };
        let rule = HessianRule::new(module.program(), &module.request(name, args)?, &options)?;
        Ok(Self { module: module.clone(), rule, ty: ty.clone() })
    }

    /// Along how many directions one call goes.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Range, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// assert_eq!(Hessian::new(&module, "square")?.width(), 1);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    pub fn width(&self) -> usize {
        self.rule.rule().width()
    }
}

impl Instance {
    /// Value, gradient and Hessian-vector product along one direction: `directions` has one entry
    /// for each parameter, `None` for zero, and that of memory is its
    /// [tangent](Self::tangents_mut). The gradient is added to the shadow of memory, and the
    /// product to [its tangent](Self::products_mut).
    ///
    /// # Errors
    /// As [`Self::gradient`]; [`Error::NoRoom`] if address space is short.
    pub fn product(
        &mut self,
        hessian: &Hessian,
        args: &[Val],
        directions: &[Option<Val>],
        seeds: &[Val],
    ) -> Result<Product, Error> {
        Ok(self.products(hessian, args, &[directions], seeds)?.remove(0))
    }

    /// The same along as many directions as the second derivative's width says, in one run: values
    /// and gradient are the same in each.
    ///
    /// # Errors
    /// As [`Self::product`].
    pub fn products(
        &mut self,
        hessian: &Hessian,
        args: &[Val],
        directions: &[impl AsRef<[Option<Val>]>],
        seeds: &[Val],
    ) -> Result<Vec<Product>, Error> {
        if !std::sync::Arc::ptr_eq(&hessian.module.0, &self.module.0) {
            return Err(Error::Usage("the second derivative is of another module than the instance".to_owned()));
        }
        check(hessian.ty.results(), seeds, "seed")?;
        let values = self.arguments(&hessian.ty, args)?;
        let width = hessian.width();
        sets(directions, width, hessian.ty.params().len(), "directions")?;
        self.prepare()?;
        let region = self.batch(width)?;
        let memory = ArgDirection::Memory { tangent: region.vmctx() as u64, product: region.shadow() as u64 };
        let value = |d: &Option<Val>| d.map_or(ArgDirection::Still, |d| ArgDirection::Value(d.to_data()));
        let along: Vec<ArgDirection> =
            directions.iter().flat_map(|d| [memory.clone()].into_iter().chain(d.as_ref().iter().map(value))).collect();
        let mut all: Vec<brolga::Arg> = values.into_iter().map(brolga::Arg::new).collect();
        all[0] = self.pointer();
        let seeds: Vec<DataValue> = seeds.iter().map(|s| s.to_data()).collect();
        let mut out = HessianProducts::default();
        // SAFETY: as in `gradient`; the batch's region is laid out like the instance's, as many
        // times as large.
        drop(unsafe { hessian.rule.product(&all, &along, &seeds, &mut out) }.map_err(|e| self.ended(e))?);
        let values = Self::results(&hessian.ty, &out.values);
        let cotangents = Self::cotangents(&hessian.ty, &out.cotangents);
        let one = |products: &[Option<DataValue>]| Product {
            values: values.clone(),
            cotangents: cotangents.clone(),
            products: Self::cotangents(&hessian.ty, products),
        };
        Ok(out.products.chunks_exact(all.len()).map(one).collect())
    }
}
