//! Integers of memory that become numbers by a conversion. Where the host has put floats, how the
//! number depends on the float is lost, and the run says so: a logarithm made of a float's bits is
//! such a program. Where integers are, there is no more to be known.
//!
//! What the program has stored itself is asked by the pullback.
//!
//! Broken on purpose: without `brolga_expect_number` the gradients of floats are silent zeros;
//! without `Summaries::becomes` those of `through_a_callee` are, without
//! `Summaries::result_becomes` those of `from_a_callee`, and without `AdOp::Poison` those of the
//! program's own floats.

use brolga_wasm::brolga::{Mode, Options};
use brolga_wasm::{Error, Gradient, Hessian, Instance, Module, Val, default_activity, options};
use wasmparser::ValType;

const NUMBER: &str = "(f64.convert_i64_s (i64.load (local.get $p)))";

/// A function of an address, whose result is `result` times the double eight bytes further.
fn module(functions: &str, result: &str) -> Module {
    let text = format!(
        r#"(module (memory (export "memory") 1) {functions}
            (func (export "f") (param $p i32) (result f64) (local $i i32) (local $sum f64)
                (f64.mul (f64.load offset=8 (local.get $p)) {result})))"#
    );
    Module::new(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Where a double lies after something else: a float, or integers.
fn with(first: Result<f64, i32>) -> impl Fn(&mut Instance) -> u32 {
    move |instance| {
        let at = instance.alloc_f64(&[0.0, 3.0]).unwrap();
        match first {
            Ok(x) => instance.write_f64(at, &[x]).unwrap(),
            Err(n) => {
                instance.memory_mut()[at as usize..][..8].copy_from_slice(&i64::from(n).to_le_bytes());
                instance.declare_floats(at, 8, 0).unwrap();
            }
        }
        at
    }
}

/// The gradient in each mode: of both places.
fn gradients(module: &Module, place: impl Fn(&mut Instance) -> u32) -> Vec<Result<Vec<f64>, Error>> {
    let find = |mode: Mode, full: bool| {
        let effort = if full { Options::full().effort } else { options().effort };
        let options = Options { mode, effort, ..options() };
        let gradient = Gradient::with_options(module, "f", &[default_activity(ValType::I32)], &options)?;
        let mut instance = Instance::new(module)?;
        let at = place(&mut instance);
        let args = [Val::I32(at as i32)];
        if mode == Mode::Split {
            let (_, mut pullback) = instance.forward(&gradient, &args)?;
            instance.pullback(&mut pullback, &[Val::F64(1.0)])?;
        } else {
            instance.gradient(&gradient, &args, &[Val::F64(1.0)])?;
        }
        instance.shadow_f64(at, 2)
    };
    let modes = [Mode::Split, Mode::Combined, Mode::Gradient];
    modes.into_iter().flat_map(|mode| [find(mode, false), find(mode, true)]).collect()
}

/// With an integer there the double has this slope; with a float nothing is known.
fn is_asked(module: &Module, slope: f64) {
    for found in gradients(module, with(Err(7))) {
        assert_eq!(found.unwrap_or_else(|e| panic!("{e}"))[1], slope);
    }
    for found in gradients(module, with(Ok(1.5))) {
        match found {
            Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits", "{t}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn as_it_is() {
    is_asked(&module("", NUMBER), 7.0);
    is_asked(&module("", "(f64.convert_i32_u (i32.load (local.get $p)))"), 7.0);
    let single = "(f64.promote_f32 (f32.convert_i32_s (i32.load (local.get $p))))";
    is_asked(&module("", single), 7.0);
}

#[test]
fn by_arithmetic() {
    let some = |mask: &str| format!("(f64.convert_i64_s (i64.and (i64.load (local.get $p)) (i64.const {mask})))");
    is_asked(&module("", &some("0xfffffffffffff")), 7.0);
    is_asked(&module("", "(f64.convert_i64_s (i64.shr_s (i64.load (local.get $p)) (i64.const 1)))"), 3.0);
}

#[test]
fn by_way_of_other_memory() {
    let moved = "(i64.store offset=64 (local.get $p) (i64.load (local.get $p)))";
    is_asked(&module("", &format!("(block (result f64) {moved} {})", NUMBER.replace("load", "load offset=64"))), 7.0);
}

#[test]
fn in_a_loop() {
    // The sum of one number, and of what is before it.
    let next = "(br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 2)))";
    let address = "(i32.sub (i32.add (local.get $p) (i32.shl (local.get $i) (i32.const 3))) (i32.const 8))";
    let sum = format!("(local.set $sum (f64.add (local.get $sum) (f64.convert_i64_s (i64.load {address}))))");
    is_asked(&module("", &format!("(block (result f64) (loop $next {sum} {next}) (local.get $sum))")), 7.0);
}

#[test]
fn in_lanes() {
    let lanes = "(f32x4.convert_i32x4_s (v128.load (local.get $p)))";
    let lane = |k: usize| format!("(f64.promote_f32 (f32x4.extract_lane {k} {lanes}))");
    // The double is in the other lanes.
    for found in gradients(&module("", &lane(0)), with(Err(7))) {
        assert!(matches!(found, Err(Error::Trap(t)) if t.code == "untracked_bits"));
    }
}

#[test]
fn through_a_callee() {
    let callee = "(func $of (param $b i64) (result f64) (f64.convert_i64_s (local.get $b)))";
    is_asked(&module(callee, "(call $of (i64.load (local.get $p)))"), 7.0);
}

#[test]
fn from_a_callee() {
    let callee = "(func $bits (param $p i32) (result i64) (i64.load (local.get $p)))
        (func $more (param $p i32) (result i64) (call $bits (local.get $p)))";
    for name in ["bits", "more"] {
        is_asked(&module(callee, &format!("(f64.convert_i64_s (call ${name} (local.get $p)))")), 7.0);
    }
}

/// The exponent of a float is piecewise constant; and the bits of one may go where they like.
#[test]
fn what_has_no_slope_is_not_asked() {
    let exponent = "(f64.convert_i64_s (i64.shr_u (i64.load (local.get $p)) (i64.const 52)))";
    let index = "(f64.convert_i32_s (i64.eqz (i64.load (local.get $p))))";
    for (result, slope) in [(exponent, 1023.0), (index, 0.0)] {
        for found in gradients(&module("", result), with(Ok(1.5))) {
            assert_eq!(found.unwrap_or_else(|e| panic!("{e}")), [0.0, slope]);
        }
    }
}

#[test]
fn second_derivatives_ask_too() {
    for (first, is_known) in [(Ok(1.5), false), (Err(7), true)] {
        let module = module("", NUMBER);
        let product = Hessian::new(&module, "f").unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let at = with(first)(&mut instance);
        let found = instance.product(&product, &[Val::I32(at as i32)], &[None], &[Val::F64(1.0)]);
        assert_eq!(found.is_ok(), is_known, "{found:?}");
    }
}

/// An integer that may be a float's bits.
const LARGE: i32 = 0x3fc0_0000;

/// What the program has stored itself: the module's function `f` of `x` and two numbers of words,
/// in whose memory are large integers. Of the gradient there is the part of `x`.
fn program(functions: &str, body: &str) -> impl Fn(i32, i32) -> Vec<Result<f64, Error>> + use<> {
    let text = format!(
        r#"(module (memory (export "memory") 1) (data (i32.const 1024) "\00\00\c0\3f\00\00\c0\3f\00\00\c0\3f\00\00\c0\3f")
            (global $sp (mut i32) (i32.const 65536)) {functions}
            (func (export "f") (param $x f32) (param $i i32) (param $j i32) (result f32)
                (local $p i32) (local $q i32) (local $n i32)
                (local.set $p (i32.add (i32.const 1024) (i32.shl (local.get $i) (i32.const 2))))
                (local.set $q (i32.add (i32.const 1024) (i32.shl (local.get $j) (i32.const 2))))
                {body}))"#
    );
    let module = Module::new(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    move |i, j| {
        let find = |mode: Mode, full: bool| {
            let effort = if full { Options::full().effort } else { options().effort };
            let options = Options { mode, effort, ..options() };
            let activities = [ValType::F32, ValType::I32, ValType::I32].map(default_activity);
            let gradient = Gradient::with_options(&module, "f", &activities, &options)?;
            let mut instance = Instance::new(&module)?;
            let args = [Val::F32(1.5), Val::I32(i), Val::I32(j)];
            let mut found = Vec::new();
            // Twice: what a run leaves in shadows is seen by the next one.
            for _ in 0..2 {
                instance.memory_mut()[1024..1040].copy_from_slice(&[LARGE.to_le_bytes(); 4].concat());
                let cts = if mode == Mode::Split {
                    let (_, mut pullback) = instance.forward(&gradient, &args)?;
                    instance.pullback(&mut pullback, &[Val::F32(1.0)])?
                } else {
                    instance.gradient(&gradient, &args, &[Val::F32(1.0)])?.cotangents
                };
                let Some(Val::F32(ct)) = cts[0] else { panic!("{cts:?}") };
                found.push(f64::from(ct));
            }
            assert_eq!(found[0], found[1]);
            Ok(found[0])
        };
        let modes = [Mode::Split, Mode::Combined, Mode::Gradient];
        modes.into_iter().flat_map(|mode| [find(mode, false), find(mode, true)]).collect()
    }
}

fn is_lost(found: Vec<Result<f64, Error>>) {
    for found in found {
        assert!(matches!(&found, Err(Error::Trap(t)) if t.code == "untracked_bits"), "{found:?}");
    }
}

fn is(found: Vec<Result<f64, Error>>, slope: f64) {
    for found in found {
        assert_eq!(found.unwrap_or_else(|e| panic!("{e}")), slope);
    }
}

const STORED: &str = "(f32.store (local.get $p) (local.get $x))";
const CONVERTED: &str = "(f32.mul (local.get $x) (f32.convert_i32_s (i32.load (local.get $q))))";

#[test]
fn floats_of_the_program_by_another_address() {
    let f = program("", &format!("{STORED} {CONVERTED}"));
    is_lost(f(1, 1));
    is(f(1, 2), f64::from(LARGE as f32));
}

#[test]
fn floats_that_another_function_has_stored() {
    let put = "(func $put (param $p i32) (param $x f32) (f32.store (local.get $p) (local.get $x)))
        (func $get (param $p i32) (result f32) (f32.convert_i32_s (i32.load (local.get $p))))";
    let call = "(call $put (local.get $p) (local.get $x)) (f32.mul (local.get $x) (call $get (local.get $q)))";
    let f = program(put, call);
    is_lost(f(0, 0));
    is(f(0, 1), f64::from(LARGE as f32));
}

#[test]
fn floats_that_were_copied() {
    let word = "(i32.store offset=64 (local.get $p) (i32.load (local.get $p)))";
    let block = "(memory.copy (i32.add (local.get $p) (i32.const 64)) (local.get $p) (i32.const 4))";
    let words = "(i64.store offset=64 (local.get $p) (i64.load (local.get $p)))";
    for copy in [word, block, words] {
        let f = program("", &format!("{STORED} {copy} {}", CONVERTED.replace("load", "load offset=64")));
        is_lost(f(1, 1));
        // An integer was copied.
        let g = program("", &format!("{copy} {}", CONVERTED.replace("load", "load offset=64")));
        is(g(1, 1), f64::from(LARGE as f32));
    }
}

#[test]
fn integers_where_a_float_was() {
    let over = "(i32.store (local.get $p) (i32.const 0x3fc00000))";
    let f = program("", &format!("{STORED} {over} {CONVERTED}"));
    is(f(1, 1), f64::from(LARGE as f32));
    let sum = "(i32.store (local.get $p) (i32.add (i32.load offset=4 (local.get $p)) (i32.const 1)))";
    let f = program("", &format!("{STORED} {sum} {CONVERTED}"));
    is(f(1, 1), f64::from((LARGE + 1) as f32));
    // What is computed from a float's bits is followed to where those were loaded.
    for computed in ["i32.add", "i32.shr_u"] {
        let bits = format!("(i32.store offset=4 (local.get $p) ({computed} (i32.load (local.get $p)) (i32.const 1)))");
        let put = format!("(func $put (param $p i32) {bits})");
        let f = program(&put, &format!("{STORED} (call $put (local.get $p)) {CONVERTED}"));
        is_lost(f(1, 2));
    }
}

/// A generator whose state is in memory, seeded by another function, as in C.
#[test]
fn generators_of_numbers() {
    let seed = "(func $seed (param $p i32) (local $k i32)
            (loop $next
                (i32.store (i32.add (local.get $p) (i32.shl (local.get $k) (i32.const 2)))
                    (i32.add (local.get $k) (i32.mul (i32.const 1812433253) (i32.xor (i32.load (local.get $p))
                        (i32.shr_u (i32.load (local.get $p)) (i32.const 30))))))
                (br_if $next (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 8)))))
        (func $next (param $p i32) (result f32) (local $s i32)
            (local.set $s (i32.add (i32.mul (i32.load (local.get $p)) (i32.const 1664525)) (i32.const 1013904223)))
            (i32.store (local.get $p) (local.get $s))
            (f32.mul (f32.convert_i32_u (local.get $s)) (f32.const 0x1p-32)))";
    let sum = "(f32.add (call $next (local.get $q)) (call $next (local.get $q)))";
    let body = format!(
        "(call $seed (local.get $q)) (local.set $p (i32.const 4096)) {STORED} (f32.mul (f32.load (local.get $p)) {sum})"
    );
    let f = program(seed, &body);
    let mut state: u32 = LARGE as u32;
    for k in 0..8u32 {
        // The first word is overwritten at once, with what the others are made of.
        let made = 1812433253u32.wrapping_mul(state ^ state >> 30).wrapping_add(k);
        state = if k == 0 { made } else { state };
    }
    let mut draw = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        state as f32 * f32::powi(2.0, -32)
    };
    let slope = draw() + draw();
    is(f(1, 2), f64::from(slope));
}

/// Functions that know of no float in memory, whose copies become numbers. Broken on purpose: if
/// the run did not ask what the host has put, the gradients would be zeros.
#[test]
fn floats_that_only_the_host_knows() {
    for copied in [
        "(i64.store (i32.const 64) (i64.load (local.get $p)))",
        "(i64.store (i32.const 64) (i64.and (i64.load (local.get $p)) (i64.const 0xffffffffffff)))",
        "(i32.store (i32.const 64) (i32.load (local.get $p)))
         (i32.store (i32.const 68) (i32.load offset=4 (local.get $p)))",
        "(memory.copy (i32.const 64) (local.get $p) (i32.const 8))",
    ] {
        let text = format!(
            r#"(module (memory (export "memory") 1)
                (func (export "f") (param $p i32) (result f64)
                    {copied} (f64.convert_i64_u (i64.load (i32.const 64)))))"#
        );
        let module = Module::new(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        for found in gradients(&module, with(Ok(1.7))) {
            assert!(matches!(&found, Err(Error::Trap(t)) if t.code == "untracked_bits"), "{copied}: {found:?}");
        }
        for found in gradients(&module, with(Err(7))) {
            assert_eq!(found.unwrap_or_else(|e| panic!("{copied}: {e}")), [0.0; 2], "{copied}");
        }
    }
}

/// The same, copied to where the original was: the run traps, since where both overlap is cleared.
/// Broken on purpose: without that the gradient is a zero.
#[test]
fn copies_that_overlap() {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "f") (param $p i32) (result f64)
            (memory.copy (i32.sub (local.get $p) (i32.const 8)) (local.get $p) (i32.const 24))
            (f64.convert_i64_u (i64.load (i32.sub (local.get $p) (i32.const 8))))))"#;
    let module = Module::new(text).unwrap();
    for found in gradients(&module, with(Ok(1.7))) {
        assert!(matches!(&found, Err(Error::Trap(t)) if t.code == "untracked_bits"), "{found:?}");
    }
    for found in gradients(&module, with(Err(7))) {
        assert_eq!(found.unwrap_or_else(|e| panic!("{e}")), [0.0; 2]);
    }
}

