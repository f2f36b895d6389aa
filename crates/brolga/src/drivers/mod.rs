//! Drivers: Jacobians and Hessians from products, dense or compressed.
//!
//! **Question.** A derived rule gives products: of the Jacobian with a direction (forward mode), of
//! a row of seeds with the Jacobian (a pullback), of the Hessian with a direction. How are matrices
//! made of them?
//!
//! **Answer.** These functions ask for those that make a matrix up. They know flat vectors of
//! numbers only, so that they serve whatever gives products: a closure, or what has
//! [`Derivatives`], as a [`Point`] of a program, a [`FlatFunction`] at a point, and a point of an
//! instance of a WebAssembly module.
//!
//! ```
//! use brolga::drivers::{Sweep, by_columns, by_rows, one_by_one};
//! // The Jacobian of (x, y) -> (x y, x + y, y) at (2, 3).
//! let matrix = [[3.0, 2.0], [1.0, 1.0], [0.0, 1.0]];
//! assert_eq!(Sweep::cheaper(2, 3), Sweep::Forward);
//! let jvp = |v: &[f64]| Ok::<_, ()>(matrix.map(|r| r[0] * v[0] + r[1] * v[1]).to_vec());
//! assert_eq!(by_columns(3, 2, one_by_one(jvp)), Ok(matrix.map(Vec::from).to_vec()));
//! let vjp = |s: &[f64]| Ok::<_, ()>((0..2).map(|j| (0..3).map(|i| s[i] * matrix[i][j]).sum()).collect());
//! assert_eq!(by_rows(3, one_by_one(vjp)), Ok(matrix.map(Vec::from).to_vec()));
//! ```
//!
//! - [`dense`]: matrices from products with all units.
//! - [`sparse`]: compressed, where it is known which entries are zero.
//! - [`derivatives`]: what is asked of a function at a point.
//! - [`point`]: a function at a point, with memory that is managed.
//! - [`flat`]: a function of flat vectors, at any point.
//!
//! **Cost.** A product for each row, column or colour, some of them in one run.

mod dense;
mod derivatives;
pub mod flat;
pub mod point;
pub mod sparse;

pub use dense::{Sweep, by_columns, by_rows, one_by_one};
pub use derivatives::{Derivatives, MOST_ORDER, Products, RowProducts};
pub use flat::{FlatFunction, FlatParam, FlatPoint};
pub use point::{Argument, Point};
pub use sparse::{Pattern, Star};

/// What drivers of other crates of Brolga are made of. It may change in any version.
#[doc(hidden)]
pub mod support {
    pub use super::dense::{Lane, WIDTH, interleave, of_direction, some_at_a_time, width_for};
    pub use super::derivatives::{fits, taylor_options};
}
