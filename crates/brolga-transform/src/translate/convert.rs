//! Conversions between the forms of one cotangent: a number, a vector, a ticket, a demand.
//!
//! **Problem.** What is a float on one side of a move is bytes on the other: a double that is
//! stored whole and loaded as two words has a number for a cotangent here and tickets there.
//!
//! **Answer.** One place that has the forms of both sides and writes down what makes one of the
//! other: a `bitcast` where the bits are the same, a call of the run time where a ticket is made or
//! resolved. Both directions of differentiation use it ([`TicketConversion`]).
//!
//! | from, to | number | vector | ticket |
//! |---|---|---|---|
//! | number | `bitcast` | `scalar_to_vector` | `brolga_bytes_of_…` |
//! | vector | `extractlane` | `bitcast` | a ticket of each word, joined |
//! | ticket | `brolga_double_of_bytes`, `brolga_singles_of_bytes` | each word, inserted | |
//!
//! **Cost.** In the run none for a cotangent that has its form already, else a few instructions
//! and, from or to a ticket, one or two calls of the run time.

use brolga_ir::inst::{AdOp, Arith, Callee, Shape, Tape, Val};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, Type, types};

/// A fragment under construction, to which is added what makes a ticket of a number, and a number
/// of a ticket.
pub(crate) trait TicketConversion {
    /// A call of the run time that is given the segment, and behind that the arguments.
    fn ask(&mut self, symbol: &str, args: &[(Val, Type)], ty: Type) -> Val;
    /// A call of the run time that is given the segment and returns nothing.
    fn tell(&mut self, symbol: &str, args: &[(Val, Type)]);
    /// Arithmetic of the reverse half, or of forward mode.
    fn convert(&mut self, op: Arith, args: &[Val], ty: Type) -> Val;
}

/// A call of the run time that is given the segment, and returns a value of this type.
pub(crate) fn asking(symbol: &str, args: &[(Val, Type)], ty: Type) -> AdOp {
    told(symbol, args, Some(ty))
}

/// A call of the run time that is given the segment, and may return a value.
pub(crate) fn told(symbol: &str, args: &[(Val, Type)], ty: Option<Type>) -> AdOp {
    let (operands, arg_types): (Vec<_>, Vec<_>) =
        [(None, types::I64)].into_iter().chain(args.iter().map(|&(v, ty)| (Some(v), ty))).unzip();
    helper_call(symbol, &operands, &arg_types, ty.into_iter(), Tape::Aside)
}

/// Bytes of a ticket in both halves of a vector.
const HALVES: [(i64, i64); 2] = [(0xff, 8), (0xff00, -8)];

/// Some bytes of a ticket, moved up by so many ([`HALVES`]).
pub(super) fn part(cx: &mut impl TicketConversion, ticket: Val, (mask, up): (i64, i64)) -> Val {
    let mask = cx.convert(Arith::Iconst(mask), &[], types::I64);
    let up = cx.convert(Arith::Iconst(up), &[], types::I64);
    cx.ask("brolga_part_of_bytes", &[(ticket, types::I64), (mask, types::I64), (up, types::I64)], types::I64)
}

/// The words of a vector as a ticket, one half after the other: what lies in a word is for the code
/// that puts it together to say.
fn ticket_of_vector(cx: &mut impl TicketConversion, ct: Val, ty: Type) -> Val {
    let words = if ty == types::F64X2 { ct } else { cx.convert(Arith::Bitcast, &[ct], types::F64X2) };
    let [low, high] = [0, 1].map(|lane| {
        let word = cx.convert(Arith::Extract(lane), &[words], types::F64);
        cx.ask("brolga_bytes_of_word", &[(word, types::F64)], types::I64)
    });
    let high = part(cx, high, HALVES[0]);
    cx.ask("brolga_join_bytes", &[(low, types::I64), (high, types::I64)], types::I64)
}

/// The vector of floats of which a ticket has the bytes.
fn vector_of_ticket(cx: &mut impl TicketConversion, ticket: Val, shape: Shape) -> Val {
    let high = part(cx, ticket, HALVES[1]);
    let [low, high] = [ticket, high].map(|half| match shape {
        Shape::F64X2 => cx.ask("brolga_double_of_bytes", &[(half, types::I64)], types::F64),
        _ => {
            let bits = cx.ask("brolga_singles_of_bytes", &[(half, types::I64)], types::I64);
            cx.convert(Arith::Bitcast, &[bits], types::F64)
        }
    });
    let words = cx.convert(Arith::ScalarToVector, &[low], types::F64X2);
    let words = cx.convert(Arith::Insert(1), &[words, high], types::F64X2);
    if shape == Shape::F64X2 { words } else { cx.convert(Arith::Bitcast, &[words], shape.ty()) }
}

/// Whether a cotangent of some type is not zero.
pub(crate) fn arrives(cx: &mut impl TicketConversion, ct: Val, ty: Type) -> Val {
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
fn ticket_of_demand(cx: &mut impl TicketConversion, demand: Val) -> Val {
    let [all, none] = [-1, 0].map(|x| cx.convert(Arith::Iconst(x), &[], types::I64));
    cx.convert(Arith::Select, &[demand, all, none], types::I64)
}

/// A cotangent of this type in a shape of the same width: a ticket as a number or a vector, those
/// as a ticket, or any of them as a demand. A demand as a number is a trap, when the pullback ends.
pub(crate) fn fitted(cx: &mut impl TicketConversion, ct: Val, ty: Type, shape: Shape) -> Option<Val> {
    let found = match (ty, shape) {
        (ty, shape) if ty == shape.ty() => ct,
        (ty, Shape::Demand { .. }) => arrives(cx, ct, ty),
        (types::I8, shape) => {
            let ticket = ticket_of_demand(cx, ct);
            return fitted(cx, ticket, types::I64, shape);
        }
        (types::I64, Shape::F32) => cx.ask("brolga_single_of_bytes", &[(ct, types::I64)], types::F32),
        (types::I64, Shape::F64) => cx.ask("brolga_double_of_bytes", &[(ct, types::I64)], types::F64),
        (types::I64, Shape::F32Pair) => {
            let bits = cx.ask("brolga_singles_of_bytes", &[(ct, types::I64)], types::I64);
            cx.convert(Arith::FromBits(shape), &[bits], shape.ty())
        }
        (types::I64, Shape::F32X4 | Shape::F64X2) => vector_of_ticket(cx, ct, shape),
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

/// A call of a helper of the run time.
pub(crate) fn helper_call(
    symbol: &str,
    args: &[Option<Val>],
    arg_types: &[Type],
    returns: impl Iterator<Item = Type>,
    tape: Tape,
) -> AdOp {
    let mut sig = ir::Signature::new(brolga_analysis::variant::HELPER_CONV);
    sig.params.extend(arg_types.iter().map(|&t| ir::AbiParam::new(t)));
    sig.returns.extend(returns.map(ir::AbiParam::new));
    AdOp::Call { callee: Callee::Symbol(symbol.into()), args: args.into(), sig: Box::new(sig), tape }
}

/// The type of a comparison of two values of type `ty`.
pub(crate) fn mask_type(ty: Type) -> Type {
    if ty.is_vector() { ty.as_truthy() } else { types::I8 }
}
