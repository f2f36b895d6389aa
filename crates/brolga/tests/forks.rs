//! Forks: gradients and tangents are those of the serial program, with the same bits on any number
//! of threads; what tasks share is added up; a task that traps is an error, the same on any number
//! of threads.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Error, Mode, Options, Program, Request};
use brolga_testing::counting::requests;
use brolga_testing::{budget, program};

pub(crate) fn rule(program: &Program, func: &str, options: &Options) -> DerivedRule {
    let func = program.func(func).expect("it is there");
    let args = program.funcs[func].signature.params.iter().enumerate();
    let activities: Vec<ArgActivity> =
        args.map(|(i, _)| if i == 0 { ArgActivity::Duplicated } else { ArgActivity::Const }).collect();
    DerivedRule::new(program, &Request::new(func, activities), options).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn options(mode: Mode, threads: usize) -> Options {
    Options { mode, task_threads: Some(threads), ..Options::full() }
}

/// Value, memory and shadows of two calls in a row, with shadows that are not zero at first; in
/// forward mode the tangent after the value.
pub(crate) fn outcome(
    rule: &DerivedRule,
    cells: &[f64],
    more: &[i64],
    mode: Mode,
    declared: bool,
) -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    let mut shadow: Vec<f64> = (0..cells.len()).map(|i| 0.5 - i as f64).collect();
    let seeds = vec![DataValue::F64(1.5.into()); rule.signature().returns.len()];
    for _ in 0..2 {
        let mut memory = cells.to_vec();
        let places = (memory.as_mut_ptr() as u64, shadow.as_mut_ptr() as u64);
        let arg = Arg::duplicated(places.0, places.1);
        let mut args = vec![if declared { arg.with_len(size_of_val(cells) as u64) } else { arg }];
        args.extend(more.iter().map(|&n| Arg::new(DataValue::I64(n))));
        let (mut results, mut cotangents) = (vec![], vec![]);
        // SAFETY: buffers are as long as the program expects.
        unsafe {
            if mode == Mode::Split {
                let mut pullback = rule.forward_into(&args, &mut results)?;
                pullback.call(&seeds)?;
                pullback.call(&seeds)?;
            } else if mode == Mode::Tangent {
                rule.tangent(&args, &vec![None; args.len()], &mut results, &mut cotangents)?;
                results.extend(cotangents.into_iter().flatten());
            } else {
                rule.gradient(&args, &seeds, &mut results, &mut cotangents)?;
            }
        }
        found.extend(results.iter().map(|r| if let DataValue::F64(x) = r { x.as_f64() } else { panic!("a float") }));
        found.extend(&memory);
        found.extend(&shadow);
    }
    Ok(found.into_iter().map(f64::to_bits).collect())
}

