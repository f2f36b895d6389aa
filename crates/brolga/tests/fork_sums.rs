//! Sums of tasks within tasks: they go to the object that they are of, wherever objects lie, and to
//! the fork that they are of, also where tasks have run on the tape of what forks.
//!
//! Seen to fail: a fork's own extents up to those of the next fork, which reached back; sums of a
//! page that went to the first object around which it lies; a strand's part of a stack that reached
//! up into that of a strand on the same thread.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Mode, Request};
use brolga_testing::program;

use crate::forks::{options, outcome, rule};

/// 64 tasks, each with `%inner` tasks in each of which two square x₀ and x₁: x₀ (x₀² + x₁²) for
/// each.
const NESTED: &str = "function %first(i64) {
block0(v0: i64):
    v1 = load.i64 v0
    v2 = load.f64 aligned v1
    v3 = fmul v2, v2
    store v3, v0+8
    return
}
function %second(i64) {
block0(v0: i64):
    v1 = load.i64 v0
    v2 = load.f64 aligned v1+8
    v3 = fmul v2, v2
    store v3, v0+8
    return
}
function %both(i64, i64, i64) -> f64 {
    ss0 = explicit_slot 16, align = 8
    ss1 = explicit_slot 16, align = 8
    fn0 = %first(i64)
    fn1 = %second(i64)
    fn2 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = load.f64 v3
    v5 = stack_addr.i64 ss0
    v6 = stack_addr.i64 ss1
    store v3, v5
    store v3, v6
    v7 = func_addr.i64 fn0
    v8 = func_addr.i64 fn1
    call fn2(v7, v5, v8, v6)
    v9 = load.f64 aligned v5+8
    v10 = load.f64 aligned v6+8
    v11 = fadd v9, v10
    v12 = fmul v11, v4
    return v12
}
function %inner(i64, i64, i64) -> f64 {
    fn0 = %both(i64, i64, i64) -> f64
    fn1 = %brolga_par_reduce_f64(i64, i64, i64, i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 0
    v5 = load.i64 v0+8
    v6 = iconst.i64 1
    v7 = call fn1(v3, v0, v4, v5, v6)
    return v7
}
function %root(i64, i64) -> f64 {
    ss0 = explicit_slot 16, align = 8
    fn0 = %inner(i64, i64, i64) -> f64
    fn1 = %brolga_par_reduce_f64(i64, i64, i64, i64, i64) -> f64
block0(v0: i64, v1: i64):
    v2 = stack_addr.i64 ss0
    store v0, v2
    store v1, v2+8
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 0
    v5 = iconst.i64 64
    v6 = iconst.i64 1
    v7 = call fn1(v3, v2, v4, v5, v6)
    return v7
}";

#[test]
fn tasks_on_the_tape_of_what_forks_fork_themselves() {
    let program = program(NESTED);
    let (x, y) = (0.25, 0.5);
    for inner in [1, 2, 5, 7] {
        let runs = [1, 2, 3].map(|threads| {
            let rule = rule(&program, "root", &options(Mode::Combined, threads));
            outcome(&rule, &[x, y], &[inner], Mode::Combined, true).expect("it runs")
        });
        assert!(runs[0] == runs[1] && runs[0] == runs[2], "{inner}");
        let found: Vec<f64> = runs[0].iter().map(|x| f64::from_bits(*x)).collect();
        // The shadow after the first call: what it held, and 1.5 for each of the tasks.
        let times = 1.5 * 64.0 * inner as f64;
        let wanted =
            [times / 1.5 * x * (x * x + y * y), x, y, 0.5 + times * (3.0 * x * x + y * y), -0.5 + times * 2.0 * x * y];
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
        assert!(found[..5].iter().zip(&wanted).all(near), "{inner}: {found:?} {wanted:?}");
    }
}

/// A task that multiplies an element of one array by one of another, twice.
fn reading(name: &str, first: &str, second: &str) -> String {
    format!(
        "function %{name}(i64) {{
block0(v0: i64):
    v1 = load.i64 v0
    v2 = load.i64 v0+8
    v3 = load.f64 aligned v1{first}
    v4 = load.f64 aligned v2{second}
    v5 = fmul v3, v4
    v6 = fmul v5, v3
    v7 = load.f64 aligned v0+16
    v8 = fadd v6, v7
    store aligned v8, v0+16
    return
}}\n"
    )
}

