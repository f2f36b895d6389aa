//! A sine and a cosine that come of one call are the bits that two calls give, in the primal and in
//! its derivative.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, DerivedRule, Mode, Options, Program, Request};

/// Both parts of an angle, in double and in single precision.
const TEXT: &str = "function %both(f64, f32) -> f64, f64, f32, f32 system_v {
    sig0 = (f64) -> f64 system_v
    sig1 = (f32) -> f32 system_v
    fn0 = %sin sig0
    fn1 = %cos sig0
    fn2 = %sinf sig1
    fn3 = %cosf sig1
block0(v0: f64, v1: f32):
    v2 = call fn0(v0)
    v3 = call fn3(v1)
    v4 = call fn1(v0)
    v5 = call fn2(v1)
    return v2, v4, v5, v3
}";

fn bits(v: &DataValue) -> u64 {
    match v {
        DataValue::F64(x) if x.as_f64().is_nan() => f64::NAN.to_bits(),
        DataValue::F64(x) => x.bits(),
        DataValue::F32(x) if x.as_f32().is_nan() => f32::NAN.to_bits().into(),
        DataValue::F32(x) => x.bits().into(),
        _ => unreachable!("a float"),
    }
}

#[test]
fn one_call_gives_the_bits_of_two() {
    let mut program = Program::new();
    for func in cranelift_reader::parse_functions(TEXT).unwrap() {
        program.define("both", func, |_| 0).unwrap();
    }
    let func = program.func("both").unwrap();
    let request = Request::new(func, [brolga::ArgActivity::Active; 2]);
    let rule = DerivedRule::new(&program, &request, &Options { mode: Mode::Combined, ..Options::full() }).unwrap();
    let angles =
        (-40..40).map(|k| f64::from(k) * 0.37).chain([0.0, -0.0, 1e-310, 1e22, 7e300, f64::INFINITY, f64::NAN]);
    for x in angles {
        let y = x as f32;
        let args = [DataValue::F64(x.into()), DataValue::F32(y.into())];
        // SAFETY: no pointers are involved.
        let found = unsafe { rule.primal(&args) }.unwrap();
        let wanted = [x.sin(), x.cos()].map(|x| bits(&DataValue::F64(x.into())));
        let singles = [y.sin(), y.cos()].map(|y| bits(&DataValue::F32(y.into())));
        let found: Vec<u64> = found.iter().map(bits).collect();
        assert_eq!(found, [wanted, singles].concat(), "{x}");
        // x̄ = cos x - 2 sin x, and the same of the other.
        let seeds = [
            DataValue::F64(1.0.into()),
            DataValue::F64(2.0.into()),
            DataValue::F32(1f32.into()),
            DataValue::F32(2f32.into()),
        ];
        let (mut values, mut cotangents) = (Vec::new(), Vec::new());
        let args = args.map(Arg::new);
        // SAFETY: as above.
        drop(unsafe { rule.gradient(&args, &seeds, &mut values, &mut cotangents) }.unwrap());
        assert_eq!(values.iter().map(bits).collect::<Vec<_>>(), found, "{x}");
        let slopes =
            [DataValue::F64((x.cos() - 2.0 * x.sin()).into()), DataValue::F32((y.cos() - 2.0 * y.sin()).into())];
        let cotangents: Vec<u64> = cotangents.iter().flatten().map(bits).collect();
        assert_eq!(cotangents, slopes.each_ref().map(bits), "{x}");
    }
}
