//! Questions about the primal, answered as plain facts.
//!
//! Each analysis is a file with a pure function from a normalised function (and what is known about
//! its callees and arguments) to a table. None of them emits an instruction.
//!
//! Fixed points share no solver. Most are two lines, a worklist and what follows from what is taken
//! from it; what is queued (values, blocks, edges, pairs) and what a step adds would both be
//! parameters of a solver, and nothing else is left.
//!
//! - [`mod@cfg`]: predecessors, successors, which blocks run at most once per call; [`cfg::loops`]:
//!   dominators and natural loops.
//! - [`kinds`]: what an integer or a place in memory is: a number, a pointer, the bits of a float.
//! - [`memory`]: places, alias, points-to, escape and mod/ref analysis; which store a load reads,
//!   and which loads can be done again.
//! - [`calls`]: callees, summaries, and how a call is reversed.
//! - [`activity`]: which values carry a cotangent, of which shape; what is refused.
//! - [`query`]: what one instruction says by itself.
//! - [`guards`]: which cotangents are 1, and which may be infinite.
//! - [`variant`]: what a derived function receives and returns for each parameter and result.

pub mod activity;
pub mod calls;
pub mod cfg;
pub mod guards;
pub mod kinds;
pub mod memory;
pub mod query;
pub mod uses;
pub mod variant;

pub use activity::{Activity, CopyRole, MemRole};
pub use calls::callee::CalleeKind;
pub use calls::summary::Summaries;
pub use cfg::Cfg;
pub use cfg::loops::{Loop, LoopId, Loops};
pub use kinds::contents::Contents;
pub use kinds::pointers::{Delta, Pointers, RootKind};
pub use memory::escape::Private;
pub use memory::points_to::Blocks;
pub use variant::{ParamMode, Preserved, ResultMode, Variant};