/// Tasks within tasks read two arrays.
fn reading_two_arrays() -> String {
    reading("a", "", "+8")
        + &reading("b", "+8", "+16")
        + "function %mid(i64) {
    ss0 = explicit_slot 24, align = 8
    ss1 = explicit_slot 24, align = 8
    fn0 = %a(i64)
    fn1 = %b(i64)
    fn2 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64):
    v1 = load.i64 v0
    v2 = load.i64 v0+8
    v3 = load.f64 aligned v0+16
    v4 = load.f64 aligned v2
    v5 = load.f64 aligned v1+16
    v6 = fmul v4, v5
    v7 = fadd v6, v3
    v8 = stack_addr.i64 ss0
    v9 = stack_addr.i64 ss1
    store v1, v8
    store v2, v8+8
    store v7, v8+16
    store v1, v9
    store v2, v9+8
    store v6, v9+16
    v10 = func_addr.i64 fn0
    v11 = func_addr.i64 fn1
    call fn2(v10, v8, v11, v9)
    v12 = load.f64 v8+16
    v13 = load.f64 v9+16
    v14 = fmul v12, v13
    store aligned v14, v0+16
    return
}
function %pair(i64, i64, i64) {
    ss0 = explicit_slot 24, align = 8
    ss1 = explicit_slot 24, align = 8
    fn0 = %mid(i64)
    fn1 = %b(i64)
    fn2 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = load.i64 v0+8
    v5 = stack_addr.i64 ss0
    v6 = stack_addr.i64 ss1
    v17 = load.f64 aligned v3
    v18 = load.f64 aligned v4+16
    v7 = fmul v17, v18
    store v3, v5
    store v4, v5+8
    store v7, v5+16
    store v3, v6
    store v4, v6+8
    store v7, v6+16
    v8 = func_addr.i64 fn0
    v9 = func_addr.i64 fn1
    call fn2(v8, v5, v9, v6)
    v10 = load.f64 v5+16
    v11 = load.f64 v6+16
    v12 = fmul v10, v11
    v13 = iconst.i64 3
    v14 = ishl v1, v13
    v15 = load.i64 v0+16
    v16 = iadd v15, v14
    store aligned v12, v16
    return
}
function %root(i64, i64, i64) {
    ss0 = explicit_slot 24, align = 8
    fn0 = %pair(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = stack_addr.i64 ss0
    store v0, v3
    store v1, v3+8
    store v2, v3+16
    v4 = func_addr.i64 fn0
    v5 = iconst.i64 0
    v6 = iconst.i64 9
    v7 = iconst.i64 1
    call fn1(v4, v3, v5, v6, v7)
    return
}"
}

/// The shadows of two arrays lie side by side, in either order, or far from each other: all bits
/// are the same.
#[test]
fn bits_do_not_depend_on_where_shadows_lie() {
    let program = program(&reading_two_arrays());
    let request = Request::new(program.func("root").expect("it is there"), [ArgActivity::Duplicated; 3]);
    for mode in [Mode::Split, Mode::Gradient] {
        let rule = DerivedRule::new(&program, &request, &options(mode, 2)).expect("it is derived");
        // Where the shadow of each array begins, in doubles.
        let bits = [[0, 3, 6], [12, 9, 0], [0, 1 << 17, 1 << 18], [1 << 18, 0, 1 << 17]].map(|at: [usize; 3]| {
            let mut shadows = vec![0.0_f64; (1 << 18) + 16];
            let mut arrays = [vec![0.1, 0.7, -0.3], vec![0.3, 0.9, 1.1], vec![0.0; 9]];
            for (k, place) in at.into_iter().enumerate() {
                (0..arrays[k].len()).for_each(|i| shadows[place + i] = 0.1 + 0.37 * (i + k) as f64);
            }
            let base = shadows.as_mut_ptr() as u64;
            let args: Vec<Arg> = (arrays.iter_mut().zip(at))
                .map(|(a, at)| Arg::duplicated_len(a.as_mut_ptr() as u64, base + 8 * at as u64, 8 * a.len() as u64))
                .collect();
            let (mut results, mut cotangents) = (vec![], vec![]);
            let seeds: [DataValue; 0] = [];
            // SAFETY: arrays are as long as the program expects, and so are shadows.
            unsafe {
                match mode {
                    Mode::Split => rule.forward_into(&args, &mut results).and_then(|mut p| p.call(&seeds).map(drop)),
                    _ => rule.gradient(&args, &seeds, &mut results, &mut cotangents).map(drop),
                }
            }
            .expect("it runs");
            let of = |(k, place): (usize, usize)| shadows[place..place + arrays[k].len()].to_vec();
            at.into_iter().enumerate().flat_map(of).map(f64::to_bits).collect::<Vec<u64>>()
        });
        assert!(bits.iter().all(|b| *b == bits[0]), "{mode:?}: {bits:x?}");
    }
}

