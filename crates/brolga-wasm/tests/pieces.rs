//! Bits of floats that programs take apart, or move in pieces, out of sight of those who know that
//! they are floats: in callees, through memory, byte by byte. What is only moved is put together
//! again; what cannot be followed ends in a trap. Nowhere is a gradient silently too small.

use brolga_wasm::brolga::Diagnostics;
use brolga_wasm::{Error, Gradient, Instance, Module, Val};

use crate::common::gradients;

/// No rule follows these bits, and the program makes a float of them whose cotangent is not zero.
fn is_lost(text: &str) {
    for found in gradients(text, 1.5) {
        match found {
            Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits", "{t}"),
            Err(Error::Diagnostics(Diagnostics(all))) => {
                assert!(all.iter().all(|d| matches!(d.code, "AD0110" | "AD0113")), "{all:?}");
            }
            Err(e) => panic!("{e}"),
            Ok(g) => panic!("{g}, silently"),
        }
    }
}

/// The same, unless the callee has become a part of its caller, which sees more.
fn is_lost_or(text: &str, wanted: f64) {
    for found in gradients(text, 1.5) {
        match found {
            Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits", "{t}"),
            Err(e) => panic!("{e}"),
            Ok(g) => assert_eq!(g, wanted),
        }
    }
}

fn is(text: &str, x: f64, wanted: f64) {
    for found in gradients(text, x) {
        let g = found.unwrap_or_else(|e| panic!("{e}"));
        assert!((g - wanted).abs() <= 1e-12 * wanted.abs(), "{g}, not {wanted}");
    }
}

/// The square of a copy of x, which `copy` makes from address 64 to address 128, in a module whose
/// `__stack_pointer` is read there: so the callee's memory is known to hold numbers.
fn square_of_copy(load: &str, store: &str, step: u32, more: &str) -> String {
    format!(
        r#"(module (memory 1) (global $sp (mut i32) (i32.const 4096))
            (func $copy (param $to i32) (param $from i32) (param $n i32) (local $frame i32)
                (local.set $frame (i32.sub (global.get $sp) (i32.const 16)))
                (i32.store offset=12 (local.get $frame) (local.get $n))
                (loop $next
                    ({store} (local.get $to) ({load} (local.get $from)))
                    (local.set $to (i32.add (local.get $to) (i32.const {step})))
                    (local.set $from (i32.add (local.get $from) (i32.const {step})))
                    (i32.store offset=12 (local.get $frame)
                        (i32.sub (i32.load offset=12 (local.get $frame)) (i32.const {step})))
                    (br_if $next (i32.load offset=12 (local.get $frame)))))
            (func (export "f") (param $x f64) (result f64)
                (f64.store (i32.const 64) (local.get $x))
                {more}
                (call $copy (i32.const 128) (i32.const 64) (i32.const 8))
                (f64.mul (f64.load (i32.const 128)) (f64.load (i32.const 128)))))"#
    )
}

/// Singles beside doubles.
const SINGLES: &str = "(f32.store (i32.const 256) (f32.demote_f64 (local.get $x)))";

#[test]
fn copies_piece_by_piece() {
    for singles in ["", SINGLES] {
        for (load, store, step) in [
            ("i32.load8_u", "i32.store8", 1),
            ("i64.load8_s", "i64.store8", 1),
            ("i32.load16_u", "i32.store16", 2),
            ("i64.load32_u", "i64.store32", 4),
            ("i32.load", "i32.store", 4),
            ("i64.load", "i64.store", 8),
        ] {
            is(&square_of_copy(load, store, step, singles), 1.5, 3.0);
        }
    }
    is(&square_of_copy("f64.load", "f64.store", 8, SINGLES), 1.5, 3.0);
}

/// `f` of x at address 64, with bytes moved in between; `float` loads a number.
fn moved(callees: &str, singles: bool, between: &str, result: &str) -> String {
    let singles = if singles { SINGLES } else { "" };
    format!(
        r#"(module (memory 1) {callees}
            (func (export "f") (param $x f64) (result f64) (local $i i32) (local $t i32)
                {singles}
                (f64.store (i32.const 64) (local.get $x))
                (f64.store (i32.const 72) (f64.mul (local.get $x) (local.get $x)))
                {between}
                {result}))"#
    )
}

