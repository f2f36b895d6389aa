//! Rounding sums: additions of a constant so large that the sum is an integer.
//!
//! **Problem.** The sum of a float and a number so large that its unit in the last place is one is
//! an integer: `(x + 1.5·2⁵²) - 1.5·2⁵²` is `x`, rounded, and so `sin`, `exp` and their like reduce
//! their arguments. Its derivative is zero, as that of `nearest`. Taken as sums these have the
//! slope one, and what is left of the argument, `x - π/2 · round(2x/π)`, none: a gradient that is
//! zero, and wrong. But `x + 1.5·2⁴⁰` may as well be nothing but a sum.
//!
//! **Answer.** What becomes of the sum tells. It is followed *forwards* as long as it is only
//! moved: over edges, through memory, into callees and back to callers ([`SumUses`]). If on all
//! ways its constant comes off again or its bits are taken for an integer, on one at least, the sum
//! has the slope zero. If something else is done to it as well, it is a sum; then what takes the
//! constant off has the slope zero, where all that it is taken off are such sums
//! ([`BodySearch::is_sum`], *backwards*), and bits that are taken are not looked at here.
//!
//! **Which constants.** `1.5·2ᵏ` for `k` from 40 (singles: 12) to two more than the width of the
//! mantissa, `2ᵏ` for the last of these, and both with a small number in their last digits (a bias
//! of what the bits are used for). Others, as the ten million of a northing, are nothing but sums.
//! Where the sum cannot be followed to what takes such a constant off, the run asks
//! (`rounding_sum` of `brolga-transform`).
//!
//! **Errs.** A place in memory is taken to hold what was stored there last by the same
//! [name](crate::query::cell), also after calls. Memory that others may read (not a slot of which
//! all uses are seen, or a frame on WebAssembly's stack) makes of a sum that is stored there one to
//! which something else is done. Bodies of other functions are read as the program has them.
//!
//! **Cost.** Nothing where no constant is large. Otherwise what such a sum is moved to is followed,
//! also into bodies of other functions, [`MOST`] values at most.

use std::rc::Rc;

use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value, ValueDef, types};
use cranelift_entity::EntitySet;
use smallvec::SmallVec;

use super::context::ActivityInput;
use crate::cfg::{Cfg, edge_args};
use crate::query::callee::CalleeKind;
use crate::query::cell::{Base, Cell, cell_of};
use crate::query::{access_offset, constant_int};

/// More values that a sum is moved to are not looked at: it counts as one to which something else
/// is done.
const MOST: usize = 2000;
/// How many calls deep sums are looked for.
const DEPTH: usize = 8;

/// Sums with large constants that have the slope zero, and instructions that take the constants
/// off.
pub fn rounding(input: &ActivityInput<'_>) -> EntitySet<ir::Inst> {
    let mut found = EntitySet::new();
    let large = |inst: &ir::Inst| Some((*inst, added(input.func, *inst).filter(|&c| is_large(input.func, *inst, c))?));
    let candidates: Vec<(ir::Inst, f64)> = input.cfg.all_insts().iter().filter_map(large).collect();
    if candidates.is_empty() {
        return found;
    }
    let mut follow = BodySearch {
        program: input.program,
        key: input.key,
        root: input.root,
        bodies: HashMap::default(),
        callers: None,
    };
    follow.bodies.insert(None, Rc::new(RoundingBody::new(input.func.clone())));
    for (inst, c) in candidates {
        let sum = input.func.dfg.first_result(inst);
        let held = SumUses::of(&mut follow, sum, c);
        if held.taken && !held.otherwise {
            found.insert(inst);
        }
    }
    for &inst in input.cfg.all_insts() {
        let InstructionData::Binary { opcode: Opcode::Fadd | Opcode::Fsub, args } = input.func.dfg.insts[inst] else {
            continue;
        };
        let comes_off = args.iter().any(|&x| {
            off(input.func, inst, x)
                .filter(|&c| is_large(input.func, inst, c))
                .is_some_and(|c| follow.is_sum(None, x, c, &mut Vec::new(), &mut HashSet::default()))
        });
        if comes_off {
            found.insert(inst);
        }
    }
    found
}

/// Whether a constant is of a form that is hardly used for anything but to round.
fn is_large(func: &ir::Function, inst: ir::Inst, constant: f64) -> bool {
    shift(func.dfg.value_type(func.dfg.first_result(inst)), constant, false).is_some()
}

