//! What only a caller would read who has said that it does not is neither computed nor written.

use brolga_ir::{ArgSpec, MemoryMode, Mode, Options, Request};
use brolga_testing::program;
use brolga_transform::derive::derive;

use crate::host;

/// `y = floor x + x²`, which only the caller reads, and `z = y + x`, which is returned if `reads`.
fn text(reads: bool) -> String {
    let read = if reads { "v6 = load.f64 v1\n v7 = fadd v6, v2" } else { "v7 = fadd v2, v2" };
    format!(
        "function %f(i64, i64) -> f64 system_v {{
        block0(v0: i64, v1: i64):
            v2 = load.f64 notrap v0
            v3 = fmul v2, v2
            v4 = floor v2
            v5 = fadd v4, v3
            store notrap v5, v1
            {read}
            return v7 }}"
    )
}

/// Whether the value that is written is there after all.
fn computes(text: &str, mode: Mode, memory: MemoryMode, args: [ArgSpec; 2]) -> bool {
    let program = program(text);
    let request = Request::new(program.func("f").unwrap(), args);
    let options = Options { mode, memory, ..Options::full() };
    let derived = derive(&program, &request, &options, &*host::isa()).unwrap();
    let forward = derived.combined.as_ref().map_or_else(|| &derived.pairs[0].forward, |w| &w.func);
    forward.to_string().contains("floor")
}

#[test]
fn what_has_no_use_is_not_computed() {
    let plain = ArgSpec::DUPLICATED;
    let both = [plain, plain.noalias().no_need()];
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let leave = MemoryMode::Leave;
        assert!(!computes(&text(false), mode, leave, both), "{mode:?}");
        // What only one of the claims is made of may be read by the caller, or by way of another
        // pointer.
        assert!(computes(&text(false), mode, leave, [plain, plain.noalias()]), "{mode:?}");
        assert!(computes(&text(false), mode, leave, [plain, plain.no_need()]), "{mode:?}");
        assert!(computes(&text(false), mode, leave, [plain.no_need(), plain.noalias()]), "{mode:?}");
        // What is there is to be what it was.
        assert!(computes(&text(false), mode, MemoryMode::Restore, both), "{mode:?}");
        // The function reads it, and something reads the value.
        assert_eq!(computes(&text(true), mode, leave, both), mode != Mode::Gradient, "{mode:?}");
    }
}
