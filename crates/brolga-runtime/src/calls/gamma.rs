//! Digamma, trigamma and polygamma of any order, which C's library lacks and the derivatives of
//! `lgamma` and `tgamma` need.
//!
//! **Question.** C's library lacks digamma, trigamma and polygamma of any order, and the
//! derivatives of `lgamma` and `tgamma` need them. How are they computed to the last digits?
//!
//! **Answer.** By the asymptotic series, the recurrence and reflection.
//!
//! **Method.** For large arguments the asymptotic series
//!
//! ```text
//!   psi(x)  ~ ln x - 1/(2x) - sum B(2k) / (2k x^2k)        psi'(x) ~ 1/x + 1/(2x^2) + sum B(2k) / x^(2k+1)
//! ```
//!
//! and for smaller ones the recurrence `psi(x+1) = psi(x) + 1/x`, used so that only positive terms
//! are added: trigamma goes up to the series, digamma goes down to `[1, 2]`. There digamma has its
//! positive zero; it is computed as `(x - zero) * g(x)`, with the zero in two pieces and `g` a
//! polynomial (interpolation at 22 Chebyshev nodes, relative error below 1e-16), so that the result
//! is relatively accurate on the whole positive axis. Negative arguments are reflected, `psi(1-x) -
//! psi(x) = pi cot(pi x)`, with `x` reduced to its exact distance from the nearest integer. Near
//! the zeros on the negative axis, one between any two poles, the error is that of a difference:
//! small against either term.
//!
//! *At the poles* 0, -1, -2, ...: digamma is infinite at zero, with the sign that it has on that
//! side of zero, and NaN at negative integers, where the two sides differ. Trigamma is plus
//! infinity at all of them.
//!
//! *Polygamma* of order n is `(-1)^(n+1) n! sum 1/(x + k)^(n+1)`: terms up to where the order is
//! small against the argument, then the asymptotic series. Negative arguments are brought to
//! positive ones by the sum over all integers, of which the nearest one is the largest term. At
//! poles it is infinite where both sides agree (odd orders), and zero with its sign has one.
//!
//! **Cost.** Digamma and trigamma: at most some ten steps of the recurrence, and nine or twenty-two
//! terms. Polygamma of order n: at most some ten and n steps, each a power, and nine terms; three
//! times that for negative arguments.
//!
//! **Source.** Abramowitz and Stegun, *Handbook of mathematical functions*, chapter 6.

use std::f64::consts::PI;

/// The positive zero of digamma: the nearest double, and what that lacks.
const ZERO: (f64, f64) = (1.4616321449683622, 9.549995429965697e-17);

/// Coefficients of `psi(x) / (x - zero)` in powers of `x - 3/2`, for `x` in `[1, 2]`.
#[rustfmt::skip]
const NEAR_ZERO: [f64; 22] = [
    0.951055876031833, -0.4236274212814605, 0.2405424842407742, -0.14840492305390884, 0.09498872445494122,
    -0.061922133273064534, 0.04076083381242074, -0.02697579675613825, 0.0179072524394512, -0.011908218001568644,
    0.007926944646403797, -0.005279964873257405, 0.003519006401502276, -0.002345267632540769, 0.0015566317474486838,
    -0.0010376374098418604, 0.0007233266279287554, -0.0004821990530566789, 0.0002272331660987376,
    -0.00015148586836773365, 0.00025968482126430747, -0.00017312261802727394,
];

/// Bernoulli numbers B(2), B(4), ....
const BERNOULLI: [f64; 9] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
];

/// From here on the series is accurate to the last bit or so.
const LARGE: f64 = 10.0;

