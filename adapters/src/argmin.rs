//! Functions to minimise with `argmin`: cost, gradient, Hessian; residuals and their Jacobian.
//!
//! Parameters are flat vectors, as long as the function has inputs. What goes wrong is an error of
//! `argmin`'s that holds a [`brolga::Error`](crate::Error) (`downcast_ref` finds it). Values that
//! are not finite are none: they are handed on.

use std::sync::Arc;

use argmin::core::{CostFunction, Error, Gradient, Hessian, Jacobian, Operator};
use argmin_math::ArgminDot;
use brolga::drivers::{Derivatives, FlatFunction, Pattern, Star};
use nalgebra::{DMatrix, DVector};

/// A function of n inputs and one output: its cost, its gradient (n numbers), its Hessian (n rows
/// of n).
///
/// ```
/// use argmin::core::{CostFunction, Gradient, Hessian};
/// use brolga_adapters::{FlatParam, argmin::Objective, function};
/// let text = "function %f(i64) -> f64 {
///     block0(v0: i64):
///         v1 = load.f64 v0
///         v2 = load.f64 v0+8
///         v3 = fmul v1, v1
///         v4 = fmul v3, v2
///         return v4
///     }";
/// // SAFETY: it reads two floats behind its pointer.
/// let f = Objective::new(unsafe { function(text, "f", vec![FlatParam::Input(2)]) }?)?;
/// let x = vec![3.0, 5.0]; // x₀² x₁
/// assert_eq!(f.cost(&x)?, 45.0);
/// assert_eq!(f.gradient(&x)?, [30.0, 9.0]);
/// assert_eq!(f.hessian(&x)?, [[10.0, 6.0], [6.0, 0.0]]);
/// # Ok::<(), argmin::core::Error>(())
/// ```
#[derive(Clone)]
pub struct Objective {
    function: Arc<FlatFunction>,
    star: Option<Star>,
}

impl Objective {
    /// A function of one output.
    ///
    /// # Errors
    /// [`brolga::Error::Usage`] if it has more, or none.
    pub fn new(function: impl Into<Arc<FlatFunction>>) -> Result<Self, crate::Error> {
        let function = function.into();
        crate::one_output(&function)?;
        Ok(Self { function, star: None })
    }

    /// The same, with a pattern of its Hessian, which then takes a product for each colour.
    ///
    /// # Errors
    /// [`brolga::Error::Usage`] if the pattern is not square. One that lacks an entry is an error
    /// of [`Hessian::hessian`].
    pub fn with_pattern(self, pattern: &Pattern) -> Result<Self, crate::Error> {
        Ok(Self { star: Some(Star::new(pattern)?), ..self })
    }

    /// The same, for solvers that only multiply by the Hessian.
    pub fn matrix_free(self) -> MatrixFree {
        MatrixFree(self)
    }
}

impl CostFunction for Objective {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, Error> {
        let f = &self.function;
        Ok(f.at(&f.split(x)?)?.value()?)
    }
}

impl Gradient for Objective {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, x: &Vec<f64>) -> Result<Vec<f64>, Error> {
        let f = &self.function;
        let mut gradient = vec![0.0; f.inputs()];
        f.at(&f.split(x)?)?.gradient_into(&mut gradient)?;
        Ok(gradient)
    }
}

impl Hessian for Objective {
    type Param = Vec<f64>;
    type Hessian = Vec<Vec<f64>>;

    fn hessian(&self, x: &Vec<f64>) -> Result<Vec<Vec<f64>>, Error> {
        let f = &self.function;
        let given = f.split(x)?;
        let mut at = f.at(&given)?;
        Ok(match &self.star {
            Some(star) => star.pattern().dense(&at.sparse_hessian(&[1.0], star)?),
            None => at.hessian(&[1.0])?,
        })
    }
}

/// An [`Objective`] whose Hessian is a [`HessianAt`]: one Hessian-vector product for each
/// multiplication, and no matrix. For trust regions by Steihaug's method.
///
/// ```
/// use argmin::core::Hessian;
/// use argmin_math::ArgminDot;
/// use brolga_adapters::{FlatParam, argmin::Objective, function};
/// # let text = "function %f(i64) -> f64 {
/// #     block0(v0: i64):
/// #         v1 = load.f64 v0
/// #         v2 = load.f64 v0+8
/// #         v3 = fmul v1, v1
/// #         v4 = fmul v3, v2
/// #         return v4
/// #     }";
/// // SAFETY: it reads two floats behind its pointer.
/// let f = Objective::new(unsafe { function(text, "f", vec![FlatParam::Input(2)]) }?)?.matrix_free();
/// let hessian = f.hessian(&vec![3.0, 5.0])?; // of x₀² x₁
/// assert_eq!(hessian.dot(&vec![1.0, 10.0]), [70.0, 6.0]);
/// # Ok::<(), argmin::core::Error>(())
/// ```
#[derive(Clone)]
pub struct MatrixFree(Objective);

