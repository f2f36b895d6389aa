//! Inverses of functions on memory: after a function its inverse leaves the state as it was, from
//! random states, bit by bit but for sums of floats; and which instruction is said to lose what it
//! changes.
//!
//! Seen to fail: operands of `isub` exchanged, iterations that are not counted, the odd factor in
//! place of its inverse, a loop that runs again after stores to what it reads, places that are
//! taken for different ones, what comes before a loop's way out undone once too seldom, what
//! an iteration has left loaded in the first one, or though the next one stores there.

use brolga_clif::inverse::{InverseRequest, UndoneCall, inverse};
use brolga_testing::function;
use brolga_testing::noise::Noise;
use cranelift_codegen::ir::UserFuncName;

use crate::undone::{
    OVERLAP, found, found_of, is_exact, refused, text, there_and_back, there_and_back_by, there_and_back_of,
};

#[test]
fn sides_of_branches_read_what_is_loaded_above() {
    let body = |above: &str, inner: &str| {
        format!(
            "block0(v0: i64, v1: i64, v2: i64):
                v3 = load.i64 v0
                v4 = load.i64 v0+8
                v5 = iconst.i64 1
                v6 = band v2, v5
                {above}
                brif v6, block1, block2
            block1:
                v7 = iadd v3, v4
                store v7, v0
                jump block3
            block2:
                {inner}
            block3:
                return"
        )
    };
    let plain = "v8 = bxor v3, v4\n store v8, v0+8\n jump block3";
    let nested = "v8 = icmp_imm ugt v2, 4\n brif v8, block4, block5\n block4:\n v9 = isub v3, v4\n store v9, v0\n jump \
                  block6\n block5:\n store v4, v0\n store v3, v0+8\n jump block6\n block6:\n jump block3";
    let nested = nested.replace("icmp_imm ugt v2, 4", "ushr v2, v5");
    for inner in [plain, &nested] {
        is_exact(&body("", inner));
        // Where something is stored between, they would read another number.
        let between = function(&text(&body("store v3, v0+8\n store v4, v0", inner)));
        assert!(found(&between).is_err());
    }
}

#[test]
fn straight_lines() {
    // Both are exchanged; nothing is rounded.
    is_exact(
        "block0(v0: i64, v1: i64, v2: i64):
            v3 = load.f64 v0
            v4 = load.f64 v0+8
            v5 = fneg v3
            store v4, v0
            store v5, v0+8
            return",
    );
    // A generator, and what it is mixed with.
    is_exact(
        "block0(v0: i64, v1: i64, v2: i64):
            v3 = load.i64 v0
            v4 = iconst.i64 6364136223846793005
            v5 = imul v3, v4
            v6 = iadd v5, v2
            v7 = load.i64 v1+16
            v8 = bxor v7, v6
            v9 = rotl v8, v7
            v10 = load.i64 v0+8
            v11 = isub v9, v10
            v12 = bnot v10
            v13 = bswap v12
            store v11, v0
            store v13, v0+8
            v14 = load.i32 v0+24
            v15 = load.i32 v1
            v16 = iconst.i32 0x8000_0003
            v17 = imul v14, v16
            v18 = isub v15, v17
            store v18, v0+24
            return",
    );
    // What is stored is loaded again, and a place is stored to twice.
    is_exact(
        "block0(v0: i64, v1: i64, v2: i64):
            v3 = load.i64 v0
            v4 = iadd v3, v2
            store v4, v0
            v5 = load.i64 v0
            v6 = load.i64 v0+8
            v7 = bxor v6, v5
            store v7, v0+8
            v8 = bxor v5, v7
            store v8, v0
            return",
    );
}

const SUMS: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = load.f64 v0
            v4 = load.f64 v0+8
            v5 = load.f64 v1
            v6 = fmul v4, v4
            v7 = fmul v5, v6
            v8 = fadd v3, v7
            store v8, v0
            v9 = fmul v8, v8
            v10 = fsub v9, v4
            store v10, v0+8
            return";

#[test]
fn sums_of_floats_are_undone_but_for_roundings() {
    let (apart, differ, _) = there_and_back(SUMS, 2000, 1);
    assert!(apart < 1e-15 && differ > 0, "{apart} {differ}");
}

