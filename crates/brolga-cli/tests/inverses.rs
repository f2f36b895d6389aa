//! `--inverse` and `--inverse-check`, and lines of files: calls that others undo.

use brolga_testing::command::TempFile;

/// A number to which the square of another is added, times a third.
const ADDED: &str = "\
function %advance(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v0+8
    v4 = load.f64 v1
    v5 = fmul v2, v2
    v6 = fmul v4, v5
    v7 = fadd v3, v6
    store v7, v0+8
    return
}
function %retreat(i64, i64) {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v0+8
    v4 = load.f64 v1
    v5 = fmul v2, v2
    v6 = fmul v4, v5
    v7 = fsub v3, v6
    store v7, v0+8
    return
}
function %added(i64, i64, i64) {
    fn0 = %advance(i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 1
    jump block1(v2)
block1(v4: i64):
    brif v4, block2, block3
block2:
    call fn0(v0, v1)
    v5 = isub v4, v3
    jump block1(v5)
block3:
    return
}
";

#[test]
fn calls_that_others_undo() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "added.clif", ADDED);
    let call = ["--call", "%added([0.7, 2.0], [0.3], 20)", "--shadow", "0=[0.25, 1.0]", "--json"];
    let run = |more: &[&str]| file.run("grad", &[&call[..], more].concat());
    let plain = run(&[]).expect(0).json();
    assert!(plain[0]["inverses"].is_null(), "{plain:?}");
    for check in [&["--inverse-check", "1e-9"][..], &["--inverse-check", "off"], &["--inverse-check", "record"]] {
        let found = run(&[&["--inverse", "advance=retreat,0:16"], check].concat()).expect(0).json();
        assert_eq!((&found[0]["value"], &found[0]["buffers"]), (&plain[0]["value"], &plain[0]["buffers"]));
        let near = |i: usize, k: usize| {
            let [a, b] = [&found, &plain].map(|f| f[0]["gradient"][i][k].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-13 * b.abs(), "{a} {b}");
        };
        near(0, 0);
        near(0, 1);
        near(1, 0);
        let inverses = &found[0]["inverses"];
        assert_eq!((&inverses["calls"], &inverses["undone"]), (&20.into(), &20.into()), "{inverses}");
    }
    // Not all bits come back: the first number is none of a few digits.
    let inverse = ["--inverse", "%advance = %retreat, 0: 16"];
    run(&inverse).expect(1).says("inverse_pair").says("at byte 8 of the state").says("inverse_check");
    let exact = ["--call", "%added([0.5, 2.0], [0.5], 20)", "--shadow", "0=[0.25, 1.0]"];
    let text = file.run("grad", &[&exact[..], &inverse].concat()).expect(0).stdout;
    assert!(text.contains("20 calls, 20 undone") && text.contains("1 states kept"), "{text}");
    // Or derived.
    let derived = run(&["--inverse", "advance,0:16", "--inverse-check", "record"]).expect(0).json();
    assert_eq!(derived[0]["inverses"]["undone"], 20, "{derived:?}");
    let refused = |inverse: &str, status: i32, says: &str| {
        run(&["--inverse", inverse]).expect(status).says(says);
    };
    refused("advance=retreat", 2, "write f=f_inverse,0:24");
    refused("advance=retreat,0", 2, "write f=f_inverse,0:24");
    refused("advance,1:8", 1, "no inverse of %advance is found: it stores to what is no state");
    refused("back,0:16", 1, "%back is no function of the program");
    refused("advance=back,0:16", 1, "%back is no function of the program");
    refused("advance=added,0:16", 1, "declare both alike");
    refused("advance=retreat,2:16", 1, "parameter 2 of (i64, i64) system_v is no pointer");
    refused("advance=retreat,0:0", 1, "the state at parameter 0 has no byte");
    refused("advance=retreat,0:v9", 1, "parameter 9 of (i64, i64) system_v is no length");
    refused("advance=retreat,0:16,0:16", 1, "two states overlap");
    run(&["--inverse", "advance=retreat,0:16", "--inverse", "advance=retreat,0:16"]).expect(1).says("say so once");
    run(&["--inverse-check", "much"]).expect(2).says("write off, bits, record");
}

