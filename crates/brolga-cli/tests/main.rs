//! The command line, and what documents show of it.

mod cli;
mod directions;
mod docs;
mod folder;
mod forks;
mod installed;
mod inverses;
mod loops;
mod objects;
mod reversible;
mod statuses;
