//! Branches, loops and the parameters that they choose.

use brolga_ir::BlockId;
use brolga_ir::block::Term;
use brolga_ir::inst::AdOp;
use cranelift_codegen::ir::types;
use expect_test::expect;

use super::{Case, check, d, v};

#[test]
fn a_loop_whose_result_is_not_read() {
    // The loop's exit passes arguments, one of which is read: that is no reason to run the loop.
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = fadd v1, v1
            brif v0, block1(v0, v1), block2(v1)
        block1(v3: i64, v4: f64):
            v5 = fmul v4, v1
            v6 = load.i64 v3
            v7 = iadd v3, v6
            brif v7, block1(v7, v5), block2(v2)
        block2(v8: f64):
            return v8
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                v2 = fadd.f64 v1, v1
                brif v0, bb1, bb2(v1)

            bb1:  ; forward of block1, from bb0
                jump bb2(v2)

            bb2(v8: f64):  ; forward of block2, from bb0, bb1
                return v8
        "#]],
    );
}

#[test]
fn a_loop_that_stores() {
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            jump block1(v0, v1)
        block1(v2: i64, v3: f64):
            v4 = fmul v3, v1
            store v1, v2
            v5 = ineg v2
            brif v5, block1(v5, v4), block2
        block2:
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                jump bb1(v0)

            bb1(v2: i64):  ; forward of block1, from bb0, bb1
                store.f64 v1, v2
                v5 = ineg.i64 v2
                brif v5, bb1(v5), bb2

            bb2:  ; forward of block2, from bb1
                return v1
        "#]],
    );
}

#[test]
fn arms_that_do_nothing() {
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            v2 = icmp slt v0, v0
            brif v2, block1, block2
        block1:
            v3 = fmul v1, v1
            jump block3(v3)
        block2:
            v4 = sqrt v1
            jump block3(v4)
        block3(v5: f64):
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                jump bb3

            bb3:  ; forward of block3, from bb0
                return v1
        "#]],
    );
}

