//! What a derivative asks a C function for, and where the primal has it already.

use brolga_ir::program::symbol_in;
use brolga_ir::{ArgActivity, Effort, Mode, Options, Pass, PassSet, Request};
use brolga_testing::program;
use brolga_transform::derive::derive;
use cranelift_codegen::ir::{Function, InstructionData};

use crate::host;

/// How often the derivative of the only function calls each of these, in order.
fn calls(text: &str, symbols: &[&str], options: &Options) -> Vec<usize> {
    let program = program(text);
    let func = program.func("f").unwrap();
    let request = Request::new(func, vec![ArgActivity::Active; program.funcs[func].signature.params.len()]);
    let d = derive(&program, &request, options, &*host::isa()).unwrap();
    let pairs = d.pairs.iter().flat_map(|p| [&p.forward, &p.pullback]);
    let all: Vec<&Function> = pairs.chain(d.combined.iter().map(|w| &w.func)).collect();
    symbols.iter().map(|s| all.iter().map(|f| called(f, s)).sum()).collect()
}

fn called(f: &Function, symbol: &str) -> usize {
    let insts = f.layout.blocks().flat_map(|b| f.layout.block_insts(b));
    let is_it = |i| match f.dfg.insts[i] {
        InstructionData::Call { func_ref, .. } => symbol_in(f, &f.dfg.ext_funcs[func_ref].name) == symbol,
        _ => false,
    };
    insts.filter(|&i| is_it(i)).count()
}

/// In these modes, with all ideas and without this one. (The second pullback would count twice.)
fn each(text: &str, symbols: &[&str]) -> Vec<[Vec<usize>; 2]> {
    let with = |mode, share: bool| {
        let disabled = PassSet::from(Pass::VersionGuards).set(Pass::ShareCalls, !share);
        calls(text, symbols, &Options { mode, disabled, ..Options::full() })
    };
    [Mode::Split, Mode::Combined, Mode::Gradient].map(|mode| [with(mode, true), with(mode, false)]).into()
}

#[test]
fn a_sine_and_a_cosine_are_each_in_the_derivative_of_the_other() {
    for [shared, each] in each(
        "function %f(f64) -> f64 system_v { fn0 = %cos(f64) -> f64 system_v
                fn1 = %sin(f64) -> f64 system_v
            block0(v0: f64):
                v1 = call fn0(v0)
                v2 = call fn1(v0)
                v3 = fmul v1, v2
                return v3 }",
        &["sin", "cos"],
    ) {
        assert_eq!((shared, each), (vec![1, 1], vec![2, 2]));
    }
}

#[test]
fn one_that_is_there_later_in_another_block_is_not_there_yet() {
    let text = "function %f(f64, f64) -> f64 system_v { fn0 = %cos(f64) -> f64 system_v
                fn1 = %sin(f64) -> f64 system_v
            block0(v0: f64, v9: f64):
                v1 = call fn0(v0)
                v2 = fcmp lt v0, v9
                brif v2, block1, block2(v1)
            block1:
                v3 = call fn1(v0)
                v4 = fmul v3, v1
                jump block2(v4)
            block2(v5: f64):
                return v5 }";
    // The sine's derivative has the cosine; the cosine's has no sine where the branch is not taken.
    for [shared, each] in each(text, &["sin", "cos"]) {
        assert_eq!((shared, each), (vec![2, 1], vec![2, 2]));
    }
}

#[test]
fn another_width_another_operand_or_another_order_is_another_question() {
    let of = |two: &str, ty: &str, args: &str| {
        let text = format!(
            "function %f(f64, f64) -> f64 system_v {{ fn0 = %pow(f64, f64) -> f64 system_v
                fn1 = %{two}({ty}) -> {ty} system_v
            block0(v0: f64, v1: f64):
                v2 = call fn0(v0, v1)
                v3 = fdemote.f32 v0
                v4 = call fn1({args})
                v5 = {}
                v6 = fadd v2, v5
                return v6 }}",
            if ty == "f32" { "fpromote.f64 v4" } else { "fmul v4, v4" }
        );
        each(&text, &["log"])[2].clone()
    };
    assert_eq!(of("log", "f64", "v0"), [[1], [2]]);
    assert_eq!(of("log", "f64", "v1"), [[2], [2]]);
    assert_eq!(of("logf", "f32", "v3"), [[1], [1]]);
    assert_eq!(of("log10", "f64", "v0"), [[1], [1]]);
}

#[test]
fn with_little_effort_too() {
    let text = "function %f(f64) -> f64 system_v { fn0 = %cos(f64) -> f64 system_v
                fn1 = %sin(f64) -> f64 system_v
            block0(v0: f64):
                v1 = call fn0(v0)
                v2 = call fn1(v0)
                v3 = fmul v1, v2
                return v3 }";
    let options = Options { effort: Effort::Quick, mode: Mode::Gradient, ..Options::full() };
    assert_eq!(calls(text, &["sin", "cos"], &options), [1, 1]);
}
