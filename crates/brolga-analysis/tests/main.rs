//! Each analysis on small functions.

mod blocks;
mod cfg;
mod common;
mod kept;
mod pieces;
mod plain;
mod reload;
mod results;
mod rewind;
mod unneeded;
