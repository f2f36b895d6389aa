//! The problems. Sizes are such that a call takes between a microsecond and a millisecond.

use std::borrow::Cow;
use std::fmt::Write;

use crate::dual::Dual;
use crate::problem::{Input, Problem};

/// All problems, in the order of the table.
pub fn all() -> Vec<Problem> {
    vec![
        mul(),
        sum_squares(),
        dot("dot", "two streams, one chain of additions", include_str!("../problems/dot.clif")),
        dot("dot_f64x2", "the same with vectors", include_str!("../problems/dot_f64x2.clif")),
        logistic(),
        sumsin(),
        matvec(),
        mlp(),
        lorenz(),
        recursive_sum(),
        fib(),
        machine(),
        straight_line(),
    ]
}

/// `n` numbers in (-1, 1), the same in every run.
fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn problem(name: &'static str, about: &'static str, clif: &'static str) -> Problem {
    Problem {
        name,
        about,
        clif: Cow::Borrowed(clif),
        func: name,
        hand: None,
        args: Vec::new(),
        iterations: 1,
        value: 0.0,
        gradient: Vec::new(),
        tolerance: 1e-11,
    }
}

fn mul() -> Problem {
    Problem {
        hand: Some("mul_hand"),
        args: vec![Input::Active(3.0), Input::Active(5.0)],
        value: 15.0,
        gradient: vec![5.0, 3.0],
        ..problem("mul", "one instruction: what a call costs", include_str!("../problems/mul.clif"))
    }
}

fn sum_squares() -> Problem {
    let x = noise(10_000, 1);
    Problem {
        hand: Some("sum_squares_hand"),
        iterations: x.len(),
        value: x.iter().map(|x| x * x).sum(),
        gradient: x.iter().map(|x| 2.0 * x).collect(),
        args: vec![Input::Floats(x.clone()), Input::Int(x.len() as i64)],
        ..problem("sum_squares", "one stream", include_str!("../problems/sum_squares.clif"))
    }
}

fn dot(name: &'static str, about: &'static str, clif: &'static str) -> Problem {
    let (x, y) = (noise(10_000, 2), noise(10_000, 3));
    Problem {
        func: "dot",
        hand: Some("dot_hand"),
        iterations: x.len(),
        value: x.iter().zip(&y).map(|(x, y)| x * y).sum(),
        gradient: [y.clone(), x.clone()].concat(),
        args: vec![Input::Floats(x), Input::Floats(y), Input::Int(10_000)],
        ..problem(name, about, clif)
    }
}

fn logistic() -> Problem {
    let r = 2.5;
    Problem {
        hand: Some("logistic_hand"),
        args: vec![Input::Active(r), Input::Active(0.2), Input::Int(1000)],
        iterations: 1000,
        // It has converged.
        value: 1.0 - 1.0 / r,
        gradient: vec![1.0 / (r * r), 0.0],
        ..problem("logistic", "a carried float, each step nonlinear", include_str!("../problems/logistic.clif"))
    }
}

fn sumsin() -> Problem {
    let x = noise(1000, 4);
    Problem {
        hand: Some("sumsin_hand"),
        iterations: x.len(),
        value: x.iter().map(|x| x.sin()).sum(),
        gradient: x.iter().map(|x| x.cos()).collect(),
        args: vec![Input::Floats(x), Input::Int(1000)],
        ..problem("sumsin", "a call of the math library", include_str!("../problems/sumsin.clif"))
    }
}

fn matvec() -> Problem {
    const N: usize = 100;
    let (w, a, x) = (noise(N, 5), noise(N * N, 6), noise(N, 7));
    let product = |i: usize| a[i * N..][..N].iter().zip(&x).map(|(a, x)| a * x).sum::<f64>();
    let da = w.iter().flat_map(|w| x.iter().map(move |x| w * x));
    let dx = (0..N).map(|j| (0..N).map(|i| w[i] * a[i * N + j]).sum::<f64>());
    Problem {
        hand: Some("matvec_hand"),
        iterations: N * N,
        value: (0..N).map(|i| w[i] * product(i)).sum(),
        gradient: da.chain(dx).collect(),
        args: vec![
            Input::ConstFloats(w.clone()),
            Input::Floats(a.clone()),
            Input::Floats(x.clone()),
            Input::Int(N as i64),
        ],
        ..problem("matvec", "100 x 100 matrix times vector", include_str!("../problems/matvec.clif"))
    }
}

fn mlp() -> Problem {
    const M: usize = 64;
    let (w, b, u, x) = (noise(M * M, 8), noise(M, 9), noise(M, 10), noise(M, 11));
    let w: Vec<_> = w.iter().map(|w| w / 8.0).collect();
    let h: Vec<_> = (0..M).map(|i| (b[i] + (0..M).map(|j| w[i * M + j] * x[j]).sum::<f64>()).tanh()).collect();
    let db: Vec<_> = (0..M).map(|i| u[i] * (1.0 - h[i] * h[i])).collect();
    let dw = db.iter().flat_map(|d| x.iter().map(move |x| d * x));
    let dx = (0..M).map(|j| (0..M).map(|i| db[i] * w[i * M + j]).sum::<f64>());
    Problem {
        hand: Some("mlp_hand"),
        iterations: M * M,
        value: u.iter().zip(&h).map(|(u, h)| u * h).sum(),
        gradient: dw.chain(db.iter().copied()).chain(h.iter().copied()).chain(dx).collect(),
        args: vec![
            Input::Floats(w.clone()),
            Input::Floats(b.clone()),
            Input::Floats(u.clone()),
            Input::Floats(x.clone()),
            Input::Int(M as i64),
            Input::Int(M as i64),
        ],
        ..problem("mlp", "64 x 64 network layer, tanh", include_str!("../problems/mlp.clif"))
    }
}

