//! Words and parts of words of which the program does not know that they are floats of the host's.

use brolga_wasm::brolga::{Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, Val, default_activity, options};

fn module(functions: &str) -> Module {
    let text = format!(r#"(module (memory (export "memory") 1) {functions})"#);
    Module::new(text).unwrap_or_else(|e| panic!("{e}"))
}

/// The gradient of a function of an address, with the seed 1, in one mode.
fn gradient(module: &Module, instance: &mut Instance, at: u32, (mode, full): (Mode, bool)) -> Result<(), Error> {
    let effort = if full { Options::full().effort } else { options().effort };
    let options = Options { mode, effort, ..options() };
    let gradient = Gradient::with_options(module, "f", &[default_activity(wasmparser::ValType::I32)], &options)?;
    let args = [Val::I32(at as i32)];
    if mode == Mode::Split {
        let (_, mut pullback) = instance.forward(&gradient, &args)?;
        return instance.pullback(&mut pullback, &[Val::F32(1.0)]).map(drop);
    }
    instance.gradient(&gradient, &args, &[Val::F32(1.0)]).map(drop)
}

const MANNERS: [(Mode, bool); 6] = [
    (Mode::Split, false),
    (Mode::Split, true),
    (Mode::Combined, false),
    (Mode::Combined, true),
    (Mode::Gradient, false),
    (Mode::Gradient, true),
];

/// Eight bytes are copied, by words; the program itself has singles.
const COPIES: &str = r#"(func (export "f") (param $p i32) (result f32)
    (i32.store offset=8 (local.get $p) (i32.load (local.get $p)))
    (i32.store offset=12 (local.get $p) (i32.load offset=4 (local.get $p)))
    (f32.load offset=16 (local.get $p)))"#;

#[test]
fn doubles_are_no_two_singles() {
    let module = module(COPIES);
    for manner in MANNERS {
        let mut instance = Instance::new(&module).unwrap();
        let at = instance.alloc_f64(&[1.5, 2.5, 0.0]).unwrap();
        instance.set_shadow_f64(at, &[1.0, -0.25, 0.0]).unwrap();
        match gradient(&module, &mut instance, at, manner) {
            Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits"),
            other => panic!("{manner:?}: {other:?}, {:?}", instance.shadow_f64(at, 3)),
        }
    }
}

#[test]
fn singles_are() {
    let module = module(COPIES);
    for manner in MANNERS {
        let mut instance = Instance::new(&module).unwrap();
        // Doubles elsewhere do not matter.
        let doubles = instance.alloc_f64(&[1.5, 2.5]).unwrap();
        let at = instance.alloc_f32(&[1.5, 2.5, 3.5, 4.5, 5.5, 6.5]).unwrap();
        instance.set_shadow_f64(doubles, &[1.0, -0.25]).unwrap();
        instance.set_shadow_f32(at, &[1.0, -0.25, 0.5, 2.0, 0.0, 0.0]).unwrap();
        gradient(&module, &mut instance, at, manner).unwrap_or_else(|e| panic!("{manner:?}: {e}"));
        assert_eq!(instance.shadow_f32(at, 6).unwrap(), [1.5, 1.75, 0.0, 0.0, 1.0, 0.0], "{manner:?}");
        assert_eq!(instance.shadow_f64(doubles, 2).unwrap(), [1.0, -0.25], "{manner:?}");
    }
}

/// The last byte of a single is a constant, and the others were computed from another one: all that
/// is not zero in its cotangent may be in the last.
#[test]
fn a_part_that_is_zero_is_a_part() {
    let module = module(
        r#"(func (export "f") (param $p i32) (result f32) (local $b i32)
            (i32.store8 offset=3 (local.get $p) (i32.const 63))
            (local.set $b (i32.load offset=4 (local.get $p)))
            (local.set $b (i32.sub (i32.or (local.get $b) (i32.const 0x800000)) (i32.and (local.get $b) (i32.const 63))))
            (i32.store8 (local.get $p) (local.get $b))
            (i32.store8 offset=1 (local.get $p) (i32.shr_u (local.get $b) (i32.const 8)))
            (i32.store8 offset=2 (local.get $p) (i32.shr_u (local.get $b) (i32.const 16)))
            (f32.load offset=8 (local.get $p)))"#,
    );
    for manner in MANNERS {
        let mut instance = Instance::new(&module).unwrap();
        let at = instance.alloc_f32(&[1.5, 2.5, 3.5]).unwrap();
        instance.set_shadow_f32(at, &[0.5, 0.0, 0.0]).unwrap();
        match gradient(&module, &mut instance, at, manner) {
            Err(Error::Trap(t)) => assert_eq!(t.code, "untracked_bits"),
            other => panic!("{manner:?}: {other:?}, {:?}", instance.shadow_f32(at, 3)),
        }
    }
}
