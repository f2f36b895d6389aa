//! The example `formula`: a frontend whose module is wrapped.
//!
//! A gradient is that of `L(x) = seed·f(x) + ⟨shadow, x after the call⟩`, whether the function only
//! reads an argument or overwrites it: differences of `L` are the oracle of each call.

#[path = "../examples/formula/codegen.rs"]
mod codegen;
#[path = "../examples/formula/parse.rs"]
mod parse;
#[path = "../examples/formula/run.rs"]
mod run;

use run::{Arg, Formulas};

fn formulas(text: &str) -> Formulas {
    let program = parse::program(text).unwrap_or_else(|e| panic!("{e}"));
    Formulas::new(&program).unwrap_or_else(|e| panic!("{e}"))
}

fn file(name: &str) -> Formulas {
    let path = format!("{}/examples/formula/formulas/{name}.formula", env!("CARGO_MANIFEST_DIR"));
    formulas(&std::fs::read_to_string(path).unwrap())
}

fn close(is: f64, want: f64, digits: i32) -> bool {
    (is - want).abs() <= 10_f64.powi(-digits) * want.abs().max(1.0)
}

/// Compare a gradient with differences, twice: the second time with the shadows that the first
/// has left. The first gradient is the answer.
fn checked(f: &mut Formulas, name: &str, args: &[Arg], seed: f64) -> Vec<Arg> {
    let mut shadows: Vec<Arg> = args.iter().map(Arg::zero).collect();
    for (k, x) in shadows.iter_mut().flat_map(|s| s.floats().iter_mut()).enumerate() {
        *x = 0.5 - 0.375 * (k % 5) as f64;
    }
    let mut first = None;
    for _ in 0..2 {
        let before = shadows.clone();
        let mut objective = |args: &[Arg]| {
            let mut after = args.to_vec();
            let value = f.value(name, &mut after).unwrap();
            let product = |(a, s): (&mut Arg, &Arg)| -> f64 {
                let mut s = s.clone();
                a.floats().iter().zip(s.floats()).map(|(x, s)| x * *s).sum()
            };
            seed * value + after.iter_mut().zip(&before).map(product).sum::<f64>()
        };
        let mut want = shadows.clone();
        for i in 0..args.len() {
            for k in 0..want[i].floats().len() {
                let mut moved = |h: f64| {
                    let mut args = args.to_vec();
                    args[i].floats()[k] += h;
                    objective(&args)
                };
                let slope = |h: f64, moved: &mut dyn FnMut(f64) -> f64| (moved(h) - moved(-h)) / (2.0 * h);
                // The error of second order cancels.
                let (wide, narrow) = (slope(2e-4, &mut moved), slope(1e-4, &mut moved));
                want[i].floats()[k] = narrow + (narrow - wide) / 3.0;
            }
        }
        let mut after = args.to_vec();
        let mut plain = args.to_vec();
        let value = f.gradient(name, &mut after, seed, &mut shadows).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(value, f.value(name, &mut plain).unwrap(), "{name}");
        assert_eq!(after, plain, "memory is as the function leaves it");
        for (is, want) in shadows.iter_mut().zip(&mut want) {
            for (is, want) in is.floats().iter().zip(want.floats()) {
                assert!(close(*is, *want, 8), "{name} {args:?}: {is} {want}");
            }
        }
        first.get_or_insert(shadows.clone());
    }
    first.expect("it ran")
}

