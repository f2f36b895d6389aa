//! Loops without a mark, kind by kind: what is run again, what stays as it is and why, and what of
//! a budget is kept.

use brolga::{Checkpoints, DerivedRule, Effort, Error, LoopStats, Mode, Options};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Invocation, run};

/// Loops of several kinds: one calls `%advance` in each iteration, for 8 outer ones; one also in
/// the outer ones; one ends when a sum is large; one allocates; one traps.
const LOOPS: &str = "
function %advance(i64, f64) {
block0(v0: i64, v1: f64):
    v2 = load.f64 v0
    v3 = load.f64 v0+8
    v4 = fmul v1, v3
    v5 = fadd v2, v4
    v6 = fmul v1, v5
    v7 = fsub v3, v6
    store v5, v0
    store v7, v0+8
    return
}
function %nested(i64, i64, f64) -> f64 {
    fn0 = %advance(i64, f64)
block0(v0: i64, v1: i64, v2: f64):
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    v5 = iconst.i64 8
    jump block1(v3)
block1(v6: i64):
    v7 = icmp slt v6, v5
    brif v7, block2(v3), block5
block2(v8: i64):
    v9 = icmp slt v8, v1
    brif v9, block3, block4
block3:
    call fn0(v0, v2)
    v10 = iadd v8, v4
    jump block2(v10)
block4:
    v11 = load.f64 v0
    v12 = fmul v11, v11
    store v12, v0
    v13 = iadd v6, v4
    jump block1(v13)
block5:
    v14 = load.f64 v0
    return v14
}
function %both(i64, i64, f64) -> f64 {
    fn0 = %advance(i64, f64)
block0(v0: i64, v1: i64, v2: f64):
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    jump block1(v3)
block1(v5: i64):
    v6 = icmp slt v5, v1
    brif v6, block2(v3), block4
block2(v7: i64):
    call fn0(v0, v2)
    v8 = iadd v7, v4
    v9 = icmp slt v8, v5
    brif v9, block2(v8), block3
block3:
    call fn0(v0, v2)
    v10 = iadd v5, v4
    jump block1(v10)
block4:
    v11 = load.f64 v0
    return v11
}
function %until(f64, f64) -> f64, i64 {
block0(v0: f64, v1: f64):
    v2 = iconst.i64 0
    v3 = iconst.i64 1
    v4 = f64const 0x1.9p6
    jump block1(v2, v1)
block1(v5: i64, v6: f64):
    v7 = fmul v6, v0
    v8 = fcmp gt v7, v4
    v9 = iadd v5, v3
    brif v8, block2, block1(v9, v7)
block2:
    return v6, v5
}
function %allocates(f64, i64) -> f64 {
    fn0 = %malloc(i64) -> i64
    fn1 = %free(i64)
block0(v0: f64, v1: i64):
    v2 = iconst.i64 8
    v3 = iconst.i64 1
    v4 = iconst.i64 0
    jump block1(v4, v0)
block1(v5: i64, v6: f64):
    v7 = call fn0(v2)
    store v6, v7
    v8 = load.f64 v7
    v9 = fmul v8, v8
    call fn1(v7)
    v10 = iadd v5, v3
    v11 = icmp slt v10, v1
    brif v11, block1(v10, v9), block2
block2:
    return v9
}
function %traps(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = iconst.i64 0
    v3 = f64const 0.0
    v4 = iconst.i64 1
    v9 = iconst.i64 500
    jump block1(v2, v3)
block1(v5: i64, v6: f64):
    v7 = load.f64 v0
    v8 = fmadd v6, v7
    v10 = icmp eq v5, v9
    trapnz v10, user7
    v11 = iadd v5, v4
    v12 = icmp slt v11, v1
    brif v12, block1(v11, v8), block2
block2:
    return v8
}";

fn file() -> File {
    File::parse("loops", LOOPS.replace("v8 = fmadd v6, v7", "v8 = fadd v6, v7")).expect("it is CLIF")
}

fn call(file: &File, text: &str) -> Invocation {
    let (parsed, clauses) = call_with_clauses(text).expect("it is a call");
    file.bind(text, &parsed, &clauses).expect("it is one of the file's")
}

fn options(mode: Mode, bytes: usize, outermost: bool, around: &[(&str, usize)]) -> Options {
    let around = around.iter().map(|&(name, bytes)| (name.to_owned(), bytes)).collect();
    let checkpoints = Checkpoints { outermost, around };
    Options { mode, memory_budget: bytes, checkpoints, effort: Effort::Full, ..Options::default() }
}

fn derived(file: &File, call: &Invocation, options: &Options) -> Result<DerivedRule, Error> {
    DerivedRule::new(&file.program, &call.request(), options)
}

