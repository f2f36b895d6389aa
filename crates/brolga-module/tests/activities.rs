//! The table of activities: every combination gives the numbers of the one in which all is active.

use brolga_module::ParamActivity::{Active, Const, Dual, DualOnly, Duplicated, DuplicatedOnly};
use brolga_module::{ParamActivity, ParamRole, ResultRole, ReturnActivity, Room, Spec};
use cranelift_codegen::data_value::DataValue;

use crate::common::{Fixture, address, double, number};

/// `r0 = x·p0·y`, `n + 1`, `r2 = sin(y)·p1 + x²`; then `p1 = r0`.
const TEXT: &str = "function %f(f64, i64, f64, i32) -> f64, i32, f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64, v1: i64, v2: f64, v3: i32):
    v4 = load.f64 v1
    v5 = load.f64 v1+8
    v6 = fmul v0, v4
    v7 = fmul v6, v2
    v8 = iconst.i32 1
    v9 = iadd v3, v8
    v10 = call fn0(v2)
    v11 = fmul v10, v5
    v12 = fmul v0, v0
    v13 = fadd v11, v12
    store v7, v1+8
    return v7, v9, v13
}";

/// Nothing active can be stored behind a constant pointer: the store is left out then.
fn text(inputs: &[ParamActivity]) -> String {
    if inputs[1] == Const { TEXT.replace("store v7, v1+8", "") } else { TEXT.to_owned() }
}

const X: f64 = 1.5;
const Y: f64 = 0.7;
const P: [f64; 2] = [2.0, -3.0];
/// Shadows before the call: the second is the seed of what is written there.
const SHADOW: [f64; 2] = [0.25, 0.5];
const SEEDS: [f64; 2] = [1.25, -0.75];

/// Cotangents of x, y, p0 and p1 for seeds of the results and of what is written.
fn cotangents(seeds: [f64; 2], written: f64) -> [f64; 4] {
    let (a, b) = (seeds[0] + written, seeds[1]);
    [a * P[0] * Y + b * 2.0 * X, a * X * P[0] + b * Y.cos() * P[1], a * X * Y, b * Y.sin()]
}

fn close(is: f64, want: f64) -> bool {
    (is - want).abs() <= 1e-14 * want.abs().max(1.0)
}

fn product<T: Copy>(choices: &[&[T]]) -> Vec<Vec<T>> {
    choices.iter().fold(vec![vec![]], |all, each| {
        all.iter().flat_map(|head| each.iter().map(|c| [head.clone(), vec![*c]].concat())).collect()
    })
}

fn inputs() -> Vec<Vec<ParamActivity>> {
    product(&[&[Const, Active], &[Const, Duplicated, DuplicatedOnly], &[Const, Active], &[Const]])
}

fn outputs() -> Vec<Vec<ReturnActivity>> {
    use ReturnActivity::{Active, ActiveOnly, Const, Omitted};
    let float: &[ReturnActivity] = &[Const, Omitted, Active, ActiveOnly];
    product(&[float, &[Const, Omitted], float])
}

/// Parameters and results are where the table says.
fn check_order(params: &[ParamRole], results: &[ResultRole], inputs: &[ParamActivity], outputs: &[ReturnActivity]) {
    let mut want = Vec::new();
    for (i, a) in inputs.iter().enumerate() {
        want.push(ParamRole::Primal(i));
        want.extend(matches!(a, Duplicated | DuplicatedOnly).then_some(ParamRole::Shadow(i)));
    }
    let seeded = |o: &ReturnActivity| matches!(o, ReturnActivity::Active | ReturnActivity::ActiveOnly);
    want.extend(outputs.iter().enumerate().filter(|o| seeded(o.1)).map(|o| ParamRole::Seed(o.0)));
    assert_eq!(params.iter().copied().filter(|p| *p != ParamRole::Results).collect::<Vec<_>>(), want);
    let values = outputs.iter().enumerate().filter(|o| o.1.is_returned()).map(|o| ResultRole::Value(o.0));
    let cotangents = inputs.iter().enumerate().filter(|a| *a.1 == Active).map(|a| ResultRole::Cotangent(a.0));
    assert_eq!(results, values.chain(cotangents).collect::<Vec<_>>());
}

