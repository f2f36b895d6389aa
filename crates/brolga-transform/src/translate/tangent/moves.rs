//! Data movement in forward mode: values move lane by lane or bit by bit, and their tangents move
//! along.
//!
//! **Question.** The result has bits of its operands in other places. What is its tangent?
//! **Answer.** The same instruction on the tangents; for bitwise operations that are sign changes,
//! absolute values or masks, a factor for each lane, which is the same forwards and backwards.
//!
//! ```text
//! v3 = select v0, v1, v2                 v3.t = select v0, v1.t, v2.t
//! v4 = extractlane v3, 1                 v4.t = extractlane v3.t, 1
//! ```
//!
//! **Cost.** In the run one instruction more for most; for bytes that are chosen at run time, some
//! for each pair of lanes.

use brolga_analysis::activity::State;
use brolga_analysis::bits::bit_idioms::{self, BitOp};
use brolga_analysis::query::is_one_lane;
use brolga_ir::inst::{Arith, Shape, Val};
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, condcodes::FloatCC, condcodes::IntCC, types};

use super::fit::{POISON, tangent_type, type_of, unknown};
use super::value::{define, define_as, tangent, tangent_as};
use crate::translate::convert::mask_type;
use crate::translate::rules::memory::pointer_arith;
use crate::translate::rules::moves::{as_float, in_pairs, lane_immediate, pair, times_sign, with_pair};
use crate::translate::rules::pieces::{lane_type, lanes};
use crate::translate::rules::ulp::scaled;
use crate::translate::stmt::Cx;

/// The shape of the only result's tangent, if it has one.
fn shape_of_result(cx: Cx<'_, '_, '_, '_>) -> Option<(ir::Value, Shape)> {
    let z = cx.results()[0];
    cx.facts().is_active(z).then(|| (z, cx.shape(z)))
}

/// `z = c ? x : y`.
pub(super) fn select(cx: Cx<'_, '_, '_, '_>) {
    pointer_arith(cx);
    let Some((z, shape)) = shape_of_result(cx) else { return };
    let args = cx.args();
    let [x, y] = [args[1], args[2]].map(|v| tangent_as(cx, v, shape));
    let t = cx.arith(Arith::SelectAll, &[Val::Primal(args[0]), x, y], tangent_type(cx.facts(), z, shape));
    define(cx, z, Some(t));
}

/// The same bits under another type.
pub(super) fn bitcast(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, shape)) = shape_of_result(cx) else { return };
    let x = cx.args()[0];
    let t = tangent_as(cx, x, shape);
    let (ty, result_ty) = (type_of(cx.ty(x), shape), tangent_type(cx.facts(), z, shape));
    let t = if ty == result_ty { t } else { cx.arith(Arith::Bitcast, &[t], result_ty) };
    define(cx, z, Some(t));
}

/// What is added to the bits of a float, or the like.
pub(super) fn step(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, result_shape)) = shape_of_result(cx) else { return };
    let n = cx.facts().steps.of(cx.inst()).expect("it is a step");
    let float_shape = cx.facts().activity.shape(cx.func(), z).filter(|_| cx.facts().activity.is_varied(z));
    let shape = match result_shape {
        Shape::Bytes { .. } | Shape::Demand { .. } => {
            float_shape.unwrap_or(if cx.ty(z) == types::I64 { Shape::F64 } else { Shape::F32 })
        }
        _ => result_shape,
    };
    match tangent(cx, cx.args()[n]) {
        Some(_) => {
            let of = tangent_as(cx, cx.args()[n], shape);
            let t = scaled(cx, of, n, shape);
            define_as(cx, z, t, shape);
        }
        None => define(cx, z, None),
    }
}

/// A conversion that is linear.
pub(super) fn linear(cx: Cx<'_, '_, '_, '_>, op: Arith, to: Type) {
    let Some((z, _)) = shape_of_result(cx) else { return };
    let t = tangent(cx, cx.args()[0]).map(|t| cx.arith(op, &[t], to));
    define(cx, z, t);
}

