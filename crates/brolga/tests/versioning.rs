//! Numbers that are watched as a loop runs, some of them several at a time: whichever of them is
//! not finite, guards are asked.
//!
//! The gradient with and without the idea, which must be the same number everywhere: a vector times
//! a matrix, row by row, of which only chosen columns count. In the others may be anything.

use std::cell::Cell;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, ArgSpec, DerivedRule, Mode, Options, Pass, Request};
use brolga_testing::program;

const COLUMNS: usize = 41;
const ROWS: usize = 3;

/// `Σⱼ cⱼ yⱼ²` with `yⱼ = Σᵢ x[i] a[i][j]`, for `c` of zeros and ones, over columns where `c` is
/// one. Rows are added to `y` one after the other.
const COLUMNS_THAT_COUNT: &str = "
function %columns(i64, i64, i64, i64, i64) -> FLOAT system_v {
    ss0 = explicit_slot 400
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64):
    v5 = FLOATconst 0.0
    v6 = iconst.i64 0
    v7 = iconst.i64 1
    v8 = iconst.i64 8
    v9 = iconst.i64 WIDTH
    v40 = stack_addr.i64 ss0
    jump block1(v6)
block1(v10: i64):
    v11 = icmp slt v10, v4
    brif v11, block2, block3(v6)
block2:
    v12 = imul v10, v9
    v13 = iadd v40, v12
    store v5, v13
    v14 = iadd v10, v7
    jump block1(v14)
block3(v15: i64):
    v16 = icmp slt v15, v3
    brif v16, block4, block7(v6, v5)
block4:
    v17 = imul v15, v9
    v18 = iadd v1, v17
    v19 = load.FLOAT v18
    v20 = imul v17, v4
    v21 = iadd v0, v20
    jump block5(v6)
block5(v22: i64):
    v23 = imul v22, v9
    v24 = iadd v40, v23
    v25 = load.FLOAT v24
    v26 = iadd v21, v23
    v27 = load.FLOAT v26
    v28 = fmul v27, v19
    v29 = fadd v25, v28
    store v29, v24
    v30 = iadd v22, v7
    v31 = icmp slt v30, v4
    brif v31, block5(v30), block6
block6:
    v32 = iadd v15, v7
    jump block3(v32)
block7(v33: i64, v34: FLOAT):
    v35 = icmp slt v33, v4
    brif v35, block8, block9
block8:
    v41 = imul v33, v9
    v42 = iadd v40, v41
    v43 = load.FLOAT v42
    v44 = fmul v43, v43
    v45 = imul v33, v8
    v46 = iadd v2, v45
    v47 = load.i64 v46
    v48 = select v47, v44, v5
    v49 = fadd v34, v48
    v50 = iadd v33, v7
    jump block7(v50, v49)
block9:
    return v34
}";

trait Float: Copy {
    const CLIF: &'static str;
    fn of(x: f64) -> Self;
    fn value(self) -> DataValue;
    fn same(self, other: Self) -> bool;
}

impl Float for f64 {
    const CLIF: &'static str = "f64";
    fn of(x: f64) -> Self {
        x
    }
    fn value(self) -> DataValue {
        DataValue::F64(self.into())
    }
    fn same(self, other: Self) -> bool {
        self == other || self.is_nan() && other.is_nan()
    }
}

impl Float for f32 {
    const CLIF: &'static str = "f32";
    fn of(x: f64) -> Self {
        x as f32
    }
    fn value(self) -> DataValue {
        DataValue::F32(self.into())
    }
    fn same(self, other: Self) -> bool {
        self == other || self.is_nan() && other.is_nan()
    }
}

fn rule<F: Float>(finite: bool, mode: Mode) -> DerivedRule {
    use ArgActivity::{Const, Duplicated};
    rule_of::<F>(COLUMNS_THAT_COUNT, "columns", &[Duplicated, Duplicated, Const, Const, Const], finite, mode)
}

fn rule_of<F: Float>(text: &str, name: &str, activity: &[ArgActivity], finite: bool, mode: Mode) -> DerivedRule {
    let p = program(&text.replace("FLOAT", F::CLIF).replace("WIDTH", &size_of::<F>().to_string()));
    let request = Request::new(p.func(name).unwrap(), activity.iter().copied());
    // Sums in order, so that the bits are the same.
    let disabled = Pass::REORDERING.and(Pass::CostModel.into()).set(Pass::VersionGuards, !finite);
    DerivedRule::new(&p, &request, &Options { mode, disabled, ..Options::full() }).unwrap_or_else(|e| panic!("{e}"))
}

