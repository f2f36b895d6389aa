//! Variedness: activity analysis forwards, the state of each value, instruction by instruction.
//!
//! **Question.** Which values depend on an active input, and is each a float, an integer that
//! carries one unchanged, or an integer that was computed from one?
//!
//! **Answer.** The lattice in the header of [`super`]. Each instruction has a transfer function: a
//! row of the rule table says whether a result varies with its operands, moves of bits keep the
//! state, other arithmetic on bits taints. Memory has one state for each class
//! ([`crate::kinds::contents`]), and places for what is stored at a known offset.
//!
//! **Cost.** States only grow, so each block is looked at again at most as often as a state of what
//! it reads grows ([`super::dirty`]).
//!
//! **Source.** Hascoët and Pascual, *The Tapenade automatic differentiation tool* (2013); that bits
//! may be carried by integers is our addition.

use brolga_ir::inst::Shape;
use brolga_ir::request::Elem;
use brolga_ir::{Diagnostic, Untracked};
use brolga_rules::{MathKind, OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef, types};
use smallvec::SmallVec;

use super::answer::State;
use super::context::{ActivityCx, BITS_HELP};
use super::dirty::OpenBlocks;

use crate::bits::bit_idioms;
use crate::bits::bytes::bytes_of;
use crate::bits::exponent::leaves_exponent_beside;
use crate::kinds::loaded_bits::{becomes_float, goes_on, is_handed_on, moves_half};
use crate::kinds::pointers::{Delta, RootKind, declared_elem};
use crate::lattice::kinds::Kinds;
use crate::memory::reaching_store;
use crate::query::callee::{CalleeKind, computed_operands};
use crate::query::cell::{Cell, cell_of};
use crate::query::{
    access_address, access_offset, is_integer_access, is_one_lane, is_plain_integer, signature_id, stored_operand,
};
use crate::summary::Sources;
use crate::uses::Use;
use crate::variant::ParamMode;

