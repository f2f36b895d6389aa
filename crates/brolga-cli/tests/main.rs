//! The command line, and what documents show of it.

mod cli;
mod docs;
mod installed;
mod inverses;
mod objects;
mod statuses;
