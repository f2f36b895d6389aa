//! Data movement: values that move lane by lane or bit by bit, by selects, bitcasts, shuffles, sign
//! changes and masks.
//!
//! **Question.** The result holds bits of operands, in other places. Which operand gets which part
//! of its cotangent? **Answer.** The part that holds its bits; a lane or a bit that comes from no
//! active operand gives nothing. Cotangents have float types even where the primal holds the bits
//! in an integer, so one rule serves both.
//!
//! **Cost.** In the run a few instructions for each lane; for bytes that are chosen at run time,
//! for each pair of lanes.

use brolga_analysis::activity::State;
use brolga_analysis::bits::bit_idioms::{self, BitOp};
use brolga_analysis::query::is_one_lane;
use brolga_ir::inst::{AdOp, Arith, Check, Defs, Shape, Val};
use cranelift_codegen::ir::{
    self, InstructionData, Opcode, Type,
    condcodes::{FloatCC, IntCC},
    types,
};

use super::pieces::{number_of, number_of_ticket};
use crate::translate::convert::mask_type;
use crate::translate::rules::pieces::{lane_is_unused, lane_type, lanes, nothing_arrives};
use crate::translate::stmt::{Cx, FragmentKind};

/// The cotangent of the only result, if it is active.
fn ct_of_result(cx: Cx<'_, '_, '_, '_>) -> Option<(Val, Shape)> {
    let z = cx.results()[0];
    cx.facts().is_active(z).then(|| (cx.take_ct(z), cx.shape(z)))
}

/// A primal value as a float of the given shape.
pub(crate) fn as_float(cx: Cx<'_, '_, '_, '_>, v: ir::Value, shape: Shape) -> Val {
    if cx.ty(v) == shape.ty() {
        Val::Primal(v)
    } else {
        cx.arith(Arith::FromBits(shape), &[Val::Primal(v)], shape.ty())
    }
}

/// `z = c ? x : y`: z̄ goes to the one that was chosen, and nothing to the other (by selection, not
/// by a product).
pub(crate) fn select(cx: Cx<'_, '_, '_, '_>) {
    super::memory::pointer_arith(cx);
    let args = cx.args();
    let c = Val::Primal(args[0]);
    if let Some((ct, shape)) = ct_of_result(cx) {
        let zero = cx.constant(0.0, shape.ty());
        for (v, x, y) in [(args[1], ct, zero), (args[2], zero, ct)] {
            if cx.facts().is_active(v) {
                let by = cx.arith(Arith::SelectAll, &[c, x, y], shape.ty());
                cx.add_ct(v, by);
            } else if cx.facts().is_unfollowed(v) {
                let by = cx.arith(Arith::SelectAll, &[c, x, y], shape.ty());
                nothing_arrives(cx, by, shape);
            }
        }
    }
}

/// `ct` with the sign of `x`: `ct · sign(x)`, zero at zero.
pub(crate) fn times_sign(cx: Cx<'_, '_, '_, '_>, ct: Val, x: Val, ty: Type) -> Val {
    let zero = cx.constant(0.0, ty);
    let neg = cx.arith(Arith::Fneg, &[ct], ty);
    let below = cx.arith(Arith::Fcmp(FloatCC::LessThan), &[x, zero], mask_type(ty));
    let otherwise = cx.arith(Arith::Select, &[below, neg, zero], ty);
    let above = cx.arith(Arith::Fcmp(FloatCC::GreaterThan), &[x, zero], mask_type(ty));
    cx.arith(Arith::Select, &[above, ct, otherwise], ty)
}

