//! Clearing the shadow of an instance costs what was touched of it, however large its memory is.

#![cfg(target_os = "linux")]

use brolga_wasm::{Gradient, Instance, Module, Val};

/// Memory of 64 MiB, of which two places far apart are read.
const FAR: &str = r#"(module (memory (export "memory") 1024)
  (func (export "f") (param i32) (result f64)
    (f64.mul (f64.load (local.get 0)) (f64.load offset=33554432 (local.get 0)))))"#;

/// Pages that this thread has been given by the kernel.
fn faults() -> i64 {
    // SAFETY: all-zero bytes are a valid rusage, which the call fills.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_minflt
    }
}

#[test]
fn pages_that_were_touched_stay_and_are_zero() {
    let module = Module::new(FAR).unwrap();
    let gradient = Gradient::new(&module, "f").unwrap().settled();
    let mut instance = Instance::new(&module).unwrap();
    let places = [64, 64 + (32 << 20)];
    instance.write_f64(places[0], &[3.0]).unwrap();
    instance.write_f64(places[1], &[5.0]).unwrap();
    let turn = |instance: &mut Instance| {
        instance.clear_shadow();
        assert!(places.iter().all(|&p| instance.shadow_f64(p, 1).unwrap() == [0.0]));
        instance.gradient(&gradient, &[Val::I32(64)], &[Val::F64(1.0)]).unwrap();
        assert_eq!(places.map(|p| instance.shadow_f64(p, 1).unwrap()[0]), [5.0, 3.0]);
    };
    (0..4).for_each(|_| turn(&mut instance));
    let before = faults();
    (0..100).for_each(|_| turn(&mut instance));
    // Each turn touches two pages of the shadow.
    assert!(faults() - before < 50, "{} pages were given anew", faults() - before);
}

#[test]
fn much_that_was_touched_is_zero() {
    let module = Module::new(FAR).unwrap();
    let mut instance = Instance::new(&module).unwrap();
    instance.shadow_mut().fill(7);
    instance.clear_shadow();
    assert!(instance.shadow().iter().all(|&b| b == 0));
}
