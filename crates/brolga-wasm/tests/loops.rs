//! Time loops of modules: the gradient is that of the loop written as a loop, in any budget, though
//! the state lies in the C stack of a function that has returned when the pullback begins.

use brolga_wasm::brolga::{Inline, Mode, Options};
use brolga_wasm::{Gradient, Instance, Module, ModuleOptions, Val, default_activity};

/// `$step` has a frame in the C stack, `$run` a state there; `$plain` is `$run` with a loop.
const TEXT: &str = r#"(module
  (import "env" "brolga_time_loop" (func $time_loop (param i32 i32 i32 i32 i32)))
  (import "env" "brolga_while_loop" (func $while_loop (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (global $sp (mut i32) (i32.const 65536))
  (table 3 funcref)
  (elem (i32.const 1) $step $goes_on)
  (func $step (param $s i32) (param $p i32) (param $i i32) (local $f i32)
    (global.set $sp (local.tee $f (i32.sub (global.get $sp) (i32.const 32))))
    (i32.store offset=16 (local.get $f) (local.get $p))
    (f64.store (local.get $f) (f64.mul (f64.load (local.get $s)) (f64.load (local.get $s))))
    (f64.store offset=8 (local.get $s)
      (f64.sub (f64.load offset=8 (local.get $s))
        (f64.mul (f64.load (local.get $p)) (f64.mul (f64.load (local.get $f)) (f64.load (local.get $s))))))
    (f64.store (local.get $s)
      (f64.add (f64.load (local.get $s))
        (f64.mul (f64.load (i32.load offset=16 (local.get $f))) (f64.load offset=8 (local.get $s)))))
    (global.set $sp (i32.add (local.get $f) (i32.const 32))))
  (func $goes_on (param $s i32) (param $p i32) (param $i i32) (result i32)
    (call $step (local.get $s) (local.get $p) (local.get $i))
    (f64.gt (f64.load (local.get $s)) (f64.const 0.25)))
  (func $begin (param $x i32) (result i32) (local $f i32)
    (global.set $sp (local.tee $f (i32.sub (global.get $sp) (i32.const 16))))
    (f64.store (local.get $f) (f64.load (local.get $x)))
    (f64.store offset=8 (local.get $f) (f64.load offset=8 (local.get $x)))
    (local.get $f))
  (func $end (param $f i32) (result f64)
    (global.set $sp (i32.add (local.get $f) (i32.const 16)))
    (f64.mul (f64.load (local.get $f)) (f64.load offset=8 (local.get $f))))
  (func (export "run") (param $x i32) (param $n i32) (result f64) (local $f i32)
    (local.set $f (call $begin (local.get $x)))
    (call $time_loop (i32.const 1) (local.get $f) (i32.const 16) (i32.add (local.get $x) (i32.const 16)) (local.get $n))
    (call $end (local.get $f)))
  (func (export "falls") (param $x i32) (param $n i32) (result f64) (local $f i32)
    (local.set $f (call $begin (local.get $x)))
    (drop (call $while_loop (i32.const 2) (local.get $f) (i32.const 16)
      (i32.add (local.get $x) (i32.const 16)) (local.get $n)))
    (call $end (local.get $f)))
  (func $steps (param $x i32) (param $n i32) (param $until i32) (result f64) (local $f i32) (local $i i32)
    (local.set $f (call $begin (local.get $x)))
    (block $out (loop $next
      (br_if $out (i32.ge_s (local.get $i) (local.get $n)))
      (call $step (local.get $f) (i32.add (local.get $x) (i32.const 16)) (local.get $i))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $out (i32.and (local.get $until) (f64.le (f64.load (local.get $f)) (f64.const 0.25))))
      (br $next)))
    (call $end (local.get $f)))
  (func (export "plain_run") (param $x i32) (param $n i32) (result f64)
    (call $steps (local.get $x) (local.get $n) (i32.const 0)))
  (func (export "plain_falls") (param $x i32) (param $n i32) (result f64)
    (call $steps (local.get $x) (local.get $n) (i32.const 1)))
  ;; Each eighth iteration works in a new page, which is full of zeros, and keeps to it.
  (func (export "plain_grows") (param $x i32) (param $n i32) (result f64)
      (local $i i32) (local $at i32) (local $sum f64)
    (local.set $at (local.get $x))
    (block $out (loop $next
      (br_if $out (i32.ge_s (local.get $i) (local.get $n)))
      (if (i32.eqz (i32.and (local.get $i) (i32.const 7)))
        (then (local.set $at (i32.shl (memory.grow (i32.const 1)) (i32.const 16)))))
      (f64.store (local.get $at)
        (f64.add (f64.load (local.get $at)) (f64.mul (f64.load offset=8 (local.get $x)) (f64.load (local.get $x)))))
      (f64.store offset=8 (local.get $x) (f64.add (f64.load offset=8 (local.get $x)) (f64.load (local.get $at))))
      (local.set $sum (f64.add (local.get $sum) (f64.load (local.get $at))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (local.get $sum))
  ;; What is written is seen.
  (func (export "plain_prints") (param $x i32) (param $n i32) (result f64) (local $i i32)
    (block $out (loop $next
      (br_if $out (i32.ge_s (local.get $i) (local.get $n)))
      (f64.store (local.get $x) (f64.mul (f64.load (local.get $x)) (f64.load offset=8 (local.get $x))))
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (f64.load (local.get $x))))"#;

const X: [f64; 3] = [0.9, 0.3, 0.05];

/// The value, the gradient on shadows that are not zero, and what is where the state was.
fn found(module: &Module, name: &str, n: i32, mode: Mode, budget: usize, files: bool) -> (f64, Vec<f64>, Vec<u8>) {
    let options = Options { mode, memory_budget: budget, ..Options::as_calls() };
    found_with(module, name, n, options, files)
}

/// The same with these options.
fn found_with(module: &Module, name: &str, n: i32, options: Options, files: bool) -> (f64, Vec<f64>, Vec<u8>) {
    let (mode, budget, marked) = (options.mode, options.memory_budget, !options.checkpoints.outermost);
    let probe = Gradient::split(module, name).unwrap();
    let activity: Vec<_> = probe.ty().params().iter().map(|t| default_activity(*t)).collect();
    let checkpoint_dir = files.then(std::env::temp_dir);
    let options = Options { checkpoint_dir, untracked: brolga_wasm::options().untracked, ..options };
    let gradient = Gradient::with_options(module, name, &activity, &options).unwrap();
    let mut instance = Instance::new(module).unwrap();
    let at = instance.alloc_f64(&X).unwrap();
    let args = [Val::I32(at as i32), Val::I32(n)];
    instance.set_shadow_f64(at, &[0.5, 1.5, 2.5]).unwrap();
    let value = if mode == Mode::Split {
        let (value, mut pullback) = instance.forward(&gradient, &args).unwrap();
        for _ in 0..2 {
            instance.clear_shadow();
            instance.set_shadow_f64(at, &[0.5, 1.5, 2.5]).unwrap();
            instance.pullback(&mut pullback, &[Val::F64(1.0)]).unwrap();
            let stats = pullback.loop_stats();
            let staying = gradient.rule().loops_that_stay();
            assert!(marked && name.starts_with("plain") || n == 0 || stats.reversed > 0, "{name}: {staying:?}");
            assert!(!files || n < 60 || budget > 400 || stats.disk_writes > 0, "{name}, {budget} bytes: {stats:?}");
        }
        value[0]
    } else {
        instance.gradient(&gradient, &args, &[Val::F64(1.0)]).unwrap().values[0]
    };
    // Where the state was.
    let memory = instance.memory()[65520..65536].to_vec();
    (value.f64().unwrap(), instance.shadow_f64(at, 3).unwrap(), memory)
}

#[test]
fn loops_of_modules_have_the_gradient_of_loops() {
    let module = Module::with_options(TEXT, &ModuleOptions::default()).unwrap();
    for (name, plain) in [("run", "plain_run"), ("falls", "plain_falls")] {
        for n in [0, 1, 5, 60] {
            let (value, as_written, _) = found(&module, plain, n, Mode::Combined, 0, false);
            let mut first = None;
            let budgets = [(1 << 20, false), (2000, false), (400, false), (64, false), (400, true), (64, true)];
            for (budget, files) in budgets {
                for mode in [Mode::Combined, Mode::Split] {
                    let what = format!("{name} {n} {budget} {mode:?}");
                    let (v, gradient, memory) = found(&module, name, n, mode, budget, files);
                    assert_eq!(v, value, "{what}");
                    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-13 * b.abs().max(1.0);
                    assert!(gradient.iter().zip(&as_written).all(near), "{what}: {gradient:?} {as_written:?}");
                    let first = first.get_or_insert((gradient.clone(), memory.clone()));
                    assert_eq!(first.0, gradient, "{what}");
                    assert!(first.1 == memory, "{what}: memory differs");
                }
            }
        }
    }
}

#[test]
fn loops_without_a_mark_run_again_from_pages() {
    let module = Module::with_options(TEXT, &ModuleOptions::default()).unwrap();
    for (name, least) in [("plain_run", 56_000), ("plain_falls", 56_000), ("plain_grows", 110_000)] {
        for n in [0, 1, 5, 60] {
            let (value, as_written, _) = found(&module, name, n, Mode::Combined, 0, false);
            let mut first = None;
            for budget in [1 << 30, 1 << 17, least] {
                for mode in [Mode::Combined, Mode::Split] {
                    let what = format!("{name} {n} {budget} {mode:?}");
                    let options = Options { mode, inline: Inline::Never, ..Options::within_memory(budget) };
                    let (v, gradient, memory) = found_with(&module, name, n, options, false);
                    assert_eq!(v, value, "{what}");
                    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-13 * b.abs().max(1.0);
                    assert!(gradient.iter().zip(&as_written).all(near), "{what}: {gradient:?} {as_written:?}");
                    let first = first.get_or_insert((gradient.clone(), memory.clone()));
                    assert_eq!(first.0, gradient, "{what}");
                    assert!(first.1 == memory, "{what}: memory differs");
                }
            }
        }
    }
}

#[test]
fn a_loop_that_prints_stays() {
    let module = Module::with_options(TEXT, &ModuleOptions::default()).unwrap();
    let probe = Gradient::split(&module, "plain_prints").unwrap();
    let activity: Vec<_> = probe.ty().params().iter().map(|t| default_activity(*t)).collect();
    let options = Options { untracked: brolga_wasm::options().untracked, ..Options::within_memory(1 << 16) };
    let gradient = Gradient::with_options(&module, "plain_prints", &activity, &options).unwrap();
    let why = gradient.rule().loops_that_stay();
    assert!(why.len() == 1 && why[0].ends_with("which may do something that is seen"), "{why:?}");
}
