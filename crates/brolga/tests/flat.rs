//! Functions of flat vectors, compiled once and called at any point: against closed forms, from
//! several threads, and with what does not fit.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::drivers::{Argument, Derivatives, FlatFunction, FlatParam, Pattern, Star, Sweep};
use brolga::{Error, Options, Untracked};
use brolga_testing::program;

/// Inputs by value and in memory, results and memory as outputs, what is given and what is fixed;
/// and an iteration that needs a tape.
const TEXT: &str = "
function %mixed(f64, i64, i64, f64, i64, i32) -> f64, i32, f64 {
block0(v0: f64, v1: i64, v2: i64, v3: f64, v4: i64, v5: i32):
    v6 = load.f64 v1
    v7 = load.f64 v1+8
    v8 = load.f64 v2+8
    v9 = fmul v0, v6
    v10 = fmul v9, v8
    store v10, v4
    v11 = fmul v7, v7
    v12 = fmul v11, v3
    v13 = load.f64 v4+8
    v14 = fadd v13, v12
    store v14, v4+8
    v15 = fmul v0, v7
    v16 = fmul v6, v6
    return v15, v5, v16
}
function %iterated(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0+8
    jump block1(v1, v2)
block1(v3: i64, v4: f64):
    v5 = fmul v4, v4
    v6 = load.f64 v0
    v7 = fadd v5, v6
    v8 = iconst.i64 -1
    v9 = iadd v3, v8
    brif v9, block1(v9, v7), block2
block2:
    return v7
}
function %divided(f64, i64) -> f64 {
block0(v0: f64, v1: i64):
    v2 = iconst.i64 12
    v3 = load.i64 v1
    v4 = sdiv v2, v3
    v5 = fcvt_from_sint.f64 v4
    v6 = fmul v0, v5
    return v6
}
function %single(f64) -> f32 {
block0(v0: f64):
    v1 = fdemote.f32 v0
    return v1
}
";

/// Bits that are computed by integers, in an output.
const BITS: &str = "
function %bits(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = load.i64 v0
    v3 = iconst.i64 12345
    v4 = imul v2, v3
    store v4, v1
    v5 = load.f64 v1
    v6 = load.f64 v0+8
    v7 = fmul v5, v6
    store v7, v1
    return
}
";

fn flat(name: &str, parameters: Vec<FlatParam>) -> Result<FlatFunction, Error> {
    let p = program(TEXT);
    // SAFETY: the functions stay within what the tests say.
    unsafe { FlatFunction::new(&p, p.func(name).expect("it is defined"), parameters, &Options::default()) }
}

fn int(n: i64) -> FlatParam {
    FlatParam::Fixed(Argument::Const(DataValue::I64(n)))
}

#[track_caller]
fn usage<T>(found: Result<T, Error>, says: &str) {
    let Err(Error::Usage(message)) = found else { panic!("no usage error") };
    assert!(message.contains(says), "{message}");
}

fn mixed() -> FlatFunction {
    let seven = FlatParam::Fixed(Argument::Const(DataValue::I32(7)));
    let given = [FlatParam::Input(1), FlatParam::Input(2), FlatParam::Given(2), FlatParam::Given(1)];
    flat("mixed", [&given[..], &[FlatParam::Output(2), seven]].concat()).unwrap()
}

#[test]
fn every_kind_of_parameter() {
    let f = mixed();
    assert_eq!((f.inputs(), f.outputs()), (3, 4));
    for (a, x, y, g, s) in [(2.0, 3.0, 5.0, 7.0, 11.0), (-1.0, 0.5, 4.0, 2.0, 0.25)] {
        let given: [&[f64]; 4] = [&[a], &[x, y], &[99.0, g], &[s]];
        let mut at = f.at(&given).unwrap();
        let value = vec![a * y, x * x, a * x * g, y * y * s];
        let jacobian = [vec![y, 0.0, a], vec![0.0, 2.0 * x, 0.0], vec![x * g, a * g, 0.0], vec![0.0, 0.0, 2.0 * s * y]];
        let weighted = |w: &[f64]| (0..3).map(|j| (0..4).map(|i| w[i] * jacobian[i][j]).sum()).collect::<Vec<f64>>();
        // Called twice: nothing is left of the first time.
        for _ in 0..2 {
            let mut found = [9.0; 4];
            at.value_into(&mut found).unwrap();
            assert_eq!(found, *value);
            let v = [1.0, -2.0, 4.0];
            let along = jacobian.iter().map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum()).collect();
            assert_eq!(at.jvp(&v).unwrap(), (value.clone(), along));
            let w = [1.0, 0.5, -2.0, 4.0];
            assert_eq!(at.vjp(&w).unwrap(), (value.clone(), weighted(&w)));
            assert_eq!(at.jacobian_by(Sweep::Forward).unwrap(), jacobian);
            assert_eq!(at.jacobian_by(Sweep::Reverse).unwrap(), jacobian);
            let (axy, aay) = (w[2] * g, w[0]);
            let hessian = [vec![0.0, axy, aay], vec![axy, 2.0 * w[1], 0.0], vec![aay, 0.0, 2.0 * w[3] * s]];
            assert_eq!(at.hessian(&w).unwrap(), hessian);
            let products = at.hvp(&w, &v).unwrap();
            assert_eq!((products.value, products.gradient), (value.clone(), weighted(&w)));
            let pattern = Pattern::new(3, [vec![0, 2], vec![1], vec![0, 1], vec![2]]).unwrap();
            assert_eq!(pattern.dense(&at.sparse_jacobian(&pattern).unwrap()), jacobian);
            let star = Star::new(&Pattern::new(3, [vec![1, 2], vec![], vec![]]).unwrap()).unwrap();
            assert_eq!(star.pattern().dense(&at.sparse_hessian(&w, &star).unwrap()), hessian);
        }
    }
}