/// A file that says itself what undoes what.
fn said(name: &str, line: &str) -> TempFile {
    TempFile::new(env!("CARGO_BIN_EXE_brolga"), name, format!("; inverse: {line}\n{ADDED}"))
}

const CALL: [&str; 2] = ["--call", "%added([0.7, 2.0], [0.3], 20)"];
const STEP: [&str; 2] = ["--call", "%advance([0.7, 2.0], [0.3])"];

#[test]
fn files_say_what_undoes_what() {
    for line in ["%advance = %retreat, 0:16", "%advance, 0:16"] {
        let file = said("said.clif", line);
        let found = file.run("grad", &[&CALL[..], &["--inverse-check", "record", "--json"]].concat()).expect(0).json();
        assert_eq!(found[0]["inverses"]["undone"], 20, "{found:?}");
        // Of the function itself, and of what undoes it, the other one takes back what it does.
        let within = |call: &str| {
            let run = file.run("check", &["--call", call, "--inverse-check", "1e-9"]).expect(0);
            assert!(run.stdout.contains("from 64 random states back to them"), "{}", run.stdout);
        };
        within("%advance([0.7, 2.0], [0.3])");
        let inverse = if line.contains('=') { "%retreat" } else { "%advance__inverse" };
        within(&format!("{inverse}([0.7, 2.0], [0.3])"));
        let text = file.run("invert", &["--func", "advance"]).expect(0).stdout;
        assert!(text.starts_with(&format!("function {inverse}(i64, i64)")) && text.contains("fsub"), "{text}");
    }
    // Bit by bit, a sum of floats does not come back.
    said("bits.clif", "%advance, 0:16").run("check", &STEP).expect(1).says("argument 0 at [1] was");
    // What is no state is not changed, and buffers are as long as their states.
    let less = said("less.clif", "%advance = %retreat, 0:8").run("check", &STEP).expect(1);
    less.says("AD0192").says("is at byte 8 of the state at parameter 0, which has 8");
    for call in [&STEP, &CALL] {
        let long = said("long.clif", "%advance = %retreat, 0:24").run("check", call).expect(2);
        long.says("the state at parameter 0 of %advance has 24 bytes, and this buffer 16");
    }
    let wrong = said("self.clif", "%advance = %advance, 0:16")
        .run("check", &[&STEP[..], &["--inverse-check", "1e-9"]].concat());
    wrong.expect(1).says("argument 0 at [1] was 2.0");
}

#[test]
fn an_inverse_is_wrong_beside_a_large_number_too() {
    let wrong = "    v8 = f64const 0x1.0p-12\n    v9 = fadd v7, v8\n    store v9, v0+8\n";
    let (head, retreat) = ADDED.split_once("function %retreat").unwrap();
    let text = format!("{head}function %retreat{}", retreat.replacen("    store v7, v0+8\n", wrong, 1));
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "wrong.clif", text);
    for x in ["0.7", "1e6"] {
        let call = format!("%advance([{x}, 2.0], [1e-12])");
        let args = ["--call", &call, "--inverse", "advance=retreat,0:16", "--inverse-check", "1e-9"];
        file.run("check", &args).expect(1).says("argument 0 at [1] was 2.0").says("more than the 1e-9 that is allowed");
    }
}

#[test]
fn a_line_that_is_wrong_stops_no_command_about_others() {
    for line in ["%advance = %back, 0:16", "%advance = %retreat, 2:16", "%advance, 1:8"] {
        let file = said("other.clif", line);
        file.run("run", &["--call", "%retreat([0.7, 2.0], [0.3])"]).expect(0);
        file.run("dump", &["--func", "retreat", "--stage", "cfg"]).expect(0);
        // What calls it is concerned.
        file.run("run", &CALL).expect(1).says("other.clif:");
        file.run("invert", &["--func", "advance"]).expect(1);
    }
}

