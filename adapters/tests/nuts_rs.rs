//! `nuts-rs`: a hierarchical normal model, whose mean and covariance are a linear system's; a
//! density that ends at zero; errors.

use std::sync::Arc;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga_adapters::nuts_rs::{DensityError, LogDensity};
use brolga_adapters::{Argument, FlatFunction, FlatParam, brolga};
use nuts_rs::rand::{SeedableRng, rngs::SmallRng};
use nuts_rs::{Chain, CpuLogpFunc, CpuMath, DiagNutsSettings, LogpError, Settings};

use crate::{close, difference, floats, int, model, trapping};

const EFFECTS: [f64; 8] = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
const ERRORS: [f64; 8] = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];
const SPREAD: f64 = 10.0;
const PRIOR: f64 = 20.0;

fn schools() -> FlatFunction {
    let number = |x: f64| FlatParam::Fixed(Argument::Const(DataValue::F64(x.into())));
    let data = [floats(&EFFECTS), floats(&ERRORS), int(8), number(SPREAD), number(PRIOR)];
    model(include_str!("../models/schools.clif"), "schools", [&[FlatParam::Input(9)], &data[..]].concat())
}

/// Draws after the sampler has adapted, and how many of them diverged. It does not begin where an
/// entry of the gradient is zero.
fn draws(density: LogDensity, begin: &[f64], seed: u64, n: usize) -> (Vec<Box<[f64]>>, usize) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let tune = 500;
    let settings = DiagNutsSettings { num_tune: tune as u64, num_draws: n as u64, ..DiagNutsSettings::default() };
    let mut sampler = settings.new_chain(seed, CpuMath::new(density), &mut rng).unwrap();
    sampler.set_position(begin).unwrap();
    let all: Vec<_> = (0..tune + n).map(|_| sampler.draw().unwrap()).skip(tune).collect();
    let diverged = all.iter().filter(|(_, progress)| progress.diverging).count();
    (all.into_iter().map(|(position, _)| position).collect(), diverged)
}

fn mean(of: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = of.len() as f64;
    of.sum::<f64>() / n
}

#[test]
fn gradients_are_those_of_differences() {
    let mut density = LogDensity::new(schools()).unwrap();
    let x: Vec<f64> = (0..9).map(|i| 3.0 - f64::from(i)).collect();
    let mut gradient = vec![9.0; 9];
    for _ in 0..2 {
        density.logp(&x, &mut gradient).unwrap();
        for i in 0..9 {
            let value = |x: &[f64]| vec![density.clone().logp(x, &mut [0.0; 9]).unwrap()];
            close(&gradient[i..=i], &difference(&x, i, 1e-4, value), 1e-9);
        }
    }
}

/// The density is normal: its gradient at zero is what its precision makes of its mean, and the
/// rows of the precision are differences of gradients.
#[test]
fn means_and_variances_are_those_of_the_normal_density() {
    let density = LogDensity::new(schools()).unwrap();
    let gradient = |x: [f64; 9]| {
        let mut gradient = [0.0; 9];
        density.clone().logp(&x, &mut gradient).unwrap();
        nalgebra::SVector::<f64, 9>::from(gradient)
    };
    // By formulas.
    let mut precision = nalgebra::SMatrix::<f64, 9, 9>::zeros();
    let mut weighted = nalgebra::SVector::<f64, 9>::zeros();
    let between = 1.0 / (SPREAD * SPREAD);
    precision[(0, 0)] = 1.0 / (PRIOR * PRIOR) + 8.0 * between;
    for i in 1..9 {
        let own = 1.0 / (ERRORS[i - 1] * ERRORS[i - 1]);
        precision[(i, i)] = between + own;
        (precision[(i, 0)], precision[(0, i)]) = (-between, -between);
        weighted[i] = own * EFFECTS[i - 1];
    }
    close(gradient([0.0; 9]).as_slice(), weighted.as_slice(), 1e-13);
    let covariance = precision.try_inverse().unwrap();
    let wanted = covariance * weighted;
    close(gradient(wanted.into()).as_slice(), &[0.0; 9], 1e-13);

    // Chains in threads share one function.
    let chains = std::thread::scope(|scope| {
        let chain = |seed| {
            let density = density.clone();
            scope.spawn(move || draws(density, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], seed, 3000))
        };
        [3, 4].map(chain).map(|t| t.join().unwrap())
    });
    assert!(chains.iter().all(|(_, diverged)| *diverged == 0));
    let all: Vec<_> = chains.into_iter().flat_map(|(draws, _)| draws).collect();
    for i in 0..9 {
        let found = mean(all.iter().map(|x| x[i]));
        let deviation = covariance[(i, i)].sqrt();
        // Six thousand draws, of which each says at least half as much as one that is independent.
        assert!((found - wanted[i]).abs() < 0.1 * deviation, "{i}: {found}, {}", wanted[i]);
        let variance = mean(all.iter().map(|x| (x[i] - found).powi(2)));
        assert!((variance / covariance[(i, i)] - 1.0).abs() < 0.15, "{i}: {variance}, {}", covariance[(i, i)]);
    }
}

/// exp(-x) x for x > 0: NaN below, where the sampler must not stop.
#[test]
fn where_there_is_no_density() {
    let positive = model(include_str!("../models/schools.clif"), "positive", vec![FlatParam::Input(1)]);
    let positive = Arc::new(positive);
    let mut density = LogDensity::new(positive.clone()).unwrap();
    let mut gradient = [0.0];
    assert_eq!(density.logp(&[2.0], &mut gradient).unwrap(), 2.0_f64.ln() - 2.0);
    assert_eq!(gradient, [-0.5]);
    for (at, value) in [(0.0, f64::NEG_INFINITY), (-1.0, f64::NAN), (f64::INFINITY, f64::NAN)] {
        let e = density.logp(&[at], &mut gradient).unwrap_err();
        let DensityError::NotFinite { value: found } = &e else { panic!("{e}") };
        assert!(found.total_cmp(&value).is_eq() || found.is_nan() && value.is_nan(), "{found} at {at}");
        assert!(e.is_recoverable());
    }
    let (draws, _) = draws(LogDensity::new(positive).unwrap(), &[1.5], 5, 4000);
    let found = mean(draws.iter().map(|x| x[0]));
    assert!((found - 2.0).abs() < 0.2, "{found}");
    assert!(draws.iter().all(|x| x[0] > 0.0));
}

#[test]
fn errors_end_the_chain() {
    let mut density = LogDensity::new(trapping()).unwrap();
    let e = density.logp(&[1.0], &mut [0.0]).unwrap_err();
    assert!(!e.is_recoverable() && e.to_string().contains("int_divz"), "{e}");
    let e = density.logp(&[1.0, 2.0], &mut [0.0]).unwrap_err();
    assert!(e.to_string().contains("2 floats are given, 1 are wanted"));
}
