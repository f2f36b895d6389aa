//! Tangents of integers that are pieces of floats, or computed from them.
//!
//! **Question.** An instruction moves some bytes of a float, or computes from them. What is the
//! tangent of the result?
//!
//! **Answer.** The tangent of a piece moves by the instruction that moves the piece. What is
//! computed from pieces in another way has a flag for a tangent: whether that of an operand was
//! not zero ([`Shape::Demand`]).
//!
//! **Cost.** In the run one instruction more for each move.

use brolga_analysis::activity::State;
use brolga_analysis::bits::bit_idioms;
use brolga_analysis::bits::bytes::pieces_of;
use brolga_ir::inst::{AdOp, Arith, Shape, Val};
use cranelift_codegen::ir::{Opcode, types};

use super::fit::type_of;
use super::value::{define, tangent_as};
use crate::translate::stmt::Cx;

/// An instruction whose result is a piece: the tangents of the operands move by it. False if it
/// is none.
pub(super) fn moved(cx: Cx<'_, '_, '_, '_>) -> bool {
    let &[z] = cx.results() else { return false };
    let activity = &cx.facts().activity;
    let Some(shape @ Shape::Bytes { .. }) = activity.ct[z].filter(|_| !activity.is_varied(z)) else { return false };
    let (func, inst) = (cx.func(), cx.inst());
    if bit_idioms::sign_of_piece(func, inst, |v| activity.state[v] != State::No).is_some() {
        return false;
    }
    let Some((from, _)) = pieces_of(func, inst) else { return false };
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

/// Whether the results of an instruction are computed from pieces.
pub(super) fn computed(cx: Cx<'_, '_, '_, '_>) {
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
