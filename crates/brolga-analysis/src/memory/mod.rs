//! Memory: places, alias, escape and mod/ref analysis, and what a load reads.
//!
//! - [`alias`]: which bytes an access may touch.
//! - [`capture`]: whether the address of memory that a function makes may lie in memory.
//! - [`escape`]: memory that no other code can address.
//! - [`points_to`]: which blocks of the program's allocator an address may be in.
//! - [`mod_ref`]: what a function may write and read.
//! - [`reaching_store`]: the last store before a load.
//! - [`clobber`]: loads of memory that nothing writes afterwards.
//! - [`constant`]: loads of what the caller has said to be constant.
//! - [`preserved`], [`reload_after_undo`]: what a callee's pullback, or one that undoes writes, may
//!   read again.
//! - [`punned_cells`]: places that hold pointers and floats at different times.

pub mod alias;
pub mod capture;
pub mod clobber;
pub mod constant;
pub mod escape;
pub mod mod_ref;
pub mod points_to;
pub mod preserved;
pub mod punned_cells;
pub mod reaching_store;
pub mod reload_after_undo;
