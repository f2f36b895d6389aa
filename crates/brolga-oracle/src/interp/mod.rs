//! An interpreter of CLIF over host memory.
//!
//! # Problem
//!
//! To check a gradient we need the function's value and its graph from something that shares
//! neither code nor rules with the derivative under test. The interpreter executes the primal CLIF
//! itself, one instruction at a time, on real host memory, so that it runs what compiled code runs,
//! on the same buffers.
//!
//! # Structure
//!
//! ```text
//! value.rs        values as bits           int.rs float.rs libm.rs   operations on one lane, pure functions
//! provenance.rs   which float a byte is of domain.rs                 what is told of float operations
//! machine.rs      frames and calls         step.rs                   one instruction: the exhaustive table
//! arith.rs        operations by lanes      moves.rs                  operations that move or mask bits
//! memory.rs       loads, stores, atomics   externs.rs linkage.rs     C functions; addresses
//! rounding.rs     sums that round
//! footprint.rs    what steps of time loops write outside of their states
//! tasks.rs        which tasks are concurrent; work and span   races.rs       what concurrent tasks access
//! observe.rs      what happens to floats that no float operation takes
//! ```
//!
//! # Invariants
//!
//! - Calls do not nest on the host's stack; tail calls replace their frame. Fuel and depth are
//!   limited.
//! - With a domain that does not track ([`Plain`]), no provenance exists.
//! - The primal values do not depend on the domain.

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

pub use custom::{Custom, Externs};
pub use domain::{Domain, Event, NodeId, Plain};
pub use linkage::Linkage;
pub use machine::Machine;
pub use provenance::{Byte, FloatOrigin, Marks, OriginId, Prov};
pub use value::{TrackedVal, float_of, from_bits, lane, lanes, to_bits};

pub(crate) use provenance::write_float;
