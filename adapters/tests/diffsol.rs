//! `diffsol`: operators and their products against differences and each other; a system of
//! predators and prey with forward sensitivities and the adjoint; a mass matrix; an event; errors.

use brolga_adapters::diffsol::Ode;
use brolga_adapters::{Error, program};
use diffsol::{
    AdjointOdeSolverMethod, ConstantOp, ConstantOpSens, ConstantOpSensAdjoint, LinearOp, LinearOpTranspose, NalgebraLU,
    NalgebraMat, NalgebraVec, NonLinearOp, NonLinearOpAdjoint, NonLinearOpJacobian, NonLinearOpSens,
    NonLinearOpSensAdjoint, OdeBuilder, OdeEquations, OdeSolverMethod, OdeSolverProblem, OdeSolverState,
    OdeSolverStopReason, Op, SensitivitiesOdeSolverMethod, Vector,
};

use crate::{close, difference};

type M = NalgebraMat<f64>;
type V = NalgebraVec<f64>;
type Lu = NalgebraLU<f64>;

const P: [f64; 4] = [2.0 / 3.0, 4.0 / 3.0, 1.0, 1.5];
const END: f64 = 6.0;

fn vector(of: &[f64]) -> V {
    V::from_vec(of.to_vec(), Default::default())
}

fn lotka() -> Ode<M> {
    let program = program(include_str!("../models/lotka_volterra.clif")).unwrap();
    // SAFETY: there are two states, four parameters, and two outputs.
    unsafe { Ode::new(&program, 2, 4, "rhs", "init").unwrap().with_out("out", 2).unwrap() }
}

fn problem(p: &[f64], integrate: bool) -> OdeSolverProblem<Ode<M>> {
    let build = OdeBuilder::<M>::new().p(p.to_vec()).rtol(1e-9).atol([1e-9]).integrate_out(integrate);
    let build = build.out_rtol(1e-9).out_atol([1e-9]).sens_rtol(1e-9).sens_atol([1e-9]);
    build.param_rtol(1e-9).param_atol([1e-9]).build_from_eqn(lotka()).unwrap()
}

/// Products with a Jacobian of a function, and with minus its transpose, at unit vectors.
fn products(
    columns: usize,
    rows: usize,
    forward: impl Fn(&V, &mut V),
    reverse: impl Fn(&V, &mut V),
    exact: impl Fn(usize) -> Vec<f64>,
) {
    let unit = |n: usize, i: usize| vector(&(0..n).map(|j| f64::from(u8::from(i == j))).collect::<Vec<_>>());
    for j in 0..columns {
        let mut column = vector(&vec![9.0; rows]);
        forward(&unit(columns, j), &mut column);
        close(&column.clone_as_vec(), &exact(j), 1e-8);
        for i in 0..rows {
            let mut row = vector(&vec![9.0; columns]);
            reverse(&unit(rows, i), &mut row);
            assert_eq!(row.clone_as_vec()[j], -column.clone_as_vec()[i]);
        }
    }
}

#[test]
fn operators_are_those_of_differences() {
    let mut ode = lotka();
    let (x, t) = ([1.25, 0.75], 0.5);
    ode.set_params(&vector(&P));
    assert_eq!((ode.nstates(), ode.nparams(), ode.nout()), (2, 4, 2));
    let [a, b, c, _] = P;
    let at = vector(&x);
    close(&ode.rhs().call(&at, t).clone_as_vec(), &[a * x[0] - b * x[0] * x[1], b * x[0] * x[1] - c * x[1]], 1e-15);
    close(&ode.out().unwrap().call(&at, t).clone_as_vec(), &[b * x[0] * x[1], x[0]], 1e-15);
    close(&ode.init().call(t).clone_as_vec(), &[P[3], 0.5], 1e-15);

    let with = |p: &[f64]| {
        let mut ode = lotka();
        ode.set_params(&vector(p));
        ode
    };
    for out in [false, true] {
        let of = |ode: &Ode<M>, x: &[f64]| {
            let f = if out { ode.out().unwrap() } else { ode.rhs() };
            f.call(&vector(x), t).clone_as_vec()
        };
        let f = if out { ode.out().unwrap() } else { ode.rhs() };
        let (forward, reverse) = (
            |v: &V, y: &mut V| f.jac_mul_inplace(&at, t, v, y),
            |v: &V, y: &mut V| {
                f.jac_transpose_mul_inplace(&at, t, v, y);
            },
        );
        products(2, 2, forward, reverse, |j| difference(&x, j, 1e-5, |x| of(&ode, x)));
        let (forward, reverse) = (
            |v: &V, y: &mut V| f.sens_mul_inplace(&at, t, v, y),
            |v: &V, y: &mut V| {
                f.sens_transpose_mul_inplace(&at, t, v, y);
            },
        );
        products(4, 2, forward, reverse, |j| difference(&P, j, 1e-5, |p| of(&with(p), &x)));
    }
    let init = ode.init();
    let (forward, reverse) = (
        |v: &V, y: &mut V| init.sens_mul_inplace(t, v, y),
        |v: &V, y: &mut V| {
            init.sens_transpose_mul_inplace(t, v, y);
        },
    );
    products(4, 2, forward, reverse, |j| difference(&P, j, 1e-5, |p| with(p).init().call(t).clone_as_vec()));
    assert!(ode.failure().is_none());
}

