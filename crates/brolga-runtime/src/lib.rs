//! What generated code calls and runs on. No compiler in it.
//!
//! A derived function receives one explicit pointer, the [`Segment`]: a tape that never moves, and
//! beside it everything else that belongs to one forward run. It may call the helpers listed by
//! [`symbols`], and it is itself called through [`call_guarded`], which turns a hardware trap in
//! generated code into an error.
//!
//! | file | purpose |
//! |---|---|
//! | `segment`, `pool` | the tape segment, and segments waiting for their next run |
//! | `globals` | shadows of writable data objects |
//! | `captures` | which function is derived by which pair, shared by forward and pullback |
//! | `blocks`, `heap` | shadows of heap blocks, and `malloc` and its family |
//! | `loops`, `loop_calls` | states of time loops, and which steps run next; what generated code calls for that |
//! | `forks`, `pending`, `strands`, `fork_calls` | tapes of tasks that may run at the same time, and sums that they add to; what generated code calls for that |
//! | `inverses`, `inverse_calls` | states of calls that an inverse undoes; what generated code calls for that |
//! | `state` | memory of the program that is kept, compared and put back |
//! | `memory` | moving and clearing shadows, saving and restoring primal bytes, `memcpy` and its family |
//! | `pieces`, `piece_calls` | cotangents of fragments of floats, and what generated code calls for them |
//! | `fragments`, `tangents` | which tangents of fragments are whole, in forward mode |
//! | `math`, `gamma` | C's mathematical functions by name, and the two that C lacks |
//! | `through` | those that read or write through pointers, so that a bad one is a trap |
//! | `declared`, `debug` | what a debug run checks of shadow accesses |
//! | `guard` | hardware traps as errors |
//!
//! Conventions shared with the code generator:
//!
//! - The shadow of an address is given as a *delta*: shadow address = primal address + delta, and
//!   delta 0 means that there is no shadow.
//! - A helper never unwinds and never allocates Rust memory on the path of a pullback, but for what
//!   moves in pieces and for states. What can go wrong comes back as a status
//!   ([`status`]), on which generated code traps.
//! - One segment belongs to one thread at a time. Everything shared between threads is immutable.

mod blocks;
mod captures;
pub mod debug;
mod declared;
pub mod fork_calls;
pub mod forks;
mod fragments;
pub mod gamma;
mod globals;
pub mod guard;
mod heap;
pub mod inverse_calls;
pub mod inverses;
mod loop_calls;
mod loop_files;
mod loop_state;
mod loop_stats;
mod loop_tape;
pub mod loops;
pub mod mappings;
mod math;
pub mod memory;
mod number_calls;
mod pending;
mod piece_calls;
pub mod pieces;
mod poison;
mod pool;
mod segment;
mod stack;
mod state;
mod status;
pub mod steps;
mod strands;
pub mod tangents;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod through;
pub mod workspace;

pub use brolga_schedules::Selection;
pub use captures::{CaptureError, CaptureTable, Captures, DerivedPair};
pub use declared::{Declared, Floats, SharedInstance};
pub use globals::{DataSpan, GlobalShadows};
pub use guard::{Cause, CodeRanges, Entry, RawTrap, Signal, call_guarded};
pub use heap::Pair;
pub use inverses::{InverseFault, InverseStats};
pub use loop_files::StateFolder;
pub use loop_stats::{LoopPlan, LoopStats};
pub use loops::LoopFault;
pub use math::symbols;
pub use pool::{Lease, Plan, Pool};
pub use segment::{ReserveError, Segment};
pub use stack::ample;
pub use state::StateFault;
pub use workspace::Workspace;