fn cells<F: Float>(numbers: &[F]) -> Vec<Cell<F>> {
    numbers.iter().map(|&x| Cell::new(x)).collect()
}

fn at<F>(cells: &[Cell<F>]) -> u64 {
    cells.as_ptr() as u64
}

fn int(n: i64) -> Arg {
    Arg::new(DataValue::I64(n))
}

/// Add the gradient to the shadows, and once more.
fn add_two_gradients<F: Float>(rule: &DerivedRule, args: &[Arg]) {
    for _ in 0..2 {
        // SAFETY: arrays are as long as the function takes them to be.
        unsafe { rule.gradient(args, &[F::of(1.0).value()], &mut vec![], &mut vec![]) }
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

fn gradient<F: Float>(rule: &DerivedRule, a: &[F], x: &[F], counts: &[i64; COLUMNS]) -> Vec<F> {
    let (a, x) = (cells(a), cells(x));
    let (da, dx) = (cells(&[F::of(0.5); COLUMNS * ROWS]), cells(&[F::of(0.25); ROWS]));
    let args = [
        Arg::duplicated(at(&a), at(&da)),
        Arg::duplicated(at(&x), at(&dx)),
        int(counts.as_ptr() as i64),
        int(ROWS as i64),
        int(COLUMNS as i64),
    ];
    add_two_gradients::<F>(rule, &args);
    da.into_iter().chain(dx).map(|c| c.get()).collect()
}

/// Whether the derivative asks if a number is finite.
fn asks(clif: &str) -> bool {
    clif.lines().any(|l| {
        l.split_once(" = fsub").is_some_and(|(_, args)| {
            let mut args =
                args.trim_start_matches(|c| c != ' ').split(';').next().unwrap_or_default().split(',').map(str::trim);
            args.next() == args.next()
        })
    })
}

/// What is there for runs in which not all numbers are finite.
fn cold(clif: &str) -> String {
    let mut cold = false;
    let ours = clif.lines().filter(|l| {
        if l.trim_start().starts_with("block") {
            cold = l.ends_with(" cold:");
        }
        cold
    });
    ours.collect::<Vec<_>>().join("\n")
}

fn check<F: Float>(huge: f64) {
    for mode in [Mode::Combined, Mode::Gradient] {
        let (with, without) = (rule::<F>(true, mode), rule::<F>(false, mode));
        assert!(with.clif().0.contains("x2") || with.clif().0.contains("x4"), "in lanes");
        assert!(asks(with.clif().0) && !asks(without.clif().0), "one is watched, the other is not");
        let guarded = cold(with.clif().0);
        assert!(guarded.contains(" fcmp") && guarded.contains(" band"), "guarded");
        assert!(!guarded.contains("load.f64x2") && !guarded.contains("load.f32x4"), "iteration by iteration");
        assert_eq!(cold(without.clif().0), "", "the only pullback");
        let a: Vec<F> = (0..COLUMNS * ROWS).map(|i| F::of((i % 7) as f64 - 2.5)).collect();
        let x: Vec<F> = (0..ROWS).map(|i| F::of((i % 5) as f64 - 1.5)).collect();
        for counts in [[1; COLUMNS], [0; COLUMNS], std::array::from_fn(|j| (j % 3 == 0) as i64)] {
            // At the beginning, in any lane, and among the last, which are left over.
            for place in [0, COLUMNS, COLUMNS + 1, COLUMNS + 2, COLUMNS + 7, 2 * COLUMNS - 1, 2 * COLUMNS] {
                for bad in [1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, huge, -huge] {
                    let mut a = a.clone();
                    a[place] = F::of(bad);
                    // Two that cancel where they are added up, and too large together where they
                    // are of one sign.
                    a[(place + 8) % (COLUMNS * ROWS)] = F::of(if place % 2 == 0 { bad } else { -bad });
                    let (want, found) = (gradient(&without, &a, &x, &counts), gradient(&with, &a, &x, &counts));
                    let other = want.iter().zip(&found).position(|(w, f)| !w.same(*f));
                    assert_eq!(other, None, "{} with {bad} at {place}, {counts:?}, {mode:?}", F::CLIF);
                }
            }
        }
    }
}

const FACTORS: usize = 10;
const ITERATIONS: usize = 9;

/// `Σᵢ a[i] x[0] … x[9]` over those `i` whose `w[i]` is one. Where it is zero, the iteration does
/// nothing; elsewhere the product is formed and stored, and does not count.
fn iterations_that_do_nothing() -> String {
    let factor = |k: usize| {
        let [at, f, p] = [20 + 3 * k, 21 + 3 * k, 22 + 3 * k];
        let last = if k == 0 { 19 } else { 19 + 3 * k };
        format!(
            "v{at} = iconst.i64 {k}\n v{} = imul v{at}, v8\n v{} = iadd v1, v{}\n v{f} = load.FLOAT v{}\n v{p} = fmul v{last}, v{f}\n",
            100 + 2 * k,
            101 + 2 * k,
            100 + 2 * k,
            101 + 2 * k
        )
    };
    let factors: String = (0..FACTORS).map(factor).collect();
    format!(
        "function %skips(i64, i64, i64, i64, i64) -> FLOAT system_v {{
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64):
    v5 = FLOATconst 0.0
    v6 = iconst.i64 0
    v7 = iconst.i64 1
    v8 = iconst.i64 WIDTH
    v9 = iconst.i64 8
    jump block1(v6, v5)
block1(v10: i64, v11: FLOAT):
    v12 = icmp slt v10, v3
    brif v12, block2, block5
block2:
    v13 = imul v10, v9
    v14 = iadd v2, v13
    v15 = load.i64 v14
    brif v15, block3, block4(v11)
block3:
    v16 = icmp eq v15, v7
    v17 = imul v10, v8
    v18 = iadd v0, v17
    v19 = load.FLOAT v18
    {factors}
    v79 = iadd v4, v17
    store v{0}, v79
    v80 = select v16, v{0}, v5
    v81 = fadd v11, v80
    jump block4(v81)
block4(v82: FLOAT):
    v83 = iadd v10, v7
    jump block1(v83, v82)
block5:
    return v11 }}",
        19 + 3 * FACTORS
    )
}

