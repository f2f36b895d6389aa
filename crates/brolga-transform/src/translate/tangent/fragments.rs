//! Tangents of integers that are fragments of floats, or computed from them.
//!
//! The tangent of a fragment has the bytes of the float's tangent, in an integer of the fragment's
//! own type: it moves by the instruction that moves the fragment. Where a float becomes a fragment
//! the run time notes both; where a fragment becomes a float it says whether all bytes are of one
//! tangent (`brolga_runtime::tangents`). What is computed from fragments in another way has a flag
//! for a tangent: whether that of an operand was not zero ([`Shape::Demand`]).

use brolga_analysis::kinds::bit_idioms;
use brolga_analysis::kinds::bytes::bytes_of;
use brolga_ir::inst::{AdOp, Arith, Shape, Val};
use cranelift_codegen::ir::{self, Opcode, Type, types};

use super::{Cx, POISON, define, tangent_as};
use crate::facts::Facts;
use crate::translate::convert::{Converts, arrives, fitted};
use crate::translate::stmt::StmtCx;

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
    cx: &mut impl Converts,
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
            let whole: Vec<Val> = p
                .into_iter()
                .zip(t)
                .map(|(p, t)| {
                    let args = [(p, types::I64), (t, types::I64), (of, types::I64)];
                    cx.ask("brolga_tangent_whole", &args, types::I64)
                })
                .collect();
            match to {
                Shape::F32Pair => cx.convert(Arith::FromBits(to), &[*whole.first()?], to.ty()),
                Shape::F32 => {
                    let bits = of_words(cx, &whole, types::I32);
                    cx.convert(Arith::Bitcast, &[bits], types::F32)
                }
                Shape::F64 => cx.convert(Arith::Bitcast, &[*whole.first()?], types::F64),
                _ => {
                    let bits = of_words(cx, &whole, types::I64X2);
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
fn is_some(cx: &mut impl Converts, word: Val) -> Val {
    let none = cx.convert(Arith::IsZero, &[word], types::I8);
    cx.convert(Arith::Not, &[none], types::I8)
}

/// The bits of a value in words of 64.
fn words(cx: &mut impl Converts, v: Val, ty: Type) -> Vec<Val> {
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
fn of_words(cx: &mut impl Converts, words: &[Val], ty: Type) -> Val {
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

/// An instruction whose result is a fragment: the tangents of the operands move by it. False if it
/// is none.
pub fn moved(cx: Cx<'_, '_, '_, '_>) -> bool {
    let &[z] = cx.results() else { return false };
    let activity = &cx.facts().activity;
    let Some(shape @ Shape::Bytes { .. }) = activity.ct[z].filter(|_| !activity.is_varied(z)) else { return false };
    let (func, inst) = (cx.func(), cx.inst());
    if bit_idioms::sign_of_piece(func, inst, |v| activity.state[v] != brolga_analysis::activity::State::No).is_some() {
        return false;
    }
    let Some(from) = bytes_of(func, inst) else { return false };
    let op = func.dfg.insts[inst].opcode();
    let operands: Vec<Val> = cx
        .args()
        .to_vec()
        .into_iter()
        .map(|x| {
            let ty = cx.ty(x);
            if from.iter().any(|b| b.of == x) && cx.facts().is_active(x) {
                tangent_as(cx, x, Shape::Bytes { n: ty.bytes() as u8, of: 0 })
            } else if matches!(op, Opcode::Bor | Opcode::Bxor | Opcode::Iadd | Opcode::Insertlane | Opcode::Shuffle) {
                cx.integer(0, ty)
            } else {
                // The mask of a part, or by how much it is shifted.
                Val::Primal(x)
            }
        })
        .collect();
    let ty = type_of(cx.ty(z), shape);
    let t = match op {
        // Copies of a sign are no bytes of a tangent.
        Opcode::Sextend => cx.arith(Arith::Uextend, &operands, ty),
        _ => cx.emit(cx.place(), AdOp::Moved(inst, operands.as_slice().into()), ty),
    };
    define(cx, z, Some(t));
    true
}

/// Whether the results of an instruction are computed from fragments.
pub fn computed(cx: Cx<'_, '_, '_, '_>) {
    for &z in cx.results() {
        let Some(shape @ Shape::Demand { .. }) = cx.facts().activity.ct[z] else { continue };
        let mut any = None;
        for &x in cx.args() {
            if cx.facts().is_active(x) {
                let flag = tangent_as(cx, x, shape);
                any = Some(any.map_or(flag, |so_far| cx.arith(Arith::Bor, &[so_far, flag], types::I8)));
            }
        }
        define(cx, z, any);
    }
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
