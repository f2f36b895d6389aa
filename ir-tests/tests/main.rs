//! The harness, its oracles and properties of all cases. Cases themselves are tests of `files.rs`.

mod ascending;
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
mod looked;
mod prune;
mod random;
mod rerun_loops;
mod reversible;
mod reversible_paper;
mod reversible_random;
mod second;
mod steady;
mod whole;
mod wrong_rules;

use brolga_testing::counting::Counting;

/// Tests count what their threads ask for.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
mod verified;
