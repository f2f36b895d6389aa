//! What lies above a float's mantissa: its sign and its exponent, which are constant wherever the float is differentiable.
//!
//! **Question.** Code that takes floats apart shifts the mantissa out. What is left has no derivative, whatever becomes of it: the power of two that `ldexp` multiplies by, say.
//! But who shifts *up* first, and so on, a bit in each turn of a loop, gets the whole float out of the place of the sign, and what is put together again is a copy.
//!
//! **Answer.** [`leaves_exponent`]: a shift to the right by so much, or a mask of so few bits, that of the float's own bits no mantissa is left, also counting what was shifted before, as far back as
//! integers are masked, merged, chosen, or come round a loop. Nothing is asked of where they come from first: that is a float, or something of which nobody knows what it is (memory, a callee).
//!
//! **Errs** on the side of a mantissa where there are too many shifts to follow.

use cranelift_codegen::ir::{self, Opcode, Type, ValueDef, types};

use crate::cfg::Cfg;
use crate::pointers::constant_int;

/// Bits of a mantissa, of a float as wide as an integer.
pub fn mantissa_bits(ty: Type) -> Option<i64> {
    match ty.lane_type() {
        types::I64 => Some(52),
        types::I32 => Some(23),
        _ => None,
    }
}

/// The lowest place at which a value may have a bit that is set, where that is seen at once.
fn lowest(func: &ir::Function, v: ir::Value, depth: u32) -> i64 {
    if let Some(c) = constant_int(func, v) {
        return i64::from(c.trailing_zeros());
    }
    let Some(inst) = func.dfg.value_def(v).inst().filter(|_| depth > 0) else { return 0 };
    let args = func.dfg.inst_args(inst);
    let of = |x: ir::Value| lowest(func, x, depth - 1);
    match func.dfg.insts[inst].opcode() {
        Opcode::Ishl => {
            let bits = i64::from(func.dfg.value_type(v).lane_bits());
            constant_int(func, args[1]).filter(|by| (0..bits).contains(by)).map_or(0, |by| by + of(args[0]))
        }
        Opcode::Band => of(args[0]).max(of(args[1])),
        Opcode::Bor | Opcode::Bxor | Opcode::Iadd | Opcode::Isub => of(args[0]).min(of(args[1])),
        Opcode::Select => of(args[1]).min(of(args[2])),
        Opcode::Ineg => of(args[0]),
        _ => 0,
    }
}

/// Operations that are looked at to see where a value has bits.
const DEPTH: u32 = 4;

/// Whether an integer has no bits where a float as wide has its mantissa.
pub fn has_no_mantissa(func: &ir::Function, v: ir::Value) -> bool {
    let ty = func.dfg.value_type(v);
    !ty.is_vector() && mantissa_bits(ty).is_some_and(|least| lowest(func, v, DEPTH) >= least)
}

/// Whether a shift or a mask leaves nothing of a float but what is above its mantissa.
pub(crate) fn leaves_exponent(func: &ir::Function, cfg: &Cfg, inst: ir::Inst) -> bool {
    let args = func.dfg.inst_args(inst);
    match func.dfg.insts[inst].opcode() {
        Opcode::Ushr | Opcode::Sshr => {
            let least = mantissa_bits(func.dfg.value_type(args[0]));
            let by = constant_int(func, args[1]);
            by.zip(least).is_some_and(|(n, least)| n >= least && !reaches_mantissa(func, cfg, args[0], n))
        }
        Opcode::Band => [(0, 1), (1, 0)].into_iter().any(|(x, mask)| {
            has_no_mantissa(func, args[mask])
                && !reaches_mantissa(func, cfg, args[x], lowest(func, args[mask], DEPTH))
        }),
        _ => false,
    }
}

/// Places that are followed; a float that goes round a loop bit by bit shows its mantissa in the twelfth turn.
const MOST: usize = 64;

/// Whether what an integer has from a place upwards may have been in a mantissa, and was shifted there.
fn reaches_mantissa(func: &ir::Function, cfg: &Cfg, v: ir::Value, from: i64) -> bool {
    let mut seen = vec![(v, from)];
    let mut next = 0;
    while let Some(&(v, n)) = seen.get(next) {
        next += 1;
        if next > MOST || mantissa_bits(func.dfg.value_type(v)).is_some_and(|least| n < least) {
            return true;
        }
        let mut goes_to = |v, n| {
            if !seen.contains(&(v, n)) {
                seen.push((v, n));
            }
        };
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, i) => {
                cfg.incoming(b, i).for_each(|x| goes_to(x, n));
                continue;
            }
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => continue,
        };
        let args = func.dfg.inst_args(inst);
        match func.dfg.insts[inst].opcode() {
            Opcode::Ishl => match constant_int(func, args[1]) {
                Some(by) => goes_to(args[0], n - by),
                None => return true,
            },
            Opcode::Rotl | Opcode::Rotr | Opcode::Bswap | Opcode::Bitrev => return true,
            Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Bnot => args.iter().for_each(|&x| goes_to(x, n)),
            Opcode::Select => args[1..].iter().for_each(|&x| goes_to(x, n)),
            _ => {}
        }
    }
    false
}
