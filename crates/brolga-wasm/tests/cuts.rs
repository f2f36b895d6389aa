//! Numbers that are stored over a part of a float, out of sight of the function that reads it: by a
//! callee, in a loop, over what the host has written. The gradient is that of the program, or the
//! run says that it is not known; it is never that of half a number.
//!
//! Broken on purpose: without the account of what is cut (`Facts::cuts`) the gradients of
//! `a_float_with_a_foreign_part` and others are halves, and so are without `Facts::fills` those of
//! `blocks`, without `Facts::straddles` those of `over_two_floats`, without the cut of demanded
//! integers (`pieces/demand.rs`) those of `numbers_that_are_computed`, without the look at the end
//! those of `over_what_the_host_has_written`; without `uncut`, `last_digits` trap, and where whole
//! windows count, `at_odd_addresses` does. Where copies merge parts of floats (`brolga_move_rev`),
//! or the zeros of a half say nothing of the other (`Pieces::ends`), `over_what_was_copied` gives
//! 0.
//! Without the doubles that are noted by address (`pieces/covered.rs`),
//! `over_a_double_that_lies_across` gives parts of sums; without the sums of words that are noted
//! (`pieces/odd.rs`) and the alignment of words (`Facts::moves_unaligned_words`)
//! `words_at_odd_addresses` gives sums of halves, and without the latter so does
//! `words_of_a_copy_that_is_no_multiple_of_eight`.
//! Without `brolga_drop_digits` `what_is_left_out_of_what_the_host_has_written` traps.

use brolga_wasm::brolga::{Diagnostics, Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, Val, default_activity, options};
use wasmparser::ValType;

use crate::common::gradients;

/// What else is in memory: nothing, beside, or a double that is no whole word.
const BESIDE: [&str; 3] = [
    "",
    "(f32.store (i32.const 512) (f32.demote_f64 (local.get $x)))",
    "(f64.store align=4 (i32.const 516) (local.get $x))",
];

/// The result of `f` when `between` has run: x squared is at address 64 before.
fn module(beside: &str, callees: &str, between: &str, result: &str) -> String {
    format!(
        r#"(module (memory 1) {callees}
            (func (export "f") (param $x f64) (result f64) (local $i i32) (local $sum f64)
                {beside}
                (f64.store (i32.const 64) (f64.mul (local.get $x) (local.get $x)))
                {between}
                {result}))"#
    )
}

const READ: &str = "(f64.load (i32.const 64))";

/// A callee that stores a number of so many bytes.
fn put(store: &str, value: &str) -> String {
    format!("(func $put (param $p i32) ({store} (local.get $p) ({value})))")
}

fn is(text: &str, x: f64, wanted: f64) {
    for found in gradients(text, x) {
        let g = found.unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!((g - wanted).abs() <= 1e-12 * wanted.abs(), "{g}, not {wanted}\n{text}");
    }
}

/// Nothing is known of this gradient, and this is said.
fn is_said(found: Result<f64, Error>, text: &str) {
    match found {
        Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits", "{t}\n{text}"),
        Err(Error::Diagnostics(Diagnostics(all))) => assert!(all.iter().all(|d| d.code == "AD0114"), "{all:?}"),
        Err(e) => panic!("{e}"),
        Ok(g) => panic!("{g}, silently\n{text}"),
    }
}

fn is_lost(text: &str, x: f64) {
    gradients(text, x).into_iter().for_each(|found| is_said(found, text));
}

#[test]
fn a_float_with_a_foreign_part() {
    for beside in BESIDE {
        for (store, value, at) in [
            ("i32.store", "i32.const 0x3ff00000", 68),
            ("i32.store16", "i32.const 0x3ff0", 70),
            ("i32.store8", "i32.const 0x3f", 71),
            ("i64.store32", "i64.const 0x3ff00000", 68),
            ("i64.store8", "i64.const 0x40", 71),
        ] {
            let call = format!("(call $put (i32.const {at}))");
            // 0.75 and its square have digits in both halves or in the upper one alone.
            for x in [0.3, 0.75] {
                is_lost(&module(beside, &put(store, value), &call, READ), x);
                // Read before, and after.
                let read_before = format!("(local.set $sum {READ}) {call}");
                let sum = format!("(f64.add (local.get $sum) {READ})");
                is_lost(&module(beside, &put(store, value), &read_before, &sum), x);
            }
        }
    }
}

