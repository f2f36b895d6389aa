//! Outputs whose seeds are consumed, though the function only adds to them: against the same
//! derivative without that, whose numbers are the same but for what it leaves in the shadow.

use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated, DuplicatedOnly};
use brolga_module::{AdError, Elem, FloatCount, ParamRole, ParamSpec, ResultRole, Room, Spec};
use cranelift_codegen::data_value::DataValue;

use crate::common::{Fixture, address, double, number};

/// a(x, y, n, c) adds c·xᵢ² to yᵢ, then y₀·c to y₁; r does the same to the first by recursion; s
/// adds all c·xᵢ² to y₀ and writes y₁; t is a for single floats.
const TEXT: &str = "function %a(i64, i64, i64, f64) {
block0(v0: i64, v1: i64, v2: i64, v3: f64):
    v4 = iconst.i64 0
    jump block1(v4)
block1(v5: i64):
    v6 = icmp slt v5, v2
    brif v6, block2, block3
block2:
    v7 = iconst.i64 3
    v8 = ishl v5, v7
    v9 = iadd v0, v8
    v10 = iadd v1, v8
    v11 = load.f64 v9
    v12 = fmul v11, v11
    v13 = fmul v12, v3
    v14 = load.f64 v10
    v15 = fadd v14, v13
    store v15, v10
    v16 = iconst.i64 1
    v17 = iadd v5, v16
    jump block1(v17)
block3:
    v18 = load.f64 v1
    v19 = fmul v18, v3
    v20 = load.f64 v1+8
    v21 = fadd v20, v19
    store v21, v1+8
    return
}
function %r(i64, i64, i64, f64) {
    fn0 = %r(i64, i64, i64, f64)
block0(v0: i64, v1: i64, v2: i64, v3: f64):
    brif v2, block1, block2
block1:
    v4 = load.f64 v0
    v5 = fmul v4, v4
    v6 = fmul v5, v3
    v7 = load.f64 v1
    v8 = fadd v7, v6
    store v8, v1
    v9 = iconst.i64 8
    v10 = iadd v0, v9
    v11 = iadd v1, v9
    v12 = iconst.i64 1
    v13 = isub v2, v12
    call fn0(v10, v11, v13, v3)
    return
block2:
    return
}
function %s(i64, i64, i64, f64) {
block0(v0: i64, v1: i64, v2: i64, v3: f64):
    v4 = iconst.i64 0
    store v3, v1+8
    jump block1(v4)
block1(v5: i64):
    v6 = icmp slt v5, v2
    brif v6, block2, block3
block2:
    v7 = iconst.i64 3
    v8 = ishl v5, v7
    v9 = iadd v0, v8
    v11 = load.f64 v9
    v12 = fmul v11, v11
    v13 = fmul v12, v3
    v14 = load.f64 v1
    v15 = fadd v14, v13
    store v15, v1
    v16 = iconst.i64 1
    v17 = iadd v5, v16
    jump block1(v17)
block3:
    return
}
function %t(i64, i64, i32, f32) {
block0(v0: i64, v1: i64, v2: i32, v3: f32):
    v4 = load.f32 v0
    v5 = fmul v4, v4
    v6 = fmul v5, v3
    v7 = load.f32 v1
    v8 = fadd v7, v6
    store v8, v1
    v9 = load.f32 v1+4
    v10 = fadd v9, v3
    store v10, v1+4
    return
}
function %all(i64, i64, i64, f64) {
    fn0 = %a(i64, i64, i64, f64)
    fn1 = %r(i64, i64, i64, f64)
    fn2 = %s(i64, i64, i64, f64)
    fn3 = %t(i64, i64, i32, f32)
block0(v0: i64, v1: i64, v2: i64, v3: f64):
    call fn0(v0, v1, v2, v3)
    call fn1(v0, v1, v2, v3)
    call fn2(v0, v1, v2, v3)
    v4 = ireduce.i32 v2
    v5 = fdemote.f32 v3
    call fn3(v0, v1, v4, v5)
    return
}";

