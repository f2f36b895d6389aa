//! Integers that are pieces of memory: their cotangents are tickets (`brolga_runtime::pieces`).

use brolga_analysis::activity::State;
use brolga_analysis::activity::pieces::bytes_of;
use brolga_ir::inst::{AdOp, Arith, Defs, Shape, Tape, Val};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, Type, types};

use super::moves::nothing_arrives;
use crate::stmt::{StmtCx, Where, helper_call};

type Cx<'c, 't, 'a, 'f> = &'c mut StmtCx<'t, 'a, 'f>;

/// Who can write down what makes a ticket of a number, and a number of a ticket.
pub trait Converts {
    /// A call of the run time that is given the segment, and behind that the arguments.
    fn ask(&mut self, symbol: &str, args: &[(Val, Type)], ty: Type) -> Val;
    /// Arithmetic of the reverse half.
    fn convert(&mut self, op: Arith, args: &[Val], ty: Type) -> Val;
}

impl Converts for StmtCx<'_, '_, '_> {
    fn ask(&mut self, symbol: &str, args: &[(Val, Type)], ty: Type) -> Val {
        let found = Val::D(self.t.ids.dv());
        self.push(Where::Rvs, [(found, ty)].into(), asking(symbol, args, ty));
        found
    }

    fn convert(&mut self, op: Arith, args: &[Val], ty: Type) -> Val {
        self.arith(op, args, ty)
    }
}

/// A call of the run time that is given the segment, and returns a value of this type.
pub fn asking(symbol: &str, args: &[(Val, Type)], ty: Type) -> AdOp {
    let (operands, arg_types): (Vec<_>, Vec<_>) =
        [(None, types::I64)].into_iter().chain(args.iter().map(|&(v, ty)| (Some(v), ty))).unzip();
    helper_call(symbol, &operands, &arg_types, std::iter::once(ty), Tape::Aside)
}

/// An instruction whose result has bytes of its operands: each gets its part of the ticket, and nothing may be left.
pub fn taken_apart(cx: Cx<'_, '_, '_, '_>) -> bool {
    let &[z] = cx.results() else { return false };
    let activity = &cx.facts().activity;
    if !matches!(activity.ct[z], Some(Shape::Bytes { .. })) || activity.is_varied(z) {
        return false;
    }
    let Some(from) = bytes_of(cx.func(), cx.inst()) else { return false };
    let ticket = cx.take_ct(z);
    for b in from {
        if cx.facts().is_active(b.of) {
            let (mask, up) = (cx.iconst(Where::Rvs, b.mask.into()), cx.iconst(Where::Rvs, b.up.into()));
            let args = [(ticket, types::I64), (mask, types::I64), (up, types::I64)];
            let part = cx.ask("brolga_part_of_bytes", &args, types::I64);
            cx.add_ct(b.of, part);
        }
    }
    // A demand of the result is one of each operand, and none is left.
    let left = if cx.facts().demanded { without_demand(cx, ticket).0 } else { ticket };
    cx.push(Where::Rvs, Defs::default(), AdOp::TrapIfBytes(left));
    true
}

/// Whether the results of an instruction are computed from pieces of memory.
pub fn is_computed(cx: &StmtCx<'_, '_, '_>) -> bool {
    let op = cx.func().dfg.insts[cx.inst()].opcode();
    let computed = &cx.facts().activity.computed;
    !op.can_load() && !op.is_call() && cx.results().iter().any(|&z| computed.contains(z))
}

/// Integers that are computed from others: what is demanded of a result is demanded of all operands ([`Shape::Demand`]).
pub fn computed(cx: Cx<'_, '_, '_, '_>) {
    for &z in cx.results() {
        let Some(shape @ Shape::Demand { .. }) = cx.facts().activity.ct[z] else { continue };
        let demand = cx.take_ct(z);
        for &x in cx.args() {
            hand_over(cx, x, demand, shape);
        }
    }
}

