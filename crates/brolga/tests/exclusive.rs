//! Exclusive accesses of tasks: gradients are right whether extents of tasks are apart, touch, or
//! overlap, and whatever moves addresses in loops.

use brolga::{ArgActivity, Mode, Request, Stage, dump};
use brolga_testing::noise::Noise;
use brolga_testing::{budget, program};

use crate::forks::{options, outcome, rule};

/// Cells that all tasks read, and those that tasks write.
const READ: i64 = 96;
const WRITTEN: i64 = 96;

/// Steps of a chain of products at the end of a task, for each task before it: the reverse of the
/// last task, which is the first to begin, adds to shadows after others.
const DELAY: i64 = 20_000;

/// How a task reads and writes: iterations `k` of the range, and `n` in each.
struct Shape {
    /// It reads cell `first + a k + b j`.
    read: [i64; 3],
    /// It writes cell `first + a k + b j`.
    written: [i64; 3],
    /// Tasks, and iterations of a task of the inner loop.
    counts: [i64; 2],
    /// The inner loop counts down.
    down: bool,
    /// What is written has been read.
    in_place: bool,
    /// All iterations read the first cell.
    common: bool,
}

impl Shape {
    /// `y[…] = y[…] + x[…]² x[0]`, or `+ x[…]³`, and the sum of squares; `fork` says whether there
    /// are tasks, of one iteration each.
    fn text(&self, fork: bool) -> String {
        self.rows() + &self.all(fork)
    }

