//! The call graph: which functions are derived for a request, as which variants, and how they are
//! named.
//!
//! - [`check_request`]: whether a request fits its function.
//! - [`reachable`]: which functions a derivation is of.
//! - [`mod@inline`]: inlining before the derivation.
//! - [`outline`]: loops become functions, which are reversed within a budget of memory.
//! - [`stack_states`]: states that are gone when a pullback runs.
//! - [`variants`]: the queue of variants, and their names.
//! - [`forward_root`]: a root that one of its own callees serves.
//! - [`abi`]: parameters and results of a derived pair.
//! - [`codegen_units`]: what is handed to the compiler.

pub(crate) mod abi;
pub mod check_request;
pub mod codegen_units;
pub(crate) mod forward_root;
pub mod inline;
pub(crate) mod outline;
pub(crate) mod reachable;
pub(crate) mod stack_states;
pub(crate) mod variants;
