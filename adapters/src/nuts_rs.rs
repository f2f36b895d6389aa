//! Log densities to sample from with `nuts-rs`.

use std::collections::HashMap;
use std::sync::Arc;

use brolga::drivers::FlatFunction;
use nuts_rs::rand::{Rng, RngExt};
use nuts_rs::{CpuLogpFunc, CpuMath, CpuMathError, HasDims, InitPositionError, LogpError, Model};

use crate::Error;

/// A function of n inputs and one output, which is the logarithm of a density but for a constant.
/// Value and gradient (n numbers) come from one call.
///
/// Clones share code, so that each chain has one. It is a [`Model`] as well, which gives one to
/// each chain of a `Sampler`, and lets them begin between -2 and 2.
///
/// ```
/// use brolga_adapters::{FlatParam, function, nuts_rs::LogDensity};
/// use nuts_rs::CpuLogpFunc;
/// let text = "function %normal(f64) -> f64 {
///     block0(v0: f64):
///         v1 = fmul v0, v0
///         v2 = f64const -0x1.0p-1
///         v3 = fmul v1, v2
///         return v3
///     }";
/// // SAFETY: it accesses no memory.
/// let mut density = LogDensity::new(unsafe { function(text, "normal", vec![FlatParam::Input(1)]) }?)?;
/// let mut gradient = [0.0];
/// assert_eq!(density.logp(&[3.0], &mut gradient)?, -4.5);
/// assert_eq!(gradient, [-3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LogDensity(Arc<FlatFunction>);

/// Why there is no density at a point.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DensityError {
    /// It, or its gradient, is infinite or NaN: the sampler goes elsewhere (a divergence).
    #[error("the log density is {value}, or its gradient is not finite")]
    NotFinite {
        /// The logarithm of the density.
        value: f64,
    },
    /// It cannot be derived, or traps: sampling ends.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl LogpError for DensityError {
    fn is_recoverable(&self) -> bool {
        matches!(self, Self::NotFinite { .. })
    }
}

impl LogDensity {
    /// A function of one output.
    ///
    /// # Errors
    /// [`Error::Usage`] if it has more, or none.
    pub fn new(function: impl Into<Arc<FlatFunction>>) -> Result<Self, Error> {
        let function = function.into();
        crate::one_output(&function)?;
        Ok(Self(function))
    }
}

impl HasDims for LogDensity {
    fn dim_sizes(&self) -> HashMap<String, u64> {
        // Names of what is stored: of positions, and of `Vec<f64>`.
        ["unconstrained_parameter", "dim"].map(|name| (name.to_owned(), self.0.inputs() as u64)).into()
    }
}

impl CpuLogpFunc for LogDensity {
    type LogpError = DensityError;
    type FlowParameters = ();
    type ExpandedVector = Vec<f64>;

    fn dim(&self) -> usize {
        self.0.inputs()
    }

    fn logp(&mut self, position: &[f64], gradient: &mut [f64]) -> Result<f64, DensityError> {
        let f = &self.0;
        let value = f.at(&f.split(position)?)?.gradient_into(gradient)?;
        let finite = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        if finite { Ok(value) } else { Err(DensityError::NotFinite { value }) }
    }

    fn expand_vector<R: Rng + ?Sized>(&mut self, _: &mut R, position: &[f64]) -> Result<Vec<f64>, CpuMathError> {
        Ok(position.to_vec())
    }
}

impl Model for LogDensity {
    type Math = CpuMath<Self>;

    fn math<R: Rng + ?Sized>(self: Arc<Self>, _: &mut R) -> anyhow::Result<CpuMath<Self>> {
        Ok(CpuMath::new((*self).clone()))
    }

    fn init_position<R: Rng + ?Sized>(&self, rng: &mut R, _: u64, at: &mut [f64]) -> Result<(), InitPositionError> {
        at.iter_mut().for_each(|x| *x = rng.random_range(-2.0..2.0));
        Ok(())
    }
}
