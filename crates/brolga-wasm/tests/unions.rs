//! Words that are a double or two singles by turns, as a tag beside them says. The way on which
//! they are what they are not is there, and is not taken: it must not decide how the cotangents of
//! the others move. Each program squares nothing and adds several copies up, so that a cotangent
//! that is added in two halves is another number.

use brolga_wasm::brolga::{Inline, Mode, Options};
use brolga_wasm::{Gradient, Instance, Module, Val, default_activity};

/// The gradient of `f(x, tag)` by x where the tag is zero.
fn is(text: &str, wanted: f64) {
    let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
    let activity = [wasmparser::ValType::F64, wasmparser::ValType::I32].map(default_activity);
    for inline in [Inline::Never, Inline::Auto] {
        for mode in [Mode::Split, Mode::Gradient] {
            let options = Options { mode, inline, ..Options::full() };
            let gradient = Gradient::with_options(&module, "f", &activity, &options).unwrap_or_else(|e| panic!("{e}"));
            let mut instance = Instance::new(&module).unwrap();
            let (args, seed) = ([Val::F64(1.7), Val::I32(0)], [Val::F64(1.0)]);
            let cotangents = if mode == Mode::Split {
                let (_, mut pullback) = instance.forward(&gradient, &args).unwrap();
                instance.pullback(&mut pullback, &seed).unwrap_or_else(|e| panic!("{e} in {text}"))
            } else {
                instance.gradient(&gradient, &args, &seed).unwrap_or_else(|e| panic!("{e} in {text}")).cotangents
            };
            let g = cotangents[0].and_then(|c| c.f64()).expect("x is active");
            assert!((g - wanted).abs() <= 1e-6 * wanted.abs(), "{g}, not {wanted}, in {text}");
        }
    }
}

/// Functions that all programs have: they read, write and hand on what they are told to.
const COMMON: &str = "
    (func $get (param $p i32) (result i64) (i64.load (local.get $p)))
    (func $put (param $p i32) (param $v i64) (i64.store (local.get $p) (local.get $v)))
    (func $same (param $v i64) (result i64) (local.get $v))
    (global $word (mut i64) (i64.const 0))";

/// The word at 64 is a double, x, and `by_tag` tells it from singles: `moves` copies it, then one
/// of two ways is gone.
fn of_double(params: &str, call: &str, moves: &str, single: &str, double: &str) -> String {
    format!(
        r#"(module (memory 1) {COMMON}
            (func $at (param $p i32) (result f64) (f64.mul (f64.load (local.get $p)) (f64.const 0.3)))
            (func $of (param $v i64) (result f64) (f64.mul (f64.reinterpret_i64 (local.get $v)) (f64.const 0.3)))
            (func $keep (param $v i64) (param $p i32) (param $tag i32) (result f64)
                (if (result f64) (local.get $tag)
                    (then (f64.promote_f32 (f32.reinterpret_i32 (i32.wrap_i64 (local.get $v)))))
                    (else (i64.store (local.get $p) (local.get $v)) (f64.const 0))))
            (func $by_tag {params} (param $tag i32) (result f64)
                (local $v i64) (local $a i32) (local $b i32) (local $w v128)
                {moves}
                (if (result f64) (local.get $tag) (then {single}) (else {double})))
            (func (export "f") (param $x f64) (param $tag i32) (result f64) (local $r f64)
                (f32.store (i32.const 512) (f32.demote_f64 (local.get $x)))
                (f64.store (i32.const 64) (local.get $x))
                (f64.store (i32.const 72) (local.get $x))
                (local.set $r (call $by_tag {call} (local.get $tag)))
                (f64.add (local.get $r) (f64.mul (f64.load (i32.const 64)) (f64.const 0.7)))))"#
    )
}

