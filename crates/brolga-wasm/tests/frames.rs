//! Variables in a frame, promoted to values: where another address leads into the frame, what lies
//! there is not what was stored, even if it is the same number.

use brolga_wasm::brolga::{Mode, Options};
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

fn gradient(name: &str, (x, p): (f64, i32), (mode, full): (Mode, bool)) -> Result<f64, Error> {
    let module = Module::new(FUNCTIONS).unwrap_or_else(|e| panic!("{e}"));
    let effort = if full { Options::full().effort } else { options().effort };
    let options = Options { mode, effort, ..options() };
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

#[test]
fn what_lies_there_is_read() {
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        for full in [false, true] {
            for (name, x, right) in [("double", 1.5, 1.5), ("same", 1.5, 1.5), ("paths", 1.5, 3.0), ("paths", 0.5, 5.0)]
            {
                let manner = (mode, full);
                assert_eq!(gradient(name, (x, 2048), manner).unwrap(), right, "{name} {manner:?}");
                // Into the frame, where it is read afterwards.
                match gradient(name, (x, 1016), manner) {
                    // Other last digits change no slope, another number does.
                    Ok(g) => assert_eq!(g, if name == "same" { 0.0 } else { right }, "{name} {manner:?}"),
                    Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits"),
                    Err(other) => panic!("{name} {manner:?}: {other:?}"),
                }
            }
        }
    }
}
