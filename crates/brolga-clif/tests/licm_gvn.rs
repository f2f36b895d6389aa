//! What moves out of loops, and what is merged: small functions, run by Cranelift's interpreter
//! before and after. Every derivative of a short function in `ir-tests` goes through the pass as
//! well.

use brolga_clif::licm_gvn::hoist;
use brolga_clif::shape::FlowInfo;
use brolga_testing::{function, jit};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir;
use cranelift_interpreter::environment::FunctionStore;
use cranelift_interpreter::interpreter::{Interpreter, InterpreterState};
use cranelift_interpreter::step::ControlFlow;

fn run(func: &ir::Function, n: i64) -> Vec<DataValue> {
    let mut store = FunctionStore::default();
    store.add("f".to_owned(), func);
    let state = InterpreterState::default().with_function_store(store);
    let mut interpreter = Interpreter::new(state).with_fuel(Some(100_000));
    match interpreter.call_by_name("f", &[DataValue::I64(n), DataValue::I64(3 * n + 1)]).unwrap() {
        ControlFlow::Return(values) => values.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// The body of `%f(i64, i64) -> i64`, and the opcodes that its blocks have afterwards, but for
/// constants and terminators.
fn check(body: &str, expected: &[&str]) {
    let text = format!("function %f(i64, i64) -> i64 {{\n{body}\n}}");
    let before = function(&text);
    let isa = jit::host_isa();
    let mut after = before.clone();
    hoist(&mut after, FlowInfo::of(&before), false, &*isa);
    cranelift_codegen::verify_function(&after, &*isa).unwrap_or_else(|e| panic!("{e}\n{after}"));
    let blocks = after.layout.blocks().map(|b| {
        let ops = after.layout.block_insts(b).map(|i| after.dfg.insts[i].opcode());
        let ops = ops.filter(|op| !op.is_terminator() && *op != ir::Opcode::Iconst).map(|op| op.to_string());
        ops.collect::<Vec<_>>().join(" ")
    });
    assert_eq!(blocks.collect::<Vec<_>>(), expected, "{after}");
    for n in [-1, 0, 1, 2, 3, 7] {
        assert_eq!(run(&before, n), run(&after, n), "n = {n}\n{after}");
    }
}

#[test]
fn what_a_loop_does_not_change_is_computed_in_front_of_it() {
    // The sum with a constant is cheap and stays; what moves takes a copy of it along.
    check(
        "block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            jump block1(v2, v2)
        block1(v3: i64, v4: i64):
            v5 = iconst.i64 5
            v6 = iadd v1, v5
            v7 = imul v6, v1
            v8 = iadd v4, v7
            v9 = iadd v8, v6
            v10 = iconst.i64 1
            v11 = iadd v3, v10
            v12 = icmp slt v11, v0
            brif v12, block1(v11, v9), block2
        block2:
            return v9",
        &["iadd imul", "iadd iadd iadd iadd icmp", ""],
    );
}

#[test]
fn as_far_out_as_it_is_the_same() {
    // `v1 * v1` leaves both loops, `v1 * v3` the inner one. The inner loop's own parameter v7
    // always is v1.
    check(
        "block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            jump block1(v2, v2)
        block1(v3: i64, v4: i64):
            v5 = iconst.i64 0
            jump block2(v5, v4, v1)
        block2(v6: i64, v8: i64, v7: i64):
            v9 = imul v7, v7
            v10 = imul v7, v3
            v11 = bxor v9, v10
            v12 = iadd v8, v11
            v13 = iconst.i64 1
            v14 = iadd v6, v13
            v15 = icmp slt v14, v0
            brif v15, block2(v14, v12, v7), block3
        block3:
            v16 = iconst.i64 1
            v17 = iadd v3, v16
            v18 = icmp slt v17, v0
            brif v18, block1(v17, v12), block4
        block4:
            return v12",
        &["imul", "imul bxor", "iadd iadd icmp", "iadd icmp", ""],
    );
}

#[test]
fn what_is_there_already_is_used() {
    // Two products of an iteration are one, with constants that are equal; another constant, or
    // another type, is another product. One after the loop is computed there, as otherwise it
    // would be alive all along.
    check(
        "block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            jump block1(v2, v2)
        block1(v3: i64, v4: i64):
            v5 = iconst.i64 5
            v6 = imul v3, v5
            v7 = iconst.i64 5
            v8 = imul v3, v7
            v9 = iconst.i64 6
            v10 = imul v3, v9
            v11 = iadd v6, v8
            v12 = iadd v11, v10
            v13 = bxor v4, v12
            v14 = iconst.i64 1
            v15 = iadd v3, v14
            v16 = icmp slt v15, v0
            brif v16, block1(v15, v13), block2
        block2:
            v17 = imul v3, v5
            v18 = bxor v17, v13
            return v18",
        &["", "imul imul iadd iadd bxor iadd icmp", "imul bxor"],
    );
}

#[test]
fn cold_blocks_stay_as_they_are() {
    // But for the names of what is merged: v9 is v8 there.
    check(
        "block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            jump block1(v2, v2)
        block1(v3: i64, v4: i64):
            v8 = imul v3, v3
            v9 = imul v3, v3
            v10 = iadd v4, v9
            v14 = iconst.i64 1
            v15 = iadd v3, v14
            v16 = icmp slt v15, v0
            brif v16, block1(v15, v10), block2
        block2 cold:
            v17 = imul v1, v1
            v18 = imul v1, v1
            v19 = bxor v17, v18
            v20 = bxor v19, v9
            return v20",
        &["", "imul iadd iadd icmp", "imul imul bxor bxor"],
    );
}

#[test]
fn nothing_moves_into_another_loop() {
    // The first loop's header leads to the second one: what stands at its end is run in each
    // iteration.
    check(
        "block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            jump block1(v2)
        block1(v3: i64):
            v4 = iconst.i64 1
            v5 = iadd v3, v4
            v6 = icmp slt v5, v0
            brif v6, block1(v5), block2(v2, v2)
        block2(v7: i64, v8: i64):
            v9 = imul v1, v1
            v10 = iadd v8, v9
            v11 = iconst.i64 1
            v12 = iadd v7, v11
            v13 = icmp slt v12, v0
            brif v13, block2(v12, v10), block3
        block3:
            return v10",
        &["", "iadd icmp", "imul iadd iadd icmp", ""],
    );
}

#[test]
fn what_is_computed_on_another_way_is_not_there() {
    check(
        "block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            jump block1(v2, v2)
        block1(v3: i64, v4: i64):
            v5 = band v3, v1
            brif v5, block2, block3
        block2:
            v6 = imul v3, v3
            jump block4(v6)
        block3:
            v7 = imul v3, v3
            v8 = iadd v7, v7
            jump block4(v8)
        block4(v9: i64):
            v10 = iadd v4, v9
            v11 = iconst.i64 1
            v12 = iadd v3, v11
            v13 = icmp slt v12, v0
            brif v13, block1(v12, v10), block5
        block5:
            return v10",
        &["", "band", "imul", "imul iadd", "iadd iadd icmp", ""],
    );
}
