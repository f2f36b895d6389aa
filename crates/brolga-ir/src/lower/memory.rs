//! Tape, activation frame, shadow memory and calls.
//!
//! The tape position (`top` in the forward pass, `cursor` in the pullback) is a frontend variable;
//! it is written to the segment around calls that use the tape, and at the end. A function of both
//! halves leaves `top` as it found it. So a function that calls one in its own second half sets
//! `top` to its cursor first, if it has moved either, and need not look afterwards. How far the
//! tape was ever filled is in `peak`. Accesses to shadow memory carry no alias region and none of
//! the primal access's flags but its trap behaviour: the shadow may be written where the primal is
//! read-only.
//!
//! A record is written from where the tape ends, field by field without a gap, so that memory
//! behind the tape that cannot be accessed is as good as a comparison ([`Fence`]). A frame is not:
//! much of it is written later, or never, and it may be longer than that memory.
//!
//! Memory without a shadow (`δ = 0` at run time) needs no branch: its reads come from a field of
//! zeros in the segment and its writes go to a sink beside it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, TrapCode, Type, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;

use super::debug::Missing;
use super::{Cx, Fence, FrameHome, Place, Repeated, SlotPlace, ops, segment};
use crate::inst::{AdInst, AdOp, Callee, Check, Shape, Tape, Val};

/// Byte offsets of the fields of a block's record, and its size with `extra` bytes behind them:
/// those of the seal of a debug run, and of the block's number, which comes last. Fields keep their
/// order.
pub fn record_layout(types: &[Type], extra: u32) -> (Vec<u32>, u32) {
    let mut at = 0;
    let offs = types
        .iter()
        .map(|t| {
            let o = at;
            at += t.bytes();
            o
        })
        .collect();
    (offs, at + extra)
}