/// A loop over the bytes of so many doubles.
fn bytes(n: u32, of: &str) -> String {
    format!(
        r#"(local.set $i (i32.const 0))
        (loop $next {of} (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const {}))))"#,
        8 * n
    )
}

#[test]
fn copies_and_what_they_are_copies_of() {
    let at = |a: u32| format!("(f64.load (i32.const {a}))");
    let times = |a: &str, b: &str| format!("(f64.mul {a} {b})");
    let copy = "(i32.store8 offset=128 (local.get $i) (i32.load8_u offset=64 (local.get $i)))";
    let get = "(func $get (param $at i32) (result i32) (i32.load8_u (local.get $at)))";
    let by_call = "(i32.store8 offset=128 (local.get $i) (call $get (i32.add (local.get $i) (i32.const 64))))";
    let swap = "(local.set $t (i32.load8_u offset=64 (local.get $i)))
        (i32.store8 offset=64 (local.get $i) (i32.load8_u offset=72 (local.get $i)))
        (i32.store8 offset=72 (local.get $i) (local.get $t))";
    let to_both = "(i32.store8 offset=128 (local.get $i) (local.tee $t (i32.load8_u offset=64 (local.get $i))))
        (i32.store8 offset=136 (local.get $i) (local.get $t))";
    for singles in [false, true] {
        // Both are used: cotangents are added.
        let result = times(&at(64), &at(128));
        is(&moved("", singles, &bytes(1, copy), &result), 1.5, 3.0);
        is(&moved(get, singles, &bytes(1, by_call), &result), 1.5, 3.0);
        // x³ of two, x and x², one byte after another.
        is(&moved("", singles, &bytes(2, copy), &times(&at(128), &at(136))), 1.5, 3.0 * 2.25);
        // x² - 2x, after a swap; and x⁴ of the same.
        let result = format!("(f64.sub {} (f64.add {} {}))", at(64), at(72), at(72));
        is(&moved("", singles, &bytes(1, swap), &result), 1.5, 1.0);
        // A byte that goes to two places.
        is(&moved("", singles, &bytes(1, to_both), &times(&at(128), &at(136))), 1.5, 3.0);
        // There and back again, the other way round in between.
        let reversed = "(i32.store8 offset=128 (local.get $i) (i32.load8_u (i32.sub (i32.const 71) (local.get $i))))";
        let back = "(i32.store8 offset=136 (local.get $i) (i32.load8_u (i32.sub (i32.const 135) (local.get $i))))";
        is(&moved("", singles, &[bytes(1, reversed), bytes(1, back)].concat(), &times(&at(64), &at(136))), 1.5, 3.0);
        // The bytes of one float the other way round are another, of which nothing is known.
        let wrong = format!("(f64.add {} (f64.mul (f64.const 0) {}))", at(128), at(64));
        is_lost(&moved("", singles, &bytes(1, reversed), &wrong));
        // Half of one and half of another.
        let hidden =
            "(func $half (param $to i32) (param $from i32) (i32.store (local.get $to) (i32.load (local.get $from))))";
        let call = |from: u32, to: u32| format!("(call $half (i32.const {to}) (i32.const {from}))");
        let third = times(&at(128), "(f64.const 0.333)");
        is_lost(&moved(hidden, singles, &[call(64, 128), call(76, 132)].concat(), &third));
        is(&moved(hidden, singles, &[call(72, 128), call(76, 132)].concat(), &third), 1.5, 0.999);
    }
}