/// Bitwise operations that are sign changes, absolute values or lane masks.
pub(crate) fn bitwise(cx: Cx<'_, '_, '_, '_>) {
    super::memory::pointer_arith(cx);
    let z = cx.results()[0];
    let (facts, inst) = (cx.facts(), cx.inst());
    let activity = &facts.activity;
    // A piece that is a float with another sign; if it is none, that is seen where its cotangent is
    // made a number.
    let of_piece = || bit_idioms::sign_of_piece(facts.func(), inst, |v| activity.state[v] != State::No);
    let op = if activity.is_varied(z) { None } else { of_piece() };
    if let Some(BitOp::Mask { x, mask }) = op {
        return let_through(cx, x, mask);
    }
    let found = match op {
        None => number_of(cx, z),
        Some(_) if !facts.is_active(z) => None,
        Some(_) => {
            let shape = if cx.ty(z) == types::I64 { Shape::F64 } else { Shape::F32 };
            let ticket = cx.take_ct(z);
            number_of_ticket(cx, ticket, shape).map(|ct| (ct, shape))
        }
    };
    let Some((ct, shape)) = found else { return };
    let ty = shape.ty();
    let lane = shape.lane_bytes();
    let op = op.or_else(|| bit_idioms::classify(facts.func(), inst, lane, |v| facts.activity.is_varied(v)));
    match op.expect("the analysis has recognised it") {
        BitOp::Neg(x) => {
            let by = cx.arith(Arith::Fneg, &[ct], ty);
            hand_on(cx, x, by, shape);
        }
        BitOp::Flip { x, by } => {
            let sign = as_float(cx, by, shape);
            let by = cx.arith(Arith::Bxor, &[ct, sign], ty);
            hand_on(cx, x, by, shape);
        }
        BitOp::Abs(x) => {
            let v = as_float(cx, x, shape);
            let by = times_sign(cx, ct, v, ty);
            hand_on(cx, x, by, shape);
        }
        BitOp::NegAbs(x) => {
            let v = as_float(cx, x, shape);
            let neg = cx.arith(Arith::Fneg, &[ct], ty);
            let by = times_sign(cx, neg, v, ty);
            hand_on(cx, x, by, shape);
        }
        BitOp::OrSign { x, by } => {
            // Where the sign is put in the result is -|x|, elsewhere it is x.
            let v = as_float(cx, x, shape);
            let sign = as_float(cx, by, shape);
            let one = cx.constant(1.0, ty);
            let zero = cx.constant(0.0, ty);
            let signed = cx.arith(Arith::Copysign, &[one, sign], ty);
            let set = cx.arith(Arith::Fcmp(FloatCC::LessThan), &[signed, zero], mask_type(ty));
            let neg = cx.arith(Arith::Fneg, &[ct], ty);
            let flipped = times_sign(cx, neg, v, ty);
            let by = cx.arith(Arith::Select, &[set, flipped, ct], ty);
            hand_on(cx, x, by, shape);
        }
        BitOp::Mask { x, mask } => {
            let m = as_float(cx, mask, shape);
            let by = cx.arith(Arith::Band, &[ct, m], ty);
            hand_on(cx, x, by, shape);
        }
        BitOp::Blend(x, y) => {
            hand_on(cx, x, ct, shape);
            hand_on(cx, y, ct, shape);
        }
        BitOp::Choose { mask, x, y } => {
            let m = as_float(cx, mask, shape);
            let zero = cx.constant(0.0, ty);
            if cx.facts().is_active(x) {
                let by = cx.arith(Arith::Band, &[ct, m], ty);
                hand_on(cx, x, by, shape);
            }
            if cx.facts().is_active(y) {
                let by = cx.arith(Arith::Bitselect, &[m, zero, ct], ty);
                hand_on(cx, y, by, shape);
            }
        }
        BitOp::Copysign { mag, sign } => {
            let v = as_float(cx, mag, shape);
            let s = as_float(cx, sign, shape);
            let one = cx.constant(1.0, ty);
            let s = cx.arith(Arith::Copysign, &[one, s], ty);
            let t = times_sign(cx, ct, v, ty);
            let by = cx.arith(Arith::Fmul, &[t, s], ty);
            hand_on(cx, mag, by, shape);
        }
        BitOp::SignOnly => {}
    }
}

/// A piece that is let through whole, or not at all: so is its ticket.
fn let_through(cx: Cx<'_, '_, '_, '_>, x: ir::Value, mask: ir::Value) {
    let Some((ticket, shape)) = ct_of_result(cx) else { return };
    let none = cx.constant(0.0, shape.ty());
    let by = cx.arith(Arith::SelectAll, &[Val::Primal(mask), ticket, none], shape.ty());
    hand_on(cx, x, by, shape);
}

/// What goes to an operand, if anything does.
fn hand_on(cx: Cx<'_, '_, '_, '_>, x: ir::Value, ct: Val, shape: Shape) {
    if cx.facts().is_active(x) {
        super::pieces::hand_over(cx, x, ct, shape);
    }
}

/// The same bits under another type.
pub(crate) fn bitcast(cx: Cx<'_, '_, '_, '_>) {
    let Some((ct, shape)) = ct_of_result(cx) else { return };
    let x = cx.args()[0];
    super::pieces::hand_over(cx, x, ct, shape);
}

