//! Tasks of modules: gradients have the same bits on any number of threads, and are those of the
//! program on one thread; each task has a stack of its own; what tasks would share but memory makes
//! them run one after the other; what OpenMP has and tasks have not is refused.

use brolga_oracle::{Oracle, OracleError};
use brolga_wasm::brolga::cranelift_codegen::data_value::DataValue;
use brolga_wasm::brolga::{Mode, Options};
use brolga_wasm::{Bounds, Error, Gradient, Instance, Module, ModuleOptions, Val, default_activity};

const FORKS: [&[u8]; 3] = [
    include_bytes!("../../../ir-tests/wasm/O0/forks.wasm"),
    include_bytes!("../../../ir-tests/wasm/O2/forks.wasm"),
    include_bytes!("../../../ir-tests/wasm/O3-simd/forks.wasm"),
];
const OPENMP: [&[u8]; 3] = [
    include_bytes!("../../../ir-tests/wasm/O0/openmp.wasm"),
    include_bytes!("../../../ir-tests/wasm/O2/openmp.wasm"),
    include_bytes!("../../../ir-tests/wasm/O3-simd/openmp.wasm"),
];
const SERIAL: [&[u8]; 3] = [
    include_bytes!("../../../ir-tests/wasm/O0/openmp_serial.wasm"),
    include_bytes!("../../../ir-tests/wasm/O2/openmp_serial.wasm"),
    include_bytes!("../../../ir-tests/wasm/O3-simd/openmp_serial.wasm"),
];

fn rule(module: &Module, name: &str, options: &Options) -> Result<Gradient, Error> {
    let activity: Vec<_> = module.function(name)?.1.params().iter().map(|t| default_activity(*t)).collect();
    Gradient::with_options(module, name, &activity, options)
}

/// An argument: a number, or an array in memory.
#[derive(Clone)]
enum Given {
    Int(i32),
    Array(Vec<f64>),
}

fn array(n: usize) -> Given {
    Given::Array((0..n).map(|i| (0.7 * i as f64 + 0.3).sin()).collect())
}

/// Value, memory and shadow of two calls in a row, with shadows that are not zero at first.
fn outcome(module: &Module, name: &str, given: &[Given], options: &Options) -> Result<Vec<f64>, Error> {
    let gradient = rule(module, name, options)?;
    let mut instance = Instance::new(module)?;
    let (mut args, mut places) = (Vec::new(), Vec::new());
    for g in given {
        args.push(match g {
            Given::Int(n) => Val::I32(*n),
            Given::Array(all) => {
                let at = instance.alloc_f64(all)?;
                places.push((at as usize, all.len()));
                Val::I32(at as i32)
            }
        });
    }
    for &(at, n) in &places {
        for i in 0..n {
            let of = 0.25 * i as f64 - 1.0;
            instance.shadow_mut()[at + 8 * i..][..8].copy_from_slice(&of.to_le_bytes());
        }
    }
    let mut found = Vec::new();
    for _ in 0..2 {
        let seeds = [Val::F64(1.5)];
        let values = if options.mode == Mode::Split {
            let (values, mut pullback) = instance.forward(&gradient, &args)?;
            instance.pullback(&mut pullback, &seeds)?;
            instance.pullback(&mut pullback, &seeds)?;
            values
        } else {
            instance.gradient(&gradient, &args, &seeds)?.values
        };
        found.extend(values.iter().filter_map(|v| v.f64()));
        for bytes in [instance.memory(), instance.shadow()] {
            for &(at, n) in &places {
                let double = |i: usize| f64::from_le_bytes(bytes[at + 8 * i..][..8].try_into().expect("eight"));
                found.extend((0..n).map(double));
            }
        }
    }
    Ok(found)
}

fn options(mode: Mode, threads: usize) -> Options {
    Options { mode, task_threads: Some(threads), ..Options::full() }
}

