//! Ordinary differential equations for `diffsol`: `mass · dx/dt = rhs(t, x, p)`, `x(0) = init(p)`.
//!
//! An [`Ode`] is made of functions of one program, by their names. They take the time, the state,
//! the parameters and a place for what they compute, which is zeros before:
//!
//! | of | signature | writes |
//! |---|---|---|
//! | right-hand side | `void f(double t, const double *x, const double *p, double *out)` | a number per state |
//! | beginning | `void f(double t, const double *p, double *out)` | a number per state |
//! | outputs, roots | as the right-hand side | as many as is said |
//! | reset | as the right-hand side | a number per state |
//! | mass | the same, linear in `x`; it reads no parameter | a number per state |
//!
//! Each is an operator with all derivatives that `diffsol` asks for: products with the Jacobians by
//! state and by parameters (forward mode), and with minus their transposes (reverse mode). So one
//! `Ode` is solved alone, with forward sensitivities, and with the adjoint. Derivatives by time,
//! which roots and resets need, are differences of `diffsol`'s.
//!
//! An operator cannot tell of an error. Where there is one, it gives NaN, which the solver stops
//! at, and [`Ode::failure`] says what it was.

use std::sync::{Mutex, PoisonError};

use brolga::drivers::{FlatFunction, FlatParam};
use brolga::{Options, Program};
use diffsol::{
    ConstantOp, ConstantOpSens, ConstantOpSensAdjoint, DenseMatrix, LinearOp, LinearOpTranspose, NonLinearOp,
    NonLinearOpAdjoint, NonLinearOpJacobian, NonLinearOpSens, NonLinearOpSensAdjoint, OdeEquations, OdeEquationsRef,
    Op, Vector,
};

use crate::Error;

/// Equations of a program, for dense matrices.
///
/// ```
/// use brolga_adapters::{diffsol::Ode, program};
/// use diffsol::{NalgebraLU, NalgebraMat, OdeBuilder, OdeSolverMethod};
/// // dx/dt = -k x, x = 1 at first
/// let program = program("
///     function %rhs(f64, i64, i64, i64) {
///     block0(v0: f64, v1: i64, v2: i64, v3: i64):
///         v4 = load.f64 v1
///         v5 = load.f64 v2
///         v6 = fmul v4, v5
///         v7 = fneg v6
///         store v7, v3
///         return
///     }
///     function %init(f64, i64, i64) {
///     block0(v0: f64, v1: i64, v2: i64):
///         v3 = f64const 0x1.0
///         store v3, v2
///         return
///     }")?;
/// // SAFETY: the functions have one state and one parameter.
/// let decay = unsafe { Ode::<NalgebraMat<f64>>::new(&program, 1, 1, "rhs", "init") }?;
/// let problem = OdeBuilder::<NalgebraMat<f64>>::new().rtol(1e-8).p([0.5]).build_from_eqn(decay)?;
/// let (x, _) = problem.bdf::<NalgebraLU<f64>>()?.solve_dense(&[1.0, 2.0])?;
/// assert!((x[(0, 1)] - f64::exp(-1.0)).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ode<M: DenseMatrix<T = f64>> {
    program: Program,
    states: usize,
    rhs: Equation,
    init: Equation,
    mass: Option<Equation>,
    out: Option<Equation>,
    root: Option<Equation>,
    reset: Option<Equation>,
    parameters: M::V,
    context: M::C,
    failure: Mutex<Option<Error>>,
}

/// A function, derived by its state and by its parameters.
struct Equation {
    by_state: Option<FlatFunction>,
    by_parameters: FlatFunction,
}

impl Equation {
    /// # Safety
    /// As of [`FlatFunction::new`].
    unsafe fn new(
        program: &Program,
        name: &str,
        states: Option<usize>,
        parameters: usize,
        outputs: usize,
    ) -> Result<Self, Error> {
        let func = crate::named(program, name)?;
        let of = |state: fn(usize) -> FlatParam, p: FlatParam| {
            let state = states.map(state);
            let all = [Some(FlatParam::Given(1)), state, Some(p), Some(FlatParam::Output(outputs))];
            // SAFETY: our contract.
            unsafe { FlatFunction::new(program, func, all.into_iter().flatten().collect(), &Options::default()) }
        };
        let by_parameters = of(FlatParam::Given, FlatParam::Input(parameters))?;
        let by_state = states.map(|_| of(FlatParam::Input, FlatParam::Given(parameters))).transpose()?;
        Ok(Self { by_state, by_parameters })
    }

