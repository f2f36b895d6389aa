//! Directions, orders and outputs that do not fit a call: what is said, and what to write instead.

use brolga_testing::command::TempFile;

const PROGRAM: &str = env!("CARGO_BIN_EXE_brolga");

const FILE: &str = "\
function %product(f64, f64, i64) -> f64 system_v {
block0(v0: f64, v1: f64, v2: i64):
    v3 = fmul v0, v1
    return v3
}

function %guarded(f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64):
    v2 = f64const 0.0
    v3 = fcmp ne v0, v2
    v4 = fmul v0, v1
    v5 = select v3, v4, v2
    return v5
}

function %shared(i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v1
    v4 = fmul v2, v3
    return v4
}

function %quotient(f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64):
    v2 = f64const 0.0
    v3 = fcmp ne v0, v2
    v4 = fdiv v0, v1
    v5 = select v3, v4, v2
    return v5
}

function %fourth(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fmul v0, v0
    v2 = fmul v1, v1
    return v2
}

function %slope(f64, f64) -> f64 system_v {
    fn0 = %fourth__gradient(f64, f64) -> f64, f64 system_v
block0(v0: f64, v1: f64):
    v2, v3 = call fn0(v0, v1)
    return v3
}

function %saturated(f64) -> f64 system_v {
    fn0 = %tanh(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}

function %along(f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64):
    v2 = fmul v0, v1
    return v2
}

function %power(f64, f64) -> f64 system_v {
    fn0 = %pow(f64, f64) -> f64 system_v
block0(v0: f64, v1: f64):
    v2 = call fn0(v0, v1)
    return v2
}

function %imports(f64) -> f64 system_v {
    fn0 = %imported(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
";

/// Arguments of `jvp`, and what is said.
type Row = (&'static [&'static str], &'static [&'static str]);

#[test]
fn what_does_not_fit_says_what_to_write() {
    let file = TempFile::new(PROGRAM, "unfit.clif", FILE);
    let rows: [Row; 13] = [
        (&["--dir", "3=1.0"], &["there is no argument 3", "arguments 0, 1 have one"]),
        (&["--dir", "2=1"], &["argument 2 is const", "arguments 0, 1 have one"]),
        (&["--dir", "x=1.0"], &["an argument is named by its number, as in `0=1.0`"]),
        (&["--dir", "-1=1.0"], &["an argument is named by its number"]),
        (&["--dir", "0=[1.0]"], &["a tangent of type f64 is wanted", "as in `0=1.0`"]),
        (&["--dir", "0=1", "--dir", "0=2"], &["given twice", "`--next` begins another direction"]),
        (&["--dir", "0=1", "--taylor", "0"], &["an order is one of 1 to 10"]),
        (&["--dir", "0=1", "--taylor", "11"], &["an order is one of 1 to 10"]),
        (&["--dir", "0=1", "--taylor", "-1"], &["an order is one of 1 to 10"]),
        (&["--dir", "0=1", "--taylor", "99999999999999999999"], &["an order is one of 1 to 10"]),
        (&["--dir", "0=1", "--taylor", "x"], &["an order is one of 1 to 10"]),
        (&["--taylor", "2"], &["--dir"]),
        (&["--next"], &["--dir"]),
    ];
    for (args, says) in rows {
        let call: &[&str] = &["--call", "%product(2.0, 3.0, 1)"];
        let done = file.run("jvp", &[call, args].concat()).expect(2);
        says.iter().fold(done, |done, says| done.says(says));
    }
    let both = ["--call", "%shared([1.0], @0)", "--dir", "0=[1]", "--dir", "1=[1]"];
    file.run("jvp", &both).expect(2).says("the tangent of argument 1 is that of argument 0");
    let imported = ["--call", "%imported(1.0)", "--dir", "0=1"];
    file.run("jvp", &imported).expect(2).says("`%imported` is imported, not defined, here");
}