/// What is called of the programs, and with what.
fn calls() -> Vec<(bool, &'static str, Vec<Given>)> {
    let int = Given::Int;
    vec![
        (false, "layer", vec![int(40), int(7), array(280), array(7), array(40), int(3)]),
        (false, "ring", vec![int(100), array(100), int(2)]),
        (false, "cubes", vec![int(300), array(300)]),
        (false, "jobs", vec![int(50), array(50), array(100)]),
        (true, "layer", vec![int(40), int(7), array(280), array(7), array(40)]),
        (true, "chunks", vec![int(15), array(15)]),
        (true, "last", vec![int(40), array(40), array(40)]),
        (true, "threads", vec![int(40), array(40)]),
        (true, "within", vec![int(6), int(5), array(30), array(6)]),
    ]
}

#[test]
fn threads_do_not_change_bits() {
    for level in 0..3 {
        let [forks, openmp] = [FORKS, OPENMP].map(|all| Module::new(all[level]).unwrap());
        for (of_openmp, name, given) in calls() {
            let module = if of_openmp { &openmp } else { &forks };
            for mode in [Mode::Split, Mode::Combined] {
                let run = |threads| {
                    let found = outcome(module, name, &given, &options(mode, threads));
                    found.unwrap_or_else(|e| panic!("{name} {level} {mode:?}: {e}"))
                };
                let one: Vec<u64> = run(1).into_iter().map(f64::to_bits).collect();
                for threads in [2, 3, 7] {
                    let more: Vec<u64> = run(threads).into_iter().map(f64::to_bits).collect();
                    assert_eq!(one, more, "{name} {level} {mode:?} {threads}");
                }
            }
        }
    }
}

#[test]
fn gradients_are_those_of_the_program_without_openmp() {
    for level in 0..3 {
        let [openmp, serial] = [OPENMP, SERIAL].map(|all| Module::new(all[level]).unwrap());
        for (_, name, given) in calls().into_iter().filter(|c| c.0) {
            let [found, wanted] =
                [&openmp, &serial].map(|m| outcome(m, name, &given, &options(Mode::Combined, 2)).unwrap());
            assert_eq!(found.len(), wanted.len());
            let most = wanted.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
            for (x, y) in found.iter().zip(&wanted) {
                assert!((x - y).abs() <= 1e-13 * most, "{name} {level}: {x} {y}");
            }
        }
    }
}

/// A limit on the length of a tape is one on that of each task.
#[test]
fn each_task_has_a_tape() {
    for (level, serial) in [(2, false), (1, false), (1, true), (0, false)] {
        let module = Module::new(FORKS[level]).unwrap();
        let run = |limit: usize| {
            let options = Options { tape_limit: limit, debug: serial, ..options(Mode::Split, 2) };
            let gradient = rule(&module, "ring", &options)?;
            let mut instance = Instance::new(&module)?;
            let x = instance.alloc_f64(&[1.5; 4000])?;
            let args = [Val::I32(4000), Val::I32(x as i32), Val::I32(10)];
            let (_, mut pullback) = instance.forward(&gradient, &args)?;
            instance.pullback(&mut pullback, &[Val::F64(1.0)])?;
            Ok::<_, Error>(pullback.tape_bytes())
        };
        let all = run(1 << 30).unwrap();
        let half = run(all / 2);
        if serial {
            assert!(matches!(half, Err(Error::Trap(trap)) if trap.code == "tape_full"));
        } else {
            assert_eq!(half.unwrap_or_else(|e| panic!("{level}: {e}")), all);
        }
    }
}

/// Tasks of OpenMP programs have tapes, and so has each task in forward mode. Seen to fail: where
/// pointers that a region passes on were taken for parts of floats, and singles for bits of what
/// OpenMP keeps.
#[test]
fn tasks_of_openmp_have_tapes() {
    for mode in [Mode::Split, Mode::Combined, Mode::Tangent] {
        for (level, name) in [(1, "layer"), (2, "layer"), (1, "last"), (2, "last"), (1, "threads"), (2, "threads")] {
            let gradient = rule(&Module::new(OPENMP[level]).unwrap(), name, &options(mode, 2)).unwrap();
            assert_eq!(gradient.rule().tasks_on_one_tape(), None, "{name} {level} {mode:?}");
        }
    }
    let gradient = rule(&Module::new(OPENMP[1]).unwrap(), "within", &options(Mode::Split, 2)).unwrap();
    let why = gradient.rule().tasks_on_one_tape().expect("a region stores what may be a part of a float");
    assert!(why.contains("within.omp_outlined") && why.ends_with("moves what may be a part of a float"), "{why}");
}

