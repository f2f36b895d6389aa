//! Integers that are pieces of memory, and nothing else.
//!
//! **Question.** A tainted integer has no cotangent, since nobody knows what it is. But one that has only been moved since it was loaded is just
//! what lay there, and where it is stored that lies again: its cotangent is the bytes of the shadow at the one place, to be put together
//! with others at the other (`brolga_runtime::pieces`).
//!
//! **Answer.** Largest set of tainted integers such that each is loaded, comes from the caller or from a callee as such, is one of several
//! others in the set, of integers that carry whole floats, or of numbers that are tainted by nothing, carries whole floats and is cut in pieces, is such with another sign, or let through by a mask ([`sign_of_piece`]), or with a number added ([`super::steps`]), or is made of bytes of such by shifts, masks and bitwise or ([`bytes_of`]). (A callee that has calculated what
//! it returns checks that no cotangent comes.)

use brolga_ir::inst::{DOUBLES_ANYWHERE, Shape};
use brolga_rules::{OpcodeRule, Structural, opcode_rule};
use cranelift_codegen::ir::{self, InstructionData, Opcode, ValueDef};
use cranelift_entity::EntitySet;
use smallvec::SmallVec;

use super::unsure::{is_mixed, is_packed};
use super::{Cx, State};
use crate::bits::sign_of_piece;
use crate::callee::CalleeKind;
use crate::contents::{Kinds, Use};
use crate::modes::ParamMode;
use crate::pointers::constant_int;
use crate::reach::access_bytes;

/// What a value is a piece for.
enum Because {
    /// It is one.
    Itself,
    /// These are.
    Of(Vec<ir::Value>),
    /// It is none.
    Nothing,
}

/// Bytes of an operand that an instruction puts into its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesOf {
    /// The operand.
    pub of: ir::Value,
    /// Which bytes of the result they are, the first in the lowest bit.
    pub mask: u16,
    /// How many bytes further up they are in the operand.
    pub up: i8,
}

/// What the bytes of the result are, where an instruction on integers, or on vectors of them, only puts bytes where others were; the rest are
/// zeros, or copies of a sign.
pub fn bytes_of(func: &ir::Function, inst: ir::Inst) -> Option<SmallVec<[BytesOf; 2]>> {
    bytes_of_lanes(func, inst).or_else(|| bytes_within(func, inst, &mut { MOST_LOOKED_AT }))
}

/// The same for what takes lanes out of vectors and puts them into others.
fn bytes_of_lanes(func: &ir::Function, inst: ir::Inst) -> Option<SmallVec<[BytesOf; 2]>> {
    let args = func.dfg.inst_args(inst);
    let ty = func.dfg.value_type(*func.dfg.inst_results(inst).first()?);
    let data = func.dfg.insts[inst];
    let vector = if data.opcode() == Opcode::Extractlane { func.dfg.value_type(args[0]) } else { ty };
    if vector.bits() != 128 || !vector.is_vector() || !vector.lane_type().is_int() {
        return None;
    }
    let n = vector.lane_type().bytes();
    let lane = |l: u8| (((1_u32 << n) - 1) << (u32::from(l) * n)) as u16;
    let first = |l: u8| l as i8 * n as i8;
    let part = |of, mask, up| BytesOf { of, mask, up };
    match data {
        InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, imm, .. } => {
            Some(SmallVec::from_slice(&[part(args[0], lane(0), first(imm))]))
        }
        InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, imm, .. } => {
            Some(SmallVec::from_slice(&[part(args[0], !lane(imm), 0), part(args[1], lane(imm), -first(imm))]))
        }
        InstructionData::Shuffle { imm, .. } => {
            let mut found: SmallVec<[BytesOf; 2]> = SmallVec::new();
            for (at, &from) in func.dfg.immediates[imm].as_slice().iter().enumerate().filter(|b| *b.1 < 32) {
                let (of, up) = (args[usize::from(from / 16)], (from % 16) as i8 - at as i8);
                match found.iter_mut().find(|b| (b.of, b.up) == (of, up)) {
                    Some(b) => b.mask |= 1 << at,
                    None => found.push(part(of, 1 << at, up)),
                }
            }
            Some(found)
        }
        _ => match data.opcode() {
            Opcode::Splat => Some((0..(16 / n) as u8).map(|l| part(args[0], lane(l), -first(l))).collect()),
            Opcode::ScalarToVector => Some(SmallVec::from_slice(&[part(args[0], lane(0), 0)])),
            _ => None,
        },
    }
}

/// Instructions that are looked at to know which bytes of an integer are zero: eight bytes, each loaded, extended, shifted and put in its place, are
/// less. What needs more is occupied.
const MOST_LOOKED_AT: u32 = 48;

