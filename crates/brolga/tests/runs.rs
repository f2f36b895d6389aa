//! What a rule promises about its runs: no allocation in the steady state, threads may share it,
//! the pullback may be called again, a trap leaves the rule usable, and everything is released.

use std::cell::Cell;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Mode, Options, Request, ResultActivity};
use brolga_testing::child::alone;
use brolga_testing::counting::requests;
use brolga_testing::program;

/// `x^n` by a loop, with a callee, so that stacks, frames and calls are all in it.
const POWER: &str = "
function %times(f64, f64) -> f64 {
block0(v0: f64, v1: f64):
    v2 = fmul v0, v1
    return v2
}
function %power(f64, i64) -> f64 {
    fn0 = %times(f64, f64) -> f64
block0(v0: f64, v1: i64):
    v2 = f64const 0x1.0
    v3 = iconst.i64 -1
    jump block1(v1, v2)
block1(v4: i64, v5: f64):
    brif v4, block2, block3
block2:
    v6 = call fn0(v5, v0)
    v7 = iadd v4, v3
    jump block1(v7, v6)
block3:
    return v5
}";

fn power() -> DerivedRule {
    let p = program(POWER);
    let request = Request::new(p.func("power").unwrap(), [ArgActivity::Active, ArgActivity::Const]);
    DerivedRule::new(&p, &request, &Options::full()).unwrap_or_else(|e| panic!("{e}"))
}

fn f64_of(v: &DataValue) -> f64 {
    match v {
        DataValue::F64(x) => x.as_f64(),
        other => panic!("{other:?} is no f64"),
    }
}

fn args(x: f64, n: i64) -> [Arg; 2] {
    [Arg::new(DataValue::F64(x.into())), Arg::new(DataValue::I64(n))]
}

#[test]
fn a_second_call_allocates_nothing() {
    let rule = power();
    let (args, seed) = (args(1.25, 40), [DataValue::F64(1.0.into())]);
    let (mut results, mut cotangents) = (Vec::new(), Vec::new());
    let mut run = || {
        // SAFETY: no pointers are passed.
        unsafe {
            let mut pullback = rule.forward_into(&args, &mut results).unwrap();
            pullback.call_into(&seed, &mut cotangents).unwrap();
        }
    };
    run();
    let before = requests();
    run();
    assert_eq!(requests(), before);
    assert!((f64_of(cotangents[0].as_ref().unwrap()) / (40.0 * 1.25_f64.powi(39)) - 1.0).abs() < 1e-13);
}

#[test]
fn nor_does_a_debug_run() {
    let text = "
function %square(i64) -> f64 {
block0(v0: i64):
    v1 = load.f64 v0
    v2 = fmul v1, v1
    return v2
}";
    let p = program(text);
    let request = Request::new(p.func("square").unwrap(), [ArgActivity::Duplicated]);
    let options = Options { debug: true, ..Options::full() };
    let rule = DerivedRule::new(&p, &request, &options).unwrap_or_else(|e| panic!("{e}"));
    let (x, dx) = (Cell::new(3.0_f64), Cell::new(0.0_f64));
    let args = [Arg::duplicated_len(x.as_ptr() as u64, dx.as_ptr() as u64, 8)];
    let seed = [DataValue::F64(1.0.into())];
    let (mut results, mut cotangents) = (Vec::new(), Vec::new());
    let mut run = || {
        // SAFETY: both cells are valid for as long as this takes.
        unsafe {
            let mut pullback = rule.forward_into(&args, &mut results).unwrap();
            pullback.call_into(&seed, &mut cotangents).unwrap();
        }
    };
    run();
    let before = requests();
    run();
    assert_eq!(requests(), before);
    assert_eq!(dx.get(), 12.0);
}

