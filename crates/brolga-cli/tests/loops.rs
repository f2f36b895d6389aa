//! Time loops on the command line: budgets, files, what is said of both, and what steps write.

use brolga_testing::command::TempFile;

/// A value that is halved in each step.
const HALVED: &str = "\
function %step(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = f64const 0x1.0p-1
    v5 = fmul v3, v4
    store v5, v0
    return
}
function %halved(i64, i64) {
    fn0 = %step(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    v3 = iconst.i64 8
    call fn1(v2, v0, v3, v0, v1)
    return
}";

#[test]
fn time_loops_within_a_budget() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "halved.clif", HALVED);
    let call = ["--call", "%halved([8.0], 20)", "--shadow", "0=[1048576.0]"];
    let run = |budget: &str| file.run("grad", &[&call[..], &["--memory-budget", budget, "--json"]].concat());
    for budget in ["1KiB", "64", "16"] {
        let found = run(budget).expect(0).json();
        assert_eq!(found[0]["gradient"][0][0], 1.0, "{budget}: {found:?}");
        let loops = &found[0]["loops"];
        assert_eq!((&loops["taped"], &loops["reversed"]), (&20.into(), &20.into()), "{budget}: {loops}");
    }
    let text = file.run("explain", &[&call[..], &["--memory-budget", "32"]].concat()).expect(0).stdout;
    let shown = "loop of %step: revolve, blocks of 1, 3 slots\n    steps: 20 taped, ";
    assert!(text.contains(shown) && text.contains("more without a tape"), "{text}");
    let text = file.run("grad", &call).expect(0).stdout;
    assert!(text.contains("loop of %step: all 20 steps recorded as they run"), "{text}");
    assert!(text.contains("time loops") && text.contains("20 recorded and reversed"), "{text}");
    run("15").expect(1).says("the memory budget of 15 bytes is less than");
    let folder = std::env::temp_dir();
    let within = |folder: &str| {
        let options = ["--memory-budget", "16", "--checkpoint-dir", folder, "--checkpoint-limit", "1MiB", "--json"];
        file.run("grad", &[&call[..], &options].concat())
    };
    let found = within(folder.to_str().unwrap()).expect(0).json();
    let loops = &found[0]["loops"];
    let counts = ["forward", "taped", "reversed", "stores", "restores", "disk_writes", "disk_reads"];
    let counts = counts.map(|name| loops[name].as_u64().unwrap());
    assert!(counts[0] > 20 && counts[1..3] == [20, 20] && counts[5] > 0 && counts[6] >= counts[5], "{loops}");
    let most = ["max_slots", "max_bytes", "disk_bytes"].map(|name| loops[name].as_u64().unwrap());
    assert!(most[1] > 0 && most[2] > 0, "{loops}");
    let plan = &found[0]["loops"]["plans"][0];
    assert_eq!((&plan["loop"], &plan["method"]), (&"loop of %step".into(), &"two levels".into()), "{loops}");
    within("/dev/null").expect(1).says("name a folder that can be written");
    run("much").expect(2).says("--memory-budget");
}

/// A step that multiplies by a number outside of the state, which it changes.
const COUNTING: &str = "\
function %step(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v1
    v5 = fmul v3, v4
    store v5, v0
    v6 = fadd v4, v4
    store v6, v1
    return
}
function %counts(i64, i64, i64) {
    fn0 = %step(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 8
    call fn1(v3, v0, v4, v1, v2)
    return
}";

#[test]
fn steps_that_write_outside_of_their_states() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "counting.clif", COUNTING);
    let call = ["--call", "%counts([8.0], [0.5], 3)", "--shadow", "0=[1.0]"];
    file.run("grad", &call).expect(0);
    let debug = [&call[..], &["--debug"]].concat();
    file.run("grad", &debug)
        .expect(1)
        .says("time_loop")
        .says(":8:5")
        .says("%step, block0, inst5")
        .says("read by %step, inst1");
    file.run("check", &call).expect(1).says("writes outside of the loop's states").says("line 8: store");
    // One step reads nothing that it has not written; that it writes is all that derived code sees.
    let one_step = ["--call", "%counts([8.0], [0.5], 1)", "--shadow", "0=[1.0]"];
    file.run("check", &one_step).expect(0);
    file.run("grad", &[&one_step[..], &["--debug"]].concat())
        .expect(1)
        .says("writes to byte 0 of a buffer")
        .says("inst5");
}