    /// A task.
    fn rows(&self) -> String {
        let [r0, ra, rb] = self.read;
        let [w0, wa, wb] = self.written;
        let (start, end, step) = if self.down { (self.counts[1] - 1, -1, -1) } else { (0, self.counts[1], 1) };
        let compare = if self.down { "sgt" } else { "slt" };
        let old = if self.in_place { "load.f64 aligned v33" } else { "f64const 0x1.0p1" };
        let last = if self.common { "v3" } else { "v30" };
        format!(
            "function %rows(i64, i64, i64) {{
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = load.i64 v0+8
    v5 = iconst.i64 {ra}
    v6 = iconst.i64 {rb}
    v7 = iconst.i64 {wa}
    v8 = iconst.i64 {wb}
    v9 = iconst.i64 {r0}
    v10 = iconst.i64 {w0}
    v11 = iconst.i64 {start}
    v12 = iconst.i64 {end}
    v13 = iconst.i64 {step}
    v14 = iconst.i64 3
    v15 = iconst.i64 1
    jump block1(v1)
block1(v20: i64):
    v21 = icmp slt v20, v2
    brif v21, block2, block5
block2:
    v22 = imul v20, v5
    v23 = imul v20, v7
    jump block3(v11)
block3(v24: i64):
    v25 = icmp {compare} v24, v12
    brif v25, block4, block6
block4:
    v26 = imul v24, v6
    v27 = iadd v22, v26
    v28 = iadd v27, v9
    v29 = ishl v28, v14
    v30 = iadd v3, v29
    v31 = load.f64 aligned v30
    v32 = load.f64 aligned {last}
    v40 = imul v24, v8
    v41 = iadd v23, v40
    v42 = iadd v41, v10
    v43 = ishl v42, v14
    v33 = iadd v4, v43
    v34 = {old}
    v35 = fmul v31, v31
    v36 = fmul v35, v32
    v37 = fadd v34, v36
    store aligned v37, v33
    v38 = iadd v24, v13
    jump block3(v38)
block6:
    v50 = iadd v23, v10
    v51 = ishl v50, v14
    v52 = iadd v4, v51
    v53 = load.f64 aligned v52
    v54 = f64const 0x1.00001p0
    v60 = iconst.i64 {DELAY}
    v55 = imul v20, v60
    jump block7(v55, v53)
block7(v56: i64, v57: f64):
    brif v56, block8, block9
block8:
    v58 = fmul v57, v54
    v59 = isub v56, v15
    jump block7(v59, v58)
block9:
    store aligned v57, v52
    v39 = iadd v20, v15
    jump block1(v39)
block5:
    return
}}
"
        )
    }

    /// What calls it.
    fn all(&self, fork: bool) -> String {
        let call = if fork { "call fn1(v7, v6, v8, v9, v10)" } else { "call fn0(v6, v8, v9)" };
        let (cells, tasks) = (READ + WRITTEN, self.counts[0]);
        format!(
            "function %all(i64) -> f64 {{
    ss0 = explicit_slot 16, align = 8
    fn0 = %rows(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64):
    v6 = stack_addr.i64 ss0
    v1 = iconst.i64 {read}
    v2 = iadd v0, v1
    store v0, v6
    store v2, v6+8
    v7 = func_addr.i64 fn0
    v8 = iconst.i64 0
    v9 = iconst.i64 {tasks}
    v10 = iconst.i64 1
    {call}
    v11 = f64const 0.0
    v12 = iconst.i64 {cells}
    v13 = iconst.i64 3
    jump block1(v8, v11)
block1(v14: i64, v15: f64):
    v16 = icmp slt v14, v12
    brif v16, block2, block3
block2:
    v17 = ishl v14, v13
    v18 = iadd v0, v17
    v19 = load.f64 aligned v18
    v20 = fmul v19, v19
    v21 = fadd v15, v20
    v22 = iadd v14, v10
    jump block1(v22, v21)
block3:
    return v15
}}",
            read = 8 * READ
        )
    }

    /// One at random, whose tasks write different cells of the memory that is there.
    fn random(draw: &mut impl FnMut(i64) -> i64) -> Self {
        let counts = [1 + draw(6), draw(5)];
        let n = counts[1].max(1);
        // Rows that follow each other, with gaps or without, or columns.
        let [a, b] = match draw(3) {
            0 => [n + draw(3), 1],
            1 => [1, counts[0] + draw(2)],
            _ => [2 * n, 2],
        };
        let last = a * (counts[0] - 1) + b * (n - 1);
        let backwards = draw(2) == 1;
        let first = draw(WRITTEN - last);
        let written = if backwards { [first + a * (counts[0] - 1), -a, b] } else { [first, a, b] };
        // Reads lie anywhere, also at one place.
        let [a, b] = [draw(9) - 4, draw(9) - 4];
        let corners = [0, a * (counts[0] - 1), b * (n - 1), a * (counts[0] - 1) + b * (n - 1)];
        let (low, high) = (corners.iter().min().unwrap(), corners.iter().max().unwrap());
        let read = [draw(READ - (high - low)) - low, a, b];
        Self { read, written, counts, down: draw(2) == 1, in_place: draw(2) == 1, common: draw(3) == 0 }
    }
}

#[test]
fn extents_of_tasks_that_are_apart_or_not() {
    let mut noise = Noise(7);
    let mut draw = |below: i64| noise.below(below.max(1) as u64) as i64;
    for round in 0..budget(60, 8) {
        let shape = Shape::random(&mut draw);
        let cells: Vec<f64> = (0..READ + WRITTEN).map(|_| 0.5 + draw(1000) as f64 / 1000.0).collect();
        let serial = program(&shape.text(false));
        let forks = program(&shape.text(true));
        for mode in [Mode::Split, Mode::Gradient] {
            let run = |program, threads| {
                let rule = rule(program, "all", &options(mode, threads));
                [true, false].map(|declared| outcome(&rule, &cells, &[], mode, declared).unwrap())
            };
            let wanted = run(&serial, 1);
            let found = run(&forks, 1);
            for threads in [2, 3] {
                assert_eq!(found, run(&forks, threads), "round {round}, {mode:?}\n{}", shape.text(true));
            }
            for (x, y) in found.iter().flatten().zip(wanted.iter().flatten()) {
                let (x, y) = (f64::from_bits(*x), f64::from_bits(*y));
                let close = (x - y).abs() <= 1e-11 * y.abs().max(1.0);
                assert!(close, "round {round}, {mode:?}: {x} is not {y}\n{}", shape.text(true));
            }
        }
    }
}

