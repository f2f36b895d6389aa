//! Questions about the primal, answered as plain facts.
//!
//! **Question.** Which values are active, which integers are pointers, which memory is read or
//! written, and what do callees do? Translation, planning and passes ask.
//!
//! **Answer.** Each analysis is a file with a pure function from a normalised function (and what is
//! known about its callees and arguments) to a table. None of them emits an instruction.
//!
//! Fixed points share no solver. Most are two lines, a worklist and what follows from what is taken
//! from it; what is queued (values, blocks, edges, pairs) and what a step adds would both be
//! parameters of a solver, and nothing else is left.
//!
//! From the lowest to the highest; each imports only those before it:
//!
//! - [`query`]: what one instruction says by itself: callees, addresses, cells.
//! - [`lattice`]: sets that several questions are answered with.
//! - [`mod@cfg`]: predecessors, successors, which blocks run at most once per call; [`cfg::loops`]:
//!   dominators and natural loops.
//! - [`bits`]: what an integer instruction does to the bits of a float.
//! - [`uses`], [`body`]: def-use chains; a function with its edges and uses.
//! - [`variant`]: what a derived function receives and returns for each parameter and result.
//! - [`memory`]: alias, points-to, escape and mod/ref analysis; which store a load reads, and which
//!   loads can be done again.
//! - [`summary`]: what is known of a function without its body.
//! - [`kinds`]: what an integer or a place in memory is: a number, a pointer, the bits of a float.
//! - [`activity`]: which values carry a cotangent, of which shape; what is refused.
//! - [`guards`]: which cotangents are 1, and which may be infinite.
//! - [`calls`]: summaries bottom-up, and how a call is reversed.
//!
//! **Cost.** None at run time. What each analysis costs a derivation is said in its file.

pub mod activity;
pub mod bits;
pub mod body;
pub mod calls;
pub mod cfg;
pub mod guards;
pub mod kinds;
pub mod lattice;
pub mod memory;
pub mod query;
pub mod summary;
pub mod uses;
pub mod variant;

pub use activity::{Activity, CopyRole, MemRole};
pub use cfg::Cfg;
pub use cfg::loops::{Loop, LoopId, Loops};
pub use kinds::contents::Contents;
pub use kinds::pointers::{Delta, Pointers, RootKind};
pub use memory::escape::PrivateMemory;
pub use memory::points_to::Blocks;
pub use query::callee::{CalleeKind, KnownRule, computed_operands};
pub use summary::Summaries;
pub use variant::{ParamMode, PreservedMemory, ResultMode, Variant};
