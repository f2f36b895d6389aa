//! Gradients of small modules, against numbers worked out by hand and central differences.

use brolga_wasm::brolga::{ArgActivity, MemoryMode, Mode, Options, Promises};
use brolga_wasm::{
    Bounds, Error, Gradient, Imports, Instance, InstanceOptions, Module, ModuleOptions, Output, Val, default_activity,
};

/// Both ways of keeping memory in bounds.
fn modules(text: &str) -> Vec<Module> {
    [Bounds::Guard, Bounds::Checked]
        .map(|bounds| Module::with_options(text, &ModuleOptions { bounds, ..Default::default() }).unwrap())
        .to_vec()
}

/// The gradient by value and of `n` floats at the address that argument 0 is, called twice, on
/// shadows that are not zero.
fn gradient_of_buffer(module: &Module, name: &str, x: &[f64], rest: &[Val]) -> (f64, Vec<f64>) {
    let gradient = Gradient::split(module, name).map(Gradient::settled).unwrap();
    let mut instance = Instance::new(module).unwrap();
    let at = instance.alloc_f64(x).unwrap();
    let initial: Vec<f64> = (0..x.len()).map(|i| 0.5 + i as f64).collect();
    let args: Vec<Val> = [Val::I32(at as i32)].into_iter().chain(rest.iter().copied()).collect();
    let mut out = Vec::new();
    for _ in 0..2 {
        instance.clear_shadow();
        instance.write_f64(at, x).unwrap();
        instance.set_shadow_f64(at, &initial).unwrap();
        let (value, mut pullback) = instance.forward(&gradient, &args).unwrap();
        instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap();
        let shadow = instance.shadow_f64(at, x.len()).unwrap();
        let gradient: Vec<f64> = shadow.iter().zip(&initial).map(|(s, i)| s - i).collect();
        out.push((value[0].f64().unwrap(), gradient));
    }
    assert_eq!(out[0], out[1], "a second run differs");
    for mode in [Mode::Combined, Mode::Gradient] {
        let activity: Vec<_> = gradient.ty().params().iter().map(|t| default_activity(*t)).collect();
        let options = Options { mode, ..Options::full() };
        let combined = Gradient::with_options(module, name, &activity, &options).unwrap();
        for _ in 0..2 {
            let mut instance = Instance::new(module).unwrap();
            assert_eq!(instance.alloc_f64(x).unwrap(), at);
            instance.set_shadow_f64(at, &initial).unwrap();
            let found = instance.gradient(&combined, &args, &[Val::F64(1.0)]).unwrap();
            let shadow = instance.shadow_f64(at, x.len()).unwrap();
            let gradient: Vec<f64> = shadow.iter().zip(&initial).map(|(s, i)| s - i).collect();
            assert_eq!(gradient, out[0].1, "{mode:?}");
            let value: &[Val] = if mode == Mode::Gradient { &[] } else { &[Val::F64(out[0].0)] };
            assert_eq!(found.values, value, "{mode:?}");
            assert!(found.cotangents.iter().zip(&activity).all(|(c, a)| c.is_some() == (*a == ArgActivity::Active)));
        }
    }
    out.remove(0)
}

/// Central differences of the primal.
fn differences(module: &Module, name: &str, x: &[f64], rest: &[Val]) -> Vec<f64> {
    let at = |x: &[f64]| {
        let mut instance = Instance::new(module).unwrap();
        let p = instance.alloc_f64(x).unwrap();
        let args: Vec<Val> = [Val::I32(p as i32)].into_iter().chain(rest.iter().copied()).collect();
        instance.call(name, &args).unwrap()[0].f64().unwrap()
    };
    let h = 1e-6;
    (0..x.len())
        .map(|i| {
            let (mut a, mut b) = (x.to_vec(), x.to_vec());
            a[i] += h;
            b[i] -= h;
            (at(&a) - at(&b)) / (2.0 * h)
        })
        .collect()
}

#[track_caller]
fn close(a: &[f64], b: &[f64], tol: f64) {
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= tol * (1.0 + x.abs().max(y.abs())), "{a:?} is not {b:?}");
    }
}

#[test]
fn imported_mathematics() {
    for module in modules(
        r#"(module (import "env" "sin" (func $sin (param f64) (result f64)))
            (import "env" "pow" (func $pow (param f64 f64) (result f64)))
            (func (export "f") (param f64 f64) (result f64)
                (f64.mul (call $sin (local.get 0)) (call $pow (local.get 0) (local.get 1)))))"#,
    ) {
        let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let (x, y) = (1.3_f64, 2.5_f64);
        let args = [Val::F64(x), Val::F64(y)];
        let (value, mut pullback) = instance.forward(&gradient, &args).unwrap();
        assert_eq!(value, [Val::F64(x.sin() * x.powf(y))]);
        assert_eq!(value, instance.call("f", &args).unwrap());
        for seed in [1.0, -2.0] {
            let g = instance.pullback(&mut pullback, &[Val::F64(seed)]).unwrap();
            let g: Vec<f64> = g.iter().map(|v| v.unwrap().f64().unwrap()).collect();
            let want =
                [seed * (x.cos() * x.powf(y) + x.sin() * y * x.powf(y - 1.0)), seed * x.sin() * x.powf(y) * x.ln()];
            close(&g, &want, 1e-13);
        }
    }
}

