//! Little effort at first, full effort when that pays: when that is, and that the numbers do not
//! show it.

use std::cell::Cell;
use std::time::{Duration, Instant};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, Cache, DataObject, DerivedRule, Effort, Mode, Options, Pass, Request, SecondTier};
use brolga_testing::program;

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

fn options(made: SecondTier) -> Options {
    Options { mode: Mode::Gradient, effort: Effort::Tiered(made), ..Options::default() }
}

fn of_cache(cache: &Cache, options: &Options) -> DerivedRule {
    use ArgActivity::{Active, Const, Duplicated};
    let request = Request::new(cache.program().func("f").unwrap(), [Duplicated, Duplicated, Const, Active]);
    cache.rule(&request, options).unwrap()
}

fn tiered(text: &str, made: SecondTier) -> DerivedRule {
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
    rule.clif().0.contains("load.f64x2") || rule.clif().1.contains("load.f64x2")
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
    let rule = tiered(TEXT, SecondTier::Here);
    let (price, one) = (rule.price().unwrap(), Duration::from_nanos(1));
    rule.count(price - one);
    assert!(!rule.is_settled(), "a nanosecond is missing");
    rule.count(one);
    assert!(rule.is_settled(), "paid");
}

#[test]
fn a_cache_remembers_what_has_been_paid_for() {
    let cache = Cache::new(program(TEXT));
    let first = of_cache(&cache, &options(SecondTier::Here));
    let second = of_cache(&cache, &options(SecondTier::Here));
    assert!(second.is(&first) && cache.len() == 1);
    first.settle();
    assert!(second.is_settled() && lanes(&second));
}

/// A forward pass and its pullback are of one rule, whatever happens in between, and both are
/// counted.
#[test]
fn a_pullback_belongs_to_its_tape() {
    let rule = of_cache(&Cache::new(program(TEXT)), &Options { disabled: Pass::REORDERING, ..Options::default() });
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
    let settled = cotangents(|args, seeds, _, out| unsafe {
        let (_, mut pullback) = counted.forward(args).unwrap();
        assert!(counted.is_settled());
        pullback.call_into(seeds, out).unwrap();
    });
    assert_eq!(settled, first);
}

#[test]
fn pullbacks_are_counted() {
    let rule = of_cache(&Cache::new(program(TEXT)), &Options::default());
    // SAFETY: arrays are as long as is said.
    cotangents(|args, seeds, _, out| unsafe {
        let (_, mut pullback) = rule.forward(args).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        // On a busy machine the forward pass may have settled the rule.
        loop {
            assert!(Instant::now() < end, "{:?} have been spent", rule.price());
            pullback.call_into(seeds, out).unwrap();
            if rule.is_settled() {
                break;
            }
        }
    });
}

#[test]
fn in_the_background_calls_go_on() {
    // Also where the second rule comes into the module whose code is running.
    for text in [TEXT.to_owned(), POINTED.to_owned() + POINTERS] {
        let rule = tiered(&text, SecondTier::InBackground);
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
}

/// What the functions below point at.
const POINTED: &str = "function %square(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = fmul v0, v0
        return v1
    }
    function %twice(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = fadd v0, v0
        return v1
    }\n";

/// `Σ a[i] g(x[i]) y`, in which `g` is one of two functions behind pointers.
const POINTERS: &str = "function %f(i64, i64, i64, f64) -> f64 system_v {
        sig0 = (f64) -> f64 system_v
        fn0 = %square(f64) -> f64 system_v
        fn1 = %twice(f64) -> f64 system_v
    block0(v0: i64, v1: i64, v2: i64, v3: f64):
        v4 = iconst.i64 0
        v5 = f64const 0.0
        v6 = func_addr.i64 fn0
        v7 = func_addr.i64 fn1
        jump block1(v4, v5)
    block1(v8: i64, v9: f64):
        v10 = icmp slt v8, v2
        brif v10, block2, block3
    block2:
        v11 = iconst.i64 3
        v12 = ishl v8, v11
        v13 = iadd v0, v12
        v14 = load.f64 v13
        v15 = iadd v1, v12
        v16 = load.f64 v15
        v17 = iconst.i64 1
        v18 = band v8, v17
        v19 = select v18, v6, v7
        v20 = call_indirect sig0, v19(v16)
        v21 = fmul v14, v20
        v22 = fmul v21, v3
        v23 = fadd v9, v22
        v24 = iadd v8, v17
        jump block1(v24, v23)
    block3:
        return v9
    }";

