//! Finite differences: precision, kinks, and what they must not claim.

use brolga_oracle::OracleError;
use brolga_oracle::fd::{FdFailure, Options, Verdict, derivative, directional, gradient};

/// A function, a point, the derivative there.
type Row = (fn(f64) -> f64, f64, f64);

fn at(f: impl Fn(f64) -> f64, t: f64) -> Verdict {
    derivative(|t| Ok::<_, OracleError>(f(t)), t, &Options::default())
}

#[test]
fn smooth_functions_to_many_digits() {
    let rows: [Row; 8] = [
        (|x| x * x + 3.0 * x + 2.0, 5.0, 13.0),
        (f64::sin, 1.0, 0.540_302_305_868_139_8),
        (f64::exp, 2.0, 7.389_056_098_930_65),
        (|x| 1.0 / x, 0.01, -1e4),
        (|x| x.powi(20), 1.5, 20.0 * 1.5f64.powi(19)),
        (|x| (100.0 * x).sin(), 0.3, 100.0 * 30.0f64.cos()),
        (|x| 1e9 + x, 1.0, 1.0),
        (|x| x * x, 0.0, 0.0),
    ];
    for (i, (f, t, d)) in rows.into_iter().enumerate() {
        let Verdict::Smooth { value, error } = at(f, t) else { panic!("row {i}: {:?}", at(f, t)) };
        assert!((value - d).abs() <= 10.0 * error + 1e-12 * d.abs(), "row {i}: {value} ± {error}, not {d}");
        if i != 6 {
            assert!((value - d).abs() <= 1e-9 * (1.0 + d.abs()), "row {i}: {value} ± {error}, not {d}");
        }
    }
}

#[test]
fn kinks_are_told_from_curvature() {
    assert!(
        matches!(at(f64::abs, 0.0), Verdict::Kink { left, right } if (left + 1.0).abs() < 1e-6 && (right - 1.0).abs() < 1e-6)
    );
    assert!(matches!(at(|x| x.max(2.0) * x, 2.0), Verdict::Kink { .. }));
    // A kink nearby is none here.
    assert!(matches!(at(|x| (x - 1.0).abs(), 1.01), Verdict::Smooth { value, .. } if (value - 1.0).abs() < 1e-9));
    assert!(matches!(at(|x| x * x.abs(), 0.0), Verdict::Smooth { value, .. } if value.abs() < 1e-6));
    let kink = at(f64::abs, 0.0);
    assert!(kink.accepts(0.0, 1e-9) && kink.accepts(1.0, 1e-9) && !kink.accepts(1.1, 1e-9));
}

#[test]
fn no_claim_without_convergence() {
    assert_eq!(at(f64::sqrt, 0.0), Verdict::Unreliable(FdFailure::Undefined));
    assert_eq!(at(f64::floor, 3.0), Verdict::Unreliable(FdFailure::NoLimit));
    assert_eq!(at(f64::floor, 1e16), Verdict::Unreliable(FdFailure::Coarse));
    assert_eq!(at(|x| 1.0 / x, f64::INFINITY), Verdict::Unreliable(FdFailure::Coarse));
    assert_eq!(at(|x| 1.0 / x, 0.0), Verdict::Unreliable(FdFailure::NotFinite));
    assert_eq!(at(f64::ln, -1.0), Verdict::Unreliable(FdFailure::NotFinite));
    let mut state = 1u64;
    let noise = |t: f64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Ok::<_, OracleError>(t + (state >> 40) as f64 / 1e8)
    };
    assert!(!matches!(derivative(noise, 1.0, &Options::default()), Verdict::Kink { .. }));
}

#[test]
fn large_steps_are_not_believed_blindly() {
    // Steps of the largest scale are whole periods.
    let w = std::f64::consts::TAU * 64.0;
    let Verdict::Smooth { value, .. } = at(|x| (w * 10.0 * (x - 1.0)).sin(), 1.0) else { panic!() };
    assert!((value - 10.0 * w).abs() < 1e-3, "{value}");
    // A jump, a pole and a kink close by.
    let rows: [Row; 3] = [
        (|x| x + (x * 20.0).floor(), 1.012, 1.0),
        (|x| x + 3.0 * (x - 1.003).abs(), 1.0, -2.0),
        (|x| 0.5 / (x - 1.02), 1.0, -1250.0),
    ];
    for (i, (f, t, d)) in rows.into_iter().enumerate() {
        let v = at(f, t);
        assert!(matches!(v, Verdict::Smooth { .. }) && v.accepts(d, 1e-7), "row {i}: {v:?}, not {d}");
    }
}

