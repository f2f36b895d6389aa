//! The command line, and what documents show of it.

mod cli;
mod docs;
mod installed;
mod forks;
mod inverses;
mod loops;
mod objects;
mod statuses;
