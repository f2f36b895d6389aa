//! Memory roles: what each access means for the derivative, and stores that would lose one.
//!
//! **Question.** An access moves eight bytes. Does its shadow move a cotangent, the address of
//! another shadow, or nothing? And is something active stored where there is no shadow?
//!
//! **Answer.** By the delta of the address, the state of what is moved, and what memory holds
//! there:
//!
//! | address | what is moved | role |
//! |---|---|---|
//! | has a shadow | a float, or bits that vary | `Float`: the reverse moves a cotangent |
//! | has a shadow | a pointer | `Pointer`: the forward pass moves a delta |
//! | has a shadow | a store of anything else | `Kill`: the cotangents there end, or must not be there |
//! | has none | something active, stored | a diagnostic, or a check in the run |
//!
//! **Cost.** One walk over the instructions. A store of an integer that is made of active bits
//! walks over the loads of the function as well.

use brolga_ir::inst::Shape;
use brolga_ir::{Diagnostic, Untracked};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, AtomicRmwOp, InstructionData, Opcode, types};
use cranelift_entity::EntitySet;

use super::ambiguous_width::written_as;
use super::answer::{CopyRole, MemRole, State};
use super::context::{ActivityCx, BITS_HELP, LATER_NOTE};
use super::demanded_bits::{DemandInput, demanded_bits, may_be_bits};
use super::float_memory::leads_to;
use super::numbers::is_left;
use crate::kinds::loaded_bits::{becomes_float, goes_on};
use crate::kinds::pointers::{Delta, RootKind};
use crate::kinds::punned_evidence::place_of;
use crate::lattice::kinds::Kinds;
use crate::memory::reaching_store::last_store;
use crate::query::callee::CalleeKind;
use crate::query::cell::{Cell, cell_of};
use crate::query::{
    access_address, access_bytes, access_offset, alternatives, constant_int, signature_id, stored_operand,
};
use crate::variant::{ParamMode, ResultMode};

const BY_TURNS_NOTE: &str = "one place in the shadow cannot be the address of a shadow and a cotangent in the same run";
const BY_TURNS_HELP: &str = "use two places, or do this in memory that the function allocates itself";