/// The exponent of a constant that rounds what it is added to. `alone`: of a form that says so
/// without another one that is added or taken off.
fn shift(ty: Type, constant: f64, alone: bool) -> Option<i32> {
    // Digits of a mantissa, least exponents of 1.5·2ᵏ and of 2ᵏ, the largest one, and how small a
    // bias is. Singles of more than that are sizes and counts as well.
    let (digits, halfway, power, most, bias) = match (ty.lane_type(), alone) {
        (types::F64, false) => (52, 40, 51, 54, 1 << 32),
        (types::F64, true) => (52, 44, 51, 54, 1 << 32),
        (types::F32, false) => (23, 12, 23, 25, 1 << 42),
        (types::F32, true) => (23, 22, 23, 23, 1 << 42),
        _ => return None,
    };
    let bits = constant.to_bits();
    let (exponent, mantissa) = ((bits >> 52 & 0x7ff) as i32 - 1023, bits & ((1 << 52) - 1));
    // Below the width of the mantissa a bias is a number of other digits.
    let bias = if exponent >= digits || ty.lane_type() == types::F64 { bias } else { 1 };
    let is_near = |what: u64| mantissa.wrapping_sub(what) < bias;
    let found = is_near(1 << 51) && exponent >= halfway || is_near(0) && exponent >= power;
    (found && exponent <= most).then_some(exponent)
}

/// A value that is such a constant, or one of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The least exponent.
    pub exponent: i32,
    /// Whether it is negative; none if that depends on the run.
    pub negative: Option<bool>,
}

/// What such a constant a value is, if it is one whatever the run does.
pub fn shift_of(func: &ir::Function, v: Value) -> Option<Shift> {
    fn of(func: &ir::Function, v: Value, depth: usize) -> Option<Shift> {
        if let Some(constant) = constant(func, v) {
            let exponent = shift(func.dfg.value_type(v), constant, true)?;
            return Some(Shift { exponent, negative: Some(constant < 0.0) });
        }
        let inst = func.dfg.value_def(v).inst().filter(|_| depth < DEPTH)?;
        let args = func.dfg.inst_args(inst);
        let of = |k: usize| of(func, args[k], depth + 1);
        match func.dfg.insts[inst].opcode() {
            Opcode::Select => {
                let (a, b) = (of(1)?, of(2)?);
                let negative = a.negative.filter(|_| a.negative == b.negative);
                Some(Shift { exponent: a.exponent.min(b.exponent), negative })
            }
            Opcode::Fcopysign => Some(Shift { negative: None, ..of(0)? }),
            Opcode::Fneg => of(0).map(|x| Shift { negative: x.negative.map(|n| !n), ..x }),
            Opcode::Fabs => Some(Shift { negative: Some(false), ..of(0)? }),
            Opcode::Splat => of(0),
            Opcode::Bitcast => with_sign_of_bits(func, args[0], func.dfg.value_type(v)),
            _ => None,
        }
    }
    let is_float = matches!(func.dfg.value_type(v).lane_type(), types::F32 | types::F64);
    if is_float { of(func, v, 0) } else { None }
}

/// Bits of such a constant, in which a sign is set as the run says.
fn with_sign_of_bits(func: &ir::Function, bits: Value, ty: Type) -> Option<Shift> {
    let InstructionData::Binary { opcode: Opcode::Bor | Opcode::Bxor, args: [a, b] } =
        func.dfg.insts[func.dfg.value_def(bits).inst()?]
    else {
        return None;
    };
    let (k, sign) = constant_int(func, b).map(|k| (k, a)).or_else(|| Some((constant_int(func, a)?, b)))?;
    let InstructionData::Binary { opcode: Opcode::Band, args } = func.dfg.insts[func.dfg.value_def(sign).inst()?]
    else {
        return None;
    };
    let mask = args.iter().find_map(|&x| constant_int(func, x))?;
    let (constant, is_sign) = match ty {
        types::F64 => (f64::from_bits(k as u64), mask == i64::MIN),
        types::F32 => (f32::from_bits(k as u32).into(), mask as u32 == 1 << 31),
        _ => return None,
    };
    let exponent = shift(ty, constant, true).filter(|_| is_sign)?;
    Some(Shift { exponent, negative: None })
}

