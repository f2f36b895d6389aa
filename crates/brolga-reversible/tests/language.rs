//! The language: what is read is printed, what is inverted twice is what it was, and what cannot be
//! undone is refused.

use brolga_reversible::{ErrorKind, compile, invert, parse::parse};

fn errors(text: &str) -> Vec<(ErrorKind, u32)> {
    let found = compile(text).expect_err("it is refused");
    found.0.iter().map(|e| (e.kind, e.at.line)).collect()
}

#[test]
fn a_place_is_not_changed_by_what_it_holds() {
    let text = "fn f(x: f64) {\n    x += x * 2.0\n}";
    assert_eq!(errors(text), [(ErrorKind::AliasWrite, 2)]);
}

const ALL: &str = "record Body { r: [f64 x 3], m: f64 }

fn step(b: Body, q: q43, s: stack [f64 x 8], l: log, z: complex, n: in i64, x: in [f64 x n]) check 1e-6 {
    for i in 0 .. n {
        b.m += x[i] * (x[i] - 1.5) / (2.0 + x[i])
    }
    let t: f64 = 0.5
    rotate b.r[0], b.r[1] by t
    q += float(q43_of)
    drop t: f64 = 0.5
}
";

#[test]
fn what_is_printed_is_what_is_read() {
    let file = parse(ALL).unwrap();
    let again = parse(&file.to_string()).unwrap();
    assert_eq!(again.to_string(), file.to_string());
    for f in &file.functions {
        let there_and_back = invert::inverse(&invert::inverse(f));
        assert_eq!(there_and_back.to_string(), f.to_string());
    }
}