#[test]
fn memory_is_overwritten_and_copied() {
    // y[i] = x[i]^2 in place, then a copy as integers, then a bulk copy, then a sum of products of
    // the copies.
    for module in modules(
        r#"(module (memory 1)
            (func (export "f") (param $x i32) (result f64)
                (f64.store (local.get $x) (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x))))
                (i64.store (i32.const 64) (i64.load (local.get $x)))
                (i64.store offset=8 (i32.const 64) (i64.load offset=8 (local.get $x)))
                (memory.copy (i32.const 128) (i32.const 64) (i32.const 16))
                (memory.fill (i32.const 64) (i32.const 0) (i32.const 8))
                (f64.add (f64.load (i32.const 64))
                    (f64.mul (f64.load (i32.const 128)) (f64.load offset=8 (i32.const 128))))))"#,
    ) {
        let (value, gradient) = gradient_of_buffer(&module, "f", &[3.0, 5.0], &[]);
        assert_eq!(value, 45.0);
        // The place of x[0] is overwritten, so its initial shadow, 0.5, is the cotangent of x[0]^2:
        // 0.5 * 6 + 5 * 6.
        assert_eq!(gradient, [33.0 - 0.5, 9.0]);
    }
}

#[test]
fn value_and_gradient_at_once() {
    let text = r#"(module (memory 1) (func (export "f") (param f64 i32) (result f64 i32)
        (f64.mul (local.get 0) (f64.load (local.get 1))) (local.get 1)))"#;
    let module = Module::new(text).unwrap();
    let (one, two) = (
        Gradient::new(&module, "f").map(Gradient::settled).unwrap(),
        Gradient::split(&module, "f").map(Gradient::settled).unwrap(),
    );
    assert_eq!((one.mode(), two.mode()), (Mode::Combined, Mode::Split));
    let mut instance = Instance::new(&module).unwrap();
    instance.write_f64(24, &[3.0]).unwrap();
    let (args, seeds) = ([Val::F64(5.0), Val::I32(24)], [Val::F64(2.0), Val::I32(0)]);
    // Of either kind; shadows accumulate.
    for (n, gradient) in [(1.0, &one), (2.0, &two)] {
        let found = instance.gradient(gradient, &args, &seeds).unwrap();
        assert_eq!(found.values, [Val::F64(15.0), Val::I32(24)]);
        assert_eq!(found.cotangents, [Some(Val::F64(6.0)), None]);
        assert_eq!(instance.shadow_f64(24, 1).unwrap(), [10.0 * n]);
    }
    let Err(Error::Usage(message)) = instance.forward(&one, &args) else { panic!("it is one function") };
    assert!(message.contains("Gradient::split"), "{message}");
    let Err(Error::Usage(message)) = instance.gradient(&one, &args, &seeds[..1]) else { panic!("a seed is missing") };
    assert_eq!(message, "1 seeds are given, 2 are wanted");
    let other = Module::new(text).unwrap();
    let Err(Error::Usage(_)) = Instance::new(&other).unwrap().gradient(&one, &args, &seeds) else {
        panic!("the gradient is of another module")
    };
    // Memory is as the program left it.
    let Err(Error::Trap(t)) = instance.gradient(&one, &[Val::F64(1.0), Val::I32(-1)], &seeds) else {
        panic!("no trap")
    };
    assert_eq!(t.code, "heap_oob");
}

#[test]
fn copies_where_memory_holds_singles_and_doubles() {
    // What is copied is known when it runs only: doubles, then singles. The sum of squares of the
    // copies.
    let text = |rest: &str| {
        format!(
            r#"(module (memory 1)
                (func (export "f") (param $x i32) (param $n i32) (result f64)
                    (memory.copy (i32.const 1024) (local.get $x) (local.get $n))
                    (f64.add (f64.mul (f64.load (i32.const 1024)) (f64.load (i32.const 1024)))
                        (f64.promote_f32 (f32.mul (f32.load (i32.const 1032)) (f32.load (i32.const 1036))))) {rest}))"#
        )
    };
    let run = |module: &Module, mode, said: bool| {
        let options = Options { mode, ..Options::full() };
        let gradient = Gradient::with_options(module, "f", &[ArgActivity::Const; 2], &options).unwrap();
        let mut instance = Instance::new(module).unwrap();
        instance.write_f64(64, &[3.0]).unwrap();
        instance.write_f32(72, &[0.5, 1.5]).unwrap();
        if !said {
            instance.declare_floats(64, 16, 0).unwrap();
        }
        let found = instance.gradient(&gradient, &[Val::I32(64), Val::I32(16)], &[Val::F64(1.0)])?;
        let shadow = instance.shadow()[64..80].to_vec();
        Ok::<_, Error>((found.values, shadow))
    };
    for module in modules(&text("")) {
        for (mode, said) in [(Mode::Split, false), (Mode::Split, true), (Mode::Combined, false), (Mode::Combined, true)]
        {
            let (values, shadow) = run(&module, mode, said).unwrap();
            assert_eq!(values, [Val::F64(9.75)]);
            let single = |at: usize| f32::from_le_bytes(shadow[at..at + 4].try_into().unwrap());
            assert_eq!(shadow[..8], 6.0f64.to_le_bytes());
            assert_eq!((single(8), single(12)), (1.5, 0.5));
            let mut instance = Instance::new(&module).unwrap();
            instance.write_f32(72, &[0.5, 1.5]).unwrap();
            assert_eq!(instance.read_f32(72, 2).unwrap(), [0.5, 1.5]);
        }
    }
    // The source is used as well, so two cotangents meet, and only the host can know what they are.
    for module in modules(&text("(f64.add (f64.load (local.get $x)))")) {
        assert_eq!(run(&module, Mode::Combined, true).unwrap().1[..8], 7.0f64.to_le_bytes());
        let Err(Error::Trap(t)) = run(&module, Mode::Combined, false) else { panic!("what is added is not known") };
        assert_eq!(t.code, "untracked_bits");
        assert!(t.to_string().contains("moved in pieces"), "{t}");
    }
}

