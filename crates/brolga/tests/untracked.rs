//! Operations on bits that have no known derivative: refused, or left to the run.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Inline, Mode, Options, Request, Untracked};
use brolga_testing::program;

/// The product of `y` and `x`, or of what some operation makes of the bits of `x` if that is above
/// a hundred.
fn text(operation: &str) -> String {
    format!(
        "function %f(f64, f64) -> f64 {{
            ss0 = explicit_slot 8, align = 8
        block0(v0: f64, v1: f64):
            v2 = f64const 0x1.9p6
            v3 = fcmp gt v0, v2
            v4 = bitcast.i64 v0
            v5 = iconst.i64 0x0123_4567_89ab
            brif v3, block1, block2(v0)
        block1:
            {operation}
            jump block2(v9)
        block2(v10: f64):
            v11 = fmul v10, v1
            return v11
        }}"
    )
}

/// Codes and operations.
const OPERATIONS: [(&str, &str); 5] = [
    ("AD0110", "v6 = imul v4, v5\n v9 = bitcast.f64 v6"),
    ("AD0110", "v6 = bitcast.f64 v5\n v9 = bor v0, v6"),
    ("AD0110", "v6 = stack_addr.i64 ss0\n v7 = imul v4, v5\n store v7, v6\n v9 = load.f64 v6"),
    ("AD0111", "v6 = splat.f64x2 v0\n v7 = bitcast.f32x4 little v6\n v8 = extractlane v7, 1\n v9 = fpromote.f64 v8"),
    ("AD0112", "v6 = iadd v4, v5\n v9 = fcvt_from_sint.f64 v6"),
];

#[test]
fn what_is_not_reached_does_not_matter() {
    for (code, operation) in OPERATIONS {
        let program = program(&text(operation));
        let request = Request::new(program.func("f").unwrap(), vec![ArgActivity::Active; 2]);
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            let options = |untracked| Options { mode, untracked, ..Options::full() };
            match DerivedRule::new(&program, &request, &options(Untracked::Refuse)) {
                Err(Error::Diagnostics(found)) => {
                    assert!(found.0.iter().any(|d| d.code == code), "{code}: {operation}: {found:?}");
                }
                other => panic!("{code}: {operation}: {:?}", other.err()),
            }
            let rule = DerivedRule::new(&program, &request, &options(Untracked::Trap)).expect("it is left to the run");
            let run = |x: f64, y: f64, seed: f64| {
                let args = [Arg::new(DataValue::F64(x.into())), Arg::new(DataValue::F64(y.into()))];
                let (mut results, mut cotangents) = (Vec::new(), Vec::new());
                // SAFETY: there are no pointers.
                unsafe { rule.gradient(&args, &[DataValue::F64(seed.into())], &mut results, &mut cotangents) }?;
                Ok::<_, Error>(cotangents)
            };
            for _ in 0..2 {
                let number = |x: f64| Some(DataValue::F64(x.into()));
                assert_eq!(run(2.0, 3.0, 1.5).unwrap(), [number(4.5), number(3.0)], "{operation}");
                match run(200.0, 3.0, 1.0) {
                    Err(Error::Trap(trap)) => assert_eq!(trap.code, "untracked_bits", "{operation}"),
                    other => panic!("{mode:?}: {operation}: {other:?}"),
                }
                // The derivative by what was made of bits is not asked for.
                assert!(run(200.0, 0.0, 1.0).is_ok() && run(200.0, 3.0, 0.0).is_ok(), "{mode:?}: {operation}");
            }
        }
    }
}

