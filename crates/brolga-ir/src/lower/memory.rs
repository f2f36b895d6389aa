//! Shadow memory: loads, stores and additions of cotangents.
//!
//! **Question.** The shadow of `a` is at `a + δ`, or there is none. Which code reads, adds to and
//! clears it?
//!
//! **Answer.** Accesses to shadow memory carry no alias region and none of the primal access's
//! flags but its trap behaviour: the shadow may be written where the primal is read-only.
//!
//! Memory without a shadow (`δ = 0` at run time) needs no branch: its reads come from a field of
//! zeros in the segment and its writes go to a sink beside it.
//!
//! ```text
//! add_mem v0, δ0, c                    v1 = iadd v0, δ0
//!                            ⟶        v2 = iadd seg, 64                the sink
//!                                      v3 = select δ0, v1, v2
//!                                      v4 = load.f64 v3
//!                                      v5 = fadd v4, c
//!                                      store v5, v3
//! ```
//!
//! **Cost.** In the run a `select` beside each access of which it is not known that there is a
//! shadow; none where the delta is sure.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, TrapCode, Type, types};
use cranelift_frontend::FunctionBuilder;

use super::calls::CallInst;
use super::context::{LowerCx, ReusedOp};
use super::debug::MissingShadow;
use super::typed::{Channel, shadow_of_data};
use super::{ops, segment};
use crate::DataKey;
use crate::inst::{AdInst, AdOp, Check, ClearQuery, ShadowPlace, Shape, Val};

/// Bytes of a field of the segment that stands for a shadow.
const FIELD: i32 = 64;

