//! Rules belong to a module: modules of one process may have different ones for one name.

use std::sync::Barrier;

use brolga_module::ParamActivity::{Active, Dual};
use brolga_module::{ParamRole, ResultRole, Spec, UserRule};

use crate::common::{Fixture, double, number};

/// Its derivative is whatever the module's rule says.
const TEXT: &str = "function %g(f64) -> f64 {
block0(v0: f64):
    v1 = fmul v0, v0
    return v1
}
function %g_tangent(f64, f64) -> f64 {
block0(v0: f64, v1: f64):
    v2 = f64const 0x1.c000000000000p2 ; 7
    v3 = fmul v2, v1
    return v3
}
function %g_adjoint(f64, f64) -> f64 {
block0(v0: f64, v1: f64):
    v2 = f64const 0x1.6000000000000p3 ; 11
    v3 = fmul v2, v1
    return v3
}
function %f(f64) -> f64 {
    fn0 = %g(f64) -> f64
    fn1 = %g_tangent(f64, f64) -> f64
    fn2 = %g_adjoint(f64, f64) -> f64
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = f64const 0.0
    v3 = call fn1(v2, v2)
    v4 = call fn2(v2, v2)
    v5 = fadd v3, v4
    v6 = fadd v1, v5
    return v6
}";

/// Rules, and what they make of the slope at 1.5: in reverse mode, and in forward mode.
const RULES: [(&str, [f64; 2]); 5] = [
    ("x => z: 5", [5.0, 5.0]),
    ("x => z: 2*z + x", [6.0, 6.0]),
    ("tangent g_tangent(x, dx)", [7.0, 7.0]),
    ("inactive", [0.0, 0.0]),
    // Without a tangent of the rule's, forward mode derives the body.
    ("x => adjoint g_adjoint(x, seed) -> dx", [11.0, 3.0]),
];

/// Both slopes of a module's own.
fn slopes(rule: &str) -> [f64; 2] {
    let mut m = Fixture::new(TEXT, "f");
    m.module.set_rule("g", UserRule::parse(rule).expect("a rule"));
    let gradient = m.derivative("f", &Spec::gradient([Active]));
    let tangent = m.derivative("f", &Spec::tangent([Dual]));
    m.finish();
    [(gradient, ResultRole::Cotangent(0)), (tangent, ResultRole::Tangent(0))].map(|(id, role)| {
        let found = m.call(id, |param| match param {
            ParamRole::Primal(0) => double(1.5),
            ParamRole::Seed(0) | ParamRole::Tangent(0) => double(1.0),
            other => panic!("{other:?}"),
        });
        assert_eq!(number(&found, ResultRole::Value(0)), Some(2.25), "{rule}");
        number(&found, role).expect("a float")
    })
}

/// Seen to fail where the rule of a name is that of whatever module gave one last.
#[test]
fn modules_in_threads_have_rules_of_their_own() {
    let start = Barrier::new(RULES.len());
    std::thread::scope(|threads| {
        for (rule, want) in RULES {
            let start = &start;
            threads.spawn(move || {
                start.wait();
                (0..3).for_each(|_| assert_eq!(slopes(rule), want, "{rule}"));
            });
        }
    });
}
