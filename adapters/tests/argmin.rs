//! `argmin`: Rosenbrock's function, whose gradient and Hessian are known; residuals of a decay.

use argmin::core::{CostFunction, Executor, Gradient, Hessian, Jacobian, Operator, State};
use argmin::solver::gaussnewton::GaussNewton;
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::newton::NewtonCG;
use argmin::solver::quasinewton::LBFGS;
use argmin::solver::trustregion::{Steihaug, TrustRegion};
use argmin_math::ArgminDot;
use brolga_adapters::argmin::{Objective, Residuals};
use brolga_adapters::{Error, FlatParam, Pattern};
use nalgebra::DVector;

use crate::{close, decay, difference, int, model, residuals, trapping};

const N: usize = 20;

fn rosenbrock() -> Objective {
    let text = include_str!("../models/rosenbrock.clif");
    Objective::new(model(text, "rosenbrock", vec![FlatParam::Input(N), int(N)])).unwrap()
}

/// A point of no structure.
fn point() -> Vec<f64> {
    (0..N).map(|i| 2.0 * (i as f64 * 0.618_033_988_749).fract() - 1.0).collect()
}

/// Cost, gradient and Hessian, by formulas.
fn exact(x: &[f64]) -> (f64, Vec<f64>, Vec<Vec<f64>>) {
    let (mut cost, mut gradient, mut hessian) = (0.0, vec![0.0; N], vec![vec![0.0; N]; N]);
    for i in 0..N - 1 {
        let (a, b) = (x[i], x[i + 1] - x[i] * x[i]);
        cost += 100.0 * b * b + (1.0 - a) * (1.0 - a);
        gradient[i] += -400.0 * a * b - 2.0 * (1.0 - a);
        gradient[i + 1] += 200.0 * b;
        hessian[i][i] += 800.0 * a * a - 400.0 * b + 2.0;
        hessian[i + 1][i + 1] += 200.0;
        hessian[i][i + 1] += -400.0 * a;
        hessian[i + 1][i] += -400.0 * a;
    }
    (cost, gradient, hessian)
}

#[test]
fn derivatives_are_those_of_the_formulas() {
    let (f, x) = (rosenbrock(), point());
    let (cost, gradient, hessian) = exact(&x);
    let sparse = f.clone().with_pattern(&Pattern::banded(N, 1, 0)).unwrap();
    for _ in 0..2 {
        close(&[f.cost(&x).unwrap()], &[cost], 1e-14);
        close(&f.gradient(&x).unwrap(), &gradient, 1e-13);
        for found in [f.hessian(&x).unwrap(), sparse.hessian(&x).unwrap()] {
            close(&found.concat(), &hessian.concat(), 1e-13);
        }
    }
    let v: Vec<f64> = point().iter().map(|x| 1.0 - x).collect();
    let free = f.matrix_free();
    let product = hessian.iter().map(|row| row.iter().zip(&v).map(|(a, b)| a * b).sum()).collect::<Vec<f64>>();
    close(&free.hessian(&x).unwrap().dot(&v), &product, 1e-12);
    close(&free.gradient(&x).unwrap(), &gradient, 1e-13);
}

#[test]
fn minima_are_found() {
    let begin: Vec<f64> = (0..N).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
    let ones = [1.0; N];

    let lbfgs = LBFGS::new(MoreThuenteLineSearch::new(), 7).with_tolerance_grad(1e-10).unwrap();
    let run = Executor::new(rosenbrock(), lbfgs).configure(|s| s.param(begin).max_iters(500)).run().unwrap();
    close(run.state().get_best_param().unwrap(), &ones, 1e-8);
    assert!(run.state().get_iter() < 200, "{} iterations", run.state().get_iter());

    // Where the first number is negative, it would find a minimum near -1, 1, 1, ….
    let begin = vec![0.5; N];
    let region = TrustRegion::new(Steihaug::new().with_max_iters(2 * N as u64));
    let f = rosenbrock().with_pattern(&Pattern::banded(N, 1, 1)).unwrap();
    let run = Executor::new(f, region.clone())
        .configure(|s| s.param(begin.clone()).max_iters(500).target_cost(1e-20))
        .run()
        .unwrap();
    close(run.state().get_best_param().unwrap(), &ones, 1e-8);
    let f = rosenbrock().matrix_free();
    let run = Executor::new(f, region).configure(|s| s.param(begin).max_iters(500).target_cost(1e-20)).run().unwrap();
    close(run.state().get_best_param().unwrap(), &ones, 1e-8);
}

