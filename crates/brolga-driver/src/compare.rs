//! Comparison of an outcome with what a directive expects.
//!
//! **Question.** Is what came out what was expected?
//!
//! **Answer.** [`differences`] compares gradient, value and buffers entry by entry. Floats agree if
//! they differ by at most `tol·(1 + |expected|)`, if both are NaN, or if both are the same
//! infinity. Integers agree if they are equal. The tolerance is that of the line, or follows from
//! the types in the function and in those that it may call ([`tolerance`]).
//!
//! **Cost.** One walk over what is expected, and, for the tolerance, one over the functions that
//! are called.

use std::collections::HashSet;

use brolga::{FuncKey, Program};
use cranelift_codegen::ir::{Opcode, types};

use crate::bind::Invocation;
use crate::output::show;
use crate::run::Outcome;
use crate::text::number::{parse_f32, parse_f64, parse_int};
use crate::text::{Clauses, Expect};
use crate::value::{Item, Num};

pub use crate::value::close;

/// Tolerance where only 64-bit floats occur.
pub const TOL_F64: f64 = 1e-9;
/// Tolerance where a 32-bit float takes part.
pub const TOL_F32: f64 = 1e-5;

/// The tolerance of a call: its clause, or what the types in the function suggest.
pub fn tolerance(program: &Program, call: &Invocation, clauses: &Clauses) -> f64 {
    clauses.tol.unwrap_or_else(|| if uses_f32(program, call.func) { TOL_F32 } else { TOL_F64 })
}

/// Whether a 32-bit float occurs in `func` or in anything that it may call.
pub fn uses_f32(program: &Program, func: FuncKey) -> bool {
    let mut seen = HashSet::from([func]);
    let mut todo = vec![func];
    while let Some(key) = todo.pop() {
        let f = &program.funcs[key];
        let signature = f.signature.params.iter().chain(&f.signature.returns);
        if signature.into_iter().any(|p| p.value_type.lane_type() == types::F32) {
            return true;
        }
        let Some(body) = &f.body else { continue };
        let float = body.dfg.values().any(|v| body.dfg.value_type(v).lane_type() == types::F32);
        let bits = |inst| body.dfg.insts[inst].opcode() == Opcode::F32const;
        if float || body.layout.blocks().flat_map(|b| body.layout.block_insts(b)).any(bits) {
            return true;
        }
        for callee in body.dfg.ext_funcs.keys().filter_map(|r| program.callee(body, r)) {
            if seen.insert(callee) {
                todo.push(callee);
            }
        }
    }
    false
}

/// Differences between an outcome and what a line expects, as sentences.
pub fn differences(outcome: &Outcome, expected: &[Expect], clauses: &Clauses, tol: f64) -> Vec<String> {
    let mut out = Vec::new();
    entries("gradient", "argument", &outcome.gradient, expected, tol, &mut out);
    if let Some(value) = &clauses.value {
        let actual: Vec<_> = outcome.value.iter().cloned().map(Some).collect();
        entries("value", "result", &actual, value, tol, &mut out);
    }
    if let Some(buffers) = &clauses.buffers {
        let actual: Vec<_> = outcome.buffers.iter().map(|b| b.clone().map(Item::Many)).collect();
        // In `buffers`, null stands for any contents.
        let wanted: Vec<_> = buffers.iter().map(|e| if *e == Expect::Null { Expect::Any } else { e.clone() }).collect();
        entries("buffer", "argument", &actual, &wanted, tol, &mut out);
    }
    out
}

fn entries(what: &str, of: &str, actual: &[Option<Item>], expected: &[Expect], tol: f64, out: &mut Vec<String>) {
    if actual.len() != expected.len() {
        out.push(format!("{what}: {} entries expected, but there are {} ({of} by {of})", expected.len(), actual.len()));
        return;
    }
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        let place = format!("{what} of {of} {i}");
        match (a, e) {
            (_, Expect::Any) | (None, Expect::Null) => {}
            (Some(a), Expect::Null) => out.push(format!("{place}: expected none, found {}", show(a))),
            (None, e) => out.push(format!("{place}: expected {}, found none", describe(e))),
            (Some(a), e) => {
                if let Some(why) = mismatch(a, e, tol) {
                    out.push(format!("{place}: {why}"));
                }
            }
        }
    }
}

