//! The checks must notice what is wrong: right gradients pass, spoiled ones do not.

use brolga::Options;
use brolga_driver::check::{Check, RowVerdict, Tolerances, check};
use brolga_driver::protocol::{derive, disagreement_with_tape, dump_violations, shape_violations, violations};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Invocation, Item, Num, Outcome, run};

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
        let file = File::parse("test.clif", TEXT).expect("the file is fine");
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
        assert_eq!(violations(program, &s.call, 1e-9).expect("it runs"), [""; 0], "{call}");
        assert_eq!(disagreement_with_tape(program, &s.call, 1e-9).expect("it runs"), None, "{call}");
        let dumps = dump_violations(program, &s.call.request(), &Options::full());
        assert_eq!(dumps.expect("every stage prints"), [""; 0], "{call}");
    }
}
