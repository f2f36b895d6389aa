//! Spellings of guards: choices that say "not zero" in other words, as `select`s by `fcmp ne`.
//!
//! **Problem.** `x ≠ 0 ? x·y : 0` is a guarded product, whose slope at zero is `y`
//! ([`brolga_analysis::guards::products`]). Programs write the same choice as a mask of the bits
//! (`bmask`, the negative of a flag), by `|x| > 0`, `x < 0 or x > 0`, or `fcmp one`, with a zero of
//! either sign, or by a flag that was made an integer. Read as branches these have slope zero at
//! zero.
//!
//! **Answer.** A condition that is one thing where `x` is zero, and the other at all other numbers,
//! asks about `x`. A float that is chosen by it, or whose bits are, becomes a `select` by
//! `fcmp ne x, 0`. Where the condition takes a NaN for a zero, a second `select` sees to that.
//!
//! ```text
//! v4 = bmask.i64 v3                    v3 = fcmp ne v1, 0
//! v6 = bitcast.i64 v5                  v8 = select v3, v5, 0.0
//! v7 = band v6, v4                     v7 = bitcast.i64 v8
//!
//! v3 = fcmp one v1, 0                  v6 = fcmp ne v1, 0
//! v7 = select v3, v5, 0.0              v8 = select v6, v5, 0.0
//!                                      v9 = fcmp ord v1, v1
//!                                      v7 = select v9, v8, 0.0
//! ```
//!
//! **Invariant.** Every float is the number that it was, bit for bit.
//!
//! **Cost.** One pass over the instructions, and [`MOST_STEPS`] steps back from each choice.

use brolga_analysis::bits::bit_idioms::constant_bytes;
use brolga_analysis::guards::products::MOST_STEPS;
use brolga_ir::map::HashMap;
use cranelift_codegen::ir::condcodes::{CondCode, FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, MemFlagsData, Opcode, Type, types};

use crate::primal::edit::before;

/// What a condition says of a float.
#[derive(Clone, Copy)]
struct ZeroTest {
    /// The float.
    of: ir::Value,
    /// What it is where that is zero; at other numbers it is the opposite.
    at_zero: bool,
    /// What it is where that is NaN.
    at_nan: bool,
}

/// A float that is kept where a mask is set, or a condition holds, and is zero elsewhere.
struct MaskedFloat {
    float: ir::Value,
    by: ZeroTest,
    /// The zero, if the program has named one.
    zero: Option<ir::Value>,
}

/// Write choices so that ask whether a float is zero.
pub(crate) fn masks(func: &mut ir::Function) {
    let all: Vec<ir::Inst> = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect();
    // Bits that were masked, and the float that they are of.
    let mut chosen_floats: HashMap<ir::Value, ir::Value> = HashMap::default();
    for &inst in &all {
        let Some(masked) = masked_float(func, inst) else { continue };
        let result = func.dfg.first_result(inst);
        let (ty, result_ty) = (func.dfg.value_type(masked.float), func.dfg.value_type(result));
        if ty == result_ty {
            let [c, x, zero] = choice(func, inst, &masked, ty);
            func.replace(inst).select(c, x, zero);
        } else {
            let [c, x, zero] = choice(func, inst, &masked, ty);
            let chosen = before(func, inst).ins().select(c, x, zero);
            func.replace(inst).bitcast(result_ty, MemFlagsData::new(), chosen);
            chosen_floats.insert(result, chosen);
        }
    }
    if chosen_floats.is_empty() {
        return;
    }
    for inst in all {
        let InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } = func.dfg.insts[inst] else { continue };
        let Some(&chosen) = chosen_floats.get(&arg) else { continue };
        let float = func.dfg.first_result(inst);
        if func.dfg.value_type(float) == func.dfg.value_type(chosen) {
            func.layout.remove_inst(inst);
            func.dfg.clear_results(inst);
            func.dfg.change_to_alias(float, chosen);
        }
    }
    // Others are asked by the names of their operands.
    func.dfg.resolve_all_aliases();
}

/// The operands of the `select`.
fn choice(func: &mut ir::Function, inst: ir::Inst, masked: &MaskedFloat, ty: Type) -> [ir::Value; 3] {
    let ZeroTest { of, at_zero, at_nan } = masked.by;
    let asked = func.dfg.value_type(of);
    let mut pos = before(func, inst);
    let mut constant = |ty| if ty == types::F32 { pos.ins().f32const(0.0) } else { pos.ins().f64const(0.0) };
    let origin = constant(asked);
    let zero = masked.zero.unwrap_or_else(|| constant(ty));
    let differs = pos.ins().fcmp(FloatCC::NotEqual, of, origin);
    if at_zero != at_nan {
        return [differs, masked.float, zero];
    }
    let number = pos.ins().select(differs, masked.float, zero);
    [pos.ins().fcmp(FloatCC::Ordered, of, of), number, zero]
}

