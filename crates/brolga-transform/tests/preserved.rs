//! Pairs that read memory again: what they record, and for how many ways of being called they are
//! derived.

use brolga_ir::{ArgActivity, ArgSpec, MemoryMode, Mode, Options, Pass, PassSet, Request};
use brolga_testing::program;
use brolga_transform::derive::derive;
use brolga_transform::derived::Derivation;
use cranelift_codegen::ir::{self, Opcode};

use crate::host;

/// `%g` adds up products of what its three arguments lead to, in a loop: what runs once has a frame
/// for what is read. `%f` is given.
fn derived(f: &str, options: &Options) -> Derivation {
    let text = format!(
        "function %g(i64, i64, i64) -> f64 {{
        block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = f64const 0.0
            jump block1(v3, v4)
        block1(v5: i64, v6: f64):
            v20 = iconst.i64 3
            v21 = ishl v5, v20
            v8 = iadd v0, v21
            v9 = iadd v1, v21
            v10 = iadd v2, v21
            v11 = load.f64 v8
            v12 = load.f64 v9
            v13 = load.f64 v10
            v14 = fmul v11, v12
            v15 = fmul v14, v13
            v7 = fadd v6, v15
            v18 = iconst.i64 1
            v16 = iadd v5, v18
            v19 = iconst.i64 4
            v17 = icmp ult v16, v19
            brif v17, block1(v16, v7), block2
        block2:
            return v7 }}
        function %f(i64, i64) -> f64 {{
            fn0 = %g(i64, i64, i64) -> f64
        block0(v0: i64, v1: i64):
        {f} }}"
    );
    let program = program(&text);
    let request = Request::new(program.func("f").unwrap(), [ArgActivity::Duplicated; 2]);
    derive(&program, &request, options, &*host::isa()).unwrap()
}

fn all(mode: Mode) -> Options {
    Options { mode, ..Options::as_calls() }
}

/// Floats that each forward pass of `%g` stores, which writes nothing itself.
fn recorded(d: &Derivation) -> Vec<usize> {
    let floats = |f: &ir::Function| {
        let insts = f.layout.blocks().flat_map(|b| f.layout.block_insts(b));
        let is_float = |i: &ir::Inst| {
            f.dfg.insts[*i].opcode() == Opcode::Store && f.dfg.value_type(f.dfg.inst_args(*i)[0]).is_float()
        };
        insts.filter(is_float).count()
    };
    let of_g = d.pairs.iter().filter(|p| p.forward_symbol.starts_with("g__forward"));
    of_g.map(|p| floats(&p.forward)).collect()
}

const SQUARED: &str = "v2 = call fn0(v0, v1, v1)
    v3 = fmul v2, v2
    return v3";

#[test]
fn what_is_kept_is_not_recorded() {
    for mode in [Mode::Combined, Mode::Gradient] {
        assert_eq!(recorded(&derived(SQUARED, &all(mode))), [0]);
    }
    let d = derived(SQUARED, &Options { memory: MemoryMode::Restore, ..all(Mode::Combined) });
    assert_eq!(recorded(&d), [0]);
}

#[test]
fn who_may_be_called_later_records() {
    assert!(recorded(&derived(SQUARED, &all(Mode::Split)))[0] > 0);
    let disabled = PassSet::from(Pass::PreservedMemory);
    assert!(recorded(&derived(SQUARED, &Options { disabled, ..all(Mode::Combined) }))[0] > 0);
    let written = SQUARED.replace("return", "store v2, v0\n return");
    assert!(recorded(&derived(&written, &all(Mode::Combined)))[0] > 0);
}

#[test]
fn few_ways_of_being_called() {
    // What the first pointer leads to is written after the calls: all subsets of three arguments.
    let mut calls = String::new();
    for n in 0..8 {
        let arg = |i: usize| if n >> i & 1 == 0 { "v1" } else { "v0" };
        calls.push_str(&format!("v{} = call fn0({}, {}, {})\n", 10 + n, arg(0), arg(1), arg(2)));
    }
    let products: String =
        (0..7).map(|n| format!("v{} = fmul v{}, v{}\n", 20 + n, if n == 0 { 10 } else { 19 + n }, 11 + n)).collect();
    let f = format!("{calls} {products} store v26, v0\n return v26");
    let pairs = |d: &Derivation| d.pairs.iter().filter(|p| p.forward_symbol.starts_with("g__forward")).count();
    // Two parameters may be one, so nothing is known.
    assert_eq!(pairs(&derived(&f, &all(Mode::Combined))), 1);
    // The same where the first argument is told apart: four of seven, and the one for all else.
    let program = derived(&f, &all(Mode::Split)).program;
    let request = Request::new(program.func("f").unwrap(), [ArgSpec::DUPLICATED.noalias(), ArgSpec::DUPLICATED]);
    let d = derive(&program, &request, &all(Mode::Combined), &*host::isa()).unwrap();
    assert_eq!(pairs(&d), 5);
}