/// Whether an instruction takes off `x` the constant that the instruction which makes `x` has
/// added: [`rounding()`] sees that.
pub fn is_plain(func: &ir::Function, inst: ir::Inst, x: Value) -> bool {
    let made = func.dfg.value_def(x).inst().and_then(|made| added(func, made));
    made.is_some() && made == off(func, inst, x)
}

/// The constant that an instruction adds to something; the negative of one that it takes off.
fn added(func: &ir::Function, inst: ir::Inst) -> Option<f64> {
    let InstructionData::Binary { opcode, args: [x, y] } = func.dfg.insts[inst] else { return None };
    match opcode {
        Opcode::Fadd => constant(func, y).or_else(|| constant(func, x)),
        Opcode::Fsub => constant(func, y).map(|c| -c),
        _ => None,
    }
}

/// The constant that an instruction takes off `x`, or from which it takes `x`.
fn off(func: &ir::Function, inst: ir::Inst, x: Value) -> Option<f64> {
    let InstructionData::Binary { opcode, args: [a, b] } = func.dfg.insts[inst] else { return None };
    match opcode {
        Opcode::Fadd if a == x => constant(func, b).map(|c| -c),
        Opcode::Fadd if b == x => constant(func, a).map(|c| -c),
        Opcode::Fsub if a == x => constant(func, b),
        Opcode::Fsub if b == x => constant(func, a),
        _ => None,
    }
}

/// The float that a value is in all lanes.
fn constant(func: &ir::Function, v: Value) -> Option<f64> {
    match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        InstructionData::UnaryIeee32 { imm, .. } => Some(f32::from_bits(imm.bits()).into()),
        InstructionData::UnaryIeee64 { imm, .. } => Some(f64::from_bits(imm.bits())),
        InstructionData::Unary { opcode: Opcode::Splat, arg } => constant(func, arg),
        // A constant of bytes may be the same float in all lanes, too.
        _ => {
            let bytes = constant_bytes(func, v)?;
            let width = func.dfg.value_type(v).lane_type().bytes() as usize;
            let (first, rest) = bytes.split_at_checked(width)?;
            let same = rest.chunks(width).all(|lane| lane == first);
            let number = match *first {
                [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
                [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
                _ => return None,
            };
            same.then_some(number)
        }
    }
}

/// The bytes of a constant vector, whatever its lanes are said to be.
fn constant_bytes(func: &ir::Function, v: Value) -> Option<&[u8]> {
    match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        InstructionData::UnaryConst { constant_handle, .. } => Some(func.dfg.constants.get(constant_handle).as_slice()),
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => constant_bytes(func, arg),
        _ => None,
    }
}

/// A body: that of the function in question, as it is now (`None`), or that of another, as the
/// program has it.
type BodyKey = Option<FuncKey>;

/// A function, and its uses.
struct RoundingBody {
    func: ir::Function,
    cfg: Cfg,
    users: HashMap<Value, SmallVec<[ir::Inst; 2]>>,
    /// Cells that are accessed, and how much of each.
    cells: HashMap<ir::Inst, (Cell, u32)>,
}

impl RoundingBody {
    fn new(mut func: ir::Function) -> Self {
        func.dfg.resolve_all_aliases();
        let cfg = Cfg::compute(&func);
        let mut users: HashMap<Value, SmallVec<[ir::Inst; 2]>> = HashMap::default();
        let mut cells = HashMap::default();
        for &b in &cfg.blocks {
            for inst in func.layout.block_insts(b) {
                for v in func.dfg.inst_values(inst) {
                    let list = users.entry(v).or_default();
                    if list.last() != Some(&inst) {
                        list.push(inst);
                    }
                }
                let (addr, ty) = match func.dfg.insts[inst] {
                    InstructionData::Load { opcode: Opcode::Load, arg, .. } => {
                        (arg, func.dfg.value_type(func.dfg.first_result(inst)))
                    }
                    InstructionData::Load { opcode, arg, .. } => (arg, narrow(opcode)),
                    InstructionData::Store { opcode: Opcode::Store, args: [x, p], .. } => (p, func.dfg.value_type(x)),
                    InstructionData::Store { opcode, args: [_, p], .. } => (p, narrow(opcode)),
                    _ => continue,
                };
                cells.insert(inst, (cell_of(&func, addr, access_offset(&func, inst)), ty.bytes()));
            }
        }
        Self { func, cfg, users, cells }
    }