fn bytes_within(func: &ir::Function, inst: ir::Inst, left: &mut u32) -> Option<SmallVec<[BytesOf; 2]>> {
    let args = func.dfg.inst_args(inst);
    let bytes = |v: ir::Value| {
        let ty = func.dfg.value_type(v);
        (ty.is_int() && ty.bytes() <= 8).then(|| ty.bytes())
    };
    let result = *func.dfg.inst_results(inst).first()?;
    let n = bytes(result)?;
    let one = |mask: u8, up| Some(SmallVec::from_slice(&[BytesOf { of: args[0], mask: mask.into(), up }]));
    let shift = || constant_int(func, args[1]).filter(|k| k % 8 == 0 && *k < i64::from(8 * n) && *k >= 0);
    match func.dfg.insts[inst].opcode() {
        Opcode::Uextend | Opcode::Sextend => one(low(bytes(args[0])?), 0),
        Opcode::Ireduce if bytes(args[0]).is_some() => one(low(n), 0),
        Opcode::Ushr | Opcode::Sshr => shift().map(|k| (k / 8) as i8).and_then(|k| one(low(n) >> k, k)),
        Opcode::Ishl => shift().map(|k| (k / 8) as i8).and_then(|k| one(low(n) & low(n) << k, -k)),
        Opcode::Rotl | Opcode::Rotr => shift().map(|k| {
            // What leaves at one end comes in at the other.
            let right = (k / 8) as i8;
            let right = if func.dfg.insts[inst].opcode() == Opcode::Rotr { right } else { (n as i8 - right) % n as i8 };
            let (whole, down) = (low(n), low(n) >> right);
            let part = |mask: u8, up| BytesOf { of: args[0], mask: mask.into(), up };
            let all = [part(down, right), part(whole & !down, right - n as i8)];
            all.into_iter().filter(|b| b.mask != 0).collect()
        }),
        Opcode::Bswap => {
            let byte = |i: i8| BytesOf { of: args[0], mask: 1 << i, up: n as i8 - 1 - 2 * i };
            Some((0..n as i8).map(byte).collect())
        }
        Opcode::Band => {
            let (of, mask) = match (constant_int(func, args[0]), constant_int(func, args[1])) {
                (None, Some(mask)) => (args[0], mask.to_le_bytes()),
                (Some(mask), None) => (args[1], mask.to_le_bytes()),
                _ => return None,
            };
            let mask = &mask[..n as usize];
            let whole = mask.iter().all(|b| matches!(b, 0 | 0xff));
            whole.then(|| SmallVec::from_slice(&[BytesOf { of, mask: nonzero(mask).into(), up: 0 }]))
        }
        Opcode::Bor | Opcode::Bxor | Opcode::Iadd => {
            let x = occupied(func, args[0], left);
            let y = if x == low(n) { x } else { occupied(func, args[1], left) };
            let part = |of, mask: u8| BytesOf { of, mask: mask.into(), up: 0 };
            (x & y == 0).then(|| SmallVec::from_slice(&[part(args[0], x), part(args[1], y)]))
        }
        _ => None,
    }
}

/// The lowest `n` bytes.
fn low(n: u32) -> u8 {
    (0xff_u16 >> 8_u32.saturating_sub(n)) as u8
}

fn nonzero(bytes: &[u8]) -> u8 {
    bytes.iter().enumerate().filter(|b| *b.1 != 0).fold(0, |m, (i, _)| m | 1 << i)
}

/// Bytes of an integer that may be other than zero.
fn occupied(func: &ir::Function, v: ir::Value, left: &mut u32) -> u8 {
    let n = func.dfg.value_type(v).bytes();
    if let Some(x) = constant_int(func, v).filter(|_| n <= 8) {
        return nonzero(&x.to_le_bytes()[..n as usize]);
    }
    let Some(inst) = func.dfg.value_def(v).inst().filter(|_| *left > 0) else { return low(n) };
    *left -= 1;
    match func.dfg.insts[inst].opcode() {
        Opcode::Uload8 => 1,
        Opcode::Uload16 => 3,
        Opcode::Uload32 => 0xf,
        // The copies of the sign are anything.
        Opcode::Sextend | Opcode::Sshr => low(n),
        op => match bytes_within(func, inst, left) {
            // Each has been asked already.
            Some(from) if matches!(op, Opcode::Bor | Opcode::Bxor | Opcode::Iadd) => {
                from.iter().fold(0, |m, b| m | b.mask as u8)
            }
            Some(from) => from.iter().fold(0, |m, b| {
                let there = u16::from(occupied(func, b.of, left));
                m | (b.mask & if b.up >= 0 { there >> b.up } else { there << -b.up }) as u8
            }),
            None => low(n),
        },
    }
}

