//! Numbers in which slopes are computed: plain, dual, and with the inputs that they depend on.
//!
//! **Question.** A slope is a formula. How does one formula serve for first derivatives, for second
//! ones, and for sparsity?
//!
//! **Answer.** A local slope (∂ result / ∂ operand) is written once, generically over [`Real`]:
//!
//! | number | a tape of such slopes gives |
//! |---|---|
//! | `f64` | gradients |
//! | [`Dual`] | second derivatives along one direction (forward over reverse) |
//! | [`TrackedNumber`] | the sparsity of Jacobians and Hessians |
//!
//! A dual number carries its own derivative along the direction, the last one the set of inputs
//! that it depends on. Every elementary function is a default method in terms of [`Real::chain`]: a
//! value and a slope, both plain `f64`.
//!
//! **Invariant.** A component of a cotangent that is exactly zero contributes zero, whatever the
//! slope ([`Real::strong_mul`]).
//!
//! **Cost.** A few operations of doubles for each operation; of [`TrackedNumber`] a union of 128
//! bits beside it.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number that slopes can be computed in.
pub trait Real:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// A number that does not vary.
    fn constant(x: f64) -> Self;

    /// The number without its derivative.
    fn primal(self) -> f64;

    /// Its derivative along the direction, if it has one.
    fn tangent(self) -> f64 {
        0.0
    }

    /// `value`, varying `slope` times as fast as `self`.
    fn chain(self, value: f64, slope: f64) -> Self;

    /// `ct · slope`, where a component of the cotangent that is exactly zero contributes zero even
    /// if the slope is infinite or NaN.
    fn strong_mul(ct: Self, slope: Self) -> Self;

    /// Whether this is exactly zero and does not vary.
    fn is_zero(self) -> bool;

    /// A value that was computed elsewhere, with the derivative that the chain rule gives it from
    /// `prev`.
    fn from_chain(value: f64, prev: impl Iterator<Item = (Self, Self)>) -> Self;

    /// 1/x.
    fn recip(self) -> Self {
        Self::constant(1.0) / self
    }
    /// Square root.
    fn sqrt(self) -> Self {
        let y = self.primal().sqrt();
        self.chain(y, 0.5 / y)
    }
    /// e^x.
    fn exp(self) -> Self {
        let y = self.primal().exp();
        self.chain(y, y)
    }
    /// Natural logarithm.
    fn ln(self) -> Self {
        self.chain(self.primal().ln(), 1.0 / self.primal())
    }
    /// Sine.
    fn sin(self) -> Self {
        self.chain(self.primal().sin(), self.primal().cos())
    }
    /// Cosine.
    fn cos(self) -> Self {
        self.chain(self.primal().cos(), -self.primal().sin())
    }
    /// Tangent.
    fn tan(self) -> Self {
        let y = self.primal().tan();
        self.chain(y, 1.0 + y * y)
    }
    /// Hyperbolic sine.
    fn sinh(self) -> Self {
        self.chain(self.primal().sinh(), self.primal().cosh())
    }
    /// Hyperbolic cosine.
    fn cosh(self) -> Self {
        self.chain(self.primal().cosh(), self.primal().sinh())
    }
    /// Cube root.
    fn cbrt(self) -> Self {
        let y = self.primal().cbrt();
        self.chain(y, 1.0 / (3.0 * y * y))
    }
    /// x^p for a constant exponent.
    fn powc(self, p: f64) -> Self {
        let x = self.primal();
        self.chain(x.powf(p), if p == 0.0 { 0.0 } else { p * x.powf(p - 1.0) })
    }
}

impl Real for f64 {
    fn constant(x: f64) -> Self {
        x
    }
    fn primal(self) -> f64 {
        self
    }
    fn chain(self, value: f64, _: f64) -> Self {
        value
    }
    fn strong_mul(ct: Self, slope: Self) -> Self {
        if ct == 0.0 { 0.0 } else { ct * slope }
    }
    fn is_zero(self) -> bool {
        self == 0.0
    }
    fn from_chain(value: f64, _: impl Iterator<Item = (Self, Self)>) -> Self {
        value
    }
}

