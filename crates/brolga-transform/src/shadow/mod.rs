//! Shadow accesses: which store in place of adding, which do nothing, and which arrays are one
//! scalar.
//!
//! Analyses of accesses in canonical loops. They say which shadow operations have a cheaper form;
//! assembly uses it.
//!
//! - [`access`]: accesses and their places.
//! - [`strides`]: whether accesses of different iterations are apart.
//! - [`store_for_add`]: the first addition to the shadow of an argument is a store.
//! - [`monotone_rows`]: the same for rows of a sparse matrix, if a run finds that they ascend.
//! - [`local_memory`]: shadows of memory that does not escape.
//! - [`contract_array`]: the shadow of an array that is only added up is a scalar.

mod access;
pub(crate) mod contract_array;
pub(crate) mod local_memory;
pub(crate) mod monotone_rows;
pub(crate) mod store_for_add;
pub(crate) mod strides;
