//! Predators and prey: what is caught until some time, and how that depends on growth, encounters,
//! deaths and the beginning, by forward sensitivities and by the adjoint:
//! `cargo run --example integrate --features diffsol`.

use brolga_adapters::diffsol::Ode;
use brolga_adapters::program;
use diffsol::{
    AdjointOdeSolverMethod, NalgebraLU, NalgebraMat, OdeBuilder, OdeSolverMethod, OdeSolverProblem, OdeSolverState,
    SensitivitiesOdeSolverMethod, Vector,
};

type M = NalgebraMat<f64>;
type Lu = NalgebraLU<f64>;

const P: [f64; 4] = [2.0 / 3.0, 4.0 / 3.0, 1.0, 1.5];
const END: f64 = 8.0;

fn problem(p: [f64; 4], integrate: bool) -> Result<OdeSolverProblem<Ode<M>>, Box<dyn std::error::Error>> {
    let program = program(include_str!("../models/lotka_volterra.clif"))?;
    // SAFETY: there are two states, four parameters, and two outputs.
    let ode = unsafe { Ode::<M>::new(&program, 2, 4, "rhs", "init")?.with_out("out", 2)? };
    let build = OdeBuilder::<M>::new().p(p).rtol(1e-9).atol([1e-9]).integrate_out(integrate);
    let build = build.out_rtol(1e-9).out_atol([1e-9]).sens_rtol(1e-9).sens_atol([1e-9]);
    Ok(build.param_rtol(1e-9).param_atol([1e-9]).build_from_eqn(ode)?)
}

/// Integrals of the outputs until the end.
fn integrals(p: [f64; 4]) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let problem = problem(p, true)?;
    let mut solver = problem.bdf::<Lu>()?;
    solver.solve(END)?;
    Ok(solver.state().g.clone_as_vec())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let differences = |f: &dyn Fn([f64; 4]) -> Result<Vec<f64>, Box<dyn std::error::Error>>, i: usize| {
        let h = 1e-4;
        let at = |d: f64| f(std::array::from_fn(|j| if i == j { P[j] + d } else { P[j] }));
        let (more, less) = (at(h)?, at(-h)?);
        Ok::<Vec<f64>, Box<dyn std::error::Error>>(more.iter().zip(less).map(|(a, b)| (a - b) / (2.0 * h)).collect())
    };

    // Outputs at the end, by forward sensitivities.
    let at_end = |p| {
        let problem = problem(p, false)?;
        let (out, _) = problem.bdf::<Lu>()?.solve_dense(&[END])?;
        Ok(vec![out[(0, 0)], out[(1, 0)]])
    };
    let problem_at_end = problem(P, false)?;
    let (_, sensitivities, _) = problem_at_end.bdf_sens::<Lu>()?.solve_dense_sensitivities(&[END])?;
    for (i, sensitivity) in sensitivities.iter().enumerate() {
        let (found, want) = ([sensitivity[(0, 0)], sensitivity[(1, 0)]], differences(&at_end, i)?);
        println!("at the end, by parameter {i}: {found:.5?}, by differences {want:.5?}");
        assert!(found.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4 * (1.0 + b.abs())));
    }

    // Their integrals, by the adjoint: one solution backwards for both.
    let problem = problem(P, true)?;
    let mut solver = problem.bdf::<Lu>()?;
    let (path, ..) = solver.solve_with_checkpointing(END, None)?;
    let (state, _) =
        problem.bdf_solver_adjoint::<Lu, _>(path, Some(solver), None)?.solve_adjoint_backwards_pass(&[], &[])?;
    let gradients = state.into_common().sg.clone_as_vec();
    for i in 0..4 {
        let (found, want) = ([gradients[i], gradients[4 + i]], differences(&integrals, i)?);
        println!("integrals, by parameter {i}: {found:.5?}, by differences {want:.5?}");
        assert!(found.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4 * (1.0 + b.abs())));
    }
    Ok(())
}
