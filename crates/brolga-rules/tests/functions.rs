//! Rules for C functions against the system's library.

use std::collections::BTreeSet;

use brolga_rules::check::{Probe, Width, check, measure};
use brolga_rules::{E, ExprRow, MathFn, MathKind, MathRule, Partial, Reads, gamma, math_rule, math_rules};

use crate::subjects::Foreign;

/// Functions with a row.
pub(crate) fn rows() -> impl Iterator<Item = (&'static MathRule, &'static ExprRow)> {
    math_rules().filter_map(|rule| match &rule.kind {
        MathKind::Expr(row) | MathKind::Writes(row, _) => Some((rule, &**row)),
        MathKind::Memory(_) | MathKind::Inactive => None,
    })
}

fn values(width: Width) -> Vec<f64> {
    let mut values = vec![0.0, 0.3, 0.5, 0.77, 1.0, 1.4, 1.75, 2.0, 3.2, 4.0, 7.3, 20.0, 1e3];
    match width {
        Width::F64 => values.extend([1e-200, 1e-9, 1e5, 1e150, 1e300]),
        Width::F32 => values.extend([1e-20, 1e-4, 1e18, 1e38]),
    }
    let negative: Vec<f64> = values.iter().map(|x| -x).collect();
    values.extend(negative);
    values
}

/// Points at which a function is smooth, or has a corner, a pole or an edge.
pub(crate) fn points(f: &Foreign, rule: &'static MathRule, row: &ExprRow) -> Vec<Vec<f64>> {
    let mut points = grid(f, row.n_operands());
    let base = base_name(&rule.symbol);
    points.retain(|p| is_smooth(base, f.width, p));
    // The order of a polygamma is whole, and few of them are numbers of all sizes.
    if base == "brolga_polygamma" {
        points.retain(|p| (1.0..=7.0).contains(&p[0]) && p[0] == p[0].round());
    }
    points
}

fn grid(f: &Foreign, n_operands: usize) -> Vec<Vec<f64>> {
    let floats = values(f.width);
    let few: Vec<f64> = floats.iter().copied().step_by(3).collect();
    let integers = vec![-3.0, -1.0, 0.0, 1.0, 2.0, 5.0];
    let mut points = vec![vec![]];
    for i in 0..n_operands {
        let values = match f.is_continuous(i) {
            true if n_operands < 3 => &floats,
            true => &few,
            false => &integers,
        };
        points = points.iter().flat_map(|p: &Vec<f64>| values.iter().map(|&x| [&p[..], &[x]].concat())).collect();
    }
    points
}

/// Measurements at all points.
pub(crate) fn probes(rule: &'static MathRule, row: &ExprRow) -> (Width, Vec<Probe>) {
    let f = Foreign::new(rule);
    let call = |x: &[f64]| f.call(x);
    let base = base_name(&rule.symbol);
    // A power of a negative number has whole exponents, which cannot be varied.
    let is_integral_exponent =
        |p: &[f64], i: usize| base == "pow" && i == 1 && p[0] < 0.0 || base == "brolga_polygamma" && i == 0;
    let vary = |p: &[f64], i: usize| f.is_continuous(i) && !is_integral_exponent(p, i);
    (f.width, measure(&call, f.width, &points(&f, rule, row), vary))
}