/// Bitwise operations that are sign changes, absolute values or lane masks. All but the choice
/// between two are the same map forwards and backwards: a factor for each lane.
pub(super) fn bitwise(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, result_shape)) = shape_of_result(cx) else { return };
    let (facts, inst) = (cx.facts(), cx.inst());
    // A piece that is a float with another sign.
    let of_piece = || bit_idioms::sign_of_piece(facts.func(), inst, |v| facts.activity.state[v] != State::No);
    let of_piece = if facts.activity.is_varied(z) { None } else { of_piece() };
    if let Some(BitOp::Mask { x, mask }) = of_piece {
        // Let through whole, or not at all.
        let t = tangent_as(cx, x, result_shape);
        let none = unknown(cx, false, (result_shape, tangent_type(facts, z, result_shape)));
        let t = cx.arith(Arith::SelectAll, &[Val::Primal(mask), t, none], tangent_type(facts, z, result_shape));
        return define(cx, z, Some(t));
    }
    let shape = match (result_shape, of_piece) {
        (Shape::Bytes { .. } | Shape::Demand { .. }, Some(_)) if cx.ty(z) == types::I64 => Shape::F64,
        (Shape::Bytes { .. } | Shape::Demand { .. }, Some(_)) => Shape::F32,
        (Shape::Bytes { .. }, None) => facts.activity.shape(facts.func(), z).expect("it carries floats"),
        _ => result_shape,
    };
    let (ty, lane) = (shape.ty(), shape.lane_bytes());
    let classify = || bit_idioms::classify(facts.func(), inst, lane, |v| facts.activity.is_varied(v));
    let t = match of_piece.or_else(classify).expect("the analysis has recognised it") {
        BitOp::Neg(x) => {
            let t = tangent_as(cx, x, shape);
            cx.arith(Arith::Fneg, &[t], ty)
        }
        BitOp::Flip { x, by } => {
            let (t, sign) = (tangent_as(cx, x, shape), as_float(cx, by, shape));
            cx.arith(Arith::Bxor, &[t, sign], ty)
        }
        BitOp::Abs(x) => {
            let (t, v) = (tangent_as(cx, x, shape), as_float(cx, x, shape));
            times_sign(cx, t, v, ty)
        }
        BitOp::NegAbs(x) => {
            let (t, v) = (tangent_as(cx, x, shape), as_float(cx, x, shape));
            let t = cx.arith(Arith::Fneg, &[t], ty);
            times_sign(cx, t, v, ty)
        }
        BitOp::OrSign { x, by } => {
            // Where the sign is put in the result is -|x|, elsewhere it is x.
            let (t, v, sign) = (tangent_as(cx, x, shape), as_float(cx, x, shape), as_float(cx, by, shape));
            let (one, zero) = (cx.constant(1.0, ty), cx.constant(0.0, ty));
            let signed = cx.arith(Arith::Copysign, &[one, sign], ty);
            let set = cx.arith(Arith::Fcmp(FloatCC::LessThan), &[signed, zero], mask_type(ty));
            let neg = cx.arith(Arith::Fneg, &[t], ty);
            let flipped = times_sign(cx, neg, v, ty);
            cx.arith(Arith::Select, &[set, flipped, t], ty)
        }
        BitOp::Mask { x, mask } => {
            let (t, m) = (tangent_as(cx, x, shape), as_float(cx, mask, shape));
            cx.arith(Arith::Band, &[t, m], ty)
        }
        BitOp::Blend(x, y) => {
            let (x, y) = (tangent_as(cx, x, shape), tangent_as(cx, y, shape));
            cx.arith(Arith::Fadd, &[x, y], ty)
        }
        BitOp::Choose { mask, x, y } => {
            let m = as_float(cx, mask, shape);
            let (x, y) = (tangent_as(cx, x, shape), tangent_as(cx, y, shape));
            cx.arith(Arith::Bitselect, &[m, x, y], ty)
        }
        BitOp::Copysign { mag, sign } => {
            let (t, v, s) = (tangent_as(cx, mag, shape), as_float(cx, mag, shape), as_float(cx, sign, shape));
            let one = cx.constant(1.0, ty);
            let s = cx.arith(Arith::Copysign, &[one, s], ty);
            let t = times_sign(cx, t, v, ty);
            cx.arith(Arith::Fmul, &[t, s], ty)
        }
        BitOp::SignOnly => cx.constant(0.0, ty),
    };
    define_as(cx, z, t, shape);
}