#[test]
fn parts_in_a_loop() {
    // The upper halves of four doubles, of which one is read.
    let walk = "(loop $next (call $put (i32.add (i32.const 52) (i32.shl (local.get $i) (i32.const 3))))
                    (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4))))";
    for beside in BESIDE {
        is_lost(&module(beside, &put("i32.store", "i32.const 0x3ff00000"), walk, READ), 0.3);
        is_lost(&module(beside, &put("i32.store8", "i32.const 3"), &walk.replace("52", "55"), READ), 0.3);
    }
}

#[test]
fn numbers_over_all_parts() {
    let (low, high) = ("(call $put (i32.const 64))", "(call $put (i32.const 68))");
    for beside in BESIDE {
        let with = |between: &str| module(beside, &put("i32.store", "i32.const 0"), between, READ);
        is(&with(&format!("{low} {high}")), 0.3, 0.0);
        is(&with(&format!("{high} {low}")), 0.75, 0.0);
        // Byte by byte, as `memset` does.
        let bytes = "(loop $next (call $put (i32.add (i32.const 64) (local.get $i)))
                        (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 8))))";
        is(&module(beside, &put("i32.store8", "i32.const 0"), bytes, READ), 0.3, 0.0);
        // What was read before is not lost.
        let before = format!("(local.set $sum {READ}) {bytes}");
        let sum = format!("(f64.add (local.get $sum) {READ})");
        is(&module(beside, &put("i32.store8", "i32.const 0"), &before, &sum), 0.3, 0.6);
        // A number in two words, in each iteration of a loop, beside a float that is read there.
        let union = "(loop $next (call $both)
                        (local.set $sum (f64.add (local.get $sum) (f64.mul (local.get $x) (f64.load (i32.const 128)))))
                        (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))";
        let both = "(func $both (i32.store (i32.const 128) (i32.const 0))
                        (i32.store (i32.const 132) (i32.const 0x40000000)))";
        is(&module(beside, both, union, "(local.get $sum)"), 0.3, 6.0);
    }
}

/// Numbers over a double at 4 modulo 8, whose cotangent has digits in both halves or in the upper
/// one alone, and which was read before or not.
#[test]
fn over_a_double_that_lies_across() {
    const READ: &str = "(f64.load align=4 (i32.const 68))";
    let with = |beside: &str, seed: f64, before: bool, stores: &str| {
        let before = if before { READ } else { "(f64.const 0)" };
        format!(
            r#"(module (memory 1) (func $put {stores})
                (func (export "f") (param $x f64) (result f64) (local $sum f64)
                    {beside}
                    (f64.store align=4 (i32.const 68) (f64.mul (local.get $x) (f64.const 0.625)))
                    (local.set $sum {before})
                    (call $put)
                    (f64.add (local.get $sum) (f64.mul (f64.const {seed}) {READ}))))"#
        )
    };
    let one = |(at, n): (u32, u32)| {
        let (of, store) = match n {
            1 => ("i32", "store8"),
            2 => ("i32", "store16"),
            4 => ("i32", "store"),
            _ => ("i64", "store"),
        };
        format!("({of}.{store} align=1 (i32.const {at}) ({of}.const 5))")
    };
    let fill = |(at, n): (u32, u32)| format!("(memory.fill (i32.const {at}) (i32.const 1) (i32.const {n}))");
    let covers = |(at, n): (u32, u32)| (0..8).filter(|b| (at..at + n).contains(&(68 + b))).fold(0, |m, b| m | 1 << b);
    let stored = [(72, 4), (68, 4), (74, 2), (75, 1), (64, 8), (72, 8), (68, 8), (70, 8), (76, 4), (60, 8)];
    let filled =
        [(64, 8), (64, 12), (68, 8), (72, 8), (72, 16), (64, 16), (70, 20), (48, 28), (48, 24), (76, 8), (69, 7)];
    let both = [((68, 4), (72, 4)), ((68, 4), (72, 2)), ((68, 4), (74, 2)), ((64, 8), (72, 8)), ((68, 2), (70, 8))];
    let mut all: Vec<(String, u32)> = stored.map(|of| (one(of), covers(of))).into();
    all.extend(filled.map(|of| (fill(of), covers(of))));
    all.extend(both.map(|(a, b)| (one(a) + &one(b), covers(a) | covers(b))));
    for (stores, mask) in &all {
        for (beside, seed) in BESIDE.into_iter().flat_map(|b| [(b, 0.3), (b, 0.75)]) {
            is_summed_or_said(&with(beside, seed, false, stores), *mask, (0.0, 0.625 * seed));
            is_summed_or_said(&with(beside, seed, true, stores), *mask, (0.625, 0.625 * seed));
        }
    }
}