#[test]
fn copies_from_the_middle_of_a_double() {
    // A struct of a number and a double, copied from the number on, 12 bytes: the double begins at
    // the fourth.
    for module in modules(
        r#"(module (memory 1)
            (func (export "f") (param $x i32) (param $n i32) (result f64)
                (memory.copy (i32.const 1028) (i32.sub (local.get $x) (i32.const 4)) (local.get $n))
                (f64.mul (f64.load (i32.const 1032)) (f64.load (i32.const 1032)))))"#,
    ) {
        assert_eq!(gradient_of_buffer(&module, "f", &[3.0], &[Val::I32(12)]).0, 9.0);
    }
}

#[test]
fn scratch_memory_is_restored() {
    // A square root that keeps what it has found in memory: by its name and its values it is C's.
    let text = r#"(module (memory 1)
        (func $sqrt (export "sqrt") (param f64) (result f64)
            (f64.store (i32.const 256) (f64.sqrt (local.get 0))) (f64.load (i32.const 256)))
        (func (export "f") (param f64) (result f64)
            (f64.mul (call $sqrt (local.get 0)) (call $sqrt (f64.mul (f64.const 4) (local.get 0))))))"#;
    let module = Module::new(text).unwrap();
    assert_eq!(module.program().funcs[module.function("sqrt").unwrap().0].computes, Some("sqrt"));
    for (memory, after) in [(MemoryMode::Leave, 6.0), (MemoryMode::Restore, 7.0)] {
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            let options = Options { mode, memory, ..Options::full() };
            let gradient = Gradient::with_options(&module, "f", &[ArgActivity::Active], &options).unwrap();
            let mut instance = Instance::new(&module).unwrap();
            instance.write_f64(256, &[7.0]).unwrap();
            let found = instance.gradient(&gradient, &[Val::F64(9.0)], &[Val::F64(1.0)]).unwrap();
            assert_eq!(found.cotangents, [Some(Val::F64(2.0))]);
            assert_eq!(instance.read_f64(256, 1).unwrap(), [after], "{mode:?}, {memory:?}");
        }
    }
}

