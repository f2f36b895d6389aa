//! Files of reversible functions: every command reads them, and errors name their lines.

use brolga_testing::command::TempFile;

const SUM: &str = "\
; grad: %sum([0.0], [1.0, 2.0], 2) shadow 0=[1.0] buffers [[5.0], [1.0, 2.0], null] == [[1.0], [2.0, 4.0], null]
fn sum(y: f64, x: in [f64 x n], n: in i64) {
    for i in 0 .. n {
        y += x[i] * x[i]
    }
}

fn first(y: f64, x: in [f64 x n], n: in i64) {
    y += x[n]
}
";

#[test]
fn commands_read_reversible_functions() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "sum.rev", SUM);
    let prints = |command: &str, args: &[&str], needle: &str| {
        let run = file.run(command, args).expect(0);
        assert!(run.stdout.contains(needle), "no {needle:?} in:\n{}", run.stdout);
        run.stdout
    };
    prints("run", &[], "[5.0]");
    prints("grad", &[], "[2.0, 4.0]");
    prints("check", &[], "inverse: from 64 random states back to them");
    prints("dump", &["--func", "%sum__steps", "--stage", "cfg"], "fmul");
    let inverse = prints("invert", &["--func", "sum"], "for i in back 0 .. n {");
    assert!(inverse.contains("y -= x[i] * x[i]") && !inverse.contains("fn first"), "{inverse}");
    file.run("run", &["--call", "%sum([0.0], [1.0], 2)"])
        .expect(2)
        .says("takes `x: [f64 x n]`, and is given 8 bytes of 16");
    file.run("invert", &["--func", "third"]).expect(2).says("no function `third`");
    let run = file.run("run", &["--call", "%first([0.0], [1.0], 1)"]).expect(1);
    run.says("out_of_range").says("sum.rev:9").says("in `first`");
    // The inverse is a function, too.
    prints("run", &["--call", "%sum__inverse([5.0], [1.0, 2.0], 2)"], "[0.0]");
}

#[test]
fn errors_name_lines() {
    let text = SUM.replace("x[i] * x[i]", "x[i] * y");
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "wrong.rev", &text);
    file.run("grad", &[]).expect(1).says("AD0034").says("wrong.rev:4:21").says("in a place of its own");
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "text.rev", "fn f(x: f64) {\n    x = 1.0\n}\n");
    file.run("run", &[]).expect(1).says("AD0031").says("text.rev:2");
    // A check that fails in a function that is called is one of that.
    let text = "fn f(x: f64) {\n    x += 1.0\n    call g(x)\n}\nfn g(y: f64) {\n    let t: f64 = 0\n    t += y\n    drop t = 0\n}\n";
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "called.rev", text);
    let run = file.run("run", &["--call", "%f([1.0])"]).expect(1);
    run.says("dealloc_mismatch").says("called.rev:8").says("in `g`");
}
