//! Digamma, trigamma and polygamma in double precision, for evaluating expressions.
//!
//! **Question.** What are the values of the derivatives of `lgamma`, to check rows that call them?
//!
//! **Answer.** All use the recurrence to move the argument up, where a series gives full precision:
//! above 10 for [`digamma`] and [`trigamma`], with the asymptotic series in 1/x²; well above the
//! order for [`polygamma`], with the Euler-Maclaurin formula. Negative arguments go by the
//! reflection formula, or by sums over both sides. Generated code calls the run time's functions of
//! the same name, which are written independently, so that one can be tested against the other.
//!
//! **Cost.** Some ten terms of the recurrence and eight of the series; for an order of n some n
//! terms more. None at run time.

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
/// ψ of order n, the n-th derivative of [`digamma`]; NaN for orders that are no whole numbers.
///
/// `(-1)^(n+1) n! Σ 1/(x + k)^(n+1)`: the terms up to an argument well above the order, then the
/// Euler-Maclaurin formula for the rest.
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if !(n > 0.0 && n == n.floor() && n <= 170.0) || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    let s = n as i32 + 1;
    let sign = if s % 2 == 0 { 1.0 } else { -1.0 };
    let factorial: f64 = (1..s).map(f64::from).product();
    let sum = if x > 0.0 {
        hurwitz(s, x)
    } else {
        let r = x - x.round();
        if r == 0.0 && x != 0.0 && s % 2 == 1 {
            return f64::NAN;
        }
        // All terms to both sides, without those on the far side.
        let all = r.powi(-s) + hurwitz(s, 1.0 + r) + sign * hurwitz(s, 1.0 - r);
        all - sign * hurwitz(s, 1.0 - x)
    };
    sign * factorial * sum
}

/// Σ 1/(x + k)^s for a positive `x` and `s > 1`.
fn hurwitz(s: i32, x: f64) -> f64 {
    let (mut y, mut sum) = (x, 0.0);
    while y < 12.0 + f64::from(s) {
        sum += y.powi(-s);
        y += 1.0;
    }
    let order = f64::from(s);
    let mut rest = y.powi(1 - s) / (order - 1.0) + 0.5 * y.powi(-s);
    // B_2k/(2k)! · s (s+1) … (s+2k-2) / y^(s+2k-1)
    let bernoulli = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0];
    let mut term = order * y.powi(-s - 1) / 2.0;
    for (k, b) in bernoulli.iter().enumerate() {
        rest += b * term;
        let k = 2.0 * k as f64 + 2.0;
        term *= (order + k - 1.0) * (order + k) / ((k + 1.0) * (k + 2.0) * y * y);
    }
    sum + rest
}