    fn by_state(&self) -> &FlatFunction {
        self.by_state.as_ref().expect("only the beginning has no state, and it is never asked for")
    }
}

impl<M: DenseMatrix<T = f64>> Ode<M> {
    /// Equations of this many states and parameters: names of the right-hand side and of the
    /// beginning.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no function of a name, or if it has another signature.
    ///
    /// # Safety
    /// The functions read and write as many numbers as is said, and write to their last parameter
    /// alone. So for what is added below.
    pub unsafe fn new(
        program: &Program,
        states: usize,
        parameters: usize,
        rhs: &str,
        init: &str,
    ) -> Result<Self, Error> {
        let context = M::C::default();
        Ok(Self {
            program: program.clone(),
            states,
            // SAFETY: our contract.
            rhs: unsafe { Equation::new(program, rhs, Some(states), parameters, states) }?,
            // SAFETY: our contract.
            init: unsafe { Equation::new(program, init, None, parameters, states) }?,
            mass: None,
            out: None,
            root: None,
            reset: None,
            parameters: M::V::zeros(parameters, context.clone()),
            context,
            failure: Mutex::default(),
        })
    }

    /// # Safety
    /// As of [`Self::new`].
    unsafe fn equation(&self, name: &str, outputs: usize) -> Result<Option<Equation>, Error> {
        // SAFETY: our contract.
        unsafe { Equation::new(&self.program, name, Some(self.states), self.parameters.len(), outputs) }.map(Some)
    }

    /// With outputs: this many numbers.
    ///
    /// # Errors
    /// As of [`Self::new`], and so below.
    ///
    /// # Safety
    /// As of [`Self::new`], and so below.
    pub unsafe fn with_out(mut self, name: &str, outputs: usize) -> Result<Self, Error> {
        // SAFETY: our contract.
        self.out = unsafe { self.equation(name, outputs) }?;
        Ok(self)
    }

    /// With numbers whose zeros are events.
    ///
    /// # Errors
    /// As of [`Self::with_out`].
    ///
    /// # Safety
    /// As of [`Self::with_out`].
    pub unsafe fn with_root(mut self, name: &str, roots: usize) -> Result<Self, Error> {
        // SAFETY: our contract.
        self.root = unsafe { self.equation(name, roots) }?;
        Ok(self)
    }

    /// With what the state becomes at the first root.
    ///
    /// # Errors
    /// As of [`Self::with_out`].
    ///
    /// # Safety
    /// As of [`Self::with_out`].
    pub unsafe fn with_reset(mut self, name: &str) -> Result<Self, Error> {
        // SAFETY: our contract.
        self.reset = unsafe { self.equation(name, self.states) }?;
        Ok(self)
    }

    /// With a matrix before the derivative by time, as its product with a vector.
    ///
    /// # Errors
    /// As of [`Self::with_out`].
    ///
    /// # Safety
    /// As of [`Self::with_out`].
    pub unsafe fn with_mass(mut self, name: &str) -> Result<Self, Error> {
        // SAFETY: our contract.
        self.mass = unsafe { self.equation(name, self.states) }?;
        Ok(self)
    }

    /// What has gone wrong first in an operator, if anything has.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn operator<'a>(&'a self, equation: &'a Equation) -> Operator<'a, M> {
        Operator { ode: self, equation }
    }
}

/// One of the functions of an [`Ode`], with its parameters.
pub struct Operator<'a, M: DenseMatrix<T = f64>> {
    ode: &'a Ode<M>,
    equation: &'a Equation,
}

/// The function that a solution begins with, likewise.
pub struct Beginning<'a, M: DenseMatrix<T = f64>>(Operator<'a, M>);

/// The mass matrix, likewise.
pub struct Mass<'a, M: DenseMatrix<T = f64>>(Operator<'a, M>);