/// Tasks in tasks read an array in a slot of the root: the inner ones an element of their own and
/// then all of it, the outer ones its first element.
const IN_SLOT: &str = "function %inner(i64, i64, i64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = iconst.i64 0
    v5 = iconst.i64 4
    v6 = iconst.i64 3
    v7 = iconst.i64 1
    v8 = f64const 0.0
    jump block1(v1, v8)
block1(v10: i64, v11: f64):
    v12 = icmp slt v10, v2
    brif v12, block2, block3
block2:
    v13 = ishl v10, v6
    v14 = iadd v3, v13
    v15 = load.f64 v14
    v16 = f64const 0x1.2p-2
    v17 = fmul v15, v16
    v18 = fadd v11, v17
    v19 = iadd v10, v7
    jump block1(v19, v18)
block3:
    v20 = load.i64 v0
    jump block4(v4, v11)
block4(v21: i64, v22: f64):
    v23 = ishl v21, v6
    v24 = iadd v20, v23
    v25 = load.f64 v24
    v26 = call fn0(v25)
    v27 = fadd v22, v26
    v28 = iadd v21, v7
    v29 = icmp ult v28, v5
    brif v29, block4(v28, v27), block5(v27)
block5(v30: f64):
    return v30
}
function %outer(i64, i64, i64) -> f64 {
    ss0 = explicit_slot 8, align = 8
    fn1 = %inner(i64, i64, i64) -> f64
    fn2 = %brolga_par_reduce_f64(i64, i64, i64, i64, i64) -> f64
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn1
    v4 = iconst.i64 0
    v5 = iconst.i64 4
    v6 = iconst.i64 1
    v7 = iconst.i64 2
    v30 = load.i64 v0
    v32 = load.f64 v30
    v31 = stack_addr.i64 ss0
    store v30, v31
    v8 = f64const 0.0
    jump block1(v4, v8)
block1(v10: i64, v11: f64):
    v12 = call fn2(v3, v31, v4, v5, v6)
    v13 = fadd v11, v12
    v14 = iadd v10, v6
    v15 = icmp ult v14, v7
    brif v15, block1(v14, v13), block2(v13)
block2(v16: f64):
    return v16
}
function %f(i64) -> f64 {
    ss0 = explicit_slot 8, align = 8
    ss1 = explicit_slot 32, align = 8
    fn1 = %outer(i64, i64, i64) -> f64
    fn2 = %brolga_par_reduce_f64(i64, i64, i64, i64, i64) -> f64
block0(v0: i64):
    v1 = stack_addr.i64 ss0
    v50 = stack_addr.i64 ss1
    v51 = load.f64 v0
    v52 = load.f64 v0+8
    v53 = load.f64 v0+16
    v54 = load.f64 v0+24
    store v51, v50
    store v52, v50+8
    store v53, v50+16
    store v54, v50+24
    store v50, v1
    v3 = func_addr.i64 fn1
    v4 = iconst.i64 0
    v5 = iconst.i64 4
    v6 = iconst.i64 1
    v7 = iconst.i64 2
    v8 = f64const 0.0
    jump block1(v4, v8)
block1(v10: i64, v11: f64):
    v12 = call fn2(v3, v1, v4, v5, v7)
    v13 = fadd v11, v12
    v14 = iadd v10, v6
    v15 = icmp ult v14, v7
    brif v15, block1(v14, v13), block2(v13)
block2(v16: f64):
    return v16
}";

#[test]
fn bits_do_not_depend_on_whose_stack_is_on_the_same_thread() {
    let program = program(IN_SLOT);
    let of_threads = [1, 2, 3, 7].map(|threads| {
        let rule = rule(&program, "f", &options(Mode::Gradient, threads));
        let at = |k: u32| {
            let cells = [0.33, -1.3, 3.3, 0.73].map(|x| x + 0.01 * f64::from(k));
            outcome(&rule, &cells, &[], Mode::Gradient, true).expect("it runs")
        };
        (0..12).map(at).collect::<Vec<_>>()
    });
    assert!(of_threads.iter().all(|found| *found == of_threads[0]));
}