#[test]
fn what_does_not_arrive() {
    let half =
        "(func $half (param $to i32) (param $from i32) (i32.store (local.get $to) (i32.load (local.get $from))))";
    let times_x = "(f64.mul (f64.load (i32.const 128)) (local.get $x))";
    for singles in [false, true] {
        // Two halves from where no float has been stored: that they belong together is only known
        // to be wrong when nothing more can come.
        let halves = "(call $half (i32.const 128) (i32.const 192)) (call $half (i32.const 132) (i32.const 204))";
        is_lost(&moved(half, singles, halves, times_x));
        let both = "(call $half (i32.const 128) (i32.const 192)) (call $half (i32.const 132) (i32.const 196))";
        is(&moved(half, singles, both, times_x), 1.5, 0.0);
        // A float made of one byte: what is one in it is no part of another float.
        let byte = "(i64.store (i32.const 128) (i64.extend_i32_u (i32.load8_u (i32.const 64))))";
        is_lost(&moved("", singles, byte, "(f64.add (f64.load (i32.const 128)) (local.get $x))"));
        // What waits where a block was filled is dropped.
        let copy = bytes(1, "(i32.store8 offset=128 (local.get $i) (i32.load8_u offset=64 (local.get $i)))");
        let filled = format!("(memory.fill (i32.const 64) (i32.const 0) (i32.const 8)) {copy}");
        is(&moved("", singles, &filled, "(f64.add (f64.load (i32.const 128)) (f64.load (i32.const 64)))"), 1.5, 0.0);
    }
}

#[test]
fn words_are_taken_apart_and_put_together() {
    let at = |a: u32| format!("(f64.load (i32.const {a}))");
    // By shifts: the first four bytes as they are, the others of the whole.
    let shifted = "(i32.store (i32.const 128) (i32.load (i32.const 64)))
        (i32.store8 (i32.const 132) (i32.wrap_i64 (i64.shr_u (i64.load (i32.const 64)) (i64.const 32))))
        (i64.store8 (i32.const 133) (i64.shr_u (i64.load (i32.const 64)) (i64.const 40)))
        (i64.store16 (i32.const 134) (i64.shr_s (i64.load (i32.const 64)) (i64.const 48)))";
    // Into one word, and that becomes a float.
    let joined = "(i64.or (i64.load32_u (i32.const 64))
        (i64.or (i64.shl (i64.load16_u (i32.const 68)) (i64.const 32))
            (i64.shl (i64.and (i64.shr_u (i64.load (i32.const 64)) (i64.const 48)) (i64.const 0xffff)) (i64.const 48))))";
    // The byte order turned twice, by masks.
    let swap = |x: &str| {
        format!(
            "(i64.or (i64.shl (i64.and {x} (i64.const 0x00ff00ff00ff00ff)) (i64.const 8))
                (i64.and (i64.shr_u {x} (i64.const 8)) (i64.const 0x00ff00ff00ff00ff)))"
        )
    };
    let hide = "(func $hide (param $x i64) (result i64) (local.get $x))";
    for singles in [false, true] {
        let text = moved("", singles, shifted, &format!("(f64.mul {} {})", at(128), at(64)));
        is(&text, 1.5, 3.0);
        let text = moved("", singles, "", &format!("(f64.mul (f64.reinterpret_i64 {joined}) {})", at(64)));
        is(&text, 1.5, 3.0);
        let swapped_back = swap(&swap("(i64.load (i32.const 64))"));
        let text = moved(
            hide,
            singles,
            "",
            &format!("(f64.mul (f64.reinterpret_i64 (call $hide {swapped_back})) {})", at(64)),
        );
        is(&text, 1.5, 3.0);
    }
}

/// What is between a float's bits and a float's bits.
fn bits(callees: &str, between: &str) -> String {
    format!(
        r#"(module (memory 1) {callees}
            (func (export "f") (param $x f64) (result f64) (local $u i64)
                (local.set $u (i64.reinterpret_f64 (local.get $x)))
                {between}))"#
    )
}