/// An operation on bits without a known derivative: nothing may arrive at its result. (A store has
/// none: what it overwrites is checked by its own rule.)
pub(crate) fn lost(cx: Cx<'_, '_, '_, '_>) -> bool {
    for &z in cx.results() {
        if cx.facts().is_active(z) {
            let (ct, shape) = (cx.take_ct(z), cx.shape(z));
            nothing_arrives(cx, ct, shape);
        }
    }
    !cx.results().is_empty()
}

/// Whether a lane of this vector has two singles.
pub(crate) fn in_pairs(cx: Cx<'_, '_, '_, '_>, vector: ir::Value, shape: Shape) -> bool {
    shape == Shape::F32X4 && cx.ty(vector).lane_type().bytes() == 8
}

/// The two singles in one lane of eight bytes, as a pair. They move as bytes: a double has no
/// derivative by singles.
pub(crate) fn pair(cx: Cx<'_, '_, '_, '_>, ct: Val, lane: u8) -> Val {
    let zero = cx.constant(0.0, types::F32X4);
    let bytes = std::array::from_fn(|b| if b < 8 { 8 * lane + b as u8 } else { 16 + b as u8 });
    cx.arith(Arith::ShuffleBytes(Box::new(bytes)), &[ct, zero], types::F32X4)
}

/// Four singles, of which a pair takes the place of the two in one lane of eight bytes.
pub(crate) fn with_pair(cx: Cx<'_, '_, '_, '_>, ct: Val, lane: u8, pair: Val) -> Val {
    let bytes = std::array::from_fn(|b| if b / 8 == usize::from(lane) { 16 + b as u8 % 8 } else { b as u8 });
    cx.arith(Arith::ShuffleBytes(Box::new(bytes)), &[ct, pair], types::F32X4)
}

/// A scalar in every lane: x̄ += Σ z̄.
pub(crate) fn splat(cx: Cx<'_, '_, '_, '_>) {
    let Some((ct, shape)) = ct_of_result(cx) else { return };
    if in_pairs(cx, cx.results()[0], shape) {
        let [low, high] = [0, 1].map(|l| pair(cx, ct, l));
        let sum = cx.arith(Arith::Fadd, &[low, high], types::F32X4);
        return hand_on(cx, cx.args()[0], sum, Shape::F32Pair);
    }
    let t = lane_type(shape);
    let mut sum = cx.arith(Arith::Extract(0), &[ct], t);
    for l in 1..lanes(shape) {
        let x = cx.arith(Arith::Extract(l), &[ct], t);
        sum = cx.arith(Arith::Fadd, &[sum, x], t);
    }
    cx.add_ct(cx.args()[0], sum);
}

pub(crate) fn lane_immediate(cx: Cx<'_, '_, '_, '_>) -> u8 {
    match cx.func().dfg.insts[cx.inst()] {
        InstructionData::BinaryImm8 { imm, .. } | InstructionData::TernaryImm8 { imm, .. } => imm,
        _ => unreachable!("a lane instruction has a lane"),
    }
}

/// `x` with one lane replaced by `y`.
pub(crate) fn insertlane(cx: Cx<'_, '_, '_, '_>) {
    let Some((ct, shape)) = ct_of_result(cx) else { return };
    let (l, t) = (lane_immediate(cx), lane_type(shape));
    let (x, y) = (cx.args()[0], cx.args()[1]);
    if in_pairs(cx, cx.results()[0], shape) {
        let zero = cx.constant(0.0, types::F32X4);
        let by = with_pair(cx, ct, l, zero);
        hand_on(cx, x, by, shape);
        let by = pair(cx, ct, l);
        return hand_on(cx, y, by, Shape::F32Pair);
    }
    if cx.facts().is_active(x) {
        let zero = cx.constant(0.0, t);
        let by = cx.arith(Arith::Insert(l), &[ct, zero], shape.ty());
        cx.add_ct(x, by);
    }
    if cx.facts().is_active(y) {
        let by = cx.arith(Arith::Extract(l), &[ct], t);
        cx.add_ct(y, by);
    }
}

/// One lane.
pub(crate) fn extractlane(cx: Cx<'_, '_, '_, '_>) {
    let Some((ct, _)) = number_of(cx, cx.results()[0]) else { return };
    let x = cx.args()[0];
    if cx.facts().is_active(x) {
        let (l, shape) = (lane_immediate(cx), cx.shape(x));
        let zero = cx.constant(0.0, shape.ty());
        let by = if in_pairs(cx, x, shape) {
            with_pair(cx, zero, l, ct)
        } else {
            cx.arith(Arith::Insert(l), &[zero, ct], shape.ty())
        };
        cx.add_ct(x, by);
    }
}

