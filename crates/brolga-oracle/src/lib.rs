//! Independent oracles for gradients.
//!
//! **Question.** Is a derivative that the transform has made right?
//!
//! **Answer.** A derivative is checked against something that was made in another way. This crate
//! has three such things, none of which shares a rule or a line with the derivative pass:
//!
//! - [`tape`]: reverse mode on a recorded graph. The primal CLIF is interpreted ([`interp`]) on
//!   real memory; every float operation leaves a node; the graph is walked back. See [`gradient`]
//!   and [`Oracle`]. Asked in another way ([`trace`]), the same graph says why a gradient is what
//!   it is.
//! - [`dual`]: forward mode on dual numbers, in the same interpreter, for the identity ⟨ȳ, Jẋ⟩ =
//!   ⟨Jᵀȳ, ẋ⟩, and over the tape for second derivatives.
//! - [`fd`]: finite differences, which know nothing but how to call the function.
//!
//! [`generate`] has random programs to ask about, `special` functions that slopes need.
//!
//! ```
//! use brolga_ir::{Program, program::symbol_of_func};
//! use brolga_oracle::{Oracle, OracleArg};
//! use cranelift_codegen::data_value::DataValue;
//!
//! // f(x) = x·x + x
//! let text = "function %f(f64) -> f64 system_v {
//!     block0(v0: f64):
//!         v1 = fmul v0, v0
//!         v2 = fadd v1, v0
//!         return v2
//! }";
//! let mut program = Program::new();
//! for f in cranelift_reader::parse_functions(text).unwrap() {
//!     let symbol = symbol_of_func(&f.name);
//!     program.define(&symbol, f, |_| 0).unwrap();
//! }
//! let float = |x: f64| DataValue::F64(x.into());
//! // SAFETY: the function touches no memory.
//! let outcome = unsafe {
//!     Oracle::new(&program).gradient(program.func("f").unwrap(), &[OracleArg::active(float(3.0))], &[float(1.0)])
//! };
//! let outcome = outcome.unwrap();
//! assert_eq!(outcome.values, [float(12.0)]);
//! assert_eq!(outcome.arg_cotangents, [Some(float(7.0))]);
//! ```
//!
//! **Cost.** An interpreted run takes far longer than compiled code, and its memory grows with the
//! length of the run; [`Limits`] end it. Finite differences run the function some dozens of times
//! for each input.
//!
//! # What this oracle cannot see
//!
//! - *Time and memory.* A wrong gradient is found, a slow or leaking one is not.
//! - *Errors that all share.* Tape and dual numbers use the same slopes (`interp/float.rs`,
//!   `interp/libm.rs`); only finite differences are independent of those. At kinks, where finite
//!   differences say nothing, the conventions in the headers of these files are definitions, not
//!   findings.
//! - *The last digits.* The tape sums cotangents in `f64` and in an order of its own, also for
//!   `f32` programs; a compiled pullback rounds differently.
//! - *Bits as numbers.* Arithmetic on the bits of an active float is not followed, except masks of
//!   signs and pieces that are put together again. If a derivative goes through such bits, there is
//!   an error instead of an answer.
//! - *Threads.* The interpreter is alone: atomic operations are plain ones. Races of tasks of a
//!   fork are found, others stay unseen.
//! - *Memory errors.* Addresses are used as they are. An access out of bounds is the host's, as in
//!   compiled code (only the neighbourhood of null traps); reading memory that was freed gives what
//!   the host has there.
//! - *Undefined contents.* Stack slots start as zeros here; compiled code finds other things there.
//! - *Activity promises.* A buffer that the caller calls constant but in which the program keeps
//!   active values is followed here, where a compiled derivative may refuse it.
//! - *Exceptions, stack switching, dynamic vectors, arithmetic on f16 and f128.* These give
//!   [`OracleError::Unsupported`].

mod dual;
mod error;
pub mod fd;
pub mod generate;
pub mod interp;
mod oracle;
mod real;
mod special;
pub mod tape;
pub mod trace;

pub use error::{InstSite, OracleError, Place, Race, StrayStore};
pub use interp::CustomFunction;
pub use oracle::{
    Activity, BufferRef, Candidate, Dependence, Elem, HessianOutcome, Identity, MARKS, Oracle, OracleArg,
    OracleOutcome, Reverse, Tangent, TangentOutcome, gradient,
};

/// How far an interpretation may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions.
    pub fuel: u64,
    /// Nested calls.
    pub depth: usize,
    /// Floats on the tape.
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { fuel: 200_000_000, depth: 100_000, nodes: 50_000_000 }
    }
}
