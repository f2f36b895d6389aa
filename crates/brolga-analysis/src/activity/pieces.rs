//! Pieces of floats: integers that are bytes of memory, and nothing else.
//!
//! **Question.** A tainted integer has no cotangent, since it may be anything. But one that has
//! only been moved since it was loaded is just what lay there, and where it is stored that lies
//! again: its cotangent is the bytes of the shadow at the one place, to be put together with others
//! at the other (`brolga_runtime::pieces`).
//!
//! **Answer.** The largest set of tainted integers in which each is one of these:
//!
//! - loaded;
//! - passed by the caller, or returned by a callee, as a piece;
//! - one of several integers (a block parameter, a `select`), of which each is in the set, carries
//!   whole floats, or is a number that nothing taints;
//! - cut out of an integer that carries whole floats;
//! - a piece with another sign, or let through by a mask ([`sign_of_piece`]);
//! - a piece with a number added ([`super::ulp`]);
//! - made of bytes of pieces by shifts, masks and bitwise or ([`bytes_of`]).
//!
//! A callee that has calculated what it returns checks that no cotangent comes.
//!
//! **Cost.** One pass over the values, then rounds over the candidates until none falls out.

use brolga_ir::inst::{DOUBLES_ANYWHERE, Shape};
use brolga_rules::{OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, Opcode, ValueDef};
use cranelift_entity::EntitySet;

use super::ambiguous_width::{is_mixed, is_packed};
use super::answer::State;
use super::context::ActivityCx;
use crate::bits::bit_idioms::sign_of_piece;
use crate::bits::bytes::{MOST_LOOKED_AT, bytes_of, low, occupied, pieces_of};
use crate::lattice::kinds::Kinds;
use crate::query::access_bytes;
use crate::query::callee::CalleeKind;
use crate::uses::Use;
use crate::variant::ParamMode;

/// What a value is a piece for.
enum PieceOrigin {
    /// It is one.
    Itself,
    /// These are.
    Of(Vec<ir::Value>),
    /// It is none.
    Nothing,
}

/// Whether an integer that becomes a float is none for certain: bytes are missing which are not its
/// last digits, or it has some of a float of another size.
pub(super) fn is_torn(func: &ir::Function, v: ir::Value) -> bool {
    let n = func.dfg.value_type(v).bytes();
    if n > 8 {
        return false;
    }
    let mut work = vec![v];
    let mut seen = EntitySet::new();
    while let Some(v) = work.pop() {
        let Some(inst) = func.dfg.value_def(v).inst().filter(|_| seen.insert(v)) else { continue };
        let arg = func.dfg.inst_args(inst).first().map(|&a| func.dfg.value_type(a));
        match bytes_of(func, inst) {
            Some(from) => work.extend(from.iter().map(|b| b.of)),
            None if func.dfg.insts[inst].opcode() == Opcode::Bitcast
                && arg.is_some_and(|ty| ty.is_float() && ty.bytes() != n) =>
            {
                return true;
            }
            None => {}
        }
    }
    occupied(func, v, &mut { MOST_LOOKED_AT }) | low(n / 2) != low(n)
}