#[test]
fn lines_that_are_wrong_are_named() {
    let says = |line: &str, code: &str, what: &str| {
        said("wrong.clif", line).run("check", &CALL).expect(1).says(code).says("wrong.clif:1").says(what);
    };
    says("%advance = %back, 0:16", "AD0192", "%back is no function of the program");
    says("%advance = %retreat, 2:16", "AD0192", "parameter 2 of");
    let none = said("none.clif", "%advance, 1:8").run("check", &CALL).expect(1);
    none.says("AD0195").says("no inverse of %advance is found").says("none.clif:");
    for (line, what) in [
        ("%advance", "expected `,` and the states"),
        ("%advance, 0", "expected `:` and a number of bytes"),
        ("%advance, 0:99999999999", "more than there can be"),
        ("%advance, 0:16 0:8", "expected the end of the line"),
    ] {
        said("text.clif", line).run("check", &[]).expect(1).says("AD0008").says(what);
    }
    // A function that is called may compute, read memory, and change what can be undone.
    let calls = |body: &str| {
        let body = body.replace("; ", "\n    ");
        let g = format!("function %g(i64) -> f64 {{\nblock0(v0: i64):\n    {body}\n    return v1\n}}\n");
        let f = "function %f(i64, i64) {\n    fn0 = %g(i64) -> f64\nblock0(v0: i64, v1: i64):\n    v2 = load.f64 v0\n    \
                 v3 = call fn0(v1)\n    v4 = fadd v2, v3\n    store v4, v0\n    return\n}\n";
        let text = format!("; inverse: %f, 0:8\n{g}{f}");
        TempFile::new(env!("CARGO_BIN_EXE_brolga"), "calls.clif", text).run("invert", &[])
    };
    calls("v1 = fcvt_from_sint.f64 v0").expect(0);
    calls("v1 = load.f64 v0").expect(0);
    let lost = calls("v1 = load.f64 v0; store v1, v0").expect(1);
    lost.says("AD0195").says("%g changes memory and returns a number");
    let more = calls("v1 = load.f64 v0; fence").expect(1);
    more.says("AD0195").says("%g does more than read");
    let plain = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "plain.clif", ADDED);
    plain.run("invert", &["--func", "advance"]).expect(2).says("--inverse f,0:24");
    let text = plain.run("invert", &["--inverse", "advance,0:16"]).expect(0).stdout;
    assert!(text.starts_with("function %advance__inverse"), "{text}");
}

#[test]
fn what_lies_on_each_other_is_named() {
    let text = "\
; inverse: %add_at, 0:24
function %add_at(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 3
    v4 = ishl v1, v3
    v5 = ishl v2, v3
    v6 = iadd v0, v4
    v7 = iadd v0, v5
    v8 = load.f64 v6
    v9 = load.f64 v7
    v10 = fadd v8, v9
    store v10, v6
    return
}
function %adds(i64, i64, i64) {
    fn0 = %add_at(i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    call fn0(v0, v1, v2)
    return
}
";
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "overlap.clif", text);
    let grad = |at: &str| {
        let call = format!("%adds([1.0, 2.0, 4.0], {at}) shadow 0=[1.0, 2.0, 4.0]");
        file.run("grad", &["--call", &call, "--json"])
    };
    let apart = grad("0, 2").expect(0).json();
    assert_eq!(apart[0]["gradient"][0].to_string(), "[1.0,2.0,5.0]", "{apart:?}");
    // A number that is added to itself has been forgotten.
    let trap = grad("1, 1").expect(1).json();
    assert_eq!((&trap[0]["error"]["code"], &trap[0]["error"]["line"]), (&"overlap".into(), &12.into()), "{trap:?}");
}
