//! The command `brolga`: derivatives of functions in CLIF files and WebAssembly modules.
//!
//! **Question.** A user has a file of functions. How are they differentiated, checked and compiled
//! from a shell?
//!
//! **Answer.** [`cli`] has the commands, [`args`] the arguments that several of them have. Each
//! command is a module with its own arguments and a function `run`, which returns a
//! [`failure::Failure`] if something is wrong; [`report`] shows it. Calls are read by [`jobs`];
//! what a command computes comes from `brolga-driver`, which knows no command line.
//!
//! Commands: [`grad`], [`forward`], [`second`], [`check`], [`explain`], [`dump`], [`mod@bench`],
//! [`compile`], [`invert`], [`completions`] and [`man`]. `choice` finds the function of a command
//! that names one without a call.
//!
//! It is a library because the project's own chores (`cargo xtask`) have the same commands, and its
//! benchmarks read calls in the same way.
//!
//! **Cost.** That of what a command asks for; calls of one function share a rule ([`rules`]).

pub mod args;
pub mod bench;
pub mod check;
mod choice;
pub mod cli;
pub mod compile;
pub mod completions;
pub mod dump;
pub mod explain;
pub mod failure;
pub mod forward;
pub mod grad;
pub mod invert;
pub mod jobs;
pub mod man;
pub mod report;
pub mod rules;
pub mod run;
pub mod second;