/// Value and gradient of the iteration, by its recurrence.
fn iterated(x: [f64; 2], n: usize) -> (f64, [f64; 2]) {
    (0..n).fold((x[1], [0.0, 1.0]), |(y, d), _| (y * y + x[0], [2.0 * y * d[0] + 1.0, 2.0 * y * d[1]]))
}

#[test]
fn threads_share_one_function() {
    let n = 40;
    let f = flat("iterated", vec![FlatParam::Input(2), int(n)]).unwrap();
    std::thread::scope(|scope| {
        for k in 0..4 {
            let f = &f;
            scope.spawn(move || {
                for i in 0..200 {
                    let x = [0.001 * f64::from(i), 0.1 * f64::from(k)];
                    let (value, want) = iterated(x, n as usize);
                    let mut gradient = [f64::NAN; 2];
                    let at = &[&x[..]];
                    let at = f.at(at).unwrap();
                    let found = at.gradient_into(&mut gradient).unwrap();
                    assert_eq!((found, at.value().unwrap()), (value, value));
                    for (found, want) in gradient.iter().zip(want) {
                        assert!((found - want).abs() <= 1e-12 * (1.0 + want.abs()), "{found}, {want}");
                    }
                }
            });
        }
    });
}

#[test]
fn what_does_not_fit() {
    let f = mixed();
    usage(f.at(&[&[1.0]]), "1 slices are given, 4 are wanted");
    usage(f.at(&[&[1.0], &[1.0], &[1.0, 2.0], &[1.0]]), "1 floats are given, 2 are wanted");
    usage(f.split(&[1.0; 3]), "parameter 2 is given with each call");
    let given: [&[f64]; 4] = [&[1.0], &[1.0, 2.0], &[1.0, 2.0], &[1.0]];
    let mut at = f.at(&given).unwrap();
    usage(at.value(), "1 floats are given, 4 are wanted");
    usage(at.jvp(&[1.0]), "1 directions");
    usage(at.vjp(&[1.0]), "1 seeds");
    usage(at.hvp(&[1.0], &[1.0; 3]), "1 seeds");
    usage(at.value_and_gradient(), "4 outputs");
    usage(at.pulled(|rows| rows(&[vec![1.0]])), "1 seeds");
    usage(at.vjp_into(&[1.0; 4], &mut [0.0; 4], &mut [0.0; 2]), "2 cotangents are given, 3 are wanted");
    usage(flat("mixed", vec![]), "0 parameters are given, 6 are wanted");
    usage(flat("single", vec![FlatParam::Input(1)]), "a result is an f32");
    usage(flat("single", vec![FlatParam::Input(2)]), "parameter 0 is an f64, and 2 floats is said of it");
    usage(flat("single", vec![FlatParam::Output(1)]), "parameter 0 is an f64, and a buffer is said of it");
    usage(flat("single", vec![int(3)]), "a value of type i64");
    let iterated = flat("iterated", vec![FlatParam::Input(2), int(1)]).unwrap();
    usage(iterated.split(&[1.0]), "1 floats are given, 2 are wanted");
    assert_eq!(iterated.split(&[1.0, 2.0]).unwrap(), [[1.0, 2.0]]);
}

#[test]
fn traps_are_errors_and_leave_the_function_usable() {
    for (divisor, fits) in [(4_i64, true), (0, false)] {
        let divisor = FlatParam::Fixed(Argument::Bytes(divisor.to_ne_bytes().to_vec()));
        let f = flat("divided", vec![FlatParam::Input(1), divisor]).unwrap();
        for _ in 0..2 {
            let mut at = f.at(&[&[2.0]]).unwrap();
            match fits {
                true => {
                    assert_eq!((at.value().unwrap(), at.value_and_gradient().unwrap()), (6.0, (6.0, vec![3.0])));
                }
                false => {
                    assert!(matches!(at.value(), Err(Error::Trap(t)) if t.code == "int_divz"));
                    assert!(matches!(at.value_and_gradient(), Err(Error::Trap(_))));
                }
            }
        }
    }
}

/// Seen to fail: without the question (`DerivedRule::known_tangents`) all of these are NaN.
#[test]
fn tangents_of_outputs_that_are_not_known_are_an_error() {
    let p = program(BITS);
    let options = Options { untracked: Untracked::Trap, ..Options::default() };
    let parameters = vec![FlatParam::Input(2), FlatParam::Output(1)];
    // SAFETY: it reads two floats, and stores one.
    let f = unsafe { FlatFunction::new(&p, p.func("bits").unwrap(), parameters, &options) }.unwrap();
    let mut at = f.at(&[&[1.5, 2.0]]).unwrap();
    let is_said = |e: Error| assert!(matches!(&e, Error::Trap(t) if t.code == "untracked_bits"), "{e}");
    is_said(at.jvp(&[1.0, 0.0]).unwrap_err());
    is_said(at.jvps(&[vec![1.0, 0.0], vec![1.0, 1.0]]).unwrap_err());
    is_said(at.jacobian_by(Sweep::Forward).unwrap_err());
    is_said(at.taylor(&[1.0, 0.0], 2).unwrap_err());
    is_said(at.vjp(&[1.0]).unwrap_err());
}