    fn users(&self, v: Value) -> &[ir::Inst] {
        self.users.get(&v).map_or(&[], |u| u)
    }

    /// Loads that read what a store has put there; whether some read a part of it as an integer,
    /// and whether some read it in another way.
    fn loaded(&self, store: ir::Inst) -> (Vec<Value>, bool, bool) {
        let ((base, at), bytes) = self.cells[&store];
        let (mut found, mut part, mut otherwise) = (Vec::new(), false, false);
        let block = self.func.layout.inst_block(store).expect("it is in the layout");
        let mut seen = EntitySet::new();
        let mut work = vec![(block, self.func.layout.next_inst(store))];
        while let Some((b, mut next)) = work.pop() {
            let mut over = false;
            while let Some(inst) = next.filter(|_| !over) {
                next = self.func.layout.next_inst(inst);
                let Some(&((other, o), n)) = self.cells.get(&inst) else { continue };
                let (end, other_end) = (at.saturating_add(bytes.into()), o.saturating_add(n.into()));
                if other != base || o >= end || other_end <= at {
                    continue;
                }
                if self.func.dfg.insts[inst].opcode().can_store() {
                    over = o <= at && end <= other_end;
                } else if (o, n) == (at, bytes) {
                    found.push(self.func.dfg.first_result(inst));
                } else if n < bytes && self.func.dfg.value_type(self.func.dfg.first_result(inst)).is_int() {
                    part = true;
                } else {
                    otherwise = true;
                }
            }
            if !over {
                let starts = self.cfg.succs[b].iter().filter(|&&s| seen.insert(s));
                work.extend(starts.map(|&s| (s, self.func.layout.first_inst(s))));
            }
        }
        (found, part, otherwise)
    }

    /// What a load may read: what was stored to its cell last, on all ways; `None` if that is not
    /// known of some.
    fn stored(&self, load: ir::Inst) -> Option<Vec<Value>> {
        let ((base, at), bytes) = self.cells.get(&load).copied()?;
        let layout = &self.func.layout;
        let mut found = Vec::new();
        let mut seen = EntitySet::new();
        let mut work = vec![(layout.inst_block(load)?, layout.prev_inst(load))];
        while let Some((b, mut next)) = work.pop() {
            let mut stored = None;
            while let Some(inst) = next.filter(|_| stored.is_none()) {
                next = layout.prev_inst(inst);
                let Some(&((other, o), n)) = self.cells.get(&inst) else { continue };
                let InstructionData::Store { args: [x, _], .. } = self.func.dfg.insts[inst] else { continue };
                if other == base && o < at.saturating_add(bytes.into()) && at < o.saturating_add(n.into()) {
                    if (o, n) != (at, bytes) {
                        return None;
                    }
                    stored = Some(x);
                }
            }
            match stored {
                Some(x) => found.push(x),
                None if b == self.cfg.blocks[0] => return None,
                None => {
                    let before = self.cfg.preds[b].iter().filter(|&&p| seen.insert(p));
                    work.extend(before.map(|&p| (p, layout.last_inst(p))));
                }
            }
        }
        Some(found)
    }

    /// Whether only this function's own accesses by that name read a cell: in a slot of which all
    /// uses are seen, or in a frame on the stack in an instance's memory.
    fn is_private_cell(&self, program: &Program, (base, at): Cell) -> bool {
        let func = &self.func;
        match base {
            Base::Slot(slot) => self.cfg.blocks.iter().flat_map(|&b| func.layout.block_insts(b)).all(|inst| {
                !matches!(func.dfg.insts[inst], InstructionData::StackAddr { stack_slot, .. } if stack_slot == slot)
                    || self.is_only_accessed(func.dfg.first_result(inst), None)
            }),
            Base::Sum(x, y) if program.vmctx_pointers_only => {
                let params = func.dfg.block_params(self.cfg.blocks[0]);
                let frame = if params.first() == Some(&x) { y } else { x };
                self.is_frame(frame) && self.is_only_accessed(frame, Some(at))
            }
            _ => false,
        }
    }

