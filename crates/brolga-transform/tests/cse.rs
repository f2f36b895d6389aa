//! What is computed twice: which integers are merged, and which are not.

use brolga_analysis::{Cfg, Loops};
use brolga_testing::function;
use brolga_transform::primal::cse::cse;
use brolga_transform::primal::loop_simplify::order;
use cranelift_codegen::ir::{Function, Opcode};
use cranelift_codegen::settings::{self, Flags};
use cranelift_codegen::verify_function;

/// A function after merging; it verifies.
fn merged(text: &str) -> Function {
    let mut func = function(text);
    let cfg = Cfg::compute(&func);
    let loops = Loops::compute(&cfg);
    let order = order(&cfg, &loops);
    cse(&mut func, &cfg, &loops, &order);
    verify_function(&func, &Flags::new(settings::builder())).unwrap();
    func
}

fn count(func: &Function, op: Opcode) -> usize {
    let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    insts.filter(|&i| func.dfg.insts[i].opcode() == op).count()
}

#[test]
fn an_address_that_is_computed_twice() {
    let func = merged(
        "function %f(i64, i32, f64) { block0(v0: i64, v1: i32, v2: f64):
            v3 = uextend.i64 v1
            v4 = iadd v0, v3
            v5 = load.f64 v4
            v6 = fadd v5, v2
            v7 = uextend.i64 v1
            v8 = iadd v0, v7
            store v6, v8
            return }",
    );
    // The addresses stay apart.
    assert_eq!((count(&func, Opcode::Uextend), count(&func, Opcode::Iadd)), (1, 2));
}

#[test]
fn constants_are_compared_by_value_and_stay() {
    let func = merged(
        "function %f(i64) -> i64, i64, i64 { block0(v0: i64):
            v1 = iconst.i64 8
            v2 = iadd v0, v1
            v3 = iconst.i64 8
            v4 = iadd v0, v3
            v5 = iconst.i64 9
            v6 = iadd v0, v5
            return v2, v4, v6 }",
    );
    assert_eq!((count(&func, Opcode::Iconst), count(&func, Opcode::Iadd)), (3, 2));
}

#[test]
fn what_differs_in_the_least_is_not_the_same() {
    // Another condition, another width, the other order of operands.
    let func = merged(
        "function %f(i64, i64) -> i8, i8, i64, i64, i16, i32 { block0(v0: i64, v1: i64):
            v2 = icmp slt v0, v1
            v3 = icmp ult v0, v1
            v4 = isub v0, v1
            v5 = isub v1, v0
            v6 = ireduce.i16 v0
            v7 = ireduce.i32 v0
            return v2, v3, v4, v5, v6, v7 }",
    );
    assert_eq!(count(&func, Opcode::Icmp), 2);
    assert_eq!(count(&func, Opcode::Isub), 2);
    assert_eq!(count(&func, Opcode::Ireduce), 2);
}

#[test]
fn floats_and_loads_are_left_alone() {
    let func = merged(
        "function %f(i64, f64) -> f64, f64, i64, i64 { block0(v0: i64, v1: f64):
            v2 = fadd v1, v1
            v3 = fadd v1, v1
            v4 = load.i64 v0
            v5 = load.i64 v0
            return v2, v3, v4, v5 }",
    );
    assert_eq!((count(&func, Opcode::Fadd), count(&func, Opcode::Load)), (2, 2));
}

#[test]
fn only_what_dominates_in_the_same_loop() {
    // block2 has what block1 has; block3 does not have what is computed on one way only; the loop,
    // block4, computes for itself.
    let func = merged(
        "function %f(i64, i64) -> i64 {
        block0(v0: i64, v1: i64):
            brif v0, block1, block3
        block1:
            v2 = iadd v0, v1
            brif v2, block2, block3
        block2:
            v3 = iadd v0, v1
            brif v3, block3, block4(v3)
        block3:
            v4 = iadd v0, v1
            jump block4(v4)
        block4(v5: i64):
            v6 = iadd v0, v1
            v7 = isub v5, v6
            brif v7, block4(v7), block5
        block5:
            return v7
        }",
    );
    assert_eq!(count(&func, Opcode::Iadd), 3);
}

#[test]
fn through_several_steps() {
    let func = merged(
        "function %f(i64, i64) -> i64, i64 { block0(v0: i64, v1: i64):
            v2 = imul v0, v1
            v3 = bnot v2
            v4 = imul v0, v1
            v5 = bnot v4
            return v3, v5 }",
    );
    assert_eq!((count(&func, Opcode::Imul), count(&func, Opcode::Bnot)), (1, 1));
}
