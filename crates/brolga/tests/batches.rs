//! Several derivatives in one run, as a caller sees them: the layout of shadows, widths and lengths
//! that do not fit, memory of the heap and data, frames, and drivers that ask for several at once.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::drivers::{Argument, Derivatives, FlatFunction, FlatParam, Pattern, Point, Star, Sweep};
use brolga::{Arg, ArgSpec, DerivedRule, Elem, Error, MemoryMode, Mode, Options, Request};
use brolga_testing::program;

/// `Σ x[i] y[i]²` with a heap block in each turn; `exp(a b)` and `a` into memory by a callee with a
/// frame; `y[i] = sin(x[i]) x[i+1]`; a chain `Σ sin(x[i] x[i+1])`; the lower half of a double moved
/// by itself.
const TEXT: &str = "
function %through_heap(i64, i64, i64) -> f64 {
    fn0 = %malloc(i64) -> i64
    fn1 = %free(i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = f64const 0.0
    v4 = iconst.i64 -8
    v5 = iconst.i64 3
    v20 = ishl v2, v5
    jump block1(v20, v3)
block1(v6: i64, v7: f64):
    brif v6, block2, block3
block2:
    v8 = iadd v6, v4
    v9 = iadd v0, v8
    v10 = iadd v1, v8
    v11 = load.f64 v10
    v12 = fmul v11, v11
    v13 = iconst.i64 16
    v14 = call fn0(v13)
    store v12, v14+8
    v15 = load.f64 v9
    v16 = load.f64 v14+8
    v17 = fmul v15, v16
    call fn1(v14)
    v18 = fadd v7, v17
    jump block1(v8, v18)
block3:
    return v7
}
function %put(f64, f64, i64) -> f64 {
    ss0 = explicit_slot 16
    fn0 = %exp(f64) -> f64
block0(v0: f64, v1: f64, v2: i64):
    v3 = stack_addr.i64 ss0
    v4 = fmul v0, v1
    store v4, v3+8
    v5 = load.f64 v3+8
    v6 = call fn0(v5)
    store v0, v2
    return v6
}
function %calls(f64, f64, i64) -> f64 {
    fn0 = %put(f64, f64, i64) -> f64
block0(v0: f64, v1: f64, v2: i64):
    v3 = call fn0(v0, v1, v2)
    v4 = load.f64 v2
    v5 = fmul v3, v4
    return v5
}
function %each(i64, i64, i64) {
    fn0 = %sin(f64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    jump block1(v3)
block1(v4: i64):
    v5 = iconst.i64 8
    v6 = imul v4, v5
    v7 = iadd v0, v6
    v8 = load.f64 v7
    v9 = load.f64 v7+8
    v10 = call fn0(v8)
    v11 = fmul v10, v9
    v12 = iadd v1, v6
    store v11, v12
    v13 = iconst.i64 1
    v14 = iadd v4, v13
    v15 = icmp ult v14, v2
    brif v15, block1(v14), block2
block2:
    return
}
function %chain(i64, i64) -> f64 {
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
    v10 = load.f64 v8+8
    v11 = fmul v9, v10
    v12 = call fn0(v11)
    v13 = fadd v5, v12
    v14 = iconst.i64 1
    v15 = iadd v4, v14
    v16 = icmp ult v15, v1
    brif v16, block1(v15, v13), block2
block2:
    return v13
}
function %halved(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = load.i32 v0
    store v2, v1
    v3 = load.i32 v0+4
    store v3, v1+4
    return
}
";

fn rule(name: &str, args: &[ArgSpec], mode: Mode, width: u32) -> Result<DerivedRule, Error> {
    let p = program(TEXT);
    let request = Request::new(p.func(name).expect("it is defined"), args.iter().copied());
    DerivedRule::new(&p, &request, &Options { mode, width, ..Options::default() })
}

fn float(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

fn number(v: &Option<DataValue>) -> f64 {
    match v {
        Some(DataValue::F64(x)) => x.as_f64(),
        other => panic!("{other:?} is no float"),
    }
}

const FLOATS: ArgSpec = ArgSpec::duplicated(Elem::F64);

#[test]
fn tangents_of_a_float_lie_side_by_side() {
    let (x, y) = ([2.0, 3.0], [5.0, 7.0]);
    for width in [2, 3, 8, 64] {
        let rule = rule("through_heap", &[FLOATS, FLOATS, ArgSpec::CONST], Mode::Tangent, width as u32).unwrap();
        // Direction k moves x[0] by k and y[1] by 1.
        let (mut dx, mut dy) = (vec![0.0; 2 * width], vec![0.0; 2 * width]);
        (0..width).for_each(|k| (dx[k], dy[width + k]) = (k as f64, 1.0));
        let at = |v: &[f64]| v.as_ptr() as u64;
        let args = [
            Arg::duplicated_len(at(&x), at(&dx), 16),
            Arg::duplicated_len(at(&y), at(&dy), 16),
            Arg::new(DataValue::I64(2)),
        ];
        for _ in 0..2 {
            let (mut values, mut tangents) = (Vec::new(), Vec::new());
            // SAFETY: shadows are as many times as large as their primals.
            unsafe { rule.tangent(&args, &vec![None; 3 * width], &mut values, &mut tangents) }.unwrap();
            assert_eq!(values, [float(2.0 * 25.0 + 3.0 * 49.0)]);
            let wanted: Vec<f64> = (0..width).map(|k| 25.0 * k as f64 + 2.0 * 3.0 * 7.0).collect();
            assert_eq!(tangents.iter().map(number).collect::<Vec<_>>(), wanted, "{width}");
        }
    }
}

#[test]
fn seeds_go_through_one_record() {
    let (a, b, width) = (0.5, 2.0, 5);
    let rule = rule("calls", &[ArgSpec::ACTIVE, ArgSpec::ACTIVE, FLOATS], Mode::Split, width as u32).unwrap();
    let (place, mut shadow) = ([0.0; 1], vec![0.0; width]);
    let args = [
        Arg::new(float(a)),
        Arg::new(float(b)),
        Arg::duplicated_len(place.as_ptr() as u64, shadow.as_mut_ptr() as u64, 8),
    ];
    // SAFETY: the shadow is as many times as large as its primal.
    let (values, mut pullback) = unsafe { rule.forward(&args) }.unwrap();
    let e = f64::exp(a * b);
    assert_eq!(values, [float(e * a)]);
    for turn in 1..3 {
        // The place is seeded, too: it has been overwritten with a.
        shadow.iter_mut().enumerate().for_each(|(k, s)| *s = k as f64);
        let seeds: Vec<DataValue> = (0..width).map(|k| float((k * turn) as f64)).collect();
        // SAFETY: as above.
        let found = unsafe { pullback.call(&seeds) }.unwrap();
        for k in 0..width {
            let seed = (k * turn) as f64;
            let wanted = [seed * (a * b * e + e) + k as f64, seed * a * a * e];
            let is = [number(&found[3 * k]), number(&found[3 * k + 1])];
            assert!(is.iter().zip(wanted).all(|(is, w)| (is - w).abs() <= 1e-14 * w.abs()), "{is:?} {wanted:?}");
            assert_eq!(shadow[k], 0.0);
        }
    }
    // SAFETY: nothing is run.
    let few = unsafe { pullback.call(&[float(1.0)]) };
    says(few, "1 seeds are given, 5 are wanted, one per result, in each set");
}

fn says<T>(found: Result<T, Error>, what: &str) {
    let e = found.err().unwrap_or_else(|| panic!("no error, where one says {what:?}"));
    assert!(e.to_string().contains(what), "{e}");
}

#[test]
fn what_does_not_fit_says_what_to_write() {
    let args = [FLOATS, FLOATS, ArgSpec::CONST];
    for width in [0, 65, 1000] {
        let found = rule("each", &args, Mode::Tangent, width);
        says(found, "a width is one of 1 to 64");
    }
    for mode in [Mode::Combined, Mode::Gradient] {
        says(rule("each", &args, mode, 4), "`Mode::Split`, or a width of 1");
    }
    says(rule("halved", &[FLOATS, FLOATS], Mode::Tangent, 4), "AD0180");
    says(rule("halved", &[FLOATS, FLOATS], Mode::Split, 4), "AD0180");
    let p = program(TEXT);
    let request = Request::new(p.func("each").unwrap(), args);
    let wide = Options { width: 4, ..Options::default() };
    says(DerivedRule::new(&p, &request, &Options { debug: true, ..wide.clone() }), "a debug run has a width of 1");
    says(DerivedRule::new(&p, &request, &Options { memory: MemoryMode::Restore, ..wide }), "`MemoryMode::Leave`");
    let rule = rule("each", &args, Mode::Tangent, 4).unwrap();
    let (x, shadow) = ([1.0; 3], [0.0; 12]);
    let at = |v: &[f64]| v.as_ptr() as u64;
    let out = Arg::duplicated(at(&x), at(&shadow));
    let given = [out.clone(), out.clone(), Arg::new(DataValue::I64(1))];
    let run = |given: &[Arg], n: usize| {
        // SAFETY: nothing is run.
        unsafe { rule.tangent(given, &vec![None; n], &mut Vec::new(), &mut Vec::new()) }
    };
    says(run(&given, 3), "3 directions are given, 12 are wanted, one per argument, for each direction");
    // Its shadow ends where the primal begins, if it is four times as long.
    let both = [0.0; 12];
    let close = [Arg::duplicated_len(at(&both[3..]), at(&both), 24), out.clone(), Arg::new(DataValue::I64(1))];
    says(run(&close, 12), "overlaps");
    let lies = Arg::duplicated(0x1_0000, 0x4_0000);
    says(run(&[lies, out, Arg::new(DataValue::I64(1))], 12), "move it");
}

/// The same bits from each driver as from one run after the other.
fn agree(at: &mut impl Derivatives<Error = Error>) {
    let (n, m) = (at.inputs(), at.outputs());
    let vector = |n: usize, k: usize| (0..n).map(|i| ((3 * i + 5 * k) % 7) as f64 - 2.5).collect::<Vec<f64>>();
    for count in [1, 2, 3, 8, 11] {
        let along: Vec<_> = (0..count).map(|k| vector(n, k)).collect();
        let one: Vec<_> = along.iter().map(|v| at.jvp(v).unwrap().1).collect();
        assert_eq!(at.jvps(&along).unwrap(), one, "{count} directions");
        let seeds = vector(m, 1);
        let one: Vec<_> = along.iter().map(|v| at.hvp(&seeds, v).unwrap().product).collect();
        assert_eq!(at.hvps(&seeds, &along).unwrap(), one, "{count} second directions");
        let rows: Vec<_> = (0..count).map(|k| vector(m, k)).collect();
        let one: Vec<_> = rows.iter().map(|v| at.vjp(v).unwrap().1).collect();
        let found = at.pulled(|pull| Ok([pull(&rows)?, pull(&rows)?])).unwrap();
        for (is, want) in found[0].iter().chain(&found[1]).zip(one.iter().chain(&one)) {
            let near = is.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-13 * (1.0 + b.abs()));
            assert!(near, "{count} rows: {is:?} {want:?}");
        }
    }
    let [forward, reverse] = [Sweep::Forward, Sweep::Reverse].map(|way| at.jacobian_by(way).unwrap());
    for (a, b) in forward.iter().flatten().zip(reverse.iter().flatten()) {
        assert!((a - b).abs() <= 1e-13 * (1.0 + b.abs()), "{a} {b}");
    }
}

#[test]
fn drivers_ask_for_several_at_once() {
    let p = program(TEXT);
    let x: Vec<f64> = (0..12).map(|i| 0.25 * f64::from(i) - 1.0).collect();
    let (each, n) = (p.func("each").unwrap(), 11);
    let args =
        vec![Argument::Floats(x.clone()), Argument::Floats(vec![0.0; n]), Argument::Const(DataValue::I64(n as i64))];
    // SAFETY: the function stays within its buffers.
    let mut at = unsafe { Point::new(&p, each, args, &Options::default()) }.unwrap().with_outputs(&[1]).unwrap();
    agree(&mut at);
    let params =
        vec![FlatParam::Input(12), FlatParam::Output(n), FlatParam::Fixed(Argument::Const(DataValue::I64(n as i64)))];
    // SAFETY: as above.
    let f = unsafe { FlatFunction::new(&p, each, params, &Options::default()) }.unwrap();
    agree(&mut f.at(&[&x]).unwrap());
    let chain = vec![Argument::Floats(x), Argument::Const(DataValue::I64(11))];
    // SAFETY: as above.
    let mut at = unsafe { Point::new(&p, p.func("chain").unwrap(), chain, &Options::default()) }.unwrap();
    agree(&mut at);
    let (dense, star) = (at.hessian(&[1.0]).unwrap(), Star::new(&Pattern::banded(12, 1, 1)).unwrap());
    let sparse = star.pattern().dense(&at.sparse_hessian(&[1.0], &star).unwrap());
    assert!(dense.iter().flatten().zip(sparse.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-13));
    // By value, with a frame and a callee.
    let args = vec![Argument::Active(float(0.5)), Argument::Active(float(2.0)), Argument::Floats(vec![0.0])];
    // SAFETY: as above.
    let mut at = unsafe { Point::new(&p, p.func("calls").unwrap(), args, &Options::default()) }.unwrap();
    agree(&mut at);
}

#[test]
fn what_has_no_batch_is_run_one_by_one() {
    let p = program(TEXT);
    let args = vec![Argument::Floats(vec![2.0]), Argument::Floats(vec![0.0])];
    // SAFETY: the function stays within its buffers.
    let at = unsafe { Point::new(&p, p.func("halved").unwrap(), args, &Options::default()) }.unwrap();
    let mut at = at.with_outputs(&[1]).unwrap();
    let along = [vec![1.0, 0.0], vec![0.0, 1.0], vec![3.0, 0.0]];
    assert_eq!(at.jvps(&along).unwrap(), [[1.0], [0.0], [3.0]]);
    assert_eq!(at.pulled(|pull| pull(&[vec![2.0], vec![1.0]])).unwrap(), [[2.0, 0.0], [1.0, 0.0]]);
}
