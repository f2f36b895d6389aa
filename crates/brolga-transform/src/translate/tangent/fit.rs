//! Conversions between the forms of one tangent: a number, the bytes of a piece, a flag.
//!
//! **Question.** What is a float on one side of a move is bytes on the other. What becomes of its
//! tangent?
//!
//! **Answer.** The tangent of a piece has the bytes of the float's tangent, in an integer of the
//! piece's own type. Where a float becomes a piece the run time notes both; where a piece
//! becomes a float it says whether all bytes are of one tangent
//! (`brolga_runtime::calls::tangents`). A flag says whether a tangent was not zero
//! ([`Shape::Demand`]).
//!
//! **Cost.** In the run none where the form is the same; else a few instructions for each word, and
//! a call of the run time where bytes become a float.

use brolga_ir::inst::{Arith, Shape, Val};
use cranelift_codegen::ir::{self, Type, types};

use crate::facts::Facts;
use crate::translate::convert::{TicketConversion, arrives, fitted};

/// The tangent of bits whose derivative is not known: a NaN with a payload of its own.
pub const POISON: f64 = f64::from_bits(0x7fff_ffff_ffff_ffff);

/// The type of a value's tangent.
pub(crate) fn tangent_type(facts: &Facts<'_>, v: ir::Value, shape: Shape) -> Type {
    type_of(facts.func().dfg.value_type(v), shape)
}

/// The type of the tangent of a value of this type.
pub(crate) fn type_of(ty: Type, shape: Shape) -> Type {
    if matches!(shape, Shape::Bytes { .. }) { ty.as_int() } else { shape.ty() }
}

/// The tangent of a value in another shape. `primal` is the value and its type.
pub(crate) fn fit(
    cx: &mut impl TicketConversion,
    primal: (Val, Type),
    t: Val,
    from: Shape,
    (to, to_ty): (Shape, Type),
) -> Option<Val> {
    use Shape::{Bytes, Demand};
    let ty = type_of(primal.1, from);
    Some(match (from, to) {
        (Bytes { .. }, Bytes { .. }) if ty == to_ty => t,
        (Demand { .. }, Demand { .. }) => t,
        (Bytes { .. }, Demand { .. }) => {
            let all = words(cx, t, ty).into_iter().map(|w| is_some(cx, w)).collect::<Vec<_>>();
            all.into_iter().reduce(|x, y| cx.convert(Arith::Bor, &[x, y], types::I8))?
        }
        (_, Demand { .. }) => arrives(cx, t, ty),
        (Demand { .. }, Bytes { .. }) => {
            let n = (to_ty.bytes() / 8).max(1);
            let [all, none] = [-1, 0].map(|x| cx.convert(Arith::Iconst(x), &[], types::I64));
            let word = cx.convert(Arith::SelectAll, &[t, all, none], types::I64);
            of_words(cx, &vec![word; n as usize], to_ty)
        }
        (Demand { .. }, to) => {
            let [poison, zero] = [POISON, 0.0].map(|x| cx.convert(Arith::Const(x), &[], to.ty()));
            cx.convert(Arith::SelectAll, &[t, poison, zero], to.ty())
        }
        (Bytes { .. }, to) => {
            let (p, t) = (words(cx, primal.0, primal.1), words(cx, t, ty));
            let of = cx.convert(Arith::Iconst(i64::from(to.lane_bytes())), &[], types::I64);
            let tangent_words: Vec<Val> = p
                .into_iter()
                .zip(t)
                .map(|(p, t)| {
                    let args = [(p, types::I64), (t, types::I64), (of, types::I64)];
                    cx.ask("brolga_tangent_whole", &args, types::I64)
                })
                .collect();
            match to {
                Shape::F32Pair => cx.convert(Arith::FromBits(to), &[*tangent_words.first()?], to.ty()),
                Shape::F32 => {
                    let bits = of_words(cx, &tangent_words, types::I32);
                    cx.convert(Arith::Bitcast, &[bits], types::F32)
                }
                Shape::F64 => cx.convert(Arith::Bitcast, &[*tangent_words.first()?], types::F64),
                _ => {
                    let bits = of_words(cx, &tangent_words, types::I64X2);
                    cx.convert(Arith::Bitcast, &[bits], to.ty())
                }
            }
        }
        (from, Bytes { .. }) => {
            let bits = match from {
                Shape::F32Pair => (cx.convert(Arith::ToBits, &[t], types::I64), types::I64),
                Shape::F64 => (cx.convert(Arith::Bitcast, &[t], types::I64), types::I64),
                Shape::F32 => (cx.convert(Arith::Bitcast, &[t], types::I32), types::I32),
                _ => (t, from.ty()),
            };
            let (p, t) = (words(cx, primal.0, primal.1), words(cx, bits.0, bits.1));
            for (&p, &t) in p.iter().zip(&t) {
                cx.tell("brolga_tangent_note_word", &[(p, types::I64), (t, types::I64)]);
            }
            of_words(cx, &t, to_ty)
        }
        _ => return fitted(cx, t, ty, to),
    })
}

/// Whether a word is not zero.
fn is_some(cx: &mut impl TicketConversion, word: Val) -> Val {
    let none = cx.convert(Arith::IsZero, &[word], types::I8);
    cx.convert(Arith::Not, &[none], types::I8)
}

/// The bits of a value in words of 64.
fn words(cx: &mut impl TicketConversion, v: Val, ty: Type) -> Vec<Val> {
    match ty {
        types::I64 => vec![v],
        types::F64 => vec![cx.convert(Arith::Bitcast, &[v], types::I64)],
        types::F32 => {
            let bits = cx.convert(Arith::Bitcast, &[v], types::I32);
            vec![cx.convert(Arith::Uextend, &[bits], types::I64)]
        }
        _ if ty.bits() == 128 => {
            let both = if ty == types::I64X2 { v } else { cx.convert(Arith::Bitcast, &[v], types::I64X2) };
            [0, 1].map(|lane| cx.convert(Arith::Extract(lane), &[both], types::I64)).to_vec()
        }
        _ => vec![cx.convert(Arith::Uextend, &[v], types::I64)],
    }
}

/// An integer, or a vector, of such words.
pub(super) fn of_words(cx: &mut impl TicketConversion, words: &[Val], ty: Type) -> Val {
    match ty {
        types::I64 => words[0],
        _ if ty.bits() == 128 => {
            let both = cx.convert(Arith::ScalarToVector, &[words[0]], types::I64X2);
            let both = cx.convert(Arith::Insert(1), &[both, words[words.len() - 1]], types::I64X2);
            if ty == types::I64X2 { both } else { cx.convert(Arith::Bitcast, &[both], ty) }
        }
        _ => cx.convert(Arith::Ireduce, &[words[0]], ty),
    }
}

/// A tangent in a shape: zero, or one that is not known.
pub(crate) fn unknown(cx: &mut impl TicketConversion, lost: bool, (shape, ty): (Shape, Type)) -> Val {
    match shape {
        Shape::Bytes { .. } | Shape::Demand { .. } => {
            let flag = cx.convert(Arith::Iconst(lost.into()), &[], types::I8);
            match shape {
                Shape::Demand { .. } => flag,
                _ => fit(cx, (flag, types::I8), flag, Shape::Demand { n: 1 }, (shape, ty)).expect("a flag fits all"),
            }
        }
        _ => cx.convert(Arith::Const(if lost { POISON } else { 0.0 }), &[], shape.ty()),
    }
}
