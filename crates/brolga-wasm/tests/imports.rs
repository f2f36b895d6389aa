//! What becomes of imports that nothing provides, of those that Emscripten's library has, and of
//! what a library exports to be called first.

use brolga_wasm::{Error, Gradient, Imports, Instance, Module, ModuleOptions, Val};

#[test]
fn imports_that_nothing_provides_trap_when_they_are_called() {
    let text = r#"(module (import "./glue.js" "odd" (func $odd (param f64) (result f64)))
        (func (export "f") (param f64) (result f64)
            (if (result f64) (f64.lt (local.get 0) (f64.const 0)) (then (call $odd (local.get 0)))
                (else (f64.mul (local.get 0) (local.get 0))))))"#;
    let module = Module::new(text).unwrap();
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let mut instance = Instance::new(&module).unwrap();
    let found = instance.gradient(&gradient, &[Val::F64(3.0)], &[Val::F64(1.0)]).unwrap();
    assert_eq!(found.cotangents, [Some(Val::F64(6.0))]);
    for error in [
        instance.call("f", &[Val::F64(-3.0)]).map(|_| ()),
        instance.gradient(&gradient, &[Val::F64(-3.0)], &[Val::F64(1.0)]).map(|_| ()),
    ] {
        let Err(Error::Trap(trap)) = error else { panic!("{error:?}") };
        assert_eq!(trap.code, "missing_import");
        assert!(trap.to_string().contains("the import `odd` of `./glue.js`"), "{trap}");
    }
    let strict = ModuleOptions { imports: Imports::new().refuse_missing(), ..ModuleOptions::default() };
    assert!(matches!(Module::with_options(text, &strict), Err(Error::Imports(_))));
    // What an import is, an embedder can say.
    let options =
        ModuleOptions { imports: Imports::new().means("./glue.js", "odd", "exp"), ..ModuleOptions::default() };
    let module = Module::with_options(text, &options).unwrap();
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let found = Instance::new(&module).unwrap().gradient(&gradient, &[Val::F64(-3.0)], &[Val::F64(1.0)]).unwrap();
    assert_eq!(found.cotangents, [Some(Val::F64((-3.0_f64).exp()))]);
    // The value of a global would be made up.
    let global = r#"(module (import "env" "base" (global i32)))"#;
    assert!(matches!(Module::new(global), Err(Error::Imports(_))));
}