/// What a callee has calculated from bits, and its caller takes for a float's.
#[test]
fn what_a_callee_calculates() {
    let program = program(
        "function %f(f64, f64) -> f64 {
            fn0 = %g(i64, f64) -> i64
        block0(v0: f64, v1: f64):
            v2 = bitcast.i64 v0
            v3 = call fn0(v2, v1)
            v4 = bitcast.f64 v3
            v5 = fmul v4, v1
            return v5
        }
        function %g(i64, f64) -> i64 {
        block0(v0: i64, v1: f64):
            v2 = f64const 0x1.9p6
            v3 = fcmp gt v1, v2
            brif v3, block1, block2
        block1:
            v4 = iconst.i64 3
            v5 = imul v0, v4
            return v5
        block2:
            return v0
        }",
    );
    let request = Request::new(program.func("f").unwrap(), vec![ArgActivity::Active; 2]);
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let options = |untracked| Options { mode, untracked, inline: Inline::Never, ..Options::full() };
        match DerivedRule::new(&program, &request, &options(Untracked::Refuse)) {
            Err(Error::Diagnostics(found)) => assert!(found.0.iter().any(|d| d.code == "AD0113"), "{found:?}"),
            other => panic!("{:?}", other.err()),
        }
        let rule = DerivedRule::new(&program, &request, &options(Untracked::Trap)).expect("it is left to the run");
        let run = |x: f64, y: f64, seed: f64| {
            let args = [Arg::new(DataValue::F64(x.into())), Arg::new(DataValue::F64(y.into()))];
            let (mut results, mut cotangents) = (Vec::new(), Vec::new());
            // SAFETY: there are no pointers.
            unsafe { rule.gradient(&args, &[DataValue::F64(seed.into())], &mut results, &mut cotangents) }?;
            Ok::<_, Error>(cotangents)
        };
        let number = |x: f64| Some(DataValue::F64(x.into()));
        assert_eq!(run(2.0, 3.0, 1.5).unwrap(), [number(4.5), number(3.0)], "{mode:?}");
        match run(2.0, 200.0, 1.0) {
            Err(Error::Trap(trap)) => assert_eq!(trap.code, "untracked_bits", "{mode:?}"),
            other => panic!("{mode:?}: {other:?}"),
        }
    }
}

/// A slope that no double has is left to the run: what the cotangent becomes may be a number all
/// the same.
#[test]
fn steps_that_are_too_long() {
    let program = program(
        "function %f(f64) -> f64 {
        block0(v0: f64):
            v1 = bitcast.i64 v0
            v2 = iconst.i64 0x7fd0_0000_0000_0000
            v3 = iadd v1, v2
            v4 = bitcast.f64 v3
            return v4
        }",
    );
    let request = Request::new(program.func("f").unwrap(), [ArgActivity::Active]);
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let rule = DerivedRule::new(&program, &request, &Options { mode, ..Options::full() }).expect("it is derived");
        let run = |seed: f64| {
            let (least, mut cotangents) = (f64::from_bits(1), Vec::new());
            let (args, seed) = ([Arg::new(DataValue::F64(least.into()))], [DataValue::F64(seed.into())]);
            // SAFETY: there are no pointers.
            unsafe { rule.gradient(&args, &seed, &mut Vec::new(), &mut cotangents) }?;
            Ok::<_, Error>(cotangents.remove(0))
        };
        match run(1.0) {
            Err(Error::Trap(trap)) => assert_eq!(trap.code, "untracked_bits"),
            other => panic!("{mode:?}: {other:?}"),
        }
        // Times two to the power of 2044.
        let found = run(2_f64.powi(-1022)).unwrap();
        assert_eq!(found, Some(DataValue::F64(2_f64.powi(1022).into())), "{mode:?}");
    }
}

/// What the oracles, which know nothing of exponents, cannot judge: `2^e x` and `e x`, where `e` is
/// the exponent of `x`, are linear between powers of two. Shifted up by so much that a mantissa's
/// bit takes the place of the lowest one of the exponent, it is refused.
#[test]
fn exponents_are_constant() {
    let text = |up: u32, operation: &str| {
        program(&format!(
            "function %f(f64) -> f64 {{
            block0(v0: f64):
                v1 = bitcast.i64 v0
                v2 = iconst.i64 {up}
                v3 = ishl v1, v2
                v4 = iconst.i64 53
                v5 = ushr v3, v4
                v6 = iconst.i64 52
                {operation}
                v9 = fmul v8, v0
                return v9
            }}"
        ))
    };
    for (operation, code, wanted) in [
        ("v7 = ishl v5, v6\n v8 = bitcast.f64 v7", "AD0110", 8.0),
        ("v7 = iadd v5, v6\n v8 = fcvt_from_sint.f64 v7", "AD0112", 1026.0 + 52.0),
    ] {
        let derived = |up| {
            let program = text(up, operation);
            let request = Request::new(program.func("f").unwrap(), vec![ArgActivity::Active]);
            DerivedRule::new(&program, &request, &Options::full())
        };
        let rule = derived(1).expect("no mantissa is left");
        let args = [Arg::new(DataValue::F64(12.0.into()))];
        let (mut results, mut cotangents) = (Vec::new(), Vec::new());
        // SAFETY: there are no pointers.
        unsafe { rule.gradient(&args, &[DataValue::F64(0.5.into())], &mut results, &mut cotangents) }.unwrap();
        assert_eq!(cotangents, [Some(DataValue::F64((0.5 * wanted).into()))], "{operation}");
        match derived(2) {
            Err(Error::Diagnostics(found)) => assert!(found.0.iter().any(|d| d.code == code), "{operation}: {found:?}"),
            other => panic!("{operation}: {:?}", other.err()),
        }
    }
}