#[test]
fn globals_keep_cotangents() {
    for module in modules(
        r#"(module (memory 1) (global $acc (export "acc") (mut f64) (f64.const 2))
            (global (export "c") i32 (i32.const 5))
            (func (export "f") (param $x i32) (param $n i32) (result f64)
                (loop $next
                    (global.set $acc (f64.mul (global.get $acc) (f64.load (local.get $x))))
                    (local.set $x (i32.add (local.get $x) (i32.const 8)))
                    (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (global.get $acc)))"#,
    ) {
        let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let x = instance.alloc_f64(&[3.0, 5.0, 7.0]).unwrap();
        let (value, mut pullback) = instance.forward(&gradient, &[Val::I32(x as i32), Val::I32(3)]).unwrap();
        assert_eq!(value, [Val::F64(210.0)]);
        instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap();
        assert_eq!(instance.shadow_f64(x, 3).unwrap(), [70.0, 42.0, 30.0]);
        assert_eq!(instance.global_shadow("acc").unwrap(), Val::F64(105.0));
        assert_eq!(instance.global("acc").unwrap(), Val::F64(210.0));
        instance.set_global("acc", Val::F64(-1.0)).unwrap();
        assert_eq!(instance.call("f", &[Val::I32(x as i32), Val::I32(2)]).unwrap(), [Val::F64(-15.0)]);
        for (name, value) in [("acc", Val::F32(1.0)), ("other", Val::F64(1.0)), ("c", Val::I32(1))] {
            assert!(instance.set_global(name, value).is_err(), "{name}");
        }
    }
}

#[test]
fn tables_select_functions() {
    for module in modules(
        r#"(module (memory 1) (type $f (func (param f64) (result f64)))
            (table 4 funcref) (elem (i32.const 0) $square $cube) (elem (i32.const 3) $other)
            (func $square (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
            (func $cube (param f64) (result f64)
                (f64.mul (local.get 0) (call_indirect (type $f) (local.get 0) (i32.const 0))))
            (func $other (result f64) (f64.const 1))
            (func (export "f") (param $x i32) (param $which i32) (result f64)
                (call_indirect (type $f) (f64.load (local.get $x)) (local.get $which))))"#,
    ) {
        assert_eq!(gradient_of_buffer(&module, "f", &[3.0], &[Val::I32(0)]), (9.0, vec![6.0]));
        assert_eq!(gradient_of_buffer(&module, "f", &[3.0], &[Val::I32(1)]), (27.0, vec![27.0]));
        let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        for (which, want) in [(2, "null_call"), (3, "bad_signature"), (4, "table_oob"), (-1, "table_oob")] {
            let args = [Val::I32(0), Val::I32(which)];
            let Err(Error::Trap(t)) = instance.call("f", &args) else { panic!("no trap") };
            assert_eq!(t.code, want);
            let Err(Error::Trap(t)) = instance.forward(&gradient, &args) else { panic!("no trap") };
            assert_eq!(t.code, want);
        }
    }
}

#[test]
fn memory_grows_with_its_shadow() {
    for module in modules(
        r#"(module (memory (export "memory") 1 3)
            (func (export "f") (param $x i32) (result f64) (local $old i32)
                (local.set $old (i32.mul (memory.grow (i32.const 1)) (i32.const 65536)))
                (f64.store (local.get $old) (f64.mul (f64.load (local.get $x)) (f64.const 3)))
                (f64.mul (f64.load (local.get $old)) (f64.load (local.get $x))))
            (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
            (func (export "load") (param i32) (result f64) (f64.load (local.get 0))))"#,
    ) {
        let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        instance.write_f64(16, &[2.0]).unwrap();
        let (value, mut pullback) = instance.forward(&gradient, &[Val::I32(16)]).unwrap();
        assert_eq!(value, [Val::F64(12.0)]);
        instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap();
        assert_eq!(instance.shadow_f64(16, 1).unwrap(), [12.0]);
        assert_eq!(instance.memory_size(), 2 << 16);
        assert_eq!(instance.call("grow", &[Val::I32(5)]).unwrap(), [Val::I32(-1)]);
        assert_eq!(instance.call("grow", &[Val::I32(1)]).unwrap(), [Val::I32(2)]);
        for at in [(3 << 16) - 7, 3 << 16, i32::MAX, -1] {
            let Err(Error::Trap(t)) = instance.call("load", &[Val::I32(at)]) else { panic!("no trap") };
            assert_eq!(t.code, "heap_oob", "{t}");
        }
        assert_eq!(instance.call("load", &[Val::I32((3 << 16) - 8)]).unwrap(), [Val::F64(0.0)]);
    }
}

#[test]
fn loops_and_branches_against_differences() {
    // Horner's rule with a br_table that picks what happens to each coefficient, and a block with
    // two results.
    for module in modules(
        r#"(module (memory 1)
            (func (export "f") (param $x i32) (param $n i32) (param $t f64) (result f64) (local $s f64) (local $i i32)
                (loop $next
                    (block $done (block $c (block $b (block $a
                        (br_table $a $b $c (i32.rem_u (local.get $i) (i32.const 3))))
                        (local.set $s (f64.add (f64.mul (local.get $s) (local.get $t)) (f64.load (local.get $x))))
                        (br $done))
                        (local.set $s (f64.sub (f64.sqrt (f64.abs (local.get $s))) (f64.load (local.get $x))))
                        (br $done))
                        (block (result f64 f64)
                            (f64.load (local.get $x)) (local.get $s)
                            (br_if 0 (i32.and (local.get $i) (i32.const 4)))
                            (drop) (f64.const 1.5))
                        (local.set $s (f64.max)))
                    (local.set $x (i32.add (local.get $x) (i32.const 8)))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $next (i32.lt_u (local.get $i) (local.get $n))))
                (local.get $s)))"#,
    ) {
        let x = [0.7, -0.3, 2.9, 0.4, -1.1, 0.9, 0.8, 1.7];
        let rest = [Val::I32(8), Val::F64(0.6)];
        let (value, gradient) = gradient_of_buffer(&module, "f", &x, &rest);
        assert!(value.is_finite());
        close(&gradient, &differences(&module, "f", &x, &rest), 1e-7);
        assert!(gradient.iter().any(|g| *g != 0.0));
    }
}

