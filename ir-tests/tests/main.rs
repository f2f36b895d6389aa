//! The harness, its oracles and properties of all cases. Cases themselves are tests of `files.rs`.

mod budgets;
mod checkpoints;
mod compositions;
mod drivers;
mod embedded;
mod embedded_pieces;
mod embedded_twice;
mod forks;
mod fresh;
mod harness;
mod hessians;
mod inline;
mod inputs;
mod joint_calls;
mod monotone_rows;
mod observer;
mod prune;
mod random;
mod rerun_loops;
mod reversible;
mod reversible_paper;
mod reversible_random;
mod second;
mod steady;
mod verified;
mod wrong_rules;

use brolga_testing::counting::CountingAllocator;

/// Tests count what their threads ask for.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