/// The symbol of the double-precision function.
pub(crate) fn base_name(symbol: &'static str) -> &'static str {
    match symbol.strip_suffix('f') {
        Some(base) if math_rule(base).is_some() => base,
        _ => symbol,
    }
}

/// Whether a difference says anything of a derivative here: away from jumps, and from where the
/// distance between two floats is more than a period.
fn is_smooth(base: &str, width: Width, x: &[f64]) -> bool {
    let is_integral = |x: f64| x == x.round();
    let dense = if width == Width::F64 { 1e5 } else { 1e2 };
    match base {
        "sin" | "cos" | "tan" | "sincos" => x[0].abs() <= dense,
        "floor" | "ceil" | "trunc" | "round" | "roundeven" | "rint" | "nearbyint" | "logb" | "modf" => {
            x[0].abs() <= dense && !is_integral(2.0 * x[0])
        }
        "frexp" => x[0] != 0.0 && !is_integral(x[0].abs().log2()),
        "fmod" | "remainder" | "drem" | "remquo" => {
            let n = x[0] / x[1];
            (0.1..5.0).contains(&n.abs()) && (2.0 * n - (2.0 * n).round()).abs() > 0.1
        }
        _ => true,
    }
}

#[test]
fn rows_agree_with_differences() {
    let mut wrong = Vec::new();
    for (rule, row) in rows() {
        let (width, probes) = probes(rule, row);
        match check(row, width, &probes) {
            Err(e) => wrong.push(format!("{}: {} mismatches\n  {}\n  {}", rule.symbol, e.len(), e[0], e[e.len() - 1])),
            Ok(evidence) => {
                for ((r, o, _), &n) in row.partials().zip(&evidence.sharp) {
                    let order = base_name(&rule.symbol) == "brolga_polygamma" && o == 0;
                    let silent = !rule.params[o].is_float() || order;
                    if !silent && n < 4 {
                        wrong.push(format!("{}: ∂{r}/∂{o}: only {n} sharp measurements", rule.symbol));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_call_only_functions_that_have_rules() {
    let called: BTreeSet<MathFn> = rows()
        .flat_map(|(_, row)| row.partials().collect::<Vec<_>>())
        .flat_map(|(_, _, p)| match p {
            Partial::Zero => vec![],
            Partial::Scale(s) => s.factors().flat_map(E::calls).collect(),
        })
        .collect();
    assert_eq!(called, BTreeSet::from(MathFn::ALL), "the closed set is what rows use");
    for f in called {
        for symbol in [f.symbol(), f.symbol_f32()] {
            assert!(math_rule(symbol).is_some(), "{symbol}");
        }
    }
}

/// What a pointer points at may have changed by the time the pullback runs.
#[test]
fn rows_do_not_read_what_went_through_a_pointer() {
    for (rule, row) in rows() {
        let read = row.partials().fold(Reads::default(), |r, (_, _, p)| r.union(p.reads()));
        assert!(read.results().all(|i| i < rule.rets.len()), "{}", rule.symbol);
        for i in read.operands() {
            let ty = rule.params[i];
            assert!(ty.is_float() || ty == brolga_rules::Ty::I32 || ty == brolga_rules::Ty::I64, "{}", rule.symbol);
        }
    }
}

#[test]
fn signatures_fit_rows() {
    for (rule, row) in rows() {
        assert_eq!(row.n_operands(), rule.params.len(), "{}", rule.symbol);
        let n_written = if let MathKind::Writes(_, outs) = rule.kind { outs.len() } else { 0 };
        assert_eq!(row.n_results(), rule.rets.len() + n_written, "{}", rule.symbol);
        for (_, o, p) in row.partials() {
            assert!(rule.params[o].is_float() || p.is_zero(), "{}: an integer has no cotangent", rule.symbol);
        }
    }
}

/// Against published values: Abramowitz and Stegun, table 6.1, and closed forms.
#[test]
fn digamma_and_trigamma() {
    let euler = 0.577_215_664_901_532_9;
    let pi = std::f64::consts::PI;
    for (x, psi) in [
        (1.0, -euler),
        (0.5, -euler - 2.0 * 2f64.ln()),
        (2.0, 1.0 - euler),
        (0.25, -euler - pi / 2.0 - 3.0 * 2f64.ln()),
        (-0.5, 2.0 - euler - 2.0 * 2f64.ln()),
        (1e8, 1e8f64.ln() - 0.5e-8),
    ] {
        let got = gamma::digamma(x);
        assert!((got - psi).abs() <= 4e-15 * psi.abs().max(1.0), "digamma({x}) = {got}, not {psi}");
    }
    for (x, psi1) in
        [(1.0, pi * pi / 6.0), (0.5, pi * pi / 2.0), (2.0, pi * pi / 6.0 - 1.0), (-0.5, pi * pi / 2.0 + 4.0)]
    {
        let got = gamma::trigamma(x);
        assert!((got - psi1).abs() <= 4e-15 * psi1, "trigamma({x}) = {got}, not {psi1}");
    }
}
