//! Words that may be a float's bits, or something else: on one of several ways, at a place that is
//! a float's elsewhere, in a callee that takes them for another float than its caller. What is
//! followed has its derivative, and the rest is a trap or refused.

use brolga_wasm::brolga::Diagnostics;
use brolga_wasm::{Error, Gradient, Instance, Module, Val};

use crate::common::gradients;

fn is(text: &str, x: f64, wanted: f64) {
    for found in gradients(text, x) {
        let g = found.unwrap_or_else(|e| panic!("{e}"));
        assert!((g - wanted).abs() <= 1e-12 * wanted.abs(), "{g}, not {wanted}");
    }
}

fn is_lost(text: &str, x: f64) {
    for found in gradients(text, x) {
        match found {
            Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits", "{t}"),
            Err(Error::Diagnostics(Diagnostics(all))) => assert!(all.iter().all(|d| d.code == "AD0110"), "{all:?}"),
            Err(e) => panic!("{e}"),
            Ok(g) => panic!("{g}, silently"),
        }
    }
}

/// A word that is a float's bits on one way, and on the other calculated from such; the square of
/// `x` is at 64, and `x` at 72.
fn either(which: u32, choice: &str) -> String {
    format!(
        r#"(module (memory 1)
            (func $either (param $p i32) (param $which i32) (result f64) (local $w i64)
                {choice}
                (i64.store offset=16 (local.get $p) (local.get $w))
                (f64.load offset=16 (local.get $p)))
            (func (export "f") (param $x f64) (result f64)
                (f64.store (i32.const 64) (f64.mul (local.get $x) (local.get $x)))
                (f64.store (i32.const 72) (local.get $x))
                (call $either (i32.const 64) (i32.const {which}))))"#
    )
}

const BY_BRANCH: &str = "(if (local.get $which)
        (then (local.set $w (i64.load (local.get $p))))
        (else (local.set $w (i64.and (i64.load32_u offset=12 (local.get $p)) (i64.const 0x7fffffff)))))";

const BY_SELECT: &str = "(local.set $w (select
        (i64.load (local.get $p))
        (i64.and (i64.load32_u offset=12 (local.get $p)) (i64.const 0x7fffffff))
        (local.get $which)))";

/// Nothing goes back by the way that was not taken, so what is there does not matter.
#[test]
fn what_comes_by_the_other_way_does_not_matter() {
    for choice in [BY_BRANCH, BY_SELECT] {
        is(&either(1, choice), 1.5, 3.0);
        is_lost(&either(0, choice), 1.5);
    }
}

/// The place is the same, though its address is computed twice: what is stored there is a float on
/// one way, so it is one on the other.
#[test]
fn one_place_computed_twice() {
    let next = |which| {
        format!(
            r#"(module (memory 1)
            (func $next (param $p i32) (param $q i32) (param $which i32) (result f64)
                (if (local.get $which)
                    (then (i64.store (local.get $q) (i64.add (i64.load (local.get $p)) (i64.const 1))))
                    (else (f64.store (local.get $q) (f64.const 2))))
                (f64.load (local.get $q)))
            (func (export "f") (param $x f64) (result f64)
                (f64.store (i32.const 64) (f64.mul (local.get $x) (local.get $x)))
                (call $next (i32.const 64) (i32.const 96) (i32.const {which}))))"#
        )
    };
    is(&next(1), 1.5, 3.0);
    is(&next(0), 1.5, 0.0);
}

/// A caller that reads singles passes two of them as a word, which a callee takes for a double.
#[test]
fn a_callee_that_knows_better() {
    let text = r#"(module (memory 1)
        (func $double (param $w i64) (result f64) (f64.reinterpret_i64 (local.get $w)))
        (func $read (param $p i32) (result f64)
            (f64.add (f64.promote_f32 (f32.load (local.get $p))) (call $double (i64.load (local.get $p)))))
        (func (export "f") (param $x f64) (result f64)
            (f32.store (i32.const 64) (f32.demote_f64 (local.get $x)))
            (f32.store (i32.const 68) (f32.const 2))
            (call $read (i32.const 64))))"#;
    is_lost(text, 1.5);
}

/// A word that was moved, or one that is computed from what the host has written, as the caller
/// says: where that was a single, its cotangent is missed.
#[test]
fn computed_or_moved() {
    let text = r#"(module (memory 1)
        (func (export "f") (param $p i32) (param $computed i32) (result f64) (local $i i32) (local $sum f64) (local $q i32)
            (local.set $q (i32.const 80))
            (loop $next (f32.store (local.get $q) (f32.const 0.375))
                (local.set $q (i32.add (local.get $q) (i32.const 4)))
                (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4))))
            (i32.store (i32.const 88)
                (select (i32.sub (i32.const 0x5f3759df) (i32.shr_u (i32.load (local.get $p)) (i32.const 1)))
                        (i32.load (i32.const 88)) (local.get $computed)))
            (local.set $q (i32.const 80))
            (loop $next (local.set $sum (f64.add (local.get $sum) (f64.promote_f32 (f32.load (local.get $q)))))
                (local.set $q (i32.add (local.get $q) (i32.const 4)))
                (br_if $next (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
            (f64.mul (local.get $sum) (f64.load (i32.const 400)))))"#;
    let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
    let gradient = Gradient::new(&module, "f").expect("it is derived");
    let found = |computed: i32| {
        let mut instance = Instance::new(&module)?;
        instance.write_f64(400, &[1.0])?;
        let at = instance.alloc_f32(&[1.5])?;
        instance.gradient(&gradient, &[Val::I32(at as i32), Val::I32(computed)], &[Val::F64(1.0)])?;
        Ok::<_, Error>(instance.shadow_f32(at, 1)?[0])
    };
    assert_eq!(found(0).expect("a number is chosen"), 0.0);
    match found(1) {
        Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits"),
        // A step of so many units, half of those of the single.
        Ok(g) => assert!((g + 0.125).abs() < 0.1 && g != 0.0, "{g}"),
        Err(e) => panic!("{e}"),
    }
}
