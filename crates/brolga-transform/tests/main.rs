//! Each stage and pass on small functions.

mod chains;
mod common;
mod held;
mod hoist;
mod host;
mod joint;
mod kept;
mod pieces;
mod plain;
mod preaccumulate;
mod prune;
mod quick;
mod renumber;
mod rotate;
mod shared;
mod unit;
mod unneeded;
mod variants;