#[test]
fn fuel_ends_what_does_not_end() {
    let text = r#"(module (func (export "f") (param f64) (result f64)
        (loop (br_if 0 (f64.gt (local.get 0) (f64.const 0)))) (local.get 0)))"#;
    let module = Module::with_options(text, &ModuleOptions { fuel: true, ..Default::default() }).unwrap();
    let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
    let mut instance = Instance::new(&module).unwrap();
    instance.set_fuel(10_000);
    let Err(Error::Trap(t)) = instance.call("f", &[Val::F64(1.0)]) else { panic!("it ends") };
    assert_eq!(t.code, "no_fuel");
    let Err(Error::Trap(t)) = instance.forward(&gradient, &[Val::F64(1.0)]) else { panic!("it ends") };
    assert_eq!(t.code, "no_fuel");
    for mode in [Mode::Combined, Mode::Gradient] {
        let options = Options { mode, ..Options::full() };
        let combined = Gradient::with_options(&module, "f", &[ArgActivity::Active], &options).unwrap();
        let Err(Error::Trap(t)) = instance.gradient(&combined, &[Val::F64(1.0)], &[Val::F64(1.0)]) else {
            panic!("it ends")
        };
        assert_eq!(t.code, "no_fuel");
    }
    assert_eq!(instance.call("f", &[Val::F64(-1.0)]).unwrap(), [Val::F64(-1.0)]);
}

#[test]
fn instances_in_threads() {
    let module = Module::new(
        r#"(module (memory 1) (func (export "f") (param $x i32) (result f64)
            (f64.store offset=8 (local.get $x) (f64.mul (f64.load (local.get $x)) (f64.load (local.get $x))))
            (f64.mul (f64.load offset=8 (local.get $x)) (f64.load (local.get $x)))))"#,
    )
    .unwrap();
    let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
    std::thread::scope(|s| {
        for i in 1..=4 {
            let (module, gradient) = (&module, &gradient);
            s.spawn(move || {
                let mut instance = Instance::new(module).unwrap();
                for step in 0..100 {
                    let x = f64::from(i) + f64::from(step) / 128.0;
                    instance.write_f64(0, &[x]).unwrap();
                    instance.clear_shadow();
                    let (value, mut pullback) = instance.forward(gradient, &[Val::I32(0)]).unwrap();
                    assert_eq!(value, [Val::F64(x * x * x)]);
                    instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap();
                    assert_eq!(instance.shadow_f64(0, 1).unwrap(), [2.0 * x * x + x * x]);
                }
            });
        }
    });
}

#[test]
fn wasi_output_and_exit() {
    let module = Module::new(
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory 1) (data (i32.const 32) "hello")
            (func (export "f") (param $x f64) (result f64)
                (i32.store (i32.const 0) (i32.const 32)) (i32.store (i32.const 4) (i32.const 5))
                (f64.store (i32.const 64) (local.get $x))
                (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)) (then (unreachable)))
                (if (f64.lt (local.get $x) (f64.const 0)) (then (call $exit (i32.const 3))))
                (f64.mul (f64.load (i32.const 64)) (f64.convert_i32_s (i32.load (i32.const 8))))))"#,
    )
    .unwrap();
    let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
    let options = InstanceOptions { output: Output::Keep, ..InstanceOptions::default() };
    let mut instance = Instance::with_options(&module, &options).unwrap();
    let (value, mut pullback) = instance.forward(&gradient, &[Val::F64(1.5)]).unwrap();
    assert_eq!((value, instance.output()), (vec![Val::F64(7.5)], b"hello".to_vec()));
    assert_eq!(instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap(), [Some(Val::F64(5.0))]);
    assert!(matches!(instance.call("f", &[Val::F64(-1.0)]), Err(Error::Exit(3))));
    assert!(matches!(instance.forward(&gradient, &[Val::F64(-1.0)]), Err(Error::Exit(3))));
    let combined = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let exit = instance.gradient(&combined, &[Val::F64(-1.0)], &[Val::F64(1.0)]);
    assert!(matches!(exit, Err(Error::Exit(3))));
    let missing = r#"(module (import "host" "f" (func (param f64))) (import "env" "memset2" (func)))"#;
    let options = ModuleOptions { imports: Imports::new().refuse_missing(), ..ModuleOptions::default() };
    let Err(Error::Imports(names)) = Module::with_options(missing, &options) else { panic!("nothing provides these") };
    assert_eq!(names.len(), 2);
}