/// Tangents have the same bits on any number of threads. Numbers are stored over parts of doubles
/// there, on the stacks of tasks.
#[test]
fn threads_do_not_change_tangents() {
    for level in 0..3 {
        let [forks, openmp] = [FORKS, OPENMP].map(|all| Module::new(all[level]).unwrap());
        for (of_openmp, name, given) in calls() {
            let module = if of_openmp { &openmp } else { &forks };
            let run = |threads| tangent(module, name, &given, threads);
            let one = run(1);
            for threads in [2, 3, 7] {
                assert_eq!(one, run(threads), "{name} {level} {threads}");
            }
        }
    }
}

/// Bits of the values and tangents of three calls in a row.
fn tangent(module: &Module, name: &str, given: &[Given], threads: usize) -> Vec<u64> {
    let gradient = rule(module, name, &options(Mode::Tangent, threads)).unwrap();
    let mut instance = Instance::new(module).unwrap();
    let mut args = Vec::new();
    for g in given {
        args.push(match g {
            Given::Int(n) => Val::I32(*n),
            Given::Array(all) => {
                let at = instance.alloc_f64(all).unwrap();
                for i in 0..all.len() {
                    let of = (0.25 * i as f64 - 1.0).cos();
                    instance.shadow_mut()[at as usize + 8 * i..][..8].copy_from_slice(&of.to_le_bytes());
                }
                Val::I32(at as i32)
            }
        });
    }
    let mut found = Vec::new();
    for _ in 0..3 {
        let run = instance.tangent(&gradient, &args, &vec![None; args.len()]).unwrap_or_else(|e| panic!("{name}: {e}"));
        let all = run.values.iter().copied().chain(run.tangents.into_iter().flatten());
        found.extend(all.filter_map(|v| v.f64()).map(f64::to_bits));
    }
    found
}

/// A module with a stack of C, of tasks of the function `$body`.
fn with_body(imports: &str, body: &str, main: &str) -> Module {
    let text = format!(
        r#"(module
          (import "env" "brolga_par_for" (func $for (param i32 i32 i32 i32 i32)))
          {imports}
          (memory (export "memory") 2)
          (global $__stack_pointer (mut i32) (i32.const 65536))
          (global $count (mut i32) (i32.const 0))
          (table 4 funcref)
          (elem (i32.const 1) $body $deep)
          (func $deep (param i32 i32 i32))
          (func $body (param $ctx i32) (param $lo i32) (param $hi i32) (local $f i32) {body})
          (func (export "f") (param $x i32) (param $n i32) (result f64) {main}))"#
    );
    Module::new(text).unwrap_or_else(|e| panic!("{e}"))
}

const CALL: &str = "(call $for (i32.const 1) (local.get $x) (i32.const 0) (local.get $n) (i32.const 1))
    (f64.load (local.get $x))";

fn run(module: &Module, threads: usize, n: i32) -> Result<Vec<f64>, Error> {
    let given = [array(64), Given::Int(n)];
    outcome(module, "f", &given, &options(Mode::Combined, threads))
}

fn code(found: Result<Vec<f64>, Error>) -> String {
    match found {
        Err(Error::Trap(trap)) => trap.code,
        other => panic!("{other:?}"),
    }
}

/// Squares the number of the task, by way of its frame.
const SQUARE: &str = "
    (global.set $__stack_pointer (local.tee $f (i32.sub (global.get $__stack_pointer) (i32.const 16))))
    (f64.store (local.get $f) (f64.load (i32.add (local.get $ctx) (i32.mul (local.get $lo) (i32.const 8)))))
    (f64.store (i32.add (local.get $ctx) (i32.mul (local.get $lo) (i32.const 8)))
      (f64.mul (f64.load (local.get $f)) (f64.load (local.get $f))))
    (global.set $__stack_pointer (i32.add (local.get $f) (i32.const 16)))";

