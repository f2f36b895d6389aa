//! Integers that are pieces of memory: their cotangents are tickets (`brolga_runtime::pieces`).

use brolga_analysis::activity::pieces::bytes_of;
use brolga_ir::inst::{AdOp, Arith, Defs, Shape, Tape, Val};
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
    cx.push(Where::Rvs, Defs::default(), AdOp::TrapIfBytes(ticket));
    true
}

/// A cotangent of this shape for a value that has the same bits: a number for a piece, or a ticket for a number. Where the value has none,
/// none may come.
pub fn hand_over(cx: Cx<'_, '_, '_, '_>, v: ir::Value, ct: Val, shape: Shape) {
    let Some(own) = cx.facts().activity.ct[v] else {
        if cx.facts().activity.is_varied(v) {
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

/// A cotangent of this type in a shape of the same width: a ticket as a number or a vector, or those as a ticket.
pub fn fitted(cx: &mut impl Converts, ct: Val, ty: Type, own: Shape) -> Option<Val> {
    let found = match (ty, own) {
        (ty, own) if ty == own.ty() => ct,
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
        Some(shape) => fitted(cx, ct, own.ty(), shape).map(|ct| (ct, shape)),
        None => Some((ct, own)),
    }
}