fn output(count: FloatCount) -> ParamSpec {
    ParamSpec::from(Duplicated).consumed(Elem::F64, count)
}

fn params(output: ParamSpec) -> [ParamSpec; 4] {
    [Duplicated.into(), output, Const.into(), Active.into()]
}

/// What a call leaves: y, the shadows of x and y, and the cotangent of c.
type Left = ([f64; 4], [f64; 3], [f64; 4], f64);

const X: [f64; 3] = [0.5, -1.5, 2.0];
const C: f64 = 0.75;

/// One call of a gradient or of a pair, twice the pullback.
fn run(m: &Fixture, ids: &[brolga_module::cranelift_module::FuncId]) -> Left {
    let (mut x, mut dx) = (X, [0.25, 0.5, 0.125]);
    let (mut y, mut dy) = ([1.0, 2.0, 3.0, 4.0], [7.0, 0.5, -2.0, 11.0]);
    let mut workspace = vec![0xaa_u8; 1 << 14];
    let at = |v: &mut [f64]| address(v);
    let [px, pdx, py, pdy] = [at(&mut x), at(&mut dx), at(&mut y), at(&mut dy)];
    let room = address(&mut workspace);
    let arg = |role| match role {
        ParamRole::Primal(0) => px.clone(),
        ParamRole::Shadow(0) => pdx.clone(),
        ParamRole::Primal(1) => py.clone(),
        ParamRole::Shadow(1) => pdy.clone(),
        ParamRole::Primal(2) => DataValue::I64(3),
        ParamRole::Primal(3) => double(C),
        ParamRole::Workspace => room.clone(),
        ParamRole::WorkspaceBytes => DataValue::I64(1 << 14),
        other => panic!("{other:?}"),
    };
    let mut c = 0.0;
    for &id in ids {
        let r = m.call(id, arg);
        c = number(&r, ResultRole::Cotangent(3)).unwrap_or(c);
        assert_eq!(number(&r, ResultRole::Status).unwrap_or(0.0), 0.0);
    }
    (y, dx, dy, c)
}

#[test]
fn seeds_of_outputs_that_are_added_to() {
    for f in ["a", "r", "s"] {
        let mut m = Fixture::new(TEXT, "all");
        let mut found = vec![];
        for count in [None, Some(FloatCount::Param(2)), Some(FloatCount::Fixed(2)), Some(FloatCount::Fixed(0))] {
            let of = || params(count.map_or(Duplicated.into(), output));
            let gradient = m.derivative(f, &Spec::gradient(of()));
            let (forward, pullback) = m.pair(f, &Spec::pair(of()));
            found.push((count, vec![gradient], vec![forward, pullback]));
        }
        m.finish();
        let (_, gradient, pair) = &found[0];
        let plain = run(&m, gradient);
        assert_eq!(plain, run(&m, pair), "{f}");
        assert!(plain.2[0] != 0.0 && plain.2[2] == -2.0 && plain.2[3] == 11.0, "{f}: {plain:?}");
        for (count, gradient, pair) in &found[1..] {
            let n = match count {
                Some(FloatCount::Fixed(n)) => *n as usize,
                _ => 3,
            };
            let mut want = plain;
            want.2[..n].fill(0.0);
            assert_eq!(run(&m, gradient), want, "{f}: gradient, {count:?}");
            assert_eq!(run(&m, pair), want, "{f}: pair, {count:?}");
        }
    }
}

/// p(x, y, c) overwrites y₀, adds to y₁, changes y₂ by a factor, reads y₃, and leaves y₄ alone.
const PLACES: &str = "function %p(i64, i64, f64) -> f64 {
block0(v0: i64, v1: i64, v2: f64):
    v3 = load.f64 v0
    v4 = fmul v3, v2
    store v4, v1
    v5 = load.f64 v1+8
    v6 = fadd v5, v4
    store v6, v1+8
    v7 = load.f64 v1+16
    v8 = fmul v7, v3
    store v8, v1+16
    v9 = load.f64 v1+24
    v10 = fmul v9, v2
    return v10
}";

