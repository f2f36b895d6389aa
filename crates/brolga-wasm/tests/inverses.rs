//! Calls of modules that others undo: the gradient is that of the calls written as calls, and a
//! thousand record what one does, though the state lies in the C stack of a function that has
//! returned when the pullback begins, and both have frames of their own.

use brolga_wasm::brolga::{InverseCheck, InverseStats, Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, ModuleOptions, Val, default_activity};

/// `$push` and `$pull` swap two numbers, and add to a third what they give; `$wrong` does not take
/// that away. `run` makes pairs of them, `plain` calls them.
const TEXT: &str = r#"(module
  (import "env" "brolga_inverse_pair" (func $pair (param i32 i32 i32 i32 i32 i32)))
  (memory (export "memory") 2)
  (global $sp (mut i32) (i32.const 65536))
  (table 4 funcref)
  (elem (i32.const 1) $push $pull $wrong)
  (func $swap (param $s i32) (param $p i32) (param $i i32) (result f64) (local $f i32) (local $sum f64)
    (global.set $sp (local.tee $f (i32.sub (global.get $sp) (i32.const 32))))
    (f64.store (local.get $f) (f64.load (local.get $s)))
    (f64.store offset=8 (local.get $f) (f64.load offset=8 (local.get $s)))
    (f64.store (local.get $s) (f64.load offset=8 (local.get $f)))
    (f64.store offset=8 (local.get $s) (f64.load (local.get $f)))
    (local.set $sum (f64.add
      (f64.mul (f64.load (local.get $p)) (f64.mul (f64.load (local.get $f)) (f64.load offset=8 (local.get $f))))
      (f64.mul (f64.convert_i32_s (i32.and (local.get $i) (i32.const 3)))
        (f64.add (f64.load (local.get $f)) (f64.load offset=8 (local.get $f))))))
    (global.set $sp (i32.add (local.get $f) (i32.const 32)))
    (local.get $sum))
  (func $push (param $s i32) (param $p i32) (param $i i32) (local $by f64)
    (local.set $by (call $swap (local.get $s) (local.get $p) (local.get $i)))
    (f64.store offset=16 (local.get $s) (f64.add (f64.load offset=16 (local.get $s)) (local.get $by))))
  (func $pull (param $s i32) (param $p i32) (param $i i32) (local $by f64)
    (local.set $by (call $swap (local.get $s) (local.get $p) (local.get $i)))
    (f64.store offset=16 (local.get $s) (f64.sub (f64.load offset=16 (local.get $s)) (local.get $by))))
  (func $wrong (param $s i32) (param $p i32) (param $i i32)
    (drop (call $swap (local.get $s) (local.get $p) (local.get $i))))
  (func $begin (param $x i32) (result i32) (local $f i32)
    (global.set $sp (local.tee $f (i32.sub (global.get $sp) (i32.const 32))))
    (f64.store (local.get $f) (f64.load (local.get $x)))
    (f64.store offset=8 (local.get $f) (f64.load offset=8 (local.get $x)))
    (f64.store offset=16 (local.get $f) (f64.load (local.get $x)))
    (local.get $f))
  (func $calls (param $x i32) (param $n i32) (param $inverse i32) (result f64) (local $f i32) (local $i i32)
    (local.set $f (call $begin (local.get $x)))
    (block $out (loop $next
      (br_if $out (i32.ge_s (local.get $i) (local.get $n)))
      (call $pair (i32.const 1) (local.get $inverse) (local.get $f) (i32.const 24)
        (i32.add (local.get $x) (i32.const 16)) (local.get $i))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (global.set $sp (i32.add (local.get $f) (i32.const 32)))
    (f64.mul (f64.load offset=16 (local.get $f)) (f64.load offset=8 (local.get $f))))
  (func (export "run") (param $x i32) (param $n i32) (result f64)
    (call $calls (local.get $x) (local.get $n) (i32.const 2)))
  (func (export "wrong") (param $x i32) (param $n i32) (result f64)
    (call $calls (local.get $x) (local.get $n) (i32.const 3)))
  (func (export "nowhere") (param $x i32) (param $n i32) (result f64)
    (call $calls (local.get $x) (local.get $n) (i32.const 0)))
  (func (export "plain") (param $x i32) (param $n i32) (result f64) (local $f i32) (local $i i32)
    (local.set $f (call $begin (local.get $x)))
    (block $out (loop $next
      (br_if $out (i32.ge_s (local.get $i) (local.get $n)))
      (call $push (local.get $f) (i32.add (local.get $x) (i32.const 16)) (local.get $i))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (global.set $sp (i32.add (local.get $f) (i32.const 32)))
    (f64.mul (f64.load offset=16 (local.get $f)) (f64.load offset=8 (local.get $f)))))"#;

/// Short numbers, whose sums are exact.
const X: [f64; 3] = [0.75, 0.5, 0.125];

/// The value and the gradient, on shadows that are not zero; of a pullback, what was recorded and
/// what inverses have done.
type Found = (f64, Vec<f64>, Option<(usize, InverseStats)>);

fn found(module: &Module, name: &str, n: i32, mode: Mode, inverse_check: InverseCheck) -> Result<Found, Error> {
    let probe = Gradient::split(module, name).unwrap();
    let activity: Vec<_> = probe.ty().params().iter().map(|t| default_activity(*t)).collect();
    let untracked = brolga_wasm::options().untracked;
    let options = Options { mode, inverse_check, untracked, ..Options::as_calls() };
    let gradient = Gradient::with_options(module, name, &activity, &options).unwrap();
    let mut instance = Instance::new(module).unwrap();
    let at = instance.alloc_f64(&X).unwrap();
    let args = [Val::I32(at as i32), Val::I32(n)];
    let seeds = [Val::F64(2.0)];
    instance.set_shadow_f64(at, &[0.5, 1.5, 2.5]).unwrap();
    let (value, cost) = if mode == Mode::Split {
        let (value, mut pullback) = instance.forward(&gradient, &args)?;
        let recorded = pullback.tape_bytes();
        for _ in 0..2 {
            instance.clear_shadow();
            instance.set_shadow_f64(at, &[0.5, 1.5, 2.5]).unwrap();
            instance.pullback(&mut pullback, &seeds)?;
        }
        (value[0], Some((recorded, pullback.inverse_stats())))
    } else {
        (instance.gradient(&gradient, &args, &seeds)?.values[0], None)
    };
    Ok((value.f64().unwrap(), instance.shadow_f64(at, 3).unwrap(), cost))
}

#[test]
fn calls_of_modules_that_are_undone_have_the_gradient_of_calls() {
    let module = Module::with_options(TEXT, &ModuleOptions::default()).unwrap();
    for n in [0, 1, 2, 9, 200] {
        let plain = found(&module, "plain", n, Mode::Combined, InverseCheck::Bits).unwrap();
        for check in [InverseCheck::Bits, InverseCheck::Off, InverseCheck::Within(1e-9.into())] {
            for mode in [Mode::Combined, Mode::Split] {
                let what = format!("{n} calls, {check:?}, {mode:?}");
                let (value, gradient, cost) =
                    found(&module, "run", n, mode, check).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(value, plain.0, "{what}");
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-13 * b.abs().max(1.0);
                assert!(gradient.iter().zip(&plain.1).all(near), "{what}: {gradient:?} {:?}", plain.1);
                if let Some((recorded, stats)) = cost {
                    assert_eq!((stats.calls, stats.undone), (n as u64, 2 * n as u64), "{what}");
                    assert!(stats.chains <= 1 && recorded < 400, "{what}: {recorded} bytes, {stats:?}");
                }
            }
        }
    }
}

#[test]
fn wrong_inverses_of_modules_end_the_run() {
    let module = Module::with_options(TEXT, &ModuleOptions::default()).unwrap();
    for mode in [Mode::Combined, Mode::Split] {
        let says = |name: &str, check| found(&module, name, 3, mode, check).unwrap_err().to_string();
        let found = says("wrong", InverseCheck::Bits);
        assert!(found.contains("inverses of 3 calls in a row leave") && found.contains("of the state"), "{found}");
        let found = says("wrong", InverseCheck::Within(1e-9.into()));
        assert!(found.contains("at byte 16 of the state"), "{found}");
        // The table has no function there.
        let found = says("nowhere", InverseCheck::Bits);
        assert!(found.contains("null") || found.contains("indirect"), "{found}");
    }
}
