//! Modules as users of the crate load, call and differentiate them.

mod allocators;
mod clear_shadow;
mod clib;
mod common;
mod constant;
mod cuts;
mod demand;
mod frames;
mod gradients;
mod imports;
mod inverses;
mod joint;
mod last_page;
mod lives;
mod loops;
mod numbers;
mod packed;
mod pieces;
mod points;
mod random;
mod sizes;
mod tasks;
mod unions;
mod unnamed;
mod words;