fn check_iterations<F: Float>() {
    use ArgActivity::{Const, Duplicated};
    let text = iterations_that_do_nothing();
    for mode in [Mode::Combined, Mode::Gradient] {
        let both = [true, false].map(|finite| {
            rule_of::<F>(&text, "skips", &[Duplicated, Duplicated, Const, Const, Duplicated], finite, mode)
        });
        // The sum of what is watched is in a slot of its own.
        let slot = format!("explicit_slot {}", size_of::<F>());
        assert!(both[0].clif().0.contains(&slot) && !both[1].clif().0.contains(&slot), "{}", both[0].clif().0);
        for counts in [[1_i64; ITERATIONS], [0; ITERATIONS], [2; ITERATIONS], std::array::from_fn(|i| (i % 3) as i64)] {
            for place in 0..ITERATIONS + FACTORS {
                for bad in [1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                    let mut numbers: Vec<F> = (0..ITERATIONS + FACTORS).map(|i| F::of((i % 4) as f64 - 1.5)).collect();
                    numbers[place] = F::of(bad);
                    let found = both.each_ref().map(|rule| {
                        let (a, x) = (cells(&numbers[..ITERATIONS]), cells(&numbers[ITERATIONS..]));
                        let (da, dx) = (cells(&[F::of(0.5); ITERATIONS]), cells(&[F::of(0.25); FACTORS]));
                        let (out, dout) = (cells(&[F::of(0.0); ITERATIONS]), cells(&[F::of(0.0); ITERATIONS]));
                        let args = [
                            Arg::duplicated(at(&a), at(&da)),
                            Arg::duplicated(at(&x), at(&dx)),
                            int(counts.as_ptr() as i64),
                            int(ITERATIONS as i64),
                            Arg::duplicated(at(&out), at(&dout)),
                        ];
                        add_two_gradients::<F>(rule, &args);
                        da.into_iter().chain(dx).map(|c| c.get()).collect::<Vec<F>>()
                    });
                    let other = found[0].iter().zip(&found[1]).position(|(w, f)| !w.same(*f));
                    assert_eq!(other, None, "{} with {bad} at {place}, {counts:?}, {mode:?}", F::CLIF);
                }
            }
        }
    }
}

