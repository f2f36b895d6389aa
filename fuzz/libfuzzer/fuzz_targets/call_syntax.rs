//! Arbitrary text as calls and directives: read, or an error that points into the text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| ir_tests::inputs::call_syntax(text));
