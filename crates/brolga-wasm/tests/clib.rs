//! Functions of the C library in a module: those that are exact are known, those that only have the
//! name are not.

use brolga_wasm::{Error, Gradient, Instance, Module, Val};

/// A copy byte by byte, one word at a time in the middle.
const MEMCPY: &str = r#"(func $memcpy (param $to i32) (param $from i32) (param $n i32) (result i32) (local $i i32)
    (block $end (loop $next
        (br_if $end (i32.ge_u (local.get $i) (local.get $n)))
        (i32.store8 (i32.add (local.get $to) (local.get $i)) (i32.load8_u (i32.add (local.get $from) (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (local.get $to))"#;

/// A sum of squares of what was copied, a double and two singles, moved on once more.
fn moved(copy: &str) -> String {
    format!(
        r#"(module (memory (export "memory") 1) {copy}
            (func (export "f") (param $x f64) (param $y f32) (result f64)
                (f64.store (i32.const 2048) (local.get $x))
                (f32.store offset=8 (i32.const 2048) (local.get $y))
                (f32.store offset=12 (i32.const 2048) (f32.const 4))
                (drop (call $memcpy (i32.const 3000) (i32.const 2048) (i32.const 16)))
                (drop (call $memcpy (i32.const 3072) (i32.const 3000) (i32.const 16)))
                (f64.add (f64.mul (f64.load (i32.const 3072)) (f64.load (i32.const 3072)))
                    (f64.promote_f32 (f32.mul (f32.load offset=8 (i32.const 3072)) (f32.load offset=12 (i32.const 3072)))))))"#
    )
}

fn gradient(text: &str, args: &[Val]) -> Result<(Vec<Val>, Vec<Option<Val>>), Error> {
    let module = Module::new(text)?;
    let gradient = Gradient::new(&module, "f").map(Gradient::settled)?;
    let found = Instance::new(&module)?.gradient(&gradient, args, &[Val::F64(1.0)])?;
    Ok((found.values, found.cotangents))
}

#[test]
fn copies_of_floats_of_both_sizes() {
    let args = [Val::F64(1.5), Val::F32(2.0)];
    let wanted = (vec![Val::F64(10.25)], vec![Some(Val::F64(3.0)), Some(Val::F32(4.0))]);
    assert_eq!(gradient(&moved(MEMCPY), &args).unwrap(), wanted);
    assert_eq!(
        gradient(&moved(&MEMCPY.replacen("$memcpy", "$memcpy (export \"memmove\")", 1)), &args).unwrap(),
        wanted
    );
    // Its memory may be imported.
    let imported = moved(MEMCPY).replace("(memory (export \"memory\") 1)", "(import \"env\" \"memory\" (memory 1))");
    assert_eq!(gradient(&imported, &args).unwrap(), wanted);
    // Under another name it is not known, and it is differentiated as it is: byte by byte.
    assert_eq!(gradient(&moved(MEMCPY).replace("$memcpy", "$copy"), &args).unwrap(), wanted);
}

#[test]
fn names_prove_nothing() {
    // Copies that leave out the last byte, return another address, or copy the wrong way when
    // blocks overlap: they stay what they are.
    let args = [Val::I32(64), Val::I32(60), Val::I32(8)];
    let run = |text: &str| {
        let module = Module::new(text).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        instance.memory_mut()[60..68].copy_from_slice(b"abcdefgh");
        let found = instance.call("f", &args).unwrap();
        (found, instance.memory()[64..72].to_vec())
    };
    let module = |copy: &str| {
        let f = r#"(func (export "f") (param i32 i32 i32) (result i32)
            (call $copy (local.get 0) (local.get 1) (local.get 2)))"#;
        format!("(module (memory 1) {copy} {f})")
    };
    let as_it_is = module(&MEMCPY.replace("$memcpy", "$copy"));
    assert_eq!(run(&as_it_is).1, b"abcdabcd");
    let called = |name: &str, copy: &str| module(&copy.replacen("$memcpy", &format!("$copy (export \"{name}\")"), 1));
    // Overlapping blocks are none of `memcpy`'s business, so that one is replaced; but not for
    // `memmove`.
    assert_eq!(run(&called("memmove", MEMCPY)), run(&as_it_is));
    for (from, to) in [
        ("(local.get $i) (local.get $n))", "(i32.add (local.get $i) (i32.const 1)) (local.get $n))"),
        ("(local.get $to))", "(local.get $n))"),
    ] {
        let broken = MEMCPY.replace(from, to);
        assert_ne!(broken, MEMCPY);
        assert_eq!(run(&called("memcpy", &broken)), run(&module(&broken.replace("$memcpy", "$copy"))), "{to}");
    }
}

#[test]
fn who_does_something_else_besides_stays() {
    // A count of calls, in a global and in memory.
    let global =
        MEMCPY.replace("(block $end", "(global.set $calls (i32.add (global.get $calls) (i32.const 1))) (block $end");
    let memory = MEMCPY.replace(
        "(block $end",
        "(i32.store (i32.const 5000) (i32.add (i32.load (i32.const 5000)) (i32.const 1))) (block $end",
    );
    for (copy, calls) in [(MEMCPY, 0), (&*global, 2), (&*memory, 2)] {
        let found = if copy == memory { "(i32.load (i32.const 5000))" } else { "(global.get $calls)" };
        let text = format!(
            r#"(module (memory 1) (global $calls (mut i32) (i32.const 0)) {copy}
                (func (export "f") (result i32)
                    (drop (call $memcpy (i32.const 64) (i32.const 0) (i32.const 8)))
                    (drop (call $memcpy (i32.const 96) (i32.const 0) (i32.const 8)))
                    {found}))"#
        );
        let module = Module::new(&text).unwrap();
        assert_eq!(Instance::new(&module).unwrap().call("f", &[]).unwrap(), [Val::I32(calls)], "{calls} {found}");
    }
}

#[test]
fn parts_of_floats() {
    // Bits that integer arithmetic has touched: only the name says what they are.
    let touched = |value: &str| {
        format!("(f64.reinterpret_i64 (i64.xor (i64.const -1) (i64.xor (i64.const -1) (i64.reinterpret_f64 {value}))))")
    };
    let integral = "(f64.trunc (local.get $x))";
    let modf = format!(
        r#"(module (memory 1)
            (func $modf (param $x f64) (param $at i32) (result f64)
                (f64.store (local.get $at) {}) {})
            (func (export "f") (param $x f64) (result f64)
                (f64.store (i32.const 64) (local.get $x))
                (f64.mul (f64.load (i32.const 64)) (f64.mul
                    (call $modf (f64.mul (local.get $x) (f64.const 3)) (i32.const 64))
                    (f64.load (i32.const 64))))))"#,
        touched(integral),
        touched("(f64.sub (local.get $x) (f64.trunc (local.get $x)))"),
    );
    // x · (3x - 4) · 4 at 1.5, where the product of x and its share of the rest is loaded before.
    assert_eq!(gradient(&modf, &[Val::F64(1.5)]).unwrap(), (vec![Val::F64(3.0)], vec![Some(Val::F64(20.0))]));
    // By its bits, for normal numbers; zero is left as it is.
    let frexp = r#"(func $frexp (param $x f64) (param $at i32) (result f64) (local $u i64) (local $e i64)
            (local.set $u (i64.reinterpret_f64 (local.get $x)))
            (local.set $e (i64.and (i64.shr_u (local.get $u) (i64.const 52)) (i64.const 0x7ff)))
            (if (result f64) (i64.eqz (local.get $e))
                (then (i32.store (local.get $at) (i32.const 0)) (local.get $x))
                (else
                    (i32.store (local.get $at) (i32.wrap_i64 (i64.sub (local.get $e) (i64.const 1022))))
                    (f64.reinterpret_i64 (i64.or (i64.and (local.get $u) (i64.const 0x800fffffffffffff))
                        (i64.const 0x3fe0000000000000))))))"#;
    let text = format!(
        r#"(module (memory 1) {frexp}
            (func (export "f") (param $x f64) (result f64) (local $m f64)
                (local.set $m (call $frexp (local.get $x) (i32.const 64)))
                (f64.mul (f64.mul (local.get $m) (local.get $m)) (f64.convert_i32_s (i32.load (i32.const 64))))))"#
    );
    // m = x / 8, e = 3.
    assert_eq!(gradient(&text, &[Val::F64(5.0)]).unwrap(), (vec![Val::F64(1.171875)], vec![Some(Val::F64(0.46875))]));
    let other = text.replace("0x3fe0000000000000", "0x3fd0000000000000");
    // m = x / 16, and no function of C's.
    assert_eq!(
        gradient(&other, &[Val::F64(5.0)]).unwrap(),
        (vec![Val::F64(0.29296875)], vec![Some(Val::F64(0.1171875))])
    );
}