/// Numbers were stored over the bytes of a double that `mask` says: its cotangent is added to what
/// there is beside it, or not, if they are all. Lower digits may be missing.
fn is_summed_or_said(text: &str, mask: u32, (first, more): (f64, f64)) {
    let wanted = if mask == 0xff { first } else { first + more };
    for found in gradients(text, 0.7) {
        match found {
            Ok(g) if mask & 0xf0 == 0 || mask == 0xff => {
                assert!((g - wanted).abs() < 1e-12, "{g}, not {wanted}\n{text}")
            }
            found if mask == 0 || mask == 0xff => panic!("{found:?}\n{text}"),
            found => is_said(found, text),
        }
    }
}

/// By instructions that fill and copy blocks.
#[test]
fn blocks() {
    let fill = "(func $put (param $p i32) (param $n i32) (memory.fill (local.get $p) (i32.const 0) (local.get $n)))";
    let copy = "(func $put (param $p i32) (param $n i32)
                    (i64.store (i32.const 256) (i64.const 0x3ff0000000000000))
                    (memory.copy (local.get $p) (i32.sub (i32.const 256) (i32.sub (i32.const 64) (local.get $p)))
                                 (local.get $n)))";
    for beside in BESIDE {
        for callee in [fill, copy] {
            let with = |from: u32, n: u32| {
                module(beside, callee, &format!("(call $put (i32.const {from}) (i32.const {n}))"), READ)
            };
            is(&with(64, 8), 0.3, 0.0);
            for x in [0.3, 0.75] {
                is_lost(&with(68, 4), x);
                is_lost(&with(70, 2), x);
                is_lost(&with(71, 1), x);
            }
        }
    }
}

/// A record of a float and an integer, copied field by field.
#[test]
fn integer_fields_of_records() {
    let callee = "(func $put (param $p i32) (param $x f64)
                      (f64.store (i32.const 256) (local.get $x))
                      (i32.store (i32.const 264) (i32.const 0x3ff00000))
                      (memory.copy (local.get $p) (i32.const 256) (i32.const 12)))";
    let with =
        |at: u32, result: &str| module("", callee, &format!("(call $put (i32.const {at}) (local.get $x))"), result);
    // Beside the float, and what the record's float is.
    for (at, float) in [(72, "72"), (80, "80")] {
        is(&with(at, &format!("(f64.add {READ} (f64.load (i32.const {float})))")), 0.3, 1.6);
    }
    // Over its upper half, where the record's float ends in its lower half.
    for x in [0.3, 0.75] {
        is_lost(&with(60, READ), x);
        is_lost(&with(60, READ).replace("(i32.const 12)", "(i32.const 16)"), x);
    }
    // Over its last digits.
    is(&with(56, READ), 0.3, 0.6);
}