#[test]
fn iterations_that_watch_nothing() {
    check_iterations::<f64>();
    check_iterations::<f32>();
}

#[test]
fn doubles() {
    check::<f64>(1.5e308);
}

#[test]
fn single_precision() {
    check::<f32>(3e38);
}

/// `Σ yᵢ²` over those `i` whose `w[i]` is odd, with `yᵢ = x[2] (a[i] x[0] + b[i] x[1])`, where the
/// first product is there if `w[i]` is not zero, and the second if `w[i]` is positive. What counts
/// for nothing may be anything. Each iteration does more than that, so that a sum of both products
/// is watched where it is there, not each by itself. `within` says that they are added up where the
/// second is computed, which not every iteration does, and that they are nothing elsewhere.
fn conditional_terms(within: bool) -> String {
    let (second, sum) = match within {
        true => ("v60 = fadd v21, v25\njump block5(v60)", "v27 = fadd v26, v7"),
        false => ("jump block5(v25)", "v27 = fadd v21, v26"),
    };
    let more: String =
        (200..230).map(|k| format!("v{k} = iadd v{}, v16\n", if k == 200 { 10 } else { k - 1 })).collect();
    format!(
        "function %terms(i64, i64, i64, i64, i64) -> FLOAT system_v {{
        block0(v0: i64, v1: i64, v2: i64, v3: i64, v5: i64):
            v6 = iconst.i64 0
            v7 = FLOATconst 0.0
            v16 = iconst.i64 1
            v50 = iconst.i64 8
            v51 = iconst.i64 WIDTH
            v8 = load.FLOAT v3
            v53 = iadd v3, v51
            v9 = load.FLOAT v53
            v54 = iadd v53, v51
            v4 = load.FLOAT v54
            jump block1(v6, v7)
        block1(v10: i64, v11: FLOAT):
            v13 = imul v10, v51
            v55 = imul v10, v50
            v14 = iadd v2, v55
            v15 = load.i64 v14
            v17 = band v15, v16
            v56 = icmp ne v15, v6
            brif v56, block2, block3(v7)
        block2:
            v18 = iadd v0, v13
            v19 = load.FLOAT v18
            v20 = fmul v19, v8
            jump block3(v20)
        block3(v21: FLOAT):
            v22 = icmp slt v15, v16
            brif v22, block5(v7), block4
        block4:
            v23 = iadd v1, v13
            v24 = load.FLOAT v23
            v25 = fmul v24, v9
            {second}
        block5(v26: FLOAT):
            {more}
            {sum}
            v28 = fmul v27, v4
            v29 = fmul v28, v28
            v30 = select v17, v29, v7
            v31 = fadd v11, v30
            v32 = iadd v10, v16
            v33 = icmp slt v32, v5
            brif v33, block1(v32, v31), block6
        block6:
            return v31 }}"
    )
}

fn check_terms<F: Float>(within: bool) {
    use ArgActivity::{Const, Duplicated};
    let text = conditional_terms(within);
    for mode in [Mode::Combined, Mode::Gradient] {
        let both = [true, false].map(|finite| {
            rule_of::<F>(&text, "terms", &[Duplicated, Duplicated, Const, Duplicated, Const], finite, mode)
        });
        assert!(asks(both[0].clif().0) && !asks(both[1].clif().0), "one is watched, the other is not");
        for counts in
            [[1_i64; ITERATIONS], [0; ITERATIONS], [-2; ITERATIONS], std::array::from_fn(|i| (i % 5) as i64 - 2)]
        {
            for place in 0..2 * ITERATIONS + 3 {
                for bad in [1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                    let mut numbers: Vec<F> = (0..2 * ITERATIONS + 3).map(|i| F::of((i % 4) as f64 - 1.5)).collect();
                    numbers[place] = F::of(bad);
                    let found = both.each_ref().map(|rule| {
                        let all =
                            [&numbers[..ITERATIONS], &numbers[ITERATIONS..2 * ITERATIONS], &numbers[2 * ITERATIONS..]]
                                .map(cells);
                        let shadows = [ITERATIONS, ITERATIONS, 3].map(|n| cells(&vec![F::of(0.5); n]));
                        let [a, b, x] = std::array::from_fn(|k| Arg::duplicated(at(&all[k]), at(&shadows[k])));
                        add_two_gradients::<F>(rule, &[a, b, int(counts.as_ptr() as i64), x, int(ITERATIONS as i64)]);
                        shadows.into_iter().flatten().map(|c| c.get()).collect::<Vec<F>>()
                    });
                    let other = found[0].iter().zip(&found[1]).position(|(w, f)| !w.same(*f));
                    assert_eq!(other, None, "{} with {bad} at {place}, {counts:?}, {mode:?}", F::CLIF);
                }
            }
        }
    }
}

