//! Indices from memory, branches on data, recursion, a state machine.

use crate::data::{EDGES, noise, non_edges, random, sparse};
use crate::problem::{Input, Problem, Size};
use crate::real::Var;

pub(crate) fn spdot(size: Size) -> Problem {
    let (n, per) = (size.of(20, 1000), size.of(4, 10).min(10));
    let ((ca, ra), (cb, rb)) = (sparse(11, n, per), sparse(12, n, per));
    let entries = random(13, 2 * n * per);
    let (a, b) = entries.split_at(n * per);
    let args = vec![
        Input::Int(n as i64),
        Input::Longs(ca.clone()),
        Input::Longs(ra.clone()),
        Input::Longs(cb.clone()),
        Input::Longs(rb.clone()),
        Input::Floats(a.to_vec()),
        Input::Floats(b.to_vec()),
    ];
    let f = |x: &[Var]| {
        let (a, b) = x.split_at(n * per);
        let mut sum = Var::constant(0.0);
        for j in 0..n {
            let (mut i, mut k) = (ca[j] as usize, cb[j] as usize);
            while i < ca[j + 1] as usize && k < cb[j + 1] as usize {
                match ra[i].cmp(&rb[k]) {
                    std::cmp::Ordering::Equal => {
                        sum += a[i] * b[k];
                        i += 1;
                        k += 1;
                    }
                    std::cmp::Ordering::Less => i += 1,
                    std::cmp::Ordering::Greater => k += 1,
                }
            }
        }
        vec![sum]
    };
    let clif = include_str!("../../problems/spdot.clif");
    Problem {
        hand: Some("spdot_hand"),
        iterations: 2 * n * per,
        ..Problem::new("spdot", "inner product of sparse matrices", clif, args, f)
    }
}

pub(crate) fn spmv(size: Size) -> Problem {
    let (n, per) = (size.of(20, 1000).min(1024), size.of(4, 10).min(10));
    let (columns, rows) = sparse(11, n, per);
    let x = random(14, n * per + n);
    let args = vec![
        Input::Int(n as i64),
        Input::Longs(columns.clone()),
        Input::Longs(rows.clone()),
        Input::Floats(x[..n * per].to_vec()),
        Input::Floats(x[n * per..].to_vec()),
    ];
    let f = |x: &[Var]| {
        let (a, v) = x.split_at(n * per);
        let mut y = vec![Var::constant(0.0); n];
        for j in 0..n {
            for k in columns[j] as usize..columns[j + 1] as usize {
                y[rows[k] as usize] += a[k] * v[j];
            }
        }
        vec![y.iter().fold(Var::constant(0.0), |sum, y| sum + *y * *y)]
    };
    let clif = include_str!("../../problems/spmv.clif");
    Problem {
        hand: Some("spmv_hand"),
        iterations: n * per,
        ..Problem::new("spmv", "sparse matrix times vector, scattered", clif, args, f)
    }
}

/// The points lie where values of the loss, its gradient and its Hessian are known
/// (`crate::second`); its length is the dimension of the space.
pub(crate) fn embed(size: Size) -> Problem {
    let d = size.of(5, 5);
    let at = |point: usize, k: usize| (0.5 + 1.7 * k as f64 + 0.9 * point as f64).sin();
    let x = (0..10).flat_map(|point| (0..d).map(move |k| at(point, k))).collect();
    let groups = [EDGES.to_vec(), non_edges()];
    let pairs: Vec<i64> = groups.iter().flatten().flat_map(|(a, b)| [a - 1, b - 1]).collect();
    let [n1, n2] = [groups[0].len(), groups[1].len()];
    let args = vec![
        Input::Floats(x),
        Input::Longs(pairs.clone()),
        Input::Int(d as i64),
        Input::Int(n1 as i64),
        Input::Int(n2 as i64),
    ];
    let f = |x: &[Var]| {
        let group = |pairs: &[i64]| {
            let n = (pairs.len() / 2) as f64;
            let (mut lengths, mut squares) = (Var::constant(0.0), Var::constant(0.0));
            for pair in pairs.chunks_exact(2) {
                let (a, b) = (pair[0] as usize * d, pair[1] as usize * d);
                let square = (0..d).map(|k| x[a + k] - x[b + k]).fold(Var::constant(0.0), |sum, t| sum + t * t);
                lengths += square.sqrt();
                squares += square;
            }
            let mean = lengths / n;
            (mean, (squares / n - mean * mean) * (n / (n - 1.0)))
        };
        let ((m1, v1), (m2, v2)) = (group(&pairs[..2 * n1]), group(&pairs[2 * n1..]));
        let (spread, apart) = (v1 + v2, m1 - m2 + 0.1);
        vec![if apart.value > 0.0 { spread + (apart.exp() - 1.0) } else { spread }]
    };
    let clif = include_str!("../../problems/embed.clif");
    Problem {
        hand: Some("embed_hand"),
        iterations: n1 + n2,
        ..Problem::new("embed", "distances of ten points, pairs from memory", clif, args, f)
    }
}

pub(crate) fn machine(size: Size) -> Problem {
    let code: Vec<u8> = noise(size.of(50, 10_000), 13).iter().map(|x| ((x + 1.0) * 2.5) as u8).collect();
    let n = code.len();
    let args = vec![Input::Bytes(code.clone()), Input::Int(n as i64), Input::Floats(vec![0.5, 0.9, 0.3, 0.7])];
    let f = |x: &[Var]| {
        let end = code.iter().fold(Var::constant(0.0), |s, state| match state {
            0 => s + x[0],
            1 => x[1] * s,
            2 => s / (1.0 + s * s),
            3 => s - x[2] * x[3],
            _ => s,
        });
        vec![end]
    };
    let clif = include_str!("../../problems/machine.clif");
    Problem {
        hand: Some("machine_hand"),
        hand_adds: true,
        iterations: n,
        ..Problem::new("machine", "br_table in a loop, states at random", clif, args, f)
    }
}

pub(crate) fn recursive_sum(size: Size) -> Problem {
    let n = size.of(11, 1000);
    fn by_halves(x: &[Var]) -> Var {
        match x {
            [x] => *x * *x,
            _ => {
                let (left, right) = x.split_at(x.len() / 2);
                by_halves(left) + by_halves(right)
            }
        }
    }
    let args = vec![Input::Floats(noise(n, 12)), Input::Int(n as i64)];
    let clif = include_str!("../../problems/recursive_sum.clif");
    Problem {
        hand: Some("recursive_sum_hand"),
        hand_adds: true,
        iterations: 2 * n - 1,
        ..Problem::new("recursive_sum", "recursion over an array, by halves", clif, args, |x| vec![by_halves(x)])
    }
}

pub(crate) fn fib(size: Size) -> Problem {
    let n = size.of(6, 16);
    // Pairs of the function and of the number of calls.
    let calls = (1..n).fold((1, 1), |(a, b), _| (b, a + b + 1)).1;
    let f = |v: &[Var]| {
        let (x, y) = (v[0], v[1]);
        vec![(1..n).fold((Var::constant(1.0), x), |(a, b), _| (b, x * b + y * a)).1]
    };
    let args = vec![Input::Int32(n as i32), Input::Active(0.6), Input::Active(0.4)];
    let clif = include_str!("../../problems/fib.clif");
    Problem { iterations: calls, ..Problem::new("fib", "binary recursion, floats by value", clif, args, f) }
}
