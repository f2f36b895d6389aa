//! Integers that are pieces of memory: their cotangents are tickets (`brolga_runtime::pieces`).

use brolga_analysis::activity::pieces::bytes_of;
use brolga_ir::inst::{AdOp, Arith, Check, Shape, Val};
use cranelift_codegen::ir::{self, Type, types};
use smallvec::smallvec;

use super::moves::nothing_arrives;
use crate::stmt::{StmtCx, Where};

type Cx<'c, 't, 'a, 'f> = &'c mut StmtCx<'t, 'a, 'f>;

/// A call of the run time that is given the segment.
fn ask(cx: Cx<'_, '_, '_, '_>, symbol: &str, args: &[(Val, Type)], ty: Type) -> Val {
    let operands: Vec<Option<Val>> = std::iter::once(None).chain(args.iter().map(|a| Some(a.0))).collect();
    let arg_types: Vec<Type> = std::iter::once(types::I64).chain(args.iter().map(|a| a.1)).collect();
    let found = Val::D(cx.t.ids.dv());
    cx.helper(Where::Rvs, symbol, &operands, &arg_types, smallvec![(found, ty)], false);
    found
}

/// An instruction whose result has bytes of its operands: each gets its part of the ticket, and nothing may be left.
pub fn taken_apart(cx: Cx<'_, '_, '_, '_>) -> bool {
    let &[z] = cx.results() else { return false };
    if !matches!(cx.facts().activity.ct[z], Some(Shape::Bytes { .. })) {
        return false;
    }
    let Some(from) = bytes_of(cx.func(), cx.inst()) else { return false };
    let ticket = cx.take_ct(z);
    for b in from {
        if cx.facts().is_active(b.of) {
            let (mask, up) = (cx.iconst(Where::Rvs, b.mask.into()), cx.iconst(Where::Rvs, b.up.into()));
            let args = [(ticket, types::I64), (mask, types::I64), (up, types::I64)];
            let part = ask(cx, "brolga_part_of_bytes", &args, types::I64);
            cx.add_ct(b.of, part);
        }
    }
    let left = ask(cx, "brolga_no_bytes", &[(ticket, types::I64)], types::I64);
    cx.push(Where::Rvs, smallvec![], AdOp::TrapIf(left, Check::UntrackedBits));
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

/// A cotangent of this type in a shape: a ticket as a number, or a number as a ticket. Not for vectors.
pub fn fitted(cx: Cx<'_, '_, '_, '_>, ct: Val, ty: Type, own: Shape) -> Option<Val> {
    let found = match (ty, own) {
        (ty, own) if ty == own.ty() => ct,
        (types::I64, Shape::F32) => ask(cx, "brolga_single_of_bytes", &[(ct, types::I64)], types::F32),
        (types::I64, Shape::F64) => ask(cx, "brolga_double_of_bytes", &[(ct, types::I64)], types::F64),
        (types::I64, Shape::F32Pair) => {
            let both = ask(cx, "brolga_double_of_bytes", &[(ct, types::I64)], types::F64);
            let bits = cx.arith(Arith::Bitcast, &[both], types::I64);
            cx.arith(Arith::FromBits(own), &[bits], own.ty())
        }
        (types::F32, Shape::Bytes { .. }) => ask(cx, "brolga_bytes_of_single", &[(ct, types::F32)], types::I64),
        (types::F64, Shape::Bytes { .. }) => ask(cx, "brolga_bytes_of_double", &[(ct, types::F64)], types::I64),
        // Two singles in a word.
        (types::F32X4, Shape::Bytes { n: 8, .. }) => {
            let bits = cx.arith(Arith::ToBits, &[ct], types::I64);
            let bits = cx.arith(Arith::Bitcast, &[bits], types::F64);
            ask(cx, "brolga_bytes_of_double", &[(bits, types::F64)], types::I64)
        }
        _ => return None,
    };
    Some(found)
}
