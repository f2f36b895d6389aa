//! CLIF files, calls and directives: what the command line and the file tests share.
//!
//! **Question.** A file has functions, and a text calls one. What does its derivative give, and is
//! that right?
//!
//! **Answer.** A `.clif` file is read and verified into a program ([`load`]); a call such as
//! `%f(1.5, [1.0, 2.0])` is parsed ([`text`]) and read against the function's signature ([`bind`]);
//! it runs in memory of its own ([`memory`], [`run`]); what comes out is compared with an
//! expectation ([`compare`]), shown ([`output`]) or explained ([`explain`]). Oracles say whether it
//! is right ([`check`]), and other runs whether a rule keeps its promises ([`protocol`]).
//!
//! This crate differentiates nothing and knows no rule. It calls the facade, [`brolga`], as any
//! user would.
//!
//! | module | what it has besides |
//! |---|---|
//! | `source`, `wasm`, `reversible` | files: parts of CLIF, modules, reversible functions |
//! | `guess`, `place`, `value` | activities that are guessed, buffers in an instance, numbers and lists |
//! | `tangent`, `batch`, `jacobian`, `second`, `sparsity` | other derivatives of a call |
//! | `inputs`, `noise` | inputs as numbers that oracles move, and random ones |
//! | `timing` | the clock |
//!
//! **Cost.** That of a file is one reading of its text. A call has fresh memory, and shares nothing
//! with the one before but its rule.

pub mod batch;
pub mod bind;
pub mod check;
pub mod compare;
pub mod explain;
pub mod guess;
pub mod inputs;
pub mod jacobian;
mod load;
pub mod memory;
pub mod noise;
pub mod output;
mod place;
pub mod protocol;
pub mod reversible;
pub mod run;
pub mod second;
mod source;
pub mod sparsity;
pub mod tangent;
pub mod text;
pub mod timing;
pub mod value;
pub mod wasm;

pub use bind::{BoundArg, Invocation};
pub use load::File;
pub use memory::Memory;
pub use run::Outcome;
pub use text::{Call, Clauses, Directive, SyntaxError};
pub use value::{Item, Num};
pub use wasm::Wasm;
