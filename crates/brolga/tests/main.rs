//! What the facade promises: rules, their runs, what passes make of CLIF, and documents that say
//! what is so.

mod batches;
mod cache;
mod checkpoint_files;
mod debug;
mod docs;
mod drivers;
mod effort;
mod exclusive;
mod flat;
mod fork_adjoints;
mod fork_numbers;
mod fork_programs;
mod fork_runs;
mod fork_sums;
mod forks;
mod forward_root;
mod grows;
mod handlers;
mod hoist_tape_check;
mod inverse_pairs;
mod inverted;
mod jets;
mod known_names;
mod leapfrog;
mod long;
mod lorenz;
mod monotone_rows;
mod named;
mod predecessors;
mod prelude;
mod preserved;
mod primal;
mod runs;
mod sincos;
mod stack;
mod stages;
mod tangents;
mod threads;
mod tiered;
mod time_loops;
mod untracked;
mod versioning;

use brolga_testing::counting::CountingAllocator;

/// Tests count what their threads ask for.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