#[test]
fn every_combination_in_reverse_mode() {
    for inputs in inputs() {
        let mut f = Fixture::new(&text(&inputs), "f");
        let (all, in_struct) = (outputs(), [false, true]);
        let mut ids = Vec::new();
        for outputs in &all {
            for in_struct in in_struct {
                let spec = Spec::gradient(inputs.clone()).results(outputs.clone());
                ids.push(f.derivative("f", &if in_struct { spec.in_struct() } else { spec }));
            }
        }
        f.finish();
        for (outputs, ids) in all.iter().zip(ids.chunks(2)) {
            for (&id, in_struct) in ids.iter().zip(in_struct) {
                let s = f.module.signature(id).unwrap();
                check_order(&s.params, &s.results, &inputs, outputs);
                assert_eq!(f.module.room(id), Some(Room::Nothing));
                assert!(!in_struct || s.layout.is_some() || s.results.is_empty());
                assert_eq!(s.layout.is_some(), s.params.last() == Some(&ParamRole::Results));
                gradient(&f, id, &inputs, outputs);
            }
        }
    }
}

fn gradient(f: &Fixture, id: cranelift_module::FuncId, inputs: &[ParamActivity], outputs: &[ReturnActivity]) {
    let (mut p, mut shadow) = (P, SHADOW);
    let found = f.call(id, |role| match role {
        ParamRole::Primal(0) => double(X),
        ParamRole::Primal(1) => address(&mut p),
        ParamRole::Primal(2) => double(Y),
        ParamRole::Primal(3) => DataValue::I32(6),
        ParamRole::Shadow(1) => address(&mut shadow),
        ParamRole::Seed(0) => double(SEEDS[0]),
        ParamRole::Seed(2) => double(SEEDS[1]),
        other => panic!("{other:?}"),
    });
    let told = format!("{inputs:?} {outputs:?}");
    let is_dup = inputs[1] != Const;
    let seeded = |i: usize| matches!(outputs[i], ReturnActivity::Active | ReturnActivity::ActiveOnly);
    let seeds = [if seeded(0) { SEEDS[0] } else { 0.0 }, if seeded(2) { SEEDS[1] } else { 0.0 }];
    let want = cotangents(seeds, if is_dup { SHADOW[1] } else { 0.0 });
    for (i, want) in [(0, want[0]), (2, want[1])] {
        let is = number(&found, ResultRole::Cotangent(i));
        assert_eq!(is.is_some(), inputs[i] == Active, "{told}");
        assert!(is.is_none_or(|is| close(is, want)), "{told}: {is:?} {want}");
    }
    for (i, want) in [(0, X * P[0] * Y), (1, 7.0), (2, Y.sin() * P[1] + X * X)] {
        let is = number(&found, ResultRole::Value(i));
        assert_eq!(is.is_some(), outputs[i].is_returned(), "{told}");
        assert!(is.is_none_or(|is| close(is, want)), "{told}: {is:?} {want}");
    }
    if is_dup {
        assert!(close(shadow[0], SHADOW[0] + want[2]) && close(shadow[1], want[3]), "{told}: {shadow:?}");
    } else {
        assert_eq!(shadow, SHADOW);
    }
    if inputs[1] == Duplicated {
        assert!(close(p[1], X * P[0] * Y) && p[0] == P[0], "{told}: {p:?}");
    }
}

#[test]
fn every_combination_as_a_pair() {
    for inputs in inputs() {
        let mut f = Fixture::new(&text(&inputs), "f");
        let all = outputs();
        let ids: Vec<_> = all.iter().map(|o| f.pair("f", &Spec::pair(inputs.clone()).results(o.clone()))).collect();
        f.finish();
        for (outputs, (forward, pullback)) in all.iter().zip(ids) {
            pair(&f, (forward, pullback), &inputs, outputs);
        }
    }
}

