//! The pipeline of Brolga: from CLIF to a forward pass and a pullback.
//!
//! **Question.** A program and a request come in as CLIF, and derivatives go out as CLIF. Which
//! part does what on the way?
//!
//! **Answer.** By modules:
//!
//! ```text
//! program    which functions are derived, as which variants; inlining; units of compilation
//! primal     legalisation of a primal function, and idioms in a form that has a derivative
//! facts      every analysis, run in order
//! shadow     how shadows are stored to
//! translate  each statement becomes a forward fragment and a reverse fragment, by its rule; in forward
//!            mode, the statements of its tangents
//! plan       what is recorded, recomputed, inverted or reloaded; II-loops
//! guards     strong zeros, and versions of the pullback without them
//! assemble   the forward graph, the pullback, both in one function, or the graph of forward mode
//! batch      a graph of several derivatives at once
//! dce        what a derived graph computes without a use is removed
//! emit       graphs are lowered to CLIF
//! clif       passes over the CLIF that `brolga_ir::lower` has written
//! template   pairs of drivers, which are not made of their bodies
//! find_inverse functions that undo others, derived
//! user_rules functions that are differentiated as a user says
//! verified   the verifier between the stages
//! called     derivatives that a program calls by name
//! stand_in   bodies for imported functions that have an adjoint of the user's
//! val_map    a map by the names of derived code
//! pipeline   all of it, for one variant (`derive`: the entry points; `derived`: what comes out)
//! nested     a derivative as a function of a program, to be derived again
//! embed      a derivative as functions of another module
//! standalone what both need, as they run without the run time
//! ```
//!
//! Derived CLIF is written by `brolga_ir::lower`, but for templates; this crate makes the graphs
//! that it lowers, and `clif` changes what was lowered.
//!
//! **Cost.** Each file says what its part costs a derivation, or a run. A variant goes through the
//! stages once, but for the retries of [`pipeline::all_variants`] and `assemble`.

mod assemble;
mod batch;
pub mod called;
pub mod clif;
pub mod dce;
pub mod derive;
pub mod derived;
pub mod embed;
mod emit;
pub mod facts;
mod find_inverse;
mod guards;
pub mod nested;
pub mod pass;
mod pipeline;
pub mod plan;
pub mod primal;
pub mod program;
mod shadow;
pub(crate) mod stand_in;
pub mod standalone;
mod template;
mod translate;
mod user_rules;
mod val_map;
pub(crate) mod verified;

pub use derive::{derive, derive_unverified, derive_with};
pub use derived::{AddressableFunction, Derivation, DerivedCombined, DerivedPair, DerivedVariant, LoopOutcome};
pub use embed::{EmbeddedFunctions, embed};
pub use find_inverse::find_inverse;
pub use nested::NestedDerivative;
pub use pipeline::Stages;
pub use program::abi::Abi;
pub use translate::tangent::POISON;
pub use user_rules::{caller_of_ruled, set_rules};
