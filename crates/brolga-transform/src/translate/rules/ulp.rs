//! Ulp arithmetic: a number is added to a float's bits (`brolga_analysis::activity::ulp`), and the
//! cotangent is multiplied by a power of two.
//!
//! **Question.** A float's bits are another's, plus a number. How is the cotangent multiplied by
//! the slope?
//!
//! **Answer.** The exponents of two floats may lie so far apart that their slope is no number, or
//! that the product is none, although another step leads back. So the run time scales
//! (`brolga_runtime::calls::steps`), and says where digits are lost on the way; that is a trap,
//! since it is not known whether they will be asked for.
//!
//! **Cost.** In the run one call for each step.

use brolga_analysis::activity::State;
use brolga_analysis::bits::bit_arith::divides_by;
use brolga_ir::inst::{AdOp, Arith, Check, Defs, Shape, Val};
use cranelift_codegen::ir::{Opcode, types};

use super::pieces::{hand_over, number_of, number_of_ticket};
use crate::translate::convert::fitted;
use crate::translate::stmt::StmtCx;

/// `z = x + c`, `x - c`, `c - x`, or `x` with another exponent, divided, or cut off, where `x` has
/// the bits of a float.
pub(crate) fn step(cx: &mut StmtCx<'_, '_, '_>) {
    let (facts, z) = (cx.facts(), cx.results()[0]);
    let Some(n) = facts.steps.of(cx.inst()).filter(|_| facts.is_active(z)) else { return };
    let x = cx.args()[n];
    // Of a piece it is seen here whether it is a whole float.
    let found = if facts.activity.is_varied(z) {
        number_of(cx, z)
    } else {
        let shape = if cx.ty(z) == types::I64 { Shape::F64 } else { Shape::F32 };
        let ticket = cx.take_ct(z);
        number_of_ticket(cx, ticket, shape).map(|ct| (ct, shape))
    };
    let Some((ct, shape)) = found else { return };
    // Of a number from memory it is not known that it is none of a float's bits.
    let number = cx.args()[1 - n];
    if facts.activity.state[number] != State::No && !facts.steps.adds_digits(cx.inst()) {
        let demand_shape = Shape::Demand { n: cx.ty(number).bytes() as u8 };
        let demand = fitted(cx, ct, shape.ty(), demand_shape).expect("any cotangent is a demand");
        hand_over(cx, number, demand, demand_shape);
    }
    if !facts.is_active(x) {
        return;
    }
    let by = scaled(cx, ct, n, shape);
    hand_over(cx, x, by, shape);
}

/// A cotangent of the result, or a tangent of operand `n`, times the slope. A trap where digits are
/// lost.
pub(crate) fn scaled(cx: &mut StmtCx<'_, '_, '_>, ct: Val, n: usize, shape: Shape) -> Val {
    let (x, z) = (cx.args()[n], cx.results()[0]);
    let downwards = n == 1 && cx.func().dfg.insts[cx.inst()].opcode() == Opcode::Isub;
    let (scaled, lost) = match shape {
        Shape::F64 => ("brolga_step_double", "brolga_step_loses_double"),
        _ => ("brolga_step_single", "brolga_step_loses_single"),
    };
    let args = [Some(ct), Some(Val::Primal(x)), Some(Val::Primal(z))];
    let arg_types = [shape.ty(), cx.ty(x), cx.ty(z)];
    let place = cx.place();
    let mut ask = |symbol: &str, ty| {
        let found = Val::D(cx.t.ids.dv());
        cx.helper(place, symbol, &args, &arg_types, [(found, ty)].into(), false);
        found
    };
    let lost = ask(lost, types::I64);
    let by = ask(scaled, shape.ty());
    cx.push(place, Defs::default(), AdOp::TrapIf(lost, Check::UntrackedBits));
    let divided = divides_by(cx.func(), cx.inst());
    let by = if divided == 1.0 {
        by
    } else {
        let part = cx.constant(1.0 / divided, shape.ty());
        cx.arith(Arith::Fmul, &[by, part], shape.ty())
    };
    if downwards { cx.arith(Arith::Fneg, &[by], shape.ty()) } else { by }
}
