//! Pieces of floats: the cotangent of an integer that is some bytes of memory is a ticket
//! (`brolga_runtime::pieces`).
//!
//! **Question.** An instruction takes integers apart, or puts them together, that may be bytes of a
//! float. Where does its ticket go?
//!
//! **Answer.** Each operand gets the part of the ticket that stands for its bytes. Where a ticket
//! comes to a float, or a float's cotangent to a piece, it is converted
//! ([`crate::translate::convert`]). An integer that is computed from pieces in another way has a
//! demand, which goes to all operands.
//!
//! ```text
//! v2 = iconcat v0, v1            v̄0 += part of v̄2, bytes 0…7
//!                                v̄1 += part of v̄2, bytes 8…15, moved down
//! ```
//!
//! **Cost.** In the run a call for each part of a ticket that is not zero.

use brolga_analysis::activity::State;
use brolga_analysis::bits::bytes::{OperandBytes, constant_in, pieces_of};
use brolga_ir::inst::{AdOp, Arith, Check, Defs, Shape, Val};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, Type, types};

use crate::translate::convert::{TicketConversion, asking, fitted, told};
use crate::translate::stmt::{Cx, FragmentKind, StmtCx};

impl TicketConversion for StmtCx<'_, '_, '_> {
    fn ask(&mut self, symbol: &str, args: &[(Val, Type)], ty: Type) -> Val {
        let found = Val::D(self.t.ids.dv());
        self.push(self.place(), [(found, ty)].into(), asking(symbol, args, ty));
        found
    }

    fn tell(&mut self, symbol: &str, args: &[(Val, Type)]) {
        self.push(self.place(), Defs::default(), told(symbol, args, None));
    }

    fn convert(&mut self, op: Arith, args: &[Val], ty: Type) -> Val {
        self.arith(op, args, ty)
    }
}

/// An instruction whose result has bytes of its operands: each gets its part of the ticket. Those
/// in whose place there is a number are no digits of what becomes of the others; nothing else may
/// be left.
pub(crate) fn taken_apart(cx: Cx<'_, '_, '_, '_>) -> bool {
    let &[z] = cx.results() else { return false };
    let activity = &cx.facts().activity;
    if !matches!(activity.ct[z], Some(Shape::Bytes { .. })) || activity.is_varied(z) {
        return false;
    }
    let Some((from, rough)) = pieces_of(cx.func(), cx.inst()) else { return false };
    let mut ticket = cx.take_ct(z);
    let state = |b: &&OperandBytes| cx.facts().activity.state[b.of] != State::No;
    let of_floats: Vec<OperandBytes> = from.iter().filter(state).copied().collect();
    let numbers = constant_in(cx.func(), cx.inst(), &of_floats);
    if numbers | rough != 0 {
        let masks = [numbers, rough].map(|mask| (cx.iconst(FragmentKind::Rvs, mask.into()), types::I64));
        ticket = cx.ask("brolga_drop_digits", &[(ticket, types::I64), masks[0], masks[1]], types::I64);
    }
    for b in from {
        if cx.facts().is_active(b.of) {
            let (mask, up) = (cx.iconst(FragmentKind::Rvs, b.mask.into()), cx.iconst(FragmentKind::Rvs, b.up.into()));
            let args = [(ticket, types::I64), (mask, types::I64), (up, types::I64)];
            let part = cx.ask("brolga_part_of_bytes", &args, types::I64);
            cx.add_ct(b.of, part);
        }
    }
    // A demand of the result is one of each operand, and none is left.
    let left = if cx.facts().demanded { without_demand(cx, ticket).0 } else { ticket };
    cx.push(FragmentKind::Rvs, Defs::default(), AdOp::TrapIfBytes(left));
    true
}

/// Whether the results of an instruction are computed from pieces of memory.
pub(crate) fn is_computed(cx: &StmtCx<'_, '_, '_>) -> bool {
    let op = cx.func().dfg.insts[cx.inst()].opcode();
    let computed = &cx.facts().activity.computed;
    !op.can_load() && !op.is_call() && cx.results().iter().any(|&z| computed.contains(z))
}

/// Integers that are computed from others: what is demanded of a result is demanded of all operands
/// ([`Shape::Demand`]).
pub(crate) fn computed(cx: Cx<'_, '_, '_, '_>) {
    for &z in cx.results() {
        let Some(shape @ Shape::Demand { .. }) = cx.facts().activity.ct[z] else { continue };
        let demand = cx.take_ct(z);
        for &x in cx.args() {
            hand_over(cx, x, demand, shape);
        }
    }
}