    /// Whether an address, at any constant offset, or at the given one, is used for nothing but
    /// accesses.
    fn is_only_accessed(&self, address: Value, at: Option<i64>) -> bool {
        let func = &self.func;
        self.users(address).iter().all(|&u| match func.dfg.insts[u] {
            InstructionData::Load { .. } => true,
            InstructionData::Store { args: [x, _], .. } => {
                x != address || at.is_some_and(|k| k != 0) || self.is_global(self.cells[&u].0)
            }
            InstructionData::Unary { opcode: Opcode::Uextend, .. } => at.is_some(),
            InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, args } => {
                let by = args.iter().find_map(|&k| constant_int(func, k));
                match (at, by) {
                    // Of a frame's own address more is made than addresses of places.
                    (Some(k), Some(by)) if k == i64::from(by as i32) => {
                        self.is_only_accessed(func.dfg.first_result(u), Some(0))
                    }
                    (Some(_), _) => true,
                    (None, Some(_)) => self.is_only_accessed(func.dfg.first_result(u), None),
                    (None, None) => false,
                }
            }
            _ => at.is_some_and(|k| k != 0),
        })
    }

    /// Whether a number is a constant less than a global of an instance, which lies before the
    /// instance: where its stack ends.
    fn is_frame(&self, v: Value) -> bool {
        let func = &self.func;
        let Some(inst) = func.dfg.value_def(v).inst() else { return false };
        match func.dfg.insts[inst] {
            InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, args: [a, b] } => {
                constant_int(func, b).is_some() && self.is_frame(a)
                    || constant_int(func, a).is_some() && self.is_frame(b)
            }
            InstructionData::Load { .. } => self.cells.get(&inst).is_some_and(|x| self.is_global(x.0)),
            _ => false,
        }
    }

    /// Whether a cell lies before an instance.
    fn is_global(&self, (base, at): Cell) -> bool {
        at < 0 && self.func.dfg.block_params(self.cfg.blocks[0]).first().is_some_and(|&vm| base == Base::Value(vm))
    }
}

fn narrow(op: Opcode) -> Type {
    match op {
        Opcode::Istore8 | Opcode::Uload8 | Opcode::Sload8 => types::I8,
        Opcode::Istore16 | Opcode::Uload16 | Opcode::Sload16 => types::I16,
        Opcode::Istore32 | Opcode::Uload32 | Opcode::Sload32 => types::I32,
        _ => types::I64,
    }
}

/// Calls of each function, and whether its address is taken.
type Callers = HashMap<FuncKey, (Vec<(FuncKey, ir::Inst)>, bool)>;

/// A search in the bodies of a program.
struct BodySearch<'a> {
    program: &'a Program,
    key: FuncKey,
    root: bool,
    bodies: HashMap<BodyKey, Rc<RoundingBody>>,
    callers: Option<Callers>,
}

