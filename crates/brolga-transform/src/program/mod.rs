//! The call graph: which functions are derived for a request, as which variants, and how they are
//! named.
//!
//! Inlining before the derivation, the queue of variants, and what is handed to the compiler.

pub(crate) mod abi;
pub mod check_request;
pub(crate) mod forward_root;
pub mod inline;
pub(crate) mod outline;
pub(crate) mod reachable;
pub(crate) mod stack_states;
pub mod units;
pub(crate) mod variants;