/// Each number is added to the next one: iterations have to be undone backwards.
const TOP: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 1
            v5 = iconst.i64 3
            jump block1(v3)
        block1(v6: i64):
            v7 = icmp ult v6, v2
            brif v7, block2, block3
        block2:
            v8 = ishl v6, v5
            v9 = iadd v0, v8
            v10 = load.i64 v9
            v11 = load.i64 v9+8
            v12 = iadd v10, v11
            store v12, v9+8
            v13 = iadd v6, v4
            jump block1(v13)
        block3:
            v14 = load.i64 v0
            v15 = bxor v14, v2
            store v15, v0
            return";

/// The same, asked at the end, downwards, and with a branch in it.
const BOTTOM: &str = "block0(v0: i64, v1: i64, v2: i64):
            v4 = iconst.i64 1
            v5 = iconst.i64 8
            v20 = iconst.i64 64
            jump block1(v20, v4)
        block1(v6: i64, v21: i64):
            v9 = iadd v0, v6
            v10 = load.i64 v9
            v11 = load.i64 v9+8
            v12 = iadd v10, v11
            store v12, v9+8
            v22 = band v6, v5
            brif v22, block4, block5
        block4:
            v23 = load.i64 v9
            v24 = iadd v23, v21
            store v24, v9
            jump block6
        block5:
            jump block6
        block6:
            v13 = isub v6, v5
            v25 = bxor v21, v2
            v26 = icmp ne v13, v5
            brif v26, block1(v13, v25), block3
        block3:
            return";

/// What comes before where it is left runs once more than what comes after.
const LEFT_WITHIN: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 1
            v5 = iconst.i64 3
            jump block1(v3)
        block1(v6: i64):
            v8 = ishl v6, v5
            v9 = iadd v0, v8
            v10 = load.i64 v9
            v11 = load.i64 v1
            v12 = rotl v10, v11
            store v12, v9
            v7 = icmp ult v6, v2
            brif v7, block2, block3
        block2:
            v15 = load.i64 v9+8
            v16 = load.i64 v9
            v17 = iadd v15, v16
            store v17, v9+8
            v13 = iadd v6, v4
            jump block1(v13)
        block3:
            return";

/// A loop within a loop.
const NEST: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 1
            v5 = iconst.i64 3
            v30 = iconst.i64 7
            jump block1(v3)
        block1(v6: i64):
            v7 = icmp ult v6, v2
            brif v7, block2(v3), block5
        block2(v15: i64):
            v8 = band v15, v30
            v16 = ishl v8, v5
            v9 = iadd v0, v16
            v10 = load.i64 v9
            v11 = load.i64 v9+8
            v17 = rotl v11, v6
            v12 = iadd v10, v17
            store v12, v9
            store v10, v9+8
            v18 = iadd v15, v4
            v19 = icmp ult v18, v6
            brif v19, block2(v18), block3
        block3:
            v13 = iadd v6, v4
            jump block1(v13)
        block5:
            return";

#[test]
fn loops() {
    for body in [TOP, BOTTOM, LEFT_WITHIN, NEST] {
        is_exact(body);
    }
}

/// A sum over other memory, which takes two ways and has a loop in it, is added to each number.
const SUM: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 1
            v5 = iconst.i64 3
            jump block1(v3)
        block1(v6: i64):
            v7 = icmp ult v6, v2
            brif v7, block2(v3, v3), block9
        block2(v10: i64, v11: i64):
            v12 = icmp ult v10, v2
            brif v12, block3, block8
        block3:
            v13 = ishl v10, v5
            v14 = iadd v1, v13
            v15 = load.i64 v14
            v16 = band v15, v4
            v17 = iadd v10, v4
            brif v16, block4(v3, v11), block7
        block4(v20: i64, v21: i64):
            v22 = imul v15, v6
            v23 = iadd v21, v22
            v24 = iadd v20, v4
            v25 = icmp ult v24, v5
            brif v25, block4(v24, v23), block5
        block5:
            jump block2(v17, v23)
        block7:
            v26 = bxor v11, v15
            jump block2(v17, v26)
        block8:
            v30 = ishl v6, v5
            v31 = iadd v0, v30
            v32 = load.i64 v31
            v33 = iadd v32, v11
            store v33, v31
            v34 = iadd v6, v4
            jump block1(v34)
        block9:
            return";