#[test]
fn a_task_has_a_stack_of_its_own() {
    let found = run(&with_body("", SQUARE, CALL), 2, 20).unwrap();
    let Given::Array(x) = array(64) else { unreachable!() };
    // Memory, then its shadow: value and shadow of the first call.
    for i in 0..64 {
        let before = 0.25 * i as f64 - 1.0 + if i == 0 { 1.5 } else { 0.0 };
        let [value, slope] = if i < 20 { [x[i] * x[i], 2.0 * x[i]] } else { [x[i], 1.0] };
        assert_eq!([found[1 + i], found[65 + i]], [value, before * slope], "{i}");
    }
}

/// Frames of tasks are apart, without threads as well; the first one goes on with the stack.
#[test]
fn stacks_of_tasks_are_apart() {
    let body = SQUARE.replace(
        "(global.set $__stack_pointer (i32.add",
        "(i32.store offset=8192 (i32.mul (local.get $lo) (i32.const 4)) (local.get $f))
         (global.set $__stack_pointer (i32.add",
    );
    let mut instance = Instance::new(&with_body("", &body, CALL)).unwrap();
    instance.call("f", &[Val::I32(1024), Val::I32(40)]).unwrap();
    let word = |i: usize| u32::from_le_bytes(instance.memory()[8192 + 4 * i..][..4].try_into().unwrap());
    let mut frames: Vec<u32> = (0..40).map(word).collect();
    assert_eq!(frames[0], 65536 - 16);
    frames.dedup_by_key(|f| *f >> 18);
    assert_eq!(frames.len(), 40, "{frames:x?}");
    assert!(frames[1..].iter().all(|f| f.is_multiple_of(16) && *f >= 0u32.wrapping_sub(64 << 20)));
}

/// A number over a part of a double with a cotangent: no gradient is given.
#[test]
fn half_a_double_is_no_double() {
    let body = "(f64.store offset=512 (i32.mul (local.get $lo) (i32.const 8))
          (f64.load (i32.add (local.get $ctx) (i32.mul (local.get $lo) (i32.const 8)))))
        (i32.store8 offset=518
          (i32.add (i32.load (i32.const 8)) (i32.mul (local.get $lo) (i32.const 8))) (local.get $hi))
        (f64.store (i32.add (local.get $ctx) (i32.mul (local.get $lo) (i32.const 8)))
          (f64.load offset=512 (i32.mul (local.get $lo) (i32.const 8))))";
    for threads in [1, 2, 3] {
        assert_eq!(code(run(&with_body("", body, CALL), threads, 20)), "untracked_bits", "{threads}");
    }
}

#[test]
fn a_stack_that_is_too_small_or_is_kept_is_a_trap() {
    let large = SQUARE.replace("(i32.const 16)", "(i32.const 300000)");
    for threads in [1, 2, 3] {
        assert_eq!(code(run(&with_body("", &large, CALL), threads, 5)), "task_stack");
    }
    let leaking = SQUARE.rsplit_once("(global.set").expect("it gives the stack back").0;
    assert_eq!(code(run(&with_body("", leaking, CALL), 2, 5)), "kept_stack");
}

/// The task of number 3 divides by zero, and those after it end in another way.
#[test]
fn the_first_trap_is_reported() {
    let body = "(if (i32.ge_s (local.get $lo) (i32.const 3)) (then
        (i32.store (i32.const 8) (i32.div_s (local.get $hi) (i32.sub (local.get $lo) (i32.const 3))))
        (unreachable)))";
    for threads in [1, 2, 3, 7] {
        assert_eq!(code(run(&with_body("", body, CALL), threads, 20)), "int_divz", "{threads}");
    }
}

/// Whether tasks of a module's forks may run at the same time; why not.
fn serial(module: &Module) -> Vec<Option<String>> {
    let drivers = module.program().funcs.values().filter(|f| f.symbol.ends_with("__tasks"));
    drivers.map(|f| if f.driver.is_some() { None } else { f.serial.clone() }).collect()
}

