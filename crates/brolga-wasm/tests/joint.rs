//! Calls that run whole, in the reverse half, where memory is bounded by the module: although they
//! trap, and although globals are written after them.

use brolga_wasm::brolga::{Inline, Mode, Options};
use brolga_wasm::{Gradient, Instance, Module, Val, ValType, default_activity};

/// The sum of squares of an array, by halves, with a frame on C's stack around it. At the leaves
/// the callee traps where `n` is zero; `after` stands after the outer call.
fn module(after: &str) -> Module {
    let text = format!(
        r#"(module
            (memory (export "memory") 1)
            (global $sp (mut i32) (i32.const 1024))
            (global $calls (mut i32) (i32.const 0))
            (func $note (global.set $calls (i32.add (global.get $calls) (i32.const 1))))
            (func $halves (param $x i32) (param $n i32) (result f64) (local $m i32) (local $y f64)
                (if (i32.eqz (local.get $n)) (then unreachable))
                (if (result f64) (i32.gt_u (local.get $n) (i32.const 1))
                    (then
                        (local.set $m (i32.shr_u (local.get $n) (i32.const 1)))
                        (f64.add
                            (call $halves (local.get $x) (local.get $m))
                            (call $halves
                                (i32.add (local.get $x) (i32.shl (local.get $m) (i32.const 3)))
                                (i32.sub (local.get $n) (local.get $m)))))
                    (else
                        (local.set $y (f64.load (local.get $x)))
                        (f64.mul (local.get $y) (local.get $y)))))
            (func (export "f") (param $x i32) (param $n i32) (result f64) (local $s f64)
                (global.set $sp (i32.sub (global.get $sp) (i32.const 16)))
                (f64.store (global.get $sp) (f64.load (local.get $x)))
                (local.set $s (call $halves (local.get $x) (local.get $n)))
                (local.set $s (f64.add (local.get $s) (f64.load (global.get $sp))))
                {after}
                (global.set $sp (i32.add (global.get $sp) (i32.const 16)))
                (local.get $s)))"#
    );
    Module::new(text).unwrap()
}

fn gradient(module: &Module) -> Gradient {
    let activity = [default_activity(ValType::I32); 2];
    let options = Options { mode: Mode::Gradient, inline: Inline::Never, ..brolga_wasm::options() };
    Gradient::with_options(module, "f", &activity, &options).map(Gradient::settled).unwrap()
}

/// Whether something is left of the pair that the callee would be.
fn has_pairs(gradient: &Gradient) -> bool {
    gradient.rule().clif().0.contains("halves__pullback")
}

const ARRAY: u32 = 4096;
const X: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];

fn shadow(module: &Module, gradient: &Gradient) -> Vec<f64> {
    let mut instance = Instance::new(module).unwrap();
    instance.write_f64(ARRAY, &X).unwrap();
    let args = [Val::I32(ARRAY as i32), Val::I32(X.len() as i32)];
    instance.gradient(gradient, &args, &[Val::F64(1.0)]).unwrap();
    instance.shadow_f64(ARRAY, X.len()).unwrap()
}

/// `Σ xᵢ² + x[0]`.
const SLOPES: [f64; 5] = [3.0, 4.0, 6.0, 8.0, 10.0];

#[test]
fn globals_are_written_behind_them() {
    let module = module("");
    let gradient = gradient(&module);
    assert!(!has_pairs(&gradient), "{}", gradient.rule().clif().0);
    assert_eq!(shadow(&module, &gradient), SLOPES);
    // The trap of the callee is still there.
    let mut instance = Instance::new(&module).unwrap();
    let args = [Val::I32(ARRAY as i32), Val::I32(0)];
    instance.gradient(&gradient, &args, &[Val::F64(1.0)]).unwrap_err();
}

#[test]
fn what_they_read_is_written_behind_them() {
    let module = module("(f64.store (local.get $x) (f64.const 7))");
    let gradient = gradient(&module);
    assert!(has_pairs(&gradient), "{}", gradient.rule().clif().0);
    assert_eq!(shadow(&module, &gradient), SLOPES);
}

#[test]
fn functions_that_do_more_than_compute_are_called_behind_them() {
    let module = module("(call $note)");
    let gradient = gradient(&module);
    assert!(has_pairs(&gradient), "what may end the run is not called before the trap");
    assert_eq!(shadow(&module, &gradient), SLOPES);
}
