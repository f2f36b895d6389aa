//! Peephole for exponents: an exponent that replaces another becomes an addition to the float's
//! bits.
//!
//! **Problem.** `frexp`, `ldexp`, `ilogb` and the like, and `log`, `exp`, `cbrt` that have them
//! inlined, take the exponent out of a float's bits and put another in: `(x & mantissa) | e << 52`.
//! The mask leaves a pattern that is a subnormal number, whose slope is `2^-1022` times what it is
//! in the end; as two operations on floats these have slopes that no double holds.
//!
//! **Answer.** One addition, whose slope is the power of two that it should be
//! (`brolga_analysis::activity::ulp`). With `h = x & !K` for the mask `K`, what is left of `x` is
//! `x - h`, and
//!
//! ```text
//! (x & K) | q  =  x + ((q & K') - h)       K' is what the rest of x has not set: !(x & K), or everything, where q has nothing in K
//! (x & K) ^ q  =  the same, where q has nothing in K
//! (x & K) + q  =  x + (q - h)
//! ```
//!
//! `h` and `q` have no bits of a mantissa, so they are constant wherever the float is
//! differentiable (`brolga_analysis::bits::exponent`).
//!
//! C's `log` and its like, as FreeBSD wrote them, do so with the upper half of a double, a 32-bit
//! integer `h`: `w = ((h + c) & 0xfffff) + d` takes its place, say, where `c + d` has no bits of
//! the mantissa. If `w` is `h` but for what lies above the mantissa, then
//!
//! ```text
//! (x & 0xffffffff) | w << 32  =  x + (((x & 0xffffffff | w << 32) - x) & 0xfff << 52)
//! ```
//!
//! If `c + d` has bits of the mantissa, these are added first: that is a step of so many units.
//!
//! An optimiser leaves the upper half in 64 bits (`(x >> 32) << 32`), and puts the exponent beside
//! both halves at last.
//!
//! What says so is one operation after the other, between which constants are added up; ways that
//! meet have to agree. What says that `h` is the upper half of `x` is a shift; if both are
//! parameters of a block, the same of all that comes in, for which an optimiser may have put in the
//! constant that it has just been found equal to.
//!
//! **Which.** Masks that keep the whole mantissa and nothing of the exponent, with the sign or
//! without, of integers as wide as a float. Others than floats' bits are hardly ever treated so,
//! and if they are, it is three instructions more.
//!
//! **Invariant.** Every integer is the number that it was.
//!
//! **Cost.** A walk over the instructions, and no more if no integer has just the mantissa or the
//! lower half of another. Of what has become of an upper half at most 64 values are looked at.

use brolga_analysis::Cfg;
use brolga_analysis::bits::exponent::{UPPER, is_bare, lowest, mantissa_bits, upper_half_of};
use brolga_analysis::cfg::edge_args;
use brolga_analysis::query::constant_int;
use cranelift_codegen::ir::Endianness;
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Opcode, ValueDef, types};

use crate::primal::edit::before;

/// What is done to a float's bits.
struct BitEdit {
    /// The float's bits.
    x: ir::Value,
    /// What is kept of them.
    keep: i64,
    /// `x & keep`.
    masked: ir::Value,
    /// What is put beside it.
    other: ir::Value,
}

/// Make them additions.
pub(crate) fn exponent_idiom(func: &mut ir::Function) {
    let insts = || func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
    let may_be = |&v: &ir::Value| mantissa_of(func, v).is_some() || lower_half(func, v).is_some();
    if !insts().any(|i| func.dfg.inst_results(i).first().is_some_and(may_be)) {
        return;
    }
    let cfg = Cfg::compute(func);
    let found: Vec<(ir::Inst, BitEdit)> = insts().filter_map(|i| Some((i, put(func, &cfg, i)?))).collect();
    let halves: Vec<_> = insts().filter_map(|i| Some((i, joined(func, &cfg, i)?))).collect();
    for (inst, (x, added)) in halves {
        let InstructionData::Binary { opcode, args } = func.dfg.insts[inst] else { unreachable!("of two operands") };
        let mut pos = before(func, inst);
        let (old, dfg) = pos.ins().Binary(opcode, types::I64, args[0], args[1]);
        let new = dfg.first_result(old);
        let exponent = pos.ins().iconst(types::I64, 0xfff << 52);
        // What was added to the mantissa, by itself.
        let x = if added == 0 { x } else { pos.ins().iadd_imm_s(x, added << 32) };
        let by = pos.ins().isub(new, x);
        let by = pos.ins().band(by, exponent);
        pos.func.dfg.insts[inst] = InstructionData::Binary { opcode: Opcode::Iadd, args: [x, by] };
    }
    for (inst, BitEdit { x, keep, masked, other }) in found {
        let op = func.dfg.insts[inst].opcode();
        let result = func.dfg.first_result(inst);
        let ty = func.dfg.value_type(result);
        let apart = lies_outside(func, other, keep);
        let mut pos = before(func, inst);
        let dropped = pos.ins().iconst(ty, in_type(!keep, ty));
        let before = pos.ins().band(x, dropped);
        let new = if op == Opcode::Iadd || apart {
            other
        } else {
            let free = pos.ins().bnot(masked);
            pos.ins().band(other, free)
        };
        let by = pos.ins().isub(new, before);
        pos.func.dfg.insts[inst] = InstructionData::Binary { opcode: Opcode::Iadd, args: [x, by] };
    }
}

