//! Tasks that make numbers of integers in memory: what they share, and what is theirs alone. A
//! shadow of integers is zero when a run is over; where a float was stored, the run says so. Seen
//! to fail: a parent that does not hear of what tasks have poisoned, in sums of theirs or in
//! shadows.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, ArgSpec, DerivedRule, Error, Inline, Mode, Options, Program, Request};
use brolga_testing::program;

/// Doubles at 0, doubles that tasks write at 512, integers of 64 bits at 1024, of 32 bits at 1536,
/// and some that all tasks read at 2048. A task of iterations makes of x[i] the product with four
/// numbers, one of `%apart` that with its own. `%stored` puts its second argument where tasks find
/// an integer, `%within` has tasks that fork.
const NUMBERS: &str = "
function %part(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    jump block1(v1)
block1(v3: i64):
    v4 = icmp slt v3, v2
    brif v4, block2, block3
block2:
    v5 = iconst.i64 3
    v6 = ishl v3, v5
    v7 = iadd v0, v6
    v8 = load.f64 aligned v7
    v9 = load.i64 v7+1024
    v10 = fcvt_from_sint.f64 v9
    v11 = fmul v8, v10
    v12 = iconst.i64 2
    v13 = ishl v3, v12
    v14 = iadd v0, v13
    v15 = load.i32 v14+1536
    v16 = fcvt_from_sint.f64 v15
    v17 = fmul v11, v16
    v18 = load.i32 v0+2048
    v19 = fcvt_from_uint.f64 v18
    v20 = fmul v17, v19
    v21 = load.i32 v0+2052
    v22 = fcvt_from_sint.f64 v21
    v23 = fmul v20, v22
    store aligned v23, v7+512
    v24 = iconst.i64 1
    v25 = iadd v3, v24
    jump block1(v25)
block3:
    return
}
function %halves(i64, i64, i64) {
    fn0 = %part(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 1
    call fn1(v3, v0, v1, v2, v4)
    return
}
function %tasks(i64, i64) {
    fn0 = %part(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    v3 = iconst.i64 0
    v4 = iconst.i64 2
    call fn1(v2, v0, v3, v1, v4)
    return
}
function %within(i64, i64) {
    fn0 = %halves(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    v3 = iconst.i64 0
    v4 = iconst.i64 4
    call fn1(v2, v0, v3, v1, v4)
    return
}
function %own(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = load.i64 v0+8
    jump block1(v1)
block1(v5: i64):
    v6 = icmp slt v5, v2
    brif v6, block2, block3
block2:
    v7 = iconst.i64 3
    v8 = ishl v5, v7
    v9 = iadd v3, v8
    v10 = load.f64 aligned v9
    v11 = iadd v4, v8
    v12 = load.i64 v11
    v13 = fcvt_from_sint.f64 v12
    v14 = fmul v10, v13
    store aligned v14, v9+512
    v15 = iconst.i64 1
    v16 = iadd v5, v15
    jump block1(v16)
block3:
    return
}
function %apart(i64, i64) {
    ss0 = explicit_slot 16, align = 8
    fn0 = %own(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = stack_addr.i64 ss0
    store v0, v2
    v3 = iconst.i64 1024
    v4 = iadd v0, v3
    store v4, v2+8
    v5 = func_addr.i64 fn0
    v6 = iconst.i64 0
    v7 = iconst.i64 2
    call fn1(v5, v2, v6, v1, v7)
    return
}
function %plain(i64, i64) {
    fn0 = %part(i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = iconst.i64 0
    call fn0(v0, v2, v1)
    return
}
function %computed(i64, i64) {
    fn0 = %tasks(i64, i64)
block0(v0: i64, v1: i64):
    v2 = load.i32 v0+2056
    v3 = iconst.i32 0x10_0000
    v4 = iadd v2, v3
    store v4, v0+2048
    v5 = load.i64 v0+2064
    v6 = iadd v5, v5
    store v6, v0+1032
    call fn0(v0, v1)
    return
}
function %stored(i64, i64, f64, i64) {
    fn0 = %tasks(i64, i64)
block0(v0: i64, v1: i64, v2: f64, v3: i64):
    v4 = iadd v0, v3
    store v2, v4
    call fn0(v0, v1)
    return
}
function %stored_within(i64, i64, f64, i64) {
    fn0 = %within(i64, i64)
block0(v0: i64, v1: i64, v2: f64, v3: i64):
    v4 = iadd v0, v3
    store v2, v4
    call fn0(v0, v1)
    return
}
";

const N: usize = 20;

fn rule(program: &Program, func: &str, mode: Mode, threads: usize) -> DerivedRule {
    let func = program.func(func).expect("it is there");
    let all = [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Active, ArgActivity::Const];
    let activities = all[..program.funcs[func].signature.params.len()].to_vec();
    let options = Options { mode, task_threads: Some(threads), ..Options::full() };
    DerivedRule::new(program, &Request::new(func, activities), &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Memory in words: integers that may be bits of floats.
fn memory() -> Vec<u64> {
    let mut words = vec![0_u64; 262];
    for i in 0..N {
        words[i] = (0.5 + i as f64 / 16.0).to_bits();
        words[128 + i] = (1 << 30) + 12_345 * i as u64;
        words[192 + i / 2] |= (0x4000_0000 + 77 * i as u64) << (i % 2 * 32);
    }
    words[256] = 0x3fc0_0000_c120_0000;
    words[257] = 0x0123_4567_4480_0000;
    words[258] = 1 << 29;
    words
}

/// The shadow after two runs, the first of which begins with a cotangent for each result.
fn shadow(rule: &DerivedRule, more: &[DataValue], declared: bool) -> Result<Vec<u64>, Error> {
    let mut shadow = vec![0_u64; 262];
    for run in 0..2 {
        let mut words = memory();
        for i in 0..N {
            shadow[64 + i] = (1.0 + i as f64 + f64::from(run)).to_bits();
        }
        let arg = Arg::duplicated(words.as_mut_ptr() as u64, shadow.as_mut_ptr() as u64);
        let mut args = vec![if declared { arg.with_len(8 * 262) } else { arg }];
        args.push(Arg::new(DataValue::I64(N as i64)));
        args.extend(more.iter().cloned().map(Arg::new));
        // SAFETY: the buffers are as long as the program expects.
        unsafe { rule.gradient(&args, &[], &mut vec![], &mut vec![]) }?;
    }
    Ok(shadow)
}

#[test]
fn shadows_of_integers_are_zero_when_tasks_are_over() {
    let program = program(NUMBERS);
    for name in ["plain", "tasks", "within", "computed", "apart"] {
        for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 2), (Mode::Gradient, 1), (Mode::Gradient, 3)] {
            // What computes integers asks the caller where floats are.
            for declared in [false, true].into_iter().take(if name == "computed" { 1 } else { 2 }) {
                let rule = rule(&program, name, mode, threads);
                let found = shadow(&rule, &[], declared).unwrap_or_else(|e| panic!("{name} {mode:?} {threads}: {e}"));
                let words = memory();
                let int = |at: usize| f64::from((words[at / 2] >> (at % 2 * 32)) as u32 as i32);
                for i in 0..N {
                    let mut number = words[128 + i] as f64 * int(2 * 192 + i) * int(2 * 256 + 1);
                    let unsigned = f64::from(words[256] as u32);
                    number *= unsigned;
                    if name == "apart" {
                        number = words[128 + i] as f64;
                    }
                    if name == "computed" {
                        number *= f64::from(0x4480_0000 + 0x10_0000) / unsigned;
                        number *= if i == 1 { (1 << 30) as f64 / words[129] as f64 } else { 1.0 };
                    }
                    let wanted = number * (1.0 + i as f64) + number * (2.0 + i as f64);
                    let is = f64::from_bits(found[i]);
                    assert!(
                        (is - wanted).abs() <= 1e-12 * wanted.abs(),
                        "{name} {mode:?} {threads} {i}: {is} {wanted}"
                    );
                }
                let left = found.iter().skip(N).position(|&word| word != 0);
                assert_eq!(left, None, "{name} {mode:?} {threads} {declared}: {:x?}", left.map(|at| found[N + at]));
            }
        }
    }
}

/// A float where tasks find an integer, all of them or one, in forks within tasks as well.
#[test]
fn numbers_of_floats_are_found_in_tasks() {
    let program = program(NUMBERS);
    for name in ["stored", "stored_within"] {
        for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 2), (Mode::Gradient, 3)] {
            let rule = rule(&program, name, mode, threads);
            for (place, lost) in [(1024, true), (1024 + 8 * 7, true), (2048, true), (1536, true), (0, false)] {
                let found = shadow(&rule, &[DataValue::F64(3.7.into()), DataValue::I64(place)], false);
                match found {
                    Err(Error::Trap(trap)) if lost => assert_eq!(trap.code, "untracked_bits"),
                    Ok(_) if !lost => {}
                    other => panic!("{name} {mode:?} {threads} {place}: {other:?}"),
                }
            }
        }
    }
}

/// Tasks of which the last one's pullback traps, on one segment, since halves of a double are read.
/// Seen to fail: the pullback of the task before it began within the record of the last, and stored
/// to an address that was none.
#[test]
fn no_pullback_follows_one_that_traps() {
    let text = "
function %task(i64, i64, i64) -> f64 {
block0(v0: i64, v1: i64, v2: i64):
    v3 = uload32.i64 v0
    v4 = bitcast.f64 v3
    return v4
}
function %f(f64) -> f64 {
    ss0 = explicit_slot 8, align = 8
    fn0 = %task(i64, i64, i64) -> f64
    fn1 = %brolga_par_reduce_f64(i64, i64, i64, i64, i64) -> f64
block0(v0: f64):
    v5 = stack_addr.i64 ss0
    store v0, v5
    v6 = iconst.i64 0
    v7 = iconst.i64 4
    v8 = iconst.i64 1
    v9 = func_addr.i64 fn0
    v10 = call fn1(v9, v5, v6, v7, v8)
    v11 = fadd v10, v0
    return v11
}";
    for (mode, threads) in [(Mode::Split, 1), (Mode::Split, 2), (Mode::Combined, 1), (Mode::Combined, 2)] {
        let options = Options { inline: Inline::Never, mode, task_threads: Some(threads), ..Options::default() };
        let p = program(text);
        let rule = DerivedRule::new(&p, &Request::new(p.func("f").unwrap(), [ArgSpec::ACTIVE]), &options).unwrap();
        let (args, seeds) = ([Arg::new(DataValue::F64(1.7.into()))], [DataValue::F64(1.0.into())]);
        for _ in 0..2 {
            // SAFETY: it takes no pointer.
            let found = unsafe {
                if mode == Mode::Split {
                    rule.forward(&args).and_then(|(_, mut pullback)| pullback.call(&seeds).map(drop))
                } else {
                    rule.gradient(&args, &seeds, &mut vec![], &mut vec![]).map(drop)
                }
            };
            assert!(matches!(&found, Err(Error::Trap(t)) if t.code == "untracked_bits"), "{found:?}");
        }
    }
}
