//! Loads, stores and the addresses that they use.
//!
//! **Question.** A value goes through memory. How does its cotangent come back?
//!
//! **Answer.** `z = load p+off`: the pullback adds z̄ to the shadow of the place. `store x, p+off`:
//! x̄ gets the shadow of the place, which is then cleared, since the value that was there before
//! has nothing to do with what comes after (for an addition in place it has, and both are left out;
//! where it is not read again, clearing is). Where a pointer is moved, its shadow is moved in the
//! forward pass instead, and the pullback has nothing to do.
//!
//! **Cost.** In the run one or two accesses of the shadow for each access of a float; the forward
//! pass has one for each access of a pointer.
//!
//! **Source.** Shadow memory: Enzyme (Moses and Churavy, 2020).

use brolga_analysis::activity::State;
use brolga_analysis::query::{access_bytes, alternatives, extreme_condition, is_integer_access};
use brolga_analysis::{Delta, MemRole, RootKind};
use brolga_ir::inst::{AdOp, Args, Arith, Check, ClearQuery, Defs, ShadowPlace, Shape, Val};
use brolga_ir::{MemoryMode, TapeKind};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, types};

use crate::translate::rules::moved_pointers::{address_or_null, expect_no_cotangent, expect_no_pointer, move_word};
use crate::translate::stmt::{Cx, FragmentKind, StmtCx};

/// `z = load p+off`.
pub(crate) fn load(cx: &mut StmtCx<'_, '_, '_>) {
    let (inst, z) = (cx.inst(), cx.results()[0]);
    let addr = cx.args()[0];
    let off = brolga_analysis::query::access_offset(cx.func(), inst);
    expect_number(cx);
    expect_no_pointer(cx, addr, off);
    poison(cx, addr, off);
    match cx.facts().activity.mem[inst] {
        MemRole::Float(_) if cx.facts().in_place.contains(inst) || cx.facts().overwrites.summed.contains_key(&inst) => {
        }
        MemRole::Float(shape) if cx.facts().is_active(z) => {
            let ct = cx.take_ct(z);
            cx.add_mem(addr, off, ct, shape, cx.facts().overwrites.stores.contains(inst));
        }
        MemRole::Pointer => {
            let delta = cx.facts().delta(addr).expect("a pointer with a role comes from memory with a shadow");
            let place = ShadowPlace::new(Val::Primal(addr), delta, off);
            let op = AdOp::LoadDelta { place, loaded: Val::Primal(z) };
            cx.push(FragmentKind::After, [(Val::Delta(z), types::I64)].into(), op);
        }
        MemRole::Float(_) | MemRole::None | MemRole::Kill { .. } => {}
    }
}

/// A load of an integer that becomes a number: a trap if the host has put a float there.
pub(crate) fn expect_number(cx: Cx<'_, '_, '_, '_>) {
    let inst = cx.inst();
    let asks = cx.facts().program.vmctx_pointers_only;
    if !asks || cx.facts().activity.becomes[inst].number == 0 {
        return;
    }
    let (addr, off) = (cx.args()[0], brolga_analysis::query::access_offset(cx.func(), inst));
    let off = cx.iconst(FragmentKind::Before, off.into());
    let p = cx.emit(
        FragmentKind::Before,
        AdOp::Arith(Arith::Iadd, [Val::Primal(addr), off].into(), types::I64),
        types::I64,
    );
    let n = cx.iconst(FragmentKind::Before, access_bytes(cx.func(), inst).into());
    let is_float = Val::D(cx.t.ids.dv());
    let operands = [None, Some(p), Some(n)];
    let defs = [(is_float, types::I64)].into();
    cx.helper(FragmentKind::Before, "brolga_expect_number", &operands, &[types::I64; 3], defs, false);
    cx.push(FragmentKind::Before, Defs::default(), AdOp::TrapIf(is_float, Check::UntrackedBits));
}

/// Integers that are nearer to zero are no bits of floats, but for numbers that are next to zero
/// themselves and halves of those.
const LEAST_BITS: i64 = 1 << 20;

