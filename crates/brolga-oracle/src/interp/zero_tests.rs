//! Zero tests: conditions and masks that say of a float whether it is zero.
//!
//! **Problem.** A guard may ask whether a float is zero in many ways: `fcmp ne`, `|x| > 0`, above
//! zero or below, as a flag, or as a mask of integers made of it.
//!
//! **Answer.** What is computed of one float and of constants is computed once more with that float
//! at zeros and at other numbers of both signs. If it is one thing at the zeros and another one at
//! all others, it is such a test.
//!
//! **Cost.** At most sixteen steps down for each number, where a float or its bits are masked.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, Value, types};

/// What the float is in turn: zeros first.
const ZEROS: [f64; 2] = [0.0, -0.0];
const OTHERS: [f64; 8] = [1.0, -1.0, 1e-40, -1e-40, 3e38, -3e38, f64::INFINITY, f64::NEG_INFINITY];

/// How a value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As what decides a choice: zero or anything else.
    Condition,
    /// As bits that are kept: all or none.
    Mask,
}

/// The float of which a value says whether it is zero, and whether it is set where that is.
pub(super) fn zero_test(body: &ir::Function, v: Value, reading: Reading) -> Option<(Value, bool)> {
    let ty = body.dfg.value_type(v);
    if ty.is_vector() || ty.bits() > 64 {
        return None;
    }
    let mut float = None;
    let mut set = |x: f64| {
        let mut trial = ZeroTrial { body, x, float };
        let bits = trial.bits(v, 16)?;
        float = trial.float;
        match (reading, bits) {
            (_, 0) => Some(false),
            (Reading::Condition, _) => Some(true),
            (Reading::Mask, _) => (bits == cut(u64::MAX, ty)).then_some(true),
        }
    };
    let at_zero = set(ZEROS[0])?;
    let holds = set(ZEROS[1])? == at_zero && OTHERS.into_iter().all(|x| set(x) == Some(!at_zero));
    Some((float?, at_zero)).filter(|_| holds)
}

/// The bits of a value, as far as its type has them.
fn cut(bits: u64, ty: Type) -> u64 {
    if ty.bits() >= 64 { bits } else { bits & ((1 << ty.bits()) - 1) }
}

/// One run over what is computed, with the float at one number.
struct ZeroTrial<'a> {
    body: &'a ir::Function,
    x: f64,
    /// The one float that has no value of its own.
    float: Option<Value>,
}

impl ZeroTrial<'_> {
    fn bits(&mut self, v: Value, fuel: u32) -> Option<u64> {
        let fuel = fuel.checked_sub(1)?;
        let dfg = &self.body.dfg;
        let v = dfg.resolve_aliases(v);
        let ty = dfg.value_type(v);
        let data = dfg.value_def(v).inst().map(|i| dfg.insts[i]);
        let found = match data {
            Some(data) => self.computed(&data, ty, fuel).map(|bits| cut(bits, ty)),
            None => None,
        };
        if found.is_some() || !ty.is_float() || self.float.is_some_and(|f| f != v) {
            return found;
        }
        self.float = Some(v);
        match ty {
            types::F64 => Some(self.x.to_bits()),
            types::F32 => Some(u64::from((self.x as f32).to_bits())),
            _ => None,
        }
    }

    fn computed(&mut self, data: &InstructionData, ty: Type, fuel: u32) -> Option<u64> {
        use Opcode::{Band, Bmask, Bnot, Bor, Bxor, Fabs, Iadd, Ineg, Isub, Sextend, Uextend};
        match *data {
            InstructionData::UnaryImm { imm, .. } => Some(imm.bits() as u64),
            InstructionData::UnaryIeee64 { imm, .. } => Some(imm.bits()),
            InstructionData::UnaryIeee32 { imm, .. } => Some(u64::from(imm.bits())),
            InstructionData::LoadNoOffset { opcode: Opcode::Bitcast, arg, .. } => self.bits(arg, fuel),
            InstructionData::Unary { opcode, arg } => {
                let of = self.body.dfg.value_type(arg);
                let known = matches!(opcode, Fabs | Uextend | Sextend | Ineg | Bnot | Bmask);
                let bits = known.then(|| self.bits(arg, fuel)).flatten()?;
                Some(match opcode {
                    Fabs => bits & !(1 << (of.bits() - 1)),
                    Uextend => bits,
                    Sextend => ((bits << (64 - of.bits())) as i64 >> (64 - of.bits())) as u64,
                    Ineg => bits.wrapping_neg(),
                    Bnot => !bits,
                    _ => {
                        if bits == 0 {
                            0
                        } else {
                            u64::MAX
                        }
                    }
                })
            }
            InstructionData::Binary { opcode, args: [x, y] } if matches!(opcode, Band | Bor | Bxor | Iadd | Isub) => {
                let (x, y) = (self.bits(x, fuel)?, self.bits(y, fuel)?);
                Some(match opcode {
                    Band => x & y,
                    Bor => x | y,
                    Bxor => x ^ y,
                    Iadd => x.wrapping_add(y),
                    _ => x.wrapping_sub(y),
                })
            }
            InstructionData::FloatCompare { cond, args: [x, y], .. } => {
                let of = self.body.dfg.value_type(x);
                let number = |bits: u64| match of {
                    types::F64 => Some(f64::from_bits(bits)),
                    types::F32 => Some(f64::from(f32::from_bits(bits as u32))),
                    _ => None,
                };
                let (x, y) = (number(self.bits(x, fuel)?)?, number(self.bits(y, fuel)?)?);
                Some(u64::from(compares(cond, x, y)))
            }
            InstructionData::IntCompare { cond: cond @ (IntCC::Equal | IntCC::NotEqual), args: [x, y], .. } => {
                // Bits of floats as whole numbers are another question.
                if self.body.dfg.value_type(x).is_vector() {
                    return None;
                }
                let (x, y) = (self.bits(x, fuel)?, self.bits(y, fuel)?);
                Some(u64::from((x == y) == (cond == IntCC::Equal)))
            }
            InstructionData::Ternary { opcode: Opcode::Select, args: [c, x, y] } if ty.is_int() => {
                let (c, x, y) = (self.bits(c, fuel)?, self.bits(x, fuel)?, self.bits(y, fuel)?);
                Some(if c == 0 { y } else { x })
            }
            _ => None,
        }
    }
}

fn compares(cond: FloatCC, x: f64, y: f64) -> bool {
    let unordered = x.is_nan() || y.is_nan();
    match cond {
        FloatCC::Ordered => !unordered,
        FloatCC::Unordered => unordered,
        FloatCC::Equal => x == y,
        FloatCC::NotEqual => x != y,
        FloatCC::OrderedNotEqual => !unordered && x != y,
        FloatCC::UnorderedOrEqual => unordered || x == y,
        FloatCC::LessThan => x < y,
        FloatCC::LessThanOrEqual => x <= y,
        FloatCC::GreaterThan => x > y,
        FloatCC::GreaterThanOrEqual => x >= y,
        FloatCC::UnorderedOrLessThan => unordered || x < y,
        FloatCC::UnorderedOrLessThanOrEqual => unordered || x <= y,
        FloatCC::UnorderedOrGreaterThan => unordered || x > y,
        FloatCC::UnorderedOrGreaterThanOrEqual => unordered || x >= y,
    }
}
