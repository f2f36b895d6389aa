//! Generates `docs/RULES.md`. Bless with `UPDATE_EXPECT=1`.

use std::fmt::Write;

use brolga_rules::{
    ExprRow, MathKind, MemFn, OpcodeRule, Reads, Ty, cost, is_pure, math_rule, math_rules, opcode_rule,
};
use cranelift_codegen::ir::Opcode;
use expect_test::expect_file;

fn in_order<T, K: Ord>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort_by_key(key);
    items
}

fn reads(row: &ExprRow) -> String {
    let reads = row.partials().fold(Reads::default(), |r, (_, _, p)| r.union(p.reads()));
    let operands = reads.operands().map(|i| ["x", "y", "c"][i]);
    let results = reads.results().map(|i| ["z", "w"][i]);
    let names: Vec<&str> = operands.chain(results).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// A vertical bar ends a cell, even within code.
fn cell(text: impl ToString) -> String {
    text.to_string().replace('|', "\\|")
}

fn signature(params: &[Ty], rets: &[Ty]) -> String {
    let list = |tys: &[Ty]| tys.iter().map(|ty| format!("{ty:?}").to_lowercase()).collect::<Vec<_>>().join(", ");
    format!("({}) -> {}", list(params), if rets.is_empty() { "nothing".to_owned() } else { list(rets) })
}

fn memory(f: MemFn) -> &'static str {
    match f {
        MemFn::Memcpy | MemFn::Memmove => "copies: the shadow of the target moves back to the shadow of the source",
        MemFn::Memset => "fills: the shadow is cleared",
        MemFn::Memcmp => "compares: derivative zero",
        MemFn::Malloc | MemFn::Calloc => "allocates: a shadow of the same size, zero",
        MemFn::Realloc => "allocates and copies",
        MemFn::Free => "frees: put off until the pullback is done",
        MemFn::FreeAtEnd => "frees when the run is over",
    }
}

fn page() -> String {
    let mut out = String::from(
        "# Reference: rules\n\n\
         Generated from the tables in `crates/brolga-rules`; do not edit. Operands are `x`, `y`, `c`, results `z`, `w`. What happens\n\
         where a derivative does not exist is in [KINKS.md](KINKS.md). \"Guarded\" partials may be infinite or NaN although operands\n\
         and results are finite; a cotangent of zero stays zero through them.\n\n",
    );
    let ops = || in_order(Opcode::all().iter().copied(), |op| op.to_string());
    let w = &mut out;
    let write = "writing to a string";

    writeln!(
        w,
        "## Instructions with a formula\n\n| instruction | partial derivatives | reads | guarded |\n|---|---|---|---|"
    )
    .expect(write);
    for op in ops() {
        if let OpcodeRule::Expr(row) = opcode_rule(op) {
            writeln!(w, "| `{op}` | `{}` | {} | {} |", cell(row), reads(row), guarded(row)).expect(write);
        }
    }
    writeln!(w, "\n## Structural instructions\n\n| instruction | kind |\n|---|---|").expect(write);
    for op in ops() {
        if let OpcodeRule::Structural(s) = opcode_rule(op) {
            writeln!(w, "| `{op}` | {s:?} |").expect(write);
        }
    }
    for (title, rule) in
        [("Derivative zero", OpcodeRule::Zero), ("Integers only: an active value is an error", OpcodeRule::NotFloat)]
    {
        let names: Vec<String> =
            ops().into_iter().filter(|&op| opcode_rule(op) == rule).map(|op| format!("`{op}`")).collect();
        writeln!(w, "\n## {title}\n\n{}", names.join(", ")).expect(write);
    }
    writeln!(w, "\n## Refused\n\n| instruction | code | why | instead |\n|---|---|---|---|").expect(write);
    for op in ops() {
        if let OpcodeRule::Refused(r) = opcode_rule(op) {
            writeln!(w, "| `{op}` | {} | {} | {} |", r.code, r.why, r.help).expect(write);
        }
    }
    let pure: Vec<String> =
        ops().into_iter().filter(|&op| is_pure(op)).map(|op| format!("`{op}` {}", cost(op))).collect();
    writeln!(w, "\n## May be computed again, and at what cost\n\n{}", pure.join(", ")).expect(write);

    writeln!(
        w,
        "\n## C functions with a formula\n\nEach has a twin for `float`, with an `f` behind its name or, where that is not C's name, as given.\n\n\
         | function | signature | partial derivatives | reads | guarded |\n|---|---|---|---|---|"
    )
    .expect(write);
    for rule in math_rules() {
        if let MathKind::Expr(row) | MathKind::Writes(row, _) = &rule.kind
            && rule.params[0] == Ty::F64
        {
            let twin = format!("{}f", rule.symbol);
            let name = if math_rule(&twin).is_some() {
                rule.symbol.to_string()
            } else {
                format!("{}` `{}", rule.symbol, twin_of(&rule.symbol))
            };
            let sig = signature(&rule.params, &rule.rets);
            writeln!(w, "| `{name}` | {sig} | `{}` | {} | {} |", cell(row), reads(row), guarded(row)).expect(write);
        }
    }
    writeln!(w, "\n## C functions on memory\n\n| function | signature | meaning |\n|---|---|---|").expect(write);
    for rule in math_rules() {
        if let MathKind::Memory(f) = rule.kind {
            writeln!(w, "| `{}` | {} | {} |", rule.symbol, signature(&rule.params, &rule.rets), memory(f))
                .expect(write);
        }
    }
    let inactive: Vec<String> =
        math_rules().filter(|r| r.kind == MathKind::Inactive).map(|r| format!("`{}`", r.symbol)).collect();
    writeln!(w, "\n## C functions without derivatives\n\n{}", inactive.join(", ")).expect(write);
    out
}

/// The twins that are not named by an `f` at the end.
fn twin_of(symbol: &str) -> &'static str {
    match symbol {
        "lgamma_r" => "lgammaf_r",
        "__powidf2" => "__powisf2",
        other => panic!("{other} has no twin"),
    }
}

fn guarded(row: &ExprRow) -> String {
    let which: Vec<String> = row
        .partials()
        .filter(|(_, _, p)| p.may_blow_up())
        .map(|(r, o, _)| format!("∂{}/∂{}", ["z", "w"][r], ["x", "y", "c"][o]))
        .collect();
    which.join(", ")
}

#[test]
fn reference_page() {
    expect_file!["../../../docs/RULES.md"].assert_eq(&page());
}