/// A scalar float that an instruction keeps or makes zero, unless the normal form is there already.
fn masked_float(func: &ir::Function, inst: ir::Inst) -> Option<MaskedFloat> {
    let data = func.dfg.insts[inst];
    let ty = func.dfg.value_type(*func.dfg.inst_results(inst).first()?);
    if !matches!(ty, types::F32 | types::F64 | types::I32 | types::I64) {
        return None;
    }
    let float = |v: ir::Value| {
        let v = if ty.is_float() { v } else { bits_of(func, v)? };
        func.dfg.value_type(v).is_float().then_some(v)
    };
    let (by, set, clear) = match data {
        InstructionData::Ternary { opcode: Opcode::Select, args: [c, x, y] } => {
            if ty.is_float() && is_plain(func, c, x) {
                return None;
            }
            (condition(func, c, MOST_STEPS)?, Some(x), Some(y))
        }
        InstructionData::Ternary { opcode: Opcode::Bitselect, args: [m, x, y] } => {
            (mask(func, m, MOST_STEPS)?, Some(x), Some(y))
        }
        InstructionData::Binary { opcode: Opcode::Band, args: [x, y] } => match mask(func, y, MOST_STEPS) {
            Some(by) => (by, Some(x), None),
            None => (mask(func, x, MOST_STEPS)?, Some(y), None),
        },
        _ => return None,
    };
    let is_zero = |v: ir::Value| if ty.is_float() { is_zero_number(func, v) } else { all(func, v, 0) };
    // What is kept is so where the float is not zero.
    let (keeps, cuts) = if by.at_zero { (clear, set) } else { (set, clear) };
    let zero = cuts.filter(|_| ty.is_float());
    cuts.is_none_or(is_zero).then_some(MaskedFloat { float: float(keeps?)?, by, zero })
}

/// Whether a condition compares with the plain zero in a way that needs no other spelling.
fn is_plain(func: &ir::Function, c: ir::Value, if_true: ir::Value) -> bool {
    match data_of(func, c) {
        Some(InstructionData::FloatCompare { cond, args, .. }) if args.iter().any(|&v| all(func, v, 0)) => {
            cond == FloatCC::NotEqual || cond == FloatCC::Equal && all(func, if_true, 0)
        }
        _ => false,
    }
}

fn data_of(func: &ir::Function, v: ir::Value) -> Option<InstructionData> {
    Some(func.dfg.insts[func.dfg.value_def(v).inst()?])
}

/// Whether all bytes of a constant are the same as this one.
fn all(func: &ir::Function, v: ir::Value, byte: u8) -> bool {
    constant_bytes(func, v).is_some_and(|bytes| bytes.iter().all(|&b| b == byte))
}

/// Whether a scalar is a zero of either sign.
fn is_zero_number(func: &ir::Function, v: ir::Value) -> bool {
    constant_bytes(func, v).is_some_and(|bytes| match bytes.split_last() {
        Some((last, rest)) => last & 0x7f == 0 && rest.iter().all(|&b| b == 0),
        None => false,
    })
}

/// The scalar whose bits a value is.
fn bits_of(func: &ir::Function, v: ir::Value) -> Option<ir::Value> {
    match data_of(func, v)? {
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => Some(arg),
        _ => None,
    }
}

impl ZeroTest {
    fn not(self) -> Self {
        Self { at_zero: !self.at_zero, at_nan: !self.at_nan, ..self }
    }

    fn not_if(self, opposite: bool) -> Self {
        if opposite { self.not() } else { self }
    }
}

