//! Bytes as the decisions of the program generator: whatever comes out has the right gradient.
#![no_main]

use brolga_fuzz::judge::{Care, Verdict, judge};
use brolga_oracle::generate::{Feature, Size, Source, program};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source::bytes(bytes);
    let features = Feature::some(&mut source);
    let text = program(&mut source, &features, Size::default());
    if let Verdict::Wrong(wrong) = judge(&text, Care::Usual) {
        panic!("{}: {}\n{text}", wrong.class, wrong.detail);
    }
});