/// Whether an integer that becomes a float is none for certain: bytes are missing, or it has some of a float of another size.
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
    occupied(func, v, &mut { MOST_LOOKED_AT }) != low(n)
}

impl Cx<'_> {
    /// Find them.
    pub(super) fn pieces(&mut self) {
        let func = self.i.func;
        let mut open = Vec::new();
        for v in func.dfg.values() {
            if self.is_cut(v) {
                self.a.pieces.insert(v);
                continue;
            }
            if !matches!(self.a.state[v], State::Taint { .. }) || self.is_float(v) || func.dfg.value_is_alias(v) {
                continue;
            }
            // Of an address the shadow is followed, and no cotangent.
            if self.i.pointers.root(v).is_some() {
                continue;
            }
            match self.because(v) {
                Because::Itself => drop(self.a.pieces.insert(v)),
                Because::Of(others) => {
                    self.a.pieces.insert(v);
                    open.push((v, others));
                }
                Because::Nothing => {}
            }
        }
        let all = open.clone();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            open.retain(|&(v, ref others)| {
                let whole = self.may_be_whole(v, others);
                let fits = |&x: &ir::Value| {
                    self.a.state[x] == State::No || self.a.pieces.contains(x) || whole && self.a.is_varied(x)
                };
                let all = others.iter().all(fits);
                changed |= !all;
                all || !self.a.pieces.remove(v)
            });
        }
        self.computed(&all);
    }

    /// Which pieces have a demand for a cotangent: what is computed, what is moved of that, and what is loaded for nothing else.
    fn computed(&mut self, made_of: &[(ir::Value, Vec<ir::Value>)]) {
        let func = self.i.func;
        let arithmetic = |v: ir::Value| {
            let inst = func.dfg.value_def(v).inst();
            inst.is_some_and(|i| self.i.steps.of(i).is_none() && bytes_of(func, i).is_none() && self.is_arithmetic(i))
        };
        let mut found: EntitySet<ir::Value> = EntitySet::new();
        found.extend(made_of.iter().map(|m| m.0).filter(|&v| self.a.pieces.contains(v) && arithmetic(v)));
        if found.is_empty() {
            return;
        }
        let moved = |v: ir::Value| {
            let inst = func.dfg.value_def(v).inst();
            self.a.pieces.contains(v) && inst.is_some_and(|i| bytes_of(func, i).is_some())
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
            is_load && !self.a.is_varied(*v) && self.i.uses.of(*v).iter().all(made)
        };
        let loads: Vec<ir::Value> = self.a.pieces.iter().filter(only_computed).collect();
        found.extend(loads);
        self.a.computed = found;
    }

    /// Whether no cotangent comes from a use.
    fn ends(&self, inst: ir::Inst) -> bool {
        let func = self.i.func;
        let results = func.dfg.inst_results(inst);
        let op = func.dfg.insts[inst].opcode();
        !results.is_empty() && !op.is_call() && results.iter().all(|&r| self.a.state[r] == State::No)
    }

    /// Whether an instruction calculates with integers.
    fn is_arithmetic(&self, inst: ir::Inst) -> bool {
        let func = self.i.func;
        let plain = func.dfg.inst_args(inst).iter().all(|&a| !func.dfg.value_type(a).lane_type().is_float());
        let s = match opcode_rule(func.dfg.insts[inst].opcode()) {
            OpcodeRule::NotFloat => return plain,
            OpcodeRule::Structural(s) => s,
            _ => return false,
        };
        use Structural::*;
        let bits =
            matches!(s, Band | Bor | Bxor) && sign_of_piece(func, inst, |x| self.a.state[x] != State::No).is_some();
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

    /// Whether some of the integers of which a piece is one may carry whole floats: where ways join, and if those are all of one width.
    fn may_be_whole(&self, v: ir::Value, others: &[ir::Value]) -> bool {
        let func = self.i.func;
        let joins = func.dfg.value_def(v).inst().is_none_or(|i| func.dfg.insts[i].opcode() == Opcode::Select);
        let whole = others.iter().filter(|&&x| self.a.is_varied(x) && !self.a.pieces.contains(x));
        let mut widths = whole.map(|&x| self.a.lane[x]);
        let first = widths.next();
        joins && widths.all(|w| Some(w) == first)
    }

    /// Whether an integer that carries whole floats is cut in pieces: then it is one, too. Whatever it is made from, or goes to, may be none: where a
    /// ticket meets a number, the one is made the other.
    fn is_cut(&self, v: ir::Value) -> bool {
        let func = self.i.func;
        if !self.a.is_varied(v) || self.is_float(v) || self.ty(v).bytes() > 8 {
            return false;
        }
        let tainted = |i: ir::Inst| {
            let results = func.dfg.inst_results(i);
            results.first().is_some_and(|&r| matches!(self.a.state[r], State::Taint { .. }))
        };
        let cuts = |u: &Use| match *u {
            Use::Inst(i, n) => match func.dfg.insts[i].opcode() {
                Opcode::Istore8 | Opcode::Istore16 | Opcode::Istore32 => n == 0,
                _ => tainted(i) && (bytes_of(func, i).is_some() || self.is_arithmetic(i) && self.is_possible(v)),
            },
            Use::Edge(..) => false,
        };
        self.tells_tickets(v) && self.i.uses.of(v).iter().any(cuts)
    }

    /// Whether an integer may carry a float's bits, but nothing says that it does.
    fn is_possible(&self, v: ir::Value) -> bool {
        self.a.state[v] == State::Varied { definite: false }
    }

    /// Whether the reverse of what makes an integer can do with a ticket for its cotangent.
    fn tells_tickets(&self, v: ir::Value) -> bool {
        let func = self.i.func;
        let ValueDef::Result(inst, _) = func.dfg.value_def(v) else { return true };
        use Opcode::*;
        match func.dfg.insts[inst].opcode() {
            Bitcast | Load | Select => true,
            Iadd | Isub | Udiv | Sdiv => self.i.steps.of(inst).is_some(),
            Band | Bor | Bxor | Bitselect | Extractlane | Isplit | Uextend | Ireduce | Ishl | Ushr | Sshr => true,
            op if op.is_call() => matches!(
                CalleeKind::of(self.i.program, func, inst),
                Some(CalleeKind::Derived(_) | CalleeKind::Indirect(_))
            ),
            _ => false,
        }
    }

    fn because(&self, v: ir::Value) -> Because {
        let func = self.i.func;
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, i) if b == self.i.cfg.blocks[0] => {
                let bytes = matches!(
                    self.i.params[i],
                    ParamMode::Bits { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. }
                );
                return if bytes { Because::Itself } else { Because::Nothing };
            }
            ValueDef::Param(b, i) => return Because::Of(self.i.cfg.incoming(b, i).collect()),
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => return Because::Nothing,
        };
        let args = func.dfg.inst_args(inst);
        if let Some(n) = self.i.steps.of(inst) {
            return match self.a.state[args[1 - n]] {
                State::No => Because::Of(vec![args[n]]),
                State::Taint { definite: false } => Because::Of(args.to_vec()),
                _ => Because::Nothing,
            };
        }
        let computed = || match self.a.state[v] {
            State::Taint { definite: false } if self.is_arithmetic(inst) => Because::Of(args.to_vec()),
            _ => Because::Nothing,
        };
        let OpcodeRule::Structural(s) = opcode_rule(func.dfg.insts[inst].opcode()) else { return computed() };
        match s {
            Structural::Load | Structural::AtomicLoad | Structural::IntLoad => Because::Itself,
            _ if let Some(from) = bytes_of(func, inst) => Because::Of(from.iter().map(|b| b.of).collect()),
            Structural::Select => Because::Of(args[1..].to_vec()),
            Structural::Band | Structural::Bor | Structural::Bxor => {
                let op = sign_of_piece(func, inst, |x| self.a.state[x] != State::No);
                op.map_or_else(computed, |op| Because::Of(op.flows_to()))
            }
            Structural::Bitcast => Because::Of(args.to_vec()),
            Structural::Call => match CalleeKind::of(self.i.program, func, inst) {
                Some(CalleeKind::Derived(_)) => Because::Itself,
                _ => Because::Nothing,
            },
            _ => computed(),
        }
    }

    /// The shape of a piece that an access moves.
    pub(super) fn bytes_at(&self, inst: ir::Inst, addr: ir::Value) -> Shape {
        let n = access_bytes(self.i.func, inst) as u8;
        let value = self.i.func.dfg.inst_results(inst).first().unwrap_or(&self.i.func.dfg.inst_args(inst)[0]);
        if self.a.computed.contains(*value) {
            return Shape::Demand { n };
        }
        let of = match self.kinds_at(inst, addr).moved() {
            _ if is_packed(self.i, inst, addr) => DOUBLES_ANYWHERE,
            // What this function takes a place for need not be what is there now.
            _ if is_mixed(self.i, inst, addr) => 0,
            Kinds::F64 => 8,
            Kinds::F32 => 4,
            _ => 0,
        };
        Shape::Bytes { n, of }
    }
}