/// A scalar in every lane.
pub(super) fn splat(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, shape)) = shape_of_result(cx) else { return };
    let x = cx.args()[0];
    let t = if in_pairs(cx, z, shape) {
        let t = tangent_as(cx, x, Shape::F32Pair);
        let words = cx.arith(Arith::Bitcast, &[t], types::F64X2);
        let word = cx.arith(Arith::Extract(0), &[words], types::F64);
        let words = cx.arith(Arith::Splat, &[word], types::F64X2);
        cx.arith(Arith::Bitcast, &[words], types::F32X4)
    } else {
        let t = scalar(cx, x, shape);
        cx.arith(Arith::Splat, &[t], shape.ty())
    };
    define(cx, z, Some(t));
}

/// The tangent of a scalar that becomes a lane of a vector.
fn scalar(cx: Cx<'_, '_, '_, '_>, x: ir::Value, of: Shape) -> Val {
    tangent_as(cx, x, if of.lane_bytes() == 8 { Shape::F64 } else { Shape::F32 })
}

/// `x` with one lane replaced by `y`.
pub(super) fn insertlane(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, shape)) = shape_of_result(cx) else { return };
    let (l, x, y) = (lane_immediate(cx), cx.args()[0], cx.args()[1]);
    let of = tangent_as(cx, x, shape);
    let t = if in_pairs(cx, z, shape) {
        let by = tangent_as(cx, y, Shape::F32Pair);
        with_pair(cx, of, l, by)
    } else {
        let by = scalar(cx, y, shape);
        cx.arith(Arith::Insert(l), &[of, by], shape.ty())
    };
    define(cx, z, Some(t));
}

/// One lane.
pub(super) fn extractlane(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, _)) = shape_of_result(cx) else { return };
    let x = cx.args()[0];
    if !cx.facts().is_active(x) {
        return define(cx, z, None);
    }
    let (l, operand_shape) = (lane_immediate(cx), cx.shape(x));
    let carries = cx.facts().activity.shape(cx.func(), x).filter(|_| matches!(operand_shape, Shape::Bytes { .. }));
    let shape = carries.unwrap_or(operand_shape);
    let of = tangent_as(cx, x, shape);
    let t = if in_pairs(cx, x, shape) { pair(cx, of, l) } else { cx.arith(Arith::Extract(l), &[of], lane_type(shape)) };
    let lane = match shape.lane_bytes() {
        _ if in_pairs(cx, x, shape) => Shape::F32Pair,
        8 => Shape::F64,
        _ => Shape::F32,
    };
    define_as(cx, z, t, lane);
}

/// A scalar in lane 0, the rest zero.
pub(super) fn scalar_to_vector(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, shape)) = shape_of_result(cx) else { return };
    let x = cx.args()[0];
    let t = if in_pairs(cx, z, shape) {
        let t = tangent_as(cx, x, Shape::F32Pair);
        pair(cx, t, 0)
    } else {
        let t = scalar(cx, x, shape);
        cx.arith(Arith::ScalarToVector, &[t], shape.ty())
    };
    define(cx, z, Some(t));
}

/// Bytes of two vectors, chosen by constants. A lane of bytes of several floats has no tangent that
/// is known.
pub(super) fn shuffle(cx: Cx<'_, '_, '_, '_>) {
    let Some((z, shape)) = shape_of_result(cx) else { return };
    let InstructionData::Shuffle { imm, .. } = cx.func().dfg.insts[cx.inst()] else { unreachable!("a shuffle") };
    let mask = cx.func().dfg.immediates[imm].as_slice().to_vec();
    let [x, y] = [cx.args()[0], cx.args()[1]].map(|v| tangent_as(cx, v, shape));
    let bytes: [u8; 16] = mask[..].try_into().expect("sixteen bytes are chosen");
    let mut t = cx.arith(Arith::ShuffleBytes(Box::new(bytes)), &[x, y], shape.ty());
    let w = shape.lane_bytes();
    for (l, bytes) in mask.chunks(w as usize).enumerate() {
        if !is_one_lane(bytes, w) && !bytes.iter().all(|&b| b >= 32) {
            let poison = cx.constant(POISON, lane_type(shape));
            t = cx.arith(Arith::Insert(l as u8), &[t, poison], shape.ty());
        }
    }
    define(cx, z, Some(t));
}

