//! What generated code asks where an integer of memory becomes a number: whether the caller has put
//! a float there.
//!
//! **Problem.** How the number depends on the float is lost then, and only the caller knows where
//! it has put floats. **Answer.** It says so by ranges of bytes; a load that finds itself in one is
//! told.
//!
//! **Cost.** A binary search for each such load.

use std::sync::Arc;

use crate::segment::Segment;
use crate::shadows::declared::{Floats, KnownFloats};

impl Segment {
    /// Tell the run where the caller has put floats: by offset from this pointer, none over
    /// another.
    pub fn know_floats(&mut self, base: u64, all: Arc<[Floats]>) {
        self.known_floats = KnownFloats::of(base, all);
    }
}

/// `n` bytes at `p` have been loaded as an integer that becomes a number: 1 if the caller has put a
/// float there.
///
/// # Safety
/// `seg` is a valid segment that no other thread changes.
pub(super) unsafe extern "C" fn brolga_expect_number(seg: *mut Segment, p: u64, n: u64) -> u64 {
    // SAFETY: our contract.
    u64::from(unsafe { &*seg }.known_floats.holds(p, n))
}