#[test]
fn forward_sensitivities() {
    let times = [1.0, END];
    let outputs = |p: &[f64]| {
        let problem = problem(p, false);
        let (out, _) = problem.bdf::<Lu>().unwrap().solve_dense(&times).unwrap();
        vec![out[(0, 0)], out[(1, 0)], out[(0, 1)], out[(1, 1)]]
    };
    let problem = problem(&P, false);
    let (_, found, _) = problem.bdf_sens::<Lu>().unwrap().solve_dense_sensitivities(&times).unwrap();
    for (i, s) in found.iter().enumerate() {
        close(&[s[(0, 0)], s[(1, 0)], s[(0, 1)], s[(1, 1)]], &difference(&P, i, 1e-4, outputs), 1e-5);
    }
}

/// Integrals of both outputs, and a sum over measurements: one solution backwards for each.
#[test]
fn the_adjoint() {
    let integrals = |p: &[f64]| {
        let problem = problem(p, true);
        let mut solver = problem.bdf::<Lu>().unwrap();
        solver.solve(END).unwrap();
        solver.state().g.clone_as_vec()
    };
    let whole = problem(&P, true);
    let mut solver = whole.bdf::<Lu>().unwrap();
    let (path, ..) = solver.solve_with_checkpointing(END, None).unwrap();
    let back = whole.bdf_solver_adjoint::<Lu, _>(path, Some(solver), None).unwrap();
    let found = back.solve_adjoint_backwards_pass(&[], &[]).unwrap().0.into_common().sg.clone_as_vec();
    assert_eq!(found.len(), 8);
    for i in 0..4 {
        close(&[found[i], found[4 + i]], &difference(&P, i, 1e-4, integrals), 1e-5);
    }

    // Squares of outputs at three times.
    let times = [1.0, 3.0, END];
    let squares = |p: &[f64]| {
        let problem = problem(p, false);
        let (out, _) = problem.bdf::<Lu>().unwrap().solve_dense(&times).unwrap();
        vec![(0..3).map(|k| out[(0, k)].powi(2) + out[(1, k)].powi(2)).sum::<f64>()]
    };
    let discrete = problem(&P, false);
    let mut solver = discrete.bdf::<Lu>().unwrap();
    let (path, out, _) = solver.solve_dense_with_checkpointing(&times, None).unwrap();
    let mut seeds = out.clone();
    for (i, k) in (0..2).flat_map(|i| (0..3).map(move |k| (i, k))) {
        seeds[(i, k)] = 2.0 * out[(i, k)];
    }
    let back = discrete.bdf_solver_adjoint::<Lu, _>(path, Some(solver), Some(1)).unwrap();
    let found = back.solve_adjoint_backwards_pass(&times, &[&seeds]).unwrap().0.into_common().sg.clone_as_vec();
    for i in 0..4 {
        close(&found[i..=i], &difference(&P, i, 1e-4, squares), 1e-5);
    }
}

#[test]
fn a_mass_matrix() {
    let program = program(include_str!("../models/robertson.clif")).unwrap();
    // SAFETY: there are three states and three parameters.
    let mut ode = unsafe { Ode::<M>::new(&program, 3, 3, "rhs", "init").unwrap().with_mass("mass").unwrap() };
    let rates = [0.04, 1e4, 3e7];
    ode.set_params(&vector(&rates));
    {
        let mass = ode.mass().unwrap();
        let mut y = vector(&[1.0, 2.0, 3.0]);
        mass.gemv_inplace(&vector(&[5.0, 7.0, 11.0]), 0.0, 2.0, &mut y);
        assert_eq!(y.clone_as_vec(), [7.0, 11.0, 6.0]);
        mass.gemv_transpose_inplace(&vector(&[5.0, 7.0, 11.0]), 0.0, -1.0, &mut y);
        assert_eq!(y.clone_as_vec(), [-2.0, -4.0, -6.0]);
        let mut y = vector(&[f64::NAN; 3]);
        mass.call_inplace(&vector(&[5.0, 7.0, 11.0]), 0.0, &mut y);
        assert_eq!(y.clone_as_vec(), [5.0, 7.0, 0.0]);
    }
    let build = OdeBuilder::<M>::new().p(rates).rtol(1e-7).atol([1e-9, 1e-12, 1e-9]);
    let problem = build.build_from_eqn(ode).unwrap();
    let (x, _) = problem.bdf::<Lu>().unwrap().solve_dense(&[0.4, 40.0]).unwrap();
    // E. Hairer, G. Wanner: Solving Ordinary Differential Equations II, and the guide of CVODE.
    close(&[x[(0, 0)], x[(2, 0)]], &[0.985_17, 0.014_795], 1e-4);
    close(&[x[(0, 1)], x[(2, 1)]], &[0.715_83, 0.284_16], 1e-4);
    close(&[1e5 * x[(1, 0)], 1e6 * x[(1, 1)]], &[3.3864, 9.1855], 1e-3);
}

