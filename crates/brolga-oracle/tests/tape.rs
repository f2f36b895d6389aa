//! The tape against closed forms.

use brolga_oracle::{Activity, CustomFunction, Limits, Oracle, OracleArg, OracleError, OracleOutcome, gradient};
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;

use crate::common::{close, dup, dup32, f32v, f64_of, f64v, func};

fn run(text: &str, args: &[OracleArg], seeds: &[DataValue]) -> Result<OracleOutcome, OracleError> {
    let p = program(text);
    unsafe { gradient(&p, func(&p, "f"), args, seeds, &Limits::default()) }
}

/// Value and gradient of a function of floats.
fn grad(text: &str, x: &[f64]) -> (f64, Vec<f64>) {
    let args: Vec<OracleArg> = x.iter().map(|&x| OracleArg::active(f64v(x))).collect();
    let r = run(text, &args, &[f64v(1.0)]).unwrap_or_else(|e| panic!("{e}"));
    (f64_of(&r.values[0]), r.arg_cotangents.iter().map(|c| f64_of(c.as_ref().unwrap())).collect())
}

fn check(text: &str, x: &[f64], value: f64, expected: &[f64]) {
    let (v, g) = grad(text, x);
    assert!(close(v, value, 1e-14), "value {v}, not {value}");
    assert_eq!(g.len(), expected.len());
    for (g, e) in g.iter().zip(expected) {
        assert!(close(*g, *e, 1e-14), "gradient {g}, not {e}");
    }
}

#[test]
fn shared_operands_accumulate() {
    let text = "function %f(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = fmul v0, v0
        v2 = fadd v1, v0
        return v2
    }";
    check(text, &[3.0], 12.0, &[7.0]);
}

#[test]
fn the_engine_of_the_example() {
    // x² + 3x + 2 at 5.
    let text = "function %f(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = fmul v0, v0
        v2 = f64const 0x1.8p1
        v3 = fmul v2, v0
        v4 = fadd v1, v3
        v5 = f64const 0x1.0p1
        v6 = fadd v4, v5
        return v6
    }";
    check(text, &[5.0], 42.0, &[13.0]);
}

#[test]
fn imported_functions() {
    let text = "function %f(f64, f64) -> f64 system_v {
        fn0 = %sin(f64) -> f64 system_v
        fn1 = %pow(f64, f64) -> f64 system_v
    block0(v0: f64, v1: f64):
        v2 = call fn0(v0)
        v3 = call fn1(v2, v1)
        return v3
    }";
    let (x, y) = (0.7f64, 2.5f64);
    let s = x.sin();
    check(text, &[x, y], s.powf(y), &[y * s.powf(y - 1.0) * x.cos(), s.powf(y) * s.ln()]);
}

const POWER_LOOP: &str = "function %f(f64, i64) -> f64 system_v {
    block0(v0: f64, v1: i64):
        v2 = f64const 0x1.0p0
        jump block1(v1, v2)
    block1(v3: i64, v4: f64):
        brif v3, block2, block3
    block2:
        v5 = fmul.f64 v4, v0
        v6 = iconst.i64 1
        v7 = isub.i64 v3, v6
        jump block1(v7, v5)
    block3:
        return v4
    }";

#[test]
fn loops() {
    let args = [OracleArg::active(f64v(1.1)), OracleArg::constant(DataValue::I64(10))];
    let r = run(POWER_LOOP, &args, &[f64v(2.0)]).unwrap();
    assert!(close(f64_of(r.arg_cotangents[0].as_ref().unwrap()), 20.0 * 1.1f64.powi(9), 1e-14));
    assert_eq!(r.arg_cotangents[1], None);
    assert_eq!(r.nodes, 11);
}

#[test]
fn recursion() {
    // x^n by recursion.
    let text = "function %f(f64, i64) -> f64 fast {
        fn0 = %f(f64, i64) -> f64 fast
    block0(v0: f64, v1: i64):
        v2 = f64const 0x1.0p0
        brif v1, block1, block2(v2)
    block1:
        v3 = iconst.i64 1
        v4 = isub.i64 v1, v3
        v5 = call fn0(v0, v4)
        v6 = fmul.f64 v5, v0
        jump block2(v6)
    block2(v7: f64):
        return v7
    }";
    let args = [OracleArg::active(f64v(1.5)), OracleArg::constant(DataValue::I64(6))];
    let r = run(text, &args, &[f64v(1.0)]).unwrap();
    assert!(close(f64_of(r.arg_cotangents[0].as_ref().unwrap()), 6.0 * 1.5f64.powi(5), 1e-14));
}