#[test]
fn a_loop_around_calls_keeps_to_its_budget() {
    let file = file();
    let call = call(&file, "%nested([0.5, 0.25], 200, 0.01) shadow 0=[1.0, 2.0]");
    let plain = run::gradient(&derived(&file, &call, &options(Mode::Combined, 0, false, &[])).unwrap(), &call).unwrap();
    let mut first = None;
    for mode in [Mode::Combined, Mode::Split] {
        for bytes in [1 << 20, 2048, 256] {
            let rule = derived(&file, &call, &options(mode, 0, false, &[("%advance", bytes)])).unwrap();
            let found = run::gradient(&rule, &call).unwrap();
            // One loop, eight times.
            assert_eq!((found.plans.len(), found.plans[0].runs), (1, 8));
            assert!(found.plans[0].name.starts_with("loop at %nested, block2"), "{}", found.plans[0].name);
            // What one step records comes on top of a budget of few states.
            let most = if bytes < 1024 { 2 * bytes } else { bytes } as u64;
            assert!(found.loops.max_bytes <= most && (bytes > 4096 || found.loops.stores > 0), "{:?}", found.loops);
            let first = first.get_or_insert(found.clone());
            assert!(first.same_gradient(&found) && first.value == found.value, "{mode:?} {bytes}");
            let near = format!("{:.10?}", found.gradient) == format!("{:.10?}", plain.gradient);
            assert!(near, "{:?} {:?}", found.gradient, plain.gradient);
        }
    }
}

#[test]
fn what_the_program_does_not_have_is_refused() {
    let file = file();
    let call = call(&file, "%nested([0.5, 0.25], 200, 0.01)");
    for (name, why) in [("missing", "there is no function `missing`"), ("nested", "no loop calls `nested`")] {
        let found =
            derived(&file, &call, &options(Mode::Combined, 0, false, &[(name, 1 << 20)])).err().expect("refused");
        assert!(found.to_string().starts_with(&format!("error[AD0193]: {why}")), "{found}");
    }
}

#[test]
fn a_loop_in_one_that_is_named_is_refused() {
    let file = file();
    let call = call(&file, "%both([0.5, 0.25], 5, 0.01)");
    let found =
        derived(&file, &call, &options(Mode::Combined, 0, false, &[("advance", 1 << 20)])).err().expect("refused");
    assert!(found.to_string().starts_with("error[AD0193]: of two loops"), "{found}");
    // What is outermost keeps to the budget.
    let plain = run::gradient(&derived(&file, &call, &options(Mode::Combined, 0, false, &[])).unwrap(), &call).unwrap();
    let rule = derived(&file, &call, &options(Mode::Combined, 1 << 10, true, &[])).unwrap();
    let found = run::gradient(&rule, &call).unwrap();
    assert!(found.loops.reversed > 0 && format!("{:.10?}", found.gradient) == format!("{:.10?}", plain.gradient));
}

#[test]
fn a_loop_that_ends_when_it_likes() {
    let file = file();
    let call = call(&file, "%until(1.0001, 1.0)");
    let all = run::gradient(&derived(&file, &call, &options(Mode::Split, 1 << 30, true, &[])).unwrap(), &call).unwrap();
    assert!(all.loops.stores == 0 && all.loops.taped > 500, "{:?}", all.loops);
    for bytes in [1 << 14, 1 << 12] {
        let rule = derived(&file, &call, &options(Mode::Split, bytes, true, &[])).unwrap();
        let found = run::gradient(&rule, &call).unwrap();
        assert!(found.same_gradient(&all) && found.value == all.value);
        assert!(found.loops.stores > 0 && found.loops.reversed == all.loops.reversed);
        assert!(found.loops.max_bytes <= bytes as u64, "{:?}", found.loops);
    }
}

#[test]
fn a_loop_that_cannot_run_twice_stays() {
    let file = file();
    let call = call(&file, "%allocates(1.5, 4)");
    let rule = derived(&file, &call, &options(Mode::Combined, 1 << 10, true, &[])).unwrap();
    let why = rule.loops_that_stay();
    assert_eq!(why.len(), 1);
    assert!(why[0].starts_with("loop at %allocates, block1"), "{why:?}");
    assert!(why[0].ends_with("calls %malloc, which keeps memory of its own"), "{why:?}");
    let found = run::gradient(&rule, &call).unwrap();
    assert_eq!(found.loops, LoopStats::default());
}

#[test]
fn a_trap_is_that_of_the_loop_as_written() {
    let file = file();
    let call = call(&file, "%traps([2.0], 1000)");
    let trap = |options: &Options| match run::gradient(&derived(&file, &call, options).unwrap(), &call) {
        Err(Error::Trap(trap)) => (trap.code.clone(), trap.function.clone(), trap.inst, trap.line),
        other => panic!("{other:?}"),
    };
    let as_written = trap(&options(Mode::Combined, 0, false, &[]));
    assert_eq!(as_written, trap(&options(Mode::Combined, 1 << 10, true, &[])));
    assert_eq!((as_written.0.as_str(), as_written.1.as_str()), ("user7", "traps"));
}

#[test]
fn states_that_grow_fit_the_budget() {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/wasm/text/pages.wat");
    let file = File::read(std::path::Path::new(module)).expect("it is a module");
    for (text, budgets) in
        [("%pages([1.5], 60)", [900 << 10, 550 << 10]), ("%until([1.5], 14800.0)", [320 << 10, 280 << 10])]
    {
        let call = call(&file, text);
        let found = |mode, bytes| {
            run::gradient(&derived(&file, &call, &options(mode, bytes, true, &[])).unwrap(), &call).unwrap()
        };
        let all = found(Mode::Combined, 1 << 30);
        for bytes in budgets {
            for mode in [Mode::Combined, Mode::Split] {
                let found = found(mode, bytes);
                assert!(found.same_gradient(&all) && found.value == all.value, "{text} {mode:?} {bytes}");
                assert!(found.loops.stores > 0 && found.loops.max_bytes <= bytes as u64, "{:?}", found.loops);
            }
        }
    }
}
