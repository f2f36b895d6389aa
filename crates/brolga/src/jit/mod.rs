//! Derived rules: compiled forward pass and pullback.
//!
//! **Question.** A derivation is CLIF. How does it become something that threads can call, at the
//! same time and again and again?
//!
//! **Answer.** A [`DerivedRule`] is a pair of closures over one captures tuple. The captures are
//! immutable; everything that a run writes lives in a tape segment, taken from a pool for each
//! forward run and kept by its [`Pullback`]. So a rule is re-entrant, threads may share one, and a
//! second call allocates nothing. A [`Primal`] is a program without derivatives.
//!
//! By default a rule is made with little effort, and another one, which is faster, takes its place
//! when its calls have paid for it ([`tiers`]).
//!
//! **Cost.** A derivation and a compilation for each rule, and memory for its code. A call copies
//! arguments and results.

mod abi_values;
mod arg;
mod batch;
mod calls;
mod codegen;
mod compile;
mod declared;
mod isa;
mod memory;
mod primal;
mod rule;
mod runs;
mod sincos;
mod tangent;
mod tasks;
mod tiers;
mod traps;

pub use arg::Arg;
pub use brolga_runtime::Floats;
pub use isa::host_isa;
// For measurements alone.
#[doc(hidden)]
pub use compile::{is_better_plain, one_call_of_two};
#[doc(hidden)]
pub use isa::plain_isa;
pub use primal::Primal;
pub use rule::DerivedRule;
pub use runs::{LoopReport, Pullback, Run};
