//! Sound calls with arbitrary activities, seeds and shadows: an error or a gradient.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ir_tests::inputs::activities(bytes));
