//! Drivers: Jacobians and Hessians from products, dense or compressed.
//!
//! A derived rule gives products: of the Jacobian with a direction (forward mode), of a row of
//! seeds with the Jacobian (a pullback), of the Hessian with a direction. These functions ask for
//! those that make a matrix up. They know flat vectors of numbers only, so that they serve whatever
//! gives products: a closure, or what has [`Derivatives`], as a [`Point`] of a program and one of an
//! instance of a WebAssembly module.
//!
//! ```
//! use brolga::drivers::{Way, by_columns, by_rows};
//! // The Jacobian of (x, y) -> (x y, x + y, y) at (2, 3).
//! let matrix = [[3.0, 2.0], [1.0, 1.0], [0.0, 1.0]];
//! assert_eq!(Way::cheaper(2, 3), Way::Forward);
//! let jvp = |v: &[f64]| Ok::<_, ()>(matrix.map(|r| r[0] * v[0] + r[1] * v[1]).to_vec());
//! assert_eq!(by_columns(3, 2, jvp), Ok(matrix.map(Vec::from).to_vec()));
//! let vjp = |s: &[f64]| Ok::<_, ()>((0..2).map(|j| (0..3).map(|i| s[i] * matrix[i][j]).sum()).collect());
//! assert_eq!(by_rows(3, vjp), Ok(matrix.map(Vec::from).to_vec()));
//! ```

mod derivatives;
pub mod point;
pub mod sparse;

pub use derivatives::{Derivatives, Products, fits};
pub use point::{Input, Point};
pub use sparse::{Pattern, Star};

/// How a Jacobian is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One run of forward mode for each input.
    Forward,
    /// One forward pass, and one pullback for each output.
    Reverse,
}

impl Way {
    /// The one that needs less: forward mode where there are fewer inputs than outputs, else
    /// reverse mode. A pullback costs about as much as a run of forward mode.
    pub fn cheaper(inputs: usize, outputs: usize) -> Self {
        if inputs < outputs { Self::Forward } else { Self::Reverse }
    }
}

/// The units of `n` dimensions, one after the other, through `f`.
fn units<E>(n: usize, mut f: impl FnMut(&[f64]) -> Result<Vec<f64>, E>) -> Result<Vec<Vec<f64>>, E> {
    let mut unit = vec![0.0; n];
    let mut found = Vec::with_capacity(n);
    for i in 0..n {
        unit[i] = 1.0;
        found.push(f(&unit)?);
        unit[i] = 0.0;
    }
    Ok(found)
}

/// A matrix, row by row, from its products with directions.
///
/// # Errors
/// Those of `product`.
pub fn by_columns<E>(
    rows: usize,
    columns: usize,
    product: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<Vec<Vec<f64>>, E> {
    let found = units(columns, product)?;
    Ok((0..rows).map(|i| found.iter().map(|column| column[i]).collect()).collect())
}

/// A matrix, row by row, from products of rows of seeds with it.
///
/// # Errors
/// Those of `product`.
pub fn by_rows<E>(rows: usize, product: impl FnMut(&[f64]) -> Result<Vec<f64>, E>) -> Result<Vec<Vec<f64>>, E> {
    units(rows, product)
}