#[test]
fn callees_that_calculate_with_bits() {
    // The bytes the other way round, twice: that is the float again.
    let swap = r#"(func $swap (param $u i64) (result i64) (local $r i64) (local $i i64)
        (loop $next
            (local.set $r (i64.or (i64.shl (local.get $r) (i64.const 8))
                (i64.and (i64.shr_u (local.get $u) (local.get $i)) (i64.const 255))))
            (br_if $next (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 8))) (i64.const 64))))
        (local.get $r))"#;
    is(&bits(swap, "(f64.reinterpret_i64 (call $swap (call $swap (local.get $u))))"), 1.5, 1.0);
    // The same of what a callee has put into memory, in its own frame.
    let through_memory = r#"(func $swap (param $u i64) (result i64) (local $i i64)
        (i64.store offset=16 (i32.const 1024) (local.get $u))
        (i64.store offset=24 (i32.const 1024) (i64.const 0))
        (loop $next
            (i64.store offset=24 (i32.const 1024) (i64.or (i64.shl (i64.load offset=24 (i32.const 1024)) (i64.const 8))
                (i64.and (i64.shr_u (i64.load offset=16 (i32.const 1024)) (local.get $i)) (i64.const 255))))
            (br_if $next (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 8))) (i64.const 64))))
        (i64.load offset=24 (i32.const 1024)))"#;
    is_lost_or(&bits(through_memory, "(f64.reinterpret_i64 (call $swap (call $swap (local.get $u))))"), 1.0);
    // A byte that a callee writes.
    let put = "(func $put (param $at i32) (param $b i32) (i32.store8 (local.get $at) (local.get $b)))";
    let bytes: String =
        (0..8).map(|i| format!("(call $put (i32.const {}) (i32.load8_u (i32.const {})))", 128 + i, 64 + i)).collect();
    is(&bits(put, &format!("(i64.store (i32.const 64) (local.get $u)) {bytes} (f64.load (i32.const 128))")), 1.5, 1.0);
}

#[test]
fn bits_through_a_frame() {
    // A hash by way of memory, each access with an address of its own.
    let frame = r#"(func $frame (result i32) (i32.sub (global.get $sp) (i32.const 32)))
        (global $sp (mut i32) (i32.const 4096))"#;
    let between = r#"
        (local $fp i32)
        (local.set $fp (call $frame))
        (f64.store offset=8 (local.get $fp) (local.get $x))
        (i64.store offset=16 (local.get $fp) (i64.load offset=8 (local.get $fp)))
        (i64.store offset=16 (local.get $fp)
            (i64.sub (i64.const 0x5fe6eb50c7b537a9) (i64.rotl (i64.load offset=16 (local.get $fp)) (i64.const 5))))
        (i64.store offset=24 (local.get $fp) (i64.load offset=16 (local.get $fp)))
        (f64.mul (f64.load offset=24 (local.get $fp)) (f64.load offset=24 (local.get $fp)))"#;
    is_lost(&format!(r#"(module (memory 1) {frame} (func (export "f") (param $x f64) (result f64) {between}))"#));
}

#[test]
fn numbers_stay_numbers() {
    // A hash of the bits decides; an exponent from the bits is a factor, made by bits; a float of
    // random bits is another.
    let hash = r#"(func $hash (param $at i32) (result i32) (local $h i32) (local $i i32)
        (loop $next
            (local.set $h (i32.add (i32.mul (local.get $h) (i32.const 33))
                (i32.load8_u (i32.add (local.get $at) (local.get $i)))))
            (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 8))))
        (local.get $h))"#;
    let text = bits(
        hash,
        r#"(f64.store (i32.const 64) (local.get $x))
        (f64.mul (local.get $x) (f64.convert_i32_u (i32.or (i32.and (call $hash (i32.const 64)) (i32.const 1)) (i32.const 1))))"#,
    );
    is(&text, 1.5, 1.0);
    // The first byte of 2.
    let text = bits(
        "",
        r#"(f64.store (i32.const 64) (local.get $x))
        (i64.store8 offset=16 (i32.const 64) (i64.const 0x40))
        (f64.mul (f64.load (i32.const 64))
            (f64.reinterpret_i64 (i64.shl (i64.load8_u offset=16 (i32.const 64)) (i64.const 56))))"#,
    );
    is(&text, 1.5, 2.0);
    // A number beside singles, which callees hand on and calculate with.
    let counted = r#"(func $put (param $at i32) (param $n i32) (i32.store (local.get $at) (local.get $n)))
        (func $next (param $at i32) (param $n i32) (call $put (local.get $at) (i32.add (local.get $n) (i32.const 1))))"#;
    let text = bits(
        counted,
        r#"(f32.store (i32.const 64) (f32.demote_f64 (local.get $x)))
        (call $next (i32.const 68) (i32.load (i32.const 68)))
        (call $next (i32.const 68) (i32.load (i32.const 68)))
        (f64.mul (f64.promote_f32 (f32.load (i32.const 64))) (f64.convert_i32_s (i32.load (i32.const 68))))"#,
    );
    is(&text, 1.5, 2.0);
    let exponent = r#"(func $exponent (param $u i64) (result i64)
        (i64.sub (i64.and (i64.shr_u (local.get $u) (i64.const 52)) (i64.const 0x7ff)) (i64.const 1023)))
        (func $power (param $n i64) (result f64)
            (f64.reinterpret_i64 (i64.shl (i64.add (local.get $n) (i64.const 1023)) (i64.const 52))))"#;
    is(&bits(exponent, "(f64.mul (local.get $x) (call $power (call $exponent (local.get $u))))"), 5.0, 4.0);
    let random = r#"(global $state (mut i64) (i64.const 88172645463325252))
        (func $next (result f64)
            (global.set $state (i64.xor (global.get $state) (i64.shl (global.get $state) (i64.const 13))))
            (global.set $state (i64.xor (global.get $state) (i64.shr_u (global.get $state) (i64.const 7))))
            (global.set $state (i64.xor (global.get $state) (i64.shl (global.get $state) (i64.const 17))))
            (f64.sub (f64.reinterpret_i64 (i64.or (i64.shr_u (global.get $state) (i64.const 12)) (i64.const 0x3ff0000000000000)))
                (f64.const 1)))"#;
    let text = bits(random, "(f64.mul (local.get $x) (f64.add (f64.const 2) (f64.sub (call $next) (call $next))))");
    let module = Module::new(&text).unwrap();
    let wanted = Instance::new(&module).unwrap().call("f", &[Val::F64(1.0)]).unwrap()[0].f64().unwrap();
    is(&text, 1.5, wanted);
}

