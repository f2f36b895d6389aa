//! Moved pointers: pointers in memory that a function moves without knowing that they are any.
//!
//! **Question.** A function copies bytes, or loads a word and stores it elsewhere. No access that
//! it or its callees make says that a pointer lies there, yet a caller, or a function that is
//! called through a pointer, keeps one. What becomes of the pointer's shadow?
//!
//! **Answer.** A copy of bytes asks the shadow: a word that is an address there is copied by the
//! forward pass, and taken out of the target by the pullback, before cotangents are moved
//! (`brolga_runtime::calls::moved_pointers`). A word that is loaded and stored as it is does the
//! same: its delta goes from the load to the store. One that becomes something else in between
//! traps if its shadow is an address; so do all, and copies, in a derivative that is derived again,
//! where a tangent moves as the word does. Nothing is asked where no function of the program loads
//! an address: shadows of pointers in memory do not matter then. What is loaded by a float's type
//! is asked only where callers keep a pointer in the same field.
//!
//! ```text
//! call %memcpy(to, from, n)      call %brolga_copy_pointers(to, δto, from, δfrom, n, least)
//!                                call %memcpy(to, from, n)
//! v = load.i64 p                 δv = shadow.i64[p] - v, or 0 if one of the two is no address
//! store v, q                     shadow.i64[q] = v + δv;  if δv is 0, what it was, or 0 if that
//!                                is an address
//! v = load.i64 p                 v' = shadow.i64[p];  trapif v is an address, and v' another
//! w = ixor v, u
//! ```
//!
//! **Cost.** In the forward pass a look at each word of the shadow of what is copied. For a word
//! two loads of the shadow, a store and five comparisons; in the pullback a load, a store and a
//! comparison.
//!
//! **Source.** Shadow pointers: Enzyme (Moses and Churavy, 2020).

use brolga_analysis::MemRole;
use brolga_analysis::kinds::loaded_bits::is_only_stored;
use brolga_analysis::lattice::kinds::Kinds;
use brolga_analysis::memory::reaching_store::last_store;
use brolga_analysis::query::cell::cell_of;
use brolga_analysis::query::{access_bytes, access_offset, is_integer_access, is_plain_integer};
use brolga_analysis::uses::Use;
use brolga_ir::TapeKind;
use brolga_ir::inst::{AdOp, Arith, Check, Defs, ShadowPlace, Shape, Val};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, Opcode, types};

use crate::translate::stmt::{Cx, FragmentKind, wide};

/// Words from here on are addresses where doubles may lie, and where singles may.
const LEAST: i64 = 1 << 16;
const LEAST_AMONG_SINGLES: i64 = 1 << 32;

/// Words below are addresses.
const END: i64 = 1 << 47;

const I64: ir::Type = types::I64;

/// A load of an integer: a trap if it is a pointer, which nothing says, and has a shadow.
pub(crate) fn expect_no_pointer(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32) {
    let (inst, z) = (cx.inst(), cx.results()[0]);
    let Some(place) = cx.facts().place(addr, off).filter(|_| may_move_pointer(cx, inst, z)) else { return };
    if cx.facts().options.tape != TapeKind::Typed && is_asked(cx, z) {
        return moved_delta(cx, place);
    }
    let w = FragmentKind::After;
    let least = if cx.facts().activity.lane[z] == 4 { LEAST_AMONG_SINGLES } else { LEAST };
    if ![I64, types::F64].contains(&cx.ty(z)) {
        let off = cx.iconst(w, off.into());
        let p = cx.emit(w, AdOp::Arith(Arith::Iadd, [place.addr, off].into(), I64), I64);
        let n = cx.iconst(w, access_bytes(cx.func(), inst).into());
        return meets(cx, w, p, place.delta, n, least);
    }
    let loaded = match cx.ty(z) {
        I64 => Val::Primal(z),
        _ => cx.emit(w, AdOp::Arith(Arith::Bitcast, [Val::Primal(z)].into(), I64), I64),
    };
    trap_if_pointer(cx, w, place, loaded, least);
}

