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

/// Of what has no Taylor coefficients it is not said that there is no batch.
#[test]
fn no_coefficients_of_a_guarded_product() {
    let file = TempFile::new(PROGRAM, "guarded.clif", FILE);
    let call = ["--call", "%guarded(2.0, 3.0)", "--dir", "0=1", "--taylor", "2"];
    let done = file.run("jvp", &call).expect(1);
    done.says("AD0180").says("has no Taylor coefficients").says("%f__tangent__tangent");
}
