//! What the facade promises: rules, their runs, what passes make of CLIF, and documents that say
//! what is so.

mod ascending;
mod batches;
mod cache;
mod debug;
mod docs;
mod drivers;
mod effort;
mod flat;
mod grows;
mod handlers;
mod inverse_pairs;
mod inverted;
mod jets;
mod known_names;
mod leapfrog;
mod long;
mod named;
mod prelude;
mod primal;
mod room;
mod runs;
mod served;
mod sincos;
mod stack;
mod stages;
mod tables;
mod tangents;
mod threads;
mod tiered;
mod time_loops;
mod untracked;
mod watched;

use brolga_testing::counting::Counting;

/// Tests count what their threads ask for.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