/// Two halves of a state by turns: x[i] + y[i], y[i] - Σ x[j], x[i] + y[i].
const TURNS: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 1
            v5 = iconst.i64 3
            jump block1(v3)
        block1(v6: i64):
            v7 = ishl v6, v5
            v8 = iadd v0, v7
            v9 = iadd v1, v7
            v10 = load.i64 v8
            v11 = load.i64 v9
            v12 = iadd v10, v11
            store v12, v8
            v13 = iadd v6, v4
            v14 = icmp ule v13, v2
            brif v14, block1(v13), block2(v3)
        block2(v20: i64):
            jump block3(v3, v3)
        block3(v21: i64, v22: i64):
            v23 = ishl v21, v5
            v24 = iadd v0, v23
            v25 = load.i64 v24
            v26 = rotl v25, v20
            v27 = iadd v22, v26
            v28 = iadd v21, v4
            v29 = icmp ule v28, v2
            brif v29, block3(v28, v27), block4(v27)
        block4(v30: i64):
            v31 = ishl v20, v5
            v32 = iadd v1, v31
            v33 = load.i64 v32
            v34 = isub v33, v30
            store v34, v32
            v35 = iadd v20, v4
            v36 = icmp ule v35, v2
            brif v36, block2(v35), block5(v3)
        block5(v40: i64):
            v41 = ishl v40, v5
            v42 = iadd v0, v41
            v43 = iadd v1, v41
            v44 = load.i64 v42
            v45 = load.i64 v43
            v46 = iadd v44, v45
            store v46, v42
            v47 = iadd v40, v4
            v48 = icmp ule v47, v2
            brif v48, block5(v47), block6
        block6:
            return";

#[test]
fn loops_that_store_nothing_run_again() {
    is_exact(SUM);
    for n in [0, 1, 5, 15] {
        assert_eq!(there_and_back_of(TURNS, &[0, 1], 500, n), (0.0, 0, true), "n = {n}");
    }
}

#[test]
fn what_a_loop_reads_and_is_stored_to_behind_it_is_lost() {
    // The numbers that are added up are those that the sums are added to.
    let self_sum = refused(&SUM.replace("v14 = iadd v1, v13", "v14 = iadd v0, v13"));
    assert!(
        self_sum.contains("v33 = iadd") && self_sum.contains("of two values that are not found again"),
        "{self_sum}"
    );
    // What is subtracted from decides how many iterations there are.
    let decides = text(&TURNS.replace("v36 = icmp ule v35, v2", "v36 = icmp ule v35, v33"));
    let decides = found_of(&function(&decides), &[0, 1]).expect_err("it has no inverse");
    assert!(decides.contains("is made of the state"), "{decides}");
}

/// A sum over one state, as far as it has come, is subtracted from each number of another one; the
/// number of iterations is one of the first, which is changed after them.
const RUNNING: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 1
            v5 = iconst.i64 3
            v6 = load.i64 v0+8
            v7 = iconst.i64 7
            v8 = band v6, v7
            jump block1(v3, v2)
        block1(v10: i64, v11: i64):
            v12 = icmp ult v10, v8
            brif v12, block2, block3
        block2:
            v13 = ishl v10, v5
            v14 = iadd v0, v13
            v15 = load.i64 v14
            v16 = rotl v11, v10
            v17 = bxor v16, v15
            v18 = iadd v1, v13
            v19 = load.i64 v18
            v20 = isub v17, v19
            store v20, v18
            v21 = iadd v10, v4
            jump block1(v21, v17)
        block3:
            v30 = load.i64 v0
            v31 = iadd v30, v2
            store v31, v0
            return";

#[test]
fn loops_carry_what_they_only_read() {
    for n in [1, 2, 5, 15] {
        assert_eq!(there_and_back_of(RUNNING, &[0, 1], 500, n), (0.0, 0, true), "n = {n}");
    }
    // What it reads is stored to in the loop.
    let self_read = text(&RUNNING.replace("v18 = iadd v1, v13", "v18 = iadd v0, v13"));
    let self_read = found_of(&function(&self_read), &[0, 1]).expect_err("it has no inverse");
    assert!(self_read.contains("is made of the state"), "{self_read}");
}