/// An optimiser puts in the constant that an upper half has just been found equal to, which the
/// oracles do not know for a part of the number. Any other constant is one.
#[test]
fn an_upper_half_that_is_known_is_still_one() {
    let text = |asked: &str, found: &str, then: &str| {
        program(&format!(
            "function %f(f64) -> f64 {{
            block0(v0: f64):
                v1 = bitcast.i64 v0
                v2 = iconst.i64 32
                v3 = ushr v1, v2
                v4 = ireduce.i32 v3
                v5 = iconst.i64 {asked}
                v6 = icmp eq v3, v5
                brif v6, {then}
            block1:
                v7 = iconst.i32 {found}
                jump block3(v7)
            block2:
                jump block3(v4)
            block3(v8: i32):
                v9 = iconst.i32 0xfffff
                v10 = band v8, v9
                v11 = iconst.i32 0x3ff00000
                v12 = bor v10, v11
                v13 = uextend.i64 v12
                v14 = ishl v13, v2
                v15 = iconst.i64 0xffffffff
                v16 = band v1, v15
                v17 = bor v14, v16
                v18 = bitcast.f64 v17
                v19 = fmul v18, v18
                return v19
            }}"
        ))
    };
    let derived = |asked, found, then| {
        let program = text(asked, found, then);
        let request = Request::new(program.func("f").unwrap(), vec![ArgActivity::Active]);
        DerivedRule::new(&program, &request, &Options::full())
    };
    let rule = derived("0x40180000", "0x40180000", "block1, block2").expect("6.0 has this upper half");
    // The fraction of 6 is 1.5, and what is added to the lower half counts for a quarter.
    for (x, m) in [(6.0 + 4.0 * f64::EPSILON, 1.5 + f64::EPSILON), (6.0, 1.5), (7.0, 1.75)] {
        let args = [Arg::new(DataValue::F64(f64::into(x)))];
        let (mut results, mut cotangents) = (Vec::new(), Vec::new());
        // SAFETY: there are no pointers.
        drop(unsafe { rule.gradient(&args, &[DataValue::F64(0.5.into())], &mut results, &mut cotangents) }.unwrap());
        assert_eq!(results, [DataValue::F64((m * m).into())]);
        assert_eq!(cotangents, [Some(DataValue::F64((0.5 * 2.0 * m / 4.0).into()))], "{x}");
    }
    for (asked, found, then) in [
        ("0x40180000", "0x40180001", "block1, block2"),
        ("0x140180000", "0x40180000", "block1, block2"),
        ("0x40180000", "0x40180000", "block2, block1"),
    ] {
        match derived(asked, found, then) {
            Err(Error::Diagnostics(d)) => assert!(d.0.iter().any(|d| d.code == "AD0110"), "{d:?}"),
            other => panic!("{asked} {found} {then}: {:?}", other.err()),
        }
    }
}

