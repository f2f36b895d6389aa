//! Properties of the opcode table as a whole.

use std::collections::BTreeMap;

use brolga_rules::{E, MathFn, OpcodeRule, Partial, Structural, cost, is_pure, opcode_rule};
use cranelift_codegen::ir::Opcode;

/// Vectors have no C functions, so rows of opcodes do without.
#[test]
fn rows_of_opcodes_call_nothing() {
    for &op in Opcode::all() {
        let OpcodeRule::Expr(row) = opcode_rule(op) else { continue };
        for (_, _, p) in row.partials() {
            let Partial::Scale(s) = p else { continue };
            let calls: Vec<MathFn> = s.factors().flat_map(E::calls).collect();
            assert!(calls.is_empty(), "{op} calls {calls:?}");
        }
    }
}

#[test]
fn refusals_say_why_and_what_to_do() {
    let mut codes = BTreeMap::new();
    for &op in Opcode::all() {
        let OpcodeRule::Refused(refusal) = opcode_rule(op) else { continue };
        assert!(refusal.code.starts_with("AD01") && refusal.code.len() == 6, "{op}");
        assert!(!refusal.why.is_empty() && !refusal.why.ends_with('.'), "{op}");
        assert!(!refusal.help.is_empty() && !refusal.help.ends_with('.'), "{op}");
        let same = codes.entry(refusal.code).or_insert(refusal);
        assert_eq!(*same, refusal, "one code, one reason");
    }
    assert!(codes.len() >= 5);
}

#[test]
fn purity_agrees_with_cranelift() {
    for &op in Opcode::all() {
        if op.can_load() || op.can_store() || op.can_trap() || op.other_side_effects() || op.is_terminator() {
            assert!(!is_pure(op), "{op}");
        }
    }
    for op in
        [Opcode::Fadd, Opcode::Iadd, Opcode::Select, Opcode::Fcmp, Opcode::Shuffle, Opcode::SymbolValue, Opcode::Bor]
    {
        assert!(is_pure(op), "{op}");
    }
    for op in [Opcode::Load, Opcode::Call, Opcode::StackAddr, Opcode::GetStackPointer, Opcode::Sdiv, Opcode::Nop] {
        assert!(!is_pure(op), "{op}");
    }
    assert!(cost(Opcode::Call) > cost(Opcode::Sqrt) && cost(Opcode::Sqrt) > cost(Opcode::Fadd));
}

/// Formulas for everything that computes a float from floats of the same type, and nothing else.
#[test]
fn kinds_of_rows() {
    let mut n = BTreeMap::new();
    for &op in Opcode::all() {
        let kind = match opcode_rule(op) {
            OpcodeRule::Expr(_) => "formula",
            OpcodeRule::Structural(Structural::IntArith | Structural::IntBits) => "integer",
            OpcodeRule::Structural(_) => "structural",
            OpcodeRule::Zero => "zero",
            OpcodeRule::NotFloat => "not float",
            OpcodeRule::Refused(_) => "refused",
        };
        *n.entry(kind).or_insert(0) += 1;
    }
    assert_eq!(n.values().sum::<i32>(), 163, "{n:?}");
    assert_eq!(n["formula"], 11, "{n:?}");
}