fn mismatch(actual: &Item, expected: &Expect, tol: f64) -> Option<String> {
    match (actual, expected) {
        (_, Expect::Any) => None,
        (Item::One(a), Expect::Number(e)) => number_mismatch(*a, &e.node, tol),
        (Item::Many(a), Expect::List(e)) if a.len() == e.len() => a
            .iter()
            .zip(e)
            .enumerate()
            .find_map(|(i, (a, e))| mismatch(&Item::One(*a), e, tol).map(|why| format!("at [{i}]: {why}"))),
        (Item::Many(a), Expect::List(e)) => Some(format!("expected {} elements, found {}", e.len(), a.len())),
        // All bits of a vector as one number.
        (Item::Many(a), Expect::Number(e)) if a.len() > 1 && e.node.starts_with("0x") => {
            let found = a.iter().rev().fold(0_u128, |bits, n| bits << (128 / a.len()) | lane_bits(*n, 128 / a.len()));
            let wanted = u128::from_str_radix(&e.node[2..].replace('_', ""), 16).ok();
            (wanted != Some(found)).then(|| format!("expected {}, found {found:#034x}", e.node))
        }
        // A single element or lane may be written without brackets.
        (Item::Many(a), Expect::Number(e)) if a.len() == 1 => number_mismatch(a[0], &e.node, tol),
        (a, e) => Some(format!("expected {}, found {}", describe(e), show(a))),
    }
}

/// The bits of a lane that is so wide.
fn lane_bits(n: Num, width: usize) -> u128 {
    match n {
        Num::F64(v) => v.to_bits().into(),
        Num::F32(v) => v.to_bits().into(),
        Num::F16(bits) => bits.into(),
        Num::F128(bits) => bits,
        Num::Int(v) => v as u128 & (u128::MAX >> (128 - width)),
    }
}

fn number_mismatch(actual: Num, expected: &str, tol: f64) -> Option<String> {
    let (ok, wanted) = match actual {
        Num::Int(a) => match parse_int(expected, 128) {
            // Unsigned spellings of negative numbers are fine.
            Ok(e) => (a == e || [8u32, 16, 32, 64].iter().any(|b| e == a & ((1i128 << b) - 1) && a < 0), None),
            Err(_) => (parse_f64(expected).is_ok_and(|e| e == a as f64), None),
        },
        Num::F32(a) => match parse_f32(expected) {
            Ok(e) => (close(a.into(), e.into(), tol), Some(f64::from(e))),
            Err(_) => (false, None),
        },
        Num::F64(_) | Num::F16(_) | Num::F128(_) => match parse_f64(expected) {
            Ok(e) => (close(actual.as_f64(), e, tol), Some(e)),
            Err(_) => (false, None),
        },
    };
    if ok {
        return None;
    }
    let error = wanted.map(|e| (actual.as_f64() - e).abs()).filter(|e| e.is_finite());
    let error = error.map(|e| format!(" (off by {e:.1e}, tolerance {tol:e})")).unwrap_or_default();
    Some(format!("expected {expected}, found {}{error}", show(&Item::One(actual))))
}

fn describe(e: &Expect) -> String {
    match e {
        Expect::Any => "anything".to_owned(),
        Expect::Null => "none".to_owned(),
        Expect::Number(n) => n.node.clone(),
        Expect::List(l) => format!("{} elements", l.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{close, mismatch};
    use crate::text::{Expect, SpannedNode};
    use crate::value::{Item, Num};

    #[test]
    fn non_finite_numbers_only_agree_with_themselves() {
        assert!(close(f64::NAN, f64::NAN, 0.0));
        assert!(close(f64::INFINITY, f64::INFINITY, 0.0));
        assert!(!close(f64::INFINITY, f64::NEG_INFINITY, 1.0));
        assert!(!close(1e300, f64::INFINITY, 1.0));
        assert!(!close(f64::INFINITY, 1.0, 1.0));
        assert!(!close(f64::NAN, 0.0, 1.0));
        assert!(close(1.0 + 1e-10, 1.0, 1e-9) && !close(1.0 + 1e-8, 1.0, 1e-9));
    }

    #[test]
    fn the_first_difference_is_named() {
        let n = |s: &str| Expect::Number(SpannedNode { node: s.to_owned(), span: 0..0 });
        let actual = Item::Many(vec![Num::F64(1.0), Num::F64(2.5)]);
        let why = mismatch(&actual, &Expect::List(vec![n("1"), n("2")]), 1e-9).unwrap();
        assert!(why.starts_with("at [1]: expected 2, found 2.5 (off by 5.0e-1"), "{why}");
        assert_eq!(mismatch(&actual, &Expect::List(vec![Expect::Any, n("0x1.4p1")]), 0.0), None);
        assert_eq!(mismatch(&Item::One(Num::Int(-1)), &n("255"), 0.0), None);
        assert!(mismatch(&actual, &n("1"), 0.0).is_some());
    }
}