impl BodySearch<'_> {
    fn body(&mut self, at: BodyKey) -> Option<Rc<RoundingBody>> {
        if let Some(known) = self.bodies.get(&at) {
            return Some(known.clone());
        }
        let body = Rc::new(RoundingBody::new(self.program.funcs[at?].body.clone()?));
        self.bodies.insert(at, body.clone());
        Some(body)
    }

    /// Calls of a function; `None` if there may be others: it is what is asked for, or its address
    /// is taken.
    fn callers(&mut self, at: BodyKey) -> Option<Vec<(FuncKey, ir::Inst)>> {
        if at.is_none() && self.root {
            return None;
        }
        let program = self.program;
        let all = self.callers.get_or_insert_with(|| {
            let mut all = Callers::default();
            for (k, f) in &program.funcs {
                let Some(body) = &f.body else { continue };
                for inst in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
                    match body.dfg.insts[inst] {
                        InstructionData::Call { func_ref, .. } => {
                            if let Some(g) = program.callee(body, func_ref) {
                                all.entry(g).or_default().0.push((k, inst));
                            }
                        }
                        InstructionData::FuncAddr { func_ref, .. } => {
                            if let Some(g) = program.callee(body, func_ref) {
                                all.entry(g).or_default().1 = true;
                            }
                        }
                        _ => {}
                    }
                }
            }
            all
        });
        let (calls, addressed) = all.get(&at.unwrap_or(self.key))?;
        (!addressed).then(|| calls.clone())
    }

    /// Whether a value is on all ways the sum of something and a constant. `calls` are those by
    /// which the search has come down into this body.
    fn is_sum(
        &mut self,
        at: BodyKey,
        v: Value,
        c: f64,
        calls: &mut Vec<(BodyKey, ir::Inst)>,
        seen: &mut HashSet<(BodyKey, Value)>,
    ) -> bool {
        if !seen.insert((at, v)) {
            return true;
        }
        let Some(body) = self.body(at).filter(|_| seen.len() < MOST) else { return false };
        let func = &body.func;
        let inst = match func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(b, i) if b == body.cfg.blocks[0] => {
                if let Some((from, call)) = calls.pop() {
                    let caller = self.body(from).expect("the search came from there");
                    let arg = caller.func.dfg.inst_args(call)[i];
                    let found = self.is_sum(from, arg, c, calls, seen);
                    calls.push((from, call));
                    return found;
                }
                let Some(callers) = self.callers(at) else { return false };
                return callers.into_iter().all(|(k, call)| {
                    let caller = self.body(Some(k)).expect("who calls has a body");
                    let arg = caller.func.dfg.inst_args(call)[i];
                    self.is_sum(Some(k), arg, c, &mut Vec::new(), seen)
                });
            }
            ValueDef::Param(b, i) => {
                return body.cfg.preds[b].iter().all(|&p| {
                    let arg = edge_args(func, p, b)[i];
                    self.is_sum(at, arg, c, calls, seen)
                });
            }
            ValueDef::Union(..) => return false,
        };
        let args = func.dfg.inst_args(inst);
        match func.dfg.insts[inst].opcode() {
            Opcode::Fadd | Opcode::Fsub => added(func, inst) == Some(c),
            Opcode::Select => args[1..].iter().all(|&x| self.is_sum(at, x, c, calls, seen)),
            Opcode::Bitcast | Opcode::Splat | Opcode::Extractlane => self.is_sum(at, args[0], c, calls, seen),
            Opcode::Load => {
                let stored = body.stored(inst);
                stored.is_some_and(|all| all.into_iter().all(|x| self.is_sum(at, x, c, calls, seen)))
            }
            Opcode::Call if calls.len() < DEPTH => {
                let k = func.dfg.inst_results(inst).iter().position(|&r| r == v);
                let Some(CalleeKind::Derived(g)) = CalleeKind::of(self.program, func, inst) else { return false };
                let (Some(callee), Some(k)) = (self.body(Some(g)), k) else { return false };
                let returns: Vec<Value> = callee.returns().map(|r| callee.func.dfg.inst_args(r)[k]).collect();
                calls.push((at, inst));
                // What was seen of the callee was seen for another call.
                let mut callee_seen = HashSet::default();
                let found = !returns.is_empty()
                    && returns.into_iter().all(|x| self.is_sum(Some(g), x, c, calls, &mut callee_seen));
                calls.pop();
                found
            }
            _ => false,
        }
    }
}

impl RoundingBody {
    fn returns(&self) -> impl Iterator<Item = ir::Inst> + '_ {
        let last = self.cfg.blocks.iter().filter_map(|&b| self.func.layout.last_inst(b));
        last.filter(|&i| self.func.dfg.insts[i].opcode() == Opcode::Return)
    }
}

/// Where a sum is moved to, and what is done to it there.
#[derive(Default)]
struct SumUses {
    work: Vec<(BodyKey, Value)>,
    seen: HashSet<(BodyKey, Value)>,
    /// By which calls the search has come into a function.
    by: HashMap<BodyKey, Vec<(BodyKey, ir::Inst)>>,
    /// Results that it is.
    returned: HashSet<(BodyKey, usize)>,
    /// The constant comes off, or bits are taken.
    taken: bool,
    /// Something else is done.
    otherwise: bool,
}

impl SumUses {
    fn of(follow: &mut BodySearch<'_>, sum: Value, c: f64) -> Self {
        let mut held = Self::default();
        held.push(None, sum);
        while let Some((at, v)) = held.work.pop() {
            if held.seen.len() > MOST {
                held.otherwise = true;
                break;
            }
            let body = follow.body(at).expect("a value has a body");
            for &user in body.users(v) {
                held.used(follow, at, &body, v, user, c);
            }
        }
        held
    }

    fn push(&mut self, at: BodyKey, v: Value) {
        if self.seen.insert((at, v)) {
            self.work.push((at, v));
        }
    }

