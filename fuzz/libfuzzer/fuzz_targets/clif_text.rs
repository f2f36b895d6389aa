//! Arbitrary bytes as a CLIF file: read or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ir_tests::inputs::clif_text(bytes));
