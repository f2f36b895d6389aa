//! A decay to a level, fitted to measurements with noise:
//! `cargo run --example fit --features levenberg-marquardt`.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga_adapters::levenberg_marquardt::Fit;
use brolga_adapters::{Argument, Error, FlatParam, brolga, function};
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};

const N: usize = 60;
const TRUE: [f64; 3] = [2.5, 1.3, 0.4];

fn main() -> Result<(), Error> {
    let t: Vec<f64> = (0..N).map(|i| 0.05 * i as f64).collect();
    // Noise of a hundredth, of no pattern.
    let noise = |i: usize| 0.01 * (2.0 * (i as f64 * 0.754_877_666).fract() - 1.0);
    let y = t.iter().enumerate().map(|(i, t)| TRUE[0] * (-TRUE[1] * t).exp() + TRUE[2] + noise(i)).collect();
    let parameters = vec![
        FlatParam::Input(3),
        FlatParam::Fixed(Argument::Floats(t)),
        FlatParam::Fixed(Argument::Floats(y)),
        FlatParam::Fixed(Argument::Const(DataValue::I64(N as i64))),
        FlatParam::Output(N),
    ];
    // SAFETY: it reads three, N and N floats, and writes N.
    let residuals = unsafe { function(include_str!("../models/decay.clif"), "decay", parameters) }?;
    let (fit, report) = LevenbergMarquardt::new().minimize(Fit::new(residuals, &[1.0, 0.5, 0.0])?);
    let found = fit.params();
    println!("{:?} after {} evaluations", report.termination, report.number_of_evaluations);
    println!("found {:.4?}, wanted {TRUE:?}", found.as_slice());
    assert!(report.termination.was_successful());
    assert!(found.iter().zip(TRUE).all(|(x, want)| (x - want).abs() < 0.02));
    Ok(())
}
