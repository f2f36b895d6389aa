//! Passes over derived CLIF: those of `brolga-clif`, which know nothing of a derivative, and those
//! that know the tape and the segment.
//!
//! - [`passes`]: runs them in order.
//! - [`hoist_tape_check`]: a counted loop asks once whether there is room on the tape.
//! - [`preaccumulate`]: local derivatives are multiplied out before the cotangent is there.
//! - [`tail_recursion`]: a call of itself at the end becomes a jump.
//! - [`dead_segment_arg`]: segments that no code asks for.
//! - [`entry_thunk`]: the function that Rust calls.
//! - [`count`]: counters of a debug run.

use brolga_clif::marks::{TAPE_FULL, TAPE_REGION};
use brolga_ir::inst::Check;

pub(crate) mod count;
pub(crate) mod dead_segment_arg;
pub mod entry_thunk;
pub mod hoist_tape_check;
pub mod passes;
pub mod preaccumulate;
pub(crate) mod tail_recursion;

// The marks that lowering leaves are those that the passes read.
const _: () = assert!(TAPE_REGION == brolga_ir::lower::TAPE_REGION);
const _: () = assert!(TAPE_FULL.as_raw().get() == Check::TapeFull as u8);
