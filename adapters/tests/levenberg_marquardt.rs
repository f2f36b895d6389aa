//! `levenberg-marquardt`: a decay, whose parameters are known; many inputs and few outputs; ends.

use brolga_adapters::levenberg_marquardt::Fit;
use brolga_adapters::{Error, FlatParam, Pattern};
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt, TerminationReason, differentiate_numerically};

use crate::{close, decay, int, model, residuals, trapping};

#[test]
fn parameters_are_recovered() {
    let t: Vec<f64> = (0..40).map(|i| 0.1 * f64::from(i)).collect();
    let wanted = [3.0, 0.5, -1.0];
    let mut fit = Fit::new(residuals(&t, &decay(wanted, &t)), &[1.0, 1.0, 0.0]).unwrap();
    let (exact, numerical) = (fit.jacobian().unwrap(), differentiate_numerically(&mut fit).unwrap());
    close(exact.as_slice(), numerical.as_slice(), 1e-8);
    let (fit, report) = LevenbergMarquardt::new().minimize(fit);
    assert!(report.termination.was_successful(), "{report:?}");
    assert!(report.number_of_evaluations < 20, "{report:?}");
    close(fit.params().as_slice(), &wanted, 1e-10);
    assert!(fit.failure().is_none());
}

/// One output of many inputs, so that the Jacobian comes by reverse mode; and by a pattern.
#[test]
fn both_modes() {
    let n = 12;
    let text = include_str!("../models/rosenbrock.clif");
    let f = || model(text, "rosenbrock", vec![FlatParam::Input(n), int(n)]);
    let begin: Vec<f64> = (0..n).map(|i| 0.1 * i as f64).collect();
    let mut fit = Fit::new(f(), &begin).unwrap();
    let (exact, numerical) = (fit.jacobian().unwrap(), differentiate_numerically(&mut fit).unwrap());
    assert_eq!(exact.shape(), (1, n));
    close(exact.as_slice(), numerical.as_slice(), 1e-7);
    let full = Pattern::new(n, [(0..n).collect()]).unwrap();
    let fit = Fit::new(f(), &begin).unwrap().with_pattern(full);
    close(fit.jacobian().unwrap().as_slice(), exact.as_slice(), 1e-14);
}

#[test]
fn what_ends_a_fit_is_kept() {
    let (fit, report) = LevenbergMarquardt::new().minimize(Fit::new(trapping(), &[1.0]).unwrap());
    assert!(matches!(report.termination, TerminationReason::User(_)));
    assert!(matches!(fit.failure(), Some(Error::Trap(t)) if t.code == "int_divz"));
    let short = Fit::new(trapping(), &[1.0, 2.0]).map(|_| ());
    assert!(short.unwrap_err().to_string().contains("2 floats are given, 1 are wanted"));
    let t = [0.0, 1.0, 2.0];
    let (fit, report) = LevenbergMarquardt::new().minimize(Fit::new(residuals(&t, &t), &[f64::NAN; 3]).unwrap());
    assert!(matches!(report.termination, TerminationReason::Numerical(_)) && fit.failure().is_none());
    let narrow = Pattern::banded(3, 0, 0);
    let (fit, report) =
        LevenbergMarquardt::new().minimize(Fit::new(residuals(&t, &t), &[1.0; 3]).unwrap().with_pattern(narrow));
    assert!(matches!(report.termination, TerminationReason::User(_)));
    assert!(fit.failure().unwrap().to_string().contains("outside of the pattern"));
}