#[test]
fn arms_that_choose() {
    // Both arms are empty, but along which of them block3 is reached decides what it receives.
    check(
        "function %f(i64, f64, f64) -> f64 {
        block0(v0: i64, v1: f64, v2: f64):
            brif v0, block1, block2
        block1:
            jump block3(v1, v2)
        block2:
            jump block3(v2, v1)
        block3(v3: f64, v4: f64):
            return v3
        }",
        expect![[r#"
            %f(i64, f64, f64) -> f64 fast

            bb0(v0: i64, v1: f64, v2: f64):  ; forward of block0
                brif v0, bb1, bb2

            bb1:  ; forward of block1, from bb0
                jump bb3(v1)

            bb2:  ; forward of block2, from bb0
                jump bb3(v2)

            bb3(v3: f64):  ; forward of block3, from bb1, bb2
                return v3
        "#]],
    );
}

#[test]
fn one_block_by_two_edges() {
    let text = |x: &str| {
        format!(
            "function %f(i64, f64, f64) -> f64 {{
            block0(v0: i64, v1: f64, v2: f64):
                brif v0, block1(v1, v2), block1(v2, v2)
            block1(v3: f64, v4: f64):
                return {x}
            }}"
        )
    };
    check(
        &text("v3"),
        expect![[r#"
        %f(i64, f64, f64) -> f64 fast

        bb0(v0: i64, v1: f64, v2: f64):  ; forward of block0
            brif v0, bb1(v1), bb1(v2)

        bb1(v3: f64):  ; forward of block1, from bb0
            return v3
    "#]],
    );
    check(
        &text("v1"),
        expect![[r#"
        %f(i64, f64, f64) -> f64 fast

        bb0(v0: i64, v1: f64, v2: f64):  ; forward of block0
            jump bb1

        bb1:  ; forward of block1, from bb0
            return v1
    "#]],
    );
}

#[test]
fn nested_loops_of_which_the_inner_is_dead() {
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            jump block1(v0, v1)
        block1(v2: i64, v3: f64):
            jump block2(v2)
        block2(v4: i64):
            v5 = ineg v4
            brif v5, block2(v5), block3(v4)
        block3(v6: i64):
            v7 = fmul v3, v1
            v8 = ineg v2
            brif v8, block1(v8, v7), block4(v6)
        block4(v9: i64):
            return v7
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                jump bb1(v0, v1)

            bb1(v2: i64, v3: f64):  ; forward of block1, from bb0, bb3
                jump bb2

            bb2:  ; forward of block2, from bb1
                jump bb3

            bb3:  ; forward of block3, from bb2
                v7 = fmul.f64 v3, v1
                v8 = ineg.i64 v2
                brif v8, bb1(v8, v7), bb4

            bb4:  ; forward of block4, from bb3
                return v7
        "#]],
    );
}

#[test]
fn an_irreducible_loop() {
    let text = |r: &str| {
        format!(
            "function %f(i64, i64, f64) -> f64 {{
            block0(v0: i64, v1: i64, v2: f64):
                brif v0, block1(v1, v2), block2(v1, v2)
            block1(v3: i64, v4: f64):
                v5 = fadd v4, v2
                v6 = ineg v3
                brif v6, block2(v6, v5), block3(v5)
            block2(v7: i64, v8: f64):
                v9 = fmul v8, v2
                v10 = ineg v7
                brif v10, block1(v10, v9), block3(v9)
            block3(v11: f64):
                return {r}
            }}"
        )
    };
    check(
        &text("v2"),
        expect![[r#"
        %f(i64, i64, f64) -> f64 fast

        bb0(v0: i64, v1: i64, v2: f64):  ; forward of block0
            jump bb3

        bb3:  ; forward of block3, from bb0
            return v2
    "#]],
    );
    Case::new(&text("v11")).stays();
}

#[test]
fn two_branches_decide() {
    // if v0 || v1 { store }; block2 depends on both branches, block3 on one, block4 on none.
    let mut case = Case::new(
        "function %f(i64, i64, f64) -> f64 {
        block0(v0: i64, v1: i64, v2: f64):
            brif v0, block2, block1
        block1:
            brif v1, block2, block3
        block2:
            store v2, v0
            jump block4
        block3:
            jump block4
        block4:
            return v2
        }",
    );
    case.stays();
}

#[test]
fn tables() {
    check(
        "function %f(i32, f64) -> f64 {
        block0(v0: i32, v1: f64):
            br_table v0, block3, [block1, block2, block3]
        block1:
            v2 = fmul v1, v1
            jump block3
        block2:
            v3 = fadd v1, v1
            jump block3
        block3:
            br_table v0, block4(v1), [block4(v1), block5]
        block4(v4: f64):
            return v4
        block5:
            trap user1
        }",
        expect![[r#"
            %f(i32, f64) -> f64 fast

            bb0(v0: i32, v1: f64):  ; forward of block0
                jump bb3

            bb3:  ; forward of block3, from bb0
                br_table v0, bb4(v1), [bb4(v1), bb5]

            bb4(v4: f64):  ; forward of block4, from bb3
                return v4

            bb5:  ; forward of block5, from bb3
                trap user1
        "#]],
    );
}

#[test]
fn ways_without_an_exit_keep_their_branches() {
    // block4 never ends. What decides whether it is reached stays, also where nothing is done on
    // the way.
    check(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            brif v0, block1, block3
        block1:
            v2 = ineg v0
            v3 = ineg v0
            brif v2, block2, block3
        block2:
            v4 = ineg v0
            v5 = ineg v0
            brif v4, block2, block1
        block3:
            v6 = ineg v0
            brif v6, block4, block5
        block4:
            jump block4
        block5:
            return v1
        }",
        expect![[r#"
            %f(i64, f64) -> f64 fast

            bb0(v0: i64, v1: f64):  ; forward of block0
                brif v0, bb1, bb3

            bb1:  ; forward of block1, from bb0, bb2
                v2 = ineg.i64 v0
                brif v2, bb2, bb3

            bb2:  ; forward of block2, from bb1, bb2
                v4 = ineg.i64 v0
                brif v4, bb2, bb1

            bb3:  ; forward of block3, from bb0, bb1
                v6 = ineg.i64 v0
                brif v6, bb4, bb5

            bb4:  ; forward of block4, from bb3, bb4
                jump bb4

            bb5:  ; forward of block5, from bb3
                return v1
        "#]],
    );
}

#[test]
fn a_function_without_exit_stays() {
    let text = "function %f(i64) -> f64 {
        block0(v0: i64):
            v1 = ineg v0
            brif v1, block1, block2
        block1:
            jump block2
        block2:
            v2 = ineg v0
            jump block2
        }";
    Case::new(text).stays();
}

/// The pullback of two arms that join: the number of the arm that was taken is read where it
/// matters.
fn reverse_arms(store: bool) -> Case {
    let mut case = Case::new(
        "function %f(i64, f64) -> f64 {
        block0(v0: i64, v1: f64):
            jump block1
        block1:
            v2 = fadd v1, v1
            jump block3
        block2:
            v3 = fsub v1, v1
            jump block3
        block3:
            return v1
        }",
    );
    let [entry, one, two, _] = [0, 1, 2, 3].map(|n| case.graph.blocks.get_index(n).unwrap().id);
    case.add(0, &[(d(1), types::I32)], AdOp::PeekBlock);
    let cases: Vec<(u32, BlockId)> = vec![(1, one), (2, two)];
    case.graph.blocks[&entry].term = Term::Switch(d(1), cases);
    if store {
        case.add(2, &[], AdOp::StoreOld { addr: v(0), off: 0, value: v(3) });
    }
    case
}

#[test]
fn switches() {
    reverse_arms(false).prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            jump bb3

        bb3:  ; forward of block3, from bb0
            return v1
    "#]]);
    reverse_arms(true).prune().shows(expect![[r#"
        %f(i64, f64) -> f64 fast

        bb0(v0: i64, v1: f64):  ; forward of block0
            d1 = block on top of tape
            switch d1, [block 1: bb1, block 2: bb2]

        bb1:  ; forward of block1, from bb0
            jump bb3

        bb2:  ; forward of block2, from bb0
            v3 = fsub.f64 v1, v1
            mem[v0] = v3
            jump bb3

        bb3:  ; forward of block3, from bb1, bb2
            return v1
    "#]]);
}

#[test]
fn the_size_of_real_programs() {
    // A chain of 5000 diamonds, every second of which matters, inside one loop; 20 dead
    // instructions in each block.
    use std::fmt::Write;
    let mut text = String::from("function %f(i64, f64) -> f64 {\nblock0(v0: i64, v1: f64):\n jump block1(v0, v1)\n");
    text += "block1(v2: i64, v3: f64):\n jump block10(v3)\n";
    let mut value = 100_000;
    for n in 0..5000 {
        let at = 10 + 4 * n;
        let x = value;
        writeln!(text, "block{at}(v{x}: f64):").unwrap();
        for k in 1..20 {
            writeln!(text, " v{} = fadd v{}, v{x}", x + k, x + k - 1).unwrap();
        }
        let (a, b, c, next) = (at + 1, at + 2, at + 3, at + 4);
        writeln!(text, " brif v2, block{a}, block{b}\nblock{a}:\n jump block{c}(v{x})").unwrap();
        writeln!(text, "block{b}:\n jump block{c}(v{})", if n % 2 == 0 { x } else { x + 1 }).unwrap();
        writeln!(text, "block{c}(v{}: f64):\n jump block{next}(v{})", x + 20, if n % 2 == 0 { x } else { x + 20 })
            .unwrap();
        value += 21;
    }
    writeln!(text, "block{}(v{value}: f64):\n v4 = ineg v2", 10 + 4 * 5000).unwrap();
    writeln!(text, " brif v4, block1(v4, v{value}), block2\nblock2:\n return v{value}\n}}").unwrap();
    let mut case = Case::new(&text);
    let size = |c: &Case| (c.graph.blocks.len(), c.graph.blocks.values().map(|b| b.insts.len()).sum::<usize>());
    assert_eq!(size(&case), (20_004, 95_001));
    let start = std::time::Instant::now();
    case.prune().verifies();
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    assert_eq!(size(&case), (12_504, 2_501));
}
