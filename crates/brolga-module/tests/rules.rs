//! Rules of users: found before a body and before what is known of a name, in both modes.

use brolga_module::ParamActivity::{Active, Const, Dual};
use brolga_module::{ParamRole, ResultRole, Spec, UserRule};
use cranelift_codegen::data_value::DataValue;

use crate::common::{Fixture, address, double, number};

/// `%sigmoid` has a body that could not be derived: it looks at bits.
const TEXT: &str = "function %sigmoid(f64) -> f64 {
    fn0 = %exp(f64) -> f64
block0(v0: f64):
    v1 = fneg v0
    v2 = call fn0(v1)
    v3 = f64const 0x1.0
    v4 = fadd v3, v2
    v5 = fdiv v3, v4
    v6 = bitcast.i64 v5
    v7 = iconst.i64 0x7fff_ffff_ffff_ffff
    v8 = imul v6, v7
    v9 = imul v8, v7
    v10 = bitcast.f64 v9
    return v10
}
function %lookup(i64, i32, f64) -> f64 {
block0(v0: i64, v1: i32, v2: f64):
    v3 = uextend.i64 v1
    v4 = iconst.i64 3
    v5 = ishl v3, v4
    v6 = iadd v0, v5
    v7 = load.f64 v6
    v8 = fmul v7, v2
    v9 = fmul v8, v2
    return v9
}
function %lookup_tangent(i64, i32, f64, f64) -> f64 {
block0(v0: i64, v1: i32, v2: f64, v3: f64):
    v4 = uextend.i64 v1
    v5 = iconst.i64 3
    v6 = ishl v4, v5
    v7 = iadd v0, v6
    v8 = load.f64 v7
    v9 = fmul v8, v2
    v10 = fadd v9, v9
    v11 = fmul v10, v3
    return v11
}
function %count(i64, f64) -> i64 {
block0(v0: i64, v1: f64):
    v2 = load.i64 v0
    v3 = iconst.i64 1
    v4 = iadd v2, v3
    store v4, v0
    return v4
}
function %f(f64, i64, i64) -> f64 {
    fn0 = %sigmoid(f64) -> f64
    fn1 = %lookup(i64, i32, f64) -> f64
    fn2 = %count(i64, f64) -> i64
    fn3 = %lookup_tangent(i64, i32, f64, f64) -> f64
block0(v0: f64, v1: i64, v2: i64):
    v3 = call fn0(v0)
    v4 = iconst.i32 1
    v5 = call fn1(v1, v4, v3)
    v6 = call fn2(v2, v0)
    v7 = f64const 0.0
    v8 = call fn3(v1, v4, v0, v7)
    v9 = fadd v5, v8
    return v9
}";

fn fixture() -> Fixture {
    let mut f = Fixture::new(TEXT, "f");
    f.module.set_rule("sigmoid", UserRule::parse("x => z: z*(1 - z)").unwrap());
    f.module.set_rule("lookup", UserRule::parse("tangent lookup_tangent(p, i, x, dx)").unwrap());
    f.module.set_rule("count", UserRule::Inactive);
    // No rule can be made of what is called with a constant.
    f.module.set_rule("lookup_tangent", UserRule::parse("p, i, x, y => z: 0, 0, 0, 0").unwrap());
    f
}

#[test]
fn rules_are_used_in_both_modes() {
    let mut f = fixture();
    let gradient = f.derivative("f", &Spec::gradient([Active, Const, Const]));
    let tangent = f.derivative("f", &Spec::tangent([Dual, Const, Const]));
    let (forward, pullback) = f.pair("f", &Spec::pair([Active, Const, Const]));
    f.finish();
    let (x, factor) = (0.4_f64, 1.5);
    let z = 1.0 / (1.0 + (-x).exp());
    let want = 3.0 * 2.0 * z * z * (1.0 - z) * factor;
    let (mut table, mut counter, mut workspace) = ([2.0, 3.0], [0_i64], [0_u8; 2048]);
    for id in [gradient, tangent, forward] {
        let before = counter[0];
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => double(x),
            ParamRole::Primal(1) => address(&mut table),
            ParamRole::Primal(2) => address(&mut counter),
            ParamRole::Seed(0) | ParamRole::Tangent(0) => double(factor),
            ParamRole::Workspace => address(&mut workspace),
            ParamRole::WorkspaceBytes => DataValue::I64(2048),
            other => panic!("{other:?}"),
        });
        let role = if id == tangent { ResultRole::Tangent(0) } else { ResultRole::Cotangent(0) };
        assert_eq!(number(&found, ResultRole::Value(0)), Some(3.0 * z * z));
        assert!(number(&found, role).is_none_or(|d| (d - want).abs() < 1e-14), "{found:?} {want}");
        // What is inactive is called as often as the primal calls it.
        assert_eq!(counter[0], before + 1);
    }
    for _ in 0..2 {
        let found = f.call(pullback, |role| match role {
            ParamRole::Seed(0) => double(factor),
            ParamRole::Workspace => address(&mut workspace),
            other => panic!("{other:?}"),
        });
        assert!((number(&found, ResultRole::Cotangent(0)).unwrap() - want).abs() < 1e-14);
    }
}

#[test]
fn a_rule_that_does_not_fit_is_refused() {
    for (symbol, rule, says) in [
        ("sigmoid", "x, y => z: 1, 1", "1 parameters"),
        ("lookup", "p, i, x => z: 1, 0, 1", "parameter 0 of %lookup is no float"),
        ("lookup", "tangent g(p, i, x, dx, y)", "does not have"),
    ] {
        let mut f = fixture();
        f.module.set_rule(symbol, UserRule::parse(rule).unwrap());
        let found = f.module.derivative(f.func("f"), &Spec::gradient([Active, Const, Const]));
        let found = found.expect_err(rule).to_string();
        assert!(found.contains(says), "{rule}: {found}");
        f.finish();
    }
}

#[test]
fn a_rule_overrides_the_table() {
    let text = "function %f(f64) -> f64 {
        fn0 = %sin(f64) -> f64
    block0(v0: f64):
        v1 = call fn0(v0)
        return v1
    }";
    let mut f = Fixture::new(text, "f");
    let known = f.derivative("f", &Spec::gradient([Active]));
    f.module.set_rule("sin", UserRule::parse("x => z: 10").unwrap());
    let overridden = f.derivative("f", &Spec::gradient([Active]));
    f.finish();
    let slope = |id| {
        let found = f.call(id, |role| match role {
            ParamRole::Primal(0) => double(0.3),
            _ => double(1.0),
        });
        number(&found, ResultRole::Cotangent(0)).unwrap()
    };
    assert!((slope(known) - 0.3_f64.cos()).abs() < 1e-15);
    assert_eq!(slope(overridden), 10.0);
}
