//! Accesses at the end of memory: what lies after the last byte is the first one by 32-bit
//! arithmetic, if memory has all of its pages.

use brolga_wasm::brolga::{Effort, Mode, Options};
use brolga_wasm::{Error, Gradient, Instance, Module, Val, default_activity};

/// Two elements an iteration, each of which is multiplied with itself: both halves of an
/// iteration's reverse add to neighbours.
fn module(memory: &str) -> Module {
    let text = format!(
        r#"(module (memory (export "memory") {memory})
            (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
            (func (export "f") (param $x i32) (param $n i32) (result f64) (local $s f64)
                (loop $next
                    (local.set $s (f64.add (local.get $s) (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x)))))
                    (local.set $s (f64.add (local.get $s) (f64.mul
                        (f64.load (i32.add (local.get $x) (i32.const 8)))
                        (f64.load (i32.add (local.get $x) (i32.const 8))))))
                    (local.set $x (i32.add (local.get $x) (i32.const 16)))
                    (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (local.get $s)))"#
    );
    Module::new(text).unwrap()
}

fn gradients(module: &Module) -> Vec<Gradient> {
    let activity = [default_activity(brolga_wasm::ValType::I32); 2];
    let of = |mode| {
        let options = Options { mode, effort: Effort::Full, ..brolga_wasm::options() };
        Gradient::with_options(module, "f", &activity, &options).unwrap()
    };
    [Mode::Combined, Mode::Gradient].map(of).into()
}

#[test]
fn memories_grow_to_their_last_page() {
    for (memory, room) in [("0", 65536), ("1 65536", 65535), ("1 7", 6), ("65536", 0)] {
        let module = module(memory);
        let mut instance = Instance::new(&module).unwrap();
        let mut grow = |n| instance.call("grow", &[Val::I32(n)]).unwrap()[0];
        assert_eq!(grow(room + 1), Val::I32(-1), "{memory}");
        assert_ne!(grow(room), Val::I32(-1), "{memory}");
        assert_eq!(grow(1), Val::I32(-1), "{memory}");
    }
}

#[test]
fn neighbours_are_accessed_up_to_the_end() {
    let module = module("1");
    for gradient in gradients(&module) {
        let mut instance = Instance::new(&module).unwrap();
        let at = (1 << 16) - 32;
        instance.write_f64(at, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        let args = |at: u32, n| [Val::I32(at as i32), Val::I32(n)];
        for call in 1..3 {
            instance.gradient(&gradient, &args(at, 2), &[Val::F64(1.0)]).unwrap();
            let expected = [2.0, 4.0, 6.0, 8.0].map(|x| x * f64::from(call));
            assert_eq!(instance.shadow_f64(at, 4).unwrap(), expected);
        }
        // Past the end, and round to the first byte.
        for (at, n) in [(at, 3), (u32::MAX - 7, 1), (u32::MAX - 15, 2)] {
            let Err(Error::Trap(t)) = instance.gradient(&gradient, &args(at, n), &[Val::F64(1.0)]) else {
                panic!("no trap at {at}")
            };
            assert_eq!(t.code, "heap_oob", "{t}");
        }
    }
}

#[test]
fn with_all_pages_neighbours_may_be_at_both_ends() {
    let module = module("65536");
    for gradient in gradients(&module) {
        let mut instance = Instance::new(&module).unwrap();
        let last = u32::MAX - 7;
        instance.write_f64(last, &[3.0]).unwrap();
        instance.write_f64(0, &[5.0]).unwrap();
        let found = instance.gradient(&gradient, &[Val::I32(last as i32), Val::I32(1)], &[Val::F64(1.0)]).unwrap();
        assert!(found.values.is_empty() || found.values == [Val::F64(34.0)]);
        assert_eq!(instance.shadow_f64(last, 1).unwrap(), [6.0]);
        assert_eq!(instance.shadow_f64(0, 1).unwrap(), [10.0]);
    }
}