/// What is left in a shadow, place by place, in every combination of activities: what the guide
/// says, and the numbers of the combination in which all is active.
#[test]
fn what_is_left_in_every_place() {
    let (x, c, y, seeds, seed) = (1.5, 0.75, [3.0, -1.0, 2.0, 0.5, 4.0], [7.0, 0.5, -2.0, 11.0, -3.0], 1.25);
    // Cotangents of x and c, and the shadow of y.
    let of_x = seeds[0] * c + seeds[1] * c + seeds[2] * y[2];
    let of_c = seeds[0] * x + seeds[1] * x + seed * y[3];
    let unconsumed = [0.0, seeds[1], seeds[2] * x, seeds[3] + seed * c, seeds[4]];
    let near = |is: f64, want: f64, what: &str| assert!((is - want).abs() < 1e-14, "{what}: {is}, not {want}");
    for of_y in [Duplicated, DuplicatedOnly] {
        for (of_x_is, of_c_is) in [(Const, Const), (Duplicated, Const), (Const, Active), (Duplicated, Active)] {
            for consumed in [None, Some(0), Some(2), Some(5)] {
                let mut m = Fixture::new(PLACES, "p");
                let out = ParamSpec::from(of_y);
                let out = consumed.map_or(out, |n| out.consumed(Elem::F64, FloatCount::Fixed(n)));
                let params = [of_x_is.into(), out, of_c_is.into()];
                let gradient = m.derivative("p", &Spec::gradient(params));
                let in_struct = m.derivative("p", &Spec::gradient(params).in_struct());
                let (forward, pullback) = m.pair("p", &Spec::pair(params));
                m.finish();
                for ids in [vec![gradient], vec![in_struct], vec![forward, pullback]] {
                    let what = format!("{params:?}, {}", ids.len());
                    let (mut px, mut dx, mut py, mut dy) = ([x], [0.25], y, seeds);
                    let mut room = vec![0_u8; 1 << 10];
                    let mut last = vec![];
                    for &id in &ids {
                        last = m.call(id, |role| match role {
                            ParamRole::Primal(0) => address(&mut px),
                            ParamRole::Shadow(0) => address(&mut dx),
                            ParamRole::Primal(1) => address(&mut py),
                            ParamRole::Shadow(1) => address(&mut dy),
                            ParamRole::Primal(2) => double(c),
                            ParamRole::Seed(0) => double(seed),
                            ParamRole::Workspace => address(&mut room),
                            _ => DataValue::I64(1 << 10),
                        });
                    }
                    let cotangent = number(&last, ResultRole::Cotangent(2));
                    assert_eq!(cotangent.is_some(), of_c_is == Active, "{what}");
                    near(cotangent.unwrap_or(of_c), of_c, &what);
                    near(dx[0], if of_x_is == Duplicated { 0.25 + of_x } else { 0.25 }, &what);
                    for (i, (is, unconsumed)) in dy.iter().zip(unconsumed).enumerate() {
                        let is_consumed = consumed.is_some_and(|n| i < n as usize);
                        near(*is, if is_consumed { 0.0 } else { unconsumed }, &what);
                    }
                    if of_y == Duplicated {
                        assert_eq!(py, [x * c, y[1] + x * c, y[2] * x, y[3], y[4]], "{what}");
                    }
                }
            }
        }
    }
}

