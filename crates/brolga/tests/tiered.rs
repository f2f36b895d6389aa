//! Little effort at first, full effort when that pays: when that is, and that nobody sees it in the numbers.

use std::cell::Cell;
use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, Cache, DataObject, DerivedRule, Effort, Ideas, Made, Mode, Options, Request};

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

fn options(made: Made) -> Options {
    Options { mode: Mode::Gradient, effort: Effort::Tiered(made), ..Options::default() }
}

fn of_cache(cache: &Cache, options: &Options) -> DerivedRule {
    use ArgActivity::{Active, Const, Duplicated};
    let request = Request::new(cache.program().func("f").unwrap(), [Duplicated, Duplicated, Const, Active]);
    cache.rule(&request, options).unwrap()
}

fn tiered(text: &str, made: Made) -> DerivedRule {
    of_cache(&Cache::new(program(text)), &options(made))
}

/// All cotangents of one call, from shadows that are not zero.
fn gradient(rule: &DerivedRule) -> Vec<f64> {
    // SAFETY: arrays are as long as is said.
    cotangents(|args, seeds, values, out| drop(unsafe { rule.gradient(args, seeds, values, out) }.unwrap()))
}

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
fn lanes(rule: &DerivedRule) -> bool {
    rule.clif().0.contains("f64x2") || rule.clif().1.contains("f64x2")
}

/// A rule that is not asked for any effort.
#[test]
fn by_default_calls_pay_for_the_second_rule() {
    let rule = of_cache(&Cache::new(program(TEXT)), &Options { mode: Mode::Gradient, ..Options::default() });
    assert!(!rule.is_settled() && !lanes(&rule), "little effort");
    let first = gradient(&rule);
    assert!(first[2 * N] != 0.0 && first.iter().all(|x| x.is_finite()));
    let (code, end) = (rule.code_bytes(), Instant::now() + Duration::from_secs(60));
    while !rule.is_settled() {
        assert!(Instant::now() < end, "{:?} have been spent", rule.price());
        assert_eq!(gradient(&rule), first);
    }
    assert!(lanes(&rule) && rule.code_bytes() > code, "full effort");
    for _ in 0..2 {
        assert_eq!(gradient(&rule), first);
    }
    assert!(rule.clone().is_settled(), "clones share it");
}

#[test]
fn what_others_have_spent_is_counted() {
    let rule = tiered(TEXT, Made::Here);
    let (price, one) = (rule.price().unwrap(), Duration::from_nanos(1));
    rule.count(price - one);
    assert!(!rule.is_settled(), "a nanosecond is missing");
    rule.count(one);
    assert!(rule.is_settled(), "paid");
}

#[test]
fn a_cache_remembers_what_has_been_paid_for() {
    let cache = Cache::new(program(TEXT));
    let first = of_cache(&cache, &options(Made::Here));
    let again = of_cache(&cache, &options(Made::Here));
    assert!(again.is(&first) && cache.len() == 1);
    first.settle();
    assert!(again.is_settled() && lanes(&again));
}

/// A forward pass and its pullback are of one rule, whatever happens in between, and both are counted.
#[test]
fn a_pullback_belongs_to_its_tape() {
    let rule =
        of_cache(&Cache::new(program(TEXT)), &Options { ideas: Ideas::default().in_order(), ..Options::default() });
    // SAFETY: arrays are as long as is said.
    let split = |settle: bool| {
        cotangents(|args, seeds, _, out| unsafe {
            let (_, mut pullback) = rule.forward(args).unwrap();
            if settle {
                rule.settle();
            }
            pullback.call_into(seeds, out).unwrap();
        })
    };
    let first = split(true);
    assert!(rule.is_settled());
    assert_eq!(split(false), first);

    let counted = of_cache(&Cache::new(program(TEXT)), &Options::default());
    // All but what the forward pass takes at least, so that it pays, or its pullback does.
    counted.count(counted.price().unwrap() - Duration::from_nanos(1));
    // SAFETY: arrays are as long as is said.
    let again = cotangents(|args, seeds, _, out| unsafe {
        let (_, mut pullback) = counted.forward(args).unwrap();
        assert!(counted.is_settled());
        pullback.call_into(seeds, out).unwrap();
    });
    assert_eq!(again, first);
}