/// Sums as far as they have come, in place of the numbers.
const SUMS_IN_PLACE: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 8
            v5 = iconst.i64 3
            v6 = iadd v2, v2
            v7 = ishl v2, v5
            v8 = iadd v0, v7
            jump block1(v0, v6)
        block1(v10: i64, v11: i64):
            v12 = icmp ult v10, v8
            brif v12, block2, block3
        block2:
            v15 = load.i64 v10
            v16 = rotl v11, v5
            v17 = iadd v16, v15
            store v17, v10
            v21 = iadd v10, v4
            jump block1(v21, v17)
        block3:
            return";

#[test]
fn loops_carry_what_the_iteration_before_has_left() {
    is_exact(SUMS_IN_PLACE);
    // In two places by turns, after each other and apart.
    let far = SUMS_IN_PLACE
        .replace("store v17, v10\n", "store v17, v10\nv18 = load.i64 v10+64\nv19 = bxor v18, v11\nstore v19, v10+64\n");
    for n in [0, 1, 3, 7] {
        assert_eq!(there_and_back(&far, 500, n).1, 0, "n = {n}");
    }
    // The next iteration stores there, and so nothing is left.
    for (with, why) in [
        ("store v17, v10\nv18 = load.i64 v10-8\nv19 = bxor v18, v2\nstore v19, v10-8\n", "is made of the state"),
        ("store v17, v0\n", "overwrites what it has not read"),
    ] {
        let said = refused(&SUMS_IN_PLACE.replace("store v17, v10\n", with));
        assert!(said.contains(why), "{said}");
    }
}

/// Two numbers, wherever they are, by turns: x += y, exchange, y ^= n.
const PAIRS: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = iconst.i64 1
            v5 = iconst.i64 3
            v6 = iconst.i64 15
            jump block1(v3)
        block1(v10: i64):
            v11 = ishl v10, v5
            v12 = iadd v1, v11
            v13 = load.i64 v12
            v14 = band v13, v6
            v15 = ishl v14, v5
            v16 = iadd v0, v15
            v17 = iadd v0, v11
            v18 = load.i64 v16
            v19 = load.i64 v17
            store v19, v16
            store v18, v17
            v30 = iadd v10, v4
            v31 = icmp ule v30, v2
            brif v31, block1(v30), block2
        block2:
            return";

#[test]
fn places_of_one_state_may_be_the_same() {
    is_exact(PAIRS);
    // Three of them, of which any may be the same: b, c, a in place of a, b, c.
    let three = PAIRS.replace(
        "v18 = load.i64 v16",
        "v40 = load.i64 v12+8\nv41 = band v40, v6\nv42 = ishl v41, v5\nv43 = iadd v0, v42\nv18 = load.i64 v16\nv44 = load.i64 v43",
    );
    let three = three.replace("store v18, v17", "store v44, v17\nstore v18, v43");
    for far in 1..14 {
        let apart = Some(std::array::from_fn(|i| (i as u64 + far) % 16));
        assert_eq!(there_and_back_by(&three, &[0], 20, 8, apart), (0.0, 0, true), "{far} apart");
    }
}

#[test]
fn places_that_are_the_same_and_cannot_be_undone_trap() {
    // The two are added, which forgets a number that is added to itself.
    let added = PAIRS.replace("store v19, v16", "v20 = iadd v18, v19\nstore v20, v16").replace("store v18, v17\n", "");
    let back = found(&function(&text(&added))).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(back.to_string().matches("trapnz").count(), 2, "{back}");
    // Two numbers of different sizes have to be apart.
    let sizes = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iadd v0, v2
            v4 = load.i64 v0
            v5 = load.i32 v3
            v6 = uextend.i64 v5
            v7 = bxor v4, v6
            store v7, v0
            return";
    let back = found(&function(&text(sizes))).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(back.to_string().matches("trapnz").count(), 1, "{back}");
    for n in [8, 12, 100] {
        assert_eq!(there_and_back(sizes, 20, n), (0.0, 0, true));
    }
    // A number that is shifted is no multiple of the distance: for zero both are v0+8.
    let shifted = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 8
            v4 = ishl v3, v2
            v5 = iadd v0, v4
            v6 = ishl v2, v3
            v7 = iadd v0, v6
            v8 = load.i64 v5
            v9 = load.i64 v7+8
            v10 = iadd v8, v9
            store v10, v5
            return";
    let back = found(&function(&text(shifted))).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(back.to_string().matches("trapnz").count(), 2, "{back}");
}