/// The seed of the second call is set again, and what was consumed is not there.
#[test]
fn a_pullback_that_is_called_again() {
    let mut m = Fixture::new(TEXT, "all");
    let (forward, pullback) = m.pair("s", &Spec::pair(params(output(FloatCount::Fixed(2)))));
    m.finish();
    let one_run = run(&m, &[forward, pullback]);
    // Nothing is left that a second pullback would take: cotangents of x stay, that of c is zero.
    let two_runs = run(&m, &[forward, pullback, pullback]);
    assert_eq!((two_runs.0, two_runs.1, two_runs.2), (one_run.0, one_run.1, one_run.2));
    assert!(one_run.3 != 0.0 && two_runs.3 == 0.0);
}

#[test]
fn single_floats_and_a_short_count() {
    let mut m = Fixture::new(TEXT, "all");
    let spec = |p: ParamSpec| Spec::gradient([Duplicated.into(), p, Const.into(), Active.into()]);
    let id = m.derivative("t", &spec(ParamSpec::from(Duplicated).consumed(Elem::F32, FloatCount::Param(2))));
    m.finish();
    for (n, left) in [(1, [0.0, 5.0, 9.0]), (2, [0.0, 0.0, 9.0]), (0, [3.0, 5.0, 9.0]), (-1, [3.0, 5.0, 9.0])] {
        let (mut x, mut dx) = ([1.5_f32], [0.0_f32]);
        let (mut y, mut dy) = ([1.0_f32; 3], [3.0_f32, 5.0, 9.0]);
        let c = DataValue::F32(0.5_f32.into());
        let r = m.call_with(
            id,
            &[address(&mut x), address(&mut dx), address(&mut y), address(&mut dy), DataValue::I32(n), c],
        );
        assert_eq!((dy, dx), (left, [3.0 * 2.0 * 1.5 * 0.5]), "{n}");
        assert_eq!(number(&r, ResultRole::Cotangent(3)), Some(3.0 * 1.5 * 1.5 + 5.0));
        assert_eq!(y, [1.0 + 1.5 * 1.5 * 0.5, 1.5, 1.0]);
    }
}

/// The tangent of a gradient that consumes, against differences of that.
#[test]
fn second_derivatives() {
    let mut m = Fixture::new(TEXT, "all");
    for f in ["a", "s"] {
        let first = m.derivative(f, &Spec::gradient(params(output(FloatCount::Param(2)))));
        let s = m.module.signature(first).expect("it is derived").clone();
        let moving = |role: &ParamRole| match role {
            ParamRole::Primal(2) | ParamRole::WorkspaceBytes => Const,
            _ => Dual,
        };
        let second = m.derivative_of(first, &Spec::tangent(s.params.iter().map(moving)));
        m.finish();
        let direction = [0.3, -0.7, 1.1];
        // The gradient's cotangents where x has moved.
        let gradient = |h: f64, seed: f64| {
            let (mut x, mut dx) = (X, [0.0; 3]);
            x.iter_mut().zip(direction).for_each(|(x, d)| *x += h * d);
            let (mut y, mut dy) = ([1.0, 2.0, 3.0], [7.0, 0.5 + h * seed, -2.0]);
            let mut room = vec![0_u8; 1 << 14];
            let r = m.call(first, |role| match role {
                ParamRole::Primal(0) => address(&mut x),
                ParamRole::Shadow(0) => address(&mut dx),
                ParamRole::Primal(1) => address(&mut y),
                ParamRole::Shadow(1) => address(&mut dy),
                ParamRole::Primal(2) => DataValue::I64(3),
                ParamRole::Primal(3) => double(C),
                ParamRole::Workspace => address(&mut room),
                _ => DataValue::I64(1 << 14),
            });
            (dx, number(&r, ResultRole::Cotangent(3)).expect("c is active"))
        };
        let (mut x, mut dx, mut tdx) = (X, [0.0; 3], [0.0; 3]);
        let (mut y, mut dy, mut ty, mut tdy) = ([1.0, 2.0, 3.0], [7.0, 0.5, -2.0], [0.0; 3], [0.0, 0.9, 0.0]);
        let mut tx = direction;
        let (mut room, mut shadow, mut outer_workspace) =
            (vec![0_u8; 1 << 14], vec![0_u8; 1 << 14], vec![0_u8; 1 << 14]);
        let r = m.call(second, |role| match role {
            ParamRole::Primal(k) => match s.params[k] {
                ParamRole::Primal(0) => address(&mut x),
                ParamRole::Shadow(0) => address(&mut dx),
                ParamRole::Primal(1) => address(&mut y),
                ParamRole::Shadow(1) => address(&mut dy),
                ParamRole::Primal(2) => DataValue::I64(3),
                ParamRole::Primal(3) => double(C),
                ParamRole::Workspace => address(&mut room),
                _ => DataValue::I64(1 << 14),
            },
            ParamRole::Shadow(k) => match s.params[k] {
                ParamRole::Primal(0) => address(&mut tx),
                ParamRole::Shadow(0) => address(&mut tdx),
                ParamRole::Primal(1) => address(&mut ty),
                ParamRole::Shadow(1) => address(&mut tdy),
                _ => address(&mut shadow),
            },
            ParamRole::Tangent(_) => double(0.0),
            ParamRole::Workspace => address(&mut outer_workspace),
            _ => DataValue::I64(1 << 14),
        });
        let h = 1e-6;
        let (up, down) = (gradient(h, 0.9), gradient(-h, 0.9));
        let slope = |a: f64, b: f64| (a - b) / (2.0 * h);
        let near =
            |is: f64, want: f64| assert!((is - want).abs() < 1e-6 * want.abs().max(1.0), "{f}: {is}, not {want}");
        (0..3).for_each(|i| near(tdx[i], slope(up.0[i], down.0[i])));
        let at = s.results.iter().position(|r| *r == ResultRole::Cotangent(3)).expect("c is active");
        near(number(&r, ResultRole::Tangent(at)).expect("it has a tangent"), slope(up.1, down.1));
        assert_eq!((dy, tdy), ([0.0; 3], [0.0; 3]), "{f}");
    }
}