#[test]
fn threads_share_a_rule() {
    fn shareable<T: Send + Sync + Clone>(_: &T) {}
    let rule = power();
    shareable(&rule);
    std::thread::scope(|s| {
        for t in 0..4_i64 {
            let rule = rule.clone();
            s.spawn(move || {
                for i in 0..200 {
                    let n = (t * 200 + i) % 37 + 1;
                    // SAFETY: no pointers are passed.
                    let (y, mut pullback) = unsafe { rule.forward(&args(1.5, n)) }.unwrap();
                    // SAFETY: as above.
                    let g = unsafe { pullback.call(&[DataValue::F64(2.0.into())]) }.unwrap();
                    assert!((f64_of(&y[0]) / 1.5_f64.powi(n as i32) - 1.0).abs() < 1e-13);
                    let want = 2.0 * n as f64 * 1.5_f64.powi(n as i32 - 1);
                    let got = f64_of(g[0].as_ref().unwrap());
                    assert!((got - want).abs() <= 1e-12 * want.abs(), "{got} {want}");
                }
            });
        }
    });
}

#[test]
fn a_pullback_may_be_called_again_and_runs_may_overlap() {
    let rule = power();
    // SAFETY: no pointers are passed.
    unsafe {
        let (_, mut first) = rule.forward(&args(2.0, 3)).unwrap();
        let (_, mut second) = rule.forward(&args(3.0, 2)).unwrap();
        for seed in [1.0, 0.0, -2.5] {
            let seeds = [DataValue::F64(seed.into())];
            assert_eq!(f64_of(first.call(&seeds).unwrap()[0].as_ref().unwrap()), 12.0 * seed);
            assert_eq!(f64_of(second.call(&seeds).unwrap()[0].as_ref().unwrap()), 6.0 * seed);
        }
    }
}

#[test]
fn a_seed_that_is_one() {
    let p = program(POWER);
    let wanted = |symbol, args: &[ArgActivity]| Request {
        results: vec![ResultActivity::Unit],
        ..Request::new(p.func(symbol).unwrap(), args.iter().copied())
    };
    let request = wanted("power", &[ArgActivity::Active, ArgActivity::Const]);
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let rule = DerivedRule::new(&p, &request, &Options { mode, ..Options::full() }).unwrap();
        let (mut value, mut cotangents) = (vec![], vec![]);
        let mut run = |seed: f64| {
            // SAFETY: no argument is a pointer.
            unsafe { rule.gradient(&args(1.5, 3), &[DataValue::F64(seed.into())], &mut value, &mut cotangents) }?;
            Ok::<_, Error>(f64_of(cotangents[0].as_ref().unwrap()))
        };
        assert_eq!(run(1.0).unwrap(), 3.0 * 1.5 * 1.5);
        let error = run(2.0).unwrap_err().to_string();
        assert!(error.contains("asked for with a seed of one"), "{error}");
    }
}

#[test]
fn a_seed_of_zero_asks_for_nothing() {
    // A lone result is taken to be asked for, so no product is guarded: 0 · 2∞ and 0 / 2√0 would be
    // NaN.
    let text = "function %f(f64, f64) -> f64 {\nblock0(v0: f64, v1: f64):
        v2 = fmul v0, v0\n v3 = sqrt v1\n v4 = fadd v2, v3\n return v4\n}";
    let p = program(text);
    let request = Request::new(p.func("f").unwrap(), [ArgActivity::Active, ArgActivity::Active]);
    for mode in [Mode::Gradient, Mode::Combined, Mode::Split] {
        let rule = DerivedRule::new(&p, &request, &Options { mode, ..Options::full() }).unwrap();
        let args = [f64::INFINITY, 0.0].map(|x: f64| Arg::new(DataValue::F64(x.into())));
        for (seed, expected) in [(0.0_f64, [0.0; 2]), (-0.0, [0.0; 2]), (1.0, [f64::INFINITY; 2])] {
            let (mut results, mut found) = (Vec::new(), Vec::new());
            // SAFETY: no pointers.
            unsafe { rule.gradient(&args, &[DataValue::F64(seed.into())], &mut results, &mut found) }.unwrap();
            let found: Vec<f64> = found.iter().flatten().map(f64_of).collect();
            assert_eq!(found, expected, "{mode:?}, seed {seed}");
        }
    }
}