/// A number is stored where it is copied from, not where the float is.
#[test]
fn over_what_was_copied() {
    let number = "(i32.store (i32.const 264) (i32.const 0x3ff00000))";
    let float = "(f64.store (i32.const 256) (local.get $x))";
    let with = |beside: &str, stores: &str, (to, from, n): (u32, u32, u32)| {
        let callee = format!(
            "(func $put (param $x f64) {stores}
                 (memory.copy (i32.const {to}) (i32.const {from}) (i32.const {n})))"
        );
        module(beside, &callee, "(call $put (local.get $x))", READ)
    };
    for beside in BESIDE {
        for x in [0.3, 0.75] {
            // The number in the upper half; the lower half stays, or is a half of another float.
            is_lost(&with(beside, number, (68, 264, 4)), x);
            for stores in [format!("{float} {number}"), format!("{number} {float}")] {
                is_lost(&with(beside, &stores, (64, 260, 8)), x);
            }
        }
        // There and back, by an odd address, and a number after.
        let there_and_back = "(memory.copy (i32.const 301) (i32.const 64) (i32.const 8))
            (i32.store (i32.const 309) (i32.const 7)) (f64.store (i32.const 64) (f64.const 0))";
        is(&with(beside, there_and_back, (64, 301, 8)), 0.3, 0.6);
        // Two numbers.
        is(&with(beside, number, (64, 260, 8)), 0.3, 0.0);
        is(&with(beside, &format!("{number} (i32.store (i32.const 260) (i32.const 5))"), (64, 260, 8)), 0.3, 0.0);
    }
}

/// A number of eight bytes over the halves of two doubles.
#[test]
fn over_two_floats() {
    for beside in BESIDE {
        for (store, value) in
            [("i64.store", "i64.const 0x3ff000003ff00000"), ("v128.store", "v128.const i32x4 5 5 5 5")]
        {
            let with = |at: u32| module(beside, &put(store, value), &format!("(call $put (i32.const {at}))"), READ);
            is(&with(64), 0.3, 0.0);
            is_lost(&with(68), 0.3);
            is_lost(&with(68), 0.75);
        }
    }
}

/// What is stored is computed from what a number in memory is.
#[test]
fn numbers_that_are_computed() {
    for beside in BESIDE {
        for (store, at) in [("i32.store", 68), ("i32.store16", 70), ("i32.store8", 71)] {
            let callee = format!(
                "(func $put (param $p i32)
                     ({store} (local.get $p) (i32.add (i32.load (i32.const 256)) (i32.const 0x3f))))
                 (func $number (param $p i32) (i32.store (local.get $p) (i32.const 0x3ff00000)))"
            );
            let call = format!("(call $number (i32.const 256)) (call $put (i32.const {at}))");
            // Of the bits of another float it is asked whether they are computed from a float's.
            let other = "(f64.reinterpret_i64 (i64.or (i64.const 0x3ff0000000000000)
                             (i64.shr_u (i64.mul (i64.load (i32.const 600)) (i64.const 3)) (i64.const 12))))";
            let both = format!("(f64.add {READ} (f64.mul (local.get $x) {other}))");
            for x in [0.3, 0.75] {
                is_lost(&module(beside, &callee, &call, READ), x);
                is_lost(&module(beside, &callee, &call, &both), x);
            }
        }
    }
}

/// Bytes beside doubles at odd addresses, and within.
#[test]
fn at_odd_addresses() {
    let with = |byte: u32| {
        module("", &put("i32.store8", "i32.const 120"), "(call $put (BYTE))", READ)
            .replace("i32.const 64", "i32.const 65")
            .replace("BYTE", &format!("i32.const {byte}"))
    };
    for beside in [64, 73] {
        is(&with(beside), 0.3, 0.6);
    }
    is_lost(&with(72), 0.3);
}