#[test]
fn tail_calls_take_no_stack_and_depth_is_limited() {
    let text = |call: &str| {
        format!(
            "function %f(f64, i64) -> f64 tail {{
            fn0 = %f(f64, i64) -> f64 tail
        block0(v0: f64, v1: i64):
            brif v1, block1, block2(v0)
        block1:
            v2 = f64const 0x1.0p-10
            v3 = fadd.f64 v0, v2
            v4 = iconst.i64 1
            v5 = isub.i64 v1, v4
            {call}
        block2(v7: f64):
            return v7
        }}"
        )
    };
    let args = [OracleArg::active(f64v(1.0)), OracleArg::constant(DataValue::I64(300_000))];
    let r = run(&text("return_call fn0(v3, v5)"), &args, &[f64v(1.0)]).unwrap();
    assert_eq!(f64_of(r.arg_cotangents[0].as_ref().unwrap()), 1.0);
    let e = run(&text("v6 = call fn0(v3, v5)\n jump block2(v6)"), &args, &[f64v(1.0)]).unwrap_err();
    assert!(matches!(e, OracleError::Depth { .. }), "{e}");
}

/// x[i] *= x[i] for all i, then the sum.
const SQUARES: &str = "function %f(i64, i64) -> f64 system_v {
    block0(v0: i64, v1: i64):
        v2 = f64const 0.0
        jump block1(v0, v1, v2)
    block1(v3: i64, v4: i64, v5: f64):
        brif v4, block2, block3
    block2:
        v6 = load.f64 v3
        v7 = fmul v6, v6
        store v7, v3
        v8 = fadd v5, v7
        v9 = iconst.i64 8
        v10 = iadd v3, v9
        v11 = iconst.i64 1
        v12 = isub v4, v11
        jump block1(v10, v12, v8)
    block3:
        return v5
    }";

#[test]
fn overwritten_buffers_read_and_clear_their_shadow() {
    let mut x = [1.0, 2.0, 3.0, 4.0];
    // Three elements are overwritten, the fourth is not touched.
    let args = [dup(&mut x, Some(vec![0.0, 10.0, 0.0, 5.0])), OracleArg::constant(DataValue::I64(3))];
    let r = run(SQUARES, &args, &[f64v(1.0)]).unwrap();
    assert_eq!(r.shadows[0], Some(vec![2.0, 44.0, 6.0, 5.0]));
    assert_eq!(x, [1.0, 4.0, 9.0, 4.0]);
}

#[test]
fn aliased_buffers_are_one() {
    // *p * *q, p = q.
    let text = "function %f(i64, i64) -> f64 system_v {
    block0(v0: i64, v1: i64):
        v2 = load.f64 v0
        v3 = load.f64 v1
        v4 = fmul v2, v3
        return v4
    }";
    let mut x = [3.0];
    let (a, b) = (dup(&mut x, None), dup(&mut x, None));
    let r = run(text, &[a, b], &[f64v(1.0)]).unwrap();
    assert_eq!(r.shadows, vec![Some(vec![6.0]), Some(vec![6.0])]);
}

#[test]
fn stack_slots_and_data_movement_by_bytes() {
    // Copy a float byte by byte through a stack slot, square it.
    let text = "function %f(f64) -> f64 system_v {
        ss0 = explicit_slot 16
    block0(v0: f64):
        v1 = stack_addr.i64 ss0
        store v0, v1
        v2 = iconst.i64 8
        jump block1(v2)
    block1(v3: i64):
        v4 = iconst.i64 1
        v5 = isub v3, v4
        v6 = iadd.i64 v1, v5
        v7 = uload8.i64 v6
        istore8 v7, v6+8
        brif v5, block1(v5), block2
    block2:
        v8 = load.f64 v1+8
        v9 = fmul v8, v0
        return v9
    }";
    check(text, &[3.0], 9.0, &[6.0]);
}

