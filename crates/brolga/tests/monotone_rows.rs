//! Rows of which a run is asked whether they lie one after another (`monotone_rows.rs` of the
//! transform): random loops over random rows, with many ways of going wrong.
//!
//! The shadow that is declared fresh (and filled with NaN where the rule says that it overwrites
//! it) must end as one that is zero and added to. Rows overlap or do not, leave gaps, go down, are
//! stepped over, end early, are changed on the way; entries are read elsewhere as well, at the
//! loop's test, after it, or twice.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Mode, Options, Pass, PassSet, Program, Request};
use brolga_driver::File;
use brolga_testing::budget;
use brolga_testing::noise::Noise;

const ENTRIES: usize = 24;
const ROWS: usize = 6;

/// A loop over rows: what is read of each, and how.
struct RowLoop {
    bytes: i64,
    /// Conditions under which the loop goes on and ends.
    less: &'static str,
    at_least: &'static str,
    /// The end of a row is the beginning of the next, without a load.
    handed_on: bool,
    /// Bytes from row to row, and where their beginnings and ends lie.
    stride: i64,
    from: i64,
    to: i64,
    outer_step: i64,
    inner_step: i64,
    /// The test is at the loop's end.
    at_end: bool,
    equal: bool,
    skips: bool,
    stops: bool,
    writes: bool,
    clamps: bool,
    as_it_asks: bool,
    outside: bool,
    beside: bool,
    round_it: bool,
    inclusive: bool,
    shifted: bool,
}

impl RowLoop {
    /// Most are as they should be, apart from one thing or two.
    fn random(noise: &mut Noise) -> Self {
        let bytes = noise.one_of(&[8, 8, 16]);
        let (less, at_least) = noise.one_of(&[("slt", "sge"), ("slt", "sge"), ("ult", "uge")]);
        let mut odd = |percent: u64| noise.below(100) < percent;
        let handed_on = odd(40);
        let (stride, from, to) = match (odd(10), odd(10), odd(5)) {
            (true, ..) => (16, 0, 8),
            (_, true, _) => (8, 8, 0),
            (.., true) => (8, 0, 16),
            _ => (8, 0, 8),
        };
        let outer_step = if odd(8) { 2 } else { 1 };
        let at_end = odd(30);
        // A loop that ends where two numbers are equal may not step over that.
        let equal = at_end && odd(50);
        let inner_step = if !equal && odd(8) { 2 } else { 1 };
        let (skips, stops, writes, clamps) = (odd(12), odd(10), odd(10), odd(10));
        let (as_it_asks, outside, beside, round_it) = (odd(8), odd(10), odd(15), odd(8));
        let inclusive = odd(6);
        let shifted = odd(15);
        Self {
            bytes,
            less,
            at_least,
            handed_on,
            stride,
            from,
            to,
            outer_step,
            inner_step,
            at_end,
            equal,
            skips,
            stops,
            writes,
            clamps,
            as_it_asks,
            outside,
            beside,
            round_it,
            inclusive,
            shifted,
        }
    }

    /// `f(entries, rows, n)`.
    fn program(&self) -> String {
        let mut f = String::new();
        let mut line = |s: &str| {
            f.push_str(s);
            f.push('\n');
        };
        self.begin(&mut line);
        let high = self.row(&mut line);
        self.entries(high, &mut line);
        self.end(high, &mut line);
        f
    }

    /// Constants, and the blocks that lead to the first row.
    fn begin(&self, line: &mut impl FnMut(&str)) {
        let &Self { stride, bytes, outer_step, inner_step, .. } = self;
        line("function %f(i64, i64, i64) -> f64 system_v {\nblock0(v0: i64, v1: i64, v2: i64):");
        line("v3 = iconst.i64 0\nv4 = f64const 0.0\nv5 = iconst.i64 1");
        for (v, n) in [(6, stride), (7, bytes), (8, outer_step), (9, inner_step)] {
            line(&format!("v{v} = iconst.i64 {n}"));
        }
        let shift = if self.shifted { "v90 = iconst.i64 16" } else { "v90 = iconst.i64 0" };
        line(shift);
        line(if self.handed_on { "v10 = load.i64 v1" } else { "v10 = iconst.i64 0" });
        if self.round_it {
            line("jump block20(v3, v4)\nblock20(v80: i64, v81: f64):");
            line("v82 = icmp sle v80, v5\nbrif v82, block1(v3, v10, v81), block21");
        } else {
            line("jump block1(v3, v10, v4)");
        }
    }