#[test]
fn wasi_without_files() {
    // Opening, renaming and reading fail as they do where nothing was given; what the standard
    // streams are is said.
    let module = Module::new(
        r#"(module (import "wasi_snapshot_preview1" "path_open"
                (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_pread" (func $pread (param i32 i32 i32 i64 i32) (result i32)))
            (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fdstat (param i32 i32) (result i32)))
            (memory 1)
            (func (export "f") (param $x f64) (result f64)
                (f64.store (i32.const 64) (local.get $x)) (f64.store (i32.const 128) (local.get $x))
                (drop (call $stat (i32.const 1) (i32.const 64)))
                (f64.mul (f64.add (f64.load (i32.const 64)) (f64.load (i32.const 128)))
                    (f64.convert_i32_s (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                        (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0)))))
            (func (export "answers") (result i32 i32 i32 i32 i32 i32)
                (call $pread (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 0))
                (call $poll (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
                (call $stat (i32.const 3) (i32.const 256))
                (call $stat (i32.const 2) (i32.const 256)) (i32.load8_u (i32.const 272))
                (call $fdstat (i32.const 3) (i32.const 256))))"#,
    )
    .unwrap();
    let mut instance = Instance::new(&module).unwrap();
    let answers = instance.call("answers", &[]).unwrap();
    assert_eq!(answers, [70, 58, 8, 0, 2, 8].map(Val::I32));
    // What is written over a float cuts its derivative.
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let found = instance.gradient(&gradient, &[Val::F64(1.5)], &[Val::F64(1.0)]).unwrap();
    assert_eq!((found.values, found.cotangents), (vec![Val::F64(12.0)], vec![Some(Val::F64(8.0))]));
    // A function of another type is none of WASI's.
    let other = r#"(module (import "wasi_snapshot_preview1" "path_open" (func (param f64))))"#;
    let options = ModuleOptions { imports: Imports::new().refuse_missing(), ..ModuleOptions::default() };
    assert!(matches!(Module::with_options(other, &options), Err(Error::Imports(_))));
}

#[test]
fn a_number_may_be_given_a_derivative() {
    // x rounded to an integer, with the derivative of its square; and the same without any.
    let module = Module::new(
        r#"(module (import "env" "brolga_with_value" (func $with (param f64 f64) (result f64)))
            (func (export "f") (param f64) (result f64)
                (f64.add (call $with (f64.mul (local.get 0) (local.get 0)) (f64.nearest (local.get 0)))
                    (call $with (f64.const 0) (local.get 0)))))"#,
    )
    .unwrap();
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let found = Instance::new(&module).unwrap().gradient(&gradient, &[Val::F64(2.75)], &[Val::F64(2.0)]).unwrap();
    assert_eq!((found.values, found.cotangents), (vec![Val::F64(5.75)], vec![Some(Val::F64(11.0))]));
}

#[test]
fn records_of_fraction_and_exponent() {
    // As Zig takes numbers apart: (x / 2^e) e, and what is called so and is not.
    let text = |least: i64| {
        format!(
            r#"(module (memory 1) (func $frexp (@name "math.frexp.frexp__func_1") (param $to i32) (param $x f64)
                (local $bits i64)
                (local.set $bits (i64.reinterpret_f64 (local.get $x)))
                (f64.store (local.get $to) (local.get $x)) (i32.store offset=8 (local.get $to) (i32.const 0))
                (if (f64.ne (local.get $x) (f64.const 0)) (then
                    (f64.store (local.get $to) (f64.reinterpret_i64 (i64.or (i64.const 0x3fe0000000000000)
                        (i64.and (local.get $bits) (i64.const 0x800fffffffffffff)))))
                    (i32.store offset=8 (local.get $to) (i32.wrap_i64 (i64.sub (i64.and (i64.const 0x7ff)
                        (i64.shr_u (local.get $bits) (i64.const 52))) (i64.const {least})))))))
            (func (export "f") (param f64) (result f64)
                (call $frexp (i32.const 64) (local.get 0))
                (f64.mul (f64.load (i32.const 64)) (f64.convert_i32_s (i32.load (i32.const 72))))))"#
        )
    };
    let module = Module::new(text(1022)).unwrap();
    assert!(module.program().funcs.values().any(|f| f.untracked));
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let found = Instance::new(&module).unwrap().gradient(&gradient, &[Val::F64(-12.0)], &[Val::F64(1.0)]).unwrap();
    assert_eq!((found.values, found.cotangents), (vec![Val::F64(-3.0)], vec![Some(Val::F64(0.25))]));
    let other = Module::new(text(1023)).unwrap();
    assert!(other.program().funcs.values().all(|f| !f.untracked));
    // x = -0.75 2^4, of which it says 3, by itself.
    let gradient = Gradient::new(&other, "f").map(Gradient::settled).unwrap();
    let found = Instance::new(&other).unwrap().gradient(&gradient, &[Val::F64(-12.0)], &[Val::F64(1.0)]).unwrap();
    assert_eq!((found.values, found.cotangents), (vec![Val::F64(-2.25)], vec![Some(Val::F64(0.1875))]));
}

#[test]
fn long_doubles_are_believed_if_they_are_right() {
    // Both take the upper word for the double itself, which is right for zero only; and an
    // exponential function that returns its operand, a comparison of lower words, and an integer
    // that stays one.
    let module = Module::new(
        r#"(module (memory 1)
            (func $__trunctfdf2 (export "__trunctfdf2") (param i64 i64) (result f64) (f64.reinterpret_i64 (local.get 1)))
            (func $__extenddftf2 (export "__extenddftf2") (param i32 f64)
                (i64.store (local.get 0) (i64.const 0))
                (i64.store offset=8 (local.get 0) (i64.reinterpret_f64 (local.get 1))))
            (func (export "__eqtf2") (param i64 i64 i64 i64) (result i32) (i64.eq (local.get 0) (local.get 2)))
            (func (export "__floatsitf") (param i32 i32)
                (i64.store offset=8 (local.get 0) (i64.extend_i32_s (local.get 1))))
            (func $cexp (export "cexp") (param i32 i32)
                (f64.store (local.get 0) (f64.load (local.get 1)))
                (f64.store offset=8 (local.get 0) (f64.const 0)))
            (func (export "f") (param f64) (result f64)
                (call $__extenddftf2 (i32.const 64) (local.get 0))
                (call $__trunctfdf2 (i64.load (i32.const 64)) (i64.load (i32.const 72)))))"#,
    )
    .unwrap();
    let program = module.program();
    assert!(program.funcs.values().all(|f| !f.untracked && !f.symbol.ends_with(".own")));
    // What they are is then plain code.
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let found = Instance::new(&module).unwrap().gradient(&gradient, &[Val::F64(3.0)], &[Val::F64(1.0)]).unwrap();
    assert_eq!(found.cotangents, [Some(Val::F64(1.0))]);
}

