//! The checks must notice what is wrong: right gradients pass, spoiled ones do not.

use brolga::Options;
use brolga_driver::check::forward::{ForwardCheck, forward};
use brolga_driver::check::{Check, RowVerdict, Tolerances, check};
use brolga_driver::protocol::{Share, derive, disagreement_with_tape, dump_violations, shape_violations, violations};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Invocation, Item, Num, Outcome, run};
use brolga_oracle::fd::Verdict;

const TEXT: &str = "
; data: %total = f64[0.0]
function %f(f64, i64, f64x2) -> f64 system_v {
block0(v0: f64, v1: i64, v2: f64x2):
    v3 = load.f64 v1
    v4 = fmul v0, v3
    v5 = extractlane v2, 1
    v6 = fmul v4, v5
    store v6, v1+8
    v7 = fadd v6, v0
    return v7
}
function %abs(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fabs v0
    return v1
}
function %lost(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fdiv v0, v0
    v2 = f64const 0x1.0p100
    v3 = fmul v1, v2
    jump block1
block1:
    v4 = fadd.f64 v0, v3
    return v4
}
function %count(f64) -> f64 system_v {
    gv0 = symbol %total
block0(v0: f64):
    v1 = symbol_value.i64 gv0
    v2 = load.f64 v1
    v3 = fadd v2, v0
    store v3, v1
    v4 = fmul v3, v3
    return v4
}
";

const CALL: &str = "%f(1.5, [2.0, 7.0], [0.5 -0.25]) shadow 1=[0.5, 2.0]";

struct Subject {
    file: File,
    call: Invocation,
}

impl Subject {
    fn new(text: &str) -> Self {
        Self::of(TEXT, text)
    }

    fn of(file: &str, text: &str) -> Self {
        let file = File::parse("test.clif", file).expect("the file is fine");
        let (call, clauses) = call_with_clauses(text).expect("the call is fine");
        let call = Invocation::bind(&file.program, text, &call, &clauses).expect("the call fits");
        Self { file, call }
    }

    fn rule(&self) -> Result<brolga::DerivedRule, brolga::Error> {
        derive(&self.file.program, &self.call.request(), &Options::full())
    }

    fn outcome(&self) -> Outcome {
        run::gradient(&self.rule().expect("there is a derivative"), &self.call).expect("the call runs")
    }

    fn check(&self, outcome: &Outcome, differences: bool) -> Check {
        let tolerances = Tolerances::of(&self.file.program, &self.call, None);
        check(&self.file.program, &self.call, outcome, &|| self.rule(), tolerances, differences)
            .expect("the primal runs")
    }

    fn forward(&self) -> ForwardCheck {
        let tolerances = Tolerances::of(&self.file.program, &self.call, None);
        let rules =
            |mode, width| derive(&self.file.program, &self.call.request(), &Options { mode, width, ..Options::full() });
        forward(&self.file.program, &self.call, &self.outcome(), &rules, tolerances, true).expect("it runs")
    }
}

#[test]
fn a_right_gradient_passes() {
    let s = Subject::new(CALL);
    let outcome = s.outcome();
    let found = s.check(&outcome, true);
    assert_eq!(found.complaints(), [""; 0]);
    assert_eq!(found.rows.len(), 5);
    assert!(found.rows.iter().all(|r| r.verdict == RowVerdict::Ok && r.tape.is_some()));
    assert!(found.dot.is_ok_and(|d| d.holds));
    assert_eq!(shape_violations(&s.call, &outcome), [""; 0]);
}

#[test]
fn every_wrong_entry_is_noticed() {
    let s = Subject::new(CALL);
    let right = s.outcome();
    for (arg, n) in [(0, 1), (1, 2), (2, 2)] {
        for lane in 0..n {
            let mut wrong = right.clone();
            match wrong.gradient[arg].as_mut().expect("there is a gradient") {
                Item::One(x) => *x = Num::F64(x.as_f64() + 1e-3),
                Item::Many(v) => v[lane] = Num::F64(v[lane].as_f64() + 1e-3),
            }
            for differences in [false, true] {
                let found = s.check(&wrong, differences);
                let bad: Vec<_> = found.rows.iter().filter(|r| r.verdict.is_wrong()).map(|r| r.input.name()).collect();
                let name = if n == 1 { arg.to_string() } else { format!("{arg}[{lane}]") };
                assert_eq!(bad, [name]);
                assert!(found.dot.is_ok_and(|d| !d.holds), "the dot product notices, too");
            }
        }
    }
    let mut missing = right;
    missing.gradient[0] = None;
    assert_eq!(shape_violations(&s.call, &missing).len(), 1);
    assert!(!s.check(&missing, false).is_ok());
}