/// Each task of a loop squares its cells; the one of cell k traps if `%limit` is below k, the first
/// of these in a way of its own. What is summed up is read by all tasks at the end of the cells.
const LOOPS: &str = "
function %square(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = load.i64 v0+8
    jump block1(v1)
block1(v5: i64):
    v6 = icmp slt v5, v2
    brif v6, block2, block3
block2:
    v30 = iconst.i64 -1
    v31 = iadd v5, v30
    v32 = icmp eq v31, v4
    trapnz v32, user9
    v7 = icmp sgt v5, v4
    trapnz v7, user7
    v20 = iconst.i64 3
    v8 = ishl v5, v20
    v9 = iadd v3, v8
    v10 = load.f64 aligned v9
    v11 = load.f64 aligned v3+512
    v12 = fmul v10, v10
    v13 = fmul v12, v11
    store aligned v13, v9
    v21 = iconst.i64 1
    v14 = iadd v5, v21
    jump block1(v14)
block3:
    return
}
function %squares(i64, i64, i64) -> f64 {
    ss0 = explicit_slot 16, align = 8
    fn0 = %square(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = stack_addr.i64 ss0
    store v0, v3
    store v2, v3+8
    v4 = func_addr.i64 fn0
    v5 = iconst.i64 0
    v6 = iconst.i64 1
    call fn1(v4, v3, v5, v1, v6)
    v7 = load.f64 v0
    v8 = load.f64 v0+8
    v9 = fmul v7, v8
    return v9
}
function %deeper(i64) {
    ss0 = explicit_slot 32, align = 8
    fn0 = %deeper(i64)
    fn1 = %nothing(i64)
    fn2 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64):
    v1 = load.i64 v0+8
    brif v1, block1, block2
block1:
    v2 = stack_addr.i64 ss0
    v3 = load.i64 v0
    store v3, v2
    v20 = iconst.i64 -1
    v4 = iadd v1, v20
    store v4, v2+8
    v5 = func_addr.i64 fn0
    v6 = func_addr.i64 fn1
    call fn2(v5, v2, v6, v2)
    return
block2:
    v7 = load.i64 v0
    v8 = load.f64 v7
    v9 = fmul v8, v8
    store v9, v7+8
    return
}
function %nothing(i64) {
block0(v0: i64):
    return
}
function %deep(i64, i64) -> f64 {
    ss0 = explicit_slot 16, align = 8
    fn0 = %deeper(i64)
block0(v0: i64, v1: i64):
    v2 = stack_addr.i64 ss0
    store v0, v2
    store v1, v2+8
    call fn0(v2)
    v3 = load.f64 v0+8
    return v3
}
";

/// All calls of a function, on so many threads.
fn called(func: &str, cells: &[f64], more: &[i64], options: &Options) -> Result<Vec<u64>, Error> {
    let program = program(LOOPS);
    outcome(&rule(&program, func, options), cells, more, options.mode, true)
}

/// 64 cells, and what all tasks read.
pub(crate) fn cells() -> Vec<f64> {
    (0..=64).map(|i| 1.0 + 0.01 * f64::from(i)).collect()
}

#[test]
fn tasks_share_what_they_read() {
    let found = called("squares", &cells(), &[64, 100], &options(Mode::Split, 2)).unwrap();
    let value = |i: usize| f64::from_bits(found[i]);
    // x₀² x₁² s², and after it the cells.
    let (x, s) = (cells(), cells()[64]);
    assert!((value(0) - (x[0] * x[0] * x[1] * x[1]) * s * s).abs() < 1e-12);
    // The first call's pullback, twice: shadows that were 0.5 - i, and the seed 1.5.
    let ct = |i: usize| 0.5 - i as f64 + if i < 2 { 1.5 * s * x[1 - i] * x[1 - i] } else { 0.0 };
    let first: Vec<f64> = (0..64).map(|i| 2.0 * x[i] * s * ct(i)).collect();
    let later_ct = |i: usize| first[i] + if i < 2 { 1.5 * s * x[1 - i] * x[1 - i] } else { 0.0 };
    let wanted: Vec<f64> = (0..64).map(|i| 2.0 * x[i] * s * later_ct(i)).collect();
    let sum: f64 = (0..64).map(|i| x[i] * x[i] * (ct(i) + later_ct(i))).sum();
    for (i, wanted) in wanted.into_iter().enumerate() {
        assert!((value(66 + i) - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{i}");
    }
    assert!((value(130) - (0.5 - 64.0 + sum)).abs() < 1e-9 * sum.abs(), "{} {sum}", value(130));
}

#[test]
fn repetitions_have_the_same_bits() {
    let program = program(LOOPS);
    for mode in [Mode::Split, Mode::Gradient, Mode::Tangent] {
        let rules: Vec<DerivedRule> = [1, 2, 3, 7].map(|n| rule(&program, "squares", &options(mode, n))).into();
        let run = |rule| outcome(rule, &cells(), &[64, 100], mode, true).unwrap();
        let wanted = run(&rules[0]);
        for _ in 0..budget(100, 10) {
            rules.iter().for_each(|rule| assert_eq!(run(rule), wanted));
        }
    }
}

/// Seen to fail: the trap of the last task that has one.
#[test]
fn the_first_task_that_traps_is_reported() {
    for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 2), (Mode::Gradient, 7), (Mode::Tangent, 2)] {
        let options = options(mode, threads);
        match called("squares", &cells(), &[64, 40], &options) {
            Err(Error::Trap(trap)) => {
                let said = (&*trap.code, &*trap.function, trap.inst_text.as_deref());
                assert_eq!(said, ("user9", "square", Some("trapnz.i8 v32, user9")), "{trap}");
            }
            other => panic!("{other:?}"),
        }
        // All tasks have run, but for those that trapped: nothing depends on which came first.
        let rule = rule(&program(LOOPS), "squares", &options);
        let (mut memory, mut shadow) = (cells(), vec![0.0; 65]);
        let arg = Arg::duplicated(memory.as_mut_ptr() as u64, shadow.as_mut_ptr() as u64);
        let args = [arg, Arg::new(DataValue::I64(64)), Arg::new(DataValue::I64(40))];
        let (mut results, mut cotangents) = (vec![], vec![]);
        let seeds = [DataValue::F64(1.0.into())];
        // SAFETY: buffers are as long as the program expects.
        let failed = unsafe {
            match mode {
                Mode::Split => rule.forward_into(&args, &mut results).err(),
                Mode::Tangent => rule.tangent(&args, &[None, None, None], &mut results, &mut cotangents).err(),
                _ => rule.gradient(&args, &seeds, &mut results, &mut cotangents).err(),
            }
        };
        assert!(failed.is_some());
        let changed = (0..64).filter(|&i| memory[i] != cells()[i]).count();
        assert_eq!(changed, 41);
        // The rule is as good as before.
        let after = outcome(&rule, &cells(), &[64, 100], mode, true).unwrap();
        assert_eq!(after, called("squares", &cells(), &[64, 100], &options).unwrap());
    }
}

