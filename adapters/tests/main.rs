//! Each adapter against closed forms and differences, with a solver that uses what it gives.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga_adapters::{Argument, FlatFunction, FlatParam, brolga, function};

#[cfg(feature = "argmin")]
mod argmin;
#[cfg(feature = "diffsol")]
mod diffsol;
#[cfg(feature = "levenberg-marquardt")]
mod levenberg_marquardt;
#[cfg(feature = "nuts-rs")]
mod nuts_rs;

fn int(n: usize) -> FlatParam {
    FlatParam::Fixed(Argument::Const(DataValue::I64(n as i64)))
}

fn floats(all: &[f64]) -> FlatParam {
    FlatParam::Fixed(Argument::Floats(all.to_vec()))
}

/// A model of the folder `models`.
fn model(text: &str, name: &str, parameters: Vec<FlatParam>) -> FlatFunction {
    // SAFETY: the models stay within what their comments say, and tests pass that.
    unsafe { function(text, name, parameters) }.unwrap()
}

/// Measurements of a decay, without noise.
fn decay(abc: [f64; 3], t: &[f64]) -> Vec<f64> {
    t.iter().map(|t| abc[0] * (-abc[1] * t).exp() + abc[2]).collect()
}

/// Residuals of a fit of these measurements.
fn residuals(t: &[f64], y: &[f64]) -> FlatFunction {
    let parameters = vec![FlatParam::Input(3), floats(t), floats(y), int(t.len()), FlatParam::Output(t.len())];
    model(include_str!("../models/decay.clif"), "decay", parameters)
}

/// Twelve times a number by an integer that is zero.
fn trapping() -> FlatFunction {
    let parameters = vec![FlatParam::Input(1), int(0), FlatParam::Output(1)];
    model(include_str!("../models/decay.clif"), "guarded", parameters)
}

/// The derivative of a function along one of its inputs, by differences.
fn difference(x: &[f64], i: usize, h: f64, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let at = |d: f64| {
        let mut x = x.to_vec();
        x[i] += d;
        f(&x)
    };
    at(h).iter().zip(at(-h)).map(|(a, b)| (a - b) / (2.0 * h)).collect()
}

#[track_caller]
fn close(found: &[f64], want: &[f64], within: f64) {
    assert_eq!(found.len(), want.len());
    let far = |(a, b): (&f64, &f64)| (a - b).abs() > within * (1.0 + b.abs()) || a.is_nan();
    assert!(!found.iter().zip(want).any(far), "{found:?} is not {want:?}");
}

#[test]
fn texts_that_cannot_be_read_or_lack_a_function() {
    let says = |text: &str, name: &str, says: &str| {
        // SAFETY: there is none.
        let Err(e) = (unsafe { function(text, name, vec![]) }) else { panic!("{text}") };
        assert!(e.to_string().contains(says), "{e}");
    };
    says("function %f( {", "f", "expected");
    says("function %f() { block0: return }", "g", "there is no function %g");
    says("function %f() { block0: return } function %f() { block0: return }", "f", "%f is there already");
}
