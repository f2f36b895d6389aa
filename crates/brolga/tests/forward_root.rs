//! A function that calls itself is derived once if little effort is made: the root calls what
//! serves it (`brolga_transform::program::forward_root`).

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{
    Arg, ArgActivity, ArgSpec, DerivedRule, Effort, Elem, Error, MemoryMode, Mode, Options, Pass, PassSet, Program,
    Request, ResultActivity, Stage, jit,
};
use brolga_testing::program;
use brolga_transform::Derivation;

/// Both values are needed for the product, so each call runs twice: forwards and backwards. `f(n,
/// x) = n < 2 ? x : f(n - 1, x) f(n - 2, 1.5 x)`.
const PAIR: &str = "function %f(i64, f64) -> f64 system_v {
        fn0 = %f(i64, f64) -> f64 system_v
    block0(v0: i64, v1: f64):
        v2 = iconst.i64 1
        v3 = icmp sle v0, v2
        brif v3, block1, block2
    block1:
        return v1
    block2:
        v4 = isub v0, v2
        v5 = call fn0(v4, v1)
        v6 = isub v4, v2
        v7 = f64const 0x1.8p0
        v8 = fmul v1, v7
        v9 = call fn0(v6, v8)
        v10 = fmul v5, v9
        return v10
    }";

/// The gradient needs no values, so calls run once.
/// `f(p, n) = n < 2 ? p[0]² : f(p, n - 1) + f(p + 8, n - 1)`.
const RECURSION: &str = "function %f(i64, i64) -> f64 system_v {
        fn0 = %f(i64, i64) -> f64 system_v
    block0(v0: i64, v1: i64):
        v2 = iconst.i64 1
        v3 = icmp sle v1, v2
        brif v3, block1, block2
    block1:
        v4 = load.f64 v0
        v5 = fmul v4, v4
        return v5
    block2:
        v6 = isub v1, v2
        v7 = call fn0(v0, v6)
        v8 = iconst.i64 8
        v9 = iadd v0, v8
        v10 = call fn0(v9, v6)
        v11 = fadd v7, v10
        return v11
    }";

/// The same with a factor that is no variable where it is called: `f(n, x, y) = n < 2 ? x y : f(n -
/// 1, x, 1.5) f(n - 2, x, 1.5) y`.
const CONSTANT: &str = "function %f(i64, f64, f64) -> f64 system_v {
        fn0 = %f(i64, f64, f64) -> f64 system_v
    block0(v0: i64, v1: f64, v11: f64):
        v2 = iconst.i64 1
        v3 = icmp sle v0, v2
        brif v3, block1, block2
    block1:
        v12 = fmul v1, v11
        return v12
    block2:
        v4 = isub v0, v2
        v7 = f64const 0x1.8p0
        v5 = call fn0(v4, v1, v7)
        v6 = isub v4, v2
        v9 = call fn0(v6, v1, v7)
        v10 = fmul v5, v9
        v13 = fmul v10, v11
        return v13
    }";

/// What is called does its work in memory; its result is not used. `f(p, n)` squares n numbers and
/// returns the first.
const ASIDE: &str = "function %f(i64, i64) -> f64 system_v {
        fn0 = %f(i64, i64) -> f64 system_v
    block0(v0: i64, v1: i64):
        v4 = load.f64 v0
        v5 = fmul v4, v4
        store v5, v0
        v2 = iconst.i64 1
        v6 = isub v1, v2
        brif v6, block1, block2
    block1:
        v8 = iconst.i64 8
        v9 = iadd v0, v8
        v10 = call fn0(v9, v6)
        return v5
    block2:
        return v5
    }";

/// With a helper: where the seed of the root is one, so is that of the helper that it calls; who
/// serves the root calls one with any seed.
const HELPED: &str = "function %g(i64, f64) -> f64 system_v {
        fn0 = %g(i64, f64) -> f64 system_v
    block0(v0: i64, v1: f64):
        brif v0, block1, block2
    block1:
        v2 = iconst.i64 -1
        v3 = iadd v0, v2
        v4 = call fn0(v3, v1)
        v5 = fmul v4, v4
        return v5
    block2:
        v6 = fmul v1, v1
        return v6
    }
    function %f(i64, f64) -> f64 system_v {
        fn0 = %f(i64, f64) -> f64 system_v
        fn1 = %g(i64, f64) -> f64 system_v
    block0(v0: i64, v1: f64):
        v2 = iconst.i64 1
        v3 = icmp sle v0, v2
        brif v3, block1, block2
    block1:
        v4 = call fn1(v2, v1)
        return v4
    block2:
        v5 = isub v0, v2
        v6 = call fn0(v5, v1)
        v7 = isub v5, v2
        v8 = call fn0(v7, v1)
        v9 = fmul v6, v8
        return v9
    }";