impl ActivityCx<'_> {
    /// An integer that varies needs a lane width; without one it is opaque.
    pub(super) fn carried(&self, v: ir::Value, definite: bool) -> State {
        if self.answer.shape(self.input.func, v).is_some() {
            State::Varied { definite }
        } else {
            State::Taint { definite }
        }
    }

    /// The state of an integer that receives floats from `from`, all of which must be of the width
    /// of its own.
    fn received(&mut self, v: ir::Value, from: &[ir::Value], definite: bool) -> State {
        let width = |x: ir::Value| self.answer.shape(self.input.func, x).map(Shape::lane_bytes);
        if from.iter().any(|&x| self.answer.is_varied(x) && width(x) != width(v)) {
            return State::Taint { definite };
        }
        self.carried(v, definite)
    }

    /// The state of a value that is one of several others.
    fn joined(&mut self, v: ir::Value, from: &[ir::Value]) -> State {
        let mut s = self.any_state(from);
        let (floats, others): (SmallVec<[ir::Value; 4]>, SmallVec<[ir::Value; 4]>) =
            from.iter().copied().partition(|&x| !matches!(self.answer.state[x], State::Taint { .. }));
        if !others.is_empty() && self.joins.contains(v) && floats.iter().any(|&x| self.answer.is_varied(x)) {
            s = self.any_state(&floats);
        }
        if let State::Varied { definite } = s { self.received(v, from, definite) } else { s }
    }

    /// Note the values that are a float's bits or an integer that no rule follows; whether there
    /// are any that have not been noted.
    pub(super) fn more_joins(&mut self) -> bool {
        let func = self.input.func;
        let mut found = Vec::new();
        for v in func.dfg.values().filter(|&v| !func.dfg.value_is_alias(v)) {
            // What is surely no number is refused, unless that is left to the run.
            let asks = match self.answer.state[v] {
                State::Taint { definite } => !definite || self.input.untracked == Untracked::Trap,
                _ => false,
            };
            let is_full_width =
                matches!(self.ty(v), types::I32 | types::I64) && self.answer.lane[v] == self.ty(v).bytes();
            if !asks || !is_full_width || self.answer.pieces.contains(v) || self.joins.contains(v) {
                continue;
            }
            let from: SmallVec<[ir::Value; 4]> = match func.dfg.value_def(v) {
                ValueDef::Param(b, _) if b == self.input.cfg.blocks[0] => continue,
                ValueDef::Param(b, i) => self.input.cfg.incoming(b, i).collect(),
                ValueDef::Result(inst, _) if func.dfg.insts[inst].opcode() == Opcode::Select => {
                    func.dfg.inst_args(inst)[1..].into()
                }
                _ => continue,
            };
            let fits = |&x: &ir::Value| self.answer.is_varied(x) && self.answer.lane[x] == self.answer.lane[v];
            let floats = from.iter().filter(|x| self.answer.is_varied(**x));
            if floats.clone().count() > 0 && floats.into_iter().all(fits) {
                found.push(v);
            }
        }
        let more = !found.is_empty();
        self.joins.extend(found);
        more
    }

    pub(super) fn varied(&mut self) {
        let (func, cfg) = (self.input.func, self.input.cfg);
        let shared = self.input.program.has_writable_data();
        if !shared && self.input.params.iter().all(|p| *p == ParamMode::Const) {
            self.answer.constant = true;
            // Nothing active comes in, so nothing is active, in whatever memory.
            return;
        }
        for (i, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
            match self.input.params[i] {
                ParamMode::Active => self.answer.state[v] = State::Varied { definite: true },
                ParamMode::Bits { shape: Shape::Bytes { .. } | Shape::Demand { .. }, definite } => {
                    self.answer.state[v] = State::Taint { definite }
                }
                // A function that is sure of another width than its caller has no cotangent that
                // the caller could take.
                ParamMode::Bits { shape, definite } if self.answer.shape(func, v) != Some(shape) => {
                    self.answer.state[v] = State::Taint { definite };
                }
                ParamMode::Bits { definite, .. } => self.answer.state[v] = State::Varied { definite },
                ParamMode::Opaque { definite } => self.answer.state[v] = State::Taint { definite },
                ParamMode::Const | ParamMode::Dup { .. } => {}
            }
        }
        self.memory_from_outside();
        // A block is looked at again if something that it reads has changed.
        let mut open = OpenBlocks::new(func);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for &b in &cfg.blocks {
                if open.take(b) {
                    changed |= self.varied_in(b, &mut open);
                }
            }
        }
        debug_assert!(self.nothing_more(&mut open), "a block was not looked at again");
    }

    /// Whether all blocks have nothing to add, nor to object.
    fn nothing_more(&mut self, open: &mut OpenBlocks) -> bool {
        let problems = self.problems.len();
        let cfg = self.input.cfg;
        !cfg.blocks.iter().any(|&b| self.varied_in(b, open)) && self.problems.len() == problems
    }

    /// Look at a block; whether anything has changed, in which case `open` has the blocks that may
    /// see it.
    fn varied_in(&mut self, b: ir::Block, open: &mut OpenBlocks) -> bool {
        let (func, cfg) = (self.input.func, self.input.cfg);
        let mut changed = false;
        if b != cfg.blocks[0] {
            for (i, &v) in func.dfg.block_params(b).iter().enumerate() {
                let args: SmallVec<[ir::Value; 4]> = cfg.incoming(b, i).collect();
                let s = self.joined(v, &args);
                if self.raise(v, s) {
                    changed = true;
                    self.open_users(v, open);
                }
            }
        }
        for &inst in cfg.insts(b) {
            if self.stored(inst) {
                changed = true;
                open.all();
            }
            for (k, &v) in func.dfg.inst_results(inst).iter().enumerate() {
                let s = self.transfer(inst, k, v);
                if self.raise(v, s) {
                    changed = true;
                    self.open_users(v, open);
                }
            }
        }
        changed
    }

    /// Note the blocks in which an instruction may see that a value has changed. Expressions and
    /// branches see no more than their operands, bit operations where those come from, and loads
    /// what was stored.
    fn open_users(&self, v: ir::Value, open: &mut OpenBlocks) {
        let (func, cfg) = (self.input.func, self.input.cfg);
        for u in self.input.uses.of(v) {
            let block = match *u {
                Use::Edge(_, p) => cfg.def_block[p],
                Use::Inst(inst, _) => match opcode_rule(func.dfg.insts[inst].opcode()) {
                    OpcodeRule::Expr(_) | OpcodeRule::Zero => func.layout.inst_block(inst),
                    _ => None,
                },
            };
            match block {
                Some(b) => open.one(b),
                None => open.all(),
            }
        }
    }

    /// Memory that this function has not made, or that others may write to: it may hold something
    /// active from the start. With the address of a struct come the addresses in it.
    fn memory_from_outside(&mut self) {
        let (func, cfg, p) = (self.input.func, self.input.cfg, self.input.pointers);
        for (&r, kind) in &p.roots {
            if !matches!(kind, RootKind::Slot(_)) {
                self.reached_from_outside(r);
            }
        }
        for &call in &cfg.calls {
            for &a in func.dfg.inst_args(call) {
                if p.root(a).is_some() {
                    self.reached_from_outside(a);
                }
            }
        }
    }

    fn reached_from_outside(&mut self, addr: ir::Value) {
        let mut next = Some(addr);
        while let Some(v) = next {
            let class = self.input.contents.find(v);
            if !self.active_memory.insert(class) {
                return;
            }
            next = self.input.contents.pointee(class);
        }
    }

    /// A store of something active makes its memory active.
    fn stored(&mut self, inst: ir::Inst) -> bool {
        let func = self.input.func;
        let Some(x) = stored_operand(func, inst) else { return false };
        let addr = access_address(func, inst).expect("a store has an address");
        if self.answer.state[x] == State::No {
            return self.may_be_active(x) && self.active_memory.insert(self.input.contents.find(addr));
        }
        let (base, offset) = cell_of(func, addr, access_offset(func, inst));
        let place = (offset, crate::query::access_bytes(func, inst));
        let places = self.holding.entry(base).or_default();
        let new = !places.contains(&place);
        if new {
            places.push(place);
        }
        self.active_memory.insert(self.input.contents.find(addr)) || new
    }

    /// Whether something active is stored to a place of this name, or computed from it, whenever
    /// that may be.
    fn holds(&self, (base, offset): Cell, bytes: u32) -> bool {
        let end = |at: i64, n: u32| at.saturating_add(i64::from(n));
        let overlaps = |&(at, n): &(i64, u32)| at < end(offset, bytes) && offset < end(at, n);
        self.holding.get(&base).is_some_and(|places| places.iter().any(overlaps))
    }

    pub(super) fn raise(&mut self, v: ir::Value, s: State) -> bool {
        let old = self.answer.state[v];
        self.answer.state[v] = old.max(s);
        self.answer.state[v] != old
    }

    pub(super) fn any_state(&self, args: &[ir::Value]) -> State {
        args.iter().map(|&a| self.answer.state[a]).max().unwrap_or_default()
    }

    /// The result of integer arithmetic on something.
    pub(super) fn tainted(&self, args: &[ir::Value]) -> State {
        let sure = |a: &ir::Value| {
            matches!(self.answer.state[*a], State::Varied { definite: true } | State::Taint { definite: true })
        };
        match self.any_state(args) {
            State::No => State::No,
            _ => State::Taint { definite: args.iter().any(sure) },
        }
    }

    pub(super) fn transfer(&mut self, inst: ir::Inst, k: usize, v: ir::Value) -> State {
        let func = self.input.func;
        let args = func.dfg.inst_args(inst);
        let op = func.dfg.insts[inst].opcode();
        let varied = State::Varied { definite: true };
        if let Some(n) = self.input.steps.of(inst) {
            let number = if self.input.steps.adds_digits(inst) { State::No } else { self.answer.state[args[1 - n]] };
            return self.step(v, args[n], args[1 - n], number);
        }
        match opcode_rule(op) {
            OpcodeRule::Expr(row) => {
                let flows = |i: usize| !row.partial(0, i).is_zero();
                let any = args.iter().enumerate().any(|(i, &a)| flows(i) && self.answer.is_varied(a));
                if any && !self.rounding.contains(inst) { varied } else { State::No }
            }
            OpcodeRule::Zero if self.converted.contains(inst) && self.answer.is_varied(args[0]) => {
                State::Taint { definite: true }
            }
            OpcodeRule::Zero => {
                if matches!(op, Opcode::FcvtFromSint | Opcode::FcvtFromUint)
                    && matches!(
                        self.answer.state[args[0]],
                        State::Taint { definite: true } | State::Varied { definite: true }
                    )
                    && !self.are_beside_floats(args[0])
                {
                    let d = Diagnostic::new("AD0112", "float bits are converted as if they were an integer number")
                        .note(
                            "the integer holds the bits of an active float, and how the result depends on them is lost",
                        )
                        .help(BITS_HELP);
                    self.problem(inst, Some(v), d);
                    return varied;
                }
                State::No
            }
            OpcodeRule::NotFloat => self.tainted(args),
            OpcodeRule::Refused(_) => State::No,
            OpcodeRule::Structural(s) => self.structural(inst, k, v, op, s),
        }
    }

    pub(super) fn structural(&mut self, inst: ir::Inst, k: usize, v: ir::Value, op: Opcode, s: Structural) -> State {
        let func = self.input.func;
        let args = func.dfg.inst_args(inst);
        match s {
            Structural::Load | Structural::IntLoad if self.input.constant.contains(inst) => State::No,
            Structural::Load | Structural::AtomicLoad => self.load(inst, v),
            Structural::IntLoad => {
                let addr = access_address(func, inst).expect("a load has an address");
                if !matches!(self.input.pointers.delta[addr], Delta::Root(_)) {
                    return State::No;
                }
                let cell = cell_of(func, addr, access_offset(func, inst));
                if self.input.contents.float_overlaps(cell, crate::query::access_bytes(func, inst)) != Kinds::NONE {
                    return State::Taint { definite: true };
                }
                self.part(inst, addr, cell)
            }
            Structural::AtomicRmw | Structural::AtomicCas => {
                let addr = access_address(func, inst).expect("an access has an address");
                if !matches!(self.input.pointers.delta[addr], Delta::Root(_)) {
                    return State::No;
                }
                let k = self.input.contents.at(cell_of(func, addr, 0), addr);
                let active = self.active_memory.contains(self.input.contents.find(addr));
                let demanded = active && self.demand[v].is_some();
                if k.has_float() || demanded { State::Taint { definite: false } } else { State::No }
            }
            Structural::Select => self.joined(v, &args[1..]),
            Structural::Band if self.is_exponent(inst, v) => State::No,
            Structural::Bitselect
            | Structural::Blendv
            | Structural::Band
            | Structural::Bor
            | Structural::Bxor
            | Structural::Bnot => self.bitwise(inst, v),
            Structural::Bitcast => self.bitcast(inst, v),
            Structural::Splat
            | Structural::Insertlane
            | Structural::Extractlane
            | Structural::ScalarToVector
            | Structural::Shuffle => match self.any_state(args) {
                State::Varied { definite } if self.moves_lanes(inst, v) => self.received(v, args, definite),
                _ => self.tainted(args),
            },
            Structural::Swizzle | Structural::Pshufb => match self.answer.state[args[0]] {
                State::Varied { definite } => self.received(v, &args[..1], definite),
                s => s.max(self.tainted(&args[1..])),
            },
            Structural::Promote | Structural::Demote | Structural::PromoteLow | Structural::DemoteLow => {
                self.answer.state[args[0]]
            }
            Structural::Call | Structural::CallIndirect => self.call(inst, k, v),
            Structural::IntArith | Structural::IntBits => match op {
                Opcode::Isplit | Opcode::Iconcat if self.answer.lane[v] == 8 => match self.any_state(args) {
                    State::Varied { definite } => self.received(v, args, definite),
                    s => s,
                },
                Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr
                    if moves_half(func, inst) && self.answer.lane[v] == 4 && self.answer.lane[args[0]] == 4 =>
                {
                    match self.answer.state[args[0]] {
                        State::Varied { definite } => self.carried(v, definite),
                        s => s,
                    }
                }
                _ if self.is_exponent(inst, v) => State::No,
                _ => self.tainted(args),
            },
            Structural::Store
            | Structural::IntStore
            | Structural::AtomicStore
            | Structural::TailCall
            | Structural::TailCallIndirect
            | Structural::StackAddr
            | Structural::SymbolValue
            | Structural::FuncAddr
            | Structural::Control
            | Structural::Trap
            | Structural::Effect
            | Structural::Machine => State::No,
        }
    }

    /// Whether nothing of a float is left but its sign and exponent. But if a part of memory is
    /// made of it, or of a float, that is a part of a float.
    fn is_exponent(&self, inst: ir::Inst, v: ir::Value) -> bool {
        let func = self.input.func;
        let goes = || goes_on(func, self.input.uses, v) || becomes_float(func, self.input.uses, v);
        let number = |param: usize| self.input.params[param] == ParamMode::Const;
        leaves_exponent_beside(func, self.input.cfg, inst, &number) && !(bytes_of(func, inst).is_some() && goes())
    }

    /// The sum of what may be a float's bits, and something else.
    fn step(&self, v: ir::Value, bits: ir::Value, number: ir::Value, state: State) -> State {
        let is_full_width = |x: ir::Value| self.answer.lane[x] == self.ty(x).bytes();
        // What is demanded of a number that is added does not concern what it is added to.
        let apart = matches!(state, State::No | State::Taint { definite: false });
        match self.answer.state[bits] {
            State::No => self.tainted(&[number]),
            s if !apart => s.max(self.tainted(&[bits, number])),
            State::Varied { definite } if !(is_full_width(v) && is_full_width(bits)) => State::Taint { definite },
            s => s,
        }
    }

    /// Whether a lane instruction moves whole floats.
    pub(super) fn moves_lanes(&self, inst: ir::Inst, v: ir::Value) -> bool {
        let func = self.input.func;
        let lane = self.answer.shape(func, v).map_or(0, Shape::lane_bytes);
        if let InstructionData::Shuffle { imm, .. } = func.dfg.insts[inst] {
            let mask = func.dfg.immediates[imm].as_slice();
            // Lanes that are no whole float may be there, if nothing uses them: the pullback
            // checks.
            return lane != 0 && mask.chunks(lane as usize).any(|l| is_one_lane(l, lane));
        }
        let vector =
            func.dfg.inst_args(inst).iter().chain(func.dfg.inst_results(inst)).find(|&&x| self.ty(x).is_vector());
        // A lane of eight bytes may hold two singles.
        vector.is_some_and(|&x| match self.ty(x).lane_type().bytes() {
            8 => lane == 8 || lane == 4,
            bytes => bytes == lane,
        })
    }

    pub(super) fn load(&mut self, inst: ir::Inst, v: ir::Value) -> State {
        let func = self.input.func;
        let addr = access_address(func, inst).expect("a load has an address");
        if !matches!(self.input.pointers.delta[addr], Delta::Root(_)) {
            return State::No;
        }
        self.wide_pointers(inst, v, addr);
        let bytes = self.ty(v).bytes();
        let cell = cell_of(func, addr, access_offset(func, inst));
        let last = reaching_store::last_store(func, self.input.cfg, inst, cell, bytes);
        let pointer = self.input.pointers.address.contains(v) || self.input.pointers.pointer_copy.contains(v);
        match last {
            Some(found) if self.is_float(v) => self.pointer_as_float(inst, v, found),
            Some(found) if pointer => self.float_as_pointer(inst, found),
            _ => {}
        }
        if !self.active_memory.contains(self.input.contents.find(addr)) {
            return State::No;
        }
        let is_constant = |found: reaching_store::ReachingStore| {
            let x = func.dfg.inst_args(found.store)[0];
            found.sure && found.offset == 0 && found.bytes == bytes && self.answer.state[x] == State::No
        };
        if last.is_some_and(is_constant) {
            return State::No;
        }
        if self.is_float(v) {
            if let Some(found) = last {
                self.torn(inst, v, found);
            }
            return State::Varied { definite: true };
        }
        if pointer || is_plain_integer(func, inst) {
            return State::No;
        }
        if bytes < 4 {
            return match self.input.contents.float_overlaps(cell, bytes) {
                Kinds::NONE => self.part(inst, addr, cell),
                _ => State::Taint { definite: true },
            };
        }
        let moved = self.input.contents.moved.contains(v) || self.input.steps.leads_to_float(v);
        if let Some(found) = last {
            // We know what is there.
            let x = func.dfg.inst_args(found.store)[0];
            if self.is_float(x) {
                let lane = self.answer.shape(func, x).map_or(0, Shape::lane_bytes);
                // A wide load may take several floats, stored one by one.
                let covers = found.offset <= 0 && found.offset + i64::from(found.bytes) >= i64::from(bytes);
                let aligned = lane != 0 && found.offset % i64::from(lane) == 0;
                let covers_lane = aligned && lane == self.answer.lane[v] && (covers || bytes > lane);
                return if covers_lane { State::Varied { definite: true } } else { State::Taint { definite: true } };
            }
            // Something else may have been stored there since, by another address: then it is no
            // constant.
            let known = found.sure || self.answer.state[x] != State::No;
            if known && found.offset == 0 && found.bytes == bytes {
                return match self.answer.state[x] {
                    State::Varied { definite } => self.received(v, &[x], definite),
                    s => s,
                };
            }
        }
        let k = self.kinds_at(inst, addr);
        if moved && k.shape(bytes).is_some_and(|s| s.lane_bytes() == self.answer.lane[v]) {
            return State::Varied { definite: false };
        }
        if self.declared_floats(addr, bytes) {
            // Whatever is calculated with it is calculated with the bits of floats.
            return State::Taint { definite: true };
        }
        if moved && bytes == 8 && self.input.derived_again && self.has_number_uses(v) {
            return State::No;
        }
        // Part of something, or of unknown origin; the pullback checks where it is stored. A number
        // that is calculated with is a number, unless it could be a whole float.
        let number = self.input.contents.of_cell(cell).has(Kinds::INT) || k.has(Kinds::INT) && !k.has_float();
        let could_be_float = k.has(Kinds::F64) && bytes >= 8 || k.has(Kinds::F32) && bytes >= 4;
        // On a typed tape there are no addresses among integers.
        let pointer = k.has(Kinds::POINTER) && !is_integer_access(func, inst);
        if moved && bytes == 8 && (pointer || self.input.derived_again) {
            match self.is_asked(v, k) {
                true if self.input.derived_again => return self.as_double(v),
                false if pointer && k.has_float() && is_handed_on(func, self.input.uses, v) => self.either(inst),
                _ => {}
            }
        }
        let becomes =
            moved && (could_be_float || !number) || self.input.steps.is_rounded(v) || self.demand[v].is_some();
        let maybe = becomes || self.holds(cell, bytes);
        if maybe { State::Taint { definite: false } } else { State::No }
    }

    /// A load of less than a float: of a small number, or of a part of something, and then the
    /// pullback checks where that is stored.
    fn part(&self, inst: ir::Inst, addr: ir::Value, cell: Cell) -> State {
        let func = self.input.func;
        let bytes = crate::query::access_bytes(func, inst);
        match reaching_store::last_store(func, self.input.cfg, inst, cell, bytes) {
            Some(found) if found.offset == 0 && found.bytes == bytes => {
                let state = self.tainted(&func.dfg.inst_args(found.store)[..1]);
                if found.sure || state != State::No {
                    return state;
                }
            }
            _ => {}
        }
        let k = self.kinds_at(inst, addr);
        let active = self.active_memory.contains(self.input.contents.find(addr));
        let demanded = self.demand[func.dfg.first_result(inst)].is_some();
        if active && (demanded || k.has_float() || k == Kinds::NONE || self.holds(cell, bytes)) {
            State::Taint { definite: false }
        } else {
            State::No
        }
    }

    /// Whether the caller has said that there are floats, of no more than `bytes` bytes each, and
    /// nothing else.
    pub(super) fn declared_floats(&self, addr: ir::Value, bytes: u32) -> bool {
        let (func, cfg, contents) = (self.input.func, self.input.cfg, self.input.contents);
        let class = contents.find(addr);
        let params = func.dfg.block_params(cfg.blocks[0]).iter().zip(self.input.params);
        let declared =
            params.filter(|p| self.input.root && contents.find(*p.0) == class).filter_map(|p| declared_elem(*p.1));
        declared.fold(false, |any, e| any || e == Elem::F64 && bytes >= 8 || e == Elem::F32 && bytes >= 4)
    }

    /// A float that is read where the last store wrote something else over part of it.
    pub(super) fn torn(&mut self, inst: ir::Inst, v: ir::Value, found: reaching_store::ReachingStore) {
        let func = self.input.func;
        let x = func.dfg.inst_args(found.store)[0];
        let (bytes, lane) = (i64::from(self.ty(v).bytes()), Shape::of_float(self.ty(v)).map_or(0, Shape::lane_bytes));
        let covers = found.offset <= 0 && found.offset + i64::from(found.bytes) >= bytes;
        let same = match self.answer.shape(func, x) {
            // Part of a vector may be overwritten, float by float.
            Some(s) => s.lane_bytes() == lane && found.offset % i64::from(lane) == 0,
            None => covers || (found.offset % i64::from(lane) == 0 && found.bytes.is_multiple_of(lane)),
        };
        let aligned_lanes = found.offset % i64::from(lane) == 0 && found.bytes.is_multiple_of(lane);
        let inactive_word = !self.is_float(x) && self.answer.state[x] == State::No && aligned_lanes;
        // In a module the run keeps an account of numbers over parts of floats, and decides.
        let counted = self.input.program.vmctx_pointers_only && self.input.untracked == Untracked::Trap;
        let number = counted && !self.is_float(x) && self.answer.state[x] == State::No;
        if !same && !inactive_word && !number && !self.overwritten(inst, v) {
            let d = Diagnostic::new("AD0114", "a float is read where part of it was overwritten by something else")
                .note(format!("the last store there is `{}`", self.written(found.store)))
                .note("its bits are a mixture of two values, and no derivative describes that")
                .help("store and load the place with one type");
            self.problem_of(inst, v, x, d);
        }
    }

    /// Whether every byte of a load was last written by a store of something inactive, each of part
    /// of it.
    fn overwritten(&self, load: ir::Inst, v: ir::Value) -> bool {
        let func = self.input.func;
        let addr = access_address(func, load).expect("a load has an address");
        let (mut cell, mut left) = (cell_of(func, addr, access_offset(func, load)), i64::from(self.ty(v).bytes()));
        let mut from = load;
        while left > 0 {
            let Some(found) = reaching_store::last_store(func, self.input.cfg, from, cell, left as u32) else {
                return false;
            };
            let x = func.dfg.inst_args(found.store)[0];
            let (start, end) = (found.offset, found.offset + i64::from(found.bytes));
            if self.answer.state[x] != State::No || self.is_float(x) {
                return false;
            }
            // What is left is one stretch, or we do not follow it.
            match (start <= 0, end >= left) {
                (true, true) => return true,
                (true, false) => (cell.1, left) = (cell.1.wrapping_add(end), left - end),
                (false, true) => left = start,
                (false, false) => return false,
            }
            from = found.store;
        }
        true
    }

    pub(super) fn bitwise(&mut self, inst: ir::Inst, v: ir::Value) -> State {
        let func = self.input.func;
        let args = func.dfg.inst_args(inst);
        let lane = self.answer.shape(func, v).map_or(0, Shape::lane_bytes);
        // What only gives its sign gives nothing else, whatever was done to its bits before, and so
        // does what only lets others through.
        let state = match (bit_idioms::signed(func, inst, lane), bit_idioms::masked(func, inst, lane)) {
            (Some(x), _) => self.answer.state[x],
            (None, Some(of)) => match self.any_state(&of) {
                State::No => return State::No,
                s => s,
            },
            (None, None) => self.any_state(args),
        };
        if state == State::No {
            return self.tainted(args);
        }
        if let State::Varied { definite } = state
            && lane != 0
        {
            match bit_idioms::classify(func, inst, lane, |x| self.answer.is_varied(x)) {
                Some(bit_idioms::BitOp::SignOnly) => return State::No,
                Some(_) => return self.received(v, args, definite),
                None => {}
            }
        }
        if self.is_float(v) {
            let d = Diagnostic::new(
                "AD0110",
                "a bitwise operation on active floats that is no sign change and no lane mask",
            )
            .note("masks are recognised when they are constants or results of comparisons")
            .help(BITS_HELP);
            self.problem(inst, Some(v), d);
            return State::Varied { definite: true };
        }
        self.tainted(args)
    }

    pub(super) fn bitcast(&mut self, inst: ir::Inst, v: ir::Value) -> State {
        let x = self.input.func.dfg.inst_args(inst)[0];
        let state = self.answer.state[x];
        if !self.is_float(v) {
            return match state {
                State::Varied { definite } => {
                    match (self.answer.shape(self.input.func, x), self.answer.shape(self.input.func, v)) {
                        (Some(a), Some(b)) if a.lane_bytes() == b.lane_bytes() => State::Varied { definite },
                        _ => State::Taint { definite },
                    }
                }
                s => s,
            };
        }
        match state {
            State::No => State::No,
            State::Varied { .. } => {
                let (a, b) = (self.answer.shape(self.input.func, x), self.answer.shape(self.input.func, v));
                if a.map(Shape::lane_bytes) != b.map(Shape::lane_bytes) {
                    let d = Diagnostic::new("AD0111", "the bits of active floats are seen as floats of another width")
                        .note("part of one float's bits is another float's bits, and no derivative describes that")
                        .help("convert with `fpromote`, `fdemote`, `fvpromote_low` or `fvdemote`");
                    self.problem(inst, Some(v), d);
                }
                State::Varied { definite: true }
            }
            // The pullback checks that no cotangent arrives.
            State::Taint { definite: false } => State::Varied { definite: false },
            State::Taint { definite: true } => {
                let d = Diagnostic::new(
                    "AD0110",
                    "bits that integer arithmetic computed from an active float become a float",
                )
                .note("only sign changes, lane masks and unchanged copies of float bits can be differentiated")
                .help(BITS_HELP);
                self.problem_of(inst, v, x, d);
                State::Varied { definite: true }
            }
        }
    }

    pub(super) fn call(&mut self, inst: ir::Inst, k: usize, v: ir::Value) -> State {
        let func = self.input.func;
        let args = func.dfg.inst_args(inst);
        match CalleeKind::of(self.input.program, func, inst) {
            Some(CalleeKind::Known(rule)) => match rule.kind {
                MathKind::Expr(ref row) | MathKind::Writes(ref row, _) => {
                    let flows = |i: usize| !row.partial(k, i).is_zero();
                    let any = args.iter().enumerate().any(|(i, &a)| flows(i) && self.answer.is_varied(a));
                    if any { State::Varied { definite: true } } else { State::No }
                }
                MathKind::Memory(_) | MathKind::Inactive => State::No,
            },
            Some(CalleeKind::Computes(rule)) => match rule.kind {
                MathKind::Expr(ref row) => {
                    let flows = |i: usize| !row.partial(k, i).is_zero();
                    let operands = computed_operands(rule, args);
                    let any = operands.iter().enumerate().any(|(i, &a)| flows(i) && self.answer.is_varied(a));
                    if any { State::Varied { definite: true } } else { State::No }
                }
                _ => State::No,
            },
            Some(CalleeKind::Missing(_) | CalleeKind::Host | CalleeKind::Plain(_)) | None => State::No,
            Some(callee @ (CalleeKind::Derived(_) | CalleeKind::Indirect(_))) => {
                let p = self.input.pointers;
                let leads = |a: ir::Value| self.answer.state[a] != State::No || p.root(a).is_some();
                let sources = match callee {
                    CalleeKind::Derived(f) => self.input.summaries.sources(f, k),
                    _ => &Sources::Anything,
                };
                let reached = match sources {
                    Sources::Params(from) => from.iter().any(|&i| leads(args[i])),
                    Sources::Anything => args.iter().any(|&a| leads(a)) || self.input.program.has_writable_data(),
                };
                // Every integer that a function called through a pointer returns comes with the
                // delta of a pointer, not with a cotangent.
                let signature = match func.dfg.insts[inst] {
                    InstructionData::CallIndirect { sig_ref, .. } if reached && !self.is_float(v) => {
                        Some(signature_id(&func.dfg.signatures[sig_ref]))
                    }
                    _ => None,
                };
                let becomes = signature.is_some() && becomes_float(func, self.input.uses, v);
                let bits = signature.is_some_and(|s| self.input.summaries.returns_bits_through(s, k));
                let handed_on = bits && is_handed_on(func, self.input.uses, v);
                if becomes || handed_on {
                    let d = Diagnostic::new(
                        "AD0113",
                        "float bits are returned in an integer by a function called through a pointer",
                    )
                    .note("which callees return the bits of a float cannot be told here")
                    .help("return the float as a float");
                    // Where bits go that are handed on is not followed, so they may be of use.
                    self.problem(inst, (!handed_on).then_some(v), d);
                    self.carried(v, false)
                } else if !reached || p.root(v).is_some() {
                    State::No
                } else if self.is_float(v) {
                    State::Varied { definite: true }
                } else if self.answer.lane[v] != 0 {
                    self.carried(v, false)
                } else {
                    let read = matches!(callee, CalleeKind::Derived(f) if self.input.summaries.returns_memory(f, k));
                    let demanded = self.demand[v].is_some();
                    if demanded || read && args.iter().any(|&a| self.may_hold_floats(a)) {
                        State::Taint { definite: false }
                    } else {
                        self.made_of_bits(sources, args)
                    }
                }
            }
        }
    }

    /// Whether an argument leads to memory in which there may be active floats.
    fn may_hold_floats(&self, a: ir::Value) -> bool {
        let kinds = self.input.contents.of_class(a);
        self.input.pointers.root(a).is_some()
            && self.active_memory.contains(self.input.contents.find(a))
            && (kinds.has_float() || kinds == Kinds::NONE)
    }

    /// A number that a callee returns: perhaps computed from the bits of floats that it was given.
    fn made_of_bits(&self, sources: &Sources, args: &[ir::Value]) -> State {
        let bits = |a: &ir::Value| self.answer.state[*a] != State::No;
        let any = match sources {
            Sources::Params(from) => from.iter().any(|&i| bits(&args[i])),
            Sources::Anything => args.iter().any(bits),
        };
        if any { State::Taint { definite: false } } else { State::No }
    }
}
