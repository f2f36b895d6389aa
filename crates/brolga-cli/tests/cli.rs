//! The command line from outside: exit status, output, and every way to get it wrong.

use std::path::PathBuf;
use std::process::Command;

use brolga_testing::command::{Run, TempFile, run};
use brolga_testing::text::WILD;
use serde_json::Value;

fn brolga(args: &[&str]) -> Run {
    run(env!("CARGO_BIN_EXE_brolga"), args)
}

/// A file of this name that lives as long as the test.
fn temporary(name: &str, contents: impl AsRef<[u8]>) -> TempFile {
    TempFile::new(env!("CARGO_BIN_EXE_brolga"), name, contents)
}

const FILE: &str = "\
; a product, a sum over a buffer that is scaled in place, and things that trap
; grad: %f(2.0, 3.0) value [6.0] == [3.0, 2.0]
; grad: %scale([1.0, 2.0], 3.0) shadow 0=[1.0, 1.0] buffers [[3.0, 6.0], null] == [[3.0, 3.0], 3.0]
test grad
set opt_level=speed
target s390x arch13
function %f(f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64):
    v2 = fmul v0, v1
    return v2
}

function %scale(i64, f64) system_v {
block0(v0: i64, v1: f64):
    v2 = load.f64 v0
    v3 = fmul v2, v1
    store v3, v0
    v4 = load.f64 v0+8
    v5 = fmul v4, v1
    store v5, v0+8
    return
}

function %lanes(f64x2, f32, i32) -> f64x2, i32 system_v {
block0(v0: f64x2, v1: f32, v2: i32):
    v3 = fmul v0, v0
    return v3, v2
}

function %trap(i32, f64) -> f64 system_v {
block0(v0: i32, v1: f64):
    v2 = iconst.i32 1
    v3 = sdiv v2, v0
    v4 = fcvt_from_sint.f64 v3
    v5 = fmul v4, v1
    return v5
}

function %root(f64) -> f64 system_v {
block0(v0: f64):
    v1 = sqrt v0
    return v1
}