#[test]
fn imported_memory_functions() {
    let text = "function %f(i64, i64) system_v {
        fn0 = %memcpy(i64, i64, i64) -> i64 system_v
        fn1 = %malloc(i64) -> i64 system_v
        fn2 = %realloc(i64, i64) -> i64 system_v
        fn3 = %free(i64) system_v
        fn4 = %memset(i64, i32, i64) -> i64 system_v
    block0(v0: i64, v1: i64):
        v2 = iconst.i64 16
        v3 = call fn1(v2)
        v4 = call fn0(v3, v0, v2)
        v5 = iconst.i64 64
        v6 = call fn2(v3, v5)
        v7 = call fn0(v1, v6, v2)
        v8 = iconst.i32 0
        v9 = iconst.i64 8
        v10 = call fn4(v1, v8, v9)
        call fn3(v6)
        return
    }";
    let (mut x, mut y) = ([1.0, 2.0], [7.0, 8.0]);
    let args = [dup(&mut x, Some(vec![0.5, 0.0])), dup(&mut y, Some(vec![10.0, 20.0]))];
    let r = run(text, &args, &[]).unwrap();
    assert_eq!(y, [0.0, 2.0]);
    assert_eq!(r.shadows, vec![Some(vec![0.5, 20.0]), Some(vec![0.0, 0.0])]);
}

fn one_block(body: &str) -> String {
    format!("function %f(f64, f64) -> f64 system_v {{\nblock0(v0: f64, v1: f64):\n{body}\n}}")
}

#[test]
fn integer_disguises() {
    // Two floats through an i128 and back, halves exchanged.
    check(
        &one_block(
            "v2 = bitcast.i64 v0
             v3 = bitcast.i64 v1
             v4 = iconcat v2, v3
             v5, v6 = isplit v4
             v7 = bitcast.f64 v6
             v8 = bitcast.f64 v5
             v9 = fdiv v7, v8
             return v9",
        ),
        &[2.0, 3.0],
        1.5,
        &[-0.75, 0.5],
    );
    // The word is taken apart and put together by shifts.
    check(
        &one_block(
            "v2 = bitcast.i64 v0
             v10 = iconst.i64 32
             v3 = ushr v2, v10
             v4 = ireduce.i32 v2
             v5 = uextend.i64 v4
             v6 = ishl v3, v10
             v7 = iadd v6, v5
             v8 = bswap v7
             v9 = bswap v8
             v11 = bitcast.f64 v9
             v12 = fmul v11, v1
             return v12",
        ),
        &[2.0, 3.0],
        6.0,
        &[3.0, 2.0],
    );
}

#[test]
fn two_singles_in_one_word() {
    let text = "function %f(i64) -> f32 system_v {
    block0(v0: i64):
        v1 = load.i64 v0
        v2 = iconst.i64 32
        v3 = ushr v1, v2
        v4 = ireduce.i32 v3
        v5 = bitcast.f32 v4
        v6 = ireduce.i32 v1
        v7 = bitcast.f32 v6
        v8 = fmul v5, v5
        v9 = fmul v8, v7
        return v9
    }";
    let mut x = [3.0f32, 5.0];
    let r = run(text, &[dup32(&mut x, None)], &[f32v(1.0)]).unwrap();
    assert_eq!(r.shadows[0], Some(vec![25.0, 30.0]));
}

