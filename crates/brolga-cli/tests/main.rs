//! The command line, and what documents show of it.

mod cli;
mod docs;
mod installed;
mod objects;
mod statuses;
