//! Kinds: what an integer or a place in memory is: a number, a pointer, the bits of a float.

pub mod bit_arith;
pub mod bit_idioms;
pub mod bytes;
pub mod contents;
pub mod kind;
pub mod pointers;
pub mod punned_cells;
pub mod punned_evidence;
pub mod wasm_addresses;