#[test]
fn pullbacks_are_counted() {
    let rule = of_cache(&Cache::new(program(TEXT)), &Options::default());
    // SAFETY: arrays are as long as is said.
    cotangents(|args, seeds, _, out| unsafe {
        let (_, mut pullback) = rule.forward(args).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while !rule.is_settled() {
            assert!(Instant::now() < end, "{:?} have been spent", rule.price());
            pullback.call_into(seeds, out).unwrap();
        }
    });
}

#[test]
fn in_the_background_calls_go_on() {
    let rule = tiered(TEXT, Made::InBackground);
    let first = gradient(&rule);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                rule.count(rule.price().unwrap());
                let end = Instant::now() + Duration::from_secs(60);
                while !rule.is_settled() {
                    assert!(Instant::now() < end, "it never comes");
                    assert_eq!(gradient(&rule), first);
                }
            });
        }
    });
    assert_eq!(gradient(&rule), first);
}

/// The address of a function or of data is the same as long as a rule lives, so there is one rule.
#[test]
fn a_program_with_addresses_gets_full_effort_at_once() {
    let data = "gv0 = symbol colocated %table\n";
    let asks = [
        ("v21 = symbol_value.i64 gv0", data),
        ("v21 = func_addr.i64 fn0", "fn0 = %f(i64, i64, i64, f64) -> f64 system_v\n"),
        ("v21 = call_indirect sig0, v0(v3)", "sig0 = (f64) -> f64 system_v\n"),
    ];
    for (ask, declared) in asks {
        // In a block that is not taken, since nobody lies where `a` does.
        let text = TEXT.replacen("    block0(", &format!("{declared}block0("), 1).replace(
            "jump block1(v10, v11)",
            &format!("v22 = iconst.i64 1\nv23 = icmp eq v2, v22\nbrif v23, block4, block1(v10, v11)\nblock4:\n{ask}\njump block1(v10, v11)"),
        );
        let mut program = program(&text);
        if declared == data {
            let bytes = vec![0; 8];
            program.define_data(DataObject { symbol: "table".into(), bytes, align: 8, writable: false }).unwrap();
        }
        let rule = of_cache(&Cache::new(program), &options(Made::Here));
        assert!(rule.is_settled() && rule.price().is_none(), "{ask}");
        assert_eq!(gradient(&rule), gradient(&tiered(TEXT, Made::Here)), "{ask}");
    }
}

/// Who asks for code gets the second tier.
#[test]
fn derivations_are_of_full_effort() {
    let (first, second) = options(Made::Here).tiers().unwrap();
    assert_eq!((first.effort, second.effort), (Effort::Quick, Effort::Full));
    assert_eq!(first.inline, second.inline);
    assert!(Options::full().tiers().is_none());
    assert_eq!(options(Made::Here).settled().settled(), second);
}

/// What is replaced in the second tier was replaced in the first one; in large programs nothing is.
#[test]
fn calls_stay_in_large_programs() {
    let text = |length: usize| {
        let sums: String = (0..length).map(|i| format!("v{} = fadd v{i}, v{i}\n", i + 1)).collect();
        format!(
            "function %f(f64) -> f64 system_v {{
                fn0 = %square(f64) -> f64 system_v
                fn1 = %long(f64) -> f64 system_v
            block0(v0: f64):
                v1 = call fn0(v0)
                v2 = call fn1(v1)
                return v2
            }}
            function %square(f64) -> f64 system_v {{
            block0(v0: f64):
                v1 = fmul v0, v0
                return v1
            }}
            function %long(f64) -> f64 system_v {{
            block0(v0: f64):
                {sums}
                v{} = fmul v0, v0
                return v{}
            }}",
            length + 1,
            length + 1
        )
    };
    for (length, stays) in [(50, false), (20_000, true)] {
        let program = program(&text(length));
        let f = program.func("f").unwrap();
        let request = Request::new(f, [ArgActivity::Active]);
        let rule = DerivedRule::new(&program, &request, &Options::default()).unwrap();
        for _ in 0..2 {
            assert_eq!(rule.clif().0.contains("%square"), stays, "{length}");
            rule.settle();
        }
    }
}
