//! The objectives of the usual benchmark set of automatic differentiation (ADBench): a Gaussian
//! mixture, a recurrent network, bundle adjustment.

use crate::data::{noise, random};
use crate::problem::{Input, Problem, Size};
use crate::real::Var;

const ZERO: fn() -> Var = || Var::constant(0.0);

fn log_sum_exp(x: &[Var]) -> Var {
    let top = x.iter().fold(x[0], |top, x| if x.value > top.value { *x } else { top });
    x.iter().fold(ZERO(), |sum, x| sum + (*x - top).exp()).ln() + top
}

pub(crate) fn gmm(size: Size) -> Problem {
    let [n, d, k] = if size == Size::Small { [5, 3, 4] } else { [1000, 10, 25] };
    let factors = d + d * (d - 1) / 2;
    let points = noise(n * d, 21);
    // Parameters of the prior. The usual ones leave out a term, which small sizes are to check.
    let (gamma, m) = if size == Size::Small { (1.5, 2.0) } else { (1.0, 0.0) };
    // The part of the logarithm of the likelihood that depends on nothing.
    let constant = -(n as f64) * d as f64 * 0.5 * (2.0 * std::f64::consts::PI).ln();
    let constants = [0.5 * gamma * gamma, m, n as f64, constant];
    let args = vec![
        Input::Floats(noise(k, 22)),
        Input::Floats(noise(k * d, 23)),
        Input::Floats(noise(k * factors, 24)),
        Input::ConstFloats(points.clone()),
        Input::ConstFloats(constants.to_vec()),
        Input::Int(n as i64),
        Input::Int(d as i64),
        Input::Int(k as i64),
    ];
    let f = |v: &[Var]| {
        let (alphas, rest) = v.split_at(k);
        let (means, icf) = rest.split_at(k * d);
        let diagonals: Vec<Var> = icf.chunks_exact(factors).flat_map(|c| c[..d].iter().map(|c| c.exp())).collect();
        let sums: Vec<Var> = icf.chunks_exact(factors).map(|c| c[..d].iter().fold(ZERO(), |sum, c| sum + *c)).collect();
        let mut likelihood = ZERO();
        for x in points.chunks_exact(d) {
            let term = |k: usize| {
                let centred: Vec<Var> = x.iter().zip(&means[k * d..]).map(|(x, mean)| *x - *mean).collect();
                let mut q: Vec<Var> = diagonals[k * d..].iter().zip(&centred).map(|(q, c)| *q * *c).collect();
                let mut triangle = icf[k * factors + d..].iter();
                for i in 0..d {
                    for q in &mut q[i + 1..] {
                        *q += *triangle.next().expect("d (d - 1) / 2 elements") * centred[i];
                    }
                }
                alphas[k] + sums[k] - 0.5 * q.iter().fold(ZERO(), |sum, q| sum + *q * *q)
            };
            likelihood += log_sum_exp(&(0..k).map(term).collect::<Vec<_>>());
        }
        let prior = (0..k).fold(ZERO(), |sum, k| {
            let elements = diagonals[k * d..][..d].iter().chain(&icf[k * factors + d..(k + 1) * factors]);
            sum + (constants[0] * elements.fold(ZERO(), |sum, e| sum + *e * *e) - constants[1] * sums[k])
        });
        vec![likelihood - constants[2] * log_sum_exp(alphas) + prior + constants[3]]
    };
    let clif = include_str!("../../problems/gmm.clif");
    Problem {
        hand: Some("gmm_hand"),
        iterations: n * k,
        tolerance: 1e-11,
        ..Problem::new("gmm", "1000 points under a mixture of 25 Gaussians, ten dimensions", clif, args, f)
    }
}

pub(crate) fn lstm(size: Size) -> Problem {
    let [l, b, c] = if size == Size::Small { [2, 3, 5] } else { [2, 14, 1024] };
    let sequence: Vec<f64> = random(31, c * b).iter().map(|x| f64::from(u8::from(*x > 0.0))).collect();
    let args = vec![
        Input::Floats(noise(8 * l * b, 32)),
        Input::Floats(noise(3 * b, 33)),
        Input::Floats(noise(2 * l * b, 34)),
        Input::ConstFloats(sequence.clone()),
        Input::Int(l as i64),
        Input::Int(b as i64),
        Input::Int(c as i64),
    ];
    let sigmoid = |x: Var| 1.0 / (1.0 + (-x).exp());
    let f = |v: &[Var]| {
        let (w, rest) = v.split_at(8 * l * b);
        let (w2, state) = rest.split_at(3 * b);
        let (mut state, mut total) = (state.to_vec(), ZERO());
        for t in 0..c - 1 {
            let mut x: Vec<Var> = (0..b).map(|i| sequence[t * b + i] * w2[i]).collect();
            for (w, s) in w.chunks_exact(8 * b).zip(state.chunks_exact_mut(2 * b)) {
                for i in 0..b {
                    let gate = |x: Var, k: usize| x * w[k * b + i] + w[(k + 4) * b + i];
                    let (forget, keep) = (sigmoid(gate(x[i], 0)), sigmoid(gate(s[i], 1)));
                    let (out, change) = (sigmoid(gate(x[i], 2)), gate(s[i], 3).tanh());
                    s[b + i] = s[b + i] * forget + keep * change;
                    s[i] = out * s[b + i].tanh();
                }
                x = s[..b].to_vec();
            }
            let y: Vec<Var> = (0..b).map(|i| x[i] * w2[b + i] + w2[2 * b + i]).collect();
            let norm = y.iter().fold(Var::constant(2.0), |sum, y| sum + y.exp()).ln();
            total = (0..b).fold(total, |total, i| total + sequence[(t + 1) * b + i] * (y[i] - norm));
        }
        vec![-total / ((c - 1) * b) as f64]
    };
    let clif = include_str!("../../problems/lstm.clif");
    Problem {
        hand: Some("lstm_hand"),
        iterations: (c - 1) * l * b,
        tolerance: 1e-11,
        ..Problem::new("lstm", "two layers of 14 units over 1024 items", clif, args, f)
    }
}

