//! Interpreter of CLIF over host memory.
//!
//! **Problem.** To check a gradient, the function's value and its graph are needed from something
//! that shares neither code nor rules with the derivative under test.
//!
//! **Answer.** The interpreter executes the primal CLIF itself, one instruction at a time, on real
//! host memory, so that it runs what compiled code runs, on the same buffers.
//!
//! | file | what it has |
//! |---|---|
//! | `value.rs` | values as bits |
//! | `int.rs`, `float.rs`, `libm.rs` | operations on one lane, pure functions |
//! | `provenance.rs` | which float a byte is of |
//! | `domain.rs` | what is told of float operations |
//! | `machine.rs` | frames and calls |
//! | `step.rs` | one instruction: the exhaustive table |
//! | `arith.rs` | operations by lanes |
//! | `moves.rs`, `halves.rs` | operations that move or mask bits; halves of doubles |
//! | `memory.rs` | loads, stores, atomics |
//! | `externs.rs`, `custom.rs`, `linkage.rs` | C functions, the caller's; addresses |
//! | `rounding.rs`, `guarded.rs` | sums that round; products that are masked |
//! | `footprint.rs` | what steps of time loops write outside of their states |
//! | `tasks.rs`, `races.rs` | which tasks are concurrent, work and span; what they access |
//! | `observe.rs` | what happens to floats that no float operation takes |
//!
//! **Invariant.**
//! - Calls do not nest on the host's stack; tail calls replace their frame. Fuel and depth are
//!   limited.
//! - With a domain that does not track ([`PlainDomain`]), no provenance exists.
//! - The primal values do not depend on the domain.
//!
//! **Cost.** A dispatch and a few look-ups for each instruction; what the domain keeps.

mod arith;
mod custom;
mod domain;
mod externs;
mod float;
mod footprint;
mod guarded;
mod halves;
mod int;
mod libm;
mod linkage;
mod machine;
mod memory;
mod moves;
mod observe;
mod provenance;
mod races;
mod rounding;
mod step;
mod tasks;
mod value;
mod zero_tests;

pub use custom::{CustomFunction, Externs};
pub use domain::{Domain, Event, NodeId, PlainDomain};
pub use linkage::Linkage;
pub use machine::Machine;
pub use provenance::{Byte, FloatOrigin, Marks, OriginId, Prov};
pub use value::{TrackedVal, float_of, from_bits, lane, lanes, to_bits};

pub(crate) use provenance::write_float;