/// Bytes chosen by a vector at run time. Each lane of the index must name a whole lane, or none
/// (every byte at least `limit`, or with its top bit set); any other has no tangent that is known.
pub(super) fn swizzle(cx: Cx<'_, '_, '_, '_>, limit: u8) {
    let Some((z, shape)) = shape_of_result(cx) else { return };
    let (x, index) = (cx.args()[0], cx.args()[1]);
    let w = shape.lane_bytes() as usize;
    let (word, words) = if w == 8 { (types::I64, types::I64X2) } else { (types::I32, types::I32X4) };
    let index = cx.arith(Arith::Bitcast, &[Val::Primal(index)], words);
    let (of, t, n) = (tangent_as(cx, x, shape), lane_type(shape), lanes(shape));
    let word_of = |f: &dyn Fn(usize) -> u8| {
        let bytes: Vec<u8> = (0..w).map(f).collect();
        if w == 8 {
            i64::from_le_bytes(bytes[..].try_into().expect("eight"))
        } else {
            i64::from(u32::from_le_bytes(bytes[..].try_into().expect("four")))
        }
    };
    let parts: Vec<Val> = (0..n).map(|j| cx.arith(Arith::Extract(j), &[of], t)).collect();
    let (zero, poison) = (cx.constant(0.0, t), cx.constant(POISON, t));
    let mut out = cx.constant(0.0, shape.ty());
    for l in 0..n {
        let i = cx.arith(Arith::Extract(l), &[index], word);
        let top = cx.arith(Arith::Iconst(word_of(&|_| limit.max(0x80))), &[], word);
        let tops = cx.arith(Arith::Band, &[i, top], word);
        let none = cx.arith(Arith::Icmp(IntCC::Equal), &[tops, top], types::I8);
        let mut lane = cx.arith(Arith::Select, &[none, zero, poison], t);
        for (j, &part) in parts.iter().enumerate() {
            let c = cx.arith(Arith::Iconst(word_of(&|b| (j * w + b) as u8)), &[], word);
            let here = cx.arith(Arith::Icmp(IntCC::Equal), &[i, c], types::I8);
            lane = cx.arith(Arith::Select, &[here, part, lane], t);
        }
        out = cx.arith(Arith::Insert(l), &[out, lane], shape.ty());
    }
    define(cx, z, Some(out));
}

/// `isplit` and `iconcat` of two doubles in one 128-bit integer, and halves of a word of two
/// singles.
pub(super) fn halves(cx: Cx<'_, '_, '_, '_>, op: Opcode) {
    let (args, results) = (cx.args(), cx.results());
    match op {
        Opcode::Isplit => {
            for (l, &r) in results.iter().enumerate() {
                if cx.facts().is_active(r) {
                    let of = tangent_as(cx, args[0], Shape::F64X2);
                    let t = cx.arith(Arith::Extract(l as u8), &[of], types::F64);
                    define_as(cx, r, t, Shape::F64);
                }
            }
        }
        Opcode::Iconcat => {
            let Some((z, _)) = shape_of_result(cx) else { return };
            let [low, high] = [args[0], args[1]].map(|v| tangent_as(cx, v, Shape::F64));
            let t = cx.arith(Arith::ScalarToVector, &[low], types::F64X2);
            let t = cx.arith(Arith::Insert(1), &[t, high], types::F64X2);
            define_as(cx, z, t, Shape::F64X2);
        }
        Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr => {
            let Some((z, _)) = shape_of_result(cx) else { return };
            let x = args[0];
            let from = if op == Opcode::Uextend { Shape::F32 } else { Shape::F32Pair };
            let of = tangent_as(cx, x, from);
            let part = match op {
                Opcode::Uextend => of,
                Opcode::Ushr => cx.arith(Arith::Extract(1), &[of], types::F32),
                _ => cx.arith(Arith::Extract(0), &[of], types::F32),
            };
            let t = match op {
                Opcode::Ireduce => part,
                Opcode::Ishl => {
                    let zero = cx.constant(0.0, types::F32X4);
                    cx.arith(Arith::Insert(1), &[zero, part], types::F32X4)
                }
                _ => cx.arith(Arith::ScalarToVector, &[part], types::F32X4),
            };
            define_as(cx, z, t, if op == Opcode::Ireduce { Shape::F32 } else { Shape::F32Pair });
        }
        _ => {}
    }
}
