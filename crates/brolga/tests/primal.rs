//! The primal is compiled when it is called, into the module of its derivative.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Mode, Options, Primal, Program, Request};
use brolga_testing::program;

fn rule(p: &Program, func: &str, args: &[ArgActivity], mode: Mode) -> DerivedRule {
    let request = Request::new(p.func(func).expect("it is defined"), args.iter().copied());
    DerivedRule::new(p, &request, &Options { mode, ..Options::full() }).unwrap_or_else(|e| panic!("{e}"))
}

fn float(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

fn f64_of(v: &DataValue) -> f64 {
    match v {
        DataValue::F64(x) => x.as_f64(),
        other => panic!("{other:?} is no f64"),
    }
}

/// `100 / n + x²`, with a callee.
const SQUARE: &str = "
function %square(f64) -> f64 {
block0(v0: f64):
    v1 = fmul v0, v0
    return v1
}
function %f(f64, i64) -> f64 {
    fn0 = %square(f64) -> f64
block0(v0: f64, v1: i64):
    v2 = call fn0(v0)
    v3 = iconst.i64 100
    v4 = sdiv v3, v1
    v5 = fcvt_from_sint.f64 v4
    v6 = fadd v5, v2
    return v6
}";

const ARGS: [ArgActivity; 2] = [ArgActivity::Active, ArgActivity::Const];

#[test]
fn it_is_compiled_once_and_not_before_it_is_called() {
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let rule = rule(&program(SQUARE), "f", &ARGS, mode);
        let derivative = rule.code_bytes();
        let (mut results, mut cotangents) = (Vec::new(), Vec::new());
        let args = [Arg::new(float(3.0)), Arg::new(DataValue::I64(7))];
        // SAFETY: no pointers are passed.
        drop(unsafe { rule.gradient(&args, &[float(1.0)], &mut results, &mut cotangents) }.expect("nothing traps"));
        assert_eq!(f64_of(cotangents[0].as_ref().expect("an active argument")), 6.0);
        assert_eq!(rule.code_bytes(), derivative, "{mode:?}: a gradient needs no primal");
        let call = |n: i64| {
            // SAFETY: no pointers are passed.
            unsafe { rule.primal(&[float(3.0), DataValue::I64(n)]) }
        };
        assert_eq!(f64_of(&call(7).expect("nothing traps")[0]), 23.0);
        let both = rule.code_bytes();
        assert!(both > derivative, "{mode:?}");
        let Err(Error::Trap(trap)) = call(0) else { panic!("it divides by zero") };
        assert_eq!((trap.code.as_str(), trap.phase, trap.function.as_str()), ("int_divz", "primal", "f"));
        assert_eq!(f64_of(&call(50).expect("nothing traps")[0]), 11.0);
        assert_eq!(rule.code_bytes(), both);
    }
}

#[test]
fn threads_may_ask_for_it_at_once() {
    for _ in 0..20 {
        let rule = rule(&program(SQUARE), "f", &ARGS, Mode::Gradient);
        std::thread::scope(|s| {
            for i in 1..5_i64 {
                let rule = &rule;
                s.spawn(move || {
                    // SAFETY: no pointers are passed.
                    let y = unsafe { rule.primal(&[float(i as f64), DataValue::I64(100)]) }.expect("nothing traps");
                    assert_eq!(f64_of(&y[0]), 1.0 + (i * i) as f64);
                });
            }
        });
    }
}

#[test]
fn a_function_has_one_address_for_both() {
    // With 1 it stores a pointer to %square, which a later call finds.
    let p = program(
        "function %square(f64) -> f64 {
        block0(v0: f64):
            v1 = fmul v0, v0
            return v1
        }
        function %f(i64, i64, f64) -> f64 {
            sig0 = (f64) -> f64
            fn0 = %square sig0
        block0(v0: i64, v1: i64, v2: f64):
            brif v1, block1, block2
        block1:
            v3 = func_addr.i64 fn0
            store v3, v0
            jump block2
        block2:
            v4 = load.i64 v0
            v5 = call_indirect sig0, v4(v2)
            return v5
        }",
    );
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let rule = rule(&p, "f", &[ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Active], mode);
        let (mut place, mut shadow) = ([0_u64], [0_u64]);
        let at = place.as_mut_ptr() as u64;
        // SAFETY: there is room for a pointer.
        let y = unsafe { rule.primal(&[DataValue::I64(at as i64), DataValue::I64(1), float(5.0)]) };
        assert_eq!(f64_of(&y.expect("nothing traps")[0]), 25.0);
        assert_ne!(place[0], 0);
        let args = [Arg::duplicated(at, shadow.as_mut_ptr() as u64), Arg::new(DataValue::I64(0)), Arg::new(float(5.0))];
        let (mut results, mut cotangents) = (Vec::new(), Vec::new());
        // SAFETY: there is room for a pointer in both, and a function is behind it.
        let run = unsafe { rule.gradient(&args, &[float(1.0)], &mut results, &mut cotangents) };
        drop(run.unwrap_or_else(|e| panic!("{mode:?}: {e}")));
        assert_eq!(f64_of(cotangents[2].as_ref().expect("an active argument")), 10.0, "{mode:?}");
    }
}