/// Steps have a frame on the module's stack; in place of COUNT they may count in memory.
const MODULE: &str = r#"(module
  (import "env" "brolga_time_loop" (func $time_loop (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 2)
  (global $sp (mut i32) (i32.const 65536))
  (table 2 funcref)
  (elem (i32.const 1) $step)
  (func $step (param $s i32) (param $p i32) (param $i i32) (local $f i32)
    (global.set $sp (local.tee $f (i32.sub (global.get $sp) (i32.const 16))))
    (f64.store (local.get $f) (f64.mul (f64.load (local.get $s)) (f64.load (local.get $p))))
    COUNT
    (f64.store (local.get $s) (f64.load (local.get $f)))
    (global.set $sp (i32.add (local.get $f) (i32.const 16))))
  (func (export "run") (param $s i32) (param $p i32) (param $n i32)
    (call $time_loop (i32.const 1) (local.get $s) (i32.const 8) (local.get $p) (local.get $n))))"#;

#[test]
fn steps_of_modules_have_a_stack() {
    let count = "(i32.store (i32.const 64) (i32.add (i32.load (i32.const 64)) (i32.const 1)))";
    for (what, fits) in [("", true), (count, false)] {
        let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "steps.wat", MODULE.replace("COUNT", what));
        let call = ["--call", "run([8.0], [0.5], 3)", "--shadow", "0=[1.0]"];
        let [check, debug] = [file.run("check", &call), file.run("grad", &[&call[..], &["--debug"]].concat())];
        if fits {
            check.expect(0);
            debug.expect(0);
        } else {
            check.expect(1).says("writes outside of the loop's states").says("read by %step");
            debug.expect(1).says("time_loop").says("written by %step");
        }
    }
}

/// Powers of a number, summed up; and a sum of what is read through a pointer in memory.
const SUMMED: &str = "\
function %add(f64, f64) -> f64 {
block0(v0: f64, v1: f64):
    v2 = fmul v0, v1
    v3 = f64const 0x1.0p0
    v4 = fadd v2, v3
    return v4
}
function %sum(f64, i64) -> f64 {
    fn0 = %add(f64, f64) -> f64
block0(v0: f64, v1: i64):
    v2 = iconst.i64 0
    v3 = f64const 0.0
    v4 = iconst.i64 1
    jump block1(v2, v3)
block1(v5: i64, v6: f64):
    v7 = icmp slt v5, v1
    brif v7, block2, block3
block2:
    v8 = call fn0(v6, v0)
    v9 = iadd v5, v4
    jump block1(v9, v8)
block3:
    return v6
}
function %through(i64, i64) -> f64 {
block0(v0: i64, v1: i64):
    v2 = iconst.i64 0
    v3 = f64const 0.0
    v4 = iconst.i64 1
    jump block1(v2, v3)
block1(v5: i64, v6: f64):
    v7 = load.i64 v0
    v8 = load.f64 v7
    v9 = fadd v6, v8
    v10 = iadd v5, v4
    v11 = icmp slt v10, v1
    brif v11, block1(v10, v9), block2
block2:
    return v9
}";

#[test]
fn loops_without_a_mark_within_a_budget() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "summed.clif", SUMMED);
    let call = ["--call", "%sum(0.5, 2000)"];
    let run = |command: &str, options: &[&str]| file.run(command, &[&call[..], options].concat());
    let plain = run("grad", &["--json"]).expect(0).json();
    assert!(plain[0].get("loops").is_none(), "{plain:?}");
    for options in [["--memory-budget", "2KiB", "--json"], ["--checkpoint", "add=1KiB", "--json"]] {
        let found = run("grad", &options).expect(0).json();
        assert_eq!((&found[0]["value"], &found[0]["gradient"]), (&plain[0]["value"], &plain[0]["gradient"]));
        let loops = &found[0]["loops"];
        assert!(loops["stores"].as_u64() > Some(0) && loops["max_bytes"].as_u64() <= Some(2048), "{loops}");
    }
    let text = run("explain", &["--memory-budget", "2KiB"]).expect(0).stdout;
    assert!(text.contains("loop at %sum, block1, inst5, line 17: "), "{text}");
    run("grad", &["--checkpoint", "add"]).expect(2).says("such as advance=16MiB");
    run("grad", &["--checkpoint", "sum=1KiB"]).expect(1).says("error[AD0193]: no loop calls `sum`");
    run("grad", &["--checkpoint", "add=1KiB", "--memory", "restore"]).expect(1).says("all of memory to be restored");
    let stage =
        |options: &[&str]| file.run("dump", &[&["-f", "sum", "-s", "forward"], options].concat()).expect(0).stdout;
    assert!(stage(&["--memory-budget", "2KiB"]).contains("%sum__loop1"));
    assert!(!stage(&[]).contains("%sum__loop1"));
    let through = ["-f", "through", "-s", "forward", "--memory-budget", "2KiB"];
    let shown = file.run("dump", &through).expect(0).stdout;
    assert_eq!((shown.matches("%through__forward").count(), shown.contains("loop1")), (1, false), "{shown}");
}