#[test]
fn no_workspace_is_needed_for_it() {
    let mut m = Fixture::new(TEXT, "all");
    let id = m.derivative(
        "t",
        &Spec::gradient([
            Duplicated.into(),
            ParamSpec::from(Duplicated).consumed(Elem::F32, FloatCount::Fixed(2)),
            Const.into(),
            Active.into(),
        ]),
    );
    assert!(!m.module.room(id).is_some_and(Room::is_given));
}

#[test]
fn what_cannot_be_consumed() {
    let m = Fixture::new(TEXT, "all");
    let refused = |p: ParamSpec, spec: fn([ParamSpec; 4]) -> Spec| {
        let x = if p.activity == Dual { Dual } else { Duplicated };
        let c = if p.activity == Dual { Dual } else { Active };
        match m.module.derive(m.func("a"), &spec([x.into(), p, Const.into(), c.into()])) {
            Err(AdError::Diagnostics(d)) => d.to_string(),
            other => panic!("{:?}", other.map(|e| e.signatures)),
        }
    };
    let fixed = FloatCount::Fixed(1);
    let told = [
        refused(ParamSpec::from(Const).consumed(Elem::F64, fixed), Spec::gradient),
        refused(ParamSpec::from(Duplicated).consumed(Elem::Pointer, fixed), Spec::pair),
        refused(ParamSpec::from(Duplicated).consumed(Elem::F64, FloatCount::Param(3)), Spec::gradient),
        refused(ParamSpec::from(Duplicated).consumed(Elem::F64, FloatCount::Param(9)), Spec::gradient),
        refused(ParamSpec::from(Dual).consumed(Elem::F64, fixed), Spec::tangent),
    ];
    let whys = ["there is no shadow", "is no float", "says how many", "says how many", "no seeds"];
    for (told, why) in told.iter().zip(whys) {
        assert!(told.starts_with("error[AD0010]") && told.contains(why), "{told}");
    }
}
