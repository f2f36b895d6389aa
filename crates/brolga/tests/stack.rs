//! Rules are made on threads with little stack: what recurses as deep as a program is nested has a
//! stack of its own.

use std::fmt::Write as _;

use brolga::{ArgActivity, DerivedRule, Effort, Mode, Options, Primal, Program, Request};
use brolga_testing::program;

/// Depth of what is nested.
const DEPTH: usize = 3000;
/// Bytes of stack of the thread that derives.
const SMALL: usize = 128 << 10;

/// One expression, each operand of which is the one before.
fn chain() -> String {
    let mut text = String::from("function %f(f64) -> f64 system_v {\nblock0(v0: f64):\n");
    for i in 0..DEPTH {
        let op = ["fmul", "fadd", "fsub"][i % 3];
        writeln!(text, "v{} = {op} v{i}, v0", i + 1).unwrap();
    }
    text + &format!("return v{DEPTH}\n}}")
}

/// Tests in tests.
fn nested() -> String {
    let mut text = String::from("function %f(f64) -> f64 system_v {\nblock0(v0: f64):\njump block1(v0)\n");
    for i in 1..=DEPTH {
        let (v, b) = (10 * i, i);
        writeln!(text, "block{b}(v{v}: f64):\nv{} = fmul v{v}, v0\nv{} = fcmp lt v{}, v0", v + 1, v + 2, v + 1)
            .unwrap();
        writeln!(text, "brif v{}, block{}(v{}), block{}(v{v})", v + 2, b + 1, v + 1, DEPTH + 2).unwrap();
    }
    let (last, end) = (10 * DEPTH + 10, 10 * DEPTH + 20);
    text + &format!(
        "block{}(v{last}: f64):\njump block{}(v{last})\nblock{}(v{end}: f64):\nreturn v{end}\n}}",
        DEPTH + 1,
        DEPTH + 2,
        DEPTH + 2
    )
}

fn derived(program: Program, effort: Effort, mode: Mode) {
    let thread = std::thread::Builder::new().stack_size(SMALL).spawn(move || {
        let func = program.func("f").unwrap();
        let request = Request::new(func, [ArgActivity::Active]);
        let options = Options { effort, mode, ..Options::default() };
        DerivedRule::new(&program, &request, &options).unwrap();
        Primal::new(&program, &[func], &options).unwrap();
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn deep_programs_are_derived_with_little_stack() {
    for text in [chain(), nested()] {
        for (effort, mode) in [(Effort::Quick, Mode::Gradient), (Effort::Full, Mode::Split)] {
            derived(program(&text), effort, mode);
        }
    }
}
