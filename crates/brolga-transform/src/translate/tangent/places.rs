//! Tangents in memory: a load reads the tangent from the shadow, a store writes it there.
//!
//! What overwrites a float with a number without a derivative clears its tangent. A number computed
//! from the bits of floats is stored as [`POISON`]'s bits: where it is read as a float, the tangent
//! is a NaN.

use brolga_analysis::MemRole;
use brolga_analysis::activity::offset;
use brolga_analysis::query::access_address;
use brolga_ir::inst::{AdOp, Args, Arith, Defs, Shape, Val};
use cranelift_codegen::ir::{self, Type, types};

use super::{Cx, define, tangent_as};
use crate::translate::rules::memory::const_store_check;
use crate::translate::stmt::Where;

/// `z = load p+off`.
pub fn load(cx: Cx<'_, '_, '_, '_>) {
    let (inst, z) = (cx.inst(), cx.results()[0]);
    let (addr, off) = (cx.args()[0], offset(cx.func(), inst));
    match cx.facts().activity.mem[inst] {
        MemRole::Float(shape) if cx.facts().is_active(z) => {
            let t = read(cx, addr, off, shape);
            define(cx, z, t);
        }
        MemRole::Pointer => crate::translate::rules::memory::load(cx),
        _ if cx.facts().is_active(z) => define(cx, z, None),
        MemRole::Float(_) | MemRole::None | MemRole::Kill { .. } => {}
    }
}

/// `store x, p+off`, of any width, atomic or not.
pub fn store(cx: Cx<'_, '_, '_, '_>) {
    let inst = cx.inst();
    let addr = access_address(cx.func(), inst).expect("a store has an address");
    let off = offset(cx.func(), inst);
    let x = cx.args()[0];
    match cx.facts().activity.mem[inst] {
        MemRole::Float(shape) => {
            const_store_check(cx, addr);
            let t = tangent_as(cx, x, shape);
            write(cx, addr, off, t, shape);
        }
        MemRole::Pointer => {
            let delta = cx.facts().delta(addr).expect("a pointer with a role goes to memory with a shadow");
            let vdelta = cx.facts().delta(x);
            let op = AdOp::StoreDelta { addr: Val::Primal(addr), delta, off, value: Val::Primal(x), vdelta };
            cx.push(Where::After, Defs::default(), op);
        }
        MemRole::Kill { bytes, checked } => kill(cx, addr, off, bytes, checked),
        MemRole::None => {}
    }
}

/// The tangent of what lies at a place; none without a shadow.
pub fn read(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32, shape: Shape) -> Option<Val> {
    let delta = cx.facts().delta(addr)?;
    let sure = cx.facts().sure(addr);
    let ty = in_memory(shape);
    let x = cx.emit(Where::After, AdOp::LoadTangent { addr: Val::Primal(addr), delta, sure, off, ty }, ty);
    Some(if ty == shape.ty() { x } else { cx.arith(Arith::FromBits(shape), &[x], shape.ty()) })
}

/// A tangent goes to the shadow of a place.
pub fn write(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32, tangent: Val, shape: Shape) {
    let Some(delta) = cx.facts().delta(addr) else { return };
    let sure = cx.facts().sure(addr);
    let ty = in_memory(shape);
    let value = if ty == shape.ty() { tangent } else { cx.arith(Arith::ToBits, &[tangent], ty) };
    let op = AdOp::StoreTangent { addr: Val::Primal(addr), delta, sure, off, value };
    cx.push(Where::After, Defs::default(), op);
}

/// Bytes of a shadow are overwritten with something that has no tangent; `poisoned` if it has one
/// that is not known.
pub fn kill(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32, bytes: u32, poisoned: bool) {
    let Some(delta) = cx.facts().delta(addr) else { return };
    let (sure, p) = (cx.facts().sure(addr), Val::Primal(addr));
    if !poisoned {
        let op = AdOp::ZeroMem { addr: p, delta, sure, off, bytes, checked: false };
        return cx.push(Where::After, Defs::default(), op);
    }
    let mut at = 0;
    while at < bytes {
        let ty = match bytes - at {
            8.. => types::I64,
            4.. => types::I32,
            2.. => types::I16,
            _ => types::I8,
        };
        let value = cx.emit(Where::After, AdOp::Arith(Arith::Iconst(-1), Args::default(), ty), ty);
        let op = AdOp::StoreTangent { addr: p, delta, sure, off: off + at as i32, value };
        cx.push(Where::After, Defs::default(), op);
        at += ty.bytes();
    }
}

/// The type that a tangent of this shape has in memory.
fn in_memory(shape: Shape) -> Type {
    if shape == Shape::F32Pair { types::I64 } else { shape.ty() }
}