#[test]
fn what_is_lost_is_named() {
    let line = |body: &str| {
        refused(&format!(
            "block0(v0: i64, v1: i64, v2: i64):
            v3 = load.f64 v0
            v4 = load.f64 v0+8
            v5 = f64const 0x1.8p1
            v6 = iconst.i64 8
            {body}
            return"
        ))
    };
    let has = |found: String, parts: [&str; 2]| assert!(parts.iter().all(|p| found.contains(p)), "{found}");
    has(line("store v5, v0"), ["store.f64 v5, v0", "what was there before is not found again"]);
    has(line("store v5, v0+16"), ["store.f64 v5, v0+16", "it overwrites what it has not read"]);
    has(line("v7 = fmul v3, v4\nstore v7, v0"), ["v7 = fmul", "loses what v3 was"]);
    has(line("v7 = fadd v3, v3\nstore v7, v0"), ["v7 = fadd", "of two values that are not found again"]);
    has(line("v7 = fadd v3, v5\nstore v7, v1"), ["v7, v1", "it stores to what is no state"]);
    has(line("v7 = fadd v3, v5\nstore v7, v0+4"), ["v7, v0+4", "it stores to a part of what `v3 = load.f64 v0`"]);
    let by = line("v7 = load.i64 v0+16\nv8 = iadd v0, v7\nv9 = load.f64 v8\nv10 = fneg v9\nstore v10, v8");
    assert!(by.contains("is made of the state"), "{by}");
    let lost_value = refused(&TOP.replace("v13 = iadd v6, v4", "v13 = iadd v6, v10"));
    assert!(lost_value.contains("is made of the state"), "{lost_value}");
    let shifted = refused(&TOP.replace("v13 = iadd v6, v4", "v13 = ishl v6, v4"));
    assert!(shifted.contains("is not found again from what it is next"), "{shifted}");
    let within = refused(&BOTTOM.replace("brif v22, block4, block5", "brif v22, block4, block3"));
    assert!(within.contains("several latches, entries or ways out"), "{within}");
}

#[test]
fn a_value_of_many_ways_is_looked_at_once() {
    // Of each value twice the one before: 2^100 ways lead to the last.
    let chain: String = (3..103).map(|i| format!("v{} = iadd v{}, v{}\n", i + 1, i, i)).collect();
    is_exact(&format!(
        "block0(v0: i64, v1: i64, v2: i64):
            v3 = load.i64 v1
            {chain}
            v200 = load.i64 v0
            v201 = bxor v200, v103
            v202 = iadd v201, v3
            store v202, v0
            return"
    ));
}

#[test]
fn calls_that_do_more_are_refused() {
    let func = function(&text(&SUMS.replace("v6 = fmul v4, v4", "v6 = call fn0(v4)")));
    let lost = |_| UndoneCall::Lost("what it calls may do more".to_owned());
    let asked = InverseRequest { states: &[0], called: &lost, overlap: OVERLAP };
    let e = inverse(&func, &asked, UserFuncName::testcase("g")).unwrap_err();
    assert_eq!(e.why, "what it calls may do more");
    found(&func).expect("a sine is a number");
}

/// Where a place is: among the first eight by its number, or after them by one that is read. All
/// of the latter are different.
fn random_place(noise: &mut Noise, text: &mut String, next: &mut u64, by_index: bool) -> (u64, String) {
    let i = noise.below(6);
    if !by_index || noise.below(2) == 0 {
        return (i, format!("v0+{}", 8 * i));
    }
    *next += 5;
    let v = *next;
    *text += &format!(
        "v{} = load.i64 v1+{}\nv{} = iconst.i64 3\nv{} = ishl v{}, v{}\nv{v} = iadd v0, v{}\n",
        v - 4,
        8 * i,
        v - 3,
        v - 2,
        v - 4,
        v - 3,
        v - 2
    );
    (100 + i, format!("v{v}"))
}

