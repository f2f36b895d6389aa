//! Brolga's derivatives for crates that optimise, fit, sample and integrate.
//!
//! | feature | for | type | of a function |
//! |---|---|---|---|
//! | `argmin` | minimising | [`argmin::Objective`], [`argmin::MatrixFree`] | of one output |
//! | | fitting | [`argmin::Residuals`] | of several outputs |
//! | `levenberg-marquardt` | fitting | [`levenberg_marquardt::Fit`] | of several outputs |
//! | `nuts-rs` | sampling | [`nuts_rs::LogDensity`] | of one output |
//! | `diffsol` | differential equations | [`diffsol::Ode`] | a right-hand side and more |
//!
//! Each stands on a [`FlatFunction`]: a function in CLIF, and what its parameters are. All can be
//! shared by threads, and derive what is asked for when it is asked for first.
//!
//! ```
//! use brolga_adapters::{Derivatives, FlatParam, function};
//! let text = "function %f(i64) -> f64 {
//!     block0(v0: i64):
//!         v1 = load.f64 v0
//!         v2 = load.f64 v0+8
//!         v3 = fmul v1, v2
//!         return v3
//!     }";
//! // SAFETY: it reads two floats behind its pointer.
//! let f = unsafe { function(text, "f", vec![FlatParam::Input(2)]) }?;
//! assert_eq!(f.at(&[&[3.0, 5.0]])?.value_and_gradient()?, (15.0, vec![5.0, 3.0]));
//! # Ok::<(), brolga_adapters::Error>(())
//! ```

pub use brolga;
pub use brolga::Error;
pub use brolga::drivers::{Argument, Derivatives, FlatFunction, FlatParam, Pattern};

#[cfg(feature = "argmin")]
pub mod argmin;
#[cfg(feature = "diffsol")]
pub mod diffsol;
#[cfg(feature = "levenberg-marquardt")]
pub mod levenberg_marquardt;
#[cfg(feature = "nuts-rs")]
pub mod nuts_rs;

use brolga::{FuncKey, Options, Program};

/// All functions of a text.
///
/// # Errors
/// [`Error::Usage`] if it cannot be read, or defines a name twice.
pub fn program(text: &str) -> Result<Program, Error> {
    let functions = cranelift_reader::parse_functions(text).map_err(|e| Error::Usage(e.to_string()))?;
    let mut program = Program::new();
    for function in functions {
        let name = function.name.to_string();
        let name = name.strip_prefix('%').unwrap_or(&name);
        let defined = program.define(name, function, |_| 0);
        defined.map_err(|s| Error::Usage(format!("%{s} is there already, or called with another signature")))?;
    }
    Ok(program)
}

/// A function of a text, with options as they are by default.
///
/// # Errors
/// As of [`program`] and [`FlatFunction::new`]; [`Error::Usage`] if there is none of this name.
///
/// # Safety
/// As of [`FlatFunction::new`].
pub unsafe fn function(text: &str, name: &str, parameters: Vec<FlatParam>) -> Result<FlatFunction, Error> {
    let program = program(text)?;
    let func = named(&program, name)?;
    // SAFETY: our contract.
    unsafe { FlatFunction::new(&program, func, parameters, &Options::default()) }
}

fn named(program: &Program, name: &str) -> Result<FuncKey, Error> {
    program.func(name).ok_or_else(|| Error::Usage(format!("there is no function %{name}")))
}

/// Whether a function has one output, as a value that is minimised or sampled has.
#[cfg(any(feature = "argmin", feature = "nuts-rs"))]
fn one_output(f: &FlatFunction) -> Result<(), Error> {
    let n = f.outputs();
    if n == 1 { Ok(()) } else { Err(Error::Usage(format!("the function has {n} outputs, one is wanted"))) }
}

/// The Jacobian at a point, in the cheaper way, compressed if a pattern is known.
#[cfg(any(feature = "argmin", feature = "levenberg-marquardt"))]
fn jacobian(f: &FlatFunction, inputs: &[f64], pattern: Option<&Pattern>) -> Result<nalgebra::DMatrix<f64>, Error> {
    let given = f.split(inputs)?;
    let mut at = f.at(&given)?;
    let rows = match pattern {
        Some(pattern) => pattern.dense(&at.sparse_jacobian(pattern)?),
        None => at.jacobian()?,
    };
    Ok(nalgebra::DMatrix::from_fn(f.outputs(), f.inputs(), |i, j| rows[i][j]))
}

/// The outputs at a point.
#[cfg(any(feature = "argmin", feature = "levenberg-marquardt"))]
fn outputs(f: &FlatFunction, inputs: &[f64]) -> Result<nalgebra::DVector<f64>, Error> {
    let mut outputs = nalgebra::DVector::zeros(f.outputs());
    f.at(&f.split(inputs)?)?.value_into(outputs.as_mut_slice())?;
    Ok(outputs)
}

/// The program of the README, as a doctest.
#[cfg(all(doctest, feature = "argmin"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
