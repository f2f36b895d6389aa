//! Variables in a frame, promoted to values: where another address leads into the frame, what lies
//! there is not what was stored, even if it is the same number.

use brolga_wasm::brolga::{Inline, Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, Val, default_activity, options};

/// `p` is written between the store of a variable and its load: of a double, and of one that two
/// paths store.
const FUNCTIONS: &str = r#"(module (memory (export "memory") 1) (global $sp (mut i32) (i32.const 1024))
  (func (export "double") (param $x f64) (param $p i32) (result f64) (local $fp i32)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (i32.store (local.get $p) (i32.const 7))
    (f64.mul (f64.load offset=8 (local.get $fp)) (f64.load offset=8 (local.get $fp))))
  (func (export "paths") (param $x f64) (param $p i32) (result f64) (local $fp i32)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (if (f64.gt (local.get $x) (f64.const 1))
      (then (f64.store offset=8 (local.get $fp) (f64.mul (local.get $x) (local.get $x))))
      (else (f64.store offset=8 (local.get $fp) (f64.mul (local.get $x) (f64.const 5)))))
    (i32.store (local.get $p) (i32.const 7))
    (f64.mul (f64.load offset=8 (local.get $fp)) (f64.const 2)))
  (func (export "same") (param $x f64) (param $p i32) (result f64) (local $fp i32)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (f64.store (local.get $p) (f64.const 1.5))
    (f64.mul (f64.load offset=8 (local.get $fp)) (f64.load offset=8 (local.get $fp)))))"#;

/// How a gradient is derived: the mode, with full effort, with what replaces library functions.
#[derive(Clone, Copy, Debug)]
struct Manner {
    mode: Mode,
    full: bool,
    replaces: bool,
}

/// Each mode with and without full effort.
fn manners() -> impl Iterator<Item = Manner> {
    let modes = [Mode::Split, Mode::Combined, Mode::Gradient];
    modes.into_iter().flat_map(|mode| [false, true].map(|full| Manner { mode, full, replaces: true }))
}

fn gradient(name: &str, args: (f64, i32), manner: Manner) -> Result<f64, Error> {
    gradient_of(FUNCTIONS, name, args, manner)
}

fn gradient_of(
    text: &str,
    name: &str,
    (x, p): (f64, i32),
    Manner { mode, full, replaces }: Manner,
) -> Result<f64, Error> {
    let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
    let effort = if full { Options::full().effort } else { options().effort };
    let inline = if replaces { options().inline } else { Inline::Never };
    let options = Options { mode, effort, inline, ..options() };
    let activity = [wasmparser::ValType::F64, wasmparser::ValType::I32].map(default_activity);
    let gradient = Gradient::with_options(&module, name, &activity, &options)?;
    let mut instance = Instance::new(&module)?;
    let args = [Val::F64(x), Val::I32(p)];
    let found = if mode == Mode::Split {
        let (_, mut pullback) = instance.forward(&gradient, &args)?;
        instance.pullback(&mut pullback, &[Val::F64(0.5)])?
    } else {
        instance.gradient(&gradient, &args, &[Val::F64(0.5)])?.cotangents
    };
    let Some(Val::F64(g)) = found[0] else { panic!("{found:?}") };
    Ok(g)
}

/// Arrays in a frame with initialisers, of which the element that a variable names is multiplied:
/// constants as words, words of another array, and zeros. They are doubles as they are, and no
/// store of an element is one that must not lead there.
#[test]
fn arrays_with_initialisers() {
    let with = |first: &str| {
        format!(
            r#"(module (memory (export "memory") 1) (global $sp (mut i32) (i32.const 1024))
              (data (i32.const 512) "\00\00\00\00\00\00\f0\3f\00\00\00\00\00\00\00\40")
              (func (export "f") (param $x f64) (param $n i32) (result f64) (local $p i32) (local $a i32)
                (local.set $p (i32.sub (global.get $sp) (i32.const 16)))
                {first}
                (local.set $a (i32.add (local.get $p) (i32.shl (i32.and (local.get $n) (i32.const 1)) (i32.const 3))))
                (f64.store (local.get $a)
                    (f64.add (f64.mul (f64.load (local.get $a)) (local.get $x)) (local.get $x)))
                (f64.add (f64.load (local.get $p)) (f64.load offset=8 (local.get $p)))))"#
        )
    };
    let store = |at: u32, value: &str| format!("(i64.store offset={at} (local.get $p) {value})");
    let constants = store(0, "(i64.const 0x3ff0000000000000)") + &store(8, "(i64.const 0x4000000000000000)");
    let moved = store(0, "(i64.load (i32.const 512))") + &store(8, "(i64.load (i32.const 520))");
    let zeros = store(0, "(i64.const 0)") + &store(8, "(i64.const 0)");
    for (first, elements) in [(&constants, [1.0, 2.0]), (&moved, [1.0, 2.0]), (&zeros, [0.0, 0.0])] {
        let text = with(first);
        for manner in manners() {
            for n in [0, 1] {
                let found = gradient_of(&text, "f", (0.7, n), manner).unwrap_or_else(|e| panic!("{e}\n{text}"));
                assert_eq!(found, 0.5 * (elements[n as usize] + 1.0), "{n}\n{text}");
            }
        }
    }
}