/// Statements that change one number by others, or exchange two. `more` is a number to change by.
/// Where some are `chosen`, it may stay as it is.
fn random_body(noise: &mut Noise, by_index: bool, more: &str, chosen: bool) -> String {
    let (mut text, mut next) = (String::new(), 100);
    for _ in 0..=noise.below(if by_index { 2 } else { 8 }) {
        let (i, at) = random_place(noise, &mut text, &mut next, by_index);
        let others = [(); 2].map(|()| {
            loop {
                let (j, place) = random_place(noise, &mut text, &mut next, by_index);
                if j != i {
                    break place;
                }
            }
        });
        let mut value = |text: &mut String, what: String| {
            next += 1;
            *text += &format!("v{next} = {what}\n");
            next
        };
        let x = value(&mut text, format!("load.i64 {at}"));
        let [a, b] = [0, 1].map(|k| value(&mut text, format!("load.i64 {}", others[k])));
        let c = value(&mut text, format!("load.i64 v1+{}", 64 + 8 * noise.below(8)));
        let ops = ["iadd", "isub", "imul", "bxor", "band", "umin"];
        let e = value(&mut text, format!("{} v{a}, v{b}", noise.one_of(&ops)));
        let e = value(&mut text, format!("{} v{e}, v{c}", noise.one_of(&ops)));
        let e = value(&mut text, format!("{} v{e}, {more}", noise.one_of(&ops)));
        let new = match noise.below(7) {
            0 => value(&mut text, format!("iadd v{e}, v{x}")),
            1 => value(&mut text, format!("isub v{e}, v{x}")),
            2 => value(&mut text, format!("bxor v{x}, v{e}")),
            3 => value(&mut text, format!("rotl v{x}, v{e}")),
            4 => {
                let k = value(&mut text, format!("iconst.i64 {}", 2 * noise.below(1000) + 1));
                value(&mut text, format!("imul v{k}, v{x}"))
            }
            5 => value(&mut text, format!("bnot v{x}")),
            _ => {
                text += &format!("store v{x}, {}\n", others[0]);
                a
            }
        };
        let new = match chosen && new != a && noise.below(2) == 0 {
            true => {
                let c = value(&mut text, format!("icmp ult v{c}, {more}"));
                value(&mut text, format!("select v{c}, v{new}, v{x}"))
            }
            false => new,
        };
        text += &format!("store v{new}, {at}\n");
    }
    text
}

#[test]
fn random_functions_are_undone() {
    let (mut all, mut looked, mut picked) = (0, 0, 0);
    let seeds = brolga_testing::budget(300, 60);
    for seed in 0..seeds {
        let mut noise = Noise(seed * 7919 + 3);
        let (by_index, chosen) = (seed % 2 == 1, seed % 4 == 2);
        let head = "block0(v0: i64, v1: i64, v2: i64):";
        let straight = format!("{head}\n{}\nreturn", random_body(&mut noise, by_index, "v2", chosen));
        // A sum of what is read is carried, and used.
        let body = random_body(&mut noise, by_index, noise_of(seed), chosen);
        let looped = format!(
            "{head}\nv6 = iconst.i64 0\nv7 = iconst.i64 1\njump block1(v6, v2)\nblock1(v8: i64, v20: i64):\n\
             v10 = icmp ult v8, v2\nbrif v10, block2, block3\nblock2:\n{body}\nv9 = iadd v8, v7\n\
             v21 = load.i64 v1+64\nv22 = rotl v20, v21\nv23 = bxor v22, v9\njump block1(v9, v23)\nblock3:\nreturn"
        );
        let mut read = [0; 16];
        (0..8).for_each(|i| read[i] = 8 + (i as u64 * 5 + seed) % 8);
        read[8..].iter_mut().for_each(|r| *r = noise.below(1 << 40));
        for body in [straight, looped] {
            if by_index && found(&function(&text(&body))).is_err_and(|e| e.contains("as others may")) {
                continue;
            }
            // Two choices in a row need what lies between them.
            if chosen && found(&function(&text(&body))).is_err() {
                continue;
            }
            picked += u64::from(body.contains("select"));
            let (apart, differ, changed) = there_and_back_by(&body, &[0], 40, 3, Some(read));
            assert_eq!((apart, differ), (0.0, 0), "seed {seed}\n{body}");
            all += u64::from(changed);
            looked += u64::from(by_index);
        }
    }
    let enough = all >= seeds && looked >= seeds / 5;
    assert!(enough, "{all} of them do something, {looked} look where places are");
    assert!(picked >= seeds / 40, "{picked} choose");
}

/// What an iteration changes numbers by.
fn noise_of(seed: u64) -> &'static str {
    if seed.is_multiple_of(3) { "v8" } else { "v20" }
}