/// The derivative of `lgamma`.
pub extern "C" fn brolga_digamma(x: f64) -> f64 {
    // A pole, where the limits of both sides disagree.
    if x == 0.0 {
        return f64::NAN;
    }
    if x < 0.0 {
        return brolga_digamma(1.0 - x) - PI * cot_pi(x);
    }
    if x >= LARGE {
        let y = 1.0 / (x * x);
        let terms = BERNOULLI.iter().enumerate().rev();
        let series = terms.fold(0.0, |sum, (i, b)| (sum + b / (2 * i + 2) as f64) * y);
        return x.ln() - 0.5 / x - series;
    }
    if x < 1.0 {
        return digamma_near_zero(x + 1.0) - 1.0 / x;
    }
    let (mut x, mut sum) = (x, 0.0);
    while x > 2.0 {
        // Exact: the result is smaller and a multiple of the same unit.
        x -= 1.0;
        sum += 1.0 / x;
    }
    digamma_near_zero(x) + sum
}

/// Digamma on `[1, 2]`.
fn digamma_near_zero(x: f64) -> f64 {
    let t = x - 1.5;
    (x - ZERO.0 - ZERO.1) * NEAR_ZERO.iter().rev().fold(0.0, |sum, c| sum * t + c)
}

/// The derivative of digamma.
pub extern "C" fn brolga_trigamma(x: f64) -> f64 {
    if x <= 0.0 {
        let r = from_nearest_integer(x);
        return if r == 0.0 { f64::INFINITY } else { (PI / (PI * r).sin()).powi(2) - brolga_trigamma(1.0 - x) };
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < LARGE {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = BERNOULLI.iter().rev().fold(0.0, |sum, b| (sum + b) * y);
    sum + (1.0 + 0.5 / x + series) / x
}

/// The derivative of digamma of a whole order, up to 170; NaN for other orders.
pub extern "C" fn brolga_polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return brolga_digamma(x);
    }
    if n == 1.0 {
        return brolga_trigamma(x);
    }
    if !(1.0..=170.0).contains(&n) || n != n.trunc() {
        return f64::NAN;
    }
    let power = n as i32 + 1;
    let mirrored = if power % 2 == 0 { 1.0 } else { -1.0 };
    let factorial = (2..power).fold(1.0, |f, k| f * f64::from(k));
    let sum = if x > 0.0 || x.is_nan() {
        zeta(power, x)
    } else {
        // The difference from the nearest integer of -0 is +0: the pole would lose its side.
        let r = if x == 0.0 { x } else { from_nearest_integer(x) };
        if r == 0.0 && x != 0.0 && mirrored < 0.0 {
            return f64::NAN;
        }
        1.0 / r.powi(power) + zeta(power, 1.0 + r) + mirrored * (zeta(power, 1.0 - r) - zeta(power, 1.0 - x))
    };
    mirrored * factorial * sum
}

/// `sum 1/(x + k)^power` for positive x.
fn zeta(power: i32, x: f64) -> f64 {
    let s = f64::from(power);
    let steps = (LARGE + s - x).ceil().clamp(0.0, LARGE + s) as i32;
    let sum = (0..steps).map(|k| 1.0 / (x + f64::from(k)).powi(power)).sum::<f64>();
    let x = x + f64::from(steps);
    // Coefficients of the series, relative to x^-power.
    let (mut series, mut c) = (x / (s - 1.0) + 0.5, s / (2.0 * x));
    for (i, b) in BERNOULLI.iter().enumerate() {
        series += b * c;
        let k = (2 * i + 2) as f64;
        c *= (s + k - 1.0) * (s + k) / ((k + 1.0) * (k + 2.0)) / (x * x);
    }
    // At infinity it is a quotient of two.
    sum + if series.is_infinite() { 0.0 } else { series / x.powi(power) }
}

/// [`brolga_polygamma`] in single precision.
pub extern "C" fn brolga_polygammaf(n: f32, x: f32) -> f32 {
    brolga_polygamma(n.into(), x.into()) as f32
}

/// [`brolga_digamma`] in single precision.
pub extern "C" fn brolga_digammaf(x: f32) -> f32 {
    brolga_digamma(x.into()) as f32
}

/// [`brolga_trigamma`] in single precision.
pub extern "C" fn brolga_trigammaf(x: f32) -> f32 {
    brolga_trigamma(x.into()) as f32
}

