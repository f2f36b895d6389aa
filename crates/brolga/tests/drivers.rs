//! Drivers of the facade: gradients, Jacobians and Hessians of functions at points, against closed
//! forms, each asked for twice, dense and compressed.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::drivers::{Argument, Derivatives, Pattern, Point, Star, Sweep};
use brolga::second::{ArgDirection, HessianProducts, HessianRule};
use brolga::{Arg, ArgSpec, DerivedRule, Elem, Error, Options, Request};
use brolga_testing::program;

/// `(1 - x)² + 100 (y - x²)²`; `x·y` and `sin x` of a vector's lanes; differences of neighbours
/// into a second buffer; cubes of singles; a product of n numbers by a loop that overwrites its
/// place.
const TEXT: &str = "
function %rosenbrock(f64, f64) -> f64 {
block0(v0: f64, v1: f64):
    v2 = f64const 0x1.0
    v3 = fsub v2, v0
    v4 = fmul v3, v3
    v5 = fmul v0, v0
    v6 = fsub v1, v5
    v7 = fmul v6, v6
    v8 = f64const 0x1.9p6
    v9 = fmul v7, v8
    v10 = fadd v4, v9
    return v10
}
function %lanes(f64x2, i32) -> f64, i32, f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64x2, v1: i32):
    v2 = extractlane v0, 0
    v3 = extractlane v0, 1
    v4 = fmul v2, v3
    v5 = call fn0(v2)
    return v4, v1, v5
}
function %squared_steps(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    jump block1(v3)
block1(v4: i64):
    v5 = iconst.i64 8
    v6 = imul v4, v5
    v7 = iadd v0, v6
    v8 = load.f64 v7
    v9 = load.f64 v7+8
    v10 = fsub v9, v8
    v11 = fmul v10, v10
    v12 = iadd v1, v6
    store v11, v12
    v13 = iconst.i64 1
    v14 = iadd v4, v13
    v15 = icmp ult v14, v2
    brif v15, block1(v14), block2
block2:
    return
}
function %cube(i64) -> f32 {
block0(v0: i64):
    v1 = load.f32 v0
    v2 = fmul v1, v1
    v3 = load.f32 v0+4
    v4 = fmul v2, v3
    return v4
}
function %powers(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = f64const 0x1.0
    jump block1(v1, v2)
block1(v3: i64, v4: f64):
    v5 = load.f64 v0
    v6 = fmul v4, v5
    v7 = fmul v6, v5
    v8 = iconst.i64 -1
    v9 = iadd v3, v8
    brif v9, block1(v9, v7), block2
block2:
    store v7, v0+8
    return v6
}
";

fn float(x: f64) -> Argument {
    Argument::Active(DataValue::F64(x.into()))
}

fn word(n: i64) -> Argument {
    Argument::Const(DataValue::I64(n))
}

fn at(name: &str, inputs: Vec<Argument>) -> Point {
    let p = program(TEXT);
    // SAFETY: the functions stay within these buffers.
    unsafe { Point::new(&p, p.func(name).expect("it is defined"), inputs, &Options::default()) }.expect("it fits")
}

fn usage<T: std::fmt::Debug>(found: Result<T, Error>, says: &str) {
    let Err(Error::Usage(message)) = found else { panic!("{found:?}") };
    assert!(message.contains(says), "{message}");
}

#[test]
fn a_function_of_floats() {
    let mut p = at("rosenbrock", vec![float(-1.0), float(2.0)]);
    for _ in 0..2 {
        assert_eq!(p.value_and_gradient().unwrap(), (104.0, vec![396.0, 200.0]));
        assert_eq!(p.jvp(&[1.0, -1.0]).unwrap(), (vec![104.0], vec![196.0]));
        assert_eq!(p.vjp(&[2.0]).unwrap(), (vec![104.0], vec![792.0, 400.0]));
        // [2 - 400 (y - 3 x²), -400 x; -400 x, 200]
        assert_eq!(p.hessian(&[1.0]).unwrap(), [[402.0, 400.0], [400.0, 200.0]]);
        assert_eq!(p.hessian(&[-0.5]).unwrap(), [[-201.0, -200.0], [-200.0, -100.0]]);
        let found = p.hvp(&[1.0], &[1.0, 2.0]).unwrap();
        assert_eq!((found.value, found.gradient), (vec![104.0], vec![396.0, 200.0]));
        assert_eq!(found.product, [1202.0, 800.0]);
    }
    usage(p.jvp(&[1.0]), "1 directions are given, 2 are wanted");
    usage(p.vjp(&[]), "0 seeds are given");
    usage(p.hvp(&[1.0], &[1.0; 3]), "3 directions");
}