#[test]
fn sign_masks() {
    let abs = "v2 = bitcast.i64 v0
        v3 = iconst.i64 0x7fff_ffff_ffff_ffff
        v4 = band v2, v3
        v5 = bitcast.f64 v4
        v6 = fmul v5, v1
        return v6";
    check(&one_block(abs), &[-2.0, 3.0], 6.0, &[-3.0, 2.0]);
    check(&one_block(abs), &[0.0, 3.0], 0.0, &[0.0, 0.0]);
    let neg = "v2 = bitcast.i64 v0
        v3 = iconst.i64 0x8000_0000_0000_0000
        v4 = bxor v2, v3
        v5 = bitcast.f64 v4
        v6 = fmul v5, v1
        return v6";
    check(&one_block(neg), &[-2.0, 3.0], 6.0, &[-3.0, 2.0]);
    let copysign = "v2 = bitcast.i64 v0
        v3 = iconst.i64 0x7fff_ffff_ffff_ffff
        v4 = band v2, v3
        v5 = bitcast.i64 v1
        v6 = bnot v3
        v7 = band v5, v6
        v8 = bor v4, v7
        v9 = bitcast.f64 v8
        return v9";
    check(&one_block(copysign), &[-2.0, -3.0], -2.0, &[1.0, 0.0]);
    check(&one_block(copysign), &[-2.0, 3.0], 2.0, &[-1.0, 0.0]);
    // A mask on the float type itself, and a branch-free choice by lane mask.
    let select = "v2 = fcmp lt v0, v1
        v3 = bmask.i64 v2
        v4 = bitcast.f64 v3
        v5 = bitselect v4, v0, v1
        return v5";
    check(&one_block(select), &[2.0, 3.0], 2.0, &[1.0, 0.0]);
    check(&one_block(select), &[3.0, 2.0], 2.0, &[0.0, 1.0]);
    // Sign by shift: locally constant.
    let sign = "v2 = bitcast.i64 v0
        v3 = iconst.i64 63
        v4 = ushr v2, v3
        v5 = fcvt_from_uint.f64 v4
        v6 = fmul v5, v1
        return v6";
    check(&one_block(sign), &[-2.0, 3.0], 3.0, &[0.0, 1.0]);
}

#[test]
fn untracked_bits_are_reported() {
    let mixed = one_block(
        "v2 = bitcast.i64 v0
        v3 = iconst.i64 13
        v4 = ushr v2, v3
        v6 = bxor v2, v4
        v7 = bitcast.f64 v6
        v8 = fmul v7, v1
        return v8",
    );
    let args = [OracleArg::active(f64v(2.0)), OracleArg::active(f64v(1.0))];
    let e = run(&mixed, &args, &[f64v(1.0)]).unwrap_err();
    assert!(matches!(&e, OracleError::Untracked { at } if at.text.contains("bxor") || at.text.contains("ushr")), "{e}");
    // The same bits are fine where nothing depends on them.
    let unused = mixed.replace("v8 = fmul v7, v1", "v8 = fmul v0, v1");
    assert!(run(&unused, &args, &[f64v(1.0)]).is_ok());
    // A float of which one half is another's is no float.
    let torn = one_block(
        "v2 = bitcast.i64 v0
        v3 = bitcast.i64 v1
        v4 = iconst.i64 0xffff_ffff
        v5 = band v2, v4
        v6 = bnot v4
        v7 = band v3, v6
        v8 = bor v5, v7
        v9 = bitcast.f64 v8
        return v9",
    );
    assert!(matches!(run(&torn, &args, &[f64v(1.0)]), Err(OracleError::Untracked { .. })));
}

#[test]
fn vectors() {
    let text = "function %f(f64x2, f64) -> f64 system_v {
    block0(v0: f64x2, v1: f64):
        v2 = splat.f64x2 v1
        v3 = fmul v0, v2
        v4 = bitcast.i8x16 little v3
        v5 = shuffle v4, v4, [8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7]
        v6 = bitcast.f64x2 little v5
        v7 = fmul v6, v0
        v8 = extractlane v7, 0
        return v8
    }";
    let lanes = |a: f64, b: f64| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&a.to_le_bytes());
        bytes[8..].copy_from_slice(&b.to_le_bytes());
        DataValue::V128(bytes)
    };
    let args = [OracleArg::active(lanes(2.0, 5.0)), OracleArg::active(f64v(3.0))];
    let r = run(text, &args, &[f64v(1.0)]).unwrap();
    assert_eq!(f64_of(&r.values[0]), 30.0);
    assert_eq!(r.arg_cotangents[0], Some(lanes(15.0, 6.0)));
    assert_eq!(f64_of(r.arg_cotangents[1].as_ref().unwrap()), 10.0);
}