/// Cotangent of `pi x`; NaN at integers and infinities.
fn cot_pi(x: f64) -> f64 {
    let r = from_nearest_integer(x);
    if r == 0.0 {
        f64::NAN
    } else if r.abs() <= 0.25 {
        1.0 / (PI * r).tan()
    } else {
        // Near one half the cotangent is small, and pi x is not known well enough.
        (PI * (0.5 - r.abs())).tan().copysign(r)
    }
}

/// Signed distance to the nearest integer: exact. NaN for infinities.
fn from_nearest_integer(x: f64) -> f64 {
    x - x.round()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x`, digamma, trigamma, computed with 40 digits at the double `x`.
    #[rustfmt::skip]
    const KNOWN: &[(f64, f64, f64)] = &[
        (1e-300, -9.999999999999999e+299, f64::INFINITY),
        (1e-10, -10000000000.577215, 1e+20),
        (0.001, -1000.5755719318103, 1000001.6425331958),
        (0.1, -10.423754940411076, 101.43329915079275),
        (0.3, -3.502524222200133, 12.245364546107732),
        (0.46, -2.175493605465344, 5.695017542114802),
        (0.5, -1.9635100260214235, 4.934802200544679),
        (0.75, -1.0858608797864722, 2.5418796476716063),
        (0.999, -0.5788618021086455, 1.6473414317770505),
        (1.0, -0.5772156649015329, 1.6449340668482264),
        (1.2, -0.2890398965921884, 1.2673772054237793),
        (1.46, -0.0015805619870834522, 0.9691196215098878),
        (1.4616321449683622, -9.241265521729427e-17, 0.9676722454476212),
        (1.4616321449683625, 1.2245374622004068e-16, 0.9676722454476211),
        (1.47, 0.008066489011364869, 0.9603162090511507),
        (1.5, 0.03648997397857652, 0.9348022005446793),
        (1.75, 0.24747245354686118, 0.7641018698938287),
        (1.9999, 0.42271983967113097, 0.6449744806987031),
        (2.0, 0.42278433509846713, 0.6449340668482264),
        (2.5, 0.7031566406452432, 0.49035775610023485),
        (3.0, 0.9227843350984671, 0.39493406684822646),
        (4.7, 1.4374238096317817, 0.23699183867807336),
        (6.25, 1.750453526883736, 0.17347923315893218),
        (9.99, 2.250700372831201, 0.10527695014824179),
        (10.0, 2.251752589066721, 0.10516633568168575),
        (10.01, 2.2528037003181356, 0.10505595320551508),
        (17.3, 2.821526423539867, 0.05950625643629068),
        (100.0, 4.600161852738087, 0.010050166663333571),
        (12345.678, 9.421020820741761, 8.100328723111207e-05),
        (10000000000.0, 23.025850929890456, 1.00000000005e-10),
        (1e+200, 460.51701859880916, 1e-200),
        (-1e-12, 999999999999.4229, 1e+24),
        (-0.1, 9.245073050052948, 101.92253995947719),
        (-0.25, 2.9141391202135276, 18.541879647671607),
        (-0.5, 0.03648997397857652, 8.934802200544679),
        (-0.75, -2.894120200042932, 18.975106932284888),
        (-0.99, -99.55078444776757, 10002.641517578902),
        (-1.01, 100.3963127058453, 10002.64960015046),
        (-1.5, 0.7031566406452432, 9.379246644989124),
        (-2.2, 5.322870221172645, 28.200530152194034),
        (-3.75, -1.6923885983113303, 19.504980060599575),
        (-10.5, 2.3982391295357814, 9.778757739814813),
        (-25.001, 1003.2354918512261, 1000003.2506630573),
        (-100.25, 7.754238959208646, 19.729283325349364),
        (-4.999999, -999998.293739445, 999999999723.5526),
    ];

    #[test]
    fn known_values() {
        for &(x, digamma, trigamma) in KNOWN {
            let (d, t) = (brolga_digamma(x), brolga_trigamma(x));
            // On the negative axis digamma is a difference, 1 - x is rounded, and tan and sin are
            // steep near the poles.
            let (scale, bound) = if x > 0.0 { (0.0, 1e-15) } else { (brolga_digamma(1.0 - x), 4e-15) };
            assert!(d == digamma || (d - digamma).abs() <= bound * digamma.abs().max(scale), "digamma({x}) = {d}");
            assert!(t == trigamma || (t - trigamma).abs() <= bound * trigamma, "trigamma({x}) = {t}");
        }
    }

    /// Order, `x`, polygamma: closed forms by zeta values, and by the recurrence from those.
    #[test]
    fn polygamma_of_some_orders() {
        const ZETA3: f64 = 1.2020569031595942;
        let pi4 = PI.powi(4);
        for (n, x, wanted) in [
            (2.0, 1.0, -2.0 * ZETA3),
            (2.0, 0.5, -14.0 * ZETA3),
            (2.0, 2.0, 2.0 - 2.0 * ZETA3),
            (2.0, -0.5, 16.0 - 14.0 * ZETA3),
            (3.0, 1.0, pi4 / 15.0),
            (3.0, 0.5, pi4),
            (3.0, -0.5, pi4 + 96.0),
            (5.0, 1.0, 8.0 * PI.powi(6) / 63.0),
            (2.0, 1e8, -1.00000001e-16),
        ] {
            let got = brolga_polygamma(n, x);
            assert!(
                (got - wanted).abs() <= 1e-14 * wanted.abs().max(if x < 0.0 { 20.0 } else { 0.0 }),
                "{n} {x}: {got}"
            );
        }
        for n in 2..12 {
            for x in [0.3, 1.7, 5.2, 30.0] {
                // The recurrence, by order.
                let n = f64::from(n);
                let step = brolga_polygamma(n, x + 1.0) - brolga_polygamma(n, x);
                let factorial = (1..=n as i32).fold(1.0, |f, k| f * f64::from(k));
                let wanted = if n % 2.0 == 0.0 { 1.0 } else { -1.0 } * factorial / x.powf(n + 1.0);
                let scale = brolga_polygamma(n, x).abs();
                assert!((step - wanted).abs() <= 1e-14 * scale, "order {n} at {x}: {step} {wanted}");
            }
        }
        assert_eq!(brolga_polygamma(2.0, 0.0), f64::NEG_INFINITY);
        assert_eq!(brolga_polygamma(2.0, -0.0), f64::INFINITY);
        assert_eq!(brolga_polygamma(3.0, -4.0), f64::INFINITY);
        assert!(brolga_polygamma(2.0, -4.0).is_nan() && brolga_polygamma(2.5, 1.0).is_nan());
        assert_eq!(brolga_polygamma(2.0, f64::INFINITY), 0.0);
        assert!([2.0, 3.0].iter().all(|&n| brolga_polygamma(n, f64::NAN).is_nan()));
    }

    #[test]
    fn poles_and_ends() {
        assert_eq!(brolga_digamma(f64::INFINITY), f64::INFINITY);
        assert_eq!(brolga_trigamma(f64::INFINITY), 0.0);
        for pole in [0.0, -0.0, -1.0, -2.0, -77.0, -1e300] {
            assert!(brolga_digamma(pole).is_nan());
            assert_eq!(brolga_trigamma(pole), f64::INFINITY);
        }
        for f in [brolga_digamma, brolga_trigamma] {
            assert!(f(f64::NAN).is_nan());
            assert!(f(f64::NEG_INFINITY).is_nan());
        }
    }

    #[test]
    fn recurrence_holds_across_the_seams() {
        for i in 1..4000 {
            let x = f64::from(i) / 256.0;
            let step = brolga_digamma(x + 1.0) - brolga_digamma(x);
            assert!((step * x - 1.0).abs() < 4e-15 * (1.0 + x * brolga_digamma(x).abs()), "at {x}");
            let step = brolga_trigamma(x) - brolga_trigamma(x + 1.0);
            assert!((step * x * x - 1.0).abs() < 4e-15 * (1.0 + x), "at {x}");
        }
    }

    #[test]
    fn single_precision_rounds_the_double() {
        assert_eq!(brolga_digammaf(2.5), brolga_digamma(2.5) as f32);
        assert_eq!(brolga_trigammaf(-2.5), brolga_trigamma(-2.5) as f32);
    }
}