/// `f` of two vectors of the same bits: one that is only moved, and one that was calculated with.
/// They meet, by a branch or a call, in `$meet`, which stores what it is given at address 128, for
/// those `n` that are not zero what was calculated.
fn vectors_meet(square: &str, meet: &str, n: u32, result: &str) -> String {
    format!(
        r#"(module (memory 1)
            (func $square (param $at i32) (result v128) {square})
            {meet}
            (func (export "f") (param $x f64) (result f64) (local $s f32)
                (local.set $s (f32.demote_f64 (local.get $x)))
                (f64.store (i32.const 64) (local.get $x))
                (f64.store (i32.const 72) (f64.mul (local.get $x) (local.get $x)))
                (v128.store (i32.const 96) (f32x4.splat (local.get $s)))
                (call $meet (i32.const {n}))
                {result}))"#
    )
}

#[test]
fn vectors_that_are_moved_meet_vectors_of_numbers() {
    let doubles = "(f64x2.mul (v128.load (local.get $at)) (v128.load (local.get $at)))";
    let singles = "(f32x4.mul (v128.load (local.get $at)) (v128.load (local.get $at)))";
    // x⁴ + x² of what was calculated, x² + x of what was moved, times a number for each lane.
    let of_doubles = "(f64.add (f64.mul (f64.const 3) (f64.load (i32.const 128))) (f64.load (i32.const 136)))";
    let of_singles = "(f64.promote_f32 (f32.add (f32.mul (f32.const 3) (f32.load (i32.const 128)))
        (f32.add (f32.load (i32.const 132)) (f32.mul (f32.load (i32.const 136)) (f32.load (i32.const 140))))))";
    let by_branch = |from: u32| {
        format!(
            "(func $meet (param $n i32) (local $v v128)
                (local.set $v (v128.load (i32.const {from})))
                (if (local.get $n) (then (local.set $v (call $square (i32.const {from})))))
                (v128.store (i32.const 128) (local.get $v)))"
        )
    };
    // What was moved goes elsewhere, too, where it is calculated with.
    let as_well = |from: u32, op: &str| {
        format!(
            "(func $meet (param $n i32) (local $v v128) (local $w v128)
                (local.set $w (v128.load (i32.const {from})))
                (v128.store (i32.const 160) (local.get $w))
                (local.set $v (local.get $w))
                (if (local.get $n) (then (local.set $v ({op} (call $square (i32.const {from})) (v128.load (i32.const 160))))))
                (v128.store (i32.const 128) (local.get $v)))"
        )
    };
    let x = 1.5_f64;
    for (n, wanted) in [(0, 3.0 + 2.0 * x), (1, 6.0 * x + 4.0 * x.powi(3))] {
        is(&vectors_meet(doubles, &by_branch(64), n, of_doubles), x, wanted);
    }
    for (n, wanted) in [(0, 4.0 + 2.0 * x), (1, 8.0 * x + 4.0 * x.powi(3))] {
        is(&vectors_meet(singles, &by_branch(96), n, of_singles), x, wanted);
    }
    for (n, wanted) in [(0, 3.0 + 2.0 * x), (1, 3.0 * (2.0 * x + 1.0) + 4.0 * x.powi(3) + 2.0 * x)] {
        is(&vectors_meet(doubles, &as_well(64, "f64x2.add"), n, of_doubles), x, wanted);
    }
    for (n, wanted) in [(0, 4.0 + 2.0 * x), (1, 12.0 * x * x + 6.0 * x.powi(5))] {
        is(&vectors_meet(singles, &as_well(96, "f32x4.mul"), n, of_singles), x, wanted);
    }
}

