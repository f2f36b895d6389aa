//! Random modules: nothing panics, nothing hangs, and no number is wrong.
//!
//! Modules are made by `wasm-smith` from a seed; all of them are valid, few of them mean anything.
//! Every exported function is called with random arguments and a limit on fuel. If it can be
//! differentiated, then the forward pass has to return and to leave in memory what the primal does,
//! or to trap as it does, and the gradient by value has to be the tape's.
//!
//! A run of the test command tries some seconds' worth; `BROLGA_WASM_SEEDS=1000..5000` tries those
//! seeds.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arbitrary::Unstructured;
use brolga_oracle::{Limits, Oracle, OracleArg};
use brolga_testing::budget;
use brolga_wasm::brolga::ArgActivity;
use brolga_wasm::brolga::cranelift_codegen::data_value::DataValue;
use brolga_wasm::{
    Bounds, Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType, default_activity,
};
use wasm_smith::{Config, InstructionKinds};

/// Enough for any call that means something, and for few iterations of those that do not.
const FUEL: u64 = 2_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn value(&mut self, ty: ValType) -> Val {
        let unit = (self.next() >> 11) as f64 / (1u64 << 52) as f64 * 4.0 - 4.0;
        match ty {
            ValType::I32 => Val::I32((self.next() % 64) as i32 - 8),
            ValType::I64 => Val::I64((self.next() % 64) as i64 - 8),
            ValType::F32 => Val::F32(unit as f32),
            ValType::F64 => Val::F64(unit),
            ValType::V128 => Val::V128(u128::from(unit.to_bits()) << 64 | u128::from((0.5 * unit).to_bits())),
            ValType::Ref(_) => Val::Ref(0),
        }
    }
}

/// Functions that have a gradient. Left alone, few of the generator's functions take a float and
/// return one.
const WITH_GRADIENTS: &str = r#"(module
    (func (export "a") (param f64 f64) (result f64) unreachable)
    (func (export "b") (param f64 i32 f32) (result f64) unreachable)
    (func (export "c") (param f32 f32) (result f32 f64) unreachable)
    (func (export "d") (param i64 f64 f64 f64) (result f64 f64) unreachable)
    (func (export "e") (param i32 i32) (result f64) unreachable))"#;

/// Three of four modules cannot trap, or else most functions would do nothing but that. Half have
/// functions with gradients, made of what gradients go through.
fn config(seed: u64) -> Config {
    use wasm_smith::InstructionKind::{Control, Memory, Numeric, Parametric, Variable, Vector};
    let arbitrary = seed.is_multiple_of(2);
    let all = InstructionKinds::all();
    let smooth = InstructionKinds::new(&[Numeric, Vector, Parametric, Variable, Memory, Control]);
    Config {
        exports: (!arbitrary).then(|| wat::parse_str(WITH_GRADIENTS).expect("it is a module")),
        allowed_instructions: if arbitrary { all } else { smooth },
        disallow_traps: !seed.is_multiple_of(4),
        min_funcs: 1,
        max_funcs: 6,
        max_imports: 0,
        min_memories: 1,
        max_memories: 1,
        max_memory32_bytes: 1 << 20,
        max_instructions: 60,
        export_everything: true,
        allow_start_export: true,
        simd_enabled: true,
        bulk_memory_enabled: true,
        reference_types_enabled: true,
        tail_call_enabled: true,
        extended_const_enabled: true,
        relaxed_simd_enabled: false,
        compact_imports_enabled: false,
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        threads_enabled: false,
        custom_page_sizes_enabled: false,
        wide_arithmetic_enabled: false,
        shared_everything_threads_enabled: false,
        ..Config::default()
    }
}

/// What became of the functions that were tried.
#[derive(Debug, Default)]
struct Tally {
    modules: usize,
    functions: usize,
    derived: usize,
    trapped: usize,
    returned: usize,
    /// Cotangents that were compared with the tape's.
    compared: usize,
    /// Of these, those that are not zero.
    nonzero: usize,
    /// Modules with one that is not zero.
    telling: usize,
    refused: usize,
    /// The seed that took longest, and how long.
    slowest: (u64, Duration),
}

/// A module that takes this long hangs: the test ends then, and says which it is.
const HANGS: Duration = Duration::from_secs(120);

/// Seed and start of the module that is tried.
static CURRENT: Mutex<Option<(u64, Instant)>> = Mutex::new(None);

fn watch() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            if let Ok(Some((seed, start))) = CURRENT.lock().map(|c| *c)
                && start.elapsed() > HANGS
            {
                eprintln!("seed {seed} hangs");
                std::process::abort();
            }
        }
    });
}

