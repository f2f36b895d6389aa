//! The call graph: which functions are derived for a request, as which variants, and how they are
//! named.
//!
//! Inlining before the derivation, the worklist of variants, and what is handed to the compiler.

pub(crate) mod abi;
pub(crate) mod all_variants;
pub mod check_request;
pub(crate) mod forward_root;
pub mod inline;
pub mod inline_rollback;
pub(crate) mod outline;
pub(crate) mod reachable;
mod stack_states;
pub mod units;
pub(crate) mod variants;
