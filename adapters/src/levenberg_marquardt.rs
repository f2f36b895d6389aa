//! Least squares with `levenberg-marquardt`: residuals and their Jacobian.

use std::sync::{Arc, Mutex, PoisonError};

use brolga::drivers::{FlatFunction, Pattern};
use levenberg_marquardt::LeastSquaresProblem;
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

use crate::Error;

/// A function of n inputs, which are fitted, and m outputs, whose squares are to be small: m
/// residuals, and a Jacobian of m rows and n columns, by forward mode where n < m and by reverse
/// mode elsewhere.
///
/// What goes wrong ends the fit (`TerminationReason::User`), and is kept for [`Self::failure`].
/// Residuals that are not finite are handed on, and end it, too (`TerminationReason::Numerical`).
///
/// ```
/// use brolga_adapters::{FlatParam, function, levenberg_marquardt::Fit};
/// use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
/// // Rosenbrock's function, as squares of 10 (x₁ - x₀²) and 1 - x₀
/// let text = "function %f(i64, i64) {
///     block0(v0: i64, v1: i64):
///         v2 = load.f64 v0
///         v3 = load.f64 v0+8
///         v4 = fmul v2, v2
///         v5 = fsub v3, v4
///         v6 = f64const 0x1.4p3
///         v7 = fmul v6, v5
///         v8 = f64const 0x1.0
///         v9 = fsub v8, v2
///         store v7, v1
///         store v9, v1+8
///         return
///     }";
/// // SAFETY: it reads two floats, and writes two.
/// let f = unsafe { function(text, "f", vec![FlatParam::Input(2), FlatParam::Output(2)]) }?;
/// let (fit, report) = LevenbergMarquardt::new().minimize(Fit::new(f, &[-1.2, 1.0])?);
/// assert!(report.termination.was_successful());
/// assert!((fit.params() - nalgebra::dvector![1.0, 1.0]).norm() < 1e-10);
/// # Ok::<(), brolga_adapters::Error>(())
/// ```
pub struct Fit {
    function: Arc<FlatFunction>,
    pattern: Option<Pattern>,
    x: DVector<f64>,
    failure: Mutex<Option<Error>>,
}

impl Fit {
    /// A function, and where the fit begins.
    ///
    /// # Errors
    /// [`Error::Usage`] for more or fewer numbers than there are inputs.
    pub fn new(function: impl Into<Arc<FlatFunction>>, begin: &[f64]) -> Result<Self, Error> {
        let function = function.into();
        function.split(begin)?;
        Ok(Self { function, pattern: None, x: DVector::from_column_slice(begin), failure: Mutex::default() })
    }

    /// The same, with a pattern of its Jacobian, which then takes a product for each colour. One
    /// that lacks an entry, or does not fit, ends the fit.
    #[must_use]
    pub fn with_pattern(self, pattern: Pattern) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    /// What has ended the fit, if that was an error of the function's.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn kept<R>(&self, found: Result<R, Error>) -> Option<R> {
        let failure = |e| *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
        found.map_err(failure).ok()
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Fit {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        self.x.copy_from(x);
    }

    fn params(&self) -> DVector<f64> {
        self.x.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        self.kept(crate::outputs(&self.function, self.x.as_slice()))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        self.kept(crate::jacobian(&self.function, self.x.as_slice(), self.pattern.as_ref()))
    }
}
