//! Debug runs: each check fires on what it is for, none on what is right, and gradients stay what
//! they are.

use std::cell::Cell;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::UserFuncName;
use brolga::{Arg, ArgActivity, DerivedRule, Elem, Error, MemoryMode, Options, Program, Request};

fn rule(text: &str, name: &str, args: &[ArgActivity], elems: &[Option<Elem>], options: &Options) -> DerivedRule {
    let mut p = Program::new();
    for f in cranelift_reader::parse_functions(text).expect("the test's text parses") {
        let UserFuncName::Testcase(t) = &f.name else { panic!("a named function") };
        let symbol = String::from_utf8_lossy(t.raw()).into_owned();
        p.define(&symbol, f, |_| 0).expect("defined once");
    }
    let mut request = Request::new(p.func(name).unwrap(), args.iter().copied());
    request.args.iter_mut().zip(elems).for_each(|(a, elem)| a.elem = *elem);
    DerivedRule::new(&p, &request, options).unwrap_or_else(|e| panic!("{e}"))
}

fn debug() -> Options {
    Options { debug: true, ..Options::full() }
}

/// Memory that derived code may write to.
fn cells<const N: usize>(x: [f64; N]) -> [Cell<f64>; N] {
    x.map(Cell::new)
}

fn at<T>(data: &[Cell<T>]) -> u64 {
    data.as_ptr() as u64
}

fn float(x: f64) -> DataValue {
    DataValue::F64(x.into())
}

/// The trap code of a run, or what else became of it.
fn code(result: Result<(), Error>) -> String {
    match result {
        Ok(()) => "fine".to_owned(),
        Err(Error::Trap(t)) => {
            assert!(t.inst_text.is_some() || t.code == "tape_corrupt", "{t}");
            format!("{} in the {}", t.code, t.phase)
        }
        Err(e) => e.to_string(),
    }
}

/// Forward pass and pullback with seed 1.
fn run(rule: &DerivedRule, args: &[Arg]) -> Result<(), Error> {
    // SAFETY: every test passes pointers to arrays that outlive the run, long enough for what
    // really happens.
    let (_, mut pullback) = unsafe { rule.forward(args) }?;
    // SAFETY: as above.
    unsafe { pullback.call(&[float(1.0)]) }.map(|_| ())
}

/// `Σ p[i]²` for `n` elements; then `q[0] = 0`.
const SQUARES: &str = "
function %squares(i64, i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64, v2: i64):
    v3 = f64const 0.0
    jump block1(v0, v1, v3)
block1(v4: i64, v5: i64, v6: f64):
    v7 = load.f64 v4
    v8 = fmul v7, v7
    v9 = fadd v6, v8
    v13 = iconst.i64 8
    v10 = iadd v4, v13
    v14 = iconst.i64 -1
    v11 = iadd v5, v14
    brif v11, block1(v10, v11, v9), block2
block2:
    v12 = f64const 0.0
    store v12, v2
    return v9
}";

fn squares(options: &Options) -> DerivedRule {
    use ArgActivity::{Const, Duplicated};
    rule(SQUARES, "squares", &[Duplicated, Const, Duplicated], &[], options)
}

fn three(p: Arg, n: i64, q: Arg) -> [Arg; 3] {
    [p, Arg::new(DataValue::I64(n)), q]
}

#[test]
fn what_is_right_passes_and_gives_the_same_gradient() {
    let x = cells([1.0, -2.0, 3.0, 0.5]);
    let mut gradients = Vec::new();
    for memory in [MemoryMode::Leave, MemoryMode::Restore] {
        for debug in [false, true] {
            let rule = squares(&Options { memory, debug, ..Options::full() });
            let (q, dx, dq) = (cells([7.0]), cells([0.25; 4]), cells([1.0]));
            let args = three(Arg::duplicated_len(at(&x), at(&dx), 32), 4, Arg::duplicated_len(at(&q), at(&dq), 8));
            for _ in 0..2 {
                run(&rule, &args).unwrap();
            }
            gradients.push((dx.map(|c| c.get()), dq.map(|c| c.get())));
        }
    }
    assert_eq!(gradients[0], ([4.25, -7.75, 12.25, 2.25], [0.0]));
    assert!(gradients.iter().all(|g| *g == gradients[0]), "{gradients:?}");
}

