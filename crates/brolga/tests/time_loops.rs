//! Time loops: the gradient is that of the loop in any budget, bit for bit, and that of the same
//! loop written as a loop; what cannot be reversed is refused.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Inline, LoopReport, LoopStats, Mode, Options, Program, Request};
use brolga_testing::program;

/// A pendulum in a field that depends on time: position and velocity, and params dt and k.
/// `%plain` is a loop of steps, `%fall` steps until the position is below -1.
const PENDULUM: &str = "
function %step(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v0+8
    v5 = load.f64 v1
    v6 = load.f64 v1+8
    v7 = fmul v5, v4
    v8 = fadd v3, v7
    v9 = fmul v8, v8
    v10 = fmul v9, v8
    v11 = fcvt_from_sint.f64 v2
    v12 = f64const 0x1.0p-6
    v13 = fmul v11, v12
    v14 = fadd v10, v13
    v15 = fmul v6, v14
    v16 = fmul v5, v15
    v17 = fsub v4, v16
    store v8, v0
    store v17, v0+8
    return
}
function %sum(i64) -> f64 {
block0(v0: i64):
    v1 = load.f64 v0
    v2 = load.f64 v0+8
    v3 = fmul v1, v2
    v4 = fadd v3, v1
    return v4
}
function %plain(i64, i64, i64) -> f64 {
    fn0 = %step(i64, i64, i64)
    fn1 = %sum(i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    jump block1(v3)
block1(v4: i64):
    v5 = icmp slt v4, v2
    brif v5, block2, block3
block2:
    call fn0(v0, v1, v4)
    v20 = iconst.i64 1
    v6 = iadd v4, v20
    jump block1(v6)
block3:
    v7 = call fn1(v0)
    return v7
}
function %goes_on(i64, i64, i64) -> i8 {
    fn0 = %step(i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    call fn0(v0, v1, v2)
    v3 = load.f64 v0
    v4 = f64const -0x1.0
    v5 = fcmp gt v3, v4
    return v5
}
function %fall(i64, i64, i64) -> f64, i64 {
    fn0 = %goes_on(i64, i64, i64) -> i8
    fn1 = %brolga_while_loop(i64, i64, i64, i64, i64) -> i64
    fn2 = %sum(i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 16
    v5 = call fn1(v3, v0, v4, v1, v2)
    v6 = call fn2(v0)
    return v6, v5
}
function %inner(i64, i64, i64) {
    fn0 = %step(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 16
    v5 = iconst.i64 9
    call fn1(v3, v0, v4, v1, v5)
    return
}
function %plain_nested(i64, i64, i64) -> f64 {
    fn0 = %step(i64, i64, i64)
    fn1 = %sum(i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    jump block1(v3)
block1(v4: i64):
    v5 = icmp slt v4, v2
    v6 = iconst.i64 0
    brif v5, block2(v6), block4
block2(v7: i64):
    v21 = iconst.i64 9
    v8 = icmp slt v7, v21
    brif v8, block3, block5
block3:
    call fn0(v0, v1, v7)
    v22 = iconst.i64 1
    v9 = iadd v7, v22
    jump block2(v9)
block5:
    v23 = iconst.i64 1
    v10 = iadd v4, v23
    jump block1(v10)
block4:
    v11 = call fn1(v0)
    return v11
}
function %halves(i64, i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64, v3: i64):
    v4 = load.f64 v0
    v5 = load.f64 v1
    v6 = load.f64 v2
    v7 = fmul v6, v5
    v8 = fadd v4, v7
    store v8, v0
    v9 = fmul v8, v8
    v10 = fmul v6, v9
    v11 = fsub v5, v10
    store v11, v1
    return
}
function %two(i64, i64, i64) -> f64 {
    fn0 = %halves(i64, i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64, i64, i64)
    fn2 = %sum(i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 8
    v24 = iconst.i64 8
    v5 = iadd v0, v24
    call fn1(v3, v0, v4, v5, v4, v1, v2)
    v6 = call fn2(v0)
    return v6
}
function %plain_two(i64, i64, i64) -> f64 {
    fn0 = %halves(i64, i64, i64, i64)
    fn1 = %sum(i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    v24 = iconst.i64 8
    v8 = iadd v0, v24
    jump block1(v3)
block1(v4: i64):
    v5 = icmp slt v4, v2
    brif v5, block2, block3
block2:
    call fn0(v0, v8, v1, v4)
    v20 = iconst.i64 1
    v6 = iadd v4, v20
    jump block1(v6)
block3:
    v7 = call fn1(v0)
    return v7
}
function %warm(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = iconst.i64 0
    v3 = iconst.i64 5
    v4 = iconst.i64 1
    jump block1(v2)
block1(v5: i64):
    v6 = icmp slt v5, v3
    brif v6, block2, block3
block2:
    v7 = load.f64 v0
    v8 = load.f64 v0+8
    v9 = load.f64 v1+8
    v10 = fmul v7, v8
    v11 = fmul v10, v9
    v12 = fadd v11, v7
    v13 = sqrt v9
    v14 = fdiv v12, v13
    store v14, v0
    v15 = iadd v5, v4
    jump block1(v15)
block3:
    return
}
function %broken(i64, i64, i64) {
    fn0 = %step(i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 23
    v4 = icmp eq v2, v3
    trapnz v4, user7
    call fn0(v0, v1, v2)
    return
}
function %counting(i64, i64, i64) {
    fn0 = %step(i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    call fn0(v0, v1, v2)
    v3 = load.f64 v1
    v4 = f64const 0x1.0p-10
    v5 = fadd v3, v4
    store v5, v1
    return
}
function %overlapping(i64, i64, i64) -> f64 {
    fn0 = %halves(i64, i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64, i64, i64)
    fn2 = %sum(i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 9
    v5 = iconst.i64 8
    v6 = iadd v0, v5
    call fn1(v3, v0, v4, v6, v5, v1, v2)
    v7 = call fn2(v0)
    return v7
}
";

/// A function that runs a time loop of a step, and adds up what is left.
const LOOP: &str = "
function %NAME(i64, i64, i64) -> f64 {
    fn0 = %STEP(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
    fn2 = %sum(i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 16
    call fn1(v3, v0, v4, v1, v2)
    v5 = call fn2(v0)
    return v5
}
";

/// A function that runs others before and after two loops, which record, too.
const AROUND: &str = "
function %NAME(i64, i64, i64) -> f64 {
    fn0 = %warm(i64, i64)
    fn1 = %LOOP(i64, i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    call fn0(v0, v1)
    v3 = call fn1(v0, v1, v2)
    call fn0(v0, v1)
    v4 = call fn1(v0, v1, v2)
    v5 = load.f64 v0
    v6 = fmul v3, v4
    v7 = fmul v6, v5
    return v7
}
";

/// All functions.
pub(crate) fn pendulum() -> Program {
    let mut text = PENDULUM.to_owned();
    for (name, step) in [("f", "step"), ("nested", "inner"), ("breaks", "broken"), ("counts", "counting")] {
        text += &LOOP.replace("%NAME", &format!("%{name}")).replace("%STEP", &format!("%{step}"));
    }
    for (name, of) in [("around", "f"), ("plain_around", "plain")] {
        text += &AROUND.replace("%NAME", &format!("%{name}")).replace("%LOOP", &format!("%{of}"));
    }
    program(&text)
}

/// What a gradient gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) results: Vec<DataValue>,
    pub(crate) state: Vec<u64>,
    pub(crate) state_shadow: Vec<u64>,
    pub(crate) params_shadow: Vec<u64>,
}

impl Outcome {
    fn of_bits(bits: &[u64]) -> Vec<f64> {
        bits.iter().map(|&b| f64::from_bits(b)).collect()
    }

    /// Entries of both gradients.
    fn gradient(&self) -> Vec<f64> {
        [Self::of_bits(&self.state_shadow), Self::of_bits(&self.params_shadow)].concat()
    }
}

const PARAMS: [f64; 2] = [0.01, 1.3];

fn bits(x: &[f64]) -> Vec<u64> {
    x.iter().map(|x| x.to_bits()).collect()
}

pub(crate) fn options(mode: Mode, budget: usize) -> Options {
    Options { mode, memory_budget: budget, ..Options::as_calls() }
}

pub(crate) fn rule(program: &Program, func: &str, options: &Options) -> DerivedRule {
    let args = [ArgActivity::Duplicated, ArgActivity::Duplicated, ArgActivity::Const];
    DerivedRule::new(program, &Request::new(program.func(func).unwrap(), args), options).unwrap()
}

/// The gradient of a call with shadows that are not zero, `times` times; the last one.
pub(crate) fn run(rule: &DerivedRule, n: i64, start: [f64; 2], times: usize) -> Result<(Outcome, LoopStats), Error> {
    planned(rule, n, start, times).map(|(outcome, stats, _)| (outcome, stats))
}

/// The same, and how its loops were reversed.
pub(crate) fn planned(
    rule: &DerivedRule,
    n: i64,
    start: [f64; 2],
    times: usize,
) -> Result<(Outcome, LoopStats, Vec<LoopReport>), Error> {
    let (mut state, mut params) = (start, PARAMS);
    let (mut ds, mut dp) = ([0.25, -0.5], [0.125, 2.0]);
    let arg =
        |p: &mut [f64; 2], d: &mut [f64; 2]| Arg::duplicated_len(p.as_mut_ptr() as u64, d.as_mut_ptr() as u64, 16);
    let args = [arg(&mut state, &mut ds), arg(&mut params, &mut dp), Arg::new(DataValue::I64(n))];
    let seeds = [DataValue::F64(1.5.into()), DataValue::I64(0)];
    let seeds = &seeds[..rule_returns(rule)];
    let (mut results, mut cotangents) = (vec![], vec![]);
    let (stats, plans) = if times == 0 {
        // SAFETY: the arguments are as the functions want them.
        let run = unsafe { rule.gradient(&args, seeds, &mut results, &mut cotangents) }?;
        (run.loop_stats(), run.loop_plans())
    } else {
        // SAFETY: as above.
        let (found, mut pullback) = unsafe { rule.forward(&args) }?;
        results = found;
        let after = state;
        for _ in 0..times {
            (ds, dp) = ([0.25, -0.5], [0.125, 2.0]);
            // SAFETY: as above.
            unsafe { pullback.call(seeds) }?;
            assert_eq!(bits(&state), bits(&after), "a pullback leaves the state as it finds it");
        }
        (pullback.loop_stats(), pullback.loop_plans())
    };
    assert_eq!(params, PARAMS);
    let (state, state_shadow, params_shadow) = (bits(&state), bits(&ds), bits(&dp));
    Ok((Outcome { results, state, state_shadow, params_shadow }, stats, plans))
}

fn rule_returns(rule: &DerivedRule) -> usize {
    rule.signature().returns.len()
}

fn near(a: &Outcome, b: &Outcome, what: &str) {
    assert_eq!((&a.results, &a.state), (&b.results, &b.state), "{what}");
    for (x, y) in a.gradient().iter().zip(b.gradient()) {
        assert!((x - y).abs() <= 1e-13 * x.abs().max(y.abs()).max(1.0), "{what}: {a:?} {b:?}");
    }
}

/// Budgets by which states are kept before each block, by revolve, and nowhere but at the
/// beginning.
const BUDGETS: [usize; 6] = [1 << 26, 4096, 1000, 200, 64, 32];

#[test]
fn any_budget_gives_the_same_bits_and_the_numbers_of_the_loop() {
    let p = pendulum();
    let pairs = [("f", "plain"), ("nested", "plain_nested"), ("two", "plain_two"), ("around", "plain_around")];
    for (func, plain) in pairs {
        for n in [0, 1, 2, 3, 40, 137] {
            let what = format!("%{func}, {n} steps");
            let start = [0.9, -0.3];
            let as_written = run(&rule(&p, plain, &options(Mode::Combined, 0)), n, start, 0).unwrap().0;
            let mut first: Option<Outcome> = None;
            for budget in BUDGETS {
                let combined = run(&rule(&p, func, &options(Mode::Combined, budget)), n, start, 0).unwrap();
                near(&combined.0, &as_written, &what);
                assert!(matches!(func, "nested" | "around") || combined.1.reversed == n as u128, "{what} {combined:?}");
                let same = first.get_or_insert(combined.0.clone());
                assert_eq!(&combined.0, same, "{what} in {budget} bytes");
                let split = rule(&p, func, &options(Mode::Split, budget));
                for times in 1..=3 {
                    let found = run(&split, n, start, times).unwrap().0;
                    assert_eq!(&found, same, "{what} in {budget} bytes, pullback {times}");
                }
            }
        }
    }
}

#[test]
fn loops_that_end_when_they_like() {
    let p = pendulum();
    for (n, ends) in [(0, 0), (1, 1), (50, 50), (1_000_000, 147)] {
        let start = [0.9, -0.3];
        let mut first: Option<Outcome> = None;
        for budget in BUDGETS {
            let what = format!("{n} steps in {budget} bytes");
            let (found, stats) = run(&rule(&p, "fall", &options(Mode::Combined, budget)), n, start, 0).unwrap();
            let DataValue::I64(count) = found.results[1] else { panic!("a number of steps") };
            assert_eq!((count, stats.reversed), (ends, ends as u128), "{what}");
            let as_written = run(&rule(&p, "plain", &options(Mode::Combined, 0)), count, start, 0).unwrap().0;
            near(&Outcome { results: found.results[..1].to_vec(), ..found.clone() }, &as_written, &what);
            assert_eq!(&found, first.get_or_insert(found.clone()), "{what}");
            let repeated = run(&rule(&p, "fall", &options(Mode::Split, budget)), n, start, 2).unwrap().0;
            assert_eq!(repeated, found, "{what}");
        }
    }
}

/// What a function that is not differentiated gives.
fn value(rule: &DerivedRule, start: [f64; 2], params: [f64; 2], n: i64) -> f64 {
    let (mut start, mut params) = (start, params);
    let [state, params] = [start.as_mut_ptr(), params.as_mut_ptr()].map(|p| DataValue::I64(p as i64));
    // SAFETY: the arguments are as the function wants them.
    let found = unsafe { rule.primal(&[state, params, DataValue::I64(n)]) }.unwrap();
    let DataValue::F64(value) = found[0] else { panic!("a float") };
    value.as_f64()
}

#[test]
fn differences_say_the_same() {
    let p = pendulum();
    for func in ["f", "nested", "two", "fall", "around"] {
        let (n, start, h) = (60, [0.9, -0.3], 1e-6);
        let rule = rule(&p, func, &options(Mode::Combined, 256));
        // The seed of the result is 1.5, the shadow of the state holds one of 0.25 and -0.5.
        let objective = |start: [f64; 2], params: [f64; 2]| {
            let (mut state, mut params) = (start, params);
            let args = [state.as_mut_ptr(), params.as_mut_ptr()].map(|p| DataValue::I64(p as i64));
            // SAFETY: the arguments are as the function wants them.
            let found = unsafe { rule.primal(&[args[0].clone(), args[1].clone(), DataValue::I64(n)]) }.unwrap();
            let DataValue::F64(value) = found[0] else { panic!("a float") };
            1.5 * value.as_f64() + 0.25 * state[0] - 0.5 * state[1]
        };
        let found = run(&rule, n, start, 0).unwrap().0.gradient();
        let (before, inputs) = ([0.0, 0.0, 0.125, 2.0], [start[0], start[1], PARAMS[0], PARAMS[1]]);
        for i in 0..4 {
            let at = |h: f64| {
                let mut x = inputs;
                x[i] += h;
                objective([x[0], x[1]], [x[2], x[3]])
            };
            let slope = (at(h) - at(-h)) / (2.0 * h);
            let derived = found[i] - before[i];
            assert!((slope - derived).abs() < 1e-6 * slope.abs().max(1.0), "%{func}, {i}: {slope} {derived}");
        }
        assert!(value(&rule, start, PARAMS, n).is_finite());
    }
}

/// Why a run has stopped.
fn stopped(program: &Program, func: &str, n: i64, budget: usize) -> (String, String) {
    let rule = rule(program, func, &options(Mode::Combined, budget));
    match run(&rule, n, [0.9, -0.3], 0) {
        Err(Error::Trap(trap)) => {
            let step = if trap.code == "time_loop" { &["step", "counting", "halves"][..] } else { &["broken"] };
            assert!(step.contains(&&trap.function[..]), "{trap:?}");
            (trap.code, trap.message)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let p = pendulum();
    let cases = [
        ("f", -1, 1 << 20, "has -1 steps; pass the number of steps"),
        ("f", 10, 31, "the memory budget of 31 bytes is less than"),
        ("overlapping", 10, 1 << 20, "two states overlap"),
        ("counts", 10, 512, "have made another state when they ran again"),
        ("counts", 10, 64, "have made another state when they ran again"),
    ];
    for (func, n, budget, says) in cases {
        let (code, message) = stopped(&p, func, n, budget);
        assert_eq!(code, "time_loop", "{message}");
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn debug_runs_name_stores_outside_of_states() {
    let p = pendulum();
    for (mode, times) in [(Mode::Combined, 0), (Mode::Split, 1)] {
        for budget in [1 << 20, 1000, 200, 32] {
            let options = options(mode, budget);
            let debug = Options { debug: true, ..options.clone() };
            for func in ["f", "nested", "two", "around", "fall"] {
                let found = run(&rule(&p, func, &debug), 40, [0.9, -0.3], times).unwrap().0;
                let same = run(&rule(&p, func, &options), 40, [0.9, -0.3], times).unwrap().0;
                assert_eq!(found, same, "{func}, {budget} bytes");
            }
            match run(&rule(&p, "counts", &debug), 40, [0.9, -0.3], times) {
                Err(Error::Trap(trap)) => {
                    assert_eq!((&trap.code[..], &trap.function[..]), ("time_loop", "counting"), "{trap}");
                    assert!(trap.message.contains("writes to byte 0 of a buffer"), "{trap}");
                    assert_eq!(trap.inst_text.as_deref(), Some("store.f64 v5, v1"), "{trap}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_tape_that_is_full_ends_the_run() {
    let p = pendulum();
    let mut codes = Vec::new();
    for budget in [64, 1 << 20] {
        let unlimited = run(&rule(&p, "f", &options(Mode::Split, budget)), 40, [0.9, -0.3], 1).unwrap().0;
        for tape_limit in (0..256).step_by(4).chain((256..4096).step_by(56)) {
            let rule = rule(&p, "f", &Options { tape_limit, ..options(Mode::Split, budget) });
            match run(&rule, 40, [0.9, -0.3], 1) {
                Ok((found, _)) => assert_eq!(found, unlimited, "{budget}, {tape_limit}"),
                Err(Error::Trap(trap)) => codes.push(trap.code),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(codes.len() > 10 && codes.iter().all(|c| c == "tape_full"), "{codes:?}");
}

/// Of memory whose length no argument declares no state can be kept: all steps of a loop without a
/// mark are recorded, or the tape is full.
#[test]
fn memory_of_unknown_length_is_recorded() {
    let p = pendulum();
    let gradient = |options: &Options, n: i64| -> Result<(Vec<u64>, LoopStats), Error> {
        let (mut state, mut params, mut ds, mut dp) = ([0.9, -0.3], PARAMS, [0.25, -0.5], [0.125, 2.0]);
        let arg = |p: &mut [f64; 2], d: &mut [f64; 2]| Arg::duplicated(p.as_mut_ptr() as u64, d.as_mut_ptr() as u64);
        let args = [arg(&mut state, &mut ds), arg(&mut params, &mut dp), Arg::new(DataValue::I64(n))];
        let seeds = [DataValue::F64(1.5.into())];
        // SAFETY: the arguments are as the function wants them.
        let run = unsafe { rule(&p, "plain", options).gradient(&args, &seeds, &mut vec![], &mut vec![]) }?;
        Ok(([bits(&ds), bits(&dp)].concat(), run.loop_stats()))
    };
    let within = |tape_limit| Options { tape_limit, inline: Inline::Never, ..Options::within_memory(1 << 10) };
    let combined = |options| Options { mode: Mode::Combined, ..options };
    let (unlimited, stats) = gradient(&combined(within(1 << 20)), 400).unwrap();
    assert!(stats.taped >= 400 && stats.stores == 0, "{stats:?}");
    let mut codes = Vec::new();
    for tape_limit in (0..40_000).step_by(613) {
        match gradient(&combined(within(tape_limit)), 400) {
            Ok((found, stats)) => assert_eq!((found, stats.stores), (unlimited.clone(), 0), "{tape_limit}"),
            Err(Error::Trap(trap)) => codes.push(trap.code),
            other => panic!("{other:?}"),
        }
    }
    assert!(codes.len() > 10 && codes.iter().all(|c| c == "tape_full"), "{codes:?}");
}

#[test]
fn a_trap_in_a_step_is_that_of_the_step() {
    let p = pendulum();
    for budget in BUDGETS {
        assert_eq!(stopped(&p, "breaks", 40, budget).0, "user7");
        let rule = rule(&p, "breaks", &options(Mode::Combined, budget));
        // The rule can be called again.
        assert!(run(&rule, 40, [0.9, -0.3], 0).is_err());
        let found = run(&rule, 20, [0.9, -0.3], 0).unwrap().0;
        near(&found, &run(&self::rule(&p, "plain", &options(Mode::Combined, 0)), 20, [0.9, -0.3], 0).unwrap().0, "20");
    }
}

#[test]
fn the_budget_is_kept_and_steps_are_counted() {
    let p = pendulum();
    let n = 20_000;
    for budget in [1 << 20, 1 << 16, 1 << 13, 1 << 11] {
        let rule = rule(&p, "f", &options(Mode::Combined, budget));
        let stats = run(&rule, n, [0.9, -0.3], 0).unwrap().1;
        assert!(stats.max_bytes <= budget as u64, "{budget} bytes: {stats:?}");
        assert_eq!((stats.taped, stats.reversed), (n as u128, n as u128), "{stats:?}");
        // The first step may be recorded at once.
        assert!(stats.forward >= n as u128 - 1, "{stats:?}");
        assert!(budget < 1 << 16 || stats.forward <= 3 * n as u128, "{budget} bytes: {stats:?}");
    }
}

#[test]
fn a_loop_that_fits_runs_each_step_once() {
    let p = pendulum();
    for (func, n, times) in [("f", 500, 0), ("f", 500, 2), ("f", 0, 0), ("f", 1, 2), ("fall", 40, 0), ("fall", 40, 3)] {
        let rule = rule(&p, func, &options(if times == 0 { Mode::Combined } else { Mode::Split }, 1 << 20));
        // Later runs know what a step takes.
        for _ in 0..2 {
            let stats = run(&rule, n, [0.9, -0.3], times).unwrap().1;
            let reversed = stats.taped * times.max(1) as u128;
            assert_eq!((stats.forward, stats.stores, stats.reversed), (0, 0, reversed), "{func}, {n}: {stats:?}");
            assert!(stats.max_bytes < 1 << 20 && (stats.max_bytes > 0) == (n > 0), "{stats:?}");
        }
    }
}

/// `1.5 kⁿ`, whose state lies in a slot; `%caller` has returned from it when it is reversed.
const ON_THE_STACK: &str = "function %shrink(i64, i64, i64) {
    block0(v0: i64, v1: i64, v2: i64):
        v3 = load.f64 v0
        v4 = load.f64 v1
        v5 = fmul v3, v4
        store v5, v0
        return
    }
    function %kept(i64, i64) -> f64 {
        ss0 = explicit_slot 8
        fn0 = %shrink(i64, i64, i64)
        fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
    block0(v0: i64, v1: i64):
        v2 = f64const 0x1.8p0
        v3 = stack_addr.i64 ss0
        store v2, v3
        v4 = func_addr.i64 fn0
        v5 = iconst.i64 8
        call fn1(v4, v3, v5, v0, v1)
        v6 = load.f64 v3
        return v6
    }
    function %caller(i64, i64) -> f64 {
        fn0 = %kept(i64, i64) -> f64
    block0(v0: i64, v1: i64):
        v2 = call fn0(v0, v1)
        v3 = load.f64 v0
        v4 = fmul v2, v3
        return v4
    }";

#[test]
fn states_on_a_stack_that_is_gone() {
    let p = program(ON_THE_STACK);
    let n = 30;
    for (func, power) in [("kept", n), ("caller", n + 1)] {
        for (mode, keeps) in [(Mode::Combined, func == "kept"), (Mode::Split, false)] {
            let request = Request::new(p.func(func).unwrap(), [ArgActivity::Duplicated, ArgActivity::Const]);
            let rule = DerivedRule::new(&p, &request, &options(mode, 48)).unwrap();
            let (mut k, mut dk) = (0.75, 0.5);
            let k_at = Arg::duplicated(&raw mut k as u64, &raw mut dk as u64);
            let (args, seeds) = ([k_at, Arg::new(DataValue::I64(n))], [DataValue::F64(2.0.into())]);
            let (mut results, mut cotangents) = (vec![], vec![]);
            let stats = if mode == Mode::Split {
                // SAFETY: the arguments are as the functions want them.
                let (_, mut pullback) = unsafe { rule.forward(&args) }.unwrap();
                // SAFETY: as above.
                unsafe { pullback.call(&seeds) }.unwrap();
                pullback.loop_stats()
            } else {
                // SAFETY: as above.
                unsafe { rule.gradient(&args, &seeds, &mut results, &mut cotangents) }.unwrap().loop_stats()
            };
            let slope = 1.5 * power as f64 * 0.75_f64.powi(power as i32 - 1);
            assert!((dk - 0.5 - 2.0 * slope).abs() < 1e-12, "{func}, {mode:?}: {dk}");
            assert_eq!(stats.stores > 0, keeps, "{func}, {mode:?}: {stats:?}");
        }
    }
}

#[test]
fn what_is_no_loop_of_steps_is_refused() {
    let refused = |text: &str, func: &str| {
        let p = program(text);
        let args = [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Const];
        match DerivedRule::new(&p, &Request::new(p.func(func).unwrap(), args), &Options::full()) {
            Err(Error::Diagnostics(found)) => found.0.into_iter().map(|d| (d.code, d.message)).collect::<Vec<_>>(),
            other => panic!("{:?}", other.map(|_| ())),
        }
    };
    let unknown = "function %f(i64, i64, i64) {
        fn0 = %brolga_time_loop(i64, i64, i64, i64, i64)
    block0(v0: i64, v1: i64, v2: i64):
        v3 = iconst.i64 16
        call fn0(v1, v0, v3, v0, v2)
        return
    }";
    let found = refused(unknown, "f");
    assert_eq!(found[0].0, "AD0191");
    assert!(found[0].1.contains("is not a function of the program"), "{found:?}");
    let other = "function %step(f64) {
    block0(v0: f64):
        return
    }
    function %f(i64, i64, i64) {
        fn0 = %step(f64)
        fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
    block0(v0: i64, v1: i64, v2: i64):
        v3 = iconst.i64 16
        v4 = func_addr.i64 fn0
        call fn1(v4, v0, v3, v0, v2)
        return
    }";
    let found = refused(other, "f");
    assert_eq!(found[0].0, "AD0191");
    assert!(found[0].1.contains("declared as (f64)"), "{found:?}");
}
