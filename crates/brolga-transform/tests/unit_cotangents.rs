//! Whose cotangent is known to be one, where the seed is:
//! `brolga_analysis::guards::unit_cotangents`, on small functions. That gradients stay the same is
//! tried on every call of `ir-tests` that has one result.

use brolga_ir::{ArgActivity, Options, Program, Request, ResultActivity};
use brolga_testing::function;
use brolga_transform::derive::derive_with;
use cranelift_codegen::ir::types;

use crate::host;

/// Names of the values of `%f` whose cotangent is one, in order. Floats are active, integers
/// constant.
fn units(text: &str) -> String {
    let func = function(text);
    let mut program = Program::new();
    let params: Vec<_> = func.signature.params.iter().map(|p| p.value_type).collect();
    let key = program.define("f", func, |_| 0).unwrap();
    let activity = params.iter().map(|t| match *t {
        types::I64 => ArgActivity::Duplicated,
        t if t.is_float() => ArgActivity::Active,
        _ => ArgActivity::Const,
    });
    let request = Request { results: vec![ResultActivity::Unit], ..Request::new(key, activity) };
    let isa = host::isa();
    let mut found = Vec::new();
    let derived = derive_with(&program, &request, &Options::full(), &*isa, |stages| {
        found = stages.facts.func().dfg.values().filter(|v| stages.facts.unit_cotangents.contains(*v)).collect();
        assert_eq!(stages.facts.variant.pullback_signature(&stages.facts.func().signature).params.len(), 1);
    });
    derived.unwrap();
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn sums() {
    // Not what is multiplied or subtracted, nor what is in the sum twice.
    let found = units(
        "function %f(f64, f64, f64, f64) -> f64 {
        block0(v0: f64, v1: f64, v2: f64, v3: f64):
            v4 = fmul v0, v1
            v5 = fadd v4, v2
            v6 = fadd v3, v3
            v7 = fsub v5, v6
            return v7
        }",
    );
    assert_eq!(found, "v2 v4 v5 v7");
}

#[test]
fn a_loop() {
    // The sum in each iteration, and what is added to it; not what is also added to the square.
    let found = units(
        "function %f(i64, i32) -> f64 {
        block0(v0: i64, v1: i32):
            v2 = f64const 0.0
            jump block1(v0, v1, v2)
        block1(v3: i64, v4: i32, v5: f64):
            brif v4, block2, block3
        block2:
            v6 = load.f64 v3
            v7 = load.f64 v3+8
            v8 = fmul v7, v7
            v9 = fadd v6, v8
            v10 = fadd v5, v9
            v11 = iconst.i64 16
            v12 = iadd v3, v11
            v13 = iconst.i32 -1
            v14 = iadd v4, v13
            jump block1(v12, v14, v10)
        block3:
            return v5
        }",
    );
    // A comparison with zero is put before the branch: later values have other names.
    assert_eq!(found, "v6 v8 v10 v11 v12");
}

#[test]
fn branches() {
    // v1 is used on both ways, v2 on one only, v3 on both at once.
    let found = units(
        "function %f(i32, f64, f64, f64) -> f64 {
        block0(v0: i32, v1: f64, v2: f64, v3: f64):
            brif v0, block1, block2
        block1:
            v4 = fadd v1, v3
            jump block3(v4)
        block2:
            v5 = fadd v1, v2
            jump block3(v5)
        block3(v6: f64):
            v7 = fadd v6, v3
            return v7
        }",
    );
    assert_eq!(found, "v1 v4 v5 v6 v7");
}

#[test]
fn what_is_left_behind() {
    // Each iteration makes another v5, and only the last is returned.
    let found = units(
        "function %f(i32, f64) -> f64 {
        block0(v0: i32, v1: f64):
            jump block1(v0, v1)
        block1(v3: i32, v4: f64):
            v5 = fadd v1, v1
            v6 = iconst.i32 -1
            v7 = iadd v3, v6
            brif v7, block1(v7, v5), block2
        block2:
            return v5
        }",
    );
    assert_eq!(found, "");
}

#[test]
fn two_returns_and_a_trap() {
    let found = units(
        "function %f(i32, f64, f64) -> f64 {
        block0(v0: i32, v1: f64, v2: f64):
            v3 = fadd v1, v2
            br_table v0, block1, [block2, block3]
        block1:
            trap user1
        block2:
            return v3
        block3:
            v4 = fadd v3, v2
            return v4
        }",
    );
    assert_eq!(found, "v1 v3 v4");
}
