//! Little effort: the same numbers from less code, which is there sooner.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Effort, Mode, Options, Request};
use brolga_testing::program;

/// The sum of the squares of an array, divided by a number.
const TEXT: &str = "function %f(i64, i64, f64) -> f64 system_v {
    block0(v0: i64, v1: i64, v2: f64):
        v10 = iconst.i64 0
        v11 = f64const 0.0
        jump block1(v10, v11)
    block1(v3: i64, v4: f64):
        v5 = icmp slt v3, v1
        brif v5, block2, block3
    block2:
        v12 = iconst.i64 3
        v6 = ishl v3, v12
        v7 = iadd v0, v6
        v8 = load.f64 notrap aligned v7
        v9 = fmul v8, v8
        v13 = fadd v4, v9
        v16 = iconst.i64 1
        v14 = iadd v3, v16
        jump block1(v14, v13)
    block3:
        v15 = fdiv v4, v2
        return v15
}";

fn rule(mode: Mode, effort: Effort) -> DerivedRule {
    let program = program(TEXT);
    let f = program.func("f").unwrap();
    let request = Request::new(f, [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Active]);
    DerivedRule::new(&program, &request, &Options { mode, effort, ..Options::full() }).unwrap()
}

/// The value, and the gradient with respect to both.
fn run(rule: &DerivedRule, xs: &[f64], by: f64, seed: f64) -> (Vec<f64>, Vec<f64>) {
    let mut shadow = vec![0.0; xs.len()];
    let float = |x: f64| DataValue::F64(x.into());
    let args = [
        Arg::duplicated(xs.as_ptr() as u64, shadow.as_mut_ptr() as u64),
        Arg::new(DataValue::I64(xs.len() as i64)),
        Arg::new(float(by)),
    ];
    let (mut values, mut cotangents) = (Vec::new(), Vec::new());
    // SAFETY: both buffers are as long as is said, and live.
    drop(unsafe { rule.gradient(&args, &[float(seed)], &mut values, &mut cotangents) }.unwrap());
    let floats = |v: &DataValue| if let DataValue::F64(x) = v { x.as_f64() } else { panic!("{v}") };
    shadow.extend(cotangents.iter().flatten().map(floats));
    (values.iter().map(floats).collect(), shadow)
}

#[test]
fn the_numbers_are_the_same() {
    let xs = [1.5, -2.0, 0.25, 3.0, 8.0];
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        // With a seed of zero the quotient's partial derivative is infinite, and counts for
        // nothing.
        for (by, seed) in [(4.0, 1.0), (0.0, 0.0), (0.0, 1.0), (f64::NAN, 0.0)] {
            let [quick, full] = [Effort::Quick, Effort::Full].map(|effort| run(&rule(mode, effort), &xs, by, seed));
            let bits = |xs: &[f64]| xs.iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&quick.0), bits(&full.0), "{mode:?}");
            let same = quick.1.iter().zip(&full.1).all(|(a, b)| a == b || a.is_nan() && b.is_nan());
            assert!(same, "{mode:?}, {by}, {seed}: {quick:?} {full:?}");
            assert!(seed != 0.0 || quick.1.iter().all(|x| *x == 0.0), "{quick:?}");
        }
    }
}

#[test]
fn nothing_is_there_twice() {
    let text = |effort| rule(Mode::Gradient, effort).clif().0.to_owned();
    assert!(text(Effort::Full).contains("load.f64x2"), "the loop is run in lanes");
    assert!(!text(Effort::Quick).contains("load.f64x2"), "with little effort it is not");
}