#[test]
fn kinks_are_named() {
    let s = Subject::new("%abs(0.0)");
    let found = s.check(&s.outcome(), true);
    assert_eq!(found.rows[0].verdict, RowVerdict::Kink);
    assert!(found.is_ok());
    let mut wrong = s.outcome();
    wrong.gradient[0] = Some(Item::One(Num::F64(1.5)));
    assert!(!s.check(&wrong, true).is_ok());
}

#[test]
fn the_tape_does_not_tell_what_it_loses_by_rounding() {
    // The slope is one. The tape adds and takes away 2¹⁰⁰ and so do the differences.
    let s = Subject::new("%lost(-0.75)");
    let right = s.outcome();
    let found = s.check(&right, false);
    assert_eq!((found.rows[0].gradient, found.rows[0].tape), (1.0, Some(0.0)));
    assert_eq!((found.rows[0].verdict, found.complaints()), (RowVerdict::Unknown, vec![]));
    let mut wrong = right;
    wrong.gradient[0] = Some(Item::One(Num::F64(1e20)));
    assert_eq!(s.check(&wrong, false).rows[0].verdict, RowVerdict::NotTheTape);
}

#[test]
fn data_objects_start_afresh_for_every_sample() {
    let s = Subject::new("%count(1.5)");
    let outcome = s.outcome();
    assert_eq!(outcome.gradient, [Some(Item::One(Num::F64(3.0)))]);
    let found = s.check(&outcome, true);
    assert_eq!(found.complaints(), [""; 0]);
}

#[test]
fn rules_keep_their_promises() {
    for call in [CALL, "%abs(-2.0)", "%count(1.5)"] {
        let s = Subject::new(call);
        let program = &s.file.program;
        assert_eq!(violations(program, &s.call, 1e-9, Share::All).expect("it runs"), [""; 0], "{call}");
        assert_eq!(disagreement_with_tape(program, &s.call, 1e-9).expect("it runs"), None, "{call}");
        let dumps = dump_violations(program, &s.call.request(), &Options::full());
        assert_eq!(dumps.expect("every stage prints"), [""; 0], "{call}");
    }
}