/// Where floats may lie of whose bytes some are among these, of a place, and how many bytes they
/// have.
pub(crate) fn floats_of(bytes: u16) -> impl Iterator<Item = (i32, u32)> {
    let word = move |at: i32| bytes >> at & 0xf != 0;
    (0..16).step_by(4).filter_map(move |at| {
        match (word(at), at % 8 == 0 && word(at + 4), at % 8 == 4 && word(at - 4)) {
            (true, true, _) => Some((at, 8)),
            (true, _, false) => Some((at, 4)),
            _ => None,
        }
    })
}

/// A load of an integer that becomes a number, or a part of an integer in memory: if the program
/// has stored a float there, the cotangent of that is not known.
fn poison(cx: Cx<'_, '_, '_, '_>, addr: ir::Value, off: i32) {
    let (inst, z) = (cx.inst(), cx.results()[0]);
    let becomes = cx.facts().activity.becomes[inst];
    // In a derivative that is derived again the tangent is asked: no integer is recorded for this.
    let asks = cx.facts().options.tape != TapeKind::Typed;
    let Some(place) = cx.facts().place(addr, off).filter(|_| asks) else { return };
    let at = |at: i32| ShadowPlace { off: off + at, ..place };
    for (first, bytes) in floats_of(becomes.number) {
        let (n, ty) = if cx.ty(z).is_int() {
            (Val::Primal(z), cx.ty(z))
        } else {
            let lanes = if bytes == 8 { types::I64X2 } else { types::I32X4 };
            let all = cx.emit(FragmentKind::Rvs, AdOp::Arith(Arith::Bitcast, [Val::Primal(z)].into(), lanes), lanes);
            let lane = Arith::Extract((first as u32 / bytes) as u8);
            (
                cx.emit(FragmentKind::Rvs, AdOp::Arith(lane, [all].into(), lanes.lane_type()), lanes.lane_type()),
                lanes.lane_type(),
            )
        };
        let of = |n: i64| AdOp::Arith(Arith::Iconst(n), Args::default(), ty);
        let [up, range] = [LEAST_BITS, 2 * LEAST_BITS].map(|n| cx.emit(FragmentKind::Rvs, of(n), ty));
        let moved = cx.arith(Arith::Iadd, &[n, up], ty);
        let when = cx.arith(Arith::Icmp(IntCC::UnsignedGreaterThanOrEqual), &[moved, range], types::I8);
        cx.push(FragmentKind::Rvs, Defs::default(), AdOp::Poison { place: at(first), bytes, when: Some(when) });
    }
    // What is stored as it is takes its cotangent along, if it has one.
    let has_one = matches!(cx.facts().activity.mem[inst], MemRole::Float(_));
    let stored = if has_one { becomes.stored } else { becomes.stored | becomes.moved };
    for (first, bytes) in floats_of(stored) {
        cx.push(FragmentKind::Rvs, Defs::default(), AdOp::Poison { place: at(first), bytes, when: None });
    }
}

