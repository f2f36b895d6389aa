//! Digamma and trigamma in double precision, for evaluating expressions.
//!
//! Both use the recurrence to move the argument above 10, where the asymptotic series in 1/x² gives
//! full precision, and the reflection formula for negative arguments. Generated code calls the run
//! time's functions of the same name, which are written independently, so that one can be tested
//! against the other.

use std::f64::consts::PI;

/// ψ, the derivative of log |Γ|. NaN at the poles 0, -1, -2, …, where the one-sided limits
/// disagree.
pub fn digamma(x: f64) -> f64 {
    if x <= 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        // ψ(1 - x) - ψ(x) = π cot πx
        return digamma(1.0 - x) - PI / tan_pi(x);
    }
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    // Bernoulli numbers: B_2k / 2k.
    let series = r
        * (1.0 / 12.0
            - r * (1.0 / 120.0
                - r * (1.0 / 252.0
                    - r * (1.0 / 240.0
                        - r * (1.0 / 132.0 - r * (691.0 / 32760.0 - r * (1.0 / 12.0 - r * 3617.0 / 8160.0)))))));
    shift + x.ln() - 0.5 / x - series
}

/// ψ′, the derivative of [`digamma`]. Infinite at the poles.
pub fn trigamma(x: f64) -> f64 {
    if x <= 0.0 {
        if x == x.floor() {
            return f64::INFINITY;
        }
        // ψ′(1 - x) + ψ′(x) = (π / sin πx)²
        let s = (PI * (x - x.round())).sin();
        return (PI / s).powi(2) - trigamma(1.0 - x);
    }
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += 1.0 / (x * x);
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    // Bernoulli numbers: B_2k.
    let series = r
        * (1.0 / 6.0
            - r * (1.0 / 30.0
                - r * (1.0 / 42.0 - r * (1.0 / 30.0 - r * (5.0 / 66.0 - r * (691.0 / 2730.0 - r * (7.0 / 6.0)))))));
    shift + 1.0 / x + r / 2.0 + series / x
}

/// tan πx, reduced before it is scaled.
fn tan_pi(x: f64) -> f64 {
    (PI * (x - x.round())).tan()
}