/// Functions that know of no float, and move what the host has put: by blocks the cotangents move
/// along; by words they do where floats are known, or the run says so. Seen to fail: where a block
/// copy in such a function was one of integers, the gradients were zeros.
#[test]
fn floats_of_the_host_that_are_only_moved() {
    let block = |callee: &str, call: &str| {
        format!(
            r#"(module (memory (export "memory") 1) {callee}
                (func (export "f") (param $p i32) (param $o i32) {call}))"#
        )
    };
    let copied = "(memory.copy (local.get $o) (local.get $p) (i32.const 16))";
    let callee = format!("(func $move (param $p i32) (param $o i32) {copied})");
    let two_copies = "(memory.copy (i32.const 64) (local.get $p) (i32.const 16))
                 (memory.copy (local.get $o) (i32.const 64) (i32.const 16))";
    let words = "(i64.store (local.get $o) (i64.load (local.get $p)))
                 (i64.store offset=8 (local.get $o) (i64.load offset=8 (local.get $p)))";
    for (text, known) in [
        (block("", copied), true),
        (block(&callee, "(call $move (local.get $p) (local.get $o))"), true),
        (block("", two_copies), true),
        (block("", words), false),
    ] {
        let module = Module::new(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        for split in [false, true] {
            let options = Options { mode: if split { Mode::Split } else { Mode::Combined }, ..options() };
            let found = || {
                let args = [default_activity(ValType::I32); 2];
                let gradient = Gradient::with_options(&module, "f", &args, &options)?;
                let mut instance = Instance::new(&module)?;
                let from = instance.alloc_f64(&[1.5, -2.0])?;
                let to = instance.alloc_f64(&[0.0, 0.0])?;
                instance.set_shadow_f64(to, &[3.0, 5.0])?;
                instance.set_shadow_f64(from, &[0.5, 0.25])?;
                let args = [Val::I32(from as i32), Val::I32(to as i32)];
                if split {
                    let (_, mut pullback) = instance.forward(&gradient, &args)?;
                    instance.pullback(&mut pullback, &[])?;
                } else {
                    instance.gradient(&gradient, &args, &[])?;
                }
                Ok::<_, Error>((instance.shadow_f64(from, 2)?, instance.shadow_f64(to, 2)?))
            };
            match found() {
                Ok(found) => assert_eq!(found, (vec![3.5, 5.25], vec![0.0, 0.0]), "{text}"),
                Err(Error::Trap(t)) => assert!(!known && t.code == "untracked_bits", "{t}\n{text}"),
                Err(e) => panic!("{e}\n{text}"),
            }
        }
    }
}
