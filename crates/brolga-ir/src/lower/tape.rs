//! Tape and activation frame.
//!
//! The tape position (`top` in the forward pass, `cursor` in the pullback) is a frontend variable;
//! it is written to the segment around calls that use the tape, and at the end. A function of both
//! halves leaves `top` as it found it, so a caller that calls one in its own second half sets `top`
//! to its cursor first, if it has moved either, and need not look afterwards. How far the tape was
//! ever filled is in `peak`.
//!
//! A record is written from where the tape ends, field by field without a gap, so that memory
//! behind the tape that cannot be accessed is as good as a comparison ([`Fence`]). A frame is not:
//! much of it is written later, or never, and it may be longer than that memory.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, TrapCode, Type, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;

use super::{Fence, FrameHome, LowerCx, SlotHome, SlotPlace, ops, segment};
use crate::inst::{AdInst, AdOp, Check, FrameSlot, Val};

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
            AdOp::KeptBlock(slot) => self.kept_block(b, *slot, inst),
            AdOp::Push(names, id) => self.push(b, names, *id, inst.at),
            AdOp::Pop(names, id) => self.pop(b, names, *id, inst),
            AdOp::PeekBlock => {
                let at = b.use_var(self.tape_var());
                let r = self.load_id(b, at, -(self.env.id_bytes as i32));
                self.name(inst.defs[0].0, r);
            }
            _ => unreachable!("no operation on the tape"),
        }
    }

    /// Begin an activation in the forward pass.
    fn enter_frame(&mut self, b: &mut FunctionBuilder<'_>, inst: Option<ir::Inst>) {
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
            self.bump(b, fp, frame.size + self.seal_bytes(), inst);
            b.ins().store(flags, top, fp, 0);
            self.put_seal(b, (fp, frame.size as i32), self.frame_seal(), Some(top));
            self.clear_slots(b, |p| p.at_enter);
        }
    }

    /// End an activation in the forward pass: the frame's address is left on top of the tape.
    fn leave_frame(&mut self, b: &mut FunctionBuilder<'_>, inst: Option<ir::Inst>) {
        if self.env.frame.is_some() {
            let fp = self.frame_pointer(b);
            let at = b.use_var(self.tape_var());
            self.bump_for_record(b, at, self.seal_bytes() + 8, inst);
            self.put_seal(b, (at, 0), self.link_seal(), Some(fp));
            let flags = self.record_flags(b);
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
        if let Some(frame) = self.env.frame {
            let flags = self.tape_flags(b);
            let at = b.use_var(self.tape_var());
            let link = 8 + self.seal_bytes() as i32;
            let fp = b.ins().load(types::I64, flags, at, -8);
            self.check_seal(b, (at, -link), self.link_seal(), Some(fp), inst);
            self.fp = Some(fp);
            self.check_frame(b, fp, frame.size, inst);
            let c = b.ins().iconst(types::I64, -i64::from(link));
            let at = b.ins().iadd(at, c);
            b.def_var(self.tape_var(), at);
            self.clear_slots(b, |_| true);
        }
    }

    /// End an activation in the pullback.
    fn close_frame(&mut self, b: &mut FunctionBuilder<'_>, inst: Option<ir::Inst>) {
        if let Some(frame) = self.env.frame.filter(|f| f.home == FrameHome::Tape) {
            let fp = self.frame_pointer(b);
            let flags = self.tape_flags(b);
            self.check_frame(b, fp, frame.size, inst);
            let before = b.ins().load(types::I64, flags, fp, 0);
            b.def_var(self.tape_var(), before);
        }
        if self.uses_tape {
            self.publish_as(b, if self.by_iteration { segment::TOP } else { self.position_field() });
        }
    }

    /// Between the halves of a combined function.
    fn next_iteration(&mut self, b: &mut FunctionBuilder<'_>) {
        if self.uses_tape {
            // How much was recorded, which the run reports when the tape has been given back.
            let flags = self.tape_flags(b);
            let mut peak = b.use_var(self.tape_var());
            if !self.env.alone {
                let before = b.ins().load(types::I64, flags, self.seg(), segment::PEAK);
                peak = b.ins().umax(before, peak);
            }
            b.ins().store(flags, peak, self.seg(), segment::PEAK);
        }
        if self.fp.is_some() {
            self.clear_slots(b, |p| p.between_halves);
        }
    }

    /// Keep a value in a variable, if it is restored anywhere.
    fn keep_in_variable(&mut self, slot: FrameSlot, b: &mut FunctionBuilder<'_>, v: Val) {
        if let Some(&place) = self.kept.get(slot) {
            let v = self.get(v);
            match place {
                SlotHome::Variable(var) => b.def_var(var, v),
                SlotHome::Value(_) => self.kept.set(slot, SlotHome::Value(Some(v))),
            }
        }
    }

    /// Keep a value in the frame.
    fn keep_in_frame(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, v: Val) {
        let (fp, v) = (self.frame_pointer(b), self.get(v));
        let flags = self.tape_flags(b);
        b.ins().store(flags, v, fp, slot.0 as i32);
    }

    /// Keep the number of the block that is being left.
    fn keep_block(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, id: u32) {
        if slot.as_variable().is_some() {
            if let Some(&var) = self.kept_ids.get(slot) {
                let id = b.ins().iconst(types::I32, i64::from(id));
                b.def_var(var, id);
            }
            return;
        }
        let fp = self.frame_pointer(b);
        let flags = self.tape_flags(b);
        self.store_id(b, flags, fp, slot.0 as i32, id);
    }

    /// Read what was kept.
    fn restore(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, inst: &AdInst) {
        let (name, ty) = inst.defs[0];
        let r = if slot.as_variable().is_some() {
            match *self.kept.get(slot).expect("a variable that is read is declared") {
                SlotHome::Variable(var) => b.use_var(var),
                SlotHome::Value(v) => v.expect("what dominates a block is lowered before it"),
            }
        } else {
            let fp = self.frame_pointer(b);
            let flags = self.tape_flags(b);
            b.ins().load(ty, flags, fp, slot.0 as i32)
        };
        self.name(name, r);
    }

    /// Read the number of a block that was kept.
    fn kept_block(&mut self, b: &mut FunctionBuilder<'_>, slot: FrameSlot, inst: &AdInst) {
        let r = if slot.as_variable().is_some() {
            b.use_var(*self.kept_ids.get(slot).expect("a variable that is read is declared"))
        } else {
            let fp = self.frame_pointer(b);
            self.load_id(b, fp, slot.0 as i32)
        };
        self.name(inst.defs[0].0, r);
    }

    /// Push a record.
    fn push(&mut self, b: &mut FunctionBuilder<'_>, names: &[Val], id: Option<u32>, inst: Option<ir::Inst>) {
        let vals: SmallVec<[_; 8]> = names.iter().map(|&v| self.get(v)).collect();
        let tys: SmallVec<[_; 8]> = vals.iter().map(|&v| b.func.dfg.value_type(v)).collect();
        let id_bytes = if id.is_some() { self.env.id_bytes } else { 0 };
        let (offs, size) = record_layout(&tys, self.seal_bytes() + id_bytes);
        let at = b.use_var(self.tape_var());
        self.bump_for_record(b, at, size, inst);
        let seal_at = (size - id_bytes - self.seal_bytes()) as i32;
        self.put_seal(b, (at, seal_at), self.record_seal(names, id), None);
        let flags = self.record_flags(b);
        self.locate(b, inst, !flags.notrap());
        for (v, o) in vals.into_iter().zip(offs) {
            b.ins().store(flags, v, at, o as i32);
        }
        if let Some(id) = id {
            self.store_id(b, flags, at, (size - id_bytes) as i32, id);
        }
        self.locate(b, inst, false);
    }

    /// Pop a record.
    fn pop(&mut self, b: &mut FunctionBuilder<'_>, names: &[Val], id: Option<u32>, inst: &AdInst) {
        let tys: Vec<_> = inst.defs.iter().map(|d| d.1).collect();
        let id_bytes = if id.is_some() { self.env.id_bytes } else { 0 };
        let (offs, size) = record_layout(&tys, self.seal_bytes() + id_bytes);
        let top = b.use_var(self.tape_var());
        let n = b.ins().iconst(types::I64, -i64::from(size));
        let at = b.ins().iadd(top, n);
        b.def_var(self.tape_var(), at);
        let seal = self.record_seal(names, id);
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

    pub(super) fn tape_var(&self) -> Variable {
        self.tape.expect("this function has a segment")
    }

    pub(super) fn frame_pointer(&self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        let _ = b;
        self.fp.expect("the frame has been entered")
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
    pub(super) fn publish(&self, b: &mut FunctionBuilder<'_>) {
        self.publish_as(b, self.position_field());
    }

    pub(super) fn publish_as(&self, b: &mut FunctionBuilder<'_>, off: i32) {
        let pos = b.use_var(self.tape_var());
        let flags = self.tape_flags(b);
        b.ins().store(flags, pos, self.seg(), off);
    }

    pub(super) fn reload(&self, b: &mut FunctionBuilder<'_>) {
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
