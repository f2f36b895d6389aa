//! Kinds: what an integer or a place in memory is: a number, a pointer, the bits of a float.

pub mod contents;
pub mod pointers;
pub mod punned_evidence;
pub mod wasm_addresses;