#[test]
fn one_of_two_results() {
    use ResultActivity::{Active, Const, Unit};
    let p = program(
        "function %two(f64, i32) -> f64, i32, f64 {
        block0(v0: f64, v1: i32):
            v2 = fmul v0, v0
            v3 = fmul v2, v0
            return v2, v1, v3
        }",
    );
    let request = |results: &[ResultActivity]| Request {
        results: results.to_vec(),
        ..Request::new(p.func("two").unwrap(), [ArgActivity::Active, ArgActivity::Const])
    };
    let gradient = |results: &[ResultActivity], seeds: [f64; 2]| {
        let rule = DerivedRule::new(&p, &request(results), &Options::full())?;
        let args = [DataValue::F64(2.0.into()), DataValue::I32(7)].map(Arg::new);
        let [a, b] = seeds.map(|s| DataValue::F64(s.into()));
        // SAFETY: no argument is a pointer.
        let (_, mut pullback) = unsafe { rule.forward(&args) }?;
        // SAFETY: as before.
        let cotangents = unsafe { pullback.call(&[a, DataValue::I32(0), b]) }?;
        Ok::<_, Error>(f64_of(cotangents[0].as_ref().unwrap()))
    };
    assert_eq!(gradient(&[], [10.0, 1.0]).unwrap(), 40.0 + 12.0);
    assert_eq!(gradient(&[Const], [0.0, 2.0]).unwrap(), 24.0);
    assert_eq!(gradient(&[Unit, Const, Const], [1.0, 0.0]).unwrap(), 4.0);
    assert_eq!(gradient(&[Unit, Const, Unit], [1.0, 1.0]).unwrap(), 16.0);
    for (results, seeds, says) in [
        (&[Const][..], [1.0, 1.0], "a seed of zero"),
        (&[Active, Active, Unit], [1.0, 2.0], "a seed of one"),
        (&[Active, Unit], [1.0, 1.0], "result 1 of %two is a unit, but its type is i32"),
        (&[Active; 4], [1.0, 1.0], "%two has 3 results, but 4 activities are given"),
    ] {
        let error = gradient(results, seeds).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_trap_leaves_the_rule_usable() {
    let p = program(
        "function %f(f64, i64) -> f64 {
block0(v0: f64, v1: i64):
    v2 = iconst.i64 100
    v3 = sdiv v2, v1
    v4 = fcvt_from_sint.f64 v3
    v5 = fmul v4, v0
    return v5
}",
    );
    let request = Request::new(p.func("f").unwrap(), [ArgActivity::Active, ArgActivity::Const]);
    let rule = DerivedRule::new(&p, &request, &Options::full()).unwrap();
    for _ in 0..100 {
        // SAFETY: no pointers are passed.
        unsafe {
            let Err(Error::Trap(trap)) = rule.forward(&args(1.5, 0)) else { panic!("it divides by zero") };
            assert_eq!((trap.code.as_str(), trap.phase), ("int_divz", "forward"));
            assert_eq!(trap.inst_text.as_deref(), Some("v3 = sdiv.i64 v2, v1  ; v2 = 100"));
            let (_, mut pullback) = rule.forward(&args(1.5, 4)).unwrap();
            let g = pullback.call(&[DataValue::F64(1.0.into())]).unwrap();
            assert_eq!(f64_of(g[0].as_ref().unwrap()), 25.0);
        }
    }
}

#[test]
fn the_tape_limit_is_an_error() {
    let p = program(POWER);
    let request = Request::new(p.func("power").unwrap(), [ArgActivity::Active, ArgActivity::Const]);
    let options = Options { tape_limit: 1 << 20, ..Options::full() };
    let rule = DerivedRule::new(&p, &request, &options).unwrap();
    // SAFETY: no pointers are passed.
    unsafe {
        let Err(Error::Trap(trap)) = rule.forward(&args(1.0, 10_000_000)) else { panic!("the tape is full") };
        assert_eq!(trap.code, "tape_full");
        assert!(rule.forward(&args(1.0, 100)).is_ok());
    }
}

/// Mappings of this process.
#[cfg(target_os = "linux")]
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// In a process of its own, since mappings are the process's.
#[cfg(target_os = "linux")]
#[test]
fn code_and_tapes_are_released() {
    let run_a_rule = || {
        let rule = power();
        // SAFETY: no pointers are passed.
        let _run = unsafe { rule.forward(&args(1.1, 10)) }.unwrap();
    };
    alone(module_path!(), "code_and_tapes_are_released", || {
        (0..3).for_each(|_| run_a_rule());
        let before = mappings();
        (0..50).for_each(|_| run_a_rule());
        assert!(mappings() <= before + 10, "{} mappings, {before} before", mappings());
    });
}