#[test]
fn what_lies_there_is_read() {
    for manner in manners() {
        for (name, x, right) in [("double", 1.5, 1.5), ("same", 1.5, 1.5), ("paths", 1.5, 3.0), ("paths", 0.5, 5.0)] {
            assert_eq!(gradient(name, (x, 2048), manner).unwrap(), right, "{name} {manner:?}");
            // Into the frame, where it is read afterwards.
            match gradient(name, (x, 1016), manner) {
                // With other last digits the slope is that of the number with these, another number
                // has none.
                Ok(g) => {
                    let right = if name == "same" { 0.0 } else { right };
                    assert!((g - right).abs() < 1e-14, "{name} {manner:?}: {g}");
                }
                Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits"),
                Err(other) => panic!("{name} {manner:?}: {other:?}"),
            }
        }
    }
}

/// The upper half of a double in the frame is changed, after a store or a call that may or may not
/// lead there. The frame is 1008 to 1024, the double at 1016.
const TAKEN_APART: &str = r#"(module (memory (export "memory") 1) (global $sp (mut i32) (i32.const 1024))
  (func $put (param $p i32) (i32.store (local.get $p) (i32.const 7)))
  (func $own (param $x f64) (result f64) (local $fp i32)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (i32.store offset=8 (local.get $fp) (i32.const 0))
    (f64.load offset=8 (local.get $fp)))
  (func $lift (param $by i32) (global.set $sp (i32.add (global.get $sp) (local.get $by))))
  ;; A store.
  (func (export "halved") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (i32.store (local.get $p) (i32.const 7))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (f64.mul (local.get $y) (local.get $y)))
  ;; Stores before the first load, and behind the last one: the frame may be another function's by
  ;; then.
  (func (export "ended") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (i32.store (i32.const 4096) (i32.const 7))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (i32.store (local.get $p) (i32.const 7))
    (f64.mul (local.get $y) (local.get $y)))
  ;; Stores in a loop, further and further up, of which the last is at p.
  (func (export "looped") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64) (local $i i32)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (local.set $i (i32.const 20))
    (loop $again
      (i32.store (i32.sub (local.get $p) (local.get $i)) (i32.const 7))
      (br_if $again (i32.ge_s (local.tee $i (i32.sub (local.get $i) (i32.const 4))) (i32.const 0))))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (f64.mul (local.get $y) (local.get $y)))
  ;; A store through a variable of the frame, which holds 1008 unless a store has changed it.
  (func (export "redirected") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (i32.store offset=4 (local.get $fp) (local.get $fp))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (i32.store (local.get $p) (i32.const 1020))
    (i32.store (i32.load offset=4 (local.get $fp)) (i32.const 7))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (f64.mul (local.get $y) (local.get $y)))
  ;; The word is a copy of another variable's, between whose store and load something is stored.
  (func (export "copied") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (i32.store (local.get $fp) (i32.load offset=12 (local.get $fp)))
    (i32.store (local.get $p) (i32.const 7))
    (i32.store offset=4 (local.get $fp) (i32.load (local.get $fp)))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=4 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (f64.mul (local.get $y) (local.get $y)))
  ;; A callee writes to p.
  (func (export "told") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (global.set $sp (local.tee $fp (i32.sub (global.get $sp) (i32.const 16))))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (call $put (local.get $p))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (global.set $sp (i32.add (local.get $fp) (i32.const 16)))
    (f64.mul (local.get $y) (local.get $y)))
  ;; A callee is told of a variable of the frame: of another one, and of the upper half.
  (func (export "other") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (global.set $sp (local.tee $fp (i32.sub (global.get $sp) (i32.const 16))))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (call $put (i32.add (local.get $fp) (i32.const 4)))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (global.set $sp (i32.add (local.get $fp) (i32.const 16)))
    (f64.mul (local.get $y) (local.get $y)))
  (func (export "upper") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (global.set $sp (local.tee $fp (i32.sub (global.get $sp) (i32.const 16))))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (call $put (i32.add (local.get $fp) (i32.const 12)))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (global.set $sp (i32.add (local.get $fp) (i32.const 16)))
    (f64.mul (local.get $y) (local.get $y)))
  ;; A callee has a frame of its own: below; in the same place, since the stack pointer was not moved;
  ;; there as well, since another callee has moved it back.
  (func (export "frames") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (global.set $sp (local.tee $fp (i32.sub (global.get $sp) (i32.const 16))))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (local.set $y (call $own (f64.const 3)))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.mul (local.get $y) (f64.load offset=8 (local.get $fp))))
    (global.set $sp (i32.add (local.get $fp) (i32.const 16)))
    (f64.mul (local.get $y) (f64.load offset=8 (local.get $fp))))
  (func (export "same_place") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (local.set $fp (i32.sub (global.get $sp) (i32.const 16)))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (local.set $y (call $own (f64.const 3)))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (f64.mul (local.get $y) (local.get $y)))
  (func (export "moved_back") (param $x f64) (param $p i32) (result f64) (local $fp i32) (local $y f64)
    (global.set $sp (local.tee $fp (i32.sub (global.get $sp) (i32.const 16))))
    (f64.store offset=8 (local.get $fp) (local.get $x))
    (call $lift (i32.const 16))
    (local.set $y (call $own (f64.const 3)))
    (i32.store offset=12 (local.get $fp) (i32.and (i32.load offset=12 (local.get $fp)) (i32.const 0x7fffffff)))
    (local.set $y (f64.load offset=8 (local.get $fp)))
    (f64.mul (local.get $y) (local.get $y))))"#;