impl<M: DenseMatrix<T = f64>> Operator<'_, M> {
    /// Put NaN where an error has left no numbers, and keep it.
    fn kept(&self, done: Result<(), Error>, y: &mut [f64]) {
        if let Err(e) = done {
            y.fill(f64::NAN);
            self.ode.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        }
    }

    fn value(&self, given: &[&[f64]], y: &mut [f64]) {
        let f = &self.equation.by_parameters;
        self.kept(f.at(given).and_then(|at| at.value_into(y)), y);
    }

    /// A Jacobian times `v`.
    fn forward(&self, f: &FlatFunction, given: &[&[f64]], v: &[f64], y: &mut [f64]) {
        let mut outputs = vec![0.0; f.outputs()];
        self.kept(f.at(given).and_then(|at| at.jvp_into(v, &mut outputs, y)), y);
    }

    /// A transposed Jacobian times `v`.
    fn transposed(&self, f: &FlatFunction, given: &[&[f64]], v: &[f64], y: &mut [f64]) {
        let mut outputs = vec![0.0; f.outputs()];
        self.kept(f.at(given).and_then(|at| at.vjp_into(v, &mut outputs, y)), y);
    }

    /// Minus that, which is what adjoint equations have.
    fn reverse(&self, f: &FlatFunction, given: &[&[f64]], v: &[f64], y: &mut [f64]) {
        self.transposed(f, given, v, y);
        y.iter_mut().for_each(|y| *y = -*y);
    }
}

/// What an operator says of itself; those of a tuple say what the one within says.
macro_rules! op {
    ($name:ident, $self:ident, $operator:expr) => {
        impl<M: DenseMatrix<T = f64>> Op for $name<'_, M> {
            type T = f64;
            type V = M::V;
            type M = M;
            type C = M::C;

            fn context(&$self) -> &M::C {
                &$operator.ode.context
            }

            fn nstates(&$self) -> usize {
                $operator.ode.states
            }

            fn nout(&$self) -> usize {
                $operator.equation.by_parameters.outputs()
            }

            fn nparams(&$self) -> usize {
                $operator.ode.parameters.len()
            }
        }
    };
}

op!(Operator, self, self);
op!(Beginning, self, self.0);
op!(Mass, self, self.0);

impl<M: DenseMatrix<T = f64>> NonLinearOp for Operator<'_, M> {
    fn call_inplace(&self, x: &M::V, t: f64, y: &mut M::V) {
        y.for_each_batch_host([x, &self.ode.parameters], |y, [x, p], _| self.value(&[&[t], x, p], y));
    }
}

impl<M: DenseMatrix<T = f64>> NonLinearOpJacobian for Operator<'_, M> {
    fn jac_mul_inplace(&self, x: &M::V, t: f64, v: &M::V, y: &mut M::V) {
        let f = self.equation.by_state();
        y.for_each_batch_host([x, &self.ode.parameters, v], |y, [x, p, v], _| self.forward(f, &[&[t], x, p], v, y));
    }
}

impl<M: DenseMatrix<T = f64>> NonLinearOpAdjoint for Operator<'_, M> {
    fn jac_transpose_mul_inplace(&self, x: &M::V, t: f64, v: &M::V, y: &mut M::V) {
        let f = self.equation.by_state();
        y.for_each_batch_host([x, &self.ode.parameters, v], |y, [x, p, v], _| self.reverse(f, &[&[t], x, p], v, y));
    }
}

impl<M: DenseMatrix<T = f64>> NonLinearOpSens for Operator<'_, M> {
    fn sens_mul_inplace(&self, x: &M::V, t: f64, v: &M::V, y: &mut M::V) {
        let f = &self.equation.by_parameters;
        y.for_each_batch_host([x, &self.ode.parameters, v], |y, [x, p, v], _| self.forward(f, &[&[t], x, p], v, y));
    }
}

impl<M: DenseMatrix<T = f64>> NonLinearOpSensAdjoint for Operator<'_, M> {
    fn sens_transpose_mul_inplace(&self, x: &M::V, t: f64, v: &M::V, y: &mut M::V) {
        let f = &self.equation.by_parameters;
        y.for_each_batch_host([x, &self.ode.parameters, v], |y, [x, p, v], _| self.reverse(f, &[&[t], x, p], v, y));
    }
}

impl<M: DenseMatrix<T = f64>> ConstantOp for Beginning<'_, M> {
    fn call_inplace(&self, t: f64, y: &mut M::V) {
        y.for_each_batch_host([&self.0.ode.parameters], |y, [p], _| self.0.value(&[&[t], p], y));
    }
}