/// What a condition asks, if that is whether a scalar float is zero.
fn condition(func: &ir::Function, c: ir::Value, left: u32) -> Option<ZeroTest> {
    let left = left.checked_sub(1)?;
    match data_of(func, c)? {
        InstructionData::FloatCompare { cond, args, .. } => comparison(func, cond, args),
        // A flag as an integer of another width.
        InstructionData::Unary { opcode: Opcode::Uextend | Opcode::Sextend | Opcode::Bmask, arg } => {
            condition(func, arg, left)
        }
        InstructionData::IntCompare { cond: cond @ (IntCC::Equal | IntCC::NotEqual), args: [x, y], .. } => {
            let flag = if all(func, y, 0) { x } else { Some(y).filter(|_| all(func, x, 0))? };
            Some(condition(func, flag, left)?.not_if(cond == IntCC::Equal))
        }
        // Below zero or above.
        InstructionData::Binary { opcode: Opcode::Bor, args } => {
            let side = |v: ir::Value| {
                let InstructionData::FloatCompare { cond, args: [x, y], .. } = data_of(func, v)? else { return None };
                let (of, cond) = if is_zero_number(func, y) { (x, cond) } else { (y, cond.swap_args()) };
                let other = if of == x { y } else { x };
                is_zero_number(func, other).then_some((of, cond))
            };
            let ((x, one), (y, two)) = (side(args[0])?, side(args[1])?);
            let sides = [(one, two), (two, one)].contains(&(FloatCC::LessThan, FloatCC::GreaterThan));
            (x == y && sides).then_some(ZeroTest { of: x, at_zero: false, at_nan: false })
        }
        _ => None,
    }
}

/// The same of a comparison.
fn comparison(func: &ir::Function, cond: FloatCC, [x, y]: [ir::Value; 2]) -> Option<ZeroTest> {
    let (of, cond) = match [x, y].map(|v| is_zero_number(func, v)) {
        [false, true] => (x, cond),
        [true, false] => (y, cond.swap_args()),
        _ => return None,
    };
    if !func.dfg.value_type(of).is_float() {
        return None;
    }
    let test = |of, at_zero, at_nan| Some(ZeroTest { of, at_zero, at_nan });
    let size_of = match data_of(func, of) {
        Some(InstructionData::Unary { opcode: Opcode::Fabs, arg }) => Some(arg),
        _ => None,
    };
    match (cond, size_of) {
        (FloatCC::Equal, _) => test(of, true, false),
        (FloatCC::NotEqual, _) => test(of, false, true),
        (FloatCC::OrderedNotEqual, _) => test(of, false, false),
        (FloatCC::UnorderedOrEqual, _) => test(of, true, true),
        // A size is above zero, or is it.
        (FloatCC::GreaterThan, Some(of)) => test(of, false, false),
        (FloatCC::UnorderedOrGreaterThan, Some(of)) => test(of, false, true),
        (FloatCC::LessThanOrEqual, Some(of)) => test(of, true, false),
        (FloatCC::UnorderedOrLessThanOrEqual, Some(of)) => test(of, true, true),
        _ => None,
    }
}

/// What a mask of all bits or none asks, if that is whether a scalar float is zero.
fn mask(func: &ir::Function, m: ir::Value, left: u32) -> Option<ZeroTest> {
    let left = left.checked_sub(1)?;
    let one =
        |v: ir::Value| constant_bytes(func, v).is_some_and(|b| b.iter().zip(0..).all(|(&b, k)| b == u8::from(k == 0)));
    match data_of(func, m)? {
        InstructionData::Unary { opcode: Opcode::Bmask, arg } => condition(func, arg, left),
        InstructionData::Unary { opcode: Opcode::Bnot, arg } => Some(mask(func, arg, left)?.not()),
        InstructionData::Unary { opcode: Opcode::Sextend, arg } => mask(func, arg, left),
        InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } if !func.dfg.value_type(arg).is_vector() => {
            mask(func, arg, left)
        }
        InstructionData::Unary { opcode: Opcode::Ineg, arg } => flag(func, arg, left),
        InstructionData::Binary { opcode, args: [x, y] } => match opcode {
            Opcode::Isub if all(func, x, 0) => flag(func, y, left),
            Opcode::Isub if one(y) => Some(flag(func, x, left)?.not()),
            Opcode::Iadd if all(func, y, 0xff) => Some(flag(func, x, left)?.not()),
            Opcode::Bxor if all(func, y, 0xff) => Some(mask(func, x, left)?.not()),
            _ => None,
        },
        InstructionData::Ternary { opcode: Opcode::Select, args: [c, x, y] } => {
            let set = all(func, x, 0xff) && all(func, y, 0);
            let clear = all(func, x, 0) && all(func, y, 0xff);
            if set || clear { Some(condition(func, c, left)?.not_if(clear)) } else { None }
        }
        _ => None,
    }
}

/// The same of one or zero.
fn flag(func: &ir::Function, v: ir::Value, left: u32) -> Option<ZeroTest> {
    match data_of(func, v)? {
        InstructionData::Unary { opcode: Opcode::Uextend, arg } => flag(func, arg, left.checked_sub(1)?),
        InstructionData::FloatCompare { .. } | InstructionData::IntCompare { .. } => condition(func, v, left),
        // Flags together are one.
        InstructionData::Binary { opcode: Opcode::Bor, .. } => condition(func, v, left),
        _ => None,
    }
}