#[test]
fn doubles_taken_apart_are_followed_or_guarded() {
    // A store of four bytes at p leads into the double from 1013 to 1023.
    let misses = [1012, 1024, 2048];
    let hits = [1013, 1015, 1016, 1017, 1019, 1020, 1021, 1023];
    let x = -1.5;
    for name in ["halved", "redirected", "looped", "ended"] {
        // There a pointer in the frame is written, or the last store but one hits.
        let hit = if name == "redirected" { 1012 } else { 1024 };
        let is_hit = |p: i32| matches!(name, "redirected" | "looped") && p == hit;
        misses.into_iter().filter(|&p| !is_hit(p)).for_each(|p| expect(name, (x, p), (x, true)));
    }
    for p in hits {
        expect("ended", (x, p), (x, true));
        // A number of its own, or one with other last digits: the run ends.
        expect("halved", (x, p), (f64::NAN, false));
    }
    expect("looped", (x, 1016), (x, false));
    expect("looped", (x, 1020), (0.0, false));
    expect("looped", (x, 1024), (0.0, false));
    expect("redirected", (x, 1012), (0.0, false));
    expect("copied", (x, 2048), (x, true));
    expect("copied", (x, 1008), (0.0, false));
    // The upper half is replaced by the copy of what it was, so it may be written.
    expect("copied", (x, 1020), (x, true));
    // A callee.
    expect("told", (x, 2048), (x, false));
    expect("told", (x, 1020), (0.0, false));
    expect("other", (x, 0), (x, true));
    expect("upper", (x, 0), (0.0, false));
    expect("frames", (x, 0), (3.0 * x, true));
    expect("same_place", (x, 0), (0.0, false));
    expect("moved_back", (x, 0), (0.0, false));
}

/// In every mode a function has this slope, seeded with one half; or, unless it is `sure` to have
/// one, it is refused, or traps.
fn expect(name: &str, (x, p): (f64, i32), (right, sure): (f64, bool)) {
    for manner in manners().flat_map(|m| [false, true].map(|replaces| Manner { replaces, ..m })) {
        match gradient_of(TAKEN_APART, name, (x, p), manner) {
            Ok(g) => assert_eq!(g, right, "{name} {p} {manner:?}"),
            Err(Error::Trap(t)) if !sure => assert_eq!(t.code, "untracked_bits", "{name} {p}"),
            Err(Error::Diagnostics(d)) if !sure => assert!(d.0.iter().all(|d| d.code.starts_with("AD01")), "{name}"),
            Err(other) => panic!("{name} {p} {manner:?}: {other:?}"),
        }
    }
}
