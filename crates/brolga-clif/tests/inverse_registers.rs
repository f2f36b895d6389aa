//! Inverses of functions that an optimiser has been at: loads above branches, choices in registers,
//! what a loop carries in place of memory.
//!
//! Seen to fail: a place that one way does not store to (`Demotion::is_overwritten`), a choice by
//! what the function changes.

use crate::undone::{is_exact, refused, there_and_back_by};

/// `a || b`, in a loop: three ways, of which two run the same. Where all of them meet is after it.
/// Seen to fail: with the first block that both ways of a branch lead to, what is after the first
/// condition was undone always, and what is after both twice.
#[test]
fn branches_that_share_a_way_are_refused() {
    let shared = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 1
            v4 = iconst.i64 3
            v5 = iconst.i64 0
            jump block1(v5)
        block1(v6: i64):
            v7 = ishl v6, v4
            v8 = iadd v1, v7
            v9 = iadd v0, v7
            v10 = load.i64 v8
            v11 = band v10, v3
            brif v11, block3, block2
        block2:
            v12 = load.i64 v8+8
            v13 = band v12, v3
            brif v13, block3, block4
        block3:
            v14 = load.i64 v9
            v15 = iadd v14, v2
            store v15, v9
            jump block4
        block4:
            v16 = iadd v6, v3
            v17 = icmp ult v16, v2
            brif v17, block1(v16), block5
        block5:
            return";
    let said = refused(shared);
    assert!(said.contains("brif") || said.contains("jump"), "{said}");
    is_exact(&shared.replace("brif v13, block3, block4", "jump block4"));
}

#[test]
fn loads_above_a_branch_may_be_in_front_of_stores_elsewhere() {
    let body = |store: &str| {
        format!(
            "block0(v0: i64, v1: i64, v2: i64):
                v3 = load.i64 v0
                v4 = load.i64 v0+8
                v5 = bnot v4
                {store}
                brif v2, block1, block2
            block1:
                v7 = iadd v3, v2
                store v7, v0
                jump block2
            block2:
                return"
        )
    };
    is_exact(&body("store v5, v0+8"));
    refused(&body("store v5, v0+4"));
}

/// What is chosen in registers, and stored after that.
const CHOSEN: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 1
            v4 = load.i64 v0
            v5 = load.i64 v0+8
            v6 = band v2, v3
            brif v6, block1, block2(v4, v5)
        block1:
            v7 = iadd v4, v2
            v8 = rotl v5, v2
            jump block2(v7, v8)
        block2(v10: i64, v11: i64):
            v12 = imul v10, v2
            v13 = bxor v11, v12
            store v10, v0
            store v13, v0+8
            return";

/// The same, twice, by `select`; the address is computed after the choice.
const SELECTED: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 1
            v20 = load.i64 v1
            v21 = iconst.i64 56
            v22 = band v20, v21
            v4 = iadd v0, v22
            v5 = load.i64 v4+8
            v6 = band v2, v3
            v7 = iadd v5, v2
            v8 = select v6, v7, v5
            v9 = icmp ugt v2, v3
            v10 = rotl v8, v2
            v11 = select v9, v10, v8
            v12 = iconst.i64 8
            v13 = iadd v4, v12
            store v11, v13
            return";

/// A sum over other memory that a loop carries in a register, asked before an iteration.
const SUMMED: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = load.i64 v0+8
            v6 = iconst.i64 1
            jump block1(v3, v4)
        block1(v10: i64, v11: i64):
            v17 = icmp ult v10, v2
            brif v17, block3, block2
        block3:
            v12 = load.i64 v1
            v13 = rotl v11, v12
            v14 = isub v13, v10
            v16 = iadd v10, v6
            jump block1(v16, v14)
        block2:
            store v11, v0+8
            return";

/// What a loop carries in registers: two numbers, by turns.
const PROMOTED: &str = "block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = load.i64 v0+8
            v5 = load.i64 v0+24
            v6 = iconst.i64 1
            jump block1(v3, v4, v5)
        block1(v10: i64, v11: i64, v12: i64):
            v13 = rotl v12, v10
            v14 = isub v13, v11
            v15 = bxor v11, v14
            v16 = iadd v10, v6
            v17 = icmp ult v16, v2
            brif v17, block1(v16, v14, v15), block2
        block2:
            store v14, v0+8
            store v15, v0+24
            return";

#[test]
fn what_is_kept_in_registers_is_put_back_into_memory() {
    for body in [CHOSEN, SELECTED, SUMMED, PROMOTED] {
        for n in [1, 2, 3, 5, 8] {
            assert_eq!(there_and_back_by(body, &[0], 500, n, Some([16; 16])), (0.0, 0, true), "n = {n}\n{body}");
        }
    }
    // What is chosen by a number of the state stays a choice: it is found again, and is not undone.
    is_exact(
        "block0(v0: i64, v1: i64, v2: i64):
            v4 = load.i64 v0
            v5 = load.i64 v0+8
            v6 = iconst.i64 0
            v7 = icmp sgt v4, v6
            v8 = select v7, v4, v6
            v9 = iadd v5, v8
            store v9, v0+8
            v10 = iadd v4, v2
            v11 = icmp sgt v2, v6
            v12 = select v11, v10, v4
            store v12, v0
            return",
    );
    // What decides is one of the numbers; the place is read between; one way does not store there.
    for (body, from, to) in [
        (CHOSEN, "band v2, v3", "band v4, v3"),
        (CHOSEN, "v12 = imul v10, v2", "v14 = load.i64 v0\nv12 = imul v14, v2"),
        (SELECTED, "icmp ugt v2, v3", "icmp ugt v5, v3"),
        (CHOSEN, "store v13, v0+8\n", "brif v2, block3, block4\nblock3:\nstore v13, v0+8\njump block4\nblock4:\n"),
        (PROMOTED, "block2:\n", "block2:\nbrif v2, block3, block4\nblock4:\nreturn\nblock3:\n"),
    ] {
        let changed = body.replace(from, to);
        assert_ne!(changed, body);
        refused(&changed);
    }
}