/// A scalar in lane 0, the rest zero.
pub(crate) fn scalar_to_vector(cx: Cx<'_, '_, '_, '_>) {
    let Some((ct, shape)) = ct_of_result(cx) else { return };
    if in_pairs(cx, cx.results()[0], shape) {
        let by = pair(cx, ct, 0);
        return hand_on(cx, cx.args()[0], by, Shape::F32Pair);
    }
    let by = cx.arith(Arith::Extract(0), &[ct], lane_type(shape));
    cx.add_ct(cx.args()[0], by);
}

/// Bytes of two vectors, chosen by constants: each whole lane goes back where it came from. A lane
/// that was taken several times gets several contributions, one shuffle each.
pub(crate) fn shuffle(cx: Cx<'_, '_, '_, '_>) {
    let Some((ct, shape)) = ct_of_result(cx) else { return };
    let InstructionData::Shuffle { imm, .. } = cx.func().dfg.insts[cx.inst()] else { unreachable!("a shuffle") };
    let mask = cx.func().dfg.immediates[imm].as_slice().to_vec();
    let w = shape.lane_bytes() as usize;
    for (l, bytes) in mask.chunks(w).enumerate() {
        if !is_one_lane(bytes, shape.lane_bytes()) && !bytes.iter().all(|&b| b >= 32) {
            // Bytes of several floats, which nothing should use: check that nothing does.
            let t = lane_type(shape);
            let part = cx.arith(Arith::Extract(l as u8), &[ct], t);
            lane_is_unused(cx, part, t);
        }
    }
    for (k, &x) in cx.args().iter().enumerate() {
        if !cx.facts().is_active(x) {
            continue;
        }
        // For each lane of the operand, the lanes of the result that it went to.
        let mut went: Vec<Vec<usize>> = vec![Vec::new(); 16 / w];
        for l in 0..16 / w {
            let from = mask[l * w] as usize;
            if from / 16 == k && is_one_lane(&mask[l * w..][..w], shape.lane_bytes()) {
                went[from % 16 / w].push(l);
            }
        }
        for round in 0..went.iter().map(Vec::len).max().unwrap_or(0) {
            let mut back = [0xff_u8; 16];
            for (lane, to) in went.iter().enumerate() {
                if let Some(&l) = to.get(round) {
                    for b in 0..w {
                        back[lane * w + b] = (l * w + b) as u8;
                    }
                }
            }
            let by = cx.arith(Arith::ShuffleBytes(Box::new(back)), &[ct, ct], shape.ty());
            cx.add_ct(x, by);
        }
    }
}

/// Bytes chosen by a vector at run time. Each lane of the index must name a whole lane, or none
/// (every byte at least `limit`, or with its top bit set); anything else is checked, and traps if a
/// cotangent is waiting there.
pub(crate) fn swizzle(cx: Cx<'_, '_, '_, '_>, limit: u8) {
    let Some((ct, shape)) = ct_of_result(cx) else { return };
    let (x, index) = (cx.args()[0], cx.args()[1]);
    let w = shape.lane_bytes() as usize;
    let (word, words) = if w == 8 { (types::I64, types::I64X2) } else { (types::I32, types::I32X4) };
    let index = cx.arith(Arith::Bitcast, &[Val::Primal(index)], words);
    let t = lane_type(shape);
    let zero = cx.constant(0.0, t);
    let n = lanes(shape);
    let word_of = |f: &dyn Fn(usize) -> u8| {
        let mut bytes = [0_u8; 8];
        for (b, byte) in bytes.iter_mut().enumerate().take(w) {
            *byte = f(b);
        }
        if w == 8 { i64::from_le_bytes(bytes) } else { i64::from(u32::from_le_bytes(bytes[..4].try_into().unwrap())) }
    };
    let mut sums: Vec<Option<Val>> = vec![None; usize::from(n)];
    for l in 0..n {
        let i = cx.arith(Arith::Extract(l), &[index], word);
        let part = cx.arith(Arith::Extract(l), &[ct], t);
        // Nothing is known to have gone astray yet.
        let mut known = cx.arith(Arith::Fcmp(FloatCC::Equal), &[part, zero], types::I8);
        for (j, sum) in sums.iter_mut().enumerate() {
            let c = cx.arith(Arith::Iconst(word_of(&|b| (j * w + b) as u8)), &[], word);
            let here = cx.arith(Arith::Icmp(IntCC::Equal), &[i, c], types::I8);
            known = cx.arith(Arith::Bor, &[known, here], types::I8);
            let by = cx.arith(Arith::Select, &[here, part, zero], t);
            *sum = Some(match *sum {
                Some(s) => cx.arith(Arith::Fadd, &[s, by], t),
                None => by,
            });
        }
        let top = cx.arith(Arith::Iconst(word_of(&|_| limit.max(0x80))), &[], word);
        let tops = cx.arith(Arith::Band, &[i, top], word);
        let none = cx.arith(Arith::Icmp(IntCC::Equal), &[tops, top], types::I8);
        known = cx.arith(Arith::Bor, &[known, none], types::I8);
        let astray = cx.arith(Arith::Not, &[known], types::I8);
        cx.push(FragmentKind::Rvs, Defs::default(), AdOp::TrapIf(astray, Check::UntrackedBits));
    }
    let mut by = cx.constant(0.0, shape.ty());
    for (l, s) in sums.into_iter().enumerate() {
        by = cx.arith(Arith::Insert(l as u8), &[by, s.expect("there are lanes")], shape.ty());
    }
    cx.add_ct(x, by);
}

