//! Lattices: sets of facts that several questions are answered with.

pub mod kinds;
pub mod points_to_set;
