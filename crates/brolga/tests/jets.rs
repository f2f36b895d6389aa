//! Taylor coefficients along a direction, against closed forms, arithmetic of polynomials, and
//! second derivatives.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::drivers::{Argument, Derivatives, FlatFunction, FlatParam, MOST_ORDER, Point};
use brolga::{Error, Options};
use brolga_testing::program;

/// Functions of one number by C functions; `x^n` by recursion; `x^y`; `1/x` in both lanes of a
/// vector; `Σ sin(x[i]^4)` where squares go through a frame, with a choice; `sqrt(x² + y²)`.
const TEXT: &str = "
function %exp_(f64) -> f64 {
    fn0 = %exp(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
function %lgamma_(f64) -> f64 {
    fn0 = %lgamma(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
function %log_(f64) -> f64 {
    fn0 = %log(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
function %root(f64) -> f64 {
block0(v0: f64):
    v1 = sqrt v0
    return v1
}
function %inverse(f64) -> f64 {
block0(v0: f64):
    v1 = splat.f64x2 v0
    v2 = f64const 0x1.0
    v3 = splat.f64x2 v2
    v4 = fdiv v3, v1
    v5 = extractlane v4, 1
    return v5
}
function %power(f64, i64) -> f64 {
    fn0 = %power(f64, i64) -> f64
block0(v0: f64, v1: i64):
    brif v1, block1, block2
block1:
    v2 = iconst.i64 -1
    v3 = iadd v1, v2
    v4 = call fn0(v0, v3)
    v5 = fmul v4, v0
    return v5
block2:
    v6 = f64const 0x1.0
    return v6
}
function %raised(f64, f64) -> f64 {
    fn0 = %pow(f64, f64) -> f64
block0(v0: f64, v1: f64):
    v2 = call fn0(v0, v1)
    return v2
}
function %sines(i64, i64) -> f64 {
    ss0 = explicit_slot 8
    fn0 = %sin(f64) -> f64
block0(v0: i64, v1: i64):
    v2 = iconst.i64 0
    v3 = f64const 0.0
    jump block1(v2, v3)
block1(v4: i64, v5: f64):
    v6 = iconst.i64 8
    v7 = imul v4, v6
    v8 = iadd v0, v7
    v9 = load.f64 v8
    v10 = fmul v9, v9
    v11 = stack_addr.i64 ss0
    store v10, v11
    v12 = load.f64 v11
    v13 = fmul v12, v12
    v14 = call fn0(v13)
    v15 = fcmp gt v9, v3
    v16 = fneg v14
    v17 = select v15, v14, v16
    v18 = fadd v5, v17
    v19 = iconst.i64 1
    v20 = iadd v4, v19
    v21 = icmp ult v20, v1
    brif v21, block1(v20, v18), block2
block2:
    return v18
}
";

fn float(x: f64) -> Argument {
    Argument::Active(DataValue::F64(x.into()))
}

fn at(name: &str, args: Vec<Argument>) -> Point {
    let p = program(TEXT);
    // SAFETY: the functions stay within their buffers.
    unsafe { Point::new(&p, p.func(name).expect("it is defined"), args, &Options::default()) }.unwrap()
}

fn series(at: &mut Point, along: &[f64], order: usize) -> Vec<f64> {
    let runs = [at.taylor(along, order).unwrap(), at.taylor(along, order).unwrap()];
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0].len(), order + 1);
    runs[0].iter().map(|c| c[0]).collect()
}

fn near(is: &[f64], want: impl IntoIterator<Item = f64>, what: &str) {
    for (k, (is, want)) in is.iter().zip(want).enumerate() {
        assert!((is - want).abs() <= 1e-12 * (1.0 + want.abs()), "{what}, coefficient {k}: {is}, not {want}");
    }
}

fn factorial(n: usize) -> f64 {
    (1..=n).map(|k| k as f64).product()
}

#[test]
fn closed_forms() {
    let x = 1.75_f64;
    for order in [1, 2, 3, 7, MOST_ORDER] {
        let one = |name: &str| series(&mut at(name, vec![float(x)]), &[1.0], order);
        let k = |order: usize| 0..=order;
        near(&one("exp_"), k(order).map(|k| x.exp() / factorial(k)), "exp");
        near(&one("inverse"), k(order).map(|k| (-1.0_f64).powi(k as i32) * x.powi(-(k as i32) - 1)), "1/x");
        let log = |k: usize| if k == 0 { x.ln() } else { -(-1.0 / x).powi(k as i32) / k as f64 };
        near(&one("log_"), k(order).map(log), "log");
        // Half over k, times x to the rest.
        let binomial = |k: usize| (0..k).map(|i| (0.5 - i as f64) / (i + 1) as f64).product::<f64>();
        near(&one("root"), k(order).map(|k| binomial(k) * x.powf(0.5 - k as f64)), "sqrt");
        // Twice as fast: coefficients times powers of two.
        let fast = series(&mut at("exp_", vec![float(x)]), &[2.0], order);
        near(&fast, k(order).map(|k| x.exp() * 2_f64.powi(k as i32) / factorial(k)), "exp of 2t");
    }
    let power = |n: i64| series(&mut at("power", vec![float(x), Argument::Const(DataValue::I64(n))]), &[1.0], 6);
    let choose = |n: usize, k: usize| (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>();
    for n in [0, 1, 4, 9] {
        let want = (0..=6).map(|k| if k > n { 0.0 } else { choose(n, k) * x.powi((n - k) as i32) });
        near(&power(n as i64), want, "x^n");
    }
}

/// Exponents that are, or become, zero: `(2 + ¾t)^(-t/2)` and `(1 + t/2)^(3 + t)`, by series of
/// arbitrary precision.
#[test]
fn exponents_that_are_zero() {
    let raised =
        |x: f64, y: f64, along: [f64; 2], order| series(&mut at("raised", vec![float(x), float(y)]), &along, order);
    let want = [
        1.0,
        -0.346_573_590_279_972_65,
        -0.127_443_373_260_224_8,
        0.093_200_784_594_392_18,
        -0.014_054_649_727_761_355,
    ];
    near(&raised(2.0, 0.0, [0.75, -0.5], 4), want, "x^0");
    let want = [1.0, 1.5, 1.25, 0.75, 17.0 / 48.0, 0.140625, 23.0 / 480.0, 7.0 / 480.0, 0.003_937_251_984_126_984];
    near(&raised(1.0, 3.0, [0.5, 1.0], 8), want, "x^3");
}

/// ψ of order n, by its sum with a tail by Euler and Maclaurin.
fn polygamma(n: usize, x: f64) -> f64 {
    let (s, far) = (n as i32 + 1, x + 60.0);
    let sum: f64 = (0..60).map(|k| (x + f64::from(k)).powi(-s)).sum();
    let order = f64::from(s);
    let tail = far.powi(1 - s) / (order - 1.0) + 0.5 * far.powi(-s) + order * far.powi(-s - 1) / 12.0
        - order * (order + 1.0) * (order + 2.0) * far.powi(-s - 3) / 720.0;
    (-1.0_f64).powi(n as i32 + 1) * factorial(n) * (sum + tail)
}

#[test]
fn lgamma_by_polygammas() {
    let x = 2.5;
    let found = series(&mut at("lgamma_", vec![float(x)]), &[1.0], 8);
    // log Γ(5/2), ψ(5/2).
    let first = [0.284_682_870_472_919_2, 0.703_156_640_645_243_2];
    let want = |k: usize| if k < 2 { first[k] } else { polygamma(k - 1, x) / factorial(k) };
    near(&found, (0..=8).map(want), "lgamma");
}

/// The product of two polynomials up to an order.
fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len()).map(|k| (0..=k).map(|i| a[i] * b[k - i]).sum()).collect()
}

#[test]
fn through_memory_and_loops() {
    let (x, v, order) = ([0.5, -0.75, 1.25], [1.0, 0.5, -2.0], 9);
    let sine = |x: f64, v: f64| -> Vec<f64> {
        let mut path = vec![0.0; order + 1];
        (path[0], path[1]) = (x, v);
        let square = product(&path, &path);
        let mut rest = product(&square, &square);
        let start = std::mem::take(&mut rest[0]);
        // sin(s + r), by powers of r.
        let mut power: Vec<f64> = (0..=order).map(|k| f64::from(u8::from(k == 0))).collect();
        let mut sum = vec![0.0; order + 1];
        for n in 0..=order {
            let slope = [start.sin(), start.cos(), -start.sin(), -start.cos()][n % 4] / factorial(n);
            sum.iter_mut().zip(&power).for_each(|(s, p)| *s += slope * p);
            power = product(&power, &rest);
        }
        sum.iter().map(|c| if x > 0.0 { *c } else { -c }).collect()
    };
    let all: Vec<Vec<f64>> = x.iter().zip(v).map(|(x, v)| sine(*x, v)).collect();
    let want: Vec<f64> = (0..=order).map(|k| all.iter().map(|s| s[k]).sum()).collect();
    let mut point = at("sines", vec![Argument::Floats(x.to_vec()), Argument::Const(DataValue::I64(3))]);
    let found = series(&mut point, &v, order);
    let size = want.iter().fold(1.0_f64, |m, x| m.max(x.abs()));
    assert!(found.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12 * size), "{found:?} {want:?}");
    let p = program(TEXT);
    let params = vec![FlatParam::Input(3), FlatParam::Fixed(Argument::Const(DataValue::I64(3)))];
    // SAFETY: as above.
    let f = unsafe { FlatFunction::new(&p, p.func("sines").unwrap(), params, &Options::default()) }.unwrap();
    let flat: Vec<f64> = f.at(&[&x]).unwrap().taylor(&v, order).unwrap().iter().map(|c| c[0]).collect();
    assert_eq!(flat, found);
}

#[test]
fn second_coefficients_are_second_derivatives() {
    let v = [1.0, -0.5];
    let mut point = at("raised", vec![float(1.5), float(2.25)]);
    let found = series(&mut point, &v, 4);
    let second = point.hvp(&[1.0], &v).unwrap();
    let dot = |a: &[f64]| a.iter().zip(v).map(|(a, b)| a * b).sum::<f64>();
    near(&found[..3], [second.value[0], dot(&second.gradient), dot(&second.product) / 2.0], "x^y");
}

#[test]
fn orders_that_there_are_none_of() {
    let mut point = at("exp_", vec![float(1.0)]);
    for order in [0, 11] {
        let found = point.taylor(&[1.0], order);
        assert!(matches!(&found, Err(Error::Usage(m)) if m.contains("an order is one of 1 to 10")), "{found:?}");
    }
    assert!(matches!(point.taylor(&[1.0, 2.0], 3), Err(Error::Usage(_))));
}