#[test]
fn who_calls_itself_has_an_entry_point_of_its_own() {
    // x^n, by recursion: derived code calls the pair of the function that was asked for.
    let p = program(
        "function %power(f64, i64) -> f64 {
            fn0 = %power(f64, i64) -> f64
        block0(v0: f64, v1: i64):
            brif v1, block1, block2
        block1:
            v2 = iconst.i64 -1
            v3 = iadd v1, v2
            v4 = call fn0(v0, v3)
            v5 = fmul v4, v0
            return v5
        block2:
            v6 = f64const 0x1.0
            return v6
        }",
    );
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let rule = rule(&p, "power", &ARGS, mode);
        let (mut results, mut cotangents) = (Vec::new(), Vec::new());
        let args = [Arg::new(float(2.0)), Arg::new(DataValue::I64(5))];
        // SAFETY: no pointers are passed.
        drop(unsafe { rule.gradient(&args, &[float(1.0)], &mut results, &mut cotangents) }.expect("nothing traps"));
        assert_eq!(f64_of(cotangents[0].as_ref().expect("an active argument")), 80.0, "{mode:?}");
        // SAFETY: no pointers are passed.
        let y = unsafe { rule.primal(&[float(2.0), DataValue::I64(5)]) }.expect("nothing traps");
        assert_eq!(f64_of(&y[0]), 32.0);
    }
}

/// Calls through pointers that lead nowhere, in the primal and in primals that a derivative calls
/// as they are: errors, as in a derivative.
#[test]
fn wild_pointers_are_traps() {
    const CALLS: &str = "
function %through(i64, f64) -> f64 {
    sig0 = (f64) -> f64
block0(v0: i64, v1: f64):
    v2 = call_indirect sig0, v0(v1)
    return v2
}
function %tail(i64, f64) -> f64 tail {
    sig0 = (f64) -> f64 tail
block0(v0: i64, v1: f64):
    return_call_indirect sig0, v0(v1)
}
function %inside(i64, f64) -> f64 {
    fn0 = %through(i64, f64) -> f64
block0(v0: i64, v1: f64):
    v2 = f64const 0x1.0
    v3 = call fn0(v0, v2)
    v4 = fmul v3, v1
    return v4
}";
    let p = program(CALLS);
    for name in ["through", "tail", "inside"] {
        let f = p.func(name).expect("it is defined");
        let primal = brolga::Primal::new(&p, &[f], &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        for pointer in [0, 8, 1 << 62, -1] {
            // SAFETY: the pointer is wild, and the guard sees it.
            let found = unsafe { primal.call(f, &[DataValue::I64(pointer), float(1.5)]) };
            let Err(Error::Trap(trap)) = found else { panic!("%{name}({pointer}): {found:?}") };
            assert_eq!((trap.code.as_str(), trap.phase), ("unknown_callee", "primal"), "%{name}({pointer})");
        }
    }
    let rule = rule(&p, "inside", &[ArgActivity::Const, ArgActivity::Active], Mode::Gradient);
    let args = [Arg::new(DataValue::I64(0)), Arg::new(float(1.5))];
    let (mut results, mut cotangents) = (Vec::new(), Vec::new());
    // SAFETY: as above.
    let found = unsafe { rule.gradient(&args, &[float(1.0)], &mut results, &mut cotangents) }.err();
    let Some(Error::Trap(trap)) = found else { panic!("{found:?}") };
    assert_eq!(trap.code, "unknown_callee");
}

/// A task that returns something, which no task does.
const NO_TASK: &str = "
function %task(i64) -> f64 {
block0(v0: i64):
    v1 = load.f64 v0
    return v1
}
function %f(i64) {
    fn0 = %task(i64) -> f64
    fn1 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64):
    v1 = func_addr.i64 fn0
    call fn1(v1, v0, v1, v0)
    return
}";

#[test]
fn a_fork_that_is_none_is_refused_where_it_is() {
    let program = program(NO_TASK);
    let f = program.func("f").expect("it is defined");
    let Err(Error::Diagnostics(found)) = Primal::new(&program, &[f], &Options::default()) else { panic!("it is none") };
    let found = &found.0[0];
    assert_eq!((found.code, found.function.as_str()), ("AD0191", "f"), "{found:?}");
    assert!(found.inst.is_some() && found.help.iter().any(|h| h.contains("(i64)")), "{found:?}");
}