impl ActivityCx<'_> {
    /// Whether this function reads a float, or an integer that it makes one or hands on, where
    /// something is stored. What others read there is for the run to see.
    fn is_read_as_float(&self, store: ir::Inst, (base, offset): Cell, bytes: u32) -> bool {
        let (func, cfg) = (self.input.func, self.input.cfg);
        let end = |at: i64, n: u32| at.saturating_add(i64::from(n));
        cfg.all_insts().iter().any(|&inst| {
            let Opcode::Load = func.dfg.insts[inst].opcode() else { return false };
            let (v, addr) = (func.dfg.first_result(inst), func.dfg.inst_args(inst)[0]);
            let cell @ (other, at) = cell_of(func, addr, access_offset(func, inst));
            if other != base || at >= end(offset, bytes) || offset >= end(at, self.ty(v).bytes()) {
                return false;
            }
            let sees = last_store(func, cfg, inst, cell, self.ty(v).bytes()).is_none_or(|f| f.store == store);
            let uses = self.input.uses;
            sees && (self.is_float(v) || becomes_float(func, uses, v) || goes_on(func, uses, v))
        })
    }

    /// Roles of memory accesses, and stores into memory that has no shadow.
    pub(super) fn roles(&mut self) {
        let func = self.input.func;
        let bits = self.may_be_bits(false);
        // Modules are asked if they make numbers; other programs may leave what has shadows, too.
        let asks = self.input.summaries.makes_numbers() || !self.input.program.vmctx_pointers_only;
        let or_hosts = if asks { self.may_be_bits(true) } else { EntitySet::new() };
        self.answer.float_memory = self.float_memory();
        let asks = !self.input.demanded && !self.input.program.vmctx_pointers_only;
        let unknown = if asks { self.unknown_words(&self.answer.float_memory) } else { EntitySet::new() };
        for &b in &self.input.cfg.blocks {
            self.answer.uses_unknown |= self.joins_unknown(b, &unknown);
            self.joins_from_unknown_callee(b);
            for &inst in self.input.cfg.insts(b) {
                if func.dfg.insts[inst].opcode() == Opcode::Return {
                    self.returned(inst);
                }
                if func.dfg.insts[inst].opcode().is_call() {
                    self.floats_of_callees(inst);
                    self.pointers_of_callees(inst);
                    self.bits_for_callees(inst);
                    self.answer.leaves_shadows |= self.may_be_left(inst, &or_hosts);
                }
                if func.dfg.insts[inst].opcode() == Opcode::Bitcast
                    && self.is_float(func.dfg.first_result(inst))
                    && self.is_from_unknown_callee(func.dfg.inst_args(inst)[0])
                {
                    self.bits_from_unknown_callee(inst);
                }
                self.answer.uses_unknown |= self.hands_on_unknown(inst, &unknown);
                if let Some(addr) = access_address(func, inst) {
                    match self.input.pointers.delta[addr] {
                        Delta::Lost => self.lost(inst),
                        Delta::Root(_) => {
                            let mut role = self.role(inst, addr);
                            if let MemRole::Kill { checked, .. } = &mut role {
                                // Elsewhere the caller's seed may lie there.
                                let asks = self.input.program.vmctx_pointers_only || self.is_made_here(addr);
                                *checked |= asks && stored_operand(func, inst).is_some_and(|x| bits.contains(x));
                            }
                            self.answer.mem[inst] = role;
                        }
                        Delta::None | Delta::Unknown => self.const_store(inst, &or_hosts),
                    }
                } else if let Some(CalleeKind::Known(rule)) = CalleeKind::of(self.input.program, func, inst)
                    && let MathKind::Memory(MemFn::Memcpy | MemFn::Memmove) = rule.kind
                {
                    self.copy_role(inst);
                }
            }
        }
        self.answer.possible = bits;
        self.answer.possible_of_host = or_hosts;
    }

    /// Integers without an active value in them, as far as this function knows, that may be a
    /// float's bits, or computed from some. Where all stores of integers are demanded, what may be
    /// such bits is not without.
    ///
    /// `hosts`: a float may also lie where the host alone, or the caller, may have put one.
    fn may_be_bits(&self, hosts: bool) -> EntitySet<ir::Value> {
        if self.input.demanded {
            return EntitySet::new();
        }
        let func = self.input.func;
        let from_memory = |inst: ir::Inst| {
            let addr = access_address(func, inst).expect("a load has an address");
            let of_floats = self.input.pointers.root(addr).is_some();
            let v = func.dfg.first_result(inst);
            let pointer = self.input.pointers.address.contains(v) || self.input.pointers.pointer_copy.contains(v);
            let put = || self.input.program.vmctx_pointers_only || self.declared_floats(addr, access_bytes(func, inst));
            let may = self.active_memory.contains(self.input.contents.find(addr)) || hosts && put();
            of_floats && !pointer && may && !self.is_known(inst)
        };
        let formal = func.dfg.block_params(self.input.cfg.blocks[0]).iter().zip(self.input.params);
        let words = formal.filter(|(v, mode)| !self.input.root && **mode == ParamMode::Const && !self.is_float(**v));
        may_be_bits(&self.input.for_demand(), from_memory, words.map(|(&v, _)| v), |_| true)
    }

    /// Whether a load reads a constant, or a float that is not active.
    pub(super) fn is_known(&self, load: ir::Inst) -> bool {
        let func = self.input.func;
        let addr = access_address(func, load).expect("a load has an address");
        let cell = cell_of(func, addr, access_offset(func, load));
        let found = last_store(func, self.input.cfg, load, cell, access_bytes(func, load));
        found.is_some_and(|f| {
            let x = func.dfg.inst_args(f.store)[0];
            let constant = constant_int(func, x).is_some() || self.is_float(x) && self.answer.state[x] == State::No;
            f.sure && f.offset == 0 && f.bytes == access_bytes(func, load) && constant
        })
    }

    /// Bits that the caller will make a float of must still be a float's, and pointers must have
    /// kept their shadow.
    pub(super) fn returned(&mut self, inst: ir::Inst) {
        for (i, &v) in self.input.func.dfg.inst_args(inst).iter().enumerate() {
            // A function that is called through a pointer cannot know which of its integers are
            // pointers.
            let knows = self.input.params.iter().any(|p| matches!(p, ParamMode::Dup { sure: true, .. }));
            if knows && self.input.results[i] == ResultMode::Ptr && self.input.pointers.delta[v] == Delta::Lost {
                self.lost(inst);
            }
            let of_floats = matches!(self.input.results[i], ResultMode::Bits(s) if !matches!(s, Shape::Bytes { .. }));
            if of_floats && self.is_from_unknown_callee(v) {
                self.bits_from_unknown_callee(inst);
            }
            let calculated =
                self.answer.state[v] == (State::Taint { definite: true }) && !self.answer.pieces.contains(v);
            // Left to the run, the pullback checks that nothing comes from the caller.
            if of_floats && calculated && self.input.untracked == Untracked::Refuse {
                let d = Diagnostic::new(
                    "AD0113",
                    "an integer computed from float bits is returned to a caller that makes a float of it",
                )
                .note(LATER_NOTE)
                .help(BITS_HELP);
                self.problem(inst, None, d);
            }
        }
    }

    /// Whether an integer is what a function that was called through a pointer has returned: that
    /// comes with the delta of a pointer, not with a cotangent.
    fn is_from_unknown_callee(&self, v: ir::Value) -> bool {
        self.comes_from_anyone(v, false)
    }

    /// The same, `through_memory` also of what this function has stored and loaded since.
    fn comes_from_anyone(&self, v: ir::Value, through_memory: bool) -> bool {
        let func = self.input.func;
        let stored_beside = |load: ir::Inst| {
            let class = access_address(func, load).map(|a| self.input.contents.find(a));
            let there = move |&i: &ir::Inst| access_address(func, i).map(|a| self.input.contents.find(a)) == class;
            self.input.cfg.all_insts().iter().copied().filter(there).filter_map(|i| stored_operand(func, i))
        };
        let (mut seen, mut work) = (EntitySet::new(), vec![v]);
        while let Some(v) = work.pop() {
            let Some(root) = self.input.pointers.root(v).filter(|r| seen.insert(*r)) else { continue };
            match self.input.pointers.roots.get(&root) {
                Some(RootKind::Call(inst, k)) => match CalleeKind::of(self.input.program, func, *inst) {
                    Some(CalleeKind::Indirect(_)) => return true,
                    Some(CalleeKind::Derived(f)) => {
                        let Some(from) = self.input.summaries.pointer_result(f, *k) else { continue };
                        if from.unknown_callee {
                            return true;
                        }
                        work.extend(from.params.iter().map(|&i| func.dfg.inst_args(*inst)[i]));
                    }
                    _ => {}
                },
                Some(RootKind::Phi(b, i)) => work.extend(self.input.cfg.incoming(*b, *i)),
                Some(RootKind::Select(inst)) => work.extend(alternatives(func, *inst)),
                Some(RootKind::Load(inst)) if through_memory => work.extend(stored_beside(*inst)),
                _ => {}
            }
        }
        false
    }

    /// Whether an instruction stores integers, hands them to a callee, makes a float of them, or
    /// puts them together with floats' bits, although they may be such themselves and nothing says
    /// so.
    fn hands_on_unknown(&self, inst: ir::Inst, unknown: &EntitySet<ir::Value>) -> bool {
        let func = self.input.func;
        let op = func.dfg.insts[inst].opcode();
        let is = |a: &ir::Value| unknown.contains(*a) && self.answer.state[*a] == State::No;
        if let Some(x) = stored_operand(func, inst) {
            return is(&x);
        }
        let args = &func.dfg.inst_args(inst)[usize::from(op == Opcode::Select)..];
        let callee = || matches!(CalleeKind::of(self.input.program, func, inst), Some(CalleeKind::Derived(_)));
        let joined = || func.dfg.inst_results(inst).iter().any(|&r| self.answer.state[r] != State::No);
        let made = || op == Opcode::Bitcast && self.is_float(func.dfg.first_result(inst));
        args.iter().any(is) && if op.is_call() { callee() } else { joined() || made() }
    }

    /// The same of a block that such integers come to where others carry floats' bits.
    fn joins_unknown(&self, block: ir::Block, unknown: &EntitySet<ir::Value>) -> bool {
        let (func, cfg) = (self.input.func, self.input.cfg);
        let is = |a: ir::Value| unknown.contains(a) && self.answer.state[a] == State::No;
        let params = func.dfg.block_params(block).iter().enumerate().filter(|_| block != cfg.blocks[0]);
        let mut active = params.filter(|p| self.answer.state[*p.1] != State::No);
        active.any(|(n, _)| cfg.incoming(block, n).any(is))
    }

    /// One of several integers carries a float's bits, and one is such an integer.
    fn joins_from_unknown_callee(&mut self, block: ir::Block) {
        let func = self.input.func;
        let selected = self.input.cfg.insts(block).iter().copied();
        let selected = selected.filter(|&i| func.dfg.insts[i].opcode() == Opcode::Select);
        let first = self.input.cfg.insts(block).first().copied();
        let params = func.dfg.block_params(block).iter().filter_map(|&v| Some((first?, v)));
        let all = params.chain(selected.map(|i| (i, func.dfg.first_result(i))));
        for (inst, v) in all.collect::<Vec<_>>() {
            if self.answer.is_varied(v) && !self.is_float(v) && self.is_from_unknown_callee(v) {
                self.bits_from_unknown_callee(inst);
            }
        }
    }

    /// Such an integer is put where a float is read, or becomes one. If it is an address, it has no
    /// business there.
    fn bits_from_unknown_callee(&mut self, inst: ir::Inst) {
        let d = Diagnostic::new(
            "AD0113",
            "an integer that a function called through a pointer returned goes where a float is read",
        )
        .note("which callees return the bits of a float cannot be told here")
        .help("return the float as a float");
        self.problem(inst, None, d);
    }

    /// The same where a function is called that makes a float of what it is given.
    fn bits_for_callees(&mut self, inst: ir::Inst) {
        let func = self.input.func;
        let args = func.dfg.inst_args(inst);
        let summaries = self.input.summaries;
        let takes_bits = |i: usize| match (CalleeKind::of(self.input.program, func, inst), func.dfg.insts[inst]) {
            (Some(CalleeKind::Derived(callee)), _) => summaries.param_lane(callee, i) != 0,
            // The first is the address of the code.
            (_, InstructionData::CallIndirect { sig_ref, .. }) => {
                i > 0 && summaries.takes_bits_through(signature_id(&func.dfg.signatures[sig_ref]), i - 1)
            }
            _ => false,
        };
        if (0..args.len()).any(|i| takes_bits(i) && self.is_from_unknown_callee(args[i])) {
            self.bits_from_unknown_callee(inst);
        }
    }

    pub(super) fn lost(&mut self, inst: ir::Inst) {
        let d = Diagnostic::new(
            "AD0130",
            "the address was computed from a pointer by arithmetic that its shadow cannot follow",
        )
        .note("addition, subtraction, alignment by a constant mask, select and block parameters are followed")
        .help("keep the base pointer and add an offset to it");
        self.problem(inst, None, d);
    }

    /// Whether a callee may store integers that may be a float's bits where there is no shadow.
    fn may_be_left(&self, call: ir::Inst, bits: &EntitySet<ir::Value>) -> bool {
        let func = self.input.func;
        let args = || func.dfg.inst_args(call).iter();
        matches!(CalleeKind::of(self.input.program, func, call), Some(CalleeKind::Derived(_)))
            && args().any(|&a| bits.contains(a) && self.ty(a).bytes() >= 4)
            && args().any(|&a| is_left(self.input.pointers, a))
    }

    fn const_store(&mut self, inst: ir::Inst, bits: &EntitySet<ir::Value>) {
        let func = self.input.func;
        if let (Some(x), Some(addr)) = (stored_operand(func, inst), access_address(func, inst)) {
            let lost = match self.answer.state[x] {
                State::No => false,
                State::Varied { definite: true } => true,
                State::Taint { definite: true } if self.answer.pieces.contains(x) => true,
                // Of what may be a number it counts whether a float is made of it.
                _ => self.reads_unshadowed_floats(addr),
            };
            let computed = self.input.demanded && self.answer.state[x] != State::No;
            self.answer.leaves_shadows |= access_bytes(func, inst) >= 4 && (computed || bits.contains(x));
            if lost {
                let d = Diagnostic::new("AD0120", "an active value is stored in memory that has no shadow")
                    .note("a later load of it would have no derivative, silently")
                    .help("mark the pointer duplicated and give it a shadow, or mark the inputs of the value const");
                self.problem(inst, None, d);
            }
        }
    }

    /// Whether this function reads floats where an address without a shadow leads to, or integers
    /// that become such.
    fn reads_unshadowed_floats(&self, addr: ir::Value) -> bool {
        let (func, contents) = (self.input.func, self.input.contents);
        let class = contents.find(addr);
        let made = self.made_floats.get_or_init(|| {
            let input = DemandInput { stores: false, ..self.input.for_demand() };
            demanded_bits(&input, |k| matches!(self.input.results[k], ResultMode::Bits(_)))
        });
        self.input.cfg.all_insts().iter().filter(|&&i| func.dfg.insts[i].opcode().can_load()).any(|&i| {
            let Some(from) = access_address(func, i).filter(|&a| contents.find(a) == class) else { return false };
            let v = func.dfg.first_result(i);
            self.input.pointers.root(from).is_none() && (self.is_float(v) || made[v].is_some())
        })
    }

    pub(super) fn role(&mut self, inst: ir::Inst, addr: ir::Value) -> MemRole {
        let func = self.input.func;
        let op = func.dfg.insts[inst].opcode();
        let args = func.dfg.inst_args(inst);
        match op {
            Opcode::Load | Opcode::AtomicLoad => {
                let v = func.dfg.first_result(inst);
                if self.input.pointers.root(v) == Some(v) {
                    MemRole::Pointer
                } else if self.answer.pieces.contains(v) {
                    MemRole::Float(self.bytes_at(inst, addr))
                } else if self.answer.is_varied(v) {
                    self.answer.shape(func, v).map_or(MemRole::None, MemRole::Float)
                } else {
                    MemRole::None
                }
            }
            Opcode::Store | Opcode::AtomicStore => {
                let x = args[0];
                let bytes = self.ty(x).bytes();
                let kill = |checked| MemRole::Kill { bytes, checked };
                let k = self.kinds_at(inst, addr);
                if self.input.pointers.root(x).is_some() {
                    let over =
                        self.input.contents.float_overlaps(cell_of(func, addr, access_offset(func, inst)), bytes);
                    let sure = over != Kinds::NONE || self.declared_floats(addr, bytes);
                    if (sure || k.has_float()) && self.comes_from_anyone(x, sure) {
                        self.bits_from_unknown_callee(inst);
                    }
                    return MemRole::Pointer;
                }
                let cell = cell_of(func, addr, access_offset(func, inst));
                let behind = |at| self.input.contents.of_cell((cell.0, cell.1.wrapping_add(at))).has(Kinds::POINTER);
                let pointers = k.has(Kinds::POINTER) || bytes > 8 && behind(8);
                if self.input.pointers.delta[x] == Delta::Lost && pointers {
                    // A load of it as a pointer would find no shadow.
                    self.lost(inst);
                }
                match self.answer.state[x] {
                    State::Varied { .. } => {
                        self.puns(inst, addr);
                        if self.answer.pieces.contains(x) {
                            return MemRole::Float(self.bytes_at(inst, addr));
                        }
                        self.answer.shape(func, x).map_or(kill(true), MemRole::Float)
                    }
                    State::Taint { .. } if self.answer.pieces.contains(x) => {
                        self.puns(inst, addr);
                        MemRole::Float(self.bytes_at(inst, addr))
                    }
                    State::Taint { definite } => {
                        let cell = cell_of(func, addr, access_offset(func, inst));
                        if definite
                            && self.input.contents.float_overlaps(cell, bytes) != Kinds::NONE
                            && self.is_read_as_float(inst, cell, bytes)
                        {
                            let d = Diagnostic::new("AD0110", "bits that integer arithmetic computed from an active float are stored where a float is read")
                                .note("only sign changes, lane masks and unchanged copies of float bits can be differentiated")
                                .help(BITS_HELP);
                            self.problem(inst, None, d);
                        }
                        kill(true)
                    }
                    State::No if self.ty(x) == types::I64 && k.moved() == Kinds::POINTER => MemRole::Pointer,
                    State::No => kill(false),
                }
            }
            Opcode::Uload8 | Opcode::Sload8 | Opcode::Uload16 | Opcode::Sload16 | Opcode::Uload32 | Opcode::Sload32
                if self.answer.pieces.contains(func.dfg.first_result(inst)) =>
            {
                MemRole::Float(self.bytes_at(inst, addr))
            }
            Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 if self.answer.pieces.contains(args[0]) => {
                self.puns(inst, addr);
                MemRole::Float(self.bytes_at(inst, addr))
            }
            Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 => {
                let bytes = access_bytes(func, inst);
                MemRole::Kill { bytes, checked: self.answer.state[args[0]] != State::No }
            }
            Opcode::AtomicRmw | Opcode::AtomicCas => {
                let bytes = self.ty(func.dfg.first_result(inst)).bytes();
                let x = stored_operand(func, inst).expect("an atomic update writes");
                if self.answer.is_varied(x) {
                    let d = Diagnostic::new("AD0108", "an atomic update writes the bits of an active float")
                        .note("which of the competing updates won is not known to the pullback")
                        .help("accumulate per thread and add up afterwards");
                    self.problem(inst, None, d);
                }
                // What an exchange writes is known; what was there is not known, but its cotangent
                // ends here.
                let InstructionData::AtomicRmw { op: AtomicRmwOp::Xchg, .. } = func.dfg.insts[inst] else {
                    return MemRole::Kill { bytes, checked: true };
                };
                MemRole::Kill { bytes, checked: self.answer.state[x] != State::No }
            }
            _ => MemRole::None,
        }
    }

    /// A place in memory of another function that holds pointers and active floats by turns:
    /// whether its shadow is an address or a cotangent when the float is stored cannot be told.
    fn puns(&mut self, inst: ir::Inst, addr: ir::Value) {
        let func = self.input.func;
        let cell = cell_of(func, addr, access_offset(func, inst));
        let bytes = access_bytes(func, inst);
        let place = self.place_of(addr, access_offset(func, inst));
        if !self.is_made_here(addr)
            && (self.input.contents.of_cell(cell).has(Kinds::POINTER) || self.punned.pointer(place, bytes))
        {
            let d = Diagnostic::new("AD0142", "an active float is stored where this function also keeps a pointer");
            self.problem(inst, None, d.note(BY_TURNS_NOTE).help(BY_TURNS_HELP));
        }
    }

    /// The same where a callee stores the float. In memory that this function has made, a callee
    /// that is known clears the shadow, as this function would (`ParamMode::Dup`, `recycled`).
    fn floats_of_callees(&mut self, call: ir::Inst) {
        let func = self.input.func;
        let direct = func.dfg.insts[call].opcode() == Opcode::Call;
        let args = func.dfg.inst_args(call);
        let clash = self.punned.stored_by(call).iter().any(|&(cell, bytes)| {
            // Which of the arguments leads there.
            let to = args.iter().filter(|&&a| self.place_of(a, 0).0 == cell.0);
            let made_here = direct && to.clone().all(|&a| self.is_made_here(a));
            !made_here && to.clone().any(|&a| self.input.pointers.root(a).is_some()) && self.punned.pointer(cell, bytes)
        });
        if clash {
            let d = Diagnostic::new(
                "AD0142",
                "the callee stores a float where this function keeps a pointer, or another callee",
            );
            self.problem(call, None, d.note(BY_TURNS_NOTE).help(BY_TURNS_HELP));
        }
    }

    /// Where a callee that is called through a pointer keeps a pointer in a place of floats. One
    /// that is known clears the cotangent on the way back (`ParamMode::Dup`, `floats`).
    fn pointers_of_callees(&mut self, call: ir::Inst) {
        let func = self.input.func;
        if func.dfg.insts[call].opcode() == Opcode::Call {
            return;
        }
        let args = func.dfg.inst_args(call);
        let clash = self.punned.pointers_of(call).iter().any(|&cell| {
            let mut to = args.iter().filter(|&&a| self.place_of(a, 0).0 == cell.0);
            self.punned.float(cell) && to.any(|&a| self.input.pointers.root(a).is_some())
        });
        if clash {
            let d = Diagnostic::new(
                "AD0142",
                "the callee keeps a pointer where this function stores a float, or another callee",
            );
            self.problem(call, None, d.note(BY_TURNS_NOTE).help(BY_TURNS_HELP));
        }
    }

    fn place_of(&self, addr: ir::Value, off: i32) -> Cell {
        place_of(self.input.program, self.input.func, self.input.pointers, addr, off)
    }

    /// Whether an address leads to memory that this call has made.
    fn is_made_here(&self, addr: ir::Value) -> bool {
        let p = self.input.pointers;
        p.root(addr).is_some_and(|r| p.made_here.contains(r))
    }

    pub(super) fn copy_role(&mut self, inst: ir::Inst) {
        let func = self.input.func;
        let args = func.dfg.inst_args(inst);
        let p = self.input.pointers;
        if p.delta[args[0]] == Delta::Lost || p.delta[args[1]] == Delta::Lost {
            self.lost(inst);
            return;
        }
        let k = self.input.contents.of_class(args[0]);
        let mixed = Kinds::F64.join(Kinds::F32);
        let moved = if self.input.program.unaligned_doubles && k.moved() == Kinds::F64 { mixed } else { k.moved() };
        let role = match moved {
            Kinds::F64 => CopyRole::Floats(8),
            Kinds::F32 => CopyRole::Floats(4),
            Kinds::POINTER if !self.may_be_floats(args[0]) && !self.may_be_floats(args[1]) => CopyRole::Pointers,
            // What a module copies may be floats that other functions, or the host, have put there.
            Kinds::NONE if self.input.program.vmctx_pointers_only => CopyRole::Mixed,
            Kinds::NONE if k.has(Kinds::INT) => {
                let active = |&a: &ir::Value| self.active_memory.contains(self.input.contents.find(a));
                let active = args[..2].iter().any(active);
                self.answer.uses_unknown |=
                    args[..2].iter().any(|&a| leads_to(&self.answer.float_memory, self.input.contents, a));
                if self.input.demanded && active { CopyRole::Mixed } else { CopyRole::Ints }
            }
            _ if let Some(fields) = self.fields(inst, mixed == moved)
                && (moved != Kinds::POINTER || fields.iter().all(|f| matches!(f.1, MemRole::Pointer)))
                && (mixed != moved || fields.iter().all(|f| matches!(f.1, MemRole::Float(_)))) =>
            {
                CopyRole::Fields(fields)
            }
            moved if moved == mixed => CopyRole::Mixed,
            // The forward pass asks the shadow which words are pointers.
            _ if p.root(args[0]).is_some() || p.root(args[1]).is_some() => CopyRole::Mixed,
            _ => CopyRole::Ints,
        };
        if p.root(args[0]).is_none()
            && p.root(args[1]).is_some()
            && matches!(role, CopyRole::Floats(_) | CopyRole::Mixed)
        {
            let d = Diagnostic::new("AD0120", "active memory is copied into memory that has no shadow")
                .help("mark the destination duplicated and give it a shadow, or mark the source const");
            self.problem(inst, None, d);
        }
        self.answer.copies[inst] = Some(role);
    }

    /// Whether a caller may have put floats beside the pointers that this function sees there.
    fn may_be_floats(&self, addr: ir::Value) -> bool {
        let class = self.input.contents.find(addr);
        let is_outside = self.input.pointers.root(addr).is_some() && !self.is_made_here(addr);
        is_outside && self.active_memory.contains(class) && self.answer.float_memory.contains(class)
    }

    /// The fields of a copy of known size, word by word, if every word is of one known kind. Where
    /// floats of both sizes are about, what is known of a word is only what has just been written
    /// there: what it is taken for on other ways is no news (see [`super::ambiguous_width`]).
    pub(super) fn fields(&self, inst: ir::Inst, mixed: bool) -> Option<Vec<(i32, MemRole)>> {
        let func = self.input.func;
        let args = func.dfg.inst_args(inst);
        let written = |at: i64, bytes: u32, role: &MemRole| match role {
            MemRole::Float(s) => written_as(self.input, inst, cell_of(func, args[1], at as i32), bytes, s.lane_bytes()),
            _ => true,
        };
        let n = constant_int(func, args[2]).filter(|n| (0..=4096).contains(n))?;
        let of = |p: ir::Value, at: i64| {
            let cell = cell_of(func, p, at as i32);
            self.input.contents.of_cell(cell).moved()
        };
        // What lies in a place that is copied onto itself is known for before or after, not both.
        let [to, from] = [args[0], args[1]].map(|p| cell_of(func, p, 0));
        if to.0 == from.0 && to.1 != from.1 && to.1.abs_diff(from.1) < n.unsigned_abs() {
            return None;
        }
        let mut out = Vec::new();
        let mut known = false;
        for at in (0..n).step_by(8) {
            let bytes = (n - at).min(8) as u32;
            let low = of(args[0], at).join(of(args[1], at));
            let high = of(args[0], at + 4).join(of(args[1], at + 4));
            let role = match (low, high) {
                (Kinds::F64, Kinds::NONE) if bytes == 8 => MemRole::Float(Shape::F64),
                (Kinds::POINTER, Kinds::NONE) if bytes == 8 => MemRole::Pointer,
                (Kinds::F32 | Kinds::NONE, Kinds::F32) | (Kinds::F32, Kinds::NONE) if bytes == 8 => {
                    MemRole::Float(Shape::F32Pair)
                }
                (Kinds::F32, Kinds::NONE) if bytes == 4 => MemRole::Float(Shape::F32),
                (Kinds::NONE, Kinds::NONE) => MemRole::Kill { bytes, checked: true },
                _ => return None,
            };
            if mixed && !written(at, bytes, &role) {
                return None;
            }
            known |= matches!(role, MemRole::Float(_) | MemRole::Pointer);
            out.push((at as i32, role));
        }
        known.then_some(out)
    }
}