#[test]
fn a_tape_of_a_task_that_is_full_ends_the_run() {
    for threads in [1, 3] {
        // What all tasks record together is not too much.
        let fits = Options { tape_limit: 400, ..options(Mode::Split, threads) };
        called("squares", &cells(), &[64, 100], &fits).unwrap();
        let full = Options { tape_limit: 16, ..fits };
        match called("squares", &cells(), &[64, 100], &full) {
            Err(Error::Trap(trap)) => assert_eq!(trap.code, "tape_full"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn forks_nest_as_deep_as_they_like() {
    for (threads, mode) in [(1, Mode::Split), (2, Mode::Split), (1, Mode::Tangent), (2, Mode::Tangent)] {
        let found = called("deep", &[3.0, 0.0], &[10_000], &options(mode, threads)).unwrap();
        assert_eq!(f64::from_bits(found[0]), 9.0);
    }
}

/// Joins on one thread, within tasks as well; a fork whose tasks touch parts of an array compares
/// those, in as much memory each time. (Threads of a pool are handed tasks by way of memory of
/// theirs.)
#[test]
fn later_joins_allocate_nothing() {
    let program = program(LOOPS);
    let both = [("squares", vec![64, 100]), ("deep", vec![30])];
    for ((func, more), mode) in both.into_iter().flat_map(|b| [Mode::Gradient, Mode::Tangent].map(|m| (b.clone(), m))) {
        let rule = rule(&program, func, &options(mode, 1));
        let (mut memory, mut shadow) = (cells(), vec![0.0; 65]);
        let at = [memory.as_mut_ptr() as u64, shadow.as_mut_ptr() as u64];
        let mut args = vec![Arg::duplicated_len(at[0], at[1], 8 * 65)];
        args.extend(more.into_iter().map(|n| Arg::new(DataValue::I64(n))));
        let seeds = [DataValue::F64(1.0.into())];
        let (mut results, mut cotangents) = (Vec::new(), Vec::new());
        let mut call = || {
            let before = requests();
            let directions = [None, None, None];
            // SAFETY: buffers are as long as the program expects.
            let run = unsafe {
                match mode {
                    Mode::Tangent => rule.tangent(&args, &directions[..args.len()], &mut results, &mut cotangents),
                    _ => rule.gradient(&args, &seeds, &mut results, &mut cotangents),
                }
            };
            drop(run.unwrap());
            requests() - before
        };
        let counts: [usize; 4] = std::array::from_fn(|_| call());
        // In forward mode `deep` may move parts of floats, which are looked at in the end.
        let wanted = if func == "deep" && mode != Mode::Tangent { 0 } else { counts[1] };
        assert!(counts[0] > 10 && counts[2..] == [wanted; 2] && wanted < 20, "{func}: {counts:?}");
    }
}

#[test]
fn rules_and_pools_do_not_mix() {
    let program = program(LOOPS);
    let wanted = called("squares", &cells(), &[64, 100], &options(Mode::Gradient, 1)).unwrap();
    let of_pool = Options { task_threads: None, ..options(Mode::Gradient, 1) };
    let rules = [rule(&program, "squares", &of_pool), rule(&program, "squares", &options(Mode::Gradient, 2))];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    std::thread::scope(|s| {
        for k in 0..6 {
            let (rule, wanted, pool) = (&rules[k % 2], &wanted, &pool);
            s.spawn(move || {
                for _ in 0..budget(20, 3) {
                    let run = || outcome(rule, &cells(), &[64, 100], Mode::Gradient, k < 3).unwrap();
                    assert_eq!(*wanted, if k % 3 == 0 { pool.install(run) } else { run() });
                }
            });
        }
    });
}

/// A function of the host's that panics within a task ends the process, on any number of threads,
/// as the C convention has it: no thread waits for the task.
#[cfg(unix)]
#[test]
fn a_panic_in_a_task_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    const THREADS: &str = "BROLGA_TEST_PANICS_ON";
    extern "C" fn panics() {
        panic!("in a task");
    }
    if let Some(threads) = std::env::var(THREADS).ok().and_then(|n| n.parse().ok()) {
        let mut program = program(PANICS);
        let declared = program.funcs[program.func("panics").unwrap()].signature.clone();
        // SAFETY: the function takes nothing, and returns nothing.
        unsafe { program.define_host("panics", &declared, panics as *const () as usize) }.unwrap();
        let found = outcome(&rule(&program, "f", &options(Mode::Gradient, threads)), &[1.0], &[], Mode::Gradient, true);
        panic!("the run went on: {found:?}");
    }
    for threads in [1, 2] {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "forks::a_panic_in_a_task_ends_the_process"]).env(THREADS, threads.to_string());
        let output = command.output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
    }
}

const PANICS: &str = "
function %task(i64) {
    fn0 = %panics() system_v
block0(v0: i64):
    call fn0()
    return
}
function %f(i64) -> f64 {
    fn0 = %task(i64)
    fn1 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64):
    v1 = func_addr.i64 fn0
    call fn1(v1, v0, v1, v0)
    v2 = load.f64 v0
    return v2
}
";