impl Cx<'_> {
    pub(super) fn seg(&self) -> ir::Value {
        self.uses_segment.set(true);
        self.seg_value.expect("this function has a segment")
    }

    fn tape_var(&self) -> Variable {
        self.tape.expect("this function has a segment")
    }

    fn frame_pointer(&self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        let _ = b;
        self.fp.expect("the frame has been entered")
    }

    pub(super) fn trap_if(&self, b: &mut FunctionBuilder<'_>, cond: ir::Value, check: Check, at: Option<ir::Inst>) {
        self.locate(b, at, true);
        b.ins().trapnz(cond, TrapCode::unwrap_user(check as u8));
        self.locate(b, at, false);
    }

    /// Move `top` up by `size` from `from`, trapping at the limit.
    fn bump(&self, b: &mut FunctionBuilder<'_>, from: ir::Value, size: u32, at: Option<ir::Inst>) -> ir::Inst {
        let n = b.ins().iconst(types::I64, i64::from(size));
        let top = b.ins().iadd(from, n);
        b.def_var(self.tape_var(), top);
        let limit = self.limit.expect("the activation has begun");
        let over = b.ins().icmp(IntCC::UnsignedGreaterThan, top, limit);
        self.locate(b, at, true);
        let check = b.ins().trapnz(over, TrapCode::unwrap_user(Check::TapeFull as u8));
        self.locate(b, at, false);
        check
    }

    /// The same for a record, all of which is written next, in order and without a gap: where there
    /// is a fence, that is a check as well.
    fn bump_for_record(&mut self, b: &mut FunctionBuilder<'_>, from: ir::Value, size: u32, at: Option<ir::Inst>) {
        if self.env.fence == Fence::Only {
            let n = b.ins().iconst(types::I64, i64::from(size));
            let top = b.ins().iadd(from, n);
            b.def_var(self.tape_var(), top);
            return;
        }
        let check = self.bump(b, from, size, at);
        self.checks.push(check);
    }

    /// Flags of what is written of a record.
    fn record_flags(&self, b: &mut FunctionBuilder<'_>) -> MemFlagsData {
        let flags = self.tape_flags(b);
        match self.env.fence {
            Fence::No => flags,
            Fence::Only | Fence::Too => flags.with_trap_code(Some(TrapCode::unwrap_user(Check::TapeFull as u8))),
        }
    }

    /// Write the tape position to the segment, so that a callee finds it.
    fn publish(&self, b: &mut FunctionBuilder<'_>) {
        self.publish_as(b, self.position_field());
    }

    fn publish_as(&self, b: &mut FunctionBuilder<'_>, off: i32) {
        let pos = b.use_var(self.tape_var());
        let flags = self.tape_flags(b);
        b.ins().store(flags, pos, self.seg(), off);
    }

    fn reload(&self, b: &mut FunctionBuilder<'_>) {
        let off = self.position_field();
        let flags = self.tape_flags(b);
        let pos = b.ins().load(types::I64, flags, self.seg(), off);
        b.def_var(self.tape_var(), pos);
    }

    fn position_field(&self) -> i32 {
        if self.forward { segment::TOP } else { segment::CURSOR }
    }

    /// Clear the shadows of some of the stack slots: those of neighbours at once.
    fn clear_slots(&mut self, b: &mut FunctionBuilder<'_>, which: impl Fn(&SlotPlace) -> bool) {
        let Some(frame) = self.env.frame else { return };
        // Where they begin, and how many bytes. Slots are padded to 16 bytes in the frame.
        let mut places: Vec<(u32, u32)> = Vec::new();
        for p in frame.slots.values().flatten().filter(|p| which(p)) {
            match places.last_mut() {
                Some((first, size)) if *first + *size == p.shadow && *size + p.size <= MOST_BYTES_IN_PLACE => {
                    *size += p.size;
                }
                _ => places.push((p.shadow, p.size)),
            }
        }
        let fp = self.frame_pointer(b);
        for (first, size) in places {
            if size > 512 {
                let at = self.in_frame(b, fp, first);
                if size <= MOST_BYTES_IN_PLACE {
                    let stores = zero_in_place(b, at, size);
                    self.in_shadows.all.extend(stores);
                    continue;
                }
                let mut sig = ir::Signature::new(self.env.target.default_call_conv);
                sig.params.extend([types::I64, types::I32, types::I64].map(ir::AbiParam::new));
                sig.returns.push(ir::AbiParam::new(types::I64));
                let memset = self.env.names.of_c("memset").to_owned();
                let f = self.symbol(b, &memset, &sig);
                let (z, n) = (b.ins().iconst(types::I32, 0), b.ins().iconst(types::I64, i64::from(size)));
                b.ins().call(f, &[at, z, n]);
            } else {
                let zero = ops::constant(b, types::F64X2, 0.0);
                for off in (0..size).step_by(16) {
                    let store = b.ins().store(MemFlagsData::new().with_notrap(), zero, fp, (first + off) as i32);
                    self.in_shadows.all.insert(store);
                }
            }
        }
    }

    /// An address in the activation frame.
    fn in_frame(&self, b: &mut FunctionBuilder<'_>, fp: ir::Value, at: u32) -> ir::Value {
        if at == 0 {
            return fp;
        }
        let at = b.ins().iconst(types::I64, i64::from(at));
        b.ins().iadd(fp, at)
    }

    /// The address of a shadow, without the offset of the access.
    fn shadow_of(&mut self, b: &mut FunctionBuilder<'_>, addr: Val, delta: Val) -> (ir::Value, ir::Value) {
        let (a, d) = (self.get(addr), self.get(delta));
        let s = *self.known.entry((Repeated::Shadow, a, Some(d))).or_insert_with(|| {
            let s = b.ins().iadd(a, d);
            self.shadows.push(s);
            s
        });
        (s, d)
    }

    /// The shadow's address, or a field of the segment where there is no shadow, and the offset of
    /// the access from there.
    pub(super) fn shadow_or(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        (addr, delta, off): (Val, Val, i32),
        sure: bool,
        field: i32,
    ) -> (ir::Value, i32) {
        let (s, d) = self.shadow_of(b, addr, delta);
        if sure {
            return (s, off);
        }
        let f = b.ins().iconst(types::I64, i64::from(field) - i64::from(off));
        let instead = b.ins().iadd(self.seg(), f);
        (b.ins().select(d, s, instead), off)
    }

    /// The same as one number.
    pub(super) fn shadow_at(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        of: (Val, Val, i32),
        sure: bool,
        field: i32,
    ) -> ir::Value {
        let (at, off) = self.shadow_or(b, of, sure, field);
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
        self.in_shadows.insert(load, of, at.1, shape);
        if pair { ops::from_bits(b, x, shape) } else { x }
    }

    /// Store one there.
    fn store_ct(&mut self, b: &mut FunctionBuilder<'_>, at: (ir::Value, i32), of: Val, ct: ir::Value, shape: Shape) {
        let x = if shape == Shape::F32Pair { ops::to_bits(b, ct, types::I64) } else { ct };
        let store = b.ins().store(MemFlagsData::new(), x, at.0, at.1);
        self.in_shadows.insert(store, of, at.1, shape);
    }

    /// Every instruction that is neither arithmetic nor a cotangent in a variable.
    pub(super) fn memory_op(&mut self, b: &mut FunctionBuilder<'_>, inst: &AdInst) {
        let id_bytes = self.env.id_bytes;
        match &inst.op {
            AdOp::SlotDelta(slot) => {
                let place = self.env.frame.and_then(|f| f.slots[*slot]).expect("a slot with a shadow has a place");
                let fp = self.frame_pointer(b);
                let r = match place.primal {
                    Some(p) => b.ins().iconst(types::I64, i64::from(place.shadow) - i64::from(p)),
                    None => {
                        let shadow = self.in_frame(b, fp, place.shadow);
                        let native = self.native_slot(b, *slot);
                        let primal = b.ins().stack_addr(types::I64, native, 0);
                        b.ins().isub(shadow, primal)
                    }
                };
                self.name(inst.defs[0].0, r);
            }
            AdOp::SlotAddr(slot, off) => {
                let moved = self.env.frame.and_then(|f| f.slots[*slot]).and_then(|p| p.primal);
                let r = if let Some(primal) = moved {
                    let fp = self.frame_pointer(b);
                    let at = b.ins().iconst(types::I64, i64::from(primal) + i64::from(*off));
                    b.ins().iadd(fp, at)
                } else {
                    // A combined function's own slot is still there when its second half runs.
                    let native = self.native_slot(b, *slot);
                    b.ins().stack_addr(types::I64, native, *off)
                };
                self.name(inst.defs[0].0, r);
            }
            AdOp::DataDelta(key) => {
                let flags = MemFlagsData::trusted().with_readonly();
                let table = b.ins().load(types::I64, flags, self.seg(), segment::GLOBALS);
                let r = b.ins().load(types::I64, flags, table, key.as_u32() as i32 * 8);
                self.name(inst.defs[0].0, r);
            }
            AdOp::LoadDelta { addr, delta, off, loaded } => {
                self.check_access(b, (*addr, *delta, *off), 8, Missing::Nothing, inst.at);
                let at = self.shadow_or(b, (*addr, *delta, *off), false, segment::ZEROS);
                let s = b.ins().load(types::I64, MemFlagsData::new(), at.0, at.1);
                self.in_shadows.all.extend(b.func.dfg.value_def(s).inst());
                let p = self.get(*loaded);
                let d = b.ins().isub(s, p);
                let z = b.ins().iconst(types::I64, 0);
                let r = b.ins().select(s, d, z);
                self.name(inst.defs[0].0, r);
            }
            AdOp::StoreDelta { addr, delta, off, value, vdelta } => {
                self.check_access(b, (*addr, *delta, *off), 8, Missing::Nothing, inst.at);
                let at = self.shadow_or(b, (*addr, *delta, *off), false, segment::SINK);
                let mut s = self.get(*value);
                if let Some(d) = vdelta {
                    let d = self.get(*d);
                    s = b.ins().iadd(s, d);
                }
                let store = b.ins().store(MemFlagsData::new(), s, at.0, at.1);
                self.in_shadows.all.insert(store);
            }
            AdOp::LoadOld { addr, off, ty } => {
                let r = b.ins().load(*ty, MemFlagsData::new(), self.get(*addr), *off);
                self.name(inst.defs[0].0, r);
            }
            AdOp::StoreOld { addr, off, value } => {
                b.ins().store(MemFlagsData::new(), self.get(*value), self.get(*addr), *off);
            }
            AdOp::EnterFrame => {
                let flags = self.tape_flags(b);
                if self.uses_tape {
                    self.reload(b);
                    // Records ask for it unless there is a fence, and so does a frame among them.
                    if self.env.fence != Fence::Only || self.env.frame.is_some_and(|f| f.home == FrameHome::Tape) {
                        let limit = b.ins().load(types::I64, flags.with_readonly(), self.seg(), segment::LIMIT);
                        self.limit = Some(limit);
                    }
                }
                if let Some(frame) = self.env.frame
                    && frame.home != FrameHome::Tape
                {
                    if frame.size > 0 {
                        let slot = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, frame.size, 4);
                        let slot = b.create_sized_stack_slot(slot);
                        self.fp = Some(b.ins().stack_addr(types::I64, slot, 0));
                        self.clear_slots(b, |p| p.at_enter);
                    }
                } else if let Some(frame) = self.env.frame {
                    let top = b.use_var(self.tape_var());
                    let c = b.ins().iconst(types::I64, 15);
                    let fp = b.ins().iadd(top, c);
                    let c = b.ins().iconst(types::I64, -16);
                    let fp = b.ins().band(fp, c);
                    self.fp = Some(fp);
                    self.bump(b, fp, frame.size + self.seal_bytes(), inst.at);
                    b.ins().store(flags, top, fp, 0);
                    self.put_seal(b, (fp, frame.size as i32), self.frame_seal(), Some(top));
                    self.clear_slots(b, |p| p.at_enter);
                }
            }
            AdOp::Keep(slot, v) if slot.as_variable().is_some() => {
                // If anybody reads it.
                if let Some(&place) = self.kept.get(*slot) {
                    let v = self.get(*v);
                    match place {
                        Place::Variable(var) => b.def_var(var, v),
                        Place::Value(_) => self.kept.set(*slot, Place::Value(Some(v))),
                    }
                }
            }
            AdOp::KeepBlock(slot, id) if slot.as_variable().is_some() => {
                if let Some(&var) = self.kept_ids.get(*slot) {
                    let id = b.ins().iconst(types::I32, i64::from(*id));
                    b.def_var(var, id);
                }
            }
            AdOp::Restore(slot) if slot.as_variable().is_some() => {
                let r = match *self.kept.get(*slot).expect("a variable that is read is declared") {
                    Place::Variable(var) => b.use_var(var),
                    Place::Value(v) => v.expect("what dominates a block is lowered before it"),
                };
                self.name(inst.defs[0].0, r);
            }
            AdOp::KeptBlock(slot) if slot.as_variable().is_some() => {
                let r = b.use_var(*self.kept_ids.get(*slot).expect("a variable that is read is declared"));
                self.name(inst.defs[0].0, r);
            }
            AdOp::Turn => {
                if self.uses_tape {
                    // How much was recorded, for whoever asks when it has been given back.
                    let flags = self.tape_flags(b);
                    let mut peak = b.use_var(self.tape_var());
                    if !self.env.alone {
                        let before = b.ins().load(types::I64, flags, self.seg(), segment::PEAK);
                        peak = b.ins().umax(before, peak);
                    }
                    b.ins().store(flags, peak, self.seg(), segment::PEAK);
                }
                if self.fp.is_some() {
                    self.clear_slots(b, |p| p.at_turn);
                }
            }
            AdOp::Keep(slot, v) => {
                let (fp, v) = (self.frame_pointer(b), self.get(*v));
                let flags = self.tape_flags(b);
                b.ins().store(flags, v, fp, slot.0 as i32);
            }
            AdOp::KeepBlock(slot, id) => {
                let fp = self.frame_pointer(b);
                let flags = self.tape_flags(b);
                self.store_id(b, flags, fp, slot.0 as i32, *id);
            }
            AdOp::Push(names, id) => {
                let vals: SmallVec<[_; 8]> = names.iter().map(|&v| self.get(v)).collect();
                let tys: SmallVec<[_; 8]> = vals.iter().map(|&v| b.func.dfg.value_type(v)).collect();
                let id_bytes = if id.is_some() { id_bytes } else { 0 };
                let (offs, size) = record_layout(&tys, self.seal_bytes() + id_bytes);
                let at = b.use_var(self.tape_var());
                self.bump_for_record(b, at, size, inst.at);
                let seal_at = (size - id_bytes - self.seal_bytes()) as i32;
                self.put_seal(b, (at, seal_at), self.record_seal(names, *id), None);
                let flags = self.record_flags(b);
                self.locate(b, inst.at, !flags.notrap());
                for (v, o) in vals.into_iter().zip(offs) {
                    b.ins().store(flags, v, at, o as i32);
                }
                if let Some(id) = id {
                    self.store_id(b, flags, at, (size - id_bytes) as i32, *id);
                }
                self.locate(b, inst.at, false);
            }
            AdOp::LeaveFrame => {
                if self.env.frame.is_some() {
                    let fp = self.frame_pointer(b);
                    let at = b.use_var(self.tape_var());
                    self.bump_for_record(b, at, self.seal_bytes() + 8, inst.at);
                    self.put_seal(b, (at, 0), self.link_seal(), Some(fp));
                    let flags = self.record_flags(b);
                    self.locate(b, inst.at, !flags.notrap());
                    b.ins().store(flags, fp, at, self.seal_bytes() as i32);
                    self.locate(b, inst.at, false);
                }
                if self.uses_tape {
                    self.publish(b);
                }
            }
            AdOp::OpenFrame => {
                if self.uses_tape {
                    self.reload(b);
                }
                if let Some(frame) = self.env.frame {
                    let flags = self.tape_flags(b);
                    let at = b.use_var(self.tape_var());
                    let link = 8 + self.seal_bytes() as i32;
                    let fp = b.ins().load(types::I64, flags, at, -8);
                    self.check_seal(b, (at, -link), self.link_seal(), Some(fp), inst.at);
                    self.fp = Some(fp);
                    self.check_frame(b, fp, frame.size, inst.at);
                    let c = b.ins().iconst(types::I64, -i64::from(link));
                    let at = b.ins().iadd(at, c);
                    b.def_var(self.tape_var(), at);
                    self.clear_slots(b, |_| true);
                }
            }
            AdOp::Restore(slot) => {
                let fp = self.frame_pointer(b);
                let flags = self.tape_flags(b);
                let (name, ty) = inst.defs[0];
                let r = b.ins().load(ty, flags, fp, slot.0 as i32);
                self.name(name, r);
            }
            AdOp::KeptBlock(slot) => {
                let fp = self.frame_pointer(b);
                let r = self.load_id(b, fp, slot.0 as i32);
                self.name(inst.defs[0].0, r);
            }
            AdOp::PeekBlock => {
                let at = b.use_var(self.tape_var());
                let r = self.load_id(b, at, -(id_bytes as i32));
                self.name(inst.defs[0].0, r);
            }
            AdOp::Pop(names, id) => {
                let tys: Vec<_> = inst.defs.iter().map(|d| d.1).collect();
                let id_bytes = if id.is_some() { id_bytes } else { 0 };
                let (offs, size) = record_layout(&tys, self.seal_bytes() + id_bytes);
                let top = b.use_var(self.tape_var());
                let n = b.ins().iconst(types::I64, -i64::from(size));
                let at = b.ins().iadd(top, n);
                b.def_var(self.tape_var(), at);
                let seal = self.record_seal(names, *id);
                let seal_at = (size - id_bytes - self.seal_bytes()) as i32;
                self.check_seal(b, (at, seal_at), seal, None, inst.at);
                let flags = self.tape_flags(b);
                for (&(name, ty), o) in inst.defs.iter().zip(offs) {
                    // From where the position was: the new one is then not needed before the end of
                    // the block.
                    let r = b.ins().load(ty, flags, top, o as i32 - size as i32);
                    self.name(name, r);
                }
            }
            AdOp::CloseFrame => {
                if let Some(frame) = self.env.frame.filter(|f| f.home == FrameHome::Tape) {
                    let fp = self.frame_pointer(b);
                    let flags = self.tape_flags(b);
                    self.check_frame(b, fp, frame.size, inst.at);
                    let before = b.ins().load(types::I64, flags, fp, 0);
                    b.def_var(self.tape_var(), before);
                }
                if self.uses_tape {
                    self.publish_as(b, if self.turns { segment::TOP } else { self.position_field() });
                }
            }
            AdOp::AddMem { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. }
            | AdOp::TakeMem { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. } => {
                self.bytes_op(b, inst);
            }
            AdOp::AddMem { addr, delta, sure, off, by, shape, fresh } => {
                self.check_access(b, (*addr, *delta, *off), shape.bytes(), Missing::Loses, inst.at);
                let at = self.shadow_or(b, (*addr, *delta, *off), *sure, segment::SINK);
                let mut sum = self.get(*by);
                if !fresh {
                    let old = self.load_ct(b, at, *addr, *shape);
                    sum = ops::add(b, old, sum);
                }
                self.store_ct(b, at, *addr, sum, *shape);
            }
            AdOp::TakeMem { addr, delta, sure, off, shape } => {
                self.check_access(b, (*addr, *delta, *off), shape.bytes(), Missing::Loses, inst.at);
                self.settle(b, (*addr, *delta, *off), (shape.bytes(), shape.lane_bytes() as i32), inst.at);
                let at = self.shadow_or(b, (*addr, *delta, *off), *sure, segment::ZEROS);
                let r = self.load_ct(b, at, *addr, *shape);
                let zero = self.zero(b, shape.ty());
                self.store_ct(b, at, *addr, zero, *shape);
                self.name(inst.defs[0].0, r);
            }
            AdOp::PeekMem { addr, delta, sure, off, shape } => {
                self.check_access(b, (*addr, *delta, *off), shape.bytes(), Missing::Loses, inst.at);
                self.settle(b, (*addr, *delta, *off), (shape.bytes(), shape.lane_bytes() as i32), inst.at);
                let at = self.shadow_or(b, (*addr, *delta, *off), *sure, segment::ZEROS);
                let r = self.load_ct(b, at, *addr, *shape);
                self.name(inst.defs[0].0, r);
            }
            AdOp::ZeroMem { addr, delta, sure, off, bytes, checked } => {
                self.check_access(b, (*addr, *delta, *off), *bytes, Missing::Loses, inst.at);
                self.settle(b, (*addr, *delta, *off), (*bytes, -i32::from(*checked)), inst.at);
                let of = (*addr, *delta, *off);
                let (at, from) = match i32::try_from(*bytes).ok().and_then(|n| off.checked_add(n)) {
                    Some(_) => self.shadow_or(b, of, *sure, segment::ZEROS),
                    None => (self.shadow_at(b, of, *sure, segment::ZEROS), 0),
                };
                let part = *checked && *bytes < 4;
                if part {
                    let first = b.ins().iadd_imm_s(at, i64::from(from));
                    let word = b.ins().band_imm_s(first, !3);
                    self.check_zero(b, word, 0, types::I32, inst.at);
                }
                for (o, ty) in pieces(*bytes).into_iter().map(|(o, ty)| (from + o, ty)) {
                    if *checked && !part {
                        self.check_zero(b, at, o, ty, inst.at);
                    }
                    let z = if ty == types::I128 { ops::constant(b, types::F64X2, 0.0) } else { b.ins().iconst(ty, 0) };
                    let store = b.ins().store(MemFlagsData::new(), z, at, o);
                    self.in_shadows.all.insert(store);
                }
            }
            AdOp::Call { callee, args, sig, tape } => {
                self.join_aside(b);
                match tape {
                    Tape::Moves => self.publish(b),
                    Tape::Above if self.uses_tape => self.publish_as(b, segment::TOP),
                    Tape::Above | Tape::Aside => {}
                }
                let names = args;
                let args: Vec<_> = args.iter().map(|a| a.map_or_else(|| self.seg(), |v| self.get(v))).collect();
                let mut sig = ir::Signature::clone(sig);
                if sig.call_conv != CallConv::Fast {
                    // A helper of the run time: a C function of the host.
                    sig.call_conv = self.env.target.default_call_conv;
                }
                let call = match callee {
                    Callee::Symbol(s) => {
                        self.settle_for_helper(b, s, &args, inst.at);
                        self.check_helper(b, s, (names, &args), inst.at);
                        let f = self.symbol(b, s, &sig);
                        b.ins().call(f, &args)
                    }
                    Callee::Pointer(p) => {
                        let p = self.get(*p);
                        let s = b.import_signature(sig);
                        b.ins().call_indirect(s, p, &args)
                    }
                };
                let results: Vec<_> = b.inst_results(call).to_vec();
                for (&(name, _), r) in inst.defs.iter().zip(results) {
                    self.name(name, r);
                }
                if *tape == Tape::Moves {
                    self.reload(b);
                }
            }
            AdOp::Lookup { addr, signature } => {
                let flags = MemFlagsData::trusted().with_readonly();
                let captures = b.ins().load(types::I64, flags, self.seg(), segment::CAPTURES);
                let mut sig = ir::Signature::new(self.env.target.default_call_conv);
                sig.params.extend([types::I64; 3].map(ir::AbiParam::new));
                sig.returns.push(ir::AbiParam::new(types::I64));
                let f = self.symbol(b, "brolga_lookup", &sig);
                let id = b.ins().iconst(types::I64, *signature as i64);
                let a = self.get(*addr);
                let call = b.ins().call(f, &[captures, a, id]);
                let pair = b.inst_results(call)[0];
                let z = b.ins().iconst(types::I64, 0);
                let none = b.ins().icmp(IntCC::Equal, pair, z);
                self.trap_if(b, none, Check::UnknownCallee, inst.at);
                for (k, &(name, _)) in inst.defs.iter().enumerate() {
                    let r = b.ins().load(types::I64, MemFlagsData::trusted(), pair, 8 * (k as i32 + 1));
                    self.name(name, r);
                }
            }
            AdOp::TrapIf(v, check) => {
                let v = self.get(*v);
                self.trap_if(b, v, *check, inst.at);
            }
            AdOp::TrapIfBytes(v) => self.trap_if_bytes(b, *v, inst.at),
            AdOp::Primal(_)
            | AdOp::Arith(..)
            | AdOp::TakeCt(_)
            | AdOp::AddCt(..)
            | AdOp::ZeroCt(_)
            | AdOp::Hold(..)
            | AdOp::Watch { .. }
            | AdOp::WatchFrom(_)
            | AdOp::WatchJoin(_)
            | AdOp::WatchFlag(_)
            | AdOp::Watched
            | AdOp::Held(_) => {
                unreachable!("handled by the caller")
            }
        }
    }

    fn store_id(&self, b: &mut FunctionBuilder<'_>, flags: MemFlagsData, at: ir::Value, off: i32, id: u32) {
        let id = b.ins().iconst(types::I32, i64::from(id));
        match self.env.id_bytes {
            1 => b.ins().istore8(flags, id, at, off),
            2 => b.ins().istore16(flags, id, at, off),
            _ => b.ins().store(flags, id, at, off),
        };
    }

    fn load_id(&self, b: &mut FunctionBuilder<'_>, at: ir::Value, off: i32) -> ir::Value {
        let flags = self.tape_flags(b);
        match self.env.id_bytes {
            1 => b.ins().uload8(types::I32, flags, at, off),
            2 => b.ins().uload16(types::I32, flags, at, off),
            _ => b.ins().load(types::I32, flags, at, off),
        }
    }

    /// Trap if a cotangent arrived where it cannot be followed.
    ///
    /// Negative zero is a zero cotangent, but has a bit set; shifting the sign out would miss
    /// half-word accesses, so the check is exact for all but a `-0.0`, which is added to memory
    /// only if the primal's own cotangents are negative zeros.
    fn check_zero(&mut self, b: &mut FunctionBuilder<'_>, at: ir::Value, off: i32, ty: Type, inst: Option<ir::Inst>) {
        let halves: &[(i32, Type)] = if ty == types::I128 { &[(0, types::I64), (8, types::I64)] } else { &[(0, ty)] };
        for &(o, t) in halves {
            let mut x = b.ins().load(t, MemFlagsData::new(), at, off + o);
            self.in_shadows.all.extend(b.func.dfg.value_def(x).inst());
            if t.bytes() >= 4 {
                // The sign bit alone is a zero.
                x = b.ins().iadd(x, x);
            }
            self.trap_if(b, x, Check::UntrackedBits, inst);
        }
    }
}

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

