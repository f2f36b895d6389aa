//! The problems: CLIF in `problems/*.clif` or made here, inputs, and the primal once more in Rust.
//!
//! | file | problems |
//! |---|---|
//! | `vectors` | loops over arrays |
//! | `matrices` | nests of loops over matrices, and networks of layers |
//! | `irregular` | indices from memory, branches on data, recursion, a state machine |
//! | `physics` | loops that carry a state |
//! | `standard` | the objectives of the usual benchmark set |
//! | `straight` | code without loops |

pub(crate) mod irregular;
mod matrices;
mod physics;
pub(crate) mod standard;
mod straight;
mod vectors;

use crate::problem::{Problem, Size};

/// A problem of some size.
pub type ProblemConstructor = fn(Size) -> Problem;

/// All problems by name, in the order of the table.
pub const ALL: &[(&str, ProblemConstructor)] = &[
    ("mul", straight::mul),
    ("rot", straight::rot),
    ("block", straight::block),
    ("straight_line", straight::straight_line),
    ("sum", vectors::sum),
    ("dot", vectors::dot),
    ("dot_f64x2", vectors::dot_f64x2),
    ("dot_f32", vectors::dot_f32),
    ("sum_squares", vectors::sum_squares),
    ("sumsin", vectors::sumsin),
    ("sce", vectors::sce),
    ("smv100", matrices::smv100),
    ("smv1000", matrices::smv1000),
    ("matvec", matrices::matvec),
    ("kron", matrices::kron),
    ("tanh_layer", matrices::tanh_layer),
    ("nn", matrices::nn),
    ("mlp", matrices::mlp),
    ("spdot", irregular::spdot),
    ("spmv", irregular::spmv),
    ("embed", irregular::embed),
    ("machine", irregular::machine),
    ("recursive_sum", irregular::recursive_sum),
    ("fib", irregular::fib),
    ("logistic", physics::logistic),
    ("part", physics::part),
    ("lorenz", physics::lorenz),
    ("planets", physics::planets),
    ("gmm", standard::gmm),
    ("lstm", standard::lstm),
    ("ba", standard::ba),
];

/// A problem that grows.
pub struct Series {
    /// What it is called in tables.
    pub name: &'static str,
    /// The problem of some length.
    pub make: ProblemConstructor,
    /// Lengths.
    pub lengths: &'static [usize],
    /// Whether it is the code that grows, and not what it runs on.
    pub code: bool,
}

const DATA: &[usize] = &[10, 100, 1_000, 10_000, 100_000, 1_000_000];
const SIDES: &[usize] = &[3, 10, 30, 100, 300, 1_000];
const CODE: &[usize] = &[10, 100, 1_000, 10_000, 100_000];

/// Problems that grow: a loop, a nest of loops, code without branches, and code of little else.
pub const SERIES: &[Series] = &[
    Series { name: "loop (dot)", make: vectors::dot, lengths: DATA, code: false },
    Series { name: "nest (smv)", make: matrices::smv1000, lengths: SIDES, code: false },
    Series { name: "straight line", make: straight::straight_line, lengths: CODE, code: true },
    Series { name: "branches", make: straight::branches, lengths: CODE, code: true },
];
