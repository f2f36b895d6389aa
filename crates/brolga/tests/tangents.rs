//! Forward mode as a caller sees it: values and tangents, closed forms, what does not fit, what is
//! not known, and memory that is given back.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgSpec, DerivedRule, Effort, Elem, Error, Mode, Options, Request, ResultActivity, TapeKind};
use brolga_testing::counting::requests;
use brolga_testing::program;

fn rule(text: &str, name: &str, args: &[ArgSpec], effort: Effort) -> DerivedRule {
    let p = program(text);
    let request = Request::new(p.func(name).expect("it is defined"), args.iter().copied());
    let options = Options { mode: Mode::Tangent, effort, ..Options::default() };
    DerivedRule::new(&p, &request, &options).unwrap_or_else(|e| panic!("{e}"))
}

fn float(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

/// Values and tangents.
type Found = (Vec<DataValue>, Vec<Option<DataValue>>);

fn along(rule: &DerivedRule, args: &[Arg], by: &[Option<DataValue>]) -> Result<Found, Error> {
    let (mut values, mut tangents) = (Vec::new(), Vec::new());
    // SAFETY: pointers among the arguments are to memory of the tests.
    unsafe { rule.tangent(args, by, &mut values, &mut tangents) }?;
    Ok((values, tangents))
}

/// `x^n` by recursion, and a sum over a heap block that is freed in each iteration.
const TEXT: &str = "
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
function %through(f64, i64) -> f64 {
    fn0 = %malloc(i64) -> i64
    fn1 = %free(i64)
block0(v0: f64, v1: i64):
    v2 = f64const 0.0
    v3 = iconst.i64 64
    v4 = iconst.i64 -1
    jump block1(v1, v2)
block1(v5: i64, v6: f64):
    brif v5, block2, block3
block2:
    v7 = call fn0(v3)
    store v0, v7
    v8 = load.f64 v7
    call fn1(v7)
    v9 = fadd v6, v8
    v10 = iadd v5, v4
    jump block1(v10, v9)
block3:
    return v6
}
function %halved(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = load.i32 v0
    store v2, v1
    return
}
function %scrambled(f64) -> f64 {
block0(v0: f64):
    v1 = bitcast.i64 v0
    v2 = iconst.i64 3
    v3 = imul v1, v2
    v4 = bitcast.f64 v3
    return v4
}
";

#[test]
fn recursions_have_tangents() {
    for effort in [Effort::Quick, Effort::Full] {
        let rule = rule(TEXT, "power", &[ArgSpec::ACTIVE, ArgSpec::CONST], effort);
        for (n, slope) in [(0, 0.0), (1, 1.0), (3, 12.0), (5, 80.0)] {
            let args = [Arg::new(float(2.0)), Arg::new(DataValue::I64(n))];
            let (values, tangents) = along(&rule, &args, &[Some(float(0.5)), None]).expect("no trap");
            assert_eq!((&values[0], &tangents[0]), (&float(2_f64.powi(n as i32)), &Some(float(0.5 * slope))));
            // What is not given is zero.
            let (_, none) = along(&rule, &args, &[None, None]).expect("no trap");
            assert_eq!(none, [Some(float(0.0))]);
        }
    }
}

#[test]
fn blocks_give_their_shadows_back() {
    let rule = rule(TEXT, "through", &[ArgSpec::ACTIVE, ArgSpec::CONST], Effort::Full);
    let run = |n: i64| {
        let args = [Arg::new(float(2.0)), Arg::new(DataValue::I64(n))];
        along(&rule, &args, &[Some(float(1.0)), None]).expect("no trap").1
    };
    assert_eq!(run(3), [Some(float(3.0))]);
    // A million blocks, one after the other: one shadow does for all.
    assert_eq!(run(1_000_000), [Some(float(1e6))]);
}

#[test]
fn a_second_call_allocates_nothing() {
    let rule = rule(TEXT, "power", &[ArgSpec::ACTIVE, ArgSpec::CONST], Effort::Full);
    let args = [Arg::new(float(2.0)), Arg::new(DataValue::I64(5))];
    let (mut values, mut tangents) = (Vec::new(), Vec::new());
    let by = [Some(float(1.0)), None];
    let mut call = || {
        // SAFETY: there are no pointers.
        unsafe { rule.tangent(&args, &by, &mut values, &mut tangents) }.map(drop).expect("no trap");
    };
    call();
    let before = requests();
    call();
    assert_eq!(requests(), before);
}

#[test]
fn a_half_of_a_float_has_no_tangent() {
    let args = [ArgSpec::duplicated(Elem::F64), ArgSpec::duplicated(Elem::F64)];
    let rule = rule(TEXT, "halved", &args, Effort::Full);
    let (mut x, mut y, mut dx, mut dy) = ([0.1_f64], [2.5_f64], [0.7_f64], [0.3_f64]);
    let at = |a: &mut [f64], s: &mut [f64]| Arg::duplicated_len(a.as_mut_ptr() as u64, s.as_mut_ptr() as u64, 8);
    along(&rule, &[at(&mut x, &mut dx), at(&mut y, &mut dy)], &[None, None]).expect("no trap");
    let read = |a: &[f64; 1]| std::hint::black_box(a)[0];
    // One half is that of another float, and so is its tangent.
    assert_ne!(read(&y), 2.5);
    assert!(read(&dy).is_nan(), "{}", read(&dy));
    // Without a tangent on either side there is nothing to be told apart.
    let (mut y, mut zero, mut none) = ([2.5_f64], [0.0_f64], [0.0_f64]);
    along(&rule, &[at(&mut x, &mut zero), at(&mut y, &mut none)], &[None, None]).expect("no trap");
    assert_eq!(read(&none), 0.0);
}

#[test]
fn bits_that_are_lost_are_an_error() {
    let p = program(TEXT);
    let request = Request::new(p.func("scrambled").expect("it is defined"), [ArgSpec::ACTIVE]);
    let options = Options { mode: Mode::Tangent, untracked: brolga::Untracked::Trap, ..Options::default() };
    let rule = DerivedRule::new(&p, &request, &options).unwrap_or_else(|e| panic!("{e}"));
    match along(&rule, &[Arg::new(float(1.5))], &[Some(float(1.0))]) {
        Err(Error::Trap(t)) => assert_eq!((t.code.as_str(), t.phase), ("untracked_bits", "tangent")),
        other => panic!("{other:?}"),
    }
    let refused = Options { mode: Mode::Tangent, ..Options::default() };
    assert!(matches!(DerivedRule::new(&p, &request, &refused), Err(Error::Diagnostics(_))));
}

#[test]
fn what_does_not_fit_is_said() {
    let p = program(TEXT);
    let power = p.func("power").expect("it is defined");
    let mut request = Request::new(power, [ArgSpec::ACTIVE, ArgSpec::CONST]);
    let options = Options { mode: Mode::Tangent, ..Options::default() };
    let rule = DerivedRule::new(&p, &request, &options).unwrap_or_else(|e| panic!("{e}"));
    let args = [Arg::new(float(2.0)), Arg::new(DataValue::I64(3))];
    let wrong = |by: &[Option<DataValue>], says: &str| match along(&rule, &args, by) {
        Err(Error::Usage(message)) => assert!(message.contains(says), "{message}"),
        other => panic!("{other:?}"),
    };
    wrong(&[None], "1 directions are given, 2 are wanted");
    wrong(&[Some(DataValue::F32(1.0.into())), None], "has type f32, f64 is wanted");
    wrong(&[None, Some(DataValue::I64(1))], "argument 1 is constant");
    // SAFETY: there are no pointers.
    let reverse = unsafe { rule.gradient(&args, &[float(1.0)], &mut Vec::new(), &mut Vec::new()) };
    assert!(matches!(reverse.map(drop), Err(Error::Usage(m)) if m.contains("forward mode")));
    // SAFETY: the same.
    assert!(matches!(unsafe { rule.forward(&args) }.map(drop), Err(Error::Usage(m)) if m.contains("forward mode")));
    // A constant result has no tangent, and one whose seed is one has one.
    for (activity, is_there) in [(ResultActivity::Const, false), (ResultActivity::Unit, true)] {
        request.results = vec![activity];
        let rule = DerivedRule::new(&p, &request, &options).unwrap_or_else(|e| panic!("{e}"));
        let (_, tangents) = along(&rule, &args, &[Some(float(1.0)), None]).expect("no trap");
        assert_eq!(tangents[0].is_some(), is_there);
    }
    let split = Options { mode: Mode::Split, ..Options::default() };
    let split = DerivedRule::new(&p, &request, &split).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(along(&split, &args, &[None, None]), Err(Error::Usage(m)) if m.contains("forward mode")));
}

