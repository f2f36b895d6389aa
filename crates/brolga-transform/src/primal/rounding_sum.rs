//! Peephole for sums that round: where a large constant comes off, a number that has been rounded
//! says so by its size.
//!
//! **Problem.** `(x + 1.5·2⁵²) - 1.5·2⁵²` rounds `x`, so its slope is zero. An analysis sees that
//! where it can follow the sum (`brolga_analysis::activity::rounding`). It does not where the sum
//! has been in an array, comes from a function that is called through a pointer, meets another
//! value, or was made by `fma`.
//!
//! **Answer.** Where such a constant comes off, the run knows: a number of the constant's size has
//! no digits left below the constant's last one, and one that is much smaller is no such sum. So
//!
//! ```text
//! y = n - c      becomes      y = |n| >= c' ? nearest(2ᵏ (n - c)) / 2ᵏ : n - c
//! ```
//!
//! where `c'` is the largest power of two below `c`, by which a sum with a negative number is at
//! least as large, or half of it; and `2ᵏ` makes the last digit of such a number an integer. The
//! slope of `nearest` is zero. A number that would overflow when it is scaled is none of those.
//!
//! **Invariant.** `y` is the number that it was: the scaled difference is an integer, and powers of
//! two scale without rounding. Only constants of a form that is hardly used for anything else
//! (`brolga_analysis::activity::rounding::shift_of`).
//!
//! A constant may come from a table, as that of `rint` by the sign of its argument. The run asks
//! what it is, where what was added comes off again:
//!
//! ```text
//! c = load p                becomes      y = c is 2⁵² or 1.5·2⁵² ? nearest((x + c) - c) : (x + c) - c
//! y = (x + c) - c
//! ```
//!
//! **Where.** Where a positive constant, or one whose sign the run chooses, is subtracted, a
//! negative one added, or such a difference subtracted from one. To add a positive constant is to
//! round. Not where the instruction before has added the constant, which the analysis sees: a
//! question is seven instructions.
//!
//! **Cost.** One walk over the instructions, and a second one if such a constant is found.

use brolga_analysis::activity::rounding::{Shift, is_plain, shift_of};
use cranelift_codegen::cursor::FuncCursor;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, Type, Value, ValueDef, types};
use cranelift_entity::EntitySet;

use crate::primal::edit::before;

/// A constant that comes off.
struct Removal {
    inst: ir::Inst,
    /// What it comes off.
    from: Value,
    constant: RoundingConstant,
}

/// What comes off.
enum RoundingConstant {
    /// A constant with this exponent.
    Known(i32),
    /// Perhaps one, from memory.
    Loaded(Value),
}

/// Let the run ask whether what such constants come off was rounded.
pub fn rounding_sum(func: &mut ir::Function) {
    let all = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let found: Vec<Removal> = all().filter_map(|inst| removal(func, inst)).collect();
    if found.is_empty() {
        return;
    }
    // What is followed by its opposite is the sum.
    let mut sums = EntitySet::new();
    for inst in all().filter(|&i| matches!(func.dfg.insts[i].opcode(), Opcode::Fadd | Opcode::Fsub)) {
        for &x in func.dfg.inst_args(inst).iter().filter(|&&x| is_plain(func, inst, x)) {
            sums.insert(x);
        }
    }
    let is_open = |r: &Removal| !is_plain(func, r.inst, r.from) && !sums.contains(func.dfg.first_result(r.inst));
    let open: Vec<Removal> = found.into_iter().filter(is_open).collect();
    for removal in open {
        ask(func, &removal);
    }
}

/// Whether an instruction may take such a constant off.
fn removal(func: &ir::Function, inst: ir::Inst) -> Option<Removal> {
    let InstructionData::Binary { opcode: opcode @ (Opcode::Fadd | Opcode::Fsub), args: [a, b] } = func.dfg.insts[inst]
    else {
        return None;
    };
    if let Some(found) = loaded(func, inst) {
        return Some(found);
    }
    let of = |from, constant, is: &dyn Fn(Shift) -> bool| {
        let shift = shift_of(func, constant).filter(|&s| is(s))?;
        Some(Removal { inst, from, constant: RoundingConstant::Known(shift.exponent) })
    };
    if opcode == Opcode::Fadd {
        let is = |s: Shift| s.negative == Some(true);
        return of(a, b, &is).or_else(|| of(b, a, &is));
    }
    let from_constant = || of(b, a, &|s| s.negative != Some(true)).filter(|_| may_be_difference(func, b));
    of(a, b, &|s| s.negative != Some(true)).or_else(from_constant)
}

