//! Additions that round.
//!
//! **Problem.** The sum of a float and a number so large that its unit in the last place is one is an integer: `(x + 1.5·2⁵²) - 1.5·2⁵²` is `x`, rounded, and so `sin`, `exp` and their like reduce their
//! arguments. Its derivative is zero, as that of `nearest`. Taken as sums these have the slope one, and what is left of the argument, `x - π/2 · round(2x/π)`, none: a
//! gradient that is zero, and wrong.
//!
//! **Answer.** [`rounds`] knows them by the constant, and by what becomes of the sum. A sum of doubles with `1.5·2ᵏ` is one for `k` from 40 to 52: such a number stands for nothing. (For less than 52 it is rounded to fractions, for tables.) With
//! other constants that round to whole numbers, and for singles, with such as `1.5·2²³`, the constant has to be taken off again, or the bits of the sum be taken for an integer.
//!
//! **Errs** in a sum with such a constant that nobody meant to round: its derivative is taken to be zero, which is true of the number that is computed.

use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value, types};

/// Whether an instruction rounds a float by adding a constant to it. `users` gives the instructions that use a value.
pub fn rounds<I: IntoIterator<Item = ir::Inst>>(
    func: &ir::Function,
    inst: ir::Inst,
    users: impl FnOnce(Value) -> I,
) -> bool {
    let Some(constant) = added(func, inst) else { return false };
    let sum = func.dfg.first_result(inst);
    let lane = func.dfg.value_type(sum).lane_type();
    let Some(size) = Size::of(constant.abs(), lane) else { return false };
    let tells = |user: ir::Inst| match func.dfg.insts[user].opcode() {
        Opcode::Bitcast => func.dfg.value_type(func.dfg.first_result(user)).lane_type().is_int(),
        _ => added(func, user) == Some(-constant) && func.dfg.inst_args(user).contains(&sum),
    };
    size == Size::Telling || users(sum).into_iter().any(tells)
}

/// How large a constant is.
#[derive(Clone, Copy, PartialEq)]
enum Size {
    /// So that it rounds to whole numbers, or is of a form that is hardly used for anything else.
    Rounding,
    /// So that there is no other use for it.
    Telling,
}

impl Size {
    fn of(constant: f64, lane: Type) -> Option<Self> {
        if !constant.is_finite() {
            return None;
        }
        let bits = constant.to_bits();
        let exponent = (bits >> 52) as i32 - 1023;
        let is_middle = bits << 12 == 1 << 63;
        let (whole, least, telling) = match lane {
            types::F64 => (52, 40, true),
            types::F32 => (23, 12, false),
            _ => return None,
        };
        if is_middle && (least..=whole).contains(&exponent) {
            return Some(if telling { Size::Telling } else { Size::Rounding });
        }
        (exponent == whole).then_some(Size::Rounding)
    }
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

/// The float that a value is in all lanes.
fn constant(func: &ir::Function, v: Value) -> Option<f64> {
    match func.dfg.insts[func.dfg.value_def(func.dfg.resolve_aliases(v)).inst()?] {
        InstructionData::UnaryIeee32 { imm, .. } => Some(f32::from_bits(imm.bits()).into()),
        InstructionData::UnaryIeee64 { imm, .. } => Some(f64::from_bits(imm.bits())),
        InstructionData::Unary { opcode: Opcode::Splat, arg } => constant(func, arg),
        InstructionData::UnaryConst { constant_handle, .. } => {
            let bytes = func.dfg.constants.get(constant_handle).as_slice();
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
        _ => None,
    }
}
