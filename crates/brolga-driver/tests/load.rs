//! Files that must load, and files that must be refused with a line.

use brolga_driver::File;

fn load(text: &str) -> File {
    File::parse("test.clif", text).unwrap_or_else(|e| panic!("{e}"))
}

/// Code and line of each problem.
fn problems(text: &str) -> Vec<(&'static str, Option<u32>)> {
    let found = File::parse("test.clif", text).expect_err("this file must be refused");
    found.0.iter().map(|d| (d.code, d.line)).collect()
}

const F: &str = "function %f(f64) -> f64 system_v {\nblock0(v0: f64):\n    v1 = fmul v0, v0\n    return v1\n}\n";

#[test]
fn lines_of_instructions_count_from_the_top_of_the_file() {
    let file = load(&format!(
        "test grad\ntarget pulley64\nset enable_probestack=false\n\n; x squared\n{F}\n{}",
        F.replace("%f", "u0:3")
    ));
    assert_eq!(file.symbols(), ["%f", "%u0:3"]);
    for (start, symbol) in [(6, "f"), (12, "u0:3")] {
        let func = &file.program.funcs[file.defined(symbol).unwrap()];
        let body = func.body.as_ref().unwrap();
        let lines: Vec<_> =
            body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).map(|i| func.lines[i]).collect();
        assert_eq!(lines, [start + 2, start + 3], "{symbol}");
    }
}

#[test]
fn text_dumped_by_frontends() {
    let file = load(
        "function u0:2(i64 vmctx, i64, i32, i32) -> f64 tail {
    region0 = 603979776 \"VMContext+0x8 {\"
    region1 = 134217728 \"PublicMemory\"
    gv0 = vmctx
    gv1 = load.i64 notrap aligned readonly can_move region0 gv0+8
    gv2 = load.i64 notrap aligned gv1+24
    sig0 = (i64 vmctx, i64, f64) -> f64 tail
    fn3 = colocated u0:7 sig0
    stack_limit = gv2

block0(v0: i64, v1: i64, v2: i32, v3: i32):
@0040   v7 = load.i64 notrap aligned readonly can_move region0 v0+56
@0042   v83 = uextend.i64 v2
@0042   v85 = iadd v7, v83
@0042   v86 = load.f64 little region1 v85
@0050   v90 = call fn3(v0, v0, v86)
@0055   return v90
}

function u0:7(i64, i64, f64) -> f64 tail {
block0(v0: i64, v1: i64, v2: f64):
    return v2
}
",
    );
    let func = &file.program.funcs[file.defined("u0:2").unwrap()];
    let body = func.body.as_ref().unwrap();
    assert!(body.stack_limit.is_none());
    assert!(body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).all(|i| func.lines[i] != 0));
    assert_eq!(body.dfg.ext_funcs.len(), 4, "the holes before fn3 are filled");
}

#[test]
fn calls_to_undefined_functions_are_imports() {
    let file =
        load("function %f(f64) -> f64 {\nfn0 = %exp(f64) -> f64\nblock0(v0: f64):\nv1 = call fn0(v0)\nreturn v1\n}");
    assert!(file.defined("exp").is_none());
    assert!(file.program.func("exp").is_some());
}

#[test]
fn data_objects() {
    let file = load(
        "; data: %t = f64[1.0, 2.0] readonly\n; data: %acc = f32[0.0]\n\
         function %f() -> f64 {\ngv0 = symbol %t\nblock0:\nv0 = symbol_value.i64 gv0\nv1 = load.f64 v0\nreturn v1\n}",
    );
    let object = |s: &str| &file.program.data[file.program.data_object(s).unwrap()];
    assert_eq!(object("t").bytes, [1.0f64.to_le_bytes(), 2.0f64.to_le_bytes()].concat());
    assert!(!object("t").writable && object("acc").writable);
    assert_eq!(object("acc").bytes.len(), 4);
}

#[test]
fn empty_and_foreign_files() {
    assert_eq!(problems(""), [("AD0003", None)]);
    assert_eq!(problems("; only a comment\ntest grad\n"), [("AD0003", None)]);
    assert_eq!(problems("hello\nworld\n\nagain"), [("AD0002", Some(1)), ("AD0002", Some(4))]);
    assert_eq!(problems("(module)"), [("AD0002", Some(1))]);
}