#[test]
fn what_several_blocks_compute() {
    check_terms::<f64>(false);
    check_terms::<f32>(false);
}

#[test]
fn what_a_block_adds_that_need_not_run() {
    check_terms::<f64>(true);
    check_terms::<f32>(true);
}

const POINTS: usize = 3;
const WIDE: usize = 13;

/// What is done in each iteration of the outer loop of [`anew`], besides.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Besides {
    /// Nothing, and the way is the same in each iteration.
    Nothing,
    /// The same, but the inner loop is entered after a condition, which is the same in each
    /// iteration.
    SameCondition,
    /// An element of the matrix is written, once what comes next has been read.
    Writes,
    /// The inner loops have more iterations from iteration to iteration.
    Grows,
    /// They are entered from the second iteration on.
    Later,
    /// What is read lies one element further in each iteration.
    Moves,
}

/// `Σₚ Σⱼ 2 cⱼ yⱼ` with `yⱼ = Σᵢ x[p][i] a[i][j]`, for `c` of zeros and ones, where each `p` has
/// the same matrix: one that is read anew for each of them. `b` is what is written there.
fn anew(besides: Besides) -> String {
    let enter = match besides {
        Besides::SameCondition => "brif v4, block4(v6), block9",
        Besides::Later => "brif v15, block4(v6), block9",
        _ => "jump block4(v6)",
    };
    let bound = if besides == Besides::Grows { "v81" } else { "v4" };
    let at = if besides == Besides::Moves { "v82" } else { "v0" };
    let writes = match besides {
        Besides::Writes => "v90 = load.FLOAT v5\nstore v90, v0+WIDTH",
        _ => "",
    };
    format!(
        "function %anew(i64, i64, i64, i64, i64, i64) -> FLOAT system_v {{
    ss0 = explicit_slot 400
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64):
    v6 = iconst.i64 0
    v7 = iconst.i64 1
    v8 = iconst.i64 8
    v9 = iconst.i64 WIDTH
    v10 = FLOATconst 0.0
    v11 = stack_addr.i64 ss0
    v12 = iconst.i64 {POINTS}
    jump block1(v6, v10)
block1(v15: i64, v16: FLOAT):
    v17 = icmp slt v15, v12
    brif v17, block2(v6), block12
block2(v20: i64):
    v21 = imul v20, v9
    v22 = iadd v11, v21
    store v10, v22
    v23 = iadd v20, v7
    v24 = icmp slt v23, v4
    brif v24, block2(v23), block3
block3:
    v80 = iadd v15, v7
    v83 = iconst.i64 4
    v84 = imul v80, v83
    v85 = icmp slt v84, v4
    v81 = select v85, v84, v4
    v86 = imul v15, v9
    v82 = iadd v0, v86
    {enter}
block4(v30: i64):
    v31 = icmp slt v30, v3
    brif v31, block5, block8
block5:
    v32 = imul v15, v3
    v33 = iadd v32, v30
    v34 = imul v33, v9
    v35 = iadd v1, v34
    v36 = load.FLOAT v35
    v37 = imul v30, v9
    v38 = imul v37, v4
    v39 = iadd {at}, v38
    jump block6(v6)
block6(v40: i64):
    v41 = imul v40, v9
    v42 = iadd v11, v41
    v43 = load.FLOAT v42
    v44 = iadd v39, v41
    v45 = load.FLOAT v44
    v46 = fmul v45, v36
    v47 = fadd v43, v46
    store v47, v42
    v48 = iadd v40, v7
    v49 = icmp slt v48, {bound}
    brif v49, block6(v48), block7
block7:
    v50 = iadd v30, v7
    jump block4(v50)
block8:
    {writes}
    jump block9
block9:
    jump block10(v6, v16)
block10(v60: i64, v61: FLOAT):
    v62 = imul v60, v9
    v63 = iadd v11, v62
    v64 = load.FLOAT v63
    v65 = fadd v64, v64
    v66 = imul v60, v8
    v67 = iadd v2, v66
    v68 = load.i64 v67
    v69 = select v68, v65, v10
    v70 = fadd v61, v69
    v71 = iadd v60, v7
    v72 = icmp slt v71, v4
    brif v72, block10(v71, v70), block11
block11:
    v73 = iadd v15, v7
    jump block1(v73, v70)
block12:
    return v16
}}"
    )
}

