//! The tape in the steady state, and signals that are not ours.

mod foreign;
mod forks;
mod steady_state;

use brolga_testing::counting::CountingAllocator;

/// Tests count what their threads ask for.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
