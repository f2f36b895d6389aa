//! Benchmarks of Brolga: what a gradient costs, beside its primal and beside an adjoint written by
//! hand.
//!
//! *Problem.* A number without another one beside it says little, and one measured on a shared
//! machine says nothing by itself. So every problem is measured as a ratio: primal, gradient and
//! hand-written adjoint are functions of one file, compiled by the same Cranelift with the same
//! flags, called through the same kind of entry point, in turns within one process.
//!
//! *Method.* First the value is compared with the same program in Rust, bit for bit, and every
//! element of both gradients with its derivatives ([`problems`], [`real`]); a wrong gradient is an
//! error, not a row. Then rounds of primal, gradient and hand-written adjoint alternate, each a
//! batch long enough for the clock, and the minimum of each counts ([`measure`]): whatever else
//! runs on the machine only ever adds time. A gradient is all that it takes to have one: shadows
//! are zeroed, then comes what was derived. The adjoint written by hand zeroes what it needs
//! zeroed, and only that.
//!
//! *Invariant.* Nothing that is timed allocates in Rust. All calls go through the same narrow door
//! ([`entry`]); what the guarded one of `DerivedRule` costs on top is a column of its own.
//!
//! Beside these there are programs in C, as WebAssembly ([`wasm`]) and as native code, with
//! adjoints in C ([`by_hand`]), and calls of any file ([`calls`]). The constants by which passes
//! decide are measured, too ([`costs`]).
//!
//! What is timed is generated code, so the profile under which this crate is built matters only to
//! how long it takes to differentiate and to compile.

pub mod by_hand;
pub mod calls;
pub mod costs;
pub mod data;
pub mod disasm;
pub mod entry;
pub mod forks;
pub mod latency;
pub mod loops;
pub mod measure;
pub mod native;
pub mod page;
pub mod passes;
pub mod peers;
pub mod plain;
pub mod prepared;
pub mod problem;
pub mod problems;
pub mod real;
pub mod report;
pub mod reversible;
pub mod scaling;
pub mod second;
pub mod tangents;
pub mod wasm;
mod wasm_arg;

use brolga::Options;
pub use brolga::{Inline, Mode, Pass, PassSet};
pub use calls::CallRow;
pub use measure::{Effort, MeasuredRow};
pub use prepared::{Failure, PreparedProblem};
pub use problem::{Input, Problem, Size};

/// What is derived, and how much is done to make it fast.
#[derive(Clone, Copy, Debug, Default)]
pub struct Configuration {
    /// One function or two.
    pub mode: Mode,
    /// Passes that are left out.
    pub disabled: PassSet,
    /// Whether derived code is to be fast, or to be there soon. If it is tiered, what is measured
    /// is the second tier, but for how long the first takes to get ready.
    pub effort: brolga::Effort,
    /// Which calls are replaced.
    pub inline: Inline,
    /// Most threads that compile; zero stands for as many as there are processors.
    pub threads: usize,
}

impl Configuration {
    /// The options that all problems are derived with.
    pub fn options(self) -> Options {
        let Self { mode, disabled, effort, inline, threads } = self;
        Options { mode, disabled, effort, inline, threads, verify_stages: false, ..Options::default() }
    }
}

impl From<Mode> for Configuration {
    fn from(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }
}

/// All problems in CLIF, or those whose name contains `filter`.
///
/// # Errors
/// [`Failure::Unknown`].
pub fn selected(filter: Option<&str>) -> Result<Vec<problems::ProblemConstructor>, Failure> {
    let all = problems::ALL.iter();
    let some: Vec<_> = all.filter(|p| filter.is_none_or(|f| p.0.contains(f))).map(|p| p.1).collect();
    match filter {
        Some(filter) if some.is_empty() => Err(unknown(filter, problems::ALL.iter().map(|p| p.0.to_owned()))),
        _ => Ok(some),
    }
}

fn unknown(filter: &str, names: impl Iterator<Item = String>) -> Failure {
    Failure::Unknown { filter: filter.to_owned(), names: names.collect() }
}

/// Problems in CLIF and programs in WebAssembly whose names contain `filter`, or all.
///
/// # Errors
/// [`Failure::Unknown`].
pub fn selection(filter: Option<&str>) -> Result<(Vec<problems::ProblemConstructor>, Vec<wasm::WasmProblem>), Failure> {
    let programs = wasm::problems();
    let names = problems::ALL.iter().map(|p| p.0.to_owned()).chain(programs.iter().map(|p| p.name()));
    let Some(filter) = filter else { return Ok((selected(None)?, programs)) };
    let names: Vec<String> = names.collect();
    if !names.iter().any(|n| n.contains(filter)) {
        return Err(unknown(filter, names.into_iter()));
    }
    let clif = selected(Some(filter)).unwrap_or_default();
    Ok((clif, programs.into_iter().filter(|p| p.name().contains(filter)).collect()))
}

/// The program of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