impl ActivityCx<'_> {
    /// Find them.
    pub(super) fn pieces(&mut self) {
        let func = self.input.func;
        let mut open = Vec::new();
        for v in func.dfg.values() {
            if self.is_cut(v) {
                self.answer.pieces.insert(v);
                continue;
            }
            if !matches!(self.answer.state[v], State::Taint { .. }) || self.is_float(v) || func.dfg.value_is_alias(v) {
                continue;
            }
            // Of an address the shadow is followed, and no cotangent.
            if self.input.pointers.root(v).is_some() {
                continue;
            }
            match self.because(v) {
                PieceOrigin::Itself => drop(self.answer.pieces.insert(v)),
                PieceOrigin::Of(others) => {
                    self.answer.pieces.insert(v);
                    open.push((v, others));
                }
                PieceOrigin::Nothing => {}
            }
        }
        let all = open.clone();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            open.retain(|&(v, ref others)| {
                let joins_floats = self.may_carry_floats(v, others);
                let fits = |&x: &ir::Value| {
                    self.answer.state[x] == State::No
                        || self.answer.pieces.contains(x)
                        || joins_floats && self.answer.is_varied(x)
                };
                let all = others.iter().all(fits);
                changed |= !all;
                all || !self.answer.pieces.remove(v)
            });
        }
        self.computed(&all);
    }

    /// Which pieces have a demand for a cotangent: what is computed, what is moved of that, and
    /// what is loaded for nothing else.
    fn computed(&mut self, made_of: &[(ir::Value, Vec<ir::Value>)]) {
        let func = self.input.func;
        let arithmetic = |v: ir::Value| {
            let inst = func.dfg.value_def(v).inst();
            inst.is_some_and(|i| {
                self.input.steps.of(i).is_none() && pieces_of(func, i).is_none() && self.is_arithmetic(i)
            })
        };
        let mut found: EntitySet<ir::Value> = EntitySet::new();
        found.extend(made_of.iter().map(|m| m.0).filter(|&v| self.answer.pieces.contains(v) && arithmetic(v)));
        if found.is_empty() {
            return;
        }
        let moved = |v: ir::Value| {
            let inst = func.dfg.value_def(v).inst();
            self.answer.pieces.contains(v) && inst.is_some_and(|i| pieces_of(func, i).is_some())
        };
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for (v, of) in made_of {
                if !found.contains(*v) && moved(*v) && of.iter().any(|x| found.contains(*x)) {
                    changed |= found.insert(*v);
                }
            }
        }
        let only_computed = |v: &ir::Value| {
            let is_load = func.dfg.value_def(*v).inst().is_some_and(|i| func.dfg.insts[i].opcode().can_load());
            let made = |u: &Use| match *u {
                Use::Inst(i, _) => {
                    let results = func.dfg.inst_results(i);
                    self.ends(i) || !results.is_empty() && results.iter().all(|&r| found.contains(r))
                }
                Use::Edge(..) => false,
            };
            is_load && !self.answer.is_varied(*v) && self.input.uses.of(*v).iter().all(made)
        };
        let loads: Vec<ir::Value> = self.answer.pieces.iter().filter(only_computed).collect();
        found.extend(loads);
        self.answer.computed = found;
    }

    /// Whether no cotangent comes from a use.
    fn ends(&self, inst: ir::Inst) -> bool {
        let func = self.input.func;
        let results = func.dfg.inst_results(inst);
        let op = func.dfg.insts[inst].opcode();
        !results.is_empty() && !op.is_call() && results.iter().all(|&r| self.answer.state[r] == State::No)
    }

    /// Whether an instruction calculates with integers.
    fn is_arithmetic(&self, inst: ir::Inst) -> bool {
        let func = self.input.func;
        let plain = func.dfg.inst_args(inst).iter().all(|&a| !func.dfg.value_type(a).lane_type().is_float());
        let s = match opcode_rule(func.dfg.insts[inst].opcode()) {
            OpcodeRule::NotFloat => return plain,
            OpcodeRule::Structural(s) => s,
            _ => return false,
        };
        use Structural::*;
        let bits = matches!(s, Band | Bor | Bxor)
            && sign_of_piece(func, inst, |x| self.answer.state[x] != State::No).is_some();
        plain
            && !bits
            && matches!(
                s,
                IntArith
                    | IntBits
                    | Band
                    | Bor
                    | Bxor
                    | Bnot
                    | Bitselect
                    | Blendv
                    | Splat
                    | Insertlane
                    | Extractlane
                    | ScalarToVector
                    | Shuffle
                    | Swizzle
                    | Pshufb
            )
    }

    /// Whether some of the integers of which a piece is one may carry whole floats: where ways
    /// join, and if those are all of one width.
    fn may_carry_floats(&self, v: ir::Value, others: &[ir::Value]) -> bool {
        let func = self.input.func;
        let joins = func.dfg.value_def(v).inst().is_none_or(|i| func.dfg.insts[i].opcode() == Opcode::Select);
        let uncut = others.iter().filter(|&&x| self.answer.is_varied(x) && !self.answer.pieces.contains(x));
        let mut widths = uncut.map(|&x| self.answer.lane[x]);
        let first = widths.next();
        joins && widths.all(|w| Some(w) == first)
    }

    /// Whether an integer that carries whole floats is cut in pieces: then it is one, too. Whatever
    /// it is made from, or goes to, may be none: where a ticket meets a number, the one is made the
    /// other.
    fn is_cut(&self, v: ir::Value) -> bool {
        let func = self.input.func;
        let fits = self.ty(v).bytes() <= 8 || self.ty(v).is_vector() && self.ty(v).bits() == 128;
        if !self.answer.is_varied(v) || self.is_float(v) || !fits {
            return false;
        }
        let tainted = |i: ir::Inst| {
            let results = func.dfg.inst_results(i);
            results.first().is_some_and(|&r| matches!(self.answer.state[r], State::Taint { .. }))
        };
        let cuts = |u: &Use| match *u {
            Use::Inst(i, n) => match func.dfg.insts[i].opcode() {
                Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 => n == 0,
                _ => tainted(i) && (pieces_of(func, i).is_some() || self.is_arithmetic(i) && self.is_possible(v)),
            },
            Use::Edge(..) => false,
        };
        self.tells_tickets(v) && self.input.uses.of(v).iter().any(cuts)
    }

    /// Whether an integer may carry a float's bits, but nothing says that it does.
    fn is_possible(&self, v: ir::Value) -> bool {
        self.answer.state[v] == State::Varied { definite: false }
    }

    /// Whether the reverse of what makes an integer can do with a ticket for its cotangent.
    fn tells_tickets(&self, v: ir::Value) -> bool {
        let func = self.input.func;
        let ValueDef::Result(inst, _) = func.dfg.value_def(v) else { return true };
        use Opcode::*;
        match func.dfg.insts[inst].opcode() {
            Bitcast | Load | Select => true,
            Iadd | Isub | Udiv | Sdiv => self.input.steps.of(inst).is_some(),
            Band | Bor | Bxor | Bitselect | Extractlane | Isplit | Uextend | Ireduce | Ishl | Ushr | Sshr => true,
            op if op.is_call() => matches!(
                CalleeKind::of(self.input.program, func, inst),
                Some(CalleeKind::Derived(_) | CalleeKind::Indirect(_))
            ),
            _ => false,
        }
    }

    fn because(&self, v: ir::Value) -> PieceOrigin {
        let func = self.input.func;
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, i) if b == self.input.cfg.blocks[0] => {
                let bytes = matches!(
                    self.input.params[i],
                    ParamMode::Bits { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. }
                );
                return if bytes { PieceOrigin::Itself } else { PieceOrigin::Nothing };
            }
            ValueDef::Param(b, i) => return PieceOrigin::Of(self.input.cfg.incoming(b, i).collect()),
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => return PieceOrigin::Nothing,
        };
        let args = func.dfg.inst_args(inst);
        if let Some(n) = self.input.steps.of(inst) {
            return match self.answer.state[args[1 - n]] {
                _ if self.input.steps.adds_digits(inst) => PieceOrigin::Of(vec![args[n]]),
                State::No => PieceOrigin::Of(vec![args[n]]),
                State::Taint { definite: false } => PieceOrigin::Of(args.to_vec()),
                _ => PieceOrigin::Nothing,
            };
        }
        let computed = || match self.answer.state[v] {
            State::Taint { definite: false } if self.is_arithmetic(inst) => PieceOrigin::Of(args.to_vec()),
            _ => PieceOrigin::Nothing,
        };
        let OpcodeRule::Structural(s) = opcode_rule(func.dfg.insts[inst].opcode()) else { return computed() };
        match s {
            Structural::Load | Structural::AtomicLoad | Structural::IntLoad => PieceOrigin::Itself,
            _ if let Some((from, _)) = pieces_of(func, inst) => PieceOrigin::Of(from.iter().map(|b| b.of).collect()),
            Structural::Select => PieceOrigin::Of(args[1..].to_vec()),
            Structural::Band | Structural::Bor | Structural::Bxor => {
                let op = sign_of_piece(func, inst, |x| self.answer.state[x] != State::No);
                op.map_or_else(computed, |op| PieceOrigin::Of(op.flows_to()))
            }
            Structural::Bitcast => PieceOrigin::Of(args.to_vec()),
            Structural::Call => match CalleeKind::of(self.input.program, func, inst) {
                Some(CalleeKind::Derived(_)) => PieceOrigin::Itself,
                _ => PieceOrigin::Nothing,
            },
            _ => computed(),
        }
    }

    /// The shape of a piece that an access moves.
    pub(super) fn bytes_at(&self, inst: ir::Inst, addr: ir::Value) -> Shape {
        let n = access_bytes(self.input.func, inst) as u8;
        let value = self.input.func.dfg.inst_results(inst).first().unwrap_or(&self.input.func.dfg.inst_args(inst)[0]);
        if self.answer.computed.contains(*value) {
            return Shape::Demand { n };
        }
        let of = match self.kinds_at(inst, addr).moved() {
            _ if is_packed(self.input, inst, addr) => DOUBLES_ANYWHERE,
            // What this function takes a place for need not be what is there now.
            _ if is_mixed(self.input, inst, addr) => 0,
            Kinds::F64 => 8,
            Kinds::F32 => 4,
            _ => 0,
        };
        Shape::Bytes { n, of }
    }
}
