//! What is asked of a function at a point: the drivers' interface.
//!
//! **Question.** Programs and modules are run in different ways. How do both give gradients,
//! Jacobians and Hessians?
//!
//! **Answer.** [`Derivatives`] asks for a few products: tangents along a direction, products of
//! seeds with the Jacobian, once or for several seeds after one forward pass, Hessian-vector
//! products, and Taylor coefficients. Values with gradients, Jacobians and Hessians, dense and
//! compressed, are made of them here, once for both.
//!
//! **Errors.** [`Error::Usage`] for numbers that do not fit ([`fits`]), and for orders beyond
//! [`MOST_ORDER`] ([`taylor_options`]).
//!
//! **Cost.** A Jacobian takes a run of forward mode for some columns at a time, or one forward pass
//! and a pullback for some rows at a time, whichever is cheaper; a Hessian a product for each
//! input, some at a time. Compressed, a product for each colour, and one to compare.

use super::dense::{Sweep, by_columns, by_rows};
use super::sparse::{self, Pattern, Star};
use crate::Error;
use brolga_ir::{Mode, Options};

/// What a Hessian-vector product gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Products {
    /// The outputs.
    pub value: Vec<f64>,
    /// The gradient of their sum, weighted by the seeds.
    pub gradient: Vec<f64>,
    /// The product of its Hessian with the direction.
    pub product: Vec<f64>,
}

/// The highest order of Taylor coefficients.
pub const MOST_ORDER: usize = 10;

/// Options of a second derivative that returns the primal's results, along so many directions.
pub(super) fn with_values(options: &Options, width: u32) -> Options {
    Options { mode: Mode::Combined, width, ..options.clone() }
}

/// The options of a rule for Taylor coefficients.
///
/// ```
/// # use brolga::{Mode, Options, drivers::{MOST_ORDER, support::taylor_options}};
/// let options = taylor_options(&Options::default(), 3)?;
/// assert_eq!((options.mode, options.width, options.taylor), (Mode::Tangent, 3, true));
/// assert!(taylor_options(&Options::default(), MOST_ORDER + 1).is_err());
/// # Ok::<(), brolga::Error>(())
/// ```
///
/// # Errors
/// [`Error::Usage`] for an order that there is none of.
pub fn taylor_options(options: &Options, order: usize) -> Result<Options, Error> {
    if !(1..=MOST_ORDER).contains(&order) {
        let message = format!("Taylor coefficients of order {order}: an order is one of 1 to {MOST_ORDER}");
        return Err(Error::Usage(message));
    }
    Ok(Options { mode: Mode::Tangent, width: order as u32, taylor: true, ..options.clone() })
}

/// Products of some rows of seeds with a Jacobian.
pub type RowProducts<'r, E> = dyn FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, E> + 'r;

