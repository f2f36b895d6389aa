//! Tape and activation frame: records are pushed and popped, slots kept and restored.
//!
//! **Question.** Where does a block's record go, where is an activation frame, and what do callees
//! find?
//!
//! **Answer.** The tape position (`top` in the forward pass, `cursor` in the pullback) is a
//! frontend variable; it is written to the segment around calls that use the tape, and at the end.
//! A function of both halves leaves `top` as it found it, so a caller that calls one in its own
//! second half sets `top` to its cursor first, if it has moved either, and need not look
//! afterwards. How far the tape was ever filled is in `peak`.
//!
//! A record is written from where the tape ends, field by field without a gap, so that memory
//! after the tape that cannot be accessed is as good as a comparison ([`Fence`]). A frame is not:
//! much of it is written later, or never, and it may be longer than that memory.
//!
//! ```text
//! push v1: f64, v2: i32       ⟶        v3 = iadd top, 12
//!                                      trapnz (icmp ugt v3, limit), tape_full       unless there is a fence
//!                                      store v1, top
//!                                      store v2, top+8
//! ```
//!
//! **Cost.** In the run a store for each field, an addition, and a comparison unless there is a
//! fence.
//!
//! **Source.** A stack per block and one record per run of it: the comms stacks of Mooncake.jl.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, TrapCode, Type, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;

use super::context::{LowerCx, SlotHome};
use super::env::Fence;
use super::frame::{FrameHome, SlotPlace};
use super::typed::{Channel, Position};
use super::{ops, segment};
use crate::inst::{AdInst, AdOp, Check, FrameSlot, Val};

