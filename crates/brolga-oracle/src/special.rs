//! Special functions that slopes need and the standard library lacks.
//!
//! **Question.** What is the slope of `lgamma`, and the slope of that?
//!
//! **Answer.** [`digamma`] is generic over [`Real`], so its own derivative comes from the same
//! lines. Derived text calls higher derivatives by name: [`polygamma`].
//!
//! **Cost.** A step of the recurrence for each whole number up to where the series begins, and
//! eight terms of the series.

use crate::real::Real;

/// ψ(x) = d/dx ln Γ(x).
///
/// Reflection `ψ(x) = ψ(1-x) - π/tan(πx)` brings x above 0, recurrence `ψ(x) = ψ(x+1) - 1/x` above
/// 10, and there the asymptotic series `ln x - 1/2x - Σ B₂ₖ/(2k x²ᵏ)` has an error below one unit
/// in the last place.
pub(crate) fn digamma<R: Real>(x: R) -> R {
    let c = R::constant;
    let p = x.primal();
    if p <= 0.0 && p == p.floor() {
        return c(f64::NAN);
    }
    if p < 0.0 {
        let pi = c(std::f64::consts::PI);
        // tan has period π: reduce exactly before multiplying.
        return digamma(c(1.0) - x) - pi / (pi * (x - c(p.floor()))).tan();
    }
    let mut x = x;
    let mut sum = c(0.0);
    while x.primal() < 10.0 {
        sum = sum - x.recip();
        x = x + c(1.0);
    }
    // B₂ₖ/2k for k = 1..=8.
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32760.0,
        1.0 / 12.0,
        -3617.0 / 8160.0,
    ];
    let r2 = (x * x).recip();
    let series = TERMS.iter().rev().fold(c(0.0), |s, t| (s + c(*t)) * r2);
    sum + x.ln() - (c(2.0) * x).recip() - series
}

/// The derivative of order `n` of [`digamma`].
///
/// Recurrence `ψₙ(x) = ψₙ(x+1) - (-1)ⁿ n!/xⁿ⁺¹` brings x above `n + 20`, where the series is
/// `(-1)ⁿ⁺¹ ((n-1)!/xⁿ + n!/2xⁿ⁺¹ + Σ B₂ₖ (2k+n-1)!/((2k)! x²ᵏ⁺ⁿ))`.
pub(crate) fn polygamma(n: i32, x: f64) -> f64 {
    const BERNOULLI: [f64; 8] =
        [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0, -3617.0 / 510.0];
    if n == 0 {
        return digamma(x);
    }
    // Poles, no order, and more steps than are of use.
    if n < 0 || x <= 0.0 && x == x.floor() || x.is_nan() || x < -1e6 {
        return f64::NAN;
    }
    let factorial = |m: i32| (1..=m).map(f64::from).product::<f64>();
    let (mut x, mut sum) = (x, 0.0);
    while x < f64::from(n + 20) {
        sum += factorial(n) * x.powi(-n - 1);
        x += 1.0;
    }
    let mut tail = factorial(n - 1) * x.powi(-n) + 0.5 * factorial(n) * x.powi(-n - 1);
    for (k, b) in (1..).zip(BERNOULLI) {
        let ratio: f64 = (1..n).map(|j| f64::from(2 * k + j)).product();
        tail += b * ratio * x.powi(-2 * k - n);
    }
    if n % 2 == 0 { -(sum + tail) } else { sum + tail }
}

#[cfg(test)]
mod tests {
    use super::{digamma, polygamma};
    use crate::real::Dual;

    #[test]
    fn known_values() {
        let gamma = 0.577_215_664_901_532_9;
        for (x, psi) in [
            (1.0, -gamma),
            (0.5, -gamma - 2.0 * std::f64::consts::LN_2),
            (2.0, 1.0 - gamma),
            (-0.5, 2.0 - gamma - 2.0 * std::f64::consts::LN_2),
            (100.0, 4.600_161_852_738_087),
        ] {
            assert!((digamma(x) - psi).abs() < 1e-14 * psi.abs().max(1.0), "{x}: {}", digamma(x));
        }
        assert!(digamma(-3.0).is_nan());
    }

    #[test]
    fn trigamma_by_dual_numbers() {
        let pi = std::f64::consts::PI;
        let psi1 = digamma(Dual { re: 1.0, eps: 1.0 }).eps;
        assert!((psi1 - pi * pi / 6.0).abs() < 1e-13, "{psi1}");
    }

    #[test]
    fn derivatives_of_any_order() {
        let (pi, zeta3) = (std::f64::consts::PI, 1.202_056_903_159_594_2);
        for (n, x, psi) in [
            (1, 1.0, pi * pi / 6.0),
            (1, -0.5, pi * pi / 2.0 + 4.0),
            (2, 1.0, -2.0 * zeta3),
            (2, 2.0, 2.0 - 2.0 * zeta3),
            (3, 1.0, pi.powi(4) / 15.0),
            (1, 50.0, 0.020_201_333_226_697_127),
            (3, -1.5, 194.594_276_219_187_63),
            (5, 0.25, 491_552.513_767_681_3),
        ] {
            let found = polygamma(n, x);
            assert!((found - psi).abs() < 1e-13 * psi.abs(), "{n} {x}: {found}, not {psi}");
        }
        assert!(polygamma(1, -2.0).is_nan());
    }
}