#[test]
fn what_is_called_for_its_value_only_is_left_to_the_run() {
    let read = |name: &str| std::fs::read(format!("../../ir-tests/wasm/O2/{name}.wasm")).unwrap();
    let untracked = |module: &Module, symbol: &str| {
        let program = module.program();
        program.funcs.values().find(|f| f.symbol == symbol).map(|f| f.untracked)
    };
    let waves = Module::new(read("waves")).unwrap();
    assert_eq!(untracked(&waves, "cexp"), Some(false));
    assert_eq!(untracked(&waves, "cexp.own"), Some(true));
    // Called by `cexp.own` and its like alone; `exp.wasm` is known, and called by others, too.
    assert_eq!(untracked(&waves, "__ldexp_cexp"), Some(true));
    let precise = Module::new(read("precise")).unwrap();
    for name in
        ["__addtf3", "__multf3", "__trunctfsf2", "__floatsitf", "expl", "powl", "frexpl", "modfl", "fmal", "scalbnl"]
    {
        assert_eq!(untracked(&precise, &format!("{name}.own")), Some(true), "{name}");
    }
}

#[test]
fn mathematics_that_does_not_end_is_no_mathematics() {
    let text = r#"(module (func $exp (export "exp") (param f64) (result f64)
        (loop (br_if 0 (f64.gt (local.get 0) (f64.const 0)))) (local.get 0)))"#;
    let module = Module::new(text).unwrap();
    assert_eq!(module.program().funcs[module.function("exp").unwrap().0].computes, None);
    let mut instance = Instance::new(&module).unwrap();
    assert_eq!(instance.call("exp", &[Val::F64(-1.0)]).unwrap(), [Val::F64(-1.0)]);
}

#[test]
fn mathematics_in_the_module_keeps_its_values() {
    // An `exp` of its own by a series: it agrees with C's where it is tried only if it is good
    // everywhere, and this is not. One called `sqrt` that is right is taken for C's.
    let module = Module::new(
        r#"(module (func $exp (export "exp") (param f64) (result f64) (f64.add (f64.const 1) (local.get 0)))
            (func $sqrt (export "sqrt") (param f64) (result f64) (f64.sqrt (local.get 0)))
            (func (export "f") (param f64) (result f64) (f64.add (call $exp (local.get 0)) (call $sqrt (local.get 0)))))"#,
    )
    .unwrap();
    let computes = |name: &str| module.program().funcs[module.function(name).unwrap().0].computes;
    assert_eq!((computes("exp"), computes("sqrt")), (None, Some("sqrt")));
    let gradient = Gradient::split(&module, "f").map(Gradient::settled).unwrap();
    let mut instance = Instance::new(&module).unwrap();
    let (value, mut pullback) = instance.forward(&gradient, &[Val::F64(4.0)]).unwrap();
    assert_eq!(value, [Val::F64(7.0)]);
    assert_eq!(instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap(), [Some(Val::F64(1.25))]);
}

#[test]
fn mathematics_of_three_operands() {
    // Of bits that integer arithmetic has touched nothing is known but what the name says.
    let touched = |bits: u32| {
        format!(
            r#"(module (func $fma (export "fma") (param f{bits} f{bits} f{bits}) (result f{bits})
                (f{bits}.reinterpret_i{bits} (i{bits}.xor (i{bits}.const -1) (i{bits}.xor (i{bits}.const -1)
                    (i{bits}.reinterpret_f{bits} (f{bits}.add (f{bits}.mul (local.get 0) (local.get 1)) (local.get 2)))))))
                (func (export "f") (param f{bits} f{bits}) (result f{bits})
                    (call $fma (local.get 0) (local.get 1) (local.get 0))))"#
        )
    };
    let gradient = |text: &str, args: [Val; 2], seed: Val| {
        let module = Module::new(text).unwrap();
        let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
        Instance::new(&module).unwrap().gradient(&gradient, &args, &[seed]).unwrap().cotangents
    };
    let (x, y) = (3.0, 5.0);
    let found = gradient(&touched(64), [Val::F64(x), Val::F64(y)], Val::F64(1.0));
    assert_eq!(found, [Some(Val::F64(6.0)), Some(Val::F64(3.0))]);
    let text = touched(32).replace("$fma", "$fmaf").replace("\"fma\"", "\"fmaf\"");
    let found = gradient(&text, [Val::F32(x as f32), Val::F32(y as f32)], Val::F32(1.0));
    assert_eq!(found, [Some(Val::F32(6.0)), Some(Val::F32(3.0))]);
    // Another function of that name.
    let module = Module::new(touched(64).replace("f64.add (f64.mul", "f64.sub (f64.mul")).unwrap();
    let activity = [ArgActivity::Active; 2];
    assert!(matches!(Gradient::with_options(&module, "f", &activity, &Options::full()), Err(Error::Diagnostics(_))));
    // If nothing else is asked for, the run finds it.
    let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
    let args = [Val::F64(x), Val::F64(y)];
    assert!(Instance::new(&module).unwrap().gradient(&gradient, &args, &[Val::F64(1.0)]).is_err());
}

