//! Rosenbrock's function of 20 numbers, minimised by L-BFGS with gradients, and by a trust region
//! with a compressed Hessian, and with Hessian-vector products:
//! `cargo run --example minimise --features argmin`.

use argmin::core::{Executor, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use argmin::solver::trustregion::{Steihaug, TrustRegion};
use brolga::cranelift_codegen::data_value::DataValue;
use brolga_adapters::argmin::Objective;
use brolga_adapters::{Argument, FlatParam, Pattern, brolga, function};

const N: usize = 20;

fn main() -> Result<(), argmin::core::Error> {
    let length = FlatParam::Fixed(Argument::Const(DataValue::I64(N as i64)));
    let text = include_str!("../models/rosenbrock.clif");
    // SAFETY: it reads as many floats as its second parameter says.
    let f = Objective::new(unsafe { function(text, "rosenbrock", vec![FlatParam::Input(N), length]) }?)?;
    let begin: Vec<f64> = (0..N).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();

    let lbfgs = LBFGS::new(MoreThuenteLineSearch::new(), 7).with_tolerance_grad(1e-9)?;
    let run = Executor::new(f.clone(), lbfgs).configure(|s| s.param(begin).max_iters(500)).run()?;
    tell("L-BFGS", run.state());

    // Each row of the Hessian has three entries, so that it takes four products.
    let sparse = f.clone().with_pattern(&Pattern::banded(N, 1, 1))?;
    // Where the first number is negative, it would find a minimum near -1, 1, 1, ….
    let begin = vec![0.5; N];
    let region = TrustRegion::new(Steihaug::new().with_max_iters(2 * N as u64));
    let limit = 500;
    let run = Executor::new(sparse, region.clone())
        .configure(|s| s.param(begin.clone()).max_iters(limit).target_cost(1e-20))
        .run()?;
    tell("trust region, sparse Hessian", run.state());

    let run = Executor::new(f.matrix_free(), region)
        .configure(|s| s.param(begin).max_iters(limit).target_cost(1e-20))
        .run()?;
    tell("trust region, no matrix", run.state());
    Ok(())
}

/// How far it went. The minimum is 0, where all numbers are 1.
fn tell<S: State<Param = Vec<f64>, Float = f64>>(name: &str, state: &S) {
    let best = state.get_best_param().expect("there is one");
    let away = best.iter().map(|x| (x - 1.0).abs()).fold(0.0, f64::max);
    println!("{name}: {} iterations, cost {:.1e}, {away:.1e} away", state.get_iter(), state.get_best_cost());
    assert!(away < 1e-6, "{name}: {best:?}");
}