/// Words at odd addresses that are halves of two doubles, of a packed record after a number of
/// four bytes: they may be copied, also twice; if their cotangents are added up, that is said.
/// Those of doubles are a sum, also of doubles of the host's.
#[test]
fn words_at_odd_addresses() {
    const MOVE: &str = "(func $move (param $to i32) (param $from i32)
        (i64.store align=1 (local.get $to) (i64.load align=1 (local.get $from))))";
    let with = |moves: &[(u32, u32)], second: u32| {
        let each = |(to, from): &(u32, u32)| format!("(call $move (i32.const {to}) (i32.const {from}))");
        let all: String = moves.iter().map(each).collect();
        format!(
            r#"(module (memory 1) {MOVE}
                (func (export "f") (param $x f64) (result f64)
                    (f64.store (i32.const 64) (f64.mul (local.get $x) (local.get $x)))
                    (f64.store (i32.const 72) (f64.mul (local.get $x) (f64.const 3)))
                    (call $move (i32.const 1005) (i32.const 64))
                    (call $move (i32.const 1013) (i32.const 72))
                    {all}
                    (f64.add (f64.add (f64.load (i32.const 128)) (f64.load (i32.const 136)))
                        (f64.mul (f64.const 0.3)
                            (f64.add (f64.load (i32.const {second})) (f64.load (i32.const {})))))))"#,
            second + 8
        )
    };
    let copy = |to: u32| [(to, 1001), (to + 8, 1009), (to + 16, 1017)];
    let read = |to: u32, from: u32| [(to, from), (to + 8, from + 8)];
    let copied = [&copy(2001)[..], &read(128, 2005)].concat();
    let recopied = [&copied[..], &copy(3001), &read(256, 3005)].concat();
    let beside = [&copied[..], &read(256, 1005)].concat();
    let restored = [&read(2005, 1005)[..], &read(128, 2005), &read(256, 2005)].concat();
    for x in [0.3, 0.5] {
        is(&with(&copied, 512), x, 2.0 * x + 3.0);
        is_lost(&with(&recopied, 256), x);
        is_lost(&with(&beside, 256), x);
        is(&with(&restored, 256), x, 1.3 * (2.0 * x + 3.0));
    }
    // The host's lie at 1025, or four bytes after that.
    let of_the_host = |read: u32| {
        format!(
            r#"(module (memory 1) {MOVE}
                (func (export "f") (param $p i32) (result f64)
                    (call $move (i32.const 64) (local.get $p))
                    (call $move (i32.const 72) (i32.add (local.get $p) (i32.const 8)))
                    (call $move (i32.const 128) (local.get $p))
                    (call $move (i32.const 136) (i32.add (local.get $p) (i32.const 8)))
                    (f64.add (f64.load align=4 (i32.const {})) (f64.load align=4 (i32.const {})))))"#,
            64 + read,
            128 + read,
        )
    };
    for found in by_the_host_at(Some((1025, 1025)), &of_the_host(0)) {
        assert_eq!(found.unwrap_or_else(|e| panic!("{e}")), 2.0);
    }
    let halves = of_the_host(4);
    by_the_host_at(Some((1025, 1029)), &halves).into_iter().for_each(|found| is_said(found, &halves));
}

/// Words at 4 modulo 8 that are halves of two doubles, where no double is there, are copied twice
/// by a loop.
#[test]
fn words_of_a_copy_that_is_no_multiple_of_eight() {
    let text = r#"(module (memory 1)
        (func $copy (param $to i32) (param $from i32) (local $i i32)
            (loop $again
                (i64.store align=4 (i32.add (local.get $to) (local.get $i))
                    (i64.load align=4 (i32.add (local.get $from) (local.get $i))))
                (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 8))) (i32.const 24)))))
        (func (export "f") (param $x f64) (result f64)
            (f64.store (i32.const 72) (f64.mul (local.get $x) (local.get $x)))
            (f64.store (i32.const 80) (f64.mul (local.get $x) (f64.const 3)))
            (call $copy (i32.const 132) (i32.const 68))
            (call $copy (i32.const 260) (i32.const 68))
            (f64.add (f64.add (f64.load (i32.const 136)) (f64.load (i32.const 144)))
                (f64.mul (f64.const 0.3) (f64.add (f64.load (i32.const 264)) (f64.load (i32.const 272)))))))"#;
    [0.3, 0.5].into_iter().for_each(|x| is(text, x, 1.3 * (2.0 * x + 3.0)));
}

/// The last digits of a double: what is left has slope 1.
#[test]
fn last_digits() {
    for (store, at, slope) in [("i32.store", 64, 0.6), ("i32.store16", 64, 0.6), ("i32.store8", 66, 0.6)] {
        for beside in BESIDE {
            let text = module(beside, &put(store, "i32.const 0"), &format!("(call $put (i32.const {at}))"), READ);
            is(&text, 0.3, slope);
        }
    }
}

