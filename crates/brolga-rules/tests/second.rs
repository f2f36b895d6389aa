//! The partials of rows, derived themselves: what a second derivation computes of each.
//!
//! A partial is an expression over operands and results. Its slope is computed by the rules of its
//! own operations, those of the functions that it calls and the row's own partials for its results,
//! as the transform would, strong zeros included; and compared with differences of the partial
//! along the function. Kinks and poles are among the points ([`crate::functions`]): where a partial
//! has a corner, the difference is the mean of both sides, and the rule's convention is what
//! `docs/KINKS.md` says of second derivatives.

use brolga_rules::check::{Slope, Width, measure};
use brolga_rules::{Cond, E, ExprRow, MathKind, Node, Partial, math_rule};

use crate::functions::{base_name, points, rows};
use crate::subjects::Foreign;

/// A number and its derivative.
type Dual = (f64, f64);

fn strong(ct: f64, factor: f64) -> f64 {
    if ct == 0.0 { 0.0 } else { ct * factor }
}

/// The derivative of an expression.
fn derived(e: &E, operands: &[Dual], results: &[Dual]) -> Dual {
    let of = |e: &E| derived(e, operands, results);
    let plain = |x: &[Dual]| x.iter().map(|d| d.0).collect::<Vec<f64>>();
    match e.node() {
        &(Node::Operand(i) | Node::IntOperand(i)) => operands[i],
        &Node::Result(i) => results[i],
        &Node::Const(c) => (c, 0.0),
        Node::Neg(a) => (-of(a).0, -of(a).1),
        Node::Add(a, b) => (of(a).0 + of(b).0, of(a).1 + of(b).1),
        Node::Sub(a, b) => (of(a).0 - of(b).0, of(a).1 - of(b).1),
        Node::Mul(a, b) => {
            let (a, b) = (of(a), of(b));
            (a.0 * b.0, strong(a.1, b.0) + strong(b.1, a.0))
        }
        Node::Div(a, b) => {
            let (a, b) = (of(a), of(b));
            let z = a.0 / b.0;
            (z, strong(a.1, 1.0 / b.0) - strong(b.1, z / b.0))
        }
        Node::Sqrt(a) => {
            let (x, z) = (of(a), of(a).0.sqrt());
            (z, strong(x.1, 1.0 / (z + z).abs()))
        }
        Node::Abs(a) => {
            let x = of(a);
            (x.0.abs(), if x.0 == 0.0 { 0.0 } else { x.1 * x.0.signum() })
        }
        Node::Nearest(a) => (of(a).0.round_ties_even(), 0.0),
        Node::Copysign(a, b) => {
            let (x, z) = (of(a), of(a).0.copysign(of(b).0));
            (z, if x.0 == 0.0 { 0.0 } else { x.1 * (z / x.0) })
        }
        Node::Math(f, args) => {
            let args: Vec<Dual> = args.iter().map(of).collect();
            let z = f.eval(plain(&args));
            let rule = math_rule(f.symbol()).expect("what rows call has a rule");
            let MathKind::Expr(row) = &rule.kind else { panic!("{} is a formula", rule.symbol) };
            let terms = args.iter().enumerate().map(|(i, x)| product(row.partial(0, i), x.1, &plain(&args), &[z]));
            (z, terms.sum())
        }
        Node::Call(_) => unreachable!("rows of the table call functions of C"),
        // A guarded product or quotient is bilinear, also where its first factor is zero.
        Node::Select(c, a, b) if guards(c, a, b) && c.eval(&plain(operands), &plain(results)) => match b.node() {
            Node::Mul(a, b) => (0.0, strong(of(a).1, of(b).0)),
            Node::Div(a, b) => (0.0, strong(of(a).1, 1.0 / of(b).0)),
            _ => unreachable!("it guards one of these"),
        },
        Node::Select(c, a, b) => of(if c.eval(&plain(operands), &plain(results)) { a } else { b }),
    }
}

/// Whether `c ? zero : other` is `x = 0 ? 0 : x·y`, or the same with a quotient.
fn guards(c: &Cond, zero: &E, other: &E) -> bool {
    let (Node::Mul(x, _) | Node::Div(x, _)) = other.node() else { return false };
    *c == x.eq(0.0) && matches!(zero.node(), Node::Const(0.0))
}

/// A tangent times a partial.
fn product(p: &Partial, tangent: f64, operands: &[f64], results: &[f64]) -> f64 {
    if tangent == 0.0 { 0.0 } else { p.eval(tangent, operands, results) }
}

/// The slopes of a partial in each operand, by a second derivation.
fn slopes(row: &ExprRow, p: &Partial, operands: &[f64], results: &[f64]) -> Vec<f64> {
    let Partial::Scale(s) = p else { return vec![0.0; operands.len()] };
    (0..operands.len())
        .map(|along| {
            let x: Vec<Dual> =
                operands.iter().enumerate().map(|(i, &x)| (x, f64::from(u8::from(i == along)))).collect();
            let by = |r: usize| product(row.partial(r, along), 1.0, operands, results);
            let z: Vec<Dual> = results.iter().enumerate().map(|(r, &z)| (z, by(r))).collect();
            let mut value = (1.0, 0.0);
            if let Some(e) = &s.over {
                let e = derived(e, &x, &z);
                value = (1.0 / e.0, -strong(e.1, 1.0 / e.0 / e.0));
            }
            if let Some(t) = &s.times {
                let t = derived(t, &x, &z);
                value = (value.0 * t.0, strong(value.1, t.0) + strong(t.1, value.0));
            }
            if s.neg { -value.1 } else { value.1 }
        })
        .collect()
}

