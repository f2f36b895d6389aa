//! Nests of loops over matrices, and networks of layers.

use crate::data::{noise, random};
use crate::problem::{Input, Problem, Size};
use crate::real::Var;

const ZERO: fn() -> Var = || Var::constant(0.0);

/// The largest of zero and x, as `x >= 0 ? x : 0`.
fn relu(x: Var) -> Var {
    if x.value >= 0.0 { x } else { ZERO() }
}

fn inner(a: &[Var], b: &[Var]) -> Var {
    a.iter().zip(b).fold(ZERO(), |sum, (a, b)| sum + *a * *b)
}

/// Consecutive pieces of these lengths.
fn split<'a, const N: usize>(x: &'a [Var], lengths: [usize; N]) -> [&'a [Var]; N] {
    let mut rest = x;
    lengths.map(|n| {
        let piece: &'a [Var];
        (piece, rest) = rest.split_at(n);
        piece
    })
}

pub(super) fn smv100(size: Size) -> Problem {
    smv("smv100", "100 x 100 matrix times vector, summed", size.of(5, 100))
}

pub(super) fn smv1000(size: Size) -> Problem {
    smv("smv1000", "the same with 1000 x 1000: memory", size.of(7, 1000))
}

fn smv(name: &'static str, about: &'static str, n: usize) -> Problem {
    let a = (1..=n * n).map(|i| i as f64).collect();
    let v = (0..n).map(|i| 3.0 + 2.0 * i as f64).collect();
    let args = vec![Input::Floats(a), Input::Floats(v), Input::Int(n as i64)];
    let clif = include_str!("../../problems/smv.clif");
    let f = |x: &[Var]| {
        let (a, v) = x.split_at(n * n);
        vec![a.chunks_exact(n).fold(ZERO(), |sum, row| sum + inner(row, v))]
    };
    Problem { func: "smv", hand: Some("smv_hand"), iterations: n * n, ..Problem::new(name, about, clif, args, f) }
}

pub(super) fn matvec(size: Size) -> Problem {
    let n = size.of(5, 100);
    let (w, a, x) = (noise(n, 5), noise(n * n, 6), noise(n, 7));
    let args = vec![Input::ConstFloats(w.clone()), Input::Floats(a), Input::Floats(x), Input::Int(n as i64)];
    let f = |v: &[Var]| {
        let (a, x) = v.split_at(n * n);
        vec![a.chunks_exact(n).zip(&w).fold(ZERO(), |sum, (row, w)| sum + *w * inner(row, x))]
    };
    let clif = include_str!("../../problems/matvec.clif");
    Problem {
        hand: Some("matvec_hand"),
        hand_adds: true,
        iterations: n * n,
        ..Problem::new("matvec", "the same with constant weights", clif, args, f)
    }
}

pub(super) fn kron(size: Size) -> Problem {
    let (m, q) = (size.of(3, 20), size.of(4, 40));
    let x = random(19, m * m + q * q);
    let args = vec![
        Input::Floats(x[..m * m].to_vec()),
        Input::Floats(x[m * m..].to_vec()),
        Input::Int(m as i64),
        Input::Int(q as i64),
    ];
    let f = |v: &[Var]| {
        let (x, y) = v.split_at(m * m);
        let mut product = Vec::new();
        for x in x.chunks_exact(m) {
            for y in y.chunks_exact(q) {
                product.extend(x.iter().flat_map(|x| y.iter().map(move |y| *x * *y)));
            }
        }
        vec![product.into_iter().fold(ZERO(), |sum, z| sum + z)]
    };
    let clif = include_str!("../../problems/kron.clif");
    Problem {
        hand: Some("kron_hand"),
        iterations: m * m * q * q,
        ..Problem::new("kron", "a Kronecker product, written out on the heap and summed", clif, args, f)
    }
}

pub(super) fn tanh_layer(size: Size) -> Problem {
    let m = size.of(5, 64);
    let (w, b, u, x) = (noise(m * m, 8), noise(m, 9), noise(m, 10), noise(m, 11));
    let w = w.iter().map(|w| w / 8.0).collect();
    let args = vec![
        Input::Floats(w),
        Input::Floats(b),
        Input::Floats(u),
        Input::Floats(x),
        Input::Int(m as i64),
        Input::Int(m as i64),
    ];
    let f = |v: &[Var]| {
        let [w, b, u, x] = split(v, [m * m, m, m, m]);
        let row = |sum, (i, row): (usize, &[Var])| {
            let s = row.iter().zip(x).fold(b[i], |s, (w, x)| s + *w * *x);
            sum + u[i] * s.tanh()
        };
        vec![w.chunks_exact(m).enumerate().fold(ZERO(), row)]
    };
    let clif = include_str!("../../problems/tanh_layer.clif");
    Problem {
        hand: Some("tanh_layer_hand"),
        hand_adds: true,
        iterations: m * m,
        ..Problem::new("tanh_layer", "64 x 64 network layer, tanh", clif, args, f)
    }
}

