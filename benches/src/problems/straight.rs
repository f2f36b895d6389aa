//! Code without loops: from one instruction to ten thousand, and as many with a branch in every
//! eight.

use std::fmt::Write;

use crate::problem::{Input, Problem, Size};
use crate::real::Var;

pub(super) fn mul(_: Size) -> Problem {
    let args = vec![Input::Active(3.0), Input::Active(4.0)];
    let clif = include_str!("../../problems/mul.clif");
    Problem { hand: Some("mul_hand"), ..Problem::new("mul", "one instruction", clif, args, |x| vec![x[0] * x[1]]) }
}

pub(super) fn rot(_: Size) -> Problem {
    let args = vec![Input::Floats((1..=7).map(f64::from).collect())];
    let clif = include_str!("../../problems/rot.clif");
    Problem {
        hand: Some("rot_hand"),
        ..Problem::new("rot", "a vector by a quaternion: three rows of a Jacobian", clif, args, |x| {
            let [vx, vy, vz, ux, uy, uz, s] = x else { unreachable!("seven inputs") };
            let (vx, vy, vz, ux, uy, uz, s) = (*vx, *vy, *vz, *ux, *uy, *uz, *s);
            let duv = ux * vx + uy * vy + uz * vz;
            let duu = ux * ux + uy * uy + uz * uz;
            let (k1, k2, k3) = (2.0 * duv, s * s - duu, 2.0 * s);
            let (cx, cy, cz) = (uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx);
            vec![k1 * ux + k2 * vx + k3 * cx, k1 * uy + k2 * vy + k3 * cy, k1 * uz + k2 * vz + k3 * cz]
        })
    }
}

/// Multiplications of the block.
const BLOCK: usize = 400;

/// x a^400, one product after the other, and its adjoint, which keeps all of them where Cranelift
/// sees fit.
pub(super) fn block(_: Size) -> Problem {
    let mut text = String::from("function %block(f64, f64) -> f64 system_v {\nblock0(v0: f64, v1: f64):\n");
    let line = |text: &mut String, inst: &str, n: &mut usize| {
        *n += 1;
        writeln!(text, "    v{n} = {inst}").expect("strings grow");
        *n
    };
    let (mut n, mut last) = (1, 0);
    for _ in 0..BLOCK {
        last = line(&mut text, &format!("fmul v{last}, v1"), &mut n);
    }
    writeln!(text, "    return v{last}\n}}").expect("strings grow");
    text += "\nfunction %block_hand(f64, f64) -> f64, f64 system_v {\nblock0(v0: f64, v1: f64):\n";
    let mut powers = vec![0];
    n = 1;
    for i in 0..BLOCK - 1 {
        powers.push(line(&mut text, &format!("fmul v{}, v1", powers[i]), &mut n));
    }
    let mut cotangent = line(&mut text, "f64const 0x1.0p0", &mut n);
    let mut by_a = None;
    for power in powers.into_iter().rev() {
        let term = line(&mut text, &format!("fmul v{cotangent}, v{power}"), &mut n);
        by_a = Some(by_a.map_or(term, |sum: usize| line(&mut text, &format!("fadd v{sum}, v{term}"), &mut n)));
        cotangent = line(&mut text, &format!("fmul v{cotangent}, v1"), &mut n);
    }
    writeln!(text, "    return v{cotangent}, v{}\n}}", by_a.unwrap_or(0)).expect("strings grow");
    let args = vec![Input::Active(0.9), Input::Active(0.99)];
    Problem {
        hand: Some("block_hand"),
        iterations: BLOCK,
        ..Problem::new("block", "400 multiplications, each by the last result", text, args, |x| {
            vec![(0..BLOCK).fold(x[0], |product, _| product * x[1])]
        })
    }
}

pub(super) fn straight_line(size: Size) -> Problem {
    let length = size.of(1_000, 10_000);
    let mut text = String::from("function %straight_line(f64, f64) -> f64 system_v {\nblock0(v0: f64, v1: f64):\n");
    text += "    v2 = f64const 0x1.0p-2\n    v3 = fadd v0, v1\n";
    // Every fourth value tends to the smaller root of v = ((v x + y) / 2)^2, so that nothing over-
    // or underflows.
    for i in 4..length + 2 {
        let n = i - 1;
        let inst = match i % 4 {
            0 => format!("fmul v{n}, v0"),
            1 => format!("fadd v{n}, v1"),
            2 => format!("fmul v{n}, v{n}"),
            _ => format!("fmul v{n}, v2"),
        };
        writeln!(text, "    v{i} = {inst}").expect("strings grow");
    }
    writeln!(text, "    return v{}\n}}", length + 1).expect("strings grow");
    let args = vec![Input::Active(0.9), Input::Active(0.3)];
    let f = |v: &[Var]| {
        let (x, y) = (v[0], v[1]);
        let last = (4..length + 2).fold(x + y, |last, i| match i % 4 {
            0 => last * x,
            1 => last + y,
            2 => last * last,
            _ => last * 0.25,
        });
        vec![last]
    };
    Problem { iterations: length, ..Problem::new("straight_line", "10 000 instructions in one block", text, args, f) }
}

/// Branches that join again, one after the other: above a bound a number is squared, below it is
/// raised.
pub(super) fn branches(size: Size) -> Problem {
    let length = size.of(1_000, 10_000);
    let mut text = String::from("function %branches(f64, f64) -> f64 system_v {\nblock0(v0: f64, v1: f64):\n");
    text += "    v2 = f64const 0x1.0p-2\n    v3 = fadd v0, v1\n    jump block1(v3)\n";
    let iterations = (length / 8).max(1);
    for i in 0..iterations {
        let (b, v) = (3 * i + 1, 10 * (i + 1));
        let (low, high, join) = (b + 1, b + 2, b + 3);
        let [is_low, part, raised, square, lowered] = [1, 2, 3, 4, 5].map(|k| v + k);
        write!(
            text,
            "block{b}(v{v}: f64):
    v{is_low} = fcmp lt v{v}, v1
    brif v{is_low}, block{low}, block{high}
block{low}:
    v{part} = fmul v{v}, v2
    v{raised} = fadd v{part}, v1
    jump block{join}(v{raised})
block{high}:
    v{square} = fmul v{v}, v{v}
    v{lowered} = fmul v{square}, v0
    jump block{join}(v{lowered})
"
        )
        .expect("strings grow");
    }
    let (b, v) = (3 * iterations + 1, 10 * (iterations + 1));
    writeln!(text, "block{b}(v{v}: f64):\n    return v{v}\n}}").expect("strings grow");
    let args = vec![Input::Active(0.9), Input::Active(0.3)];
    let f = |x: &[Var]| {
        let (high, low) = (x[0], x[1]);
        let last = (0..iterations)
            .fold(high + low, |last, _| if last.is_below(low) { last * 0.25 + low } else { last * last * high });
        vec![last]
    };
    Problem { iterations: length, ..Problem::new("branches", "a branch in every eight instructions", text, args, f) }
}