/// Functions whose differences mislead: steps over periods and jumps, noise, cancellation.
const MISLEADING: &str = "
function %fast(f64) -> f64 system_v {
    fn0 = %sin(f64) -> f64 system_v
block0(v0: f64):
    v1 = f64const 0x1.e848p19
    v2 = fmul v0, v1
    v3 = call fn0(v2)
    return v3
}
function %cancels(f64) -> f64 system_v {
block0(v0: f64):
    v1 = f64const 0x1.5af1d78b58c40p66
    v2 = fmul v0, v1
    v3 = fadd v0, v2
    v4 = fmul v1, v0
    v5 = fsub v3, v4
    return v5
}
function %power(f64, f64) -> f64 system_v {
    fn0 = %pow(f64, f64) -> f64 system_v
block0(v0: f64, v1: f64):
    v2 = call fn0(v0, v1)
    return v2
}
function %wave(f64) -> f64 system_v {
    fn0 = %sin(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
function %left(f64, f64) -> f64 system_v {
    fn0 = %fmod(f64, f64) -> f64 system_v
block0(v0: f64, v1: f64):
    v2 = call fn0(v0, v1)
    return v2
}
function %ceil(f32) -> f32 system_v {
block0(v0: f32):
    v1 = ceil v0
    return v1
}
function %stairs(f64) -> f64 system_v {
block0(v0: f64):
    v1 = f64const 0x1.2c0p8
    v2 = fmul v0, v1
    v3 = floor v2
    v4 = fadd v0, v3
    return v4
}
function %steps(f64) -> f64 system_v {
block0(v0: f64):
    v1 = f64const 0x1.2309ce54p43
    v2 = fmul v0, v1
    v3 = floor v2
    v4 = fdiv v3, v1
    return v4
}
function %secant(f64) -> f64 system_v {
    fn0 = %exp(f64) -> f64 system_v
block0(v0: f64):
    v1 = f64const 0x1.0p-26
    v2 = fadd v0, v1
    v3 = call fn0(v2)
    v4 = call fn0(v0)
    v5 = fsub v3, v4
    v6 = fdiv v5, v1
    v7 = fadd v6, v0
    return v7
}
function %ln(f64) -> f64 system_v {
    fn0 = %log(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
function %logistic(f64) -> f64 system_v {
    fn0 = %exp(f64) -> f64 system_v
block0(v0: f64):
    v1 = fneg v0
    v2 = call fn0(v1)
    v3 = f64const 0x1.0
    v4 = fadd v2, v3
    v5 = fdiv v3, v4
    return v5
}
function %up_to_one(f64) -> f64 system_v {
block0(v0: f64):
    v1 = f64const 0x1.0p0
    v2 = fcmp gt v0, v1
    trapnz v2, user1
    v3 = fmul v0, v0
    return v3
}
";

/// Functions and points at which every oracle has something to say.
const ORDINARY: &str = "
function %cubic(f64) -> f64 system_v {
block0(v0: f64):
    v1 = fmul v0, v0
    v2 = fmul v1, v0
    v3 = fsub v2, v0
    return v3
}
function %cubic32(f32) -> f32 system_v {
block0(v0: f32):
    v1 = fmul v0, v0
    v2 = fmul v1, v0
    v3 = fsub v2, v0
    return v3
}
function %mixed(f64, f64) -> f64 system_v {
    fn0 = %sin(f64) -> f64 system_v
    fn1 = %exp(f64) -> f64 system_v
block0(v0: f64, v1: f64):
    v2 = fmul v0, v1
    v3 = call fn0(v2)
    v4 = call fn1(v1)
    v5 = fdiv v4, v0
    v6 = fadd v3, v5
    return v6
}
function %chain(f64, f64, i64) -> f64 system_v {
block0(v0: f64, v1: f64, v2: i64):
    v3 = f64const 0x1.0p0
    v4 = iconst.i64 -1
    jump block1(v2, v1)
block1(v5: i64, v6: f64):
    brif v5, block2, block3
block2:
    v7 = fsub v3, v6
    v8 = fmul v0, v6
    v9 = fmul v8, v7
    v10 = iadd v5, v4
    jump block1(v10, v9)
block3:
    return v6
}
function %norm(i64) -> f64 system_v {
block0(v0: i64):
    v1 = load.f64 v0
    v2 = load.f64 v0+8
    v3 = fmul v1, v1
    v4 = fmul v2, v2
    v5 = fadd v3, v4
    v6 = sqrt v5
    return v6
}
function %contracts(f64, i64) -> f64 system_v {
block0(v0: f64, v1: i64):
    v2 = f64const 0x1.999999999999ap-4
    v3 = iconst.i64 -1
    jump block1(v1, v0)
block1(v4: i64, v5: f64):
    brif v4, block2, block3
block2:
    v6 = fmul v5, v2
    v7 = fsub v5, v6
    v8 = iadd v4, v3
    jump block1(v8, v7)
block3:
    return v5
}
";

#[test]
fn no_right_gradient_is_called_wrong() {
    let calls = [
        "%fast(0.7)",
        "%cancels(1.0)",
        "%power(0.0, 0.0)",
        "%power(0.0, -1.0)",
        "%power(-0.0, -1.0)",
        "%power(2.0, inf)",
        "%power(inf, -inf)",
        "%stairs(1e16)",
        "%wave(1e17)",
        "%left(1.0, 0.1)",
        "%left(1e17, 3.0)",
        "%ceil(1088.0)",
        "%ceil(1088.5)",
        "%stairs(0.7012)",
        "%steps(0.7)",
        "%steps(0.35)",
        "%secant(0.3)",
        "%secant(12.0)",
        "%ln(1e-8)",
        "%ln(1e-30)",
        "%up_to_one(1.0)",
        "%up_to_one(0.9999999)",
    ];
    for text in calls {
        let s = Subject::of(MISLEADING, text);
        let found = s.check(&s.outcome(), true);
        assert_eq!(found.complaints(), [""; 0], "{text}: {found:?}");
        for row in &found.rows {
            let says_why = !row.silent.is_empty();
            assert!(row.verdict != RowVerdict::Unknown || says_why, "{text}: {row:?}");
            assert!(!matches!(row.difference, Some(Verdict::Unreliable(_))) || says_why, "{text}: {row:?}");
        }
    }
    let cancels = Subject::of(MISLEADING, "%cancels(1.0)");
    let found = cancels.check(&cancels.outcome(), true);
    assert_eq!((found.rows[0].gradient, found.rows[0].verdict), (0.0, RowVerdict::Unknown));
    assert_eq!(found.rows[0].silent.len(), 2, "{found:?}");
    // The order of the additions that gives the exact slope is not called wrong, either.
    let mut exact = cancels.outcome();
    exact.gradient[0] = Some(Item::One(Num::F64(1.0)));
    let found = cancels.check(&exact, true);
    assert_eq!((found.rows[0].verdict, found.complaints()), (RowVerdict::Unknown, vec![]));
    assert!(found.dot.is_err_and(|why| why.contains("cancel")));
}

/// A step that the noise of singles allows crosses a kink nearby; the value does not depend on the
/// input by singles.
#[test]
fn a_double_beside_a_single_has_the_digits_of_doubles() {
    let text = "function %f(f64, f32) -> f64, f32 {
    block0(v0: f64, v1: f32):
        v2 = f64const 0x1.8cccccccccccdp0
        v3 = fmin v0, v2
        v4 = f32const 0x1.0p0
        v5 = fadd v1, v4
        return v3, v5
    }";
    let s = Subject::of(text, "%f(1.5, 0.5)");
    let found = s.check(&s.outcome(), true);
    assert!(found.rows.iter().all(|r| r.verdict == RowVerdict::Ok), "{found:?}");
}

#[test]
fn what_is_no_number_is_not_ok() {
    let s = Subject::of(MISLEADING, "%ln(-1.0)");
    let mut nan = s.outcome();
    nan.gradient[0] = Some(Item::One(Num::F64(f64::NAN)));
    let found = s.check(&nan, false);
    assert!(found.rows[0].verdict != RowVerdict::Ok, "{found:?}");
    let s = Subject::of(MISLEADING, "%power(-2.0, 2.5)");
    let found = s.check(&s.outcome(), true);
    assert!(found.rows[0].gradient.is_nan(), "{found:?}");
    assert_eq!(found.rows[0].verdict, RowVerdict::Unknown);
    assert!(found.rows[0].silent.iter().any(|why| why.contains("NaN")), "{found:?}");
    // A tangent that overflows on the way says nothing; one that is a number still has to agree.
    for (text, holds) in [("%logistic(-800.0)", None), ("%logistic(0.5)", Some(true)), ("%ln(0.0)", Some(true))] {
        let s = Subject::of(MISLEADING, text);
        assert_eq!(s.forward().holds, holds, "{text}");
    }
}

/// (x + 10¹⁶)/2 − 5·10¹⁵: steps drown in the sum's rounding, which differences have to know of.
#[test]
fn rounding_of_a_large_sum_is_no_slope() {
    let text = "function %f(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = f64const 0x1.1c37937e08000p53
        v2 = fadd v0, v1
        v3 = f64const 0x1.0p1
        v4 = fdiv v2, v3
        v5 = f64const 0x1.1c37937e08000p52
        v6 = fsub v4, v5
        return v6
    }";
    let s = Subject::of(text, "%f(1.5)");
    assert_eq!(s.outcome().gradient[0], Some(Item::One(Num::F64(0.5))));
    assert_eq!(s.check(&s.outcome(), true).complaints(), vec![] as Vec<String>);
    assert_eq!(s.forward().holds, Some(true));
}

/// x² 2⁵⁰ (1 − (1 − 2⁻⁵³)) + x: terms of the slope cancel, in forward mode as in the tape.
#[test]
fn terms_that_cancel_are_no_error() {
    let text = "function %f(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = f64const 0x1.0p50
        v2 = f64const 0x1.fffffffffffffp-1
        v3 = fmul v0, v0
        v4 = fmul v3, v1
        v5 = fmul v4, v2
        v6 = fsub v4, v5
        v7 = fadd v6, v0
        return v7
    }";
    for x in ["0.7", "1.3", "-2.9"] {
        let s = Subject::of(text, &format!("%f({x})"));
        assert_eq!(s.check(&s.outcome(), true).complaints(), vec![] as Vec<String>);
        assert_ne!(s.forward().holds, Some(false), "{x}");
    }
}

/// Digits that a program masks off: differences see steps, or nothing, where the slope is that of
/// the float. Of half a double, of some bits more, and of a single.
#[test]
fn digits_that_are_cut_off_are_no_slope() {
    let double = |mask: &str| {
        format!(
            "function %f(f64) -> f64 system_v {{
    block0(v0: f64):
        v1 = fmul v0, v0
        v2 = bitcast.i64 v1
        v3 = iconst.i64 {mask}
        v4 = band v2, v3
        v5 = bitcast.f64 v4
        v6 = fadd v5, v0
        return v6
    }}"
        )
    };
    let single = "function %f(f64) -> f64 system_v {
    block0(v0: f64):
        v1 = fdemote.f32 v0
        v2 = fmul v1, v1
        v3 = bitcast.i32 v2
        v4 = iconst.i32 0xffff_f000
        v5 = band v3, v4
        v6 = bitcast.f32 v5
        v7 = fpromote.f64 v6
        v8 = fadd v7, v0
        return v8
    }";
    let doubles = ["0xffff_ffff_0000_0000", "0xffff_ffff_f800_0000", "0xffff_f000_0000_0000"];
    for text in doubles.map(double).into_iter().chain([single.to_owned()]) {
        for x in ["0.7", "1.0", "3.25", "-13.7"] {
            let s = Subject::of(&text, &format!("%f({x})"));
            let forward = s.forward().holds;
            assert_eq!(s.check(&s.outcome(), true).complaints(), vec![] as Vec<String>, "{x}\n{text}");
            assert_ne!(forward, Some(false), "{x}\n{text}");
        }
    }
}