/// Whether a word is moved as it is, between places that have shadows, and the run asks whether it
/// is a pointer. Bits of singles are not asked: one beside a zero may look like an address.
pub(crate) fn is_asked(cx: Cx<'_, '_, '_, '_>, v: ir::Value) -> bool {
    let (func, facts) = (cx.func(), cx.facts());
    let Some(load) = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Load) else {
        return false;
    };
    let is_target = |u: &Use| match *u {
        Use::Inst(store, _) => facts.delta(func.dfg.inst_args(store)[1]).is_some(),
        Use::Edge(..) => false,
    };
    cx.ty(v) == I64
        && facts.pointers.root(v).is_none()
        && facts.activity.lane[v] != 4
        && facts.delta(func.dfg.inst_args(load)[0]).is_some()
        && is_only_stored(func, facts.uses, v)
        && facts.uses.of(v).iter().all(is_target)
        && (may_move_pointer(cx, load, v) || facts.options.tape == TapeKind::Typed && !is_integer(cx, load))
}

/// Whether an access says that what it moves is an integer.
fn is_integer(cx: Cx<'_, '_, '_, '_>, inst: ir::Inst) -> bool {
    is_plain_integer(cx.func(), inst) || is_integer_access(cx.func(), inst)
}

/// The least address among the bits of what a word may be.
fn least_of(cx: Cx<'_, '_, '_, '_>, v: ir::Value) -> i64 {
    if cx.facts().activity.lane[v] == 8 { LEAST } else { LEAST_AMONG_SINGLES }
}

/// The delta of a word that has been loaded, if it is a pointer; else zero. A trap if it may be two
/// singles, or an address that looks like them.
fn moved_delta(cx: Cx<'_, '_, '_, '_>, place: ShadowPlace) {
    let (w, z) = (FragmentKind::After, cx.results()[0]);
    let delta = cx.emit(w, AdOp::LoadDelta { place, loaded: Val::Primal(z) }, I64);
    let shadow = shadow_word(cx, w, place);
    let least = least_of(cx, z);
    let moved = both_are_addresses(cx, z, shadow, least);
    if least != LEAST {
        let may_be = both_are_addresses(cx, z, shadow, LEAST);
        let unclear = cx.emit(w, AdOp::Arith(Arith::Bxor, [may_be, moved].into(), types::I8), types::I8);
        cx.push(w, Defs::default(), AdOp::TrapIf(unclear, Check::MovedPointer));
    }
    let zero = cx.iconst(w, 0);
    cx.push(w, [(Val::Delta(z), I64)].into(), AdOp::Arith(Arith::Select, [moved, delta, zero].into(), I64));
}

/// Whether a word and its shadow look like addresses.
fn both_are_addresses(cx: Cx<'_, '_, '_, '_>, z: ir::Value, shadow: Val, least: i64) -> Val {
    let w = FragmentKind::After;
    let [is_pointer, has_one] = [Val::Primal(z), shadow].map(|word| is_address(cx, w, word, least));
    cx.emit(w, AdOp::Arith(Arith::Band, [is_pointer, has_one].into(), types::I8), types::I8)
}

/// What a shadow holds, as a word.
fn shadow_word(cx: Cx<'_, '_, '_, '_>, w: FragmentKind, place: ShadowPlace) -> Val {
    let loaded = cx.iconst(w, 0);
    cx.emit(w, AdOp::LoadDelta { place, loaded }, I64)
}

/// A store; whether it is one of a word that has been asked. The shadow of a pointer is stored in
/// the forward pass, and taken out by the pullback, before the cotangent is. Where there was a
/// pointer and is none now, the forward pass stores zero.
pub(crate) fn move_word(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32, x: ir::Value) -> bool {
    let asks = cx.facts().options.tape != TapeKind::Typed && is_asked(cx, x);
    let Some(place) = cx.facts().place(addr, off).filter(|_| asks) else { return false };
    let w = FragmentKind::After;
    let (old, zero) = (shadow_word(cx, w, place), cx.iconst(w, 0));
    let least = least_of(cx, x);
    let was_pointer = is_address(cx, w, old, least);
    let mut op = |op: Arith, args: &[Val], ty| cx.emit(w, AdOp::Arith(op, args.into(), ty), ty);
    let rest = op(Arith::Select, &[was_pointer, zero, old], I64);
    let is_other = op(Arith::IsZero, &[Val::Delta(x)], types::I8);
    let value = op(Arith::Select, &[is_other, zero, Val::Primal(x)], I64);
    let vdelta = op(Arith::Select, &[is_other, rest, Val::Delta(x)], I64);
    cx.push(w, Defs::default(), AdOp::StoreDelta { place, value, vdelta: Some(vdelta) });

    let w = FragmentKind::Rvs;
    let word = shadow_word(cx, w, place);
    let (is_pointer, value) = (is_address(cx, w, word, least), cx.iconst(w, 0));
    let cotangent = cx.emit(w, AdOp::Arith(Arith::Select, [is_pointer, value, word].into(), I64), I64);
    cx.push(w, Defs::default(), AdOp::StoreDelta { place, value, vdelta: Some(cotangent) });
    true
}