#[test]
fn a_pool_without_threads_is_refused() {
    let func = program(LOOPS);
    let request =
        Request::new(func.func("squares").unwrap(), [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Const]);
    let error = DerivedRule::new(&func, &request, &options(Mode::Split, 0)).err().expect("no threads");
    assert!(error.to_string().contains("a pool has at least one thread"), "{error}");
}

/// Memory that a task allocates, which its parent reads and frees; and what is refused.
#[test]
fn tasks_have_heap_blocks() {
    let text = "
    function %make(i64) {
        fn0 = %malloc(i64) -> i64
    block0(v0: i64):
        v1 = iconst.i64 16
        v2 = call fn0(v1)
        v3 = load.i64 v0
        v4 = load.f64 v3
        v5 = fmul v4, v4
        store v5, v2
        v6 = fmul v5, v4
        store v6, v2+8
        store v2, v0+8
        return
    }
    function %both(i64) -> f64 {
        ss0 = explicit_slot 16, align = 8
        ss1 = explicit_slot 16, align = 8
        fn0 = %make(i64)
        fn1 = %brolga_par_join(i64, i64, i64, i64)
        fn2 = %free(i64)
        fn3 = %realloc(i64, i64) -> i64
    block0(v0: i64):
        v1 = stack_addr.i64 ss0
        v2 = stack_addr.i64 ss1
        store v0, v1
        store v0, v2
        v3 = func_addr.i64 fn0
        call fn1(v3, v1, v3, v2)
        v4 = load.i64 v1+8
        v5 = load.i64 v2+8
        v20 = iconst.i64 64
        v6 = call fn3(v4, v20)
        v7 = load.f64 v6
        v8 = load.f64 v5+8
        v9 = fmul v7, v8
        call fn2(v5)
        call fn2(v6)
        return v9
    }";
    let program = program(text);
    for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 3), (Mode::Gradient, 2)] {
        let rule = rule(&program, "both", &options(mode, threads));
        let found = outcome(&rule, &[1.25], &[], mode, false).unwrap();
        // x⁵, with a shadow of 0.5 and a seed of 1.5, in pullbacks that are called twice.
        let slope = 1.5 * 5.0 * 1.25_f64.powi(4);
        let times = if mode == Mode::Split { 2.0 } else { 1.0 };
        // A gradient alone has no value before memory and shadow.
        let n = found.len() / 2;
        let shadow = |call: usize| f64::from_bits(found[call * n + n - 1]);
        assert!(n == 2 || f64::from_bits(found[0]) == 1.25_f64.powi(5));
        assert!((shadow(0) - (0.5 + times * slope)).abs() < 1e-12, "{} {}", shadow(0), 0.5 + times * slope);
        assert!((shadow(1) - (0.5 + 2.0 * times * slope)).abs() < 1e-12);
    }
    for threads in [1, 3] {
        let rule = rule(&program, "both", &options(Mode::Tangent, threads));
        let found = outcome(&rule, &[1.25], &[], Mode::Tangent, false).unwrap();
        let found: Vec<f64> = found.into_iter().map(f64::from_bits).collect();
        let wanted = [1.25_f64.powi(5), 0.5 * 5.0 * 1.25_f64.powi(4), 1.25, 0.5];
        assert!(found[4..] == found[..4] && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }
}