/// A dual number: a value and its derivative along one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dual {
    /// The value.
    pub re: f64,
    /// The derivative.
    pub eps: f64,
}

impl Real for Dual {
    fn constant(x: f64) -> Self {
        Dual { re: x, eps: 0.0 }
    }
    fn primal(self) -> f64 {
        self.re
    }
    fn tangent(self) -> f64 {
        self.eps
    }
    fn chain(self, value: f64, slope: f64) -> Self {
        Dual { re: value, eps: f64::strong_mul(self.eps, slope) }
    }
    fn strong_mul(ct: Self, slope: Self) -> Self {
        Dual {
            re: f64::strong_mul(ct.re, slope.re),
            eps: f64::strong_mul(ct.eps, slope.re) + f64::strong_mul(ct.re, slope.eps),
        }
    }
    fn is_zero(self) -> bool {
        self.re == 0.0 && self.eps == 0.0
    }
    fn from_chain(value: f64, prev: impl Iterator<Item = (Self, Self)>) -> Self {
        Dual { re: value, eps: prev.map(|(operand, slope)| f64::strong_mul(operand.eps, slope.re)).sum() }
    }
}

impl Add for Dual {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Dual { re: self.re + o.re, eps: self.eps + o.eps }
    }
}

impl Sub for Dual {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        Dual { re: self.re - o.re, eps: self.eps - o.eps }
    }
}

impl Mul for Dual {
    type Output = Self;
    fn mul(self, o: Self) -> Self {
        Dual { re: self.re * o.re, eps: f64::strong_mul(self.eps, o.re) + f64::strong_mul(o.eps, self.re) }
    }
}

impl Div for Dual {
    type Output = Self;
    fn div(self, o: Self) -> Self {
        let y = self.re / o.re;
        Dual { re: y, eps: f64::strong_mul(self.eps, 1.0 / o.re) - f64::strong_mul(o.eps, y / o.re) }
    }
}

impl Neg for Dual {
    type Output = Self;
    fn neg(self) -> Self {
        Dual { re: -self.re, eps: -self.eps }
    }
}

/// A number with the inputs that it depends on, one bit for each of some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrackedNumber {
    /// The value.
    pub re: f64,
    /// The inputs.
    pub of: u128,
}

impl TrackedNumber {
    fn either(self, other: Self, re: f64) -> Self {
        TrackedNumber { re, of: self.of | other.of }
    }
}

impl Real for TrackedNumber {
    fn constant(x: f64) -> Self {
        TrackedNumber { re: x, of: 0 }
    }
    fn primal(self) -> f64 {
        self.re
    }
    fn chain(self, value: f64, _: f64) -> Self {
        TrackedNumber { re: value, of: self.of }
    }
    fn strong_mul(ct: Self, slope: Self) -> Self {
        match ct.is_zero() || slope.is_zero() {
            true => Self::constant(0.0),
            false => ct.either(slope, f64::strong_mul(ct.re, slope.re)),
        }
    }
    fn is_zero(self) -> bool {
        self.re == 0.0 && self.of == 0
    }
    fn from_chain(value: f64, prev: impl Iterator<Item = (Self, Self)>) -> Self {
        let of = prev.filter(|(_, slope)| !slope.is_zero()).fold(0, |all, (operand, _)| all | operand.of);
        TrackedNumber { re: value, of }
    }
}

impl Add for TrackedNumber {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        self.either(o, self.re + o.re)
    }
}

impl Sub for TrackedNumber {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        self.either(o, self.re - o.re)
    }
}

impl Mul for TrackedNumber {
    type Output = Self;
    fn mul(self, o: Self) -> Self {
        match self.is_zero() || o.is_zero() {
            true => Self::constant(self.re * o.re),
            false => self.either(o, self.re * o.re),
        }
    }
}

impl Div for TrackedNumber {
    type Output = Self;
    fn div(self, o: Self) -> Self {
        self.either(o, self.re / o.re)
    }
}

impl Neg for TrackedNumber {
    type Output = Self;
    fn neg(self) -> Self {
        TrackedNumber { re: -self.re, of: self.of }
    }
}
