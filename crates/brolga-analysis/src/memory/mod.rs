//! Memory: places, alias, escape and mod/ref analysis, and what a load reads.

pub mod alias;
pub mod clobber;
pub mod constant;
pub mod escape;
pub mod mod_ref;
pub mod points_to;
pub mod preserved;
pub mod punned_cells;
pub mod reaching_store;
pub mod reload_after_undo;
