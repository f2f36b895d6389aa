//! The battery model of diffsl's benchmarks (962 states): derivatives, and what they cost.
//!
//! **Oracles.** `⟨w, J v⟩ = ⟨Jᵀ w, v⟩`, where `J v` is by diffsl's own forward mode. NaN that goes
//! in comes out where an element of the Jacobian is, and nowhere else: so sparsity is found.
//!
//! **Cost.** The gradient takes at most 2.5 times as long as the function. Both are code of
//! Cranelift's, whatever profile this file is compiled in; the least of many runs counts.
//!
//! **Copied** to `tests/battery.rs` of a copy of diffsl by `cargo xtask diffsl`.

use std::time::Instant;

use diffsl::discretise::DiscreteModel;
use diffsl::{Compiler, CraneliftJitModule};

struct Battery {
    compiler: Compiler<CraneliftJitModule, f64>,
    u: Vec<f64>,
    data: Vec<f64>,
    rr: Vec<f64>,
}

fn battery() -> Battery {
    let text = std::fs::read_to_string("benches/pybamm_dfn.diffsl").unwrap();
    let model = diffsl::parser::parse_ds_string(&text).unwrap();
    let model = DiscreteModel::build("pybamm_dfn", &model).unwrap();
    let compiler = Compiler::<CraneliftJitModule, f64>::from_discrete_model(&model, Default::default(), Some(&text)).unwrap();
    let (states, inputs, ..) = compiler.get_dims();
    let mut data = compiler.get_new_data();
    compiler.set_inputs(&vec![1.0; inputs], &mut data, 0);
    let (mut u, mut rr) = (vec![0.0_f64; states], vec![0.0_f64; states]);
    compiler.set_u0(&mut u, &mut data);
    compiler.rhs(0.0, &u, &mut data, &mut rr);
    assert!(rr.iter().all(|x| x.is_finite()));
    Battery { compiler, u, data, rr }
}

impl Battery {
    /// `J v`, by diffsl's forward mode.
    fn forward(&self, v: &[f64]) -> Vec<f64> {
        let (mut ddata, mut drr) = (self.compiler.get_new_data(), vec![0.0; self.rr.len()]);
        self.compiler.rhs_grad(0.0, &self.u, v, &self.data, &mut ddata, &self.rr, &mut drr);
        drr
    }

    /// `Jᵀ w`.
    fn reverse(&self, w: &[f64]) -> Vec<f64> {
        let (mut ddata, mut drr) = (self.compiler.get_new_data(), w.to_vec());
        let mut du = vec![0.0; self.u.len()];
        self.compiler.rhs_rgrad(0.0, &self.u, &mut du, &self.data, &mut ddata, &self.rr, &mut drr);
        assert!(drr.iter().all(|x| *x == 0.0), "seeds are consumed");
        du
    }
}

/// Numbers between -1 and 1 without a pattern.
fn numbers(n: usize, seed: f64) -> Vec<f64> {
    (0..n).map(|i| ((i as f64 + seed) * 12.9898).sin()).collect()
}

#[test]
fn reverse_mode_is_the_transpose_of_forward_mode() {
    let battery = battery();
    for k in 0..5 {
        let (v, w) = (numbers(battery.u.len(), k as f64), numbers(battery.u.len(), 0.5 + k as f64));
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let (forward, reverse) = (product(&w, &battery.forward(&v)), product(&battery.reverse(&w), &v));
        assert!((forward - reverse).abs() <= 1e-12 * forward.abs(), "{forward} {reverse}");
    }
}

#[test]
fn nan_comes_out_where_an_element_is() {
    let battery = battery();
    let n = battery.u.len();
    let columns: Vec<Vec<f64>> = (0..n)
        .map(|k| {
            let mut v = vec![0.0; n];
            v[k] = f64::NAN;
            battery.forward(&v)
        })
        .collect();
    for row in (0..n).step_by(7) {
        let mut w = vec![0.0; n];
        w[row] = f64::NAN;
        let found = battery.reverse(&w);
        for k in 0..n {
            assert_eq!(found[k].is_nan(), columns[k][row].is_nan(), "row {row}, column {k}");
        }
    }
}

#[test]
fn a_gradient_costs_few_functions() {
    let mut battery = battery();
    let n = battery.u.len();
    let w = numbers(n, 0.25);
    let (mut du, mut drr, mut ddata) = (vec![0.0; n], w.clone(), battery.compiler.get_new_data());
    let (mut primal, mut gradient) = (f64::MAX, f64::MAX);
    for _ in 0..200 {
        let runs = 20;
        let begin = Instant::now();
        for _ in 0..runs {
            battery.compiler.rhs(0.0, &battery.u, &mut battery.data, &mut battery.rr);
        }
        primal = primal.min(begin.elapsed().as_secs_f64() / f64::from(runs));
        let begin = Instant::now();
        for _ in 0..runs {
            drr.copy_from_slice(&w);
            let Battery { compiler, u, data, rr } = &battery;
            compiler.rhs_rgrad(0.0, u, &mut du, data, &mut ddata, rr, &mut drr);
        }
        gradient = gradient.min(begin.elapsed().as_secs_f64() / f64::from(runs));
    }
    let ratio = gradient / primal;
    println!("battery: function {:.2} us, gradient {:.2} us, ratio {ratio:.2}", 1e6 * primal, 1e6 * gradient);
    assert!(ratio < 2.5, "{ratio}");
}