fn check_anew<F: Float>(besides: Besides) {
    use ArgActivity::{Const, Duplicated};
    let text = anew(besides).replace("FLOAT", F::CLIF).replace("WIDTH", &size_of::<F>().to_string());
    for mode in [Mode::Combined, Mode::Gradient] {
        let rule = |finite: bool| {
            let p = program(&text);
            let args = [Duplicated, Duplicated, Const, Const, Const, Duplicated].map(|a| ArgSpec::from(a).noalias());
            let request = Request::new(p.func("anew").unwrap(), args);
            let disabled = Pass::REORDERING.and(Pass::CostModel.into()).set(Pass::VersionGuards, !finite);
            DerivedRule::new(&p, &request, &Options { mode, disabled, ..Options::full() })
                .unwrap_or_else(|e| panic!("{e}"))
        };
        let [without, with] = [false, true].map(rule);
        // Where the sum is not used the forward half has nothing to do.
        if mode == Mode::Combined {
            assert!(asks(with.clif().0) && !asks(without.clif().0), "one is watched, the other is not");
        }
        let all = WIDE * ROWS + POINTS * ROWS + 1;
        for counts in [[1_i64; WIDE], [0; WIDE], std::array::from_fn(|j| (j % 3 == 0) as i64)] {
            for place in 0..all {
                for bad in [1.5, f64::INFINITY, f64::NAN] {
                    let mut numbers: Vec<F> = (0..all).map(|i| F::of((i % 7) as f64 - 2.5)).collect();
                    numbers[place] = F::of(bad);
                    // After the matrix there is what is read if it moves.
                    let last = numbers[WIDE * ROWS - 1];
                    let found = [&without, &with].map(|rule| {
                        let parts = [0..WIDE * ROWS, WIDE * ROWS..all - 1, all - 1..all];
                        let parts = parts.map(|r| [&numbers[r], &[last; POINTS]].concat());
                        let shadows = parts.each_ref().map(|p| cells(&vec![F::of(0.5); p.len()]));
                        let parts = parts.map(|p| cells(&p));
                        let [a, x, b] = std::array::from_fn(|k| Arg::duplicated(at(&parts[k]), at(&shadows[k])));
                        let args = [a, x, int(counts.as_ptr() as i64), int(ROWS as i64), int(WIDE as i64), b];
                        add_two_gradients::<F>(rule, &args);
                        shadows.into_iter().flatten().map(|c| c.get()).collect::<Vec<F>>()
                    });
                    let other = found[0].iter().zip(&found[1]).position(|(w, f)| !w.same(*f));
                    assert_eq!(other, None, "{} with {bad} at {place}, {counts:?}, {mode:?}, {besides:?}", F::CLIF);
                }
            }
        }
    }
}

#[test]
fn what_is_read_anew_in_each_iteration() {
    use Besides::*;
    for besides in [Nothing, SameCondition, Writes, Grows, Later, Moves] {
        check_anew::<f64>(besides);
        check_anew::<f32>(besides);
    }
}

