//! Guarded products of derived code, derived again ([`brolga_analysis::guards::products`]): each
//! factor gets the product of the others.
//!
//! **Question.** A derivative that is derived again has products that are zero where a factor is
//! zero. What are their partials?
//!
//! **Answer.** Each factor gets the product of the others.
//!
//! Zero is strong on both sides: a cotangent that is zero contributes zero whatever the other
//! factors are, and so does the zero of a factor that is strong in the product. What comes out is a
//! guarded product again.
//!
//! ```text
//! z = [g ≠ 0] g·t/e       ḡ += [z̄ ≠ 0] z̄·t/e
//!                         t̄ += [z̄ ≠ 0][g ≠ 0] z̄·g/e
//!                         ē -= [z̄ ≠ 0][g ≠ 0] z̄·(g·t/e)/e
//! ```
//!
//! The last line does not read `z`. That may come from the tape, as a number in which a derivation
//! of this rule's output would not find `g`: the mask on `g` would be a branch, of slope zero.
//!
//! **Cost.** In the run a product of the other factors and a mask for each factor.

use brolga_analysis::guards::products::Product;
use brolga_ir::inst::{Arith, Val};
use cranelift_codegen::ir::{self, Type};

use crate::translate::stmt::StmtCx;

/// The reverse of the instruction that ends a product.
pub(crate) fn reverse(cx: &mut StmtCx<'_, '_, '_>, p: &Product) {
    let z = cx.results()[0];
    if !cx.facts().is_active(z) {
        return;
    }
    let ct = cx.take_ct(z);
    let ct = gated(cx, p, ct, cx.ty(z));
    for (x, part) in parts(p) {
        if cx.facts().is_active(x) {
            let by = scaled(cx, p, z, ct, part);
            cx.add_ct(x, by);
        }
    }
}

/// The tangent of the result, if a factor has one.
pub(crate) fn tangent(cx: &mut StmtCx<'_, '_, '_>, p: &Product) -> Option<Val> {
    let (z, mut sum) = (cx.results()[0], None);
    let ty = cx.ty(z);
    for (x, part) in parts(p) {
        if cx.facts().is_active(x) {
            let by = scaled(cx, p, z, Val::Tangent(x, 0), part);
            sum = Some(match sum {
                Some(so_far) => cx.arith(Arith::Fadd, &[so_far, by], ty),
                None => by,
            });
        }
    }
    sum.map(|t| gated(cx, p, t, ty))
}

/// A factor, by its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProductPart {
    Times(usize),
    Over(usize),
}

fn parts(p: &Product) -> impl Iterator<Item = (ir::Value, ProductPart)> + use<'_> {
    let times = p.times.iter().enumerate().map(|(k, &x)| (x, ProductPart::Times(k)));
    times.chain(p.over.iter().enumerate().map(|(k, &x)| (x, ProductPart::Over(k))))
}

/// A cotangent or tangent where all gates are open, and zero elsewhere.
fn gated(cx: &mut StmtCx<'_, '_, '_>, p: &Product, ct: Val, ty: Type) -> Val {
    p.gates.iter().fold(ct, |ct, &(c, open)| {
        let (c, zero) = (Val::Primal(c), cx.constant(0.0, ty));
        let (x, y) = if open { (ct, zero) } else { (zero, ct) };
        cx.arith(Arith::Select, &[c, x, y], ty)
    })
}

/// A cotangent or tangent times the slope of the product in one of its factors.
fn scaled(cx: &mut StmtCx<'_, '_, '_>, p: &Product, z: ir::Value, ct: Val, part: ProductPart) -> Val {
    let ty = cx.ty(z);
    let mut strong: Vec<ir::Value> = p.strong.to_vec();
    let factors: Vec<(Arith, Val)> = match part {
        ProductPart::Times(index) => {
            // A factor that is there twice is one of the others, too.
            if p.times.iter().filter(|&&x| x == p.times[index]).count() == 1 {
                strong.retain(|s| *s != p.times[index]);
            }
            let others = p.times.iter().enumerate().filter(|&(k, _)| k != index).map(|(_, &x)| (Arith::Fmul, x));
            p.over.iter().map(|&x| (Arith::Fdiv, x)).chain(others).map(|(op, x)| (op, Val::Primal(x))).collect()
        }
        ProductPart::Over(index) => {
            vec![(Arith::Fmul, product_value(cx, p, ty)), (Arith::Fdiv, Val::Primal(p.over[index]))]
        }
    };
    let mut by = ct;
    for (op, x) in &factors {
        by = cx.arith(op.clone(), &[by, *x], ty);
    }
    if matches!(part, ProductPart::Over(_)) != p.neg {
        by = cx.arith(Arith::Fneg, &[by], ty);
    }
    if cx.facts().roots.holds(z) {
        let one = cx.constant(1.0, ty);
        let factor = factors.iter().fold(one, |f, (op, x)| cx.arith(op.clone(), &[f, *x], ty));
        by = cx.unless_at_root(ct, factor, by, ty);
    }
    for s in strong {
        by = cx.strong(Val::Primal(s), by, ty, None);
    }
    cx.strong(ct, by, ty, None)
}

/// The product itself, but for its sign, of its factors: a derivation of what comes out has to see
/// those that are strong. The result, which the tape may hold, is a number without factors.
fn product_value(cx: &mut StmtCx<'_, '_, '_>, p: &Product, ty: Type) -> Val {
    let mut over = p.over.iter();
    let mut so_far: Option<Val> = None;
    for &x in &p.times {
        so_far = Some(match so_far {
            Some(y) => cx.arith(Arith::Fmul, &[y, Val::Primal(x)], ty),
            None => Val::Primal(x),
        });
        // By turns, so that neither half overflows alone.
        if let Some((y, &e)) = so_far.zip(over.next()) {
            so_far = Some(cx.arith(Arith::Fdiv, &[y, Val::Primal(e)], ty));
        }
    }
    let first = so_far.expect("a product has a numerator");
    over.fold(first, |y, &e| cx.arith(Arith::Fdiv, &[y, Val::Primal(e)], ty))
}
