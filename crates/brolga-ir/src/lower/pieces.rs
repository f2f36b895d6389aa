//! Accesses to shadows of pieces, which the run time puts together (`brolga_runtime::pieces`).
//!
//! **Question.** A float moves byte by byte, and its cotangent as tickets. When has the run time to
//! be called?
//!
//! **Answer.** Most of what moves in pieces is no float, or has no cotangent. So a place is only
//! taken by a call if there is something in the words of the shadow in which it lies, or something
//! waits anywhere; a ticket is only added, joined or read by a call if it is one. In programs that
//! move pieces, and in no other, every float's shadow is settled before it is read or cleared: also
//! by a call, if something waits.
//!
//! **Cost.** In the run a load and a branch to cold code where nothing is there. Up to 64 places of
//! a block are asked about at once.

use std::collections::HashSet;

use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilder;
use smallvec::SmallVec;

use super::context::LowerCx;
use super::typed::Channel;
use super::{ops, segment};
use crate::inst::{AdInst, AdOp, Check, ClearQuery, PieceOp, ShadowPlace, Shape, Val};
use crate::lower::debug::MissingShadow;

/// Most places that are settled at once: their addresses are all there by then.
const MOST_SETTLED: usize = 64;

/// Whether an instruction leaves what waits as it is.
fn lets_wait(op: &AdOp) -> bool {
    match op {
        AdOp::AddMem { shape, .. } => !matches!(shape, Shape::Bytes { .. } | Shape::Demand { .. }),
        AdOp::Arith(..)
        | AdOp::Moved(..)
        | AdOp::TakeCt(_)
        | AdOp::AddCt(..)
        | AdOp::ZeroCt(_)
        | AdOp::Hold(..)
        | AdOp::Held(_)
        | AdOp::SlotDelta(_)
        | AdOp::SlotAddr(..)
        | AdOp::DataDelta(_)
        | AdOp::LoadDelta { .. }
        | AdOp::LoadTaskDelta(_)
        | AdOp::LoadOld { .. }
        | AdOp::StoreOld { .. }
        | AdOp::Restore(_)
        | AdOp::Pop(..) => true,
        _ => false,
    }
}