/// The gradient without what the shadows held.
/// Compare a product of a function that only reads its arguments with differences of gradients.
fn checked_product(f: &mut Formulas, name: &str, args: &[Arg]) {
    let mut vector: Vec<Arg> = args.iter().map(Arg::zero).collect();
    for (k, x) in vector.iter_mut().flat_map(|v| v.floats().iter_mut()).enumerate() {
        *x = 0.75 - 0.5 * (k % 4) as f64;
    }
    let moved = |h: f64| -> Vec<Arg> {
        let mut out = args.to_vec();
        for (x, v) in out.iter_mut().zip(vector.clone().iter_mut()) {
            x.floats().iter_mut().zip(v.floats()).for_each(|(x, v)| *x += h * *v);
        }
        out
    };
    let mut slope = |h: f64| -> Vec<f64> {
        let [mut up, mut down] = [h, -h].map(|h| gradient(f, name, &moved(h)));
        let floats = |all: &mut [Arg]| all.iter_mut().flat_map(|a| a.floats().to_vec()).collect::<Vec<_>>();
        floats(&mut up).iter().zip(floats(&mut down)).map(|(up, down)| (up - down) / (2.0 * h)).collect()
    };
    let (wide, narrow) = (slope(2e-4), slope(1e-4));
    for _ in 0..2 {
        let mut found = f.product(name, args, &vector).unwrap_or_else(|e| panic!("{e}"));
        let found: Vec<f64> = found.iter_mut().flat_map(|a| a.floats().to_vec()).collect();
        for ((is, wide), narrow) in found.iter().zip(&wide).zip(&narrow) {
            let want = narrow + (narrow - wide) / 3.0;
            assert!(close(*is, want, 7), "{name} {args:?}: {is} {want}");
        }
    }
}

fn gradient(f: &mut Formulas, name: &str, args: &[Arg]) -> Vec<Arg> {
    let mut shadows: Vec<Arg> = args.iter().map(Arg::zero).collect();
    f.gradient(name, &mut args.to_vec(), 1.0, &mut shadows).unwrap_or_else(|e| panic!("{e}"));
    shadows
}

#[test]
fn rosenbrock() {
    let mut f = file("rosenbrock");
    for n in 2..7 {
        let x: Vec<f64> = (0..n).map(|i| 0.8 + 0.3 * f64::from(i % 3)).collect();
        let args = [Arg::Array(x.clone()), Arg::Int(n.into())];
        checked(&mut f, "rosenbrock", &args, -1.5);
        checked_product(&mut f, "rosenbrock", &args);
        let Arg::Array(g) = &gradient(&mut f, "rosenbrock", &args)[0] else { panic!("an array") };
        for i in 0..x.len() {
            let right = x.get(i + 1).map_or(0.0, |r| -400.0 * x[i] * (r - x[i] * x[i]) - 2.0 * (1.0 - x[i]));
            let left = if i == 0 { 0.0 } else { 200.0 * (x[i] - x[i - 1] * x[i - 1]) };
            assert!(close(g[i], left + right, 13), "{n} {i}: {} {}", g[i], left + right);
        }
    }
}

#[test]
fn a_fit() {
    let mut f = file("fit");
    let (t, y) = (vec![0.0, 0.5, 1.25, 2.0], vec![1.0, 0.3, -0.4, 0.1]);
    let p = vec![1.2, 0.4, 2.0, 0.1];
    let args = [Arg::Array(p.clone()), Arg::Array(t.clone()), Arg::Array(y.clone()), Arg::Int(4)];
    checked(&mut f, "loss", &args, 2.0);
    checked_product(&mut f, "loss", &args);
    let g = gradient(&mut f, "loss", &args);
    let wave = |t: f64| p[0] * (-p[1] * t).exp() * (p[2] * t + p[3]).cos();
    let miss: Vec<f64> = t.iter().zip(&y).map(|(t, y)| wave(*t) - y).collect();
    let amplitude: f64 = t.iter().zip(&miss).map(|(t, m)| m * wave(*t) / p[0]).sum();
    let decay: f64 = t.iter().zip(&miss).map(|(t, m)| -m * wave(*t) * t).sum();
    let (Arg::Array(gp), Arg::Array(gy)) = (&g[0], &g[2]) else { panic!("arrays") };
    assert!(close(gp[0], amplitude, 13) && close(gp[1], decay, 13), "{gp:?} {amplitude} {decay}");
    assert!(gy.iter().zip(&miss).all(|(g, m)| close(*g, -m, 13)), "{gy:?} {miss:?}");
    checked(&mut f, "wave", &[Arg::Array(p), Arg::Float(0.7)], 0.5);
}

