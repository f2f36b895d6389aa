//! Every row against its mutants: a checker that lets one pass would let the same mistake pass in a
//! row.
//!
//! A row of a formula loses a sign, a term, a factor, an operand; a partial of zero becomes one,
//! and the reverse. A row that is zero as a whole becomes the identity. What agrees with the
//! function wherever it was measured must differ on a line of `docs/KINKS.md`, or in a slope of a
//! partial at an edge ([`crate::second`]).
//!
//! `cargo xtask mutants` shows the table that this test prints; `BROLGA_ROW` names one row.

use brolga_rules::check::{Width, check, measure, mutants};
use brolga_rules::{ExprRow, MathKind, OpcodeRule, Partial, math_rule, opcode_rule};
use cranelift_codegen::ir::{Opcode, types};

use crate::kinks::{Line, Subject, lines};
use crate::subjects::{Compiled, lanes};
use crate::{functions, opcodes, second};

/// What became of a row's mutants.
struct Tally {
    row: String,
    tried: usize,
    by_measurement: usize,
    by_kink: usize,
    survivors: Vec<String>,
    /// Why there are no mutants.
    note: String,
}

impl Tally {
    fn new(row: impl ToString) -> Self {
        Self {
            row: row.to_string(),
            tried: 0,
            by_measurement: 0,
            by_kink: 0,
            survivors: Vec::new(),
            note: String::new(),
        }
    }

    fn count(&mut self, what: String, measured: bool, at_a_kink: impl FnOnce() -> bool) {
        self.tried += 1;
        if measured {
            self.by_measurement += 1;
        } else if at_a_kink() {
            self.by_kink += 1;
        } else {
            self.survivors.push(what);
        }
    }
}

fn of_formulas(kinks: &[Line], wanted: &dyn Fn(&str) -> bool) -> Vec<Tally> {
    let mut out = Vec::new();
    for (op, row) in opcodes::expr_rows().filter(|(op, _)| wanted(&op.to_string())) {
        let mut tally = Tally::new(op);
        let probes = opcodes::probes(op, row, Width::F64);
        let is_ours = |line: &&Line| matches!(line.subject, Subject::Opcode(o) if o == op);
        for (what, mutant) in mutants(row, |_| true) {
            let differs = || kinks.iter().filter(is_ours).any(|line| line.agrees(&mutant).is_err());
            tally.count(what, check(&mutant, Width::F64, &probes).is_err(), differs);
        }
        out.push(tally);
    }
    out
}

fn of_functions(kinks: &[Line], wanted: &dyn Fn(&str) -> bool) -> Vec<Tally> {
    let mut out = Vec::new();
    for (rule, row) in functions::rows().filter(|(rule, _)| wanted(&rule.symbol)) {
        let mut tally = Tally::new(&rule.symbol);
        let base = functions::base_name(&rule.symbol);
        if base != rule.symbol {
            let Some(MathKind::Expr(of_base) | MathKind::Writes(of_base, _)) = math_rule(base).map(|r| &r.kind) else {
                panic!("{base} has no row")
            };
            assert_eq!(row, &**of_base, "{} has a row of its own, and no mutant of it is tried", rule.symbol);
            tally.note = format!("the row of {base}");
            out.push(tally);
            continue;
        }
        let (width, probes) = functions::probes(rule, row);
        if width == Width::F32 {
            // Only `__powisf2` has another name; single precision is too coarse to tell all mutants
            // apart.
            let shared = functions::rows().find(|(r, other)| r.symbol != rule.symbol && *other == row);
            let (other, _) = shared.unwrap_or_else(|| panic!("{} has a row of its own", rule.symbol));
            tally.note = format!("the row of {}", other.symbol);
            out.push(tally);
            continue;
        }
        let is_ours = |line: &&Line| matches!(line.subject, Subject::Function(s) if s == rule.symbol);
        // A polygamma cannot be varied in its order.
        for (what, mutant) in mutants(row, |i| rule.params[i].is_float() && !(base == "brolga_polygamma" && i == 0)) {
            let differs = || {
                let at_a_kink = kinks.iter().filter(is_ours).any(|line| line.agrees(&mutant).is_err());
                at_a_kink
                    || second::differs_at_an_edge(&rule.symbol, &mutant)
                    || second::loses_digits(&rule.symbol, &mutant)
            };
            tally.count(what, check(&mutant, width, &probes).is_err(), differs);
        }
        out.push(tally);
    }
    out
}

/// Rows of zeros: that they are right is a claim like any other, and its mutant is the identity.
fn of_zeros(wanted: &dyn Fn(&str) -> bool) -> Vec<Tally> {
    let mut out = Vec::new();
    for &op in Opcode::all() {
        if opcode_rule(op) != OpcodeRule::Zero || !wanted(&op.to_string()) {
            continue;
        }
        let mut tally = Tally::new(op);
        let Some(subjects) = opcodes::zero_subjects(op) else {
            tally.note = "no float goes in".to_owned();
            out.push(tally);
            continue;
        };
        for (ty, build) in subjects {
            let width = if ty.lane_type() == types::F32 { Width::F32 } else { Width::F64 };
            let code = Compiled::new(&[ty], |b, x| build(b, x[0]));
            let splat = |x: f64| lanes(width, &vec![x; ty.lane_count() as usize]);
            // Results are of any type, so they count as what they are near: do they change at all?
            let base = code.run(&[splat(5.3)]);
            let f = |x: &[f64]| vec![if code.run(&[splat(x[0])]) == base { 0.0 } else { 1.0 }];
            let probes = measure(&f, width, &[vec![5.3]], |_, _| true);
            let row = |p| ExprRow::new(1, vec![vec![p]]);
            assert!(check(&row(Partial::Zero), width, &probes).is_ok(), "{op} {ty} is not flat");
            for (what, p) in [("1 for 0", Partial::ONE), ("-1 for 0", Partial::MINUS_ONE)] {
                tally.count(format!("{ty}: {what}"), check(&row(p), width, &probes).is_err(), || false);
            }
        }
        out.push(tally);
    }
    out
}

#[test]
fn mutants_are_rejected() {
    let only = std::env::var("BROLGA_ROW").ok();
    let wanted = |name: &str| only.as_deref().is_none_or(|o| o == name);
    let kinks = lines();
    let mut tallies = of_formulas(&kinks, &wanted);
    tallies.extend(of_zeros(&wanted));
    tallies.extend(of_functions(&kinks, &wanted));
    println!("{:<16}{:>8}{:>12}{:>10}{:>10}", "row", "tried", "by measure", "by kink", "survived");
    for t in &tallies {
        let (row, lost) = (&t.row, t.survivors.len());
        println!("{row:<16}{:>8}{:>12}{:>10}{lost:>10}  {}", t.tried, t.by_measurement, t.by_kink, t.note);
    }
    let all = |f: fn(&Tally) -> usize| tallies.iter().map(f).sum::<usize>();
    println!(
        "{:<16}{:>8}{:>12}{:>10}{:>10}",
        "all",
        all(|t| t.tried),
        all(|t| t.by_measurement),
        all(|t| t.by_kink),
        all(|t| t.survivors.len())
    );
    let survivors: Vec<String> =
        tallies.iter().flat_map(|t| t.survivors.iter().map(|s| format!("SURVIVED {}: {s}", t.row))).collect();
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
    match only {
        None => assert!(all(|t| t.tried) > 200, "only {} mutants", all(|t| t.tried)),
        Some(name) => assert!(!tallies.is_empty(), "no row is called {name}"),
    }
}
