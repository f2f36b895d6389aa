//! Where the value of a branch tells the way back, and where the way is logged or kept. What comes
//! out is tested by `ir-tests/cases/control/tables.clif`.

use brolga::{ArgActivity, Mode, Options, Request, Stage, dump};
use brolga_testing::program;

/// `n` bytes say what is done to `x`: it is added to, multiplied, or left as it is. `iteration` is
/// done in each iteration.
fn plan(iteration: &str) -> String {
    let text = "function %f(i64, i64, f64, f64) -> f64 system_v {
        block0(v0: i64, v1: i64, v2: f64, v3: f64):
            v4 = iadd v0, v1
            v5 = iconst.i64 1
            v6 = iconst.i32 0
            jump block1(v0, v2)
        block1(v7: i64, v8: f64):
            v9 = icmp ult v7, v4
            brif v9, block2, block6
        block2:
            v10 = uload8.i32 v7
            v11 = iadd v7, v5
            ITERATION
            br_table v10, block5(v8), [block3, block4]
        block3:
            v12 = fadd v8, v3
            jump block5(v12)
        block4:
            v13 = fmul v8, v3
            jump block5(v13)
        block5(v14: f64):
            jump block1(v11, v14)
        block6:
            return v8
        }";
    let program = program(&text.replace("ITERATION", iteration));
    let (f, active) = (program.func("f").unwrap(), ArgActivity::Active);
    let request = Request::new(f, [ArgActivity::Const, ArgActivity::Const, active, active]);
    let options = Options { mode: Mode::Combined, ..Options::full() };
    dump(&program, &request, &options, Stage::Combined).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_index_tells_the_way_if_it_is_to_be_had() {
    let (table, log) =
        ("v10, the index of the table in block2, tells which", "the number on top of the tape tells which");
    let there = plan("");
    assert!(there.contains(table) && !there.contains(log), "{there}");
    let overwritten = plan("istore8 v6, v7");
    assert!(!overwritten.contains(table) && overwritten.contains(log), "{overwritten}");
}

/// What the plan says of a join that runs once, after a branch on an argument of this type.
fn plan_of_join(branch: &str, ty: &str, mode: Mode) -> String {
    let text = "function %f(TYPE, f64) -> f64 system_v {
        block0(v0: TYPE, v1: f64):
            BRANCH
        block1:
            v2 = fadd v1, v1
            jump block3(v2)
        block2:
            v3 = fmul v1, v1
            jump block3(v3)
        block3(v4: f64):
            return v4
        }";
    let program = program(&text.replace("TYPE", ty).replace("BRANCH", branch));
    let request = Request::new(program.func("f").unwrap(), [ArgActivity::Const, ArgActivity::Active]);
    let stage = if mode == Mode::Split { Stage::Forward } else { Stage::Combined };
    dump(&program, &request, &Options { mode, ..Options::full() }, stage).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn where_a_block_runs_once_the_branch_tells_the_way_if_that_takes_no_more_room() {
    let brif = "brif v0, block1, block2";
    let table = "br_table v0, block2, [block1, block2, block1]";
    let by_value = |plan: String| match (plan.contains("if v0, else"), plan.contains("the index of the table")) {
        (false, false) => {
            assert!(plan.contains("tells which"), "{plan}");
            false
        }
        (condition, index) => condition != index,
    };
    for ty in ["i8", "i32", "i64"] {
        assert!(by_value(plan_of_join(brif, ty, Mode::Combined)), "{ty}");
        assert_eq!(by_value(plan_of_join(brif, ty, Mode::Split)), ty == "i8");
    }
    assert!(by_value(plan_of_join(table, "i32", Mode::Combined)));
    assert!(!by_value(plan_of_join(table, "i32", Mode::Split)));
}