/// The double's bits of which an instruction puts the lower half beside an upper one that has
/// another sign or exponent, and what was added to what that has of the mantissa.
fn joined(func: &ir::Function, cfg: &Cfg, inst: ir::Inst) -> Option<(ir::Value, i64)> {
    let op = func.dfg.insts[inst].opcode();
    if !matches!(op, Opcode::Bor | Opcode::Bxor | Opcode::Iadd) {
        return None;
    }
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    let bare = |v| lowest(func, v, Some(&|b: ir::Block, i: usize| cfg.incoming(b, i).collect())) >= 32 + UPPER;
    [(a, b), (b, a)].into_iter().find_map(|(low, high)| {
        // An optimiser has put the exponent beside both halves.
        if let Some(halves) = func.dfg.value_def(low).inst().filter(|_| bare(high)) {
            return joined(func, cfg, halves);
        }
        let x = lower_half(func, low)?;
        let mut halves = Halves { func, cfg, open: Vec::new(), left: LOOKS };
        match shifted_up(func, high) {
            Some(w) => Some((x, halves.apart(w, x)?? & MANTISSA)),
            None => halves.above(high, x)?.then_some((x, 0)),
        }
    })
}

/// Values that are looked at to see what has become of an upper half.
const LOOKS: u32 = 64;
/// What an upper half has of a mantissa.
const MANTISSA: i64 = (1 << UPPER) - 1;

/// What has become of upper halves.
struct Halves<'a> {
    func: &'a ir::Function,
    cfg: &'a Cfg,
    /// Parameters that are being looked at, with the double's bits.
    open: Vec<(ir::Value, ir::Value)>,
    left: u32,
}

