//! Exit statuses: each kind of failure, and what is written of them.

use brolga_cli::failure::STATUSES;
use brolga_testing::command::{TempFile, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_brolga");

const FILE: &str = "\
; a square, with a line that expects something else if it is told to, and things that go wrong
; grad: %square(3.0) == [6.0]
function %square(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fmul v0, v0
    return v1
}

function %unknown(f64) -> f64 system_v {
    fn0 = %unknown_to_all(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}

function %trap(f64) -> f64 system_v {
block0(v0: f64):
    trap user1
}

function %spin(f64) -> f64 system_v {
block0(v0: f64):
    jump block1
block1:
    jump block1
}

function %abs(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fabs v0
    return v1
}
";

/// What is said, by each kind of failure: the command, its arguments, and a part of the message.
type Row = (&'static str, &'static [&'static str], &'static str);

#[test]
fn failures_are_status_1() {
    let rows: [Row; 8] = [
        // A derivation is refused.
        ("grad", &["--call", "%unknown(1.0)"], "AD0150"),
        ("bench", &["--call", "%unknown(1.0)"], "AD0150"),
        ("dump", &["--func", "%unknown", "--stage", "forward"], "AD0150"),
        // A run traps.
        ("run", &["--call", "%trap(1.0)"], "user1"),
        ("grad", &["--call", "%trap(1.0)"], "user1"),
        ("bench", &["--call", "%trap(1.0)"], "user1"),
        // A run takes too long.
        ("run", &["--call", "%spin(1.0)", "--time-limit", "0.2"], "time limit"),
        ("bench", &["--call", "%spin(1.0)", "--time-limit", "0.2"], "time limit"),
    ];
    let file = TempFile::new(PROGRAM, "failures.clif", FILE);
    for (command, args, says) in rows {
        file.run(command, args).expect(1).says(says);
    }
}

#[test]
fn wrong_numbers_and_files_are_status_1() {
    let wrong = TempFile::new(PROGRAM, "wrong-number.clif", FILE.replace("[6.0]", "[7.0]"));
    wrong.run("grad", &[]).expect(1).says("expected 7.0, found 6.0");
    wrong.run("check", &[]).expect(1).says("expected 7.0, found 6.0");
    // The file cannot be read.
    for command in ["grad", "jvp", "jacobian", "hvp", "hessian", "run", "check", "explain", "dump", "bench"] {
        let more: &[&str] = match command {
            "jvp" | "hvp" => &["--dir", "0=1"],
            "dump" => &["--stage", "cfg"],
            _ => &[],
        };
        run(PROGRAM, &[&[command, "/nonexistent.clif"], more].concat()).expect(1).says("no such file");
        let torn = TempFile::new(PROGRAM, "torn.clif", "function %f(");
        torn.run(command, more).expect(1).says("AD0002");
    }
}

/// What cannot be linked is a failure of `explain`, whatever depends on it.
#[test]
fn what_is_not_linked_is_status_1() {
    let text = "; a call of what is nowhere, of which no derivative is asked\nfunction %f(f64, f64) -> f64 system_v {\n    \
        fn0 = %unknown_to_all(f64) -> f64 system_v\nblock0(v0: f64, v1: f64):\n    v2 = call fn0(v1)\n    \
        return v0\n}\n";
    let file = TempFile::new(PROGRAM, "oracle.clif", text);
    file.run("explain", &["--call", "%f(1.0, 2.0) activity active,const"]).expect(1).says("AD0152");
}

#[test]
fn a_full_disk_is_status_1_and_a_closed_pipe_is_none() {
    let file = TempFile::new(PROGRAM, "written.clif", FILE);
    for args in [&["grad", file.path()][..], &["man"], &["completions", "bash"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut command = std::process::Command::new(PROGRAM);
        command.args(args);
        let output = command.stdout(full).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("the output cannot be written"), "{args:?}");

        // The end that is read is closed before anything is written.
        let (reader, writer) = std::io::pipe().expect("there are pipes");
        drop(reader);
        let output = command.stdout(writer).output().expect("the binary runs");
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{args:?}");
    }
}

#[test]
fn wrong_usage_is_status_2() {
    let file = TempFile::new(PROGRAM, "usage-2.clif", FILE);
    file.run("grad", &["--call", "%square(1.0, 2.0)"]).expect(2).says("takes 1 argument, not 2");
    file.run("bench", &["--call", "%square(1.0)", "--budget", "0"]).expect(2).says("--budget");
    file.run("dump", &["--func", "%square"]).expect(2).says("--stage");
    run(PROGRAM, &["--color", "sometimes", "man"]).expect(2).says("sometimes");
    run(PROGRAM, &["man", "nothing"]).expect(2).says("there is no command `nothing`");
    run(PROGRAM, &["completions", "tcsh"]).expect(2).says("possible values");
    run(PROGRAM, &[]).expect(2).says("Usage");
}

#[test]
fn all_is_well_with_status_0() {
    let file = TempFile::new(PROGRAM, "well.clif", FILE);
    file.run("grad", &[]).expect(0);
    run(PROGRAM, &["--help"]).expect(0);
    run(PROGRAM, &["--version"]).expect(0);
}

/// Help, pages and README say the same of them.
#[test]
fn statuses_are_documented() {
    let squeezed = |text: &str| text.replace(['\\', '\n'], " ").split_whitespace().collect::<Vec<_>>().join(" ");
    let help = run(PROGRAM, &["--help"]).expect(0).stdout;
    let pages = ["grad", "bench"].map(|command| run(PROGRAM, &["man", command]).expect(0).stdout);
    let readme = include_str!("../README.md").to_owned();
    for text in [&help, &readme].into_iter().chain(&pages) {
        let text = squeezed(text).replace("- ", "-");
        for (status, meaning) in STATUSES {
            let words = squeezed(meaning);
            assert!(text.contains(&words), "{status}: {words:?} is not in\n{text}");
        }
    }
}

/// A logistic function, and one that has a rule by its tangent.
const RULED: &str = "\
function %logistic(f64) -> f64 system_v {
    fn0 = %exp(f64) -> f64 system_v
block0(v0: f64):
    v1 = fneg v0
    v2 = call fn0(v1)
    v3 = f64const 0x1.0
    v4 = fadd v3, v2
    v5 = fdiv v3, v4
    return v5
}
function %f(f64) -> f64 system_v {
    fn0 = %logistic(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = fmul v1, v0
    return v2
}
function %adjoint(f64, f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64, v2: f64):
    v3 = f64const 0x1.0
    v4 = fsub v3, v0
    v5 = fmul v4, v0
    v6 = fmul v5, v1
    return v6
}
function %augmented(f64) -> f64, i64 system_v {
    fn0 = %logistic(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = bitcast.i64 v1
    return v1, v2
}
function %with_record(f64, i64) -> f64 system_v {
    fn0 = %adjoint(f64, f64, f64) -> f64 system_v
block0(v0: f64, v1: i64):
    v2 = bitcast.f64 v1
    v3 = call fn0(v2, v0, v0)
    return v3
}
";

#[test]
fn rules_are_checked_as_the_rest_is() {
    let file = TempFile::new(PROGRAM, "ruled.clif", RULED);
    let with = |text: &str| {
        let rules = TempFile::new(PROGRAM, "rules.txt", text);
        let args = ["check", file.path(), "--call", "%f(0.3)", "--rules", rules.path()];
        run(PROGRAM, &args)
    };
    with("# z(1 - z)\nlogistic: x => z: z*(1 - z)\n").expect(0);
    let wrong = with("logistic: x => z: z*(2 - z)\n").expect(1);
    assert!(wrong.stdout.contains("WRONG"), "{}", wrong.stdout);
    with("logistic: x => z: z*(1 - y)\n").expect(2).says("rules.txt:1: `y` is neither an operand nor the result");
    with("\nlogistic x\n").expect(2).says("rules.txt:2:");
    let more = "logistic: x => z: z*(1 - z)\n\n# of other programs\nsigmoid: inactive\n";
    with(more).expect(0).says("rules.txt:4: the program calls no function %sigmoid");
    with("\nlogistic: x, y => z: 1, 1\n").expect(1).says("AD0175").says("rules.txt:2");
    // Adjoints: functions of the file that it does not call.
    with("logistic: x => adjoint with_record(seed, record) -> dx after augmented(x)\n").expect(0);
    let wrong = with("logistic: x => adjoint adjoint(x, seed, seed) -> dx\n").expect(1);
    assert!(wrong.stdout.contains("WRONG"), "{}", wrong.stdout);
    with("logistic: x => adjoint adjoint(x, seed) -> dx\n").expect(1).says("AD0175");
    with("logistic: x => adjoint elsewhere(x, seed) -> dx\n").expect(1).says("AD0152");
    with("logistic: x => adjoint adjoint(y)\n").expect(2).says("rules.txt:1: `y` is none of x");
}

/// A function of the name of one of C's, one that is called through a pointer, one of another
/// convention, and one of other types than the rule gives it.
const NAMED: &str = "function %cos(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fmul v0, v0
    return v1
}
function %f(f64) -> f64 system_v {
    fn0 = %sin(f64) -> f64 system_v
    fn1 = %cos(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = call fn1(v0)
    v3 = fadd v1, v2
    return v3
}
function %through(f64) -> f64 system_v {
    sig0 = (f64) -> f64 system_v
    fn0 = %cos(f64) -> f64 system_v
block0(v0: f64):
    v1 = func_addr.i64 fn0
    v2 = call_indirect sig0, v1(v0)
    return v2
}
function %slope(f64, f64, f64, f64, f64, f64, f64, f64, f64, f64) -> f64 tail {
block0(v0: f64, v1: f64, v2: f64, v3: f64, v4: f64, v5: f64, v6: f64, v7: f64, v8: f64, v9: f64):
    v10 = fadd v8, v9
    return v10
}
function %whole(f64, i64) -> f64 system_v {
block0(v0: f64, v1: i64):
    return v0
}
";

#[test]
fn rules_are_of_functions_whatever_these_are_called() {
    let file = TempFile::new(PROGRAM, "named.clif", NAMED);
    let with = |command: &str, call: &str, text: &str| {
        let rules = TempFile::new(PROGRAM, "named.txt", text);
        run(PROGRAM, &[command, file.path(), "--call", call, "--rules", rules.path()])
    };
    for (rule, status) in [("cos: x => z: x+x", 0), ("cos: x => z: x", 1)] {
        with("check", "%f(1.5)", rule).expect(status);
        // The rule is held to its function, when that is asked for itself.
        with("check", "%cos(1.5)", rule).expect(status);
    }
    let grad = |call, rule| with("grad", call, rule).expect(0).stdout;
    assert!(grad("%f(1.5)", "cos: x => z: x+x").contains("gradient 0   3.070737201667703"));
    let many = "cos: x => z: slope(x, x, x, x, x, x, x, x, x, x)";
    with("check", "%f(1.5)", many).expect(0);
    with("check", "%through(1.5)", "cos: x => z: x+x").expect(0);
    assert!(grad("%through(1.5)", "cos: x => z: 7").contains("gradient 0   7.0"));
    with("grad", "%f(1.5)", "cos: x => z: slope(x)").expect(1).says("AD0175");
    with("grad", "%f(1.5)", "whole: x, n => z: n, 0").expect(1).says("write `float(…)` around it");
    with("grad", "%f(1.5)", "whole: x, n => z: float(x), 0").expect(1).says("without `float(…)`");
}

/// Signs that are taken of floats in a module's memory, and recorded: the gradient is known, and
/// where a product is not, it is no number.
#[test]
fn a_second_derivative_that_is_not_known_is_a_trap() {
    let text = r#"(module (memory (export "memory") 1)
  (func $signed (param $x i32) (param $y i32) (result f64)
    (f64.mul (f64.load (local.get $x)) (f64.reinterpret_i64 (i64.or
      (i64.and (i64.load (local.get $y)) (i64.const 0x8000000000000000))
      (i64.and (i64.reinterpret_f64 (f64.load (local.get $x))) (i64.const 0x7fffffffffffffff))))))
  (func (export "f") (param $x i32) (param $n i32) (param $y i32) (result f64) (local $r f64) (local $at i32)
    (local.set $at (local.get $y))
    (loop $next
      (local.set $r (f64.add (local.get $r) (call $signed (local.get $x) (local.get $at))))
      (local.set $x (i32.add (local.get $x) (i32.const 8)))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (f64.store (local.get $y) (local.get $r))
    (f64.mul (local.get $r) (local.get $r))))"#;
    let file = TempFile::new(PROGRAM, "signs.wat", text);
    let call = ["--call", "%f([0.9, -0.3], 2, [1.5, -0.5])"];
    assert!(file.run("grad", &call).expect(0).stdout.contains("[3.24, -1.08]"));
    file.run("hessian", &call).expect(1).says("untracked_bits");
}

/// Bits that are computed by integers, and a tangent of memory that depends on them. Seen to fail:
/// without the question (`DerivedRule::known_tangents`) both say NaN, and nothing of it.
#[test]
fn tangents_of_memory_that_are_not_known_are_said_so() {
    let text = "function %f(i64, i64) {\nblock0(v0: i64, v1: i64):\n    v2 = load.i64 v0\n    v3 = iconst.i64 12345\n    \
                v4 = imul v2, v3\n    store v4, v1\n    v5 = load.f64 v1\n    v6 = load.f64 v0+8\n    v7 = fmul v5, v6\n    \
                store v7, v1\n    return\n}\n";
    let file = TempFile::new(PROGRAM, "bits.clif", text);
    let call = ["--untracked", "trap", "--call", "%f([1.5, 2.0], [0.0])"];
    let run = file.run("jvp", &[&call[..], &["--dir", "0=[1.0, 0.0]"]].concat()).expect(1).says("untracked_bits");
    assert!(run.stdout.contains("tangent of buffer 1 [nan]"), "{}", run.stdout);
    for sweep in ["forward", "reverse"] {
        let jacobian = [&call[..], &["--outputs", "1", "--way", sweep]].concat();
        file.run("jacobian", &jacobian).expect(1).says("untracked_bits");
    }
}
