//! The first gradient: `cargo run -p brolga --example first_gradient`. README.md shows the same
//! lines.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Options, Program, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = "function %f(f64, f64) -> f64 system_v {
            fn0 = %sin(f64) -> f64 system_v
        block0(v0: f64, v1: f64):
            v2 = fmul v0, v1
            v3 = call fn0(v2)
            return v3
        }";
    let function = cranelift_reader::parse_functions(text)?.remove(0);
    let mut program = Program::new();
    let f = program.define("f", function, |_| 0)?;

    let request = Request::new(f, [ArgActivity::Active, ArgActivity::Active]);
    let rule = DerivedRule::new(&program, &request, &Options::default())?;

    let (x, y) = (1.5_f64, 0.5_f64);
    let args = [x, y].map(|v| Arg::new(DataValue::F64(v.into())));
    // SAFETY: no argument is a pointer, here and below.
    let (value, mut pullback) = unsafe { rule.forward(&args) }?;
    let gradient = unsafe { pullback.call(&[DataValue::F64(1.0.into())]) }?;

    let float = |v: &DataValue| if let DataValue::F64(x) = v { x.as_f64() } else { f64::NAN };
    assert_eq!(float(&value[0]), (x * y).sin());
    let gradient: Vec<f64> = gradient.iter().flatten().map(float).collect();
    assert_eq!(gradient, [y * (x * y).cos(), x * (x * y).cos()]);
    Ok(())
}
