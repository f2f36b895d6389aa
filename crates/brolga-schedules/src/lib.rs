//! Schedules of checkpoints: how long loops are reversed in little memory.
//!
//! **Question.** Reverse mode needs the states of a loop in reverse order. Which are kept, and
//! which are computed again?
//!
//! **Answer.** A *schedule* says which states are kept in *slots*, which steps run again from them,
//! and which are taped, as a sequence of [`Action`]s. It knows nothing of the loop but its number
//! of steps, or not even that. A [`Method`] is a way to place states, with its parameters;
//! [`choose`] finds one for a budget in bytes, and says what it costs.
//!
//! Methods, a module each: [`store_all`], [`recompute_all`], [`blocked`], [`periodic`],
//! [`revolve`], [`treeverse`], [`online`], [`two_levels`], [`bennett`].
//!
//! What methods share: `action` and `units`, in which schedules speak; `stats` of what has been
//! done; `slot_file` and `slot_error`, of states in files.
//!
//! ```
//! use brolga_schedules::{Method, Reversal, Schedule};
//!
//! let revolve = Method::Revolve { block: 1, slots: 3 };
//! let mut schedule = Schedule::new(revolve, Some(10), Reversal::Split)?;
//! let first: Vec<String> = schedule.by_ref().take(6).map(|a| a.to_string()).collect();
//! assert_eq!(first, ["store 0 in m0", "advance 0..4", "store 4 in m1", "advance 4..7", "store 7 in m2", "advance 7..9"]);
//! assert_eq!(schedule.next().unwrap().to_string(), "tape 9..10");
//! assert_eq!(schedule.next().unwrap().to_string(), "turn");
//! assert_eq!(revolve.forecast(10, Reversal::Split)?.forward, 15);
//! # Ok::<(), brolga_schedules::MethodError>(())
//! ```
//!
//! **Cost.** Steps run again, a copy for each state that is kept or put back, and the memory of
//! states and tape: each method says how many ([`Method::forecast`]).

#![forbid(unsafe_code)]

mod action;
pub mod bennett;
pub mod blocked;
mod budget;
mod forecast;
mod method;
pub mod online;
pub mod periodic;
pub mod recompute_all;
pub mod revolve;
mod run;
mod schedule;
mod slot_error;
mod slot_file;
mod slots;
mod stats;
pub mod store_all;
pub mod treeverse;
pub mod two_levels;
mod units;

pub use action::{Action, Reversal, SlotId, StepId};
pub use budget::{Budget, BudgetError, FileBudget, LoopSize, Selection, choose};
pub use forecast::Forecast;
pub use method::{Method, MethodError};
pub use run::{RunError, TimeLoop, forward, reverse};
pub use schedule::{Misuse, Schedule};
pub use slot_error::SlotError;
pub use slots::Slots;
pub use stats::Stats;

/// Examples of the design page, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/design/checkpoints.md")]
struct Page;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Example;