impl LowerCx<'_> {
    /// The place that an instruction reads or clears and has [settled](Self::settle) before, and
    /// how.
    fn settles(&self, inst: &AdInst) -> Option<(ShadowPlace, (u32, i32))> {
        match inst.op {
            AdOp::TakeMem { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. } => None,
            AdOp::TakeMem { place, shape } | AdOp::PeekMem { place, shape } => {
                Some((place, (shape.bytes(), self.settled_size(shape, inst.at))))
            }
            AdOp::ZeroMem { place, bytes, asks, cuts: None } => Some((place, (bytes, self.settled_integer(asks)))),
            _ => None,
        }
    }

    /// The size of the floats that were stored, and whether they were moved as integers.
    pub(super) fn settled_size(&self, shape: Shape, store: Option<ir::Inst>) -> i32 {
        let dfg = &self.env.primal.dfg;
        // Elsewhere there are no demands.
        let store = store.filter(|_| self.env.standalone.is_none());
        let moved = store.filter(|&i| dfg.insts[i].opcode().can_store()).is_some_and(|i| {
            let value = dfg.inst_args(i)[0];
            !dfg.value_type(value).lane_type().is_float()
        });
        shape.lane_bytes() as i32 | if moved { segment::MOVED } else { 0 }
    }

    /// What is said of an integer that was stored, in place of a size: 0 of a constant, and else
    /// whether loads that it may have been computed from ask for what was demanded of it.
    pub(super) fn settled_integer(&self, asks: ClearQuery) -> i32 {
        let standalone = self.env.standalone.is_some();
        match asks {
            ClearQuery::Known if self.env.numbers && !standalone => -3,
            ClearQuery::Nothing | ClearQuery::Known => 0,
            ClearQuery::Zero if self.env.numbers || standalone => -1,
            ClearQuery::Zero | ClearQuery::Bits => -2,
        }
    }

    /// The sum of two cotangents.
    pub(super) fn sum(&mut self, b: &mut FunctionBuilder<'_>, x: ir::Value, y: ir::Value) -> ir::Value {
        match b.func.dfg.value_type(x) {
            types::I64 => {}
            // Of two demands.
            types::I8 => return b.ins().bor(x, y),
            _ => return ops::add(b, x, y),
        }
        let zero = b.ins().iconst(types::I64, 0);
        let (both, either) = (b.ins().select(x, y, zero), b.ins().bor(x, y));
        let joined = self.rarely(b, both, Some(either), |cx, b| {
            let seg = cx.seg();
            cx.bytes_helper(b, "brolga_join_bytes", &[seg, x, y])
        });
        joined.expect("there is one")
    }

    pub(super) fn tell(&mut self, b: &mut FunctionBuilder<'_>, symbol: &str, args: &[ir::Value]) {
        let mut sig = ir::Signature::new(self.env.target.default_call_conv);
        sig.params.extend(args.iter().map(|_| ir::AbiParam::new(types::I64)));
        let f = self.symbol(b, symbol, &sig);
        b.ins().call(f, args);
    }

    pub(super) fn bytes_helper(&mut self, b: &mut FunctionBuilder<'_>, symbol: &str, args: &[ir::Value]) -> ir::Value {
        let mut sig = ir::Signature::new(self.env.target.default_call_conv);
        sig.params.extend(args.iter().map(|_| ir::AbiParam::new(types::I64)));
        sig.returns.push(ir::AbiParam::new(types::I64));
        let f = self.symbol(b, symbol, &sig);
        let call = b.ins().call(f, args);
        b.inst_results(call)[0]
    }

    /// What other strands, which wait for this one, have added to a shadow comes to it.
    fn gather(&mut self, b: &mut FunctionBuilder<'_>, place: [ir::Value; 4]) {
        self.tell(b, "brolga_gather", &place);
    }

    /// Where there may be pending sums.
    fn if_pending(&mut self, b: &mut FunctionBuilder<'_>, what: impl FnOnce(&mut Self, &mut FunctionBuilder<'_>)) {
        let some = b.ins().load(types::I64, MemFlagsData::new().with_notrap(), self.seg(), segment::PENDING_SUMS);
        self.rarely(b, some, None, |cx, b| {
            what(cx, b);
            some
        });
    }

    /// The segment, the primal address and its delta, and how many bytes.
    pub(super) fn place(&mut self, b: &mut FunctionBuilder<'_>, place: ShadowPlace, n: u32) -> [ir::Value; 4] {
        let (mut p, d) = (self.get(place.addr), self.get(place.delta));
        if place.off != 0 {
            let off = b.ins().iconst(types::I64, i64::from(place.off));
            p = b.ins().iadd(p, off);
        }
        [self.seg(), p, d, b.ins().iconst(types::I64, i64::from(n))]
    }

    /// Where cotangents wait.
    pub(super) fn waiting(&mut self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        b.ins().load(types::I64, MemFlagsData::new().with_notrap(), self.seg(), segment::WAITING)
    }

    /// A number that is zero if nothing waits anywhere, and the words of the shadow in which `n`
    /// bytes lie are zeros. All bytes of a float move, also those that are zero: what counts are
    /// the words.
    fn anything(&mut self, b: &mut FunctionBuilder<'_>, at: ir::Value, n: u32, is_word: bool) -> ir::Value {
        let mut any = self.waiting(b);
        let aligned = (!is_word).then(|| b.ins().iconst(types::I64, -8));
        for last in (0..n).step_by(8).chain((n > 1 && !is_word).then_some(n - 1)) {
            let mut word = at;
            if last != 0 {
                let of = b.ins().iconst(types::I64, i64::from(last));
                word = b.ins().iadd(word, of);
            }
            if let Some(aligned) = aligned {
                word = b.ins().band(word, aligned);
            }
            let x = b.ins().load(types::I64, MemFlagsData::new(), word, 0);
            self.in_shadows.all.extend(b.func.dfg.value_def(x).inst());
            any = b.ins().bor(any, x);
        }
        any
    }

    /// Whether the `n` bytes of shadow at a place, which an instruction of the primal accesses,
    /// are in one word that begins there: the shadow of a stack slot is aligned as the slot is.
    fn is_word(&self, place: ShadowPlace, access: Option<ir::Inst>, n: u32) -> bool {
        let dfg = &self.env.primal.dfg;
        let Some(access) = access.filter(|&i| n <= 8 && dfg.insts[i].load_store_offset().is_some()) else {
            return false;
        };
        let address = dfg.inst_args(access).get(usize::from(dfg.insts[access].opcode().can_store()));
        let of = address.and_then(|&v| dfg.value_def(dfg.resolve_aliases(v)).inst()).map(|i| &dfg.insts[i]);
        let Some(&ir::InstructionData::StackAddr { stack_slot, offset, .. }) = of else { return false };
        let is_aligned = self.env.primal.sized_stack_slots[stack_slot].align_shift >= 3;
        is_aligned && (i32::from(offset) + place.off) % 8 == 0
    }

    /// What is computed if a number is not zero, or else something that is there. The rare way is
    /// laid out as cold.
    pub(super) fn rarely(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        number: ir::Value,
        otherwise: Option<ir::Value>,
        what: impl FnOnce(&mut Self, &mut FunctionBuilder<'_>) -> ir::Value,
    ) -> Option<ir::Value> {
        let (rare, then) = (b.create_block(), b.create_block());
        let here = b.current_block().expect("in a block");
        b.func.layout.insert_block_after(rare, here);
        b.func.layout.insert_block_after(then, rare);
        b.set_cold_block(rare);
        let arrives = otherwise.map(|v| b.func.dfg.value_type(v)).map(|ty| b.append_block_param(then, ty));
        let args = |v: Option<ir::Value>| v.map(BlockArg::Value).into_iter().collect::<Vec<_>>();
        b.ins().brif(number, rare, &[], then, &args(otherwise));
        b.seal_block(rare);
        b.switch_to_block(rare);
        let found = what(self, b);
        b.ins().jump(then, &args(otherwise.map(|_| found)));
        b.seal_block(then);
        b.switch_to_block(then);
        arrives
    }

    /// Take or add a ticket.
    pub(super) fn bytes_op(&mut self, b: &mut FunctionBuilder<'_>, inst: &AdInst) {
        match inst.op {
            AdOp::TakeMem { place, shape } => {
                let n = shape.bytes();
                self.check_access(b, place, n, MissingShadow::Loses, inst.at);
                let at = self.shadow_at(b, place, (segment::ZEROS, Channel::Integers));
                let any = self.anything(b, at, n, self.is_word(place, inst.at, n));
                let none = self.zero(b, shape.ty());
                let taken = self.rarely(b, any, Some(none), |cx, b| {
                    let args @ [seg, p, d, n] = cx.place(b, place, n);
                    if let Shape::Bytes { of, .. } = shape {
                        let of = b.ins().iconst(types::I64, i64::from(of));
                        cx.bytes_helper(b, "brolga_take_bytes", &[seg, p, d, n, of])
                    } else {
                        let demand = cx.bytes_helper(b, "brolga_take_demand", &args);
                        b.ins().ireduce(types::I8, demand)
                    }
                });
                self.name(inst.defs[0].0, taken.expect("there is one"));
            }
            AdOp::AddMem { place, by, shape: Shape::Demand { n }, .. } => {
                self.check_access(b, place, n.into(), MissingShadow::Loses, inst.at);
                let demand = self.get(by);
                self.rarely(b, demand, None, |cx, b| {
                    let args = cx.place(b, place, n.into());
                    cx.bytes_helper(b, "brolga_add_demand", &args)
                });
            }
            AdOp::AddMem { place, by, shape: Shape::Bytes { n, of }, .. } => {
                self.check_access(b, place, n.into(), MissingShadow::Loses, inst.at);
                let ticket = self.get(by);
                self.rarely(b, ticket, None, |cx, b| {
                    let [seg, p, d, n] = cx.place(b, place, n.into());
                    let of = b.ins().iconst(types::I64, i64::from(of));
                    let status = cx.bytes_helper(b, "brolga_add_bytes", &[seg, p, d, n, of, ticket]);
                    cx.trap_if(b, status, Check::UntrackedBits, inst.at);
                    status
                });
            }
            _ => unreachable!("only tickets are taken and added"),
        }
    }

    /// Trap if a ticket stands for anything but zeros: the bytes of a piece go along with those of
    /// what lies beside it, also if they are none of a cotangent.
    pub(super) fn trap_if_bytes(&mut self, b: &mut FunctionBuilder<'_>, ticket: Val, at: Option<ir::Inst>) {
        let ticket = self.get(ticket);
        self.rarely(b, ticket, None, |cx, b| {
            let args = [cx.seg(), ticket];
            let status = cx.bytes_helper(b, "brolga_no_bytes", &args);
            cx.trap_if(b, status, Check::UntrackedBits, at);
            status
        });
    }

    /// The shadow of floats of `of` bytes is going to be read, or to be cleared if that is 0 (or
    /// negative, where it is checked that nothing is lost): what waits there comes first.
    pub(super) fn settle(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        (n, of): (u32, i32),
        at: Option<ir::Inst>,
    ) {
        if self.settled.this {
            return;
        }
        if self.env.strand {
            let [seg, p, d, n] = self.place(b, place, n);
            self.if_pending(b, |cx, b| cx.gather(b, [seg, p, d, n]));
        }
        if self.env.waits {
            self.settle_if_any(b, at, |cx, b| {
                let [seg, p, d, n] = cx.place(b, place, n);
                [seg, p, d, n, b.ins().iconst(types::I64, i64::from(of))]
            });
        }
    }

    /// Settle shadows that a block reads or clears, from an instruction on, as far as nothing comes
    /// between that makes anything wait, or in a task of a fork adds to a shadow. Addresses that
    /// are computed on the way are computed first. One question for all of them leaves the rest of
    /// the block in one piece.
    pub(super) fn settle_next(&mut self, b: &mut FunctionBuilder<'_>, insts: &[&AdInst], from: usize) {
        let (mut all, mut later, mut addresses) = (Vec::new(), HashSet::new(), Vec::new());
        let mut end = from;
        for (i, inst) in insts.iter().enumerate().skip(from) {
            let is_there = |v: &Val| !later.contains(v);
            match self.settles(inst) {
                Some((place, _)) if place.names().iter().all(is_there) && all.len() < MOST_SETTLED => all.push(i),
                None if self.is_address(inst) && self.operands(inst).iter().all(is_there) => {
                    addresses.push(i);
                    continue;
                }
                // What a task adds by one delta may be read by another that leads elsewhere.
                None if self.env.strand && matches!(inst.op, AdOp::AddMem { .. }) => break,
                None if lets_wait(&inst.op) => {}
                _ => break,
            }
            later.extend(inst.defs.iter().map(|d| d.0));
            end = i + 1;
        }
        self.settled.ask_at = end.max(from + 1);
        if all.len() < 2 {
            return;
        }
        for i in addresses.into_iter().filter(|i| i < all.last().expect("there are several")) {
            self.locate(b, insts[i].at, false);
            self.inst(b, insts[i]);
            self.settled.lowered.insert(i);
        }
        let place = |&i: &usize| Some((i, self.settles(insts[i])?));
        let places: Vec<_> = all.iter().filter_map(place).collect();
        if self.env.strand {
            self.if_pending(b, |cx, b| {
                for &(_, (place, (n, _))) in &places {
                    let place = cx.place(b, place, n);
                    cx.gather(b, place);
                }
            });
        }
        if self.env.waits {
            self.settle_each(b, insts, places.into_iter());
        }
        self.settled.places.extend(all);
    }

    fn settle_each(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        insts: &[&AdInst],
        places: impl Iterator<Item = (usize, (ShadowPlace, (u32, i32)))>,
    ) {
        let any = self.waiting(b);
        self.rarely(b, any, None, |cx, b| {
            let mut last = None;
            for (i, (place, (n, of))) in places {
                cx.locate(b, insts[i].at, false);
                let [seg, p, d, n] = cx.place(b, place, n);
                let of = b.ins().iconst(types::I64, i64::from(of));
                let status = cx.bytes_helper(b, "brolga_settle_bytes", &[seg, p, d, n, of]);
                cx.trap_if(b, status, Check::UntrackedBits, insts[i].at);
                last = Some(status);
            }
            last.expect("there are several")
        });
    }

    /// Whether an instruction computes an integer from others, or restores one, and does nothing
    /// else.
    fn is_address(&self, inst: &AdInst) -> bool {
        let is_int = matches!(inst.defs[..], [(_, types::I32 | types::I64)]);
        is_int
            && match &inst.op {
                AdOp::Restore(_) | AdOp::LoadTaskDelta(_) => true,
                AdOp::Primal(i) | AdOp::Moved(i, _) => {
                    let op = self.env.primal.dfg.insts[*i].opcode();
                    !(op.can_load() || op.can_store() || op.is_call() || op.can_trap() || op.other_side_effects())
                }
                _ => false,
            }
    }

    /// Every name that an instruction reads.
    fn operands(&self, inst: &AdInst) -> SmallVec<[Val; 4]> {
        let mut all = inst.reads();
        if let AdOp::Primal(i) = inst.op {
            all.extend(self.env.primal.dfg.inst_args(i).iter().map(|&v| Val::Primal(v)));
        }
        all
    }

    /// Bytes that may be a part of a float of `elem` bytes have been overwritten: their cotangent
    /// ends, and the run time sees what becomes of the other parts. Nothing is done where there are
    /// zeros.
    pub(super) fn cut(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        (n, elem): (u32, u8),
        inst: Option<ir::Inst>,
    ) {
        self.check_access(b, place, n, MissingShadow::Loses, inst);
        let at = self.shadow_at(b, place, (segment::ZEROS, Channel::Integers));
        let any = self.anything(b, at, n, self.is_word(place, inst, n));
        self.rarely(b, any, None, |cx, b| {
            let [seg, p, d, n] = cx.place(b, place, n);
            let elem = b.ins().iconst(types::I64, i64::from(elem));
            cx.tell(b, "brolga_cut_bytes", &[seg, p, d, n, elem]);
            seg
        });
    }

    /// The size of floats of which parts are cut, and whether the run time keeps account of them.
    pub(super) fn with_account(&self, b: &mut FunctionBuilder<'_>, of: ir::Value) -> ir::Value {
        if self.env.pieces { b.ins().iadd_imm_s(of, segment::ACCOUNT) } else { of }
    }

    /// A number is going to be stored over as many bytes as floats of `elem` bytes have, or more:
    /// it is seen whether it is stored over parts of two of them.
    pub(super) fn cut_across(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        place: ShadowPlace,
        (n, elem): (u32, u8),
        inst: Option<ir::Inst>,
    ) {
        let at = self.shadow_at(b, place, (segment::ZEROS, Channel::Integers));
        let any = self.anything(b, at, n, self.is_word(place, inst, n));
        // Of unknown floats some may be doubles that are no whole words.
        let torn = if elem == 0 {
            any
        } else {
            let odd = b.ins().band_imm_s(at, i64::from(elem) - 1);
            b.ins().select(odd, any, odd)
        };
        self.rarely(b, torn, None, |cx, b| {
            let [seg, p, d, n] = cx.place(b, place, n);
            let elem = b.ins().iconst(types::I64, i64::from(elem) + segment::STRICT);
            let elem = cx.with_account(b, elem);
            let status = cx.bytes_helper(b, "brolga_clear", &[seg, p, d, n, elem]);
            cx.trap_if(b, status, Check::UntrackedBits, inst);
            status
        });
    }

    fn settle_if_any(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        at: Option<ir::Inst>,
        args: impl FnOnce(&mut Self, &mut FunctionBuilder<'_>) -> [ir::Value; 5],
    ) {
        let any = self.waiting(b);
        self.rarely(b, any, None, |cx, b| {
            let args = args(cx, b);
            let status = cx.bytes_helper(b, "brolga_settle_bytes", &args);
            cx.trap_if(b, status, Check::UntrackedBits, at);
            status
        });
    }

    /// The same where a helper of the run time reads or clears shadows.
    pub(super) fn settle_for_helper(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        symbol: &str,
        args: &[ir::Value],
        at: Option<ir::Inst>,
    ) {
        if self.env.strand {
            let first = usize::from(matches!(symbol, "brolga_move_rev" | "brolga_clear"));
            let n = match symbol {
                "brolga_memmove_rev" | "brolga_move_rev" => Some(args[first + 4]),
                "brolga_zero" | "brolga_clear" => Some(args[first + 2]),
                _ => None,
            };
            if let Some(n) = n {
                self.if_pending(b, |cx, b| {
                    let seg = cx.seg();
                    cx.gather(b, [seg, args[first], args[first + 1], n]);
                });
            }
            if matches!(symbol, "brolga_memmove_rev" | "brolga_move_rev") {
                self.check_copied(b, [args[first + 2], args[first + 3], args[first + 5]], at);
            }
        }
        let (n, of) = match symbol {
            "brolga_memmove_rev" => (args[4], Some(args[5])),
            "brolga_zero" => (args[2], None),
            _ => return,
        };
        if self.env.waits {
            self.settle_if_any(b, at, |cx, b| {
                if let [dst, dst_delta, src, src_delta, n, _] = *args {
                    cx.bytes_helper(b, "brolga_move_demand", &[cx.seg(), dst, dst_delta, src, src_delta, n]);
                }
                let of = of.unwrap_or_else(|| b.ins().iconst(types::I64, 0));
                [cx.seg(), args[0], args[1], n, of]
            });
        }
    }

    /// Tell the run time of tangents in pieces. In programs that have none nothing is told; in
    /// others a call is made where there is a tangent, or where memory is dirty.
    pub(super) fn piece(&mut self, b: &mut FunctionBuilder<'_>, what: PieceOp, place: ShadowPlace, n: u32) {
        if !self.env.pieces {
            return;
        }
        if self.env.typed.is_some() {
            // The account is that of the run in which the derivative takes part.
            return self.tell_of(b, what, place, n);
        }
        let some = match what {
            PieceOp::Note | PieceOp::Mark => {
                let at = self.shadow_at(b, place, (segment::ZEROS, Channel::Integers));
                self.anything(b, at, n, false)
            }
            PieceOp::Settle(_) | PieceOp::Clean => self.waiting(b),
        };
        self.rarely(b, some, None, |cx, b| {
            cx.tell_of(b, what, place, n);
            cx.seg()
        });
    }

    fn tell_of(&mut self, b: &mut FunctionBuilder<'_>, what: PieceOp, place: ShadowPlace, n: u32) {
        let args @ [seg, p, d, n] = self.place(b, place, n);
        match what {
            PieceOp::Note => self.tell(b, "brolga_tangent_note", &args),
            PieceOp::Mark => self.tell(b, "brolga_tangent_mark", &args),
            PieceOp::Settle(_) | PieceOp::Clean => {
                let size = if let PieceOp::Settle(size) = what { size } else { 0 };
                let size = b.ins().iconst(types::I64, i64::from(size));
                self.tell(b, "brolga_tangent_settle", &[seg, p, d, n, size]);
            }
        }
    }
}