    fn used(
        &mut self,
        follow: &mut BodySearch<'_>,
        at: BodyKey,
        body: &RoundingBody,
        v: Value,
        user: ir::Inst,
        c: f64,
    ) {
        use Opcode::*;
        let func = &body.func;
        let args = func.dfg.inst_args(user);
        match func.dfg.insts[user].opcode() {
            Fadd | Fsub if off(func, user, v) == Some(c) => self.taken = true,
            Fcmp | FcvtToSint | FcvtToUint | FcvtToSintSat | FcvtToUintSat => {}
            // How large it is.
            Fabs => self.push(at, func.dfg.first_result(user)),
            Bitcast | Splat | Insertlane | Extractlane | ScalarToVector | Shuffle => {
                self.push(at, func.dfg.first_result(user));
            }
            Select if args[0] != v => self.push(at, func.dfg.first_result(user)),
            Jump | Brif | BrTable => {
                for &b in &body.cfg.succs[func.layout.inst_block(user).expect("it is in the layout")] {
                    let from = func.layout.inst_block(user).expect("it is in the layout");
                    for (&p, a) in func.dfg.block_params(b).iter().zip(edge_args(func, from, b)) {
                        if a == v {
                            self.push(at, p);
                        }
                    }
                }
            }
            Store if args[0] == v => {
                let (found, part, otherwise) = body.loaded(user);
                self.taken |= part;
                self.otherwise |= otherwise || !body.is_private_cell(follow.program, body.cells[&user].0);
                found.into_iter().for_each(|x| self.push(at, x));
            }
            Return => {
                for k in (0..args.len()).filter(|&k| args[k] == v) {
                    self.returns(follow, at, k);
                }
            }
            Call => self.passed(follow, at, body, v, user),
            // Calculating with bits; but a sign that is set or cleared is a float's.
            op => match func.dfg.value_type(v).lane_type().is_int() && !op.is_call() && !sets_sign(func, user) {
                true => self.taken = true,
                false => self.otherwise = true,
            },
        }
    }

    fn returns(&mut self, follow: &mut BodySearch<'_>, at: BodyKey, k: usize) {
        if !self.returned.insert((at, k)) {
            return;
        }
        if let Some(calls) = self.by.get(&at) {
            for (from, call) in calls.clone() {
                let caller = follow.body(from).expect("the search came from there");
                self.push(from, caller.func.dfg.inst_results(call)[k]);
            }
            return;
        }
        // Others may be what is asked for.
        match follow.callers(at).filter(|_| at.is_none()) {
            Some(calls) if !calls.is_empty() => {
                for (from, call) in calls {
                    let caller = follow.body(Some(from)).expect("who calls has a body");
                    self.push(Some(from), caller.func.dfg.inst_results(call)[k]);
                }
            }
            _ => self.otherwise = true,
        }
    }

    fn passed(&mut self, follow: &mut BodySearch<'_>, at: BodyKey, body: &RoundingBody, v: Value, call: ir::Inst) {
        let func = &body.func;
        let Some(CalleeKind::Derived(g)) = CalleeKind::of(follow.program, func, call) else {
            self.otherwise = true;
            return;
        };
        let Some(callee) = follow.body(Some(g)).filter(|_| follow.program.funcs[g].computes.is_none()) else {
            self.otherwise = true;
            return;
        };
        self.by.entry(Some(g)).or_default().push((at, call));
        for (&p, &a) in callee.func.dfg.block_params(callee.cfg.blocks[0]).iter().zip(func.dfg.inst_args(call)) {
            if a == v {
                self.push(Some(g), p);
            }
        }
        for (k, &r) in func.dfg.inst_results(call).iter().enumerate() {
            if self.returned.contains(&(Some(g), k)) {
                self.push(at, r);
            }
        }
    }
}

/// Whether an operation on bits is `fneg` or `fabs` of the float.
fn sets_sign(func: &ir::Function, inst: ir::Inst) -> bool {
    let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else { return false };
    let bits = func.dfg.value_type(args[0]).bits();
    let Some(k) = args.iter().find_map(|&a| constant_int(func, a)).filter(|_| matches!(bits, 32 | 64)) else {
        return false;
    };
    let (all, sign) = (u64::MAX >> (64 - bits), 1 << (bits - 1));
    match opcode {
        Opcode::Band => k as u64 & all == all ^ sign,
        Opcode::Bor | Opcode::Bxor => k as u64 & all == sign,
        _ => false,
    }
}