/// Whether an instruction takes off what was loaded and has been added, or the other way round.
fn loaded(func: &ir::Function, inst: ir::Inst) -> Option<Removal> {
    let binary = |inst: ir::Inst| match func.dfg.insts[inst] {
        InstructionData::Binary { opcode: opcode @ (Opcode::Fadd | Opcode::Fsub), args } => Some((opcode, args)),
        _ => None,
    };
    let is_loaded = |c: Value| {
        let load = func.dfg.value_def(c).inst().is_some_and(|i| func.dfg.insts[i].opcode() == Opcode::Load);
        load && !func.dfg.value_type(c).is_vector()
    };
    let (opcode, [a, b]) = binary(inst)?;
    let ways = if opcode == Opcode::Fadd { &[(a, b), (b, a)][..] } else { &[(a, b)] };
    ways.iter().find_map(|&(from, c)| {
        let (before, args) = binary(func.dfg.value_def(from).inst()?)?;
        let was_there = match (before, opcode) {
            (Opcode::Fadd, Opcode::Fsub) => args.contains(&c),
            (Opcode::Fsub, Opcode::Fadd) => args[1] == c,
            _ => false,
        };
        (was_there && is_loaded(c)).then_some(Removal { inst, from, constant: RoundingConstant::Loaded(c) })
    })
}

/// Whether a value is a difference from such a constant, or comes from where that is not seen.
fn may_be_difference(func: &ir::Function, v: Value) -> bool {
    match func.dfg.value_def(v) {
        ValueDef::Result(inst, _) => match func.dfg.insts[inst] {
            InstructionData::Binary { opcode: Opcode::Fsub, args: [c, _] } => shift_of(func, c).is_some(),
            ref data => data.opcode().can_load() || data.opcode().is_call(),
        },
        ValueDef::Param(b, _) => func.layout.entry_block() != Some(b),
        ValueDef::Union(..) => false,
    }
}

fn ask(func: &mut ir::Function, removal: &Removal) {
    let inst = removal.inst;
    let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else { unreachable!("a sum") };
    let ty = func.dfg.value_type(removal.from);
    let mut pos = before(func, inst);
    let (difference, dfg) = pos.ins().Binary(opcode, ty, args[0], args[1]);
    let difference = dfg.first_result(difference);
    let (is_rounded, rounded) = match removal.constant {
        RoundingConstant::Known(exponent) => by_size(&mut pos, removal.from, difference, exponent),
        RoundingConstant::Loaded(c) => (is_shift(&mut pos, c), pos.ins().nearest(difference)),
    };
    let (opcode, which) = if ty.is_vector() {
        let flags = ir::MemFlagsData::new().with_endianness(ir::Endianness::Little);
        (Opcode::Bitselect, pos.ins().bitcast(ty, flags, is_rounded))
    } else {
        (Opcode::Select, is_rounded)
    };
    pos.func.dfg.insts[inst] = InstructionData::Ternary { opcode, args: [which, rounded, difference] };
}

/// Whether a number was rounded by a constant of such an exponent, as its size says, and what is
/// left of it then.
fn by_size(pos: &mut FuncCursor<'_>, from: Value, difference: Value, exponent: i32) -> (Value, Value) {
    let ty = pos.func.dfg.value_type(from);
    // A number to whose size there is nothing more to scale by.
    let (digits, most) = if ty.lane_type() == types::F64 { (54, 1000) } else { (25, 120) };
    let power = |pos: &mut FuncCursor<'_>, k: i32| constant(pos, ty, 2f64.powi(k));
    let (least, up, down) = (power(pos, exponent - 1), power(pos, digits - exponent), power(pos, exponent - digits));
    let size = pos.ins().fabs(from);
    let most = power(pos, most);
    let is_large = pos.ins().fcmp(FloatCC::GreaterThanOrEqual, size, least);
    let scales = pos.ins().fcmp(FloatCC::LessThan, size, most);
    let is_rounded = pos.ins().band(is_large, scales);
    let scaled = pos.ins().fmul(difference, up);
    let rounded = pos.ins().nearest(scaled);
    (is_rounded, pos.ins().fmul(rounded, down))
}

/// Whether a number is the least, or one and a half times the least, that has no digits after the
/// point.
fn is_shift(pos: &mut FuncCursor<'_>, c: Value) -> Value {
    let ty = pos.func.dfg.value_type(c);
    let least = if ty == types::F64 { 2f64.powi(52) } else { 2f64.powi(23) };
    let size = pos.ins().fabs(c);
    let [is_least, is_next] = [least, 1.5 * least].map(|x| {
        let x = constant(pos, ty, x);
        pos.ins().fcmp(FloatCC::Equal, size, x)
    });
    pos.ins().bor(is_least, is_next)
}

/// A number in all lanes of a type.
fn constant(pos: &mut FuncCursor<'_>, ty: Type, x: f64) -> Value {
    let lane = match ty.lane_type() {
        types::F64 => pos.ins().f64const(Ieee64::with_float(x)),
        _ => pos.ins().f32const(Ieee32::with_float(x as f32)),
    };
    if ty.is_vector() { pos.ins().splat(ty, lane) } else { lane }
}
