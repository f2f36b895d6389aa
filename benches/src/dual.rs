//! Dual numbers: a value and its derivatives along `N` directions. The reference for problems without a closed form.

use std::ops::{Add, Div, Mul, Sub};

/// A value and its derivatives.
#[derive(Clone, Copy, Debug)]
pub struct Dual<const N: usize> {
    /// The value.
    pub value: f64,
    /// Its derivatives.
    pub slope: [f64; N],
}

impl<const N: usize> Dual<N> {
    /// A constant.
    pub fn constant(value: f64) -> Self {
        Self { value, slope: [0.0; N] }
    }

    /// All inputs, the i-th with slope one in the i-th direction.
    pub fn inputs(values: [f64; N]) -> [Self; N] {
        std::array::from_fn(|i| Self { value: values[i], slope: std::array::from_fn(|j| f64::from(u8::from(i == j))) })
    }

    fn zip(self, other: Self, value: f64, a: f64, b: f64) -> Self {
        Self { value, slope: std::array::from_fn(|i| a * self.slope[i] + b * other.slope[i]) }
    }
}

impl<const N: usize> Add for Dual<N> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.zip(other, self.value + other.value, 1.0, 1.0)
    }
}

impl<const N: usize> Sub for Dual<N> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.zip(other, self.value - other.value, 1.0, -1.0)
    }
}

impl<const N: usize> Mul for Dual<N> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        self.zip(other, self.value * other.value, other.value, self.value)
    }
}

impl<const N: usize> Div for Dual<N> {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let quotient = self.value / other.value;
        self.zip(other, quotient, 1.0 / other.value, -quotient / other.value)
    }
}

impl<const N: usize> Mul<Dual<N>> for f64 {
    type Output = Dual<N>;
    fn mul(self, other: Dual<N>) -> Dual<N> {
        Dual::constant(self) * other
    }
}
