//! The command line, and what the README shows of it.

mod cli;
mod readme;