/// `f` copies four floats of memory to another place, twice, by 64-bit words in a module with
/// floats of both sizes, and reads one where it was: the sum of squares of the copies, of which
/// there are two, and the first.
fn two_copies(ty: &str, size: u32) -> String {
    let load = |at: u32| format!("({ty}.load (i32.const {at}))");
    let square = |at: u32| format!("({ty}.mul {0} {0})", load(at));
    let sum = (0..8)
        .map(|k| square(512 + k * size))
        .fold(format!("({ty}.load (local.get $x))"), |s, x| format!("({ty}.add {s} {x})"));
    let other = if ty == "f64" {
        "(f32.store (i32.const 1024) (f32.const 1))"
    } else {
        "(f64.store (i32.const 1024) (f64.const 1))"
    };
    let words = size / 2;
    format!(
        "(module (memory 1)
            (func $copy (param $to i32) (param $from i32) (local $n i32)
                (local.set $n (i32.const {words}))
                (loop $next
                    (i64.store (local.get $to) (i64.load (local.get $from)))
                    (local.set $to (i32.add (local.get $to) (i32.const 8)))
                    (local.set $from (i32.add (local.get $from) (i32.const 8)))
                    (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
            (func (export \"f\") (param $x i32) (result {ty})
                {other}
                (call $copy (i32.const 512) (local.get $x))
                (call $copy (i32.const {}) (local.get $x))
                {sum}))",
        512 + 4 * size
    )
}

#[test]
fn what_the_caller_has_put_there_is_put_together() {
    let x = [1.5, -2.0, 0.25, 3.0];
    let wanted = [4.0 * x[0] + 1.0, 4.0 * x[1], 4.0 * x[2], 4.0 * x[3]];
    for (ty, size) in [("f64", 8), ("f32", 4)] {
        let module = Module::new(two_copies(ty, size)).unwrap();
        let singles = x.map(|x| x as f32);
        for split in [false, true] {
            let gradient = if split { Gradient::split(&module, "f") } else { Gradient::new(&module, "f") };
            let gradient = gradient.map(Gradient::settled).unwrap();
            let seed = [if size == 8 { Val::F64(1.0) } else { Val::F32(1.0) }];
            let run = |instance: &mut Instance, at: u32| {
                let args = [Val::I32(at as i32)];
                if !split {
                    return instance.gradient(&gradient, &args, &seed).map(drop);
                }
                let mut pullback = instance.forward(&gradient, &args)?.1;
                instance.pullback(&mut pullback, &seed).map(drop)
            };
            let found = |instance: &Instance, at: u32| match size {
                8 => instance.shadow_f64(at, 4).unwrap(),
                _ => instance.shadow_f32(at, 4).unwrap().into_iter().map(f64::from).collect(),
            };
            let mut instance = Instance::new(&module).unwrap();
            let at = if size == 8 { instance.alloc_f64(&x) } else { instance.alloc_f32(&singles) }.unwrap();
            // Twice: what is in the shadow is added to.
            for times in [1.0, 2.0] {
                run(&mut instance, at).unwrap();
                assert_eq!(found(&instance, at), wanted.map(|x| times * x), "{ty}, split: {split}");
            }
            // A host that writes memory in another way has to say so.
            let mut instance = Instance::new(&module).unwrap();
            let bytes =
                if size == 8 { x.map(f64::to_le_bytes).concat() } else { singles.map(f32::to_le_bytes).concat() };
            instance.memory_mut()[64..64 + bytes.len()].copy_from_slice(&bytes);
            let e = run(&mut instance, 64).unwrap_err().to_string();
            assert!(e.contains("untracked_bits") && e.contains("at byte 64") && e.contains("declare_floats"), "{e}");
            instance.clear_shadow();
            instance.declare_floats(64, 4, size).unwrap();
            run(&mut instance, 64).unwrap();
            assert_eq!(found(&instance, 64), wanted, "{ty}, split: {split}");
            // And when it is something else again.
            instance.declare_floats(64, 8, 0).unwrap();
            run(&mut instance, 64).unwrap_err();
            assert!(instance.declare_floats(66, 1, size).is_err() && instance.declare_floats(64, 1, 3).is_err());
            assert!(instance.declare_floats(64, usize::MAX, size).is_err());
        }
    }
}

#[test]
fn constants_that_are_copied_as_words() {
    // As a compiler does without optimisation: `const double c[] = {3.0}`, copied to the stack
    // whenever the function is entered. (And read there by an address that is not seen to be the
    // same.)
    let module = Module::new(
        r#"(module (memory 1) (data (i32.const 64) "\00\00\00\00\00\00\08\40")
            (func $times (param $at i32) (param $x f64) (result f64)
                (i64.store (local.get $at) (i64.load (i32.const 64)))
                (f64.mul (f64.load offset=8 (i32.sub (local.get $at) (i32.const 8))) (local.get $x)))
            (func (export "f") (param $x f64) (result f64)
                (f32.store (i32.const 1024) (f32.const 1))
                (call $times (i32.const 512) (call $times (i32.const 520) (local.get $x)))))"#,
    )
    .unwrap();
    let x = [Val::F64(2.0)];
    for said in [false, true] {
        let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        if said {
            instance.declare_floats(64, 1, 8).unwrap();
        }
        for times in [1.0, 2.0] {
            let found = instance.gradient(&gradient, &x, &[Val::F64(1.0)]).unwrap();
            assert_eq!((found.values, found.cotangents), (vec![Val::F64(18.0)], vec![Some(Val::F64(9.0))]));
            // 2 c x, if the caller says that c is a double; else it is not known what to add.
            let slope = instance.shadow_f64(64, 1).unwrap()[0];
            let singles = instance.shadow_f32(64, 2).unwrap();
            let no_number = slope.is_nan() && singles.iter().all(|x| x.is_nan());
            assert!(if said { slope == 12.0 * times } else { no_number }, "{slope} {singles:?}");
        }
    }
}

#[test]
fn pairs_of_singles_in_lanes() {
    // What is loaded 64 bits at a time into a vector is two singles, in a module with doubles as
    // well.
    let x = 1.5_f64;
    for (lanes, wanted) in [
        ("(v128.load64_zero (i32.const 96))", 3.0 * x * x),
        ("(v128.load64_splat (i32.const 96))", 3.0 * x * x),
        ("(v128.load64_lane 0 (i32.const 96) (v128.load (i32.const 64)))", 3.0 * x * x),
        ("(i64x2.replace_lane 0 (v128.load (i32.const 64)) (i64.load (i32.const 96)))", 3.0 * x * x),
        ("(i64x2.splat (i64x2.extract_lane 1 (v128.load (i32.const 88))))", 3.0 * x * x),
    ] {
        let text = format!(
            r#"(module (memory 1)
                (func (export "f") (param $x f64) (result f64) (local $s f32) (local $v v128)
                    (local.set $s (f32.demote_f64 (local.get $x)))
                    (f64.store (i32.const 1024) (local.get $x))
                    (f32.store (i32.const 96) (f32.mul (local.get $s) (local.get $s)))
                    (f32.store (i32.const 100) (local.get $s))
                    (local.set $v (f64x2.promote_low_f32x4 {lanes}))
                    (f64.mul (f64x2.extract_lane 0 (local.get $v)) (f64x2.extract_lane 1 (local.get $v)))))"#
        );
        is(&text, x, wanted);
    }
    let stored = r#"(module (memory 1)
        (func (export "f") (param $x f64) (result f64) (local $v v128)
            (f64.store (i32.const 1024) (local.get $x))
            (local.set $v (f32x4.splat (f32.demote_f64 (local.get $x))))
            (v128.store64_lane 1 (i32.const 96) (f32x4.mul (local.get $v) (local.get $v)))
            (f64.promote_f32 (f32.mul (f32.load (i32.const 96)) (f32.load (i32.const 100))))))"#;
    is(stored, x, 4.0 * x * x * x);
}