impl LowerCx<'_> {
    pub(super) fn seg(&self) -> ir::Value {
        self.uses_segment.set(true);
        self.seg_value.expect("this function has a segment")
    }

    pub(super) fn trap_if(&self, b: &mut FunctionBuilder<'_>, cond: ir::Value, check: Check, at: Option<ir::Inst>) {
        self.locate(b, at, true);
        b.ins().trapnz(cond, TrapCode::unwrap_user(check as u8));
        self.locate(b, at, false);
    }

    /// The address of a shadow, without the offset of the access.
    pub(super) fn shadow_of(&mut self, b: &mut FunctionBuilder<'_>, place: ShadowPlace) -> (ir::Value, ir::Value) {
        let (a, d) = (self.get(place.addr), self.get(place.delta));
        let scaled = self.scaled(b, a);
        let s = *self.known.entry((ReusedOp::Shadow, a, Some(d))).or_insert_with(|| {
            let s = b.ins().iadd(scaled, d);
            self.shadows.push(s);
            s
        });
        (s, d)
    }

    /// The shadow's address, or a field of the segment where there is no shadow, and the offset of
    /// the access from there. With a typed tape, what stands for the field depends on what is
    /// accessed.
    pub(super) fn shadow_or(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        (field, kind): (i32, Channel),
    ) -> (ir::Value, i32) {
        if self.env.width != 1 {
            return self.wide_shadow(b, place, field);
        }
        let ((s, d), off) = (self.shadow_of(b, place), place.off);
        if place.sure {
            return (s, off);
        }
        let instead = if self.env.typed.is_some() {
            let at = self.substitute(b, field, kind);
            let back = b.ins().iconst(types::I64, -i64::from(off));
            b.ins().iadd(at, back)
        } else {
            let f = b.ins().iconst(types::I64, i64::from(field) - i64::from(off));
            b.ins().iadd(self.seg(), f)
        };
        (b.ins().select(d, s, instead), off)
    }

    /// Room on the stack that stands for a field of the segment, zero at first: for each kind of
    /// what is accessed there, so that no place holds two.
    fn substitute(&mut self, b: &mut FunctionBuilder<'_>, field: i32, kind: Channel) -> ir::Value {
        if let Some(&at) = self.substitutes.get(&(field, kind)) {
            return at;
        }
        let slot = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, FIELD as u32, 4);
        let slot = b.create_sized_stack_slot(slot);
        let entry = b.func.layout.entry_block().expect("blocks are laid out");
        let mut cursor = FuncCursor::new(b.func).at_first_insertion_point(entry);
        let at = cursor.ins().stack_addr(types::I64, slot, 0);
        let (zero, bytes) = match kind {
            Channel::Doubles => (cursor.ins().f64const(0.0), 8),
            Channel::Singles => (cursor.ins().f32const(0.0), 4),
            _ => (cursor.ins().iconst(types::I64, 0), 8),
        };
        for off in (0..FIELD).step_by(bytes) {
            cursor.ins().store(MemFlagsData::new().with_notrap(), zero, at, off);
        }
        self.substitutes.insert((field, kind), at);
        at
    }

    /// The same as one number.
    pub(super) fn shadow_at(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        field: (i32, Channel),
    ) -> ir::Value {
        let (at, off) = self.shadow_or(b, place, field);
        if off == 0 {
            return at;
        }
        let off = b.ins().iconst(types::I64, i64::from(off));
        b.ins().iadd(at, off)
    }

    /// Load a cotangent from the shadow of what lies so far behind an address.
    fn load_ct(&mut self, b: &mut FunctionBuilder<'_>, at: (ir::Value, i32), of: Val, shape: Shape) -> ir::Value {
        let pair = shape == Shape::F32Pair;
        let x = b.ins().load(if pair { types::I64 } else { shape.ty() }, MemFlagsData::new(), at.0, at.1);
        let load = b.func.dfg.value_def(x).inst().expect("it is loaded");
        self.accessed(load, of, at.1, shape.bytes());
        if pair { ops::from_bits(b, x, shape) } else { x }
    }

    /// Store one there.
    fn store_ct(&mut self, b: &mut FunctionBuilder<'_>, at: (ir::Value, i32), of: Val, ct: ir::Value, shape: Shape) {
        let x = if shape == Shape::F32Pair { ops::to_bits(b, ct, types::I64) } else { ct };
        let store = b.ins().store(MemFlagsData::new(), x, at.0, at.1);
        self.accessed(store, of, at.1, shape.bytes());
    }

    /// An address in the activation frame.
    pub(super) fn in_frame(&self, b: &mut FunctionBuilder<'_>, fp: ir::Value, at: u32) -> ir::Value {
        if at == 0 {
            return fp;
        }
        let at = b.ins().iconst(types::I64, i64::from(at));
        b.ins().iadd(fp, at)
    }

    /// Every instruction that is neither arithmetic nor a cotangent in a variable.
    pub(super) fn memory_op(&mut self, b: &mut FunctionBuilder<'_>, inst: &AdInst) {
        match &inst.op {
            AdOp::SlotDelta(slot) => self.slot_delta(b, *slot, inst),
            AdOp::SlotAddr(slot, off) => self.slot_addr(b, *slot, *off, inst),
            AdOp::DataDelta(key) => self.data_delta(b, *key, inst),
            &AdOp::LoadDelta { place, loaded } => self.load_delta(b, place, loaded, inst),
            &AdOp::StoreDelta { place, value, vdelta } => self.store_delta(b, place, value, vdelta, inst.at),
            AdOp::LoadTaskDelta(place) => {
                let place = self.get(*place);
                let delta = b.ins().load(types::I64, MemFlagsData::trusted(), place, 0);
                self.name(inst.defs[0].0, delta);
            }
            AdOp::LoadOld { addr, off, ty } => {
                let r = b.ins().load(*ty, MemFlagsData::new(), self.get(*addr), *off);
                self.name(inst.defs[0].0, r);
            }
            AdOp::StoreOld { addr, off, value } => {
                b.ins().store(MemFlagsData::new(), self.get(*value), self.get(*addr), *off);
            }
            AdOp::AddMem { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. }
            | AdOp::TakeMem { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. } => self.bytes_op(b, inst),
            &AdOp::AddMem { place, by, shape, fresh } => self.add_mem(b, place, by, shape, fresh, inst.at),
            &AdOp::TakeMem { place, shape } => self.read_mem(b, place, shape, true, inst),
            &AdOp::PeekMem { place, shape } => self.read_mem(b, place, shape, false, inst),
            &AdOp::LoadTangent { place, ty } => self.load_tangent(b, place, ty, inst),
            &AdOp::StoreTangent { place, value } => self.store_tangent(b, place, value, inst.at),
            &AdOp::Piece { what, place, n } => self.piece(b, what, place, n),
            &AdOp::ZeroMem { place, bytes, asks, cuts: Some(of) } if bytes >= 8 => {
                if of != 0 || self.env.pieces {
                    self.cut_across(b, place, (bytes, of), inst.at);
                }
                self.zero_mem(b, place, bytes, asks, inst.at);
            }
            &AdOp::ZeroMem { place, bytes, asks, cuts: Some(of) } if self.env.pieces => {
                self.hand_on_poison(b, place, (bytes, asks));
                self.cut(b, place, (bytes, of), inst.at);
            }
            &AdOp::ZeroMem { place, bytes, asks, .. } => self.zero_mem(b, place, bytes, asks, inst.at),
            &AdOp::Poison { place, bytes, when } => self.poison(b, place, (bytes, when)),
            AdOp::Call { callee, args, sig, tape } => {
                self.call(b, CallInst { callee, args, sig, tape: *tape }, inst);
            }
            AdOp::Lookup { addr, signature } => self.lookup(b, *addr, *signature, inst),
            AdOp::TrapIf(v, check) => {
                let v = self.get(*v);
                self.trap_if(b, v, *check, inst.at);
            }
            AdOp::TrapIfBytes(v) => self.trap_if_bytes(b, *v, inst.at),
            _ => self.tape_op(b, inst),
        }
    }

    /// The delta of a stack slot.
    fn slot_delta(&mut self, b: &mut FunctionBuilder<'_>, slot: ir::StackSlot, inst: &AdInst) {
        let place = self.env.frame.and_then(|f| f.slots[slot]).expect("a slot with a shadow has a place");
        let r = match place.primal {
            Some(p) => b.ins().iconst(types::I64, i64::from(place.shadow) - i64::from(p)),
            None => {
                let shadow = self.slot_shadows.get(&slot).copied().unwrap_or_else(|| {
                    let fp = self.frame_pointer(self.slot_channel());
                    self.in_frame(b, fp, place.shadow)
                });
                let native = self.native_slot(b, slot);
                let primal = b.ins().stack_addr(types::I64, native, 0);
                let primal = self.scaled(b, primal);
                b.ins().isub(shadow, primal)
            }
        };
        self.name(inst.defs[0].0, r);
    }

    /// An address in a stack slot.
    fn slot_addr(&mut self, b: &mut FunctionBuilder<'_>, slot: ir::StackSlot, off: i32, inst: &AdInst) {
        let moved = self.env.frame.and_then(|f| f.slots[slot]).and_then(|p| p.primal);
        let r = if let Some(primal) = moved {
            let fp = self.frame_pointer(self.slot_channel());
            let at = b.ins().iconst(types::I64, i64::from(primal) + i64::from(off));
            b.ins().iadd(fp, at)
        } else {
            // A combined function's own slot is still there when its second half runs.
            let native = self.native_slot(b, slot);
            b.ins().stack_addr(types::I64, native, off)
        };
        self.name(inst.defs[0].0, r);
    }

    /// The delta of a data object.
    fn data_delta(&mut self, b: &mut FunctionBuilder<'_>, key: DataKey, inst: &AdInst) {
        if let Some(alone) = self.env.standalone {
            let symbol = (alone.data_symbol)(key);
            let [primal, shadow] = [symbol.clone(), shadow_of_data(&symbol, alone.nth)].map(|symbol| {
                let name = ir::ExternalName::testcase(symbol);
                let data = ir::GlobalValueData::Symbol { name, offset: 0.into(), colocated: false, tls: false };
                let data = b.create_global_value(data);
                b.ins().symbol_value(types::I64, data)
            });
            let r = b.ins().isub(shadow, primal);
            return self.name(inst.defs[0].0, r);
        }
        let flags = MemFlagsData::trusted().with_readonly();
        let table = b.ins().load(types::I64, flags, self.seg(), segment::GLOBALS);
        let r = b.ins().load(types::I64, flags, table, key.as_u32() as i32 * 8);
        self.name(inst.defs[0].0, r);
    }

    /// The delta of a pointer that was loaded, from the shadow of where it lay.
    fn load_delta(&mut self, b: &mut FunctionBuilder<'_>, place: ShadowPlace, loaded: Val, inst: &AdInst) {
        self.check_access(b, place, 8, MissingShadow::Nothing, inst.at);
        let at = self.shadow_or(b, place, (segment::ZEROS, Channel::Addresses));
        let s = b.ins().load(types::I64, MemFlagsData::new(), at.0, at.1);
        self.in_shadows.all.extend(b.func.dfg.value_def(s).inst());
        let p = self.get(loaded);
        let p = self.scaled(b, p);
        let d = b.ins().isub(s, p);
        let z = b.ins().iconst(types::I64, 0);
        // What may be a pointer as far as this function knows may be a number elsewhere, whose
        // tangent is not known: all bits are set.
        let is_shadow = if self.env.tangents {
            let next = b.ins().iadd_imm_s(s, 1);
            b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, next, 1)
        } else {
            s
        };
        let r = b.ins().select(is_shadow, d, z);
        self.name(inst.defs[0].0, r);
    }

    /// A pointer's shadow is stored to the shadow of where the pointer is stored.
    fn store_delta(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        value: Val,
        vdelta: Option<Val>,
        inst: Option<ir::Inst>,
    ) {
        self.check_access(b, place, 8, MissingShadow::Nothing, inst);
        let at = self.shadow_or(b, place, (segment::SINK, Channel::Addresses));
        let mut s = self.get(value);
        s = self.scaled(b, s);
        if let Some(d) = vdelta {
            let d = self.get(d);
            s = b.ins().iadd(s, d);
        }
        let store = b.ins().store(MemFlagsData::new(), s, at.0, at.1);
        self.in_shadows.all.insert(store);
    }

    /// Add a cotangent to a shadow, or store it there if the shadow is `fresh`.
    fn add_mem(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        by: Val,
        shape: Shape,
        fresh: bool,
        inst: Option<ir::Inst>,
    ) {
        self.check_access(b, place, shape.bytes(), MissingShadow::Loses, inst);
        let at = self.shadow_or(b, place, (segment::SINK, Channel::of(shape.ty(), false)));
        if self.env.strand {
            self.check_alignment(b, at, shape, inst);
        }
        let mut sum = self.get(by);
        if !fresh {
            let old = self.load_ct(b, at, place.addr, shape);
            sum = ops::add(b, old, sum);
        }
        self.store_ct(b, at, place.addr, sum, shape);
    }

    /// Pending sums are added up float by float, at multiples of their size.
    fn check_alignment(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        (at, off): (ir::Value, i32),
        shape: Shape,
        inst: Option<ir::Inst>,
    ) {
        let size = shape.lane_bytes() as i32;
        let dfg = &self.env.primal.dfg;
        let is_aligned = |i: ir::Inst| dfg.insts[i].memflags().is_some_and(|f| dfg.mem_flags[f].aligned());
        if off % size == 0 && inst.is_some_and(is_aligned) {
            return;
        }
        let place = if off % size == 0 { at } else { b.ins().iadd_imm_s(at, i64::from(off)) };
        let across = b.ins().band_imm_s(place, i64::from(size - 1));
        self.trap_if(b, across, Check::TaskAlignment, inst);
    }

    /// The same of floats that have been copied from `p`, of a size that is a value, or zero.
    pub(super) fn check_copied(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        [p, delta, size]: [ir::Value; 3],
        inst: Option<ir::Inst>,
    ) {
        let shadow = b.ins().iadd(p, delta);
        let one = b.ins().iconst(types::I64, 1);
        let least = b.ins().umax(size, one);
        let mask = b.ins().iadd_imm_s(least, -1);
        let across = b.ins().band(shadow, mask);
        let there = b.ins().select(delta, across, delta);
        self.trap_if(b, there, Check::TaskAlignment, inst);
    }

    /// Read a cotangent from a shadow, which is zero from then on if it `takes`.
    fn read_mem(&mut self, b: &mut FunctionBuilder<'_>, place: ShadowPlace, shape: Shape, takes: bool, inst: &AdInst) {
        self.check_access(b, place, shape.bytes(), MissingShadow::Loses, inst.at);
        let size = self.settled_size(shape, inst.at);
        self.settle(b, place, (shape.bytes(), size), inst.at);
        let at = self.shadow_or(b, place, (segment::ZEROS, Channel::of(shape.ty(), false)));
        let r = self.load_ct(b, at, place.addr, shape);
        if takes {
            let zero = self.zero(b, shape.ty());
            self.store_ct(b, at, place.addr, zero, shape);
        }
        self.name(inst.defs[0].0, r);
    }

    /// Read a tangent.
    fn load_tangent(&mut self, b: &mut FunctionBuilder<'_>, place: ShadowPlace, ty: Type, inst: &AdInst) {
        self.check_access(b, place, ty.bytes(), MissingShadow::Loses, inst.at);
        let at = self.shadow_or(b, place, (segment::ZEROS, Channel::of(ty, false)));
        let x = b.ins().load(ty, MemFlagsData::new(), at.0, at.1);
        let load = b.func.dfg.value_def(x).inst().expect("it is loaded");
        self.accessed(load, place.addr, at.1, ty.bytes());
        self.name(inst.defs[0].0, x);
    }

    /// Store a tangent.
    fn store_tangent(&mut self, b: &mut FunctionBuilder<'_>, place: ShadowPlace, value: Val, inst: Option<ir::Inst>) {
        let value = self.get(value);
        let bytes = b.func.dfg.value_type(value).bytes();
        self.check_access(b, place, bytes, MissingShadow::Loses, inst);
        let kind = Channel::of(b.func.dfg.value_type(value), false);
        let at = self.shadow_or(b, place, (segment::SINK, kind));
        let store = b.ins().store(MemFlagsData::new(), value, at.0, at.1);
        self.accessed(store, place.addr, at.1, bytes);
    }

    /// An access of the shadow of these bytes. Those of a batch are not where the primal's bytes
    /// say.
    fn accessed(&mut self, access: ir::Inst, of: Val, off: i32, bytes: u32) {
        if self.env.width == 1 {
            self.in_shadows.insert_bytes(access, of, off, bytes);
        } else {
            self.in_shadows.all.insert(access);
        }
    }

    /// Clear a shadow, of which this is asked.
    fn zero_mem(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        bytes: u32,
        asks: ClearQuery,
        inst: Option<ir::Inst>,
    ) {
        self.check_access(b, place, bytes, MissingShadow::Loses, inst);
        let (stored, checked) = (self.settled_integer(asks), matches!(asks, ClearQuery::Zero | ClearQuery::Bits));
        self.settle(b, place, (bytes, stored), inst);
        let bytes = self.widened(bytes);
        let (at, from) = match i32::try_from(bytes).ok().and_then(|n| place.off.checked_add(n)) {
            Some(_) => self.shadow_or(b, place, ZEROED),
            None => (self.shadow_at(b, place, ZEROED), 0),
        };
        let part = checked && bytes < 4 * self.env.width;
        if part {
            let first = b.ins().iadd_imm_s(at, i64::from(from));
            let word = b.ins().band_imm_s(first, !3);
            self.ask_shadow(b, TypedAddress { addr: word, off: 0, ty: types::I32 }, asks, inst);
        }
        let asked = match asks {
            ClearQuery::Nothing => false,
            // Where cotangents may wait, a demand does.
            ClearQuery::Known => self.env.numbers && !self.env.waits,
            ClearQuery::Zero | ClearQuery::Bits => !part,
        };
        for (o, ty) in pieces(bytes).into_iter().map(|(o, ty)| (from + o, ty)) {
            if asked {
                self.ask_shadow(b, TypedAddress { addr: at, off: o, ty }, asks, inst);
            }
            let z = if ty == types::I128 { ops::constant(b, types::F64X2, 0.0) } else { b.ins().iconst(ty, 0) };
            let store = b.ins().store(MemFlagsData::new(), z, at, o);
            self.in_shadows.all.insert(store);
        }
    }

    /// Trap if a cotangent arrived where it cannot be followed; if that is asked.
    ///
    /// Negative zero is a zero cotangent, but has a bit set; shifting the sign out would miss
    /// half-word accesses, so the check is exact for all but a `-0.0`, which is added to memory
    /// only if the primal's own cotangents are negative zeros.
    fn ask_shadow(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        TypedAddress { addr, off, ty }: TypedAddress,
        asks: ClearQuery,
        inst: Option<ir::Inst>,
    ) {
        let halves: &[(i32, Type)] = if ty == types::I128 { &[(0, types::I64), (8, types::I64)] } else { &[(0, ty)] };
        for &(o, t) in halves {
            let mut x = b.ins().load(t, MemFlagsData::new(), addr, off + o);
            self.in_shadows.all.extend(b.func.dfg.value_def(x).inst());
            if asks != ClearQuery::Bits {
                x = self.without_poison(b, x, t);
            }
            if asks == ClearQuery::Known {
                continue;
            }
            if t.bytes() >= 4 {
                // The sign bit alone is a zero.
                x = b.ins().iadd(x, x);
            }
            self.trap_if(b, x, Check::UntrackedBits, inst);
        }
    }
}

/// An access to memory: a value of type `ty` at an address plus an offset.
struct TypedAddress {
    addr: ir::Value,
    off: i32,
    ty: Type,
}

/// What is cleared where there is no shadow.
const ZEROED: (i32, Channel) = (segment::ZEROS, Channel::Integers);

/// `bytes` bytes as accesses of at most 16.
fn pieces(bytes: u32) -> Vec<(i32, Type)> {
    let mut at = 0;
    let mut out = Vec::new();
    while at < bytes {
        let ty = match bytes - at {
            16.. => types::I128,
            8.. => types::I64,
            4.. => types::I32,
            2.. => types::I16,
            _ => types::I8,
        };
        out.push((at as i32, ty));
        at += ty.bytes();
    }
    out
}