/// Byte offsets of the fields of a block's record, and its size with `extra` bytes after them:
/// those of the seal of a debug run, and of the block's number, which comes last. Fields keep their
/// order.
pub(super) fn record_layout(types: &[Type], extra: u32) -> (Vec<u32>, u32) {
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

impl LowerCx<'_> {
    /// Operations on the tape and the frame.
    pub(super) fn tape_op(&mut self, b: &mut FunctionBuilder<'_>, inst: &AdInst) {
        match &inst.op {
            AdOp::EnterFrame => self.enter_frame(b, inst.at),
            AdOp::LeaveFrame => self.leave_frame(b, inst.at),
            AdOp::OpenFrame => self.open_frame(b, inst.at),
            AdOp::CloseFrame => self.close_frame(b, inst.at),
            AdOp::NextIteration => self.next_iteration(b),
            AdOp::Keep(slot, v) if slot.as_variable().is_some() => self.keep_in_variable(*slot, b, *v),
            AdOp::Keep(slot, v) => self.keep_in_frame(b, *slot, *v),
            AdOp::KeepBlock(slot, id) => self.keep_block(b, *slot, *id),
            AdOp::Restore(slot) => self.restore(b, *slot, inst),
            AdOp::RestoreBlock(slot) => self.restore_block(b, *slot, inst),
            AdOp::Push(names, id) => self.push(b, names, *id, inst.at),
            AdOp::Pop(names, id) => self.pop(b, names, *id, inst),
            AdOp::PeekBlock => {
                let at = b.use_var(self.tape_var(self.number_channel()));
                let r = self.load_id(b, at, -(self.env.id_bytes as i32));
                self.name(inst.defs[0].0, r);
            }
            _ => unreachable!("no operation on the tape"),
        }
    }

    /// Begin an activation in the forward pass.
    fn enter_frame(&mut self, b: &mut FunctionBuilder<'_>, inst: Option<ir::Inst>) {
        let flags = self.tape_flags(b, self.address_channel());
        let on_tape = self.env.frame.is_some_and(|f| f.home == FrameHome::Tape);
        if self.uses_tape {
            self.reload(b);
            // Records ask for it unless there is a fence, and so does a frame among them.
            if self.env.fence != Fence::Only || on_tape {
                // What stands in a workspace is written by the root.
                let flags = if self.env.standalone.is_some() { flags } else { flags.with_readonly() };
                for c in self.channels() {
                    let limit = segment::field(c, Position::Limit);
                    let limit = b.ins().load(types::I64, flags, self.seg(), limit);
                    self.limits[c.index()] = Some(limit);
                }
            }
        }
        let Some(frame) = self.env.frame else { return };
        if on_tape && self.env.typed.is_some() {
            // A frame begins where its channel ended, so that its address is that position.
            for c in Channel::TYPED {
                let fp = b.use_var(self.tape_var(c));
                self.fps[c.index()] = Some(fp);
                self.bump(b, c, fp, frame.size, inst);
            }
        } else if on_tape {
            let top = b.use_var(self.tape_var(Channel::Mixed));
            let c = b.ins().iconst(types::I64, 15);
            let fp = b.ins().iadd(top, c);
            let c = b.ins().iconst(types::I64, -16);
            let fp = b.ins().band(fp, c);
            self.fps[Channel::Mixed.index()] = Some(fp);
            self.bump(b, Channel::Mixed, fp, frame.size + self.seal_bytes(), inst);
            b.ins().store(flags, top, fp, 0);
            self.put_seal(b, (fp, frame.size as i32), self.frame_seal(), Some(top));
        } else if frame.size > 0 {
            let homes: &[Channel] = if self.env.typed.is_some() { &Channel::TYPED } else { &[Channel::Mixed] };
            for c in homes {
                self.fps[c.index()] = Some(on_stack(b, frame.size));
            }
            if self.env.typed.is_some() {
                let places = frame.slots.iter().filter_map(|(slot, place)| Some((slot, (*place)?)));
                let homes = places.map(|(slot, place)| (slot, on_stack(b, place.size))).collect();
                self.slot_shadows = homes;
            }
        } else {
            return;
        }
        self.clear_slots(b, |p| p.at_enter);
    }

    /// End an activation in the forward pass: the frame's address is left on top of the tape.
    fn leave_frame(&mut self, b: &mut FunctionBuilder<'_>, inst: Option<ir::Inst>) {
        if self.env.frame.is_some() && self.env.typed.is_some() {
            let flags = self.tape_flags(b, Channel::Addresses);
            let at = b.use_var(self.tape_var(Channel::Addresses));
            self.bump(b, Channel::Addresses, at, LINKS, inst);
            for (k, c) in (0..).zip(Channel::TYPED) {
                let fp = self.frame_pointer(c);
                b.ins().store(flags, fp, at, 8 * k);
            }
        } else if self.env.frame.is_some() {
            let fp = self.frame_pointer(Channel::Mixed);
            let at = b.use_var(self.tape_var(Channel::Mixed));
            self.bump_for_record(b, Channel::Mixed, at, self.seal_bytes() + 8, inst);
            self.put_seal(b, (at, 0), self.link_seal(), Some(fp));
            let flags = self.record_flags(b, Channel::Mixed);
            self.locate(b, inst, !flags.notrap());
            b.ins().store(flags, fp, at, self.seal_bytes() as i32);
            self.locate(b, inst, false);
        }
        if self.uses_tape {
            self.publish(b);
        }
    }

    /// Begin an activation in the pullback.
    fn open_frame(&mut self, b: &mut FunctionBuilder<'_>, inst: Option<ir::Inst>) {
        if self.uses_tape {
            self.reload(b);
        }
        let Some(frame) = self.env.frame else { return };
        let flags = self.tape_flags(b, self.address_channel());
        if self.env.typed.is_some() {
            let at = b.use_var(self.tape_var(Channel::Addresses));
            for (k, c) in (0..).zip(Channel::TYPED) {
                self.fps[c.index()] = Some(b.ins().load(types::I64, flags, at, 8 * k - LINKS as i32));
            }
            let c = b.ins().iconst(types::I64, -i64::from(LINKS));
            let at = b.ins().iadd(at, c);
            b.def_var(self.tape_var(Channel::Addresses), at);
        } else {
            let at = b.use_var(self.tape_var(Channel::Mixed));
            let link = 8 + self.seal_bytes() as i32;
            let fp = b.ins().load(types::I64, flags, at, -8);
            self.check_seal(b, (at, -link), self.link_seal(), Some(fp), inst);
            self.fps[Channel::Mixed.index()] = Some(fp);
            self.check_frame(b, fp, frame.size, inst);
            let c = b.ins().iconst(types::I64, -i64::from(link));
            let at = b.ins().iadd(at, c);
            b.def_var(self.tape_var(Channel::Mixed), at);
        }
        self.clear_slots(b, |_| true);
    }

    /// End an activation in the pullback.
    fn close_frame(&mut self, b: &mut FunctionBuilder<'_>, inst: Option<ir::Inst>) {
        if let Some(frame) = self.env.frame.filter(|f| f.home == FrameHome::Tape) {
            if self.env.typed.is_some() {
                for c in Channel::TYPED {
                    let before = self.frame_pointer(c);
                    b.def_var(self.tape_var(c), before);
                }
            } else {
                let fp = self.frame_pointer(Channel::Mixed);
                let flags = self.tape_flags(b, Channel::Mixed);
                self.check_frame(b, fp, frame.size, inst);
                let before = b.ins().load(types::I64, flags, fp, 0);
                b.def_var(self.tape_var(Channel::Mixed), before);
            }
        }
        if self.uses_tape {
            self.publish_as(b, if self.by_iteration { Position::Top } else { self.position() });
        }
    }

    /// Between the halves of a combined function.
    fn next_iteration(&mut self, b: &mut FunctionBuilder<'_>) {
        if self.uses_tape && self.env.typed.is_none() {
            // How much was recorded, which the run reports when the tape has been given back.
            let flags = self.tape_flags(b, Channel::Mixed);
            let mut peak = b.use_var(self.tape_var(Channel::Mixed));
            if !self.env.alone {
                let before = b.ins().load(types::I64, flags, self.seg(), segment::PEAK);
                peak = b.ins().umax(before, peak);
            }
            b.ins().store(flags, peak, self.seg(), segment::PEAK);
        }
        if self.fps.iter().any(Option::is_some) {
            self.clear_slots(b, |p| p.between_halves);
        }
    }

    /// Keep a value in a variable, if it is restored anywhere.
    fn keep_in_variable(&mut self, slot: FrameSlot, b: &mut FunctionBuilder<'_>, v: Val) {
        if let Some(&place) = self.slots.get(slot) {
            let v = self.get(v);
            match place {
                SlotHome::Variable(var) => b.def_var(var, v),
                SlotHome::Value(_) => self.slots.set(slot, SlotHome::Value(Some(v))),
            }
        }
    }

    /// Keep a value in the frame.
    fn keep_in_frame(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, v: Val) {
        let value = self.recorded(v);
        let channel = self.channel(v, b.func.dfg.value_type(value));
        self.slot_channels.insert(slot, channel);
        let fp = self.frame_pointer(channel);
        let flags = self.tape_flags(b, channel);
        b.ins().store(flags, value, fp, slot.0 as i32);
    }

    /// Keep the number of the block that is being left.
    fn keep_block(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, id: u32) {
        if slot.as_variable().is_some() {
            if let Some(&var) = self.block_slots.get(slot) {
                let id = b.ins().iconst(types::I32, i64::from(id));
                b.def_var(var, id);
            }
            return;
        }
        let fp = self.frame_pointer(self.number_channel());
        let flags = self.tape_flags(b, self.number_channel());
        self.store_id(b, flags, fp, slot.0 as i32, id);
    }

    /// Read what was kept.
    fn restore(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, inst: &AdInst) {
        let (name, ty) = inst.defs[0];
        let r = if slot.as_variable().is_some() {
            match *self.slots.get(slot).expect("a variable that is read is declared") {
                SlotHome::Variable(var) => b.use_var(var),
                SlotHome::Value(v) => v.expect("what dominates a block is lowered before it"),
            }
        } else {
            let channel = self.slot_channels.get(&slot).copied().unwrap_or_else(|| self.channel(name, ty));
            let fp = self.frame_pointer(channel);
            let flags = self.tape_flags(b, channel);
            b.ins().load(ty, flags, fp, slot.0 as i32)
        };
        self.name(name, r);
    }

    /// Read the number of a block that was kept.
    fn restore_block(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, inst: &AdInst) {
        let r = if slot.as_variable().is_some() {
            b.use_var(*self.block_slots.get(slot).expect("a variable that is read is declared"))
        } else {
            let fp = self.frame_pointer(self.number_channel());
            self.load_id(b, fp, slot.0 as i32)
        };
        self.name(inst.defs[0].0, r);
    }

    /// What is recorded of a name: of a delta, in a strand, that of its pending sums.
    fn recorded(&mut self, name: Val) -> ir::Value {
        self.pending.get(&name).copied().unwrap_or_else(|| self.get(name))
    }

    /// Push a record: a part for each channel, in the order of the fields.
    fn push(&mut self, b: &mut FunctionBuilder<'_>, names: &[Val], id: Option<u32>, inst: Option<ir::Inst>) {
        let fields: SmallVec<[_; 8]> = names.iter().map(|&v| (v, b.func.dfg.value_type(self.get(v)))).collect();
        for channel in self.channels() {
            let fields = self.fields_in(channel, &fields);
            let id = id.filter(|_| channel == self.number_channel());
            if fields.is_empty() && id.is_none() && self.env.typed.is_some() {
                continue;
            }
            let tys: SmallVec<[_; 8]> = fields.iter().map(|&k| b.func.dfg.value_type(self.get(names[k]))).collect();
            let id_bytes = if id.is_some() { self.env.id_bytes } else { 0 };
            let (offs, size) = record_layout(&tys, self.seal_bytes() + id_bytes);
            let at = b.use_var(self.tape_var(channel));
            self.bump_for_record(b, channel, at, size, inst);
            let seal_at = (size - id_bytes - self.seal_bytes()) as i32;
            self.put_seal(b, (at, seal_at), self.record_seal(names, id), None);
            let flags = self.record_flags(b, channel);
            self.locate(b, inst, !flags.notrap());
            for (k, o) in fields.into_iter().zip(offs) {
                let v = self.recorded(names[k]);
                b.ins().store(flags, v, at, o as i32);
            }
            if let Some(id) = id {
                self.store_id(b, flags, at, (size - id_bytes) as i32, id);
            }
            self.locate(b, inst, false);
        }
    }

    /// Pop a record.
    fn pop(&mut self, b: &mut FunctionBuilder<'_>, names: &[Val], id: Option<u32>, inst: &AdInst) {
        let fields: SmallVec<[_; 8]> = names.iter().zip(&inst.defs).map(|(&v, d)| (v, d.1)).collect();
        for channel in self.channels() {
            let fields = self.fields_in(channel, &fields);
            let id = id.filter(|_| channel == self.number_channel());
            if fields.is_empty() && id.is_none() && self.env.typed.is_some() {
                continue;
            }
            let tys: SmallVec<[_; 8]> = fields.iter().map(|&k| inst.defs[k].1).collect();
            let id_bytes = if id.is_some() { self.env.id_bytes } else { 0 };
            let (offs, size) = record_layout(&tys, self.seal_bytes() + id_bytes);
            let top = b.use_var(self.tape_var(channel));
            let n = b.ins().iconst(types::I64, -i64::from(size));
            let at = b.ins().iadd(top, n);
            b.def_var(self.tape_var(channel), at);
            let seal = self.record_seal(names, id);
            let seal_at = (size - id_bytes - self.seal_bytes()) as i32;
            self.check_seal(b, (at, seal_at), seal, None, inst.at);
            let flags = self.tape_flags(b, channel);
            for (k, o) in fields.into_iter().zip(offs) {
                // From where the position was: the new one is then not needed before the end of
                // the block.
                let (name, ty) = inst.defs[k];
                let r = b.ins().load(ty, flags, top, o as i32 - size as i32);
                self.name(name, r);
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
        let flags = self.tape_flags(b, self.number_channel());
        match self.env.id_bytes {
            1 => b.ins().uload8(types::I32, flags, at, off),
            2 => b.ins().uload16(types::I32, flags, at, off),
            _ => b.ins().load(types::I32, flags, at, off),
        }
    }

    pub(super) fn tape_var(&self, channel: Channel) -> Variable {
        self.tapes[channel.index()].expect("this function records there")
    }

    pub(super) fn frame_pointer(&self, channel: Channel) -> ir::Value {
        self.fps[channel.index()].expect("the frame has been entered")
    }

    /// Move `top` up by `size` from `from`, trapping at the limit.
    fn bump(
        &self,
        b: &mut FunctionBuilder<'_>,
        channel: Channel,
        from: ir::Value,
        size: u32,
        at: Option<ir::Inst>,
    ) -> ir::Inst {
        let n = b.ins().iconst(types::I64, i64::from(size));
        let top = b.ins().iadd(from, n);
        b.def_var(self.tape_var(channel), top);
        let limit = self.limits[channel.index()].expect("the activation has begun");
        let over = b.ins().icmp(IntCC::UnsignedGreaterThan, top, limit);
        self.locate(b, at, true);
        let check = b.ins().trapnz(over, TrapCode::unwrap_user(Check::TapeFull as u8));
        self.locate(b, at, false);
        check
    }

    /// The same for a record, all of which is written next, in order and without a gap: where there
    /// is a fence, that is a check as well.
    fn bump_for_record(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        channel: Channel,
        from: ir::Value,
        size: u32,
        at: Option<ir::Inst>,
    ) {
        if self.env.fence == Fence::Only {
            let n = b.ins().iconst(types::I64, i64::from(size));
            let top = b.ins().iadd(from, n);
            b.def_var(self.tape_var(channel), top);
            return;
        }
        let check = self.bump(b, channel, from, size, at);
        self.checks.push(check);
    }

    /// Flags of what is written of a record.
    fn record_flags(&self, b: &mut FunctionBuilder<'_>, channel: Channel) -> MemFlagsData {
        let flags = self.tape_flags(b, channel);
        match self.env.fence {
            Fence::No => flags,
            Fence::Only | Fence::Too => flags.with_trap_code(Some(TrapCode::unwrap_user(Check::TapeFull as u8))),
        }
    }

    /// Write the tape position to the segment, so that a callee finds it.
    pub(super) fn publish(&self, b: &mut FunctionBuilder<'_>) {
        self.publish_as(b, self.position());
    }

    pub(super) fn publish_as(&self, b: &mut FunctionBuilder<'_>, position: Position) {
        let flags = self.tape_flags(b, self.address_channel());
        for c in self.channels() {
            let pos = b.use_var(self.tape_var(c));
            b.ins().store(flags, pos, self.seg(), segment::field(c, position));
        }
    }

    pub(super) fn reload(&self, b: &mut FunctionBuilder<'_>) {
        let flags = self.tape_flags(b, self.address_channel());
        for c in self.channels() {
            let pos = b.ins().load(types::I64, flags, self.seg(), segment::field(c, self.position()));
            b.def_var(self.tape_var(c), pos);
        }
    }

    fn position(&self) -> Position {
        if self.forward || self.env.typed.is_some() { Position::Top } else { Position::Cursor }
    }

    fn clear_by_call(&mut self, b: &mut FunctionBuilder<'_>, at: ir::Value, size: u32) {
        let mut sig = ir::Signature::new(self.env.target.default_call_conv);
        sig.params.extend([types::I64, types::I32, types::I64].map(ir::AbiParam::new));
        sig.returns.push(ir::AbiParam::new(types::I64));
        let memset = self.env.names.of_c("memset").to_owned();
        let f = self.symbol(b, &memset, &sig);
        let (z, n) = (b.ins().iconst(types::I32, 0), b.ins().iconst(types::I64, i64::from(size)));
        b.ins().call(f, &[at, z, n]);
    }

    /// Clear the shadows of some of the stack slots: those of neighbours at once.
    fn clear_slots(&mut self, b: &mut FunctionBuilder<'_>, which: impl Fn(&SlotPlace) -> bool) {
        let Some(frame) = self.env.frame else { return };
        for (&slot, &home) in &self.slot_shadows.clone() {
            let place = frame.slots[slot].expect("it has a shadow");
            if which(&place) {
                self.clear_by_call(b, home, place.size);
            }
        }
        if !self.slot_shadows.is_empty() {
            return;
        }
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
        if places.is_empty() {
            return;
        }
        let fp = self.frame_pointer(self.slot_channel());
        for (first, size) in places {
            if size > 512 {
                let at = self.in_frame(b, fp, first);
                if size <= MOST_BYTES_IN_PLACE {
                    let stores = zero_in_place(b, at, size);
                    self.in_shadows.all.extend(stores);
                    continue;
                }
                self.clear_by_call(b, at, size);
            } else {
                let zero = ops::constant(b, types::F64X2, 0.0);
                for off in (0..size).step_by(16) {
                    let store = b.ins().store(MemFlagsData::new().with_notrap(), zero, fp, (first + off) as i32);
                    self.in_shadows.all.insert(store);
                }
            }
        }
    }
}

/// Room on the stack, and its address.
fn on_stack(b: &mut FunctionBuilder<'_>, size: u32) -> ir::Value {
    let slot = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, size, 4);
    let slot = b.create_sized_stack_slot(slot);
    b.ins().stack_addr(types::I64, slot, 0)
}

/// Up to this size memory is cleared where it is: a call of `memset` would send everything that
/// lives across it to the stack, from where it is read again wherever it is used.
const MOST_BYTES_IN_PLACE: u32 = 16 << 10;

/// Bytes of the addresses of the parts of a typed frame.
const LINKS: u32 = 8 * Channel::TYPED.len() as u32;

/// Clear memory from an address on, 64 bytes at a time; what is less is cleared first. The stores
/// that do it.
fn zero_in_place(b: &mut FunctionBuilder<'_>, at: ir::Value, size: u32) -> Vec<ir::Inst> {
    const ITERATION: u32 = 64;
    let flags = || MemFlagsData::new().with_notrap();
    let zero = ops::constant(b, types::F64X2, 0.0);
    let first = size % ITERATION;
    let mut stores = Vec::new();
    for off in (0..first).step_by(16) {
        stores.push(b.ins().store(flags(), zero, at, off as i32));
    }
    let offset = |b: &mut FunctionBuilder<'_>, from, by: u32| {
        let by = b.ins().iconst(types::I64, i64::from(by));
        b.ins().iadd(from, by)
    };
    let (from, end) = (offset(b, at, first), offset(b, at, size));
    let (iteration, exit) = (b.create_block(), b.create_block());
    b.append_block_param(iteration, types::I64);
    b.ins().jump(iteration, &[from.into()]);
    b.switch_to_block(iteration);
    let p = b.block_params(iteration)[0];
    for off in (0..ITERATION).step_by(16) {
        stores.push(b.ins().store(flags(), zero, p, off as i32));
    }
    let next = offset(b, p, ITERATION);
    let more = b.ins().icmp(IntCC::NotEqual, next, end);
    b.ins().brif(more, iteration, &[next.into()], exit, &[]);
    b.seal_block(iteration);
    b.seal_block(exit);
    b.switch_to_block(exit);
    stores
}