/// `f32` to `f64`.
pub(crate) fn promote(cx: Cx<'_, '_, '_, '_>) {
    if let Some((ct, _)) = ct_of_result(cx) {
        let by = cx.arith(Arith::Demote, &[ct], types::F32);
        cx.add_ct(cx.args()[0], by);
    }
}

/// `f64` to `f32`.
pub(crate) fn demote(cx: Cx<'_, '_, '_, '_>) {
    if let Some((ct, _)) = ct_of_result(cx) {
        let by = cx.arith(Arith::Promote, &[ct], types::F64);
        cx.add_ct(cx.args()[0], by);
    }
}

/// Low lanes of `f32x4` to `f64x2`.
pub(crate) fn promote_low(cx: Cx<'_, '_, '_, '_>) {
    if let Some((ct, _)) = ct_of_result(cx) {
        let by = cx.arith(Arith::DemoteLow, &[ct], types::F32X4);
        cx.add_ct(cx.args()[0], by);
    }
}

/// `f64x2` to the low lanes of `f32x4`.
pub(crate) fn demote_low(cx: Cx<'_, '_, '_, '_>) {
    if let Some((ct, _)) = ct_of_result(cx) {
        let by = cx.arith(Arith::PromoteLow, &[ct], types::F64X2);
        cx.add_ct(cx.args()[0], by);
    }
}

/// `isplit` and `iconcat` of two doubles in one 128-bit integer.
pub(crate) fn halves(cx: Cx<'_, '_, '_, '_>, op: Opcode) {
    let (args, results) = (cx.args(), cx.results());
    match op {
        Opcode::Isplit => {
            for (l, &r) in results.iter().enumerate() {
                if let Some((ct, _)) = number_of(cx, r) {
                    let zero = cx.constant(0.0, types::F64X2);
                    let by = cx.arith(Arith::Insert(l as u8), &[zero, ct], types::F64X2);
                    cx.add_ct(args[0], by);
                }
            }
        }
        Opcode::Iconcat => {
            if let Some((ct, _)) = ct_of_result(cx) {
                for (l, &a) in args.iter().enumerate() {
                    if cx.facts().is_active(a) {
                        let by = cx.arith(Arith::Extract(l as u8), &[ct], types::F64);
                        cx.add_ct(a, by);
                    }
                }
            }
        }
        // Halves of a word of two singles: one lane goes to another place.
        Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr => {
            if let Some((ct, _)) = number_of(cx, results[0]) {
                let (from, to) = match op {
                    Opcode::Ishl => (1, Some(0)),
                    Opcode::Ushr => (0, Some(1)),
                    Opcode::Ireduce => (0, Some(0)),
                    _ => (0, None),
                };
                let x = cx.args()[0];
                if !cx.facts().is_active(x) {
                    return;
                }
                let part = if op == Opcode::Ireduce { ct } else { cx.arith(Arith::Extract(from), &[ct], types::F32) };
                let by = match to {
                    Some(lane) => {
                        let zero = cx.constant(0.0, types::F32X4);
                        cx.arith(Arith::Insert(lane), &[zero, part], types::F32X4)
                    }
                    None => part,
                };
                cx.add_ct(x, by);
            }
        }
        _ => {}
    }
}