#[test]
fn random_modules() {
    let seeds: Range<u64> = match std::env::var("BROLGA_WASM_SEEDS") {
        Ok(list) => {
            let (from, to) = list.split_once("..").expect("BROLGA_WASM_SEEDS=FROM..TO");
            from.parse().expect("a number")..to.parse().expect("a number")
        }
        Err(_) => 0..u64::MAX,
    };
    watch();
    let (start, limited) = (Instant::now(), seeds.end == u64::MAX);
    let mut tally = Tally::default();
    for seed in seeds {
        if limited && start.elapsed() > Duration::from_secs(budget(6, 2)) {
            break;
        }
        let (before, began) = (tally.nonzero, Instant::now());
        *CURRENT.lock().expect("it is not held in a panic") = Some((seed, began));
        module(seed, &mut tally);
        tally.telling += usize::from(tally.nonzero > before);
        if began.elapsed() > tally.slowest.1 {
            tally.slowest = (seed, began.elapsed());
        }
    }
    *CURRENT.lock().expect("it is not held in a panic") = None;
    eprintln!("{tally:?}");
    assert!(tally.functions > 0, "{tally:?}");
    // A run that compares nothing proves nothing. A slow machine may not get that far in the time
    // of a run without a list.
    assert!(tally.modules < 40 || (tally.returned > 0 && tally.telling > 0), "{tally:?}");
}

fn module(seed: u64, tally: &mut Tally) {
    let mut random = Random(seed);
    let bytes: Vec<u8> = (0..1024).flat_map(|_| random.next().to_le_bytes()).collect();
    let Ok(smith) = wasm_smith::Module::new(config(seed), &mut Unstructured::new(&bytes)) else { return };
    let wasm = smith.to_bytes();
    let load = |bounds| Module::with_options(&wasm, &ModuleOptions { bounds, fuel: true, ..ModuleOptions::default() });
    let (guarded, checked) = match (load(Bounds::Guard), load(Bounds::Checked)) {
        (Ok(g), Ok(c)) => (g, c),
        // Segments that do not fit are found when the module is loaded.
        (Err(Error::Unsupported { .. } | Error::Usage(_)), Err(_)) => return,
        (g, c) => panic!("seed {seed}: {:?} {:?}", g.err(), c.err()),
    };
    tally.modules += 1;
    let names: Vec<String> = guarded.functions().map(|f| f.0.to_owned()).collect();
    for name in names {
        let Ok((_, ty)) = guarded.function(&name) else { continue };
        let args: Vec<Val> = ty.params().iter().map(|t| random.value(*t)).collect();
        tally.functions += 1;
        function(seed, &name, &guarded, &checked, &args, tally);
    }
}

/// A fresh instance with little fuel, if its start function ends.
fn instance(module: &Module) -> Option<Instance> {
    match Instance::with_options(module, &InstanceOptions { fuel: FUEL, ..InstanceOptions::default() }) {
        Ok(i) => Some(i),
        Err(Error::Trap(_) | Error::Exit(_)) => None,
        Err(e) => panic!("{e}"),
    }
}

fn same(a: &Val, b: &Val) -> bool {
    match (a, b) {
        // Which NaN comes out is not for us to say.
        (Val::F32(x), Val::F32(y)) => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
        (Val::F64(x), Val::F64(y)) => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
        (Val::V128(_), Val::V128(_)) => true,
        _ => a == b,
    }
}

