//! What deriving asks of the allocator grows as the function does, whatever the function is made
//! of.
//!
//! Counted are bytes, which are the same in each run. Four times the instructions take about four
//! times as many; a table of variables by blocks takes sixteen.

use std::fmt::Write;

use brolga::jit::host_isa;
use brolga::{ArgActivity, Effort, Mode, Options, Request};
use brolga_testing::{counting, program};
use brolga_transform::derive::derive;

/// So many branches that join again, one after the other: blocks from `block`, values from
/// `value`; what comes out at the end, and in which block.
fn diamonds(text: &mut String, n: usize, mut block: usize, mut x: usize, value: usize) -> (usize, usize) {
    for i in 0..n {
        let v = value + 10 * i;
        let (low, high, join) = (block, block + 1, block + 2);
        let [is_low, a, b, c, d, next] = [0, 1, 2, 3, 4, 5].map(|k| v + k);
        write!(
            text,
            "
    v{is_low} = fcmp lt v{x}, v1
    brif v{is_low}, block{low}, block{high}
block{low}:
    v{a} = fmul v{x}, v1
    v{b} = fadd v{a}, v1
    jump block{join}(v{b})
block{high}:
    v{c} = fmul v{x}, v{x}
    v{d} = fmul v{c}, v0
    jump block{join}(v{d})
block{join}(v{next}: f64):"
        )
        .unwrap();
        (x, block) = (next, join + 1);
    }
    (x, block)
}

const HEAD: &str = "function %f(f64, f64, i64) -> f64 system_v {\nblock0(v0: f64, v1: f64, v2: i64):";

fn diamonds_in_sequence(n: usize) -> String {
    let mut text = HEAD.to_owned();
    let (x, _) = diamonds(&mut text, n, 1, 0, 10);
    text + &format!("\n    return v{x}\n}}")
}

fn in_a_loop(n: usize) -> String {
    let mut text = HEAD.to_owned() + "\n    jump block1(v2, v0)\nblock1(v3: i64, v4: f64):";
    let (x, end) = diamonds(&mut text, n, 2, 4, 10);
    let rest = "    v5 = iconst.i64 -1\n    v6 = iadd v3, v5\n    brif v6, block1";
    text + &format!("\n{rest}(v6, v{x}), block{end}\nblock{end}:\n    return v{x}\n}}")
}

fn in_a_table(n: usize) -> String {
    let entries: Vec<String> = (0..n).map(|i| format!("block{}", i + 2)).collect();
    let join = n + 2;
    let mut text = format!("{HEAD}\n    v3 = ireduce.i32 v2\n    br_table v3, block1, [{}]", entries.join(", "));
    write!(text, "\nblock1:\n    return v1").unwrap();
    for (i, block) in entries.iter().enumerate() {
        let (a, b) = (2 * i + 10, 2 * i + 11);
        write!(text, "\n{block}:\n    v{a} = fmul v0, v1\n    v{b} = fadd v{a}, v1\n    jump block{join}(v{b})")
            .unwrap();
    }
    text + &format!("\nblock{join}(v4: f64):\n    return v4\n}}")
}

/// Ways of a table that meet by twos, and again at the end.
fn pairs_of_a_table(n: usize) -> String {
    let n = n & !1;
    let entries: Vec<String> = (0..n).map(|i| format!("block{}", i + 2)).collect();
    let end = 2 * n + 2;
    let mut text = format!("{HEAD}\n    v3 = ireduce.i32 v2\n    br_table v3, block1, [{}]", entries.join(", "));
    write!(text, "\nblock1:\n    return v1").unwrap();
    for (i, block) in entries.iter().enumerate() {
        let (a, join) = (3 * i + 10, n + 2 + i / 2);
        write!(text, "\n{block}:\n    v{a} = fmul v0, v1\n    jump block{join}(v{a})").unwrap();
        if i % 2 == 1 {
            let [x, y] = [a + 1, a + 2];
            write!(text, "\nblock{join}(v{x}: f64):\n    v{y} = fmul v{x}, v0\n    jump block{end}(v{y})").unwrap();
        }
    }
    text + &format!("\nblock{end}(v4: f64):\n    return v4\n}}")
}

/// The bytes and the requests that deriving `%f` takes.
fn asked(text: &str, options: &Options) -> (usize, usize) {
    use ArgActivity::{Active, Const};
    let p = program(text);
    let request = Request::new(p.func("f").unwrap(), [Active, Active, Const]);
    let isa = host_isa(options).unwrap();
    let before = (counting::bytes(), counting::requests());
    drop(derive(&p, &request, options, &*isa).unwrap_or_else(|e| panic!("{e}")));
    (counting::bytes() - before.0, counting::requests() - before.1)
}

fn bytes(text: &str, options: &Options) -> usize {
    asked(text, options).0
}

/// What a function of two instructions takes is what all of the analyses and passes take that have
/// nothing to do.
#[test]
fn little_is_little() {
    let text = format!("{HEAD}\n    v3 = fmul v0, v1\n    return v3\n}}");
    let options = Options { mode: Mode::Gradient, effort: Effort::Quick, verify_stages: false, ..Options::full() };
    asked(&text, &options);
    let (_, requests) = asked(&text, &options);
    assert!(requests < 430, "{requests} requests");
}

#[test]
fn in_proportion_to_the_function() {
    for (name, make) in [
        ("diamonds", diamonds_in_sequence as fn(usize) -> String),
        ("loop", in_a_loop),
        ("table", in_a_table),
        ("pairs", pairs_of_a_table),
    ] {
        for mode in [Mode::Gradient, Mode::Split] {
            for effort in [Effort::Quick, Effort::Full] {
                let options = Options { mode, effort, verify_stages: false, ..Options::full() };
                bytes(&make(10), &options);
                let (some, more) = (bytes(&make(300), &options), bytes(&make(1200), &options));
                let ratio = more as f64 / some as f64;
                assert!(
                    ratio < 5.0,
                    "{name}, {mode:?}, {effort:?}: {some} bytes, then {more}, {ratio:.1} times as many"
                );
            }
        }
    }
}