    /// The next row, from where it begins to where it ends; the name of its end.
    fn row(&self, line: &mut impl FnMut(&str)) -> &'static str {
        let &Self { from, to, less, .. } = self;
        line("block1(v11: i64, v12: i64, v13: f64):\nv14 = icmp slt v11, v2\nbrif v14, block2, block9");
        line("block2:\nv15 = imul v11, v6\nv16 = iadd v1, v15");
        line(&format!("v17 = load.i64 v16+{from}\nv18 = load.i64 v16+{to}"));
        let low = if self.handed_on { "v12" } else { "v17" };
        line(&format!("v19 = iadd {low}, v3"));
        if self.writes {
            line(&format!("store v3, v16+{to}"));
        }
        let mut high = "v18";
        if self.clamps {
            line("v20 = iconst.i64 7\nv21 = smin v18, v20");
            high = "v21";
        }
        let enter = match self.at_end {
            true => format!("v22 = icmp {less} {low}, {high}\nbrif v22, block4({low}, v13), block7(v13)"),
            false => format!("jump block3({low}, v13)"),
        };
        if self.skips {
            line(&format!("v23 = band v11, v5\nbrif v23, block7(v13), block10\nblock10:\n{enter}"));
        } else {
            line(&enter);
        }
        high
    }

    /// The loop over the entries of a row.
    fn entries(&self, high: &str, line: &mut impl FnMut(&str)) {
        let &Self { less, at_end, as_it_asks, at_least, .. } = self;
        let address = |k: &str, n: u32| {
            format!("v{0} = imul {k}, v7\nv{1} = iadd v0, v{0}\nv{2} = iadd v{1}, v90", n, n + 1, n + 2)
        };
        if !at_end {
            let cc = match self.inclusive {
                true if less == "ult" => "ule",
                true => "sle",
                false => less,
            };
            line("block3(v24: i64, v25: f64):");
            if as_it_asks {
                line(&address("v24", 60));
                line("v64 = load.f64 v62\nv65 = fmul v64, v64");
            }
            line(&format!("v26 = icmp {cc} v24, {high}\nbrif v26, block4, block7(v25)"));
        }
        let (k, so_far) = if at_end { ("v27", "v28") } else { ("v24", "v25") };
        line(if at_end { "block4(v27: i64, v28: f64):" } else { "block4:" });
        line(&address(k, 30));
        line(&format!("v33 = load.f64 v32\nv34 = fmul v33, v33\nv35 = fadd {so_far}, v34"));
        let mut sum = "v35";
        if self.beside {
            let next = if self.bytes == 16 { 8 } else { 0 };
            line(&format!("v36 = load.f64 v32+{next}\nv37 = fmul v36, v33\nv38 = fadd {sum}, v37"));
            sum = "v38";
        }
        if as_it_asks && !at_end {
            line(&format!("v39 = fadd {sum}, v65"));
            sum = "v39";
        }
        line(&format!("v40 = iadd {k}, v9"));
        if self.stops {
            line(&format!(
                "v41 = f64const 0x1.8p0\nv42 = fcmp gt v33, v41\nbrif v42, block7({sum}), block11\nblock11:"
            ));
        }
        match (at_end, self.equal) {
            (true, true) => line(&format!("v43 = icmp eq v40, {high}\nbrif v43, block7({sum}), block4(v40, {sum})")),
            (true, false) => {
                line(&format!("v43 = icmp {at_least} v40, {high}\nbrif v43, block7({sum}), block4(v40, {sum})"))
            }
            (false, _) => line(&format!("jump block3(v40, {sum})")),
        }
    }

    /// After a row, and after the last.
    fn end(&self, high: &str, line: &mut impl FnMut(&str)) {
        line("block7(v50: f64):");
        let mut sum = "v50";
        if self.outside {
            line("v51 = load.f64 v0+8\nv52 = fmul v51, v50\nv53 = fadd v50, v51");
            sum = "v53";
        }
        line(&format!("v54 = iadd v11, v8\njump block1(v54, {high}, {sum})"));
        if self.round_it {
            line("block9:\nv83 = iadd v80, v5\njump block20(v83, v13)\nblock21:\nreturn v81\n}");
        } else {
            line("block9:\nreturn v13\n}");
        }
    }
}

/// Where rows begin, each as the loop may read it: numbers that are all within the entries.
fn rows(noise: &mut Noise) -> Vec<i64> {
    let mut rows: Vec<i64> = (0..2 * ROWS + 4).map(|_| noise.below(ENTRIES as u64 / 2 - 3) as i64).collect();
    if noise.below(100) < 60 {
        rows.sort_unstable();
        if noise.below(100) < 20 {
            let (i, j) = (noise.below(4) as usize, noise.below(4) as usize);
            rows.swap(i, j);
        }
    }
    rows
}