/// Copies to 128 and 256, both of which callees read.
const TWO: &str = "(f64.add (call $at (i32.const 128)) (call $at (i32.const 256)))";
/// The word is passed on twice.
const PASSED: &str = "(f64.add (call $of (local.get $v)) (call $of (call $same (local.get $v))))";
/// The lower half of the word, and of the vector, as a single; and two places as singles.
const LOW: &str = "(f64.promote_f32 (f32.reinterpret_i32 (i32.wrap_i64 (local.get $v))))";
const LANE: &str = "(f64.promote_f32 (f32x4.extract_lane 0 (local.get $w)))";
const AT_COPY: &str = "(f64.promote_f32 (f32.load (i32.const 128)))";
const AT_BOTH: &str = "(f64.promote_f32 (f32.add (f32.load (i32.const 64)) (f32.load (i32.const 68))))";

fn doubles(moves: &str, single: &str) {
    is(&of_double("(param $p i32)", "(i32.const 64)", moves, single, TWO), 1.3);
}

/// A word to both places, by stores or by calls.
fn stored(v: &str) -> String {
    format!("(local.set $v {v}) (i64.store (i32.const 128) (local.get $v)) (call $put (i32.const 256) (local.get $v))")
}

const LOADED: &str = "(i64.load (local.get $p))";

#[test]
fn words() {
    for v in [LOADED, "(call $get (local.get $p))", "(call $same (i64.load (local.get $p)))"] {
        doubles(&stored(v), LOW);
        doubles(&stored(v), AT_COPY);
    }
    let either = format!("(select {LOADED} (i64.load (i32.const 512)) (i32.eqz (local.get $tag)))");
    doubles(&stored(&either), LOW);
    let global = format!("(global.set $word {LOADED}) {}", stored("(global.get $word)"));
    doubles(&global, "(f64.promote_f32 (f32.reinterpret_i32 (i32.wrap_i64 (global.get $word))))");
    // What a callee makes of it on a way that it does not go.
    let untaken = format!(
        "(local.set $v {LOADED}) (drop (call $keep (local.get $v) (i32.const 128) (local.get $tag)))
        (i64.store (i32.const 256) (local.get $v))"
    );
    doubles(&untaken, "(f64.const 0)");
}

#[test]
fn words_that_are_passed() {
    let loaded = format!("(local.set $v {LOADED})");
    is(&of_double("(param $p i32)", "(i32.const 64)", &loaded, LOW, PASSED), 1.3);
    for word in ["(i64.load (i32.const 64))", "(i64.reinterpret_f64 (local.get $x))"] {
        let as_passed = "(local.set $v (local.get $p))";
        is(&of_double("(param $p i64)", word, as_passed, LOW, PASSED), 1.3);
        is(&of_double("(param $p i64)", word, &stored("(local.get $p)"), LOW, TWO), 1.3);
    }
}

#[test]
fn halves_and_bytes() {
    let to =
        |p: u32| format!("(i32.store (i32.const {p}) (local.get $a)) (i32.store (i32.const {}) (local.get $b))", p + 4);
    let halves = format!(
        "(local.set $a (i32.load (local.get $p))) (local.set $b (i32.load offset=4 (local.get $p))) {} {}",
        to(128),
        to(256)
    );
    doubles(&halves, "(f64.promote_f32 (f32.reinterpret_i32 (local.get $a)))");
    doubles(&halves, AT_COPY);
    // Cut up, once by the word itself and once by one of which it is one.
    let from = |shift: u32| format!("(i64.shr_u (local.get $v) (i64.const {shift}))");
    let cut = format!(
        "(i32.store8 (i32.const 128) (i32.wrap_i64 (local.get $v))) (i64.store8 (i32.const 129) {}) (i64.store16 (i32.const 130) {})
        (i64.store32 (i32.const 132) {}) (i64.store (i32.const 256) (i64.load (local.get $p)))",
        from(8),
        from(16),
        from(32)
    );
    for v in [LOADED.to_string(), format!("(select {LOADED} (i64.load (i32.const 72)) (i32.eqz (local.get $tag)))")] {
        doubles(&format!("(local.set $v {v}) {cut}"), LOW);
    }
}

