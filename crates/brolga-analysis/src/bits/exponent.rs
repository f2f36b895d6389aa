//! Exponent analysis: what lies above a float's mantissa, its sign and its exponent, which are
//! constant wherever the float is differentiable.
//!
//! **Question.** Code that takes floats apart shifts the mantissa out. What is left has no
//! derivative, whatever becomes of it: the power of two that `ldexp` multiplies by, say. But a loop
//! that shifts *up* first, by one bit in each iteration, gets the whole float out of the place of
//! the sign, and what it puts together is a copy.
//!
//! **Answer.** [`leaves_exponent`]: a shift to the right by so much, or a mask of so few bits, that
//! of the float's own bits no mantissa is left, also counting what was shifted before, as far back
//! as integers are masked, merged, chosen, or come round a loop. Nothing is asked of where they
//! come from first: that is a float, or something unknown (memory, a callee).
//!
//! **Errs** on the side of a mantissa where there are too many shifts to follow.
//!
//! **Cost.** A question looks at [`LOOKS`] values at most.

use cranelift_codegen::ir::{self, Opcode, Type, ValueDef, types};

use crate::cfg::Cfg;
use crate::query::constant_int;

/// Bits of a mantissa, of a float as wide as an integer.
pub fn mantissa_bits(ty: Type) -> Option<i64> {
    match ty.lane_type() {
        types::I64 => Some(52),
        types::I32 => Some(23),
        _ => None,
    }
}

/// The lowest place at which a value may have a bit that is set. What comes round a loop has none
/// that it has not come with. `incoming` gives what a parameter may be; without it, anything.
struct LowestBit<'a> {
    func: &'a ir::Function,
    incoming: Option<&'a dyn Fn(ir::Block, usize) -> Vec<ir::Value>>,
    /// Parameters whose arguments are being looked at.
    open: Vec<ir::Value>,
    /// How many values may still be looked at.
    left: u32,
}

/// Values that are looked at to see where one has bits.
const LOOKS: u32 = 24;

/// Above all bits.
const NOWHERE: i64 = 64;

impl<'a> LowestBit<'a> {
    fn new(func: &'a ir::Function, incoming: Option<&'a dyn Fn(ir::Block, usize) -> Vec<ir::Value>>) -> Self {
        Self { func, incoming, open: Vec::new(), left: LOOKS }
    }

    fn of(&mut self, v: ir::Value) -> i64 {
        let func = self.func;
        if let Some(c) = constant_int(func, v) {
            return i64::from(c.trailing_zeros());
        }
        if self.open.contains(&v) {
            return NOWHERE;
        }
        let Some(left) = self.left.checked_sub(1) else { return 0 };
        self.left = left;
        let inst = match func.dfg.value_def(v) {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(b, i) => {
                let args = self.incoming.map_or_else(Vec::new, |f| f(b, i));
                self.open.push(v);
                let least = args.into_iter().map(|a| self.of(a)).min();
                self.open.pop();
                return least.unwrap_or(0);
            }
            ValueDef::Union(..) => return 0,
        };
        let args = func.dfg.inst_args(inst);
        match func.dfg.insts[inst].opcode() {
            Opcode::Ishl => {
                let bits = i64::from(func.dfg.value_type(v).lane_bits());
                let by = constant_int(func, args[1]).filter(|by| (0..bits).contains(by));
                by.map_or(0, |by| (by + self.of(args[0])).min(NOWHERE))
            }
            Opcode::Band => self.of(args[0]).max(self.of(args[1])),
            Opcode::Bor | Opcode::Bxor | Opcode::Iadd | Opcode::Isub => self.of(args[0]).min(self.of(args[1])),
            Opcode::Select => self.of(args[1]).min(self.of(args[2])),
            Opcode::Ineg => self.of(args[0]),
            _ => 0,
        }
    }
}

/// Whether an integer has no bits where a float as wide has its mantissa, as far as that is seen
/// without control flow.
pub fn has_no_mantissa(func: &ir::Function, v: ir::Value) -> bool {
    is_bare(func, v, None)
}

/// [`has_no_mantissa`], wherever a value comes from.
pub fn is_bare(
    func: &ir::Function,
    v: ir::Value,
    incoming: Option<&dyn Fn(ir::Block, usize) -> Vec<ir::Value>>,
) -> bool {
    let ty = func.dfg.value_type(v);
    !ty.is_vector() && mantissa_bits(ty).is_some_and(|least| lowest(func, v, incoming) >= least)
}

/// The lowest place at which an integer may have a bit that is set; 64 if it has none.
pub fn lowest(func: &ir::Function, v: ir::Value, incoming: Option<&dyn Fn(ir::Block, usize) -> Vec<ir::Value>>) -> i64 {
    LowestBit::new(func, incoming).of(v)
}

/// Whether a shift or a mask leaves nothing of a float but what is above its mantissa.
pub(crate) fn leaves_exponent(func: &ir::Function, cfg: &Cfg, inst: ir::Inst) -> bool {
    leaves_exponent_beside(func, cfg, inst, &|_| false)
}