/// Two buffers change places from call to call; words of the first are copied, whatever they are.
/// `f(p, q, n, x) = n > 0 ? f(q, p, n - 1, x) : x²`, and then `p[8..16] = p[0..8]`.
const SWAPPED: &str = "function %f(i64, i64, i64, f64) -> f64 system_v {
        fn0 = %f(i64, i64, i64, f64) -> f64 system_v
    block0(v0: i64, v1: i64, v2: i64, v3: f64):
        brif v2, block1, block2
    block1:
        v4 = iconst.i64 -1
        v5 = iadd v2, v4
        v6 = call fn0(v1, v0, v5, v3)
        return v6
    block2:
        v7 = load.i64 v0
        store v7, v0+8
        v8 = fmul v3, v3
        return v8
    }";

fn quick(mode: Mode) -> Options {
    Options { mode, effort: Effort::Quick, ..Options::default() }
}

fn request(program: &Program, seed: ResultActivity) -> Request {
    let func = program.func("f").unwrap();
    let pointer = program.funcs[func].signature.params[1].value_type.is_int();
    let args = match program.funcs[func].signature.params.len() {
        _ if pointer => vec![ArgActivity::Duplicated, ArgActivity::Const],
        n => [vec![ArgActivity::Const], vec![ArgActivity::Active; n - 1]].concat(),
    };
    Request { results: vec![seed], ..Request::new(func, args) }
}

fn derived(text: &str, options: &Options) -> Derivation {
    derived_as(text, options, |program| request(program, ResultActivity::Active))
}

fn derived_as(text: &str, options: &Options, request: impl Fn(&Program) -> Request) -> Derivation {
    let program = program(text);
    let isa = jit::host_isa(options).unwrap();
    brolga_transform::derive(&program, &request(&program), options, &*isa).unwrap()
}

/// Whether the root's own function does nothing but call.
fn is_served(d: &Derivation) -> bool {
    d.combined.as_ref().is_some_and(|w| w.func.layout.blocks().count() == 1)
}

#[test]
fn who_calls_himself_is_derived_once() {
    for mode in [Mode::Gradient, Mode::Combined] {
        let d = derived(PAIR, &quick(mode));
        assert!(is_served(&d) && d.pairs.len() == 1 && d.joint.is_empty() && d.spare > 0, "{mode:?}");
        assert_eq!(d.combined.unwrap().results, mode == Mode::Combined);
    }
    // The seed of the root is not known to be one; that of its calls is not, either.
    let d = derived(RECURSION, &quick(Mode::Gradient));
    assert!(is_served(&d) && d.pairs.is_empty() && d.joint.len() == 1 && d.spare == 0);
    // A root that is asked for its value is served by a variant that has it.
    let valued = derived(RECURSION, &quick(Mode::Combined));
    assert!(is_served(&valued) && valued.pairs.len() == 1 && valued.joint.is_empty());
    // Nothing asks for a segment, so none is handed on.
    assert!(!d.combined.as_ref().unwrap().segment && !d.joint[0].segment);
}

#[test]
fn what_only_the_root_would_ask_for_is_not_derived() {
    let unit = |program: &Program| request(program, ResultActivity::Unit);
    let joint = |served: bool| {
        let disabled = PassSet::NONE.set(Pass::ForwardRoot, !served);
        let d = derived_as(HELPED, &Options { disabled, ..quick(Mode::Combined) }, unit);
        assert_eq!(is_served(&d), served);
        d.pairs.iter().map(|p| &p.variant).chain(d.joint.iter().map(|w| &w.variant)).cloned().collect::<Vec<_>>()
    };
    let (served, alone) = (joint(true), joint(false));
    assert!(served.iter().all(|v| alone.contains(v)) && served.len() < alone.len(), "{served:?}, {alone:?}");
}

