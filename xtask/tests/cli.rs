//! The command line from outside: chores, and the commands that users have.

use brolga_testing::command::{Run, TempFile, run};

fn xtask(args: &[&str]) -> Run {
    run(env!("CARGO_BIN_EXE_xtask"), args)
}

const SQUARE: &str = "\
; a square
; grad: %f(3.0) == [6.0]
function %f(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fmul v0, v0
    return v1
}
";

/// `cargo xtask grad FILE` is `brolga grad FILE`, whose tests are in `brolga-cli`.
#[test]
fn commands_about_files() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_xtask"), "square.clif", SQUARE);
    let json = r#"{"function":"%f","value":[9.0],"buffers":[null],"gradient":[6.0]}"#;
    assert_eq!(file.run("grad", &["--json"]).expect(0).stdout.trim_end(), json);
    file.run("check", &[]).expect(0);
    file.run("grad", &["--call", "%f(1.0, 2.0)"]).expect(2).says("takes 1 argument, not 2");
    let help = xtask(&["--help"]).expect(0).stdout;
    for command in ["grad", "jvp", "jacobian", "hvp", "hessian", "run", "check", "explain", "dump", "bench", "test"] {
        assert!(help.lines().any(|l| l.trim_start().starts_with(&format!("{command} "))), "no {command} in\n{help}");
    }
}

#[test]
fn the_project_is_tidy() {
    xtask(&["tidy"]).expect(0);
}

#[test]
fn bench_is_read_before_it_is_compiled() {
    xtask(&["bench", "--disasm"]).expect(2).says("<FILTER>");
    xtask(&["bench", "--scaling", "dot"]).expect(2).says("cannot be used with");
    xtask(&["bench", "dot", "--latency", "--disasm"]).expect(2).says("cannot be used with");
    xtask(&["bench", "dot", "--passes", "--disasm"]).expect(2).says("cannot be used with");
}