/// A function at a point, with flat inputs and outputs.
///
/// ```
/// use brolga::drivers::sparse::{Entries, Pattern};
/// use brolga::drivers::{Argument, Derivatives, MOST_ORDER, Point, Products, RowProducts};
/// use brolga::{Options, Program};
/// // void f(double *x) { double a = x[0]; x[0] = a * a * a; x[1] = a * x[1]; }
/// let text = "function %f(i64) {
///     block0(v0: i64):
///         v1 = load.f64 v0
///         v2 = load.f64 v0+8
///         v3 = fmul v1, v1
///         v4 = fmul v3, v1
///         store v4, v0
///         v5 = fmul v1, v2
///         store v5, v0+8
///         return
/// }";
/// let mut program = Program::new();
/// let f = program.define("f", cranelift_reader::parse_functions(text)?.remove(0), |_| 0).unwrap();
/// let x = Argument::Floats(vec![2.0, 3.0]);
/// // SAFETY: the function reads and writes two numbers.
/// let mut at = unsafe { Point::new(&program, f, vec![x], &Options::default()) }?.with_outputs(&[0])?;
///
/// // The Jacobian by rows, dense and in a pattern.
/// let rows = |row: &mut RowProducts<'_, brolga::Error>| row(&[vec![1.0, 0.0], vec![0.0, 1.0]]);
/// assert_eq!(at.pulled(rows)?, [[12.0, 0.0], [3.0, 2.0]]);
/// let entries: Entries = at.sparse_jacobian(&Pattern::new(2, [vec![0], vec![0, 1]])?)?;
/// assert_eq!(entries, [vec![12.0], vec![3.0, 2.0]]);
/// // Of x₀³ + 10 x₀ x₁: the gradient, and the Hessian's first column.
/// let found: Products = at.hvp(&[1.0, 10.0], &[1.0, 0.0])?;
/// assert_eq!((found.value, found.gradient, found.product), (vec![8.0, 6.0], vec![42.0, 20.0], vec![12.0, 10.0]));
/// // (2 + t)³ and 3 (2 + t), by powers of t.
/// assert_eq!(at.taylor(&[1.0, 0.0], 3)?, [[8.0, 6.0], [12.0, 3.0], [6.0, 0.0], [1.0, 0.0]]);
/// assert!(at.taylor(&[1.0, 0.0], MOST_ORDER + 1).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Derivatives {
    /// What can go wrong.
    type Error: From<Error>;

    /// How many inputs there are.
    fn inputs(&self) -> usize;

    /// How many outputs there are.
    fn outputs(&self) -> usize;

    /// The outputs, and their tangents along a direction (a Jacobian-vector product), by forward
    /// mode.
    ///
    /// # Errors
    /// If it cannot be derived, or does not run; so below.
    fn jvp(&mut self, along: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Self::Error>;

    /// Tangents of the outputs along each of some directions: in one run for several of
    /// them, where that can be.
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// // Of x y at (3, 5).
    /// assert_eq!(at.jvps(&[vec![1.0, 0.0], vec![0.0, 1.0]])?, [[5.0], [3.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::jvp`].
    fn jvps(&mut self, along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Self::Error> {
        along.iter().map(|along| Ok(self.jvp(along)?.1)).collect()
    }

    /// The outputs, and the product of seeds with the Jacobian (a vector-Jacobian product), by
    /// reverse mode.
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// assert_eq!(at.vjp(&[2.0])?, (vec![15.0], vec![10.0, 6.0])); // of x y at (3, 5)
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::jvp`].
    fn vjp(&mut self, seeds: &[f64]) -> Result<(Vec<f64>, Vec<f64>), Self::Error>;

    /// One forward pass; then `run` may ask for products of any number of seeds with the Jacobian,
    /// some at a time.
    ///
    /// # Errors
    /// As of [`Self::jvp`], and those of `run`.
    fn pulled<R>(
        &mut self,
        run: impl FnOnce(&mut RowProducts<'_, Self::Error>) -> Result<R, Self::Error>,
    ) -> Result<R, Self::Error>;

    /// Value, gradient and Hessian-vector product of the outputs' sum, weighted by seeds, by
    /// forward mode over the gradient.
    ///
    /// # Errors
    /// As of [`Self::jvp`].
    fn hvp(&mut self, seeds: &[f64], along: &[f64]) -> Result<Products, Self::Error>;

    /// Hessian-vector products of the outputs' sum, weighted by seeds, along each of some
    /// directions: in one run for several of them, where that can be.
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// // Of x y.
    /// assert_eq!(at.hvps(&[1.0], &[vec![1.0, 0.0], vec![0.0, 2.0]])?, [[0.0, 1.0], [2.0, 0.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::hvp`].
    fn hvps(&mut self, seeds: &[f64], along: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Self::Error> {
        along.iter().map(|along| Ok(self.hvp(seeds, along)?.product)).collect()
    }

    /// Taylor coefficients of the outputs along a direction `v`: of `f(x + t v)` by `t`, from the
    /// value to the coefficient of `t` to the power of `order`, which is at most [`MOST_ORDER`]. It
    /// takes about `order²` times as long as the function. Derivatives of order k are the
    /// coefficients times `k!`.
    ///
    /// # Errors
    /// As of [`Self::jvp`]; [`Error::Usage`] for another order.
    fn taylor(&mut self, along: &[f64], order: usize) -> Result<Vec<Vec<f64>>, Self::Error>;

    /// Value and gradient of a function of one output.
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// assert_eq!(at.value_and_gradient()?, (15.0, vec![5.0, 3.0])); // of x y at (3, 5)
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::vjp`]; [`Error::Usage`] if there are more outputs.
    fn value_and_gradient(&mut self) -> Result<(f64, Vec<f64>), Self::Error> {
        let n = self.outputs();
        if n != 1 {
            let message = format!("there are {n} outputs, and a gradient is that of one: give seeds to `vjp`");
            return Err(Error::Usage(message).into());
        }
        let (value, gradient) = self.vjp(&[1.0])?;
        Ok((value[0], gradient))
    }

    /// The Jacobian, row by row, in the [cheaper way](Sweep::cheaper).
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// assert_eq!(at.jacobian()?, [[5.0, 3.0]]); // of x y at (3, 5)
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::jacobian_by`].
    fn jacobian(&mut self) -> Result<Vec<Vec<f64>>, Self::Error> {
        self.jacobian_by(Sweep::cheaper(self.inputs(), self.outputs()))
    }

    /// The Jacobian, row by row: a run of forward mode for some columns at a time, or one forward
    /// pass and a pullback for some rows at a time.
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// assert_eq!(at.jacobian_by(Sweep::Forward)?, at.jacobian_by(Sweep::Reverse)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::jvp`] and [`Self::pulled`].
    fn jacobian_by(&mut self, way: Sweep) -> Result<Vec<Vec<f64>>, Self::Error> {
        let (rows, columns) = (self.outputs(), self.inputs());
        match way {
            Sweep::Forward => by_columns(rows, columns, |along| self.jvps(along)),
            Sweep::Reverse => self.pulled(|row| by_rows(rows, row)),
        }
    }

    /// The Jacobian's entries in a [pattern](Pattern), for each row one for each of its columns:
    /// compressed, in the way that takes fewer products.
    ///
    /// # Errors
    /// As of [`Self::jacobian_by`] and [`sparse::jacobian`].
    fn sparse_jacobian(&mut self, pattern: &Pattern) -> Result<sparse::Entries, Self::Error> {
        let (is, want) = ([pattern.rows(), pattern.columns()], [self.outputs(), self.inputs()]);
        if is != want {
            let ([m, n], [rows, columns]) = (is, want);
            let message = format!("the pattern has {m} rows and {n} columns, {rows} and {columns} are wanted");
            return Err(Error::Usage(message).into());
        }
        match sparse::cheaper(pattern) {
            Sweep::Forward => sparse::jacobian(pattern, Sweep::Forward, |along| self.jvps(along)),
            Sweep::Reverse => self.pulled(|row| sparse::jacobian(pattern, Sweep::Reverse, row)),
        }
    }

    /// The Hessian of the outputs' sum, weighted by seeds: one product for each input.
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// assert_eq!(at.hessian(&[1.0])?, [[0.0, 1.0], [1.0, 0.0]]); // of x y
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::hvp`].
    fn hessian(&mut self, seeds: &[f64]) -> Result<Vec<Vec<f64>>, Self::Error> {
        let n = self.inputs();
        by_columns(n, n, |along| self.hvps(seeds, along))
    }

    /// The Hessian's entries in a pattern that is [coloured](Star).
    ///
    /// ```
    /// # use brolga::{Options, drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep}};
    /// # let text = "function %product(f64, f64) -> f64 { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }";
    /// # let mut program = brolga::Program::new();
    /// # let product = program.define("product", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// # let float = |x: f64| Argument::Active(brolga::cranelift_codegen::data_value::DataValue::F64(x.into()));
    /// # // SAFETY: the function accesses no memory.
    /// # let mut at = unsafe { Point::new(&program, product, vec![float(3.0), float(5.0)], &Options::default()) }?;
    /// // Of x y: the diagonal is zero, and belongs to the pattern.
    /// let star = Star::new(&Pattern::new(2, [vec![1], vec![]])?)?;
    /// assert_eq!(at.sparse_hessian(&[1.0], &star)?, [[0.0, 1.0], [1.0, 0.0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Self::hvp`] and [`Star::hessian`].
    fn sparse_hessian(&mut self, seeds: &[f64], star: &Star) -> Result<sparse::Entries, Self::Error> {
        fits(star.colours().len(), self.inputs(), "rows of the pattern", "one per input")?;
        star.hessian(|along| self.hvps(seeds, along))
    }
}

/// Whether there are as many numbers as are wanted.
///
/// ```
/// # use brolga::drivers::support::fits;
/// assert!(fits(2, 2, "seeds", "one per output").is_ok());
/// let message = fits(1, 2, "seeds", "one per output").unwrap_err().to_string();
/// assert_eq!(message, "1 seeds are given, 2 are wanted, one per output");
/// ```
///
/// # Errors
/// [`Error::Usage`] if not.
pub fn fits(is: usize, want: usize, what: &str, each: &str) -> Result<(), Error> {
    if is == want { Ok(()) } else { Err(Error::Usage(format!("{is} {what} are given, {want} are wanted, {each}"))) }
}
