//! Special functions that slopes need and the standard library lacks.
//!
//! **Question.** What is the slope of `lgamma`, and the slope of that?
//!
//! **Answer.** [`digamma`] is generic over [`Real`], so its own derivative comes from the same
//! lines.
//!
//! **Cost.** At most ten steps of the recurrence and eight terms of the series.

use crate::real::Real;

/// ψ(x) = d/dx ln Γ(x).
///
/// Reflection `ψ(x) = ψ(1-x) - π/tan(πx)` brings x above 0, recurrence `ψ(x) = ψ(x+1) - 1/x` above
/// 10, and there the asymptotic series `ln x - 1/2x - Σ B₂ₖ/(2k x²ᵏ)` has an error below one unit
/// in the last place.
pub fn digamma<R: Real>(x: R) -> R {
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

#[cfg(test)]
mod tests {
    use super::digamma;
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
}