#[test]
fn kinks_and_strong_zeros() {
    let unary = |op: &str| one_block(&format!("v2 = {op} v0\nv3 = fadd v2, v1\nreturn v3"));
    let binary = |op: &str| one_block(&format!("v2 = {op} v0, v1\nreturn v2"));
    for op in ["fmin", "fmax"] {
        check(&binary(op), &[2.0, 2.0], 2.0, &[0.5, 0.5]);
        check(&binary(op), &[f64::NAN, 2.0], f64::NAN, &[1.0, 0.0]);
        check(&binary(op), &[2.0, f64::NAN], f64::NAN, &[0.0, 1.0]);
    }
    check(&binary("fmin"), &[2.0, 3.0], 2.0, &[1.0, 0.0]);
    check(&binary("fmax"), &[2.0, 3.0], 3.0, &[0.0, 1.0]);
    check(&binary("fcopysign"), &[0.0, -3.0], 0.0, &[0.0, 0.0]);
    check(&binary("fcopysign"), &[-1.0, 3.0], 1.0, &[-1.0, 0.0]);
    check(&unary("fabs"), &[-0.0, 0.0], 0.0, &[0.0, 1.0]);
    check(&unary("sqrt"), &[0.0, 0.0], 0.0, &[f64::INFINITY, 1.0]);
    check(&unary("floor"), &[2.5, 0.0], 2.0, &[0.0, 1.0]);
    // sqrt(x)·y at (0, 0): the cotangent of the root is exactly zero, the slope infinite.
    check(&one_block("v2 = sqrt v0\nv3 = fmul v2, v1\nreturn v3"), &[0.0, 0.0], 0.0, &[0.0, 0.0]);
}

#[test]
fn function_pointers() {
    let text = "function %sq(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = fmul v0, v0
        return v1
    }
    function %f(f64, i64) -> f64 system_v {
        sig0 = (f64) -> f64 system_v
        fn0 = %sq(f64) -> f64 system_v
        fn1 = %exp(f64) -> f64 system_v
    block0(v0: f64, v1: i64):
        v2 = func_addr.i64 fn0
        v3 = func_addr.i64 fn1
        v4 = select v1, v2, v3
        v5 = call_indirect sig0, v4(v0)
        return v5
    }";
    let at = |i| {
        let args = [OracleArg::active(f64v(1.5)), OracleArg::constant(DataValue::I64(i))];
        f64_of(run(text, &args, &[f64v(1.0)]).unwrap().arg_cotangents[0].as_ref().unwrap())
    };
    assert_eq!(at(1), 3.0);
    assert!(close(at(0), 1.5f64.exp(), 1e-15));
}

#[test]
fn bad_calls_are_refused() {
    let args = [OracleArg::active(f64v(1.0))];
    assert!(matches!(run(SQUARES, &args, &[f64v(1.0)]), Err(OracleError::BadCall(_))));
    let mut x = [1.0];
    let args = [dup(&mut x, Some(vec![1.0, 2.0])), OracleArg::constant(DataValue::I64(1))];
    assert!(matches!(run(SQUARES, &args, &[f64v(1.0)]), Err(OracleError::BadCall(_))));
    let args = [OracleArg { activity: Activity::Active, ..OracleArg::constant(DataValue::I64(1)) }];
    let text = "function %f(i64) -> f64 system_v {\nblock0(v0: i64):\n v1 = f64const 0.0\n return v1\n}";
    assert!(matches!(run(text, &args, &[f64v(1.0)]), Err(OracleError::BadCall(_))));
}

#[test]
fn floats_with_integers_and_own_functions() {
    let two = |name: &str, second: &str, x: f64, y: i64| {
        let text = format!(
            "function %f(f64, i64) -> f64 system_v {{
            ss0 = explicit_slot 8
            fn0 = %{name}(f64, {second}) -> f64 system_v
        block0(v0: f64, v1: i64):
            v2 = {}
            v3 = call fn0(v0, v2)
            v4 = fmul v3, v0
            return v4
        }}",
            if second == "i32" { "ireduce.i32 v1" } else { "stack_addr.i64 ss0" }
        );
        let args = [OracleArg::active(f64v(x)), OracleArg::constant(DataValue::I64(y))];
        let r = run(&text, &args, &[f64v(1.0)]).unwrap_or_else(|e| panic!("{e}"));
        (f64_of(&r.values[0]), f64_of(r.arg_cotangents[0].as_ref().unwrap()))
    };
    // (g(x)·x, g'(x)·x + g(x))
    assert_eq!(two("ldexp", "i32", 1.5, 3), (18.0, 24.0));
    assert_eq!(two("scalbn", "i32", 1.5, -1), (1.125, 1.5));
    assert_eq!(two("frexp", "i64", 6.0, 0), (4.5, 1.5));
    assert_eq!(two("modf", "i64", -2.25, 0), (0.5625, -2.5));

    let p = program(
        "function %f(f64, f64) -> f64 system_v {
        fn0 = %area(f64, f64) -> f64 system_v
    block0(v0: f64, v1: f64):
        v2 = call fn0(v0, v1)
        v3 = fmul v2, v2
        return v3
    }",
    );
    let area = CustomFunction { arity: 2, value: |x| x[0] * x[1], slopes: |x| [x[1], x[0], 0.0] };
    let args = [OracleArg::active(f64v(2.0)), OracleArg::active(f64v(3.0))];
    let r = unsafe { Oracle::new(&p).external("area", area).gradient(func(&p, "f"), &args, &[f64v(1.0)]) }.unwrap();
    assert_eq!(r.arg_lanes, vec![Some(vec![36.0]), Some(vec![24.0])]);
}

