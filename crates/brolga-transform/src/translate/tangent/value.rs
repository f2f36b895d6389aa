//! Names of tangents: what a statement reads of its operands, and gives its results.
//!
//! **Question.** Which tangent does an operand have, in the shape that a rule asks for, and how
//! does a result get its own?
//!
//! **Answer.** The tangent of an operand is its name if it has one ([`tangent`]), zero if nothing
//! leads to it, and poison if its bits are lost; in another shape it is converted ([`super::fit`],
//! [`tangent_as`]). A result by a row ([`by_row`]) or of a guarded product ([`by_product`]) is a
//! sum of products, or in Taylor mode left to `crate::batch` (`series.rs`). [`define`] gives a
//! result its tangent.
//!
//! **Cost.** A copy for each result, and a conversion where shapes differ. The copy is gone when
//! names have become values.

use brolga_analysis::guards::products::Product;
use brolga_ir::inst::{AdOp, Args, Arith, Shape, Val};
use brolga_rules::ExprRow;
use cranelift_codegen::ir::{self, Type, types};

use super::fit::{fit, of_words, tangent_type, type_of, unknown};
use crate::translate::rules::{expr, products};
use crate::translate::stmt::Cx;
use crate::translate::stmt::{FragmentKind, StmtCx};

/// The tangent of a value, if it has one.
pub(super) fn tangent(cx: &StmtCx<'_, '_, '_>, v: ir::Value) -> Option<Val> {
    cx.facts().is_active(v).then_some(Val::Tangent(v, 0))
}

/// The tangent of a value in a shape: zero if it has none, poison if its bits are lost.
pub(super) fn tangent_as(cx: Cx<'_, '_, '_, '_>, v: ir::Value, shape: Shape) -> Val {
    let (ty, lost) = (cx.ty(v), cx.facts().is_active(v) || cx.facts().is_unfollowed(v));
    let to = (shape, type_of(ty, shape));
    let ct_shape = cx.facts().activity.ct[v];
    let known = ct_shape.and_then(|ct_shape| fit(cx, (Val::Primal(v), ty), Val::Tangent(v, 0), ct_shape, to));
    known.unwrap_or_else(|| unknown(cx, lost, to))
}

/// The tangent of a result by a row, if an operand has one.
pub(super) fn by_row(
    cx: Cx<'_, '_, '_, '_>,
    row: &ExprRow,
    result: usize,
    args: &[ir::Value],
    results: &[ir::Value],
) -> Option<Val> {
    let options = cx.facts().options;
    if !options.taylor || options.width == 1 {
        return expr::tangent(cx, row, result, args, results);
    }
    let moves = |i: &usize| !row.partial(result, *i).is_zero() && cx.facts().is_active(args[*i]);
    let moving: Vec<ir::Value> = (0..args.len()).filter(moves).map(|i| args[i]).collect();
    let ty = cx.ty(*moving.first()?);
    let primals = args.iter().chain(results).map(|&v| Val::Primal(v));
    let given = moving.into_iter().map(|x| Val::Tangent(x, 0)).chain(primals).collect();
    Some(cx.emit(cx.place(), AdOp::Series(cx.inst(), result as u8, given), ty))
}

/// The tangent of the result of a guarded product, if a factor has one.
pub(super) fn by_product(cx: Cx<'_, '_, '_, '_>, p: &Product) -> Option<Val> {
    let options = cx.facts().options;
    if !options.taylor || options.width == 1 {
        return products::tangent(cx, p);
    }
    let factors = || p.times.iter().chain(&p.over).copied();
    let mut given: Vec<Val> = factors().filter(|&x| cx.facts().is_active(x)).map(|x| Val::Tangent(x, 0)).collect();
    let ty = cx.ty(cx.results()[0]);
    let some = !given.is_empty();
    given.extend(factors().chain(p.gates.iter().map(|(c, _)| *c)).map(Val::Primal));
    some.then(|| cx.emit(cx.place(), AdOp::Series(cx.inst(), 0, given.into()), ty))
}

/// Give a value its tangent; zero if nothing leads to it.
pub(super) fn define(cx: Cx<'_, '_, '_, '_>, z: ir::Value, by: Option<Val>) {
    let shape = cx.shape(z);
    let ty = tangent_type(cx.facts(), z, shape);
    let by = by.unwrap_or_else(|| unknown(cx, false, (shape, ty)));
    let op = AdOp::Arith(Arith::Copy, Args::from([by].as_slice()), ty);
    cx.push(FragmentKind::After, [(Val::Tangent(z, 0), ty)].into(), op);
}

/// Give a value a tangent of another shape.
pub(super) fn define_as(cx: Cx<'_, '_, '_, '_>, z: ir::Value, by: Val, shape: Shape) {
    let (result_shape, ty) = (cx.shape(z), cx.ty(z));
    let to = (result_shape, type_of(ty, result_shape));
    let by = fit(cx, (Val::Primal(z), ty), by, shape, to).unwrap_or_else(|| unknown(cx, true, to));
    define(cx, z, Some(by));
}

impl StmtCx<'_, '_, '_> {
    /// An integer of any type, or a vector of them, with this number in all lanes.
    pub(super) fn integer(&mut self, x: i64, ty: Type) -> Val {
        if ty.bits() < 128 {
            return self.arith(Arith::Iconst(x), &[], ty);
        }
        let word = self.arith(Arith::Iconst(x), &[], types::I64);
        of_words(self, &[word, word], ty)
    }
}