#[test]
fn vectors_and_several_results() {
    let lanes = DataValue::V128([0.5_f64, 3.0].map(f64::to_le_bytes).concat().try_into().expect("sixteen bytes"));
    let mut p = at("lanes", vec![Argument::Active(lanes), Argument::Const(DataValue::I32(7))]);
    let (sin, cos) = 0.5_f64.sin_cos();
    assert_eq!((p.inputs(), p.outputs()), (2, 2));
    for way in [Sweep::Forward, Sweep::Reverse] {
        assert_eq!(p.jacobian_by(way).unwrap(), [[3.0, 0.5], [cos, 0.0]], "{way:?}");
    }
    assert_eq!(p.hessian(&[2.0, 10.0]).unwrap(), [[-10.0 * sin, 2.0], [2.0, 0.0]]);
    usage(p.value_and_gradient(), "2 outputs");
}

#[test]
fn buffers_as_outputs() {
    let x: Vec<f64> = (0..21).map(|i| f64::from(i * i % 7)).collect();
    let n = x.len() - 1;
    let steps: Vec<f64> = x.windows(2).map(|w| w[1] - w[0]).collect();
    let given = vec![Argument::Floats(x.clone()), Argument::Floats(vec![9.0; n]), word(n as i64)];
    let mut p = at("squared_steps", given).with_outputs(&[1]).expect("it is a buffer");
    assert_eq!((p.inputs(), p.outputs()), (2 * n + 1, n));
    let mut wanted = vec![vec![0.0; 2 * n + 1]; n];
    for (i, d) in steps.iter().enumerate() {
        (wanted[i][i], wanted[i][i + 1]) = (-2.0 * d, 2.0 * d);
    }
    // What was in the second buffer is overwritten.
    let pattern = Pattern::new(2 * n + 1, (0..n).map(|i| vec![i, i + 1])).unwrap();
    for _ in 0..2 {
        assert_eq!(p.jacobian_by(Sweep::Forward).unwrap(), wanted);
        assert_eq!(p.jacobian_by(Sweep::Reverse).unwrap(), wanted);
        assert_eq!(pattern.dense(&p.sparse_jacobian(&pattern).unwrap()), wanted);
    }
    assert_eq!(p.jvp(&vec![0.0; 2 * n + 1]).unwrap().0, steps.iter().map(|d| d * d).collect::<Vec<_>>());
    let weights: Vec<f64> = (0..n).map(|i| i as f64 + 0.5).collect();
    let dense = p.hessian(&weights).unwrap();
    for (i, row) in dense.iter().enumerate() {
        let weight = |k: Option<usize>| k.and_then(|k| weights.get(k)).copied().unwrap_or(0.0);
        for (j, x) in row.iter().enumerate() {
            let wanted = match i.abs_diff(j) {
                _ if i.max(j) > n => 0.0,
                0 => 2.0 * (weight(Some(i)) + weight(i.checked_sub(1))),
                1 => -2.0 * weight(Some(i.min(j))),
                _ => 0.0,
            };
            assert_eq!(*x, wanted, "{i}, {j}");
        }
    }
    let half = (0..2 * n + 1).map(|i| if i < n { vec![i, i + 1] } else { vec![i] });
    let star = Star::new(&Pattern::new(2 * n + 1, half).unwrap()).unwrap();
    assert!(star.products() <= 4, "{}", star.products());
    assert_eq!(star.pattern().dense(&p.sparse_hessian(&weights, &star).unwrap()), dense);
    let narrow = Star::new(&Pattern::banded(2 * n + 1, 0, 0)).unwrap();
    usage(p.sparse_hessian(&weights, &narrow), "outside of the pattern");
    usage(p.sparse_jacobian(&Pattern::banded(n, 0, 0)), "the pattern has 20 rows and 20 columns");
    usage(at("cube", vec![Argument::Singles(vec![1.0; 2])]).with_outputs(&[0, 0]).map(|_| ()), "named twice");
    usage(at("powers", vec![Argument::Floats(vec![1.0; 2]), word(1)]).with_outputs(&[1]).map(|_| ()), "no buffer");
}