/// A root that knows what the caller promises may record less in loops.
#[test]
fn promises_are_for_the_root_alone() {
    let loops = RECURSION.replace(
        "v4 = load.f64 v0\n        v5 = fmul v4, v4\n        return v5",
        "v20 = iconst.i64 3\n v21 = f64const 0.0\n jump block3(v20, v21)\n block3(v22: i64, v23: f64):\n v24 = load.f64 v0\n \
         v25 = fmul v24, v24\n v26 = fadd v23, v25\n v27 = iadd v22, v30\n brif v27, block3(v27, v26), block4(v26)\n \
         block4(v28: f64):\n return v28",
    );
    let loops = loops.replace("v2 = iconst.i64 1\n", "v2 = iconst.i64 1\n v30 = iconst.i64 -1\n");
    for promised in [false, true] {
        let d = derived_as(&loops, &quick(Mode::Gradient), |program| {
            let mut request = request(program, ResultActivity::Active);
            request.args[0].promises.noalias = promised;
            request
        });
        assert_eq!(is_served(&d), !promised);
    }
}

/// A callee that gets a buffer of doubles where the root has one of singles moves cotangents
/// otherwise.
#[test]
fn who_serves_knows_what_memory_holds() {
    let run = |elems: [Elem; 2], served: bool| {
        let disabled = PassSet::NONE.set(Pass::ForwardRoot, !served);
        let options = Options { disabled, ..quick(Mode::Gradient) };
        let program = program(SWAPPED);
        let [x, y] = elems.map(ArgSpec::duplicated);
        let request = Request::new(program.func("f").unwrap(), [x, y, ArgSpec::CONST, ArgSpec::ACTIVE]);
        let isa = jit::host_isa(&options).unwrap();
        let is_served = is_served(&brolga_transform::derive(&program, &request, &options, &*isa).unwrap());
        let rule = DerivedRule::new(&program, &request, &options).unwrap();
        // Two singles in a double: sums of these are other bits.
        let (mut x, mut y) = ([0_u64; 2], [0_u64; 2]);
        let pair = |a: f32, b: f32| u64::from(a.to_bits()) | u64::from(b.to_bits()) << 32;
        let (mut dx, mut dy) = ([pair(1.5, -2.0), pair(0.25, 8.0)], [1.0_f64.to_bits(), 3.0_f64.to_bits()]);
        let args = [
            Arg::duplicated(x.as_mut_ptr() as u64, dx.as_mut_ptr() as u64),
            Arg::duplicated(y.as_mut_ptr() as u64, dy.as_mut_ptr() as u64),
            Arg::new(DataValue::I64(0)),
            Arg::new(DataValue::F64(0.5.into())),
        ];
        // SAFETY: the arrays are long enough.
        let run = unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut vec![], &mut vec![]) };
        run.unwrap();
        (is_served, dx, dy)
    };
    let (served, dx, dy) = run([Elem::F32, Elem::F64], true);
    assert_eq!((served, dx, dy), run([Elem::F32, Elem::F64], false));
    let single = |v: u64, k: u32| f32::from_bits((v >> (32 * k)) as u32);
    assert_eq!([single(dx[0], 0), single(dx[0], 1)], [1.75, 6.0]);
    // A callee that gets what the root has serves it.
    assert!(run([Elem::F32; 2], true).0 && !served);
}

/// An observer sees what runs.
#[test]
fn who_looks_is_shown_who_serves() {
    let program = program(PAIR);
    let shown =
        |stage| brolga::dump(&program, &request(&program, ResultActivity::Active), &quick(Mode::Combined), stage);
    for (stage, halves) in [
        (Stage::Combined, ["%f__forward(", "%f__pullback("]),
        (Stage::ClifCombined, ["function %f__forward(", "function %f__pullback("]),
    ] {
        let text = shown(stage).unwrap();
        assert!(
            text.contains("what is asked for only calls this") && halves.iter().all(|h| text.contains(h)),
            "{text}"
        );
    }
}