fn pair(
    f: &Fixture,
    (forward, pullback): (cranelift_module::FuncId, cranelift_module::FuncId),
    inputs: &[ParamActivity],
    outputs: &[ReturnActivity],
) {
    let (mut p, mut shadow, mut workspace) = (P, SHADOW, [0xaa_u8; 2048]);
    let room = f.module.room(forward).unwrap();
    assert!(!matches!(room, Room::Stack(_) | Room::Unknown), "{room:?}");
    let mut values = f.call(forward, |role| match role {
        ParamRole::Primal(0) => double(X),
        ParamRole::Primal(1) => address(&mut p),
        ParamRole::Primal(2) => double(Y),
        ParamRole::Primal(3) => DataValue::I32(6),
        ParamRole::Shadow(1) => address(&mut shadow),
        // Memory may begin anywhere.
        ParamRole::Workspace => address(&mut workspace[3..]),
        ParamRole::WorkspaceBytes => DataValue::I64(2000),
        other => panic!("{other:?}"),
    });
    let told = format!("{inputs:?} {outputs:?}");
    let is_dup = inputs[1] != Const;
    let seeded = |i: usize| matches!(outputs[i], ReturnActivity::Active | ReturnActivity::ActiveOnly);
    let seeds = [if seeded(0) { SEEDS[0] } else { 0.0 }, if seeded(2) { SEEDS[1] } else { 0.0 }];
    let want = cotangents(seeds, if is_dup { SHADOW[1] } else { 0.0 });
    // Twice, from one record.
    for _ in 0..2 {
        shadow = SHADOW;
        let found = f.call(pullback, |role| match role {
            ParamRole::Seed(0) => double(SEEDS[0]),
            ParamRole::Seed(2) => double(SEEDS[1]),
            ParamRole::Workspace => address(&mut workspace[3..]),
            other => panic!("{other:?}"),
        });
        for (i, want) in [(0, want[0]), (2, want[1])] {
            let is = number(&found, ResultRole::Cotangent(i));
            assert!(is.is_none_or(|is| close(is, want)), "{told}: {is:?} {want}");
        }
        if is_dup {
            assert!(close(shadow[0], SHADOW[0] + want[2]) && close(shadow[1], want[3]), "{told}: {shadow:?}");
        }
    }
    values.retain(|v| v.0 != ResultRole::Status);
    for (i, want) in [(0, X * P[0] * Y), (1, 7.0), (2, Y.sin() * P[1] + X * X)] {
        let is = number(&values, ResultRole::Value(i));
        assert_eq!(is.is_some(), outputs[i].is_returned(), "{told}");
        assert!(is.is_none_or(|is| close(is, want)), "{told}: {is:?} {want}");
    }
}

#[test]
fn every_combination_in_forward_mode() {
    use ReturnActivity::{Const as Plain, Dual as DualResult, DualOnly as OnlyDual, Omitted};
    let float: &[ReturnActivity] = &[Plain, Omitted, DualResult, OnlyDual];
    let (dx, dy, dp) = (0.3, -1.1, [0.6, 0.9]);
    for inputs in product(&[&[Const, Dual, DualOnly], &[Const, Dual, DualOnly], &[Const, Dual, DualOnly], &[Const]]) {
        let mut f = Fixture::new(&text(&inputs), "f");
        let all = product(&[float, &[Plain, Omitted], float]);
        let ids: Vec<_> =
            all.iter().map(|o| f.derivative("f", &Spec::tangent(inputs.clone()).results(o.clone()))).collect();
        f.finish();
        for (outputs, id) in all.iter().zip(ids) {
            let (mut p, mut shadow) = (P, dp);
            let s = f.module.signature(id).unwrap();
            // The tangent is directly after each float, the shadow behind each pointer.
            for i in [0, 2] {
                let at = s.param(ParamRole::Tangent(i));
                assert_eq!(at, (inputs[i] != Const).then(|| s.param(ParamRole::Primal(i)).unwrap() + 1));
            }
            let found = f.call(id, |role| match role {
                ParamRole::Primal(0) => double(X),
                ParamRole::Primal(1) => address(&mut p),
                ParamRole::Primal(2) => double(Y),
                ParamRole::Primal(3) => DataValue::I32(6),
                ParamRole::Shadow(1) => address(&mut shadow),
                ParamRole::Tangent(0) => double(dx),
                ParamRole::Tangent(2) => double(dy),
                other => panic!("{other:?}"),
            });
            let of = |i: usize, d: f64| if inputs[i] == Const { 0.0 } else { d };
            let (dx, dy, dp) = (of(0, dx), of(2, dy), [of(1, dp[0]), of(1, dp[1])]);
            let first = dx * P[0] * Y + X * dp[0] * Y + X * P[0] * dy;
            let second = Y.cos() * dy * P[1] + Y.sin() * dp[1] + 2.0 * X * dx;
            for (i, want) in [(0, first), (2, second)] {
                let is = number(&found, ResultRole::Tangent(i));
                assert_eq!(is.is_some(), matches!(outputs[i], DualResult | OnlyDual));
                assert!(is.is_none_or(|is| close(is, want)), "{inputs:?} {outputs:?}: {is:?} {want}");
            }
            if inputs[1] == Dual {
                assert!(close(shadow[1], first) && shadow[0] == dp[0], "{inputs:?} {outputs:?}: {shadow:?}");
            }
        }
    }
}

