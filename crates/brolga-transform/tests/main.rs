//! Each stage and pass on small functions.

mod chains;
mod common;
mod held;
mod host;
mod joint;
mod kept;
mod marks;
mod pieces;
mod plain;
mod preaccumulate;
mod prune;
mod quick;
mod renumber;
mod shared;
mod unit;
mod unneeded;
mod variants;