#[test]
fn recurrences() {
    let mut f = file("recurrence");
    for n in [0, 1, 2, 7] {
        let [x, r] = [0.3, 2.7];
        checked(&mut f, "logistic", &[Arg::Float(x), Arg::Float(r), Arg::Int(n)], 1.25);
        checked_product(&mut f, "logistic", &[Arg::Float(x), Arg::Float(r), Arg::Int(n)]);
        let g = gradient(&mut f, "logistic", &[Arg::Float(x), Arg::Float(r), Arg::Int(n)]);
        let (mut now, mut slope) = (x, 1.0);
        for _ in 0..n {
            slope *= r * (1.0 - 2.0 * now);
            now *= r * (1.0 - now);
        }
        let Arg::Float(g) = g[0] else { panic!("a float") };
        assert!(close(g, slope, 13), "{n}: {g} {slope}");
        // What it writes has seeds in its shadow, and leaves zeros there.
        let out = Arg::Array(vec![7.0; n as usize + 2]);
        let shadows = checked(&mut f, "orbit", &[Arg::Float(x), Arg::Float(r), out, Arg::Int(n)], 1.25);
        let Arg::Array(shadow) = &shadows[2] else { panic!("an array") };
        let (written, rest) = shadow.split_at(n as usize + 1);
        assert!(written.iter().all(|x| *x == 0.0) && rest[0] != 0.0, "{shadow:?}");
    }
    for a in [0.01, 2.0, 400.0] {
        let g = gradient(&mut f, "root", &[Arg::Float(a)]);
        let Arg::Float(g) = g[0] else { panic!("a float") };
        assert!(close(g, 0.5 / f64::sqrt(a), 7), "{a}: {g}");
    }
    checked(&mut f, "root", &[Arg::Float(2.0)], 3.0);
}

#[test]
fn a_recursive_function() {
    let mut f = file("recursive");
    for n in [0_i64, 1, 2, 3, 6, 17] {
        let x = 0.3_f64;
        checked(&mut f, "chebyshev", &[Arg::Int(n), Arg::Float(x)], -0.5);
        checked_product(&mut f, "chebyshev", &[Arg::Int(n), Arg::Float(x)]);
        let g = gradient(&mut f, "chebyshev", &[Arg::Int(n), Arg::Float(x)]);
        // cos(n t) of x = cos t.
        let (t, n) = (x.acos(), n as f64);
        let want = n * (n * t).sin() / t.sin();
        let Arg::Float(g) = g[1] else { panic!("a float") };
        assert!(close(g, want, 10), "{n}: {g} {want}");
    }
    checked(&mut f, "series", &[Arg::Float(0.3)], 2.0);
}

#[test]
fn every_construct() {
    let mut f = formulas(
        "fn clamp(x: float) { if x < -1 { -1.0 } else if x > 1 { 1.0 } else { x } }
        fn late(x: [float], n: int) {
            let i = 0;
            let best = x[0];
            while i < n {
                if x[i] >= best { best = x[i]; }
                i = i + 1;
            }
            best
        }
        fn swap(x: [float], y: [float], n: int) {
            for i in 0..n {
                let keep = x[i];
                x[i] = 2 * y[n - 1 - i];
                y[n - 1 - i] = keep * keep;
            }
            0
        }
        fn inner(x: float, n: int) {
            let total = 0.0;
            for i in 0..n {
                for j in i..n {
                    let w = [x, x * i, sin(x * j)];
                    total = total + clamp(w[j - i] / (1 + i)) * w[0];
                }
            }
            total
        }
        fn calls(x: float, y: float) {
            x ^ y + pow(y, 2) + hypot(x, y) - -x ^ 2 / 3 + tanh(x) * fabs(y) + log(x) * sqrt(y) + atan(x * y)
                + cosh(x) - sinh(y) + tan(x / 4) * cos(y) * exp(-x)
        }",
    );
    for x in [-2.0, -0.5, 0.25, 3.0] {
        checked(&mut f, "clamp", &[Arg::Float(x)], 1.5);
    }
    let x = Arg::Array(vec![0.5, 2.0, -1.0]);
    checked(&mut f, "late", &[x.clone(), Arg::Int(3)], 1.5);
    checked(&mut f, "swap", &[x, Arg::Array(vec![1.5, -0.25, 0.75]), Arg::Int(3)], 1.0);
    checked(&mut f, "inner", &[Arg::Float(0.4), Arg::Int(3)], 0.5);
    checked(&mut f, "calls", &[Arg::Float(1.3), Arg::Float(0.8)], -2.0);
}

