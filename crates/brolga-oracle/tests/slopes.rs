//! Every float operation and every imported function: the tape against finite differences, dual
//! numbers, and its own derivative.

use brolga_oracle::fd::{self, Verdict};
use brolga_oracle::{Oracle, OracleArg, Tangent};
use brolga_testing::program;

use crate::common;
use crate::common::{close, f64_of, f64v, func};

/// (instruction or `call NAME`, points)
fn operations() -> Vec<(String, Vec<Vec<f64>>)> {
    let mut all: Vec<(String, Vec<Vec<f64>>)> = Vec::new();
    let mut add = |op: &str, points: &[&[f64]]| all.push((op.to_owned(), points.iter().map(|p| p.to_vec()).collect()));
    let pairs: [&[f64]; 4] = [&[1.3, 0.7], &[-2.1, 0.4], &[0.3, -1.7], &[-0.9, -3.2]];
    for op in ["fadd", "fsub", "fmul", "fdiv", "fmin", "fmax", "fcopysign"] {
        add(op, &pairs);
    }
    for op in ["atan2", "hypot", "fmod", "remainder", "fmin", "fmax", "fdim", "copysign"] {
        add(&format!("call {op}"), &pairs);
    }
    add("call fmod", &[&[17.3, 3.1], &[-17.3, 3.1]]);
    add("call remainder", &[&[17.3, 3.1], &[-17.3, 3.1]]);
    add("call atan2", &[&[1e-160, 2e-160], &[3e200, -1e200]]);
    add("call pow", &[&[1.3, 0.7], &[2.5, -1.3], &[0.2, 3.0], &[4.0, 0.0], &[3.0, 1.0], &[3.0, 2.0]]);
    for op in ["fma", "call fma"] {
        add(op, &[&[1.3, -0.7, 2.0], &[0.1, 0.2, -0.3]]);
    }
    let any: [&[f64]; 5] = [&[0.3], &[-0.7], &[1.6], &[-2.4], &[3.1]];
    for op in ["fneg", "fabs", "ceil", "floor", "trunc", "nearest"] {
        add(op, &any);
    }
    for op in [
        "sin",
        "cos",
        "tan",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "cbrt",
        "erf",
        "erfc",
        "tgamma",
        "lgamma",
        "fabs",
        "floor",
        "ceil",
        "trunc",
        "round",
        "roundeven",
        "rint",
        "nearbyint",
    ] {
        add(&format!("call {op}"), &any);
    }
    let positive: [&[f64]; 4] = [&[0.2], &[0.9], &[3.7], &[120.0]];
    add("sqrt", &positive);
    for op in ["sqrt", "log", "log2", "log10", "log1p"] {
        add(&format!("call {op}"), &positive);
    }
    add("call log1p", &[&[-0.6]]);
    add("call acosh", &[&[1.2], &[5.0]]);
    for op in ["asin", "acos", "atanh"] {
        add(&format!("call {op}"), &[&[0.3], &[-0.8]]);
    }
    all
}

/// Whether steps of a usual size make sense at `x`.
fn ordinary(x: &[f64]) -> bool {
    x.iter().all(|&x| x == 0.0 || (1e-3..1e3).contains(&x.abs()))
}

/// `op` applied to `n` parameters, then multiplied by 1.5 so that there is something after it.
fn text(op: &str, n: usize, single: bool) -> String {
    let ty = if single { "f32" } else { "f64" };
    let params: Vec<String> = (0..n).map(|i| format!("v{i}")).collect();
    let list = vec![ty; n].join(", ");
    let typed: Vec<String> = params.iter().map(|p| format!("{p}: {ty}")).collect();
    let (decl, inst) = match op.strip_prefix("call ") {
        None => (String::new(), format!("{op} {}", params.join(", "))),
        Some(name) => {
            let name = if single { format!("{name}f") } else { name.to_owned() };
            (format!("fn0 = %{name}({list}) -> {ty} system_v"), format!("call fn0({})", params.join(", ")))
        }
    };
    format!(
        "function %f({list}) -> {ty} system_v {{\n{decl}\nblock0({}):\nv8 = {inst}\nv9 = {ty}const 0x1.8p0\nv10 = fmul v8, v9\nreturn v10\n}}",
        typed.join(", ")
    )
}

