//! Shadow accesses: which store in place of adding, which do nothing, and which arrays are one
//! scalar.
//!
//! Analyses of accesses in canonical loops. They say which shadow operations have a cheaper form;
//! assembly uses it.

mod access;
pub mod contract_array;
pub mod local_memory;
pub mod monotone_rows;
pub mod store_for_add;
pub(crate) mod strides;