/// `y[i] = x[i]²`, and back again, for `n` floats: what is read of one is overwritten by way of the
/// other, unless they are said to be apart.
const SQUARES: &str = r#"(module (memory (export "memory") 1)
    (func (export "f") (param $x i32) (param $y i32) (param $n i32)
        (local $i i32) (local $t f64)
        (loop $again
            (local.set $t (f64.load (i32.add (local.get $x) (i32.shl (local.get $i) (i32.const 3)))))
            (f64.store (i32.add (local.get $y) (i32.shl (local.get $i) (i32.const 3)))
                (f64.mul (local.get $t) (local.get $t)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (local.get $n)))))
    (func (export "g") (param f64) (result f64) (local.get 0)))"#;

#[test]
fn arrays_that_are_said_to_be_apart_are_read_again() {
    let module = Module::new(SQUARES).unwrap();
    let activity = [ArgActivity::Const; 3];
    let x: Vec<f64> = (0..20).map(|i| 0.5 - f64::from(i)).collect();
    let taped = |said: &[usize], mode| {
        let mut request = module.request("f", &activity).unwrap();
        said.iter().for_each(|i| request.args[i + 1].promises.noalias = true);
        let gradient = Gradient::with_request(&module, &request, &Options { mode, ..Options::full() }).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let [from, to] = [(); 2].map(|()| instance.alloc_f64(&x).unwrap());
        instance.set_shadow_f64(from, &[1.0; 20]).unwrap();
        instance.set_shadow_f64(to, &[0.5; 20]).unwrap();
        let args = [Val::I32(from as i32), Val::I32(to as i32), Val::I32(20)];
        let found = instance.gradient(&gradient, &args, &[]).unwrap();
        assert_eq!(instance.shadow_f64(from, 20).unwrap(), x.iter().map(|x| 1.0 + x).collect::<Vec<_>>());
        assert_eq!(instance.shadow_f64(to, 20).unwrap(), [0.0; 20]);
        found.tape_bytes
    };
    for mode in [Mode::Combined, Mode::Gradient] {
        let all = taped(&[], mode);
        assert!(all >= 160, "{all}");
        for said in [&[0][..], &[1], &[0, 1]] {
            let less = taped(said, mode);
            assert!(less < 32, "{said:?}: {less}");
        }
    }
}

#[test]
fn what_is_not_read_is_not_written() {
    let module = Module::new(SQUARES).unwrap();
    let x: Vec<f64> = (0..20).map(|i| 0.5 - f64::from(i)).collect();
    let squares: Vec<f64> = x.iter().map(|x| x * x).collect();
    // A store may fault, and a request for more than the gradient hears of that.
    for (mode, said, left) in [
        (Mode::Gradient, [true, true], &x),
        (Mode::Gradient, [false, true], &squares),
        (Mode::Gradient, [true, false], &squares),
        (Mode::Combined, [true, true], &squares),
    ] {
        let mut request = module.request("f", &[ArgActivity::Const; 3]).unwrap();
        request.args[2].promises = Promises { noalias: said[0], no_need: said[1], ..Promises::default() };
        let gradient = Gradient::with_request(&module, &request, &Options { mode, ..Options::full() }).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let [from, to] = [(); 2].map(|()| instance.alloc_f64(&x).unwrap());
        instance.set_shadow_f64(to, &[0.5; 20]).unwrap();
        instance.gradient(&gradient, &[from, to, 20].map(|n| Val::I32(n as i32)), &[]).unwrap();
        assert_eq!(instance.shadow_f64(from, 20).unwrap(), x, "{mode:?}");
        assert_eq!(&instance.read_f64(to, 20).unwrap(), left, "{mode:?}, {said:?}");
    }
}

#[test]
fn only_of_addresses_it_can_be_said() {
    let module = Module::new(SQUARES).unwrap();
    let says = |name: &str, activity: &[ArgActivity], i: usize| {
        let mut request = module.request(name, activity).unwrap();
        request.args[i].promises.noalias = true;
        Gradient::with_request(&module, &request, &Options::full()).err().map(|e| e.to_string())
    };
    assert_eq!(says("f", &[ArgActivity::Const; 3], 2), None);
    let message = says("f", &[ArgActivity::Const; 3], 0).unwrap();
    assert!(message.contains("the instance of `f` is said to be noalias"), "{message}");
    let message = says("g", &[ArgActivity::Active], 1).unwrap();
    assert!(message.contains("argument 0 of `g` is said to be noalias"), "{message}");
    assert!(matches!(module.request::<ArgActivity>("g", &[]), Err(Error::Usage(_))));
}