/// `Σᵢ (a[i] x[0])⁴ / x[1]` over those `i` whose `w[i]` is one, by halves. No loop, but a function
/// that calls itself, each activation of which watches its own numbers.
const BY_HALVES: &str = "
function %halves(i64, i64, i64, i64) -> FLOAT system_v {
    fn0 = %halves(i64, i64, i64, i64) -> FLOAT system_v
block0(v0: i64, v1: i64, v2: i64, v3: i64):
    v4 = iconst.i64 1
    v5 = icmp ugt v3, v4
    brif v5, block1, block2
block1:
    v6 = ushr v3, v4
    v7 = isub v3, v6
    v8 = iconst.i64 WIDTH
    v9 = imul v6, v8
    v10 = iadd v0, v9
    v11 = iconst.i64 3
    v12 = ishl v6, v11
    v13 = iadd v2, v12
    v14 = call fn0(v0, v1, v2, v6)
    v15 = call fn0(v10, v1, v13, v7)
    v16 = fadd v14, v15
    return v16
block2:
    v20 = load.FLOAT v0
    v21 = load.FLOAT v1
    v31 = iconst.i64 WIDTH
    v22 = iadd v1, v31
    v23 = load.FLOAT v22
    v24 = fmul v20, v21
    v25 = fmul v24, v24
    v26 = fmul v25, v25
    v27 = fdiv v26, v23
    v28 = load.i64 v2
    v29 = FLOATconst 0.0
    v30 = select v28, v27, v29
    return v30
}";

