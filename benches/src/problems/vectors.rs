//! Loops over arrays.

use crate::data::{noise, random};
use crate::problem::{Input, Problem, Size};
use crate::real::Var;

/// Numbers that are exact in single precision.
fn singles(n: usize, seed: u64) -> Vec<f64> {
    noise(n, seed).into_iter().map(|x| f64::from(x as f32)).collect()
}

/// A reduction over one array: x and its length.
fn reduction(
    name: &'static str,
    about: &'static str,
    clif: &'static str,
    x: Vec<f64>,
    f: impl FnOnce(&[Var]) -> Var,
) -> Problem {
    let n = x.len();
    let args = vec![Input::Floats(x), Input::Int(n as i64)];
    Problem { iterations: n, ..Problem::new(name, about, clif, args, |x| vec![f(x)]) }
}

fn total(x: impl Iterator<Item = Var>) -> Var {
    x.fold(Var::constant(0.0), |sum, x| sum + x)
}

pub(super) fn sum(size: Size) -> Problem {
    let (clif, x) = (include_str!("../../problems/sum.clif"), random(16, size.of(10, 1000)));
    let p = reduction("sum", "one stream, one chain of additions", clif, x, |x| total(x.iter().copied()));
    Problem { hand: Some("sum_hand"), ..p }
}

pub(super) fn sum_squares(size: Size) -> Problem {
    let (clif, x) = (include_str!("../../problems/sum_squares.clif"), noise(size.of(10, 10_000), 1));
    let p = reduction("sum_squares", "one stream", clif, x, |x| total(x.iter().map(|x| *x * *x)));
    Problem { hand: Some("sum_squares_hand"), hand_adds: true, ..p }
}

pub(super) fn sumsin(size: Size) -> Problem {
    let (clif, x) = (include_str!("../../problems/sumsin.clif"), random(17, size.of(10, 1000)));
    let p = reduction("sumsin", "a call of the math library", clif, x, |x| total(x.iter().map(|x| x.sin())));
    Problem { hand: Some("sumsin_hand"), ..p }
}

pub(super) fn sce(size: Size) -> Problem {
    let (clif, x) = (include_str!("../../problems/sce.clif"), random(18, size.of(10, 100).min(128)));
    let f = |x: &[Var]| total(x.iter().map(|x| x.exp().cos().sin()));
    let p = reduction("sce", "three calls an element, through an array on the stack", clif, x, f);
    Problem { hand: Some("sce_hand"), ..p }
}

pub(super) fn dot(size: Size) -> Problem {
    let n = size.of(10, 10_000);
    let (a, b) = ((1..=n).map(|i| i as f64), (0..n).map(|i| 3.0 + 2.0 * i as f64));
    let args = vec![Input::Floats(a.collect()), Input::Floats(b.collect()), Input::Int(n as i64)];
    let clif = include_str!("../../problems/dot.clif");
    Problem {
        hand: Some("dot_hand"),
        iterations: n,
        ..Problem::new("dot", "two streams, one chain of additions", clif, args, |x| {
            vec![total((0..n).map(|i| x[i] * x[n + i]))]
        })
    }
}

/// The sum of products in `lanes` chains, which are added at the end.
fn lanes(x: &[Var], lanes: usize) -> Vec<Var> {
    let n = x.len() / 2;
    let chain = |lane: usize| total((lane..n).step_by(lanes).map(|i| x[i] * x[n + i]));
    vec![(1..lanes).fold(chain(0), |sum, lane| sum + chain(lane))]
}

pub(super) fn dot_f64x2(size: Size) -> Problem {
    let n = size.of(10, 10_000);
    let args = vec![Input::Floats(noise(n, 2)), Input::Floats(noise(n, 3)), Input::Int(n as i64)];
    let clif = include_str!("../../problems/dot_f64x2.clif");
    Problem {
        func: "dot",
        hand: Some("dot_hand"),
        hand_adds: true,
        iterations: n,
        ..Problem::new("dot_f64x2", "two elements at a time", clif, args, |x| lanes(x, 2))
    }
}

/// Products of two numbers of 24 bits are exact in double precision, so the sum there tells how far
/// the one in single precision may be off; nothing but the sum is rounded, and the gradient is
/// exact.
pub(super) fn dot_f32(size: Size) -> Problem {
    let n = size.of(10, 10_000);
    let args = vec![Input::Singles(singles(n, 2)), Input::Singles(singles(n, 3)), Input::Int(n as i64)];
    let clif = include_str!("../../problems/dot_f32.clif");
    let (a, b) = (singles(n, 2), singles(n, 3));
    let value = a.iter().zip(&b).fold(0.0f32, |sum, (a, b)| sum + *a as f32 * *b as f32);
    let mut problem = Problem::new("dot_f32", "in single precision", clif, args, |x| lanes(x, 1));
    problem.reference.values = vec![f64::from(value)];
    Problem { hand: Some("dot_f32_hand"), iterations: n, ..problem }
}