/// The bytes of an expression in reverse, as compilers write it where there is no instruction for
/// it.
fn reversed(of: &str, t: &str) -> String {
    let pairs = |x: &str, mask: &str, bits: u32| {
        format!(
            "(i64.or (i64.and (i64.shr_u (local.tee ${t} {x}) (i64.const {bits})) (i64.const {mask}))
                (i64.shl (i64.and (local.get ${t}) (i64.const {mask})) (i64.const {bits})))"
        )
    };
    let bytes = pairs(of, "0x00ff00ff00ff00ff", 8);
    format!("(i64.rotr {} (i64.const 32))", pairs(&bytes, "0x0000ffff0000ffff", 16))
}

#[test]
fn bytes_in_the_order_of_networks() {
    // x * x goes to a buffer whose address is in memory, its bytes in reverse, and comes back: what
    // is loaded there is no number that is calculated with.
    let square = reversed("(i64.reinterpret_f64 (f64.mul (local.get $x) (local.get $x)))", "a");
    let back = reversed("(i64.load (i32.load (i32.const 8)))", "b");
    let text = format!(
        r#"(module (memory 1)
            (func $single (param $x f64) (f32.store (i32.const 512) (f32.demote_f64 (local.get $x))))
            (func (export "f") (param $x f64) (result f64) (local $a i64) (local $b i64)
                (i32.store (i32.const 8) (i32.const 256))
                (f64.store (i32.const 600) (local.get $x)) (call $single (local.get $x))
                (i64.store (i32.load (i32.const 8)) {square})
                (f64.mul (f64.load (i32.const 600)) (f64.reinterpret_i64 {back}))))"#
    );
    is(&text, 1.5, 6.75);
}

#[test]
fn an_integer_that_was_calculated_lies_beside_a_float() {
    // The ticket of the integer's four bytes is there because of the float in the other half of the
    // window. Its bytes are zeros.
    let text = r#"(module (memory 1)
        (func $m (param i32) (result i32) (i32.shr_u (i32.load (i32.const 2048)) (i32.load8_u (i32.const 2052))))
        (func (export "f") (param $x f64) (result f64)
            (f32.store (i32.const 20) (f32.demote_f64 (local.get $x)))
            (i32.store (i32.const 16) (call $m (i32.const 4)))
            (f64.store (i32.const 64) (f64.const 1))
            (f64.promote_f32 (f32.load (i32.const 20)))))"#;
    is(text, 1.5, 1.0);
}
