//! Lattices: sets of facts that several questions are answered with.
//!
//! - [`kinds`]: what memory or an integer may hold.
//! - [`number_uses`]: whether an integer is a number by its uses.
//! - [`points_to_set`]: what an address may be made from.

pub mod kinds;
pub mod number_uses;
pub mod points_to_set;