function %unknown(f64) -> f64 system_v {
    fn0 = %a_function_that_nobody_knows(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
";

#[test]
fn gradients_as_json() {
    let file = temporary("json.clif", FILE);
    let run =
        file.run("grad", &["--call", "%f(2.0, 3.0)", "--call", "%scale([1.0, 2.0], 3.0) shadow 0=[1, 1]", "--json"]);
    let lines = run.expect(0).json();
    let expected = [
        r#"{"function":"%f","value":[6.0],"buffers":[null,null],"gradient":[3.0,2.0]}"#,
        r#"{"function":"%scale","value":[],"buffers":[[3.0,6.0],null],"gradient":[[3.0,3.0],3.0]}"#,
    ];
    assert_eq!(lines, expected.map(|l| serde_json::from_str::<Value>(l).unwrap()));
    assert_eq!(lines[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["function", "value", "buffers", "gradient"]);

    let run = file.run("grad", &["--call", "%lanes([1.0 -2.0], 0.5, 7)", "--seed", "[1 10], 0", "--json"]);
    let expected =
        r#"{"function":"%lanes","value":[[1.0,4.0],7],"buffers":[null,null,null],"gradient":[[2.0,-40.0],0.0,null]}"#;
    assert_eq!(run.expect(0).json(), [serde_json::from_str::<Value>(expected).unwrap()]);

    let run = file.run("grad", &["--call", "%root(0.0)", "--call", "%root(-1.0)", "--json"]).expect(0);
    assert_eq!(run.json()[0]["gradient"], serde_json::json!(["inf"]));
    assert_eq!(run.json()[1]["value"], serde_json::json!(["nan"]));
}

#[test]
fn tangents_as_json() {
    let file = temporary("tangents.clif", FILE);
    let call = ["--call", "%f(2.0, 3.0)", "--json"];
    let run = file.run("jvp", &[&call[..], &["--dir", "0=1.0", "--dir", "1=-1"]].concat()).expect(0);
    let expected = r#"{"function":"%f","value":[6.0],"tangent":[1.0],"buffers":[null,null],"tangents":[null,null]}"#;
    assert_eq!(run.json(), [serde_json::from_str::<Value>(expected).unwrap()]);
    let keys = ["function", "value", "tangent", "buffers", "tangents"];
    assert_eq!(run.json()[0].as_object().unwrap().keys().collect::<Vec<_>>(), keys);
    // Missing ones are zero, and a set may be empty.
    let sets = ["--dir", "0=1", "--next", "--dir", "1=1", "--next"];
    let run = file.run("jvp", &[&call[..], &sets].concat()).expect(0);
    assert_eq!(run.json()[0]["tangent"], serde_json::json!([[3.0], [2.0], [0.0]]));
    assert_eq!(run.json()[0]["tangents"], serde_json::json!([[null, null], [null, null], [null, null]]));

    let scale = ["--call", "%scale([1.0, 2.0], 3.0)"];
    let run = file.run("jvp", &[&scale[..], &["--dir", "0=[1.0, 0.0]", "--dir", "1=0.5", "--json"]].concat()).expect(0);
    assert_eq!(run.json()[0]["tangents"], serde_json::json!([[3.5, 1.0], null]));
    let shown = file.run("jvp", &[&scale[..], &["--dir", "0=[1.0, 0.0]"]].concat()).expect(0).stdout;
    assert!(shown.contains("tangent of buffer 0 [3.0, 0.0]"), "{shown}");
    let lanes = ["--call", "%lanes([1.0 -2.0], 0.5, 7)", "--dir", "0=[1.0 10.0]", "--json"];
    assert_eq!(file.run("jvp", &lanes).expect(0).json()[0]["tangent"], serde_json::json!([[2.0, -40.0], null]));
}

#[test]
fn jacobians() {
    let file = temporary("jacobians.clif", FILE);
    let run = file.run("jacobian", &["--call", "%f(2.0, 3.0)", "--json"]).expect(0);
    let expected = r#"{"function":"%f","value":[6.0],"jacobian":[[3.0,2.0]]}"#;
    assert_eq!(run.json(), [serde_json::from_str::<Value>(expected).unwrap()]);
    let scale = ["--call", "%scale([1.0, 2.0], 3.0)", "--outputs", "0"];
    let run = file.run("jacobian", &[&scale[..], &["--json"]].concat()).expect(0);
    assert_eq!(run.json()[0]["jacobian"], serde_json::json!([[3.0, 0.0, 1.0], [0.0, 3.0, 2.0]]));
    let table = file.run("jacobian", &scale).expect(0).stdout;
    assert!(table.contains("buffer 0[1]") && table.contains("0[0]"), "{table}");
    file.run("jacobian", &["--call", "%f(2.0, 3.0)", "--outputs", "1"]).expect(2).says("no duplicated buffer");
    let repeated = ["--call", "%scale([1.0, 2.0], 3.0)", "--outputs", "0,0"];
    file.run("jacobian", &repeated).expect(2).says("name each buffer once");
    let constant = ["--call", "%scale([1.0, 2.0], 3.0)", "--outputs", "0", "--activity", "const,active"];
    file.run("jacobian", &constant).expect(2).says("let its activity be `duplicated`");
    let doubling = "function %twice(i32) -> i32 {\nblock0(v0: i32):\nv1 = iadd v0, v0\nreturn v1\n}\n";
    temporary("whole.clif", doubling)
        .run("jacobian", &["--call", "%twice(2)"])
        .expect(2)
        .says("there is nothing to derive");
}

#[test]
fn jacobians_by_either_way() {
    let file = temporary("ways.clif", FILE);
    let scale = ["--call", "%scale([1.0, 2.0], 3.0)", "--outputs", "0", "--json"];
    for more in [&["--way", "forward"][..], &["--way", "reverse"], &["--sparse"], &["--sparse", "--way", "reverse"]] {
        let run = file.run("jacobian", &[&scale[..], more].concat()).expect(0);
        assert_eq!(run.json()[0]["jacobian"], serde_json::json!([[3.0, 0.0, 1.0], [0.0, 3.0, 2.0]]), "{more:?}");
    }
    file.run("jacobian", &["--call", "%unknown(1.0)"]).expect(1).says("AD0150");
}

#[test]
fn second_derivatives_as_json() {
    let file = temporary("second.clif", FILE);
    let call = ["--call", "%f(2.0, 3.0)", "--json"];
    let run = file.run("hvp", &[&call[..], &["--dir", "0=1.0", "--dir", "1=-2"]].concat()).expect(0);
    let expected = r#"{"function":"%f","value":[6.0],"gradient":[3.0,2.0],"hvp":[-2.0,1.0]}"#;
    assert_eq!(run.json(), [serde_json::from_str::<Value>(expected).unwrap()]);
    assert_eq!(run.json()[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["function", "value", "gradient", "hvp"]);
    let sets = ["--dir", "0=1", "--next", "--dir", "1=1", "--next"];
    let run = file.run("hvp", &[&call[..], &sets].concat()).expect(0);
    assert_eq!(run.json()[0]["hvp"], serde_json::json!([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]));

    let run = file.run("hessian", &call).expect(0);
    let expected = r#"{"function":"%f","value":[6.0],"gradient":[3.0,2.0],"hessian":[[0.0,1.0],[1.0,0.0]]}"#;
    assert_eq!(run.json(), [serde_json::from_str::<Value>(expected).unwrap()]);
    assert_eq!(
        run.json()[0].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["function", "value", "gradient", "hessian"]
    );
    // A buffer's shadow says how its elements are weighted; the gradient of `hvp` has its shape.
    let scale = ["--call", "%scale([1.0, 2.0], 3.0)", "--shadow", "0=[1.0, 10.0]", "--json"];
    let run = file.run("hvp", &[&scale[..], &["--dir", "1=0.5"]].concat()).expect(0);
    assert_eq!(run.json()[0]["gradient"], serde_json::json!([[3.0, 30.0], 21.0]));
    assert_eq!(run.json()[0]["hvp"], serde_json::json!([[0.5, 5.0], 0.0]));
    for more in [&[][..], &["--sparse"]] {
        let run = file.run("hessian", &[&scale[..], more].concat()).expect(0);
        assert_eq!(run.json()[0]["gradient"], serde_json::json!([3.0, 30.0, 21.0]));
        let wanted = serde_json::json!([[0.0, 0.0, 1.0], [0.0, 0.0, 10.0], [1.0, 10.0, 0.0]]);
        assert_eq!(run.json()[0]["hessian"], wanted, "{more:?}");
    }
}

/// What one run leaves in a data object is not seen by the next one.
#[test]
fn runs_do_not_see_each_other() {
    let text = "; data: %total = f64[1.0]
function %count(f64) -> f64 system_v {
    gv0 = symbol %total
block0(v0: f64):
    v1 = symbol_value.i64 gv0
    v2 = load.f64 v1
    v3 = fadd v2, v0
    store v3, v1
    v4 = fmul v3, v3
    v5 = fmul v4, v3
    return v5
}
";
    let file = temporary("stateful.clif", text);
    let sets = ["--call", "%count(1.0)", "--json", "--dir", "0=1", "--next", "--dir", "0=1"];
    assert_eq!(file.run("jvp", &sets).expect(0).json()[0]["tangent"], serde_json::json!([[12.0], [12.0]]));
    assert_eq!(file.run("hvp", &sets).expect(0).json()[0]["hvp"], serde_json::json!([[12.0], [12.0]]));
    file.run("check", &["--call", "%count(1.0)", "--order", "2"]).expect(0);
}

#[test]
fn second_derivatives_as_tables() {
    let file = temporary("tables.clif", FILE);
    let shown = file.run("hessian", &["--call", "%f(2.0, 3.0)"]).expect(0).stdout;
    let wanted = "%f(2.0, 3.0)\n  value        6.0\n              0    1\n  gradient  3.0  2.0\n  0         0.0  1.0\n  1         1.0  0.0\n";
    assert_eq!(shown, wanted);
    let shown = file.run("hvp", &["--call", "%f(2.0, 3.0)", "--dir", "0=1", "--next", "--dir", "1=2"]).expect(0).stdout;
    assert!(shown.contains("direction 0, hvp 1 1.0") && shown.contains("direction 1, hvp 0 2.0"), "{shown}");
    let shown = file.run("hvp", &["--call", "%lanes([1.0 -2.0], 0.5, 7)", "--seed", "[1 0], 0", "--dir", "0=[1 1]"]);
    assert!(shown.expect(0).stdout.contains("hvp 0        [2.0, 0.0]"));
}

/// Coefficients of `f(x + t v)` by `t`.
#[test]
fn taylor_coefficients() {
    let file = temporary("taylor.clif", FILE);
    // (2 + t) (3 + 2 t) = 6 + 7 t + 2 t²
    let f = ["--call", "%f(2.0, 3.0)", "--dir", "0=1", "--dir", "1=2", "--taylor"];
    let found = file.run("jvp", &[&f[..], &["3", "--json"]].concat()).expect(0).json();
    assert_eq!(found[0]["coefficients"], serde_json::json!([[7.0], [2.0], [0.0]]));
    assert_eq!(found[0]["value"], serde_json::json!([6.0]));
    let one = file.run("jvp", &[&f[..], &["1", "--json"]].concat()).expect(0).json();
    assert_eq!(one[0]["coefficients"], serde_json::json!([[7.0]]));
    let shown = file.run("jvp", &[&f[..], &["2"]].concat()).expect(0).stdout;
    assert!(shown.contains("order 1, coefficient 7.0\n  order 2, coefficient 2.0\n"), "{shown}");
    // Memory that is scaled in place: (1 + t) (3 + t), 2 (3 + t).
    let scale = ["--call", "%scale([1.0, 2.0], 3.0)", "--dir", "0=[1, 0]", "--dir", "1=1", "--taylor", "2", "--json"];
    let found = file.run("jvp", &scale).expect(0).json();
    assert_eq!(found[0]["buffer_coefficients"], serde_json::json!([[[4.0, 2.0], null], [[1.0, 0.0], null]]));
    // √(4 + t) = 2 + t/4 - t²/64 + …
    let root = file.run("jvp", &["--call", "%root(4.0)", "--dir", "0=1", "--taylor", "2", "--json"]).expect(0).json();
    assert_eq!(root[0]["coefficients"], serde_json::json!([[0.25], [-0.015625]]));
    for order in ["0", "11"] {
        file.run("jvp", &[&f[..], &[order]].concat()).expect(2).says("an order is one of 1 to 10");
    }
    file.run("jvp", &[&f[..], &["2", "--next", "--dir", "0=1"]].concat()).expect(2).says("--next");
}

#[test]
fn explanations_of_modes() {
    let file = temporary("modes.clif", FILE);
    let run = file.run("explain", &["--call", "%f(2.0, 3.0)", "--modes"]).expect(0).stdout;
    assert!(run.contains("Forward mode: can be derived\n\nSecond derivatives: can be derived\n"), "{run}");
    let run = file.run("explain", &["--call", "%f(2.0, 3.0)", "--modes", "--json"]).expect(0);
    assert_eq!(run.json()[0]["modes"], serde_json::json!({"tangent": null, "second": null}));
}

#[test]
fn wrong_second_derivatives() {
    let file = temporary("wrong_second.clif", FILE);
    // Two lanes are two results: which Hessian?
    let lanes = ["--call", "%lanes([1.0 -2.0], 0.5, 7)"];
    file.run("hessian", &lanes).expect(2).says("--seed \"[0.0 1.0], 0\"");
    file.run("hvp", &[&lanes[..], &["--dir", "0=[1 1]"]].concat()).expect(2).says("2 active results");
    let f = ["--call", "%f(2.0, 3.0)"];
    file.run("hvp", &f).expect(2).says("--dir");
    file.run("hvp", &[&f[..], &["--dir", "2=1"]].concat()).expect(2).says("there is no argument 2");
    let scale = ["--call", "%scale([1.0, 2.0], 3.0)"];
    let weighted = [&scale[..], &["--shadow", "0=[1, 1]", "--dir", "0=[1.0]"]].concat();
    file.run("hvp", &weighted).expect(2).says("has 1 elements");
    // Nothing says which number is meant.
    file.run("hessian", &scale).expect(2).says("as `--shadow 0=[1.0, …]`");
    file.run("hvp", &[&scale[..], &["--dir", "1=1"]].concat()).expect(2).says("returns no float");
    file.run("jacobian", &scale).expect(2).says("as `--outputs 0`");
    file.run("hvp", &["--call", "%f(2.0, 3.0) activity active, const", "--dir", "1=1"]).expect(2).says("is const");
    file.run("hessian", &["--call", "%unknown(1.0)"]).expect(1).says("AD0150");
    file.run("hessian", &["--call", "%trap(0, 1.0)"]).expect(1).says("int_divz");
    file.run("check", &[&f[..], &["--order", "3"]].concat()).expect(2).says("--order");
}

#[test]
fn checks_of_order_2() {
    let file = temporary("order.clif", FILE);
    let run = file.run("check", &["--call", "%f(2.0, 3.0)", "--order", "2"]).expect(0).stdout;
    for says in ["forward mode: tangent", "Hessian·v", "symmetry: u·Hv", "holds"] {
        assert!(run.contains(says), "{says} is not in {run}");
    }
    assert!(!run.contains("NOT") && !run.contains("WRONG"), "{run}");
    let scale = ["--call", "%scale([1.0, 2.0], 3.0)", "--shadow", "0=[1.0, 10.0]", "--order", "2"];
    assert!(file.run("check", &scale).expect(0).stdout.contains("symmetry"));
    let weighted = file.run("check", &scale).expect(0).stdout;
    assert!(!weighted.contains("nothing but zeros"), "{weighted}");
    let zeros = file.run("check", &scale[..2]).expect(0).stdout;
    assert!(zeros.contains("nothing but zeros was checked") && zeros.contains("--shadow 0=[1.0, …]"), "{zeros}");
    file.run("grad", &scale[..2]).expect(0).says("all cotangents are zero: %scale returns no float");
    assert!(!file.run("grad", &scale[..4]).expect(0).stderr.contains("all cotangents"));
    // Where there is no derivative, there is no second one.
    file.run("check", &["--call", "%root(0.0) nofd", "--order", "2"]).expect(0);
}

/// A slope by a forward difference, cubed: its second derivatives have lost eight digits.
const SLOPE: &str = "\
function %slope(f64, f64) -> f64 {
    sig0 = (f64) -> f64
    fn0 = %exp sig0
block0(v0: f64, v1: f64):
    v2 = f64const 0x1.0p-26
    v3 = fmul v0, v2
    v4 = fadd v0, v3
    v5 = fmul v4, v1
    v6 = call fn0(v5)
    v7 = fmul v0, v1
    v8 = call fn0(v7)
    v9 = fsub v6, v8
    v10 = fdiv v9, v3
    v11 = fmul v10, v10
    v12 = fmul v11, v10
    return v12
}
";

#[test]
fn second_derivatives_without_digits() {
    let file = temporary("slope.clif", SLOPE);
    let run = file.run("check", &["--call", "%slope(1.3, 0.7)", "--order", "2"]).expect(0).stdout;
    assert!(run.contains("unknown") && !run.contains("WRONG"), "{run}");
}

#[test]
fn wrong_directions_are_status_2() {
    let file = temporary("directions.clif", FILE);
    let usage = |call: &str, dir: &str, message: &str| {
        file.run("jvp", &["--call", call, "--dir", dir]).expect(2).says(message);
    };
    let (f, scale) = ("%f(2.0, 3.0)", "%scale([1.0, 2.0], 3.0)");
    usage(f, "2=1.0", "there is no argument 2");
    usage(f, "0=[1.0, 2.0]", "a tangent of type f64 is wanted");
    usage(f, "0=", "expected");
    usage(scale, "0=1.0", "its tangent is a list");
    usage(scale, "0=[1.0]", "has 1 elements, but the buffer has 2");
    usage("%f(2.0, 3.0) activity const,active", "0=1.0", "argument 0 is const");
    usage("%lanes([1.0 -2.0], 0.5, 7)", "2=1", "argument 2 is const");
    file.run("jvp", &["--call", f, "--dir", "0=1", "--dir", "0=2"]).expect(2).says("given twice");
    file.run("jvp", &["--call", f]).expect(2).says("--dir");
}

#[test]
fn flags_mean_what_clauses_mean() {
    let file = temporary("flags.clif", FILE);
    let flags = ["--call", "%scale([1.0, 2.0], 3.0)", "--shadow", "0=[1, 1]", "--memory", "restore", "--json"];
    let run = file.run("grad", &flags).expect(0);
    assert_eq!(run.json()[0]["buffers"], serde_json::json!([[1.0, 2.0], null]));
    assert_eq!(run.json()[0]["gradient"], serde_json::json!([[3.0, 3.0], 3.0]));
    let run = file.run("grad", &["--call", "%f(2.0, 3.0)", "--activity", "const,active", "--seed", "-2", "--json"]);
    assert_eq!(run.expect(0).json()[0]["gradient"], serde_json::json!([null, -4.0]));
}

#[test]
fn directives_of_the_file() {
    let file = temporary("directives.clif", FILE);
    let run = file.run("grad", &[]).expect(0);
    assert_eq!(run.stdout.matches("expects").count(), 2, "{}", run.stdout);
    assert_eq!(file.run("grad", &["--json"]).expect(0).json().len(), 2);

    let wrong = temporary("wrong.clif", FILE.replace("== [3.0, 2.0]", "== [3.0, 2.5]"));
    wrong.run("grad", &[]).expect(1).says("line 2").says("expected 2.5, found 2.0");
    let run = wrong.run("grad", &["--json"]).expect(1);
    assert_eq!(run.json().last().unwrap()["error"]["kind"], "mismatch");

    let bad = temporary("bad.clif", FILE.replace("== [3.0, 2.0]", "= [3.0, 2.0]"));
    bad.run("grad", &[]).expect(1).says("AD0008").says(":2:");
    bad.run("grad", &["--call", "%f(1, 1)"]).expect(0);
    let bound = temporary("bound.clif", FILE.replace("%f(2.0, 3.0)", "%f(2.0)"));
    bound.run("grad", &[]).expect(1).says("takes 2 arguments, not 1").says(":2:");
}

#[test]
fn wrong_usage_is_status_2() {
    let file = temporary("usage.clif", FILE);
    let usage = |args: &[&str], message: &str| {
        file.run("grad", args).expect(2).says(message);
    };
    usage(&["--call", "%f(2.0"], "expected `,`");
    usage(&["--call", "%f(2.0)"], "takes 2 arguments, not 1");
    usage(&["--call", "%f(2.0, [1.0])"], "argument 1 is an f64, not a buffer");
    usage(&["--call", "%nothing(2.0)"], "`%nothing` is not defined");
    usage(&["--call", "%scale([1.0, 2.0], 3.0)", "--shadow", "0=[1.0]"], "1 element, but the buffer has 2");
    usage(&["--call", "%scale([1.0, 2.0], 3.0)", "--shadow", "1=[1.0]"], "not a buffer");
    usage(&["--call", "%f(2.0, 3.0)", "--activity", "active"], "1 activity given for 2 arguments");
    usage(&["--call", "%f(2.0, 3.0)", "--activity", "active,frozen"], "`frozen` is not an activity");
    usage(&["--call", "%f(2.0, 3.0)", "--seed", "1,2"], "2 seeds given for 1 result");
    usage(&["--memory", "burn"], "invalid value");
    usage(&["--seed", "1"], "--call");
    usage(&["--no-such-flag"], "unexpected argument");
    brolga(&["grad"]).expect(2).says("FILE");
    brolga(&["gradd"]).expect(2);
    brolga(&[]).expect(2);
    let run = file.run("grad", &["--call", "%f(", "--json"]).expect(2);
    assert_eq!(run.json()[0]["error"]["kind"], "usage");

    let plain = temporary("plain.clif", "; nothing to run\nfunction %f() {\nblock0:\n    return\n}\n");
    plain.run("grad", &[]).expect(2).says("--call").says("%f");
}

#[test]
fn bad_files_are_status_1_with_a_line() {
    let refused = |name: &str, text: &str, code: &str, place: &str| {
        let file = temporary(name, text);
        file.run("grad", &["--call", "%f(1.0)"]).expect(1).says(code).says(place);
        let run = file.run("grad", &["--call", "%f(1.0)", "--json"]).expect(1);
        let error = &run.json()[0]["error"];
        assert_eq!(error["kind"], "diagnostics");
        assert_eq!(error["diagnostics"][0]["code"], code);
        file.run("check", &["--call", "%f(1.0)"]).expect(1).says(code);
        file.run("dump", &["--stage", "cfg"]).expect(1).says(code);
    };
    refused("empty.clif", "", "AD0003", "no function");
    refused("comments.clif", "; nothing\n", "AD0003", "no function");
    refused("noise.clif", "int main() { return 0; }\n", "AD0002", ":1:");
    refused("syntax.clif", &FILE.replace("v2 = fmul v0, v1", "v2 = fmull v0, v1"), "AD0002", ":9:");
    refused("verify.clif", &FILE.replace("    return v2\n", "    return v0, v1\n"), "AD0005", ":10:");
    refused("twice.clif", &FILE.replace("%scale(i64", "%f(i64"), "AD0004", ":13:");
    refused("open.clif", "function %f(f64) {\nblock0(v0: f64):\n    return\n", "AD0002", "%f");
    refused("huge.clif", "function %f() {\nblock0:\n    v4000000000 = iconst.i64 1\n    return\n}\n", "AD0002", ":3:");
    // A token may be as long as its file; what is said of it is not.
    for (name, text) in
        [("nul.clif", "\0".repeat(3_000_000)), ("long.clif", format!("function %f{}", "x".repeat(3_000_000)))]
    {
        let run = temporary(name, text).run("grad", &["--call", "%f(1.0)"]).expect(1).says("AD0002");
        assert!(run.stderr.len() < 10_000, "{} bytes are said of {name}", run.stderr.len());
    }
    let binary = temporary("binary.clif", b"\0asm\x01\0\0\0\xff\xfe");
    binary.run("grad", &[]).expect(1).says("not UTF-8");
    brolga(&["grad", "/nonexistent/file.clif"]).expect(1).says("no such file");
    brolga(&["grad", "/"]).expect(1).says("directory");
}

#[test]
fn refusals_and_traps_are_status_1() {
    let file = temporary("refusals.clif", FILE);
    let run = file.run("grad", &["--call", "%unknown(1.0)", "--json"]).expect(1);
    let error = &run.json()[0]["error"];
    assert_eq!(error["kind"], "diagnostics");
    assert_eq!(error["diagnostics"][0]["line"], 48);
    assert!(run.stderr.contains("a_function_that_nobody_knows"), "{}", run.stderr);

    let run = file.run("grad", &["--call", "%trap(0, 1.0)", "--json"]).expect(1).says("int_divz");
    let error = &run.json()[0]["error"];
    assert_eq!((&error["kind"], &error["code"], &error["line"]), (&"trap".into(), &"int_divz".into(), &33.into()));
    file.run("grad", &["--call", "%trap(1, 4.0)"]).expect(0);
}

#[test]
fn what_does_not_end_is_given_up() {
    let text = "(module (func (export \"spin\") (param f64) (result f64) (loop $l (br $l)) (local.get 0)))";
    let file = temporary("spin.wat", text);
    for command in ["run", "grad", "check", "explain"] {
        file.run(command, &["--call", "%spin(1.0)", "--time-limit", "0.5"]).expect(1).says("within 0.5 s");
    }
    file.run("run", &["--call", "%spin(1.0)", "--time-limit=-1"]).expect(2).says("negative");
    file.run("run", &["--call", "%spin(1.0)", "--time-limit", "soon"]).expect(2).says("not a number of seconds");
    let file = temporary("ends.clif", FILE);
    file.run("grad", &["--call", "%trap(1, 4.0)", "--time-limit", "60"]).expect(0);
}

#[test]
fn checks() {
    let file = temporary("check.clif", FILE);
    let run = file.run("check", &[]).expect(0);
    for needle in ["finite difference", "tape", "0[1]", "holds"] {
        assert!(run.stdout.contains(needle), "no {needle:?} in\n{}", run.stdout);
    }
    let kink = temporary(
        "kink.clif",
        "; a kink\nfunction %f(f64) -> f64 system_v {\nblock0(v0: f64):\n    v1 = fabs v0\n    return v1\n}\n",
    );
    let run = kink.run("check", &["--call", "%f(0.0)"]).expect(0);
    assert!(run.stdout.contains("this point is a kink"), "{}", run.stdout);
    let wrong = temporary("check-wrong.clif", FILE.replace("== [3.0, 2.0]", "== [3.0, 2.5]"));
    wrong.run("check", &[]).expect(1).says("expected 2.5");
}

#[test]
fn explanations() {
    let file = temporary("explain.clif", FILE);
    let run = file.run("explain", &["--call", "%f(2.0, 0.0)", "--json"]).expect(0);
    let inputs = &run.json()[0]["inputs"];
    assert_eq!(inputs[0]["gradient"], 0.0);
    assert_eq!(inputs[0]["why"][0]["kind"], "zero_slope");
    assert_eq!(inputs[0]["why"][0]["at"]["text"], "v2 = fmul.f64 v0, v1");
    assert!(inputs[0]["why"][0]["at"]["line"].as_u64().is_some());
    let run = file.run("explain", &["--call", "%root(0.0)"]).expect(0);
    assert!(run.stdout.contains("First cotangent that is not finite"), "{}", run.stdout);
    // Without calls: those of the file.
    assert_eq!(file.run("explain", &["--json"]).expect(0).json().len(), 2);
    let run = file.run("explain", &["--call", "%scale([1.0, 2.0], 3.0) shadow 0=[1, 1]", "--wrt", "0[1]", "--json"]);
    let run = run.expect(0);
    assert_eq!(run.json()[0]["inputs"].as_array().unwrap().len(), 1);
    assert_eq!(run.json()[0]["contributions"]["of"], "0[1]");

    for wrt in ["x", "1[", "1[x]", "7", "0[9]"] {
        file.run("explain", &["--call", "%scale([1.0, 2.0], 3.0)", "--wrt", wrt]).expect(2).says("--wrt");
    }
    let run = file.run("explain", &["--call", "%trap(0, 2.0)", "--json"]).expect(1).says("int_divz");
    assert!(run.json()[0]["error"]["message"].as_str().unwrap().contains("int_divz"));
}

#[test]
fn debug_runs() {
    let file = temporary("debug.clif", FILE);
    for command in ["grad", "check"] {
        file.run(command, &["--debug"]).expect(0);
    }
    let short = "%scale([1.0], 3.0)";
    let run = file.run("grad", &["--call", short, "--debug", "--json"]).expect(1).says("shadow_bounds");
    assert_eq!(run.json()[0]["error"]["code"], "shadow_bounds");
    assert_eq!(run.json()[0]["error"]["phase"], "gradient");
    let run = file.run("grad", &["--call", short, "--debug", "--mode", "split", "--json"]).expect(1);
    assert_eq!(run.json()[0]["error"]["phase"], "pullback");
}

#[test]
fn dumps() {
    let file = temporary("dump.clif", FILE);
    for stage in ["normalised", "cfg", "stmts", "forward", "pullback", "clif-forward", "clif-pullback"] {
        let run = file.run("dump", &["--func", "%f", "--stage", stage]).expect(0);
        assert!(run.stdout.contains("fmul") || stage == "pullback" || stage == "clif-pullback", "{}", run.stdout);
        assert_eq!(run.stdout, file.run("dump", &["--func", "f", "--stage", stage]).expect(0).stdout);
    }
    let run = file.run("dump", &["--func", "%f", "--diff", "normalised..clif-forward"]).expect(0);
    assert!(run.stdout.is_empty() || run.stdout.starts_with("--- normalised\n+++ clif-forward\n"), "{}", run.stdout);
    let run = file.run("dump", &["--func", "%f", "--dot"]).expect(0);
    assert!(run.stdout.starts_with("digraph"), "{}", run.stdout);
    // A stage may be named beside either.
    assert_eq!(run.stdout, file.run("dump", &["--func", "%f", "--stage", "pullback", "--dot"]).expect(0).stdout);
    let run = file.run("dump", &["--func", "%f", "--stage", "cfg", "--diff", "forward..pullback"]).expect(0);
    assert!(run.stdout.starts_with("--- forward\n+++ pullback\n"), "{}", run.stdout);
    file.run("dump", &["--func", "%f", "--stage", "cgf", "--dot"]).expect(2).says("the stages are normalised");

    file.run("dump", &["--func", "%f"]).expect(2).says("--stage");
    file.run("dump", &["--stage", "cfg"]).expect(2).says("--func");
    file.run("dump", &["--func", "%f", "--stage", "cgf"]).expect(2).says("the stages are normalised");
    file.run("dump", &["--func", "%f", "--diff", "cfg"]).expect(2).says("two stages");
    file.run("dump", &["--func", "%g", "--stage", "cfg"]).expect(2).says("not defined");
    file.run("dump", &["--func", "%f", "--stage", "cfg", "--activity", "active"]).expect(2).says("2 parameters");
}

#[test]
fn which_calls_are_replaced() {
    let callee = |squares: usize| -> String {
        let body: String = (1..=squares).map(|i| format!("    v{i} = fmul v{0}, v{0}\n", i - 1)).collect();
        format!("function %g(f64) -> f64 {{\nblock0(v0: f64):\n{body}    return v{squares}\n}}\n")
    };
    let caller = "function %f(f64) -> f64 {\n    fn0 = %g(f64) -> f64\nblock0(v0: f64):\n    v1 = call fn0(v0)\n    return v1\n}\n";
    for (squares, inline, effort, stays) in [
        (3, None, "full", false),
        (3, None, "quick", true),
        (3, Some("--inline=never"), "full", true),
        (60, None, "full", true),
        (60, Some("--inline"), "full", false),
        (60, Some("--inline=small"), "quick", false),
        (60, Some("--inline=auto"), "full", true),
    ] {
        let file = temporary("inline.clif", format!("{caller}{}", callee(squares)));
        let mut args = vec!["--func", "f", "--stage", "forward", "--effort", effort];
        args.extend(inline);
        let run = file.run("dump", &args).expect(0);
        assert_eq!(run.stdout.contains("call %g__forward"), stays, "{squares} {inline:?} {effort}:\n{}", run.stdout);
    }
    let file = temporary("inline.clif", FILE);
    file.run("grad", &["--inline=always"]).expect(2).says("[possible values: auto, never, small]");
}

#[test]
fn calls_of_modules() {
    let text = "(module (memory (export \"memory\") 1)
        (func (export \"f\") (param i32 i32 f64) (result f64)
            (f64.store (local.get 1) (f64.mul (f64.load (local.get 0)) (local.get 2)))
            (f64.mul (f64.load (local.get 1)) (f64.load (local.get 0)))))";
    let file = temporary("calls.wat", text);
    // What a module is given beside its arguments is not the user's concern.
    file.run("grad", &["--call", "%f([1.5], 2.0)"])
        .expect(2)
        .says("`%f` takes 3 arguments, not 2")
        .says("it takes (i32, i32, f64) and returns (f64)");
    let apart = |list: &str, second: &str| {
        file.run("grad", &["--noalias", list, "--call", &format!("%f([1.5], {second}, 2.0)")])
    };
    let found = apart("0,1", "[0.0]").expect(0).stdout;
    // f = x² y: 2 x y, and x².
    assert!(found.contains("gradient 0   [6.0]") && found.contains("gradient 2   2.25"), "{found}");
    let options = ["--noalias", "1", "--no-need", "1", "--mode", "combined", "--call", "%f([1.5], [7.0], 2.0)"];
    let unneeded = file.run("grad", &options).expect(0).stdout;
    assert!(unneeded.contains("gradient 0   [6.0]") && unneeded.contains("value        4.5"), "{unneeded}");
    let none = ["--no-need", "2", "--call", "%f([1.5], [7.0], 2.0)"];
    file.run("grad", &none).expect(2).says("argument 2 is not a buffer");
    apart("1", "@0").expect(2).says("argument 1 is said to be noalias, but is the buffer of argument 0");
    apart("2", "[0.0]").expect(2).says("argument 2 is not a buffer");
}

#[test]
fn messages_about_modules() {
    let torn = temporary("torn.wasm", b"\0asm\x01\0\0\0\x01\x20");
    torn.run("grad", &[]).expect(1).says("AD0021").says("--> byte 0xa");

    let module = r#"(module
        (func $"double vec<double>::mixed(double)" (param f64) (result f64)
            (if (f64.eq (local.get 0) (f64.const 0)) (then unreachable))
            (f64.reinterpret_i64 (i64.mul (i64.reinterpret_f64 (local.get 0)) (i64.const 3))))
        (func (export "f") (param f64) (result f64) (call 0 (local.get 0))))"#;
    let named = temporary("named.wat", module);
    named
        .run("grad", &["--call", "%f(3.0)", "--untracked", "refuse"])
        .expect(1)
        .says("AD0110")
        .says("--> %double_vec_double___mixed_double_, block")
        .says("the function is double vec<double>::mixed(double)")
        .says("reached by %f -> double vec<double>::mixed(double)");
    named.run("grad", &["--call", "%f(3.0)"]).expect(1).says("untracked_bits");
    // A start function is part of the program, so it is no wrong call that does not get past it.
    let start = temporary(
        "start.wat",
        "(module (func $s unreachable) (start $s) (func (export \"f\") (param f64) (result f64) (local.get 0)))",
    );
    for command in ["grad", "run", "check", "explain", "jacobian", "hessian", "bench"] {
        start.run(command, &["--call", "%f(3.0)"]).expect(1).says("trap unreachable");
    }
    // So do a start function that leaves by an import, and one before a call with buffers.
    let start = temporary(
        "leaves.wat",
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (func $s (call $exit (i32.const 3))) (start $s)
            (func (export "f") (param i32) (result f64) (f64.load (local.get 0))))"#,
    );
    for command in ["grad", "run", "check"] {
        start.run(command, &["--call", "%f([3.0])"]).expect(1).says("the program exited with code 3");
    }
    let trap = named.run("grad", &["--call", "%f(0.0)"]).expect(1);
    trap.says("trap unreachable").says("note: the function is double vec<double>::mixed(double)");
    let trap = named.run("grad", &["--call", "%f(0.0)", "--untracked", "trap", "--json"]).expect(1).json();
    assert_eq!(trap[0]["error"]["source_name"], "double vec<double>::mixed(double)");
}

#[test]
fn messages_about_a_module_s_calls_are_about_their_file() {
    let text = "(module (func (export \"f\") (param f64) (result f64) (local.get 0)))";
    let (module, calls) =
        (temporary("calls.wat", text), temporary("calls.run", "; grad: %f(1.0) == [1.0]\n; grad: %f(1.0\n"));
    module.run("grad", &[]).expect(1).says("AD0008").says(&format!("{}:2:", calls.path()));
}

#[test]
fn imports_that_nothing_provides() {
    let file = temporary(
        "missing.wat",
        r#"(module (import "host" "log" (func $log (param f64)))
    (func (export "f") (param f64) (result f64)
        (if (f64.lt (local.get 0) (f64.const 0)) (then (call $log (local.get 0))))
        (f64.mul (local.get 0) (local.get 0))))"#,
    );
    let call = |call, what| file.run("grad", &["--call", call, "--missing-imports", what]);
    call("%f(2.0)", "refuse").expect(1).says("AD0023").says("host.log").says("--missing-imports trap");
    assert!(call("%f(2.0)", "trap").expect(0).stdout.contains("gradient 0   4.0"));
    call("%f(-2.0)", "trap").expect(1).says("trap missing_import").says("the import `log` of `host`");
    // That is what happens by default.
    assert!(file.run("grad", &["--call", "%f(2.0)"]).expect(0).stdout.contains("gradient 0   4.0"));
    let said = |what| file.run("grad", &["--call", "%f(-2.0)", "--import", what]);
    assert!(said("host.log=ignore").expect(0).stdout.contains("gradient 0   -4.0"));
    said("log=ignore").expect(2).says("MODULE.NAME=FUNCTION");
}