#[test]
fn every_problem_of_a_file_is_reported() {
    let text = format!(
        "{F}{F}function %bad(f64) -> f64 {{\nblock0(v0: f64):\n    v1 = fmull v0, v0\n    return v1\n}}\n\
         function %types(f64, i64) -> f64 {{\nblock0(v0: f64, v1: i64):\n    v2 = iadd v1, v0\n    return v1\n}}\n"
    );
    assert_eq!(
        problems(&text),
        [("AD0004", Some(6)), ("AD0002", Some(13)), ("AD0005", Some(18)), ("AD0005", Some(19))]
    );
}

#[test]
fn an_unclosed_function_does_not_hide_the_next() {
    let found = problems("function %f() {\nblock0:\n  return\nfunction %g() {\nblock0:\n  v0 = nonsense\n}\n");
    assert_eq!(found.iter().map(|p| p.0).collect::<Vec<_>>(), ["AD0002", "AD0002"]);
    assert_eq!(found[1].1, Some(6));
}

#[test]
fn missing_pieces() {
    // No terminator, undefined value, undefined block, undefined function, use before definition.
    for body in [
        "block0:\n    v0 = iconst.i64 1\n}",
        "block0:\n    return v9\n}",
        "block0:\n    jump block7\n}",
        "block0:\n    call fn2()\n    return\n}",
        "block0:\n    jump block1\nblock1:\n    v2 = iadd v1, v1\n    v1 = iconst.i64 1\n    return\n}",
        "}",
        "block0(v0: i64):\n    return\n}",
        "block0:\n    v4000000000 = iconst.i64 1\n    return\n}",
    ] {
        let found = problems(&format!("\nfunction %f() system_v {{\n{body}\n"));
        assert!(found.iter().all(|(_, line)| line.is_some_and(|l| l >= 2)), "{body}: {found:?}");
    }
}

#[test]
fn signatures_must_agree() {
    let caller = "function %f(f64) -> f64 system_v {\nfn0 = %g(f64) -> f64 system_v\nblock0(v0: f64):\nv1 = call fn0(v0)\nreturn v1\n}\n";
    let callee = |sig: &str| format!("{caller}function %g({sig} {{\nblock0(v0: f64):\nreturn v0\n}}\n");
    load(&callee("f64) -> f64 system_v"));
    assert_eq!(problems(&callee("f64) -> f64 tail")), [("AD0006", Some(2))]);
    let wrong =
        format!("{caller}function %g(i64) -> f64 system_v {{\nblock0(v0: i64):\nv1 = f64const 0.0\nreturn v1\n}}\n");
    assert_eq!(problems(&wrong), [("AD0006", Some(2))]);
}

#[test]
fn data_must_exist_once() {
    let uses = "function %f() -> i64 {\ngv0 = symbol %t\nblock0:\nv0 = symbol_value.i64 gv0\nreturn v0\n}\n";
    assert_eq!(problems(uses), [("AD0009", Some(2))]);
    assert_eq!(problems(&format!("; data: %t = f64[1]\n; data: %t = f64[1]\n{uses}")), [("AD0004", Some(2))]);
    assert_eq!(problems(&format!("; data: %t = i8[1, 300]\n{uses}")), [("AD0008", Some(1))]);
}

#[test]
fn bad_directives_are_kept_apart() {
    let file = load(&format!("; grad: %f(1.0 == [2]\n; grad: %f(1.0) == [2.0]\n{F}"));
    assert_eq!(file.malformed.0.iter().map(|d| (d.code, d.line)).collect::<Vec<_>>(), [("AD0008", Some(1))]);
    assert_eq!(file.directives.len(), 1);
}

#[test]
fn unreadable_files() {
    let err = File::read(std::path::Path::new("/nonexistent/x.clif")).unwrap_err();
    assert!(err.0[0].message.contains("no such file"));
    let path = std::env::temp_dir().join(format!("brolga-{}.clif", std::process::id()));
    std::fs::write(&path, b"; text\n\xff\xfe").unwrap();
    let err = File::read(&path).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((err.0[0].code, err.0[0].line), ("AD0001", Some(2)));
}