impl<M: DenseMatrix<T = f64>> ConstantOpSens for Beginning<'_, M> {
    fn sens_mul_inplace(&self, t: f64, v: &M::V, y: &mut M::V) {
        let f = &self.0.equation.by_parameters;
        y.for_each_batch_host([&self.0.ode.parameters, v], |y, [p, v], _| self.0.forward(f, &[&[t], p], v, y));
    }
}

impl<M: DenseMatrix<T = f64>> ConstantOpSensAdjoint for Beginning<'_, M> {
    fn sens_transpose_mul_inplace(&self, t: f64, v: &M::V, y: &mut M::V) {
        let f = &self.0.equation.by_parameters;
        y.for_each_batch_host([&self.0.ode.parameters, v], |y, [p, v], _| self.0.reverse(f, &[&[t], p], v, y));
    }
}

/// `product + beta y`, and the product alone where beta is zero, whatever y is.
fn add(product: &[f64], beta: f64, y: &mut [f64]) {
    let sum = |(product, y): (&f64, &f64)| if beta == 0.0 { *product } else { product + beta * y };
    let sums: Vec<f64> = product.iter().zip(&*y).map(sum).collect();
    y.copy_from_slice(&sums);
}

impl<M: DenseMatrix<T = f64>> LinearOp for Mass<'_, M> {
    fn gemv_inplace(&self, x: &M::V, t: f64, beta: f64, y: &mut M::V) {
        let mut product = vec![0.0; self.nout()];
        y.for_each_batch_host([x, &self.0.ode.parameters], |y, [x, p], _| {
            self.0.value(&[&[t], x, p], &mut product);
            add(&product, beta, y);
        });
    }
}

impl<M: DenseMatrix<T = f64>> LinearOpTranspose for Mass<'_, M> {
    fn gemv_transpose_inplace(&self, x: &M::V, t: f64, beta: f64, y: &mut M::V) {
        let (f, mut product) = (self.0.equation.by_state(), vec![0.0; self.nstates()]);
        let anywhere = vec![0.0; self.nstates()];
        y.for_each_batch_host([x, &self.0.ode.parameters], |y, [x, p], _| {
            self.0.transposed(f, &[&[t], &anywhere, p], x, &mut product);
            add(&product, beta, y);
        });
    }
}

impl<M: DenseMatrix<T = f64>> Op for Ode<M> {
    type T = f64;
    type V = M::V;
    type M = M;
    type C = M::C;

    fn context(&self) -> &M::C {
        &self.context
    }

    fn nstates(&self) -> usize {
        self.states
    }

    fn nout(&self) -> usize {
        self.out.as_ref().map_or(self.states, |out| out.by_parameters.outputs())
    }

    fn nparams(&self) -> usize {
        self.parameters.len()
    }
}

impl<'a, M: DenseMatrix<T = f64>> OdeEquationsRef<'a> for Ode<M> {
    type Mass = Mass<'a, M>;
    type Rhs = Operator<'a, M>;
    type Root = Operator<'a, M>;
    type Init = Beginning<'a, M>;
    type Out = Operator<'a, M>;
    type Reset = Operator<'a, M>;
}

impl<M: DenseMatrix<T = f64>> OdeEquations for Ode<M> {
    fn rhs(&self) -> Operator<'_, M> {
        self.operator(&self.rhs)
    }

    fn mass(&self) -> Option<Mass<'_, M>> {
        self.mass.as_ref().map(|f| Mass(self.operator(f)))
    }

    fn root(&self) -> Option<Operator<'_, M>> {
        self.root.as_ref().map(|f| self.operator(f))
    }

    fn out(&self) -> Option<Operator<'_, M>> {
        self.out.as_ref().map(|f| self.operator(f))
    }

    fn reset(&self) -> Option<Operator<'_, M>> {
        self.reset.as_ref().map(|f| self.operator(f))
    }

    fn init(&self) -> Beginning<'_, M> {
        Beginning(self.operator(&self.init))
    }

    fn set_params(&mut self, p: &M::V) {
        self.parameters.copy_from(p);
    }

    fn get_params(&self, p: &mut M::V) {
        p.copy_from(&self.parameters);
    }
}
