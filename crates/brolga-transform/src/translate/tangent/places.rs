//! Tangents in memory: a load reads the tangent from the shadow, a store writes it there.
//!
//! **Question.** A value goes through memory. Where does its tangent go?
//!
//! **Answer.** To the same place of the shadow. The primal access says where that is, and of which
//! size; a place without a shadow has a tangent of zero.
//!
//! What overwrites a float with a number without a derivative clears its tangent. A number computed
//! from the bits of floats is stored as the bits of [`POISON`](super::POISON): where it is read as
//! a float, the tangent is a NaN.
//!
//! **Cost.** In the run one access of the shadow for each access.

use std::cmp::Ordering;

use brolga_analysis::MemRole;
use brolga_analysis::query::{access_address, access_offset, is_integer_access};
use brolga_ir::TapeKind;
use brolga_ir::inst::{AdOp, Args, Arith, Check, ClearQuery, Defs, PieceOp, ShadowPlace, Shape, Val};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, Type, types};

use super::fit::fit;
use super::value::{define, define_as, tangent_as};
use crate::translate::rules::memory::{const_store_check, expect_number, floats_of};
use crate::translate::rules::moved_pointers::is_asked;
use crate::translate::stmt::Cx;
use crate::translate::stmt::FragmentKind;

/// `z = load p+off`.
pub(super) fn load(cx: Cx<'_, '_, '_, '_>) {
    let (inst, z) = (cx.inst(), cx.results()[0]);
    let (addr, off) = (cx.args()[0], access_offset(cx.func(), inst));
    if cx.facts().activity.mem[inst] != MemRole::Pointer {
        expect_number(cx);
        expect_no_tangent(cx, addr, off);
    }
    match cx.facts().activity.mem[inst] {
        // Its tangent is moved as a word, too, whatever is thought of it: it may be the shadow of a
        // pointer.
        _ if is_asked(cx, z) => {
            let place = cx.facts().place(addr, off).expect("a word that is asked has a shadow");
            if keeps_pieces(cx) {
                tell(cx, PieceOp::Note, addr, off, 8);
            }
            let op = AdOp::LoadTangent { place, ty: types::I64 };
            cx.push(FragmentKind::After, [(Val::Delta(z), types::I64)].into(), op);
        }
        MemRole::Float(shape) if cx.facts().is_active(z) => match read(cx, addr, off, shape) {
            Some(t) if matches!(shape, Shape::Bytes { .. }) => {
                let t = widened(cx, t, in_memory(shape), cx.ty(z));
                define_as(cx, z, t, Shape::Bytes { n: cx.ty(z).bytes() as u8, of: 0 });
            }
            Some(t) => define_as(cx, z, t, shape),
            None => define(cx, z, None),
        },
        MemRole::Pointer => crate::translate::rules::memory::load(cx),
        _ if cx.facts().is_active(z) => define(cx, z, None),
        MemRole::Float(_) | MemRole::None | MemRole::Kill { .. } => {}
    }
}

/// Whether the run keeps account of pieces: one that is derived again does not.
fn keeps_pieces(cx: Cx<'_, '_, '_, '_>) -> bool {
    cx.facts().options.tape != TapeKind::Typed
}

/// A load of an integer that becomes a number: a trap if a tangent lies there. Poison is none: an
/// integer was stored that may have been computed from bits, and random generators do that.
fn expect_no_tangent(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32) {
    let inst = cx.inst();
    let bytes = cx.facts().activity.becomes[inst].number;
    let Some(place) = cx.facts().place(addr, off).filter(|_| bytes != 0) else { return };
    for (at, n) in floats_of(bytes) {
        let ty = if n == 8 { types::F64 } else { types::F32 };
        let place = ShadowPlace { off: off + at, ..place };
        let tangent = cx.emit(FragmentKind::After, AdOp::LoadTangent { place, ty }, ty);
        let zero = cx.constant(0.0, ty);
        let some = cx.arith(Arith::Fcmp(FloatCC::OrderedNotEqual), &[tangent, zero], types::I8);
        cx.push(FragmentKind::After, Defs::default(), AdOp::TrapIf(some, Check::UntrackedBits));
    }
}

/// `store x, p+off`, of any width, atomic or not.
pub(super) fn store(cx: Cx<'_, '_, '_, '_>) {
    let inst = cx.inst();
    let addr = access_address(cx.func(), inst).expect("a store has an address");
    let off = access_offset(cx.func(), inst);
    let x = cx.args()[0];
    match cx.facts().activity.mem[inst] {
        role if is_asked(cx, x) => {
            if matches!(role, MemRole::Float(_)) {
                const_store_check(cx, addr);
            }
            let shape = if keeps_pieces(cx) { Shape::Bytes { n: 8, of: 0 } } else { Shape::F64 };
            write(cx, addr, off, Val::Delta(x), shape);
        }
        MemRole::Float(shape) => {
            const_store_check(cx, addr);
            let t = if matches!(shape, Shape::Bytes { .. }) {
                let t = tangent_as(cx, x, Shape::Bytes { n: cx.ty(x).bytes() as u8, of: 0 });
                narrowed(cx, t, cx.ty(x), in_memory(shape))
            } else {
                tangent_as(cx, x, shape)
            };
            write(cx, addr, off, t, shape);
        }
        MemRole::Pointer => {
            let delta = cx.facts().delta(addr).expect("a pointer with a role goes to memory with a shadow");
            let vdelta = cx.facts().delta(x);
            let place = ShadowPlace::new(Val::Primal(addr), delta, off);
            let op = AdOp::StoreDelta { place, value: Val::Primal(x), vdelta };
            cx.push(FragmentKind::After, Defs::default(), op);
        }
        // In its channel of a typed tape there are no floats.
        MemRole::Kill { checked: false, .. } if is_integer_access(cx.func(), inst) => {}
        MemRole::Kill { checked: false, .. } if cx.facts().is_a_single(inst) => {
            let zero = cx.constant(0.0, types::F32);
            write(cx, addr, off, zero, Shape::F32);
        }
        MemRole::Kill { bytes, checked } => kill(cx, addr, off, bytes, checked),
        MemRole::None => {}
    }
}