#[test]
fn a_shadow_that_is_too_short() {
    let (x, q) = (cells([1.0; 4]), cells([0.0]));
    // The memory is there; only the declaration is short.
    let (dx, dq) = (cells([0.0; 4]), cells([0.0]));
    let args = three(Arg::duplicated_len(at(&x), at(&dx), 24), 4, Arg::duplicated_len(at(&q), at(&dq), 8));
    assert_eq!(code(run(&squares(&debug()), &args)), "shadow_bounds in the pullback");
    assert_eq!(code(run(&squares(&Options::full()), &args)), "fine");
    // The rule is as good as before.
    let args = three(Arg::duplicated_len(at(&x), at(&dx), 32), 4, Arg::duplicated_len(at(&q), at(&dq), 8));
    assert_eq!(code(run(&squares(&debug()), &args)), "fine");
}

#[test]
fn shadows_on_declared_primals_are_refused_in_any_mode() {
    let (x, dx) = (cells([1.0; 8]), cells([0.0; 8]));
    let rules = [squares(&Options::full()), squares(&debug())];
    let self_overlap = three(Arg::duplicated_len(at(&x), at(&x[2..]), 32), 4, Arg::duplicated(at(&x), at(&dx)));
    let other = three(Arg::duplicated_len(at(&x), at(&dx), 32), 4, Arg::duplicated_len(at(&dx[3..]), at(&x[7..]), 8));
    for rule in rules {
        assert_eq!(code(run(&rule, &self_overlap)), "the shadow of argument 0 overlaps its own primal");
        assert_eq!(code(run(&rule, &other)), "the shadow of argument 0 overlaps the primal of argument 2");
    }
}

/// `**p`, where the shadow of `p` holds the shadow of `*p`.
const INDIRECT: &str = "
function %indirect(i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64):
    v2 = load.i64 v0
    v3 = load.f64 v2
    v4 = load.f64 v1
    v5 = fmul v3, v4
    return v5
}";

#[test]
fn a_shadow_in_memory_that_lies_on_a_primal() {
    let args = [ArgActivity::Duplicated; 2];
    let rule = rule(INDIRECT, "indirect", &args, &[Some(Elem::Pointer), None], &debug());
    let (y, z, dy, dz) = (cells([2.0]), cells([3.0]), cells([0.0]), cells([0.0]));
    let (p, dp) = ([Cell::new(at(&y))], [Cell::new(0_u64)]);
    let with = |shadow: u64, p_len: u64| {
        dp[0].set(shadow);
        let args = [Arg::duplicated_len(at(&p), at(&dp), p_len), Arg::duplicated_len(at(&z), at(&dz), 8)];
        code(run(&rule, &args))
    };
    assert_eq!(with(at(&dy), 8), "fine");
    assert_eq!(with(at(&z), 8), "shadow_aliases_primal in the pullback");
    assert_eq!(with(at(&dy), 4), "shadow_bounds in the forward");
}

#[test]
fn a_shadow_that_is_lost_on_the_way() {
    let args = [ArgActivity::Duplicated; 2];
    let rule = rule(INDIRECT, "indirect", &args, &[Some(Elem::Pointer), None], &debug());
    let (z, dz) = (cells([3.0]), cells([0.0]));
    // Both arguments lead to z, but the first one's shadow does not say so.
    let (p, dp) = ([Cell::new(at(&z))], [Cell::new(0_u64)]);
    let args = [Arg::duplicated_len(at(&p), at(&dp), 8), Arg::duplicated_len(at(&z), at(&dz), 8)];
    assert_eq!(code(run(&rule, &args)), "const_alias in the pullback");
}