#[test]
fn a_root_of_its_own_is_made_where_it_does_more() {
    let assert_unserved = |text: &str, options: Options| {
        let d = derived(text, &options);
        assert!(!is_served(&d) && d.spare == 0, "{options:?}");
    };
    assert_unserved(PAIR, Options { mode: Mode::Gradient, ..Options::full() });
    assert_unserved(PAIR, Options { disabled: PassSet::from(Pass::ForwardRoot), ..quick(Mode::Gradient) });
    assert_unserved(PAIR, Options { memory: MemoryMode::Restore, ..quick(Mode::Combined) });
    assert_unserved(PAIR, Options { debug: true, ..quick(Mode::Combined) });
    // What is called takes, or gives, something else.
    assert_unserved(CONSTANT, quick(Mode::Gradient));
    assert_unserved(ASIDE, quick(Mode::Gradient));
    // Loops would be run again, or be logged.
    let iterations = PAIR
        .replace("block0(v0: i64, v1: f64):", "block0(v20: i64, v21: f64):\n v22 = iconst.i64 3\n jump block3(v22, v21)\n block3(v23: i64, v24: f64):\n v25 = iconst.i64 -1\n v26 = iadd v23, v25\n v27 = fmul v24, v24\n brif v26, block3(v26, v27), block4(v20, v27)\n block4(v0: i64, v1: f64):");
    assert_unserved(&iterations, quick(Mode::Gradient));
}

/// Value, cotangents and shadows of one call.
fn run(text: &str, seed: ResultActivity, options: &Options) -> Result<(Vec<DataValue>, Vec<u64>, usize), Error> {
    let program = program(text);
    let rule = DerivedRule::new(&program, &request(&program, seed), options).unwrap();
    let float = |x: f64| DataValue::F64(x.into());
    let (x, mut shadow) = ([1.25, -0.5, 0.75, 2.0, 1.5, 1.0], [0.5, 0.25, 0.0, -1.0, 0.0, 3.0]);
    let args = if text == RECURSION {
        let pointer = Arg::duplicated(x.as_ptr() as u64, shadow.as_mut_ptr() as u64);
        [pointer, Arg::new(DataValue::I64(5))]
    } else {
        [Arg::new(DataValue::I64(7)), Arg::new(float(1.03))]
    };
    let (mut values, mut cotangents) = (vec![], vec![]);
    let one = if seed == ResultActivity::Unit { 1.0 } else { 1.75 };
    // SAFETY: the arrays are long enough.
    let run = unsafe { rule.gradient(&args, &[float(one)], &mut values, &mut cotangents) }?;
    let cotangents = cotangents.iter().flatten().map(|c| match c {
        DataValue::F64(x) => f64::from_bits(x.bits()).to_bits(),
        other => panic!("{other}"),
    });
    Ok((values, cotangents.chain(shadow.map(f64::to_bits)).collect(), run.tape_bytes()))
}

#[test]
fn it_gives_the_same() {
    let modes = [Mode::Gradient, Mode::Combined];
    for (text, mode) in [PAIR, RECURSION].into_iter().flat_map(|text| modes.map(|mode| (text, mode))) {
        for seed in [ResultActivity::Active, ResultActivity::Unit] {
            let unserved = Options { disabled: PassSet::from(Pass::ForwardRoot), ..quick(mode) };
            let [served, alone] = [quick(mode), unserved].map(|o| run(text, seed, &o).unwrap());
            let [repeated, _] = [quick(mode), quick(mode)].map(|o| run(text, seed, &o).unwrap());
            assert_eq!(served, repeated);
            assert_eq!((served.0, served.1), (alone.0, alone.1), "{mode:?}, {seed:?}");
            // With its own frame.
            assert!(served.2 >= alone.2, "{mode:?}, {seed:?}");
        }
    }
}

/// A tape that is long enough for a root of its own is so for one that is served.
#[test]
fn the_tape_ends_where_it_would_end_otherwise() {
    for mode in [Mode::Gradient, Mode::Combined] {
        let unserved = Options { disabled: PassSet::from(Pass::ForwardRoot), ..quick(mode) };
        let enough = run(PAIR, ResultActivity::Active, &unserved).unwrap().2.next_multiple_of(16);
        for (options, whose) in [(unserved, "own"), (quick(mode), "served")] {
            let with = |tape_limit| run(PAIR, ResultActivity::Active, &Options { tape_limit, ..options.clone() });
            assert!(with(enough).is_ok(), "{whose}");
            let Err(Error::Trap(trap)) = with(enough / 2) else { panic!("{whose}: the tape is too short") };
            assert_eq!(trap.code, "tape_full", "{whose}");
        }
    }
}