/// Rows of tasks: what is recorded of them says where deltas will be; of what has no extent, it
/// does not.
#[test]
fn extents_are_told_where_they_are_known() {
    let shape =
        Shape { read: [0, 8, 1], written: [0, 8, 1], counts: [4, 8], down: false, in_place: true, common: false };
    let text = shape.text(true);
    let asked = |text: &str| {
        let program = program(text);
        let request = Request::new(program.func("all").unwrap(), [ArgActivity::Duplicated]);
        let text = dump(&program, &request, &options(Mode::Split, 1), Stage::Forward).unwrap();
        text.matches("%brolga_pending_within").count()
    };
    assert!(asked(&text) >= 2);
    // The step is an iteration's own.
    let unknown =
        text.replace("v26 = imul v24, v6", "v26 = imul v24, v24").replace("v40 = imul v24, v8", "v40 = bxor v24, v8");
    assert!(asked(&unknown) < asked(&text));
}

/// Two pointers to one array, of which one has extents: cotangents that come by the other one, on
/// the way from one store back to the one before, are there when that is reversed.
#[test]
fn two_ways_to_the_same_cells() {
    let text = |call: &str| {
        format!(
            "function %rows(i64, i64, i64) {{
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.i64 v0
    v4 = iconst.i64 0
    v5 = iconst.i64 3
    v6 = iconst.i64 24
    v7 = iconst.i64 1
    jump block1(v1)
block1(v10: i64):
    v11 = icmp slt v10, v2
    brif v11, block2, block5
block2:
    v12 = imul v10, v6
    v13 = iadd v3, v12
    v14 = ishl v10, v5
    v15 = iadd v0, v14
    v16 = load.i64 v15+8
    jump block3(v4)
block3(v17: i64):
    v18 = band v17, v4
    v19 = iadd v16, v18
    v20 = load.f64 aligned v19
    v21 = iadd v17, v7
    brif v17, block4, block3(v21)
block4:
    v22 = fmul v20, v20
    store aligned v22, v13+8
    v23 = load.f64 aligned v16+8
    v24 = fmul v23, v20
    store aligned v24, v13+16
    v25 = iadd v10, v7
    jump block1(v25)
block5:
    return
}}
function %all(i64) -> f64 {{
    ss0 = explicit_slot 32, align = 8
    fn0 = %rows(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64):
    v1 = stack_addr.i64 ss0
    v2 = iconst.i64 0
    v9 = iconst.i64 24
    v10 = iadd v0, v9
    v11 = iadd v10, v9
    store v0, v1
    store v0, v1+8
    store v10, v1+16
    store v11, v1+24
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 3
    v5 = iconst.i64 1
    {call}
    v6 = load.f64 v0+16
    v7 = load.f64 v0+64
    v8 = fmul v6, v7
    return v8
}}"
        )
    };
    let forks = program(&text("call fn1(v3, v1, v2, v4, v5)"));
    let serial = program(&text("call fn0(v1, v2, v4)"));
    let cells = [1.5, 0.0, 0.0, 0.5, 0.0, 0.0, -2.0, 0.0, 0.0];
    for mode in [Mode::Split, Mode::Gradient] {
        let run = |program, threads| outcome(&rule(program, "all", &options(mode, threads)), &cells, &[], mode, true);
        let wanted = run(&serial, 1).unwrap();
        for threads in [1, 2, 3] {
            for (x, y) in run(&forks, threads).unwrap().iter().zip(&wanted) {
                let (x, y) = (f64::from_bits(*x), f64::from_bits(*y));
                assert!((x - y).abs() <= 1e-12 * y.abs().max(1.0), "{mode:?}, {threads}: {x} is not {y}");
            }
        }
    }
}
