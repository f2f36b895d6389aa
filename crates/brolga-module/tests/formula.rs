//! The example `formula`: a frontend whose module is wrapped.
//!
//! A gradient is that of `L(x) = f(x) + ⟨shadow, x after the call⟩`, whether the function only
//! reads its argument or overwrites it: differences of `L` are the oracle of each call. Formulas
//! are Rust, so rustc is the oracle of their values.

#[path = "../examples/formula/codegen.rs"]
mod codegen;
#[path = "../examples/formula/run.rs"]
mod run;

use run::Formulas;

/// The files of the example, as Rust.
#[allow(unused_variables, reason = "each function of a formula may be called, and has all parameters")]
#[allow(unreachable_pub, reason = "a formula marks what its users may call")]
#[allow(clippy::all, reason = "a formula uses what the language has")]
mod rust {
    pub(crate) mod fit {
        include!("../examples/formula/formulas/fit.formula");
    }
    pub(crate) mod recurrence {
        include!("../examples/formula/formulas/recurrence.formula");
    }
    pub(crate) mod recursive {
        include!("../examples/formula/formulas/recursive.formula");
    }
    pub(crate) mod rosenbrock {
        include!("../examples/formula/formulas/rosenbrock.formula");
    }
}

fn formulas(text: &str) -> Formulas {
    Formulas::new(text).unwrap_or_else(|e| panic!("{e}"))
}

fn file(name: &str) -> Formulas {
    let path = format!("{}/examples/formula/formulas/{name}.formula", env!("CARGO_MANIFEST_DIR"));
    formulas(&std::fs::read_to_string(path).unwrap())
}

fn close(is: f64, want: f64, digits: i32) -> bool {
    (is - want).abs() <= 10_f64.powi(-digits) * want.abs().max(1.0)
}

/// The slope of a function along each direction, with an error of fourth order.
fn slopes<const N: usize>(x: &[f64], mut f: impl FnMut(&[f64]) -> [f64; N]) -> Vec<[f64; N]> {
    let mut slope = |k: usize, h: f64| {
        let mut at = |h: f64| {
            let mut moved = x.to_vec();
            moved[k] += h;
            f(&moved)
        };
        let (up, down) = (at(h), at(-h));
        std::array::from_fn::<f64, N, _>(|i| (up[i] - down[i]) / (2.0 * h))
    };
    let both = |k: usize| -> [f64; N] {
        let (wide, narrow) = (slope(k, 2e-4), slope(k, 1e-4));
        std::array::from_fn(|i| narrow[i] + (narrow[i] - wide[i]) / 3.0)
    };
    (0..x.len()).map(both).collect()
}

/// Compare a gradient with differences, twice: the second time with the shadow that the first has
/// left.
fn checked(f: &mut Formulas, name: &str, x: &[f64]) -> Vec<f64> {
    let mut shadow: Vec<f64> = (0..x.len()).map(|k| 0.5 - 0.375 * (k % 5) as f64).collect();
    for _ in 0..2 {
        let before = shadow.clone();
        let objective = |x: &[f64]| {
            let mut after = x.to_vec();
            let value = f.value(name, &mut after).unwrap();
            [value + after.iter().zip(&before).map(|(x, s)| x * s).sum::<f64>()]
        };
        let want = slopes(x, objective);
        let (mut after, mut plain) = (x.to_vec(), x.to_vec());
        f.gradient(name, &mut after, &mut shadow).unwrap_or_else(|e| panic!("{e}"));
        f.value(name, &mut plain).unwrap();
        assert_eq!(after, plain, "memory is as the function leaves it");
        for (is, [want]) in shadow.iter().zip(&want) {
            assert!(close(*is, *want, 8), "{name} {x:?}: {is} {want}");
        }
    }
    shadow
}

fn gradient(f: &mut Formulas, name: &str, x: &[f64]) -> Vec<f64> {
    let mut shadow = vec![0.0; x.len()];
    f.gradient(name, &mut x.to_vec(), &mut shadow).unwrap_or_else(|e| panic!("{e}"));
    shadow
}

/// Compare rows of the Hessian with differences of gradients.
fn checked_hessian<const N: usize>(f: &mut Formulas, name: &str, x: &[f64; N]) {
    let want: Vec<[f64; N]> = slopes(x, |x| gradient(f, name, x).try_into().expect("as many"));
    for (k, want) in want.iter().enumerate() {
        let mut along: [f64; N] = std::array::from_fn(|i| f64::from(u8::from(i == k)));
        for _ in 0..2 {
            let row = f.product(name, &mut x.to_vec(), &mut along).unwrap_or_else(|e| panic!("{e}"));
            for (is, want) in row.iter().zip(want) {
                assert!(close(*is, *want, 7), "{name} {x:?}: {is} {want}");
            }
        }
    }
}

