//! Functions of a mathematical library that have no name, and are known by what they compute.

use brolga_wasm::{Error, Gradient, Instance, Module, ModuleOptions, Val};

/// A module whose function `%known` is `exp` as libraries have it, with something done before and
/// after: rounded by adding a large number, whose bits are the power of two. `f(x) = x * known(x)`.
fn module(before: &str, after: &str) -> String {
    // exp(x) = 2^k exp(r), where r = x - k ln 2; exp(r) by its series, from the smallest term on.
    let series = (1..=18).rev().fold("(f64.const 1)".to_owned(), |rest, n| {
        format!("(f64.add (f64.const 1) (f64.div (f64.mul (local.get $r) {rest}) (f64.const {n})))")
    });
    format!(
        r#"(module (memory 1) (global $calls (mut f64) (f64.const 0)) (global $sp (mut i32) (i32.const 32768))
        (func $power (param $k i32) (result f64)
            (f64.reinterpret_i64 (i64.shl (i64.extend_i32_s (i32.add (local.get $k) (i32.const 1023))) (i64.const 52))))
        (func $known (param $x f64) (result f64) (local $k f64) (local $r f64) (local $n i32) (local $i i32)
            {before}
            (if (f64.ne (local.get $x) (local.get $x)) (then (return (local.get $x))))
            (if (f64.gt (local.get $x) (f64.const 709.782712893384)) (then (return (f64.const inf))))
            (if (f64.lt (local.get $x) (f64.const -745.13321910194122)) (then (return (f64.const 0))))
            (local.set $k (f64.add (f64.mul (local.get $x) (f64.const 1.4426950408889634)) (f64.const 0x1.8p52)))
            (local.set $i (i32.wrap_i64 (i64.reinterpret_f64 (local.get $k))))
            (local.set $k (f64.sub (local.get $k) (f64.const 0x1.8p52)))
            (local.set $r (f64.sub (f64.sub (local.get $x) (f64.mul (local.get $k) (f64.const 0x1.62e42fee00000p-1)))
                (f64.mul (local.get $k) (f64.const 0x1.a39ef35793c76p-33))))
            (local.set $n (i32.shr_s (local.get $i) (i32.const 1)))
            (local.set $r {series})
            {after}
            (f64.mul (f64.mul (local.get $r) (call $power (local.get $n)))
                (call $power (i32.sub (local.get $i) (local.get $n)))))
        (func (export "calls") (result f64) (global.get $calls))
        (func (export "f") (param f64) (result f64) (f64.mul (local.get 0) (call $known (local.get 0)))))"#
    )
}

/// Value and slope of `f`, or the code of what was refused.
fn slope(text: &str, x: f64) -> Result<(f64, f64), String> {
    let module = Module::with_options(text, &ModuleOptions::default()).unwrap();
    let gradient = match Gradient::new(&module, "f").map(Gradient::settled) {
        Ok(gradient) => gradient,
        Err(Error::Diagnostics(all)) => return Err(all.to_string()),
        Err(e) => panic!("{e}"),
    };
    let mut instance = Instance::new(&module).unwrap();
    match instance.gradient(&gradient, &[Val::F64(x)], &[Val::F64(1.0)]) {
        Ok(found) => match (&found.values[..], &found.cotangents[..]) {
            ([Val::F64(value)], [Some(Val::F64(slope))]) => Ok((*value, *slope)),
            other => panic!("{other:?}"),
        },
        Err(e) => Err(e.to_string()),
    }
}

#[test]
fn an_exponential_is_known_by_its_values() {
    for x in [0.5_f64, -3.0, 600.0] {
        let (value, slope) = slope(&module("", ""), x).unwrap();
        let close = |found: f64, wanted: f64| (found - wanted).abs() <= 1e-13 * wanted.abs();
        assert!(close(value, x * x.exp()) && close(slope, (1.0 + x) * x.exp()), "{x}: {value}, {slope}");
    }
    // What it leaves on the stack is not in use.
    let stack = "(f64.store (i32.sub (global.get $sp) (i32.const 16)) (local.get $x))";
    assert!(slope(&module(stack, ""), 0.5).is_ok());
}

#[test]
fn what_differs_anywhere_is_not_taken_for_it() {
    let close = |found: f64, wanted: f64| (found - wanted).abs() <= 1e-12 * wanted.abs();
    let product = |x: f64| (1.0 + x) * x.exp();
    for (before, after, x, wanted) in [
        // A clamped argument.
        ("(local.set $x (f64.min (local.get $x) (f64.const 80)))", "", 100.0, 80_f64.exp()),
        ("(local.set $x (f64.max (local.get $x) (f64.const -700)))", "", -710.0, (-700_f64).exp()),
        ("(if (f64.lt (local.get $x) (f64.const -40)) (then (return (f64.const 0))))", "", -50.0, 0.0),
        // The wrong value by a little.
        ("", "(local.set $r (f64.mul (local.get $r) (f64.const 1.000000001)))", 0.5, product(0.5) * 1.000000001),
        // Something that others read.
        ("(global.set $calls (local.get $x))", "", 0.5, product(0.5)),
        ("(f64.store (i32.const 64) (local.get $x))", "", 0.5, product(0.5)),
        ("(f64.store (i32.const 60000) (local.get $x))", "", 0.5, product(0.5)),
    ] {
        let text = module(before, after);
        let program = Module::new(&text).unwrap().program().clone();
        assert!(program.funcs.values().all(|f| f.computes.is_none()), "{before} {after}");
        // It is differentiated as it is.
        let found = slope(&text, x);
        assert!(found.as_ref().is_ok_and(|f| close(f.1, wanted)), "{before} {after}: {found:?}, not {wanted}");
    }
}