/// `store x, p+off`, of any width, atomic or not.
pub(crate) fn store(cx: &mut StmtCx<'_, '_, '_>) {
    let inst = cx.inst();
    let addr = brolga_analysis::query::access_address(cx.func(), inst).expect("a store has an address");
    let off = brolga_analysis::query::access_offset(cx.func(), inst);
    remember(cx, addr, off, stored_type(cx.func(), inst), 0);
    let x = brolga_analysis::query::stored_operand(cx.func(), inst).expect("a store writes a value");
    let moved = move_word(cx, addr, off, x);
    match cx.facts().activity.mem[inst] {
        // What the analysis knows is no float's.
        MemRole::Pointer if moved => cx.zero_mem(addr, off, 8, ClearQuery::Nothing),
        // Most likely a number: that may be stored anywhere.
        MemRole::Float(shape @ (Shape::Bytes { .. } | Shape::Demand { .. })) => {
            if let Some(ct) = cx.take_mem(addr, off, shape) {
                cx.add_ct(x, ct);
            }
        }
        MemRole::Float(shape) => {
            const_store_check(cx, addr);
            if let Some(total) = cx.facts().overwrites.summed.get(&inst) {
                let ct = if total.always && cx.facts().unit_cotangents.contains(total.sum) {
                    cx.constant(1.0, shape.ty())
                } else {
                    cx.emit(FragmentKind::Rvs, AdOp::Held(total.name()), shape.ty())
                };
                cx.add_ct(x, ct);
                return;
            }
            let stays = cx.facts().in_place.contains(inst) || cx.facts().overwrites.spent.contains(inst);
            let ct = if stays { cx.peek_mem(addr, off, shape) } else { cx.take_mem(addr, off, shape) };
            if let Some(ct) = ct {
                cx.add_ct(x, ct);
            }
        }
        MemRole::Pointer => {
            let delta = cx.facts().delta(addr).expect("a pointer with a role goes to memory with a shadow");
            let vdelta = cx.facts().delta(x);
            let place = ShadowPlace::new(Val::Primal(addr), delta, off);
            let guessed = cx.facts().pointers.root(x).is_some_and(|root| cx.facts().guessed.contains(root));
            let value = if guessed { address_or_null(cx, x) } else { Val::Primal(x) };
            let op = AdOp::StoreDelta { place, value, vdelta };
            let restore = cx.facts().options.memory == MemoryMode::Restore;
            if restore {
                shadow_pointer_memory(cx, addr, off);
            }
            cx.push(FragmentKind::After, Defs::default(), op);
            // Floats may have been in this place before: what was added to a pointer's bits is not
            // theirs.
            if guessed {
                expect_no_cotangent(cx, addr, off);
            } else if cx.facts().may_hold_floats(addr) && !restore {
                cx.zero_mem(addr, off, 8, ClearQuery::Nothing);
            }
        }
        // In its channel of a typed tape there are no floats.
        MemRole::Kill { checked: false, .. } if is_integer_access(cx.func(), inst) => {}
        // As a float, so that it is one where the pullback is derived.
        MemRole::Kill { checked: false, .. } if cx.facts().is_a_single(inst) => {
            cx.take_mem(addr, off, Shape::F32);
        }
        MemRole::Kill { .. } if cx.facts().overwrites.spent.contains(inst) && cx.facts().cuts(inst).is_none() => {}
        MemRole::Kill { bytes, checked } => {
            let asks = match checked {
                true if cx.facts().activity.state[x] == (State::Taint { definite: true }) => ClearQuery::Bits,
                true => ClearQuery::Zero,
                false if cx.facts().may_be_made_number(x) => ClearQuery::Known,
                false => ClearQuery::Nothing,
            };
            match cx.facts().cuts(inst).or_else(|| cx.facts().straddles(inst)) {
                Some(of) => cx.cut_mem(addr, off, (bytes, asks), of),
                None => cx.zero_mem(addr, off, bytes, asks),
            }
        }
        MemRole::None => {}
    }
}

/// In memory mode `restore`, a pointer's shadow is put back as well.
fn shadow_pointer_memory(cx: &mut StmtCx<'_, '_, '_>, addr: ir::Value, off: i32) {
    let Some(delta) = cx.facts().delta(addr) else { return };
    if !cx.facts().sure(addr) {
        return;
    }
    let at = |cx: &mut StmtCx<'_, '_, '_>, w: FragmentKind| {
        cx.emit(w, AdOp::Arith(Arith::Iadd, [Val::Primal(addr), delta].into(), types::I64), types::I64)
    };
    let p = at(cx, FragmentKind::Before);
    let old = cx.aux(1);
    cx.push(FragmentKind::Before, [(old, types::I64)].into(), AdOp::LoadOld { addr: p, off, ty: types::I64 });
    let p = at(cx, FragmentKind::Rvs);
    cx.push(FragmentKind::Rvs, Defs::default(), AdOp::StoreOld { addr: p, off, value: old });
}