/// A single beside a number, in a module with doubles, and singles alone.
#[test]
fn singles() {
    let single = |at: u32, store: &str, number: u32, doubles: bool| {
        let double = if doubles { "(f64.store (i32.const 512) (local.get $x))" } else { "" };
        let callee = put(store, "i32.const 0x3f");
        format!(
            r#"(module (memory 1) {callee}
                (func (export "f") (param $x f64) (result f64)
                    {double}
                    (f32.store (i32.const {at}) (f32.demote_f64 (f64.mul (local.get $x) (local.get $x))))
                    (call $put (i32.const {number}))
                    (f64.promote_f32 (f32.load (i32.const {at})))))"#
        )
    };
    let close = |text: &str, wanted: f64| {
        for found in gradients(text, 0.3) {
            let g = found.unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert!((g - wanted).abs() <= 1e-6, "{g}, not {wanted}\n{text}");
        }
    };
    for doubles in [false, true] {
        close(&single(68, "i32.store", 64, doubles), 0.6);
        close(&single(64, "i32.store", 68, doubles), 0.6);
        close(&single(64, "i32.store8", 69, doubles), 0.6);
        close(&single(64, "i32.store", 64, doubles), 0.0);
        is_lost(&single(64, "i32.store8", 67, doubles), 0.3);
        is_lost(&single(68, "i32.store16", 70, doubles), 0.3);
    }
}

/// The upper half of the host's double is a number, and its cotangent has no other digits: where
/// doubles may lie across words, and where the host's does.
#[test]
fn over_an_upper_half_of_the_host_s() {
    let with = |factor: f64, read: &str| {
        format!(
            r#"(module (memory 1)
                (func $put (param $p i32) (i32.store (local.get $p) (i32.const 0x3ff80000)))
                (func (export "f") (param $p i32) (result f64)
                    (f64.store align=4 (i32.const 516) (f64.const 1))
                    (call $put (i32.add (local.get $p) (i32.const 4)))
                    {read}
                    (f64.mul (f64.const {factor}) (f64.load (i32.const 64)))))"#
        )
    };
    let reads = [
        "(i64.store (i32.const 64) (i64.load (local.get $p)))",
        "(f64.store (i32.const 64) (f64.load align=4 (local.get $p)))",
        "(memory.copy (i32.const 64) (local.get $p) (i32.const 8))",
    ];
    for (read, factor) in reads.into_iter().flat_map(|read| [(read, 2.5), (read, 0.3)]) {
        let text = with(factor, read);
        for at in [1024, 1028] {
            by_the_host_at(Some((at, at)), &text).into_iter().for_each(|found| is_said(found, &text));
        }
    }
}

/// The gradient by the first of two floats that the host has written, in each mode.
fn by_the_host(text: &str, declared: bool) -> Vec<Result<f64, Error>> {
    by_the_host_at((!declared).then_some((1024, 1024)), text)
}

/// The same, by a float at the second of two addresses where the function gets the first, or by one
/// in a block.
fn by_the_host_at(written: Option<(u32, u32)>, text: &str) -> Vec<Result<f64, Error>> {
    let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
    let gradient = |mode: Mode| {
        let gradient =
            Gradient::with_options(&module, "f", &[default_activity(ValType::I32)], &Options { mode, ..options() })?;
        let mut instance = Instance::new(&module)?;
        let (p, at) = match written {
            Some((p, at)) => instance.write_f64(at, &[0.3, 0.7]).map(|()| (p, at))?,
            None => instance.alloc_f64(&[0.3, 0.7]).map(|at| (at, at))?,
        };
        if mode == Mode::Split {
            let (_, mut pullback) = instance.forward(&gradient, &[Val::I32(p as i32)])?;
            instance.pullback(&mut pullback, &[Val::F64(1.0)])?;
        } else {
            instance.gradient(&gradient, &[Val::I32(p as i32)], &[Val::F64(1.0)])?;
        }
        Ok(instance.shadow_f64(at, 1)?[0])
    };
    [Mode::Split, Mode::Combined, Mode::Gradient].map(gradient).into()
}