#[test]
fn singles() {
    let mut p = at("cube", vec![Argument::Singles(vec![3.0, 5.0])]);
    assert_eq!(p.value_and_gradient().unwrap(), (45.0, vec![30.0, 9.0]));
    assert_eq!(p.hessian(&[1.0]).unwrap(), [[10.0, 6.0], [6.0, 0.0]]);
}

/// A loop whose values are recorded: the gradient has a tape, which takes part in the second
/// derivative.
#[test]
fn a_loop_with_a_tape() {
    // The result is x^(2n-1), the second element x^(2n).
    let (x, n) = (1.25_f64, 6);
    let mut p = at("powers", vec![Argument::Floats(vec![x, 4.0]), word(n)]).with_outputs(&[0]).unwrap();
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-13 * b.abs();
    for (a, b) in [(1.0, 0.0), (0.0, 1.0), (2.0, -0.25)] {
        // The weight of the first element, which stays, has no second derivative.
        let found = p.hvp(&[a, 7.0, b], &[1.0, 0.0]).unwrap();
        let m = 2.0 * n as f64;
        let wanted = a * (m - 1.0) * (m - 2.0) * x.powf(m - 3.0) + b * m * (m - 1.0) * x.powf(m - 2.0);
        assert!(close(found.product[0], wanted), "{} is not {wanted}", found.product[0]);
        assert_eq!(found.product[1], 0.0);
        let first = a * (m - 1.0) * x.powf(m - 2.0) + 7.0 + b * m * x.powf(m - 1.0);
        assert!(close(found.gradient[0], first), "{} is not {first}", found.gradient[0]);
    }
}

/// Shadows that are not zero before the call: gradients and products are added.
#[test]
fn products_are_added() {
    let p = program(TEXT);
    let specs = [ArgSpec::duplicated(Elem::F64), ArgSpec::CONST];
    let request = Request::new(p.func("powers").expect("it is defined"), specs);
    let rule = HessianRule::new(&p, &request, &Options::default()).unwrap();
    let seeds = [DataValue::F64(1.0.into())];
    for _ in 0..2 {
        let (mut x, mut shadow) = ([2.0_f64, 0.0], [10.0_f64, 0.0]);
        let (mut tangent, mut product) = ([1.0_f64, 5.0], [100.0_f64, 0.0]);
        let address = |a: &mut [f64; 2]| a.as_mut_ptr() as u64;
        let args = [Arg::duplicated(address(&mut x), address(&mut shadow)), Arg::new(DataValue::I64(2))];
        let memory = ArgDirection::Memory { tangent: address(&mut tangent), product: address(&mut product) };
        let mut out = HessianProducts::default();
        // SAFETY: the arrays are large enough.
        unsafe { rule.product(&args, &[memory, ArgDirection::Still], &seeds, &mut out) }.unwrap();
        // x³, and x⁴ in memory.
        assert_eq!((x, out.values.clone()), ([2.0, 16.0], vec![DataValue::F64(8.0.into())]));
        assert_eq!((shadow, product), ([22.0, 0.0], [112.0, 0.0]));
        assert_eq!(tangent, [1.0, 32.0], "the tangent of what is left");
        let missing = [ArgDirection::Still, ArgDirection::Still];
        // SAFETY: it is refused.
        usage(
            unsafe { rule.product(&args, &missing, &seeds, &mut out) }.map(|_| ()),
            "its direction is `ArgDirection::Memory`",
        );
    }
}

