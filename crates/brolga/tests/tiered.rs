//! Little effort at first, full effort when that pays: when that is, and that nobody sees it in the numbers.

use std::cell::Cell;
use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, Cache, DataObject, DerivedRule, Ideas, Made, Mode, Options, Program, Request, Tiered};

mod common;

use common::program;

/// `Σ a[i] x[i]² y`: sums over the array for `y`, products for the rest.
const TEXT: &str = "function %f(i64, i64, i64, f64) -> f64 system_v {
    block0(v0: i64, v1: i64, v2: i64, v3: f64):
        v10 = iconst.i64 0
        v11 = f64const 0.0
        jump block1(v10, v11)
    block1(v4: i64, v5: f64):
        v6 = icmp slt v4, v2
        brif v6, block2, block3
    block2:
        v12 = iconst.i64 3
        v7 = ishl v4, v12
        v8 = iadd v0, v7
        v9 = load.f64 v8
        v13 = iadd v1, v7
        v14 = load.f64 v13
        v15 = fmul v14, v14
        v16 = fmul v15, v9
        v17 = fmul v16, v3
        v18 = fadd v5, v17
        v19 = iconst.i64 1
        v20 = iadd v4, v19
        jump block1(v20, v18)
    block3:
        return v5
}";

const N: usize = 37;

/// With nothing that adds in another order.
fn of_cache(cache: &Cache, made: Made) -> Tiered {
    use ArgActivity::{Active, Const, Duplicated};
    let request = Request::new(cache.program().func("f").unwrap(), [Duplicated, Duplicated, Const, Active]);
    let options = Options { mode: Mode::Gradient, ideas: Ideas::default().in_order(), ..Options::as_calls() };
    Tiered::new(cache, &request, &options, made).unwrap()
}

fn tiered(program: Program, made: Made) -> (Cache, Tiered) {
    let cache = Cache::new(program);
    let tiered = of_cache(&cache, made);
    (cache, tiered)
}

/// All cotangents of one call.
fn gradient(tiered: &Tiered) -> Vec<f64> {
    // SAFETY: arrays are as long as is said.
    cotangents(|args, seeds, values, out| drop(unsafe { tiered.gradient(args, seeds, values, out) }.unwrap()))
}

/// The same, of the rule for the next call. It is not counted.
fn gradient_of(rule: &DerivedRule) -> Vec<f64> {
    // SAFETY: arrays are as long as is said.
    cotangents(|args, seeds, values, out| drop(unsafe { rule.gradient(args, seeds, values, out) }.unwrap()))
}

/// From shadows that are not zero.
fn cotangents(call: impl Fn(&[Arg], &[DataValue], &mut Vec<DataValue>, &mut Vec<Option<DataValue>>)) -> Vec<f64> {
    let numbers = |k: usize| (0..N).map(|i| Cell::new(((i * 7 + k) % 11) as f64 / 3.0 - 1.5)).collect::<Vec<_>>();
    let (a, x, da, dx) = (numbers(1), numbers(2), numbers(3), numbers(4));
    let at = |v: &[Cell<f64>]| v.as_ptr() as u64;
    let float = |x: f64| DataValue::F64(x.into());
    let args = [
        Arg::duplicated(at(&a), at(&da)),
        Arg::duplicated(at(&x), at(&dx)),
        Arg::new(DataValue::I64(N as i64)),
        Arg::new(float(0.7)),
    ];
    let mut out = vec![];
    call(&args, &[float(1.25)], &mut vec![], &mut out);
    let Some(DataValue::F64(y)) = out[3] else { panic!("the last argument is active") };
    da.into_iter().chain(dx).map(|c| c.get()).chain([y.as_f64()]).collect()
}

/// What is there with full effort only.
fn lanes(tiered: &Tiered) -> bool {
    tiered.rule().clif().0.contains("f64x2")
}

#[test]
fn calls_pay_for_the_second_rule() {
    let (cache, tiered) = tiered(program(TEXT), Made::Here);
    assert!(!tiered.is_full() && cache.len() == 1);
    assert!(!lanes(&tiered), "little effort");
    let first = gradient_of(tiered.rule());
    assert!(first[2 * N] != 0.0 && first.iter().all(|x| x.is_finite()));
    let one = Duration::from_nanos(1);
    tiered.count(tiered.price() - one);
    assert!(!tiered.is_full(), "a nanosecond is missing");
    tiered.count(one);
    assert!(tiered.is_full() && cache.len() == 2, "paid");
    assert!(lanes(&tiered), "full effort");
    for _ in 0..2 {
        assert_eq!(gradient(&tiered), first);
    }
    assert!(tiered.clone().is_full(), "clones share it");
}

#[test]
fn a_rule_that_was_there_has_its_price() {
    let (cache, first) = tiered(program(TEXT), Made::Here);
    let again = of_cache(&cache, Made::Here);
    assert!(again.rule().is(first.rule()) && again.price() == first.price());
}

#[test]
fn calls_themselves_are_counted() {
    let (_, tiered) = tiered(program(TEXT), Made::Here);
    let first = gradient(&tiered);
    let end = Instant::now() + Duration::from_secs(60);
    while !tiered.is_full() {
        assert!(Instant::now() < end, "{:?} have been spent", tiered.price());
        assert_eq!(gradient(&tiered), first);
    }
    assert_eq!(gradient(&tiered), first);
}

#[test]
fn in_the_background_calls_go_on() {
    let (cache, tiered) = tiered(program(TEXT), Made::InBackground);
    let first = gradient(&tiered);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                tiered.count(tiered.price());
                let end = Instant::now() + Duration::from_secs(60);
                while !tiered.is_full() {
                    assert!(Instant::now() < end, "it never comes");
                    assert_eq!(gradient(&tiered), first);
                }
            });
        }
    });
    assert_eq!(gradient(&tiered), first);
    assert_eq!(cache.len(), 2);
}

#[test]
fn a_program_that_remembers_gets_full_effort_at_once() {
    let mut program = program(TEXT);
    program.define_data(DataObject { symbol: "state".into(), bytes: vec![0; 8], align: 8, writable: true }).unwrap();
    let (cache, tiered) = tiered(program, Made::Here);
    assert!(tiered.is_full() && lanes(&tiered) && cache.len() == 1);
    tiered.count(tiered.price() * 3);
    gradient(&tiered);
    assert_eq!(cache.len(), 1);
}
