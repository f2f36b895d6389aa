//! Integers of memory that become numbers by a conversion. Where the host has put floats, how the
//! number depends on the float is lost, and the run says so: a logarithm made of a float's bits is
//! such a program. Where integers are, there is no more to be known.
//!
//! Broken on purpose: without `brolga_expect_number` the gradients of floats are silent zeros;
//! without `Summaries::converts` those of `through_a_callee` are, and without
//! `Summaries::is_converted` those of `from_a_callee`.

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

/// Where a double lies behind something else: a float, or integers.
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