fn check_halves<F: Float>() {
    use ArgActivity::{Const, Duplicated};
    for mode in [Mode::Combined, Mode::Gradient] {
        let activity = [Duplicated, Duplicated, Const, Const];
        let both = [true, false].map(|finite| rule_of::<F>(BY_HALVES, "halves", &activity, finite, mode));
        assert!(asks(both[0].clif().0) && !asks(both[1].clif().0), "one is watched, the other is not");
        for counts in [[1_i64; ITERATIONS], [0; ITERATIONS], std::array::from_fn(|i| (i % 2) as i64)] {
            for place in 0..ITERATIONS + 2 {
                for bad in [1.5, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                    let mut numbers: Vec<F> = (0..ITERATIONS + 2).map(|i| F::of((i % 4) as f64 - 1.5)).collect();
                    numbers[place] = F::of(bad);
                    let found = both.each_ref().map(|rule| {
                        let (a, x) = (cells(&numbers[..ITERATIONS]), cells(&numbers[ITERATIONS..]));
                        let (da, dx) = (cells(&[F::of(0.5); ITERATIONS]), cells(&[F::of(0.25); 2]));
                        let counts = int(counts.as_ptr() as i64);
                        let args = [Arg::duplicated(at(&a), at(&da)), Arg::duplicated(at(&x), at(&dx)), counts];
                        add_two_gradients::<F>(
                            rule,
                            &args.into_iter().chain([int(ITERATIONS as i64)]).collect::<Vec<_>>(),
                        );
                        da.into_iter().chain(dx).map(|c| c.get()).collect::<Vec<F>>()
                    });
                    let other = found[0].iter().zip(&found[1]).position(|(w, f)| !w.same(*f));
                    assert_eq!(other, None, "{} with {bad} at {place}, {counts:?}, {mode:?}", F::CLIF);
                    let counts_for_nothing = |i: &usize| counts[*i] == 0;
                    for i in (0..ITERATIONS).filter(counts_for_nothing) {
                        assert!(found[0][i].same(F::of(0.5)), "a[{i}] does not count: {bad} at {place}, {mode:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn each_activation_of_a_recursion() {
    check_halves::<f64>();
    check_halves::<f32>();
}

/// With the worth of ideas asked for, too: a recursion is taken to run often, as a loop is.
#[test]
fn a_recursion_is_worth_watching() {
    let text = BY_HALVES.replace("FLOAT", "f64").replace("WIDTH", "8");
    // One activation alone has too few products for a second pullback.
    let text = text.replace("v26 = fmul v25, v25", "v26 = fadd v25, v25");
    let nonrecursive = text.replace("call fn0(v10, v1, v13, v7)", "load.f64 v10");
    let nonrecursive = nonrecursive.replace("call fn0(v0, v1, v2, v6)", "load.f64 v0");
    for (text, watched) in [(text, true), (nonrecursive, false)] {
        let p = program(&text);
        let activity = [ArgActivity::Duplicated, ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Const];
        let request = Request::new(p.func("halves").unwrap(), activity);
        let options = Options { mode: Mode::Gradient, ..Options::full() };
        let rule = DerivedRule::new(&p, &request, &options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(asks(rule.clif().0), watched, "{}", rule.clif().0);
    }
}

/// `Σᵢ √sᵢ + tanh sᵢ` over those `i` whose `w[i]` is not zero, where `sᵢ = Σⱼ (a[i][j] - x[j])²`: a
/// root and a call after an inner loop.
const DISTANCES: &str = "
function %distances(i64, i64, i64, i64, i64) -> FLOAT system_v {
    fn0 = %tanhSUFFIX(FLOAT) -> FLOAT system_v
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64):
    v5 = FLOATconst 0.0
    v6 = iconst.i64 0
    v7 = iconst.i64 1
    v8 = iconst.i64 WIDTH
    v9 = iconst.i64 3
    jump block1(v6, v5)
block1(v10: i64, v11: FLOAT):
    v12 = icmp slt v10, v3
    brif v12, block2, block6
block2:
    v13 = imul v10, v4
    v14 = imul v13, v8
    v15 = iadd v0, v14
    jump block3(v6, v5)
block3(v16: i64, v17: FLOAT):
    v18 = icmp slt v16, v4
    brif v18, block4, block5
block4:
    v19 = imul v16, v8
    v20 = iadd v15, v19
    v21 = load.FLOAT v20
    v22 = iadd v1, v19
    v23 = load.FLOAT v22
    v24 = fsub v21, v23
    v25 = fmul v24, v24
    v26 = fadd v17, v25
    v27 = iadd v16, v7
    jump block3(v27, v26)
block5:
    v28 = sqrt v17
    v29 = call fn0(v17)
    v30 = fadd v28, v29
    v31 = ishl v10, v9
    v32 = iadd v2, v31
    v33 = load.i64 v32
    v34 = select v33, v30, v5
    v35 = fadd v11, v34
    v36 = iadd v10, v7
    jump block1(v36, v35)
block6:
    return v11
}";

fn check_distances<F: Float>() {
    use ArgActivity::{Const, Duplicated};
    let text = DISTANCES.replace("SUFFIX", if F::CLIF == "f32" { "f" } else { "" });
    let activity = [Duplicated, Duplicated, Const, Const, Const];
    let (rows, columns) = (4_usize, 3_usize);
    for mode in [Mode::Combined, Mode::Gradient, Mode::Split] {
        let both = [true, false].map(|finite| rule_of::<F>(&text, "distances", &activity, finite, mode));
        assert!(asks(both[0].clif().0) && !asks(both[1].clif().0), "one is watched, the other is not");
        for counts in [[1_i64; 4], [0; 4], [1, 0, 0, 1]] {
            for place in 0..(rows + 1) * columns {
                for bad in [1.5, 0.0, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
                    let mut numbers: Vec<F> = (0..(rows + 1) * columns).map(|i| F::of((i % 7) as f64 - 2.5)).collect();
                    // The first row is where the point is.
                    numbers.copy_within(..columns, rows * columns);
                    numbers[place] = F::of(bad);
                    let found = both.each_ref().map(|rule| {
                        let (a, x) = (cells(&numbers[..rows * columns]), cells(&numbers[rows * columns..]));
                        let (da, dx) = (cells(&[F::of(0.5); 12]), cells(&[F::of(0.25); 3]));
                        let args = [Arg::duplicated(at(&a), at(&da)), Arg::duplicated(at(&x), at(&dx))];
                        let sizes = [int(counts.as_ptr() as i64), int(rows as i64), int(columns as i64)];
                        add_two_gradients::<F>(rule, &args.into_iter().chain(sizes).collect::<Vec<_>>());
                        da.into_iter().chain(dx).map(|c| c.get()).collect::<Vec<F>>()
                    });
                    let other = found[0].iter().zip(&found[1]).position(|(w, f)| !w.same(*f));
                    assert_eq!(other, None, "{} with {bad} at {place}, {counts:?}, {mode:?}", F::CLIF);
                    let idle =
                        |i: usize| counts[i] == 0 || i == 0 && !(0..columns).contains(&(place % (rows * columns)));
                    for i in (0..rows).filter(|&i| idle(i)) {
                        let none = found[0][i * columns..][..columns].iter().all(|d| d.same(F::of(0.5)));
                        assert!(none, "row {i} has slope zero: {bad} at {place}, {counts:?}, {mode:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn roots_and_calls_behind_inner_loops() {
    check_distances::<f64>();
    check_distances::<f32>();
}