/// What is left of a single of which the upper half is a number has come from the host's, and its
/// cotangent has no digits there.
#[test]
fn a_rest_that_the_host_has_written() {
    let text = r#"(module (memory 1)
        (func $put (param $p i32) (i32.store16 (local.get $p) (i32.const 0x3fc0)))
        (func (export "f") (param $p i32) (result f64) (local $word i32)
            (f64.store (i32.const 80) (f64.const 1))
            (f32.store (i32.const 72) (f32.load (local.get $p)))
            (local.set $word (i32.load (local.get $p)))
            (i32.store (local.get $p) (i32.load (i32.const 72)))
            (i32.store (i32.const 72) (local.get $word))
            (call $put (i32.const 74))
            (f64.add (f64.load (i32.const 80)) (f64.promote_f32 (f32.load (i32.const 72))))))"#;
    let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let found = || {
            let options = Options { mode, ..options() };
            let gradient = Gradient::with_options(&module, "f", &[default_activity(ValType::I32)], &options)?;
            let mut instance = Instance::new(&module)?;
            let at = instance.alloc_f32(&[2.1])?;
            if mode == Mode::Split {
                let (_, mut pullback) = instance.forward(&gradient, &[Val::I32(at as i32)])?;
                instance.pullback(&mut pullback, &[Val::F64(1.5)])?;
            } else {
                instance.gradient(&gradient, &[Val::I32(at as i32)], &[Val::F64(1.5)])?;
            }
            Ok(instance.shadow_f32(at, 1)?[0].into())
        };
        is_said(found(), text);
    }
}

/// What is stored byte by byte may be a float's bits, and a number replaces the upper ones.
#[test]
fn over_bytes_of_which_it_is_not_known_what_they_are() {
    let text = r#"(module (memory 1)
        (func $put (param $p i32) (i32.store16 (local.get $p) (i32.const 0x3ff8)))
        (func (export "f") (param $p i32) (result f64) (local $k i32) (local $word i64)
            (f64.store (i32.const 72) (f64.load offset=8 (local.get $p)))
            (local.set $word (i64.load (local.get $p)))
            (loop $next (i64.store8 (i32.add (i32.const 72) (local.get $k)) (local.get $word))
                (local.set $word (i64.shr_u (local.get $word) (i64.const 8)))
                (br_if $next (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 8))))
            (call $put (i32.const 78))
            (f64.load (i32.const 72))))"#;
    by_the_host(text, true).into_iter().for_each(|found| is_said(found, text));
}