fn function(seed: u64, name: &str, guarded: &Module, checked: &Module, args: &[Val], tally: &mut Tally) {
    let at = || format!("seed {seed}, function `{name}`");
    let (Some(mut one), Some(mut two)) = (instance(guarded), instance(checked)) else { return };
    let values = one.call(name, args);
    match (&values, two.call(name, args)) {
        (Ok(a), Ok(b)) => assert!(a.iter().zip(&b).all(|(a, b)| same(a, b)), "{}: {a:?} is not {b:?}", at()),
        (Err(Error::Trap(a)), Err(Error::Trap(b))) => assert_eq!(a.code, b.code, "{}", at()),
        (a, b) => panic!("{}: guarded {a:?}, checked {b:?}", at()),
    }
    let gradient = match Gradient::split(guarded, name).map(Gradient::settled) {
        Ok(g) => g,
        Err(Error::Diagnostics(_)) => {
            tally.refused += 1;
            return;
        }
        Err(e) => panic!("{}: {e}", at()),
    };
    tally.derived += 1;
    let Some(mut fresh) = instance(guarded) else { return };
    let (found, mut pullback) = match (fresh.forward(&gradient, args), &values) {
        (Ok(r), Ok(_)) => r,
        (Err(Error::Trap(a)), Err(Error::Trap(b))) if a.code == b.code => {
            tally.trapped += 1;
            return;
        }
        // Checks of the forward pass come on top of the primal's traps.
        (Err(Error::Trap(a)), _) if is_check(&a.code) => return,
        (Err(e), v) => panic!("{}: the forward pass ends with {e}, the primal with {v:?}", at()),
        (Ok((f, _)), Err(e)) => panic!("{}: the forward pass returns {f:?}, the primal ends with {e}", at()),
    };
    let values = values.expect("checked above");
    assert!(values.iter().zip(&found).all(|(a, b)| same(a, b)), "{}: {found:?} is not {values:?}", at());
    tally.returned += 1;
    let ty = gradient.ty().clone();
    let seeds: Vec<Val> = ty.results().iter().map(|t| one_of(*t)).collect();
    let cotangents = match fresh.pullback(&mut pullback, &seeds) {
        Ok(c) => c,
        Err(Error::Trap(t)) if is_check(&t.code) => return,
        Err(e) => panic!("{}: pullback: {e}", at()),
    };
    check_combined(guarded, name, args, &seeds, &found, &cotangents, &fresh)
        .unwrap_or_else(|e| panic!("{}: {e}", at()));
    let tape = tape(name, checked, args, &seeds);
    let Some(tape) = tape else { return };
    for (i, (is, wanted)) in cotangents.iter().zip(&tape).enumerate() {
        let (Some(is), Some(wanted)) = (is, wanted) else { continue };
        let (is, tolerance) = match is {
            Val::F64(x) => (*x, 1e-9),
            Val::F32(x) => (f64::from(*x), 1e-3),
            _ => continue,
        };
        if !is.is_finite() || !wanted.is_finite() || wanted.abs() > 1e30 {
            continue;
        }
        tally.compared += 1;
        tally.nonzero += usize::from(wanted.abs() > 1e-12);
        let close = (is - wanted).abs() <= tolerance * (1.0 + wanted.abs());
        assert!(close, "{}, argument {i}: {is}, but the tape says {wanted}", at());
    }
}

/// What one function for value and gradient does differently from two, as a sentence.
fn check_combined(
    module: &Module,
    name: &str,
    args: &[Val],
    seeds: &[Val],
    values: &[Val],
    cotangents: &[Option<Val>],
    after: &Instance,
) -> Result<(), String> {
    let gradient = Gradient::new(module, name).map(Gradient::settled).map_err(|e| format!("as one function: {e}"))?;
    let Some(mut one) = instance(module) else { return Ok(()) };
    let found = one.gradient(&gradient, args, seeds).map_err(|e| format!("as one function: {e}"))?;
    let same_all = |a: &[Val], b: &[Val]| a.iter().zip(b).all(|(a, b)| same(a, b));
    if !same_all(&found.values, values) {
        return Err(format!("one function returns {:?}, two {values:?}", found.values));
    }
    let flat = |all: &[Option<Val>]| -> Vec<Val> { all.iter().flatten().copied().collect() };
    if !same_all(&flat(&found.cotangents), &flat(cotangents)) {
        return Err(format!("one function has the gradient {:?}, two {cotangents:?}", found.cotangents));
    }
    if one.memory() != after.memory() {
        return Err("one function leaves other memory than two".to_owned());
    }
    Ok(())
}

/// Whether a trap is one of derived code's own checks.
fn is_check(code: &str) -> bool {
    ["untracked_bits", "const_store", "tape_full", "runtime_helper"].contains(&code)
}

fn one_of(ty: ValType) -> Val {
    match ty {
        ValType::F32 => Val::F32(1.0),
        ValType::F64 => Val::F64(1.0),
        ValType::I32 => Val::I32(0),
        ValType::I64 => Val::I64(0),
        ValType::V128 => Val::V128(0),
        ValType::Ref(_) => Val::Ref(0),
    }
}

/// The tape's gradient by value; `None` if it cannot run.
fn tape(name: &str, checked: &Module, args: &[Val], seeds: &[Val]) -> Option<Vec<Option<f64>>> {
    let (func, ty) = checked.function(name).ok()?;
    let instance = instance(checked)?;
    let mut all = vec![OracleArg::constant(DataValue::I64(instance.vmctx() as i64))];
    for (a, t) in args.iter().zip(ty.params()) {
        all.push(match default_activity(*t) {
            ArgActivity::Active => OracleArg::active(a.to_data()),
            _ => OracleArg::constant(a.to_data()),
        });
    }
    let seeds: Vec<DataValue> = seeds.iter().map(|s| s.to_data()).collect();
    let limits = Limits { fuel: 2_000_000, ..Limits::default() };
    // SAFETY: the checked translation stays inside of the instance, which lives until the end.
    let r = unsafe { Oracle::new(checked.program()).limits(limits).gradient(func, &all, &seeds) }.ok()?;
    Some(r.arg_lanes[1..].iter().map(|l| l.as_ref().and_then(|l| l.first().copied())).collect())
}