/// A function of the language that has the name of a function of C which it does not know.
#[test]
fn a_name_of_c_is_no_function_of_c() {
    let mut f = formulas("fn cbrt(x: float) { x * x } fn erf(x: float) { 3 * x } fn f(x: float) { cbrt(x) + erf(x) }");
    assert_eq!(gradient(&mut f, "f", &[Arg::Float(5.0)]), [Arg::Float(13.0)]);
}

#[test]
fn the_gamma_function_needs_no_run_time() {
    let mut f = formulas("fn f(x: float) { lgamma(x) * x }");
    checked(&mut f, "f", &[Arg::Float(2.5)], -2.0);
}

#[test]
fn errors_have_a_line_and_a_column() {
    let refused = |text: &str| {
        let program = match parse::program(text) {
            Ok(program) => program,
            Err(e) => return e.to_string(),
        };
        Formulas::new(&program).map(drop).expect_err("it is refused").to_string()
    };
    for (text, want) in [
        ("fn f(x: float) {\n    x +\n}", "3:1: an expression is expected here, not `}`"),
        ("fn f(x float) { x }", "1:8: `:` is expected here, not `float`"),
        ("fn f(x: double) { x }", "1:9: `float`, `int` or `[float]` is expected here, not `double`"),
        ("fn f(x: float) { x", "1:19: `;` is expected here, not the end of the text"),
        ("fn let(x: float) { x }", "1:4: a name is expected here, not `let`"),
        ("# ü\nfn f(x: float) { x $ 2 }", "2:20: `$` is no symbol of the language"),
        ("fn f() { 99999999999999999999999 + x }", "1:36: there is no variable `x`"),
        ("fn f() { 1.e }", "1:11: `.` is no symbol of the language"),
        ("x", "1:1: `fn` is expected here, not `x`"),
        ("fn f() { let x = 1; }", "1:4: `f` has no value: its body must end in an expression"),
        ("fn f(x: float) { g(x) }", "1:18: there is no function `g`"),
        ("fn f(x: float) { sin(x, x) }", "1:18: `sin` has 1 parameters, not 2"),
        ("fn f(x: float) { 1 } fn f() { 2 }", "1:25: there is a function `f` already"),
        ("fn cos(x: float) { 1 }", "1:4: there is a function `cos` already"),
        ("fn f(x: float) { x[0] }", "1:18: this is a float, but an array is expected"),
        ("fn f(x: [float]) { x[1.5] }", "1:22: this is a float, but an integer is expected"),
        ("fn f(x: [float]) { x }", "1:20: this is an array, but a float is expected"),
        ("fn f(x: float) { let s = 0; s = s + x; s }", "1:33: this is a float, but an integer is expected"),
        ("fn f(x: float) { let y = if x < 1 { 1.0 }; y }", "1:26: this `if` has no value: both arms must end in one"),
        ("fn f(x: float) { if x < 1 { 1 } else { x } }", "1:40: this is a float, but an integer is expected"),
        ("fn f(x: float) { for i in 0..2 { let y = x; } y }", "1:47: there is no variable `y`"),
    ] {
        assert_eq!(refused(text), want, "{text}");
    }
    let deep = format!("fn f() {{ {} }}", "(".repeat(10_000));
    assert_eq!(refused(&deep), "1:110: what is here stands too deep in other expressions");
    let found = parse::expression("1 2").expect_err("it is no expression").to_string();
    assert_eq!(found, "1:3: an operator or the end is expected here, not `2`");
}

/// Lines that the guide adds are lines of the example.
#[test]
fn the_guide_shows_the_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let guide = std::fs::read_to_string(format!("{root}../../docs/EMBEDDING.md")).unwrap();
    let source = std::fs::read_to_string(format!("{root}examples/formula/run.rs")).unwrap();
    let diffs = guide.split("```diff\n").skip(1).filter_map(|d| d.split("```").next());
    let added: Vec<&str> = diffs.flat_map(str::lines).filter_map(|l| l.strip_prefix('+')).collect();
    assert!(added.len() > 5, "{added:?}");
    for line in added {
        assert!(source.lines().any(|l| l == line), "no line of the example: {line}");
    }
}