/// Up to this size memory is cleared where it is: a call of `memset` would send everything that
/// lives across it to the stack, from where it is read again wherever it is used.
const MOST_BYTES_IN_PLACE: u32 = 16 << 10;

/// Clear memory from an address on, 64 bytes at a time; what is less is cleared first. The stores
/// that do it.
fn zero_in_place(b: &mut FunctionBuilder<'_>, at: ir::Value, size: u32) -> Vec<ir::Inst> {
    const TURN: u32 = 64;
    let flags = || MemFlagsData::new().with_notrap();
    let zero = ops::constant(b, types::F64X2, 0.0);
    let first = size % TURN;
    let mut stores = Vec::new();
    for off in (0..first).step_by(16) {
        stores.push(b.ins().store(flags(), zero, at, off as i32));
    }
    let offset = |b: &mut FunctionBuilder<'_>, from, by: u32| {
        let by = b.ins().iconst(types::I64, i64::from(by));
        b.ins().iadd(from, by)
    };
    let (from, end) = (offset(b, at, first), offset(b, at, size));
    let (turn, behind) = (b.create_block(), b.create_block());
    b.append_block_param(turn, types::I64);
    b.ins().jump(turn, &[from.into()]);
    b.switch_to_block(turn);
    let p = b.block_params(turn)[0];
    for off in (0..TURN).step_by(16) {
        stores.push(b.ins().store(flags(), zero, p, off as i32));
    }
    let next = offset(b, p, TURN);
    let more = b.ins().icmp(IntCC::NotEqual, next, end);
    b.ins().brif(more, turn, &[next.into()], behind, &[]);
    b.seal_block(turn);
    b.seal_block(behind);
    b.switch_to_block(behind);
    stores
}