#[test]
fn several_variables_and_single_precision() {
    let f = |x: &[f64]| Ok(x[0] * x[1].sin());
    let g = gradient(f, &[2.0, 0.5], &Options::default());
    assert!(g[0].accepts(0.5f64.sin(), 1e-10) && g[1].accepts(2.0 * 0.5f64.cos(), 1e-10), "{g:?}");
    assert!(!g[0].accepts(0.5f64.sin() + 1e-6, 1e-10));
    let d = directional(f, &[2.0, 0.5], &[1.0, -1.0], &Options::default());
    assert!(d.accepts(0.5f64.sin() - 2.0 * 0.5f64.cos(), 1e-9), "{d:?}");
    let single = Options { precision: f32::EPSILON.into(), f32_inputs: true, ..Options::default() };
    let f = |x: &[f64]| Ok(f64::from((x[0] as f32).sin() * x[1] as f32));
    let g = gradient(f, &[1.2, 3.0], &single);
    let value = |v: Verdict| match v {
        Verdict::Smooth { value, .. } => value,
        v => panic!("{v:?}"),
    };
    assert!((value(g[0]) - 3.0 * 1.2f64.cos()).abs() < 1e-3, "{g:?}");
    assert!((value(g[1]) - 1.2f64.sin()).abs() < 1e-4, "{g:?}");
}

/// Functions whose larger steps mislead: over periods and jumps, through noise, and where the
/// domain ends.
#[test]
fn what_larger_steps_say_is_checked_by_smaller_ones() {
    let rows: [Row; 9] = [
        (|x| (1e6 * x).sin(), 0.7, 1e6 * 7e5f64.cos()),
        (|x| (3e8 * x).cos(), 0.3, -3e8 * 9e7f64.sin()),
        (f64::sin, 1e6 + 0.5, (1e6 + 0.5f64).cos()),
        (|x| (x * 1e9).floor() / 1e9, 0.700_000_000_5, 0.0),
        (|x| x + (x * 300.0).floor(), 0.7012, 1.0),
        (f64::ceil, 1088.5, 0.0),
        (f64::ln, 1e-8, 1e8),
        (f64::ln, 1e-30, 1e30),
        (|x| x + (1e5 * x).sin() * 1e-3, 0.3, 1.0 + 100.0 * 3e4f64.cos()),
    ];
    for (i, (f, t, d)) in rows.into_iter().enumerate() {
        let v = at(f, t);
        assert!(matches!(v, Verdict::Smooth { .. }) && v.accepts(d, 1e-6), "row {i}: {v:?}, not {d}");
        for wrong in [-d, 2.0 * d, 1.01 * d, d + 1.0 + d.abs()] {
            assert!(wrong == d || !v.accepts(wrong, 1e-6), "row {i}: {v:?} accepts {wrong}");
        }
    }
    // Values that come in steps which no difference resolves, and noise that only who computes them
    // knows of.
    let steps = |x: f64| (x * 1e13).floor() / 1e13;
    assert_eq!(at(steps, 0.700_000_000_000_05), Verdict::Unreliable(FdFailure::NoLimit));
    let rounds = Options { noise: f64::EPSILON, ..Options::default() };
    let jump = derivative(|x| Ok::<_, OracleError>(steps(x)), 0.7, &rounds);
    assert_eq!(jump, Verdict::Unreliable(FdFailure::NoLimit));
    let knows = Options { noise: 1e4, ..Options::default() };
    let lost = derivative(|x| Ok::<_, OracleError>((x + 1e20 * x) - 1e20 * x), 1.0, &knows);
    assert_eq!(lost, Verdict::Unreliable(FdFailure::Noise));
    let single = Options {
        precision: f32::EPSILON.into(),
        f32_inputs: true,
        noise: f64::MIN_POSITIVE,
        steps: 0.0,
        size: 0.0,
        unit: 0.0,
    };
    let ceil = |x: f64| Ok::<_, OracleError>(f64::from((x as f32).ceil()));
    assert_eq!(derivative(ceil, 1088.0, &single), Verdict::Unreliable(FdFailure::NoLimit));
    assert!(derivative(ceil, 1088.5, &single).accepts(0.0, 1e-6));
}

/// Along a line through large numbers steps that are lost in them say nothing.
#[test]
fn steps_along_a_line_are_seen_by_the_numbers_that_they_are_added_to() {
    for x in [1.0, 3e4, 1e6, 1e9] {
        let options = Options { size: x, ..Options::default() };
        for (f, slope) in [(f64::sin as fn(f64) -> f64, x.cos()), (|y: f64| y * y, 2.0 * x)] {
            let v = derivative(|t| Ok::<_, OracleError>(f(x + 0.75 * t)), 0.0, &options);
            let right = v.accepts(0.75 * slope, 1e-6);
            assert!(right && (x > 1e6 || matches!(v, Verdict::Smooth { .. })), "{x}: {v:?}, not {slope}");
            assert!(matches!(v, Verdict::Unreliable(_)) || !v.accepts(0.75 * slope * 1.01 + 1e-2, 1e-6), "{x}: {v:?}");
        }
    }
}