/// A cotangent of this shape for a value that has the same bits: a number for a piece, or a ticket for a number. Where the value has none,
/// none may come.
pub fn hand_over(cx: Cx<'_, '_, '_, '_>, v: ir::Value, ct: Val, shape: Shape) {
    let Some(own) = cx.facts().activity.ct[v] else {
        let constant = matches!(shape, Shape::Demand { .. }) && cx.facts().activity.state[v] == State::No;
        if constant || cx.facts().activity.is_varied(v) {
            return;
        }
        return nothing_arrives(cx, ct, shape);
    };
    match fitted(cx, ct, shape.ty(), own) {
        Some(by) => cx.add_ct(v, by),
        None => nothing_arrives(cx, ct, shape),
    }
}

/// Bytes of a ticket in both halves of a vector.
const HALVES: [(i64, i64); 2] = [(0xff, 8), (0xff00, -8)];

/// Some bytes of a ticket, moved up by so many ([`HALVES`]).
fn part(cx: &mut impl Converts, ticket: Val, (mask, up): (i64, i64)) -> Val {
    let mask = cx.convert(Arith::Iconst(mask), &[], types::I64);
    let up = cx.convert(Arith::Iconst(up), &[], types::I64);
    cx.ask("brolga_part_of_bytes", &[(ticket, types::I64), (mask, types::I64), (up, types::I64)], types::I64)
}

/// The words of a vector as a ticket, one half after the other: what lies in a word is for whoever puts it together to say.
fn ticket_of_vector(cx: &mut impl Converts, ct: Val, ty: Type) -> Val {
    let words = if ty == types::F64X2 { ct } else { cx.convert(Arith::Bitcast, &[ct], types::F64X2) };
    let [low, high] = [0, 1].map(|lane| {
        let word = cx.convert(Arith::Extract(lane), &[words], types::F64);
        cx.ask("brolga_bytes_of_word", &[(word, types::F64)], types::I64)
    });
    let high = part(cx, high, HALVES[0]);
    cx.ask("brolga_join_bytes", &[(low, types::I64), (high, types::I64)], types::I64)
}

/// The vector of floats of which a ticket has the bytes.
fn vector_of_ticket(cx: &mut impl Converts, ticket: Val, own: Shape) -> Val {
    let high = part(cx, ticket, HALVES[1]);
    let [low, high] = [ticket, high].map(|half| match own {
        Shape::F64X2 => cx.ask("brolga_double_of_bytes", &[(half, types::I64)], types::F64),
        _ => {
            let bits = cx.ask("brolga_singles_of_bytes", &[(half, types::I64)], types::I64);
            cx.convert(Arith::Bitcast, &[bits], types::F64)
        }
    });
    let words = cx.convert(Arith::ScalarToVector, &[low], types::F64X2);
    let words = cx.convert(Arith::Insert(1), &[words, high], types::F64X2);
    if own == Shape::F64X2 { words } else { cx.convert(Arith::Bitcast, &[words], own.ty()) }
}

/// Whether a cotangent of some type is not zero.
fn arrives(cx: &mut impl Converts, ct: Val, ty: Type) -> Val {
    match ty {
        types::I8 => ct,
        types::I64 => {
            let some = cx.ask("brolga_any_bytes", &[(ct, types::I64)], types::I64);
            let none = cx.convert(Arith::IsZero, &[some], types::I8);
            cx.convert(Arith::Not, &[none], types::I8)
        }
        _ if ty.is_vector() => {
            let lanes: Vec<Val> = (0..ty.lane_count())
                .map(|lane| {
                    let x = cx.convert(Arith::Extract(lane as u8), &[ct], ty.lane_type());
                    arrives(cx, x, ty.lane_type())
                })
                .collect();
            lanes.into_iter().reduce(|x, y| cx.convert(Arith::Bor, &[x, y], types::I8)).expect("a vector has lanes")
        }
        _ => {
            let zero = cx.convert(Arith::Const(0.0), &[], ty);
            cx.convert(Arith::Fcmp(FloatCC::NotEqual), &[ct, zero], types::I8)
        }
    }
}