/// `s a[0] y`, in which `s` is in the program's memory, and each run adds `Σ g(x[i])` to it; `g` is
/// one of two functions behind pointers.
const ADDRESSES: &str = "function %pick(i64) -> i64 system_v {
        fn0 = %square(f64) -> f64 system_v
        fn1 = %twice(f64) -> f64 system_v
    block0(v0: i64):
        v1 = func_addr.i64 fn0
        v2 = func_addr.i64 fn1
        v3 = select v0, v1, v2
        return v3
    }
    function %f(i64, i64, i64, f64) -> f64 system_v {
        gv0 = symbol colocated %sum
        sig0 = (f64) -> f64 system_v
        fn0 = %pick(i64) -> i64 system_v
    block0(v0: i64, v1: i64, v2: i64, v3: f64):
        v4 = iconst.i64 0
        v6 = symbol_value.i64 gv0
        jump block1(v4)
    block1(v7: i64):
        v8 = icmp slt v7, v2
        brif v8, block2, block3
    block2:
        v9 = iconst.i64 3
        v10 = ishl v7, v9
        v11 = iadd v1, v10
        v12 = load.f64 v11
        v13 = iconst.i64 1
        v14 = band v7, v13
        v15 = call fn0(v14)
        v16 = call_indirect sig0, v15(v12)
        v17 = load.f64 v6
        v18 = fadd v17, v16
        store v18, v6
        v19 = iadd v7, v13
        jump block1(v19)
    block3:
        v20 = load.f64 v6
        v21 = load.f64 v0
        v22 = fmul v20, v21
        v23 = fmul v22, v3
        return v23
    }";

fn with_addresses() -> Cache {
    let mut program = program(&(POINTED.to_owned() + ADDRESSES));
    program
        .define_data(DataObject {
            symbol: "sum".into(),
            bytes: vec![0; 8],
            align: 8,
            writable: true,
            functions: vec![],
        })
        .unwrap();
    Cache::new(program)
}

/// Functions and data have one address as long as a rule lives, and the data what it held.
#[test]
fn both_rules_see_the_same_addresses() {
    for mode in [Mode::Gradient, Mode::Combined, Mode::Split] {
        let cache = with_addresses();
        let with = |effort| of_cache(&cache, &Options { mode, effort, ..Options::default() });
        let (rule, full) = (with(Effort::Tiered(SecondTier::Here)), with(Effort::Full));
        let addresses = || ["square", "twice", "sum"].map(|s| rule.address_of(s).unwrap());
        assert!(!rule.is_settled());
        let (before, code, text) = (addresses(), rule.code_bytes(), rule.clif().0.to_owned());
        // Each run adds to what the last one has left in the program's memory, so that the third
        // one sees what the first two of another rule did.
        let wanted: Vec<_> = (0..4).map(|_| gradient(&full)).collect();
        let found: Vec<_> = (0..4)
            .map(|k| {
                if k == 2 {
                    rule.settle();
                }
                gradient(&rule)
            })
            .collect();
        assert!(rule.is_settled() && rule.code_bytes() > code, "{mode:?}");
        assert_ne!(rule.clif().0, text, "{mode:?}: it is the second one");
        assert!(rule.code_bytes() <= code + full.code_bytes(), "{mode:?}: what both share counts once");
        assert_eq!(found, wanted, "{mode:?}");
        assert_ne!(found[0], found[1], "{mode:?}");
        assert_eq!(addresses(), before, "{mode:?}");
        // SAFETY: the address is that of a function of this signature, which lives as long as the
        // rule.
        let square: extern "C" fn(f64) -> f64 = unsafe { std::mem::transmute(before[0]) };
        assert_eq!(square(3.0), 9.0);
    }
}

/// One that has begun with the first rule ends with it, though the second is in the same module.
#[test]
fn a_pullback_through_addresses_belongs_to_its_tape() {
    let cache = with_addresses();
    let [rule, full] =
        [Effort::default(), Effort::Full].map(|effort| of_cache(&cache, &Options { effort, ..Options::default() }));
    // SAFETY: arrays are as long as is said.
    let split = |rule: &DerivedRule, settle: bool| {
        cotangents(|args, seeds, _, out| unsafe {
            let (_, mut pullback) = rule.forward(args).unwrap();
            if settle {
                rule.settle();
                drop(rule.forward(args).unwrap());
            }
            pullback.call_into(seeds, out).unwrap();
        })
    };
    let found = [true, false].map(|settle| split(&rule, settle));
    assert!(rule.is_settled());
    assert_eq!(found[0], split(&full, false));
    // That of a forward pass that has been dropped is in the sum.
    split(&full, false);
    assert_eq!(found[1], split(&full, false));
}

/// A request for code gets the second tier.
#[test]
fn derivations_are_of_full_effort() {
    let (first, second) = options(SecondTier::Here).tiers().unwrap();
    assert_eq!((first.effort, second.effort), (Effort::Quick, Effort::Full));
    assert_eq!(first.inline, second.inline);
    assert!(Options::full().tiers().is_none());
    assert_eq!(options(SecondTier::Here).settled().settled(), second);
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