/// A field of a record that is copied as a float: the same.
pub(crate) fn expect_float_field(cx: Cx<'_, '_, '_, '_>, from: ir::Value, off: i32, shape: Shape) {
    if shape.bytes() != 8 || !may_copy_pointers(cx, from) {
        return;
    }
    let w = FragmentKind::Before;
    let addr = Val::Primal(from);
    let place = ShadowPlace::new(addr, cx.delta_or_zero(w, from), off);
    let word = cx.emit(w, AdOp::LoadOld { addr, off, ty: I64 }, I64);
    trap_if_pointer(cx, w, place, word, if shape.lane_bytes() == 4 { LEAST_AMONG_SINGLES } else { LEAST });
}

/// A field of a record that is copied as a pointer: a trap if it may be a float.
pub(crate) fn expect_pointer_field(cx: Cx<'_, '_, '_, '_>, from: ir::Value, off: i32) {
    let w = FragmentKind::Before;
    let word = cx.emit(w, AdOp::LoadOld { addr: Val::Primal(from), off, ty: I64 }, I64);
    let end = cx.iconst(w, END);
    let op = AdOp::Arith(Arith::Icmp(IntCC::UnsignedGreaterThanOrEqual), [word, end].into(), types::I8);
    let is_float = cx.emit(w, op, types::I8);
    cx.push(w, Defs::default(), AdOp::TrapIf(is_float, Check::UntrackedBits));
}

/// A trap if a word is an address that has a shadow of its own.
fn trap_if_pointer(cx: Cx<'_, '_, '_, '_>, w: FragmentKind, place: ShadowPlace, loaded: Val, least: i64) {
    let delta = cx.emit(w, AdOp::LoadDelta { place, loaded }, I64);
    let is_address = is_address(cx, w, loaded, least);
    let mut op = |op: Arith, args: &[Val], ty| cx.emit(w, AdOp::Arith(op, args.into(), ty), ty);
    let itself = op(Arith::IsZero, &[delta], types::I8);
    let other = op(Arith::Not, &[itself], types::I8);
    let lost = op(Arith::Band, &[is_address, other], types::I8);
    cx.push(w, Defs::default(), AdOp::TrapIf(lost, Check::MovedPointer));
}

/// Whether a word is an address.
fn is_address(cx: Cx<'_, '_, '_, '_>, w: FragmentKind, word: Val, least: i64) -> Val {
    let mut op = |op: Arith, args: &[Val], ty| cx.emit(w, AdOp::Arith(op, args.into(), ty), ty);
    let [down, range] = [-least, END - least].map(|n| op(Arith::Iconst(n), &[], I64));
    let moved = op(Arith::Iadd, &[word, down], I64);
    op(Arith::Icmp(IntCC::UnsignedLessThan), &[moved, range], types::I8)
}

/// A word that is taken for a pointer because pointers lie about, or null if it is none: the bits
/// of a float, in a shadow, are a cotangent.
pub(crate) fn address_or_null(cx: Cx<'_, '_, '_, '_>, x: ir::Value) -> Val {
    let w = FragmentKind::After;
    let is_one = is_address(cx, w, Val::Primal(x), LEAST);
    let null = cx.iconst(w, 0);
    cx.emit(w, AdOp::Arith(Arith::Select, [is_one, Val::Primal(x), null].into(), I64), I64)
}

/// The reverse of a store of such a word: a trap if a cotangent has arrived there, so that it is a
/// float.
pub(crate) fn expect_no_cotangent(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32) {
    let w = FragmentKind::Rvs;
    let Some(taken) = cx.take_mem(addr, off, Shape::F64) else { return };
    let word = cx.emit(w, AdOp::Arith(Arith::Bitcast, [taken].into(), I64), I64);
    let is_one = is_address(cx, w, word, LEAST);
    let mut op = |op: Arith, args: &[Val]| cx.emit(w, AdOp::Arith(op, args.into(), types::I8), types::I8);
    let nothing = op(Arith::IsZero, &[word]);
    let harmless = op(Arith::Bor, &[is_one, nothing]);
    let lost = op(Arith::Not, &[harmless]);
    cx.push(w, Defs::default(), AdOp::TrapIf(lost, Check::UntrackedBits));
}