/// Where the slope of a partial is not the limit of its difference quotients, and why not.
fn excused(base: &str, x: &[f64]) -> bool {
    let zero = |i: usize| x.get(i) == Some(&0.0);
    match base {
        // A jump of the slope: the second derivative is that of the pieces.
        "fabs" | "copysign" | "fdim" | "fmax" | "fmin" => true,
        // The tip of a cone, and the end of the cut.
        "hypot" | "atan2" => zero(0) && zero(1),
        // 0^p is 1 at p = 0, and a power of x as small as you like is not.
        "pow" => zero(0),
        "frexp" => zero(0),
        _ => false,
    }
}

#[test]
fn slopes_of_partials_agree_with_differences() {
    let (mut wrong, mut sharp) = (Vec::new(), 0);
    for (rule, row) in rows() {
        let (f, base) = (Foreign::new(rule), base_name(&rule.symbol));
        if f.width == Width::F32 || rule.params.iter().any(|t| !t.is_float()) || base.starts_with("brolga_with") {
            continue;
        }
        for (r, o, p) in row.partials() {
            // Rounding of the results counts a thousandfold in a difference of differences.
            let partial = |x: &[f64]| vec![p.eval(1.0, x, &f.call(x))];
            let points: Vec<Vec<f64>> = points(&f, rule, row);
            let vary = |x: &[f64], i: usize| {
                f.is_continuous(i) && !(base == "pow" && x[0] < 0.0) && !(base == "brolga_polygamma" && i == 0)
            };
            for probe in measure(&partial, f.width, &points, vary) {
                let x = &probe.operands;
                let claimed = slopes(row, p, x, &f.call(x));
                for (along, &claimed) in claimed.iter().enumerate() {
                    let Slope::Value { value, error } = probe.slopes[0][along] else { continue };
                    let scale = claimed.abs().max(value.abs());
                    if !vary(x, along) || excused(base, x) || error > 0.01 * scale.max(1e-3) || value.abs() > 1e200 {
                        continue;
                    }
                    sharp += 1;
                    let right = (claimed - value).abs() <= 30.0 * error + 1e-5 * scale;
                    if !right {
                        wrong.push(format!(
                            "{base}: ∂²{r}/∂{o}∂{along} at {x:?} is {claimed:e}, not {value:e} ± {error:e}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong of {sharp}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sharp > 2000, "{sharp}");
}

/// Whether a row has another slope of a partial at an edge than its function: that of a power at
/// exponent 0 is 1/x in the exponent, in whichever order. Third derivatives ask for more: it is the
/// power over x, so that it has the slope of the power. At base 0 it is the pole of 1/x.
pub(crate) fn differs_at_an_edge(symbol: &str, row: &ExprRow) -> bool {
    let slope = |o: usize, along: usize, z: f64| slopes(row, row.partial(0, o), &[2.0, 0.0], &[z])[along];
    let pole = |zero: f64| slopes(row, row.partial(0, 0), &[zero, 0.0], &[1.0]);
    let poles = || pole(0.0) == [0.0, f64::INFINITY] && pole(-0.0) == [0.0, f64::NEG_INFINITY];
    symbol == "pow" && (slope(0, 1, 1.0) != 0.5 || slope(1, 0, 1.0) != 0.5 || slope(0, 1, 3.0) != 1.5 || !poles())
}

/// Whether the partial of an inverse function loses digits just below 1, or its slope beside 0.
pub(crate) fn loses_digits(symbol: &str, row: &ExprRow) -> bool {
    let (power, sign) = match symbol {
        "asin" => (0.5, 1.0),
        "acos" => (0.5, -1.0),
        "atanh" => (1.0, 1.0),
        _ => return false,
    };
    let p = row.partial(0, 0);
    let below = 2f64.powi(-30);
    let (small, near) = (1e-7, 1.0 - below);
    let off = |is: f64, wanted: f64| (is - wanted).abs() > 1e-13 * wanted.abs();
    // The slope of ±(1 - x²)^-p is ±2px(1 - x²)^(-p - 1), and 1 - x² is (1 - x)(1 + x).
    off(slopes(row, p, &[small], &[small])[0], sign * 2.0 * power * small * (1.0 + (power + 1.0) * small * small))
        || off(p.eval(1.0, &[near], &[0.0]), sign * (below * (2.0 - below)).powf(-power))
}

/// Closed forms where two slopes meet an edge.
#[test]
fn at_edges() {
    let row = |name: &str| match math_rule(name).expect("it has a rule") {
        rule @ brolga_rules::MathRule { kind: MathKind::Expr(row), .. } => (rule, &**row),
        _ => panic!("{name} is a formula"),
    };
    let at = |name: &str, o: usize, x: &[f64]| {
        let (rule, row) = row(name);
        slopes(row, row.partial(0, o), x, &Foreign::new(rule).call(x))
    };
    assert!(!differs_at_an_edge("pow", row("pow").1));
    for name in ["asin", "acos", "atanh"] {
        assert!(!loses_digits(name, row(name).1), "{name}");
    }
    assert_eq!(at("pow", 0, &[3.0, 1.0]), [0.0, 1.0 + 3f64.ln()]);
    // x^2 at 0.
    assert_eq!(at("pow", 0, &[0.0, 2.0])[0], 2.0);
    // A length grows as a parabola beside an axis.
    assert_eq!(at("hypot", 1, &[2.0, 0.0])[1], 0.5);
    assert_eq!(at("atan2", 0, &[0.0, 2.0]), [0.0, -0.25]);
    // The third derivative of lgamma.
    let third = at("brolga_digamma", 0, &[1.0])[0];
    assert!((third + 2.0 * 1.2020569031595942).abs() < 1e-14, "{third}");
}
