//! Each pass on plain CLIF: what a function computes is the same before and after.

mod hoist;
mod lanes;
mod plain;
mod rotate;
mod slp;