/// The same, where it is known of some parameters of the function that they are numbers, and no
/// float's bits.
pub(crate) fn leaves_exponent_beside(
    func: &ir::Function,
    cfg: &Cfg,
    inst: ir::Inst,
    number: &dyn Fn(usize) -> bool,
) -> bool {
    let args = func.dfg.inst_args(inst);
    match func.dfg.insts[inst].opcode() {
        Opcode::Ushr | Opcode::Sshr => {
            let least = least_place(func.dfg.value_type(args[0]));
            let by = constant_int(func, args[1]);
            by.zip(least).is_some_and(|(n, least)| n >= least && !reaches_mantissa(func, cfg, (args[0], n), number))
        }
        Opcode::Band => [(0, 1), (1, 0)].into_iter().any(|(x, mask)| {
            let incoming = |b: ir::Block, i: usize| cfg.incoming(b, i).collect();
            let ty = func.dfg.value_type(args[mask]);
            let least = least_place(ty).filter(|_| !ty.is_vector());
            let from = least.map(|_| lowest(func, args[mask], Some(&incoming)));
            from.zip(least).is_some_and(|(n, least)| n >= least && !reaches_mantissa(func, cfg, (args[x], n), number))
        }),
        _ => false,
    }
}

/// The place from which upwards an integer may have nothing of a mantissa: it may be the upper half
/// of a wider float.
fn least_place(ty: Type) -> Option<i64> {
    if ty == types::I32 { Some(UPPER) } else { mantissa_bits(ty) }
}

/// Bits of a mantissa in the upper half of an `f64`.
pub const UPPER: i64 = 52 - 32;

/// The 64-bit integer of which a 32-bit one is the upper half, as far as that is plain to see.
pub fn upper_half_of(func: &ir::Function, v: ir::Value) -> Option<ir::Value> {
    let shifted = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == Opcode::Ireduce)?;
    let shift = func.dfg.value_def(func.dfg.inst_args(shifted)[0]).inst()?;
    let &[x, by] = func.dfg.inst_args(shift) else { return None };
    let shifts = matches!(func.dfg.insts[shift].opcode(), Opcode::Ushr | Opcode::Sshr);
    (shifts && func.dfg.value_type(x) == types::I64 && func.dfg.value_type(v) == types::I32)
        .then(|| constant_int(func, by).filter(|by| *by == 32).map(|_| x))
        .flatten()
}

/// Places that are followed; a float that goes round a loop bit by bit shows its mantissa in the
/// twelfth iteration.
const MOST: usize = 64;

/// Whether what an integer has from a place upwards may have been in a mantissa, and was shifted
/// there.
fn reaches_mantissa(func: &ir::Function, cfg: &Cfg, place: (ir::Value, i64), number: &dyn Fn(usize) -> bool) -> bool {
    let mut seen = vec![place];
    let mut next = 0;
    while let Some(&(v, n)) = seen.get(next) {
        next += 1;
        if next > MOST {
            return true;
        }
        let mut goes_to = |v, n| {
            if !seen.contains(&(v, n)) {
                seen.push((v, n));
            }
        };
        let ty = func.dfg.value_type(v);
        let too_low = mantissa_bits(ty).is_some_and(|least| n < least);
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, i) if b == cfg.blocks[0] && number(i) => continue,
            ValueDef::Param(b, _) if b == cfg.blocks[0] && too_low => return true,
            ValueDef::Param(b, i) => {
                cfg.incoming(b, i).for_each(|x| goes_to(x, n));
                continue;
            }
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => continue,
        };
        let args = func.dfg.inst_args(inst);
        let by = || constant_int(func, args[1]);
        match func.dfg.insts[inst].opcode() {
            Opcode::Iconst => {}
            Opcode::Ishl => match by() {
                Some(by) => goes_to(args[0], n - by),
                None => return true,
            },
            Opcode::Rotl | Opcode::Rotr | Opcode::Bswap | Opcode::Bitrev => return true,
            Opcode::Band | Opcode::Bor | Opcode::Bxor | Opcode::Bnot => args.iter().for_each(|&x| goes_to(x, n)),
            Opcode::Select => args[1..].iter().for_each(|&x| goes_to(x, n)),
            // What is carried from below is a step.
            Opcode::Iadd | Opcode::Isub => args.iter().for_each(|&x| goes_to(x, n)),
            Opcode::Ushr | Opcode::Sshr => match by() {
                Some(by) if n + by < i64::from(ty.lane_bits()) => goes_to(args[0], n + by),
                Some(_) => {}
                None if too_low => return true,
                None => {}
            },
            // A half of a wider float's bits.
            Opcode::Uextend | Opcode::Sextend | Opcode::Ireduce => goes_to(args[0], n),
            // No bits, but numbers.
            Opcode::FcvtToSint
            | Opcode::FcvtToUint
            | Opcode::FcvtToSintSat
            | Opcode::FcvtToUintSat
            | Opcode::Icmp
            | Opcode::Fcmp
            | Opcode::Clz
            | Opcode::Ctz
            | Opcode::Popcnt => {}
            _ if too_low => return true,
            _ => {}
        }
    }
    false
}
