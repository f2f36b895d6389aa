//! Kinds: what an integer or a place in memory is: a number, a pointer, the bits of a float.
//!
//! - [`pointers`]: which integers are pointers, and where their shadows come from.
//! - [`contents`]: what memory behind a pointer holds.
//! - [`number_uses`]: which integers are numbers by what is done with them.
//! - [`wasm_addresses`]: which integer parameters are places in an instance's memory.
//! - [`punned_evidence`]: what one function does to places that hold pointers and floats in time.
//! - [`loaded_bits`]: where an integer that was loaded goes.
//! - `wide_pointers`: addresses that go through wider values, and through floats.

pub mod contents;
pub mod loaded_bits;
pub mod number_uses;
pub mod pointers;
pub mod punned_evidence;
pub mod wasm_addresses;
mod wide_pointers;
