//! Lattices: sets of facts that several questions are answered with.
//!
//! - [`kinds`]: what memory or an integer may hold.
//! - [`points_to_set`]: what an address may be made from.

pub mod kinds;
pub mod points_to_set;