#[test]
fn operations_on_bits_may_be_left_to_the_run() {
    let file = temporary(
        "untracked.clif",
        "function %mixed(f64, f64) -> f64 {
block0(v0: f64, v1: f64):
    v2 = fcmp gt v0, v1
    brif v2, block1, block2(v0)
block1:
    v3 = bitcast.i64 v0
    v4 = iconst.i64 3
    v5 = imul v3, v4
    v6 = bitcast.f64 v5
    jump block2(v6)
block2(v7: f64):
    v8 = fmul v7, v1
    return v8
}
",
    );
    let call = |command, call, untracked| file.run(command, &["--call", call, "--untracked", untracked]);
    call("grad", "%mixed(2.0, 3.0)", "refuse").expect(1).says("AD0110").says("--untracked trap");
    assert!(call("grad", "%mixed(2.0, 3.0)", "trap").expect(0).stdout.contains("gradient 0   3.0"));
    for command in ["check", "explain"] {
        call(command, "%mixed(2.0, 3.0)", "trap").expect(0);
    }
    call("grad", "%mixed(3.0, 2.0)", "trap").expect(1).says("untracked_bits").says("v6 = bitcast.f64 v5");
}

#[test]
fn a_module_is_found_with_its_calls_from_its_own_folder() {
    let folder = std::env::temp_dir().join(format!("brolga-cli-{}-own", std::process::id()));
    let inner = folder.join("O2");
    std::fs::create_dir_all(&inner).expect("the temporary folder is writable");
    let module = r#"(module (func (export "f") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0))))"#;
    let write = |path: PathBuf, text: &str| std::fs::write(path, text).expect("the folder is writable");
    for name in ["beside.wat", "above.wat"] {
        write(inner.join(name), module);
    }
    write(inner.join("beside.run"), "; grad: %f(3.0) == [6.0]\n");
    write(folder.join("above.run"), "; grad: %f(4.0) == [8.0]\n");
    for (name, gradient) in [("beside.wat", "6.0"), ("above.wat", "8.0")] {
        for file in [name.to_owned(), format!("./{name}")] {
            let run = Command::new(env!("CARGO_BIN_EXE_brolga")).args(["grad", &file]).current_dir(&inner).output();
            let text = String::from_utf8(run.expect("the binary runs").stdout).expect("output is text");
            assert!(text.contains(&format!("gradient 0   {gradient}")), "{file}: {text}");
        }
    }
    let said = Command::new(env!("CARGO_BIN_EXE_brolga"))
        .args(["grad", "beside.wat", "--call", "%f(3.0)", "--fresh", "0"])
        .current_dir(&inner)
        .output()
        .expect("the binary runs");
    assert_eq!(said.status.code(), Some(2), "an argument that is no buffer");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn nothing_is_said_of_the_shadow_of_one_buffer_of_a_module() {
    let file = temporary(
        "fresh.wat",
        r#"(module (memory 1) (func (export "f") (param i32) (result f64) (f64.load (local.get 0))))"#,
    );
    file.run("grad", &["--call", "%f([3.0])", "--fresh", "0"]).expect(2).says("the shadow of a module is one piece");
    file.run("grad", &["--call", "%f([3.0])"]).expect(0);
}

/// A program that goes wrong is an error, not the end of the process, whatever runs it.
#[test]
fn primals_that_go_wrong() {
    let file = temporary("wild.clif", WILD);
    for command in ["run", "grad", "check"] {
        file.run(command, &["--call", "%g(0, 1.5)"]).expect(1).says("unknown_callee");
        file.run(command, &["--call", "%taken(8, 1.5)"]).expect(1).says("heap_oob");
        file.run(command, &["--call", "%ended(1.5)"]).expect(1).says("ended");
    }
}

#[test]
fn floats_of_other_widths_and_vectors_of_all_bits() {
    let file = temporary(
        "widths.clif",
        "function %widths(i64) -> f16, f128 system_v {
block0(v0: i64):
    v1 = load.f16 v0
    v2 = load.f128 v0+16
    return v1, v2
}
function %lanes(i32x4) -> i32x4 system_v {
block0(v0: i32x4):
    v1 = iadd v0, v0
    return v1
}
",
    );
    // 1.5 as an f16; -2.5 as an f128, whose upper half is 0xc000_4000_0000_0000.
    let call = "%widths(i64[0x3e00, 0, 0, 0xc000400000000000])";
    let text = file.run("run", &["--call", call]).expect(0).stdout;
    assert!(text.contains("value 0      1.5\n") && text.contains("value 1      -2.5\n"), "{text}");
    let json = file.run("run", &["--json", "--call", call]).expect(0).json();
    assert_eq!(json[0]["value"], serde_json::json!([1.5, -2.5]));
    let call = "%lanes(0x00000004000000030000000200000001)";
    let json = file.run("run", &["--json", "--call", call]).expect(0).json();
    assert_eq!(json[0]["value"][0], serde_json::json!([2, 4, 6, 8]));
}

/// The reader may stop at any time.
#[test]
fn closed_pipes_are_no_errors() {
    let file = temporary("closed.clif", FILE);
    for args in [
        &["grad", "--call", "%f(2.0, 3.0)"][..],
        &["grad", "--call", "%nosuch(1.0)"],
        &["dump", "--func", "%f", "--dot"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_brolga"))
            .args([&args[..1], &[file.path()], &args[1..]].concat())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the binary runs");
        drop((child.stdout.take(), child.stderr.take()));
        let status = child.wait().expect("it ends").code();
        assert!(matches!(status, Some(0..=2)), "{args:?}: {status:?}");
    }
}
