//! Each pass on plain CLIF: what a function computes is the same before and after.

mod inverse;
mod inverse_registers;
mod licm_gvn;
mod loop_rotate;
mod plain;
mod undone;
mod vectorise;