#[test]
fn rosenbrock() {
    let mut f = file("rosenbrock");
    for n in 2..7 {
        let mut x: Vec<f64> = (0..n).map(|i| 0.8 + 0.3 * f64::from(i % 3)).collect();
        checked(&mut f, "rosenbrock", &x);
        assert_eq!(f.value("rosenbrock", &mut x).unwrap(), rust::rosenbrock::rosenbrock(&x, x.len()));
        let g = gradient(&mut f, "rosenbrock", &x);
        for i in 0..x.len() {
            let right = x.get(i + 1).map_or(0.0, |r| -400.0 * x[i] * (r - x[i] * x[i]) - 2.0 * (1.0 - x[i]));
            let left = if i == 0 { 0.0 } else { 200.0 * (x[i] - x[i - 1] * x[i - 1]) };
            assert!(close(g[i], left + right, 13), "{n} {i}: {} {}", g[i], left + right);
        }
    }
    checked_hessian(&mut f, "rosenbrock", &[0.8, 1.1, 1.4, 0.7]);
}

#[test]
fn a_fit() {
    let mut f = file("fit");
    let p = [1.2, 0.4, 2.0, 0.1];
    checked(&mut f, "loss", &p);
    checked_hessian(&mut f, "loss", &p);
    assert!(close(f.value("loss", &mut p.to_vec()).unwrap(), rust::fit::loss(&p, 4), 15));
    let g = gradient(&mut f, "loss", &p);
    let wave = |t: f64| p[0] * (-p[1] * t).exp() * (p[2] * t + p[3]).cos();
    let miss = [(0.0, 1.0), (0.5, 0.3), (1.25, -0.4), (2.0, 0.1)].map(|(t, y)| (t, wave(t) - y));
    let amplitude: f64 = miss.iter().map(|(t, m)| m * wave(*t) / p[0]).sum();
    let decay: f64 = miss.iter().map(|(t, m)| -m * wave(*t) * t).sum();
    assert!(close(g[0], amplitude, 13) && close(g[1], decay, 13), "{g:?} {amplitude} {decay}");
}

#[test]
fn recurrences() {
    let mut f = file("recurrence");
    let x = [0.3, 2.7];
    checked(&mut f, "logistic", &x);
    checked_hessian(&mut f, "logistic", &x);
    assert_eq!(f.value("logistic", &mut x.to_vec()).unwrap(), rust::recurrence::logistic(&x, 2));
    let (mut now, mut slope) = (x[0], 1.0);
    for _ in 0..7 {
        slope *= x[1] * (1.0 - 2.0 * now);
        now *= x[1] * (1.0 - now);
    }
    let g = gradient(&mut f, "logistic", &x);
    assert!(close(g[0], slope, 13), "{g:?} {slope}");
    // What it writes has seeds in its shadow, and leaves zeros there.
    for n in [3, 4, 9] {
        let mut x = [&x[..], &vec![7.0; n - 2]].concat();
        let shadow = checked(&mut f, "orbit", &x);
        assert!(shadow[2..].iter().all(|x| *x == 0.0) && shadow[0] != 0.0, "{shadow:?}");
        let mut same = x.clone();
        let value = f.value("orbit", &mut x).unwrap();
        assert_eq!((value, &x), (rust::recurrence::orbit(&mut same, n), &same));
    }
    for a in [0.01, 2.0, 400.0] {
        let g = gradient(&mut f, "root", &[a])[0];
        assert!(close(g, 0.5 / f64::sqrt(a), 7), "{a}: {g}");
        assert_eq!(f.value("root", &mut [a]).unwrap(), rust::recurrence::root(&[a], 1));
    }
}

#[test]
fn a_recursive_function() {
    let mut f = file("recursive");
    for n in [1, 2, 3, 6, 17] {
        let mut x = [&[0.3][..], &vec![0.0; n - 1]].concat();
        checked(&mut f, "series", &x);
        let g = gradient(&mut f, "series", &x);
        // cos(k t) of x = cos t, where k is n - 1 and no lower degree has a weight.
        let (t, k) = (x[0].acos(), (n - 1) as f64);
        let want = k * (k * t).sin() / t.sin();
        assert!(close(g[0], want, 10), "{n}: {} {want}", g[0]);
        assert_eq!(f.value("series", &mut x).unwrap(), rust::recursive::series(&x, n));
    }
    checked_hessian(&mut f, "series", &[0.3, 0.5, -0.25, 2.0]);
}

