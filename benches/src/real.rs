//! The reference: each problem once more in Rust, over numbers that remember where they come from.
//!
//! A [`Var`] is an `f64` and its place in a list of all operations so far. Arithmetic on it is
//! arithmetic on `f64`, so the values of a program over `Var`s are those of the same program over
//! `f64`, bit for bit; walking the list backwards gives its gradient. Nothing here knows of CLIF or
//! of Brolga.

use std::cell::RefCell;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// Up to two operands and the partial derivatives by them.
type SparseEntry = [(u32, f64); 2];

/// Where constants are: no place.
const NOWHERE: u32 = u32::MAX;

thread_local! {
    static OPERATIONS: RefCell<Vec<SparseEntry>> = const { RefCell::new(Vec::new()) };
}

/// A number that remembers.
#[derive(Clone, Copy, Debug)]
pub struct Var {
    /// The number.
    pub value: f64,
    place: u32,
}

/// Values of a function, and its Jacobian by rows.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// One per result.
    pub values: Vec<f64>,
    /// For each result the derivatives by all inputs.
    pub gradient: Vec<f64>,
}

/// Run a function and find its Jacobian.
pub fn reference(inputs: &[f64], f: impl FnOnce(&[Var]) -> Vec<Var>) -> Reference {
    OPERATIONS.with_borrow_mut(Vec::clear);
    let inputs: Vec<Var> = inputs.iter().map(|&x| Var::record(x, [(NOWHERE, 0.0); 2])).collect();
    let results = f(&inputs);
    let gradient = OPERATIONS.with_borrow(|operations| {
        let row = |result: &Var| {
            let mut cotangents = vec![0.0; operations.len()];
            if result.place != NOWHERE {
                cotangents[result.place as usize] = 1.0;
            }
            for (i, node) in operations.iter().enumerate().rev() {
                let cotangent: f64 = cotangents[i];
                for &(operand, slope) in node {
                    if operand != NOWHERE && cotangent != 0.0 {
                        cotangents[operand as usize] += slope * cotangent;
                    }
                }
            }
            cotangents.truncate(inputs.len());
            cotangents
        };
        results.iter().flat_map(row).collect()
    });
    OPERATIONS.with_borrow_mut(|operations| *operations = Vec::new());
    Reference { values: results.iter().map(|r| r.value).collect(), gradient }
}

impl Var {
    /// A constant.
    pub fn constant(value: f64) -> Self {
        Self { value, place: NOWHERE }
    }

    /// Whether it is less than another one.
    pub fn is_below(self, other: Self) -> bool {
        self.value < other.value
    }

    fn record(value: f64, node: SparseEntry) -> Self {
        let place = OPERATIONS.with_borrow_mut(|operations| {
            operations.push(node);
            u32::try_from(operations.len() - 1).expect("fewer operations than 2^32")
        });
        Self { value, place }
    }

    fn unary(self, value: f64, slope: f64) -> Self {
        Self::record(value, [(self.place, slope), (NOWHERE, 0.0)])
    }

    /// Sine.
    pub fn sin(self) -> Self {
        self.unary(self.value.sin(), self.value.cos())
    }

    /// Cosine.
    pub fn cos(self) -> Self {
        self.unary(self.value.cos(), -self.value.sin())
    }

    /// Exponential.
    pub fn exp(self) -> Self {
        let y = self.value.exp();
        self.unary(y, y)
    }

    /// Natural logarithm.
    pub fn ln(self) -> Self {
        self.unary(self.value.ln(), 1.0 / self.value)
    }

    /// Square root.
    pub fn sqrt(self) -> Self {
        let y = self.value.sqrt();
        self.unary(y, 0.5 / y)
    }

    /// Hyperbolic tangent.
    pub fn tanh(self) -> Self {
        let y = self.value.tanh();
        self.unary(y, 1.0 - y * y)
    }
}

impl From<f64> for Var {
    fn from(value: f64) -> Self {
        Self::constant(value)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:tt, |$a:ident, $b:ident| $slopes:expr) => {
        impl $trait for Var {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                let ($a, $b) = (self.value, other.value);
                let (by_a, by_b) = $slopes;
                Self::record($a $op $b, [(self.place, by_a), (other.place, by_b)])
            }
        }

        impl $trait<f64> for Var {
            type Output = Self;
            fn $method(self, other: f64) -> Self {
                self $op Self::constant(other)
            }
        }

        impl $trait<Var> for f64 {
            type Output = Var;
            fn $method(self, other: Var) -> Var {
                Var::constant(self) $op other
            }
        }
    };
}

operator!(Add, add, +, |a, b| (1.0, 1.0));
operator!(Sub, sub, -, |a, b| (1.0, -1.0));
operator!(Mul, mul, *, |a, b| (b, a));
operator!(Div, div, /, |a, b| (1.0 / b, -a / (b * b)));

impl Neg for Var {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(-self.value, -1.0)
    }
}

impl AddAssign for Var {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Var {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::{Var, reference};

    #[test]
    fn closed_forms() {
        let r = reference(&[0.5, 2.0], |x| {
            let (a, b) = (x[0], x[1]);
            vec![a * b - a / b, a.sin() * b.exp() + 3.0, b.sqrt() + a.tanh(), -b.ln() * a.cos(), Var::constant(7.0)]
        });
        let want = [
            [2.0 - 0.5, 0.5 + 0.5 / 4.0],
            [0.5f64.cos() * 2f64.exp(), 0.5f64.sin() * 2f64.exp()],
            [1.0 - 0.5f64.tanh().powi(2), 0.5 / 2f64.sqrt()],
            [2f64.ln() * 0.5f64.sin(), -0.5 * 0.5f64.cos()],
            [0.0, 0.0],
        ];
        assert!(r.gradient.iter().zip(want.as_flattened()).all(|(a, b)| (a - b).abs() < 1e-14), "{r:?}");
        assert_eq!(r.values[0].to_bits(), (0.5f64 * 2.0 - 0.5 / 2.0).to_bits());
    }
}