#[test]
fn every_wrong_gradient_at_an_ordinary_point_is_called_wrong() {
    let calls = [
        "%cubic(1.3)",
        "%cubic(-200.0)",
        "%cubic32(1.3)",
        "%mixed(0.8, 1.7)",
        "%chain(2.9, 0.3, 6)",
        "%norm([3.0, -4.0])",
        "%contracts(1.5, 20)",
    ];
    let mut tried = 0;
    for text in calls {
        let s = Subject::of(ORDINARY, text);
        let right = s.outcome();
        let found = s.check(&right, true);
        assert!(found.rows.iter().all(|r| r.verdict == RowVerdict::Ok && r.silent.is_empty()), "{text}: {found:?}");
        for row in &found.rows {
            let g = row.gradient;
            for wrong in [-g, 2.0 * g, 0.5 * g, 0.0, 1.01 * g, 0.99 * g, g + 1.0] {
                let mut outcome = right.clone();
                match outcome.gradient[row.input.arg].as_mut().expect("there is a gradient") {
                    Item::One(x) => *x = Num::F64(wrong),
                    Item::Many(v) => v[row.input.index.unwrap_or(0)] = Num::F64(wrong),
                }
                let found = s.check(&outcome, true);
                let bad: Vec<_> = found.rows.iter().filter(|r| r.verdict.is_wrong()).map(|r| r.input).collect();
                assert_eq!(bad, [row.input], "{text}: {wrong} for {g}");
                // Each oracle by itself, too.
                let difference = row.difference.expect("they were asked for");
                let tolerance = if row.input.f32 { 2e-3 } else { 1e-6 };
                assert!(!difference.accepts(wrong, tolerance), "{text}: {difference:?} accepts {wrong} for {g}");
                assert!(found.dot.is_ok_and(|d| !d.holds), "{text}: {wrong} for {g}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 70);
}

#[test]
fn errors_of_the_primal_are_told() {
    let s = Subject::of(MISLEADING, "%up_to_one(0.5)");
    let (right, outside) = (s.outcome(), Subject::of(MISLEADING, "%up_to_one(1.5)"));
    let tolerances = Tolerances::of(&s.file.program, &outside.call, None);
    let found = check(&s.file.program, &outside.call, &right, &|| outside.rule(), tolerances, true);
    assert!(matches!(found, Err(brolga::Error::Trap(_))), "{found:?}");
    // At the end of where it is defined, no step goes up.
    let s = Subject::of(MISLEADING, "%up_to_one(1.0)");
    let found = s.check(&s.outcome(), true);
    assert_eq!(found.rows[0].verdict, RowVerdict::Ok, "the tape tells");
    assert!(found.rows[0].silent[0].contains("the primal fails"), "{found:?}");
}

/// Where `tanh` is near 1 its slope is made of what rounding has left of its value: gradients come
/// in steps there, which look like no slope at all, and products have as few digits.
#[test]
fn slopes_of_what_saturates_come_in_steps() {
    use brolga_driver::check::second::second;
    let text = "\
function %near(f64) -> f64 system_v {
    fn0 = %tanh(f64) -> f64 system_v
block0(v0: f64):
    v1 = fabs v0
    v2 = f64const 0x1.8p2
    v3 = fadd v1, v2
    v4 = call fn0(v3)
    return v4
}
function %scaled(f64) -> f64 system_v {
    fn0 = %tanh(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = f64const 0x1.0p33
    v3 = fmul v1, v2
    return v3
}
function %exponential(f64) -> f64 system_v {
    fn0 = %expm1(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    v2 = f64const 0x1.0p33
    v3 = fmul v1, v2
    return v3
}
";
    let asked = |call: &str| {
        let at = Subject::of(text, call);
        let options = Options::full();
        let hessian = brolga_driver::second::rules(&at.file.program, &at.call, &options);
        let rule = || derive(&at.file.program, &at.call.request(), &options);
        let tolerances = Tolerances::of(&at.file.program, &at.call, None);
        let found = second(&at.file.program, &at.call, &hessian, &rule, tolerances, true).expect("it runs");
        assert!(found.complaints().is_empty(), "{call}: {found:?}");
        found.rows[0].clone()
    };
    for call in ["%near(0.086)", "%near(3.0)", "%exponential(-20.1)", "%exponential(-40.0)"] {
        assert_eq!(asked(call).verdict, RowVerdict::Ok, "{call}");
    }
    let few = asked("%scaled(15.1)");
    assert_eq!(few.verdict, RowVerdict::Unknown, "{few:?}");
    assert!(few.silent[0].contains("rounding of gradients is more") && few.silent[1].contains("few digits"), "{few:?}");
}

/// Second derivatives of one function beside gradients of another one, and of a root at zero.
#[test]
fn second_derivatives_are_checked_against_gradients_and_each_other() {
    use brolga_driver::check::second::second;
    let of = |body: &str| format!("function %f(f64) -> f64 system_v {{\nblock0(v0: f64):\n{body}\nreturn v9\n}}\n");
    let square = Subject::of(&of("v9 = fmul v0, v0"), "%f(1.5)");
    let cube = Subject::of(&of("v1 = fmul v0, v0\nv9 = fmul v1, v0"), "%f(1.5)");
    let root = Subject::of(&of("v9 = sqrt v0"), "%f(0.0)");
    let ask = |at: &Subject, other: &Subject| {
        let options = Options::full();
        let hessian = brolga_driver::second::rules(&at.file.program, &at.call, &options);
        let rule = || derive(&other.file.program, &other.call.request(), &options);
        let tolerances = Tolerances::of(&at.file.program, &at.call, None);
        second(&at.file.program, &at.call, &hessian, &rule, tolerances, false).expect("it runs")
    };
    let right = ask(&square, &square);
    assert!(right.complaints().is_empty() && right.symmetric == Some(true), "{right:?}");
    let wrong = ask(&square, &cube);
    let said = wrong.complaints();
    assert!(said.iter().any(|c| c.contains("gradient 3.0 beside the product, but 6.75 alone")), "{said:?}");
    // Infinities say nothing of symmetry.
    assert_eq!(ask(&root, &root).symmetric, None);
    for call in ["%power(0.0, 1.0)", "%power(0.0, 2.0)", "%power(0.0, 3.0)", "%power(-2.0, 0.0)", "%wave(1e17)"] {
        let s = Subject::of(MISLEADING, call);
        let found = ask(&s, &s);
        assert!(found.complaints().is_empty(), "{call}: {found:?}");
    }
}
