//! Passes over derived CLIF: loop layout, vectorisation, dead code. They know of a derivative only
//! the role of each block and the mark of each access.

pub(crate) mod dead_segment_arg;
pub mod entry_thunk;
pub mod hoist_tape_check;
pub mod licm_gvn;
pub mod loop_layout;
pub mod loop_rotate;
pub mod orient_branches;
pub mod passes;
pub mod preaccumulate;
pub mod shape;
pub mod simplify_cfg;
pub mod slp;
pub mod slp_divisions;
pub(crate) mod tail_recursion;
pub mod vectorise;
pub mod verified;