#[test]
fn what_there_is_one_of_makes_tasks_run_one_after_the_other() {
    let why = |body: &str| serial(&with_body("", &format!("{body}{SQUARE}"), CALL))[0].clone();
    assert_eq!(why(""), None);
    assert_eq!(why("(drop (memory.grow (i32.const 0)))").as_deref(), Some("a task may let memory grow"));
    let global = why("(global.set $count (i32.add (global.get $count) (i32.const 1)))").unwrap();
    assert!(global.ends_with("which sets a global"), "{global}");
    // The gradient is right all the same.
    let body = format!("(drop (memory.grow (i32.const 0))){SQUARE}");
    let [plain, grows] = ["", &body].map(|b| run(&with_body("", if b.is_empty() { SQUARE } else { b }, CALL), 2, 20));
    assert_eq!(plain.unwrap(), grows.unwrap());
    // Fuel is one number.
    let fuel = ModuleOptions { fuel: true, ..ModuleOptions::default() };
    let module = Module::with_options(FORKS[1], &fuel).unwrap();
    assert!(serial(&module).iter().all(Option::is_some));
    // Programs in C fork.
    for bytes in FORKS.into_iter().chain(OPENMP) {
        let all = serial(&Module::new(bytes).unwrap());
        assert!(!all.is_empty() && all.iter().all(Option::is_none), "{all:?}");
    }
}