/// A cotangent of this shape for a value that has the same bits: a number for a piece, or a ticket
/// for a number. Where the value has none, none may come.
pub(crate) fn hand_over(cx: Cx<'_, '_, '_, '_>, v: ir::Value, ct: Val, shape: Shape) {
    let Some(ct_shape) = cx.facts().activity.ct[v] else {
        let constant = matches!(shape, Shape::Demand { .. }) && cx.facts().activity.state[v] == State::No;
        if constant || cx.facts().activity.is_varied(v) {
            return;
        }
        return nothing_arrives(cx, ct, shape);
    };
    match fitted(cx, ct, shape.ty(), ct_shape) {
        Some(by) => cx.add_ct(v, by),
        None => nothing_arrives(cx, ct, shape),
    }
}

/// The cotangent of a result, taken, and its shape: as a number, also where it comes as a ticket
/// because the result is cut in pieces.
pub(crate) fn number_of(cx: Cx<'_, '_, '_, '_>, z: ir::Value) -> Option<(Val, Shape)> {
    let facts = cx.facts();
    let ct_shape = facts.activity.ct[z]?;
    let ct = cx.take_ct(z);
    let number_shape = facts.activity.shape(facts.func(), z).filter(|_| matches!(ct_shape, Shape::Bytes { .. }));
    match number_shape {
        Some(shape) => number_of_ticket(cx, ct, shape).map(|ct| (ct, shape)),
        None => Some((ct, ct_shape)),
    }
}

/// A ticket, but none if it stands for a demand, and whether it does.
fn without_demand(cx: Cx<'_, '_, '_, '_>, ticket: Val) -> (Val, Val) {
    let [all, none] = [-1, 0].map(|x| cx.iconst(FragmentKind::Rvs, x));
    let demand = cx.arith(Arith::Icmp(IntCC::Equal), &[ticket, all], types::I8);
    (cx.arith(Arith::Select, &[demand, none, ticket], types::I64), demand)
}

/// The number of this shape that a ticket of the result stands for. If it stands for a demand, that
/// is of all operands.
pub(crate) fn number_of_ticket(cx: Cx<'_, '_, '_, '_>, ticket: Val, shape: Shape) -> Option<Val> {
    if !cx.facts().demanded {
        return fitted(cx, ticket, types::I64, shape);
    }
    let (ticket, demand) = without_demand(cx, ticket);
    for &x in cx.args() {
        if !cx.ty(x).lane_type().is_float() {
            let n = cx.ty(x).bytes() as u8;
            hand_over(cx, x, demand, Shape::Demand { n });
        }
    }
    fitted(cx, ticket, types::I64, shape)
}

/// Trap if a cotangent is not zero: it belongs to bits that no rule has followed.
pub(crate) fn nothing_arrives(cx: Cx<'_, '_, '_, '_>, ct: Val, shape: Shape) {
    let check = match shape {
        Shape::Bytes { .. } => Some(AdOp::TrapIfBytes(ct)),
        Shape::Demand { .. } => Some(AdOp::TrapIf(ct, Check::UntrackedBits)),
        _ => None,
    };
    if let Some(check) = check {
        cx.push(FragmentKind::Rvs, Defs::default(), check);
        return;
    }
    let n = lanes(shape);
    for l in 0..n {
        let part = if n == 1 { ct } else { cx.arith(Arith::Extract(l), &[ct], lane_type(shape)) };
        lane_is_unused(cx, part, lane_type(shape));
    }
}

pub(crate) fn lanes(shape: Shape) -> u8 {
    (shape.ty().bytes() / shape.lane_bytes()) as u8
}

pub(crate) fn lane_type(shape: Shape) -> Type {
    shape.ty().lane_type()
}

pub(super) fn lane_is_unused(cx: Cx<'_, '_, '_, '_>, part: Val, ty: Type) {
    let zero = cx.constant(0.0, ty);
    let used = cx.arith(Arith::Fcmp(FloatCC::NotEqual), &[part, zero], types::I8);
    cx.push(FragmentKind::Rvs, Defs::default(), AdOp::TrapIf(used, Check::UntrackedBits));
}
