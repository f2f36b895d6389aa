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
//! slope of `nearest` is zero.
//!
//! **Invariant.** `y` is the number that it was: the scaled difference is an integer, and powers of
//! two scale without rounding. Only constants of a form that is hardly used for anything else
//! (`brolga_analysis::activity::rounding::exponent_of_shift`).
//!
//! **Where not.** Where the constant has been added by the instruction before, which the analysis
//! sees, and where it is added for another one to take it off: five instructions less.

use brolga_analysis::activity::rounding::exponent_of_shift;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, Type, Value, types};
use cranelift_entity::EntitySet;

use crate::primal::edit::before;

/// A constant that comes off.
struct Removal {
    inst: ir::Inst,
    /// What it comes off.
    from: Value,
    /// Of the constant.
    exponent: i32,
}

/// Let the run ask whether what such constants come off was rounded.
pub fn rounding_sum(func: &mut ir::Function) {
    let all = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let sums: Vec<Removal> = all().filter_map(|inst| removal(func, inst)).collect();
    if sums.is_empty() {
        return;
    }
    // Sums of which another one, or integer arithmetic, takes the constant off.
    let (mut are_sums, mut taken_off) = (EntitySet::new(), EntitySet::new());
    for sum in &sums {
        are_sums.insert(sum.inst);
        taken_off.insert(sum.from);
    }
    for inst in all().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Bitcast) {
        taken_off.insert(func.dfg.inst_args(inst)[0]);
    }
    let seen = |s: &Removal| {
        let made_by = func.dfg.value_def(s.from).inst();
        made_by.is_some_and(|i| are_sums.contains(i)) || taken_off.contains(func.dfg.first_result(s.inst))
    };
    let open: Vec<Removal> = sums.into_iter().filter(|s| !seen(s)).collect();
    for removal in open {
        ask(func, &removal);
    }
}

/// Whether an instruction is a sum with such a constant, or a difference from one.
fn removal(func: &ir::Function, inst: ir::Inst) -> Option<Removal> {
    let InstructionData::Binary { opcode: Opcode::Fadd | Opcode::Fsub, args: [a, b] } = func.dfg.insts[inst] else {
        return None;
    };
    let of = |from, constant| Some(Removal { inst, from, exponent: exponent_of_shift(func, constant)? });
    of(a, b).or_else(|| of(b, a))
}

fn ask(func: &mut ir::Function, &Removal { inst, from, exponent }: &Removal) {
    let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else { unreachable!("a sum") };
    let ty = func.dfg.value_type(from);
    let digits = if ty.lane_type() == types::F64 { 54 } else { 25 };
    let mut pos = before(func, inst);
    let (difference, dfg) = pos.ins().Binary(opcode, ty, args[0], args[1]);
    let difference = dfg.first_result(difference);
    let power = |pos: &mut cranelift_codegen::cursor::FuncCursor<'_>, k: i32| constant(pos, ty, 2f64.powi(k));
    let (least, up, down) =
        (power(&mut pos, exponent - 1), power(&mut pos, digits - exponent), power(&mut pos, exponent - digits));
    let size = pos.ins().fabs(from);
    let is_rounded = pos.ins().fcmp(FloatCC::GreaterThanOrEqual, size, least);
    let scaled = pos.ins().fmul(difference, up);
    let whole = pos.ins().nearest(scaled);
    let rounded = pos.ins().fmul(whole, down);
    let (opcode, which) = if ty.is_vector() {
        let flags = ir::MemFlagsData::new().with_endianness(ir::Endianness::Little);
        (Opcode::Bitselect, pos.ins().bitcast(ty, flags, is_rounded))
    } else {
        (Opcode::Select, is_rounded)
    };
    pos.func.dfg.insts[inst] = InstructionData::Ternary { opcode, args: [which, rounded, difference] };
}

/// A number in all lanes of a type.
fn constant(pos: &mut cranelift_codegen::cursor::FuncCursor<'_>, ty: Type, x: f64) -> Value {
    let lane = match ty.lane_type() {
        types::F64 => pos.ins().f64const(Ieee64::with_float(x)),
        _ => pos.ins().f32const(Ieee32::with_float(x as f32)),
    };
    if ty.is_vector() { pos.ins().splat(ty, lane) } else { lane }
}