impl CostFunction for MatrixFree {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, Error> {
        self.0.cost(x)
    }
}

impl Gradient for MatrixFree {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, x: &Vec<f64>) -> Result<Vec<f64>, Error> {
        self.0.gradient(x)
    }
}

impl Hessian for MatrixFree {
    type Param = Vec<f64>;
    type Hessian = HessianAt;

    /// An error of the second derivative is found here: one product is asked for.
    fn hessian(&self, x: &Vec<f64>) -> Result<HessianAt, Error> {
        let hessian = HessianAt { function: self.0.function.clone(), x: x.clone() };
        hessian.product(&vec![0.0; x.len()])?;
        Ok(hessian)
    }
}

/// The Hessian of a function at a point, as what it does to a vector.
#[derive(Clone)]
pub struct HessianAt {
    function: Arc<FlatFunction>,
    x: Vec<f64>,
}

impl HessianAt {
    /// The product with a vector of n numbers.
    ///
    /// # Errors
    /// [`brolga::Error`] if the function cannot be derived twice, or traps.
    pub fn product(&self, along: &[f64]) -> Result<Vec<f64>, crate::Error> {
        let f = &self.function;
        Ok(f.at(&f.split(&self.x)?)?.hvp(&[1.0], along)?.product)
    }
}

impl ArgminDot<Vec<f64>, Vec<f64>> for HessianAt {
    /// NaN if there is an error, of which this trait cannot tell.
    fn dot(&self, along: &Vec<f64>) -> Vec<f64> {
        self.product(along).unwrap_or_else(|_| vec![f64::NAN; along.len()])
    }
}

/// A function of n inputs and m outputs, such as what is left of measurements: the outputs, and
/// their Jacobian of m rows and n columns, in the cheaper mode. For Gauss-Newton.
///
/// ```
/// use argmin::core::{Jacobian, Operator};
/// use brolga_adapters::{FlatParam, argmin::Residuals, function};
/// use nalgebra::{dmatrix, dvector};
/// let text = "function %f(i64, i64) {
///     block0(v0: i64, v1: i64):
///         v2 = load.f64 v0
///         v3 = load.f64 v0+8
///         v4 = fmul v2, v3
///         v5 = fsub v2, v3
///         store v4, v1
///         store v5, v1+8
///         return
///     }";
/// // SAFETY: it reads two floats, and writes two.
/// let f = unsafe { function(text, "f", vec![FlatParam::Input(2), FlatParam::Output(2)]) }?;
/// let f = Residuals::new(f);
/// let x = dvector![3.0, 5.0]; // x₀ x₁, x₀ - x₁
/// assert_eq!(f.apply(&x)?, dvector![15.0, -2.0]);
/// assert_eq!(f.jacobian(&x)?, dmatrix![5.0, 3.0; 1.0, -1.0]);
/// # Ok::<(), argmin::core::Error>(())
/// ```
#[derive(Clone)]
pub struct Residuals {
    function: Arc<FlatFunction>,
    pattern: Option<Pattern>,
}

impl Residuals {
    /// A function of any number of outputs.
    pub fn new(function: impl Into<Arc<FlatFunction>>) -> Self {
        Self { function: function.into(), pattern: None }
    }

    /// The same, with a pattern of its Jacobian, which then takes a product for each colour. One
    /// that lacks an entry, or does not fit, is an error of [`Jacobian::jacobian`].
    #[must_use]
    pub fn with_pattern(self, pattern: Pattern) -> Self {
        Self { pattern: Some(pattern), ..self }
    }
}

impl Operator for Residuals {
    type Param = DVector<f64>;
    type Output = DVector<f64>;

    fn apply(&self, x: &DVector<f64>) -> Result<DVector<f64>, Error> {
        Ok(crate::outputs(&self.function, x.as_slice())?)
    }
}

impl Jacobian for Residuals {
    type Param = DVector<f64>;
    type Jacobian = DMatrix<f64>;

    fn jacobian(&self, x: &DVector<f64>) -> Result<DMatrix<f64>, Error> {
        Ok(crate::jacobian(&self.function, x.as_slice(), self.pattern.as_ref())?)
    }
}
