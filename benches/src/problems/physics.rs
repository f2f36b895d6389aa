//! Loops that carry a state.

use crate::data;
use crate::problem::{Input, Problem, Size};
use crate::real::Var;

pub(super) fn logistic(size: Size) -> Problem {
    let n = size.of(20, 1000);
    let args = vec![Input::Active(2.5), Input::Active(0.2), Input::Int(n as i64)];
    let clif = include_str!("../../problems/logistic.clif");
    Problem {
        hand: Some("logistic_hand"),
        iterations: n,
        ..Problem::new("logistic", "a carried float, each step nonlinear", clif, args, |v| {
            vec![(0..n).fold(v[1], |x, _| v[0] * x * (1.0 - x))]
        })
    }
}

pub(super) fn part(size: Size) -> Problem {
    const DT: f64 = 0.05;
    let steps = size.of(10, 1000);
    let state = (1..=4).flat_map(|i| [0.5 * f64::from(i), 0.1, 1.0, 1.0]).collect();
    let args = vec![Input::Floats(state), Input::Int(4), Input::Int(steps as i64)];
    let clif = include_str!("../../problems/part.clif");
    Problem {
        hand: Some("part_hand"),
        iterations: 4 * steps,
        ..Problem::new("part", "four particles, 1000 linear steps each", clif, args, |x| {
            let mut sum = Var::constant(0.0);
            for p in x.chunks_exact(4) {
                let (mut px, mut py, mut vx, mut vy) = (p[0], p[1], p[2], p[3]);
                for _ in 0..steps {
                    let ax = 1.0 * (-0.5 * px + -0.2 * vx);
                    let ay = 1.0 * (-0.5 * py + -0.2 * vy);
                    px += DT * vx;
                    py += DT * vy;
                    vx += DT * ax;
                    vy += DT * ay;
                }
                sum += px * py;
            }
            vec![sum]
        })
    }
}

pub(super) fn lorenz(size: Size) -> Problem {
    const H: f64 = 1e-3;
    let steps = size.of(100, 10_000);
    let start = [1.0, 0.0, 0.0, 10.0, 27.0, 8.0 / 3.0];
    let args = start.into_iter().map(Input::Active).chain([Input::Int(steps as i64)]).collect();
    let clif = include_str!("../../problems/lorenz.clif");
    let f = |v: &[Var]| {
        let (sigma, rho, beta) = (v[3], v[4], v[5]);
        let slope = |[x, y, z]: [Var; 3]| [sigma * (y - x), x * (rho - z) - y, x * y - beta * z];
        let ahead = |s: [Var; 3], h: f64, k: [Var; 3]| -> [Var; 3] { std::array::from_fn(|i| s[i] + h * k[i]) };
        let mut s = [v[0], v[1], v[2]];
        for _ in 0..steps {
            let k1 = slope(s);
            let k2 = slope(ahead(s, 0.5 * H, k1));
            let k3 = slope(ahead(s, 0.5 * H, k2));
            let k4 = slope(ahead(s, H, k3));
            s = std::array::from_fn(|i| s[i] + (H / 6.0) * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]));
        }
        vec![s[0] + s[1] + s[2]]
    };
    Problem {
        hand: Some("lorenz_hand"),
        iterations: steps,
        // Errors of rounding grow as the solution forgets its start.
        tolerance: 1e-9,
        ..Problem::new("lorenz", "10 000 steps of Runge-Kutta, three carried floats", clif, args, f)
    }
}

pub(super) fn planets(size: Size) -> Problem {
    let steps = size.of(10, 1000);
    let (position, velocity, mass) = data::planets();
    let args = vec![
        Input::Floats(position),
        Input::Floats(velocity),
        Input::Floats(mass),
        Input::Int(5),
        Input::Int(steps as i64),
    ];
    let clif = include_str!("../../problems/planets.clif");
    Problem {
        hand: Some("planets_hand"),
        iterations: steps,
        tolerance: 1e-10,
        ..Problem::new("planets", "five bodies, 1000 steps of leapfrog, state in memory", clif, args, |x| {
            leapfrog(x, steps)
        })
    }
}

/// Positions, velocities and masses of five bodies.
fn leapfrog(x: &[Var], steps: usize) -> Vec<Var> {
    const DT: f64 = 0.01;
    let (mut q, mut v, mass) = (x[..15].to_vec(), x[15..30].to_vec(), &x[30..]);
    let mut a = accelerations(&q, mass);
    for _ in 0..steps {
        for i in 0..15 {
            v[i] += (0.5 * DT) * a[i];
            let velocity = v[i];
            q[i] += DT * velocity;
        }
        a = accelerations(&q, mass);
        for i in 0..15 {
            v[i] += (0.5 * DT) * a[i];
        }
    }
    vec![q.iter().fold(Var::constant(0.0), |sum, q| sum + *q * *q)]
}

fn accelerations(q: &[Var], mass: &[Var]) -> Vec<Var> {
    let mut a = vec![Var::constant(0.0); q.len()];
    for i in 0..mass.len() {
        for j in i + 1..mass.len() {
            let d: [Var; 3] = std::array::from_fn(|k| q[3 * i + k] - q[3 * j + k]);
            let d2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
            let w = 1.0 / (d2 * d2.sqrt());
            let (wj, wi) = (mass[j] * w, mass[i] * w);
            for k in 0..3 {
                a[3 * i + k] -= d[k] * wj;
                a[3 * j + k] += d[k] * wi;
            }
        }
    }
    a
}