/// A number in place of a half of a double that the caller reads.
#[test]
fn a_number_over_a_half_is_seen() {
    const TEXT: &str = "
function %over(i64) -> f64 {
block0(v0: i64):
    v1 = load.f64 v0
    v2 = iconst.i32 7
    store v2, v0+4
    v3 = load.f64 v0
    v4 = iconst.i32 0
    store v4, v0+12
    return v1
}";
    let rule = rule(TEXT, "over", &[ArgSpec::duplicated(Elem::F64)], Effort::Full);
    let run = |dx: [f64; 2]| {
        let (mut x, mut dx) = ([0.1_f64, 0.2], dx);
        let arg = Arg::duplicated_len(x.as_mut_ptr() as u64, dx.as_mut_ptr() as u64, 16);
        along(&rule, &[arg], &[None]).expect("no trap");
        std::hint::black_box(dx)
    };
    let after = run([0.7, 0.3]);
    assert!(after.iter().all(|x| x.is_nan()), "{after:?}");
    assert_eq!(run([0.0, 0.0]), [0.0, 0.0]);
}

#[test]
fn a_typed_tape_is_for_no_rule() {
    let p = program(TEXT);
    let request = Request::new(p.func("power").expect("it is defined"), [ArgSpec::ACTIVE, ArgSpec::CONST]);
    for mode in [Mode::Combined, Mode::Split, Mode::Tangent] {
        let options = Options { mode, tape: TapeKind::Typed, ..Options::default() };
        let found = DerivedRule::new(&p, &request, &options).map(drop);
        assert!(matches!(found, Err(Error::Usage(m)) if m.contains("TapeKind::Typed")));
    }
}