/// What the program has stored in its own memory, and what it makes of it there.
const STORED: &str = "function %by_index(f32, i64, i64) -> f32 {
        ss0 = explicit_slot 16
    block0(v0: f32, v1: i64, v2: i64):
        v3 = stack_addr.i64 ss0
        v4 = iconst.i64 0x3fc0_0000_3fc0_0000
        store v4, v3
        store v4, v3+8
        v5 = iconst.i64 2
        v6 = ishl v1, v5
        v7 = iadd v3, v6
        store v0, v7
        v8 = ishl v2, v5
        v9 = iadd v3, v8
        v10 = load.i32 v9
        v11 = fcvt_from_sint.f32 v10
        v12 = fmul v11, v0
        return v12
    }
    function %upper(i64, i64) -> f64 {
    block0(v0: i64, v1: i64):
        v2 = iconst.i64 3
        v3 = ishl v0, v2
        v4 = iadd v1, v3
        v5 = load.i32 v4+4
        v6 = fcvt_from_sint.f64 v5
        return v6
    }
    function %in_a_callee(f32, i64, i64) -> f32 {
        ss0 = explicit_slot 32
        fn0 = %upper(i64, i64) -> f64
    block0(v0: f32, v1: i64, v2: i64):
        v3 = stack_addr.i64 ss0
        v4 = iconst.i64 0x3fc0_0000_3fc0_0000
        store v4, v3+8
        store v4, v3+16
        v5 = iconst.i64 3
        v6 = ishl v1, v5
        v7 = iadd v3, v6
        v8 = fpromote.f64 v0
        store v8, v7
        v9 = call fn0(v2, v3)
        v10 = fdemote.f32 v9
        v11 = fmul v10, v0
        return v11
    }
    function %halved(i64, i64, i64) {
    block0(v0: i64, v1: i64, v2: i64):
        v3 = iconst.i64 2
        v4 = ishl v0, v3
        v5 = iadd v1, v4
        v6 = iadd v2, v4
        v7 = load.i32 v5
        v8 = iconst.i32 1
        v9 = ushr v7, v8
        store v9, v6
        return
    }
    function %by_another(f32, i64, i64) -> f32 {
        ss0 = explicit_slot 16
        ss1 = explicit_slot 16
        fn0 = %halved(i64, i64, i64)
    block0(v0: f32, v1: i64, v2: i64):
        v3 = stack_addr.i64 ss0
        v4 = stack_addr.i64 ss1
        v5 = iconst.i64 0x7f80_0000_7f80_0000
        store v5, v3
        store v5, v3+8
        v6 = iconst.i64 2
        v7 = ishl v1, v6
        v8 = iadd v3, v7
        store v0, v8
        call fn0(v2, v3, v4)
        v9 = ishl v2, v6
        v10 = iadd v4, v9
        v11 = load.i32 v10
        v12 = fcvt_from_sint.f32 v11
        v13 = fmul v12, v0
        return v13
    }";

/// Bits of floats that become numbers: by whatever address they are read, the run says so; and
/// where there are integers they are numbers. Broken on purpose: without `AdOp::Poison` the
/// cotangents are those of constants.
#[test]
fn numbers_of_floats_that_were_stored() {
    let program = program(STORED);
    let activities = vec![ArgActivity::Active, ArgActivity::Const, ArgActivity::Const];
    let slope = 0x3fc0_0000 as f32;
    let of = |name| [Mode::Split, Mode::Combined, Mode::Gradient].map(|mode| (name, mode));
    for (name, mode) in ["by_index", "in_a_callee", "by_another"].iter().flat_map(of) {
        for inline in [Inline::Auto, Inline::Never] {
            let request = Request::new(program.func(name).unwrap(), activities.clone());
            let rule = DerivedRule::new(&program, &request, &Options { mode, inline, ..Options::full() })
                .expect("it is left to the run");
            let run = |i: i64, k: i64| {
                let args = [DataValue::F32(2.0.into()), DataValue::I64(i), DataValue::I64(k)].map(Arg::new);
                let (mut results, mut cotangents) = (Vec::new(), Vec::new());
                // SAFETY: the function has memory of its own only.
                unsafe { rule.gradient(&args, &[DataValue::F32(1.0.into())], &mut results, &mut cotangents) }?;
                Ok::<_, Error>(cotangents.swap_remove(0))
            };
            for _ in 0..2 {
                assert_eq!(run(1, 2).unwrap(), Some(DataValue::F32(slope.into())), "{name}");
                let lost = run(1, 1);
                assert!(matches!(&lost, Err(Error::Trap(t)) if t.code == "untracked_bits"), "{name}: {lost:?}");
            }
        }
    }
}