/// Whether a load may move a pointer, or a part of one, as far as this function knows.
fn may_move_pointer(cx: Cx<'_, '_, '_, '_>, inst: ir::Inst, z: ir::Value) -> bool {
    let facts = cx.facts();
    if facts.activity.assumed_numbers.contains(z) {
        return true;
    }
    let func = cx.func();
    if !facts.loads_pointers || facts.activity.mem[inst] == MemRole::Pointer {
        return false;
    }
    let (base, at) = cell_of(func, cx.args()[0], access_offset(func, inst));
    let bytes = i64::from(access_bytes(func, inst));
    // What is stored as a part is none of a pointer, though the rest of one may still lie there.
    let found = last_store(func, facts.cfg, inst, (base, at), access_bytes(func, inst));
    if bytes < 8 && found.is_some_and(|f| f.sure && f.offset == 0 && i64::from(f.bytes) == bytes) {
        return false;
    }
    let given = |word: i64| facts.given((base, at.wrapping_add(word))).has(Kinds::POINTER);
    if cx.ty(z).lane_type().is_float() {
        return (0..bytes).step_by(8).any(given);
    }
    // A place that is known for a number's may have had a pointer before.
    let moves = || is_only_stored(func, facts.uses, z) || facts.number_uses(z).escapes;
    !is_integer(cx, inst) && moves()
}

/// What is copied.
pub(crate) struct CopiedBytes {
    /// Where to.
    pub(crate) to: ir::Value,
    /// Where from.
    pub(crate) from: ir::Value,
    /// How many bytes, or one word.
    pub(crate) n: Option<ir::Value>,
    /// From which offset on.
    pub(crate) off: i32,
}

/// Whether a copy may move pointers that no access says are there.
pub(crate) fn may_copy_pointers(cx: Cx<'_, '_, '_, '_>, from: ir::Value) -> bool {
    cx.facts().loads_pointers && cx.facts().delta(from).is_some()
}

/// Whether a copy asks shadows what each word is, in both halves.
pub(crate) fn asks_each_word(cx: Cx<'_, '_, '_, '_>, from: ir::Value) -> bool {
    cx.facts().options.tape != TapeKind::Typed && may_copy_pointers(cx, from)
}

/// A copy of bytes of which it is not known what they are, beside the move of their cotangents;
/// `singles` if there may be any among them.
pub(crate) fn copy(cx: Cx<'_, '_, '_, '_>, copied: CopiedBytes, singles: bool) {
    let least = if singles { LEAST_AMONG_SINGLES } else { LEAST };
    if cx.facts().options.tape == TapeKind::Typed {
        let w = FragmentKind::Before;
        let [_, _, at, delta, n] = copied.operands(cx, w);
        return meets(cx, w, at, delta, n, least);
    }
    let halves = [(FragmentKind::Before, "brolga_copy_pointers"), (FragmentKind::Rvs, "brolga_drop_pointers")];
    for (w, symbol) in halves {
        let [to, dt, from, df, n] = copied.operands(cx, w);
        let least = cx.iconst(w, least);
        let operands = [to, dt, from, df, n, least].map(Some);
        cx.helper(w, symbol, &operands, &[I64; 6], Defs::default(), false);
    }
}

impl CopiedBytes {
    /// Target and its delta, source and its delta, and the number of bytes.
    fn operands(&self, cx: Cx<'_, '_, '_, '_>, w: FragmentKind) -> [Val; 5] {
        let mut place = |p: ir::Value| {
            let delta = cx.delta_or_zero(w, p);
            if self.off == 0 {
                return (Val::Primal(p), delta);
            }
            let off = cx.iconst(w, self.off.into());
            (cx.emit(w, AdOp::Arith(Arith::Iadd, [Val::Primal(p), off].into(), I64), I64), delta)
        };
        let (to, from) = (place(self.to), place(self.from));
        let n = match self.n {
            Some(n) => wide(cx, w, n),
            None => cx.iconst(w, 8),
        };
        [to.0, to.1, from.0, from.1, n]
    }
}

fn meets(cx: Cx<'_, '_, '_, '_>, w: FragmentKind, at: Val, delta: Val, n: Val, least: i64) {
    let [least, unit] = [least, 1].map(|n| cx.iconst(w, n));
    let met = Val::D(cx.t.ids.dv());
    let operands = [at, at, delta, n, least, unit].map(Some);
    cx.helper(w, "brolga_meets_pointers", &operands, &[I64; 6], [(met, I64)].into(), false);
    cx.push(w, Defs::default(), AdOp::TrapIf(met, Check::MovedPointer));
}