/// A program that accesses no doubles, and the seed of a buffer of the host's.
#[test]
fn over_a_seed_of_which_the_program_knows_nothing() {
    let of = |more: &str, store: &str| {
        format!(r#"(module (memory 1) (func (export "f") (param $p i32) (result f64) {more} {store} (f64.const 1)))"#)
    };
    let single = "(f32.store offset=16 (local.get $p) (f32.load offset=20 (local.get $p)))";
    let seeded = |text: &str| {
        let module = Module::new(text).unwrap_or_else(|e| panic!("{e}"));
        let gradient = Gradient::with_options(&module, "f", &[default_activity(ValType::I32)], &options())?;
        let mut instance = Instance::new(&module)?;
        let at = instance.alloc_f64(&[0.3])?;
        instance.set_shadow_f64(at, &[-0.25])?;
        instance.gradient(&gradient, &[Val::I32(at as i32)], &[Val::F64(1.0)])?;
        Ok(instance.shadow_f64(at, 1)?[0])
    };
    for more in ["", single] {
        for store in [
            "(i32.store16 offset=6 (local.get $p) (i32.const 0x3ff8))",
            "(i32.store offset=4 (local.get $p) (i32.const 0x3ff8))",
            "(memory.fill (i32.add (local.get $p) (i32.const 6)) (i32.const 0) (i32.const 2))",
        ] {
            is_said(seeded(&of(more, store)), store);
        }
        for (store, wanted) in [
            ("(i64.store (local.get $p) (i64.const 1))", 0.0),
            ("(memory.fill (local.get $p) (i32.const 0) (i32.const 8))", 0.0),
            ("(i32.store offset=8 (local.get $p) (i32.const 1))", -0.25),
        ] {
            assert_eq!(seeded(&of(more, store)).expect("it is known"), wanted, "{store}");
        }
    }
    let words = "(i32.store (local.get $p) (i32.const 1)) (i32.store offset=4 (local.get $p) (i32.const 1))";
    assert_eq!(seeded(&of("", words)).expect("it is known"), 0.0);
    let across = "(i64.store align=1 (i32.add (local.get $p) (i32.const 4)) (i64.const 1))";
    is_said(seeded(&of("", across)), across);
}

#[test]
fn over_what_the_host_has_written() {
    let of = |callee: &str, before: &str| {
        format!(
            r#"(module (memory 1) {callee}
                (func (export "f") (param $p i32) (result f64) (local $x f64)
                    (local.set $x (f64.mul (f64.load (local.get $p)) (f64.const 3)))
                    {before}
                    (f64.add (local.get $x) (f64.mul (f64.load (local.get $p)) (f64.load (i32.add (local.get $p) (i32.const 8)))))))"#
        )
    };
    let (high, low) = ("(call $put (i32.add (local.get $p) (i32.const 4)))", "(call $put (local.get $p))");
    for declared in [false, true] {
        let text = of(&put("i32.store", "i32.const 0x3ff00000"), high);
        by_the_host(&text, declared).into_iter().for_each(|found| is_said(found, &text));
        let text = of(&put("i32.store8", "i32.const 0x3f"), &high.replace('4', "7"));
        by_the_host(&text, declared).into_iter().for_each(|found| is_said(found, &text));
        for (text, wanted) in [
            (of(&put("i32.store", "i32.const 0"), &format!("{high} {low}")), 3.0),
            (of(&put("i32.store", "i32.const 0"), &format!("{low} {high}")), 3.0),
            (of(&put("i64.store", "i64.const 0"), low), 3.0),
        ] {
            for found in by_the_host(&text, declared) {
                let g = found.unwrap_or_else(|e| panic!("{e}\n{text}"));
                assert!((g - wanted).abs() < 1e-12, "{g}, not {wanted}\n{text}");
            }
        }
    }
}

/// What a float of the host's becomes without some of its bytes.
#[test]
fn what_is_left_out_of_what_the_host_has_written() {
    let of = |float: &str, bits: &str| {
        format!(
            r#"(module (memory 1)
                (func (export "f") (param $p i32) (result f64) (local $x f64)
                    (local.set $x {float})
                    (f64.mul (local.get $x) (local.get $x)))
                (func $bits (param $p i32) (result i64) {bits}))"#
        )
    };
    let double = "(f64.reinterpret_i64 (call $bits (local.get $p)))";
    let right = |text: &str, wanted: f64| {
        for found in [false, true].into_iter().flat_map(|declared| by_the_host(text, declared)) {
            let g = found.unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(g, wanted, "{text}");
        }
    };
    let x = 0.3_f64.to_bits();
    let upper = "(i64.and (i64.load (local.get $p)) (i64.const 0xffffffff00000000))";
    right(&of(double, upper), 2.0 * f64::from_bits(x >> 32 << 32));
    let word = "(i64.shl (i64.load32_u (i32.add (local.get $p) (i32.const 4))) (i64.const 32))";
    right(&of(double, word), 2.0 * f64::from_bits(x >> 32 << 32));
    // Three bytes and some bits, which are digits, and the same of what are none.
    let digits = "(i64.and (i64.load (local.get $p)) (i64.const 0xfffffffff0000000))";
    right(&of(double, digits), 2.0 * f64::from_bits(x >> 28 << 28));
    for bits in [
        "(i64.or (i64.const 0xf000000000000) (i64.and (i64.load (local.get $p)) (i64.const 0xfff00000ffffffff)))",
        "(i64.or (i64.const 0x3ff0000000000000) (i64.and (i64.load (local.get $p)) (i64.const 0xffffffff)))",
        "(i64.or (i64.and (i64.load (local.get $p)) (i64.const 0xffffffff00000000)) (i64.load32_u (i32.add (local.get $p) (i32.const 8))))",
    ] {
        let text = of(double, bits);
        by_the_host(&text, false).into_iter().for_each(|found| is_said(found, &text));
    }
}
