//! Calls that an inverse undoes: the gradient is that of the call written as a call, nothing is
//! recorded, and an inverse that does not lead back ends the run.

use brolga::cranelift_codegen::data_value::DataValue;

use brolga::{
    Arg, ArgActivity, DerivedRule, Error, InverseCheck, InverseStats, MemoryMode, Mode, Options, Program, Request,
    StateLength,
};
use brolga_testing::program;

/// A pendulum by leapfrog (`%drift`), whose inverse is not exact; a shear with a swap (`%shear`),
/// whose inverse is, of short numbers. `%bent` makes use of `%shear` by way of a pair of its own.
const STEPS: &str = "
function %drift(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v0+8
    v5 = load.f64 v1
    v6 = load.f64 v1+8
    v7 = fmul v3, v3
    v8 = fmul v7, v3
    v9 = fmul v6, v8
    v10 = fmul v5, v9
    v11 = fsub v4, v10
    store v11, v0+8
    v12 = fmul v5, v11
    v13 = fadd v3, v12
    store v13, v0
    return
}
function %drift_back(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v0+8
    v5 = load.f64 v1
    v6 = load.f64 v1+8
    v12 = fmul v5, v4
    v13 = fsub v3, v12
    store v13, v0
    v7 = fmul v13, v13
    v8 = fmul v7, v13
    v9 = fmul v6, v8
    v10 = fmul v5, v9
    v11 = fadd v4, v10
    store v11, v0+8
    return
}
function %shear(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v0+8
    v5 = load.f64 v0+16
    v6 = load.f64 v1
    v7 = fmul v4, v4
    v8 = fmul v6, v7
    v9 = fcvt_from_sint.f64 v2
    v10 = fmul v9, v3
    v11 = fadd v8, v10
    v12 = fadd v5, v11
    store v4, v0
    store v3, v0+8
    store v12, v0+16
    return
}
function %shear_back(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v4 = load.f64 v0
    v3 = load.f64 v0+8
    v12 = load.f64 v0+16
    v6 = load.f64 v1
    v7 = fmul v4, v4
    v8 = fmul v6, v7
    v9 = fcvt_from_sint.f64 v2
    v10 = fmul v9, v3
    v11 = fadd v8, v10
    v5 = fsub v12, v11
    store v3, v0
    store v4, v0+8
    store v5, v0+16
    return
}
function %shear_wrong(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v0+8
    store v4, v0
    store v3, v0+8
    return
}
function %bent(i64, i64, i64) {
    fn0 = %shear(i64, i64, i64)
    fn1 = %shear_back(i64, i64, i64)
    fn2 = %brolga_inverse_pair(i64, i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = func_addr.i64 fn1
    v5 = iconst.i64 24
    call fn2(v3, v4, v0, v5, v1, v2)
    v6 = load.f64 v0
    v7 = load.f64 v0+8
    v8 = fneg v6
    store v8, v0
    call fn2(v3, v4, v0, v5, v1, v2)
    return
}
function %bent_back(i64, i64, i64) {
    fn1 = %shear_back(i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    call fn1(v0, v1, v2)
    v6 = load.f64 v0
    v8 = fneg v6
    store v8, v0
    call fn1(v0, v1, v2)
    return
}
function %ends(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v0+8
    v4 = load.f64 v0+16
    v5 = fmul v2, v3
    v6 = fadd v5, v4
    v7 = load.f64 v1+8
    v8 = fmul v6, v7
    return v8
}
";

/// n calls, as calls or of pairs, and what is done between them.
const LOOP: &str = "
function %NAME(i64, i64, i64) -> f64 {
    fn0 = %F(i64, i64, i64)
    fn1 = %INV(i64, i64, i64)
    fn2 = %brolga_inverse_pair(i64, i64, i64, i64, i64, i64)
    fn3 = %ends(i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = func_addr.i64 fn1
    v5 = iconst.i64 24
    v6 = iconst.i64 0
    v7 = iconst.i64 1
    jump block1(v6)
block1(v8: i64):
    v9 = icmp slt v8, v2
    brif v9, block2, block3
block2:
    CALL
    BETWEEN
    v10 = iadd v8, v7
    jump block1(v10)
block3:
    v11 = call fn3(v0, v1)
    return v11
}
";

const BY_PAIR: &str = "call fn2(v3, v4, v0, v5, v1, v8)";
const BY_CALL: &str = "call fn0(v0, v1, v8)";
/// The state is changed by something else.
const HALVED: &str = "v20 = load.f64 v0+8
    v21 = f64const 0x1.0p-1
    v22 = fmul v20, v21
    store v22, v0+8";

/// What is passed by value takes part.
const SLIDES: &str = "
function %slide(f64, i64) {
block0(v0: f64, v1: i64):
    v2 = load.f64 v1
    v3 = load.f64 v1+8
    v4 = fmul v0, v2
    v5 = fadd v3, v4
    store v5, v1+8
    return
}
function %slide_back(f64, i64) {
block0(v0: f64, v1: i64):
    v2 = load.f64 v1
    v3 = load.f64 v1+8
    v4 = fmul v0, v2
    v5 = fsub v3, v4
    store v5, v1+8
    return
}
function %slides(i64, i64, i64) -> f64 {
    fn0 = %slide(f64, i64)
    fn1 = %ends(i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 1
    v4 = load.f64 v1+8
    jump block1(v2, v4)
block1(v5: i64, v6: f64):
    brif v5, block2, block3
block2:
    call fn0(v6, v0)
    v7 = fneg v6
    v8 = isub v5, v3
    jump block1(v8, v7)
block3:
    v9 = call fn1(v0, v1)
    return v9
}
";

/// Of two states, of which each takes from the other.
const TWO: &str = "
function %mix(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v1
    v5 = load.f64 v1+8
    v6 = load.f64 v2
    v7 = fmul v3, v6
    v8 = fadd v4, v7
    store v8, v1
    v9 = fmul v8, v6
    v10 = fadd v3, v9
    store v10, v0
    v11 = fadd v5, v6
    store v11, v1+8
    return
}
function %mix_back(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v10 = load.f64 v0
    v8 = load.f64 v1
    v11 = load.f64 v1+8
    v6 = load.f64 v2
    v9 = fmul v8, v6
    v3 = fsub v10, v9
    store v3, v0
    v7 = fmul v3, v6
    v4 = fsub v8, v7
    store v4, v1
    v5 = fsub v11, v6
    store v5, v1+8
    return
}
function %NAME(i64, i64, i64) -> f64 {
    fn0 = %mix(i64, i64, i64)
    fn1 = %mix_back(i64, i64, i64)
    fn2 = %brolga_inverse_pair(i64, i64, i64, i64, i64, i64, i64)
    fn3 = %ends(i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = func_addr.i64 fn1
    v5 = iconst.i64 LENGTH
    v6 = iconst.i64 0
    v7 = iconst.i64 1
    v12 = iconst.i64 8
    v13 = iconst.i64 16
    v14 = iadd v0, v12
    jump block1(v6)
block1(v8: i64):
    v9 = icmp slt v8, v2
    brif v9, block2, block3
block2:
    CALL
    v10 = iadd v8, v7
    jump block1(v10)
block3:
    v11 = call fn3(v0, v1)
    return v11
}
";

/// Loops around a time loop of pairs.
const AROUND: &str = "
function %step(i64, i64, i64) {
    fn0 = %shear(i64, i64, i64)
    fn1 = %shear_back(i64, i64, i64)
    fn2 = %brolga_inverse_pair(i64, i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = func_addr.i64 fn1
    v5 = iconst.i64 24
    call fn2(v3, v4, v0, v5, v1, v2)
    call fn2(v3, v4, v0, v5, v1, v2)
    return
}
function %timed(i64, i64, i64) -> f64 {
    fn0 = %step(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
    fn2 = %shears(i64, i64, i64) -> f64
    fn3 = %ends(i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 24
    v5 = call fn2(v0, v1, v2)
    call fn1(v3, v0, v4, v1, v2)
    v6 = call fn2(v0, v1, v2)
    v7 = call fn3(v0, v1)
    v8 = fmul v5, v6
    v9 = fadd v8, v7
    return v9
}
function %plain_timed(i64, i64, i64) -> f64 {
    fn0 = %shear(i64, i64, i64)
    fn2 = %plain_shears(i64, i64, i64) -> f64
    fn3 = %ends(i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v5 = call fn2(v0, v1, v2)
    v10 = iconst.i64 0
    v11 = iconst.i64 1
    jump block1(v10)
block1(v12: i64):
    v13 = icmp slt v12, v2
    brif v13, block2, block3
block2:
    call fn0(v0, v1, v12)
    call fn0(v0, v1, v12)
    v14 = iadd v12, v11
    jump block1(v14)
block3:
    v6 = call fn2(v0, v1, v2)
    v7 = call fn3(v0, v1)
    v8 = fmul v5, v6
    v9 = fadd v8, v7
    return v9
}
";

/// All functions: each loop as `%NAME`, and with calls as `%plain_NAME`.
fn pairs() -> Program {
    let mut text = STEPS.to_owned();
    let loops = [
        ("drifts", "drift", "drift_back", ""),
        ("shears", "shear", "shear_back", ""),
        ("halved", "shear", "shear_back", HALVED),
        ("bends", "bent", "bent_back", ""),
        ("wrong", "shear", "shear_wrong", ""),
    ];
    for (name, f, inv, between) in loops {
        for (name, call) in [(name.to_owned(), BY_PAIR), (format!("plain_{name}"), BY_CALL)] {
            let loop_text = LOOP.replace("%NAME", &format!("%{name}")).replace("%F", &format!("%{f}"));
            text += &loop_text.replace("%INV", &format!("%{inv}")).replace("CALL", call).replace("BETWEEN", between);
        }
    }
    let (by_pair, by_call) = ("call fn2(v3, v4, v0, v5, v14, v13, v1)", "call fn0(v0, v14, v1)");
    let rest = TWO.find("function %NAME").unwrap();
    for (name, call, length) in
        [("two", by_pair, "8"), ("plain_two", by_call, "8"), ("overlapping", by_pair, "9"), ("negative", by_pair, "-8")]
    {
        let func_text = if name == "two" { TWO } else { &TWO[rest..] };
        text += &func_text.replace("NAME", name).replace("LENGTH", length).replace("CALL", call);
    }
    program(&(text + AROUND + SLIDES))
}

/// What a gradient gives.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    value: f64,
    state: [f64; 3],
    gradient: [f64; 5],
}

const START: [f64; 3] = [0.75, -0.5, 0.25];
const PARAMS: [f64; 2] = [0.125, 1.5];
/// What the shadows hold before.
const BEFORE: [f64; 5] = [0.25, -0.5, 1.0, 0.125, 2.0];

fn options(mode: Mode, inverse_check: InverseCheck) -> Options {
    Options { mode, inverse_check, memory_budget: 1 << 16, ..Options::as_calls() }
}

fn rule(program: &Program, func: &str, options: &Options) -> DerivedRule {
    let args = [ArgActivity::Duplicated, ArgActivity::Duplicated, ArgActivity::Const];
    DerivedRule::new(program, &Request::new(program.func(func).unwrap(), args), options).unwrap()
}

/// What was recorded, and what inverses have done.
type Cost = (usize, InverseStats);

/// The gradient of a call with shadows that are not zero: in one go, or by a pullback that is
/// called so often. Between its calls, what is in the state does not matter.
fn run(rule: &DerivedRule, n: i64, start: [f64; 3], times: usize) -> Result<(Outcome, Cost), Error> {
    let (mut state, mut params) = (start, PARAMS);
    let (mut ds, mut dp) = ([0.0; 3], [0.0; 2]);
    let seeds = [DataValue::F64(1.5.into())];
    let clear =
        |ds: &mut [f64; 3], dp: &mut [f64; 2]| (*ds, *dp) = ([BEFORE[0], BEFORE[1], BEFORE[2]], [BEFORE[3], BEFORE[4]]);
    clear(&mut ds, &mut dp);
    let args = [
        Arg::duplicated(state.as_mut_ptr() as u64, ds.as_mut_ptr() as u64),
        Arg::duplicated(params.as_mut_ptr() as u64, dp.as_mut_ptr() as u64),
        Arg::new(DataValue::I64(n)),
    ];
    let (mut results, mut cotangents) = (vec![], vec![]);
    let (cost, after) = if times == 0 {
        // SAFETY: the arguments are as the functions want them.
        let run = unsafe { rule.gradient(&args, &seeds, &mut results, &mut cotangents) }?;
        ((run.tape_bytes(), run.inverse_stats()), state)
    } else {
        // SAFETY: as above.
        let (found, mut pullback) = unsafe { rule.forward(&args) }?;
        results = found;
        let after = state;
        let tape = pullback.tape_bytes();
        for i in 0..times {
            clear(&mut ds, &mut dp);
            let there = if i == 0 { after } else { [7.0, 8.0, 9.0] };
            state = there;
            // SAFETY: as above.
            unsafe { pullback.call(&seeds) }?;
            assert_eq!(state, there, "a pullback leaves the state as it finds it");
        }
        ((tape, pullback.inverse_stats()), after)
    };
    assert_eq!(params, PARAMS);
    let DataValue::F64(value) = results[0] else { panic!("a float") };
    Ok((Outcome { value: value.as_f64(), state: after, gradient: [ds[0], ds[1], ds[2], dp[0], dp[1]] }, cost))
}

fn near(a: &Outcome, b: &Outcome, tolerance: f64, what: &str) {
    assert_eq!((a.value, a.state), (b.value, b.state), "{what}");
    for (x, y) in a.gradient.iter().zip(b.gradient) {
        assert!((x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1.0), "{what}: {a:?} {b:?}");
    }
}

const WITHIN: f64 = 1e-8;

fn within(tolerance: f64) -> InverseCheck {
    InverseCheck::Within(tolerance.into())
}

#[test]
fn gradients_are_those_of_calls_and_nothing_is_recorded() {
    let p = pairs();
    for (func, calls) in [("shears", 1), ("bends", 1), ("halved", 1), ("timed", 4), ("two", 1)] {
        for n in [0, 1, 2, 7, 30] {
            // Sums of more have roundings.
            if func == "two" && n > 7 {
                continue;
            }
            let plain = rule(&p, &format!("plain_{func}"), &options(Mode::Combined, InverseCheck::Bits));
            let as_written = run(&plain, n, START, 0).unwrap().0;
            for check in [InverseCheck::Bits, InverseCheck::Off, InverseCheck::Record, within(1e-8)] {
                let what = format!("%{func}, {n} calls, {check:?}");
                let (found, cost) = run(&rule(&p, func, &options(Mode::Combined, check)), n, START, 0).unwrap();
                near(&found, &as_written, 1e-13, &what);
                assert!(cost.1.undone >= calls * n as u64, "{what}: {cost:?}");
                let split = rule(&p, func, &options(Mode::Split, check));
                for times in 1..=3 {
                    let (repeated, _) = run(&split, n, START, times).unwrap();
                    assert_eq!(repeated, found, "{what}, pullback {times}");
                }
            }
        }
    }
}

#[test]
fn a_program_without_pairs_is_told_of_them() {
    let p = pairs();
    let mut told = p.clone();
    told.set_inverse("shear", "shear_back", &[(0, StateLength::Bytes(24))]).unwrap();
    for mode in [Mode::Combined, Mode::Split] {
        let run = |p: &Program| {
            let rule = rule(p, "plain_shears", &options(mode, InverseCheck::Bits));
            run(&rule, 20, START, usize::from(mode == Mode::Split)).unwrap()
        };
        let ((as_written, cost), (found, undone)) = (run(&p), run(&told));
        near(&found, &as_written, 1e-13, "%plain_shears");
        assert_eq!((cost.1, undone.1.calls, undone.1.undone), (InverseStats::default(), 20, 20));
    }
    told.set_inverse("slide", "slide_back", &[(1, StateLength::Bytes(16))]).unwrap();
    for mode in [Mode::Combined, Mode::Split] {
        let run = |p: &Program| {
            let rule = rule(p, "slides", &options(mode, InverseCheck::Bits));
            run(&rule, 9, START, 2 * usize::from(mode == Mode::Split)).unwrap()
        };
        let ((as_written, _), (found, undone)) = (run(&p), run(&told));
        near(&found, &as_written, 1e-13, "%slides");
        assert_eq!(undone.1.calls, 9);
    }
    let refused = |f: &str, inverse: &str, state: &[(usize, StateLength)]| {
        let found = p.clone().set_inverse(f, inverse, state).unwrap_err();
        (found.0[0].code, found.0[0].message.clone())
    };
    let bytes = |n| StateLength::Bytes(n);
    for (f, inverse, state, says) in [
        ("shear", "share", &[(0, bytes(24))][..], "%share is no function of the program"),
        ("shear", "ends", &[(0, bytes(24))], "they are (i64, i64, i64)"),
        ("shear", "shear_back", &[], "there is no state"),
        ("shear", "shear_back", &[(3, bytes(24))], "parameter 3 of (i64, i64, i64)"),
        ("shear", "shear_back", &[(0, StateLength::Param(5))], "parameter 5 of (i64, i64, i64)"),
        ("shear", "shear_back", &[(0, bytes(0))], "has no byte"),
    ] {
        let (code, message) = refused(f, inverse, state);
        assert!(code == "AD0192" && message.contains(says), "{message}");
    }
}

#[test]
fn a_thousand_calls_take_the_memory_of_one() {
    let p = pairs();
    let cost = |func: &str, n: i64, mode| {
        let (_, cost) = run(&rule(&p, func, &options(mode, InverseCheck::Bits)), n, START, 0).unwrap();
        assert_eq!((cost.1.calls, cost.1.undone), (n as u64, n as u64));
        (cost.0, cost.1.chains, cost.1.max_bytes)
    };
    assert_eq!(cost("shears", 1000, Mode::Combined), cost("shears", 2, Mode::Combined));
    let split = rule(&p, "shears", &options(Mode::Split, InverseCheck::Bits));
    let tapes = [2, 1000].map(|n| run(&split, n, START, 2).unwrap().1.0);
    assert_eq!(tapes[0], tapes[1], "a pullback of its own records no more");
    // Where something else changes the state, one is kept for each call.
    assert_eq!(cost("halved", 30, Mode::Combined).1, 30);
}

#[test]
fn the_pendulum_drifts_by_roundings() {
    let p = pairs();
    let plain = rule(&p, "plain_drifts", &options(Mode::Combined, InverseCheck::Bits));
    for n in [1, 10, 1000] {
        let as_written = run(&plain, n, START, 0).unwrap().0;
        for check in [within(WITHIN), InverseCheck::Off] {
            let what = format!("{n} calls, {check:?}");
            let (found, _) = run(&rule(&p, "drifts", &options(Mode::Combined, check)), n, START, 0).unwrap();
            near(&found, &as_written, 1e-11, &what);
            let (repeated, _) = run(&rule(&p, "drifts", &options(Mode::Split, check)), n, START, 2).unwrap();
            assert_eq!(repeated, found, "{what}");
        }
    }
}

#[test]
fn differences_say_the_same() {
    let p = pairs();
    for (func, check) in [("shears", InverseCheck::Bits), ("bends", InverseCheck::Bits), ("drifts", within(WITHIN))] {
        let rule = rule(&p, func, &options(Mode::Combined, check));
        let value = |x: [f64; 5]| {
            let (mut state, mut params) = ([x[0], x[1], x[2]], [x[3], x[4]]);
            let args = [state.as_mut_ptr(), params.as_mut_ptr()].map(|p| DataValue::I64(p as i64));
            // SAFETY: the arguments are as the function wants them.
            let found = unsafe { rule.primal(&[args[0].clone(), args[1].clone(), DataValue::I64(9)]) }.unwrap();
            let DataValue::F64(value) = found[0] else { panic!("a float") };
            // The shadow of the state holds cotangents.
            1.5 * value.as_f64() + (0..3).map(|i| BEFORE[i] * state[i]).sum::<f64>()
        };
        let found = run(&rule, 9, START, 0).unwrap().0.gradient;
        for i in 0..5 {
            let at = |h: f64| {
                let mut x = [START[0], START[1], START[2], PARAMS[0], PARAMS[1]];
                x[i] += h;
                value(x)
            };
            let h = 1e-6;
            let slope = (at(h) - at(-h)) / (2.0 * h);
            let derived = found[i] - if i < 3 { 0.0 } else { BEFORE[i] };
            assert!((slope - derived).abs() < 1e-6 * slope.abs().max(1.0), "%{func}, {i}: {slope} {derived}");
        }
    }
}

#[test]
fn what_an_inverse_does_not_give_back_is_recorded() {
    let p = pairs();
    for (func, n) in [("drifts", 50), ("wrong", 9), ("two", 30)] {
        let plain = rule(&p, &format!("plain_{func}"), &options(Mode::Combined, InverseCheck::Bits));
        let as_written = run(&plain, n, START, 0).unwrap().0;
        for mode in [Mode::Combined, Mode::Split] {
            let rule = rule(&p, func, &options(mode, InverseCheck::Record));
            let times = if mode == Mode::Split { 3 } else { 0 };
            let (found, (_, stats)) = run(&rule, n, START, times).unwrap();
            assert_eq!(found, as_written, "%{func}, {mode:?}");
            // The third word of a state, in each call.
            assert!(stats.recorded > 0 && (func != "wrong" || stats.recorded == n as u64), "%{func}: {stats:?}");
        }
    }
}

/// Why a run has stopped.
fn stopped(program: &Program, func: &str, n: i64, mode: Mode, check: InverseCheck) -> (String, String) {
    match run(&rule(program, func, &options(mode, check)), n, START, usize::from(mode == Mode::Split)) {
        Err(Error::Trap(trap)) => (trap.code, trap.message),
        other => panic!("%{func}: {other:?}"),
    }
}

#[test]
fn an_inverse_that_does_not_lead_back_ends_the_run() {
    let p = pairs();
    let cases = [
        ("wrong", InverseCheck::Bits, "the inverses of 5 calls in a row leave 0x"),
        ("wrong", within(1e-8), "an inverse gives 2.8125e-1 at byte 16 of the state, where 2.5e-1 was before the call"),
        ("drifts", InverseCheck::Bits, "or record what differs (`inverse_check`)"),
        ("drifts", within(1e-17), "raise the tolerance of 1e-17"),
        ("overlapping", InverseCheck::Off, "two states overlap; pass memory that holds both as one state"),
        ("negative", InverseCheck::Off, "a state has -8 bytes; pass its length"),
    ];
    for (func, check, says) in cases {
        for mode in [Mode::Combined, Mode::Split] {
            let n = if func == "drifts" { 50 } else { 5 };
            let (code, message) = stopped(&p, func, n, mode, check);
            assert_eq!(code, "inverse_pair", "{message}");
            assert!(message.contains(says), "{message}");
        }
    }
    // The same rule runs again where nothing is wrong: no call.
    let rule = rule(&p, "wrong", &options(Mode::Combined, InverseCheck::Bits));
    for n in [5, 0] {
        assert_eq!(run(&rule, n, START, 0).is_ok(), n == 0);
    }
}

#[test]
fn where_nothing_is_kept_a_pair_is_a_call() {
    let p = pairs();
    let plain = rule(&p, "plain_shears", &options(Mode::Combined, InverseCheck::Bits));
    let as_written = run(&plain, 9, START, 0).unwrap().0;
    let restores = Options { memory: MemoryMode::Restore, ..options(Mode::Combined, InverseCheck::Bits) };
    let (mut found, cost) = run(&rule(&p, "shears", &restores), 9, START, 0).unwrap();
    assert_eq!((found.state, cost.1), (START, InverseStats::default()));
    found.state = as_written.state;
    near(&found, &as_written, 1e-13, "memory that is restored");
}

#[test]
fn what_stores_a_pointer_is_not_undone() {
    let swap = |name: &str| {
        format!(
            "function %{name}(i64) {{
            block0(v0: i64):
                v1 = load.i64 v0
                v2 = load.i64 v0+8
                v3 = load.f64 v1
                v4 = fmul v3, v3
                store v4, v2
                store v2, v0
                store v1, v0+8
                return
            }}"
        )
    };
    let text = format!(
        "{}{}function %f(i64) {{
            fn0 = %swap(i64)
            fn1 = %swap_back(i64)
            fn2 = %brolga_inverse_pair(i64, i64, i64, i64)
        block0(v0: i64):
            v1 = func_addr.i64 fn0
            v2 = func_addr.i64 fn1
            v3 = iconst.i64 16
            call fn2(v1, v2, v0, v3)
            return
        }}",
        swap("swap"),
        swap("swap_back")
    );
    let p = program(&text);
    let request = Request::new(p.func("f").unwrap(), [ArgActivity::Duplicated]);
    match DerivedRule::new(&p, &request, &Options::full()) {
        Err(Error::Diagnostics(found)) => {
            let d = &found.0[0];
            assert!(d.code == "AD0190" && d.message.contains("undone by an inverse"), "{d:?}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn what_is_no_pair_is_refused() {
    let refused = |text: &str| {
        let p = program(text);
        let args = [ArgActivity::Duplicated, ArgActivity::Const];
        match DerivedRule::new(&p, &Request::new(p.func("f").unwrap(), args), &Options::full()) {
            Err(Error::Diagnostics(found)) => found.0.into_iter().map(|d| (d.code, d.message)).collect::<Vec<_>>(),
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    let call = |declared: &str, inverse: &str, given: &str| {
        format!(
            "function %g(i64, i64) {{
            block0(v0: i64, v1: i64):
                v2 = load.f64 v0
                v3 = fmul v2, v2
                store v3, v0
                return
            }}
            function %h(f64) {{
            block0(v0: f64):
                return
            }}
            function %f(i64, i64) {{
                fn0 = %g(i64, i64)
                fn1 = %h(f64)
                fn2 = %brolga_inverse_pair({declared})
            block0(v0: i64, v1: i64):
                v3 = iconst.i64 8
                v4 = func_addr.i64 fn0
                v5 = {inverse}
                call fn2({given})
                return
            }}"
        )
    };
    let cases = [
        (call("i64, i64, i64", "func_addr.i64 fn0", "v4, v5, v0"), "is declared as (i64, i64, i64)"),
        (call("i64, i64, i64, i64, i64", "iadd v4, v1", "v4, v5, v0, v3, v1"), "are not two functions of the program"),
        (call("i64, i64, i64, i64, i64", "func_addr.i64 fn1", "v4, v5, v0, v3, v1"), "and `%h`, declared as (f64)"),
        (call("i64, i64, i64, i64", "func_addr.i64 fn0", "v4, v5, v0, v3"), "is given `%g`"),
    ];
    for (text, says) in cases {
        let found = refused(&text);
        assert_eq!(found[0].0, "AD0191", "{found:?}");
        assert!(found[0].1.contains(says), "{found:?}");
    }
}

#[test]
fn inverses_that_are_found_are_as_good_as_those_by_hand() {
    let p = pairs();
    let mut found = p.clone();
    brolga::find_inverse(&mut found, "shear", &[(0, StateLength::Bytes(24))]).unwrap();
    brolga::find_inverse(&mut found, "slide", &[(1, StateLength::Bytes(16))]).unwrap();
    let mut by_hand = p.clone();
    by_hand.set_inverse("shear", "shear_back", &[(0, StateLength::Bytes(24))]).unwrap();
    by_hand.set_inverse("slide", "slide_back", &[(1, StateLength::Bytes(16))]).unwrap();
    for (func, calls) in [("plain_shears", 20), ("slides", 9)] {
        for check in [InverseCheck::Bits, InverseCheck::Record, InverseCheck::Off] {
            let of = |p: &Program| run(&rule(p, func, &options(Mode::Combined, check)), calls, START, 0).unwrap();
            let ((by_found, cost), (hand, _), (as_written, _)) = (of(&found), of(&by_hand), of(&p));
            assert_eq!(by_found, hand, "%{func} {check:?}");
            near(&by_found, &as_written, 1e-13, func);
            assert_eq!((cost.1.calls, cost.1.undone, cost.1.recorded), (calls as u64, calls as u64, 0));
        }
    }
    // What is lost is named, with its place.
    let lost = program(
        "function %f(i64) {\nblock0(v0: i64):\n    v1 = load.f64 v0\n    v2 = fmul v1, v1\n    store v2, v0\n    return\n}",
    );
    let refused = |p: &Program, f: &str| {
        let all = brolga::find_inverse(&mut p.clone(), f, &[(0, StateLength::Bytes(8))]).unwrap_err();
        all.to_string()
    };
    let said = refused(&lost, "f");
    for part in ["AD0195", "%f, block0, inst1", "v2 = fmul.f64 v1, v1", "loses what v1 was", "inverse_pair"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(refused(&lost, "g").contains("AD0192"), "{}", refused(&lost, "g"));
    assert!(refused(&found, "shear").contains("has a function %shear__inverse already"));
}