#[test]
fn an_event() {
    let program = program(include_str!("../models/lotka_volterra.clif")).unwrap();
    // SAFETY: there are two states, four parameters, and a root.
    let ode = unsafe { Ode::<M>::new(&program, 2, 4, "rhs", "init").unwrap().with_root("root", 1).unwrap() };
    let problem = OdeBuilder::<M>::new().p(P).rtol(1e-8).atol([1e-8]).build_from_eqn(ode).unwrap();
    let mut solver = problem.bdf::<Lu>().unwrap();
    let (_, _, reason) = solver.solve(END).unwrap();
    let OdeSolverStopReason::RootFound(t, _) = reason else { panic!("{reason:?}") };
    let found = solver.interpolate(t).unwrap().clone_as_vec();
    assert!((found[0] - 1.0).abs() < 1e-5, "{found:?} at {t}");
}

#[test]
fn errors_are_kept() {
    let text = "
        function %init(f64, i64, i64) {
        block0(v0: f64, v1: i64, v2: i64):
            v3 = f64const 0x1.0
            store v3, v2
            return
        }
        function %rhs(f64, i64, i64, i64) {
        block0(v0: f64, v1: i64, v2: i64, v3: i64):
            v4 = iconst.i64 1
            v5 = fcvt_to_sint_sat.i64 v0
            v6 = sdiv v4, v5
            v7 = fcvt_from_sint.f64 v6
            v8 = load.f64 v1
            v9 = fmul v7, v8
            store v9, v3
            return
        }";
    let program = program(text).unwrap();
    // SAFETY: there are one state and one parameter.
    let ode = unsafe { Ode::<M>::new(&program, 1, 1, "rhs", "init").unwrap() };
    assert_eq!(ode.rhs().call(&vector(&[2.0]), 1.0).clone_as_vec(), [2.0]);
    assert!(ode.failure().is_none());
    // Less than one is no divisor.
    assert!(ode.rhs().call(&vector(&[2.0]), 0.5).clone_as_vec()[0].is_nan());
    assert!(matches!(ode.failure(), Some(Error::Trap(t)) if t.code == "int_divz"));
    let mut y = vector(&[1.0]);
    ode.rhs().jac_transpose_mul_inplace(&vector(&[2.0]), 0.5, &vector(&[1.0]), &mut y);
    assert!(y.clone_as_vec()[0].is_nan());
    // SAFETY: they are refused.
    let (none, other) =
        unsafe { (Ode::<M>::new(&program, 1, 1, "f", "init"), Ode::<M>::new(&program, 1, 1, "init", "init")) };
    assert!(none.err().unwrap().to_string().contains("there is no function %f"));
    assert!(other.err().unwrap().to_string().contains("4 parameters are given, 3 are wanted"));
}

/// A mass matrix that is not its transpose: (x + 2 y, 3 y).
#[test]
fn a_mass_matrix_that_is_transposed() {
    let functions = "
        function %rhs(f64, i64, i64, i64) {
        block0(v0: f64, v1: i64, v2: i64, v3: i64):
            return
        }
        function %init(f64, i64, i64) {
        block0(v0: f64, v1: i64, v2: i64):
            return
        }
        function %mass(f64, i64, i64, i64) {
        block0(v0: f64, v1: i64, v2: i64, v3: i64):
            v4 = load.f64 v1
            v5 = load.f64 v1+8
            v6 = fadd v5, v5
            v7 = fadd v4, v6
            store v7, v3
            v8 = fadd v6, v5
            store v8, v3+8
            return
        }";
    let program = program(functions).unwrap();
    // SAFETY: there are two states and a parameter.
    let ode = unsafe { Ode::<M>::new(&program, 2, 1, "rhs", "init").unwrap().with_mass("mass").unwrap() };
    let mass = ode.mass().unwrap();
    let v = vector(&[5.0, 7.0]);
    for _ in 0..2 {
        let mut y = vector(&[1.0, 2.0]);
        mass.gemv_inplace(&v, 0.0, 0.5, &mut y);
        assert_eq!(y.clone_as_vec(), [19.5, 22.0]);
        let mut y = vector(&[1.0, 2.0]);
        mass.gemv_transpose_inplace(&v, 0.0, 0.5, &mut y);
        assert_eq!(y.clone_as_vec(), [5.5, 32.0]);
    }
}
