//! What a cache remembers, and what it tells apart.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, Cache, Error, FuncKey, MemoryMode, Mode, Options, Request};
use brolga_testing::program;

/// x y, x + y, and something without a derivative.
fn cache() -> (Cache, [FuncKey; 3]) {
    let program = program(
        "function %product(f64, f64) -> f64 system_v { block0(v0: f64, v1: f64): v2 = fmul v0, v1 return v2 }
         function %sum(f64, f64) -> f64 system_v { block0(v0: f64, v1: f64): v2 = fadd v0, v1 return v2 }
         function %no(f64) -> f64 system_v { fn0 = %nobody_knows(f64) -> f64 system_v
            block0(v0: f64): v1 = call fn0(v0) return v1 }",
    );
    let keys = ["product", "sum", "no"].map(|f| program.func(f).unwrap());
    (Cache::new(program), keys)
}

const ACTIVE: ArgActivity = ArgActivity::Active;

#[test]
fn the_same_question_has_the_same_answer() {
    let (cache, [product, ..]) = cache();
    let request = Request::new(product, [ACTIVE, ACTIVE]);
    let first = cache.rule(&request, &Options::full()).unwrap();
    let second = cache.rule(&request.clone(), &Options::full()).unwrap();
    assert!(first.is(&second) && cache.len() == 1);
}

#[test]
fn functions_activities_hints_and_options_are_told_apart() {
    let (cache, [product, sum, _]) = cache();
    let both = Request::new(product, [ACTIVE, ACTIVE]);
    let mut noalias = both.clone();
    noalias.args[0].promises.noalias = true;
    let requests =
        [both, Request::new(product, [ACTIVE, ArgActivity::Const]), Request::new(sum, [ACTIVE, ACTIVE]), noalias];
    let options = [
        Options::full(),
        Options { mode: Mode::Combined, ..Options::full() },
        Options { memory: MemoryMode::Restore, ..Options::full() },
        Options { tape_limit: 1 << 20, ..Options::full() },
    ];
    let all = || requests.iter().flat_map(|r| options.iter().map(move |o| (r, o)));
    let rules: Vec<_> = all().map(|(r, o)| cache.rule(r, o).unwrap()).collect();
    assert_eq!(cache.len(), 16);
    for (i, (r, o)) in all().enumerate() {
        let second = cache.rule(r, o).unwrap();
        let same: Vec<usize> = (0..rules.len()).filter(|&k| rules[k].is(&second)).collect();
        assert_eq!(same, [i]);
    }
}

#[test]
fn failures_are_not_remembered_and_what_is_held_lives_on() {
    let (cache, [product, _, no]) = cache();
    for _ in 0..2 {
        let failed = cache.rule(&Request::new(no, [ACTIVE]), &Options::full());
        assert!(matches!(failed, Err(Error::Diagnostics(_))));
    }
    assert!(cache.is_empty());
    let request = Request::new(product, [ACTIVE, ACTIVE]);
    let options = Options { mode: Mode::Combined, ..Options::full() };
    let held = cache.rule(&request, &options).unwrap();
    cache.clear();
    assert!(cache.is_empty() && !held.is(&cache.rule(&request, &options).unwrap()));
    drop(cache);
    let x = |v: f64| DataValue::F64(v.into());
    let (mut values, mut cotangents) = (vec![], vec![]);
    let args = [3.0, 5.0].map(|v| Arg::new(x(v)));
    // SAFETY: no pointers.
    unsafe { held.gradient(&args, &[x(1.0)], &mut values, &mut cotangents) }.unwrap();
    assert_eq!((values, cotangents), (vec![x(15.0)], vec![Some(x(5.0)), Some(x(3.0))]));
}

#[test]
fn threads_share_one() {
    let (cache, [product, ..]) = cache();
    let request = Request::new(product, [ACTIVE, ACTIVE]);
    let rules: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..8).map(|_| s.spawn(|| cache.rule(&request, &Options::full()).unwrap())).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(rules.iter().all(|r| r.is(&rules[0])) && cache.len() == 1);
}