pub(super) fn nn(size: Size) -> Problem {
    let [ni, n1, n2, no] = if size == Size::Small { [5, 7, 6, 4] } else { [50, 100, 50, 10] };
    let matrix = |rows: usize, columns: usize, scale: f64| -> Vec<f64> {
        (0..rows).flat_map(|r| (0..columns).map(move |c| scale * ((r + c) as f64).sin())).collect()
    };
    let vector = |n: usize| -> Vec<f64> { (0..n).map(|i| (0.41 * i as f64).sin()).collect() };
    let floats = [
        // Weights are small, which keeps the softmax away from saturation.
        matrix(n1, ni, 0.1),
        vector(n1),
        matrix(n2, n1, 0.1),
        vector(n2),
        matrix(no, n2, 0.1),
        vector(no),
        vector(ni),
    ];
    let args = floats.into_iter().map(Input::Floats).chain([ni, n1, n2, no].map(|n| Input::Int(n as i64)));
    let f = |v: &[Var]| {
        let [w1, b1, w2, b2, w3, b3, x] = split(v, [n1 * ni, n1, n2 * n1, n2, no * n2, no, ni]);
        let layer = |w: &[Var], b: &[Var], x: &[Var]| -> Vec<Var> {
            w.chunks_exact(x.len()).zip(b).map(|(row, b)| inner(row, x) + *b).collect()
        };
        let h: Vec<Var> = layer(w1, b1, x).into_iter().map(relu).collect();
        let h: Vec<Var> = layer(w2, b2, &h).into_iter().map(relu).collect();
        let o = layer(w3, b3, &h);
        let top = o.iter().fold(ZERO(), |top, o| if o.value > top.value { *o } else { top });
        let e: Vec<Var> = o.iter().map(|o| (*o - top).exp()).collect();
        let total = e.iter().fold(ZERO(), |sum, e| sum + *e);
        vec![e.iter().map(|e| *e / total).fold(ZERO(), |sum, y| sum + y * y)]
    };
    let clif = include_str!("../../problems/nn.clif");
    Problem {
        hand: Some("nn_hand"),
        iterations: n1 * ni + n2 * n1 + no * n2,
        ..Problem::new("nn", "three layers 50-100-50-10, softmax", clif, args.collect(), f)
    }
}

pub(super) fn mlp(size: Size) -> Problem {
    let [a, b, c, n] = if size == Size::Small { [3, 9, 10, 4] } else { [128, 256, 128, 70] };
    let (lengths, x) = ([a * b, b * c, a * n, c * n], random(20, a * b + b * c + a * n + c * n));
    let mut rest = &x[..];
    let floats = lengths.map(|n| {
        let piece;
        (piece, rest) = rest.split_at(n);
        Input::Floats(piece.to_vec())
    });
    let args = floats.into_iter().chain([a, b, c, n].map(|n| Input::Int(n as i64))).collect();
    let f = |v: &[Var]| {
        let [w2, w1, y, x] = split(v, lengths);
        let product = |w: &[Var], columns: usize, x: &[Var]| -> Vec<Var> {
            let mut result = Vec::new();
            for w in w.chunks_exact(columns) {
                let mut row = vec![ZERO(); n];
                for (w, x) in w.iter().zip(x.chunks_exact(n)) {
                    row.iter_mut().zip(x).for_each(|(h, x)| *h += *w * *x);
                }
                result.extend(row);
            }
            result
        };
        let h: Vec<Var> = product(w1, c, x).into_iter().map(relu).collect();
        let o = product(w2, b, &h);
        vec![y.iter().zip(&o).fold(ZERO(), |sum, (y, o)| {
            let d = *y - *o;
            sum + d * d
        })]
    };
    let clif = include_str!("../../problems/mlp.clif");
    Problem {
        hand: Some("mlp_hand"),
        iterations: (a + c) * b * n,
        tolerance: 1e-11,
        ..Problem::new("mlp", "two matrix products accumulated in memory", clif, args, f)
    }
}
