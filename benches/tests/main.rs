//! Problems, references and adjoints by hand.

mod by_hand;
mod problems;
mod readme;