/// Bits of a float that go where there is no shadow, by a function that does not know them for
/// such: what is read there has no derivative, and the run says so. An integer may go there.
const LEFT: &str = "function %put(i64, i64) {
    block0(v0: i64, v1: i64):
        v2 = load.i64 v0
        store v2, v1
        return
    }
    function %read(f64, i64, i64) -> f64 {
        ss0 = explicit_slot 16
        fn0 = %put(i64, i64)
    block0(v0: f64, v1: i64, v2: i64):
        v3 = stack_addr.i64 ss0
        v4 = iconst.i64 0x4008_0000_0000_0000
        store v4, v3+8
        store v0, v3
        v5 = iadd v3, v1
        call fn0(v5, v2)
        v6 = load.f64 v2
        v7 = fmul v6, v0
        return v7
    }
    function %put_that(i64, i64) {
    block0(v0: i64, v1: i64):
        store v0, v1
        return
    }
    function %given(f64, i64, i64) -> f64 {
        ss0 = explicit_slot 16
        fn0 = %put_that(i64, i64)
    block0(v0: f64, v1: i64, v2: i64):
        v3 = stack_addr.i64 ss0
        v4 = iconst.i64 0x4008_0000_0000_0000
        store v4, v3+8
        store v0, v3
        v5 = iadd v3, v1
        v8 = load.i64 v5
        call fn0(v8, v2)
        v6 = load.f64 v2
        v7 = fmul v6, v0
        return v7
    }";

/// Broken on purpose: where no function says that bits leave what has shadows, half of the
/// derivative is missing.
#[test]
fn bits_that_go_where_there_is_no_shadow() {
    let program = program(LEFT);
    let activities = vec![ArgActivity::Active, ArgActivity::Const, ArgActivity::Const];
    let of = |name| [Mode::Split, Mode::Combined, Mode::Gradient].map(|mode| (name, mode));
    for (name, mode) in ["read", "given"].into_iter().flat_map(of) {
        let request = Request::new(program.func(name).unwrap(), activities.clone());
        let options = Options { mode, inline: Inline::Never, ..Options::full() };
        let rule = DerivedRule::new(&program, &request, &options).expect("it is left to the run");
        let run = |at: i64| {
            let mut place = 0_u64;
            let to = std::ptr::from_mut(&mut place) as i64;
            let args = [DataValue::F64(1.5.into()), DataValue::I64(at), DataValue::I64(to)].map(Arg::new);
            let (mut results, mut cotangents) = (Vec::new(), Vec::new());
            // SAFETY: the place is there.
            unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut results, &mut cotangents) }?;
            Ok::<_, Error>(cotangents.swap_remove(0))
        };
        for _ in 0..2 {
            assert_eq!(run(8).unwrap(), Some(DataValue::F64(3.0.into())), "{name}");
            let lost = run(0);
            assert!(matches!(&lost, Err(Error::Trap(t)) if t.code == "untracked_bits"), "{name}: {lost:?}");
        }
    }
}

/// What is computed from a float's bits in registers, and put where integers are.
const FROM_REGISTERS: &str = "function %shifted(f64, i64) -> f64 {
        ss0 = explicit_slot 16
    block0(v0: f64, v1: i64):
        v3 = stack_addr.i64 ss0
        v4 = bitcast.i64 v0
        v5 = iconst.i64 12
        v6 = ushr v4, v5
        v7 = iconst.i64 0x4008_0000_0000_0000
        store v7, v3+8
        store v6, v3
        v8 = iadd v3, v1
        v9 = load.i64 v8
        v10 = fcvt_from_uint.f64 v9
        v11 = fmul v10, v0
        return v11
    }
    function %put(i64, i64) {
    block0(v0: i64, v1: i64):
        v5 = iconst.i64 12
        v6 = ushr v0, v5
        store v6, v1
        return
    }
    function %given(f64, i64) -> f64 {
        ss0 = explicit_slot 16
        fn0 = %put(i64, i64)
    block0(v0: f64, v1: i64):
        v3 = stack_addr.i64 ss0
        v7 = iconst.i64 0x4008_0000_0000_0000
        store v7, v3+8
        v4 = bitcast.i64 v0
        call fn0(v4, v3)
        v8 = iadd v3, v1
        v9 = load.i64 v8
        v10 = fcvt_from_uint.f64 v9
        v11 = fmul v10, v0
        return v11
    }";