/// The tangent of what lies at a place; none without a shadow.
pub(super) fn read(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32, shape: Shape) -> Option<Val> {
    let place = cx.facts().place(addr, off)?;
    let n = shape.bytes();
    let what = match shape {
        Shape::Bytes { .. } | Shape::Demand { .. } => PieceOp::Note,
        _ => PieceOp::Settle(shape.lane_bytes() as u8),
    };
    tell(cx, what, addr, off, n);
    let ty = in_memory(shape);
    let x = cx.emit(FragmentKind::After, AdOp::LoadTangent { place, ty }, ty);
    Some(match shape {
        Shape::F32Pair => cx.arith(Arith::FromBits(shape), &[x], shape.ty()),
        Shape::Demand { .. } => {
            let bytes = Shape::Bytes { n: n as u8, of: 0 };
            fit(cx, (x, ty), x, bytes, (shape, types::I8)).expect("bytes are a demand")
        }
        _ => x,
    })
}

/// A tangent goes to the shadow of a place.
pub(super) fn write(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32, tangent: Val, shape: Shape) {
    let Some(place) = cx.facts().place(addr, off) else { return };
    let (ty, n) = (in_memory(shape), shape.bytes());
    let value = match shape {
        Shape::F32Pair => cx.arith(Arith::ToBits, &[tangent], ty),
        Shape::Demand { .. } => {
            let to = (Shape::Bytes { n: n as u8, of: 0 }, ty);
            fit(cx, (tangent, types::I8), tangent, shape, to).expect("a demand fits all")
        }
        _ => tangent,
    };
    cx.push(FragmentKind::After, Defs::default(), AdOp::StoreTangent { place, value });
    let piece = matches!(shape, Shape::Bytes { .. } | Shape::Demand { .. });
    tell(cx, if piece { PieceOp::Mark } else { PieceOp::Clean }, addr, off, n);
}

/// Bytes from memory in the type of what was loaded.
fn widened(cx: Cx<'_, '_, '_, '_>, t: Val, from: Type, to: Type) -> Val {
    match from.bytes().cmp(&to.bytes()) {
        _ if from == to => t,
        Ordering::Less => cx.arith(Arith::Uextend, &[t], to),
        _ => cx.arith(Arith::Bitcast, &[t], to),
    }
}

/// The bytes of a value that are stored.
fn narrowed(cx: Cx<'_, '_, '_, '_>, t: Val, from: Type, to: Type) -> Val {
    match from.bytes().cmp(&to.bytes()) {
        _ if from == to => t,
        Ordering::Greater => cx.arith(Arith::Ireduce, &[t], to),
        _ => cx.arith(Arith::Bitcast, &[t], to),
    }
}

/// Tell the run time of pieces at a place.
fn tell(cx: Cx<'_, '_, '_, '_>, what: PieceOp, addr: ir::Value, off: i32, n: u32) {
    if let Some(delta) = cx.facts().delta(addr) {
        let op = AdOp::Piece { what, place: ShadowPlace::new(Val::Primal(addr), delta, off), n };
        cx.push(FragmentKind::After, Defs::default(), op);
    }
}

/// Bytes of a shadow are overwritten with something that has no tangent; `poisoned` if it has one
/// that is not known.
pub(super) fn kill(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32, bytes: u32, poisoned: bool) {
    let Some(place) = cx.facts().place(addr, off) else { return };
    if !poisoned {
        let part = bytes < 8 && cx.facts().may_hold_floats(addr);
        if part {
            // What is left may be a float without its last digits.
            tell(cx, PieceOp::Note, addr, off, bytes);
        }
        let op = AdOp::ZeroMem { place, bytes, asks: ClearQuery::Nothing, cuts: None };
        cx.push(FragmentKind::After, Defs::default(), op);
        return tell(cx, if part { PieceOp::Mark } else { PieceOp::Clean }, addr, off, bytes);
    }
    let mut at = 0;
    while at < bytes {
        let ty = match bytes - at {
            8.. => types::I64,
            4.. => types::I32,
            2.. => types::I16,
            _ => types::I8,
        };
        let value = cx.emit(FragmentKind::After, AdOp::Arith(Arith::Iconst(-1), Args::default(), ty), ty);
        let place = ShadowPlace { off: off + at as i32, ..place };
        cx.push(FragmentKind::After, Defs::default(), AdOp::StoreTangent { place, value });
        at += ty.bytes();
    }
}

/// The type that a tangent of this shape has in memory.
fn in_memory(shape: Shape) -> Type {
    match shape {
        Shape::F32Pair => types::I64,
        Shape::Bytes { n, .. } | Shape::Demand { n } => integer_of(n.into()),
        _ => shape.ty(),
    }
}

/// An integer, or a vector, of so many bytes.
fn integer_of(bytes: u32) -> Type {
    if bytes == 16 { types::I64X2 } else { Type::int_with_byte_size(bytes as u16).expect("a power of two") }
}
