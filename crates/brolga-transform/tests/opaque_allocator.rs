//! An allocator that is called as it is, and where it is not.

use brolga_ir::{Allocator, ArgActivity, Inline, MemoryMode, Mode, Options, Pass, PassSet, Program, Request};
use brolga_transform::derive::derive;
use brolga_transform::derived::Derivation;

use crate::host;

/// An allocator with a list, and what it asks for more memory.
const LISTS: &str = "
    function %malloc(i64 vmctx, i32) -> i32 fast { fn0 = %more(i64 vmctx) -> i32 fast
        block0(v0: i64, v1: i32):
            v2 = load.i32 v0+16
            brif v2, block1, block2
        block1:
            v3 = uextend.i64 v2
            v4 = iadd v0, v3
            v5 = load.i32 v4
            store v5, v0+16
            store v1, v4-4
            return v2
        block2:
            v6 = call fn0(v0)
            return v6 }
    function %more(i64 vmctx) -> i32 fast { block0(v0: i64):
        v1 = load.i32 v0+8
        return v1 }
    function %free(i64 vmctx, i32) fast { block0(v0: i64, v1: i32):
        v2 = load.i32 v0+16
        v3 = uextend.i64 v1
        v4 = iadd v0, v3
        store v2, v4
        store v1, v0+16
        return }";
/// A number through a block: its square.
const SQUARE: &str = "
    function %f(i64 vmctx, i32, f64) -> f64 fast { sig0 = (i64 vmctx, i32) -> i32 fast
            fn0 = %malloc sig0
            fn1 = %free(i64 vmctx, i32) fast
        block0(v0: i64, v1: i32, v2: f64):
            v10 = CALL
            v3 = uextend.i64 v10
            v4 = iadd v0, v3
            store v2, v4
            v5 = load.f64 v4
            v6 = fmul v5, v2
            call fn1(v0, v10)
            return v6 }";

fn derived(call: &str, options: &Options) -> Derivation {
    let mut program = Program::new();
    program.vmctx_pointers_only = true;
    for f in cranelift_reader::parse_functions(&format!("{LISTS}{}", SQUARE.replace("v10 = CALL", call))).unwrap() {
        let name = f.name.to_string();
        program.define(name.trim_start_matches('%'), f, |_| 0).unwrap();
    }
    for (name, kind) in [("malloc", Allocator::Allocate { zeroed: false }), ("free", Allocator::Release { pointer: 1 })]
    {
        let key = program.func(name).unwrap();
        program.func_mut(key).allocator = Some(kind);
    }
    let activity = [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Active];
    let request = Request::new(program.func("f").unwrap(), activity);
    derive(&program, &request, options, &*host::isa()).unwrap()
}

/// Functions that were derived, however often.
fn names(d: &Derivation) -> Vec<&str> {
    let keys = d.pairs.iter().map(|p| p.variant.func).chain(d.combined.iter().chain(&d.joint).map(|w| w.variant.func));
    let mut names: Vec<&str> = keys.map(|k| &d.program.funcs[k].symbol[..]).collect();
    names.sort_unstable();
    names.dedup();
    names
}

const DIRECT: &str = "v10 = call fn0(v0, v1)";

#[test]
fn lists_are_not_derived() {
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        for inline in [Inline::Never, Inline::SMALL] {
            let d = derived(DIRECT, &Options { mode, inline, ..Options::as_calls() });
            assert_eq!(names(&d), ["f"], "{mode:?}, {inline:?}");
            // They are there as they are, to be called, and nothing is put in their place.
            assert_eq!(d.primals.len(), 4);
            assert_eq!(d.normalised.len(), 1);
            let f = &d.normalised[0];
            let insts = f.layout.blocks().flat_map(|b| f.layout.block_insts(b));
            assert_eq!(insts.filter(|&i| f.dfg.insts[i].opcode().is_call()).count(), 2);
        }
    }
}

#[test]
fn options_that_turn_it_off() {
    let all = ["f", "free", "malloc", "more"];
    let disabled = PassSet::from(Pass::OpaqueAllocator);
    assert_eq!(names(&derived(DIRECT, &Options { disabled, ..Options::as_calls() })), all);
    let memory = MemoryMode::Restore;
    assert_eq!(names(&derived(DIRECT, &Options { memory, ..Options::as_calls() })), all);
}

#[test]
fn a_call_through_a_pointer_finds_a_pair() {
    let through = "v11 = func_addr.i64 fn0\n v10 = call_indirect sig0, v11(v0, v1)";
    let d = derived(through, &Options::as_calls());
    assert_eq!(names(&d), ["f", "malloc", "more"]);
    assert_eq!(d.captures.iter().map(|c| &c.symbol[..]).collect::<Vec<_>>(), ["malloc"]);
    // Where it is called by its name, too.
    let both = format!("v20 = call fn0(v0, v1)\n call fn1(v0, v20)\n {through}");
    assert_eq!(names(&derived(&both, &Options::as_calls())), ["f", "malloc", "more"]);
}
