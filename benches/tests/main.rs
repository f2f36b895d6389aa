//! Problems, references and adjoints by hand.

mod by_hand;
mod cli;
mod problems;
mod readme;