/// Pending sums are added up float by float.
#[test]
fn a_float_that_lies_across_is_refused() {
    let text = "
    function %lies_across(i64) {
    block0(v0: i64):
        v1 = load.i64 v0
        v2 = load.f64 v1+4
        v3 = fmul v2, v2
        store v3, v0+8
        return
    }
    function %across(i64) -> f64 {
        ss0 = explicit_slot 16, align = 8
        ss1 = explicit_slot 16, align = 8
        fn0 = %lies_across(i64)
        fn1 = %brolga_par_join(i64, i64, i64, i64)
    block0(v0: i64):
        v1 = stack_addr.i64 ss0
        v2 = stack_addr.i64 ss1
        store v0, v1
        store v0, v2
        v3 = func_addr.i64 fn0
        call fn1(v3, v1, v3, v2)
        v4 = load.f64 v1+8
        v5 = load.f64 v2+8
        v6 = fadd v4, v5
        return v6
    }
    ";
    let program = program(text);
    for threads in [1, 2] {
        match outcome(&rule(&program, "across", &options(Mode::Split, threads)), &[1.0, 2.0], &[], Mode::Split, true) {
            Err(Error::Trap(trap)) => {
                let said = (&*trap.code, &*trap.function, trap.inst_text.as_deref());
                assert_eq!(said, ("task_alignment", "lies_across", Some("v2 = load.f64 v1+4")), "{trap}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Shadows of two arrays lie side by side, the second one longer than what is kept around the
/// first.
#[test]
fn objects_may_lie_side_by_side() {
    const N: usize = 20_000;
    let text = "
    function %scale(i64, i64, i64) {
    block0(v0: i64, v1: i64, v2: i64):
        v3 = load.i64 v0
        v4 = load.i64 v0+8
        v5 = load.f64 v3
        v20 = iconst.i64 3
        v21 = iconst.i64 1
        jump block1(v1)
    block1(v6: i64):
        v7 = icmp slt v6, v2
        brif v7, block2, block3
    block2:
        v8 = ishl v6, v20
        v9 = iadd v4, v8
        v10 = load.f64 notrap aligned v9
        v11 = fmul v10, v5
        store notrap aligned v11, v9
        v12 = iadd v6, v21
        jump block1(v12)
    block3:
        return
    }
    function %scaled(i64, i64, i64) {
        ss0 = explicit_slot 16, align = 8
        fn0 = %scale(i64, i64, i64)
        fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
    block0(v0: i64, v1: i64, v2: i64):
        v3 = stack_addr.i64 ss0
        store v0, v3
        store v1, v3+8
        v4 = func_addr.i64 fn0
        v5 = iconst.i64 0
        v6 = iconst.i64 64
        call fn1(v4, v3, v5, v2, v6)
        return
    }";
    let program = program(text);
    let dup = ArgActivity::Duplicated;
    let request = Request::new(program.func("scaled").unwrap(), [dup, dup, ArgActivity::Const]);
    for (declared, threads) in [(true, 1), (true, 2), (false, 1), (false, 3)] {
        let rule = DerivedRule::new(&program, &request, &options(Mode::Gradient, threads)).unwrap();
        let mut memory: Vec<f64> = (0..=N).map(|i| 1.0 + i as f64).collect();
        let mut shadow = vec![1.0; N + 1];
        let arg = |memory: &mut [f64], shadow: &mut [f64]| {
            let len = size_of_val(memory) as u64;
            let arg = Arg::duplicated(memory.as_mut_ptr() as u64, shadow.as_mut_ptr() as u64);
            if declared { arg.with_len(len) } else { arg }
        };
        let (first, rest) = memory.split_at_mut(1);
        let (first_shadow, rest_shadow) = shadow.split_at_mut(1);
        let args = [arg(first, first_shadow), arg(rest, rest_shadow), Arg::new(DataValue::I64(N as i64))];
        // SAFETY: buffers are as long as the program expects.
        unsafe { rule.gradient(&args, &[], &mut vec![], &mut vec![]) }.unwrap();
        // ȳ s, where s is 1, and Σ y ȳ.
        assert!(shadow[1..].iter().all(|&ct| ct == 1.0));
        assert_eq!(shadow[0], 1.0 + (2..N + 2).map(|i| i as f64).sum::<f64>());
        // Shadows that lie on each other, where the arrays do not.
        let mut args = args;
        args[0].shadow = args[1].shadow + 8;
        // SAFETY: the same, if it runs.
        let said = unsafe { rule.gradient(&args, &[], &mut vec![], &mut vec![]) }.err().map(|e| e.to_string());
        assert_eq!(said.is_some_and(|e| e.contains("the shadows of arguments 0 and 1 overlap")), declared);
    }
}

/// Forks that follow each other share strands.
#[test]
fn forks_in_a_loop() {
    let text = "
    function %times(i64) {
    block0(v0: i64):
        v1 = load.f64 v0
        v2 = load.f64 v0+8
        v3 = fmul v1, v2
        store v3, v0+8
        return
    }
    function %powers(i64, i64) -> f64 {
        fn0 = %times(i64)
        fn1 = %brolga_par_join(i64, i64, i64, i64)
    block0(v0: i64, v1: i64):
        v2 = iconst.i64 16
        v3 = iadd v0, v2
        v4 = func_addr.i64 fn0
        v5 = iconst.i64 -1
        jump block1(v1)
    block1(v6: i64):
        call fn1(v4, v0, v4, v3)
        v7 = iadd v6, v5
        brif v7, block1(v7), block2
    block2:
        v8 = load.f64 v0+8
        v9 = load.f64 v3+8
        v10 = fadd v8, v9
        return v10
    }";
    let program = program(text);
    let (n, cells) = (3000, [0.999, 0.5, 1.0005, 0.25]);
    for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 2), (Mode::Gradient, 1), (Mode::Gradient, 2)] {
        let rule = rule(&program, "powers", &options(mode, threads));
        let found = outcome(&rule, &cells, &[n], mode, true).unwrap();
        let half = found.len() / 2;
        let shadow = |i: usize| f64::from_bits(found[half - 4 + i]);
        // Pullbacks of a pair are called twice, and what was added to x is taken each time.
        for (k, (a, x)) in [(0, (cells[0], cells[1])), (2, (cells[2], cells[3]))] {
            let (mut slope, mut ct) = (0.5 - f64::from(k), 0.5 - f64::from(k + 1));
            for _ in 0..if mode == Mode::Split { 2 } else { 1 } {
                ct += 1.5;
                slope += ct * n as f64 * a.powi(n as i32 - 1) * x;
                ct *= a.powi(n as i32);
            }
            let k = usize::try_from(k).unwrap();
            assert!((shadow(k) - slope).abs() < 1e-9 * slope.abs(), "{mode:?}: {} {slope}", shadow(k));
            assert!((shadow(k + 1) - ct).abs() < 1e-9 * ct.abs(), "{mode:?}: {} {ct}", shadow(k + 1));
        }
    }
    // In forward mode nothing is kept of a fork that is over.
    for threads in [1, 2] {
        let options = Options { tape_limit: 4096, ..options(Mode::Tangent, threads) };
        let found = outcome(&rule(&program, "powers", &options), &cells, &[n], Mode::Tangent, true).unwrap();
        let tangent: f64 = [0, 2]
            .map(|k| (cells[k], cells[k + 1], 0.5 - k as f64, -0.5 - k as f64))
            .into_iter()
            .map(|(a, x, da, dx)| a.powi(n as i32) * dx + n as f64 * a.powi(n as i32 - 1) * x * da)
            .sum();
        assert!((f64::from_bits(found[1]) - tangent).abs() < 1e-9 * tangent.abs(), "{found:?} {tangent}");
    }
}

/// Tasks that run time loops: bits do not depend on effort, mode or threads.
#[test]
fn tasks_run_time_loops() {
    let text = "
    function %grow(i64, i64, i64) {
    block0(v0: i64, v1: i64, v2: i64):
        v3 = load.f64 v0
        v4 = load.f64 v1
        v5 = fmul v3, v4
        v6 = fmul v5, v3
        v7 = fadd v6, v4
        store v7, v0
        return
    }
    function %task(i64) {
        fn0 = %grow(i64, i64, i64)
        fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
    block0(v0: i64):
        v1 = load.i64 v0
        v2 = load.i64 v0+8
        v3 = func_addr.i64 fn0
        v4 = iconst.i64 8
        v5 = iconst.i64 5
        call fn1(v3, v1, v4, v2, v5)
        return
    }
    function %forks_of_loops(i64, i64) -> f64 {
        ss0 = explicit_slot 32, align = 8
        fn0 = %task(i64)
        fn1 = %brolga_par_join(i64, i64, i64, i64)
    block0(v0: i64, v1: i64):
        v3 = stack_addr.i64 ss0
        v4 = iconst.i64 16
        v5 = iadd v3, v4
        v6 = iconst.i64 8
        v7 = iadd v0, v6
        store v0, v3
        store v1, v3+8
        store v7, v5
        store v1, v5+8
        v8 = func_addr.i64 fn0
        call fn1(v8, v3, v8, v5)
        v9 = load.f64 v0
        v10 = load.f64 v7
        v11 = fmul v9, v10
        return v11
    }
    ";
    let program = program(text);
    let dup = ArgActivity::Duplicated;
    let request = Request::new(program.func("forks_of_loops").unwrap(), [dup, dup]);
    let gradient = |options: &Options| {
        let rule = DerivedRule::new(&program, &request, options).unwrap();
        let (mut x, mut dx, mut k, mut dk) = ([0.3, 0.4], [0.0; 2], [0.6], [0.0]);
        let args = [
            Arg::duplicated_len(x.as_mut_ptr() as u64, dx.as_mut_ptr() as u64, 16),
            Arg::duplicated_len(k.as_mut_ptr() as u64, dk.as_mut_ptr() as u64, 8),
        ];
        let seed = [DataValue::F64(1.0.into())];
        // SAFETY: buffers are as long as the program expects.
        unsafe {
            if options.mode == Mode::Split {
                rule.forward(&args).unwrap().1.call(&seed).unwrap();
            } else {
                rule.gradient(&args, &seed, &mut vec![], &mut vec![]).unwrap();
            }
        }
        [dx[0], dx[1], dk[0]]
    };
    let wanted = gradient(&options(Mode::Split, 1));
    // x ← k x² + k, five times, of both; slopes of the product.
    let run = |x: f64, k: f64| (0..5).fold(x, |x, _| k * x * x + k);
    let product = |x: f64, y: f64, k: f64| run(x, k) * run(y, k);
    let h = 1e-6;
    let slopes = [
        product(0.3 + h, 0.4, 0.6) - product(0.3 - h, 0.4, 0.6),
        product(0.3, 0.4 + h, 0.6) - product(0.3, 0.4 - h, 0.6),
        product(0.3, 0.4, 0.6 + h) - product(0.3, 0.4, 0.6 - h),
    ];
    for (slope, wanted) in slopes.iter().zip(wanted) {
        assert!((slope / (2.0 * h) - wanted).abs() < 1e-6 * wanted.abs().max(1.0), "{slope} {wanted}");
    }
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        for effort in [brolga::Effort::Quick, brolga::Effort::Full] {
            for threads in [1, 3] {
                let found = gradient(&Options { effort, ..options(mode, threads) });
                assert_eq!(found.map(f64::to_bits), wanted.map(f64::to_bits), "{mode:?} {effort:?}");
            }
        }
    }
}

/// A task stores an integer beside a double that other tasks read, and copies doubles.
#[test]
fn parts_of_floats_are_no_floats() {
    let text = "
    function %mark(i64) {
    block0(v0: i64):
        v1 = load.i64 v0
        v2 = load.f64 v1+8
        v3 = iconst.i32 7
        store v3, v1+4
        v4 = fmul v2, v2
        store v4, v0+8
        return
    }
    function %other(i64) {
    block0(v0: i64):
        v1 = load.i64 v0
        v2 = load.f64 v1+8
        v3 = fadd v2, v2
        store v3, v0+8
        return
    }
    function %both(i64) -> f64 {
        ss0 = explicit_slot 16, align = 8
        ss1 = explicit_slot 16, align = 8
        fn0 = %mark(i64)
        fn1 = %other(i64)
        fn2 = %brolga_par_join(i64, i64, i64, i64)
    block0(v0: i64):
        v1 = stack_addr.i64 ss0
        v2 = stack_addr.i64 ss1
        store v0, v1
        store v0, v2
        v10 = load.f64 v0
        v11 = fmul v10, v10
        v3 = func_addr.i64 fn0
        v4 = func_addr.i64 fn1
        call fn2(v3, v1, v4, v2)
        v5 = load.f64 v1+8
        v6 = load.f64 v2+8
        v7 = load.f64 v0+8
        v8 = fadd v5, v6
        v9 = fmul v8, v7
        v12 = fadd v9, v11
        return v12
    }";
    let program = program(text);
    for threads in [1, 2] {
        let found =
            outcome(&rule(&program, "both", &options(Mode::Gradient, threads)), &[0.5, 3.1], &[], Mode::Gradient, true);
        // x² + (y² + 2y) y: 3y² + 4y behind y, with a seed of 1.5 and shadows of 0.5 and -0.5.
        match found {
            Ok(found) => {
                let shadow = |i: usize| f64::from_bits(found[2 + i]);
                assert!(
                    (shadow(1) - (-0.5 + 1.5 * (3.0 * 3.1 * 3.1 + 4.0 * 3.1))).abs() < 1e-12,
                    "{} {}",
                    shadow(0),
                    shadow(1)
                );
            }
            Err(Error::Trap(trap)) => assert_eq!(trap.code, "untracked_bits"),
            Err(e) => panic!("{e}"),
        }
    }
}
