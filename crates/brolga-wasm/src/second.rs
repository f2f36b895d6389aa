//! Second derivatives of exported functions: products of the Hessian with a direction.
//!
//! Memory takes part four times: as it is, its tangent, its shadow, and the tangent of the shadow.
//! The latter two lie in a region of their own, laid out like the instance and its shadow, which is
//! made when a second derivative is asked for first.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::second::{Along, HessianRule, Second};
use brolga::{ArgSpec, Options};
use wasmparser::FuncType;

use crate::error::Error;
use crate::gradient::{default_activity, options};
use crate::instance::{Instance, check};
use crate::module::Module;
use crate::region::Region;
use crate::val::Val;

/// A compiled second derivative of an exported function. Cheap to clone.
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
    /// mode is not asked.
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
        let rule = HessianRule::new(module.program(), &module.request(name, args)?, options)?;
        Ok(Self { module: module.clone(), rule, ty: ty.clone() })
    }
}

impl Instance {
    /// The region of second derivatives, as open as the instance is.
    fn second(&mut self) -> Result<&mut Region, Error> {
        let mut second = match self.state.second.take() {
            Some(second) => second,
            None => Region::new(&self.module.0.layout)?,
        };
        let opened: Vec<u64> = self.state.region.opened().collect();
        for (memory, bytes) in opened.into_iter().enumerate() {
            second.shrink(memory as u32, bytes)?;
            second.open(memory as u32, bytes)?;
        }
        Ok(self.state.second.insert(second))
    }

    /// Set the tangent of memory, and that of its shadow, to zero.
    pub fn clear_second(&mut self) {
        // A new region has no pages yet.
        self.state.second = None;
    }

    /// The tangent of memory 0: the direction before a [product](Self::product), and the tangent of
    /// what the function has left after it.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if address space is short.
    pub fn tangent_mut(&mut self) -> Result<&mut [u8], Error> {
        let n = self.memory_size() as usize;
        let at = self.second()?.vmctx();
        // SAFETY: as many bytes are accessible as of the primal, and no code runs meanwhile.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, n) })
    }

    /// The tangent of the shadow of memory 0, to which [products](Self::product) are added.
    ///
    /// # Errors
    /// As [`Self::tangent_mut`].
    pub fn product_mut(&mut self) -> Result<&mut [u8], Error> {
        let n = self.memory_size() as usize;
        let at = self.second()?.shadow();
        // SAFETY: as in `tangent_mut`.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, n) })
    }

    /// Value, gradient and Hessian-vector product along one direction: `directions` has one entry
    /// for each parameter, `None` for zero, and that of memory is its
    /// [tangent](Self::tangent_mut). The gradient is added to the shadow of memory, and the product
    /// to [its tangent](Self::product_mut).
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
        if !std::sync::Arc::ptr_eq(&hessian.module.0, &self.module.0) {
            return Err(Error::Usage("the second derivative is of another module than the instance".to_owned()));
        }
        check(hessian.ty.results(), seeds, "seed")?;
        let values = self.arguments(&hessian.ty, args)?;
        self.prepare()?;
        let second = self.second()?;
        let memory = Along::Memory { tangent: second.vmctx() as u64, product: second.shadow() as u64 };
        let written = directions.iter().map(|d| d.map_or(Along::Still, |d| Along::Value(d.to_data())));
        let along: Vec<Along> = std::iter::once(memory).chain(written).collect();
        let mut all: Vec<brolga::Arg> = values.into_iter().map(brolga::Arg::new).collect();
        all[0] = self.pointer();
        let seeds: Vec<DataValue> = seeds.iter().map(|s| s.to_data()).collect();
        let mut out = Second::default();
        // SAFETY: as in `gradient`; the second region is laid out like the first.
        drop(unsafe { hessian.rule.product(&all, &along, &seeds, &mut out) }.map_err(|e| self.ended(e))?);
        Ok(Product {
            values: Self::results(&hessian.ty, &out.values),
            cotangents: Self::cotangents(&hessian.ty, &out.cotangents),
            products: Self::cotangents(&hessian.ty, &out.products),
        })
    }
}
