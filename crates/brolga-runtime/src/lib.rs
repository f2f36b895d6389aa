//! Runtime: what generated code calls and runs on. No compiler in it.
//!
//! **Question.** A derived function records, has shadows, and may trap. On what does it do so,
//! without a compiler being there?
//!
//! **Answer.** A derived function receives one explicit pointer, the [`Segment`]: a tape that never
//! moves, and beside it everything else that belongs to one forward run. It may call the helpers
//! listed by [`symbols`], and it is itself called through [`call_guarded`], which turns a hardware
//! trap in generated code into an error.
//!
//! | module | purpose |
//! |---|---|
//! | `segment/` | the tape segment, those that wait for a next run, those of tasks, typed tapes |
//! | `captures` | which function is derived by which pair, shared by forward and pullback |
//! | `shadows/` | shadows of heap blocks and of data objects; what a debug run is told of shadows |
//! | `states/` | memory of the program that is kept, compared and put back |
//! | `forks/` | tapes of tasks that may run at the same time, and sums that they add to |
//! | `pieces/` | cotangents of pieces of floats; in forward mode, which tangents are whole |
//! | `calls/` | what generated code calls: all of the above, blocks of memory, C's functions |
//! | `traps/` | hardware traps as errors |
//! | `mappings`, `stack`, `status` | memory of the system's, a thread's stack, helpers' answers |
//!
//! States are those of time loops, and of calls that an inverse undoes. Calls move and clear
//! memory, and stand for `malloc` and its family and for C's mathematical functions.
//!
//! Conventions shared with the code generator:
//!
//! - The shadow of an address is given as a *delta*: shadow address = primal address + delta, and
//!   delta 0 means that there is no shadow.
//! - A helper never unwinds and never allocates Rust memory on the path of a pullback, but for what
//!   moves in pieces and for states. What can go wrong comes back as a status
//!   ([`status`]), on which generated code traps.
//! - One segment belongs to one thread at a time. Everything shared between threads is immutable.
//!
//! **Cost.** That of each helper; nothing where generated code calls none.

pub mod calls;
mod captures;
pub mod forks;
pub mod mappings;
pub mod pieces;
pub mod segment;
mod shadows;
mod stack;
pub mod states;
mod status;
pub mod traps;

pub use brolga_schedules::Selection;
pub use calls::heap::Pair;
pub use calls::symbols::symbols;
pub use captures::{CaptureError, CaptureTable, Captures, DerivedPair};
pub use forks::WorkAndSpan;
pub use segment::pool::{Lease, Plan, Pool};
pub use segment::workspace::Workspace;
pub use segment::{ReserveError, Segment};
pub use shadows::declared::{DeclaredPointer, Floats, SharedInstance};
pub use shadows::globals::{DataSpan, GlobalShadows};
pub use stack::{ample, is_left};
pub use states::StateFault;
pub use states::inverses::{InverseFault, InverseStats};
pub use states::loop_files::StateFolder;
pub use states::loop_stats::{LoopPlan, LoopStats};
pub use states::loops::LoopFault;
pub use traps::{Cause, CodeRanges, Entry, RawTrap, Signal, call_guarded};
