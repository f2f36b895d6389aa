//! Loops that are turned to ask at their end do what they did: small functions, run by Cranelift's
//! interpreter before and after. Every derivative in `ir-tests` goes through the pass as well.

use brolga_clif::loop_rotate::rotate;
use brolga_clif::shape::FlowInfo;
use brolga_testing::{function, jit};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir;
use cranelift_interpreter::environment::FunctionStore;
use cranelift_interpreter::interpreter::{Interpreter, InterpreterState};
use cranelift_interpreter::step::ControlFlow;

fn run(func: &ir::Function, n: i32) -> Vec<DataValue> {
    let mut store = FunctionStore::default();
    store.add("f".to_owned(), func);
    let state = InterpreterState::default().with_function_store(store);
    let mut interpreter = Interpreter::new(state).with_fuel(Some(100_000));
    match interpreter.call_by_name("f", &[DataValue::I32(n)]).unwrap() {
        ControlFlow::Return(values) => values.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Branches back to an earlier block that are jumps, and that ask.
fn ends(func: &ir::Function) -> (usize, usize) {
    let mut earlier = Vec::new();
    let (mut jumps, mut asks) = (0, 0);
    for b in func.layout.blocks() {
        earlier.push(b);
        if func.block_successors(b).any(|s| earlier.contains(&s)) {
            *(if func.block_successors(b).count() > 1 { &mut asks } else { &mut jumps }) += 1;
        }
    }
    (jumps, asks)
}

/// The body of `%f(i32) -> i32`, and how many loops end in a jump and in a question afterwards.
fn check(body: &str, expected: (usize, usize)) {
    let text = format!("function %f(i32) -> i32 {{\n{body}\n}}");
    let before = function(&text);
    let isa = jit::host_isa();
    let mut after = before.clone();
    let rotated = rotate(&mut after, &FlowInfo::of(&before));
    cranelift_codegen::verify_function(&after, &*isa).unwrap_or_else(|e| panic!("{e}\n{after}"));
    assert_eq!(ends(&after), expected, "{after}");
    assert_eq!(rotated, ends(&before) != expected, "{after}");
    for n in [-1, 0, 1, 2, 3, 7] {
        assert_eq!(run(&before, n), run(&after, n), "n = {n}\n{after}");
    }
}

#[test]
fn a_sum() {
    check(
        "block0(v0: i32):
            v1 = iconst.i32 0
            jump block1(v1, v1)
        block1(v2: i32, v3: i32):
            v4 = icmp slt v2, v0
            brif v4, block2, block3
        block2:
            v5 = iadd v3, v2
            v101 = iconst.i32 1
            v6 = iadd v2, v101
            jump block1(v6, v5)
        block3:
            v7 = imul v3, v2
            return v7",
        (0, 1),
    );
}

#[test]
fn what_the_branch_does_not_ask_for_goes_where_it_is_used() {
    // v8 in the body, v9 after the loop, v10 in both; the body comes second.
    check(
        "block0(v0: i32):
            v1 = iconst.i32 0
            jump block1(v0, v1)
        block1(v2: i32, v3: i32):
            v102 = iconst.i32 -1
            v8 = iadd v2, v102
            v9 = imul v3, v3
            v10 = iadd v2, v3
            v4 = iconst.i32 0
            v5 = icmp sle v2, v4
            brif v5, block3, block2
        block2:
            v6 = iadd v3, v10
            jump block1(v8, v6)
        block3:
            v7 = iadd v9, v10
            return v7",
        (0, 1),
    );
}

#[test]
fn a_question_about_zero() {
    check(
        "block0(v0: i32):
            v1 = iconst.i32 7
            v2 = band v0, v1
            jump block1(v2, v1)
        block1(v3: i32, v4: i32):
            v5 = iconst.i32 0
            v6 = icmp eq v3, v5
            brif v6, block3, block2
        block2:
            v103 = iconst.i32 -1
            v7 = iadd v3, v103
            v8 = imul v4, v4
            jump block1(v7, v8)
        block3:
            return v4",
        (0, 1),
    );
}

#[test]
fn nests() {
    // The inner header is the outer body's first block, and the outer header's values are used in
    // the inner header and loop.
    check(
        "block0(v0: i32):
            v1 = iconst.i32 0
            jump block1(v1, v1)
        block1(v2: i32, v3: i32):
            v4 = icmp slt v2, v0
            brif v4, block2(v2, v3), block5
        block2(v5: i32, v6: i32):
            v7 = iadd v2, v0
            v8 = icmp slt v5, v7
            brif v8, block3, block4
        block3:
            v9 = imul v5, v2
            v10 = iadd v6, v9
            v104 = iconst.i32 2
            v11 = iadd v5, v104
            jump block2(v11, v10)
        block4:
            v105 = iconst.i32 1
            v12 = iadd v2, v105
            jump block1(v12, v6)
        block5:
            return v3",
        (0, 2),
    );
}

#[test]
fn a_nest_whose_inner_header_asks_for_what_the_outer_one_has() {
    // What the inner header has moves (v9) or is copied (v7), to a block of its own where the latch
    // asks something itself.
    check(
        "block0(v0: i32):
            v1 = iconst.i32 0
            v20 = iconst.i32 1
            jump block1(v1, v1)
        block1(v2: i32, v3: i32):
            v4 = icmp slt v2, v0
            brif v4, block6, block5
        block6:
            jump block2(v20, v3)
        block2(v5: i32, v6: i32):
            v7 = iadd v2, v0
            v9 = imul v5, v2
            v8 = icmp slt v5, v7
            brif v8, block3, block4
        block3:
            v10 = iadd v6, v9
            v11 = iadd v5, v20
            v15 = band v10, v20
            brif v15, block2(v11, v10), block7
        block7:
            v16 = iadd v11, v20
            jump block2(v16, v10)
        block4:
            v12 = iadd v2, v20
            jump block1(v12, v6)
        block5:
            return v3",
        (0, 3),
    );
}

#[test]
fn diamonds_in_sequence() {
    // The block after the first loop is the header of the second, which uses what the first has
    // ended with.
    check(
        "block0(v0: i32):
            v1 = iconst.i32 0
            jump block1(v1, v1)
        block1(v2: i32, v3: i32):
            v4 = icmp slt v2, v0
            brif v4, block2, block3(v2)
        block2:
            v5 = iadd v3, v2
            v106 = iconst.i32 3
            v6 = iadd v2, v106
            jump block1(v6, v5)
        block3(v7: i32):
            v8 = iconst.i32 2
            v9 = icmp sgt v7, v8
            brif v9, block4, block5
        block4:
            v10 = isub v7, v8
            jump block3(v10)
        block5:
            v11 = imul v3, v7
            v12 = iadd v11, v2
            return v12",
        (0, 2),
    );
}

#[test]
fn a_body_that_goes_on_in_two_places() {
    // One of the latches asks something itself.
    check(
        "block0(v0: i32):
            v1 = iconst.i32 0
            jump block1(v0, v1)
        block1(v2: i32, v3: i32):
            v4 = icmp sgt v2, v1
            brif v4, block2, block5
        block2:
            v107 = iconst.i32 -1
            v5 = iadd v2, v107
            v6 = iconst.i32 1
            v7 = band v2, v6
            brif v7, block3, block4
        block3:
            v8 = iadd v3, v2
            jump block1(v5, v8)
        block4:
            v108 = iconst.i32 5
            v9 = iadd v3, v108
            v10 = icmp sgt v9, v0
            brif v10, block6, block1(v5, v9)
        block5:
            return v3
        block6:
            return v9",
        (0, 2),
    );
}

#[test]
fn what_stays() {
    // Two ways out meet where a value of the header is used.
    check(
        "block0(v0: i32):
            v1 = iconst.i32 0
            jump block1(v1)
        block1(v2: i32):
            v3 = icmp slt v2, v0
            brif v3, block2, block3
        block2:
            v109 = iconst.i32 1
            v4 = iadd v2, v109
            v5 = imul v4, v4
            v6 = icmp sgt v5, v0
            brif v6, block3, block4
        block4:
            jump block1(v4)
        block3:
            return v2",
        (1, 0),
    );
    // A header that works.
    check(
        "ss0 = explicit_slot 4
        block0(v0: i32):
            v9 = stack_addr.i64 ss0
            store v0, v9
            jump block1
        block1:
            v1 = load.i32 v9
            v2 = iconst.i32 1
            v3 = icmp sgt v1, v2
            brif v3, block2, block3
        block2:
            v110 = iconst.i32 -2
            v4 = iadd v1, v110
            store v4, v9
            jump block1
        block3:
            return v1",
        (1, 0),
    );
    // It asks at its end already.
    check(
        "block0(v0: i32):
            jump block1(v0)
        block1(v1: i32):
            v111 = iconst.i32 -1
            v2 = iadd v1, v111
            v3 = iconst.i32 0
            v4 = icmp sgt v2, v3
            brif v4, block1(v2), block2
        block2:
            return v2",
        (0, 1),
    );
}