/// `x³`, its slope and its bend by names of derivatives, and a declaration that does not fit.
const BY_NAME: &str = "
function %cube(f64) -> f64 {
block0(v0: f64):
    v1 = fmul v0, v0
    v2 = fmul v1, v0
    return v2
}
function %slope(f64) -> f64 {
    fn0 = %cube__gradient(f64, f64) -> f64, f64
block0(v0: f64):
    v1 = f64const 0x1.0
    v2, v3 = call fn0(v0, v1)
    return v3
}
function %bend(f64) -> f64 {
    fn0 = %slope__gradient(f64, f64) -> f64, f64
block0(v0: f64):
    v1 = f64const 0x1.0
    v2, v3 = call fn0(v0, v1)
    return v3
}
function %wrong(f64) -> f64 {
    fn0 = %cube__tangent(f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
";

#[test]
fn derivatives_that_are_called_by_name_are_derived_at_any_order() {
    let p = program(BY_NAME);
    let double = |x: f64| DataValue::F64(x.into());
    let second = |name: &str| {
        let request = Request::new(p.func(name).unwrap(), [ArgSpec::ACTIVE]);
        HessianRule::new(&p, &request, &Options::default())
    };
    for (name, values) in [("cube", [3.375, 6.75, 9.0]), ("slope", [6.75, 9.0, 6.0]), ("bend", [9.0, 6.0, 0.0])] {
        let (rule, mut out) = (second(name).unwrap(), HessianProducts::default());
        let (args, along) = ([Arg::new(double(1.5))], [ArgDirection::Value(double(1.0))]);
        // SAFETY: no memory takes part.
        unsafe { rule.product(&args, &along, &[double(1.0)], &mut out) }.unwrap();
        let found = [Some(out.values[0].clone()), out.cotangents[0].clone(), out.products[0].clone()];
        assert_eq!(found, values.map(|x| Some(double(x))), "{name}");
    }
    match second("wrong") {
        Err(Error::Diagnostics(found)) => assert_eq!(found.0[0].code, "AD0171", "{found:?}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

/// A loop in a recursion, its slope and its bend by name: counts of iterations are recorded twice.
const TURNS: &str = "function %turns(i32, f64) -> f64 {
    fn0 = %sin(f64) -> f64
    fn1 = %turns(i32, f64) -> f64
block0(v0: i32, v1: f64):
    v2 = iconst.i32 1
    v3 = icmp slt v0, v2
    brif v3, block1, block2
block1:
    return v1
block2:
    jump block3(v0, v1)
block3(v4: i32, v5: f64):
    v6 = iconst.i32 0
    jump block4(v4, v5, v5, v6)
block4(v7: i32, v8: f64, v9: f64, v10: i32):
    v11 = iconst.i32 2
    v12 = icmp slt v10, v11
    brif v12, block5, block6
block5:
    v13 = fmul v9, v8
    v14 = call fn0(v13)
    v15 = iconst.i32 1
    v16 = iadd v10, v15
    jump block4(v7, v8, v14, v16)
block6:
    v17 = iconst.i32 1
    v18 = isub v7, v17
    v19 = call fn1(v18, v9)
    v20 = fmul v19, v8
    return v20
}

function %turns_slope(f64) -> f64 {
    fn0 = %turns__gradient(i32, f64, f64) -> f64, f64
block0(v0: f64):
    v1 = iconst.i32 2
    v2 = f64const 0x1.0000000000000p0
    v3, v4 = call fn0(v1, v0, v2)
    return v4
}

function %turns_bend(f64) -> f64 {
    fn0 = %turns_slope__gradient(f64, f64) -> f64, f64
block0(v0: f64):
    v1 = f64const 0x1.0000000000000p0
    v2, v3 = call fn0(v0, v1)
    return v3
}";

#[test]
fn counts_that_are_recorded_twice_are_no_pointers() {
    let p = program(TURNS);
    let request = Request::new(p.func("turns_bend").unwrap(), [ArgSpec::ACTIVE]);
    let rule = DerivedRule::new(&p, &request, &Options::default()).expect("there is no memory in it");
    let double = |x: f64| DataValue::F64(x.into());
    for _ in 0..2 {
        let (mut results, mut cotangents) = (Vec::new(), Vec::new());
        // SAFETY: no memory takes part.
        unsafe { rule.gradient(&[Arg::new(double(0.7))], &[double(1.0)], &mut results, &mut cotangents) }.unwrap();
        let near = |found: &DataValue, wanted: f64| {
            let DataValue::F64(x) = found else { panic!("{found:?}") };
            assert!((x.as_f64() - wanted).abs() <= 1e-12 * wanted, "{found:?}, not {wanted}");
        };
        near(&results[0], 1.9493181118444207);
        near(cotangents[0].as_ref().unwrap(), 24.405241510947224);
    }
}
