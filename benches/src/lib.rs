//! Benchmarks of Brolga: what a gradient costs, beside its primal and beside an adjoint written by hand.
//!
//! *Problem.* A number without another one beside it says little, and one measured on a shared machine says nothing by
//! itself. So every problem is measured as a ratio: primal, gradient and hand-written adjoint are functions of one file,
//! compiled by the same Cranelift with the same flags, called through the same kind of entry point, in turns within one
//! process.
//!
//! *Method.* First the value and every element of both gradients are compared with a closed form, or with dual numbers in
//! Rust ([`problems`]); a wrong gradient is an error, not a row. Then rounds of primal, gradient, hand-written adjoint
//! alternate, each a batch long enough for the clock, and the minimum of each counts ([`measure`]): whatever else runs on
//! the machine only ever adds time. A gradient is one forward pass and one pullback; it adds to the shadows, which nobody
//! clears between calls, and so does the adjoint written by hand.
//!
//! *Invariant.* Nothing that is timed allocates after the first round, except for the small vectors of values that the
//! facade returns. The problem `mul` shows what they and the guarded call cost.
//!
//! What is timed is generated code, so the profile under which this crate is built matters to two columns only: how long it
//! takes to differentiate and to compile.

mod dual;
pub mod measure;
pub mod prepared;
pub mod problem;
pub mod problems;
pub mod report;

pub use measure::{Effort, Row};
pub use prepared::{Failure, Prepared};
pub use problem::{Input, Problem};

/// Check and measure all problems, or those whose name contains `filter`.
///
/// # Errors
/// The first problem that cannot be differentiated, or whose gradient is wrong.
pub fn run(filter: Option<&str>) -> Result<Vec<Row>, Failure> {
    selected(filter).iter().map(|problem| measure::measure(problem, Effort::default())).collect()
}

/// All problems, or those whose name contains `filter`.
pub fn selected(filter: Option<&str>) -> Vec<Problem> {
    problems::all().into_iter().filter(|p| filter.is_none_or(|f| p.name.contains(f))).collect()
}

/// The program of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
