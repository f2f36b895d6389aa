//! Memory that the caller has said to be constant: what is read there has no cotangent, unless the
//! program may write there (`brolga_analysis::memory::constant`).

use brolga_wasm::brolga::{Mode, Options};
use brolga_wasm::{Gradient, Instance, Module, Val, default_activity, options};

/// A module with memory, and a function `f(p, t)` of two addresses.
fn module(functions: &str) -> Module {
    let text = format!(r#"(module (memory (export "memory") 1) {functions})"#);
    Module::new(text).unwrap_or_else(|e| panic!("{e}"))
}

/// The shadows of two arrays, of two floats each, after a gradient with the seed 1; `t` is
/// constant, and either may be apart from the other.
fn shadows(module: &Module, noalias: [bool; 2], mode: Mode, full: bool) -> (Vec<f64>, Vec<f64>) {
    let mut request = module.request("f", &[default_activity(wasmparser::ValType::I32); 2]).unwrap();
    request.args[2].promises.no_cotangent = true;
    request.args[1..].iter_mut().zip(noalias).for_each(|(a, noalias)| a.promises.noalias = noalias);
    let effort = if full { Options::full().effort } else { options().effort };
    let gradient = Gradient::with_request(module, &request, &Options { mode, effort, ..options() }).unwrap();
    let mut instance = Instance::new(module).unwrap();
    let p = instance.alloc_f64(&[3.0, 5.0]).unwrap();
    let t = instance.alloc_f64(&[7.0, 11.0]).unwrap();
    let args = [Val::I32(p as i32), Val::I32(t as i32)];
    for _ in 0..2 {
        instance.set_shadow_f64(p, &[0.25, 0.5]).unwrap();
        instance.set_shadow_f64(t, &[0.125, 1.0]).unwrap();
        if mode == Mode::Split {
            let (_, mut pullback) = instance.forward(&gradient, &args).unwrap();
            instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap();
        } else {
            instance.gradient(&gradient, &args, &[Val::F64(1.0)]).unwrap();
        }
        instance.write_f64(p, &[3.0, 5.0]).unwrap();
        instance.write_f64(t, &[7.0, 11.0]).unwrap();
    }
    (instance.shadow_f64(p, 2).unwrap(), instance.shadow_f64(t, 2).unwrap())
}

/// What is expected in every mode, with little effort and with all.
fn expect(functions: &str, noalias: [bool; 2], p: [f64; 2], t: [f64; 2]) {
    let module = module(functions);
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        for full in [false, true] {
            let found = shadows(&module, noalias, mode, full);
            assert_eq!(found, (p.to_vec(), t.to_vec()), "{mode:?}, {full}, {functions}");
        }
    }
}

const PRODUCT: &str = r#"(func (export "f") (param i32 i32) (result f64)
    (f64.mul (f64.load (local.get 0)) (f64.load (local.get 1))))"#;

#[test]
fn what_is_constant_has_no_cotangent() {
    expect(PRODUCT, [false; 2], [7.25, 0.5], [0.125, 1.0]);
}

/// A recursion is called, and not put into its caller.
#[test]
fn a_callee_knows() {
    let functions = r#"
        (func $sum (param $p i32) (param $n i32) (result f64)
            (if (result f64) (local.get $n)
                (then (f64.add (f64.load (local.get $p))
                               (call $sum (i32.add (local.get $p) (i32.const 8)) (i32.sub (local.get $n) (i32.const 1)))))
                (else (f64.const 0))))
        (func (export "f") (param i32 i32) (result f64)
            (f64.mul (call $sum (local.get 0) (i32.const 2)) (call $sum (local.get 1) (i32.const 2))))"#;
    // 8 * 18: the same function is derived for what is active, and for what is not.
    expect(functions, [false; 2], [18.25, 18.5], [0.125, 1.0]);
}

/// What is stored may be stored there: both arguments may be one array.
#[test]
fn what_may_be_written_keeps_its_cotangent() {
    let functions = r#"(func (export "f") (param i32 i32) (result f64)
        (f64.store offset=8 (local.get 0) (f64.load (local.get 0)))
        (f64.mul (f64.load (local.get 0)) (f64.load (local.get 1))))"#;
    // The shadow of what is overwritten is read, and cleared.
    expect(functions, [false; 2], [7.75, 0.0], [3.125, 1.0]);
    expect(functions, [false, true], [7.75, 0.0], [0.125, 1.0]);
}

#[test]
fn what_a_callee_may_write_keeps_its_cotangent() {
    let functions = r#"
        (func $put (param i32 f64) (f64.store (local.get 0) (local.get 1)))
        (func (export "f") (param i32 i32) (result f64)
            (call $put (local.get 1) (f64.mul (f64.load (local.get 0)) (f64.const 2)))
            (f64.mul (f64.load (local.get 0)) (f64.load (local.get 1))))"#;
    // 2 x x: the value goes through the constant array, and its cotangent comes back.
    expect(functions, [false; 2], [0.25 + 12.0 + 0.25, 0.5], [0.0, 1.0]);
    expect(functions, [true; 2], [0.25 + 12.0 + 0.25, 0.5], [0.0, 1.0]);
}

/// An address that may be another's is not that of a constant.
#[test]
fn an_address_that_may_be_another_keeps_its_cotangent() {
    let functions = r#"(func (export "f") (param i32 i32) (result f64)
        (f64.mul (f64.load (local.get 0))
                 (f64.load (select (local.get 0) (local.get 1) (i32.load8_u offset=6 (local.get 0))))))"#;
    // The byte is 8: the square of p[0].
    expect(functions, [false; 2], [6.25, 0.5], [0.125, 1.0]);
}