impl Halves<'_> {
    /// What was added to the upper half of a double's bits, but for what lies above the mantissa.
    /// `None` if that is not known, `Some(None)` if a loop comes round without anything.
    fn apart(&mut self, w: ir::Value, x: ir::Value) -> Option<Option<i64>> {
        let Self { func, cfg, .. } = *self;
        self.left = self.left.checked_sub(1)?;
        let wide = || with(func, Opcode::Ushr, w, |by| by == 32).map(|s| s.0);
        let upper = upper_half_of(func, w).or_else(|| wide().filter(|_| func.dfg.value_type(w) == types::I64));
        if upper.is_some_and(|y| same_bits(func, x, y, 0)) {
            return Some(Some(0));
        }
        let inst = match func.dfg.value_def(w) {
            ValueDef::Result(inst, _) => inst,
            ValueDef::Param(b, i) if b != cfg.blocks[0] => return self.comes_in(b, i, w, x),
            _ => return None,
        };
        let bare = |v| is_bare_half(func, cfg, v);
        match (func.dfg.insts[inst].opcode(), func.dfg.inst_args(inst)) {
            (Opcode::Select, &[c, a, b]) => {
                // The double may have been chosen as its half was.
                let [x, y] = chosen(func, x, c, [a, b]).unwrap_or([x, x]);
                agreed(self.apart(a, x)?, self.apart(b, y)?)
            }
            (op @ (Opcode::Iadd | Opcode::Isub), &[a, b]) => {
                let swapped = (op == Opcode::Iadd).then_some((b, a));
                let (half, by) = [(a, b)].into_iter().chain(swapped).find_map(|(half, other)| {
                    let by = if bare(other) { 0 } else { constant_int(func, other)? };
                    Some((half, if op == Opcode::Isub { -by } else { by }))
                })?;
                Some(self.apart(half, x)?.map(|so_far| so_far + by))
            }
            (op @ (Opcode::Band | Opcode::Bor | Opcode::Bxor), &[a, b]) => {
                let keeps = |m| match op {
                    Opcode::Band => constant_int(func, m).is_some_and(|m| m & MANTISSA == MANTISSA),
                    _ => bare(m),
                };
                let half = [(a, b), (b, a)].into_iter().find(|(_, m)| keeps(*m))?.0;
                self.apart(half, x)
            }
            _ => None,
        }
    }

    /// Whether 64 bits, of which the lower half is zero, have the upper half of a double's
    /// mantissa: what an optimiser makes of the two shifts.
    fn above(&mut self, v: ir::Value, x: ir::Value) -> Option<bool> {
        let Self { func, cfg, .. } = *self;
        self.left = self.left.checked_sub(1)?;
        let inst = func.dfg.value_def(v).inst()?;
        let bare = |v| lowest(func, v, Some(&|b: ir::Block, i: usize| cfg.incoming(b, i).collect())) >= 32 + UPPER;
        match (func.dfg.insts[inst].opcode(), func.dfg.inst_args(inst)) {
            (Opcode::Select, &[_, a, b]) => Some(self.above(a, x)? && self.above(b, x)?),
            (Opcode::Isub, &[a, b]) if bare(b) => self.above(a, x),
            (Opcode::Ishl, &[w, by]) if constant_int(func, by) == Some(32) => Some(self.apart(w, x)?? & MANTISSA == 0),
            (Opcode::Iadd | Opcode::Bor | Opcode::Bxor, &[a, b]) => {
                let half = [(a, b), (b, a)].into_iter().find(|(_, other)| bare(*other))?.0;
                self.above(half, x)
            }
            (Opcode::Band, &[a, b]) => {
                let (of, mask) = [(a, b), (b, a)].into_iter().find_map(|(v, m)| Some((v, constant_int(func, m)?)))?;
                let keeps = mask >> 32 & MANTISSA == MANTISSA;
                let clears = mask as u32 == 0;
                if keeps && clears && same_bits(func, x, of, 0) {
                    Some(true)
                } else if keeps {
                    self.above(of, x)
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// The same of a block's parameter: all that comes in has to agree. The double's bits may be a
    /// parameter of the same block.
    fn comes_in(&mut self, b: ir::Block, i: usize, w: ir::Value, x: ir::Value) -> Option<Option<i64>> {
        let Self { func, cfg, .. } = *self;
        if self.open.contains(&(w, x)) {
            return Some(None);
        }
        self.open.push((w, x));
        let mut found = None;
        for &p in &cfg.preds[b] {
            // Of two edges between the same blocks, each would have arguments of its own.
            if func.block_successors(p).filter(|s| *s == b).count() > 1 {
                return None;
            }
            let args = edge_args(func, p, b);
            let x = match func.dfg.value_def(double_of(func, x).unwrap_or(x)) {
                ValueDef::Param(c, k) if c == b => args[k],
                _ => x,
            };
            let equal = constant_int(func, args[i]).is_some_and(|c| found_equal(func, cfg, p, x, c));
            let one = if equal { Some(0) } else { self.apart(args[i], x)? };
            found = agreed(found, one)?;
        }
        self.open.pop();
        Some(found)
    }
}

/// Whether two integers are the same bits: one value, or those of one float, of which an optimiser
/// has loaded, or chosen, one time the float and one time its bits.
pub(crate) fn same_bits(func: &ir::Function, a: ir::Value, b: ir::Value, depth: u32) -> bool {
    if a == b {
        return true;
    }
    let parts = |v: ir::Value| {
        let inst = func.dfg.value_def(v).inst()?;
        Some((func.dfg.insts[inst].opcode(), func.dfg.inst_args(inst)))
    };
    // The float, and the same of what is chosen, of either side.
    let (a, b) = (double_of(func, a).unwrap_or(a), double_of(func, b).unwrap_or(b));
    match (parts(a), parts(b)) {
        _ if a == b => true,
        (Some((Opcode::Load, &[p])), Some((Opcode::Load, &[q]))) => p == q && loads_agree(func, a, b),
        (Some((Opcode::Select, &[c, a, b])), Some((Opcode::Select, &[d, x, y]))) if depth < 4 => {
            c == d && same_bits(func, a, x, depth + 1) && same_bits(func, b, y, depth + 1)
        }
        _ => false,
    }
}

/// Whether two loads by one pointer read the same bytes: nothing is stored between them.
fn loads_agree(func: &ir::Function, a: ir::Value, b: ir::Value) -> bool {
    let load = |v: ir::Value| {
        let inst = func.dfg.value_def(v).inst()?;
        let InstructionData::Load { flags, offset, .. } = func.dfg.insts[inst] else { return None };
        Some((inst, (offset, func.dfg.mem_flags[flags].endianness(Endianness::Little), func.dfg.value_type(v).bits())))
    };
    let (Some((a, of)), Some((b, other))) = (load(a), load(b)) else { return false };
    let stores = |i: ir::Inst| func.dfg.insts[i].opcode().can_store() || func.dfg.insts[i].opcode().is_call();
    let reaches = |a: ir::Inst, b: ir::Inst| {
        let next = |&i: &ir::Inst| func.layout.next_inst(i);
        std::iter::successors(Some(a), next).take_while(|&i| i == a || !stores(i)).any(|i| i == b)
    };
    of == other && func.layout.inst_block(a) == func.layout.inst_block(b) && (reaches(a, b) || reaches(b, a))
}

/// The two doubles, or their bits, of which one is chosen as one of two words is by a condition.
fn chosen(func: &ir::Function, x: ir::Value, by: ir::Value, words: [ir::Value; 2]) -> Option<[ir::Value; 2]> {
    let inst = func.dfg.value_def(double_of(func, x).unwrap_or(x)).inst()?;
    match *func.dfg.inst_args(inst) {
        [c, a, b] if func.dfg.insts[inst].opcode() == Opcode::Select => match () {
            () if c == by => Some([a, b]),
            () if is_opposite(func, c, by, words) => Some([b, a]),
            () => None,
        },
        _ => None,
    }
}

/// Whether of two conditions one holds where the other does not, but for two words that are equal:
/// an optimiser chooses the larger and the smaller one by two comparisons.
fn is_opposite(func: &ir::Function, a: ir::Value, b: ir::Value, [x, y]: [ir::Value; 2]) -> bool {
    let compare = |v: ir::Value| match func.dfg.insts[func.dfg.value_def(v).inst()?] {
        InstructionData::IntCompare { cond, args, .. } => Some((cond, args)),
        _ => None,
    };
    let (Some((one, args)), Some((other, same))) = (compare(a), compare(b)) else { return false };
    let of_words = args == [x, y] || args == [y, x];
    args == same && (one == other.complement() || of_words && one == other.swap_args())
}

/// The double of which a value is the bits.
fn double_of(func: &ir::Function, v: ir::Value) -> Option<ir::Value> {
    only(func, Opcode::Bitcast, v).filter(|&x| func.dfg.value_type(x) == types::F64)
}

/// What two ways say, if they do not contradict each other: of what lies above the mantissa,
/// nothing is said.
fn agreed(a: Option<i64>, b: Option<i64>) -> Option<Option<i64>> {
    match (a, b) {
        (Some(x), Some(y)) => ((x - y) & MANTISSA == 0).then_some(Some(x)),
        _ => Some(a.or(b)),
    }
}

/// Whether 32 bits have none where an upper half has its mantissa.
fn is_bare_half(func: &ir::Function, cfg: &Cfg, v: ir::Value) -> bool {
    let incoming = |b: ir::Block, i: usize| cfg.incoming(b, i).collect();
    lowest(func, v, Some(&incoming)) >= UPPER
}

/// The 32-bit integer that is made an upper half.
pub(crate) fn shifted_up(func: &ir::Function, v: ir::Value) -> Option<ir::Value> {
    let wide = with(func, Opcode::Ishl, v, |by| by == 32).filter(|w| func.dfg.value_type(w.0) == types::I64)?.0;
    only(func, Opcode::Uextend, wide).filter(|&w| func.dfg.value_type(w) == types::I32)
}

/// The 64-bit integer of which a value is the lower half.
fn lower_half(func: &ir::Function, v: ir::Value) -> Option<ir::Value> {
    if func.dfg.value_type(v) != types::I64 {
        return None;
    }
    let zero_extended = |v| only(func, Opcode::Uextend, v).and_then(|n| only(func, Opcode::Ireduce, n));
    let masked = with(func, Opcode::Band, v, |mask| mask == 0xffff_ffff).map(|m| m.0);
    masked.or_else(|| zero_extended(v).filter(|&x| func.dfg.value_type(x) == types::I64))
}

/// The operand of an instruction.
fn only(func: &ir::Function, op: Opcode, v: ir::Value) -> Option<ir::Value> {
    let inst = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == op)?;
    Some(func.dfg.inst_args(inst)[0])
}

/// The operand of an instruction beside a constant, and that.
fn with(func: &ir::Function, op: Opcode, v: ir::Value, fits: impl Fn(i64) -> bool) -> Option<(ir::Value, i64)> {
    let inst = func.dfg.value_def(v).inst().filter(|&i| func.dfg.insts[i].opcode() == op)?;
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    let swapped = (op != Opcode::Ishl).then_some((b, a));
    let beside = |(x, c)| constant_int(func, c).filter(|&c| fits(c)).map(|c| (x, c));
    [(a, b)].into_iter().chain(swapped).find_map(beside)
}

/// Whether a block runs only where the upper half of a 64-bit integer has been found equal to a
/// constant.
fn found_equal(func: &ir::Function, cfg: &Cfg, b: ir::Block, x: ir::Value, c: i64) -> bool {
    let [p] = cfg.preds[b][..] else { return false };
    let Some(last) = func.layout.last_inst(p) else { return false };
    let InstructionData::Brif { arg, blocks, .. } = &func.dfg.insts[last] else { return false };
    let [yes, no] = blocks.map(|call| call.block(&func.dfg.value_lists));
    let Some(compare) = func.dfg.value_def(*arg).inst() else { return false };
    let InstructionData::IntCompare { cond: IntCC::Equal, args, .. } = func.dfg.insts[compare] else { return false };
    let is_upper = |v: ir::Value| {
        upper_half_of(func, v) == Some(x) || with(func, Opcode::Ushr, v, |by| by == 32).is_some_and(|s| s.0 == x)
    };
    let is_constant = |v| constant_int(func, v).is_some_and(|k| k as u32 == c as u32 && k >> 32 == 0);
    let [u, v] = args;
    yes == b && no != b && (is_upper(u) && is_constant(v) || is_upper(v) && is_constant(u))
}

/// The bits of a constant as an instruction has it.
fn in_type(bits: i64, ty: ir::Type) -> i64 {
    if ty == types::I32 { i64::from(bits as u32) } else { bits }
}

/// Whether a value has no bits among these.
fn lies_outside(func: &ir::Function, v: ir::Value, keep: i64) -> bool {
    let sign_stays = keep < 0;
    constant_int(func, v).map_or(!sign_stays, |c| c & keep == 0)
}

/// What an instruction puts beside a mantissa.
fn put(func: &ir::Function, cfg: &Cfg, inst: ir::Inst) -> Option<BitEdit> {
    let op = func.dfg.insts[inst].opcode();
    if !matches!(op, Opcode::Bor | Opcode::Bxor | Opcode::Iadd) {
        return None;
    }
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(masked, other)| {
        let (x, keep) = mantissa_of(func, masked)?;
        let incoming = |b: ir::Block, i: usize| cfg.incoming(b, i).collect();
        let fits = is_bare(func, other, Some(&incoming)) && (op != Opcode::Bxor || lies_outside(func, other, keep));
        fits.then_some(BitEdit { x, keep, masked, other })
    })
}

/// The integer of which a value has the mantissa, and perhaps the sign, and the mask.
fn mantissa_of(func: &ir::Function, v: ir::Value) -> Option<(ir::Value, i64)> {
    let inst = func.dfg.value_def(v).inst()?;
    let ty = func.dfg.value_type(v);
    if func.dfg.insts[inst].opcode() != Opcode::Band || ty.is_vector() {
        return None;
    }
    let mantissa = (1_i64 << mantissa_bits(ty)?) - 1;
    let sign = if ty == types::I32 { i64::from(i32::MIN) } else { i64::MIN };
    let &[a, b] = func.dfg.inst_args(inst) else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, mask)| {
        let mask = constant_int(func, mask)?;
        let mask = if ty == types::I32 { i64::from(mask as i32) } else { mask };
        let covers_mantissa = mask == mantissa || mask == mantissa | sign;
        (covers_mantissa && constant_int(func, x).is_none()).then_some((x, mask))
    })
}