#[test]
fn a_constant_pointer_to_memory_with_a_shadow() {
    use ArgActivity::{Const, Duplicated};
    let text = "
function %product(i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64):
    v2 = load.f64 v0
    v3 = load.f64 v1
    v4 = fmul v2, v3
    return v4
}";
    let (x, dx) = (cells([3.0]), cells([0.0]));
    let args = [Arg::duplicated_len(at(&x), at(&dx), 8), Arg::new(DataValue::I64(at(&x) as i64)).with_len(8)];
    let refused = code(run(&rule(text, "product", &[Duplicated, Const], &[], &debug()), &args));
    assert!(refused.starts_with("argument 1 is constant, but overlaps argument 0, which has a shadow"), "{refused}");
    assert_eq!(code(run(&rule(text, "product", &[Duplicated, Const], &[], &Options::full()), &args)), "fine");
}

#[test]
fn floats_copied_to_memory_without_shadow() {
    let text = "
function %spill(f64, i64, i64) -> f64 system_v {
    ss0 = explicit_slot 8
    fn0 = %memcpy(i64, i64, i64) -> i64 system_v
block0(v0: f64, v1: i64, v2: i64):
    v3 = stack_addr.i64 ss0
    v4 = fmul v0, v0
    store v4, v3
    v5 = load.i64 v1
    v6 = call fn0(v5, v3, v2)
    v7 = load.f64 v5
    return v7
}";
    use ArgActivity::{Active, Const, Duplicated};
    let rule = rule(text, "spill", &[Active, Duplicated, Const], &[None, Some(Elem::Pointer)], &debug());
    let (y, dy) = (cells([0.0]), cells([0.0]));
    let p = [Cell::new(at(&y))];
    for (shadow, want) in [(at(&dy), "fine"), (0, "const_store in the forward")] {
        let dp = [Cell::new(shadow)];
        let args = [Arg::new(float(3.0)), Arg::duplicated_len(at(&p), at(&dp), 8), Arg::new(DataValue::I64(8))];
        assert_eq!(code(run(&rule, &args)), want);
    }
}

/// A loop that records, and a callee with a frame.
const TAPE: &str = "
function %sine_sum(f64, i64) -> f64 system_v {
    fn0 = %sin(f64) -> f64 system_v
block0(v0: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    v4 = call fn0(v2)
    v5 = fmul v4, v2
    v8 = iconst.i64 -1
    v6 = iadd v3, v8
    brif v6, block1(v5, v6), block2
block2:
    v7 = fmul v5, v0
    return v7
}";

#[test]
fn a_damaged_tape() {
    let options = Options { debug: true, ..Options::full() };
    let rule = rule(TAPE, "sine_sum", &[ArgActivity::Active, ArgActivity::Const], &[], &options);
    let args = [Arg::new(float(0.7)), Arg::new(DataValue::I64(3))];
    let forward = || {
        // SAFETY: no pointers are passed.
        unsafe { rule.forward(&args) }.unwrap().1
    };
    // SAFETY: as above.
    let pull = |p: &mut brolga::Pullback| unsafe { p.call(&[float(1.0)]) };

    // Twice is not once too often: each call begins at the top of a tape that is still whole.
    let mut undamaged = forward();
    let first = pull(&mut undamaged).unwrap();
    assert_eq!(pull(&mut undamaged).unwrap(), first);

    // A write of eight bytes anywhere either hits a seal, or values only.
    let bytes = undamaged.tape_bytes();
    let mut seals = 0;
    for at in (0..bytes - 7).step_by(4) {
        let mut damaged = forward();
        damaged.tape_mut()[at..at + 8].iter_mut().for_each(|b| *b ^= 0x55);
        match pull(&mut damaged) {
            Err(Error::Trap(t)) if t.code == "tape_corrupt" => {
                assert_eq!(t.phase, "pullback");
                seals += 1;
            }
            Err(Error::Trap(_)) | Ok(_) => {}
            Err(e) => panic!("{e}"),
        }
    }
    // Three records, a frame and its link, each found by at least two of the writes.
    assert!(seals >= 10, "{seals} of {bytes}");

    // A tape of another run, moved by one record.
    let mut stale = forward();
    stale.tape_mut().rotate_left(8);
    assert_eq!(code(pull(&mut stale).map(|_| ())), "tape_corrupt in the pullback");
    // And nothing of it is left behind.
    assert_eq!(pull(&mut forward()).unwrap(), first);
}