#[test]
fn tape_against_finite_differences_and_duals() {
    let mut n_smooth = 0;
    for (op, points) in operations() {
        for x in points {
            let p = program(&text(&op, x.len(), false));
            let f = func(&p, "f");
            let oracle = Oracle::new(&p);
            let args: Vec<OracleArg> = x.iter().map(|&x| OracleArg::active(f64v(x))).collect();
            let g = unsafe { oracle.gradient(f, &args, &[f64v(1.0)]) }.unwrap_or_else(|e| panic!("{op}: {e}"));
            let lanes: Vec<f64> = g.arg_lanes.iter().map(|l| l.as_ref().unwrap()[0]).collect();
            let value = |x: &[f64]| unsafe {
                let args: Vec<_> = x.iter().map(|&x| f64v(x)).collect();
                Ok(f64_of(&oracle.run(f, &args)?[0]))
            };
            for (i, v) in fd::gradient(value, &x, &fd::Options::default()).into_iter().enumerate() {
                // Where a step of relative size leaves the smooth piece there is nothing to compare
                // with.
                if ordinary(&x) {
                    assert!(!matches!(v, Verdict::Unreliable(_)), "{op} at {x:?}: {v:?}");
                    assert!(v.accepts(lanes[i], 1e-9), "{op} at {x:?}, operand {i}: {} but {v:?}", lanes[i]);
                    n_smooth += 1;
                }
                let mut t = vec![Tangent::Zero; x.len()];
                t[i] = Tangent::Lanes(vec![1.0]);
                let d = unsafe { oracle.tangent(f, &args, &t) }.unwrap();
                assert!(close(d.results[0].as_ref().unwrap()[0], lanes[i], 1e-15), "{op} at {x:?}");
            }
        }
    }
    assert!(n_smooth > 150, "{n_smooth}");
}

#[test]
fn second_derivatives_against_differences_of_first() {
    for (op, points) in operations() {
        for x in points {
            if !ordinary(&x) {
                continue;
            }
            let p = program(&text(&op, x.len(), false));
            let f = func(&p, "f");
            let oracle = Oracle::new(&p);
            let gradient = |x: &[f64]| unsafe {
                let args: Vec<OracleArg> = x.iter().map(|&x| OracleArg::active(f64v(x))).collect();
                let g = oracle.gradient(f, &args, &[f64v(1.0)])?;
                let lanes = g.arg_lanes.iter().map(|l| l.as_ref().unwrap()[0]);
                Ok::<_, brolga_oracle::OracleError>(lanes.collect::<Vec<f64>>())
            };
            let args: Vec<OracleArg> = x.iter().map(|&x| OracleArg::active(f64v(x))).collect();
            for i in 0..x.len() {
                let mut t = vec![Tangent::Zero; x.len()];
                t[i] = Tangent::Lanes(vec![1.0]);
                let h = unsafe { oracle.hessian_vector(f, &args, &t, &[f64v(1.0)]) }.unwrap();
                for j in 0..x.len() {
                    let along = h.along.arg_lanes[j].as_ref().unwrap()[0];
                    let mut point = x.clone();
                    let second = |t: f64| {
                        point[i] = t;
                        gradient(&point).map(|g| g[j])
                    };
                    let v = fd::derivative(second, x[i], &fd::Options::default());
                    assert!(v.accepts(along, 1e-8), "{op} at {x:?}, ({i}, {j}): {along} but {v:?}");
                }
            }
        }
    }
}

#[test]
fn single_precision_has_the_same_slopes() {
    for (op, points) in operations() {
        for x in points {
            let x: Vec<f64> = x.iter().map(|&x| f64::from(x as f32)).collect();
            if !ordinary(&x) {
                continue;
            }
            let of = |single: bool| {
                let p = program(&text(&op, x.len(), single));
                let arg = |x: f64| if single { common::f32v(x as f32) } else { f64v(x) };
                let args: Vec<OracleArg> = x.iter().map(|&x| OracleArg::active(arg(x))).collect();
                let g = unsafe { Oracle::new(&p).gradient(func(&p, "f"), &args, &[arg(1.0)]) };
                let g = g.unwrap_or_else(|e| panic!("{op}: {e}"));
                g.reverse.arg_lanes.into_iter().map(|l| l.unwrap()[0]).collect::<Vec<f64>>()
            };
            for (a, b) in of(true).into_iter().zip(of(false)) {
                assert!(close(a, b, 1e-5), "{op} at {x:?}: {a}, not {b}");
            }
        }
    }
}