#[test]
fn vectors() {
    let to_both = "(v128.store (i32.const 128) (local.get $w)) (v128.store (i32.const 256) (local.get $w))";
    let lanes = "(i64.store (i32.const 128) (i64x2.extract_lane 0 (local.get $w)))
        (v128.store64_lane 1 (i32.const 256) (local.get $w))";
    let swap = "(i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $w) (local.get $w))";
    let with_lane = format!("(i64x2.replace_lane 0 (local.get $w) {LOADED})");
    for (w, to) in [
        ("(local.get $w)", to_both),
        ("(local.get $w)", lanes),
        (swap, to_both),
        (&with_lane, to_both),
        ("(v128.load64_splat (local.get $p))", to_both),
        ("(v128.load64_zero (local.get $p))", to_both),
    ] {
        doubles(&format!("(local.set $w (v128.load (local.get $p))) (local.set $w {w}) {to}"), LANE);
    }
}

#[test]
fn blocks() {
    let copied = "(memory.copy (i32.const 128) (local.get $p) (i32.const 8)) (memory.copy (i32.const 256) (local.get $p) (i32.const 8))";
    doubles(copied, AT_COPY);
    doubles(copied, AT_BOTH);
}

/// A word that is let through or not, as a flag says.
#[test]
fn masks() {
    let masked = |mask: &str| stored(&format!("(i64.and {LOADED} {mask})"));
    doubles(&masked("(i64.sub (i64.const 0) (i64.extend_i32_u (i32.eqz (local.get $tag))))"), LOW);
    doubles(&masked("(i64.sub (i64.and (i64.load8_u (i32.const 1024)) (i64.const 1)) (i64.const 1))"), LOW);
    let shut = masked("(i64.shr_s (i64.shl (i64.load8_u (i32.const 1024)) (i64.const 63)) (i64.const 63))");
    is(&of_double("(param $p i32)", "(i32.const 64)", &shut, LOW, TWO), 0.7);
}

/// The other way round: the words are x and x² as singles, and the way not gone takes them for a
/// double.
#[test]
fn two_singles() {
    let program = |moves: &str, double: &str| {
        format!(
            r#"(module (memory 1) {COMMON}
                (func $at (param $p i32) (result f64)
                    (f64.add (f64.mul (f64.promote_f32 (f32.load (local.get $p))) (f64.const 0.5))
                        (f64.promote_f32 (f32.load offset=4 (local.get $p)))))
                (func $by_tag (param $p i32) (param $tag i32) (result f64) (local $v i64) (local $w v128)
                    {moves}
                    (if (result f64) (local.get $tag) (then {double}) (else {TWO})))
                (func (export "f") (param $x f64) (param $tag i32) (result f64) (local $r f64)
                    (f64.store (i32.const 512) (local.get $x))
                    (f32.store (i32.const 64) (f32.demote_f64 (local.get $x)))
                    (f32.store (i32.const 68) (f32.demote_f64 (f64.mul (local.get $x) (local.get $x))))
                    (local.set $r (call $by_tag (i32.const 64) (local.get $tag)))
                    (f64.add (local.get $r) (f64.promote_f32 (f32.load (i32.const 64))))))"#
        )
    };
    let wanted = 1.0 + 2.0 * (0.5 + 2.0 * 1.7);
    is(&program(&stored(LOADED), "(f64.reinterpret_i64 (local.get $v))"), wanted);
    is(&program(&stored(LOADED), "(f64.load (i32.const 128))"), wanted);
    let vector = "(local.set $w (v128.load (local.get $p)))
        (v128.store (i32.const 128) (local.get $w)) (v128.store (i32.const 256) (local.get $w))";
    is(&program(vector, "(f64x2.extract_lane 0 (local.get $w))"), wanted);
    let copied = "(memory.copy (i32.const 128) (local.get $p) (i32.const 8)) (memory.copy (i32.const 256) (local.get $p) (i32.const 8))";
    is(&program(copied, "(f64.load (i32.const 128))"), wanted);
}
