//! The chores of the project.

mod cli;
