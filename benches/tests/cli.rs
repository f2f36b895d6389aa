//! The command line of `cargo xtask bench` from outside.

use brolga_testing::command::{Run, TempFile, run};
use brolga_testing::text::WILD;
use serde_json::Value;

fn bench(args: &[&str]) -> Run {
    run(env!("CARGO_BIN_EXE_benches"), args)
}

const TRAPS: &str = "\
; things that trap
function %trap(i32, f64) -> f64 system_v {
block0(v0: i32, v1: f64):
    v2 = iconst.i32 1
    v3 = sdiv v2, v0
    v4 = fcvt_from_sint.f64 v3
    v5 = fmul v4, v1
    return v5
}
";

#[test]
fn it_says_what_there_is() {
    bench(&["nothing"]).expect(2).says("no problem is called `nothing`; there are mul, ");
    bench(&["--disasm"]).expect(2).says("<FILTER>");
    bench(&["--scaling", "dot"]).expect(2).says("cannot be used with");
    bench(&["dot", "--latency", "--disasm"]).expect(2).says("cannot be used with");
    let table = bench(&["mul", "--latency"]).expect(0).stdout;
    assert!(table.contains("/ Cranelift") && table.contains("geometric mean"), "{table}");
    bench(&["dot", "--passes", "--disasm"]).expect(2).says("cannot be used with");
    let parts = bench(&["mul", "--passes", "--json"]).expect(0).stdout;
    let parts: Value = serde_json::from_str(&parts).expect("JSON");
    let parts = parts.as_array().expect("an array");
    assert!(parts.iter().all(|p| p["name"].is_string() && p["time_ratio"].as_f64().is_some_and(|x| x > 0.0)));
    let table = bench(&["matvec", "--passes"]).expect(0).stdout;
    let vectorised = table.lines().find(|l| l.trim_start().starts_with("vectorise")).expect("a row");
    assert!(vectorised.contains("matvec"), "{table}");
    let code = bench(&["dot", "--disasm"]).expect(0).stdout;
    for what in ["primal: %dot, ", "derivative: %dot__gradient, ", "by hand: %dot_hand, "] {
        assert!(code.contains(what), "{code}");
    }
    let code = bench(&["wasm/quadrature", "--disasm"]).expect(0).stdout;
    for what in ["primal: %refine, ", "derivative: %quadrature__gradient, ", "by hand: %quadrature_adjoint, "] {
        assert!(code.contains(what), "{code}");
    }
    let file = TempFile::new(env!("CARGO_BIN_EXE_benches"), "disasm.clif", format!("{TRAPS}{WILD}"));
    let code = bench(&[file.path(), "--disasm", "--call", "%trap(1, 4.0)"]).expect(0).stdout;
    assert!(code.contains("primal: %trap, ") && code.contains("derivative: %trap__gradient, "), "{code}");
}

/// A program that goes wrong is an error, not the end of the process.
#[test]
fn primals_that_go_wrong() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_benches"), "wild.clif", format!("{TRAPS}{WILD}"));
    bench(&[file.path(), "--call", "%g(0, 1.5)"]).expect(1).says("unknown_callee");
    bench(&[file.path(), "--call", "%taken(8, 1.5)"]).expect(1).says("heap_oob");
    bench(&[file.path(), "--call", "%ended(1.5)"]).expect(1).says("ended");
}