/// Rosenbrock's function with derivatives by formulas.
struct Exact;

impl CostFunction for Exact {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Self::Param) -> Result<f64, argmin::core::Error> {
        Ok(exact(x).0)
    }
}

impl Gradient for Exact {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, x: &Self::Param) -> Result<Vec<f64>, argmin::core::Error> {
        Ok(exact(x).1)
    }
}

impl Hessian for Exact {
    type Param = Vec<f64>;
    type Hessian = Vec<Vec<f64>>;

    fn hessian(&self, x: &Self::Param) -> Result<Self::Hessian, argmin::core::Error> {
        Ok(exact(x).2)
    }
}

/// argmin 0.11 compares the square of a residual with a norm, so that below one its conjugate
/// gradients end after a step, and Newton-CG goes down as the gradient does: as slowly by products
/// as by formulas.
#[test]
fn newton_cg_goes_as_by_formulas() {
    let solver: NewtonCG<_, f64> = NewtonCG::new(MoreThuenteLineSearch::new());
    for n in [1, 4, 12] {
        let ours = Executor::new(rosenbrock().matrix_free(), solver.clone())
            .configure(|s| s.param(vec![0.5; N]).max_iters(n))
            .run();
        let ours = ours.unwrap();
        let by_formulas = Executor::new(Exact, solver.clone()).configure(|s| s.param(vec![0.5; N]).max_iters(n)).run();
        let by_formulas = by_formulas.unwrap();
        close(ours.state().get_best_param().unwrap(), by_formulas.state().get_best_param().unwrap(), 1e-7);
        assert!(ours.state().get_best_cost() < exact(&[0.5; N]).0);
    }
}

#[test]
fn residuals_are_fitted_by_gauss_newton() {
    let t: Vec<f64> = (0..25).map(|i| 0.1 * f64::from(i)).collect();
    let wanted = [2.5, 1.3, 0.4];
    let f = Residuals::new(residuals(&t, &decay(wanted, &t)));
    let x = DVector::from_column_slice(&[2.0, 1.0, 0.1]);
    let apply = |x: &[f64]| f.apply(&DVector::from_column_slice(x)).unwrap().as_slice().to_vec();
    let jacobian = f.jacobian(&x).unwrap();
    assert_eq!(jacobian.shape(), (25, 3));
    for j in 0..3 {
        close(jacobian.column(j).as_slice(), &difference(x.as_slice(), j, 1e-6, apply), 1e-8);
    }
    let run = Executor::new(f, GaussNewton::new()).configure(|s| s.param(x).max_iters(30)).run().unwrap();
    close(run.state().get_best_param().unwrap().as_slice(), &wanted, 1e-9);
}

#[test]
fn errors_are_said() {
    let short = rosenbrock().cost(&vec![1.0; 3]).unwrap_err();
    assert!(short.downcast_ref::<Error>().unwrap().to_string().contains("3 floats are given, 20 are wanted"));
    let e = Residuals::new(trapping()).apply(&DVector::from_element(1, 1.0)).unwrap_err();
    assert!(matches!(e.downcast_ref::<Error>(), Some(Error::Trap(_))));
    let trap = Objective::new(trapping()).unwrap();
    assert!(trap.cost(&vec![1.0]).is_err() && trap.gradient(&vec![1.0]).is_err() && trap.hessian(&vec![1.0]).is_err());
    assert!(trap.matrix_free().hessian(&vec![1.0]).is_err());
    let many = Objective::new(residuals(&[1.0, 2.0], &[1.0, 2.0])).map(|_| ());
    assert!(many.unwrap_err().to_string().contains("the function has 2 outputs"));
    let narrow = rosenbrock().with_pattern(&Pattern::banded(N, 0, 0)).unwrap();
    assert!(narrow.hessian(&point()).unwrap_err().to_string().contains("outside of the pattern"));
}