#[test]
fn other_float_formats_are_moved_but_not_computed_with() {
    let moved = "function %f(f64) -> f64 system_v {
        ss0 = explicit_slot 16
        ss1 = explicit_slot 16
    block0(v0: f64):
        v1 = stack_addr.i64 ss0
        store v0, v1
        v2 = load.f128 v1
        v3 = stack_addr.i64 ss1
        store v2, v3
        v4 = load.f64 v3
        v5 = fmul v4, v4
        return v5
    }";
    check(moved, &[3.0], 9.0, &[6.0]);
    let computed = "function %f(f16) -> f16 system_v {
    block0(v0: f16):
        v1 = fadd v0, v0
        return v1
    }";
    let half = DataValue::F16(cranelift_codegen::ir::immediates::Ieee16::with_bits(0x3c00));
    let e = run(computed, &[OracleArg::constant(half.clone())], &[half]).unwrap_err();
    assert!(matches!(e, OracleError::Unsupported { .. }), "{e}");
}

#[test]
fn lane_masks_choose_between_active_vectors() {
    // min(x, y) in both lanes by comparison mask, in three spellings.
    for choice in [
        "v4 = fcmp lt v2, v3\nv5 = bitcast.f64x2 little v4\nv6 = bitselect v5, v2, v3",
        "v4 = fcmp lt v2, v3\nv5 = bitcast.f64x2 little v4\nv6 = blendv v5, v2, v3",
        "v4 = fcmp lt v2, v3\nv5 = bitcast.f64x2 little v4\nv7 = band v2, v5\nv8 = bnot v5\nv9 = band v3, v8\nv6 = bor v7, v9",
    ] {
        let text = format!(
            "function %f(f64, f64) -> f64 system_v {{
        block0(v0: f64, v1: f64):
            v2 = splat.f64x2 v0
            v13 = splat.f64x2 v1
            v14 = f64const 0x1.0p0
            v3 = insertlane v13, v14, 1
            {choice}
            v10 = extractlane v6, 0
            v11 = extractlane v6, 1
            v12 = fmul v10, v11
            return v12
        }}"
        );
        // lanes (x, x) and (y, 1)
        check(&text, &[2.0, 3.0], 2.0, &[1.0, 0.0]);
        check(&text, &[0.5, 0.25], 0.125, &[0.25, 0.5]);
    }
}

#[test]
fn it_is_known_whether_the_sign_of_a_nan_is_that_of_a_number() {
    let defined = "function %f(f64, f64) -> f64 system_v {
    block0(v0: f64, v1: f64):
        v2 = fcopysign v0, v1
        return v2
    }";
    let imported = "function %f(f64, f64) -> f64 system_v {
        fn0 = %copysign(f64, f64) -> f64 system_v
    block0(v0: f64, v1: f64):
        v2 = call fn0(v0, v1)
        return v2
    }";
    for text in [defined, imported] {
        let decides = |x, y| {
            let args = [OracleArg::active(f64v(x)), OracleArg::active(f64v(y))];
            run(text, &args, &[f64v(1.0)]).unwrap().nan_sign
        };
        assert!(decides(2.0, f64::NAN));
        assert!(!decides(f64::NAN, 2.0) && !decides(2.0, -0.0));
    }
}