/// What says nothing of threads, and the time, has no derivative and stands in no way.
#[test]
fn functions_of_openmp_that_ask_nothing_of_threads_are_there() {
    for (name, ty, call) in [
        ("omp_set_dynamic", "(param i32)", "(i32.const 0)"),
        ("omp_get_dynamic", "(result i32)", ""),
        ("omp_get_num_procs", "(result i32)", ""),
        ("omp_get_thread_limit", "(result i32)", ""),
        ("omp_get_wtime", "(result f64)", ""),
        ("omp_get_wtick", "(result f64)", ""),
    ] {
        let drop = if ty.contains("result") { "drop" } else { "" };
        let import = format!(r#"(import "env" "{name}" (func $part {ty}))"#);
        let module = with_body(&import, &format!("(call $part {call}) {drop}{SQUARE}"), CALL);
        let plain = with_body("", SQUARE, CALL);
        assert_eq!(run(&module, 2, 5).unwrap(), run(&plain, 2, 5).unwrap(), "{name}");
        // There is one clock.
        assert_eq!(serial(&module)[0].is_some(), name == "omp_get_wtime", "{name}");
    }
}

#[test]
fn parts_of_openmp_that_are_not_there_are_refused() {
    for (name, ty, call) in [
        ("__kmpc_barrier", "(param i32 i32)", "(i32.const 0) (i32.const 0)"),
        ("__kmpc_critical", "(param i32 i32 i32)", "(i32.const 0) (i32.const 0) (i32.const 0)"),
        ("__kmpc_dispatch_next_4", "(param i32 i32) (result i32)", "(i32.const 0) (i32.const 0)"),
        ("omp_get_level", "(result i32)", ""),
    ] {
        let drop = if ty.contains("result") { "drop" } else { "" };
        let import = format!(r#"(import "env" "{name}" (func $part {ty}))"#);
        let module = with_body(&import, &format!("(call $part {call}) {drop}{SQUARE}"), CALL);
        let said = run(&module, 2, 5).unwrap_err().to_string();
        assert!(said.contains(&format!("error[AD0196]: `{name}` of OpenMP has no derivative")), "{said}");
        assert!(said.contains("%body.task") && said.contains("block0") && said.contains("call fn"), "{said}");
        // The program without a derivative says the same when it comes there.
        let mut instance = Instance::new(&module).unwrap();
        let Err(Error::Trap(trap)) = instance.call("f", &[Val::I32(1024), Val::I32(1)]) else { panic!("a trap") };
        assert_eq!(trap.code, "openmp");
    }
}

#[test]
fn races_are_found() {
    for (name, races) in [("race", true), ("ring", false)] {
        let options = ModuleOptions { bounds: Bounds::Checked, ..ModuleOptions::default() };
        let module = Module::with_options(FORKS[1], &options).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let at = instance.alloc_f64(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        let (key, ty) = module.function(name).unwrap();
        let mut args = vec![DataValue::I64(instance.vmctx() as i64), DataValue::I32(4), DataValue::I32(at as i32)];
        args.truncate(1 + ty.params().len());
        args.resize(1 + ty.params().len(), DataValue::I32(1));
        // SAFETY: translated code checks its accesses, and stays in the instance.
        let found = unsafe { Oracle::new(module.program()).run(key, &args) };
        match found {
            Err(OracleError::Race(race)) if races => {
                let said = race.diagnostic.to_string();
                assert!(said.contains("AD0194") && said.contains("add_all"), "{said}");
            }
            Ok(_) if !races => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// A region whose threads add into one place: with the atomic instructions that `omp atomic`
/// becomes, and with ordinary ones, which it becomes without `-matomics`.
#[test]
fn atomic_updates_of_openmp_are_refused_or_race() {
    let module = |update: &str| {
        let text = format!(
            r#"(module
              (import "env" "__kmpc_fork_call" (func $fork (param i32 i32 i32 i32)))
              (memory (export "memory") 2)
              (global $__stack_pointer (mut i32) (i32.const 65536))
              (table 2 funcref)
              (elem (i32.const 1) $thread)
              (func $thread (param $number i32) (param $bound i32) (param $x i32) {update})
              (func (export "f") (param $x i32) (result f64)
                (i32.store (i32.const 16) (local.get $x))
                (call $fork (i32.const 0) (i32.const 1) (i32.const 1) (i32.const 16))
                (f64.load (local.get $x))))"#
        );
        Module::with_options(text, &ModuleOptions { bounds: Bounds::Checked, ..ModuleOptions::default() })
    };
    let atomic = "(drop (i64.atomic.rmw.cmpxchg (local.get $x) (i64.load (local.get $x)) (i64.const 0)))";
    let said = module(atomic).expect_err("it is refused").to_string();
    assert!(said.contains("is not supported") && said.contains("write `reduction` for `omp atomic`"), "{said}");
    let module = module("(f64.store (local.get $x) (f64.add (f64.load (local.get $x)) (f64.const 1)))").unwrap();
    let (instance, key) = (Instance::new(&module).unwrap(), module.function("f").unwrap().0);
    let args = [DataValue::I64(instance.vmctx() as i64), DataValue::I32(1024)];
    // SAFETY: translated code checks its accesses, and stays in the instance.
    match unsafe { Oracle::new(module.program()).run(key, &args) } {
        Err(OracleError::Race(race)) => {
            let said = race.diagnostic.to_string();
            assert!(said.contains("%thread") && said.contains("named in a `reduction` clause"), "{said}");
        }
        other => panic!("{other:?}"),
    }
}

/// Modules of `docs/DIAGNOSTICS.md` provoke what they stand under.
#[test]
fn examples_of_modules_provoke_their_codes() {
    let document = include_str!("../../../docs/DIAGNOSTICS.md");
    let mut n = 0;
    for section in document.split("\n### ").skip(1) {
        let code = section.split(' ').next().unwrap_or_default();
        for example in section.split("```wat\n").skip(1) {
            let text = example.split("```").next().unwrap_or_default();
            let found = Module::new(text).and_then(|m| rule(&m, "f", &options(Mode::Combined, 2)));
            let said = found.err().unwrap_or_else(|| panic!("the example of {code} is derived")).to_string();
            assert!(said.contains(&format!("error[{code}]")), "{code}: {said}");
            n += 1;
        }
    }
    assert!(n > 0);
}

/// Bits of doubles that the program has stored become numbers in tasks. Seen to fail: demands of
/// tasks that are not known to what has forked.
#[test]
fn tasks_make_numbers_of_bits() {
    for (level, bytes) in FORKS.into_iter().enumerate() {
        let module = Module::new(bytes).unwrap();
        for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 2), (Mode::Combined, 3)] {
            let given = [Given::Int(20), array(20), array(20)];
            match outcome(&module, "of_bits", &given, &options(mode, threads)) {
                // Where the double was stored.
                Err(Error::Trap(t)) => assert_eq!((&*t.code, &*t.function), ("untracked_bits", "of_bits"), "{t}"),
                other => panic!("{level} {mode:?} {threads}: {other:?}"),
            }
        }
    }
}

/// Numbers that tasks make of integers in memory: of the caller's, of which all tasks read one, and
/// of the module's own. Broken on purpose: demands of tasks that stay with them are cotangents that
/// did not arrive.
#[test]
fn tasks_make_numbers_of_integers() {
    let number = |at: &str| format!("(f64.convert_i32_s (i32.load offset={at} (local.get $ctx)))");
    // One for each task, four bytes apart, after one that all tasks read.
    let body = format!(
        "(local.set $f (i32.add (local.get $ctx) (i32.mul (local.get $lo) (i32.const 8))))
         (f64.store (local.get $f) (f64.mul (f64.load (local.get $f))
           (f64.mul {} (f64.convert_i32_s (i32.load offset=260 (i32.add (local.get $ctx)
             (i32.mul (local.get $lo) (i32.const 4))))))))",
        number("256")
    );
    // Where the first double of the array is stored over that, nothing is known.
    let first = "(f64.store offset=256 (local.get $x) (f64.load (local.get $x)))";
    // Copies of floats that are not loaded as such: cotangents may come in pieces.
    let copy = "(i64.store offset=384 (local.get $x) (i64.load offset=16 (local.get $x)))";
    let ints: Vec<i32> = (0..21).map(|i| 0x2000_0000 + 1000 * i).collect();
    for (before, known, copies) in [("", true, false), (first, false, false), ("", true, true), (first, false, true)] {
        let call = if copies {
            format!("{before} {copy} (f64.add (f64.load offset=384 (local.get $x)) (block (result f64) {CALL}))")
        } else {
            format!("{before} {CALL}")
        };
        let module = with_body("", &body, &call);
        let mut all = Vec::new();
        for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 2), (Mode::Combined, 1), (Mode::Combined, 3)] {
            let gradient = rule(&module, "f", &options(mode, threads)).unwrap();
            let mut instance = Instance::new(&module).unwrap();
            let at = instance.alloc_f64(&[0.5; 49]).unwrap() as usize;
            let bytes: Vec<u8> = ints.iter().flat_map(|n| n.to_le_bytes()).collect();
            instance.memory_mut()[at + 256..][..84].copy_from_slice(&bytes);
            instance.declare_floats(at as u32 + 256, 88, 0).unwrap();
            for i in 0..20 {
                instance.shadow_mut()[at + 8 * i..][..8].copy_from_slice(&(1.0 + i as f64).to_le_bytes());
            }
            let args = [Val::I32(at as i32), Val::I32(20)];
            let mut run = || {
                if mode == Mode::Split {
                    let (_, mut pullback) = instance.forward(&gradient, &args)?;
                    instance.pullback(&mut pullback, &[Val::F64(1.0)])?;
                } else {
                    instance.gradient(&gradient, &args, &[Val::F64(1.0)])?;
                }
                instance.shadow_f64(at as u32, 49)
            };
            match run() {
                Ok(found) if known => {
                    for i in 0..20 {
                        let ct = 1.0 + i as f64 + if i == 0 { 1.0 } else { 0.0 };
                        let number = f64::from(ints[0]) * f64::from(ints[1 + i]);
                        let of_copy = if copies && i == 2 { 1.0 } else { 0.0 };
                        assert_eq!(found[i], ct * number + of_copy, "{mode:?} {threads} {i}");
                    }
                    assert!(found[20..].iter().all(|ct| ct.to_bits() == 0), "{mode:?} {threads}: {found:?}");
                    all.push(found);
                }
                Err(Error::Trap(trap)) if !known => assert_eq!(trap.code, "untracked_bits"),
                other => panic!("{known} {mode:?} {threads}: {other:?}"),
            }
        }
        assert!(all.iter().all(|found| *found == all[0]));
    }
}
