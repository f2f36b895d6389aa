//! Known C functions in forward mode: mathematics, and memory.
//!
//! **Question.** A call names a function of C that is not in the program. What are the tangents of
//! its results? **Answer.** For a mathematical function, the partials of its row times the tangents
//! of the operands ([`crate::translate::rules::expr`]). A memory function does to the shadow what
//! it does to memory: copies it, clears it, allocates it.
//!
//! **Cost.** In the run that of the row, or as many bytes of the shadow as of memory.

use brolga_analysis::{CopyRole, computed_operands};
use brolga_ir::inst::{Defs, Val};
use brolga_rules::{ExprRow, MathKind, MathRule, MemFn, OutPtr};
use cranelift_codegen::ir::types;

use super::places;
use super::value::{by_row, define};
use crate::translate::rules::libm::{allocate, clif_type, free_at_end, new_block, written_float};
use crate::translate::stmt::{Cx, FragmentKind, wide};

const I64: cranelift_codegen::ir::Type = types::I64;

/// A call of a known function.
pub(super) fn call(cx: Cx<'_, '_, '_, '_>, rule: &MathRule) {
    match &rule.kind {
        MathKind::Expr(row) => {
            let (z, args) = (cx.results()[0], cx.args());
            if cx.facts().is_active(z) {
                let by = by_row(cx, row, 0, args, &[z]);
                define(cx, z, by);
            }
        }
        MathKind::Writes(row, outs) => writes(cx, row, outs),
        MathKind::Memory(m) => memory_function(cx, *m),
        MathKind::Inactive => crate::translate::rules::calls::inactive(cx, &rule.symbol),
    }
}

/// A call of a function of the program that computes a known one.
pub(super) fn computed(cx: Cx<'_, '_, '_, '_>, rule: &MathRule) {
    let z = cx.results()[0];
    if let MathKind::Expr(row) = &rule.kind
        && cx.facts().is_active(z)
    {
        let args = cx.args();
        let by = by_row(cx, row, 0, computed_operands(rule, args), &[z]);
        define(cx, z, by);
    }
}

/// A function that also writes results through pointers (`modf`, `frexp`, `sincos`).
fn writes(cx: Cx<'_, '_, '_, '_>, row: &ExprRow, outs: &'static [OutPtr]) {
    let (args, results) = (cx.args(), cx.results());
    let n_rets = row.n_results() - outs.len();
    for (k, &z) in results.iter().enumerate().take(n_rets) {
        if cx.facts().is_active(z) {
            let by = by_row(cx, row, k, args, results);
            define(cx, z, by);
        }
    }
    for (k, o) in outs.iter().enumerate() {
        let (p, ty) = (args[o.param], clif_type(o.ty));
        match written_float(cx, row, n_rets + k, o) {
            Some(shape) => {
                let by = by_row(cx, row, n_rets + k, args, results);
                let by = by.unwrap_or_else(|| cx.constant(0.0, ty));
                places::write(cx, p, 0, by, shape);
            }
            None => places::kill(cx, p, 0, ty.bytes(), false),
        }
    }
}

fn memory_function(cx: Cx<'_, '_, '_, '_>, m: MemFn) {
    let args = cx.args();
    match m {
        MemFn::Memcmp => {}
        MemFn::Memcpy | MemFn::Memmove => copy(cx),
        MemFn::Memset => {
            if let Some(d) = cx.facts().delta(args[0]) {
                let n = wide(cx, FragmentKind::After, args[2]);
                let operands = [None, Some(Val::Primal(args[0])), Some(d), Some(n)];
                cx.helper(FragmentKind::After, "brolga_tangent_zero", &operands, &[I64; 4], Defs::default(), false);
            }
        }
        MemFn::Malloc | MemFn::Calloc => {
            new_block(cx, m);
        }
        MemFn::Realloc => {
            let z = cx.results()[0];
            cx.replace_primal();
            let n = wide(cx, FragmentKind::Before, args[1]);
            let now = cx.iconst(FragmentKind::Before, 0);
            let old = [Val::Primal(args[0]), cx.delta_or_zero(FragmentKind::Before, args[0])].map(Some);
            allocate(cx, "brolga_realloc", &[None, old[0], old[1], Some(n), Some(now)], z);
        }
        MemFn::Free => {
            cx.replace_primal();
            let operands = [None, Some(Val::Primal(args[0]))];
            cx.helper(FragmentKind::After, "brolga_free_both", &operands, &[I64; 2], Defs::default(), false);
        }
        MemFn::FreeAtEnd => free_at_end(cx),
    }
}

/// `memcpy` and `memmove`: the shadow goes along, whatever is in it.
fn copy(cx: Cx<'_, '_, '_, '_>) {
    let &[to, from, n] = cx.args() else { return };
    let Some(dt) = cx.facts().delta(to) else { return };
    let role = cx.facts().activity.copies[cx.inst()].clone().unwrap_or(CopyRole::Ints);
    if matches!(role, CopyRole::Floats(_) | CopyRole::Mixed) && !cx.facts().sure(to) && cx.facts().delta(from).is_some()
    {
        crate::translate::rules::libm::copied_where_no_shadow_is(cx, to, from, n);
    }
    let w = FragmentKind::After;
    let df = cx.delta_or_zero(w, from);
    let n = wide(cx, w, n);
    let [to, from] = [to, from].map(|p| Some(Val::Primal(p)));
    let operands = [None, to, Some(dt), from, Some(df), Some(n)];
    cx.helper(w, "brolga_tangent_copy", &operands, &[I64; 6], Defs::default(), false);
}