/// The address of an element, whose shadow is the element's.
const ELEMENT: &str = "function %at(i64, i64) -> i64, f64 {
block0(v0: i64, v1: i64):
    v2 = iconst.i64 3
    v3 = ishl v1, v2
    v4 = iadd v0, v3
    v5 = load.f64 v4
    v6 = fmul v5, v5
    return v4, v6
}";

#[test]
fn a_returned_pointer_has_its_shadow_directly_behind_it() {
    let mut f = Fixture::new(ELEMENT, "at");
    let results = [ReturnActivity::Duplicated, ReturnActivity::Active];
    let gradient = f.derivative("at", &Spec::gradient([Duplicated, Const]).results(results));
    let (forward, _) = f.pair("at", &Spec::pair([Duplicated, Const]).results(results));
    let tangent =
        f.derivative("at", &Spec::tangent([Dual, Const]).results([ReturnActivity::Duplicated, ReturnActivity::Dual]));
    f.finish();
    for id in [gradient, forward, tangent] {
        let (mut p, mut shadow, mut workspace) = ([1.0, 2.0, 5.0], [0.0, 0.0, 0.5], [0_u8; 1024]);
        let (at, at_shadow) = (p.as_ptr() as i64, shadow.as_ptr() as i64);
        let s = f.module.signature(id).unwrap();
        assert_eq!(s.results[..2], [ResultRole::Value(0), ResultRole::Shadow(0)]);
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => address(&mut p),
            ParamRole::Primal(1) => DataValue::I64(2),
            ParamRole::Shadow(0) => address(&mut shadow),
            ParamRole::Seed(1) => double(1.0),
            ParamRole::Workspace => address(&mut workspace),
            ParamRole::WorkspaceBytes => DataValue::I64(1024),
            other => panic!("{other:?}"),
        });
        let found: Vec<_> = found.into_iter().take(2).map(|r| r.1).collect();
        assert_eq!(found, [DataValue::I64(at + 16), DataValue::I64(at_shadow + 16)]);
        if id == gradient {
            assert_eq!(shadow, [0.0, 0.0, 10.5]);
        }
    }
}

#[test]
fn prototypes_are_for_c() {
    let mut f = Fixture::new(TEXT, "f");
    let spec = Spec::gradient([Active, Duplicated, Const, Const]).results([
        ReturnActivity::ActiveOnly,
        ReturnActivity::Omitted,
        ReturnActivity::Const,
    ]);
    let one = f.derivative(
        "f",
        &Spec::gradient([Const, Duplicated, Const, Const]).results([
            ReturnActivity::ActiveOnly,
            ReturnActivity::Omitted,
            ReturnActivity::Omitted,
        ]),
    );
    let many = f.derivative("f", &spec.in_struct());
    let one = f.module.signature(one).unwrap().prototype("f_gradient");
    assert_eq!(one, "void f_gradient(double p0, int64_t p1, void *shadow1, double p2, int32_t p3, double seed0);");
    let many = f.module.signature(many).unwrap().prototype("f_gradient");
    let want = "struct f_gradient_results {
    double value2;
    double cotangent0;
};
void f_gradient(double p0, int64_t p1, void *shadow1, double p2, int32_t p3, double seed0, struct f_gradient_results *results);";
    assert_eq!(many, want);

    // Structs by value and vectors.
    let text = "function %g(i64 sarg(24), f64x2, i64) -> f64x2 {
    block0(v0: i64, v1: f64x2, v2: i64):
        v3 = fmul v1, v1
        return v3
    }";
    let mut g = Fixture::new(text, "g");
    let id = g.derivative("g", &Spec::gradient([Const, Active, Const]));
    let double = "double __attribute__((vector_size(16)))";
    let want = format!(
        "struct g_p0 {{ int64_t words[3]; }};
struct g_results {{
    {double} value0;
    {double} cotangent1;
}};
struct g_results g(struct g_p0 p0, {double} p1, int64_t p2, {double} seed0);"
    );
    let found = g.module.signature(id).unwrap().prototype("g");
    assert!(found.ends_with(&want), "{found}");
}