#[test]
fn libraries_are_initialised() {
    // Constructors of static objects are run by what the host has to call first, since nothing else
    // does.
    let text = |name: &str, more: &str| {
        format!(
            r#"(module (memory 1) (func $first (f64.store (i32.const 64) (f64.const 5)))
                (export "{name}" (func $first)) {more}
                (func (export "f") (param f64) (result f64) (f64.mul (local.get 0) (f64.load (i32.const 64)))))"#
        )
    };
    let value = |text: String| {
        let module = Module::new(text).unwrap();
        let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let found = instance.gradient(&gradient, &[Val::F64(2.0)], &[Val::F64(1.0)]).unwrap();
        (found.values, found.cotangents)
    };
    let of = |x: f64| (vec![Val::F64(2.0 * x)], vec![Some(Val::F64(x))]);
    assert_eq!(value(text("_initialize", "")), of(5.0));
    assert_eq!(value(text("__wasm_call_ctors", "")), of(5.0));
    // Emscripten's code may ask whether there is room on the stack, and traps if that has not been
    // said.
    let stack = r#"(global $sp (mut i32) (i32.const 0)) (global $limit (mut i32) (i32.const -1))
        (func (export "emscripten_stack_init") (global.set $sp (i32.const 4096)))
        (func (export "emscripten_stack_get_base") (result i32) (i32.const 4096))
        (func (export "emscripten_stack_get_end") (result i32) (i32.const 1024))
        (func (export "__set_stack_limits") (param i32 i32)
            (if (i32.lt_u (local.get 0) (local.get 1)) (then unreachable)) (global.set $limit (local.get 1)))
        (func (export "__wasm_call_ctors") (if (i32.lt_u (global.get $sp) (global.get $limit)) (then unreachable)) (call $first))"#;
    assert_eq!(value(text("first", stack)), of(5.0));
    // A program begins by itself.
    assert_eq!(value(text("_initialize", r#"(func (export "_start"))"#)), of(0.0));
    assert_eq!(value(text("other", "")), of(0.0));
}

#[test]
fn calls_as_emscripten_has_them() {
    let text = r#"(module (import "env" "invoke_did" (func $invoke (param i32 i32 f64) (result f64))) (table 2 funcref) (elem (i32.const 1) $power)
        (func $power (param $n i32) (param $x f64) (result f64) (local $p f64)
            (local.set $p (f64.const 1))
            (loop $l (local.set $p (f64.mul (local.get $p) (local.get $x)))
                (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $p))
        (func (export "f") (param i32 f64) (result f64) (call $invoke (local.get 0) (i32.const 3) (local.get 1))))"#;
    let module = Module::new(text).unwrap();
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let mut instance = Instance::new(&module).unwrap();
    let mut at = |n: i32| instance.gradient(&gradient, &[Val::I32(n), Val::F64(2.0)], &[Val::F64(1.0)]);
    let found = at(1).unwrap();
    assert_eq!((found.values, found.cotangents[1]), (vec![Val::F64(8.0)], Some(Val::F64(12.0))));
    assert!(matches!(at(0), Err(Error::Trap(t)) if t.code == "null_call"));
}

#[test]
fn files_as_emscripten_has_them() {
    // There are none, under whatever name the question comes; nor is there anything in the
    // environment.
    let text = r#"(module (import "env" "__syscall_openat" (func $open (param i32 i32 i32 i32) (result i32)))
        (import "a" "b" (func $stat (param i32 i32) (result i32))) (import "a" "c" (func $sizes (param i32 i32) (result i32)))
        (import "env" "__syscall_fcntl64" (func $control (param i32 i32 i32) (result i32))) (memory 1)
        (func (export "f") (result i32 i32 i32 i32) (i32.store (i32.const 8) (i32.const 7))
            (call $open (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (call $stat (i32.const 0) (i32.const 0))
            (call $control (i32.const 1) (i32.const 0) (i32.const 0))
            (i32.add (call $sizes (i32.const 8) (i32.const 12)) (i32.load (i32.const 8)))))"#;
    let imports = Imports::new().means("a", "b", "__syscall_stat64").means("a", "c", "environ_sizes_get");
    let module = Module::with_options(text, &ModuleOptions { imports, ..ModuleOptions::default() }).unwrap();
    let found = Instance::new(&module).unwrap().call("f", &[]).unwrap();
    assert_eq!(found, [-44, -44, -52, 0].map(Val::I32));
}

#[test]
fn memory_as_emscripten_has_it() {
    // A buffer of a page and a half after the memory that there is, filled, and copied by the
    // host.
    let text = |resize: &str, copy: &str| {
        format!(
            r#"(module (import {resize} (func $resize (param i32) (result i32)))
                (import {copy} (func $copy (param i32 i32 i32))) (memory 1 4)
                (func (export "f") (param $x f64) (result f64 i32 i32)
                    (drop (call $resize (i32.const 150000)))
                    (f64.store (i32.const 140000) (f64.mul (local.get $x) (local.get $x)))
                    (call $copy (i32.const 1024) (i32.const 139000) (i32.const 2000))
                    (f64.load (i32.const 2024)) (memory.size) (call $resize (i32.const 300000))))"#
        )
    };
    let found = |text: String, imports: Imports| {
        let module = Module::with_options(text, &ModuleOptions { imports, ..ModuleOptions::default() }).unwrap();
        let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let seeds = [Val::F64(1.0), Val::I32(0), Val::I32(0)];
        let found = instance.gradient(&gradient, &[Val::F64(3.0)], &seeds).unwrap();
        assert_eq!(found.values, [Val::F64(9.0), Val::I32(3), Val::I32(0)]);
        assert_eq!(found.cotangents, [Some(Val::F64(6.0))]);
    };
    found(text(r#""env" "emscripten_resize_heap""#, r#""env" "emscripten_memcpy_big""#), Imports::new());
    let short = Imports::new().means("a", "b", "emscripten_resize_heap").means("a", "c", "_emscripten_memcpy_js");
    found(text(r#""a" "b""#, r#""a" "c""#), short);
}