/// In memory mode `restore`: read what is overwritten, and write it back in the pullback.
pub(crate) fn remember(cx: &mut StmtCx<'_, '_, '_>, addr: ir::Value, off: i32, ty: Type, n: u8) {
    if cx.facts().options.memory == MemoryMode::Restore {
        let old = cx.aux(n);
        cx.push(FragmentKind::Before, [(old, ty)].into(), AdOp::LoadOld { addr: Val::Primal(addr), off, ty });
        cx.push(FragmentKind::Rvs, Defs::default(), AdOp::StoreOld { addr: Val::Primal(addr), off, value: old });
    }
}

/// An active value that goes where there is no shadow would lose its derivative silently.
pub(crate) fn const_store_check(cx: &mut StmtCx<'_, '_, '_>, addr: ir::Value) {
    if let Some(delta) = cx.facts().delta(addr)
        && !cx.facts().sure(addr)
    {
        let c = cx.emit(FragmentKind::Before, AdOp::Arith(Arith::IsZero, [delta].into(), types::I8), types::I8);
        cx.push(FragmentKind::Before, Defs::default(), AdOp::TrapIf(c, Check::ConstStore));
    }
}

/// The type that a store writes.
fn stored_type(func: &ir::Function, inst: ir::Inst) -> Type {
    match func.dfg.insts[inst].opcode() {
        Opcode::Istore8 => types::I8,
        Opcode::Istore16 => types::I16,
        Opcode::Istore32 => types::I32,
        Opcode::AtomicRmw | Opcode::AtomicCas => func.dfg.value_type(func.dfg.first_result(inst)),
        _ => func.dfg.value_type(func.dfg.inst_args(inst)[0]),
    }
}

/// `stack_addr`: in memory mode `restore` the slot lives in the activation frame, so that the
/// pullback can put its contents back although the forward pass has returned.
pub(crate) fn stack_addr(cx: &mut StmtCx<'_, '_, '_>) {
    if cx.facts().options.memory == MemoryMode::Restore {
        let InstructionData::StackAddr { stack_slot, offset, .. } = cx.func().dfg.insts[cx.inst()] else {
            unreachable!("only stack_addr comes here")
        };
        let v = cx.results()[0];
        cx.replace_primal();
        cx.push(FragmentKind::After, [(Val::Primal(v), types::I64)].into(), AdOp::SlotAddr(stack_slot, offset.into()));
    }
}

/// Sums and differences of two deltas, and choices between them, where a value is its own root.
pub(crate) fn pointer_arith(cx: &mut StmtCx<'_, '_, '_>) {
    for &v in cx.results() {
        if cx.facts().pointers.delta[v] != Delta::Root(v) {
            continue;
        }
        let both = |op, a, b| (op, [Val::Delta(a), Val::Delta(b)].into());
        let (op, operands) = match cx.facts().pointers.roots.get(&v) {
            Some(&RootKind::Sum(a, b)) => both(Arith::Iadd, a, b),
            Some(&RootKind::Diff(a, b)) => both(Arith::Isub, a, b),
            Some(&RootKind::Select(choice)) => (Arith::SelectAll, chosen_delta(cx, choice)),
            _ => continue,
        };
        let op = AdOp::Arith(op, operands, types::I64);
        cx.push(FragmentKind::After, [(Val::Delta(v), types::I64)].into(), op);
    }
}

/// The condition of a choice between pointers, and their deltas.
fn chosen_delta(cx: Cx<'_, '_, '_, '_>, choice: ir::Inst) -> Args {
    let func = cx.func();
    let w = FragmentKind::After;
    let args = alternatives(func, choice);
    let condition = match extreme_condition(func.dfg.insts[choice].opcode()) {
        Some(cc) => {
            let both = [args[0], args[1]].map(Val::Primal);
            cx.emit(w, AdOp::Arith(Arith::Icmp(cc), both.into(), types::I8), types::I8)
        }
        None => Val::Primal(cx.args()[0]),
    };
    let [x, y] = [args[0], args[1]].map(|v| cx.delta_or_zero(w, v));
    [condition, x, y].into()
}