type Vector = [Var; 3];

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn inner(a: Vector, b: Vector) -> Var {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Rodrigues' formula.
fn turn(by: Vector, v: Vector) -> Vector {
    let square = inner(by, by);
    if square.value == 0.0 {
        let turned = cross(by, v);
        return std::array::from_fn(|k| v[k] + turned[k]);
    }
    let angle = square.sqrt();
    let (cos, sin, inverse) = (angle.cos(), angle.sin(), 1.0 / angle);
    let axis = by.map(|x| x * inverse);
    let (turned, along) = (cross(axis, v), inner(axis, v) * (1.0 - cos));
    std::array::from_fn(|k| v[k] * cos + turned[k] * sin + axis[k] * along)
}

fn project(camera: &[Var], point: &[Var]) -> [Var; 2] {
    let vector = |x: &[Var]| -> Vector { std::array::from_fn(|k| x[k]) };
    let (point, centre) = (vector(point), vector(&camera[3..]));
    let v = turn(vector(camera), std::array::from_fn(|k| point[k] - centre[k]));
    let p = [v[0] / v[2], v[1] / v[2]];
    let square = p[0] * p[0] + p[1] * p[1];
    let distortion = 1.0 + camera[9] * square + camera[10] * square * square;
    std::array::from_fn(|k| p[k] * distortion * camera[6] + camera[7 + k])
}

/// Arguments of a bundle adjustment of so many cameras, points and observations.
pub(crate) fn adjustment([n_cameras, n_points, n]: [usize; 3]) -> Vec<Input> {
    let mut cameras = noise(11 * n_cameras, 41);
    // Cameras stand back from the points; the first is not turned at all, which is a branch of its
    // own.
    cameras.chunks_exact_mut(11).for_each(|camera| camera[5] -= 6.0);
    cameras[..3].fill(0.0);
    let draw = |n: usize, seed, below: usize| -> Vec<i64> {
        random(seed, n).iter().map(|x| ((x + 1.0) / 2.0 * below as f64) as i64).collect()
    };
    // Every camera and every point is observed.
    let of_cameras = (0..n_cameras as i64).chain(draw(n - n_cameras, 42, n_cameras));
    let of_points = (0..n_points as i64).chain(draw(n - n_points, 43, n_points));
    let observations: Vec<[i64; 2]> = of_cameras.zip(of_points).map(|(camera, point)| [camera, point]).collect();
    vec![
        Input::Floats(cameras),
        Input::Floats(noise(3 * n_points, 45)),
        Input::Floats(noise(n, 46)),
        Input::ConstFloats(noise(2 * n, 44)),
        Input::Longs(observations.as_flattened().to_vec()),
        Input::Int(n as i64),
    ]
}

/// Bundle adjustment.
pub(crate) fn ba(size: Size) -> Problem {
    let [n_cameras, n_points, n] = if size == Size::Small { [2, 5, 12] } else { [21, 500, 2000] };
    let args = adjustment([n_cameras, n_points, n]);
    let [_, _, _, Input::ConstFloats(features), Input::Longs(seen), _] = &args[..] else {
        unreachable!("features and observations stand there")
    };
    let (features, seen) = (features.clone(), seen.clone());
    let f = move |v: &[Var]| {
        let (cameras, rest) = v.split_at(11 * n_cameras);
        let (points, weights) = rest.split_at(3 * n_points);
        let mut sum = ZERO();
        for (i, [camera, point]) in seen.as_chunks::<2>().0.iter().enumerate() {
            let at = project(&cameras[*camera as usize * 11..], &points[*point as usize * 3..]);
            let error: [Var; 2] = std::array::from_fn(|k| weights[i] * (at[k] - features[2 * i + k]));
            sum += error[0] * error[0] + error[1] * error[1];
        }
        vec![sum]
    };
    let clif = include_str!("../../problems/ba.clif");
    Problem {
        hand: Some("ba_hand"),
        iterations: n,
        tolerance: 1e-11,
        ..Problem::new("ba", "bundle adjustment: 2000 observations", clif, args, f)
    }
}