/// The reader finds that something is missing where the text has ended, on a line that is not
/// there.
#[test]
fn an_error_behind_the_end_is_one_of_the_last_line() {
    for (text, line) in [
        ("function %f(f64) {\nblock0(v0: f64):\n    return", 3),
        ("function %f(f64) {\nblock0(v0: f64):\n    return\n", 3),
        ("function %f(f64) {\n\n", 2),
        ("function", 1),
    ] {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        assert!(found[0].1.is_some_and(|l| l >= 1 && l <= line), "{text:?}: {found:?}");
    }
}

/// What is declared and not used may be anything: no such function, another signature, no such
/// data.
#[test]
fn what_is_not_used_need_not_be_right() {
    let text = format!(
        "function %g(f64) -> f64 system_v {{\ngv0 = symbol %nothing\nfn0 = %f(i64) -> i64 tail\nfn1 = %nowhere()\n\
         block0(v0: f64):\nreturn v0\n}}\n{F}"
    );
    let file = load(&text);
    assert!(file.program.func("nowhere").is_none(), "what is not called is no import");
    let body = file.program.funcs[file.defined("g").unwrap()].body.as_ref().unwrap();
    assert!(body.dfg.ext_funcs.is_empty());
}

/// A request for one function does not hear what is wrong with others, unless it leads there.
#[test]
fn one_bad_function_is_no_matter_to_others() {
    let calls = "function %h(f64) -> f64 system_v {\nfn0 = %bad(f64) -> f64 system_v\nblock0(v0: f64):\nv1 = call fn0(v0)\nreturn v1\n}\n";
    let text =
        format!("{F}function %bad(f64) -> f64 system_v {{\nblock0(v0: f64):\nv1 = nosuch v0\nreturn v1\n}}\n{calls}");
    let wanted = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        File::parse_for("test.clif", text.clone(), &names)
    };
    assert_eq!(problems(&text), [("AD0002", Some(8))]);
    assert_eq!(wanted(&["f"]).unwrap().symbols(), ["%f"]);
    for names in [&["bad"][..], &["h"], &["f", "h"]] {
        let found = wanted(names).expect_err("it leads to the bad one");
        assert_eq!((found.0[0].code, found.0[0].line), ("AD0002", Some(8)), "{names:?}");
    }
    // A derivative by name leads to its function.
    let slope = "function %slope(f64) -> f64 system_v {
fn0 = %f__tangent(f64, f64) -> f64, f64 system_v
block0(v0: f64):
v1, v2 = call fn0(v0, v0)
return v2
}
";
    let file = File::parse_for("test.clif", format!("{text}{slope}"), &["slope".to_owned()]).unwrap();
    assert!(file.defined("f").is_some() && file.defined("f__tangent").is_some(), "{:?}", file.symbols());
    // What belongs to no function is read for each of them.
    assert!(File::parse_for("test.clif", format!("{F}oops\n"), &["f".to_owned()]).is_err());
}

/// `x³`, its slope and its bend by the names of derivatives, and one that calls a derivative of
/// another type: that is its own concern.
const BY_NAME: &str = "
function %cube(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fmul v0, v0
    v2 = fmul v1, v0
    return v2
}
function %slope(f64) -> f64 system_v {
    fn0 = %cube__gradient(f64, f64) -> f64, f64 system_v
block0(v0: f64):
    v1 = f64const 0x1.0
    v2, v3 = call fn0(v0, v1)
    return v3
}
function %bend(f64) -> f64 system_v {
    fn0 = %slope__gradient(f64, f64) -> f64, f64 system_v
block0(v0: f64):
    v1 = f64const 0x1.0
    v2, v3 = call fn0(v0, v1)
    return v3
}
function %unrelated(f64) -> f64 system_v {
    fn0 = %slope__gradient__tangent(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
";

#[test]
fn a_derivative_that_cannot_be_made_leaves_the_others_there() {
    let file = load(BY_NAME);
    let has_body = |symbol: &str| file.defined(symbol).is_some();
    assert!(has_body("cube__gradient") && has_body("slope__gradient"));
    assert!(!has_body("slope__gradient__tangent"));
}