fn lorenz() -> Problem {
    const H: f64 = 1e-3;
    const STEPS: usize = 10_000;
    type D = Dual<6>;
    let start = [1.0, 2.0, 20.0, 10.0, 28.0, 2.5];
    let [x, y, z, sigma, rho, beta] = D::inputs(start);
    let slope = |[x, y, z]: [D; 3]| [sigma * (y - x), x * (rho - z) - y, x * y - beta * z];
    let ahead = |s: [D; 3], h: f64, k: [D; 3]| -> [D; 3] { std::array::from_fn(|i| s[i] + h * k[i]) };
    let mut s = [x, y, z];
    for _ in 0..STEPS {
        let k1 = slope(s);
        let k2 = slope(ahead(s, H / 2.0, k1));
        let k3 = slope(ahead(s, H / 2.0, k2));
        let k4 = slope(ahead(s, H, k3));
        s = std::array::from_fn(|i| s[i] + (H / 6.0) * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]));
    }
    let end = s[0] + s[1] + s[2];
    Problem {
        hand: Some("lorenz_hand"),
        args: start.into_iter().map(Input::Active).chain([Input::Int(STEPS as i64)]).collect(),
        iterations: STEPS,
        value: end.value,
        gradient: end.slope.to_vec(),
        // Errors of rounding grow as the solution forgets its start.
        tolerance: 1e-7,
        ..problem("lorenz", "10 000 steps of Runge-Kutta, 12 carried floats", include_str!("../problems/lorenz.clif"))
    }
}

fn recursive_sum() -> Problem {
    let x = noise(1000, 12);
    Problem {
        hand: Some("recursive_sum_hand"),
        iterations: 2 * x.len() - 1,
        value: x.iter().map(|x| x * x).sum(),
        gradient: x.iter().map(|x| 2.0 * x).collect(),
        args: vec![Input::Floats(x), Input::Int(1000)],
        ..problem("recursive_sum", "recursion over an array, by halves", include_str!("../problems/recursive_sum.clif"))
    }
}

fn fib() -> Problem {
    const N: usize = 16;
    type D = Dual<2>;
    let at = [0.6, 0.4];
    let [x, y] = D::inputs(at);
    // Pairs of the function and of the number of calls.
    let mut pairs = ((D::constant(1.0), 1), (x, 1));
    for _ in 1..N {
        let ((a, m), (b, n)) = pairs;
        pairs = ((b, n), (x * b + y * a, m + n + 1));
    }
    let (end, calls) = pairs.1;
    Problem {
        args: vec![Input::Int32(N as i32), Input::Active(at[0]), Input::Active(at[1])],
        iterations: calls,
        value: end.value,
        gradient: end.slope.to_vec(),
        ..problem("fib", "binary recursion, floats by value", include_str!("../problems/fib.clif"))
    }
}

fn machine() -> Problem {
    type D = Dual<4>;
    let at = [0.5, 0.9, 0.3, 0.7];
    let code: Vec<u8> = noise(10_000, 13).iter().map(|x| ((x + 1.0) * 2.5) as u8).collect();
    let x = D::inputs(at);
    let end = code.iter().fold(D::constant(0.0), |s, state| match state {
        0 => s + x[0],
        1 => x[1] * s,
        2 => s / (D::constant(1.0) + s * s),
        3 => s - x[2] * x[3],
        _ => s,
    });
    Problem {
        hand: Some("machine_hand"),
        args: vec![Input::Bytes(code), Input::Int(10_000), Input::Floats(at.to_vec())],
        iterations: 10_000,
        value: end.value,
        gradient: end.slope.to_vec(),
        ..problem("machine", "br_table in a loop, states at random", include_str!("../problems/machine.clif"))
    }
}

/// Instructions of the straight line.
const LINE: usize = 10_000;

fn straight_line() -> Problem {
    type D = Dual<2>;
    let at = [0.9, 0.3];
    let [x, y] = D::inputs(at);
    let mut text = String::from("function %straight_line(f64, f64) -> f64 system_v {\nblock0(v0: f64, v1: f64):\n");
    text += "    v2 = f64const 0x1.0p-2\n    v3 = fadd v0, v1\n";
    let mut last = x + y;
    for i in 4..LINE + 2 {
        let n = i - 1;
        // Every fourth value tends to the smaller root of v = ((v x + y) / 2)^2, so that nothing over- or underflows.
        let (inst, value) = match i % 4 {
            0 => (format!("fmul v{n}, v0"), last * x),
            1 => (format!("fadd v{n}, v1"), last + y),
            2 => (format!("fmul v{n}, v{n}"), last * last),
            _ => (format!("fmul v{n}, v2"), last * D::constant(0.25)),
        };
        writeln!(text, "    v{i} = {inst}").expect("strings grow");
        last = value;
    }
    writeln!(text, "    return v{}\n}}", LINE + 1).expect("strings grow");
    Problem {
        clif: Cow::Owned(text),
        args: at.into_iter().map(Input::Active).collect(),
        iterations: LINE,
        value: last.value,
        gradient: last.slope.to_vec(),
        ..problem("straight_line", "10 000 instructions in one block", "")
    }
}