/// The ticket of a demand (`brolga_runtime::pieces::demand`).
fn ticket_of_demand(cx: &mut impl Converts, demand: Val) -> Val {
    let [all, none] = [-1, 0].map(|x| cx.convert(Arith::Iconst(x), &[], types::I64));
    cx.convert(Arith::Select, &[demand, all, none], types::I64)
}

/// A cotangent of this type in a shape of the same width: a ticket as a number or a vector, those as a ticket, or any of them as a demand. A demand as a number
/// is a trap, when the pullback ends.
pub fn fitted(cx: &mut impl Converts, ct: Val, ty: Type, own: Shape) -> Option<Val> {
    let found = match (ty, own) {
        (ty, own) if ty == own.ty() => ct,
        (ty, Shape::Demand { .. }) => arrives(cx, ct, ty),
        (types::I8, own) => {
            let ticket = ticket_of_demand(cx, ct);
            return fitted(cx, ticket, types::I64, own);
        }
        (types::I64, Shape::F32) => cx.ask("brolga_single_of_bytes", &[(ct, types::I64)], types::F32),
        (types::I64, Shape::F64) => cx.ask("brolga_double_of_bytes", &[(ct, types::I64)], types::F64),
        (types::I64, Shape::F32Pair) => {
            let bits = cx.ask("brolga_singles_of_bytes", &[(ct, types::I64)], types::I64);
            cx.convert(Arith::FromBits(own), &[bits], own.ty())
        }
        (types::I64, Shape::F32X4 | Shape::F64X2) => vector_of_ticket(cx, ct, own),
        (types::F32, Shape::Bytes { .. }) => cx.ask("brolga_bytes_of_single", &[(ct, types::F32)], types::I64),
        (types::F64, Shape::Bytes { .. }) => cx.ask("brolga_bytes_of_double", &[(ct, types::F64)], types::I64),
        // Two singles in a word.
        (types::F32X4, Shape::Bytes { n: 8, .. }) => {
            let bits = cx.convert(Arith::ToBits, &[ct], types::I64);
            let bits = cx.convert(Arith::Bitcast, &[bits], types::F64);
            cx.ask("brolga_bytes_of_word", &[(bits, types::F64)], types::I64)
        }
        (types::F32X4 | types::F64X2, Shape::Bytes { n: 16, .. }) => ticket_of_vector(cx, ct, ty),
        _ => return None,
    };
    Some(found)
}

/// The cotangent of a result, taken, and its shape: as a number, also where it comes as a ticket because the result is cut in pieces.
pub fn number_of(cx: Cx<'_, '_, '_, '_>, z: ir::Value) -> Option<(Val, Shape)> {
    let facts = cx.facts();
    let own = facts.activity.ct[z]?;
    let ct = cx.take_ct(z);
    let whole = facts.activity.shape(facts.func(), z).filter(|_| matches!(own, Shape::Bytes { .. }));
    match whole {
        Some(shape) => number_of_ticket(cx, ct, shape).map(|ct| (ct, shape)),
        None => Some((ct, own)),
    }
}

/// A ticket, but none if it stands for a demand, and whether it does.
fn without_demand(cx: Cx<'_, '_, '_, '_>, ticket: Val) -> (Val, Val) {
    let [all, none] = [-1, 0].map(|x| cx.iconst(Where::Rvs, x));
    let demand = cx.arith(Arith::Icmp(IntCC::Equal), &[ticket, all], types::I8);
    (cx.arith(Arith::Select, &[demand, none, ticket], types::I64), demand)
}

/// The number of this shape that a ticket of the result stands for. If it stands for a demand, that is of all operands.
pub fn number_of_ticket(cx: Cx<'_, '_, '_, '_>, ticket: Val, shape: Shape) -> Option<Val> {
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