#[test]
fn every_construct() {
    let mut f = formulas(
        "fn clamp(x: f64) -> f64 { if x < -1.0 { -1.0 } else if x > 1.0 { 1.0 } else { x } }
        fn clamped(x: &[f64], n: usize) -> f64 { clamp(x[0]) * 1.5 }
        fn late(x: &[f64], n: usize) -> f64 {
            let mut i = 0;
            let mut best = x[0];
            while i < n {
                if x[i] >= best { best = x[i]; }
                i = i + 1;
            }
            best
        }
        fn swap(x: &mut [f64], n: usize) -> f64 {
            for i in 0..n - 3 {
                let keep = x[i];
                x[i] = 2.0 * x[n - 1 - i];
                x[n - 1 - i] = keep * keep;
            }
            0.0
        }
        fn inner(y: &[f64], n: usize) -> f64 {
            let x = y[0];
            let mut total = 0.0;
            for i in 0..n {
                for j in i..n {
                    let w = [x, x * i as f64, (x * j as f64).sin()];
                    total = total + clamp(w[j - i] / (1.0 + i as f64)) * w[0];
                }
            }
            total
        }
        fn calls(v: &[f64], n: usize) -> f64 {
            let x = v[0];
            let y = v[1];
            x.powf(y) + y.hypot(x) + x.tanh() * (-y).abs() + x.ln() * y.sqrt() + (x * y).atan() + x.cosh() - y.sinh()
                + (x / 4.0).tan() * y.cos() * (-x).exp() + { let z = x * y; z.ln_gamma() }
        }",
    );
    for x in [-2.0, -0.5, 0.25, 3.0] {
        checked(&mut f, "clamped", &[x]);
    }
    checked(&mut f, "late", &[0.5, 2.0, -1.0]);
    checked(&mut f, "swap", &[0.5, 2.0, -1.0, 1.5, -0.25, 0.75]);
    checked(&mut f, "inner", &[0.4, 0.0, 0.0]);
    checked(&mut f, "calls", &[1.3, 0.8]);
    checked_hessian(&mut f, "calls", &[1.3, 0.8]);
}

/// A function of the language that has the name of a function of C which it does not know.
#[test]
fn a_name_of_c_is_no_function_of_c() {
    let mut f = formulas(
        "fn cbrt(x: f64) -> f64 { x * x } fn erf(x: f64) -> f64 { 3.0 * x }
        fn f(x: &[f64], n: usize) -> f64 { cbrt(x[0]) + erf(x[0]) }",
    );
    assert_eq!(gradient(&mut f, "f", &[5.0]), [13.0]);
}

#[test]
fn errors_have_a_line_and_a_column() {
    for (text, want) in [
        ("fn f(x: f64) -> f64 {\n    x +\n}", "3:1: unexpected end of input, expected an expression"),
        ("fn f(x: f32) -> f64 { 1.0 }", "1:9: types are `f64`, `usize`, `&[f64]` and `&mut [f64]`"),
        ("struct S;", "1:1: a file has functions only"),
        ("fn f() -> f64 { let x = 1.0; }", "1:4: the body of a function ends in a float"),
        ("fn f(n: usize) -> f64 { n }", "1:4: the body of a function ends in a float"),
        ("// ü\nfn f() -> f64 { x }", "2:17: there is no variable `x`"),
        ("fn f(x: f64) -> f64 { g(x) }", "1:23: there is no function `g` of 1 parameters"),
        ("fn f(x: f64) -> f64 { x.cbrt() }", "1:25: floats have no such method here"),
        ("fn f() -> f64 { 1.0 } fn f() -> f64 { 2.0 }", "1:26: there is a function of this name already"),
        ("fn f(x: f64) -> f64 { x[0] }", "1:23: this is Float, and Array is expected"),
        ("fn f(x: &[f64]) -> f64 { x[1.5] }", "1:28: this is Float, and Int is expected"),
        ("fn f(x: f64) -> f64 { x + 1 }", "1:27: this is Int, and Float is expected"),
        ("fn f(x: f64) -> f64 { x % 2.0 }", "1:23: floats have no such operator here"),
        ("fn f(n: usize) -> f64 { (n * 2) as f64 }", "1:26: integers have no such operator here"),
        ("fn f(x: f64) -> f64 { let y = if x < 1.0 {}; x }", "1:31: this has no value"),
        (
            "fn f(x: f64) -> f64 { if x < 1.0 { 1.0 } else { 2 } }",
            "1:34: both arms of an `if` have a value of one type, or none",
        ),
        ("fn f(x: f64) -> f64 { for i in 0..2 { let y = x; } y }", "1:52: there is no variable `y`"),
        ("fn f(x: f64) -> f64 { return x; }", "1:23: the language has no such expression"),
    ] {
        assert_eq!(Formulas::new(text).map(drop).expect_err("it is refused").to_string(), want, "{text}");
    }
}

/// Lines that the guide adds are lines of the example.
#[test]
fn the_guide_shows_the_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let guide = std::fs::read_to_string(format!("{root}../../docs/EMBEDDING.md")).unwrap();
    let source = std::fs::read_to_string(format!("{root}examples/formula/run.rs")).unwrap();
    let diffs = guide.split("```diff\n").skip(1).filter_map(|d| d.split("```").next());
    let added: Vec<&str> = diffs.flat_map(str::lines).filter_map(|l| l.strip_prefix('+')).collect();
    assert!(added.len() > 3, "{added:?}");
    for line in added {
        assert!(source.lines().any(|l| l == line), "no line of the example: {line}");
    }
}