/// Broken on purpose: if such an integer handed poison on to loads alone, the slope of the number
/// would be missing.
#[test]
fn numbers_of_what_was_computed_in_registers() {
    let program = program(FROM_REGISTERS);
    let of = |name| [Mode::Split, Mode::Combined, Mode::Gradient].map(|mode| (name, mode));
    for (name, mode) in ["shifted", "given"].into_iter().flat_map(of) {
        for inline in [Inline::Auto, Inline::Never] {
            let request = Request::new(program.func(name).unwrap(), vec![ArgActivity::Active, ArgActivity::Const]);
            let rule = DerivedRule::new(&program, &request, &Options { mode, inline, ..Options::full() })
                .expect("it is left to the run");
            let run = |at: i64| {
                let args = [DataValue::F64(1.5.into()), DataValue::I64(at)].map(Arg::new);
                let (mut results, mut cotangents) = (Vec::new(), Vec::new());
                // SAFETY: the function has memory of its own only.
                unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut results, &mut cotangents) }?;
                Ok::<_, Error>(cotangents.swap_remove(0))
            };
            for _ in 0..2 {
                let slope = 0x4008_0000_0000_0000_u64 as f64;
                assert_eq!(run(8).unwrap(), Some(DataValue::F64(slope.into())), "{name}");
                let lost = run(0);
                assert!(matches!(&lost, Err(Error::Trap(t)) if t.code == "untracked_bits"), "{name}: {lost:?}");
            }
        }
    }
}

/// A record of two addresses: the word at one is copied to the other, and squared or compared
/// besides, in a callee or in a task of a fork. Only a caller knows that it is a float.
fn copy_by_two_addresses(besides: &str, call: &str) -> String {
    format!(
        "function %copy(i64, i64, i64) {{
        block0(v0: i64, v1: i64, v2: i64):
            v4 = load.i64 v0
            v5 = load.i64 v0+8
            v6 = load.i64 v4
            {besides}
            store v6, v5
            return
        }}
        function %f(f64) -> f64 {{
            ss0 = explicit_slot 8
            ss1 = explicit_slot 8
            ss2 = explicit_slot 16
            fn0 = %copy(i64, i64, i64)
            fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
        block0(v0: f64):
            v1 = stack_addr.i64 ss0
            v2 = stack_addr.i64 ss1
            v3 = stack_addr.i64 ss2
            store v1, v3
            store v2, v3+8
            store v0, v1
            v4 = iconst.i64 0
            v5 = iconst.i64 1
            v6 = func_addr.i64 fn0
            {call}
            v8 = load.f64 v2
            return v8
        }}"
    )
}

/// Broken on purpose: where nothing was asked of words that are calculated with, all were zero.
#[test]
fn words_that_only_a_caller_knows_to_be_floats() {
    let (squared, compared) = ("v7 = imul v6, v6", "v7 = icmp slt v6, v4");
    let (called, forked) = ("call fn0(v3, v4, v5)", "call fn1(v6, v3, v4, v5, v5)");
    for (besides, call) in [(squared, called), (compared, called), (squared, forked)] {
        let program = program(&copy_by_two_addresses(besides, call));
        for (mode, inline) in
            [Mode::Split, Mode::Gradient].into_iter().flat_map(|m| [(m, Inline::Auto), (m, Inline::Never)])
        {
            let request = Request::new(program.func("f").unwrap(), vec![ArgActivity::Active]);
            let rule = DerivedRule::new(&program, &request, &Options { mode, inline, ..Options::full() })
                .expect("it is left to the run");
            for _ in 0..2 {
                let (mut results, mut cotangents) = (Vec::new(), Vec::new());
                let args = [Arg::new(DataValue::F64(1.5.into()))];
                // SAFETY: the function has memory of its own only.
                unsafe { rule.gradient(&args, &[DataValue::F64(3.0.into())], &mut results, &mut cotangents) }.unwrap();
                assert_eq!(cotangents, [Some(DataValue::F64(3.0.into()))], "{besides}, {call}");
            }
        }
    }
}