#[test]
fn outputs_are_numbers_of_buffers() {
    let file = TempFile::new(PROGRAM, "outputs.clif", FILE);
    let ask = |call: &str, outputs: &str| file.run("jacobian", &["--call", call, "--outputs", outputs]).expect(2);
    ask("%shared([1.0], [2.0])", "x").says("write numbers of arguments, counted from 0, as in `1,3`");
    ask("%shared([1.0], [2.0])", "").says("as in `1,3`");
    ask("%shared([1.0], [2.0])", "2").says("argument 0 is one");
    ask("%product(1.0, 2.0, 3)", "0").says("leave `--outputs` out");
}

/// 0^p jumps at p = 0, where the slope in p is that of a logarithm. The mixed derivatives are its
/// pole, whichever of the two comes first.
#[test]
fn the_hessian_of_a_power_at_its_jump() {
    let file = TempFile::new(PROGRAM, "power.clif", FILE);
    for (call, pole) in [("%power(0.0, 0.0)", "inf"), ("%power(-0.0, 0.0)", "-inf")] {
        let found = file.run("hessian", &["--call", call, "--json"]).expect(0).json();
        assert_eq!(found[0]["hessian"], serde_json::json!([[0.0, pole], [pole, "inf"]]), "{call}");
    }
}

/// A product with a guard has the coefficients of a product, also where the guard is zero, and a
/// gradient that a program calls is made of such.
#[test]
fn coefficients_of_guarded_products() {
    let file = TempFile::new(PROGRAM, "guarded.clif", FILE);
    let ask = |call: &str, dirs: [&str; 2], order: &str| {
        let args = ["--call", call, "--dir", dirs[0], "--dir", dirs[1], "--taylor", order, "--json"];
        file.run("jvp", &args).expect(0).json()[0]["coefficients"].clone()
    };
    assert_eq!(ask("%guarded(2.0, 3.0)", ["0=1", "1=0.5"], "3"), serde_json::json!([[4.0], [0.5], [0.0]]));
    assert_eq!(ask("%guarded(0.0, 3.0)", ["0=1", "1=0.5"], "3"), serde_json::json!([[3.0], [0.5], [0.0]]));
    assert_eq!(ask("%guarded(0.0, 3.0)", ["0=1", "1=0.5"], "1"), serde_json::json!([[3.0]]));
    // A zero that stays one is strong.
    assert_eq!(ask("%guarded(0.0, inf)", ["0=0", "1=1"], "2"), serde_json::json!([[0.0], [0.0]]));
    // (x + t)/(y + 2t) at (0, 2), where the guard is zero: t/2 - t²/2 + t³/2.
    assert_eq!(ask("%quotient(0.0, 2.0)", ["0=1", "1=2"], "3"), serde_json::json!([[0.5], [-0.5], [0.5]]));
    // The slope of x⁴ is 4x³.
    assert_eq!(ask("%slope(2.0, 1.0)", ["0=1", "1=0"], "3"), serde_json::json!([[48.0], [24.0], [4.0]]));
}

/// Of what has no Taylor coefficients it is not said that there is no batch.
#[test]
fn what_has_no_coefficients() {
    let file = TempFile::new(PROGRAM, "foreign.clif", FILE);
    let rules = TempFile::new(PROGRAM, "foreign.rules", "imported: tangent along(x, dx)\n");
    let call = ["--rules", rules.path(), "--call", "%imports(2.0)", "--dir", "0=1", "--taylor", "2"];
    let done = file.run("jvp", &call).expect(1);
    done.says("AD0180").says("has no Taylor coefficients").says("%f__tangent__tangent");
}

/// Where the slope of `tanh` has no digits left, the rule that documents name has them.
#[test]
fn a_slope_of_tanh_with_all_digits() {
    let file = TempFile::new(PROGRAM, "tanh.clif", FILE);
    let rules = TempFile::new(PROGRAM, "tanh.rules", "tanh: x => z: 1/(cosh(x)*cosh(x))\n");
    let slope = |args: &[&str]| {
        let all = [&["--call", "%saturated(20.0)", "--json"], args].concat();
        file.run("grad", &all).expect(0).json()[0]["gradient"][0].as_f64().expect("a number")
    };
    assert_eq!(slope(&[]), 0.0);
    let exact = 20_f64.cosh().powi(-2);
    assert!((slope(&["--rules", rules.path()]) - exact).abs() < 1e-14 * exact);
}