/// The shadow after a gradient: of one that holds zeros, or what `fill` says where it is
/// overwritten.
fn shadow(program: &Program, claims: bool, options: &Options, entries: &[f64], rows: &[i64]) -> (Vec<f64>, bool) {
    let key = program.func("f").expect("it is there");
    let mut request = Request::new(key, [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Const]);
    if claims {
        request.args[0] = request.args[0].noalias().fresh();
    }
    let rule = DerivedRule::new(program, &request, options).expect("it can be derived");
    let over = rule.overwrites(0);
    let mut shadow = vec![if over { f64::NAN } else { 0.0 }; entries.len()];
    let mut rows = rows.to_vec();
    let entry = Arg {
        value: DataValue::I64(entries.as_ptr() as i64),
        shadow: shadow.as_mut_ptr() as u64,
        len: Some(8 * entries.len() as u64),
        floats: None,
    };
    let args = [entry, Arg::new(DataValue::I64(rows.as_mut_ptr() as i64)), Arg::new(DataValue::I64(ROWS as i64 - 1))];
    // SAFETY: what the loops read lies in both arrays.
    unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut vec![], &mut vec![]) }.expect("it runs");
    (shadow, over)
}

#[test]
fn rows_that_may_overlap_have_their_gradients() {
    let mut noise = Noise(11);
    let (mut asked, mut stored, mut all) = (0, 0, 0);
    for _ in 0..budget(600, 100) {
        let text = RowLoop::random(&mut noise).program();
        let file = File::parse("rows.clif", text.clone()).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let program = &file.program;
        let added = Options { mode: Mode::Gradient, ..Options::full() };
        let disabled = Pass::REORDERING.and(PassSet::of(&[Pass::CostModel, Pass::RerunLoops]));
        let stores = Options { disabled, ..added.clone() };
        let mut was_asked = false;
        for _ in 0..3 {
            let entries: Vec<f64> = (0..ENTRIES).map(|_| 0.25 + noise.below(1000) as f64 / 700.0).collect();
            let rows = rows(&mut noise);
            let (expected, _) = shadow(program, false, &added, &entries, &rows);
            let (found, over) = shadow(program, true, &stores, &entries, &rows);
            was_asked |= over;
            for (i, (&x, &y)) in expected.iter().zip(&found).enumerate() {
                // What is not read is left alone.
                let left = over && x == 0.0 && y.is_nan();
                let close = (x - y).abs() <= 1e-12 * x.abs();
                assert!(left || close, "entry {i}: {x} where added, {y} where stored; rows {rows:?}\n{text}");
            }
            all += 1;
            stored += u32::from(over && rows[..ROWS].is_sorted());
        }
        asked += u32::from(was_asked);
    }
    assert!(
        asked > budget(40, 4) && stored > budget(60, 6),
        "{asked} functions are asked, {stored} of {all} runs store"
    );
}

/// Iterations of the outer loop pass by the inner one, and iterations of the inner one its access,
/// so that addresses come round after 2^26 iterations of each: the entry that is read in the first
/// iteration is read in the last one as well.
#[test]
fn what_is_passed_by_may_come_round() {
    let text = "function %f(i64, i64, i64) -> f64 system_v {
        block0(v0: i64, v1: i64, v2: i64):
            v3 = iconst.i64 0
            v4 = f64const 0.0
            v5 = iconst.i64 1
            v6 = iconst.i64 0x3ff_ffff
            v7 = iconst.i64 12
            jump block1(v3, v4)
        block1(v10: i64, v11: f64):
            v12 = icmp slt v10, v2
            brif v12, block2, block7
        block2:
            v13 = band v10, v6
            brif v13, block6(v11), block3(v3, v11)
        block3(v20: i64, v21: f64):
            v22 = icmp slt v20, v1
            brif v22, block4, block6(v21)
        block4:
            brif v20, block5(v21), block8
        block8:
            v24 = imul v10, v1
            v25 = iadd v24, v20
            v26 = ishl v25, v7
            v27 = iadd v0, v26
            v28 = load.f64 v27
            v29 = fmul v28, v28
            v30 = fadd v21, v29
            jump block5(v30)
        block5(v31: f64):
            v32 = iadd v20, v5
            jump block3(v32, v31)
        block6(v40: f64):
            v41 = iadd v10, v5
            jump block1(v41, v40)
        block7:
            return v11
        }";
    let file = File::parse("round.clif", text.to_owned()).expect("it is read");
    let mut request = Request::new(
        file.program.func("f").expect("it is there"),
        [ArgActivity::Duplicated, ArgActivity::Const, ArgActivity::Const],
    );
    request.args[0] = request.args[0].noalias().fresh();
    let options = Options { mode: Mode::Gradient, ..Options::full() };
    let rule = DerivedRule::new(&file.program, &request, &options).expect("it can be derived");
    let (entry, mut shadow) = ([1.5], [0.0]);
    let args = [
        Arg {
            value: DataValue::I64(entry.as_ptr() as i64),
            shadow: shadow.as_mut_ptr() as u64,
            len: Some(8),
            floats: None,
        },
        Arg::new(DataValue::I64(1 << 26)),
        Arg::new(DataValue::I64((1 << 26) + 1)),
    ];
    // SAFETY: only the one entry is read.
    unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut vec![], &mut vec![]) }.expect("it runs");
    assert_eq!(shadow, [6.0]);
}
